/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void history_deinit(struct history *history)
{
	free(history->samples);
	free(history->misses);
	*history = (struct history){ 0 };
}

static const struct history_sample *newest(const struct history *history)
{
	const size_t last = (history->next + HISTORY_SAMPLES_MAX - 1) % HISTORY_SAMPLES_MAX;

	return history->count == 0 ? NULL : &history->samples[last];
}

bool history_is_due(const struct history *history, int64_t now_ms)
{
	const struct history_sample *const last = newest(history);

	/* A clock that was set back must not stop the curves. */
	return last == NULL || now_ms < last->time_ms ||
	       now_ms - last->time_ms >= HISTORY_STEP_MS - HISTORY_STEP_MS / 10;
}

void history_add(struct history *history, const struct history_sample *sample)
{
	if (history->samples == NULL)
		history->samples = xcalloc(HISTORY_SAMPLES_MAX, sizeof *history->samples);
	history->samples[history->next] = *sample;
	history->next = (history->next + 1) % HISTORY_SAMPLES_MAX;
	if (history->count < HISTORY_SAMPLES_MAX)
		history->count++;
}

void history_add_miss(struct history *history, int64_t time_ms, const char *reason)
{
	const struct history_sample *const sample = newest(history);
	const size_t last = (history->miss_next + HISTORY_MISSES_MAX - 1) % HISTORY_MISSES_MAX;
	struct history_miss miss = { .time_ms = time_ms };

	if (history->misses == NULL)
		history->misses = xcalloc(HISTORY_MISSES_MAX, sizeof *history->misses);
	snprintf(miss.reason, sizeof miss.reason, "%s", reason);
	if (history->miss_count > 0 && strcmp(history->misses[last].reason, miss.reason) == 0 &&
		(sample == NULL || history->misses[last].time_ms > sample->time_ms))
		return;
	history->misses[history->miss_next] = miss;
	history->miss_next = (history->miss_next + 1) % HISTORY_MISSES_MAX;
	if (history->miss_count < HISTORY_MISSES_MAX)
		history->miss_count++;
}

static void write_misses(const struct history *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->miss_next + HISTORY_MISSES_MAX - history->miss_count;

	json_key(json, "misses");
	json_array_begin(json);
	for (size_t i = 0; i < history->miss_count; i++) {
		const struct history_miss *const miss =
			&history->misses[(first + i) % HISTORY_MISSES_MAX];
		if (miss->time_ms <= since_ms)
			continue;
		json_array_begin(json);
		json_put_integer(json, miss->time_ms);
		json_put_string(json, miss->reason);
		json_array_end(json);
	}
	json_array_end(json);
}

static void write_sample(const struct history_sample *sample, struct json_writer *json)
{
	json_array_begin(json);
	json_put_integer(json, sample->time_ms);
	for (size_t i = 0; i < FIGURES; i++)
		json_put_unsigned(json, sample->bytes[i]);
	json_array_end(json);
}

void history_write(const struct history *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->next + HISTORY_SAMPLES_MAX - history->count;

	json_object_begin(json);
	json_key(json, "figures");
	json_array_begin(json);
	for (size_t i = 0; i < FIGURES; i++)
		json_put_string(json, memory_figure_names[i]);
	json_array_end(json);
	json_key(json, "samples");
	json_array_begin(json);
	for (size_t i = 0; i < history->count; i++) {
		const struct history_sample *const sample =
			&history->samples[(first + i) % HISTORY_SAMPLES_MAX];
		if (sample->time_ms > since_ms)
			write_sample(sample, json);
	}
	json_array_end(json);
	write_misses(history, since_ms, json);
	json_object_end(json);
}
