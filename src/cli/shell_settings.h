/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of the shell of reports, with the names that Go's pprof gave them: a line NAME=VALUE
 * holds for all commands that follow, NAME= is again what the command line asked for.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/string_pool.h"
#include "cli/report_options.h"

enum { SHELL_SETTINGS_MAX = 21 };

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
 * Sets what a word alone means, as in pprof: "cum" is sort=cum, "lines" granularity=lines, and
 * "noinlines" noinlines=true. False where it means nothing.
 */
MUST_CHECK bool shell_settings_expand(struct shell_settings *settings, const char *word);

/* "NAME=" of each, for completion; at most SHELL_SETTINGS_MAX. Returns how many. */
size_t shell_settings_names(const char **names);

/* One line for each: its value, and what it may be. */
void shell_settings_print(const struct shell_settings *settings, struct buffer *out);
