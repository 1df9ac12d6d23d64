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

/*
 * An array of the lines that are an object with a `file` that is in the folder, oldest first.
 * Damaged lines are left out. Empty when there is no list. Free with json_decref.
 */
MUST_CHECK bool capture_list_read(const char *folder, json_t **captures, struct error *err);
