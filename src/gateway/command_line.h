/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a worker, built piece by piece; owns its texts. Starts as { 0 }. */
#pragma once

#include <stddef.h>

#include "gateway/worker.h"

struct command_line {
	char *texts[WORKER_ARGUMENTS_MAX];
	const char *arguments[WORKER_ARGUMENTS_MAX + 1];
	size_t count;
};

/*
 * Adds "NAME", or "NAME=VALUE" as one argument: whatever the value is, it can only ever be the
 * value of that option. What does not fit is left out.
 */
void command_line_add(struct command_line *line, const char *name, const char *value);

/* The same when there is a value, else nothing. */
void command_line_add_given(struct command_line *line, const char *name, const char *value);

void command_line_deinit(struct command_line *line);
