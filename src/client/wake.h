/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents on demand (docs/protocol.md): a process that has no agent's thread until a signal asks
 * for it. The signal is sent only where the kernel says that it is handled, and through a
 * descriptor of the process, so that it can hit no other.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/* Whether the process may wait to be asked: it has the agent, and handles the signal. */
bool wake_is_asleep(const struct process *process);

/* Asks once. ERROR_DENIED, ERROR_NOT_FOUND when it is not asleep at all. */
MUST_CHECK bool wake_ask(const struct process *process, struct error *err);

/* How long to go on asking, and how often. */
enum { WAKE_PATIENCE_MS = 5000, WAKE_INTERVAL_MS = 50 };
