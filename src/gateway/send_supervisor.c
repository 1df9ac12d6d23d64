/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/send_supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/own_process.h"
#include "store/store.h"

enum {
	STACK_BYTES = 1024 * 1024,
	FIRST_WAIT_MS = 1000,
	MAX_WAIT_MS = 15 * 60 * 1000,
	/* Interval between looks at what was not sent yet. */
	LOOK_MS = 2000,
	STOP_TIMEOUT_MS = 2000,
	LINE_BYTES = 4096,
	LEFT_OUT_MAX = 64,
	REPORT_FD = 3, /* of the process */
};

struct send_supervisor {
	struct gateway *gateway;
	const struct send_settings *settings;
	pthread_t thread;

	/* Of the thread. */
	int64_t wait_ms; /* after the next failure */
	int64_t left_out[LEFT_OUT_MAX];
	size_t left_out_count;
	int64_t suspect;	  /* the snapshot that an earlier process read when it ended */
	struct send_state before; /* what earlier processes have counted */

	pthread_mutex_t mutex; /* of what follows */
	struct send_state state;
};

/* One process, and what it has said. */
struct sending_process {
	pid_t pid;
	int pidfd, report_fd, message_fd;
	struct buffer report, messages; /* unfinished lines */
	int64_t reading;		/* the snapshot that it reads; 0: none */
	char last_message[LINE_BYTES];
};

static void log_line(const struct send_supervisor *supervisor, const char *text)
{
	char line[LINE_BYTES + 16];

	if (supervisor->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "sending: %s", text);
	supervisor->gateway->log(line);
}

static void count_unsent(struct send_supervisor *supervisor)
{
	struct error ignored;
	uint64_t count = 0;
	int64_t oldest_ms = 0;

	if (!store_count_unsent(supervisor->gateway->store, &count, &oldest_ms, &ignored))
		return;
	pthread_mutex_lock(&supervisor->mutex);
	supervisor->state.unsent = count;
	supervisor->state.oldest_unsent_ms = oldest_ms;
	pthread_mutex_unlock(&supervisor->mutex);
}

static void set_problem(
	struct send_supervisor *supervisor, const struct error *problem, int64_t wait_ms)
{
	pthread_mutex_lock(&supervisor->mutex);
	supervisor->state.problem = *problem;
	supervisor->state.next_attempt_ms =
		problem->kind == ERROR_NONE ? 0 : clock_realtime_ms() + wait_ms;
	pthread_mutex_unlock(&supervisor->mutex);
}

/* A line of cli/send_report.h. */
static void take_report(
	struct send_supervisor *supervisor, struct sending_process *process, const char *line)
{
	json_error_t ignored;
	CLEANUP(json_cleanup) json_t *report = agent_json_parse(line, strlen(line), 0, &ignored);
	struct send_state *const state = &supervisor->state;
	const struct send_state *const before = &supervisor->before;
	struct error problem = { 0 };

	if (report == NULL)
		return;
	process->reading = json_number(report, "reading");
	if (*json_text(report, "problem") != '\0') {
		error_set(&problem, ERROR_STATE, "%s", json_text(report, "problem"));
		error_hint(&problem, "%s", json_text(report, "hint"));
	}
	const uint64_t sent = before->sent + (uint64_t)json_number(report, "sent");
	const uint64_t known = before->known + (uint64_t)json_number(report, "known");
	pthread_mutex_lock(&supervisor->mutex);
	const bool has_progress = sent != state->sent || known != state->known;
	state->sent = sent;
	state->known = known;
	state->left_out = before->left_out + (uint64_t)json_number(report, "left_out");
	if (has_progress)
		state->last_sent_ms = clock_realtime_ms();
	pthread_mutex_unlock(&supervisor->mutex);
	/* That it has begun to read says nothing of the server. */
	if (has_progress || problem.kind != ERROR_NONE)
		set_problem(supervisor, &problem, json_number(report, "wait_ms"));
	if (has_progress) {
		supervisor->wait_ms = FIRST_WAIT_MS;
		count_unsent(supervisor);
	}
}

static void take_message(
	struct send_supervisor *supervisor, struct sending_process *process, const char *line)
{
	static const char program[] = "heapctl: ";

	if (strncmp(line, program, sizeof program - 1) == 0)
		line += sizeof program - 1;
	snprintf(process->last_message, sizeof process->last_message, "%s", line);
	log_line(supervisor, process->last_message);
}

