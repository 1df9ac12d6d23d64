/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/process_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/capture.h"
#include "client/process.h"
#include "profile/tar.h"

static const char digits[] = "0123456789";

static void set_name(char name[PROCESS_NAME_BYTES], const char *text, size_t size)
{
	snprintf(name, PROCESS_NAME_BYTES, "%.*s", (int)size, text);
}

/* Takes ".PID" off the end of a text; false when it is not there. */
static bool cut_pid(const char *text, size_t *size)
{
	size_t end = *size;

	while (end > 0 && strchr(digits, text[end - 1]) != NULL)
		end--;
	if (end == *size || end < 2 || text[end - 1] != '.')
		return false;
	*size = end - 1;
	return true;
}

/* "20261121-101500", perhaps "-2" behind it: the length of it, or 0. */
static size_t moment_size(const char *text)
{
	if (strspn(text, digits) != 8 || text[8] != '-' || strspn(text + 9, digits) != 6)
		return 0;
	const size_t more = text[15] == '-' ? strspn(text + 16, digits) : 0;
	return more == 0 ? 15 : 16 + more;
}

/* NAME.PID.YYYYMMDD-HHMMSS.heap, of dump and record. */
static bool read_made_up(const char *file, char name[PROCESS_NAME_BYTES])
{
	for (const char *dot = strchr(file, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const size_t moment = moment_size(dot + 1);
		size_t size = (size_t)(dot - file);
		if (moment == 0 || dot[1 + moment] != '.' || !cut_pid(file, &size))
			continue;
		set_name(name, file, size);
		return true;
	}
	return false;
}

/* NUMBER-YYYYMMDDTHHMMSSZ-REASON-NAME.PID.heap, of watch. */
static bool read_captured(const char *file, char name[PROCESS_NAME_BYTES])
{
	const size_t number = strspn(file, digits);
	const char *const moment = file + number + 1;
	const char *const end = strstr(file, ".heap");

	if (number < 8 || file[number] != '-' || end == NULL || strspn(moment, digits) != 8 ||
		moment[8] != 'T' || strspn(moment + 9, digits) != 6 || moment[15] != 'Z' ||
		moment[16] != '-')
		return false;
	const char *const dash = strchr(moment + 17, '-');
	if (dash == NULL || dash > end)
		return false;
	size_t size = (size_t)(end - dash - 1);
	if (!cut_pid(dash + 1, &size))
		return false;
	set_name(name, dash + 1, size);
	return true;
}

/* Whether it is worth while to look for a bundle in it, which may mean expanding it. */
static bool may_be_bundle(const char *path)
{
	char block[TAR_BLOCK];

	if (strstr(path, ".tar") != NULL || strstr(path, ".tgz") != NULL)
		return true;
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : read(fd, block, sizeof block);
	return size == sizeof block && tar_detect(cursor_over(block, sizeof block));
}

/* "redis-server[4711]" */
static void read_bundle(const char *path, char name[PROCESS_NAME_BYTES])
{
	char label[192];

	if (may_be_bundle(path) && capture_read_process(path, label))
		set_name(name, label, strcspn(label, "["));
}

void process_name_of_source(const char *source, pid_t pid, char name[PROCESS_NAME_BYTES])
{
	const char *const slash = strrchr(source, '/');
	const char *const file = slash == NULL ? source : slash + 1;
	struct process process;
	struct stat status;
	struct error ignored;

	name[0] = '\0';
	if (pid != 0) {
		if (process_read(pid, &process, &ignored))
			set_name(name, process.name, strlen(process.name));
	} else if (stat(source, &status) == 0 && S_ISREG(status.st_mode) &&
		   !read_made_up(file, name) && !read_captured(file, name)) {
		read_bundle(source, name);
	}
}
