/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How close a process is to the memory limit of its control group, and how much it waits for
 * memory (PSI). Version 1 and 2 of control groups; the tightest limit on the way up counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_PATH_BYTES = 4200 };

struct cgroup {
	char folder[4096]; /* "" when none is visible */
	size_t top_size;   /* of the mount point, which is a prefix of the folder */
	bool is_first_version;
	uint64_t memberships; /* a hash of the process' groups */
};

/* The group that limits the memory of a process, as this process sees the hierarchy. */
void cgroup_find(pid_t pid, struct cgroup *group);

/* False once the process was put into another group, or its group was given another name. */
bool cgroup_is_current(pid_t pid, const struct cgroup *group);

/*
 * Memory that the kernel cannot reclaim at once (without inactive file pages), as a share of the
 * limit: of the group or one above it, whichever is nearest to its limit. NAN without a limit.
 * `left_bytes`: how much more there may be before the first limit is reached; INFINITY without one.
 */
double cgroup_share(const struct cgroup *group, double *left_bytes);

/*
 * The file of the kernel's figures of memory pressure: the group's, or the whole machine's where
 * the group has none; "" when the kernel keeps none.
 */
void cgroup_pressure_path(const struct cgroup *group, char path[CGROUP_PATH_BYTES]);

/*
 * Share of the last ten seconds in which some task waited for memory, from that file. NAN when it
 * cannot be read.
 */
double cgroup_pressure(const char *path);
