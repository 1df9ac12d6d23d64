/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/record_tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/profile_sum.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/target_resolve.h"
#include "client/target_tree.h"

/* The shortest run that an agent does. */
enum { MIN_RUN_MS = 1000, TICK_MS = 200 };

/* One process of the tree. */
struct member {
	struct timed_recording recording;
	int64_t due_ms; /* when its run should have ended */
	bool is_attached;
	bool is_over; /* saved, or left out */
	bool is_saved;
};

/* Processes that have the same fate, named up to a number. */
struct process_names {
	size_t count;
	struct buffer text;
};

struct tree_recording {
	const struct record_request *request;
	struct target_tree tree;
	size_t seen_count;	 /* of its entries */
	struct member **members; /* one at a time is allocated: recordings do not move */
	size_t member_count, member_capacity;
	size_t saved_count, older_count, sample_count;
	bool sum_is_file;   /* -o names a regular file */
	bool has_agreed;    /* to the loss of samples by another interval */
	size_t late_count;  /* processes that began too late to be recorded */
	size_t young_count; /* at the last look, those that had just begun */
	int64_t end_ms;
	struct process_names ended; /* before their profile was taken */
	struct process_names bare;  /* began meanwhile, without an agent */
	struct error problem;	    /* of the last that was left out */
};

static void process_names_add(struct process_names *names, const char *label)
{
	enum { NAMES_SHOWN = 6 };

	if (++names->count <= NAMES_SHOWN)
		buffer_printf(&names->text, "%s%s", names->count == 1 ? "" : ", ", label);
	else if (names->count == NAMES_SHOWN + 1)
		buffer_append_string(&names->text, ", ...");
}

static void process_names_warn(struct process_names *names, const char *one, const char *several)
{
	if (names->count == 1)
		verb_warn("left out: %s, which %s", buffer_string(&names->text), one);
	else if (names->count > 1)
		verb_warn("left out: %zu processes that %s: %s", names->count, several,
			buffer_string(&names->text));
}

static void tree_recording_init(struct tree_recording *whole, const struct record_request *request)
{
	*whole = (struct tree_recording){ .request = request };
	buffer_init(&whole->ended.text, &memory_or_exit);
	buffer_init(&whole->bare.text, &memory_or_exit);
}

static void tree_recording_deinit(struct tree_recording *whole)
{
	for (size_t i = 0; i < whole->member_count; i++) {
		timed_recording_deinit(&whole->members[i]->recording);
		free(whole->members[i]);
	}
	free(whole->members);
	target_tree_deinit(&whole->tree);
	buffer_deinit(&whole->ended.text);
	buffer_deinit(&whole->bare.text);
}

/* One that has ended is counted; each other has a reason of its own. */
static void leave_out(
	struct tree_recording *whole, const struct target *target, const struct error *problem)
{
	whole->problem = *problem;
	if (process_has_ended(&target->process)) {
		process_names_add(&whole->ended, target->label);
		return;
	}
	terminal_progress_end();
	control_warn_of_left_out(target, problem);
}

static void detach(struct member *member)
{
	const struct target *const target = &member->recording.target;
	struct error err;

	if (!member->is_attached || process_has_ended(&target->process))
		return;
	member->is_attached = false;
	if (!timed_recording_detach(target, &err))
		verb_warn("%s: detaching failed: %s", target->label, err.message);
}

/* What is forked has the interval of its parent's recording, so that nothing would be lost. */
static bool check_interval(const struct tree_recording *whole, const struct target *target,
	const struct record_request *request, struct error *err)
{
	uint64_t count;

	if (whole->has_agreed)
		return true;
	if (!timed_recording_count_discarded(target, request->lg_sample, &count, err))
		return false;
	return count == 0 || error_set(err, ERROR_STATE,
				     "%s has %" PRIu64 " sample%s, which --sample would discard",
				     target->label, count, count == 1 ? "" : "s");
}

