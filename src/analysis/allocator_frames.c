/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/allocator_frames.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Sorted by strcmp. */
static const char *const heap_names[] = {
	"::do_malloc",
	"::do_malloc_or_cpp_alloc",
	"DoSampledAllocation",
	"__builtin_delete",
	"__builtin_new",
	"__builtin_vec_delete",
	"__builtin_vec_new",
	"__malloc_alloc_template::allocate",
	"__start_google_malloc",
	"__start_malloc_hook",
	"__stop_google_malloc",
	"__stop_malloc_hook",
	"aligned_alloc",
	"calloc",
	"cfree",
	"dallocx",
	"do_malloc",
	"do_rallocx",
	"do_realloc_nonnull",
	"do_realloc_nonnull_zero",
	"fallbackNewImpl",
	"free",
	"imalloc",
	"imalloc_body",
	"imalloc_no_sample",
	"imalloc_sample",
	"imallocx_prof",
	"irallocx_prof",
	"irallocx_prof_sample",
	"ixallocx_prof",
	"ixallocx_prof_sample",
	"malloc",
	"malloc_default",
	"malloc_zone_calloc",
	"malloc_zone_free",
	"malloc_zone_malloc",
	"malloc_zone_memalign",
	"malloc_zone_realloc",
	"malloc_zone_valloc",
	"mallocx",
	"memalign",
	"newImpl",
	"operator new",
	"operator new[]",
	"posix_memalign",
	"prof_alloc_prep",
	"prof_backtrace",
	"prof_backtrace_impl",
	"prof_tctx_create",
	"pvalloc",
	"rallocx",
	"realloc",
	"sdallocx",
	"sdallocx_noflags",
	"simple_alloc::allocate",
	"smallocx",
	"tc_calloc",
	"tc_cfree",
	"tc_delete",
	"tc_deletearray",
	"tc_free",
	"tc_malloc",
	"tc_memalign",
	"tc_new",
	"tc_new_nothrow",
	"tc_newarray",
	"tc_newarray_nothrow",
	"tc_posix_memalign",
	"tc_pvalloc",
	"tc_realloc",
	"tc_valloc",
	"valloc",
	"void* newImpl",
	"xallocx",
};

/* Sorted by strcmp. */
static const char *const contention_names[] = {
	"Mutex::ReaderUnlock",
	"Mutex::Unlock",
	"Mutex::UnlockSlow",
	"MutexLock::~MutexLock",
	"SpinLock::SlowUnlock",
	"SpinLock::Unlock",
	"SpinLockHolder::~SpinLockHolder",
	"base::RecordLockProfileData",
	"base::SubmitMutexProfileData",
	"base::SubmitSpinLockProfileData",
};

/* Sorted by strcmp. */
static const char *const cpu_names[] = {
	"CpuProfiler::prof_handler",
	"ProfileData::Add",
	"ProfileData::prof_handler",
	"ProfileHandler::SignalHandler",
	"__FRAME_END__",
	"__kernel_rt_sigreturn",
	"__kernel_sigreturn",
	"__pthread_sighandler",
	"__restore",
	"__restore_rt",
};

/* What builds of jemalloc put in front of the names above; Rust's crate uses the first two. */
static const char *const prefixes[] = { "_rjem_je_", "_rjem_", "__wrap_", "je_", "__libc_", "_" };

static const char *const modules[] = { "libjemalloc.so", "libjemalloc_pic.so", "libtcmalloc.so",
	"libtcmalloc_minimal.so", "libtcmalloc_debug.so", "libtcmalloc_and_profiler.so",
	"libtcmalloc_minimal_debug.so" };

/* Where a signal's way back is, which stripped libraries have no name for. */
static const char *const trampoline_modules[] = { "libc.so", "libpthread.so", "[vdso]" };

struct name_list {
	const char *const *names;
	size_t count;
};

#define LIST(names) ((struct name_list){ names, sizeof(names) / sizeof(names)[0] })

static int compare(const void *key, const void *item)
{
	return strcmp(key, *(const char *const *)item);
}

static bool is_listed(struct name_list list, const char *name)
{
	return bsearch(name, list.names, list.count, sizeof *list.names, compare) != NULL;
}

static bool is_heap_name(const char *name)
{
	if (is_listed(LIST(heap_names), name))
		return true;
	if (strstr(name, "TCMalloc") != NULL || strncmp(name, "tcmalloc::", 10) == 0)
		return true;
	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
		const size_t size = strlen(prefixes[i]);
		if (strncmp(name, prefixes[i], size) == 0 &&
			is_listed(LIST(heap_names), name + size))
			return true;
	}
	return false;
}

bool allocator_frame_has_name(enum profile_kind kind, const char *bare_name)
{
	switch (kind) {
	case PROFILE_HEAP:
	case PROFILE_GROWTH:
		return is_heap_name(bare_name);
	case PROFILE_CONTENTION:
		return is_listed(LIST(contention_names), bare_name);
	case PROFILE_CPU:
		break;
	}
	return is_listed(LIST(cpu_names), bare_name);
}

/* Whether the file has one of the names, with or without a version. */
static bool is_module(struct name_list list, const char *path)
{
	const char *const name = path_base_name(path);

	for (size_t i = 0; i < list.count; i++) {
		const size_t size = strlen(list.names[i]);
		if (strncmp(name, list.names[i], size) == 0 &&
			(name[size] == '\0' || name[size] == '.'))
			return true;
	}
	return false;
}

bool allocator_frame_has_module(enum profile_kind kind, const char *path)
{
	return (kind == PROFILE_HEAP || kind == PROFILE_GROWTH) && is_module(LIST(modules), path);
}

/* The location next to the leaf that all stacks of a CPU profile have; PROFILE_NONE without one. */
static uint32_t find_shared_caller(const struct profile *profile)
{
	uint32_t shared = PROFILE_NONE;

	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_stack *const stack =
			&profile->stacks[profile->samples[i].stack];
		if (stack->depth < 2)
			return PROFILE_NONE;
		const uint32_t caller = profile->stack_locations[stack->first + 1];
		if (i != 0 && caller != shared)
			return PROFILE_NONE;
		shared = caller;
	}
	return profile->sample_count < 2 ? PROFILE_NONE : shared;
}

uint32_t allocator_frame_trampoline(const struct profile *profile)
{
	const uint32_t shared =
		profile->kind == PROFILE_CPU ? find_shared_caller(profile) : PROFILE_NONE;

	if (shared == PROFILE_NONE)
		return PROFILE_NONE;
	const struct profile_location *const location = &profile->locations[shared];
	const bool is_named = location->frame_count != 0 &&
			      profile->frames[location->first_frame].function[0] != '\0';
	if (is_named || location->mapping == PROFILE_NONE ||
		!is_module(LIST(trampoline_modules), profile->mappings[location->mapping].path))
		return PROFILE_NONE;
	return shared;
}
