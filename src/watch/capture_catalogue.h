/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a folder of captures (watch/capture_folder.h), oldest first, and what its file
 * captures.jsonl says of each. For the folder alone, under its mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

enum { CAPTURE_NUMBER_DIGITS = 8, CAPTURE_NAME_BYTES = 256 };

struct capture {
	char name[CAPTURE_NAME_BYTES];
	uint64_t number;
	uint64_t bytes;
	json_t *details; /* NULL when nothing is known about it */
};

/* Starts as { 0 }. */
struct capture_catalogue {
	struct capture *items;
	size_t count, capacity;
	uint64_t bytes;	      /* of all together */
	uint64_t last_number; /* the highest that there ever was */
};

/*
 * Reads the folder, in the place of what was known, and removes what was never finished there. What
 * its file lacks is added to it.
 */
MUST_CHECK bool capture_catalogue_read(
	struct capture_catalogue *catalogue, const char *folder, int folder_fd, struct error *err);
void capture_catalogue_deinit(struct capture_catalogue *catalogue);

/* Replaces the file; one that cannot be written (the disk may be full) is written the next time. */
void capture_catalogue_write(const struct capture_catalogue *catalogue, const char *folder);

/* As the newest; takes over the reference to `details`. */
void capture_catalogue_add(
	struct capture_catalogue *catalogue, const char *name, uint64_t bytes, json_t *details);

/* The oldest one, which there must be. */
void capture_catalogue_forget_first(struct capture_catalogue *catalogue);
