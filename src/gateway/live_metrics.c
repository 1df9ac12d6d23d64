/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/live_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void live_metrics_deinit(struct live_metrics *history)
{
	free(history->samples);
	free(history->misses);
	*history = (struct live_metrics){ 0 };
}

static const struct live_sample *newest(const struct live_metrics *history)
{
	const size_t last =
		(history->next + LIVE_METRICS_SAMPLES_MAX - 1) % LIVE_METRICS_SAMPLES_MAX;

	return history->count == 0 ? NULL : &history->samples[last];
}

bool live_metrics_is_due(const struct live_metrics *history, int64_t now_ms)
{
	const struct live_sample *const last = newest(history);

	/* A clock that was set back must not stop the curves. */
	return last == NULL || now_ms < last->time_ms ||
	       now_ms - last->time_ms >= LIVE_METRICS_STEP_MS - LIVE_METRICS_STEP_MS / 10;
}

void live_metrics_add(struct live_metrics *history, const struct live_sample *sample)
{
	if (history->samples == NULL)
		history->samples = xcalloc(LIVE_METRICS_SAMPLES_MAX, sizeof *history->samples);
	history->samples[history->next] = *sample;
	history->next = (history->next + 1) % LIVE_METRICS_SAMPLES_MAX;
	if (history->count < LIVE_METRICS_SAMPLES_MAX)
		history->count++;
}

void live_metrics_add_miss(struct live_metrics *history, int64_t time_ms, const char *reason)
{
	const struct live_sample *const sample = newest(history);
	const size_t last =
		(history->miss_next + LIVE_METRICS_MISSES_MAX - 1) % LIVE_METRICS_MISSES_MAX;
	struct live_miss miss = { .time_ms = time_ms };

	if (history->misses == NULL)
		history->misses = xcalloc(LIVE_METRICS_MISSES_MAX, sizeof *history->misses);
	snprintf(miss.reason, sizeof miss.reason, "%s", reason);
	if (history->miss_count > 0 && strcmp(history->misses[last].reason, miss.reason) == 0 &&
		(sample == NULL || history->misses[last].time_ms > sample->time_ms))
		return;
	history->misses[history->miss_next] = miss;
	history->miss_next = (history->miss_next + 1) % LIVE_METRICS_MISSES_MAX;
	if (history->miss_count < LIVE_METRICS_MISSES_MAX)
		history->miss_count++;
}

static void write_misses(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->miss_next + LIVE_METRICS_MISSES_MAX - history->miss_count;

	json_member_array(json, "misses");
	for (size_t i = 0; i < history->miss_count; i++) {
		const struct live_miss *const miss =
			&history->misses[(first + i) % LIVE_METRICS_MISSES_MAX];
		if (miss->time_ms <= since_ms)
			continue;
		json_array_begin(json);
		json_put_integer(json, miss->time_ms);
		json_put_string(json, miss->reason);
		json_array_end(json);
	}
	json_array_end(json);
}

static void write_sample(const struct live_sample *sample, struct json_writer *json)
{
	json_array_begin(json);
	json_put_integer(json, sample->time_ms);
	for (size_t i = 0; i < FIGURES; i++)
		json_put_unsigned(json, sample->bytes[i]);
	json_array_end(json);
}

void live_metrics_write(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->next + LIVE_METRICS_SAMPLES_MAX - history->count;

	json_object_begin(json);
	json_member_array(json, "figures");
	for (size_t i = 0; i < FIGURES; i++)
		json_put_string(json, memory_figure_names[i]);
	json_array_end(json);
	json_member_array(json, "samples");
	for (size_t i = 0; i < history->count; i++) {
		const struct live_sample *const sample =
			&history->samples[(first + i) % LIVE_METRICS_SAMPLES_MAX];
		if (sample->time_ms > since_ms)
			write_sample(sample, json);
	}
	json_array_end(json);
	write_misses(history, since_ms, json);
	json_object_end(json);
}
