/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/arguments.h"

#include <stdio.h>
#include <string.h>

enum { KEEP_MAX = 32 };

static const char *value_of(const char *argument, const char *name)
{
	const size_t length = strlen(name);

	return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

/* 1 to 32 in decimal; 0 for anything else. */
static unsigned read_keep(const char *text)
{
	unsigned value = 0;

	for (const char *c = text; *c != '\0'; c++) {
		if (*c < '0' || *c > '9' || value > KEEP_MAX)
			return 0;
		value = value * 10 + (unsigned)(*c - '0');
	}
	return value <= KEEP_MAX ? value : 0;
}

static bool read_one(
	const char *argument, struct arguments *arguments, char *problem, size_t problem_size)
{
	const char *const folder = value_of(argument, "--dir=");
	const char *const keep = value_of(argument, "--keep=");

	if (folder != NULL && folder[0] == '/') {
		arguments->folder = folder;
		return true;
	}
	if (folder != NULL) {
		snprintf(problem, problem_size, "%s is not an absolute path", argument);
		return false;
	}
	if (keep != NULL) {
		arguments->keep = read_keep(keep);
		if (arguments->keep != 0)
			return true;
		snprintf(problem, problem_size, "%s is not a number from 1 to %d", argument,
			KEEP_MAX);
		return false;
	}
	if (strcmp(argument, "--no-socket") == 0) {
		arguments->no_socket = true;
		return true;
	}
	snprintf(problem, problem_size,
		"there is no argument %s; there are --dir=PATH, --keep=N, --no-socket", argument);
	return false;
}

bool arguments_read(int argc, const char *const *argv, struct arguments *arguments, char *problem,
	size_t problem_size)
{
	struct arguments read = { 0 };

	for (int i = 1; i < argc; i++) {
		if (!read_one(argv[i], &read, problem, problem_size))
			return false;
	}
	*arguments = read;
	return true;
}
