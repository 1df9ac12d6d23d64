/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that show a picture: gv, evince, a web browser. The picture goes into a file that only
 * we can read and nobody can guess the name of, which is removed once the viewer is done with it.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

/* The renderer whose output the viewer takes. */
const char *viewer_format(const char *viewer);

/*
 * Waits until the viewer ends: "gv" with its scale, "web" for a browser, or the name of another
 * program that takes a file.
 */
MUST_CHECK bool viewer_open(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err);
