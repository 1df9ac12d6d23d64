/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

void log_detach_stderr(struct log *log)
{
	struct stat status;

	log->has_own_files = true;
	log->to_stderr = log->to_stderr && fstat(STDERR_FILENO, &status) == 0;
	if (log->to_stderr) {
		log->device = status.st_dev;
		log->inode = status.st_ino;
	}
}

/* A copy of the program's stderr; -1 when it is another file by now. */
static int open_program_stderr(const struct log *log)
{
	struct stat status;
	CLEANUP(fd_cleanup) const int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
	CLEANUP(fd_cleanup)
	int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, STDERR_FILENO, 0);

	if (fd < 0 || fstat(fd, &status) != 0 || status.st_dev != log->device ||
		status.st_ino != log->inode)
		return -1;
	return TAKE_FD(fd);
}

static void write_to_stderr(const struct log *log, const char *line, size_t size)
{
	CLEANUP(fd_cleanup) const int copy = log->has_own_files ? open_program_stderr(log) : -1;
	const int fd = log->has_own_files ? copy : STDERR_FILENO;

	if (fd >= 0 && write(fd, line, size) < 0)
		return;
}

void log_write(const struct log *log, enum log_level level, const char *format, ...)
{
	static const char prefix[] = "heapctl: ";
	char line[1024];
	va_list arguments;
	size_t length = sizeof prefix - 1;

	if (log->write == NULL && !log->to_stderr)
		return;
	memcpy(line, prefix, sizeof prefix);
	va_start(arguments, format);
	vsnprintf(line + length, sizeof line - length - 1, format, arguments);
	va_end(arguments);
	if (log->write != NULL)
		log->write(log->context, (int)level, line + length);
	length = strlen(line);
	line[length++] = '\n';
	if (log->to_stderr)
		write_to_stderr(log, line, length);
}

void log_error(
	const struct log *log, enum log_level level, const char *what, const struct error *err)
{
	const bool hint = err->hint[0] != '\0';

	log_write(log, level, "%s: %s%s%s%s", what, err->message, hint ? " (" : "", err->hint,
		hint ? ")" : "");
}
