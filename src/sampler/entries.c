/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/entries.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator/loaded_symbol.h"
#include "base/loader_use.h"
#include "sampler/entry_list.h"
#include "sampler/sampler.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/*
 * The replacements, and what each calls: original_NAME, written once, before any is reached. Of
 * those that allocate each is the function that the program has called: sampler_count() reads its
 * return address.
 */

/*
 * Where the functions themselves are patched, one may call another one: operator new calls malloc.
 * The inner one has counted the block then, and says so in `nested`, which the outer one clears
 * before its call. Nothing is to be undone where that call ends with an exception.
 */
static inline __attribute__((always_inline)) void begin(void)
{
	sampler_own_thread()->nested = NULL;
}

/*
 * The rare cases are functions of their own, which the entries end with: so the entries save no
 * register for them, and are as short as they can be.
 */
static __attribute__((noinline, cold)) void *taken(void *block, size_t size, const void *caller)
{
	sampler_take(block, size, caller);
	sampler_own_thread()->nested = block;
	return block;
}

static __attribute__((noinline, cold)) void *counted_around(
	void *block, size_t size, const void *caller)
{
	if (block == NULL || sampler_own_thread()->nested == block)
		return block;
	/* A larger block that this one was cut out of. */
	sampler_forget(sampler_own_thread()->nested);
	if (sampler_is_due(size))
		return taken(block, size, caller);
	sampler_own_thread()->nested = block;
	return block;
}

static __attribute__((noinline, cold)) void released(void *block, uintptr_t second, uintptr_t third,
	void (*original)(void *, uintptr_t, uintptr_t))
{
	sampler_forget(block);
	original(block, second, third);
}

static inline __attribute__((always_inline)) void *counted(void *block, size_t size)
{
	if (__builtin_expect(sampler_own_thread()->nested != NULL, false))
		return counted_around(block, size, __builtin_return_address(0));
	if (__builtin_expect(block == NULL, false))
		return block;
	if (sampler_is_due(size))
		return taken(block, size, __builtin_return_address(0));
	sampler_own_thread()->nested = block;
	return block;
}

/*
 * realloc: the old block is forgotten before the call, because another thread may have its address
 * before this one comes back, and is put back when the call failed. `call` is the call.
 */
#define REALLOCATE(block, size, frees_on_failure, call)                             \
	struct live_block was = { 0 };                                              \
	const bool was_sampled =                                                    \
		live_set_has(&sampler_live, block) && sampler_suspend(block, &was); \
	begin();                                                                    \
	void *const moved = (call);                                                 \
	if (__builtin_expect(was_sampled, false)) {                                 \
		if (moved != NULL || (frees_on_failure))                            \
			sampler_finish(block, &was);                                \
		else                                                                \
			sampler_resume(block, &was);                                \
	}                                                                           \
	return counted(moved, size)

