/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "trafficserver/report.h"

/* Traffic Server itself publishes metrics that often. */
enum { METRICS_MS = 10000 };

/* The line of a message that failed; false, to be returned. */
static bool failed(const char *what, const struct heapctl_error *err)
{
	report_error(what, err);
	return false;
}

/* Zeros where it cannot be had. */
static struct heapctl_status current_status(void)
{
	struct heapctl_status status = { .size = sizeof status };

	if (heapctl_get_status(&status, NULL) != HEAPCTL_OK)
		status = (struct heapctl_status){ .size = sizeof status };
	return status;
}

static uint64_t interval_bytes(const struct heapctl_status *status)
{
	return UINT64_C(1) << (status->lg_sample & 63);
}

static double seconds(int64_t duration_ms)
{
	return (double)duration_ms / 1000;
}

static bool handle_activate(void)
{
	const struct heapctl_status before = current_status();
	struct heapctl_error err;

	if (heapctl_activate(&err) != HEAPCTL_OK)
		return failed("activate", &err);
	report_done("activate: sampling %s, a sample every %" PRIu64 " bytes on average",
		before.active ? "was on already" : "is on", interval_bytes(&before));
	return true;
}

static bool handle_deactivate(void)
{
	const struct heapctl_status before = current_status();
	struct heapctl_error err;

	if (heapctl_deactivate(&err) != HEAPCTL_OK)
		return failed("deactivate", &err);
	report_done("deactivate: sampling %s; earlier samples stay in the next profiles",
		before.active ? "is off" : "was off already");
	return true;
}

static int write_now(int64_t run_id, int fd, struct heapctl_error *err)
{
	(void)run_id;
	return heapctl_dump_fd(fd, err);
}

static int write_run(int64_t run_id, int fd, struct heapctl_error *err)
{
	return heapctl_run_dump_fd(run_id, 0, fd, err);
}

static bool write_profile(struct worker *worker, const char *what,
	const struct profile_source *source, char path[PATH_MAX], uint64_t *size_bytes)
{
	const struct heapctl_status status = current_status();
	struct heapctl_error err;
	char context[PATH_MAX + 64];

	if (profile_file_write(&worker->files, status.prof_prefix, source, path, size_bytes, &err))
		return true;
	snprintf(context, sizeof context, "%s: %s was not written", what, path);
	return failed(context, &err);
}

static bool handle_dump(struct worker *worker)
{
	static const struct profile_source now = { .write = write_now };
	const struct heapctl_status before = current_status();
	char path[PATH_MAX];
	uint64_t size_bytes = 0;

	if (!before.available) {
		report_failure("dump: %s (%s)", before.reason, before.hint);
		return false;
	}
	if (!write_profile(worker, "dump", &now, path, &size_bytes))
		return false;
	metrics_add(&worker->metrics, METRIC_DUMPS, 1);
	const struct heapctl_status after = current_status();
	report_done("dump: wrote %s, %" PRIu64 " bytes, %" PRIu64 " stacks, in %" PRId64 " ms%s",
		path, size_bytes, after.last_dump_stacks, after.last_dump_ms,
		after.last_dump_stacks > 0 ? ""
		: after.active		   ? "; nothing has been sampled yet"
					   : "; sampling is off (activate it first)");
	return true;
}

struct stats_output {
	uint64_t size_bytes;
	int errnum;
};

static int write_to_stderr(void *context, const char *data, size_t size)
{
	struct stats_output *const output = context;

	while (size > 0) {
		const ssize_t written = write(STDERR_FILENO, data, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			output->errnum = errno;
			return 1;
		}
		data += written;
		size -= (size_t)written;
		output->size_bytes += (uint64_t)written;
	}
	return 0;
}

