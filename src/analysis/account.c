/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/account.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analysis/allocator_stats.h"
#include "analysis/unsample.h"

static const double sampled_bytes = 16384, page_bytes = 4096;

static double number(const json_t *object, const char *key)
{
	return (double)json_integer_value(json_object_get(object, key));
}

static bool read_classes(
	const json_t *document, struct account_stats *stats, double padding, struct error *err)
{
	struct allocator_stats classes = { 0 };

	if (!allocator_stats_add_classes(&classes, document, err))
		return false;
	for (size_t i = 0; i < classes.class_count; i++) {
		const struct size_class *const class = &classes.classes[i];
		if (class->is_large)
			stats->large_padding += (double)class->objects * padding;
		else
			stats->slab_fragmentation +=
				(double)class->held_bytes - (double)class->allocated_bytes;
	}
	allocator_stats_deinit(&classes);
	return true;
}

/* Before 5.3 it was decided when jemalloc was built. */
static bool has_padding(const json_t *jemalloc)
{
	const json_t *const option =
		json_object_get(json_object_get(jemalloc, "opt"), "cache_oblivious");
	const json_t *const built =
		json_object_get(json_object_get(jemalloc, "config"), "cache_oblivious");

	return json_is_true(option != NULL ? option : built);
}

static bool was_built_without_statistics(const json_t *jemalloc)
{
	return json_is_false(json_object_get(json_object_get(jemalloc, "config"), "stats"));
}

bool account_stats_read(
	const char *name, const json_t *document, struct account_stats *stats, struct error *err)
{
	const json_t *const jemalloc = json_object_get(document, "jemalloc");
	const json_t *const all = json_object_get(jemalloc, "stats");
	const json_t *const options = json_object_get(jemalloc, "opt");
	const json_t *const merged =
		json_object_get(json_object_get(jemalloc, "stats.arenas"), "merged");

	if (was_built_without_statistics(jemalloc)) {
		error_set(err, ERROR_UNSUPPORTED, "the jemalloc of %s was built without statistics",
			name);
		return error_hint(err, "use one configured with --enable-stats, the default");
	}
	if (merged == NULL || json_object_get(all, "allocated") == NULL) {
		error_set(err, ERROR_INPUT, "%s has no statistics of jemalloc", name);
		return error_hint(err, "heapctl account takes an agent, a gateway's target or a "
				       "bundle of one");
	}
	const double page = number(json_object_get(jemalloc, "arenas"), "page");
	const char *const version = json_string_value(json_object_get(jemalloc, "version"));
	const char *const dss = json_string_value(json_object_get(options, "dss"));
	*stats = (struct account_stats){
		.allocated = number(all, "allocated"),
		.active = number(all, "active"),
		.mapped = number(all, "mapped"),
		.retained = number(all, "retained"),
		.dirty = number(merged, "pdirty") * page,
		.muzzy = number(merged, "pmuzzy") * page,
		.base = number(merged, "base"),
		.internal = number(merged, "internal"),
		.tcache = number(merged, "tcache_bytes"),
		.is_in_break = dss != NULL && strcmp(dss, "primary") == 0,
		/* The agent's own thread is one of them, and allocates nothing. */
		.has_one_arena = number(merged, "nthreads") <= 2 || number(options, "narenas") == 1,
		.has_page_index = version != NULL && version[0] == '5' && page == 4096,
	};
	return read_classes(document, stats, has_padding(jemalloc) ? page : 0, err);
}

double account_agent_bytes(const json_t *status)
{
	enum { ROW_BYTES = 8 }; /* src/unwind/table.h */
	const json_t *table;
	double rows = 0;
	size_t i;

	json_array_foreach(json_object_get(status, "unwind_tables"), i, table)
	{
		rows += number(table, "rows");
	}
	return ROW_BYTES * rows + number(json_object_get(status, "sampler"), "memory_bytes");
}

