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
#include "base/clock.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/memory.h"
#include "base/proc_maps.h"

void malloc_owner_program_path(char *path, size_t room)
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
	return address != NULL && loaded_module_base(address) == base;
}

static const char *name_by_symbol(const void *base)
{
	for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
		const char *const symbol = allocators[i].symbol;
		if (symbol != NULL && is_in_object(loaded_symbol_of_program(symbol), base))
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
	const void *address = loaded_symbol_find("malloc");

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
		malloc_owner_program_path(owner->where, sizeof owner->where);
		return;
	}
	owner->base = info.dli_fbase;
	if (info.dli_fbase == program) {
		malloc_owner_program_path(owner->where, sizeof owner->where);
	} else {
		snprintf(owner->where, sizeof owner->where, "%s", info.dli_fname);
		name = name_by_file(info.dli_fname);
	}
	if (name == NULL)
		name = name_by_symbol(info.dli_fbase);
	if (name != NULL)
		snprintf(owner->name, sizeof owner->name, "%s", name);
}

enum { FIGURES_MAX = 12 };

struct malloc_figure {
	const char *key;
	const char *text; /* for people */
	uint64_t value;
};

/* What is written. */
struct malloc_report {
	const char *name, *where;
	struct malloc_figure figures[FIGURES_MAX];
	size_t count;
	int64_t read_us;    /* that it took to read them */
	uint64_t heap_size; /* address space of glibc's heaps; 0: not known, or another malloc */
	char reason[200];   /* why there are no figures; "" */
};

static const char *const glibc_options[] = { "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_",
	"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", NULL };
static const char *const tcmalloc_options[] = { "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
	"TCMALLOC_RELEASE_RATE", "TCMALLOC_AGGRESSIVE_DECOMMIT", "TCMALLOC_HEAP_LIMIT_MB", NULL };
static const char *const mimalloc_options[] = { "MIMALLOC_DECOMMIT_DELAY", "MIMALLOC_PURGE_DELAY",
	"MIMALLOC_ALLOW_DECOMMIT", "MIMALLOC_RESERVE_HUGE_OS_PAGES", NULL };

static void read_options(struct malloc_stats *stats, const char *const *names)
{
	size_t count = 0;

	for (; *names != NULL && count < MALLOC_OPTIONS_MAX; names++) {
		const char *const value = secure_getenv(*names);
		if (value == NULL)
			continue;
		struct malloc_option *const option = &stats->options[count++];
		option->name = *names;
		snprintf(option->value, sizeof option->value, "%s", value);
	}
}

/* The function of that name in the file that malloc is in; ISO C has no cast to it. */
static void find_function(
	const struct malloc_owner *owner, const char *name, void *function, size_t size)
{
	void *const address = loaded_symbol_of_program(name);

	if (is_in_object(address, owner->base))
		memcpy(function, &address, size);
}

void malloc_stats_find(struct malloc_stats *stats, const struct malloc_owner *owner)
{
	const char *(*version)(void) = NULL;

	*stats = (struct malloc_stats){ 0 };
	if (owner->base == NULL)
		return;
	if (strcmp(owner->name, "glibc") == 0) {
		find_function(owner, "mallinfo2", &stats->glibc, sizeof stats->glibc);
		find_function(owner, "gnu_get_libc_version", &version, sizeof version);
		if (version != NULL)
			snprintf(stats->version, sizeof stats->version, "%s", version());
		stats->is_known = true;
		read_options(stats, glibc_options);
	} else if (strcmp(owner->name, "tcmalloc") == 0) {
		find_function(owner, "MallocExtension_GetNumericProperty", &stats->tcmalloc,
			sizeof stats->tcmalloc);
		stats->is_known = stats->tcmalloc != NULL;
		read_options(stats, tcmalloc_options);
	} else if (strcmp(owner->name, "mimalloc") == 0) {
		find_function(owner, "mi_process_info", &stats->mimalloc, sizeof stats->mimalloc);
		stats->is_known = stats->mimalloc != NULL;
		read_options(stats, mimalloc_options);
	}
}

static void add(struct malloc_report *report, const char *key, const char *text, uint64_t value)
{
	report->figures[report->count++] =
		(struct malloc_figure){ .key = key, .text = text, .value = value };
}

/* That of a heap which glibc's malloc makes for an arena: glibc aligns it to its largest size. */
static bool is_heap(const struct proc_map *map)
{
	enum { HEAP_BYTES_MAX = 64 * 1024 * 1024 };
	static const char name[] = "[heap]";

	if (map->path_size == sizeof name - 1 && memcmp(map->path, name, sizeof name - 1) == 0)
		return true;
	return map->path_size == 0 && map->readable && map->writable &&
	       map->start % HEAP_BYTES_MAX == 0 && map->limit - map->start <= HEAP_BYTES_MAX;
}

/* Of the main arena and of the others; 0 when it is not known. */
static uint64_t read_heap_size(void)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	struct error ignored;
	uint64_t size = 0;

	buffer_init(&text, &memory_pages);
	if (!file_read_own_maps(&text, &ignored))
		return 0;
	const char *at = text.data;
	struct proc_map map;
	while (proc_map_next(&at, text.data + text.size, &map)) {
		if (is_heap(&map))
			size += map.limit - map.start;
	}
	return size;
}

