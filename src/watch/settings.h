/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is watched for and what becomes of it, in words: those of heapctl watch's options without
 * their dashes, which are the words of the gateway's watch file as well (watch/watch_file.h).
 *
 *	when		a condition (watch/condition.h); any number of them, any will do
 *	activate	yes: switch sampling on
 *	cool-down	captures are apart by this, except those of every= and signal
 *	interval	how often to look
 *	then		a command for each capture (watch/command.h)
 *	adopt		prefix of the files that jemalloc writes by itself (watch/dump_collector.h)
 *	keep		folder of the captures
 *	keep-count keep-bytes keep-free		what is kept there (store/store.h)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/snapshot.h"
#include "watch/condition.h"
#include "watch/trigger.h"

enum { SETTINGS_PATH_BYTES = 3000, SETTINGS_COMMAND_BYTES = 4096 };

struct watch_settings {
	struct condition_rule rules[TRIGGER_RULES_MAX];
	size_t rule_count;
	struct trigger_settings trigger;
	int64_t interval_ms;
	bool activate;
	struct store_limits limits;
	char keep[SETTINGS_PATH_BYTES]; /* "" when it was not said; so are the next two */
	char then[SETTINGS_COMMAND_BYTES];
	char adopt[SETTINGS_PATH_BYTES];
	unsigned given; /* a bit for each word that was said */
};

/* The defaults: look each second, cool down for five minutes, keep 48 captures and 1 GiB. */
void watch_settings_init(struct watch_settings *settings);

/*
 * Sets what the word says; of a word said again the last counts, except for `when`. ERROR_USAGE
 * for a value that makes no sense, and for a word that there is not.
 */
MUST_CHECK bool watch_settings_take(
	struct watch_settings *settings, const char *word, const char *value, struct error *err);

bool watch_settings_is_word(const char *word);

/* Whether the word was said. False for unknown ones. */
bool watch_settings_has(const struct watch_settings *settings, const char *word);

/* ERROR_USAGE unless there is anything to watch for. */
MUST_CHECK bool watch_settings_check(const struct watch_settings *settings, struct error *err);
