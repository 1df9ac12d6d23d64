/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/control.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "client/agent_client.h"
#include "render/quantity.h"
#include "client/target_resolve.h"

/* "redis-server.4711.20261121-101500.heap", with "-2" when that is taken. */
static void make_name(const char *stem, const char *suffix, int attempt, char path[4096])
{
	const time_t now = time(NULL);
	char moment[32], number[16] = "";
	struct tm parts;

	localtime_r(&now, &parts);
	strftime(moment, sizeof moment, "%Y%m%d-%H%M%S", &parts);
	if (attempt > 1)
		snprintf(number, sizeof number, "-%d", attempt);
	snprintf(path, 4096, "%s.%s%s.%s", stem, moment, number, suffix);
}

bool output_open(const char *path, const char *stem, const char *suffix, struct output *output,
	struct error *err)
{
	char made_up[4096];

	if (path != NULL && path[0] == '\0')
		return error_set(err, ERROR_USAGE, "the output file has an empty name");
	*output = (struct output){ .is_stdout = path != NULL && strcmp(path, "-") == 0 };
	if (output->is_stdout) {
		if (isatty(STDOUT_FILENO) != 1)
			return true;
		error_set(err, ERROR_USAGE, "refusing to write a binary profile to a terminal");
		return error_hint(err, "use -o FILE, or a pipe");
	}
	if (path != NULL)
		return file_draft_open(path, 0600, &output->draft, err);
	int attempt = 1;
	do {
		make_name(stem, suffix, attempt, made_up);
	} while (access(made_up, F_OK) == 0 && ++attempt < 1000);
	if (file_draft_open(made_up, 0600, &output->draft, err))
		return true;
	return error_hint(err, "say where to with -o FILE");
}

int output_fd(const struct output *output)
{
	return output->is_stdout ? STDOUT_FILENO : output->draft.fd;
}

const char *output_name(const struct output *output)
{
	return output->is_stdout ? "standard output" : output->draft.path;
}

bool output_is_file(const struct output *output)
{
	return !output->is_stdout && !output->draft.in_place;
}

static bool get_folder(const char *path, struct stat *status)
{
	const size_t size = (size_t)(path_base_name(path) - path);
	CLEANUP(free_cleanup)
	char *folder = xstrndup(size > 0 ? path : ".", size > 0 ? size : 1);

	return stat(folder, status) == 0;
}

static bool is_same(const struct output *left, const struct output *right)
{
	const bool are_files = output_is_file(left);
	struct stat ours, theirs;

	if (output_is_file(right) != are_files)
		return false;
	const bool is_known = are_files ? get_folder(output_name(left), &ours) &&
						  get_folder(output_name(right), &theirs)
					: fstat(output_fd(left), &ours) == 0 &&
						  fstat(output_fd(right), &theirs) == 0;
	return is_known && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino &&
	       (!are_files || strcmp(path_base_name(output_name(left)),
				      path_base_name(output_name(right))) == 0);
}

bool output_open_other(
	const char *path, const struct output *first, struct output *output, struct error *err)
{
	if (!output_open(path, "", "", output, err))
		return false;
	return !is_same(first, output) ||
	       error_set(err, ERROR_USAGE,
		       "-o and --start-profile are both %s: two profiles need two files",
		       output_name(output));
}

bool output_commit(struct output *output, struct error *err)
{
	return output->is_stdout || file_draft_commit(&output->draft, err);
}

void output_discard(struct output *output)
{
	if (!output->is_stdout)
		file_draft_discard(&output->draft);
}

enum { TICK_MS = 200 }; /* how often the bar moves */

const struct verb_option control_json_options[] = {
	{ .name = "json", .help = "print JSON", .store = OPTION_STORE_SWITCH },
	{ 0 },
};

bool control_parse_target(const struct verb *verb, int argc, char **argv, struct target *target,
	bool *as_json, int *exit_code)
{
	struct option_parser parser;
	struct error err;

	if (!option_parse(&parser, verb, argc, argv, as_json)) {
		*exit_code = parser.exit_code;
		return false;
	}
	if (target_resolve(parser.operands[0], target, &err))
		return true;
	*exit_code = verb_fail(&err);
	return false;
}

void control_warn_of_wait(const struct target *target)
{
	verb_warn("%s: no answer yet; it may be busy with a profile. Waiting (Ctrl-C ends it)",
		target->label);
}

static void end_wait_at_interrupt(const struct target *target)
{
	control_warn_of_wait(target);
	const bool was_interrupted = terminal_was_interrupted();
	terminal_release_interrupts();
	if (was_interrupted)
		raise(SIGINT);
}

