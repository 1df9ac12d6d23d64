/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/entry_area.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/loaded_module.h"
#include "base/loader_use.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static _Atomic(void *) area;

uintptr_t entry_area_address(void)
{
	return (uintptr_t)atomic_load(&area);
}

/* Kernels before 4.17 may map it elsewhere. `is_taken`: something else is there. */
static void *map_at(uint64_t address, bool *is_taken)
{
	void *const wanted = (void *)(uintptr_t)address;
	void *const got = mmap(wanted, ENTRY_AREA_BYTES, PROT_READ | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == wanted)
		return got;
	*is_taken = got != MAP_FAILED || errno == EEXIST;
	if (got != MAP_FAILED)
		munmap(got, ENTRY_AREA_BYTES);
	return NULL;
}

bool entry_area_map(uint64_t first, uint64_t limit, struct error *err)
{
	enum { TRIES = 64 };
	bool are_taken = true;

	if (limit < first || limit - first < ENTRY_AREA_BYTES)
		return error_set(err, ERROR_INPUT, "no place for the code of patched functions");
	if (entry_area_address() != 0)
		return true;
	/* Over all of it: what is in the way at its beginning may be long. */
	const uint64_t step = ((limit - first) / TRIES / ENTRY_AREA_BYTES + 1) * ENTRY_AREA_BYTES;
	for (; first < limit && limit - first >= ENTRY_AREA_BYTES; first += step) {
		bool is_taken = false;
		void *const got = map_at(first, &is_taken);
		if (got != NULL) {
			atomic_store(&area, got);
			return true;
		}
		are_taken = are_taken && is_taken;
	}
	if (are_taken) {
		error_set(err, ERROR_MEMORY,
			"the free addresses within 2 GiB of the functions have been taken "
			"meanwhile");
		return error_hint(err, "try again");
	}
	return error_set(err, ERROR_MEMORY,
		"no executable memory within 2 GiB of the functions: a limit (RLIMIT_AS) or a "
		"policy (SELinux execmem)");
}

const struct entry_area *entry_area_get(void)
{
	const struct entry_area *const at = atomic_load(&area);

	return at != NULL && at->magic == ENTRY_AREA_MAGIC && at->count <= ENTRY_PATCHES_MAX ? at
											     : NULL;
}

struct patched_count {
	const struct entry_area *area;
	size_t count;
};

/* Within the loader's lock, because the file of a patched function may be unmapped at any time. */
static int count_in_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct patched_count *const patched = context;

	(void)size;
	if (!loaded_module_is_whole(info))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
			continue;
		for (size_t k = 0; k < patched->area->count; k++) {
			const struct entry_patch *const patch = &patched->area->patches[k];
			patched->count += patch->function - begin < segment->p_memsz &&
					  memcmp((const void *)(uintptr_t)patch->function,
						  patch->after, sizeof patch->after) == 0;
		}
	}
	return 0;
}

size_t entry_area_count_patched(void)
{
	struct patched_count patched = { .area = entry_area_get() };

	if (patched.area != NULL)
		loader_iterate(count_in_module, &patched);
	return patched.count;
}

void entry_area_unmap(void)
{
	void *const now = atomic_exchange(&area, NULL);

	if (now != NULL)
		munmap(now, ENTRY_AREA_BYTES);
}
