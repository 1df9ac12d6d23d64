/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/sender.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"
#include "fleet/growth_days.h"
#include "fleet/schema.h"

/*
 * Fewer rows than the million in which ClickHouse divides an insert: a snapshot is whole or not
 * there. A single snapshot above that is sent as it is.
 */
enum { BATCH_SNAPSHOTS = 64, BATCH_BYTES = 8 << 20 };

/* A day that an earlier sender did not sum is found within a week. */
#define DAY_MS INT64_C(86400000)
#define SUMMED_AGAIN_MS (7 * DAY_MS)

struct batch_item {
	int64_t id;
	char service[128];
	int64_t pid, started_s, time_ms;
	size_t row_count;
	char *samples, *profile; /* lines */
	size_t samples_size;
	bool has_samples, has_profile; /* in the database */
	bool was_there;		       /* before the first attempt */
};

struct sender {
	struct clickhouse *clickhouse;
	struct sender_options options;
	char host[256]; /* of the batch */
	struct batch_item items[BATCH_SNAPSHOTS];
	size_t count, bytes;
	bool is_tried;		   /* the batch */
	struct buffer stacks;	   /* lines of those that were not sent */
	struct u64_table is_known; /* stacks that were sent, or will be with the batch */
	bool is_checked;	   /* the tables are ours */
	int64_t made_s;		   /* when they were made */
	int64_t earliest_ms;	   /* of the host's snapshots since its days were summed; 0: none */
	int64_t summed_day;	   /* when that was, in days since 1970 */
};

struct sender *sender_new(struct clickhouse *clickhouse, const struct sender_options *options)
{
	struct sender *const sender = xcalloc(1, sizeof *sender);

	sender->clickhouse = clickhouse;
	clickhouse_begin_writing(clickhouse);
	sender->options = *options;
	buffer_init(&sender->stacks, &memory_or_exit);
	u64_table_init(&sender->is_known, hash_seed());
	return sender;
}

static void forget_stacks(struct sender *sender)
{
	u64_table_deinit(&sender->is_known);
	u64_table_init(&sender->is_known, hash_seed());
}

static void clear_batch(struct sender *sender)
{
	for (size_t i = 0; i < sender->count; i++) {
		free(sender->items[i].samples);
		free(sender->items[i].profile);
	}
	sender->count = sender->bytes = 0;
	sender->is_tried = false;
	buffer_clear(&sender->stacks);
}

void sender_free(struct sender *sender)
{
	if (sender == NULL)
		return;
	clear_batch(sender);
	buffer_deinit(&sender->stacks);
	u64_table_deinit(&sender->is_known);
	free(sender);
}

/* Whether an earlier item is of the same service. */
static bool is_service_again(const struct sender *sender, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(sender->items[i].service, sender->items[at].service) == 0)
			return true;
	return false;
}

/* A condition for all snapshots of the batch. */
static void append_keys(struct buffer *out, const struct sender *sender)
{
	int64_t first_ms = INT64_MAX, last_ms = 0;
	const char *comma = "";

	buffer_append_string(out, " WHERE service IN (");
	for (size_t i = 0; i < sender->count; i++) {
		if (is_service_again(sender, i))
			continue;
		buffer_append_string(out, comma);
		clickhouse_append_quoted(out, sender->items[i].service);
		comma = ",";
	}
	buffer_append_string(out, ") AND host = ");
	clickhouse_append_quoted(out, sender->host);
	buffer_append_string(out, " AND (pid, toUInt32(started), snapshot) IN (");
	for (size_t i = 0; i < sender->count; i++) {
		const struct batch_item *const item = &sender->items[i];
		buffer_printf(out, "%s(%" PRId64 ",%" PRId64 ",%" PRId64 ")", i == 0 ? "" : ",",
			item->pid, item->started_s, item->time_ms);
		first_ms = item->time_ms < first_ms ? item->time_ms : first_ms;
		last_ms = item->time_ms > last_ms ? item->time_ms : last_ms;
	}
	/* For the partitions and the order of the rows. */
	buffer_printf(out,
		") AND ts BETWEEN toDateTime(%" PRId64 ") AND toDateTime(%" PRId64 ")"
		" GROUP BY service, pid, started, snapshot",
		first_ms / 1000, last_ms / 1000);
}

