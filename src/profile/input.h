/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a profile, wherever they come from: a file (mapped), standard input, memory; with
 * gzip and zstd undone, which are told by their first bytes. Expansion is bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"

struct profile_read_options;

/* Starts as { 0 }. `data` lives until input_close, or as long as what input_over was given. */
struct input {
	const char *data;
	size_t size;
	struct file_map map;
	struct buffer buffer;
};

/* Bytes of memory that the machine has. */
uint64_t input_machine_memory(void);

/* "-" is standard input. `options` may be NULL. */
MUST_CHECK bool input_open(const char *path, const struct profile_read_options *options,
	struct input *input, struct error *err);
MUST_CHECK bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct input *input, struct error *err);
void input_close(struct input *input);
