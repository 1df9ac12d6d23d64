/* SPDX-License-Identifier: Apache-2.0 */
/* A time on a command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * "2hrs" before now, "@1795428000", or a local time: "2026-11-23", "2026-11-23T10:00",
 * "2026-11-23T10:00:30". In milliseconds since 1970. ERROR_USAGE.
 */
MUST_CHECK bool time_option_parse(
	int64_t now_ms, const char *text, int64_t *time_ms, struct error *err);
