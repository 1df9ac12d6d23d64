/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a process' resident memory: jemalloc's statistics, the kernel's smaps and a
 * profile in one table whose rows add up to RSS.
 *
 * jemalloc's rows. Its resident pages are those in use (active), dirty and muzzy ones, and its own
 * data. Active memory is divided into: `allocated`; what slabs hold beyond their objects; and the
 * page by which large allocations are shifted against each other. Of `allocated`, thread caches
 * hold memory that the program has freed, sampled objects occupy a whole extent where the program
 * asked for less, and jemalloc uses some for itself (caches of threads, records of samples), which
 * counts as its own data, as in stats.metadata.
 *
 * Untouched pages of sampled objects are excluded and reported separately.
 *
 * jemalloc's own data is counted as handed out, not as touched. The largest part that is never
 * touched is its index of pages (jemalloc 5, src/rtree.c): 2 MiB for each GiB of address space that
 * it uses, 8 bytes for a page of 4 KiB, so that a heap of 2 MiB touches one page of the index. The
 * rest of the index is excluded and reported separately, too.
 *
 * The kernel shows how much of jemalloc's figures is not resident: memory that the program asked
 * for and never touched, dirty pages of sampled objects, swapped pages. jemalloc makes its mappings
 * with MAP_NORESERVE, which few others do and smaps shows. When these mappings together are as big
 * as jemalloc's own figure, they are jemalloc's, and their resident pages less the rows above are a
 * row, below zero. The kernel's other anonymous memory is the last row.
 *
 * Where they do not match (overcommitting forbidden, opt.dss, a second runtime that maps the same
 * way), the two rows are one: their difference.
 *
 * The agent's tables for walking stacks are anonymous memory as well. The agent reports their size,
 * so they are a row of their own.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/smaps.h"
#include "base/error.h"
#include "profile/profile.h"

/* From malloc_stats_print's JSON, but for the last one. */
struct account_stats {
	double allocated, active, dirty, muzzy, base, retained, tcache;
	double internal;	   /* of `allocated`: what jemalloc gave itself */
	double mapped;		   /* all but what is retained; 0 when it is not known */
	double slab_fragmentation; /* of small classes: slabs less the objects in them */
	double large_padding;	   /* of large ones, with opt.cache_oblivious */
	bool is_in_break;	   /* opt.dss is primary: jemalloc's heap is the program break */
	bool has_one_arena;	   /* that is used: fewer are not possible */
	bool has_page_index;	   /* that of jemalloc 5 with pages of 4 KiB */
	double agent;		   /* bytes of the agent's tables, which its status says */
};

/*
 * Reads malloc_stats_print's JSON, with its size classes and without single arenas. ERROR_INPUT,
 * with `name` in front, when these are not jemalloc's statistics.
 */
MUST_CHECK bool account_stats_read(
	const char *name, const json_t *document, struct account_stats *stats, struct error *err);

/* Bytes of the agent's tables, from its status; 0 for NULL. */
double account_agent_bytes(const json_t *status);

/* Figures from the profile. */
struct account_profile {
	bool is_there;
	bool is_since_attach;		     /* what the process had before is not in it */
	double inuse, inuse_low, inuse_high; /* estimate and its 95% interval */
	double sampling;  /* resident bytes that sampled small objects take beyond their size */
	double untouched; /* of their extents, that are not: see account_profile_of */
	double sampled;	  /* such objects */
};

/*
 * jemalloc gives each sampled object below 16 KiB an extent of that size, with a page more where
 * opt.cache_oblivious shifts it by a part of a page. The program touches the object only: a page
 * more than its size, on average. heapctl's sampler does nothing of the kind.
 */
struct account_profile account_profile_of(const struct profile *profile);

enum account_kind {
	ACCOUNT_ALLOCATOR, /* rows that add up to what the allocator counts as resident */
	ACCOUNT_KERNEL,	   /* and with these to RSS */
	ACCOUNT_OUTSIDE,   /* for comparison; not in the sum */
};

/* Where a figure comes from. */
enum account_source {
	ACCOUNT_COUNTED,   /* the allocator */
	ACCOUNT_MEASURED,  /* the kernel */
	ACCOUNT_ESTIMATED, /* a model, from the profile or the addresses in use */
	ACCOUNT_REPORTED,  /* the agent, of itself */
};

