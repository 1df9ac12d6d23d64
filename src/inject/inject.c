/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/borrow.h"
#include "inject/injection.h"
#include "inject/loader_thread.h"
#include "inject/threads.h"

enum { AVOIDED_MAX = 16 };

struct inject_outcome {
	bool done;
	pid_t stuck; /* a thread that does not stop: it is let go when our child has ended */
	struct inject_result result;
	struct error err;
};

static bool inject(const struct inject_request *request, const struct borrow_limits *limits,
	struct inject_outcome *outcome)
{
	const struct loader_request load = { .path = request->path,
		.image = request->image,
		.image_size = request->image_size,
		.function = request->function,
		.settings = request->settings };
	struct inject_result *const result = &outcome->result;
	struct borrowed_thread borrowed = { 0 };
	struct injection injection = { .remote = { .folder = -1, .memory = -1 } };

	const bool done =
		loader_request_check(&load, &outcome->err) &&
		injection_init(&injection, request->pid, &outcome->err) &&
		borrow_some_thread(&injection, limits, &borrowed, &outcome->stuck, &outcome->err) &&
		loader_thread_run(&injection, &borrowed, &load, &result->returned, result->answer,
			sizeof result->answer, &outcome->err);
	result->stop_us = borrowed.stops.used_us;
	result->max_stop_us = borrowed.stops.max_us;
	result->total_stop_us = borrowed.stops.total_us;
	result->stops = borrowed.stops.count;
	injection_deinit(&injection);
	return done;
}

/* --- Our child --- */

/* It finishes what it has begun, also when we die. */
static void run_child(
	const struct inject_request *request, const struct borrow_limits *limits, int out)
{
	struct inject_outcome outcome = { 0 };

	srandom((unsigned)clock_monotonic_ns());
	outcome.done = inject(request, limits, &outcome);
	if (write(out, &outcome, sizeof outcome) != (ssize_t)sizeof outcome)
		_exit(1);
	_exit(0);
}

static bool read_outcome(int in, int wait_ms, struct inject_outcome *outcome)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	size_t got = 0;

	while (got < sizeof *outcome) {
		struct pollfd ready = { .fd = in, .events = POLLIN };
		const int64_t left_ms = until_ms - clock_monotonic_ms();
		if (left_ms <= 0 || (poll(&ready, 1, (int)left_ms) < 0 && errno != EINTR))
			return false;
		if (ready.revents == 0)
			continue;
		const ssize_t size = read(in, (char *)outcome + got, sizeof *outcome - got);
		if (size <= 0)
			return false;
		got += (size_t)size;
	}
	return true;
}

static bool run_attempt(const struct inject_request *request, const struct borrow_limits *limits,
	struct inject_outcome *outcome, struct error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "a pipe");
	const pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(request, limits, ends[1]);
	}
	close(ends[1]);
	const bool has_outcome =
		child > 0 &&
		read_outcome(ends[0], limits->patience_ms + BORROW_EXTRA_MS + LOADER_MS, outcome);
	close(ends[0]);
	if (child > 0 && !has_outcome)
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (child < 0)
		return error_set(err, ERROR_MEMORY, "no process can be started (fork)");
	if (!has_outcome)
		return error_set(err, ERROR_TIMEOUT, "process %d does not stop", (int)request->pid);
	*err = outcome->err;
	return outcome->done;
}

bool inject_library(
	const struct inject_request *request, struct inject_result *result, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + request->patience_ms;
	struct borrow_limits limits = { .patience_ms = request->patience_ms };
	struct inject_outcome outcome = { 0 };
	pid_t avoided[AVOIDED_MAX];
	sigset_t all, before;
	bool done;

	/* An interrupt is for what comes after: half an attach helps nobody. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	limits.avoided = avoided;
	for (;;) {
		done = run_attempt(request, &limits, &outcome, err);
		limits.patience_ms = (int)(until_ms - clock_monotonic_ms());
		if (done || outcome.stuck == 0 || limits.avoided_count == AVOIDED_MAX ||
			limits.patience_ms <= 0)
			break;
		avoided[limits.avoided_count++] = outcome.stuck;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (done)
		*result = outcome.result;
	return done;
}

bool inject_look(pid_t pid, int *safe, int *looks, struct error *err)
{
	enum { LOOKS = 3, LOOK_MS = 5 };
	struct injection injection;
	struct thread_list list;
	bool done = injection_init_for_looks(&injection, pid, err);

	*safe = 0;
	for (*looks = 0; done && *looks < LOOKS; (*looks)++) {
		bool is_safe = false;
		done = threads_read(&list, pid, err);
		for (size_t i = 0; done && i < list.count && !is_safe; i++)
			is_safe = borrow_look(&injection, list.threads[i]) == NULL;
		*safe += is_safe;
		clock_sleep_us(LOOK_MS * 1000);
	}
	injection_deinit(&injection);
	return done;
}
