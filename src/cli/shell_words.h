/* SPDX-License-Identifier: Apache-2.0 */
/* Words that the line editor of the shell of reports completes to. */
#pragma once

#include "base/string_pool.h"
#include "cli/report_session.h"

struct shell_words {
	const char **words;
	size_t count, capacity;
	struct string_pool strings;
};

void shell_words_init(struct shell_words *words);
void shell_words_deinit(struct shell_words *words);

/* A copy. */
void shell_words_add(struct shell_words *words, const char *word);

/*
 * Functions of the profiles that can be typed as they are: one word, and a pattern for itself.
 * Sorts all words and leaves out the second of two.
 */
void shell_words_add_functions(struct shell_words *words, const struct report_session *session);
