/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading lines from a person: with editing and history when the input is a terminal and libedit
 * is installed, plainly otherwise. The library is opened when it is needed, so that nothing else
 * pays for it.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"

struct word_list {
	const char *const *words;
	size_t count;
};

struct line_editor {
	void *library;			   /* NULL: read plainly */
	char *(*read)(const char *prompt); /* NULL: the same */
	int (*remember)(const char *line);
	int (*save)(const char *path);
	char *history_path; /* owned; NULL: the lines of this session are forgotten */
	char *line;	    /* the last one; owned */
};

/* Where the input and the output are a terminal, a person is reading. Release with deinit. */
void line_editor_init(struct line_editor *editor);
void line_editor_deinit(struct line_editor *editor);

/*
 * What the Tab key completes: the first word of a line, and the words behind it; where none of
 * them fits, names of files. The words are borrowed. One editor at a time can have them.
 */
void line_editor_offer(struct line_editor *editor, struct word_list first, struct word_list others);

/*
 * Takes up the lines of earlier sessions, and keeps those of this one: in the file `name` of
 * heapctl's folder below $XDG_STATE_HOME, or $HOME/.local/state. Without such a folder, and where
 * no person is reading, nothing is kept.
 */
void line_editor_keep(struct line_editor *editor, const char *name);

/* The next line without its end, valid until the next call; NULL at the end of the input. */
const char *line_editor_next(struct line_editor *editor, const char *prompt);
