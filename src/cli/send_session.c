/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/send_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/allocator_frames.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "cli/input_guard.h"
#include "cli/report_session.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "fleet/sender.h"
#include "profile/profile_read.h"
#include "source/source_series.h"
#include "source/symbolize.h"
#include "store/store.h"
#include "watch/recorder.h"

struct send_session {
	const struct send_options *options;
	struct clickhouse *clickhouse;
	struct sender *sender;
	struct symbolizer *symbolizer;
	char host[256];	     /* this one */
	struct store *store; /* that snapshots are of; NULL: of none, or it is not ours to mark */
	struct u64_table files; /* keys of the files that were sent */
	size_t sent_count, known_count, skipped_count;
	struct error problem; /* of a callback */
	bool has_problem;
};

static void warn_of_wait(void *context, int64_t wait_ms, const struct error *why)
{
	(void)context;
	verb_warn("%s; trying again in %.1f s", why->message, (double)wait_ms / 1000);
}

static void note_sent(void *context, int64_t id, bool was_there)
{
	struct send_session *const session = context;

	session->known_count += was_there;
	session->sent_count += !was_there;
	if (session->store != NULL && !session->has_problem &&
		!store_mark_sent(session->store, id, clock_realtime_ms(), &session->problem))
		session->has_problem = true;
}

/* One snapshot with its symbols to the sender. */
static bool send_profile(struct send_session *session, int64_t id, struct profile *profile,
	pid_t pid, struct fleet_snapshot *snapshot, struct error *err)
{
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = { 0 };
	const struct symbolize_options symbols = {
		.lib_prefixes = session->options->lib_prefixes,
		.pid = pid,
	};

	input_guard_begin("finding the names of functions");
	const bool is_symbolized = symbolize(session->symbolizer, &profile, 1, &symbols, err);
	input_guard_end();
	if (snapshot->time_ms <= 0)
		return error_set(
			err, ERROR_INPUT, "%s does not say when it was taken", profile->name);
	identity_set_found(&snapshot->identity, "service", profile_program_name(profile));
	identity_set_found(&snapshot->identity, "host", session->host);
	if (snapshot->identity.service[0] == '\0') {
		error_set(err, ERROR_USAGE, "%s does not say what it is of", profile->name);
		return error_hint(err, "name it with --service");
	}
	return is_symbolized && fleet_rows_make(profile, &rows, err) &&
	       sender_add(session->sender, id, snapshot, &rows, err) &&
	       (!session->has_problem || (*err = session->problem, false));
}

static struct fleet_snapshot begin_snapshot(const struct send_session *session)
{
	return (struct fleet_snapshot){ .identity = session->options->identity, .reason = "" };
}

/* What a stored snapshot says of itself. */
static void take_stored(struct fleet_snapshot *snapshot, const struct snapshot *stored)
{
	identity_set_found(&snapshot->identity, "service",
		stored->service[0] != '\0' ? stored->service : stored->target);
	identity_set_found(&snapshot->identity, "version", stored->version);
	identity_set_found(&snapshot->identity, "host", stored->host);
	snapshot->pid = stored->pid;
	snapshot->started_ms = stored->started_ms;
	snapshot->time_ms = stored->time_ms;
	snapshot->reason = stored->reason;
	memcpy(snapshot->bytes, stored->bytes, sizeof snapshot->bytes);
}

/* A profile that cannot be read does not keep the others back: it stays unsent. */
static bool skip(struct send_session *session, const struct error *why)
{
	if (why->kind != ERROR_INPUT && why->kind != ERROR_UNSUPPORTED)
		return false;
	verb_warn("left out: %s", why->message);
	session->skipped_count++;
	return true;
}

static bool read_stored(int fd, const char *name, struct profile **profile, struct error *err)
{
	const struct profile_read_options wanted = { .leaves_out_threads = true };
	CLEANUP(file_unmap) struct file_map map = { 0 };

	input_guard_begin("reading a profile");
	const bool is_read = file_map_fd(fd, name, &map, err) &&
			     profile_read(name, map.data, map.size, &wanted, profile, err);
	input_guard_end();
	return is_read;
}

