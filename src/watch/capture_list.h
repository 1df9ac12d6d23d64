/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures in a folder (watch/capture_folder.h), for who only looks: by its catalogue, without
 * its lock, while another thread or process keeps captures there. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

/*
 * An array of objects, oldest first, of the captures that are there: what the catalogue says
 * (`file`, `bytes`, `reason`, `time_ms`, `target`, `pid`, ...) and their `number`. Empty where
 * there is no catalogue yet. Free with json_decref.
 */
MUST_CHECK bool capture_list_read(const char *folder, json_t **captures, struct error *err);

/*
 * Opens the one of that number; `time_ms` is when it was taken. ERROR_NOT_FOUND when it is not, or
 * no longer, there.
 */
MUST_CHECK bool capture_list_open(
	const char *folder, uint64_t number, int *fd, int64_t *time_ms, struct error *err);
