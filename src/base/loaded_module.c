/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loaded_module.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/loader_use.h"

/*
 * By the kernel, which fails where this code would fault. It compares a word with a number; if they
 * are equal it waits, for no time. Sandboxes permit the call, because every lock needs it.
 */
static bool is_readable(uintptr_t address)
{
	static const struct timespec no_time;
	const int error_number = errno;
	const bool is_missing = syscall(SYS_futex, address & ~(uintptr_t)3, FUTEX_WAIT_PRIVATE,
					0x5eed5eed, &no_time, NULL, 0) != 0 &&
				errno == EFAULT;

	errno = error_number;
	return !is_missing;
}

/* glibc's loader has it for debuggers. */
extern struct r_debug _r_debug __attribute__((weak));

uintptr_t loaded_module_loader(void)
{
	const uintptr_t base = getauxval(AT_BASE);

	/* The kernel gives none where the loader was started itself: ld.so PROGRAM. */
	return base != 0 || &_r_debug == NULL ? base : _r_debug.r_ldbase;
}

bool loaded_module_has_headers(const struct dl_phdr_info *info)
{
	const uintptr_t begin = (uintptr_t)info->dlpi_phdr;

	return info->dlpi_phnum == 0 ||
	       (is_readable(begin) &&
		       is_readable(begin + info->dlpi_phnum * sizeof *info->dlpi_phdr - 1));
}

/* The last byte that comes from the file is the first to go. */
bool loaded_module_is_whole(const struct dl_phdr_info *info)
{
	const ElfW(Phdr) *last = NULL;

	if (!loaded_module_has_headers(info))
		return false;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_LOAD && segment->p_filesz > 0 &&
			(last == NULL || segment->p_offset > last->p_offset))
			last = segment;
	}
	return last == NULL || is_readable(info->dlpi_addr + last->p_vaddr + last->p_filesz - 1);
}

struct cut_search {
	char *path;
	size_t size;
};

static int look_for_cut(struct dl_phdr_info *info, size_t size, void *context)
{
	const struct cut_search *const search = context;

	(void)size;
	if (loaded_module_is_whole(info))
		return 0;
	snprintf(search->path, search->size, "%s", info->dlpi_name == NULL ? "" : info->dlpi_name);
	return 1;
}

bool loaded_modules_are_whole(char *path, size_t size)
{
	struct cut_search search = { path, size };

	return loader_iterate(look_for_cut, &search) == 0;
}
