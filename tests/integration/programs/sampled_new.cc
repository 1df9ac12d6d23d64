// SPDX-License-Identifier: Apache-2.0
// As sampled_malloc.c, with the forms of operator new and delete.
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

namespace
{

enum { KEPT = 10, FREED = 5, SIZE = 1000 };

void *volatile kept[16][KEPT + FREED];
int groups;
const auto page = std::align_val_t(4096);

template <typename Allocate, typename Release>
__attribute__((always_inline)) inline void keep(Allocate allocate, Release release)
{
	const int group = groups++;
	for (int i = 0; i < KEPT + FREED; i++)
		kept[group][i] = allocate();
	for (int i = KEPT; i < KEPT + FREED; i++) {
		release(static_cast<void *>(kept[group][i]));
		kept[group][i] = nullptr;
	}
}

#define SITE(name, allocation, release)                                               \
	__attribute__((noinline)) void site_##name()                         \
	{                                                                             \
		keep(                                                                 \
			[]() __attribute__((always_inline)) { return allocation; },   \
			[](void *block) __attribute__((always_inline)) { release; }); \
	}

SITE(new, ::operator new(SIZE), ::operator delete(block))
SITE(new_sized, ::operator new(SIZE), ::operator delete(block, std::size_t(SIZE)))
SITE(new_array, ::operator new[](SIZE), ::operator delete[](block))
SITE(new_nothrow, ::operator new(SIZE, std::nothrow), ::operator delete(block, std::nothrow))
SITE(new_array_nothrow, ::operator new[](SIZE, std::nothrow),
	::operator delete[](block, std::nothrow))
SITE(new_aligned, ::operator new(SIZE, page), ::operator delete(block, page))
SITE(new_array_aligned, ::operator new[](SIZE, page), ::operator delete[](block, page))
SITE(new_aligned_nothrow, ::operator new(SIZE, page, std::nothrow),
	::operator delete(block, page, std::nothrow))

void wait_for_line(const char *word)
{
	char line[16];

	if (write(1, word, std::strlen(word)) < 0 || read(0, line, sizeof line) <= 0)
		std::exit(2);
}

} // namespace

int main()
{
	wait_for_line("ready\n");
	site_new();
	site_new_sized();
	site_new_array();
	site_new_nothrow();
	site_new_array_nothrow();
	site_new_aligned();
	site_new_array_aligned();
	site_new_aligned_nothrow();
	wait_for_line("kept\n");
	for (int i = 0; i < KEPT; i++) {
		for (int group = 0; group < groups; group++) {
			void *const block = kept[group][i];
			if (group >= 5)
				::operator delete(block, page);
			else
				::operator delete(block);
		}
	}
	wait_for_line("freed\n");
	return 0;
}
