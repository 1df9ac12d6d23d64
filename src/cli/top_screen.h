/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal that shows one picture and reads single keys. However the program ends - a signal, a
 * crash, exit, Ctrl-Z - the terminal is restored; only after SIGKILL it is not (`reset`).
 * One per process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Whether stdin and stdout are a terminal that can do it. */
bool top_screen_is_possible(void);

MUST_CHECK bool top_screen_open(struct error *err);
void top_screen_close(void);

struct top_screen_size {
	int columns, rows;
};
struct top_screen_size top_screen_size(void);

/* Replaces the picture: lines that end with '\n', not longer than the screen is wide. */
void top_screen_draw(const struct buffer *lines);

enum top_key {
	TOP_KEY_NONE = -1, /* a timeout, a new size, or a signal */
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_OTHER, /* one that is not known */
};

/* A byte that was typed, or one of the above. NONE as well once `wake_fd` (-1: none) can be read.
 */
int top_screen_read_key(int64_t timeout_ms, int wake_fd);

/* Whether a signal ends the program, or the terminal has disconnected. */
bool top_screen_has_ended(void);