static void name_stderr(char path[PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/fd/2", path, PATH_MAX - 1);

	snprintf(path + (length > 0 ? length : 0), length > 0 ? 1 : PATH_MAX, "%s",
		length > 0 ? "" : "stderr");
}

static bool handle_stats(void)
{
	struct stats_output output = { 0 };
	struct heapctl_error err;
	char path[PATH_MAX];

	name_stderr(path);
	if (heapctl_stats("", write_to_stderr, &output, &err) != HEAPCTL_OK)
		return failed("stats", &err);
	if (output.errnum != 0) {
		report_failure("stats: %s: %s", path, strerror(output.errnum));
		return false;
	}
	if (strcmp(path, "/dev/null") == 0) {
		report_failure("stats: stderr is /dev/null (start traffic_manager with "
			       "--bind_stderr traffic.out)");
		return false;
	}
	report_done("stats: wrote %" PRIu64 " bytes to %s", output.size_bytes, path);
	return true;
}

static bool handle_status(void)
{
	const struct heapctl_status status = current_status();
	char path[PATH_MAX];
	struct heapctl_error err;

	if (!status.available) {
		report_done("status: no profile can be taken: %s (%s)", status.reason, status.hint);
		return true;
	}
	(void)profile_file_check(status.prof_prefix, path, &err);
	report_done("status: sampling is %s, a sample every %" PRIu64
		    " bytes; %s; allocated %" PRIu64 ", resident %" PRIu64
		    " bytes; profiles go to %s.*; socket %s; %s %s",
		status.active ? "on" : "off", interval_bytes(&status),
		status.running ? "a run is on" : "no run is on", status.allocated, status.resident,
		path, status.socket[0] == '\0' ? "none" : status.socket, status.allocator,
		status.version);
	return true;
}

static bool handle_start(struct worker *worker, const char *duration)
{
	struct heapctl_run run = { .size = sizeof run };
	int64_t duration_ms = 0;
	struct heapctl_error err;

	if (*duration != '\0' && heapctl_parse_duration(duration, &duration_ms, &err) != HEAPCTL_OK)
		return failed("start", &err);
	if (heapctl_run_start(duration_ms, &run, &err) != HEAPCTL_OK)
		return failed("start", &err);
	if (run.already_running) {
		report_failure("start: run %" PRId64
			       " is on already, for another %.1f s (stop it, or wait)",
			run.id, seconds(run.remaining_ms));
		return false;
	}
	worker->run_id = run.id;
	report_done("start: run %" PRId64
		    " is on for %.1f s; its profile will be written at its end",
		run.id, seconds(run.duration_ms));
	return true;
}

static bool write_ended_run(struct worker *worker, const char *what, const struct heapctl_run *run)
{
	const struct profile_source source = { .write = write_run, .run_id = run->id };
	char path[PATH_MAX];
	uint64_t size_bytes = 0;

	if (worker->run_id == run->id)
		worker->run_id = 0;
	if (run->state != HEAPCTL_RUN_FINISHED) {
		report_failure("%s: run %" PRId64 " failed: %s", what, run->id, run->error);
		return false;
	}
	if (!write_profile(worker, what, &source, path, &size_bytes))
		return false;
	metrics_add(&worker->metrics, METRIC_DUMPS, 1);
	report_done("%s: run %" PRId64 " took %.1f s; wrote %s, %" PRIu64 " bytes", what, run->id,
		seconds(run->ended_ms - run->started_ms), path, size_bytes);
	return true;
}

static bool handle_stop(struct worker *worker)
{
	struct heapctl_run run = { .size = sizeof run };
	struct heapctl_error err;

	if (heapctl_run_stop(&run, &err) != HEAPCTL_OK)
		return failed("stop", &err);
	return write_ended_run(worker, "stop", &run);
}

/* Writes the profile of the run that was started here, if it has ended. True when there is none. */
static bool finish_run(struct worker *worker)
{
	struct heapctl_run run = { .size = sizeof run };
	struct heapctl_error err;

	if (worker->run_id == 0)
		return true;
	if (heapctl_run_get(worker->run_id, &run, &err) != HEAPCTL_OK) {
		worker->run_id = 0;
		return failed("start", &err);
	}
	return run.state == HEAPCTL_RUN_RUNNING || write_ended_run(worker, "start", &run);
}

static bool handle_reset(const char *lg_sample)
{
	enum { KEEP = -1, LG_SAMPLE_MIN = 12, LG_SAMPLE_MAX = 40 };
	struct heapctl_error err;
	int value = KEEP;

	if (!message_number(lg_sample, &value) ||
		(value != KEEP && (value < LG_SAMPLE_MIN || value > LG_SAMPLE_MAX))) {
		report_failure("reset: '%s' is not a number from %d to %d (lg_sample)", lg_sample,
			LG_SAMPLE_MIN, LG_SAMPLE_MAX);
		return false;
	}
	if (heapctl_reset(value, &err) != HEAPCTL_OK)
		return failed("reset", &err);
	const struct heapctl_status status = current_status();
	report_done("reset: all samples were discarded; from now on a sample every %" PRIu64
		    " bytes on average",
		interval_bytes(&status));
	return true;
}

/* False when it failed, as the line about it says. */
static bool handle_message(struct worker *worker, const struct message *message)
{
	const char *argument = "";
	const enum message_verb verb = message_verb(message, &argument);

	if (worker->problem[0] != '\0') {
		report_failure("'%s' failed: %s", message->text, worker->problem);
		return false;
	}
	switch (verb) {
	case MESSAGE_ACTIVATE:
		return handle_activate();
	case MESSAGE_DEACTIVATE:
		return handle_deactivate();
	case MESSAGE_DUMP:
		return handle_dump(worker);
	case MESSAGE_STATS:
		return handle_stats();
	case MESSAGE_STATUS:
		return handle_status();
	case MESSAGE_START:
		return handle_start(worker, argument);
	case MESSAGE_STOP:
		return handle_stop(worker);
	case MESSAGE_RESET:
		return handle_reset(argument);
	case MESSAGE_EMPTY:
		report_failure("empty message; there are " MESSAGE_WORDS);
		return false;
	case MESSAGE_UNKNOWN:
		break;
	}
	report_failure("there is no message '%s'; there are " MESSAGE_WORDS, message->text);
	return false;
}

static void update_metrics(struct worker *worker)
{
	struct heapctl_status status = { .size = sizeof status };

	metrics_add(&worker->metrics, METRIC_FAILURES, queue_refused(&worker->queue));
	if (worker->problem[0] == '\0' && heapctl_get_status(&status, NULL) == HEAPCTL_OK)
		metrics_set_status(&worker->metrics, &status);
}

/* Until the run that is waited for ends, or the metrics are due. */
static int64_t wait_ms(const struct worker *worker)
{
	struct heapctl_run run = { .size = sizeof run };

	if (worker->run_id == 0 || heapctl_run_get(worker->run_id, &run, NULL) != HEAPCTL_OK)
		return METRICS_MS;
	if (run.state != HEAPCTL_RUN_RUNNING)
		return 0;
	/* A little later, so that it has ended by then. */
	return run.remaining_ms + 50 < METRICS_MS ? run.remaining_ms + 50 : METRICS_MS;
}

/* The server's signals are for its own threads. */
static void block_signals(void)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGHUP);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

void *worker_main(void *context)
{
	struct worker *const worker = context;
	struct message message;

	prctl(PR_SET_NAME, PLUGIN_TAG);
	block_signals();
	for (;;) {
		update_metrics(worker);
		switch (queue_take(&worker->queue, &message, wait_ms(worker))) {
		case QUEUE_MESSAGE:
			if (!handle_message(worker, &message))
				metrics_add(&worker->metrics, METRIC_FAILURES, 1);
			break;
		case QUEUE_TIMEOUT:
			if (!finish_run(worker))
				metrics_add(&worker->metrics, METRIC_FAILURES, 1);
			break;
		case QUEUE_CLOSED:
			return NULL;
		}
	}
}
