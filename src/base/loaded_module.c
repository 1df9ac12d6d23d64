/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loaded_module.h"

#include <dlfcn.h>
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

#if defined(__GLIBC__)
/* This module's own; none in a static program. */
extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC")
	__attribute__((weak, visibility("hidden")));

/* A program, and libheapctl.so, are never unloaded. */
static bool may_be_unloaded(void)
{
	for (const ElfW(Dyn) *entry = own_dynamic; entry != NULL && entry->d_tag != DT_NULL;
		entry++) {
		if (entry->d_tag == DT_FLAGS_1)
			return (entry->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)) == 0;
	}
	return own_dynamic != NULL;
}

/*
 * musl unloads nothing. Each call of its loader that fails leaves a text with the thread. A thread
 * that ends with one takes two locks in the order opposite to fork() (musl 1.2.3), so the process
 * may stand still for ever: in programs with musl no thread of ours may make such a call.
 */
void loaded_module_keep_own(void)
{
	Dl_info info;

	if (!may_be_unloaded())
		return;
	loader_use_begin();
	/* Found by its name, because the linker warns of its use in a static program. */
	void *(*const open)(const char *, int) =
		__extension__(void *(*)(const char *, int)) dlsym(RTLD_DEFAULT, "dlopen");
	if (open != NULL && dladdr(__extension__(void *) loaded_module_keep_own, &info) != 0 &&
		info.dli_fname != NULL)
		(void)open(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	loader_use_end();
}
#else
void loaded_module_keep_own(void)
{
}
#endif

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