/* What there is to read; whole lines are given to `take`. False at the end. */
static bool read_lines(struct send_supervisor *supervisor, struct sending_process *process, int fd,
	struct buffer *rest,
	void (*take)(struct send_supervisor *supervisor, struct sending_process *process,
		const char *line))
{
	char piece[LINE_BYTES];
	ssize_t size;

	while ((size = read(fd, piece, sizeof piece)) > 0) {
		for (ssize_t i = 0; i < size; i++) {
			if (piece[i] != '\n') {
				/* A longer line is of no use. */
				if (rest->size < LINE_BYTES)
					buffer_append_char(rest, piece[i]);
				continue;
			}
			take(supervisor, process, buffer_string(rest));
			buffer_clear(rest);
		}
	}
	return size < 0 && (errno == EAGAIN || errno == EINTR);
}

static void read_all(struct send_supervisor *supervisor, struct sending_process *process)
{
	(void)read_lines(supervisor, process, process->report_fd, &process->report, take_report);
	(void)read_lines(
		supervisor, process, process->message_fd, &process->messages, take_message);
}

/* heapctl send FOLDER --to URL --follow ..., freed by the caller. */
static char **make_arguments(const struct send_supervisor *supervisor)
{
	const struct send_settings *const settings = supervisor->settings;
	size_t more = 0, count = 0;

	while (settings->arguments[more] != NULL)
		more++;
	char **const arguments =
		xcalloc(more + 12 + 2 * supervisor->left_out_count, sizeof *arguments);
	const char *const fixed[] = { "heapctl", "send", "--to", settings->url, "--follow",
		"--report-fd" };
	for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
		arguments[count++] = xstrdup(fixed[i]);
	arguments[count++] = xasprintf("%d", REPORT_FD);
	arguments[count++] = xasprintf("--gather=%" PRId64 "ms", settings->gather_ms);
	for (size_t i = 0; i < supervisor->left_out_count; i++)
		arguments[count++] = xasprintf("--leave-out=%" PRId64, supervisor->left_out[i]);
	for (size_t i = 0; i < more; i++)
		arguments[count++] = xstrdup(settings->arguments[i]);
	arguments[count++] = xstrdup("--");
	arguments[count] = xstrdup(settings->folder);
	return arguments;
}

static void free_arguments(char **arguments)
{
	for (size_t i = 0; arguments[i] != NULL; i++)
		free(arguments[i]);
	free(arguments);
}

/* A pipe whose end here does not block. */
static bool open_pipe(int *reader, int *writer, struct error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "making a pipe");
	*reader = ends[0];
	*writer = ends[1];
	return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 ||
	       error_system(err, errno, "making a pipe");
}

static bool start(
	struct send_supervisor *supervisor, struct sending_process *process, struct error *err)
{
	CLEANUP(fd_cleanup) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	CLEANUP(fd_cleanup) int report_writer = -1;
	CLEANUP(fd_cleanup) int message_writer = -1;

	if (null < 0)
		return error_system(err, errno, "/dev/null");
	if (!open_pipe(&process->report_fd, &report_writer, err) ||
		!open_pipe(&process->message_fd, &message_writer, err))
		return false;
	const int fds[] = { null, null, message_writer, report_writer };
	char **const arguments = make_arguments(supervisor);
	const bool is_started = own_process_start(
		"heapctl send", arguments, fds, sizeof fds / sizeof fds[0], &process->pid, err);
	free_arguments(arguments);
	return is_started && own_process_open("heapctl send", process->pid, &process->pidfd, err);
}

static bool is_stopping(const struct send_supervisor *supervisor, int64_t timeout_ms)
{
	struct pollfd poller = { .fd = supervisor->gateway->stop_fd, .events = POLLIN };

	return poll(&poller, 1, (int)timeout_ms) > 0;
}

/* Until the process ends, or the gateway stops. */
static void attend(struct send_supervisor *supervisor, struct sending_process *process)
{
	struct pollfd pollers[] = {
		{ .fd = supervisor->gateway->stop_fd, .events = POLLIN },
		{ .fd = process->pidfd, .events = POLLIN },
		{ .fd = process->report_fd, .events = POLLIN },
		{ .fd = process->message_fd, .events = POLLIN },
	};

	while (pollers[0].revents == 0 && pollers[1].revents == 0) {
		/* An end that was closed would not let poll wait. */
		for (size_t i = 2; i < sizeof pollers / sizeof pollers[0]; i++)
			if ((pollers[i].revents & POLLHUP) != 0)
				pollers[i].fd = -1;
		if (poll(pollers, sizeof pollers / sizeof pollers[0], LOOK_MS) == 0)
			count_unsent(supervisor);
		read_all(supervisor, process);
	}
}

