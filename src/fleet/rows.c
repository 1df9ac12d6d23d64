/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/unsample.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"
#include "fleet/stack_names.h"

struct row_maker {
	const struct profile *profile;
	struct fleet_rows *rows;
	struct stack_namer namer;
	uint32_t *of_stack;	   /* for each stack of the profile its row, or PROFILE_NONE */
	struct u64_table by_stack; /* rows by their stack */
	struct estimate *sums;	   /* of rows that several samples have; by row */
	size_t sum_capacity;
	const char **build_ids;
	uint64_t *offsets;
	size_t build_id_capacity, offset_capacity;
	struct buffer scratch;
};

/* What identifies a location in any process; sets the columns of it. */
static uint64_t hash_location(struct row_maker *maker, uint64_t hash, uint32_t at, size_t column)
{
	const struct profile *const profile = maker->profile;
	const struct profile_location *const location = &profile->locations[at];
	const struct profile_mapping *const mapping = stack_names_mapping(profile, location);

	maker->build_ids[column] = "";
	maker->offsets[column] = 0;
	if (mapping != NULL) {
		maker->build_ids[column] =
			mapping->build_id[0] != '\0' ? mapping->build_id : mapping->path;
		maker->offsets[column] = stack_names_offset(mapping, location);
		return hash_fixed_combine(
			stack_names_hash(hash, maker->build_ids[column]), maker->offsets[column]);
	}
	for (uint32_t i = 0; i < location->frame_count; i++)
		hash = stack_names_hash(hash, profile->frames[location->first_frame + i].function);
	return hash_fixed_combine(hash, location->frame_count);
}

static uint64_t hash_stack(struct row_maker *maker, const struct profile_stack *stack)
{
	uint64_t hash = stack->depth;

	maker->build_ids = xgrow(maker->build_ids, &maker->build_id_capacity, stack->depth,
		sizeof *maker->build_ids);
	maker->offsets = xgrow(
		maker->offsets, &maker->offset_capacity, stack->depth, sizeof *maker->offsets);
	for (uint32_t i = 0; i < stack->depth; i++)
		hash = hash_location(maker, hash,
			maker->profile->stack_locations[stack->first + stack->depth - 1 - i], i);
	return hash;
}

/* frames (root first), build_ids and offsets. */
static const char *make_columns(struct row_maker *maker, const struct profile_stack *stack)
{
	struct buffer *const out = &maker->scratch;

	buffer_clear(out);
	clickhouse_append_texts(out, maker->namer.names, maker->namer.name_count);
	buffer_append_char(out, '\t');
	clickhouse_append_texts(out, maker->build_ids, stack->depth);
	buffer_append_char(out, '\t');
	clickhouse_append_numbers(out, maker->offsets, stack->depth);
	return arena_copy_text(&maker->rows->texts, out->data, out->size);
}

static uint32_t row_of(struct row_maker *maker, uint32_t at)
{
	struct fleet_rows *const rows = maker->rows;
	const struct profile_stack *const stack = &maker->profile->stacks[at];

	if (maker->of_stack[at] != PROFILE_NONE)
		return maker->of_stack[at];
	const uint64_t key = hash_stack(maker, stack);
	uint32_t row = u64_table_find(&maker->by_stack, key);
	if (row == U64_TABLE_NONE) {
		row = u64_table_add(&maker->by_stack, key);
		const uint64_t site = stack_namer_take(&maker->namer, stack);
		*XAPPEND(rows->items, rows->count, rows->capacity) = (struct fleet_row){
			.stack = key,
			.site = site,
			.columns = make_columns(maker, stack),
		};
		maker->sums = xgrow(
			maker->sums, &maker->sum_capacity, rows->count, 2 * sizeof *maker->sums);
		maker->sums[2 * row] = maker->sums[2 * row + 1] = (struct estimate){ 0 };
	}
	maker->of_stack[at] = row;
	return row;
}

/*
 * The samples of a row. Those of several lines are the ones that one line would need to have the
 * same estimates.
 */
static void set_samples(const struct profile *profile, uint64_t interval_bytes,
	struct fleet_row *row, const struct estimate sums[2], const double *counters)
{
	if (row->samples == 0 && profile->weighting == PROFILE_EXPONENTIAL) {
		row->samples = counters[PROFILE_INUSE_OBJECTS];
		row->sampled_bytes = counters[PROFILE_INUSE_SPACE];
		return;
	}
	const double mean = sums[1].value / sums[0].value;
	const double p = interval_bytes == 0 ? 1 : -expm1(-mean / (double)interval_bytes);
	row->samples = sums[0].value * p;
	row->sampled_bytes = sums[1].value * p;
}

static void add_sample(struct row_maker *maker, const struct profile_sample *sample)
{
	const double *const counters = sample->counters;
	struct estimate estimates[PROFILE_COUNTERS];

	if (counters[PROFILE_INUSE_OBJECTS] <= 0 || counters[PROFILE_INUSE_SPACE] <= 0)
		return;
	const uint32_t row = row_of(maker, sample->stack);
	unsample(maker->profile, counters, estimates);
	estimate_add(&maker->sums[2 * row], estimates[PROFILE_INUSE_OBJECTS]);
	estimate_add(&maker->sums[2 * row + 1], estimates[PROFILE_INUSE_SPACE]);
	set_samples(maker->profile, maker->rows->interval_bytes, &maker->rows->items[row],
		&maker->sums[2 * row], counters);
	maker->rows->inuse_bytes += estimates[PROFILE_INUSE_SPACE].value;
	maker->rows->inuse_variance += estimates[PROFILE_INUSE_SPACE].variance;
}