/* False: left out. */
static bool begin(struct tree_recording *whole, struct member *member,
	const struct target_tree_entry *entry, const struct record_request *request)
{
	struct target *const target = &member->recording.target;
	struct record_request own = *request;
	struct error err = entry->problem;

	if (!entry->is_reached && (!request->may_attach || err.kind != ERROR_NOT_FOUND)) {
		leave_out(whole, &entry->target, &err);
		return false;
	}
	bool is_ready = timed_recording_open(&entry->target, &own, &member->recording, &err);
	if (is_ready && !entry->is_reached) {
		is_ready = timed_recording_attach(request, target, &err);
		member->is_attached = is_ready;
		member->recording.is_attached = is_ready;
		own.lg_sample = SAMPLE_LG_KEEP;
	}
	if (is_ready && check_interval(whole, target, &own, &err) &&
		timed_recording_begin(&own, &member->recording, &err)) {
		member->due_ms = clock_monotonic_ms() + own.duration_ms;
		return true;
	}
	detach(member);
	leave_out(whole, target, &err);
	return false;
}

static void add_member(struct tree_recording *whole, const struct target_tree_entry *entry,
	const struct record_request *request)
{
	struct member *const member = xcalloc(1, sizeof *member);
	CLEANUP(free_cleanup) char *path = NULL;

	/* Until they are added up, and where that fails, each has a file beside the sum's. */
	if (whole->sum_is_file)
		path = xasprintf("%s.%d", whole->request->path, (int)entry->target.process.pid);
	whole->members = xgrow(
		whole->members, &whole->member_capacity, whole->member_count + 1, sizeof(void *));
	whole->members[whole->member_count++] = member;
	struct record_request own = *request;
	own.path = path;
	member->is_over = !begin(whole, member, entry, &own);
}

/*
 * Processes that began meanwhile are recorded until the end of the others. Without an agent they
 * are many, in a server that starts a shell for each request.
 */
static void add_new_members(struct tree_recording *whole)
{
	struct record_request request = *whole->request;
	struct error ignored;

	if (!target_tree_update(request.operand, &whole->tree, &whole->young_count, &ignored))
		return;
	for (; whole->seen_count < whole->tree.count; whole->seen_count++) {
		const struct target_tree_entry *const entry =
			&whole->tree.entries[whole->seen_count];
		request.duration_ms = whole->end_ms - clock_monotonic_ms();
		if (request.duration_ms < MIN_RUN_MS)
			whole->late_count++;
		else if (entry->is_reached || request.may_attach)
			add_member(whole, entry, &request);
		else if (entry->problem.kind == ERROR_NOT_FOUND)
			process_names_add(process_has_ended(&entry->target.process) ? &whole->ended
										    : &whole->bare,
				entry->target.label);
		else
			leave_out(whole, &entry->target, &entry->problem);
	}
}

static void finish(struct tree_recording *whole, struct member *member)
{
	struct timed_recording *const recording = &member->recording;
	struct sample_count samples;
	struct error err;

	member->is_over = true;
	terminal_progress_end();
	if (timed_recording_save(recording, &err)) {
		whole->saved_count++;
		member->is_saved = true;
		whole->older_count += recording->has_start;
		if (sample_count_of_file(output_name(&recording->end), &samples))
			whole->sample_count += samples.count;
	} else {
		leave_out(whole, &recording->target, &err);
	}
	if (recording->is_kept) {
		verb_warn("%s: %s", recording->target.label, err.hint);
		return;
	}
	detach(member);
}

/* A process that is stopped, or busy, may answer later. */
static void look_at(struct tree_recording *whole, struct member *member)
{
	const struct target *const target = &member->recording.target;
	const int64_t id = member->recording.run.id;
	const bool is_late = clock_monotonic_ms() > member->due_ms + PROFILE_RUN_PATIENCE_MS;
	bool is_done = false;
	struct error err = { 0 };

	if (profile_run_poll(target, id, &is_done, &err) && is_done) {
		finish(whole, member);
		return;
	}
	const bool is_lost = err.kind == ERROR_STATE || process_has_ended(&target->process);
	if (!is_lost && !is_late)
		return;
	if (err.kind == ERROR_NONE)
		error_set(&err, ERROR_TIMEOUT, "%s: the run is %d s past its deadline",
			target->label, PROFILE_RUN_PATIENCE_MS / 1000);
	member->is_over = true;
	leave_out(whole, target, &err);
	if (is_lost) {
		detach(member);
		return;
	}
	verb_warn("the run continues in %s: `heapctl runs %d --save %" PRId64
		  "` saves its profile%s",
		target->label, (int)target->process.pid, id,
		member->is_attached ? ", and `heapctl detach` takes its agent out" : "");
}

