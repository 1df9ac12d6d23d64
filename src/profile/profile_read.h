/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a profile of any known format. The format is recognised by the bytes, never by the name;
 * so is compression (gzip, zstd, xz) of any of them.
 *
 * Errors say the name, the byte and the problem: "web.heap: byte 1234: a number was expected". The
 * byte is one of the uncompressed text. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/file.h"
#include "profile/profile.h"

struct profile_read_options {
	/*
	 * Bytes that compressed data may become, or that may be read from a pipe; 0 means 4 GiB or
	 * half the machine's memory, whichever is less. A plain file is mapped and has no limit.
	 */
	uint64_t max_bytes;
	/* Bytes that the profile itself may take; 0 means half the machine's memory. */
	uint64_t max_memory_bytes;
	/* Without the figures of single threads, which take more memory than all others. */
	bool leaves_out_threads;
};

struct expansion;

/*
 * The bytes of a profile, wherever they come from: a file (mapped), standard input, memory; those
 * of gzip, zstd and xz, which are recognised by their first bytes, are expanded while they are
 * read. What they may become is limited, and so is what of it is in memory at once.
 *
 * Starts as { 0 }. `data` lives until input_close, or as long as what input_over was given.
 */
struct input {
	const char *data; /* all of it, or a beginning of what is compressed */
	size_t size;
	size_t file_bytes; /* as it came: compressed, if it was */

	/* Private. */
	char *name;
	struct file_map map;
	struct buffer buffer;
	struct expansion *expansion; /* NULL for what is not compressed */
	struct expansion *outer;     /* what it is read from, when that was compressed, too */
	size_t max_bytes;
};

/* "-" is standard input. `options` may be NULL. */
MUST_CHECK bool input_open(const char *path, const struct profile_read_options *options,
	struct input *input, struct error *err);
MUST_CHECK bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct input *input, struct error *err);
void input_close(struct input *input);

/* Expands it into memory as a whole: `data` has all of it. */
MUST_CHECK bool input_expand(struct input *input, struct error *err);

/* Reads it from its start. One at a time: it starts again where the last one released the bytes. */
MUST_CHECK bool input_cursor(struct input *input, struct cursor *in, struct error *err);

/* Whether the cursor failed because the bytes could not be expanded, and then why. */
bool input_failure(const struct input *input, struct error *err);

/* Reads a profile from memory; `name` is for messages. `options` may be NULL. */
MUST_CHECK bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads the profile of an input. `options` may be NULL. */
MUST_CHECK bool profile_read_input(const char *name, struct input *input,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads a profile from a file, or from standard input for "-". `options` may be NULL. */
MUST_CHECK bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err);
