/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source_series.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "profile/profile_read.h"
#include "profile/bundle.h"
#include "store/capture_list.h"
#include "store/notes.h"

/* Of a time in milliseconds since 1970 that a file's name begins with. */
enum { MIN_TIME_DIGITS = 13 };

static void add(struct source_series *series, const struct source *source, struct profile *profile)
{
	series->count++;
	series->add(series->context, source, profile);
}

/* Counts what is left out. False for errors that are not about a single profile. */
static bool skip_damaged(struct source_series *series, const struct error *err)
{
	const bool is_missing = err->errnum == ENOENT || err->errnum == ENOTDIR;

	if (err->kind != ERROR_INPUT && err->kind != ERROR_DENIED &&
		(err->kind != ERROR_SYSTEM || is_missing))
		return false;
	series->damaged_count++;
	if (series->options.warn != NULL)
		series->options.warn("left out: %s%s%s%s", err->message,
			err->hint[0] == '\0' ? "" : " (", err->hint,
			err->hint[0] == '\0' ? "" : ")");
	return true;
}

/* The history's files begin with the milliseconds since 1970; tar itself has whole seconds. */
static int64_t member_time(const struct tar_member *member)
{
	const char *const name = path_base_name(member->name);
	const size_t digits = strspn(name, "0123456789");

	return digits >= MIN_TIME_DIGITS && digits < 19 ? strtoll(name, NULL, 10) : member->time_ms;
}

static bool read_member(struct source_series *series, const struct source *source,
	const struct tar_member *member, struct error *err)
{
	const struct profile_read_options wanted = { .leaves_out_threads =
							     series->options.leaves_out_threads };
	CLEANUP(free_cleanup) char *name = xasprintf("%s(%s)", source->name, member->name);
	struct profile *profile = NULL;

	if (!profile_read(
		    name, member->data.start, cursor_left(&member->data), &wanted, &profile, err))
		return err->kind == ERROR_INPUT && skip_damaged(series, err);
	if (profile->time_ms == 0)
		profile->time_ms = member_time(member);
	add(series, source, profile);
	return true;
}

/* Of more than a history keeps the first are read. */
static bool read_notes(struct source_series *series, const struct source *source,
	const struct tar_member *member, struct error *err)
{
	json_error_t problem;
	CLEANUP(json_cleanup)
	json_t *notes = agent_json_parse(
		(const char *)member->data.start, cursor_left(&member->data), 0, &problem);
	size_t index;
	json_t *note;

	if (!json_is_array(notes)) {
		error_set(err, ERROR_INPUT, "%s(%s): %s", source->name, member->name,
			notes == NULL ? problem.text : "no list of notes");
		return skip_damaged(series, err);
	}
	json_array_foreach(notes, index, note)
	{
		if (series->add_note != NULL && index < STORE_NOTES_MAX)
			series->add_note(series->context, json_number(note, "time_ms"),
				json_text(note, "text"));
	}
	return true;
}

/* What is compressed is expanded member by member. */
static bool read_tar(struct source_series *series, const struct source *source, struct cursor in,
	struct error *err)
{
	struct tar_member member;

	while (tar_next(&in, &member)) {
		const bool has_notes = strcmp(path_base_name(member.name), STORE_NOTES_MEMBER) == 0;
		if (member.is_file &&
			!(has_notes ? read_notes : read_member)(series, source, &member, err))
			return false;
		(void)cursor_more(&in);
	}
	return cursor_ok(&in) ||
	       (!input_failure(&source->input, err) && cursor_error(&in, source->name, err));
}

/* `time_ms` is what a catalogue says of the file; 0 when it is not known. */
static bool read_single(
	struct source_series *series, struct source *source, int64_t time_ms, struct error *err)
{
	struct profile *profile = NULL;
	struct cursor in;

	if (source->kind == SOURCE_SERIES)
		return input_cursor(&source->input, &in, err) && read_tar(series, source, in, err);
	if (!source_profile(source, &profile, err))
		return false;
	if (profile->time_ms == 0)
		profile->time_ms = time_ms;
	if (profile->time_ms == 0 && (source->kind == SOURCE_URL || source->kind == SOURCE_TARGET))
		profile->time_ms = clock_realtime_ms();
	add(series, source, profile);
	return true;
}

static bool read_path(
	struct source_series *series, const char *path, int64_t time_ms, struct error *err)
{
	CLEANUP(source_close) struct source source = { 0 };

	return (source_open_file(path, &series->options, &source, err) &&
		       read_single(series, &source, time_ms, err)) ||
	       skip_damaged(series, err);
}

/* Which captures the damaged lines were of is not known, only how many. */
static void skip_lines(
	struct source_series *series, const char *folder, const struct capture_list_damage *damage)
{
	if (damage->count == 0)
		return;
	CLEANUP(free_cleanup) char *text = capture_list_describe_damage(folder, damage);
	series->damaged_count += damage->count;
	if (series->options.warn != NULL)
		series->options.warn(
			"left out: %s (heapctl watch --keep %s writes the list again when it "
			"starts)",
			text, folder);
}

/* The captures of `heapctl watch`: its catalogue has the time of each. */
static bool read_captures(struct source_series *series, const char *folder, struct error *err)
{
	CLEANUP(json_cleanup) json_t *captures = NULL;
	struct capture_list_damage damage;
	size_t index;
	json_t *entry;

	if (!capture_list_read(folder, &captures, &damage, err))
		return false;
	skip_lines(series, folder, &damage);
	json_array_foreach(captures, index, entry)
	{
		CLEANUP(free_cleanup)
		char *path = xasprintf("%s/%s", folder, json_text(entry, "file"));
		if (!read_path(series, path, json_number(entry, "time_ms"), err))
			return false;
	}
	return true;
}

