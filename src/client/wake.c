/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wake.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/xalloc.h"

/* "lctl", so that a stray signal means nothing. */
enum { WAKE_VALUE = 0x6c746368 };

static int wake_signal(void)
{
	return SIGRTMAX - 3;
}

static bool handles_signal(pid_t pid)
{
	static const char label[] = "\nSigCgt:";
	struct buffer status;
	struct error err;
	char path[64];
	bool handles = false;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	buffer_init(&status, &memory_or_exit);
	if (file_read(path, &status, &err)) {
		const char *const at = strstr(buffer_string(&status), label);
		const unsigned long long caught =
			at == NULL ? 0 : strtoull(at + sizeof label - 1, NULL, 16);
		handles = (caught >> (wake_signal() - 1) & 1) != 0;
	}
	buffer_deinit(&status);
	return handles;
}

bool wake_is_asleep(const struct process *process)
{
	struct process_modules modules;
	struct error err;

	/* Its environment would tell too, but Redis, for one, writes its title over that. */
	return process_read_modules(process->pid, &modules, &err) && modules.agent[0] != '\0' &&
	       handles_signal(process->pid);
}

bool wake_ask(const struct process *process, struct error *err)
{
	/* Opened before the check: from then on it cannot become another process. */
	CLEANUP(fd_cleanup) const int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	siginfo_t request = { .si_signo = wake_signal(), .si_code = SI_QUEUE };

	if (fd < 0)
		return error_system(err, errno, "process %d", (int)process->pid);
	if (!handles_signal(process->pid))
		return error_set(err, ERROR_NOT_FOUND, "process %d has no agent to be woken",
			(int)process->pid);
	request.si_pid = getpid();
	request.si_uid = getuid();
	request.si_value.sival_int = WAKE_VALUE;
	if (syscall(SYS_pidfd_send_signal, fd, wake_signal(), &request, 0) != 0)
		return error_system(
			err, errno, "waking the agent of process %d", (int)process->pid);
	return true;
}
