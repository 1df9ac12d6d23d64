/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array of bytes with a sticky failure: appending to a buffer that could not grow does
 * nothing, so a writer appends freely and checks once, at the end, whether it failed.
 * With `memory_or_exit` it cannot fail. Not for two threads at once.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/memory.h"

/* What takes the contents of a long output piece by piece, see buffer_drain. */
struct buffer_drain {
	bool (*take)(void *context, const char *data, size_t size); /* false: it failed */
	void *context;
};

struct buffer {
	char *data; /* not NUL-terminated; NULL while capacity is 0 */
	size_t size;
	size_t capacity;
	size_t limit; /* growing beyond this many bytes is a failure; SIZE_MAX by default */
	bool failed;
	const struct memory *memory;
	const struct buffer_drain *drain; /* NULL: the buffer keeps everything */
};

void buffer_init(struct buffer *buffer, const struct memory *memory);
void buffer_deinit(struct buffer *buffer);

/* Room for `extra` more bytes without moving. False (and failed) when there is none. */
bool buffer_reserve(struct buffer *buffer, size_t extra);

/* Each adds at the end, or does nothing where it failed before. */
void buffer_append(struct buffer *buffer, const void *data, size_t size);
void buffer_append_string(struct buffer *buffer, const char *text);
void buffer_append_char(struct buffer *buffer, char c);
void buffer_printf(struct buffer *buffer, const char *format, ...) PRINTF_FORMAT(2, 3);
void buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
	PRINTF_FORMAT(2, 0);

/*
 * For writers of many records, between two of them: once there is a megabyte, the drain takes it,
 * if there is one, and the buffer is empty. Positions in the buffer are no longer valid then. A
 * drain that fails makes the buffer fail.
 */
void buffer_drain(struct buffer *buffer);

/* Empties it and forgets a failure; the memory is kept. */
void buffer_clear(struct buffer *buffer);

/* The contents with a NUL behind them; "" when it failed. Valid until the next change. */
const char *buffer_string(struct buffer *buffer);

/* Moves the contents out, NUL-terminated; free with the buffer's memory. NULL when it failed. */
char *buffer_take(struct buffer *buffer);