static void look_at_all(struct tree_recording *whole)
{
	for (size_t i = 0; i < whole->member_count; i++) {
		if (!whole->members[i]->is_over)
			look_at(whole, whole->members[i]);
	}
}

static size_t count_running(const struct tree_recording *whole)
{
	size_t count = 0;

	for (size_t i = 0; i < whole->member_count; i++)
		count += !whole->members[i]->is_over;
	return count;
}

static void end_early(struct tree_recording *whole)
{
	const int64_t now_ms = clock_monotonic_ms();
	struct error err;

	terminal_progress_end();
	fputs("heapctl: interrupted: ending the runs now and saving their profiles\n", stderr);
	for (size_t i = 0; i < whole->member_count; i++) {
		struct member *const member = whole->members[i];
		if (member->is_over)
			continue;
		member->due_ms = now_ms;
		if (profile_run_end_early(
			    &member->recording.target, member->recording.run.id, &err)) {
			finish(whole, member);
		} else {
			member->is_over = true;
			leave_out(whole, &member->recording.target, &err);
			detach(member);
		}
	}
}

/* The first one behind the end is on time. */
static int64_t next_look(const struct tree_recording *whole, int64_t now_ms)
{
	if (now_ms >= whole->end_ms)
		return clock_monotonic_ms() + PROFILE_RUN_OVERDUE_MS;
	return now_ms + PROFILE_RUN_LOOK_MS < whole->end_ms ? now_ms + PROFILE_RUN_LOOK_MS
							    : whole->end_ms;
}

/* Until each run has ended: the agents end them on time. */
static void wait_for_all(struct tree_recording *whole)
{
	const int64_t duration_ms = whole->request->duration_ms;
	const int64_t start_ms = whole->end_ms - duration_ms;
	int64_t next_look_ms = start_ms;
	bool is_last_look = false;
	char what[192];

	for (size_t running; (running = count_running(whole)) > 0;) {
		const int64_t now_ms = clock_monotonic_ms();
		if (terminal_was_interrupted()) {
			end_early(whole);
			break;
		}
		if (now_ms >= next_look_ms) {
			if (!is_last_look)
				add_new_members(whole);
			is_last_look = now_ms >= whole->end_ms;
			look_at_all(whole);
			next_look_ms = next_look(whole, now_ms);
			continue;
		}
		snprintf(what, sizeof what, "recording %zu process%s of %s", running,
			running == 1 ? "" : "es", whole->request->operand);
		terminal_progress(what, now_ms - start_ms, duration_ms);
		const int64_t left_ms = next_look_ms - now_ms;
		terminal_sleep_ms(left_ms < TICK_MS ? left_ms : TICK_MS);
	}
	terminal_progress_end();
}

/* All processes together are asked about once. */
static bool agree_to_discard(struct tree_recording *whole, struct error *err)
{
	const struct record_request *const request = whole->request;
	uint64_t all = 0, count;
	struct error ignored;

	for (size_t i = 0; i < whole->tree.count && !request->may_discard; i++) {
		const struct target_tree_entry *const entry = &whole->tree.entries[i];
		if (entry->is_reached && timed_recording_count_discarded(&entry->target,
						 request->lg_sample, &count, &ignored))
			all += count;
	}
	whole->has_agreed = request->may_discard || all > 0;
	return timed_recording_agree_to_discard(request, request->operand, all, err);
}

static void report(struct tree_recording *whole)
{
	const size_t late_count = whole->late_count + whole->young_count;
	const char *const path = whole->request->path;

	process_names_warn(&whole->ended, "ended before its profile was taken",
		"ended before their profile was taken");
	process_names_warn(&whole->bare, "began meanwhile and has no agent",
		"began meanwhile and have no agent");
	if (late_count > 0)
		verb_warn("left out: %zu process%s that began at the end of the recording",
			late_count, late_count == 1 ? "" : "es");
	if (whole->saved_count == 0)
		return;
	if (whole->older_count > 0 && (path == NULL || whole->sum_is_file))
		fprintf(stderr,
			"sampling was on before in %zu of them: their profiles have older "
			"samples, too, and the file with .before is the profile of the start\n",
			whole->older_count);
	else if (whole->older_count > 0)
		fprintf(stderr,
			"sampling was on before in %zu of them: %s has older samples, too; no sum "
			"of the starts is saved beside a pipe, a device or a descriptor\n",
			whole->older_count, strcmp(path, "-") == 0 ? "standard output" : path);
	if (whole->sample_count == 0 && path == NULL)
		verb_warn("no profile has a sample (record for longer, or with --sample 16KiB)");
	if (path == NULL)
		fprintf(stderr,
			"%zu process%s recorded; heapctl report FILE... adds the profiles up\n",
			whole->saved_count, whole->saved_count == 1 ? "" : "es");
}

