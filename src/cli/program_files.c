/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/program_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "client/process.h"

static char **arguments;

void net_program_init(int argc, char **argv)
{
	arguments = xcalloc((size_t)argc + 1, sizeof *arguments);
	memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
}

bool net_program_is_wanted(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strstr(argv[i], "https://") != NULL)
			return true;
	}
	return false;
}

/* The folder that the binary is in; `what` is looked for there. */
static bool own_folder(const char *what, char folder[PATH_MAX], struct error *err)
{
	char program[PATH_MAX];
	const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);

	if (size < 0) {
		error_system(err, errno, "/proc/self/exe");
		return error_hint(err, "heapctl needs /proc to find %s: mount it", what);
	}
	program[size] = '\0';
	*strrchr(program, '/') = '\0';
	strcpy(folder, program);
	return true;
}

static bool exec_program(const char *name, struct error *err)
{
	static const char *const places[] = {
		"", /* the build tree */
		"/../" HEAPCTL_LIBEXECDIR
		"/heapctl", /* installed, wherever the prefix was moved to */
	};
	char folder[PATH_MAX], path[2 * PATH_MAX];
	int failure = ENOENT;

	if (!own_folder(name, folder, err))
		return false;
	for (size_t i = 0; failure == ENOENT && i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%s/%s", folder, places[i], name);
		execv(path, arguments);
		failure = errno;
	}
	if (failure == ENOENT)
		error_set(err, ERROR_NOT_FOUND, "%s is not beside %s/heapctl", name, folder);
	else
		error_system(err, failure, "starting %s", path);
	return error_hint(err, "install all of heapctl: by a package, or by make install");
}

bool net_program_exec(struct error *err)
{
	return exec_program("heapctl-net", err);
}

bool fleet_program_exec(struct error *err)
{
	return exec_program("heapctl-fleet", err);
}

/* The first of the names, which may have been moved along with the program, in any of the places.
 */
static bool library_find(const char *const names[2], char path[4096], struct error *err)
{
	static const char *const places[] = {
		".",
		"../agent",		   /* the build tree, seen from src/cli */
		"src/agent",		   /* the same, seen from its top */
		("../" HEAPCTL_LIBDIR),	   /* installed, wherever the prefix was moved to */
		("../../" HEAPCTL_LIBDIR), /* the same, seen from heapctl-net */
		"../lib",
	};
	char folder[PATH_MAX], candidate[2 * PATH_MAX];

	if (!own_folder("its library", folder, err))
		return false;
	for (size_t i = 0; i < 2 * (sizeof places / sizeof places[0]); i++) {
		const char *const name = names[i % 2];
		if (name == NULL)
			continue;
		snprintf(candidate, sizeof candidate, "%s/%s/%s", folder, places[i / 2], name);
		char real[PATH_MAX];
		if (realpath(candidate, real) != NULL && access(real, R_OK) == 0) {
			snprintf(path, 4096, "%s", real);
			return true;
		}
	}
	error_set(err, ERROR_NOT_FOUND, "%s is not beside %s", names[0], folder);
	return error_hint(
		err, "install heapctl completely (Debian: apt install libheapctl0), or build it");
}

/* The small library loads the agent by this name, from its own folder. */
static bool has_agent_beside(const char *preloader, struct error *err)
{
	const int size = (int)(strrchr(preloader, '/') - preloader);
	char agent[PATH_MAX + sizeof "/libheapctl.so.0"];

	snprintf(agent, sizeof agent, "%.*s/libheapctl.so.0", size, preloader);
	return access(agent, R_OK) == 0 ||
	       error_set(err, ERROR_NOT_FOUND, "%s needs libheapctl.so.0 beside itself", preloader);
}

bool agent_library_find(enum agent_library library, char path[4096], struct error *err)
{
	/* The name without a number is for linking, and comes with the header. */
	static const char *const names[][2] = {
		[AGENT_LIBRARY] = { "libheapctl.so.0", "libheapctl.so" },
		[AGENT_LIBRARY_PRELOAD] = { PROCESS_PRELOADER },
		[AGENT_LIBRARY_MUSL] = { "libheapctl-musl.so" },
		[AGENT_LIBRARY_STATIC] = { "libheapctl-static.so" },
	};

	return library_find(names[library], path, err) &&
	       (library != AGENT_LIBRARY_PRELOAD || has_agent_beside(path, err));
}
