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
#include "base/error.h"
#include "base/file.h"
#include "profile/profile.h"

/*
 * The bytes of a profile, wherever they come from: a file (mapped), standard input, memory;
 * expanded from gzip, zstd and xz, which are recognised by their first bytes. Expansion is bounded.
 */

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

/* Whether what is wanted can begin like this. Input that cannot is not read to its end. */
typedef bool input_check(const void *data, size_t size);

/* Starts as { 0 }. `data` lives until input_close, or as long as what input_over was given. */
struct input {
	const char *data;
	size_t size;
	struct file_map map;
	struct buffer buffer;
	input_check *check;
};

/* Bytes of memory that the machine has. */
uint64_t input_machine_memory(void);

/* "-" is standard input. `options` may be NULL. */
MUST_CHECK bool input_open(const char *path, const struct profile_read_options *options,
	input_check *check, struct input *input, struct error *err);
MUST_CHECK bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, input_check *check, struct input *input,
	struct error *err);
void input_close(struct input *input);

/* Whether a profile, or a tar of profiles, can begin like this; some thousand bytes are enough. */
bool profile_may_begin_with(const void *data, size_t size);

/* Reads a profile from memory; `name` is for messages. `options` may be NULL. */
MUST_CHECK bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads a profile from a file, or from standard input for "-". `options` may be NULL. */
MUST_CHECK bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err);
