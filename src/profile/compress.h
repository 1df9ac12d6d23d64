/* SPDX-License-Identifier: Apache-2.0 */
/* Compression of what is written; the other way is profile/expand.h. Any thread. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

/* Appends `plain` to `out` as a gzip member. ERROR_INPUT for more than 4 GiB, ERROR_MEMORY. */
MUST_CHECK bool compress_gzip(const struct buffer *plain, struct buffer *out, struct error *err);