/* Names that heapctl, jemalloc and the history give. */
static int is_profile_entry(const struct dirent *entry)
{
	static const char *const parts[] = { ".heap", ".tar", ".pb.gz", ".prof" };

	for (size_t i = 0; entry->d_name[0] != '.' && i < sizeof parts / sizeof parts[0]; i++) {
		if (strstr(entry->d_name, parts[i]) != NULL)
			return true;
	}
	return false;
}

/* A folder of files that users or jemalloc put there. */
static bool read_files(struct source_series *series, const char *folder, struct error *err)
{
	struct dirent **entries = NULL;
	/* jemalloc numbers its dumps: PREFIX.PID.2.i2.heap comes before PREFIX.PID.10.i10.heap. */
	const int count = scandir(folder, &entries, is_profile_entry, versionsort);
	bool ok = count > 0;

	if (count < 0)
		error_system(err, errno, "%s", folder);
	else if (count == 0)
		error_set(err, ERROR_INPUT,
			"%s: there are neither captures of heapctl watch nor profiles (*.heap)",
			folder);
	for (int i = 0; i < count; i++) {
		CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, entries[i]->d_name);
		ok = ok && read_path(series, path, 0, err);
		free(entries[i]);
	}
	free(entries);
	return ok;
}

static bool read_folder(struct source_series *series, const char *folder, struct error *err)
{
	CLEANUP(free_cleanup) char *catalogue = xasprintf("%s/" CAPTURE_LIST, folder);

	return access(catalogue, F_OK) == 0 ? read_captures(series, folder, err)
					    : read_files(series, folder, err);
}

static bool fetch_profile(struct source_series *series, const struct source *source,
	const char *path, const char *name, int64_t time_ms, struct error *err)
{
	const struct profile_read_options wanted = { .leaves_out_threads =
							     series->options.leaves_out_threads };
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct profile *profile = NULL;

	if (!agent_get(&source->target, path, &answer, err) ||
		!profile_read(name, answer.body.data, answer.body.size, &wanted, &profile, err))
		return false;
	profile->time_ms = time_ms;
	add(series, source, profile);
	return true;
}

/*
 * A finished run has a profile of its end; one that its process' end cut short that of its start.
 */
static bool fetch_run(struct source_series *series, const struct source *source, const json_t *run,
	struct error *err)
{
	const int64_t id = json_number(run, "id");
	const bool is_finished = strcmp(json_text(run, "state"), "finished") == 0;
	char path[96], name[256];

	if (json_number(run, is_finished ? "profile_bytes" : "start_bytes") == 0)
		return true;
	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id,
		is_finished ? "profile" : "start");
	snprintf(name, sizeof name, "%s, run %" PRId64, source->name, id);
	return fetch_profile(series, source, path, name,
		json_number(run, is_finished ? "ended_ms" : "started_ms"), err);
}

/* The runs that the agent keeps, and a profile of now. */
static bool fetch_runs(struct source_series *series, const struct source *source, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	size_t index;
	json_t *run;

	if (!agent_call_json(&source->target, "GET", "/v1/runs", &answer, err))
		return false;
	json_array_foreach(json_at(answer, "runs"), index, run)
	{
		if (!fetch_run(series, source, run, err))
			return false;
	}
	return fetch_profile(series, source, "/v1/profile", source->name, clock_realtime_ms(), err);
}

/*
 * What a gateway with a history keeps of the target, also of its earlier processes. Without a
 * history, or with too little of it, *has_history is false.
 */
static bool fetch_history(struct source_series *series, const struct source *source,
	bool *has_history, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = memfd_create("history", MFD_CLOEXEC);
	const struct agent_call call = { .method = "GET",
		.path = "/api/v1/trend?format=raw",
		.out_fd = fd,
		.out_name = "the history in memory" };
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	CLEANUP(file_unmap) struct file_map map = { 0 };
	struct error failure = { 0 };

	*has_history = false;
	if (fd < 0)
		return error_system(err, errno, "memory for the history");
	if (agent_call(&source->target, &call, &answer, &failure)) {
		if (!agent_check_type(
			    &source->target, "application/x-tar", "history", &answer, err))
			return false;
		*has_history = true;
		return file_map_fd(fd, source->name, &map, err) &&
		       read_tar(series, source, cursor_over(map.data, map.size), err);
	}
	if (failure.kind == ERROR_NOT_FOUND)
		return true;
	*err = failure;
	return false;
}

static bool read_target(
	struct source_series *series, const struct source *source, struct error *err)
{
	bool has_history = false;

	if (source->target.kind == TARGET_GATEWAY &&
		!fetch_history(series, source, &has_history, err))
		return false;
	if (has_history && series->count >= 2)
		return true;
	if (!fetch_runs(series, source, err))
		return false;
	if (series->count >= 2)
		return true;
	error_set(err, ERROR_STATE, "%s keeps no finished run", source->name);
	return error_hint(err, "use heapctl record or start, whose runs the agent keeps, or files "
			       "of heapctl dump or watch");
}

bool source_series_read(struct source_series *series, const char *operand, struct error *err)
{
	CLEANUP(source_close) struct source source = { 0 };

	const bool is_open = source_open(operand, &series->options, &source, err);
	if (source.kind == SOURCE_FOLDER)
		return is_open && read_folder(series, source.path, err);
	if (source.kind == SOURCE_TARGET && series->is_only)
		return is_open && read_target(series, &source, err);
	return (is_open && read_single(series, &source, 0, err)) ||
	       (!series->is_only && skip_damaged(series, err));
}