/* The saved files, of the end or of the start; the names are borrowed. */
static size_t list_files(const struct tree_recording *whole, bool of_start, char **paths)
{
	size_t count = 0;

	for (size_t i = 0; i < whole->member_count; i++) {
		struct member *const member = whole->members[i];
		struct timed_recording *const recording = &member->recording;
		if (!member->is_saved || (of_start && !recording->has_start))
			continue;
		paths[count++] = of_start ? recording->start.draft.path : recording->end.draft.path;
	}
	return count;
}

static void remove_files(const struct tree_recording *whole, bool of_start)
{
	CLEANUP(free_cleanup) char **paths = xcalloc(whole->member_count, sizeof *paths);
	const size_t count = list_files(whole, of_start, paths);

	for (size_t i = 0; i < count; i++)
		unlink(paths[i]);
}

/* Adds up the files of all processes, which are removed then. */
static bool save_sum(
	const struct tree_recording *whole, bool of_start, struct output *output, struct error *err)
{
	CLEANUP(free_cleanup) char **paths = xcalloc(whole->member_count, sizeof *paths);
	const size_t count = list_files(whole, of_start, paths);

	if (count == 0)
		return true;
	if (!profile_sum_save(paths, count, output, err)) {
		CLEANUP(free_cleanup) char *name = xstrdup(paths[0]);
		return error_prefix(err,
			"the profile of each process is saved (%s ...), but not "
			"their sum",
			name);
	}
	remove_files(whole, of_start);
	return true;
}

static bool save_sums(const struct tree_recording *whole, struct output *output, struct error *err)
{
	CLEANUP(output_discard) struct output start = { 0 };

	if (!whole->sum_is_file) {
		remove_files(whole, true);
	} else if (whole->older_count > 0) {
		CLEANUP(free_cleanup) char *path = xasprintf("%s.before", whole->request->path);
		if (!output_open(path, "", "", &start, err) || !save_sum(whole, true, &start, err))
			return false;
	}
	return save_sum(whole, false, output, err);
}

/* Also where none has an agent yet: some may be attached to. */
static bool find_processes(struct tree_recording *whole, struct error *err)
{
	return target_tree_resolve(whole->request->operand, &whole->tree, err) ||
	       (whole->request->may_attach && whole->tree.count > 0);
}

static bool record_all(struct tree_recording *whole, struct error *err)
{
	const struct record_request *const request = whole->request;

	CLEANUP(output_discard) struct output sum = { 0 };

	/* Before there is a file, which nobody would remove. */
	control_begin_run();
	if (request->path != NULL && !output_open(request->path, "", "", &sum, err))
		return false;
	whole->sum_is_file = request->path != NULL && output_is_file(&sum);
	if (!find_processes(whole, err) || !agree_to_discard(whole, err))
		return false;
	control_run_has_begun();
	whole->end_ms = clock_monotonic_ms() + request->duration_ms;
	while (whole->seen_count < whole->tree.count)
		add_member(whole, &whole->tree.entries[whole->seen_count++], request);
	wait_for_all(whole);
	report(whole);
	if (whole->saved_count > 0)
		return request->path == NULL || save_sums(whole, &sum, err);
	*err = whole->problem;
	return error_prefix(err, "%s: no process has a profile", request->operand);
}

bool record_tree(const struct record_request *request, struct error *err)
{
	CLEANUP(tree_recording_deinit) struct tree_recording whole = { 0 };

	tree_recording_init(&whole, request);
	if (request->start_path != NULL) {
		error_set(err, ERROR_USAGE, "--start-profile does not go with several processes");
		return error_hint(err, "the profile of the start is saved as FILE.before where "
				       "sampling was on before");
	}
	return record_all(&whole, err);
}