void control_begin_run(void)
{
	agent_on_silence(end_wait_at_interrupt);
	terminal_catch_interrupts();
}

void control_run_has_begun(void)
{
	agent_on_silence(control_warn_of_wait);
	terminal_catch_interrupts();
}

void control_warn_of_left_out(const struct target *target, const struct error *problem)
{
	const bool is_named = strstr(problem->message, target->label) != NULL;

	verb_warn("left out: %s%s%s", is_named ? "" : target->label, is_named ? "" : ": ",
		problem->message);
}

void control_print_json(const json_t *value)
{
	const size_t format = isatty(STDOUT_FILENO) == 1 ? JSON_INDENT(2) : JSON_COMPACT;

	json_dumpf(value, stdout, format);
	putchar('\n');
}

json_t *control_json_text(const char *text)
{
	CLEANUP(buffer_deinit) struct buffer printable = BUFFER_OR_EXIT;
	json_t *const value = json_string(text);

	if (value != NULL)
		return value;
	utf8_append_printable(&printable, text, strlen(text));
	return json_stringn(printable.data, printable.size);
}

bool control_post(const struct target *target, const char *path, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;

	return agent_call_json(target, "POST", path, &answer, err);
}

/* An empty profile is a disappointment that is better explained at once. */
static void warn_if_empty(const struct output *output, const char *advice)
{
	struct sample_count samples;

	if (output_is_file(output) && sample_count_of_file(output_name(output), &samples) &&
		samples.count == 0)
		verb_warn("%s: the profile has no samples: nothing that is in use was allocated "
			  "while sampling was on (%s)",
			output_name(output), advice);
}

bool control_save_profile(const struct target *target, const char *path, const char *advice,
	struct output *output, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };

	if (!agent_fetch_profile(
		    target, path, output_fd(output), output_name(output), &answer, err) ||
		!output_commit(output, err))
		return false;
	const struct quantity_text size =
		quantity_format(QUANTITY_BYTES, (double)answer.body_bytes, false);
	const char *const took_ms = http_answer_field(&answer, "heapctl-dump-ms");
	fprintf(stderr, "%s: %s%s%s%s\n", output_name(output), size.text,
		took_ms == NULL ? "" : ", taken in ", took_ms == NULL ? "" : took_ms,
		took_ms == NULL ? "" : " ms");
	if (advice != NULL)
		warn_if_empty(output, advice);
	return true;
}

static bool start_after(const struct target *target, const struct profile_run_request *request,
	const json_t *status, json_t **run, struct error *err)
{
	char path[128], lg_sample[32] = "";

	if (request->lg_sample != SAMPLE_LG_KEEP)
		snprintf(lg_sample, sizeof lg_sample, "&lg_sample=%d", request->lg_sample);
	snprintf(path, sizeof path, "/v1/runs?duration_ms=%" PRId64 "%s%s", request->duration_ms,
		json_flag(status, "profiling.active") ? "&keep_active=true" : "", lg_sample);
	return agent_call_json(target, "POST", path, run, err);
}

bool profile_run_start(const struct target *target, const struct profile_run_request *request,
	json_t **run, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	return agent_check_profiling(target, &status, err) &&
	       start_after(target, request, status, run, err);
}

/* Sampling may be off now and have been on before: jemalloc keeps the samples of what is in use. */
static uint64_t count_older(const struct target *target, int64_t id)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct sample_count samples;
	struct error ignored;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/start", id);
	return agent_get(target, path, &answer, &ignored) &&
			       sample_count_read(buffer_string(&answer.body), &samples)
		       ? samples.count
		       : 0;
}

bool profile_run_start_own(const struct target *target, const struct profile_run_request *request,
	struct profile_run *own, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	CLEANUP(json_cleanup) json_t *run = NULL;
	char left[DURATION_TEXT_BYTES];

	if (!agent_check_profiling(target, &status, err) ||
		!start_after(target, request, status, &run, err))
		return false;
	if (json_flag(run, "already_running")) {
		error_set(err, ERROR_STATE, "%s: run %" PRId64 " is on already, with %s left",
			target->label, json_number(run, "id"),
			duration_format(json_number(run, "remaining_ms"), left));
		return target->process.pid > 0
			       ? error_hint(err, "wait for it, or end it with heapctl stop %d",
					 (int)target->process.pid)
			       : error_hint(err, "wait for it, or end it with heapctl stop TARGET");
	}
	*own = (struct profile_run){ .id = json_number(run, "id"),
		.was_active = json_flag(run, "was_active"),
		.was_reset = request->lg_sample != SAMPLE_LG_KEEP,
		.allocated_bytes = json_number(status, "memory.allocated"),
		.begun_ms = clock_monotonic_ms() };
	if (!own->was_reset)
		own->older_count = count_older(target, own->id);
	return true;
}

