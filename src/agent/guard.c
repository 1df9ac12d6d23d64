/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guard.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static int digit_after(const char *text, const char *label)
{
	const char *const at = strstr(text, label);

	if (at == NULL)
		return -1;
	const char digit = at[strlen(label)];
	return digit >= '0' && digit <= '9' ? digit - '0' : -1;
}

struct guard_state guard_parse(const char *status_text)
{
	return (struct guard_state){ .seccomp = digit_after(status_text, "\nSeccomp:\t"),
		.no_new_privs = digit_after(status_text, "\nNoNewPrivs:\t") };
}

bool guard_is_weaker(const struct guard_state *main_thread, const struct guard_state *own)
{
	return (main_thread->seccomp > 0 && own->seccomp == 0) ||
	       (main_thread->no_new_privs > 0 && own->no_new_privs == 0);
}

/* Of the main thread: also where /proc numbers processes otherwise than getpid() does. */
static const char main_thread_path[] = "/proc/self/status";
static const char own_path[] = "/proc/thread-self/status";

bool guard_can_open(void)
{
	return access(main_thread_path, R_OK) == 0;
}

bool guard_open(struct guard *guard)
{
	guard_close(guard);
	guard->main_thread = open(main_thread_path, O_RDONLY | O_CLOEXEC);
	guard->own = open(own_path, O_RDONLY | O_CLOEXEC);
	return guard->main_thread >= 0 && guard->own >= 0;
}

void guard_close(struct guard *guard)
{
	fd_cleanup(&guard->main_thread);
	fd_cleanup(&guard->own);
	*guard = GUARD_NONE;
}

static struct guard_state read_state(int opened, const char *path)
{
	char text[4096];
	CLEANUP(fd_cleanup) const int fd = opened >= 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	/* Each reading from the beginning is written anew. */
	const ssize_t got = pread(opened >= 0 ? opened : fd, text, sizeof text - 1, 0);

	if (got < 0)
		return (struct guard_state){ -1, -1 };
	text[got] = '\0';
	return guard_parse(text);
}

bool guard_must_leave(const struct guard *guard)
{
	const struct guard_state main_thread = read_state(guard->main_thread, main_thread_path);
	const struct guard_state own = read_state(guard->own, own_path);

	return guard_is_weaker(&main_thread, &own);
}
