/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "gateway/own_process.h"

enum { MESSAGE_BYTES = 400, WORKER_END_MS = 3000 };

enum job_end { JOB_DONE, JOB_CANCELLED, JOB_LATE };

/* Clients are looked at again and again: others may come. */
static int64_t shorten_wait(const struct worker_job *job, int64_t wait_ms)
{
	return job->clients != NULL && wait_ms > WAITING_CLIENTS_LOOK_MS ? WAITING_CLIENTS_LOOK_MS
									 : wait_ms;
}

static enum job_end await_end(const struct worker_job *job, int fd, int cancel_fd)
{
	const int64_t deadline_ms = clock_monotonic_ms() + WORKER_WALL_MS;
	struct pollfd pollers[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = cancel_fd, .events = POLLIN },
	};

	for (int64_t left_ms = WORKER_WALL_MS; left_ms > 0;
		left_ms = deadline_ms - clock_monotonic_ms()) {
		if (poll(pollers, 2, (int)shorten_wait(job, left_ms)) > 0)
			return pollers[0].revents != 0 ? JOB_DONE : JOB_CANCELLED;
		if (waiting_clients_have_left(job->clients))
			return JOB_CANCELLED;
	}
	return JOB_LATE;
}

static bool fail_cancelled(struct error *err)
{
	return error_set(err, ERROR_TIMEOUT, "the work was cancelled");
}

/*
 * With what it has started: a worker leads a group of processes, as soon as it runs. One that asks
 * a database tells it first that its answer is no longer needed.
 */
static void end_worker(pid_t pid, int fd)
{
	struct pollfd ended = { .fd = fd, .events = POLLIN };

	kill(pid, SIGTERM);
	if (fd >= 0)
		poll(&ended, 1, WORKER_END_MS);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
}

/* Waits for the end; kills a worker that takes too long or cannot be watched. */
static bool await(
	const struct worker_job *job, pid_t pid, int cancel_fd, int *status, struct error *err)
{
	CLEANUP(fd_cleanup) int fd = -1;

	const bool is_watched = own_process_open("the worker", pid, &fd, err);
	const enum job_end end = is_watched ? await_end(job, fd, cancel_fd) : JOB_LATE;
	if (end != JOB_DONE)
		end_worker(pid, fd);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	if (end == JOB_DONE)
		return true;
	if (end == JOB_CANCELLED)
		return fail_cancelled(err);
	if (!is_watched)
		return error_hint(err, "try again when fewer requests are served at once");
	error_set(err, ERROR_TIMEOUT, "rendering took more than %d s", WORKER_WALL_MS / 1000);
	return error_hint(err, "fetch the raw profile and use heapctl report");
}

/* A line without the program's name in front; cuts the text behind it. */
static const char *cut_line(char *line)
{
	static const char program[] = "heapctl: ";

	line[strcspn(line, "\n")] = '\0';
	return strncmp(line, program, strlen(program)) == 0 ? line + strlen(program) : line;
}

/* The last line that it wrote, after the first that names an unusable input. */
static void read_message(int fd, char message[MESSAGE_BYTES])
{
	char text[4096];
	const ssize_t size = pread(fd, text, sizeof text - 1, 0);

	message[0] = '\0';
	if (size <= 0)
		return;
	text[size] = '\0';
	for (char *end = text + size; end > text && end[-1] == '\n';)
		*--end = '\0';
	char *const newline = strrchr(text, '\n');
	const char *const last = cut_line(newline == NULL ? text : newline + 1);
	char *const left_out = newline == NULL ? NULL : strstr(text, "left out: ");
	if (left_out == NULL || left_out > newline)
		snprintf(message, MESSAGE_BYTES, "%s", last);
	else
		snprintf(message, MESSAGE_BYTES, "%s; %s", cut_line(left_out), last);
}

static enum error_kind kind_of(int status)
{
	const int kind = WIFEXITED(status) ? WEXITSTATUS(status) - WORKER_EXIT_KIND : 0;

	return kind > ERROR_NONE && kind <= ERROR_TIMEOUT ? (enum error_kind)kind : ERROR_INPUT;
}

static bool is_partial(int status)
{
	return WEXITSTATUS(status) == WORKER_EXIT_PARTIAL;
}