struct account_profile account_profile_of(const struct profile *profile)
{
	struct account_profile sums = { .is_there = true,
		.is_since_attach = profile_is_since_attach(profile) };
	struct estimate total = { 0 };
	/* heapctl's sampler leaves its objects where they are. */
	const bool have_extents = strcmp(profile->sampler, "heapctl") != 0;

	for (size_t i = 0; i < profile->sample_count; i++) {
		struct estimate estimates[PROFILE_COUNTERS];
		unsample(profile, profile->samples[i].counters, estimates);
		const struct estimate objects = estimates[PROFILE_INUSE_OBJECTS];
		const double mean = objects.value > 0
					    ? estimates[PROFILE_INUSE_SPACE].value / objects.value
					    : 0;
		estimate_add(&total, estimates[PROFILE_INUSE_SPACE]);
		if (!have_extents || mean <= 0 || mean >= sampled_bytes)
			continue;
		const double beyond = fmin(page_bytes, sampled_bytes - mean);
		sums.sampled += objects.samples;
		sums.sampling += objects.samples * beyond;
		sums.untouched += objects.samples * (sampled_bytes - mean - beyond);
	}
	const struct interval interval = estimate_interval(total);
	sums.inuse = total.value;
	sums.inuse_low = interval.low;
	sums.inuse_high = interval.high;
	return sums;
}

void account_add(struct account *account, struct account_row row)
{
	assert(account->row_count < ACCOUNT_ROWS);
	account->rows[account->row_count++] = row;
}

/* The padding of sampled objects is within what their row has, or untouched. */
static double padding_untouched(
	const struct account_stats *stats, const struct account_profile *profile)
{
	return fmin(stats->large_padding, profile->sampled * page_bytes);
}

/* Rows that add up to active pages. */
static void add_active(struct account *account, const struct account_stats *stats,
	const struct account_profile *profile)
{
	const double room =
		fmax(stats->allocated - stats->internal - stats->tcache - profile->untouched, 0);
	const double sampling = fmin(profile->sampling, room);
	const double slack = stats->active - stats->allocated;
	const double slabs = fmin(stats->slab_fragmentation, fmax(slack, 0));
	const double pages = fmin(stats->large_padding, fmax(slack - slabs, 0));
	const double padding = pages - padding_untouched(stats, profile);

	account_add(
		account, (struct account_row){ ACCOUNT_ALLOCATOR, "in_use", "in use by the program",
				 room - sampling, "",
				 profile->is_there ? "allocate less: heapctl report shows the sites"
						   : "allocate less",
				 profile->sampled > 0 ? ACCOUNT_ESTIMATED : ACCOUNT_COUNTED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "sampling",
			"extents of sampled objects, beyond their size", sampling, "lg_prof_sample",
			"one more halves it, and doubles the variance of profiles",
			ACCOUNT_ESTIMATED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "thread_caches",
			"freed, kept in thread caches", stats->tcache, "tcache_max",
			"less of it (or tcache:false) makes frees slower and gives it back",
			ACCOUNT_COUNTED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "slab_fragmentation",
			"free places in slabs of small objects", slabs,
			stats->has_one_arena ? "" : "narenas",
			stats->has_one_arena
				? "heapctl report --fragmentation shows the sites whose objects "
				  "keep them"
				: "fewer arenas share slabs better; heapctl report --fragmentation "
				  "shows the sites",
			ACCOUNT_COUNTED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "large_padding",
			"a page for each large allocation", padding, "cache_oblivious",
			"false (from jemalloc 5.3.1; before, a build with "
			"--disable-cache-oblivious) saves it; large blocks then compete for "
			"the same cache lines",
			ACCOUNT_COUNTED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "rounding", "rounding up to pages",
			slack - slabs - pages, "", "", ACCOUNT_COUNTED, 0 });
}