/* The number of stacks that each snapshot has in a table; 1 of those in `profile`. */
static bool ask(struct sender *sender, const char *table, const char *count, json_t **rows,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;

	buffer_printf(&query, "SELECT service, pid, toUInt32(started), snapshot, %s FROM %s", count,
		table);
	append_keys(&query, sender);
	return clickhouse_select(sender->clickhouse, buffer_string(&query), "suuuu", rows, err);
}

static struct batch_item *find_item(struct sender *sender, const json_t *row)
{
	for (size_t i = 0; i < sender->count; i++) {
		struct batch_item *const item = &sender->items[i];
		if (strcmp(item->service, clickhouse_text(row, 0)) == 0 &&
			(uint64_t)item->pid == clickhouse_unsigned(row, 1) &&
			(uint64_t)item->started_s == clickhouse_unsigned(row, 2) &&
			(uint64_t)item->time_ms == clickhouse_unsigned(row, 3))
			return item;
	}
	return NULL;
}

/* What of the batch is there already. */
static bool find_sent(struct sender *sender, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *profiles = NULL;
	CLEANUP(clickhouse_rows_cleanup) json_t *samples = NULL;
	size_t index;
	json_t *row;

	if (!ask(sender, "profile", "toUInt64(1)", &profiles, err) ||
		!ask(sender, "sample", "uniqExact(stack)", &samples, err))
		return false;
	json_array_foreach(profiles, index, row)
	{
		struct batch_item *const item = find_item(sender, row);
		if (item != NULL)
			item->has_profile = true;
	}
	json_array_foreach(samples, index, row)
	{
		struct batch_item *const item = find_item(sender, row);
		if (item != NULL)
			item->has_samples = clickhouse_unsigned(row, 4) >= item->row_count;
	}
	return true;
}

static bool insert(
	struct sender *sender, const char *statement, const struct buffer *rows, struct error *err)
{
	char id[64];

	if (rows->size == 0)
		return true;
	snprintf(id, sizeof id, "heapctl-send-%016" PRIx64,
		hash_fixed_bytes(sender->host, strlen(sender->host)));
	return clickhouse_insert(sender->clickhouse, statement, rows, id, err);
}

#define KEY "service, version, host, pid, started, ts, snapshot, "

static bool send_once(void *context, struct error *err)
{
	struct sender *const sender = context;
	CLEANUP(buffer_deinit) struct buffer samples = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer profiles = BUFFER_OR_EXIT;

	if (!find_sent(sender, err))
		return false;
	for (size_t i = 0; !sender->is_tried && i < sender->count; i++)
		sender->items[i].was_there = sender->items[i].has_profile;
	sender->is_tried = true;
	for (size_t i = 0; i < sender->count; i++) {
		const struct batch_item *const item = &sender->items[i];
		if (!item->has_profile && !item->has_samples)
			buffer_append(&samples, item->samples, item->samples_size);
		if (!item->has_profile)
			buffer_append_string(&profiles, item->profile);
	}
	return insert(sender,
		       "INSERT INTO stack (stack, site, frames, build_ids, offsets) "
		       "FORMAT TabSeparated",
		       &sender->stacks, err) &&
	       insert(sender,
		       "INSERT INTO sample (" KEY "stack, samples, sampled_bytes, "
		       "sampling_interval) FORMAT TabSeparated",
		       &samples, err) &&
	       insert(sender,
		       "INSERT INTO profile (" KEY "stacks, inuse_bytes, inuse_variance, "
		       "sampling_interval, allocated, active, metadata, resident, mapped, "
		       "retained, rss, reason, label_names, label_values) FORMAT TabSeparated",
		       &profiles, err);
}

/* The tables, before the first batch: whether they are ours, and those that know our stacks. */
static bool check_tables(void *context, struct error *err)
{
	struct sender *const sender = context;
	int64_t made_s = 0;

	if (!schema_check(sender->clickhouse, &made_s, err))
		return false;
	sender->is_checked = true;
	if (made_s != sender->made_s)
		forget_stacks(sender);
	sender->made_s = made_s;
	return true;
}

static void note_times(struct sender *sender)
{
	for (size_t i = 0; i < sender->count; i++) {
		const int64_t time_ms = sender->items[i].time_ms;
		if (sender->earliest_ms == 0 || time_ms < sender->earliest_ms)
			sender->earliest_ms = time_ms;
	}
}

