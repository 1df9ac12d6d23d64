/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a signal has interrupted a thread, as far as it matters to agent/on_demand.c: whether a
 * new thread may be started from the handler. x86-64 only. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the thread was waiting in a system call, and not for a lock. `code` are the 2 bytes
 * before its instruction pointer and the 2 at it, `result` its result register.
 */
bool safe_point_is_waiting(const uint8_t code[4], int64_t result);