/* Of the pages of jemalloc's index, how much was never touched. */
static double index_untouched(const struct account_stats *stats, const struct smaps *smaps)
{
	const double leaf_bytes = 2 << 20;

	if (!stats->has_page_index || smaps == NULL)
		return 0;
	/* Other mappings may be in further ranges: no more leaves than fit there. */
	const double leaves = fmin((double)smaps->gib_ranges, floor(stats->base / leaf_bytes));
	return fmax(leaves * leaf_bytes - (double)smaps->two_mib_ranges * page_bytes, 0);
}

static double sum_of(const struct account *account)
{
	double sum = 0;

	for (size_t i = 0; i < account->row_count; i++)
		sum += account->rows[i].bytes;
	return sum;
}

/* Seen one right after the other: a few mappings of the smallest size may have come in between. */
static bool are_jemallocs(const struct smaps *smaps, const struct account_stats *stats)
{
	const double extent_bytes = 2 << 20, slack = 2;
	const double counted = stats->mapped + stats->retained;

	return stats->mapped > 0 &&
	       fabs((double)smaps->unreserved_size - counted) <= slack * extent_bytes;
}

static void add_beyond(struct account *account, const char *text, double bytes)
{
	account_add(account,
		(struct account_row){ ACCOUNT_KERNEL, "not_resident",
			bytes <= 0 ? "counted above, but not resident" : text, bytes, "",
			bytes <= 0
				? "never touched by the program, returned meanwhile, or swapped out"
				: "huge pages, and what is estimated above",
			ACCOUNT_MEASURED, 0 });
}

static void add_other(struct account *account, const struct account_heap *heap, double bytes)
{
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "other", heap->other, bytes,
				     heap->other_option, heap->other_advice, ACCOUNT_MEASURED, 0 });
}

/* At most `room`, because tables may be swapped out. Returns the bytes of the row. */
static double add_agent(struct account *account, const struct account_heap *heap, double room)
{
	const double bytes = fmin(fmax(heap->agent, 0), fmax(room, 0));

	if (heap->agent_advice == NULL)
		return 0;
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "agent", "heapctl's agent",
				     bytes, "", heap->agent_advice, ACCOUNT_REPORTED, 0 });
	return bytes;
}

/* Anonymous memory: the allocator's that is counted and not resident, the agent's, the rest. */
static void add_anonymous(struct account *account, const struct smaps *smaps,
	const struct account_heap *heap, double own_break)
{
	const double held = sum_of(account), anonymous = (double)smaps->anonymous;

	if (heap->is_found) {
		const double resident = heap->resident + own_break;
		const double room = anonymous - heap->resident;
		const double beyond = resident - (held - heap->unplaced);
		const double rest = room - heap->unplaced - fmin(heap->agent, fmax(room, 0));
		add_beyond(account, heap->beyond, beyond + fmin(rest, 0));
		add_agent(account, heap, room);
		add_other(account, heap, fmax(rest, 0));
		return;
	}
	const double rest = anonymous + own_break - held - add_agent(account, heap, anonymous);
	if (rest < 0)
		add_beyond(account, heap->beyond, rest);
	else
		add_other(account, heap, rest);
}

void account_add_kernel(
	struct account *account, const struct smaps *smaps, const struct account_heap *heap)
{
	const double program_break = (double)smaps->program_break;
	const double own_break = heap->is_in_break ? program_break : 0;

	account->has_kernel = true;
	account->resident = (double)smaps->resident;
	add_anonymous(account, smaps, heap, own_break);
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "files", "pages of mapped files",
				     (double)smaps->files, "", "mostly shared with other processes",
				     ACCOUNT_MEASURED, 0 });
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "shmem", "shared memory",
				     (double)smaps->shmem, "",
				     "such as shared_buffers, memfd, /dev/shm; each process that "
				     "maps it counts it",
				     ACCOUNT_MEASURED, 0 });
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "file_data",
				     "changed data of programs and libraries",
				     (double)smaps->file_data, "", "", ACCOUNT_MEASURED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_KERNEL, "stacks", "stacks", (double)smaps->stacks, "",
			"fewer threads, shallower recursion", ACCOUNT_MEASURED, 0 });
	account_add(account, (struct account_row){ ACCOUNT_KERNEL, "program_break",
				     "the program break ([heap])", program_break - own_break,
				     heap->break_option, heap->break_advice, ACCOUNT_MEASURED, 0 });
}

