/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/own_process.h"

#include <errno.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

bool own_process_open(const char *what, pid_t pid, int *fd, struct error *err)
{
	*fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return *fd >= 0 || error_system(err, errno, "watching %s", what);
}

/* The first number above all descriptors and their copies. */
static int first_unused_fd(const int *fds, size_t count)
{
	int free_fd = (int)count;

	for (size_t i = 0; i < count; i++) {
		if (fds[i] >= free_fd)
			free_fd = fds[i] + 1;
	}
	return free_fd;
}

/* All but the first `count` are closed. */
static int add_closing(posix_spawn_file_actions_t *actions, int parked, int count)
{
#ifdef __GLIBC__
	(void)parked;
	return posix_spawn_file_actions_addclosefrom_np(actions, count);
#else
	int failure = 0;

	/* Those that the gateway opened are closed by exec, and from here on those that it was
	 * started with. */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	for (int i = 0; i < count && failure == 0; i++)
		failure = posix_spawn_file_actions_addclose(actions, parked + i);
	for (int fd = count; fd <= STDERR_FILENO && failure == 0; fd++)
		failure = posix_spawn_file_actions_addclose(actions, fd);
	return failure;
#endif
}

static int add_descriptors(posix_spawn_file_actions_t *actions, const int *fds, size_t count)
{
	const int parked = first_unused_fd(fds, count);
	int failure = 0;

	/* First to unused numbers, so that none is overwritten before it is copied. */
	for (size_t i = 0; i < count && failure == 0; i++)
		failure = posix_spawn_file_actions_adddup2(actions, fds[i], parked + (int)i);
	for (size_t i = 0; i < count && failure == 0; i++)
		failure = posix_spawn_file_actions_adddup2(actions, parked + (int)i, (int)i);
	return failure != 0 ? failure : add_closing(actions, parked, (int)count);
}

static int set_signals(posix_spawnattr_t *attributes)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	const int failure = posix_spawnattr_setsigmask(attributes, &none);
	if (failure != 0)
		return failure;
	posix_spawnattr_setsigdefault(attributes, &all);
	return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

bool own_process_start(const char *what, char *const *arguments, const int *fds, size_t fd_count,
	pid_t *pid, struct error *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	int failure = add_descriptors(&actions, fds, fd_count);
	if (failure == 0)
		failure = set_signals(&attributes);
	if (failure == 0)
		failure = posix_spawn(
			pid, "/proc/self/exe", &actions, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	/* Its own are valid: one of the numbers that they are copied to is beyond the limit. */
	if (failure == EBADF)
		failure = EMFILE;
	return failure == 0 || error_system(err, failure, "starting %s", what);
}
