/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads of another process, stopped at once: for changes of its code.
 *
 * When this process dies, the kernel lets all of them go on where they are. All calls are made by
 * one thread, which blocks SIGCHLD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "inject/remote.h"
#include "inject/stack_rule.h"
#include "inject/tracee.h"

struct stopped_process {
	const struct remote_process *remote;
	const struct stack_waiting *waiting;
	struct tracee *threads;
	size_t count;
};

/*
 * Stops all, also those that are started meanwhile. `remote` and `waiting` are borrowed.
 * ERROR_TIMEOUT after `wait_ms`: one waits for a device (D) or a child after vfork(2), and is still
 * seized; the caller ends. The others as tracee_stop(). Whatever was stopped goes on then.
 */
MUST_CHECK bool stopped_process_begin(struct stopped_process *process,
	const struct remote_process *remote, const struct stack_waiting *waiting, int wait_ms,
	struct error *err);

/* Lets all go on. */
void stopped_process_end(struct stopped_process *process);

/* Addresses [begin, end). */
struct address_range {
	uint64_t begin, end;
};

/*
 * Whether a thread is, or may come back, inside one of the ranges by what its stack shows. `skip`
 * is the name of threads that do not count; NULL: none. Where a stack cannot be walked to its end,
 * each word of the rest counts as an address.
 */
bool stopped_process_is_in(const struct stopped_process *process,
	const struct address_range *ranges, size_t count, const char *skip);
