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
#include "cli/send_report.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "client/process.h"
#include "fleet/destination.h"
#include "profile/profile_read.h"
#include "source/source_series.h"
#include "source/symbolize.h"
#include "store/store.h"
#include "watch/process_identity.h"
#include "watch/recorder.h"

enum {
	DEBUGINFOD_MS = 30 * 1000,
	FOLLOW_LOOK_MS = 2000,
	MAX_WAIT_MS = 60 * 1000,
	FOLLOW_MAX_WAIT_MS = 15 * 60 * 1000
};

struct send_session {
	const struct send_options *options;
	struct destination *destination;
	struct symbolizer *symbolizer;
	char host[256];		     /* this one */
	struct store *store;	     /* that snapshots are of; NULL: of none */
	struct u64_table files;	     /* keys of the files that were sent */
	struct u64_table unreadable; /* of the stored ones that were left out */
	struct send_report report;
	bool has_failed;      /* the sending, not a profile */
	struct error problem; /* of a callback */
	bool has_problem;
};

static void warn_of_wait(void *context, int64_t wait_ms, const struct error *why)
{
	const struct send_session *const session = context;

	send_report_write(&session->report, wait_ms, why);
	verb_warn("%s; trying again in %.1f s", why->message, (double)wait_ms / 1000);
}

static void note_sent(void *context, int64_t id, bool was_there)
{
	struct send_session *const session = context;

	session->report.known_count += was_there;
	session->report.sent_count += !was_there;
	if (session->store != NULL && !session->has_problem &&
		!store_mark_sent(session->store, id, clock_realtime_ms(), &session->problem))
		session->has_problem = true;
}

/* One snapshot with its symbols to the sender. */
static bool send_profile(struct send_session *session, int64_t id, struct profile *profile,
	pid_t pid, struct fleet_snapshot *snapshot, struct error *err)
{
	bool is_refused = false;
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
	if (snapshot->time_ms / 1000 > UINT32_MAX)
		return error_set(err, ERROR_INPUT,
			"%s was taken after the year 2105, which ClickHouse's times do not have",
			profile->name);
	identity_set_found(&snapshot->identity, "service", profile_program_name(profile));
	identity_set_found(&snapshot->identity, "host", session->host);
	if (snapshot->identity.service[0] == '\0') {
		error_set(err, ERROR_USAGE, "%s does not say what it is of", profile->name);
		return error_hint(err, "name it with --service");
	}
	if (!is_symbolized)
		return false;
	if (!destination_add(session->destination, id, snapshot, profile, &is_refused, err)) {
		session->has_failed = !is_refused;
		return false;
	}
	session->has_failed = session->has_problem;
	if (session->has_problem)
		*err = session->problem;
	return !session->has_problem;
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
	identity_set_found_labels(&snapshot->identity, stored->labels);
	snapshot->pid = stored->pid;
	snapshot->started_ms = stored->started_ms;
	snapshot->time_ms = stored->time_ms;
	snapshot->reason = stored->reason;
	memcpy(snapshot->bytes, stored->bytes, sizeof snapshot->bytes);
}

