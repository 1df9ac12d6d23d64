/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wiped_memory.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* A piece each, so that one user's writes do not slow another's. */
enum { CACHE_LINE = 64 };

static struct {
	_Atomic(char *) page;
	_Atomic size_t used;
} wiped;

static char *map_page(size_t size)
{
	char *expected = NULL;
	void *const page =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, size, MADV_WIPEONFORK) == 0 &&
		atomic_compare_exchange_strong(&wiped.page, &expected, page))
		return page;
	munmap(page, size);
	return expected;
}

void *wiped_memory_take(size_t bytes)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	const size_t piece = (bytes + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
	char *page = atomic_load(&wiped.page);

	if (page == NULL)
		page = map_page(size);
	if (page == NULL || piece > size)
		return NULL;
	const size_t at = atomic_fetch_add(&wiped.used, piece);
	return at <= size - piece ? page + at : NULL;
}
