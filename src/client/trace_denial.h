/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the kernel refuses to let this process read or trace another one. The kernel says no more
 * than EPERM, so the causes that /proc shows are checked in the kernel's order (ptrace(2), "Ptrace
 * access mode checking"). What remains is a security module, whose decision /proc does not show.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct trace_facts {
	bool wants_to_trace; /* not only to read /proc */
	uid_t own_uid;
	uint64_t own_capabilities; /* CapEff */
	bool is_outside;	   /* of the user namespace in which we are */
	uid_t uids[3];		   /* of the process: real, effective, saved */
	uint64_t capabilities;	   /* CapPrm of the process */
	bool is_undumpable;	   /* PR_SET_DUMPABLE or a program that may not be read */
	int yama;		   /* kernel.yama.ptrace_scope; 0 also without Yama */
	char modules[96];	   /* security modules that may refuse, "" when it is not known */
};

/* As far as they can be read; the rest is zero. */
void trace_facts_read(pid_t pid, bool wants_to_trace, struct trace_facts *facts);

/* Sets the hint of `err`: the cause, and what to do. Returns false. */
bool trace_denial_hint(const struct trace_facts *facts, struct error *err);