static bool flush_batch(struct sender *sender, struct error *err)
{
	if (sender->count == 0)
		return true;
	const bool is_sent = fleet_retry_run(&sender->options.retry, send_once, sender, err);
	for (size_t i = 0; is_sent && i < sender->count; i++)
		sender->options.sent(
			sender->options.context, sender->items[i].id, sender->items[i].was_there);
	/* Stacks of the batch may not have arrived. */
	if (is_sent)
		note_times(sender);
	else
		forget_stacks(sender);
	clear_batch(sender);
	return is_sent;
}

static bool sum_days(void *context, struct error *err)
{
	struct sender *const sender = context;
	const int64_t now_ms = clock_realtime_ms();
	const int64_t since_ms = now_ms - SUMMED_AGAIN_MS;

	return growth_days_sum(sender->clickhouse, sender->host,
		sender->earliest_ms < since_ms ? sender->earliest_ms : since_ms, now_ms, err);
}

/* The host's past days, at its first snapshots of a day and when there are some of past ones. */
static bool sum_host(struct sender *sender, struct error *err)
{
	const int64_t today = clock_realtime_ms() / DAY_MS;

	if (sender->earliest_ms == 0 ||
		(sender->summed_day == today && sender->earliest_ms / DAY_MS >= today))
		return true;
	if (!fleet_retry_run(&sender->options.retry, sum_days, sender, err))
		return false;
	sender->earliest_ms = 0;
	sender->summed_day = today;
	return true;
}

bool sender_flush(struct sender *sender, struct error *err)
{
	return flush_batch(sender, err) && sum_host(sender, err);
}

void sender_recheck(struct sender *sender)
{
	sender->is_checked = false;
}

static bool is_in_batch(const struct sender *sender, const struct fleet_snapshot *snapshot)
{
	for (size_t i = 0; i < sender->count; i++)
		if (strcmp(sender->items[i].service, snapshot->identity.service) == 0 &&
			sender->items[i].pid == snapshot->pid &&
			sender->items[i].started_s == snapshot->started_ms / 1000 &&
			sender->items[i].time_ms == snapshot->time_ms)
			return true;
	return false;
}

static char *line_of(struct buffer *text, size_t *size)
{
	*size = text->size;
	return text->size == 0 ? xstrdup("") : buffer_take(text);
}

static void add_item(struct sender *sender, int64_t id, const struct fleet_snapshot *snapshot,
	const struct fleet_rows *rows)
{
	CLEANUP(buffer_deinit) struct buffer samples = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer profile = BUFFER_OR_EXIT;
	struct batch_item *const item = &sender->items[sender->count++];
	size_t profile_size;

	fleet_append_samples(&samples, snapshot, rows);
	fleet_append_profile(&profile, snapshot, rows);
	*item = (struct batch_item){
		.id = id,
		.pid = snapshot->pid,
		.started_s = snapshot->started_ms / 1000,
		.time_ms = snapshot->time_ms,
		.row_count = rows->count,
	};
	snprintf(item->service, sizeof item->service, "%s", snapshot->identity.service);
	item->samples = line_of(&samples, &item->samples_size);
	item->profile = line_of(&profile, &profile_size);
	sender->bytes += item->samples_size;
	for (size_t i = 0; i < rows->count; i++) {
		const uint64_t stack = rows->items[i].stack;
		if (u64_table_find(&sender->is_known, stack) != U64_TABLE_NONE)
			continue;
		u64_table_add(&sender->is_known, stack);
		fleet_append_stack(&sender->stacks, &rows->items[i]);
	}
}

bool sender_add(struct sender *sender, int64_t id, const struct fleet_snapshot *snapshot,
	const struct fleet_rows *rows, struct error *err)
{
	if (strcmp(sender->host, snapshot->identity.host) != 0) {
		if (!sender_flush(sender, err))
			return false;
		sender->earliest_ms = sender->summed_day = 0;
	} else if (sender->count != 0 &&
		   (is_in_batch(sender, snapshot) || sender->count == BATCH_SNAPSHOTS ||
			   sender->bytes > BATCH_BYTES) &&
		   !flush_batch(sender, err)) {
		return false;
	}
	if (!sender->is_checked &&
		!fleet_retry_run(&sender->options.retry, check_tables, sender, err))
		return false;
	snprintf(sender->host, sizeof sender->host, "%s", snapshot->identity.host);
	add_item(sender, id, snapshot, rows);
	return true;
}