static bool send_stored(struct send_session *session, const struct snapshot *stored, int fd,
	const char *folder, struct error *err)
{
	struct fleet_snapshot snapshot = begin_snapshot(session);
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	CLEANUP(free_cleanup) char *name = xasprintf("%s/%s", folder, stored->file);

	take_stored(&snapshot, stored);
	return read_stored(fd, name, &profile, err) &&
	       send_profile(session, stored->id, profile, 0, &snapshot, err);
}

/* All of a store that are not marked as sent. */
static bool send_unsent(struct send_session *session, struct store *store, struct error *err)
{
	int64_t last_id = 0;

	for (;;) {
		struct snapshot stored = { 0 };
		CLEANUP(fd_cleanup) int fd = -1;
		struct error why = { 0 };
		if (!store_next_unsent(store, last_id, &stored, &fd, &why)) {
			if (why.kind == ERROR_NOT_FOUND)
				return true;
			*err = why;
			return false;
		}
		last_id = stored.id;
		if (!send_stored(session, &stored, fd, store_folder(store), &why) &&
			!skip(session, &why)) {
			*err = why;
			return false;
		}
	}
}

static bool send_store(
	struct send_session *session, const char *folder, enum store_use use, struct error *err)
{
	const struct store_limits limits = { .bytes = UINT64_MAX };
	CLEANUP(store_cleanup) struct store *store = NULL;

	const bool is_ours = store_open(folder, use, &limits, &store, err);
	if (!is_ours) {
		if (err->kind != ERROR_STATE)
			return false;
		/* Another process keeps snapshots there. */
		*err = (struct error){ 0 };
		if (!store_open_reader(folder, use, &store, err))
			return false;
		verb_warn("%s is in use: what is sent is not marked as sent, and is asked for "
			  "again the next time",
			folder);
	}
	session->store = is_ours ? store : NULL;
	const bool is_done = send_unsent(session, store, err) && sender_flush(session->sender, err);
	session->store = NULL;
	if (is_done && session->has_problem)
		*err = session->problem;
	return is_done && !session->has_problem;
}

/* The labels that the process was started with. */
static void take_labels(struct fleet_identity *identity, pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct error ignored = { 0 };

	if (pid == 0 || !process_read_environment(pid, &environment, &ignored))
		return;
	const char *const labels = process_environment_find(&environment, "HEAPCTL_LABELS");
	if (labels != NULL && !identity_set_labels(identity, labels, &ignored))
		verb_warn("HEAPCTL_LABELS of process %d: %s", (int)pid, ignored.message);
}

static void take_figures(struct fleet_snapshot *snapshot, const json_t *status)
{
	for (size_t i = 0; i < FIGURES; i++) {
		char path[64];
		snprintf(path, sizeof path, "memory.%s", memory_figure_names[i]);
		const int64_t bytes = json_number(status, path);
		snapshot->bytes[i] = bytes > 0 ? (uint64_t)bytes : 0;
	}
}

static bool send_target(struct send_session *session, struct source *source, struct error *err)
{
	struct fleet_snapshot snapshot = begin_snapshot(session);
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct snapshot found = { .time_ms = clock_realtime_ms() };

	if (!source_profile(source, &profile, err))
		return false;
	take_labels(&snapshot.identity, source->pid);
	const json_t *const status = source_status(source);
	recorder_identify(&found, &source->target, status);
	take_stored(&snapshot, &found);
	take_figures(&snapshot, status);
	return send_profile(session, 0, profile, source->pid, &snapshot, err);
}

/*
 * Whether an earlier file is of the same process and time. Those without a process are of one of
 * their service.
 */
static bool is_file_again(struct send_session *session, const struct fleet_snapshot *snapshot)
{
	const char *const service = snapshot->identity.service;
	const uint64_t key = hash_combine(hash_bytes(service, strlen(service)),
		hash_combine((uint64_t)snapshot->pid, (uint64_t)snapshot->time_ms));

	if (u64_table_find(&session->files, key) != U64_TABLE_NONE)
		return true;
	u64_table_add(&session->files, key);
	return false;
}

