/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heapctl watch does until it is told to stop: looks at its target, captures when a rule
 * fires, follows the target through restarts, takes what jemalloc left, runs the command. Says on
 * stdout the path of each capture, on stderr what happens.
 */
#pragma once

#include "watch/adoption.h"
#include "watch/capture_folder.h"
#include "watch/command.h"
#include "watch/condition.h"
#include "watch/trigger.h"

struct watch_options {
	const char *operand; /* TARGET */
	struct condition_rule rules[TRIGGER_RULES_MAX];
	size_t rule_count;
	struct trigger_settings trigger;
	int64_t interval_ms;
	const char *folder; /* NULL: made of the target's name */
	struct capture_limits limits;
	bool activate;
	int64_t captures;	   /* end after so many; 0: never */
	struct command *command;   /* NULL for none; borrowed */
	struct adoption *adoption; /* NULL for none; borrowed */
};

/* Until an interrupt, the wanted number of captures, or the end of a process named by its pid. */
MUST_CHECK bool watch_session_run(const struct watch_options *options, struct error *err);
