/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kill, a full disk, the loss of the index or an earlier version left behind, set right when
 * a store is opened: files that were never finished are removed, rows whose file is gone are
 * removed, files without a row get one. Of those a name tells the time and the target, and for
 * captures captures.jsonl the rest.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct store;

/* Sets last_id and listed_again. The mutex is held, or nothing else knows the store. */
MUST_CHECK bool store_repair(struct store *store, struct error *err);
