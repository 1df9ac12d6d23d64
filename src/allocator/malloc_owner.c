/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/malloc_owner.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "allocator/loaded_symbol.h"
#include "base/file.h"

void program_path(char *path, size_t room)
{
	const ssize_t length = readlink("/proc/self/exe", path, room - 1);

	if (length >= 0) {
		path[length] = '\0';
		return;
	}
	const char *const started_as = (const char *)getauxval(AT_EXECFN);
	snprintf(path, room, "%s", started_as == NULL ? "" : started_as);
}

const void *program_base(void)
{
	Dl_info info;
	const void *const headers = (const void *)getauxval(AT_PHDR);

	return headers != NULL && dladdr(headers, &info) != 0 ? info.dli_fbase : NULL;
}

/* Which allocators bring a file or, linked into a program, a symbol of their own. */
static const struct {
	const char *name;
	const char *file;   /* part of the file's name */
	const char *symbol; /* only this allocator has it */
} allocators[] = {
	{ "asan", "libasan", "__asan_init" },
	{ "tsan", "libtsan", "__tsan_init" },
	{ "msan", "libmsan", "__msan_init" },
	{ "tcmalloc", "libtcmalloc", "MallocExtension_GetNumericProperty" },
	{ "mimalloc", "libmimalloc", "mi_malloc" },
	{ "jemalloc", "libjemalloc", NULL },
	{ "snmalloc", "libsnmalloc", NULL },
	{ "hoard", "libhoard", NULL },
	{ "scudo", "libscudo", "__scudo_print_stats" },
	{ "hardened_malloc", "libhardened_malloc", NULL },
	{ "valgrind", "vgpreload_", NULL },
	{ "heaptrack", "libheaptrack", NULL },
	{ "musl", "ld-musl", NULL },
	{ "glibc", "libc.so", "gnu_get_libc_version" },
	{ "glibc", "libc-", NULL },
};

static const char *name_by_file(const char *path)
{
	const char *const file = path_base_name(path);

	for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
		if (strstr(file, allocators[i].file) != NULL)
			return allocators[i].name;
	}
	return NULL;
}

static bool is_in_object(const void *address, const void *base)
{
	Dl_info info;

	return address != NULL && dladdr(address, &info) != 0 && info.dli_fbase == base;
}

static const char *name_by_symbol(const void *base)
{
	for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
		const char *const symbol = allocators[i].symbol;
		if (symbol != NULL && is_in_object(dlsym(RTLD_DEFAULT, symbol), base))
			return allocators[i].name;
	}
	return NULL;
}

/* Of a static program too, which has no dynamic symbols. */
static const void *address_of_malloc(void)
{
	/* malloc's address is only read here, and ISO C has no cast from a function to an object.
	 */
	void *(*const function)(size_t) = malloc;
	const void *address = loaded_symbol_find("malloc", NULL);

	if (address == NULL)
		memcpy(&address, &function, sizeof address);
	return address;
}

void malloc_owner_find(struct malloc_owner *owner)
{
	Dl_info info;
	const void *const program = program_base();
	const void *const address = address_of_malloc();
	const char *name = NULL;

	*owner = (struct malloc_owner){ .name = "unknown" };
	if (dladdr(address, &info) == 0) {
		/* A static program: the C library is inside it. */
		program_path(owner->where, sizeof owner->where);
		return;
	}
	owner->base = info.dli_fbase;
	if (info.dli_fbase == program) {
		program_path(owner->where, sizeof owner->where);
	} else {
		snprintf(owner->where, sizeof owner->where, "%s", info.dli_fname);
		name = name_by_file(info.dli_fname);
	}
	if (name == NULL)
		name = name_by_symbol(info.dli_fbase);
	if (name != NULL)
		snprintf(owner->name, sizeof owner->name, "%s", name);
}