/* Files, also those of a tar or a folder. */
static void send_file(void *context, const struct source *source, struct profile *taken)
{
	struct send_session *const session = context;
	CLEANUP(profile_cleanup) struct profile *profile = taken;
	struct fleet_snapshot snapshot = begin_snapshot(session);
	struct error why = { 0 };

	if (session->has_problem)
		return;
	snapshot.pid = source_pid_of_file(profile->name);
	snapshot.time_ms = profile->time_ms != 0 ? profile->time_ms : source->file_time_ms;
	identity_set_found(&snapshot.identity, "service",
		source->program_name[0] != '\0' ? source->program_name : profile->process_name);
	if (is_file_again(session, &snapshot)) {
		verb_warn("left out: %s is of the same process and time as another one (touch -d "
			  "sets the time of a file)",
			profile->name);
		session->skipped_count++;
		return;
	}
	if (!send_profile(session, 0, profile, 0, &snapshot, &why) && !skip(session, &why)) {
		session->has_problem = true;
		session->problem = why;
	}
}

static bool send_files(struct send_session *session, const char *operand, struct error *err)
{
	struct source_series series = {
		.options = { .leaves_out_threads = true, .warn = verb_warn },
		.is_only = session->options->operand_count == 1,
		.add = send_file,
		.context = session,
	};
	const bool is_read = source_series_read(&series, operand, err);

	session->skipped_count += series.damaged_count;
	if (is_read && session->has_problem)
		*err = session->problem;
	return is_read && !session->has_problem;
}

static bool has_file(const char *folder, const char *name)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, name);

	return access(path, F_OK) == 0;
}

static bool send_operand(struct send_session *session, const char *operand, struct error *err)
{
	const struct source_options wanted = { .leaves_out_threads = true, .warn = verb_warn };

	if (has_file(operand, "index.sqlite"))
		return send_store(session, operand,
			has_file(operand, "captures.jsonl") ? STORE_CAPTURES : STORE_HISTORY, err);
	CLEANUP(source_close) struct source source = { 0 };
	if (!source_open(operand, &wanted, &source, err))
		return false;
	if (source.kind == SOURCE_TARGET)
		return send_target(session, &source, err);
	return send_files(session, operand, err);
}

/* Modules whose functions have no name in the database. */
static void warn_of_modules(const struct send_session *session)
{
	size_t count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(session->symbolizer, &count);

	for (size_t i = 0; i < count; i++) {
		const struct symbol_module_report *const report = &reports[i];
		if (report->named_count < report->address_count && report->path[0] != '\0' &&
			report->problem[0] != '\0' &&
			!allocator_frame_has_module(PROFILE_HEAP, report->path))
			verb_warn("%s: %zu of %zu addresses have no name: %s", report->path,
				report->address_count - report->named_count, report->address_count,
				report->problem);
	}
}

static bool send_all(struct send_session *session, struct error *err)
{
	for (size_t i = 0; i < session->options->operand_count; i++)
		if (!send_operand(session, session->options->operands[i], err))
			return false;
	return sender_flush(session->sender, err);
}

static void print_counts(const struct send_session *session)
{
	printf("%s: %zu snapshots sent", clickhouse_name(session->clickhouse), session->sent_count);
	if (session->known_count != 0)
		printf(", %zu were there", session->known_count);
	if (session->skipped_count != 0)
		printf(", %zu left out", session->skipped_count);
	putchar('\n');
}

static void session_deinit(struct send_session *session)
{
	sender_free(session->sender);
	clickhouse_close(session->clickhouse);
	symbolizer_free(session->symbolizer);
	u64_table_deinit(&session->files);
}

bool send_session_run(const struct send_options *options, struct error *err)
{
	CLEANUP(session_deinit) struct send_session session = { .options = options };
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();

	if (!fleet_store_open(&options->store, &session.clickhouse, err))
		return false;
	if (gethostname(session.host, sizeof session.host - 1) != 0)
		session.host[0] = '\0';
	session.sender = sender_new(session.clickhouse, &(struct sender_options){
								.retry_ms = options->retry_ms,
								.sent = note_sent,
								.waits = warn_of_wait,
								.context = &session,
							});
	u64_table_init(&session.files, hash_seed());
	session.symbolizer = symbolizer_new(
		&(struct symbolizer_options){ .cache_dir = options->no_cache ? NULL : cache_dir });
	const bool is_done = send_all(&session, err);
	warn_of_modules(&session);
	print_counts(&session);
	return is_done;
}