/* A profile that cannot be read does not keep the others back: it stays unsent. */
static bool skip(struct send_session *session, const struct error *why)
{
	if (session->has_failed || (why->kind != ERROR_INPUT && why->kind != ERROR_UNSUPPORTED))
		return false;
	verb_warn("left out: %s", why->message);
	session->report.skipped_count++;
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

static uint64_t key_of_stored(const struct snapshot *stored)
{
	return hash_combine(hash_bytes(stored->file, strlen(stored->file)), (uint64_t)stored->id);
}

/* Whether it was left out before, or ended an earlier process that read it. */
static bool is_unreadable(const struct send_session *session, const struct snapshot *stored)
{
	for (size_t i = 0; i < session->options->left_out_count; i++)
		if (session->options->left_out[i] == stored->id)
			return true;
	return u64_table_find(&session->unreadable, key_of_stored(stored)) != U64_TABLE_NONE;
}

/* The next one after that id that can be sent. ERROR_NOT_FOUND. */
static bool next_readable(const struct send_session *session, struct store *store, int64_t after_id,
	struct snapshot *stored, int *fd, struct error *err)
{
	for (;; after_id = stored->id) {
		CLEANUP(fd_cleanup) int found = -1;
		if (!store_next_unsent(store, after_id, stored, &found, err))
			return false;
		if (!is_unreadable(session, stored)) {
			*fd = TAKE_FD(found);
			return true;
		}
	}
}

static bool send_next(struct send_session *session, struct store *store,
	const struct snapshot *stored, int fd, struct error *err)
{
	session->report.reading = stored->id;
	send_report_write(&session->report, 0, NULL);
	const bool is_sent = send_stored(session, stored, fd, store_folder(store), err);
	session->report.reading = 0;
	if (is_sent || !skip(session, err))
		return is_sent;
	u64_table_add(&session->unreadable, key_of_stored(stored));
	return true;
}

/* All of a store that are not marked as sent. */
static bool send_unsent(struct send_session *session, struct store *store, struct error *err)
{
	struct snapshot stored = { 0 };

	for (;;) {
		CLEANUP(fd_cleanup) int fd = -1;
		struct error why = { 0 };
		const bool is_found = next_readable(session, store, stored.id, &stored, &fd, &why);
		if (!is_found && why.kind == ERROR_NOT_FOUND)
			return destination_flush(session->destination, err);
		if (!is_found || !send_next(session, store, &stored, fd, &why)) {
			*err = why;
			return false;
		}
	}
}

/*
 * For reading, and for the marks: another process may keep snapshots there. What an earlier
 * version wrote has to be opened by its keeper first.
 */
static bool open_spool(
	const char *folder, enum store_use use, struct store **store, struct error *err)
{
	const struct store_limits limits = { .bytes = UINT64_MAX };
	CLEANUP(store_cleanup) struct store *keeper = NULL;

	if (store_open_reader(folder, use, store, err))
		return true;
	if (err->kind != ERROR_NOT_FOUND)
		return false;
	*err = (struct error){ 0 };
	if (!store_open(folder, use, &limits, &keeper, err))
		return false;
	return store_open_reader(folder, use, store, err);
}

static bool send_store(
	struct send_session *session, const char *folder, enum store_use use, struct error *err)
{
	CLEANUP(store_cleanup) struct store *store = NULL;

	if (!open_spool(folder, use, &store, err))
		return false;
	session->store = store;
	const bool is_done = send_unsent(session, store, err);
	session->store = NULL;
	if (is_done && session->has_problem)
		*err = session->problem;
	return is_done && !session->has_problem;
}

/* The stored identity has all of it; this says what is wrong with its labels. */
static void warn_of_labels(const struct target *target, const json_t *status)
{
	struct snapshot_identity identity = { 0 };
	struct error problem;

	if (!process_identity_read(target, status, &identity, &problem))
		verb_warn("HEAPCTL_LABELS of process %d: %s", (int)target->process.pid,
			problem.message);
}

static void take_figures(struct fleet_snapshot *snapshot, pid_t pid, const json_t *status)
{
	struct process process;
	struct error ignored;

	for (size_t i = 0; i < FIGURE_RSS; i++) {
		char path[64];
		snprintf(path, sizeof path, "memory.%s", memory_figure_names[i]);
		const int64_t bytes = json_number(status, path);
		snapshot->bytes[i] = bytes > 0 ? (uint64_t)bytes : 0;
	}
	if (pid != 0 && process_read(pid, &process, &ignored))
		snapshot->bytes[FIGURE_RSS] = process.resident_bytes;
}

static bool send_target(struct send_session *session, struct source *source, struct error *err)
{
	struct fleet_snapshot snapshot = begin_snapshot(session);
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct snapshot found = { .time_ms = clock_realtime_ms() };

	if (!source_profile(source, &profile, err))
		return false;
	const json_t *const status = source_status(source);
	warn_of_labels(&source->target, status);
	recorder_identify(&found, &source->target, status);
	take_stored(&snapshot, &found);
	take_figures(&snapshot, source->pid, status);
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
		session->report.skipped_count++;
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

	session->report.skipped_count += series.damaged_count;
	if (is_read && session->has_problem)
		*err = session->problem;
	return is_read && !session->has_problem;
}

static bool has_file(const char *folder, const char *name)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, name);

	return access(path, F_OK) == 0;
}

static bool is_store(const char *folder, enum store_use *use)
{
	*use = has_file(folder, "captures.jsonl") ? STORE_CAPTURES : STORE_HISTORY;
	return has_file(folder, "index.sqlite");
}

static bool send_operand(struct send_session *session, const char *operand, struct error *err)
{
	const struct source_options wanted = { .leaves_out_threads = true, .warn = verb_warn };
	enum store_use use;

	if (is_store(operand, &use))
		return send_store(session, operand, use, err);
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
	return destination_flush(session->destination, err);
}

