/* SPDX-License-Identifier: Apache-2.0 */
/*
 * captures.jsonl: what people, scripts and `heapctl trend` read of a folder of captures without its
 * index (store/store.h), a line of JSON for each: `file`, `bytes`, `reason`, `time_ms`, `target`,
 * `pid`, ... Also all that earlier versions wrote. Any thread.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/error.h"

#define CAPTURE_LIST "captures.jsonl"

/* Lines that are no object with a valid `file`. */
struct capture_list_damage {
	size_t count;
	size_t first_line; /* of the file, from 1 */
};

/*
 * An array of the lines whose `file` is in the folder, oldest first; a removed file is no damage.
 * Damaged lines are left out and counted. Empty when there is no list. Free with json_decref.
 */
MUST_CHECK bool capture_list_read(const char *folder, json_t **captures,
	struct capture_list_damage *damage, struct error *err);

/* "FOLDER/captures.jsonl: 2 lines are damaged, the first is line 7" */
char *capture_list_describe_damage(const char *folder, const struct capture_list_damage *damage);