static bool explain(int status, int messages, struct error *err)
{
	char message[MESSAGE_BYTES];

	if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || is_partial(status)))
		return true;
	read_message(messages, message);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
		error_set(err, ERROR_TIMEOUT, "rendering took too much processor time");
		return error_hint(err, "fetch the raw profile and use heapctl report");
	}
	if (WIFSIGNALED(status))
		return error_set(err, ERROR_INPUT, "rendering was ended by signal %d (%s)%s%s",
			WTERMSIG(status), strsignal(WTERMSIG(status)),
			message[0] == '\0' ? "" : ": ", message);
	return error_set(err, kind_of(status), "%s",
		message[0] == '\0' ? "the profile could not be rendered" : message);
}

/* The worker's descriptors: 0, 1, 2 and the inputs from 3 on. */
struct descriptors {
	int *fds;
	size_t count;
};

static bool spawn(const struct worker_job *job, const struct descriptors *descriptors, pid_t *pid,
	struct error *err)
{
	size_t count = 0;

	while (job->arguments[count] != NULL)
		count++;
	CLEANUP(free_cleanup) char **arguments = xcalloc(count + 3, sizeof *arguments);
	arguments[0] = (char *)(uintptr_t) "heapctl";
	arguments[1] = (char *)(uintptr_t) "render-worker";
	for (size_t i = 0; i < count; i++)
		arguments[i + 2] = (char *)(uintptr_t)job->arguments[i];
	return own_process_start(
		"a worker", arguments, descriptors->fds, descriptors->count, pid, err);
}

static bool open_input(const struct worker_job *job, int *fd, struct error *err)
{
	if (job->standard_input == NULL) {
		*fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return *fd >= 0 || error_system(err, errno, "/dev/null");
	}
	*fd = memfd_create("heapctl-input", MFD_CLOEXEC);
	if (*fd < 0)
		return error_system(err, errno, "making a scratch file");
	if (!file_write_fd(
		    *fd, "a scratch file", job->standard_input, job->standard_input_size, err))
		return false;
	lseek(*fd, 0, SEEK_SET);
	return true;
}

/* The worker gets its inputs by number. */
#define INPUT_PREFIX "/proc/self/fd/"

static void name_inputs(const struct worker_job *job, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer named = BUFFER_OR_EXIT;
	const char *rest = err->message;
	const char *number;

	while ((number = strstr(rest, INPUT_PREFIX)) != NULL) {
		const char *const digits = number + strlen(INPUT_PREFIX);
		char *end = NULL;
		const unsigned long input = strtoul(digits, &end, 10) - WORKER_FIRST_FD;
		const bool is_known = input < job->input_count && job->names[input] != NULL;
		buffer_append(&named, rest, (size_t)(number - rest));
		buffer_append_string(&named, is_known ? job->names[input] : INPUT_PREFIX);
		rest = is_known ? end : digits;
	}
	buffer_append_string(&named, rest);
	snprintf(err->message, sizeof err->message, "%s", buffer_string(&named));
}

/* Other jobs may have used up the budget meanwhile; then the result is dropped. */
static bool take_result(int fd, struct blob **output, struct error *err)
{
	CLEANUP(fd_cleanup) int result = fd;
	uint64_t held = 0;
	struct stat status;

	if (fstat(result, &status) != 0)
		return error_system(err, errno, "a scratch file");
	return blob_scratch_take(&held, (uint64_t)status.st_size, err) &&
	       blob_take_scratch(TAKE_FD(result), held, output, err);
}

static bool run(
	const struct worker_job *job, int cancel_fd, struct blob **output, struct error *err)
{
	CLEANUP(fd_cleanup) int input = -1;
	CLEANUP(fd_cleanup) int result = -1;
	CLEANUP(fd_cleanup) int messages = memfd_create("heapctl-messages", MFD_CLOEXEC);
	pid_t pid;
	int status;

	if (messages < 0)
		return error_system(err, errno, "making a scratch file");
	if (!open_input(job, &input, err) || !blob_open_scratch(&result, err))
		return false;
	CLEANUP(free_cleanup) int *fds = xcalloc(WORKER_FIRST_FD + job->input_count, sizeof *fds);
	fds[0] = input;
	fds[1] = result;
	fds[2] = messages;
	for (size_t i = 0; i < job->input_count; i++)
		fds[WORKER_FIRST_FD + i] = job->inputs[i]->fd;
	const struct descriptors descriptors = { fds, WORKER_FIRST_FD + job->input_count };
	if (!spawn(job, &descriptors, &pid, err) || !await(job, pid, cancel_fd, &status, err))
		return false;
	if (!explain(status, messages, err)) {
		name_inputs(job, err);
		return false;
	}
	if (!take_result(TAKE_FD(result), output, err))
		return false;
	(*output)->is_partial = is_partial(status);
	return true;
}

