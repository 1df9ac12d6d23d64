/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a profile of any known format. The format is found by looking at the bytes, never at
 * the name; so is compression (gzip, zstd), which may be around any of them.
 *
 * Errors say the name, the byte and the problem: "web.heap: byte 1234: a number was expected".
 * The byte counts in the uncompressed text. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

struct profile_codec {
	const char *name; /* one word */
	/* Whether the input is in this format; the cursor is a copy. */
	bool (*detect)(struct cursor in);
	/*
	 * Reads all of the input into an empty profile. A failure is left in the cursor, or in
	 * `err` when it needs more words than a constant text; then the result is false.
	 */
	bool (*read)(struct cursor *in, struct profile *profile, struct error *err);
};

/* All formats, in the order in which they are tried; the last has no name. */
extern const struct profile_codec profile_codecs[];

/* The codec for what is at the cursor; NULL for none. */
const struct profile_codec *profile_detect(const struct cursor *in);

/* Whether a profile, or a tar of profiles, can begin like this; told by some thousand bytes. */
bool profile_may_begin_with(const void *data, size_t size);

struct profile_read_options {
	/*
	 * Bytes that compressed data may become, or that may be read from a pipe; 0 means 4 GiB or
	 * half the machine's memory, whichever is less. A plain file is mapped and has no limit.
	 */
	uint64_t max_bytes;
	/* Bytes that the profile itself may take; 0 means half the machine's memory. */
	uint64_t max_memory_bytes;
	/* Nobody will ask for figures of single threads, which take more memory than all others. */
	bool leaves_out_threads;
};

/* Reads a profile from memory; `name` is for messages. `options` may be NULL. */
MUST_CHECK bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads a profile from a file, or from standard input for "-". `options` may be NULL. */
MUST_CHECK bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err);
