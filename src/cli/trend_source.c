/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cli/trend_time.h"
#include "cli/verb.h"
#include "source/source_series.h"

struct trend_load {
	struct report_session *session;
	struct series *series;
	struct trend_time *times; /* of profiles that do not tell theirs */
	size_t time_count, time_capacity;
};

static void load_deinit(struct trend_load *load)
{
	free(load->times);
}

static void add_profile(void *context, const struct source *source, struct profile *profile)
{
	struct trend_load *const load = context;
	struct report_session *const session = load->session;

	if (profile->time_ms == 0 && source->file_time_ms != 0) {
		load->times = xgrow(load->times, &load->time_capacity, load->time_count + 1,
			sizeof *load->times);
		load->times[load->time_count++] = (struct trend_time){ load->series->profile_count,
			source->file_time_ms, trend_time_in_name(source->path) };
	}
	if (load->series->profile_count == 0)
		snprintf(session->process_name, sizeof session->process_name, "%s",
			source->program_name);
	if (source->options.needs_agent)
		session->pid = source->pid;
	series_add(load->series, profile);
}

static int by_time(const void *a, const void *b)
{
	const struct series_profile *const x = a, *const y = b;

	return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static void warn_of_time(const struct series_profile *profile, const struct series_profile *same)
{
	static const char *const so =
		"their order is that of the command line, growth is per profile";

	if (profile->time_ms == 0)
		verb_warn("the profiles do not all tell when they were taken (%s): %s",
			profile->name, so);
	else
		verb_warn("%s and %s are of the same time: %s", same->name, profile->name, so);
}

/* Only times that are all known and all differ are an order; files copied at once have none. */
static void sort(struct series *series)
{
	const size_t count = series->profile_count;
	CLEANUP(free_cleanup) struct series_profile *sorted = xcalloc(count, sizeof *sorted);

	memcpy(sorted, series->profiles, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, by_time);
	for (size_t i = 0; i < count; i++) {
		const bool is_same = i != 0 && sorted[i].time_ms == sorted[i - 1].time_ms;
		if (sorted[i].time_ms == 0 || is_same) {
			warn_of_time(&sorted[i], is_same ? &sorted[i - 1] : NULL);
			for (size_t j = 0; j < count; j++)
				series->profiles[j].time_ms = 0;
			return;
		}
	}
	memcpy(series->profiles, sorted, count * sizeof *sorted);
}

static bool read_all(struct report_session *session, struct series *series, char *const *operands,
	size_t count, struct source_series *reader, struct error *err)
{
	CLEANUP(load_deinit) struct trend_load load = { .session = session, .series = series };

	*reader = (struct source_series){
		.options = report_session_source_options(session),
		.is_only = count == 1,
		.add = add_profile,
		.context = &load,
	};
	/* Nothing in a trend is about single threads. */
	reader->options.leaves_out_threads = true;
	reader->options.needs_agent = count == 1;
	for (size_t i = 0; i < count; i++) {
		if (!source_series_read(reader, operands[i], err))
			return false;
	}
	if (trend_time_set(series, load.times, load.time_count))
		verb_warn("the files' times are not those in their names, as after copying "
			  "without -p: those in the names count");
	return true;
}

static bool refuse_few(const struct series *series, size_t damaged_count, struct error *err)
{
	if (damaged_count == 0)
		error_set(err, ERROR_USAGE, "a trend takes several profiles");
	else if (series->profile_count == 0)
		return error_set(err, ERROR_INPUT, "none of the profiles can be read");
	else
		error_set(err, ERROR_INPUT, "a trend takes several profiles, and only %s is whole",
			series->profiles[0].name);
	return error_hint(err, "heapctl report shows a single one");
}

bool trend_source_load(struct report_session *session, struct series *series, struct error *err)
{
	const struct report_options *const options = session->options;
	char *const *operands = options->operands;
	size_t count = options->operand_count;
	struct source_series reader;

	if (source_is_program(operands[0])) {
		session->program = operands[0];
		operands++;
		count--;
	}
	if (!read_all(session, series, operands, count, &reader, err))
		return false;
	if (series->profile_count < 2)
		return refuse_few(series, reader.damaged_count, err);
	session->damaged_count = reader.damaged_count;
	sort(series);
	series_settle(series);
	session->borrows_profiles = true;
	for (size_t i = 0; i < series->shared_count; i++)
		report_session_add(session, series->shared[i]);
	return true;
}