/* Whatever it is at: nothing is lost when it is ended. */
static int end_process(const struct sending_process *process)
{
	struct pollfd poller = { .fd = process->pidfd, .events = POLLIN };
	int status = 0;

	kill(process->pid, SIGTERM);
	if (process->pidfd < 0 || poll(&poller, 1, STOP_TIMEOUT_MS) <= 0)
		kill(process->pid, SIGKILL);
	while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return status;
}

/* What it read when it ended, for the second time: no later process reads it. */
static void note_suspect(struct send_supervisor *supervisor, int64_t reading)
{
	char line[100];

	if (reading == 0 || reading != supervisor->suspect) {
		supervisor->suspect = reading;
		return;
	}
	supervisor->suspect = 0;
	if (supervisor->left_out_count == LEFT_OUT_MAX)
		return;
	supervisor->left_out[supervisor->left_out_count++] = reading;
	supervisor->before.left_out++;
	snprintf(
		line, sizeof line, "left out: snapshot %" PRId64 ", which cannot be read", reading);
	log_line(supervisor, line);
}

static void explain(const struct sending_process *process, int status, struct error *problem)
{
	if (WIFSIGNALED(status))
		error_set(problem, ERROR_SYSTEM, "heapctl send was ended by signal %d (%s)",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (process->last_message[0] != '\0')
		error_set(problem, ERROR_STATE, "%s", process->last_message);
	else
		error_set(problem, ERROR_SYSTEM, "heapctl send ended with %d", WEXITSTATUS(status));
}

static int64_t next_wait(struct send_supervisor *supervisor)
{
	const int64_t wait_ms = supervisor->wait_ms;

	supervisor->wait_ms = wait_ms * 2 > MAX_WAIT_MS ? MAX_WAIT_MS : wait_ms * 2;
	return wait_ms / 2 + (int64_t)(hash_seed() % (uint64_t)(wait_ms / 2 + 1));
}

/* Runs one process to its end. */
static void run_process(struct send_supervisor *supervisor, struct error *problem)
{
	struct sending_process process = { .pidfd = -1, .report_fd = -1, .message_fd = -1 };
	int status = 0;

	buffer_init(&process.report, &memory_or_exit);
	buffer_init(&process.messages, &memory_or_exit);
	const bool is_started = start(supervisor, &process, problem);
	if (is_started)
		attend(supervisor, &process);
	if (process.pid != 0)
		status = end_process(&process);
	if (is_started) {
		read_all(supervisor, &process);
		explain(&process, status, problem);
		note_suspect(supervisor, process.reading);
	}
	buffer_deinit(&process.report);
	buffer_deinit(&process.messages);
	const int fds[] = { process.pidfd, process.report_fd, process.message_fd };
	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void *work(void *context)
{
	struct send_supervisor *const supervisor = context;

	count_unsent(supervisor);
	for (;;) {
		struct error problem = { 0 };
		run_process(supervisor, &problem);
		if (is_stopping(supervisor, 0))
			return NULL;
		const int64_t wait_ms = next_wait(supervisor);
		set_problem(supervisor, &problem, wait_ms);
		pthread_mutex_lock(&supervisor->mutex);
		supervisor->state.restarts++;
		const uint64_t left_out = supervisor->before.left_out;
		supervisor->before = supervisor->state;
		supervisor->before.left_out = left_out;
		pthread_mutex_unlock(&supervisor->mutex);
		if (is_stopping(supervisor, wait_ms))
			return NULL;
		count_unsent(supervisor);
	}
}

bool send_supervisor_start(struct gateway *gateway, const struct send_settings *settings,
	struct send_supervisor **ret, struct error *err)
{
	struct send_supervisor *const supervisor = xcalloc(1, sizeof *supervisor);

	supervisor->gateway = gateway;
	supervisor->settings = settings;
	supervisor->wait_ms = FIRST_WAIT_MS;
	pthread_mutex_init(&supervisor->mutex, NULL);
	if (!thread_start(&supervisor->thread, STACK_BYTES, work, supervisor, "the sending", err)) {
		pthread_mutex_destroy(&supervisor->mutex);
		free(supervisor);
		return false;
	}
	*ret = supervisor;
	return true;
}

void send_supervisor_join(struct send_supervisor *supervisor)
{
	if (supervisor == NULL)
		return;
	pthread_join(supervisor->thread, NULL);
	pthread_mutex_destroy(&supervisor->mutex);
	free(supervisor);
}

void send_supervisor_read(struct send_supervisor *supervisor, struct send_state *state)
{
	pthread_mutex_lock(&supervisor->mutex);
	*state = supervisor->state;
	pthread_mutex_unlock(&supervisor->mutex);
}

const char *send_supervisor_url(const struct send_supervisor *supervisor)
{
	return supervisor->settings->url;
}
