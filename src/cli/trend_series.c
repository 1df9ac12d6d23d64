/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_series.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/verb.h"
#include "source/source_series.h"

/*
 * When profiles without a time of their own were taken. A file's modification time
 * is that moment, to the nanosecond, until the file is copied without it (scp, cp, an archive of
 * some web page): then growth per hour would be that of copying. The names that heapctl gives
 * (dump, record, watch) have the moment in whole seconds.
 */
struct trend_time {
	size_t profile;	  /* in the series; its time_ms is set */
	int64_t file_ms;  /* modification time of its file */
	int64_t named_ms; /* the time in its name; 0 when there is none */
};

/* The end of a run and the name of its file may lie apart by its length, which differs little. */
enum { MAX_DRIFT_MS = 60 * 1000, MOMENT_SIZE = 15 };

/* "20261121-101500" or "20261121T101500Z". */
static int64_t read_moment(const char *text)
{
	struct tm parts = { .tm_isdst = -1 };
	const bool is_universal = text[8] == 'T' && text[MOMENT_SIZE] == 'Z';

	/* strptime(3) would take blanks and fewer digits. */
	if (strspn(text, "0123456789") != 8 || strspn(text + 9, "0123456789") != 6 ||
		strptime(text, is_universal ? "%Y%m%dT%H%M%S" : "%Y%m%d-%H%M%S", &parts) !=
			text + MOMENT_SIZE)
		return 0;
	const time_t seconds = is_universal ? timegm(&parts) : mktime(&parts);
	return seconds <= 0 ? 0 : (int64_t)seconds * 1000;
}

/*
 * The moment in a name such as "redis-server.4711.20261121-101500.heap" (local time) or
 * "00000012-20261121T101500Z-resident-redis-server.heap"; 0 when there is none.
 */
static int64_t time_in_name(const char *path)
{
	const char *const name = path_base_name(path);
	const size_t size = strlen(name);
	int64_t moment_ms = 0;

	/* The last one: the program's name before it may be anything. */
	for (size_t at = 1; at + MOMENT_SIZE < size; at++) {
		const bool begins = name[at - 1] == '.' || name[at - 1] == '-';
		const int64_t here_ms = begins ? read_moment(name + at) : 0;
		moment_ms = here_ms != 0 ? here_ms : moment_ms;
	}
	return moment_ms;
}

/* A constant difference is a time zone, or the length of runs. */
static bool names_differ(const struct trend_time *times, size_t count)
{
	int64_t min = 0, max = 0;

	for (size_t i = 0; i < count; i++) {
		const int64_t late_ms = times[i].file_ms - times[i].named_ms;
		if (times[i].named_ms == 0)
			return false;
		min = i == 0 || late_ms < min ? late_ms : min;
		max = i == 0 || late_ms > max ? late_ms : max;
	}
	return max - min > MAX_DRIFT_MS;
}

/*
 * Sets the times of all: of the names where every file has one and the files' own times differ
 * from them, else of the files. True when it is those of the names.
 */
static bool set_times(struct series *series, const struct trend_time *times, size_t count)
{
	const bool by_name = names_differ(times, count);

	for (size_t i = 0; i < count; i++)
		series->profiles[times[i].profile].time_ms =
			by_name ? times[i].named_ms : times[i].file_ms;
	return by_name;
}

struct trend_file {
	dev_t device;
	ino_t inode;
};

struct trend_load {
	struct report_session *session;
	struct series *series;
	struct trend_notes *notes;
	struct trend_time *times; /* of profiles without their own */
	size_t time_count, time_capacity;
	struct trend_file *files; /* of one profile each, that were read */
	size_t file_count, file_capacity;
};

static void load_deinit(struct trend_load *load)
{
	free(load->times);
	free(load->files);
}

