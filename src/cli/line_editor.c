/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_editor.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void line_editor_deinit(struct line_editor *editor)
{
	/* The library stays: it has no way to give back what it keeps for itself. */
	free(editor->line);
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
		editor->remember(editor->line);
	return editor->line;
}
