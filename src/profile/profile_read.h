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

#include "base/error.h"
#include "profile/input.h"
#include "profile/profile.h"

/* Whether a profile, or a tar of profiles, can begin like this; some thousand bytes are enough. */
bool profile_may_begin_with(const void *data, size_t size);

/* Reads a profile from memory; `name` is for messages. `options` may be NULL. */
MUST_CHECK bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads the profile of an input. `options` may be NULL. */
MUST_CHECK bool profile_read_input(const char *name, struct input *input,
	const struct profile_read_options *options, struct profile **profile, struct error *err);

/* Reads a profile from a file, or from standard input for "-". `options` may be NULL. */
MUST_CHECK bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err);
