/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's own format, version 4 to 5.3:
 *
 *	heap_v2/524288				mean bytes between two samples
 *	  t*: 28: 1500 [0: 0]			live objects: bytes [ever allocated, if kept]
 *	  t3: 20: 1000 [0: 0] worker 3		the same of one thread, and its name
 *	@ 0x7f06a3a2630 0x55d41fef4427		a stack, leaf first; may be empty
 *	  t*: 28: 1500 [0: 0]
 *	  t3: 20: 1000 [0: 0]
 *
 *	MAPPED_LIBRARIES:			only where there is /proc
 *	55d41fef2000-55d41fef4000 r--p ...
 *
 * heapctl's sampler adds what of the allocations of the line before was freed soon:
 *
 *	#temporary 12: 900
 *
 * Lines of other kinds (ClickHouse adds some that begin with "f:") are kept as comments, the first
 * few of them.
 */
#include "profile/readers.h"

#include "base/hash_index.h"
#include "profile/text_profile.h"

enum {
	LINES_BETWEEN_CHECKS = 256,
	RECENT_THREADS = 256,
};

struct heap_reader {
	struct cursor *in;
	struct profile *profile;
	struct text_profile text;
	bool is_in_header;			 /* no stack has come yet */
	bool is_stack_added;			 /* a line with counters followed it */
	uint32_t stack;				 /* once it was added */
	bool has_total;				 /* a "t*:" line was seen */
	unsigned count_lines;			 /* with counters, after stacks */
	uint32_t recent_threads[RECENT_THREADS]; /* by id modulo their number */
	struct u64_table threads;
};

static bool detect(struct cursor in)
{
	return text_at(&in, "heap_v2/");
}

static uint32_t find_thread_slow(struct heap_reader *reader, uint64_t id)
{
	uint32_t thread = u64_table_find(&reader->threads, id);

	if (thread == U64_TABLE_NONE) {
		u64_table_add(&reader->threads, id);
		thread = profile_add_thread(reader->profile, id, "");
	}
	reader->recent_threads[id % RECENT_THREADS] = thread;
	return thread;
}

static inline uint32_t find_thread(struct heap_reader *reader, uint64_t id)
{
	const struct profile *const profile = reader->profile;
	const uint32_t recent = reader->recent_threads[id % RECENT_THREADS];

	return recent < profile->thread_count && profile->threads[recent].id == id
		       ? recent
		       : find_thread_slow(reader, id);
}

/* What follows the counters is the thread's name, which may hold blanks. */
static void name_thread(struct heap_reader *reader, uint32_t thread, const struct text_line *rest)
{
	if (rest->size != 0 && thread != PROFILE_NONE)
		reader->profile->threads[thread].name =
			string_pool_add_sized(&reader->profile->strings, rest->text, rest->size);
}

/* Counter by counter: the stores may still be pending, and a wider load would wait for them. */
static inline void copy_counters(double to[PROFILE_COUNTERS], const double from[PROFILE_COUNTERS])
{
	for (int i = 0; i < PROFILE_COUNTERS; i++)
		to[i] = from[i];
}

static inline void keep_counters(
	struct heap_reader *reader, uint32_t thread, const double counters[PROFILE_COUNTERS])
{
	struct profile *const profile = reader->profile;

	if (reader->is_in_header) {
		copy_counters(thread == PROFILE_NONE ? profile->header_counters
						     : profile->threads[thread].counters,
			counters);
		reader->has_total |= thread == PROFILE_NONE;
		return;
	}
	if (!reader->is_stack_added)
		reader->stack = text_profile_add_stack(&reader->text);
	reader->is_stack_added = true;
	struct profile_sample *const sample = profile_new_sample(profile, reader->stack, thread);
	if (sample != NULL)
		copy_counters(sample->counters, counters);
	if (++reader->count_lines % LINES_BETWEEN_CHECKS == 0 && profile_is_full(profile))
		cursor_fail(reader->in, PROFILE_FULL_PROBLEM);
}

/* "t*: 28: 1500 [0: 0]" or "t3: ... name" */
static void read_count_line(struct heap_reader *reader)
{
	struct cursor *const in = reader->in;
	uint32_t thread = PROFILE_NONE;
	double counters[PROFILE_COUNTERS];
	struct text_line rest;

	cursor_skip(in, 1);
	if (!text_accept(in, '*')) {
		const uint64_t id = text_decimal(in);
		if (!cursor_ok(in))
			return;
		thread = find_thread(reader, id);
	}
	if (!text_profile_expect(&reader->text, ':', "a colon was expected after the thread") ||
		!text_profile_counters(&reader->text, counters))
		return;
	keep_counters(reader, thread, counters);
	if (!text_accept(in, '\n') && text_line(in, &rest))
		name_thread(reader, thread, &rest);
}

