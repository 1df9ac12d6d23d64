/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/allocator_frames.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
	"fallbackNewImpl",
	"free",
	"imalloc",
	"imalloc_body",
	"imalloc_no_sample",
	"imalloc_sample",
	"imallocx_prof",
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
	"__FRAME_END__",
	"__pthread_sighandler",
	"__restore",
};

/* What builds of jemalloc put in front of the names above; Rust's crate uses the first two. */
static const char *const prefixes[] = { "_rjem_je_", "_rjem_", "__wrap_", "je_", "__libc_", "_" };

static const char *const modules[] = { "libjemalloc.so", "libjemalloc_pic.so", "libtcmalloc.so",
	"libtcmalloc_minimal.so", "libtcmalloc_debug.so", "libtcmalloc_and_profiler.so",
	"libtcmalloc_minimal_debug.so" };

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

bool allocator_frame_has_module(enum profile_kind kind, const char *path)
{
	const char *const slash = strrchr(path, '/');
	const char *const name = slash == NULL ? path : slash + 1;

	if (kind != PROFILE_HEAP && kind != PROFILE_GROWTH)
		return false;
	for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
		const size_t size = strlen(modules[i]);
		if (strncmp(name, modules[i], size) == 0 &&
			(name[size] == '\0' || name[size] == '.'))
			return true;
	}
	return false;
}
