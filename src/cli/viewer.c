/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/verb.h"

/* A browser that runs already only takes the file's name and returns: it needs time to read. */
enum { BROWSER_SECONDS = 10 };

/* In the order in which they are tried; the user's own choice is in BROWSER. */
static const char *const browsers[] = { "xdg-open", "sensible-browser",
	"/etc/alternatives/gnome-www-browser", "/etc/alternatives/x-www-browser", "google-chrome",
	"chromium", "firefox" };

const char *viewer_format(const char *viewer)
{
	if (strcmp(viewer, "gv") == 0)
		return "ps";
	return strcmp(viewer, "evince") == 0 ? "pdf" : "svg";
}

/* Runs a program, found in PATH, and waits; whether it ended well. */
static bool run_program(const char *const *arguments, struct error *err)
{
	pid_t pid = 0;
	int status = 0;
	/* posix_spawn does not write to them. */
	char *const *const argv = (char *const *)(uintptr_t)arguments;
	const int problem = posix_spawnp(&pid, arguments[0], NULL, NULL, argv, environ);

	if (problem != 0) {
		error_system(err, problem, "starting %s", arguments[0]);
		return error_hint(err, "install it, or write a file with --svg -o FILE");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, ERROR_SYSTEM, "%s failed", arguments[0]);
	return true;
}

static bool open_browser(const char *path, struct error *err)
{
	const char *const chosen = getenv("BROWSER");
	struct error ignored;

	if (chosen != NULL && chosen[0] != '\0' &&
		run_program((const char *[]){ chosen, path, NULL }, &ignored))
		return true;
	for (size_t i = 0; i < sizeof browsers / sizeof browsers[0]; i++) {
		if (run_program((const char *[]){ browsers[i], path, NULL }, &ignored))
			return true;
	}
	error_set(err, ERROR_NOT_FOUND, "no web browser could be started");
	return error_hint(err, "name one in BROWSER, or write a file with --svg -o FILE");
}

static bool open_viewer(const char *viewer, long scale, const char *path, struct error *err)
{
	char scale_option[40];

	if (strcmp(viewer, "gv") == 0) {
		snprintf(scale_option, sizeof scale_option, "--scale=%ld", scale);
		return run_program(
			(const char *[]){ "gv", scale_option, "--noantialias", path, NULL }, err);
	}
	if (strcmp(viewer, "web") == 0)
		return open_browser(path, err);
	return run_program((const char *[]){ viewer, path, NULL }, err);
}

/* Removes the file: at once, or from a process of its own once a browser must have read it. */
static void remove_file(const char *path, bool later)
{
	const pid_t child = later ? fork() : -1;

	if (child > 0)
		return;
	if (child == 0)
		sleep(BROWSER_SECONDS);
	unlink(path);
	if (child == 0)
		_exit(0);
}

static bool write_picture(
	const struct buffer *picture, const char *extension, char **ret, struct error *err)
{
	const char *const folder = getenv("TMPDIR");
	CLEANUP(free_cleanup)
	char *path = xasprintf("%s/heapctl-XXXXXX.%s",
		folder == NULL || folder[0] == '\0' ? "/tmp" : folder, extension);
	CLEANUP(fd_cleanup) int fd = mkostemps(path, (int)strlen(extension) + 1, O_CLOEXEC);

	if (fd < 0)
		return error_system(err, errno, "creating %s", path);
	if (!file_write_fd(fd, path, picture->data, picture->size, err)) {
		unlink(path);
		return false;
	}
	*ret = TAKE(path);
	return true;
}

bool viewer_open(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err)
{
	CLEANUP(free_cleanup) char *path = NULL;

	if (!write_picture(picture, extension, &path, err))
		return false;
	const bool done = open_viewer(viewer, scale, path, err);
	remove_file(path, done && strcmp(viewer, "web") == 0);
	return done;
}

/* Does in a process of its own what viewer_open does, as a shell's "&" would. */
_Noreturn static void view_beside(const char *viewer, long scale, const char *path)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct error err = { 0 };

	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (nothing >= 0)
		dup2(nothing, STDIN_FILENO);
	const bool done = open_viewer(viewer, scale, path, &err);
	if (!done)
		verb_fail(&err);
	if (done && strcmp(viewer, "web") == 0)
		sleep(BROWSER_SECONDS);
	unlink(path);
	_exit(0);
}

bool viewer_open_beside(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err)
{
	CLEANUP(free_cleanup) char *path = NULL;

	if (!write_picture(picture, extension, &path, err))
		return false;
	/* A child of a child, so that this process need not wait for it. */
	const pid_t child = fork();
	if (child == 0) {
		const pid_t viewing = fork();
		if (viewing == 0)
			view_beside(viewer, scale, path);
		_exit(viewing < 0);
	}
	int status = 1;
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (status == 0)
		return true;
	unlink(path);
	return error_set(err, ERROR_SYSTEM, "no process could be started for %s", viewer);
}
