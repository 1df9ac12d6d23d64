/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is watched for and what happens then, in words: those of heapctl watch's options without
 * their dashes, which are the words of the gateway's watch file as well.
 *
 *	when		a condition (watch/trigger.h); may be repeated, one is enough
 *	activate	yes: switch sampling on
 *	cool-down	minimum time between captures, except those of every= and signal
 *	interval	time between readings
 *	then		a command for each capture (watch/command.h)
 *	adopt		prefix of jemalloc's own dump files (watch/dump_collector.h)
 *	keep		folder of the captures
 *	keep-count keep-bytes keep-free		what is kept there (store/store.h)
 *
 * The file of heapctl serve --watch-file (docs/watch-file.md): sections that begin with the name of
 * a target or a pattern of names, then settings, one in a line.
 *
 *	# before the OOM killer comes
 *	[redis-server]
 *	user = redis
 *	when = cgroup>85%
 *	when = growth>10%/h
 *	keep = /var/lib/heaps/redis
 *	then = /usr/local/bin/upload --bucket heaps
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/user_name.h"
#include "store/snapshot.h"
#include "watch/trigger.h"

enum { SETTINGS_PATH_BYTES = 3000, SETTINGS_COMMAND_BYTES = 4096 };

struct watch_settings {
	struct condition_rule rules[TRIGGER_RULES_MAX];
	size_t rule_count;
	struct trigger_settings trigger;
	int64_t interval_ms;
	bool activate;
	struct store_limits limits;
	char keep[SETTINGS_PATH_BYTES]; /* "" when not given; so are the next two */
	char then[SETTINGS_COMMAND_BYTES];
	char adopt[SETTINGS_PATH_BYTES];
	unsigned given; /* a bit for each word */
};

/* The defaults: read each second, cool down for five minutes, keep 48 captures and 1 GiB. */
void watch_settings_init(struct watch_settings *settings);

/*
 * Applies a word; the last of a repeated word counts, except for `when`. ERROR_USAGE for an invalid
 * value or an unknown word.
 */
MUST_CHECK bool watch_settings_take(
	struct watch_settings *settings, const char *word, const char *value, struct error *err);

/* Whether the word was given. False for unknown ones. */
bool watch_settings_has(const struct watch_settings *settings, const char *word);

/* ERROR_USAGE when there is neither a condition nor a prefix. */
MUST_CHECK bool watch_settings_check(const struct watch_settings *settings, struct error *err);

enum { WATCH_SECTIONS_MAX = 64, WATCH_PATTERN_BYTES = 128 };

struct watch_section {
	char pattern[WATCH_PATTERN_BYTES]; /* with * ? [...] as in file names, or a name */
	unsigned line;			   /* of its head */
	uid_t user;			   /* whose processes alone; USER_ANY */
	char program[SETTINGS_PATH_BYTES]; /* of that path alone; "" for any */
	unsigned number; /* 1, or more for a further section of the same pattern */
	struct watch_settings settings;
};

struct watch_file {
	struct watch_section *sections;
	size_t count, capacity;
};

/*
 * Parses the text. `has_history`: captures without `keep` have a place to go to. ERROR_INPUT
 * with "NAME:LINE: " in front. Free with watch_file_deinit.
 */
MUST_CHECK bool watch_file_parse(const char *name, const char *text, size_t size, bool has_history,
	struct watch_file *file, struct error *err);

/*
 * Reads and parses it. ERROR_DENIED when others than root and this user may change the file: it
 * names commands.
 */
MUST_CHECK bool watch_file_read(
	const char *path, bool has_history, struct watch_file *file, struct error *err);

void watch_file_deinit(struct watch_file *file);

/* Whether the pattern stands for several names. */
bool watch_section_is_pattern(const struct watch_section *section);
