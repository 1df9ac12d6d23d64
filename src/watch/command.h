/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command of --then: run for each capture with the file's name as its last argument. No shell
 * reads it, so nothing in a name can become a command; its environment is fixed, its output goes to
 * standard error. One at a time, in the order of the captures, in the background.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct command;

/*
 * Takes the text apart at blanks; '...' and "..." keep blanks together. ERROR_USAGE when a quote
 * does not end or nothing is there.
 */
MUST_CHECK bool command_parse(const char *text, struct command **command, struct error *err);
/* One that runs is not waited for; those that wait are cancelled. */
void command_free(struct command *command);

DEFINE_CLEANUP(command_cleanup, struct command *, command_free)

/* Its environment: HEAPCTL_FILE, HEAPCTL_TARGET, HEAPCTL_REASON. The texts are copied. */
struct command_capture {
	const char *file, *target, *reason;
};

/* Puts it into the queue. ERROR_STATE when too many wait: the commands are too slow. */
MUST_CHECK bool command_enqueue(
	struct command *command, const struct command_capture *capture, struct error *err);

/*
 * Starts the next one when none runs, and collects one that ended. False when a command failed;
 * there is more to do as long as command_is_busy.
 */
MUST_CHECK bool command_poll(struct command *command, struct error *err);
bool command_is_busy(const struct command *command);