struct account_row {
	enum account_kind kind;
	const char *name; /* one word, for JSON */
	const char *text; /* for people */
	double bytes;
	const char *option; /* the allocator's that governs it; "" for none */
	const char *advice; /* what changing it would do; "" for nothing to say */
	enum account_source source;
	uint64_t count; /* of the parts that it is of, such as arenas; 0: not counted */
};

enum { ACCOUNT_ROWS = 28 };

struct account {
	struct account_row rows[ACCOUNT_ROWS];
	size_t row_count;
	double resident; /* RSS; 0 when the kernel was not asked: a remote target */
	bool has_kernel;
	bool has_before; /* rows "since_attach" and "before_attach"; the latter's 95% interval */
	double before_low, before_high;
};

/* --- What the accounts of all allocators have in common --- */

void account_add(struct account *account, struct account_row row);

/* What the kernel's rows need of the allocator. */
struct account_heap {
	bool is_in_break; /* the program break is the allocator's */
	/*
	 * Which mappings are the allocator's is known: `resident` bytes of theirs are, without the
	 * break. `unplaced`: bytes of rows that are there whose mappings are not known.
	 */
	bool is_found;
	double resident, unplaced;
	double agent;		  /* bytes of the agent's tables */
	const char *agent_advice; /* NULL: there is no agent */
	const char *beyond;	  /* text of the row when more is resident than the rows count */
	const char *other, *other_option, *other_advice; /* of all other anonymous memory */
	const char *break_option, *break_advice;	 /* where it is not the allocator's */
};

/* Rows that add up to RSS with those that are there. */
void account_add_kernel(
	struct account *account, const struct smaps *smaps, const struct account_heap *heap);

/* Rows for comparison: the profile's figure, unless there is none; what was swapped out, and what
 * is in huge pages. */
void account_add_profile(struct account *account, const struct account_profile *profile,
	const char *option, const char *advice);
void account_add_pages(struct account *account, const struct smaps *smaps);

/*
 * Of an agent that was attached: replaces the rows of blocks in use by one of those that the
 * profile has, and one of the rest, which is what was there before and what the sampler does not
 * see; the former are then for comparison. Nothing where the allocator does not count its blocks in
 * use. Sets `before_low` and `before_high`.
 */
void account_split_at_attach(struct account *account, const struct account_profile *profile);

/* --- jemalloc --- */

/* `smaps` is NULL when it is not known: then the rows end with jemalloc's. */
struct account account_make(const struct account_stats *stats, const struct smaps *smaps,
	const struct account_profile *profile);

/*
 * The account of a process whose malloc is not jemalloc's (account_malloc.c): rows of what that
 * malloc reports of itself, then the kernel's.
 *
 * glibc's arenas have their memory in the program break (the main arena) and in heaps of 64 MiB
 * of address space, which smaps shows. What is not resident of these is exact. Blocks with mappings
 * of their own look like other anonymous mappings: they are taken as resident, as far as
 * there is room.
 *
 * Where a malloc reports nothing, or has not been asked, the kernel's figures stand alone. So they
 * do of a process that has no agent.
 */

enum account_malloc_kind {
	ACCOUNT_MALLOC_OTHER, /* reports nothing */
	ACCOUNT_MALLOC_GLIBC,
	ACCOUNT_MALLOC_TCMALLOC,
	ACCOUNT_MALLOC_MIMALLOC,
};

/* Of MallocStatistics in docs/protocol.md. */
struct account_malloc {
	enum account_malloc_kind kind;
	char name[32];
	bool has_figures;
	char reason[256]; /* why it has none; "" */
	const json_t *figures;
	double agent; /* bytes of the agent's tables */
};

/*
 * Whether `document` has the statistics of such a malloc. `figures` borrows from it.
 */
bool account_malloc_read(const json_t *document, struct account_malloc *ret);

/* `smaps` is NULL when it is not known: then there are only the rows of the malloc. */
struct account account_malloc_make(const struct account_malloc *malloc, const struct smaps *smaps,
	const struct account_profile *profile);

/*
 * Of a process without an agent. `has_glibc`: its malloc may be glibc's, so that what looks like
 * heaps of arenas is a row.
 */
struct account account_kernel_make(const struct smaps *smaps, bool has_glibc);
