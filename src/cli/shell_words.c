/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/xalloc.h"

static bool is_word(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_:~.";

	return name[0] != '\0' && name[strspn(name, letters)] == '\0';
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_and_merge(struct shell_words *words)
{
	size_t kept = 0;

	if (words->count == 0)
		return;
	qsort(words->words, words->count, sizeof *words->words, by_text);
	for (size_t i = 0; i < words->count; i++) {
		if (kept == 0 || strcmp(words->words[kept - 1], words->words[i]) != 0)
			words->words[kept++] = words->words[i];
	}
	words->count = kept;
}

void shell_words_init(struct shell_words *words)
{
	*words = (struct shell_words){ 0 };
	string_pool_init(&words->strings);
}

void shell_words_add(struct shell_words *words, const char *word)
{
	*XAPPEND(words->words, words->count, words->capacity) =
		string_pool_add(&words->strings, word);
}

static void add_function(struct shell_words *words, struct buffer *scratch, const char *function)
{
	buffer_clear(scratch);
	function_name_append_short(scratch, function);
	if (is_word(buffer_string(scratch)))
		shell_words_add(words, buffer_string(scratch));
}

void shell_words_add_functions(struct shell_words *words, const struct report_session *session)
{
	struct report_variation variation = report_variation_none(session);
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer scratch = BUFFER_OR_EXIT;
	struct error ignored;

	variation.granularity = VIEW_FUNCTIONS;
	if (!report_session_view(session, &variation, &view, &ignored))
		return;
	for (size_t i = 0; i < view->node_count; i++)
		add_function(words, &scratch, view->nodes[i].function);
	sort_and_merge(words);
}

void shell_words_deinit(struct shell_words *words)
{
	free(words->words);
	string_pool_deinit(&words->strings);
	*words = (struct shell_words){ 0 };
}
