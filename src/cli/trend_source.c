/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_source.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/process_name.h"
#include "cli/report_source.h"
#include "cli/trend_series.h"
#include "cli/trend_time.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "profile/codec.h"
#include "watch/capture_folder.h"
#include "watch/capture_list.h"

/* Nothing in a trend is about single threads. */
static const struct profile_read_options wanted = { .leaves_out_threads = true };

struct source {
	struct report_session *session;
	struct series *series;
	size_t *damaged_count;
	struct trend_time *times; /* of profiles that do not tell */
	size_t time_count, time_capacity;
	bool is_only_file; /* the profile of the command line: there is no other to go on with */
	int64_t known_ms;  /* of the next profile, by a catalogue; 0: not known */
};

static void source_deinit(struct source *source)
{
	free(source->times);
}

/* A profile that does not tell when it was taken: its file's time, or now when it is a target's. */
static void note_time(struct source *source, struct profile *profile, const char *path)
{
	struct stat status;

	if (profile->time_ms == 0)
		profile->time_ms = source->known_ms;
	if (profile->time_ms != 0 || strcmp(path, "-") == 0)
		return;
	if (stat(path, &status) != 0 || S_ISSOCK(status.st_mode)) {
		profile->time_ms = clock_realtime_ms();
		return;
	}
	if (!S_ISREG(status.st_mode))
		return;
	source->times = xgrow(source->times, &source->time_capacity, source->time_count + 1,
		sizeof *source->times);
	source->times[source->time_count++] = (struct trend_time){ source->series->profile_count,
		status.st_mtim.tv_sec * INT64_C(1000) + status.st_mtim.tv_nsec / 1000000,
		trend_time_in_name(path) };
}

static bool load_file(struct source *source, const char *path, struct error *err)
{
	struct report_session *const session = source->session;
	struct profile *profile = NULL;
	bool is_series = false;
	pid_t pid = 0;

	if (!trend_series_load_file(source->series, path, source->damaged_count, &is_series, err))
		return false;
	if (is_series)
		return true;
	if (!report_source_read(
		    path, session->options, session->program != NULL, &pid, &profile, err))
		return false;
	note_time(source, profile, path);
	if (source->series->profile_count == 0)
		process_name_of_source(path, pid, session->process_name);
	series_add(source->series, profile);
	return true;
}

/* One file of many shall not cost the others; one that is not there is a typing error. */
static bool load_or_leave(struct source *source, const char *path, struct error *err)
{
	if (load_file(source, path, err))
		return true;
	if (source->is_only_file)
		return false;
	if (err->kind != ERROR_INPUT && err->kind != ERROR_DENIED &&
		(err->kind != ERROR_SYSTEM || err->errnum == ENOENT || err->errnum == ENOTDIR))
		return false;
	++*source->damaged_count;
	verb_warn("left out: %s", err->message);
	return true;
}

/* What `heapctl watch` keeps: its catalogue has the moment of each. */
static bool load_captures(struct source *source, const char *folder, struct error *err)
{
	CLEANUP(json_cleanup) json_t *captures = NULL;
	size_t index;
	json_t *entry;

	if (!capture_list_read(folder, &captures, err))
		return false;
	json_array_foreach(captures, index, entry)
	{
		CLEANUP(free_cleanup)
		char *path = xasprintf("%s/%s", folder, json_text(entry, "file"));
		source->known_ms = json_number(entry, "time_ms");
		if (!load_or_leave(source, path, err))
			return false;
	}
	source->known_ms = 0;
	return true;
}

/* Of those that heapctl, jemalloc and the history write. */
static bool is_profile_name(const char *name)
{
	static const char *const parts[] = { ".heap", ".tar", ".pb.gz", ".prof" };

	for (size_t i = 0; name[0] != '.' && i < sizeof parts / sizeof parts[0]; i++) {
		if (strstr(name, parts[i]) != NULL)
			return true;
	}
	return false;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_profile_entry(const struct dirent *entry)
{
	return is_profile_name(entry->d_name);
}

/* A folder of files that were put there by people, or by jemalloc. */
static bool load_folder(struct source *source, const char *folder, struct error *err)
{
	struct dirent **entries = NULL;
	const int count = scandir(folder, &entries, is_profile_entry, by_name);
	bool ok = count > 0;

	if (count < 0)
		error_system(err, errno, "%s", folder);
	else if (count == 0)
		error_set(err, ERROR_INPUT,
			"%s: there are neither captures of heapctl watch nor profiles (*.heap)",
			folder);
	for (int i = 0; i < count; i++) {
		CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, entries[i]->d_name);
		ok = ok && load_or_leave(source, path, err);
		free(entries[i]);
	}
	free(entries);
	return ok;
}

static bool has_catalogue(const char *folder)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s/" CAPTURE_CATALOGUE, folder);

	return access(path, F_OK) == 0;
}

static bool load_operand(
	struct source *source, const char *operand, bool is_only, struct error *err)
{
	const char *const slash = strrchr(operand, '/');
	struct stat status;

