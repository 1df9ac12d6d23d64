/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_editor.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

enum { LINES_KEPT_MAX = 1000 };

/* libedit passes no context to its callbacks. */
static struct {
	struct word_list first, others;
	char **(*matches)(const char *text, char *(*next)(const char *text, int state));
	struct word_list current;
	size_t at;
} completion;

/* The next word that begins with the text, which libedit frees. */
static char *next_match(const char *text, int state)
{
	if (state == 0)
		completion.at = 0;
	while (completion.at < completion.current.count) {
		const char *const word = completion.current.words[completion.at++];
		if (strncmp(word, text, strlen(text)) == 0)
			return strdup(word);
	}
	return NULL;
}

static char **complete(const char *text, int start, int end)
{
	(void)end;
	completion.current = start == 0 ? completion.first : completion.others;
	return completion.matches(text, next_match);
}

void line_editor_offer(struct line_editor *editor, struct word_list first, struct word_list others)
{
	if (editor->library == NULL)
		return;
	char **(**const attempt)(const char *, int, int) =
		dlsym(editor->library, "rl_attempted_completion_function");
	*(void **)&completion.matches = dlsym(editor->library, "rl_completion_matches");
	if (attempt == NULL || completion.matches == NULL)
		return;
	completion.first = first;
	completion.others = others;
	*attempt = complete;
}

void line_editor_init(struct line_editor *editor)
{
	*editor = (struct line_editor){ 0 };
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return;
	void *const library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return;
	/* ISO C has no conversion from an object's address to a function's. */
	*(void **)&editor->read = dlsym(library, "readline");
	*(void **)&editor->remember = dlsym(library, "add_history");
	if (editor->remember == NULL)
		editor->read = NULL;
	if (editor->read != NULL)
		editor->library = library;
}

static char *state_folder(void)
{
	const char *const states = getenv("XDG_STATE_HOME");
	const char *const home = getenv("HOME");

	if (states != NULL && states[0] == '/')
		return xasprintf("%s/heapctl", states);
	return home != NULL && home[0] == '/' ? xasprintf("%s/.local/state/heapctl", home) : NULL;
}

void line_editor_keep(struct line_editor *editor, const char *name)
{
	CLEANUP(free_cleanup) char *folder = editor->read == NULL ? NULL : state_folder();
	int (*load)(const char *path) = NULL;
	void (*limit)(int count) = NULL;
	struct error ignored;

	if (folder == NULL || !file_make_folder(folder, 0700, &ignored))
		return;
	*(void **)&load = dlsym(editor->library, "read_history");
	*(void **)&limit = dlsym(editor->library, "stifle_history");
	*(void **)&editor->save = dlsym(editor->library, "write_history");
	if (load == NULL || limit == NULL || editor->save == NULL)
		return;
	editor->history_path = xasprintf("%s/%s", folder, name);
	limit(LINES_KEPT_MAX);
	load(editor->history_path);
}

void line_editor_deinit(struct line_editor *editor)
{
	/* The library stays: it has no way to give back what it keeps for itself. */
	free(editor->line);
	free(editor->history_path);
	*editor = (struct line_editor){ 0 };
}

static void read_plainly(struct line_editor *editor, const char *prompt)
{
	size_t capacity = 0;

	editor->line = NULL;
	fputs(prompt, stderr);
	fflush(stderr);
	if (getline(&editor->line, &capacity, stdin) < 0) {
		free(editor->line);
		editor->line = NULL;
	}
}

/* At once, so that a session that is interrupted keeps its lines too. */
static void remember(const struct line_editor *editor)
{
	editor->remember(editor->line);
	if (editor->history_path != NULL)
		editor->save(editor->history_path);
}

const char *line_editor_next(struct line_editor *editor, const char *prompt)
{
	free(editor->line);
	if (editor->read != NULL)
		editor->line = editor->read(prompt);
	else
		read_plainly(editor, prompt);
	if (editor->line == NULL)
		return NULL;
	editor->line[strcspn(editor->line, "\r\n")] = '\0';
	if (editor->read != NULL && editor->line[strspn(editor->line, " \t")] != '\0')
		remember(editor);
	return editor->line;
}
