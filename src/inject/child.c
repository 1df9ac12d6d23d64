/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

struct child_outcome {
	bool done;
	struct error err;
	_Alignas(max_align_t) char result[CHILD_RESULT_MAX];
};

static bool read_outcome(int in, int wait_ms, struct child_outcome *outcome)
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

bool child_run(bool (*work)(const void *context, void *result, struct error *err),
	const void *context, void *result, size_t size, int wait_ms, struct error *err)
{
	struct child_outcome outcome = { 0 };
	sigset_t all, before;
	int status = 0;
	int ends[2];

	assert(size <= sizeof outcome.result);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "a pipe");
	/* An interrupt waits until this is done: half of it is of no use. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	const pid_t child = fork();
	if (child == 0) {
		srandom((unsigned)clock_monotonic_ns());
		outcome.done = work(context, outcome.result, &outcome.err);
		_exit(write(ends[1], &outcome, sizeof outcome) != (ssize_t)sizeof outcome);
	}
	close(ends[1]);
	const bool has_outcome = child > 0 && read_outcome(ends[0], wait_ms, &outcome);
	close(ends[0]);
	if (child > 0 && !has_outcome)
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (child < 0)
		return error_set(err, ERROR_MEMORY, "no process can be started (fork)");
	if (!has_outcome && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return error_set(err, ERROR_TIMEOUT, "the process does not stop");
	if (!has_outcome)
		return error_set(
			err, ERROR_SYSTEM, "the process of heapctl that does it ended early");
	memcpy(result, outcome.result, size);
	if (!outcome.done)
		*err = outcome.err;
	return outcome.done;
}