static void read_glibc(
	const struct malloc_stats *stats, bool may_walk, struct malloc_report *report)
{
	if (stats->glibc == NULL) {
		snprintf(report->reason, sizeof report->reason,
			"glibc %s has no mallinfo2: it began with 2.33", stats->version);
		return;
	}
	report->heap_size = read_heap_size();
	if (!may_walk && (report->heap_size == 0 || report->heap_size > MALLOC_WALK_BYTES_MAX)) {
		/* Huge pages put heaps elsewhere, and /proc may be missing. */
		char size[40] = "heaps of unknown size";
		if (report->heap_size > 0)
			snprintf(size, sizeof size, "%llu MiB",
				(unsigned long long)(report->heap_size >> 20));
		snprintf(report->reason, sizeof report->reason,
			"glibc would walk all free chunks of %s while malloc waits", size);
		return;
	}
	const struct glibc_mallinfo info = stats->glibc();
	add(report, "arena_bytes", "in heaps of arenas", info.arena);
	add(report, "in_use_bytes", "of these in use, with thread caches", info.uordblks);
	add(report, "free_bytes", "of these free", info.fordblks);
	add(report, "fast_bin_bytes", "of the free ones in fast bins", info.fsmblks);
	add(report, "top_bytes", "of the free ones at the top of the main arena", info.keepcost);
	add(report, "mapped_bytes", "in use, with mappings of their own", info.hblkhd);
	add(report, "mapped_blocks", "blocks with mappings of their own", info.hblks);
	add(report, "free_chunks", "free chunks", info.ordblks);
	add(report, "fast_bin_chunks", "chunks in fast bins", info.smblks);
}

static void read_tcmalloc(const struct malloc_stats *stats, struct malloc_report *report)
{
	static const struct {
		const char *property, *key, *text;
	} properties[] = {
		{ "generic.current_allocated_bytes", "allocated_bytes", "in use" },
		{ "tcmalloc.current_total_thread_cache_bytes", "thread_cache_bytes",
			"freed, in thread caches" },
		{ "tcmalloc.central_cache_free_bytes", "central_cache_bytes",
			"freed, in the central cache" },
		{ "tcmalloc.transfer_cache_free_bytes", "transfer_cache_bytes",
			"freed, in the transfer cache" },
		{ "tcmalloc.pageheap_free_bytes", "page_heap_bytes", "freed pages, kept" },
		{ "tcmalloc.pageheap_unmapped_bytes", "unmapped_bytes",
			"address space kept without pages" },
		{ "generic.heap_size", "heap_bytes", "all of these" },
		{ "tcmalloc.max_total_thread_cache_bytes", "thread_cache_bytes_max",
			"limit of all thread caches" },
	};

	for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
		size_t value = 0;
		if (stats->tcmalloc(properties[i].property, &value) != 0)
			add(report, properties[i].key, properties[i].text, value);
	}
}

static void read_mimalloc(const struct malloc_stats *stats, struct malloc_report *report)
{
	size_t unused = 0, commit = 0, peak_commit = 0;

	stats->mimalloc(
		&unused, &unused, &unused, &unused, &unused, &commit, &peak_commit, &unused);
	add(report, "committed_bytes", "committed, in use or not", commit);
	add(report, "peak_committed_bytes", "committed at most", peak_commit);
}

static void write_json(
	const struct malloc_stats *stats, const struct malloc_report *report, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_object(&json, "malloc");
	json_member_string(&json, "name", report->name);
	json_member_string(&json, "version", stats->version);
	json_member_string(&json, "where", report->where);
	json_member_object(&json, "options");
	for (const struct malloc_option *option = stats->options;
		option < stats->options + MALLOC_OPTIONS_MAX && option->name != NULL; option++)
		json_member_string(&json, option->name, option->value);
	json_object_end(&json);
	json_key(&json, "figures");
	if (report->count == 0) {
		json_put_null(&json);
	} else {
		json_object_begin(&json);
		for (size_t i = 0; i < report->count; i++)
			json_member_unsigned(
				&json, report->figures[i].key, report->figures[i].value);
		json_object_end(&json);
	}
	json_member_integer(&json, "read_us", report->read_us);
	json_member_string(&json, "reason", report->reason);
	json_object_end(&json);
	json_object_end(&json);
}

static void write_text(
	const struct malloc_stats *stats, const struct malloc_report *report, struct buffer *out)
{
	buffer_printf(out, "malloc of %s%s%s (%s)\n", report->name,
		stats->version[0] == '\0' ? "" : " ", stats->version, report->where);
	for (size_t i = 0; i < report->count; i++)
		buffer_printf(out, "%16llu  %s\n", (unsigned long long)report->figures[i].value,
			report->figures[i].text);
	if (report->reason[0] != '\0')
		buffer_printf(out, "no figures: %s\n", report->reason);
	for (const struct malloc_option *option = stats->options;
		option < stats->options + MALLOC_OPTIONS_MAX && option->name != NULL; option++)
		buffer_printf(out, "%s=%s\n", option->name, option->value);
}

void malloc_stats_write(const struct malloc_stats *stats, const char *name, const char *where,
	const char *letters, struct buffer *out)
{
	struct malloc_report report = { .name = name, .where = where };
	const int64_t begin_ns = clock_monotonic_ns();

	if (stats->tcmalloc != NULL)
		read_tcmalloc(stats, &report);
	else if (stats->mimalloc != NULL)
		read_mimalloc(stats, &report);
	else
		read_glibc(stats, strchr(letters, 'w') != NULL, &report);
	report.read_us = (clock_monotonic_ns() - begin_ns) / 1000;
	if (strchr(letters, 'J') != NULL)
		write_json(stats, &report, out);
	else
		write_text(stats, &report, out);
}
