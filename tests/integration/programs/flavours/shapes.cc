// SPDX-License-Identifier: Apache-2.0
// Known answers for the symbolizer's tests: calls inlined into each other, templates, namespaces, lambdas, local
// classes and a cold part. Marks in comments tell the tests which line is which.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int plain_c(int);

namespace shapes {

volatile int sink;

template <typename T> struct Box {
	T value;
	__attribute__((always_inline)) inline T innermost(T more) const
	{
		sink = sink + 1; // MARK innermost
		return value + more;
	}
};

template <typename T> __attribute__((always_inline)) static inline T middle(const Box<T> &box, T more)
{
	sink = sink + 2;
	return box.innermost(more) * 3; // MARK middle
}

template <typename T> __attribute__((noinline)) T outer(T seed)
{
	const Box<T> box{ seed };
	T sum = middle(box, static_cast<T>(7)); // MARK outer
	for (int i = 0; i < sink % 3; i++)
		sum += middle(box, static_cast<T>(i));
	return sum;
}

namespace {
struct Hidden {
	int state;
	explicit Hidden(int s);
	~Hidden();
	int run(int n);
};

__attribute__((noinline)) Hidden::Hidden(int s) : state(s + sink) {}
__attribute__((noinline)) Hidden::~Hidden() { sink = state; }

__attribute__((noinline)) int Hidden::run(int n)
{
	auto twice = [&](int k) __attribute__((noinline)) {
		sink = sink + k;
		return k * 2 + state;
	};
	struct Local {
		__attribute__((noinline)) static int deep(int k)
		{
			sink = sink - k;
			return k ^ 5;
		}
	};
	if (__builtin_expect(n < 0, 0)) {
		std::fprintf(stderr, "cold %d\n", n);
		std::abort();
	}
	return twice(n) + Local::deep(n);
}
} // namespace

__attribute__((noinline)) std::string join(const std::vector<std::string> &parts)
{
	std::string all;
	for (const auto &part : parts)
		all += part + ",";
	return all;
}

} // namespace shapes

int main(int argc, char **)
{
	shapes::Hidden hidden(argc);
	std::vector<std::string> parts{ "a", "b", std::to_string(shapes::outer(argc)) };
	std::puts(shapes::join(parts).c_str());
	return static_cast<int>(shapes::outer(2.5)) + hidden.run(argc) + plain_c(argc) > 1000000;
}
