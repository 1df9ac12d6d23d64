/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a target, for protocols that hand it out. */
#pragma once

#include "base/buffer.h"
#include "gateway/backend.h"

/* The words of its command line with `separator` between them. */
MUST_CHECK bool process_text_command(
	const struct backend *backend, char separator, struct buffer *out, struct error *err);

/* Its memory mappings, as /proc/PID/maps has them. */
MUST_CHECK bool process_text_maps(
	const struct backend *backend, struct buffer *out, struct error *err);
