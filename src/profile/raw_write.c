/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/raw_write.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/xalloc.h"

/* Above what a process of 47 or 48 bits of address space has, below what jeprof passes over. */
#define FIRST_MADE_UP_ADDRESS UINT64_C(0x0100000000000000)
#define MADE_UP_ADDRESS_STEP 16

uint64_t raw_address(const struct profile *profile, uint32_t location)
{
	const struct profile_location *const at = &profile->locations[location];

	if (at->is_named)
		return FIRST_MADE_UP_ADDRESS + MADE_UP_ADDRESS_STEP * (location + UINT64_C(1));
	return at->is_exact ? at->address + 1 : at->address;
}

bool raw_is_made_up(uint64_t address)
{
	return address > FIRST_MADE_UP_ADDRESS &&
	       address - FIRST_MADE_UP_ADDRESS <= MADE_UP_ADDRESS_STEP * (UINT32_MAX + UINT64_C(1));
}

void raw_put_text(struct buffer *out, const char *text)
{
	for (const char *at = text; *at != '\0'; at++)
		buffer_append_char(out, *at == '\n' || *at == '\r' || *at == '\t' ? ' ' : *at);
}

/* A difference of two profiles has such values; the text formats do not. */
static bool has_bad_counters(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++)
		for (int j = 0; j < PROFILE_COUNTERS; j++)
			if (!(profile->samples[i].counters[j] >= 0))
				return true;
	return false;
}

static unsigned long long whole(double counter)
{
	return counter < 0x1p64 ? (unsigned long long)(counter + 0.5) : UINT64_MAX;
}

static void write_counters(struct buffer *out, const double counters[PROFILE_COUNTERS])
{
	buffer_printf(out, "%llu: %llu [%llu: %llu]", whole(counters[PROFILE_INUSE_OBJECTS]),
		whole(counters[PROFILE_INUSE_SPACE]), whole(counters[PROFILE_ALLOC_OBJECTS]),
		whole(counters[PROFILE_ALLOC_SPACE]));
}

/* " 0x7f06a3a2630f"; most of a profile is this, and printf takes ten times as long. */
static void write_address(struct buffer *out, uint64_t address)
{
	char text[20];
	char *at = text + sizeof text;

	do
		*--at = "0123456789abcdef"[address & 15];
	while ((address >>= 4) != 0);
	*--at = 'x';
	*--at = '0';
	*--at = ' ';
	buffer_append(out, at, (size_t)(text + sizeof text - at));
}

static void write_stack(const struct profile *profile, struct buffer *out, uint32_t position)
{
	const struct profile_stack *const stack = &profile->stacks[position];

	buffer_append_char(out, '@');
	for (uint32_t i = 0; i < stack->depth; i++)
		write_address(
			out, raw_address(profile, profile->stack_locations[stack->first + i]));
	buffer_append_char(out, '\n');
}

static void write_sampling(const struct profile *profile, struct buffer *out)
{
	if (profile->sampler[0] == '\0')
		return;
	buffer_append_string(out, "#sampling ");
	raw_put_text(out, profile->sampler);
	if (profile->is_sampled_from_start)
		buffer_append_string(out, " from-start");
	else if (profile->sampled_since_ms != 0)
		buffer_printf(out, " since %" PRId64, profile->sampled_since_ms);
	if (profile->attached_ms != 0)
		buffer_printf(out, " attached %" PRId64, profile->attached_ms);
	if (profile->attached_ms != 0 && profile->time_ms != 0)
		buffer_printf(out, " at %" PRId64, profile->time_ms);
	if (profile->has_mapped)
		buffer_append_string(out, " mapped");
	if (profile->has_entries)
		buffer_append_string(out, " entry");
	buffer_append_char(out, '\n');
}

/*
 * The form of sums says nothing of samples; without this their errors are unknown. A profile of all
 * allocations is as if each byte were sampled.
 */
static void write_interval(const struct profile *profile, struct buffer *out)
{
	const uint64_t interval = profile->is_complete ? 1 : profile->interval_bytes;

	if (profile->kind == PROFILE_HEAP && profile->weighting == PROFILE_WEIGHTED &&
		interval != 0)
		buffer_printf(out, "#interval %" PRIu64 "\n", interval);
}

static void write_mappings(const struct profile *profile, struct buffer *out)
{
	if (!profile->has_mappings)
		return;
	buffer_append_string(out, "\nMAPPED_LIBRARIES:\n");
	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const mapping = &profile->mappings[i];
		buffer_printf(out, "%08" PRIx64 "-%08" PRIx64 " r-%cp %08" PRIx64 " 00:00 0 ",
			mapping->start, mapping->limit, mapping->executable ? 'x' : '-',
			mapping->file_offset);
		raw_put_text(out, mapping->path);
		buffer_append_string(out, mapping->deleted ? " (deleted)\n" : "\n");
		if (mapping->build_id[0] != '\0')
			buffer_printf(out, "#build-id %" PRIx64 " %s\n", mapping->start,
				mapping->build_id);
	}
	write_sampling(profile, out);
	write_interval(profile, out);
	if (profile->process_name[0] != '\0') {
		buffer_append_string(out, "#process ");
		raw_put_text(out, profile->process_name);
		buffer_append_char(out, '\n');
	}
}

