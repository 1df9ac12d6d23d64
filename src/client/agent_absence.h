/* SPDX-License-Identifier: Apache-2.0 */
/* Why a process that has the agent's library loaded has no agent, as its environment tells it. */
#pragma once

#include "base/buffer.h"
#include "client/process.h"

enum agent_absence {
	ABSENCE_UNKNOWN,       /* it should have one */
	ABSENCE_DISABLED,      /* HEAPCTL_DISABLE */
	ABSENCE_OTHER_PROGRAM, /* HEAPCTL_EXE names others */
};

/* `environment` as process_read_environment has it. */
enum agent_absence agent_absence(const struct process *process, const struct buffer *environment);

/* The same where the environment was not read yet. */
enum agent_absence agent_absence_of(const struct process *process);