void worker_pool_init(struct worker_pool *pool, unsigned places)
{
	*pool = (struct worker_pool){ .places = places, .cancel_fd = -1 };
	pthread_mutex_init(&pool->mutex, NULL);
	clock_condition_init(&pool->changed);
}

void worker_pool_deinit(struct worker_pool *pool)
{
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->mutex);
}

struct worker_waiter {
	struct worker_waiter *next;
	uid_t owner;
};

static unsigned running_count(const struct worker_pool *pool, uid_t owner)
{
	unsigned count = 0;

	for (unsigned i = 0; i < pool->taken; i++)
		count += pool->owners[i] == owner;
	return count;
}

static bool is_next(const struct worker_pool *pool, const struct worker_waiter *waiter)
{
	const unsigned own = running_count(pool, waiter->owner);
	bool is_earlier = true;

	if (pool->taken >= pool->places + (own == 0))
		return false;
	for (const struct worker_waiter *other = pool->waiters; other != NULL;
		other = other->next) {
		const unsigned running = running_count(pool, other->owner);
		is_earlier = is_earlier && other != waiter;
		if (running < own || (running == own && is_earlier))
			return false;
	}
	return true;
}

/* At the end of the list. */
static void add_waiter(struct worker_pool *pool, struct worker_waiter *waiter)
{
	struct worker_waiter **place = &pool->waiters;

	while (*place != NULL)
		place = &(*place)->next;
	*place = waiter;
}

static void remove_waiter(struct worker_pool *pool, const struct worker_waiter *waiter)
{
	struct worker_waiter **place = &pool->waiters;

	while (*place != waiter)
		place = &(*place)->next;
	*place = waiter->next;
}

/* With the mutex held, which is released meanwhile. Returns whether the job was cancelled. */
static bool await_turn(
	struct worker_pool *pool, const struct worker_job *job, const struct worker_waiter *waiter)
{
	const int64_t deadline_ms = clock_monotonic_ms() + WORKER_QUEUE_MS;
	bool is_cancelled = false;

	for (int64_t left_ms = WORKER_QUEUE_MS;
		left_ms > 0 && !is_next(pool, waiter) && !is_cancelled;
		left_ms = deadline_ms - clock_monotonic_ms()) {
		const struct timespec until =
			clock_timespec(clock_monotonic_ms() + shorten_wait(job, left_ms));
		pthread_cond_timedwait(&pool->changed, &pool->mutex, &until);
		is_cancelled = waiting_clients_have_left(job->clients);
	}
	return is_cancelled;
}

static bool acquire_slot(struct worker_pool *pool, const struct worker_job *job, struct error *err)
{
	struct worker_waiter waiter = { .owner = job->owner };

	pthread_mutex_lock(&pool->mutex);
	add_waiter(pool, &waiter);
	const bool is_cancelled = await_turn(pool, job, &waiter);
	const bool has_slot = !is_cancelled && is_next(pool, &waiter);
	remove_waiter(pool, &waiter);
	if (has_slot)
		pool->owners[pool->taken++] = job->owner;
	/* Another one may be the next now. */
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
	if (has_slot)
		return true;
	if (is_cancelled)
		return fail_cancelled(err);
	error_set(err, ERROR_TIMEOUT, "too many profiles are being worked on");
	return error_hint(err, "try again in a moment");
}

static void release_slot(struct worker_pool *pool, uid_t owner)
{
	unsigned at = 0;

	pthread_mutex_lock(&pool->mutex);
	while (pool->owners[at] != owner)
		at++;
	pool->owners[at] = pool->owners[--pool->taken];
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->mutex);
}

bool worker_run(struct worker_pool *pool, const struct worker_job *job, struct blob **output,
	struct error *err)
{
	if (!acquire_slot(pool, job, err))
		return false;
	const bool ok = run(job, pool->cancel_fd, output, err);
	release_slot(pool, job->owner);
	return ok;
}

void command_line_add(struct command_line *line, const char *name, const char *value)
{
	line->arguments =
		xgrow(line->arguments, &line->capacity, line->count + 2, sizeof *line->arguments);
	line->arguments[line->count++] =
		value == NULL ? xstrdup(name) : xasprintf("%s=%s", name, value);
	line->arguments[line->count] = NULL;
}

void command_line_add_given(struct command_line *line, const char *name, const char *value)
{
	if (value != NULL)
		command_line_add(line, name, value);
}

void command_line_deinit(struct command_line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free((char *)(uintptr_t)line->arguments[i]);
	free(line->arguments);
	*line = (struct command_line){ 0 };
}