/* Its interval against the allocator's figure. */
static const char *compare_profile(const struct account_profile *profile, double in_use)
{
	if (profile->inuse_high < in_use)
		return "less than in use: not all was allocated while sampling was on";
	if (profile->inuse_low > in_use)
		return "more than in use: some was freed between the two readings";
	return "as much as is in use, within its error";
}

static double row_bytes(const struct account *account, const char *name)
{
	for (size_t i = 0; i < account->row_count; i++) {
		if (strcmp(account->rows[i].name, name) == 0)
			return account->rows[i].bytes;
	}
	return 0;
}

static bool is_in_use(const struct account_row *row)
{
	return row->kind == ACCOUNT_ALLOCATOR &&
	       (strcmp(row->name, "in_use") == 0 || strcmp(row->name, "mapped_blocks") == 0);
}

void account_split_at_attach(struct account *account, const struct account_profile *profile)
{
	struct account_row rows[ACCOUNT_ROWS];
	size_t count = 0;
	double in_use = 0;

	for (size_t i = 0; i < account->row_count; i++)
		in_use += is_in_use(&account->rows[i]) ? account->rows[i].bytes : 0;
	if (!profile->is_since_attach || in_use <= 0)
		return;
	const double since = fmin(profile->inuse, in_use);
	rows[count++] = (struct account_row){ ACCOUNT_ALLOCATOR, "since_attach",
		"in use, allocated since the attach", since, "", "heapctl report shows the sites",
		ACCOUNT_ESTIMATED, 0 };
	rows[count++] = (struct account_row){ ACCOUNT_ALLOCATOR, "before_attach",
		"in use, before the attach", in_use - since, "",
		"with what the sampler does not see, rounding and thread caches", ACCOUNT_ESTIMATED,
		0 };
	for (size_t i = 0; i < account->row_count; i++) {
		rows[count] = account->rows[i];
		if (is_in_use(&account->rows[i]))
			rows[count].kind = ACCOUNT_OUTSIDE;
		count++;
	}
	assert(count <= ACCOUNT_ROWS);
	memcpy(account->rows, rows, count * sizeof rows[0]);
	account->row_count = count;
	account->has_before = true;
	account->before_low = fmax(in_use - profile->inuse_high, 0);
	account->before_high = fmax(in_use - profile->inuse_low, 0);
}

void account_add_profile(struct account *account, const struct account_profile *profile,
	const char *option, const char *advice)
{
	if (profile->is_there)
		account_add(account,
			(struct account_row){ ACCOUNT_OUTSIDE, "profile", "in use, by the profile",
				profile->inuse, option, advice, ACCOUNT_ESTIMATED, 0 });
}

void account_add_pages(struct account *account, const struct smaps *smaps)
{
	if (smaps->swapped != 0)
		account_add(
			account, (struct account_row){ ACCOUNT_OUTSIDE, "swapped", "swapped out",
					 (double)smaps->swapped, "", "", ACCOUNT_MEASURED, 0 });
	if (smaps->huge_pages != 0)
		account_add(account,
			(struct account_row){ ACCOUNT_OUTSIDE, "huge_pages",
				"in transparent huge pages", (double)smaps->huge_pages, "",
				"2 MiB are resident where the program touched a part; "
				"MADV_NOHUGEPAGE, or transparent_hugepage=madvise, avoids them",
				ACCOUNT_MEASURED, 0 });
}

