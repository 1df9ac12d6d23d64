/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading lines from a person: with editing and history when the input is a terminal and libedit
 * is installed, plainly otherwise. The library is opened when it is needed, so that nothing else
 * pays for it.
 */
#pragma once

#include <stdbool.h>

struct line_editor {
	char *(*read)(const char *prompt); /* NULL: read plainly */
	int (*remember)(const char *line);
	char *line; /* the last one; owned */
};

void line_editor_init(struct line_editor *editor);
void line_editor_deinit(struct line_editor *editor);

/* The next line without its end, valid until the next call; NULL at the end of the input. */
const char *line_editor_next(struct line_editor *editor, const char *prompt);
