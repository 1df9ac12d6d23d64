/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process is of, from where it runs, in this order: HEAPCTL_LABELS of its environment, the
 * variables that Kubernetes' downward API is usually given there, and its control group: the
 * systemd unit, the container and the pod. Then the name of the process and of this machine. A
 * process may have written its title over its environment, and that of another user may not be
 * read: there it is what the agent noted of it (base/identity_variables.h).
 */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "client/target.h"
#include "store/identity.h"

/*
 * `status` is the agent's answer, or NULL. Sets what is not set yet, each value with its source.
 * ERROR_USAGE when HEAPCTL_LABELS is malformed; everything else is set all the same. What may not
 * be read is left out.
 */
MUST_CHECK bool process_identity_read(const struct target *target, const json_t *status,
	struct snapshot_identity *identity, struct error *err);

/* Its parts. An environment is as process_read_environment gives it. */

/* False where it may not be read, and where a title was written over it. */
bool process_identity_read_environment(pid_t pid, struct buffer *environment);

/* What the answer has of it, in place of what is in `environment`. */
void process_identity_copy_noted(const json_t *status, struct buffer *environment);

MUST_CHECK bool process_identity_take_environment(
	const struct buffer *environment, struct snapshot_identity *identity, struct error *err);

/*
 * The text of /proc/PID/cgroup. The unit is the service of what systemd itself has started; what
 * such a process starts (the jobs of cron) may be anything.
 */
void process_identity_take_cgroup(
	const char *text, bool is_child_of_init, struct snapshot_identity *identity);

enum { PROCESS_CONTAINER_BYTES = 64 };

/* The container that the process runs in, by its control group; "" where it is none. */
void process_identity_read_container(pid_t pid, char container[PROCESS_CONTAINER_BYTES]);
