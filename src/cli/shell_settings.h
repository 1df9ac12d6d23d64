/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of the shell of reports, with the names that Go's pprof gave them: a line NAME=VALUE
 * holds for all commands that follow, NAME= is again what the command line asked for. They are the
 * rows of report_option_table that have such a name.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_pool.h"
#include "cli/report_options.h"

struct shell_settings {
	struct report_options options; /* in effect; texts are in `strings` or of `initial` */
	const struct report_options *initial;
	struct string_pool strings;
	const char *tag, *ignored_tag; /* what tagfocus= and tagignore= say; options may point to
					  them */
};

/* The options are those of the command line; borrowed. */
void shell_settings_init(struct shell_settings *settings, const struct report_options *options);
void shell_settings_deinit(struct shell_settings *settings);

/* Whether a line is NAME=VALUE, of a known setting or not. */
bool shell_settings_names_one(const char *line);

/* ERROR_USAGE for a name or value that is none; nothing has changed then. */
MUST_CHECK bool shell_settings_set(
	struct shell_settings *settings, const char *line, struct error *err);

/*
 * Sets what a word alone means, as in pprof: "cum" is sort=cum, "lines" granularity=lines,
 * "alloc_space" sample_index=alloc_space, "noinlines" noinlines=true, and ":" takes the filters
 * back. False where it means nothing.
 */
MUST_CHECK bool shell_settings_expand(struct shell_settings *settings, const char *word);

/* Whether a line begins with the name of a setting: `err` says how it is set, or why not. */
bool shell_settings_suggest(const char *line, struct error *err);

/* The names, in the order of the table; NULL behind the last. */
const char *shell_settings_name(size_t at);

/* One line for each: its value, and what it may be. */
void shell_settings_print(const struct shell_settings *settings, struct buffer *out);