/* For comparison: figures that are no part of the sum. */
static void add_outside(struct account *account, const struct account_stats *stats,
	const struct account_profile *profile, double unused_index)
{
	account_add_profile(account, profile, "prof_active",
		compare_profile(profile, row_bytes(account, "in_use")));
	account_add(account,
		(struct account_row){ ACCOUNT_OUTSIDE, "allocated", "allocated (stats.allocated)",
			stats->allocated, "",
			"in use and in thread caches, with what samples and jemalloc itself take",
			ACCOUNT_COUNTED, 0 });
	if (profile->untouched > 0)
		account_add(
			account, (struct account_row){ ACCOUNT_OUTSIDE, "untouched",
					 "pages of sampled objects, never touched",
					 profile->untouched + padding_untouched(stats, profile),
					 "lg_prof_sample", "not in RSS, but in jemalloc's figures",
					 ACCOUNT_ESTIMATED, 0 });
	if (unused_index > 0)
		account_add(account,
			(struct account_row){ ACCOUNT_OUTSIDE, "index",
				"jemalloc's index of pages, never touched", unused_index, "",
				"not in RSS, but in jemalloc's figures", ACCOUNT_ESTIMATED, 0 });
	account_add(account,
		(struct account_row){ ACCOUNT_OUTSIDE, "retained",
			"address space kept without pages (retained)", stats->retained, "retain",
			"takes no memory: retain:false unmaps it, and mmap gets slower",
			ACCOUNT_COUNTED, 0 });
}

static const char *metadata_advice(bool has_one_arena, bool has_profile)
{
	if (has_one_arena)
		return has_profile ? "prof:false saves what samples take" : "";
	return has_profile ? "fewer arenas; prof:false saves what samples take" : "fewer arenas";
}

struct account account_make(const struct account_stats *stats, const struct smaps *smaps,
	const struct account_profile *profile)
{
	const double unused_index = index_untouched(stats, smaps);
	struct account account = { 0 };

	add_active(&account, stats, profile);
	account_add(&account, (struct account_row){ ACCOUNT_ALLOCATOR, "dirty",
				      "freed pages, kept (dirty)", stats->dirty, "dirty_decay_ms",
				      "less returns them sooner, with more page faults; "
				      "background_thread:true also returns them without traffic",
				      ACCOUNT_COUNTED, 0 });
	account_add(&account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "muzzy",
			"freed pages that the kernel may reclaim (muzzy)", stats->muzzy,
			"muzzy_decay_ms", "0 takes them out of RSS at once", ACCOUNT_COUNTED, 0 });
	account_add(&account,
		(struct account_row){ ACCOUNT_ALLOCATOR, "metadata", "jemalloc's own data",
			stats->base + stats->internal - unused_index,
			stats->has_one_arena ? "" : "narenas",
			metadata_advice(stats->has_one_arena, profile->is_there),
			unused_index > 0 ? ACCOUNT_ESTIMATED : ACCOUNT_COUNTED, 0 });
	if (smaps != NULL)
		account_add_kernel(&account, smaps,
			&(struct account_heap){ /* The heap of a jemalloc with dss:primary begins in
						   the program break. */
				.is_in_break = stats->is_in_break,
				.is_found = are_jemallocs(smaps, stats),
				.resident = (double)smaps->unreserved_resident,
				.agent = stats->agent,
				.agent_advice =
					"tables for walking stacks, made when sampling is first "
					"switched on; HEAPCTL_UNWINDER=jemalloc needs none and "
					"makes samples slower",
				.beyond = "jemalloc's pages beyond its count",
				.other = "other anonymous memory",
				.other_option = "",
				.other_advice = "mmap or large static arrays of the program, or "
						"another allocator",
				.break_option = "dss",
				.break_advice =
					"another allocator's: jemalloc's own, with dss:primary, is "
					"counted above" });
	add_outside(&account, stats, profile, unused_index);
	if (smaps != NULL)
		account_add_pages(&account, smaps);
	return account;
}
