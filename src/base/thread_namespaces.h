/* SPDX-License-Identifier: Apache-2.0 */
/* The namespaces of a thread's children, as /proc shows them. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether the kernel lets it start threads: not when its children belong to another pid or time
 * namespace (unshare(2), setns(2)).
 */
bool thread_may_start_threads(pid_t thread);
