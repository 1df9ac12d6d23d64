/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter that allows a list of system calls, for programs that put themselves in a
 * sandbox. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A filter begins with FILTER_LOAD_NUMBER; then come FILTER_ALLOW of each call, and what others
 * get. */
#define FILTER_LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define FILTER_ALLOW(call)                                     \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static inline int filter_enter(struct sock_filter *code, unsigned short size)
{
	const struct sock_fprog program = { .len = size, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