/* By another name, too, as links have. */
static bool is_file_again(struct trend_load *load, const struct source *source)
{
	struct stat status;

	if (source->path == NULL || source->kind == SOURCE_SERIES ||
		stat(source->path, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	for (size_t i = 0; i < load->file_count; i++) {
		if (load->files[i].device == status.st_dev && load->files[i].inode == status.st_ino)
			return true;
	}
	*XAPPEND(load->files, load->file_count, load->file_capacity) =
		(struct trend_file){ status.st_dev, status.st_ino };
	return false;
}

static void add_profile(void *context, const struct source *source, struct profile *profile)
{
	struct trend_load *const load = context;
	struct report_session *const session = load->session;

	if (is_file_again(load, source)) {
		verb_warn("%s is given twice: it is used once", profile->name);
		profile_free(profile);
		return;
	}
	const pid_t pid = source_pid_of_file(profile->name);
	if (profile->time_ms == 0 && source->file_time_ms != 0) {
		*XAPPEND(load->times, load->time_count, load->time_capacity) =
			(struct trend_time){ load->series->profile_count, source->file_time_ms,
				time_in_name(source->path) };
	}
	if (load->series->profile_count == 0)
		snprintf(session->process_name, sizeof session->process_name, "%s",
			source->program_name[0] != '\0' ? source->program_name
							: profile->process_name);
	if (source->options.needs_agent)
		session->pid = source->pid;
	series_add(load->series, profile);
	load->series->profiles[load->series->profile_count - 1].pid = pid;
}

static void add_note(void *context, int64_t time_ms, const char *text)
{
	const struct trend_load *const load = context;
	struct trend_notes *const notes = load->notes;

	*XAPPEND(notes->items, notes->count, notes->capacity) =
		(struct trend_note){ .time_ms = time_ms, .text = xstrdup(text) };
}

static int by_time(const void *a, const void *b)
{
	const struct series_profile *const x = a, *const y = b;

	return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static int by_dump_number(const void *a, const void *b)
{
	const struct series_profile *const x = a, *const y = b;

	return strverscmp(x->name, y->name);
}

/* By the names that jemalloc gives: PREFIX.PID.NUMBER.iNUMBER.heap. How many bytes precede NUMBER.
 */
static size_t read_dump_name(const char *name)
{
	regmatch_t parts[2];
	regex_t dump;
	size_t size = 0;

	if (regcomp(&dump, "^(.*\\.)[0-9]+\\.[a-z][0-9]*\\.heap", REG_EXTENDED) != 0)
		return 0;
	if (regexec(&dump, name, 2, parts, 0) == 0)
		size = (size_t)parts[1].rm_eo;
	regfree(&dump);
	return size;
}

static bool are_dumps_of_one_process(const struct series *series)
{
	const char *const first = series->profiles[0].name;
	const size_t size = read_dump_name(first);

	for (size_t i = 0; i < series->profile_count; i++) {
		const char *const name = series->profiles[i].name;
		if (size == 0 || read_dump_name(name) != size || memcmp(name, first, size) != 0)
			return false;
	}
	return true;
}

static void warn_of_time(
	const struct series_profile *profile, const struct series_profile *same, const char *order)
{
	if (profile->time_ms <= 0)
		verb_warn("not all profiles say when they were taken (%s): their order is that of "
			  "%s, growth is per profile",
			profile->name, order);
	else
		verb_warn("%s and %s are of the same time: their order is that of %s, growth is "
			  "per profile",
			same->name, profile->name, order);
}

/* Without times of all the dumps of a process are in the order of their numbers. */
static void sort_without_times(struct series *series, const struct series_profile *profile,
	const struct series_profile *same)
{
	const bool are_dumps = are_dumps_of_one_process(series);

	warn_of_time(profile, same,
		are_dumps ? "their numbers" : "the command line, or of their names in a folder");
	for (size_t i = 0; i < series->profile_count; i++)
		series->profiles[i].time_ms = 0;
	if (are_dumps)
		qsort(series->profiles, series->profile_count, sizeof *series->profiles,
			by_dump_number);
}

/* A clock that was wrong by less is not worth a warning. */
enum { MAX_CLOCK_ERROR_MS = 3600 * 1000 };

static void warn_of_future(const struct series_profile *last)
{
	char when[CONTROL_TIME_BYTES];

	if (last->time_ms > (int64_t)time(NULL) * 1000 + MAX_CLOCK_ERROR_MS)
		verb_warn(
			"%s is of the future (%s): if its time is wrong, so are onsets and growth "
			"per hour (touch -d sets the time of a file)",
			last->name, control_format_time(last->time_ms, when));
}

/* Of the profiles of one time only the one with the most stacks is kept. */
static void remove_same_times(struct series *series)
{
	for (size_t i = 1; i < series->profile_count;) {
		const struct series_profile *const before = &series->profiles[i - 1],
						   *const profile = &series->profiles[i];
		if (profile->time_ms != before->time_ms) {
			i++;
			continue;
		}
		const bool is_larger = profile->line_count > before->line_count;
		verb_warn("%s and %s are of the same time: %s is left out", before->name,
			profile->name, is_larger ? before->name : profile->name);
		series_remove(series, is_larger ? i - 1 : i);
	}
}

/*
 * Only times that are all known, after 1970, and nearly all differ are an order; files copied at
 * once have none.
 */
static void sort(struct series *series)
{
	const double min_share = 0.75; /* of different times */
	const size_t count = series->profile_count;
	CLEANUP(free_cleanup) struct series_profile *sorted = xcalloc(count, sizeof *sorted);
	size_t same = 0, same_count = 0;

	memcpy(sorted, series->profiles, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, by_time);
	if (sorted[0].time_ms <= 0) {
		sort_without_times(series, &sorted[0], NULL);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		if (sorted[i].time_ms != sorted[i - 1].time_ms)
			continue;
		same = same_count++ == 0 ? i : same;
	}
	if ((double)(count - same_count) < min_share * (double)count) {
		sort_without_times(series, &sorted[same], &sorted[same - 1]);
		return;
	}
	memcpy(series->profiles, sorted, count * sizeof *sorted);
	remove_same_times(series);
	warn_of_future(&series->profiles[series->profile_count - 1]);
}

/* Collapsed stacks, say: what they have was sampled, or not. */
static void warn_of_unknown_interval(const struct series *series)
{
	for (size_t i = 0; i < series->profile_count; i++) {
		const struct series_profile *const profile = &series->profiles[i];
		if (profile->interval_bytes != 0 ||
			series->shared[profile->shared]->kind != PROFILE_HEAP)
			continue;
		verb_warn("%s does not say how it was sampled: it is taken for exact, so that ± is "
			  "too small if it was",
			profile->name);
		return;
	}
}

static bool read_all(struct report_session *session, struct series *series,
	struct trend_notes *notes, char *const *operands, size_t count,
	struct source_series *reader, struct error *err)
{
	CLEANUP(load_deinit)
	struct trend_load load = { .session = session, .series = series, .notes = notes };

	*reader = (struct source_series){
		.options = report_session_source_options(session),
		.is_only = count == 1,
		.add = add_profile,
		.add_note = add_note,
		.context = &load,
	};
	/* Nothing in a trend is about single threads. */
	reader->options.leaves_out_threads = true;
	reader->options.needs_agent = count == 1;
	for (size_t i = 0; i < count; i++) {
		if (!source_series_read(reader, operands[i], err))
			return false;
	}
	if (set_times(series, load.times, load.time_count))
		verb_warn("the files' times differ from those in their names, as after copying "
			  "without -p: the names are used");
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

bool trend_series_load(struct report_session *session, struct series *series,
	struct trend_notes *notes, struct error *err)
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
	if (!read_all(session, series, notes, operands, count, &reader, err))
		return false;
	if (series->profile_count < 2)
		return refuse_few(series, reader.damaged_count, err);
	session->damaged_count = reader.damaged_count;
	sort(series);
	series_finish(series);
	warn_of_unknown_interval(series);
	session->borrows_profiles = true;
	for (size_t i = 0; i < series->shared_count; i++)
		report_session_add(session, series->shared[i]);
	return true;
}