bool profile_run_stop(const struct target *target, json_t **run, struct error *err)
{
	return agent_call_json(target, "POST", "/v1/runs/stop", run, err);
}

/* ERROR_STATE, with the agent's reason, when this ended run failed. */
static bool profile_run_check_outcome(
	const struct target *target, const json_t *run, struct error *err)
{
	const char *const why = json_text(run, "error");

	if (strcmp(json_text(run, "state"), "failed") != 0)
		return true;
	return error_set(err, ERROR_STATE, "%s: the run failed%s%s", target->label,
		*why == '\0' ? "" : ": ", why);
}

bool profile_run_poll(const struct target *target, int64_t id, bool *has_ended, struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64, id);
	if (!agent_call_json(target, "GET", path, &run, err))
		return false;
	*has_ended = strcmp(json_text(run, "state"), "running") != 0;
	return !*has_ended || profile_run_check_outcome(target, run, err);
}

bool profile_run_end_early(const struct target *target, int64_t id, struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	bool has_ended = false;

	/* The run may have ended meanwhile, or another client may have ended it. */
	if (!profile_run_poll(target, id, &has_ended, err))
		return false;
	if (has_ended)
		return true;
	if (profile_run_stop(target, &run, err))
		return profile_run_check_outcome(target, run, err);
	struct error other;
	return err->kind == ERROR_STATE && profile_run_poll(target, id, &has_ended, &other) &&
	       has_ended;
}

static bool stop_early(const struct target *target, int64_t id, struct error *err)
{
	terminal_progress_end();
	fputs("heapctl: interrupted: ending the run now and saving its profile\n", stderr);
	return profile_run_end_early(target, id, err);
}

bool control_wait_for_run(const struct target *target, int64_t id, int64_t duration_ms,
	const char *what, struct error *err)
{
	const int64_t start_ms = clock_monotonic_ms();
	int64_t next_look_ms =
		duration_ms > PROFILE_RUN_LOOK_MS ? PROFILE_RUN_LOOK_MS : duration_ms;
	bool has_ended = false, ok = true;

	while (ok && !has_ended) {
		const int64_t done_ms = clock_monotonic_ms() - start_ms;
		if (terminal_was_interrupted())
			return stop_early(target, id, err);
		if (done_ms > duration_ms + PROFILE_RUN_PATIENCE_MS) {
			error_set(err, ERROR_TIMEOUT, "%s: the run is %d s past its deadline",
				target->label, PROFILE_RUN_PATIENCE_MS / 1000);
			ok = error_hint(err, "heapctl runs shows its state");
			break;
		}
		terminal_progress(what, done_ms, duration_ms);
		if (done_ms < next_look_ms) {
			const int64_t left_ms = next_look_ms - done_ms;
			terminal_sleep_ms(left_ms < TICK_MS ? left_ms : TICK_MS);
			continue;
		}
		/* At intervals before the end, to notice early that the target has ended. */
		ok = profile_run_poll(target, id, &has_ended, err);
		next_look_ms = done_ms + PROFILE_RUN_LOOK_MS < duration_ms
				       ? done_ms + PROFILE_RUN_LOOK_MS
			       : done_ms < duration_ms ? duration_ms
						       : done_ms + PROFILE_RUN_OVERDUE_MS;
	}
	terminal_progress_end();
	/* A target that is stopped or busy: the run is the agent's, and ends without this command.
	 */
	if (!ok && err->kind == ERROR_TIMEOUT && target->process.pid != 0)
		verb_warn("the run continues in %s: `heapctl runs %d --save %" PRId64
			  "` saves its profile",
			target->label, (int)target->process.pid, id);
	return ok;
}

bool control_save_run(const struct target *target, int64_t id, const char *which,
	struct output *output, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id, which);
	return control_save_profile(target, path, NULL, output, err);
}

const char *control_format_time(int64_t time_ms, char text[CONTROL_TIME_BYTES])
{
	const time_t moment = time_ms / 1000, now = time(NULL);
	struct tm parts, today;

	if (time_ms == 0) {
		strcpy(text, "-");
		return text;
	}
	localtime_r(&moment, &parts);
	localtime_r(&now, &today);
	const bool is_today = parts.tm_year == today.tm_year && parts.tm_yday == today.tm_yday;
	strftime(text, CONTROL_TIME_BYTES, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &parts);
	return text;
}
