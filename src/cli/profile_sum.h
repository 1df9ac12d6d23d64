/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several profiles added up in one file. Their addresses are those of different processes, so that
 * the file has the names of functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cli/control.h"

/*
 * Writes and commits the sum of all operands, as heapctl report takes them, and reports its file
 * and size on stderr.
 */
MUST_CHECK bool profile_sum_save(
	char **operands, size_t count, struct output *output, struct error *err);