/* For each stack, where its thread samples begin in a list of them sorted by stack. */
struct thread_lines {
	uint32_t *firsts; /* one more than there are stacks */
	uint32_t *lines;
};

static struct thread_lines sort_thread_lines(const struct profile *profile)
{
	struct thread_lines sorted = {
		.firsts = xcalloc(profile->stack_count + 2, sizeof *sorted.firsts),
		.lines = xcalloc(profile->thread_sample_count, sizeof *sorted.lines),
	};

	/* Shifted by two: placing them moves each beginning to that of the next. */
	for (size_t i = 0; i < profile->thread_sample_count; i++)
		sorted.firsts[profile->thread_samples[i].stack + 2]++;
	for (size_t i = 2; i <= profile->stack_count; i++)
		sorted.firsts[i] += sorted.firsts[i - 1];
	for (size_t i = 0; i < profile->thread_sample_count; i++)
		sorted.lines[sorted.firsts[profile->thread_samples[i].stack + 1]++] = (uint32_t)i;
	return sorted;
}

static void write_thread_lines(const struct profile *profile, struct buffer *out,
	const struct thread_lines *sorted, uint32_t stack)
{
	for (uint32_t i = sorted->firsts[stack]; i < sorted->firsts[stack + 1]; i++) {
		const struct profile_sample *const sample =
			&profile->thread_samples[sorted->lines[i]];
		buffer_printf(out, "  t%" PRIu64 ": ", profile->threads[sample->thread].id);
		write_counters(out, sample->counters);
		buffer_append_char(out, '\n');
	}
}

static void write_threads(const struct profile *profile, struct buffer *out)
{
	for (size_t i = 0; i < profile->thread_count; i++) {
		const struct profile_thread *const thread = &profile->threads[i];
		buffer_printf(out, "  t%" PRIu64 ": ", thread->id);
		write_counters(out, thread->counters);
		buffer_append_char(out, thread->name[0] == '\0' ? '\n' : ' ');
		if (thread->name[0] != '\0') {
			raw_put_text(out, thread->name);
			buffer_append_char(out, '\n');
		}
	}
}

static void write_temporary(struct buffer *out, const struct profile_temporary *temporary)
{
	buffer_printf(
		out, "#temporary %llu: %llu\n", whole(temporary->objects), whole(temporary->bytes));
}

static void write_heap_v2(const struct profile *profile, struct buffer *out)
{
	const struct thread_lines sorted = sort_thread_lines(profile);
	CLEANUP(free_cleanup)
	bool *is_written = xcalloc(profile->stack_count, sizeof *is_written);

	buffer_printf(out, "heap_v2/%" PRIu64 "\n  t*: ", profile->interval_bytes);
	write_counters(out, profile->header_counters);
	buffer_append_char(out, '\n');
	if (profile->has_temporary)
		write_temporary(out, &profile->header_temporary);
	write_threads(profile, out);
	size_t at = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *const sample = &profile->samples[i];
		write_stack(profile, out, sample->stack);
		buffer_append_string(out, "  t*: ");
		write_counters(out, sample->counters);
		buffer_append_char(out, '\n');
		for (; at < profile->temporary_count && profile->temporary[at].sample == i; at++)
			write_temporary(out, &profile->temporary[at]);
		if (!is_written[sample->stack])
			write_thread_lines(profile, out, &sorted, sample->stack);
		is_written[sample->stack] = true;
		buffer_drain(out);
	}
	free(sorted.firsts);
	free(sorted.lines);
}

/* What follows the last '@' of gperftools' first line. */
static void write_type(const struct profile *profile, struct buffer *out)
{
	if (profile->kind == PROFILE_GROWTH)
		buffer_append_string(out, "growth");
	else if (profile->weighting == PROFILE_RATIO)
		buffer_printf(out, "heap/%" PRIu64, profile->interval_bytes);
	else
		buffer_append_string(out, "heapprofile");
}

static void write_gperftools(const struct profile *profile, struct buffer *out)
{
	buffer_append_string(out, "heap profile: ");
	write_counters(out, profile->header_counters);
	buffer_append_string(out, " @ ");
	write_type(profile, out);
	buffer_append_char(out, '\n');
	for (size_t i = 0; i < profile->sample_count; i++) {
		write_counters(out, profile->samples[i].counters);
		buffer_append_char(out, ' ');
		write_stack(profile, out, profile->samples[i].stack);
		buffer_drain(out);
	}
}

bool raw_write(const struct profile *profile, struct buffer *out, struct error *err)
{
	if (profile->kind != PROFILE_HEAP && profile->kind != PROFILE_GROWTH)
		return error_set(err, ERROR_UNSUPPORTED,
			"%s: only heap and growth profiles can be written as text", profile->name);
	if (has_bad_counters(profile)) {
		error_set(err, ERROR_UNSUPPORTED, "%s: negative values cannot be written as text",
			profile->name);
		return error_hint(
			err, "use --pprof or --json, or add --drop_negative to see what grew");
	}
	if (profile->weighting == PROFILE_EXPONENTIAL && profile->kind == PROFILE_HEAP)
		write_heap_v2(profile, out);
	else
		write_gperftools(profile, out);
	write_mappings(profile, out);
	if (out->failed)
		return error_set(err, ERROR_MEMORY, "%s: no memory to write it", profile->name);
	return true;
}