	if (strcmp(slash == NULL ? operand : slash + 1, CAPTURE_CATALOGUE) == 0) {
		CLEANUP(free_cleanup)
		char *folder =
			slash == NULL ? xstrdup(".") : xstrndup(operand, (size_t)(slash - operand));
		return load_captures(source, folder, err);
	}
	if (stat(operand, &status) != 0 || !S_ISDIR(status.st_mode)) {
		source->is_only_file = is_only;
		return load_or_leave(source, operand, err);
	}
	return has_catalogue(operand) ? load_captures(source, operand, err)
				      : load_folder(source, operand, err);
}

static bool load_files(struct report_session *session, struct series *series, char *const *paths,
	size_t count, size_t *damaged_count, struct error *err)
{
	CLEANUP(source_deinit)
	struct source source = {
		.session = session, .series = series, .damaged_count = damaged_count
	};

	for (size_t i = 0; i < count; i++) {
		if (!load_operand(&source, paths[i], count == 1, err))
			return false;
	}
	if (trend_time_set(series, source.times, source.time_count))
		verb_warn("the files' times are not those in their names, as after copying "
			  "without -p: those in the names count");
	return true;
}

static bool fetch(struct series *series, const struct target *target, const char *path,
	const char *name, int64_t time_ms, struct error *err)
{
	const struct agent_call call = { .method = "GET", .path = path };
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	struct profile *profile = NULL;

	http_answer_init(&answer);
	if (!agent_call(target, &call, &answer, err) ||
		!profile_read(name, answer.body.data, answer.body.size, &wanted, &profile, err))
		return false;
	profile->time_ms = time_ms;
	series_add(series, profile);
	return true;
}

/*
 * A finished run has a profile of its end; one that its process' end cut short that of its start.
 */
static bool fetch_run(
	struct series *series, const struct target *target, const json_t *run, struct error *err)
{
	const int64_t id = json_number(run, "id");
	const bool is_finished = strcmp(json_text(run, "state"), "finished") == 0;
	char path[96], name[192];

	if (json_number(run, is_finished ? "profile_bytes" : "start_bytes") == 0)
		return true;
	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id,
		is_finished ? "profile" : "start");
	snprintf(name, sizeof name, "%s, run %" PRId64, target->label, id);
	return fetch(series, target, path, name,
		json_number(run, is_finished ? "ended_ms" : "started_ms"), err);
}

/* What a gateway with a history has kept of the target, also of its earlier processes. */
static bool load_history(struct series *series, const struct target *target, size_t *damaged_count,
	struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = memfd_create("history", MFD_CLOEXEC);
	const struct agent_call call = { .method = "GET",
		.path = "/api/v1/trend?format=raw",
		.out_fd = fd,
		.out_name = "the history in memory" };
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	CLEANUP(file_unmap) struct file_map map = { 0 };
	struct error none = { 0 };

	http_answer_init(&answer);
	if (fd < 0)
		return error_system(err, errno, "memory for the history");
	if (agent_call(target, &call, &answer, &none))
		return file_map_fd(fd, target->label, &map, err) &&
		       trend_series_load(series, target->label, cursor_over(map.data, map.size),
			       damaged_count, err);
	/* No history, or too little of it. */
	if (none.kind == ERROR_NOT_FOUND)
		return true;
	*err = none;
	return false;
}

static bool load_target(struct report_session *session, struct series *series, const char *text,
	size_t *damaged_count, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct target target;
	size_t index;
	json_t *run;

	if (!target_resolve(text, &target, err) ||
		(target.kind == TARGET_GATEWAY &&
			!load_history(series, &target, damaged_count, err)))
		return false;
	if (series->profile_count >= 2)
		return true;
	if (!agent_call_json(&target, "GET", "/v1/runs", &answer, err))
		return false;
	json_array_foreach(json_at(answer, "runs"), index, run)
	{
		if (!fetch_run(series, &target, run, err))
			return false;
	}
	if (!fetch(series, &target, "/v1/profile", target.label, clock_realtime_ms(), err))
		return false;
	if (target.kind == TARGET_AGENT) {
		session->pid = target.process.pid;
		snprintf(session->process_name, sizeof session->process_name, "%s",
			target.process.name);
	}
	if (series->profile_count >= 2)
		return true;
	error_set(err, ERROR_STATE, "%s keeps no finished run", target.label);
	return error_hint(err,
		"heapctl record or start take some, which the agent keeps; or give the files of "
		"heapctl dump or watch");
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
	size_t damaged_count = 0;
	struct stat status;

	if (report_source_is_program(operands[0])) {
		session->program = operands[0];
		operands++;
		count--;
	}
	if (count == 1 && (stat(operands[0], &status) != 0 || S_ISSOCK(status.st_mode))) {
		if (!load_target(session, series, operands[0], &damaged_count, err))
			return false;
	} else if (!load_files(session, series, operands, count, &damaged_count, err)) {
		return false;
	}
	if (series->profile_count < 2)
		return refuse_few(series, damaged_count, err);
	session->damaged_count = damaged_count;
	sort(series);
	series_settle(series);
	session->borrows_profiles = true;
	for (size_t i = 0; i < series->shared_count; i++)
		report_session_add(session, series->shared[i]);
	return true;
}