#define SIZES(name)                                          \
	static void *(*original_##name)(size_t);             \
	static void *replace_##name(size_t size)             \
	{                                                    \
		begin();                                     \
		return counted(original_##name(size), size); \
	}
#define SIZES_AND(name, type)                                      \
	static void *(*original_##name)(size_t, type);             \
	static void *replace_##name(size_t size, type more)        \
	{                                                          \
		begin();                                           \
		return counted(original_##name(size, more), size); \
	}
#define SIZES_AND_TWO(name, type, other)                                 \
	static void *(*original_##name)(size_t, type, other);            \
	static void *replace_##name(size_t size, type more, other last)  \
	{                                                                \
		begin();                                                 \
		return counted(original_##name(size, more, last), size); \
	}
/* It did not overflow if there is a block. */
#define COUNTS_AND(name, type)                                                    \
	static void *(*original_##name)(size_t, size_t, type);                    \
	static void *replace_##name(size_t count, size_t size, type more)         \
	{                                                                         \
		begin();                                                          \
		return counted(original_##name(count, size, more), count * size); \
	}
#define COUNTS(name)                                                        \
	static void *(*original_##name)(size_t, size_t);                    \
	static void *replace_##name(size_t count, size_t size)              \
	{                                                                   \
		begin();                                                    \
		return counted(original_##name(count, size), count * size); \
	}
#define ALIGNS(name)                                                    \
	static void *(*original_##name)(size_t, size_t);                \
	static void *replace_##name(size_t alignment, size_t size)      \
	{                                                               \
		begin();                                                \
		return counted(original_##name(alignment, size), size); \
	}
#define ALIGNS_INTO(name)                                                      \
	static int (*original_##name)(void **, size_t, size_t);                \
	static int replace_##name(void **block, size_t alignment, size_t size) \
	{                                                                      \
		begin();                                                       \
		const int problem = original_##name(block, alignment, size);   \
		if (problem == 0)                                              \
			(void)counted(*block, size);                           \
		return problem;                                                \
	}
#define RESIZES(name)                                                             \
	static void *(*original_##name)(void *, size_t);                          \
	static void *replace_##name(void *block, size_t size)                     \
	{                                                                         \
		REALLOCATE(block, size, size == 0, original_##name(block, size)); \
	}
#define RESIZES_OR_FREES(name)                                               \
	static void *(*original_##name)(void *, size_t);                     \
	static void *replace_##name(void *block, size_t size)                \
	{                                                                    \
		REALLOCATE(block, size, true, original_##name(block, size)); \
	}
#define RESIZES_COUNT(name)                                                                \
	static void *(*original_##name)(void *, size_t, size_t);                           \
	static void *replace_##name(void *block, size_t count, size_t size)                \
	{                                                                                  \
		size_t bytes = 0;                                                          \
		if (__builtin_mul_overflow(count, size, &bytes))                           \
			return original_##name(block, count, size);                        \
		REALLOCATE(block, bytes, bytes == 0, original_##name(block, count, size)); \
	}
#define RESIZES_AND(name, type)                                                     \
	static void *(*original_##name)(void *, size_t, type);                      \
	static void *replace_##name(void *block, size_t size, type more)            \
	{                                                                           \
		REALLOCATE(block, size, false, original_##name(block, size, more)); \
	}
#define RESIZES_COUNT_AND(name, type)                                                       \
	static void *(*original_##name)(void *, size_t, size_t, type);                      \
	static void *replace_##name(void *block, size_t count, size_t size, type more)      \
	{                                                                                   \
		size_t bytes = 0;                                                           \
		if (__builtin_mul_overflow(count, size, &bytes))                            \
			return original_##name(block, count, size, more);                   \
		REALLOCATE(block, bytes, false, original_##name(block, count, size, more)); \
	}
/* All that release have the block first; the registers that follow are passed on. */
#define RELEASES(name)                                                             \
	static void (*original_##name)(void *, uintptr_t, uintptr_t);              \
	static void replace_##name(void *block, uintptr_t second, uintptr_t third) \
	{                                                                          \
		if (live_set_may_have(&sampler_live, block))                       \
			released(block, second, third, original_##name);           \
		else                                                               \
			original_##name(block, second, third);                     \
	}

SIZES(malloc)
COUNTS(calloc)
RESIZES(realloc)

/* Not by the original, which calls realloc through a slot of the C library: it would count twice.
 */
static void *(*original_reallocarray)(void *, size_t, size_t);
static void *replace_reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes = 0;

	if (__builtin_mul_overflow(count, size, &bytes))
		return original_reallocarray(block, count, size);
	REALLOCATE(block, bytes, bytes == 0, original_realloc(block, bytes));
}

RESIZES_OR_FREES(reallocf)
ALIGNS(aligned_alloc)
ALIGNS(memalign)
ALIGNS_INTO(posix_memalign)
SIZES(valloc)
SIZES(pvalloc)
RELEASES(free)
RELEASES(cfree)
RELEASES(vfree)
RELEASES(free_sized)
RELEASES(free_aligned_sized)
/* C++: new and delete, their forms for arrays, alignment, nothrow and sizes. */
SIZES(new)
SIZES(new_array)
SIZES_AND(new_nothrow, const void *)
SIZES_AND(new_array_nothrow, const void *)
SIZES_AND(new_aligned, size_t)
SIZES_AND(new_array_aligned, size_t)
SIZES_AND_TWO(new_aligned_nothrow, size_t, const void *)
SIZES_AND_TWO(new_array_aligned_nothrow, size_t, const void *)
RELEASES(delete)
RELEASES(delete_array)
RELEASES(delete_sized)
RELEASES(delete_array_sized)
RELEASES(delete_nothrow)
RELEASES(delete_array_nothrow)
RELEASES(delete_aligned)
RELEASES(delete_array_aligned)
RELEASES(delete_sized_aligned)
RELEASES(delete_array_sized_aligned)
RELEASES(delete_aligned_nothrow)
RELEASES(delete_array_aligned_nothrow)
/* jemalloc's own. */
SIZES_AND(mallocx, int)
RESIZES_AND(rallocx, int)

/* In place: what the block has afterwards counts as allocated now, as by realloc. */
static size_t (*original_xallocx)(void *, size_t, size_t, int);
static size_t replace_xallocx(void *block, size_t size, size_t extra, int flags)
{
	struct live_block was = { 0 };
	const bool was_sampled = live_set_has(&sampler_live, block) && sampler_suspend(block, &was);

	begin();
	const size_t usable = original_xallocx(block, size, extra, flags);
	if (__builtin_expect(was_sampled, false))
		sampler_finish(block, &was);
	(void)counted(block, usable < size ? usable : size);
	return usable;
}

RELEASES(dallocx)
RELEASES(sdallocx)
/* mimalloc's own. */
SIZES(mi_malloc)
SIZES(mi_zalloc)
SIZES(mi_malloc_small)
SIZES(mi_zalloc_small)
SIZES(mi_new)
SIZES(mi_new_nothrow)
COUNTS(mi_calloc)
COUNTS(mi_mallocn)
COUNTS(mi_new_n)
SIZES(mi_valloc)
SIZES(mi_pvalloc)
RESIZES(mi_realloc)
RESIZES_OR_FREES(mi_reallocf)
RESIZES(mi_rezalloc)
RESIZES_COUNT(mi_recalloc)
RESIZES(mi_new_realloc)
RESIZES_COUNT(mi_new_reallocn)
RESIZES_COUNT(mi_reallocarray)
RESIZES_COUNT(mi_reallocn)
RESIZES_AND(mi_realloc_aligned, size_t)
RESIZES_AND(mi_rezalloc_aligned, size_t)
RESIZES_COUNT_AND(mi_recalloc_aligned, size_t)
COUNTS_AND(mi_calloc_aligned, size_t)
SIZES_AND(mi_new_aligned_nothrow, size_t)
SIZES_AND(mi_malloc_aligned, size_t)
SIZES_AND(mi_zalloc_aligned, size_t)
SIZES_AND(mi_new_aligned, size_t)
ALIGNS_INTO(mi_posix_memalign)
ALIGNS(mi_aligned_alloc)
ALIGNS(mi_memalign)
RELEASES(mi_free)
RELEASES(mi_free_size)
RELEASES(mi_free_size_aligned)
RELEASES(mi_free_aligned)
RELEASES(mi_cfree)
/* tcmalloc's own. */
SIZES(tc_malloc)
SIZES(tc_malloc_skip_new_handler)
COUNTS(tc_calloc)
RESIZES(tc_realloc)
ALIGNS(tc_memalign)
ALIGNS_INTO(tc_posix_memalign)
SIZES(tc_valloc)
SIZES(tc_pvalloc)
RELEASES(tc_free)
RELEASES(tc_free_sized)
RELEASES(tc_cfree)
SIZES(tc_new)
SIZES(tc_newarray)
SIZES_AND(tc_new_nothrow, const void *)
SIZES_AND(tc_newarray_nothrow, const void *)
SIZES_AND(tc_new_aligned, size_t)
SIZES_AND(tc_newarray_aligned, size_t)
SIZES_AND_TWO(tc_new_aligned_nothrow, size_t, const void *)
SIZES_AND_TWO(tc_newarray_aligned_nothrow, size_t, const void *)
RELEASES(tc_delete)
RELEASES(tc_deletearray)
RELEASES(tc_delete_sized)
RELEASES(tc_deletearray_sized)
RELEASES(tc_delete_nothrow)
RELEASES(tc_deletearray_nothrow)
RELEASES(tc_delete_aligned)
RELEASES(tc_deletearray_aligned)
RELEASES(tc_delete_sized_aligned)
RELEASES(tc_deletearray_sized_aligned)
RELEASES(tc_delete_aligned_nothrow)
RELEASES(tc_deletearray_aligned_nothrow)

static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)getpagesize();

	return (size + page - 1) & ~(page - 1);
}

/* The C library's: a library that replaces them may be an allocator, whose frames reports omit. */
static const void *mmap_frame, *mremap_frame;

/*
 * Memory that cannot be written is no memory of the program's own: reserved addresses, and files
 * that are read. A fixed address ends what was mapped there.
 */
static inline __attribute__((always_inline)) void note_mapped(
	void *begin, size_t size, int protection, bool is_fixed, uint64_t serial)
{
	if (begin == MAP_FAILED)
		return;
	if (is_fixed)
		sampler_forget_mapped(begin, whole_pages(size), serial);
	if ((protection & PROT_WRITE) != 0)
		sampler_count_mapped(
			begin, whole_pages(size), __builtin_return_address(0), mmap_frame);
}

#define MAPS(name)                                                                                 \
	static void *(*original_##name)(void *, size_t, int, int, int, off_t);                     \
	static void *replace_##name(                                                               \
		void *address, size_t size, int protection, int flags, int fd, off_t offset)       \
	{                                                                                          \
		const uint64_t serial = sampler_mapped_serial();                                   \
		void *const begin = original_##name(address, size, protection, flags, fd, offset); \
		note_mapped(begin, size, protection, (flags & MAP_FIXED) != 0, serial);            \
		return begin;                                                                      \
	}
MAPS(mmap)
/* A macro of musl's, whose library has the symbol as well. */
#undef mmap64
MAPS(mmap64)

static int (*original_munmap)(void *, size_t);
static int replace_munmap(void *begin, size_t size)
{
	const uint64_t serial = sampler_mapped_serial();
	const int problem = original_munmap(begin, size);

	if (problem == 0)
		sampler_forget_mapped(begin, whole_pages(size), serial);
	return problem;
}

/* As realloc. The register of its optional last argument is passed on. */
static void *(*original_mremap)(void *, size_t, size_t, int, void *);
static void *replace_mremap(void *begin, size_t size, size_t new_size, int flags, void *target)
{
	const uint64_t serial = sampler_mapped_serial();
	void *const moved = original_mremap(begin, size, new_size, flags, target);

	if (moved == MAP_FAILED)
		return moved;
	if ((flags & MREMAP_DONTUNMAP) == 0)
		sampler_forget_mapped(begin, whole_pages(size), serial);
	if ((flags & MREMAP_FIXED) != 0)
		sampler_forget_mapped(moved, whole_pages(new_size), serial);
	if (got_is_writable(moved))
		sampler_count_mapped(
			moved, whole_pages(new_size), __builtin_return_address(0), mremap_frame);
	return moved;
}

#define ENTRY(symbol, field, releases, is_called_here)   \
	{ symbol, __extension__(void *) replace_##field, \
		__extension__(void **) & original_##field, releases, is_called_here },
#define ROW(symbol, field, releases) ENTRY(symbol, field, releases, false)
#define MAPPED_ROW(symbol, field, releases) ENTRY(symbol, field, releases, true)

static const struct entry entries[] = { ENTRY_LIST(ROW) MAPPED_ENTRY_LIST(MAPPED_ROW) };
static const size_t entry_count = sizeof entries / sizeof *entries;

#define ONE_BYTE(...) 0,
static const size_t mapped_count = sizeof((const char[]){ MAPPED_ENTRY_LIST(ONE_BYTE) });

static bool has_mapped;

static void find_mapped_frames(void)
{
	void *library = NULL;

	loader_use_begin();
#if defined(__GLIBC__)
	/* Found by its name, because the linker warns of its use in a static program. */
	void *(*const open)(const char *, int) =
		__extension__(void *(*)(const char *, int)) dlsym(RTLD_DEFAULT, "dlopen");
	if (open != NULL)
		library = open("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
#endif
	mmap_frame = dlsym(library == NULL ? RTLD_DEFAULT : library, "mmap");
	mremap_frame = dlsym(library == NULL ? RTLD_DEFAULT : library, "mremap");
	loader_use_end();
}

void entries_request_mapped(bool is_requested)
{
	if (is_requested && mmap_frame == NULL)
		find_mapped_frames();
	has_mapped = is_requested;
}

bool entries_has_mapped(void)
{
	return has_mapped;
}

const struct entry *entries_list(size_t *count)
{
	*count = has_mapped ? entry_count : entry_count - mapped_count;
	return entries;
}

void entries_note_code(void)
{
	enum { FUNCTION_BYTES_MAX = 1024 };
	uintptr_t begin = UINTPTR_MAX, end = 0;

	for (size_t i = 0; i < entry_count; i++) {
		const uintptr_t at = (uintptr_t)entries[i].replacement;
		begin = at < begin ? at : begin;
		end = at > end ? at : end;
	}
	sampler_set_entry_code(begin, end + FUNCTION_BYTES_MAX);
}

/* dlsym takes memory when it finds nothing, and most names are those of other allocators. */
static void *definition(const struct loaded_lookup *lookup, bool is_complete)
{
	if (lookup->found == NULL && is_complete)
		return NULL;
	loader_use_begin();
	void *const found = dlsym(RTLD_DEFAULT, lookup->name);
	loader_use_end();
	return found == NULL || lookup->found == NULL || lookup->is_indirect ? found
									     : lookup->found;
}

void *entries_definition(const char *name)
{
	struct loaded_lookup lookup = { .name = name };
	const bool is_complete = loaded_symbols_find(&lookup, 1);

	return definition(&lookup, is_complete);
}

/* Names that other libraries define, too: C++'s, over malloc, and what a libbsd has. */
static bool is_of_owner_alone(const struct entry *entry)
{
	return strncmp(entry->name, "_Z", 2) == 0 || strcmp(entry->name, "reallocf") == 0 ||
	       strcmp(entry->name, "vfree") == 0;
}

bool entries_find(struct error *err)
{
	const void *const owner = loaded_module_base(entries_definition("malloc"));
	const void *const program = loaded_module_base((void *)getauxval(AT_PHDR));
	struct loaded_lookup lookups[sizeof entries / sizeof *entries] = { 0 };

	if (owner == NULL || owner == program)
		return error_set(err, ERROR_UNSUPPORTED,
			"malloc is linked into the program: heapctl cannot see the calls of it");
	for (size_t i = 0; i < entry_count; i++)
		lookups[i].name = entries[i].name;
	const bool is_complete = loaded_symbols_find(lookups, entry_count);
	for (size_t i = 0; i < entry_count; i++) {
		void *const found = definition(&lookups[i], is_complete);
		const void *const base = loaded_module_base(found);
		if (base != NULL && (!is_of_owner_alone(&entries[i]) || base == owner))
			*entries[i].original = found;
	}
	return true;
}
