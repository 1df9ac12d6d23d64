/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is captured of a process at one moment: its profile, the allocator's statistics, the
 * kernel's account of its memory. Of a target it is taken now, of a bundle it is read.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "cli/output.h"
#include "client/target.h"

/* The parts, by the names that they have in a bundle (docs/bundle.md). */
enum capture_part {
	CAPTURE_PROFILE,
	CAPTURE_STATUS,
	CAPTURE_STATS,
	CAPTURE_SMAPS,
	CAPTURE_MAPS,
	CAPTURE_LIMITS,
	CAPTURE_PROCESS,
	CAPTURE_CGROUP,
	CAPTURE_PARTS,
};

struct capture {
	char label[192];		    /* target or file, for messages */
	char process[192];		    /* whose it is, "redis-server[4711]"; may be "" */
	struct buffer parts[CAPTURE_PARTS]; /* empty where there is none */
	int64_t time_ms;		    /* 0 where a bundle does not tell */
	pid_t pid;			    /* of a process here; 0 otherwise */
	int64_t own_pid;		    /* that it has on its machine; 0 when it is not known */
	char kernel[72], machine[72];	    /* of that machine; "" when they are not known */
};

void capture_init(struct capture *capture);
void capture_deinit(struct capture *capture);

/*
 * Takes it now. A process that cannot be profiled has no profile: `without_profile` says why (""
 * when it has one). What the kernel says is there where this process, or the gateway,
 * is on the target's machine.
 */
MUST_CHECK bool capture_take(const struct target *target, struct capture *capture,
	struct error *without_profile, struct error *err);

/* Of whichever the operand is: the path of a bundle, or a target. */
MUST_CHECK bool capture_open(const char *operand, struct capture *capture, struct error *err);

/* What a bundle says of its process, "redis-server[4711]". False for a file that is no bundle. */
bool capture_read_process(const char *path, char process[192]);

/*
 * Takes a target and writes a bundle of it. `with_symbols` puts the names of all functions into
 * the profile, so that the binaries are not needed to read it.
 */
MUST_CHECK bool capture_save(
	const struct target *target, bool with_symbols, struct output *output, struct error *err);
