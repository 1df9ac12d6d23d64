/* SPDX-License-Identifier: Apache-2.0 */
/* The words that the shell's line editor completes to: functions of the profile. */
#pragma once

#include "base/string_pool.h"
#include "cli/line_editor.h"
#include "cli/report_session.h"

struct shell_words {
	const char **words;
	size_t count;
	struct string_pool strings;
};

/* Names that can be typed as they are: those that are one word, and a pattern for themselves. */
void shell_words_init(struct shell_words *words, const struct report_session *session);
void shell_words_deinit(struct shell_words *words);
