/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of bytes as people write them: "512", "64K", "2GiB", "1.5 GB" without the blank. K, M, G
 * and T count in 1024 as KiB and its like do; kB, MB, GB and TB in 1000. Safe on the resident side.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* ERROR_USAGE for a text that is no amount, or one that does not fit. */
MUST_CHECK bool byte_size_parse(const char *text, uint64_t *bytes, struct error *err);

enum { BYTE_SIZE_TEXT_BYTES = 24 };

/* "512 MiB", "1.5 GiB", "3 B": in the largest unit of which there is one. */
void byte_size_format(uint64_t bytes, char text[BYTE_SIZE_TEXT_BYTES]);
