// SPDX-License-Identifier: Apache-2.0
// What a program with one thread does faster than one with two: prints the nanoseconds of a getc and of the copy of a shared_ptr, line
// by line, as often as it is asked to.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

static double ns_per(long count, std::chrono::steady_clock::time_point begin)
{
	return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / count;
}

int main(int argc, char **argv)
{
	// So short that some rounds are not interrupted on a busy machine, and within one buffer.
	const long count = 100000;
	std::FILE *const file = std::fopen("/dev/zero", "r");
	const auto shared = std::make_shared<int>(argc);

	std::setvbuf(file, nullptr, _IOFBF, count);
	for (int round = argc > 1 ? std::atoi(argv[1]) : 1; round > 0; round--) {
		// Fills the buffer.
		if (std::getc(file) != 0 || std::ungetc(0, file) != 0)
			return 1;
		auto begin = std::chrono::steady_clock::now();
		for (long i = 0; i < count; i++)
			if (std::getc(file) != 0)
				return 1;
		const double getc_ns = ns_per(count, begin);
		begin = std::chrono::steady_clock::now();
		for (long i = 0; i < count; i++) {
			const std::shared_ptr<int> copy = shared;
			__asm__ volatile("" ::"r"(copy.get()) : "memory");
		}
		std::printf("%.3f %.3f\n", getc_ns, ns_per(count, begin));
		std::fflush(stdout);
	}
}
