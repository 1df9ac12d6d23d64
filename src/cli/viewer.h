/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that show a picture: gv, evince, a web browser. The picture goes into a file that only
 * we can read, under a name that cannot be guessed; it is removed once the viewer is done with it.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

/* The renderer whose output the viewer takes. */
const char *viewer_format(const char *viewer);

/*
 * Shows the picture with "gv" and its scale, with "web" for a browser, or with another program that
 * takes a file; waits until the viewer ends.
 */
MUST_CHECK bool viewer_open(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err);

/*
 * The same, for a shell that continues: does not wait, and the viewer neither reads from
 * the terminal nor gets its interrupts. Its failure is printed when it happens.
 */
MUST_CHECK bool viewer_open_beside(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err);
