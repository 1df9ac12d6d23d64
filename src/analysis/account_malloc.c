/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double figure(const struct account_malloc *malloc, const char *key)
{
	return fmax((double)json_integer_value(json_object_get(malloc->figures, key)), 0);
}

bool account_malloc_read(const json_t *document, struct account_malloc *ret)
{
	static const char *const names[] = {
		[ACCOUNT_MALLOC_GLIBC] = "glibc",
		[ACCOUNT_MALLOC_TCMALLOC] = "tcmalloc",
		[ACCOUNT_MALLOC_MIMALLOC] = "mimalloc",
	};
	const json_t *const malloc = json_object_get(document, "malloc");
	const char *const name = json_string_value(json_object_get(malloc, "name"));
	const char *const reason = json_string_value(json_object_get(malloc, "reason"));

	if (name == NULL)
		return false;
	*ret = (struct account_malloc){ .figures = json_object_get(malloc, "figures") };
	ret->has_figures = json_is_object(ret->figures);
	snprintf(ret->name, sizeof ret->name, "%s", name);
	snprintf(ret->reason, sizeof ret->reason, "%s", reason == NULL ? "" : reason);
	for (size_t i = ACCOUNT_MALLOC_GLIBC; i < sizeof names / sizeof *names; i++) {
		if (strcmp(name, names[i]) == 0)
			ret->kind = (enum account_malloc_kind)i;
	}
	return true;
}

static void add_counted(struct account *account, const char *name, const char *text, double bytes,
	const char *option, const char *advice)
{
	account_add(account, (struct account_row){ ACCOUNT_ALLOCATOR, name, text, bytes, option,
				     advice, ACCOUNT_COUNTED, 0 });
}

static const char *in_use_advice(const struct account_profile *profile)
{
	return profile->is_there ? "allocate less: heapctl report shows the sites"
				 : "allocate less";
}

/* The rows add up to what the arenas hold, and the blocks outside of them. */
static void add_glibc(struct account *account, const struct account_malloc *malloc)
{
	const double fast = figure(malloc, "fast_bin_bytes"), top = figure(malloc, "top_bytes");
	const double bins = fmax(figure(malloc, "free_bytes") - fast - top, 0);

	add_counted(account, "in_use", "in use by the program, and in thread caches",
		figure(malloc, "in_use_bytes"), "glibc.malloc.tcache_count",
		"allocate less: heapctl report shows the sites; a thread's cache keeps 0.23 MiB at "
		"most, which glibc does not count");
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "mapped_blocks",
			"in use, blocks with mappings of their own", figure(malloc, "mapped_bytes"),
			"MALLOC_MMAP_THRESHOLD_",
			"their pages go back when they are freed; a lower threshold maps more "
			"blocks, for a system call and page faults each",
			ACCOUNT_COUNTED, (uint64_t)figure(malloc, "mapped_blocks") });
	account_add(
		account, (struct account_row){ ACCOUNT_ALLOCATOR, "fast_bins",
				 "freed, kept in fast bins", fast, "glibc.malloc.mxfast",
				 "0 merges small chunks when they are freed, and makes that slower",
				 ACCOUNT_COUNTED, (uint64_t)figure(malloc, "fast_bin_chunks") });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "fragmentation",
			"free chunks between blocks, and at the top of other arenas", bins,
			"MALLOC_ARENA_MAX",
			"fewer arenas share it better; malloc_trim(0) in the program gives whole "
			"pages of it back",
			ACCOUNT_COUNTED, (uint64_t)figure(malloc, "free_chunks") });
	add_counted(account, "top", "free at the top of the main arena", top,
		"MALLOC_TRIM_THRESHOLD_",
		"more than this is given back; MALLOC_TOP_PAD_ is added each time it grows");
}

/* What smaps shows of glibc's heaps, where glibc was not asked. */
static void add_heaps(struct account *account, const struct smaps *smaps)
{
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "main_heap",
			"heap of the main arena: in use, and free", (double)smaps->program_break,
			"MALLOC_TRIM_THRESHOLD_", "what is free at its end goes back above this",
			ACCOUNT_MEASURED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "arena_heaps",
			"heaps of other arenas: in use, and free", (double)smaps->heaps_resident,
			"MALLOC_ARENA_MAX", "fewer arenas share free memory better",
			ACCOUNT_MEASURED, smaps->heap_count });
}

static void add_tcmalloc(struct account *account, const struct account_malloc *malloc,
	const struct account_profile *profile)
{
	const double allocated = figure(malloc, "allocated_bytes");
	const double threads = figure(malloc, "thread_cache_bytes");
	const double central =
		figure(malloc, "central_cache_bytes") + figure(malloc, "transfer_cache_bytes");
	const double pages = figure(malloc, "page_heap_bytes");
	const double held = figure(malloc, "heap_bytes") - figure(malloc, "unmapped_bytes");

	add_counted(
		account, "in_use", "in use by the program", allocated, "", in_use_advice(profile));
	add_counted(account, "thread_caches", "freed, kept in thread caches", threads,
		"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
		"less of it makes frees slower and leaves less here");
	add_counted(account, "fragmentation", "freed, in spans that have blocks in use", central,
		"", "for other blocks of these sizes only");
	add_counted(account, "free_pages", "freed pages, kept", pages, "TCMALLOC_RELEASE_RATE",
		"more gives them back sooner; TCMALLOC_AGGRESSIVE_DECOMMIT=1 at once");
	add_counted(account, "rounding", "rounding up to spans",
		fmax(held - allocated - threads - central - pages, 0), "", "");
}

