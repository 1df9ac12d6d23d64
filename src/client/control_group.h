/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group of a process, and its limits. Version 1 and 2 of control groups; the tightest
 * limit on the way up counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The group of a process for one controller, as this process sees the hierarchy. */
struct cgroup {
	char folder[4096]; /* "" when none is visible */
	size_t top_size;   /* of the mount point, which is a prefix of the folder */
	bool is_first_version;
	uint64_t memberships; /* a hash of the process' groups */
};

/* `controller`: "memory", "pids". */
void cgroup_find(pid_t pid, const char *controller, struct cgroup *group);

/* False once the process was put into another group, or its group was given another name. */
bool cgroup_is_current(pid_t pid, const struct cgroup *group);

/*
 * Memory that the kernel cannot reclaim at once (without inactive file pages), as a share of the
 * limit: of the group or one above it, whichever is nearest to its limit. NAN without a limit.
 * `left_bytes`: how much more there may be before the first limit is reached; INFINITY without one.
 */
double cgroup_share(const struct cgroup *group, double *left_bytes);

/* UINT64_MAX without a limit. */
struct cgroup_room {
	uint64_t bytes;	  /* before the kernel ends a process; file pages make room */
	uint64_t threads; /* that may be started */
};

struct cgroup_room cgroup_read_room(const struct cgroup *group);
