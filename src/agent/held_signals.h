/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to a closed socket, or beyond a limit of the program's, must not kill a thread of the
 * program that called the agent: SIGPIPE and SIGXFSZ are held back meanwhile, and those that came
 * are taken away. Both are sent to the very thread that writes.
 */
#pragma once

#include <signal.h>

struct held_signals {
	sigset_t before;
};

void held_signals_begin(struct held_signals *held);
void held_signals_end(const struct held_signals *held);
