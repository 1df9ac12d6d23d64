/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renderers: each turns a view into one kind of output, appended to a buffer. A renderer decides
 * how things look, never which figures are true: those are in the view.
 *
 * The table in render.c is what the command line knows them by. A new output is a file
 * render_NAME.c with one function, one line in that table and one in cli/report_option_table.c.
 */
#pragma once

#include "render/renderers.h"

enum render_medium {
	RENDER_PLAIN,  /* lines of text: several outputs may follow one another */
	RENDER_MARKUP, /* text in a language that allows one document */
	RENDER_BINARY, /* not for a terminal */
};

struct renderer {
	const char *name;      /* of the option too: --NAME */
	const char *extension; /* of a file, without the dot */
	enum render_medium medium;
	bool is_of_nodes; /* looks at the nodes' totals only: see view_request.totals_only */
	render_function *render;
};

/* NULL when there is none of that name. */
const struct renderer *renderer_find(const char *name);