static void add_mimalloc(struct account *account, const struct account_malloc *malloc)
{
	add_counted(account, "committed", "committed by mimalloc, in use or free",
		figure(malloc, "committed_bytes"), "MIMALLOC_DECOMMIT_DELAY",
		"milliseconds until free pages are given back (from 2.1: MIMALLOC_PURGE_DELAY)");
}

/* The arenas lie where the kernel shows heaps: both were read one right after the other. */
static bool are_heaps_found(const struct account_malloc *malloc, const struct smaps *smaps)
{
	const double slack_bytes = 2 << 20;

	if (malloc->kind != ACCOUNT_MALLOC_GLIBC)
		return false;
	return !malloc->has_figures ||
	       fabs(figure(malloc, "arena_bytes") -
		       (double)(smaps->program_break_size + smaps->heaps_size)) <= slack_bytes;
}

static struct account_heap heap_of(const struct account_malloc *malloc, const struct smaps *smaps)
{
	struct account_heap heap = {
		.is_in_break = malloc->kind == ACCOUNT_MALLOC_GLIBC ||
			       malloc->kind == ACCOUNT_MALLOC_TCMALLOC,
		.is_found = are_heaps_found(malloc, smaps),
		.resident = (double)smaps->heaps_resident,
		.unplaced = figure(malloc, "mapped_bytes"),
		.agent = malloc->agent,
		.agent_advice = "samples and tables for walking stacks, made when sampling is "
				"first switched on",
		.beyond = "pages of the allocator beyond its count",
		.other = "other anonymous memory",
		.other_option = "",
		.other_advice = "mmap or large static arrays of the program, or another allocator",
		.break_option = "",
		.break_advice = "",
	};

	if (malloc->kind == ACCOUNT_MALLOC_TCMALLOC) {
		heap.other = "tcmalloc's own data, and other anonymous memory";
	} else if (!malloc->has_figures) {
		heap.other = malloc->kind == ACCOUNT_MALLOC_GLIBC
				     ? "blocks with mappings of their own, and other anonymous "
				       "memory"
				     : "memory of malloc, and other anonymous memory";
		if (malloc->kind == ACCOUNT_MALLOC_GLIBC)
			heap.other_option = "MALLOC_MMAP_THRESHOLD_";
	}
	return heap;
}

static void add_outside(struct account *account, const struct account_malloc *malloc,
	const struct smaps *smaps, const struct account_profile *profile)
{
	account_add_profile(account, profile, "",
		"what the program asked for while sampling was on: without rounding, headers and "
		"caches");
	if (malloc->has_figures && malloc->kind == ACCOUNT_MALLOC_GLIBC)
		account_add(account,
			(struct account_row){ ACCOUNT_OUTSIDE, "arenas", "heaps of arenas",
				figure(malloc, "arena_bytes"), "MALLOC_ARENA_MAX",
				"of the main arena and of threads; 8 arenas for each processor at "
				"most, unless it is set",
				ACCOUNT_COUNTED, smaps == NULL ? 0 : smaps->heap_count + 1 });
	if (malloc->kind == ACCOUNT_MALLOC_TCMALLOC)
		account_add(account, (struct account_row){ ACCOUNT_OUTSIDE, "retained",
					     "address space kept without pages",
					     figure(malloc, "unmapped_bytes"), "", "no memory",
					     ACCOUNT_COUNTED, 0 });
	if (smaps != NULL)
		account_add_pages(account, smaps);
}

struct account account_malloc_make(const struct account_malloc *malloc, const struct smaps *smaps,
	const struct account_profile *profile)
{
	struct account account = { 0 };

	if (malloc->kind == ACCOUNT_MALLOC_GLIBC && malloc->has_figures)
		add_glibc(&account, malloc);
	else if (malloc->kind == ACCOUNT_MALLOC_GLIBC && smaps != NULL)
		add_heaps(&account, smaps);
	else if (malloc->kind == ACCOUNT_MALLOC_TCMALLOC && malloc->has_figures)
		add_tcmalloc(&account, malloc, profile);
	else if (malloc->kind == ACCOUNT_MALLOC_MIMALLOC && malloc->has_figures)
		add_mimalloc(&account, malloc);
	if (smaps != NULL) {
		const struct account_heap heap = heap_of(malloc, smaps);
		account_add_kernel(&account, smaps, &heap);
	}
	add_outside(&account, malloc, smaps, profile);
	return account;
}

struct account account_kernel_make(const struct smaps *smaps, bool has_glibc)
{
	const struct account_heap heap = {
		.is_found = true,
		.resident = has_glibc ? (double)smaps->heaps_resident : 0,
		.other = "mapped anonymous memory",
		.other_option = "",
		.other_advice = "large blocks of malloc, other allocators, mmap of the program",
		.break_option = "",
		.break_advice = "the first heap of most mallocs, in use and free",
	};
	struct account account = { 0 };

	if (has_glibc)
		account_add(&account, (struct account_row){ ACCOUNT_KERNEL, "arena_heaps",
					      "looks like heaps of glibc's arenas, in use and free",
					      (double)smaps->heaps_resident, "MALLOC_ARENA_MAX",
					      "fewer arenas share free memory better",
					      ACCOUNT_MEASURED, smaps->heap_count });
	account_add_kernel(&account, smaps, &heap);
	account_add_pages(&account, smaps);
	return account;
}
