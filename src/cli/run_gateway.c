/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/listener.h"

bool run_gateway_open(const char *address, int *fd, struct error *err)
{
	struct listener listener;

	if (!listener_open(address, &listener, err))
		return false;
	if (!listener.is_private) {
		error_set(
			err, ERROR_DENIED, "%s can be reached from other machines", listener.where);
		listener_close(&listener);
		return error_hint(err, "listen on 127.0.0.1, or use heapctl serve with a token");
	}
	*fd = listener.fd;
	return true;
}

void run_restore_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Everything that was prepared for the program is not for the gateway. */
static void become_gateway(int fd, pid_t pid)
{
	char target[16], own[16];

	snprintf(target, sizeof target, "%d", (int)pid);
	snprintf(own, sizeof own, "%d", (int)getpid());
	unsetenv("LD_PRELOAD");
	unsetenv("MALLOC_CONF");
	setenv("LISTEN_PID", own, 1);
	setenv("LISTEN_FDS", "1", 1);
	setsid();
	run_restore_signals();
	const int nowhere = open("/dev/null", O_RDWR);
	dup2(nowhere, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	/* The socket may have that number already, and then the flag goes otherwise. */
	if (fd == LISTENER_FIRST_FD)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, LISTENER_FIRST_FD);
	closefrom(LISTENER_FIRST_FD + 1);
	execl("/proc/self/exe", "heapctl", "serve", "--until-exit", target, target, (char *)NULL);
	perror("heapctl: run: starting the gateway");
	_exit(1);
}

bool run_gateway_start(int fd, pid_t pid, struct error *err)
{
	if (fd < 0)
		return true;
	const pid_t between = fork();
	if (between == 0) {
		const pid_t gateway = fork();
		if (gateway == 0)
			become_gateway(fd, pid);
		_exit(gateway < 0);
	}
	close(fd);
	if (between < 0)
		return error_system(err, errno, "starting the gateway");
	int status = 0;
	while (waitpid(between, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 || error_set(err, ERROR_SYSTEM, "the gateway could not be started");
}