static void print_counts(const struct send_session *session)
{
	const struct send_report *const report = &session->report;

	printf("%s: %zu snapshot%s sent", destination_name(session->destination),
		report->sent_count, report->sent_count == 1 ? "" : "s");
	if (report->known_count != 0)
		printf(", %zu %s there", report->known_count,
			report->known_count == 1 ? "was" : "were");
	if (report->skipped_count != 0)
		printf(", %zu left out", report->skipped_count);
	putchar('\n');
	fflush(stdout);
}

/* Files of programs change while a session follows folders. */
static void begin_symbols(struct send_session *session)
{
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();

	symbolizer_free(session->symbolizer);
	session->symbolizer = symbolizer_new(
		&(struct symbolizer_options){ .debuginfod_urls = session->options->debuginfod,
			.debuginfod_timeout_ms = DEBUGINFOD_MS,
			.cache_dir = session->options->no_cache ? NULL : cache_dir });
}

/* Whether there is anything to send; a folder that is being replaced has nothing. */
static bool has_unsent(const struct send_session *session, const char *folder)
{
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(fd_cleanup) int fd = -1;
	struct snapshot stored = { 0 };
	struct error ignored = { 0 };
	enum store_use use;

	return is_store(folder, &use) && store_open_reader(folder, use, &store, &ignored) &&
	       next_readable(session, store, 0, &stored, &fd, &ignored);
}

/* Between half of the time and all of it: thousands of hosts may have begun at the same time. */
static void gather(const struct send_session *session)
{
	const int64_t half_ms = session->options->gather_ms / 2;

	clock_sleep_us((half_ms + (int64_t)(hash_seed() % (uint64_t)(half_ms + 1))) * 1000);
}

/* What a folder has got since. */
static bool send_new(
	struct send_session *session, const char *folder, bool *is_first, struct error *err)
{
	enum store_use use;

	if (!has_unsent(session, folder))
		return true;
	gather(session);
	begin_symbols(session);
	destination_recheck(session->destination);
	if (!is_store(folder, &use))
		return true;
	const bool is_done = send_store(session, folder, use, err);
	if (*is_first)
		warn_of_modules(session);
	*is_first = false;
	send_report_write(&session->report, 0, NULL);
	print_counts(session);
	return is_done;
}

static bool follow(struct send_session *session, struct error *err)
{
	const struct send_options *const options = session->options;
	bool is_first = true;
	enum store_use use;

	for (size_t i = 0; i < options->operand_count; i++)
		if (!is_store(options->operands[i], &use)) {
			error_set(err, ERROR_USAGE, "%s is not a folder of snapshots",
				options->operands[i]);
			return error_hint(err, "--follow is for folders of heapctl serve "
					       "--history and heapctl watch");
		}
	send_report_begin(&session->report);
	for (;;) {
		for (size_t i = 0; i < options->operand_count; i++)
			if (!send_new(session, options->operands[i], &is_first, err))
				return false;
		clock_sleep_us(FOLLOW_LOOK_MS * 1000);
	}
}

static void session_deinit(struct send_session *session)
{
	destination_close(session->destination);
	symbolizer_free(session->symbolizer);
	u64_table_deinit(&session->files);
	u64_table_deinit(&session->unreadable);
}

bool send_session_run(const struct send_options *options, struct error *err)
{
	CLEANUP(session_deinit)
	struct send_session session = { .options = options, .report.fd = options->report_fd };

	const struct destination_options wanted = {
		.retry = {
			.limit_ms = options->follows ? INT64_MAX / 2 : options->retry_ms,
			.max_wait_ms = options->follows ? FOLLOW_MAX_WAIT_MS : MAX_WAIT_MS,
			.waits = warn_of_wait,
			.context = &session,
		},
		.sent = note_sent,
		.context = &session,
	};
	if (!fleet_destination_open(&options->store, wanted, &session.destination, err))
		return false;
	if (gethostname(session.host, sizeof session.host - 1) != 0)
		session.host[0] = '\0';
	u64_table_init(&session.files, hash_seed());
	u64_table_init(&session.unreadable, hash_seed());
	if (options->follows)
		return follow(&session, err);
	begin_symbols(&session);
	const bool is_done = send_all(&session, err);
	warn_of_modules(&session);
	print_counts(&session);
	return is_done;
}