static bool check_kind(const struct profile *profile, struct error *err)
{
	if (profile->kind != PROFILE_HEAP)
		return error_set(err, ERROR_UNSUPPORTED,
			"%s is no heap profile: a fleet's store has only these", profile->name);
	if (profile->weighting == PROFILE_RATIO)
		return error_set(err, ERROR_UNSUPPORTED,
			"%s is of gperftools, whose samples have another law than jemalloc's and "
			"heapctl's: they cannot be added up",
			profile->name);
	return true;
}

static void maker_deinit(struct row_maker *maker)
{
	stack_namer_deinit(&maker->namer);
	u64_table_deinit(&maker->by_stack);
	buffer_deinit(&maker->scratch);
	free(maker->of_stack);
	free(maker->sums);
	free(maker->build_ids);
	free(maker->offsets);
}

bool fleet_rows_make(const struct profile *profile, struct fleet_rows *rows, struct error *err)
{
	if (!check_kind(profile, err))
		return false;
	CLEANUP(maker_deinit) struct row_maker maker = { .profile = profile, .rows = rows };
	if (!stack_namer_init(&maker.namer, profile, err))
		return false;
	*rows = (struct fleet_rows){ .interval_bytes =
					     profile->is_complete ? 1 : profile->interval_bytes };
	if (profile_lacks_errors(profile))
		rows->inuse_variance = NAN;
	arena_init(&rows->texts);
	u64_table_init(&maker.by_stack, hash_seed());
	buffer_init(&maker.scratch, &memory_or_exit);
	maker.of_stack = xreallocarray(NULL, profile->stack_count, sizeof *maker.of_stack);
	for (size_t i = 0; i < profile->stack_count; i++)
		maker.of_stack[i] = PROFILE_NONE;
	for (size_t i = 0; i < profile->sample_count; i++)
		add_sample(&maker, &profile->samples[i]);
	return true;
}

void fleet_rows_deinit(struct fleet_rows *rows)
{
	free(rows->items);
	arena_deinit(&rows->texts);
	*rows = (struct fleet_rows){ 0 };
}

void fleet_append_stack(struct buffer *out, const struct fleet_row *row)
{
	buffer_printf(out, "%" PRIu64 "\t%" PRIu64 "\t%s\n", row->stack, row->site, row->columns);
}

/*
 * service, version, host, pid, started, ts and snapshot, with a tab behind each. Times have ten
 * digits, also 0: 18.16 takes a shorter one for the begin of a date where its buffer ends.
 */
static void append_key(struct buffer *out, const struct fleet_snapshot *snapshot)
{
	const struct snapshot_identity *const identity = &snapshot->identity;
	const char *const texts[] = { identity->service, identity->version, identity->host };

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		clickhouse_append_column(out, texts[i]);
		buffer_append_char(out, '\t');
	}
	buffer_printf(out, "%" PRId64 "\t%010" PRId64 "\t%010" PRId64 "\t%" PRId64 "\t",
		snapshot->pid, snapshot->started_ms / 1000, snapshot->time_ms / 1000,
		snapshot->time_ms);
}

void fleet_append_samples(
	struct buffer *out, const struct fleet_snapshot *snapshot, const struct fleet_rows *rows)
{
	CLEANUP(buffer_deinit) struct buffer key = BUFFER_OR_EXIT;

	append_key(&key, snapshot);
	for (size_t i = 0; i < rows->count; i++) {
		const struct fleet_row *const row = &rows->items[i];
		buffer_append(out, key.data, key.size);
		buffer_printf(out, "%" PRIu64 "\t", row->stack);
		clickhouse_append_real(out, row->samples);
		buffer_append_char(out, '\t');
		clickhouse_append_real(out, row->sampled_bytes);
		buffer_printf(out, "\t%" PRIu64 "\n", rows->interval_bytes);
	}
}

static void append_labels(struct buffer *out, const struct snapshot_identity *identity)
{
	const char *names[IDENTITY_LABELS], *values[IDENTITY_LABELS];

	for (size_t i = 0; i < identity->label_count; i++) {
		names[i] = identity->labels[i].name;
		values[i] = identity->labels[i].value;
	}
	clickhouse_append_texts(out, names, identity->label_count);
	buffer_append_char(out, '\t');
	clickhouse_append_texts(out, values, identity->label_count);
}

void fleet_append_profile(
	struct buffer *out, const struct fleet_snapshot *snapshot, const struct fleet_rows *rows)
{
	append_key(out, snapshot);
	buffer_printf(out, "%zu\t", rows->count);
	clickhouse_append_real(out, rows->inuse_bytes);
	buffer_append_char(out, '\t');
	clickhouse_append_real(out, rows->inuse_variance);
	buffer_printf(out, "\t%" PRIu64, rows->interval_bytes);
	for (size_t i = 0; i < FIGURES; i++)
		buffer_printf(out, "\t%" PRIu64, snapshot->bytes[i]);
	buffer_append_char(out, '\t');
	clickhouse_append_column(out, snapshot->reason == NULL ? "" : snapshot->reason);
	buffer_append_char(out, '\t');
	append_labels(out, &snapshot->identity);
	buffer_append_char(out, '\n');
}