/*
 * The same exactly as jemalloc writes it, without a name: nearly all lines. False, and nothing is
 * read, for anything else, and near the end of the input.
 */
static bool read_plain_count_line(struct heap_reader *reader)
{
	enum { MAX_LENGTH = 4 + TEXT_NUMBER_REACH + TEXT_COUNTERS_REACH };
	struct cursor *const in = reader->in;
	const unsigned char *at = in->position;
	double counters[PROFILE_COUNTERS];
	uint64_t id = 0;

	if (cursor_left(in) < MAX_LENGTH || memcmp(at, "  t", 3) != 0)
		return false;
	const bool is_total = at[3] == '*';
	at = is_total ? at + 4 : text_decimal_at(at + 3, &id);
	if (at == NULL || at[0] != ':' || at[1] != ' ')
		return false;
	at = text_profile_counters_at(at + 2, counters);
	if (at == NULL || *at != '\n')
		return false;
	in->position = at + 1;
	keep_counters(reader, is_total ? PROFILE_NONE : find_thread(reader, id), counters);
	return true;
}

static bool is_count_line(const struct cursor *in)
{
	return cursor_left(in) >= 2 && in->position[0] == 't' &&
	       (in->position[1] == '*' || (unsigned)in->position[1] - '0' <= 9);
}

static const char temporary_line[] = "#temporary ";

static void read_temporary(struct heap_reader *reader)
{
	struct cursor *const in = reader->in;
	struct text_line rest;

	cursor_skip(in, sizeof temporary_line - 1);
	const uint64_t objects = text_decimal(in);
	if (!text_profile_expect(&reader->text, ':', "a colon was expected after the objects"))
		return;
	text_skip_blanks(in);
	const uint64_t bytes = text_decimal(in);
	if (!cursor_ok(in) || !text_line(in, &rest))
		return;
	if (reader->is_in_header || reader->is_stack_added)
		profile_add_temporary(reader->profile, (double)objects, (double)bytes);
	if (++reader->count_lines % LINES_BETWEEN_CHECKS == 0 && profile_is_full(reader->profile))
		cursor_fail(in, PROFILE_FULL_PROBLEM);
}

static void read_line(struct heap_reader *reader)
{
	struct cursor *const in = reader->in;

	if (read_plain_count_line(reader))
		return;
	text_skip_blanks(in);
	if (is_count_line(in)) {
		read_count_line(reader);
	} else if (text_accept(in, '@')) {
		text_profile_read_stack(&reader->text);
		reader->is_in_header = false;
		reader->is_stack_added = false;
	} else if (map_section_at(in)) {
		map_section_read(in, reader->profile);
	} else if (text_at(in, temporary_line)) {
		read_temporary(reader);
	} else {
		text_profile_unknown_line(&reader->text);
	}
}

static void read_header(struct heap_reader *reader)
{
	struct text_line rest;

	cursor_skip(reader->in, strlen("heap_v2/"));
	reader->profile->interval_bytes = text_decimal(reader->in);
	/* Without an interval nothing can be scaled up, and nothing needs to be. */
	reader->profile->weighting =
		reader->profile->interval_bytes == 0 ? PROFILE_WEIGHTED : PROFILE_EXPONENTIAL;
	if (text_line(reader->in, &rest) && rest.size != 0) {
		reader->in->position = (const unsigned char *)rest.text;
		cursor_fail(reader->in, "the end of the first line was expected");
	}
}

/* jemalloc writes the totals first and counters after every stack. */
static void check_end(struct heap_reader *reader)
{
	if (!cursor_ok(reader->in))
		return;
	if (!reader->has_total && reader->profile->sample_count == 0)
		cursor_fail(reader->in, "it ends before the totals (\"t*:\"): truncated");
	else if (!reader->profile->has_mappings && !reader->is_in_header && !reader->is_stack_added)
		cursor_fail(reader->in, "it ends between a stack and its counters: truncated");
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct heap_reader reader = {
		.in = in,
		.profile = profile,
		.is_in_header = true,
	};

	(void)err;
	profile->kind = PROFILE_HEAP;
	u64_table_init(&reader.threads, profile->hash_seed);
	text_profile_init(&reader.text, in, profile);
	read_header(&reader);
	while (cursor_more(in))
		read_line(&reader);
	text_profile_end_stacks(&reader.text);
	check_end(&reader);
	u64_table_deinit(&reader.threads);
	text_profile_deinit(&reader.text);
	return cursor_ok(in);
}

const struct profile_reader heap_v2_reader = { detect, read_profile, false };
