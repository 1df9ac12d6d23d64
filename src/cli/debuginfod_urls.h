/* SPDX-License-Identifier: Apache-2.0 */
/* What --debuginfod takes. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/*
 * Whether these are URLs of debuginfod servers, separated by blanks: its library silently ignores
 * what is not a URL. ERROR_USAGE.
 */
MUST_CHECK bool debuginfod_urls_check(const char *urls, struct error *err);
