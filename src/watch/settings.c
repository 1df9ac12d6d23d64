/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/duration.h"
#include "watch/dump_collector.h"
#include "watch/command.h"

enum { INTERVAL_LEAST_MS = 50, COUNT_MOST_DIGITS = 6 };

void watch_settings_init(struct watch_settings *settings)
{
	*settings = (struct watch_settings){
		.trigger = { .cool_down_ms = 5 * 60 * 1000, .retry_ms = 10 * 1000 },
		.interval_ms = 1000,
		.limits = { .count = 48,
			.bytes = UINT64_C(1) << 30,
			.free_bytes = UINT64_C(512) << 20 },
	};
}

static bool copy(const char *value, char *out, size_t size, struct error *err)
{
	if (value[0] == '\0')
		return error_set(err, ERROR_USAGE, "nothing is given");
	if (strlen(value) >= size)
		return error_set(err, ERROR_USAGE, "'%.40s...' is too long", value);
	strcpy(out, value);
	return true;
}

static bool take_when(struct watch_settings *settings, const char *value, struct error *err)
{
	if (settings->rule_count == TRIGGER_RULES_MAX)
		return error_set(err, ERROR_USAGE, "more than %d conditions", TRIGGER_RULES_MAX);
	if (!condition_parse(value, &settings->rules[settings->rule_count], err))
		return false;
	settings->rule_count++;
	return true;
}

static bool take_activate(struct watch_settings *settings, const char *value, struct error *err)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return error_set(err, ERROR_USAGE, "'%.40s' is neither yes nor no", value);
	settings->activate = strcmp(value, "yes") == 0;
	return true;
}

static bool take_cool_down(struct watch_settings *settings, const char *value, struct error *err)
{
	return duration_parse(value, &settings->trigger.cool_down_ms, err);
}

static bool take_interval(struct watch_settings *settings, const char *value, struct error *err)
{
	int64_t interval_ms = 0;

	if (!duration_parse(value, &interval_ms, err))
		return false;
	if (interval_ms < INTERVAL_LEAST_MS)
		return error_set(
			err, ERROR_USAGE, "the interval is at least %dms", INTERVAL_LEAST_MS);
	settings->interval_ms = interval_ms;
	return true;
}

static bool take_then(struct watch_settings *settings, const char *value, struct error *err)
{
	CLEANUP(command_cleanup) struct command *trial = NULL;

	return command_parse(value, &trial, err) &&
	       copy(value, settings->then, sizeof settings->then, err);
}

static bool take_adopt(struct watch_settings *settings, const char *value, struct error *err)
{
	CLEANUP(dump_collector_cleanup) struct dump_collector *trial = NULL;

	return dump_collector_new(value, &trial, err) &&
	       copy(value, settings->adopt, sizeof settings->adopt, err);
}

static bool take_keep(struct watch_settings *settings, const char *value, struct error *err)
{
	return copy(value, settings->keep, sizeof settings->keep, err);
}

static bool take_keep_count(struct watch_settings *settings, const char *value, struct error *err)
{
	const size_t digits = strspn(value, "0123456789");

	if (digits == 0 || digits > COUNT_MOST_DIGITS || value[digits] != '\0' || atoi(value) == 0)
		return error_set(
			err, ERROR_USAGE, "'%.40s' is not a number from 1 to 999999", value);
	settings->limits.count = (uint64_t)atoi(value);
	return true;
}

static bool take_keep_bytes(struct watch_settings *settings, const char *value, struct error *err)
{
	return byte_size_parse(value, &settings->limits.bytes, err);
}

static bool take_keep_free(struct watch_settings *settings, const char *value, struct error *err)
{
	return byte_size_parse(value, &settings->limits.free_bytes, err);
}

static const struct {
	const char *name;
	bool (*take)(struct watch_settings *settings, const char *value, struct error *err);
} words[] = {
	{ "when", take_when },
	{ "activate", take_activate },
	{ "cool-down", take_cool_down },
	{ "interval", take_interval },
	{ "then", take_then },
	{ "adopt", take_adopt },
	{ "keep", take_keep },
	{ "keep-count", take_keep_count },
	{ "keep-bytes", take_keep_bytes },
	{ "keep-free", take_keep_free },
};
enum { WORDS = sizeof words / sizeof words[0] };

static int find(const char *word)
{
	for (int i = 0; i < WORDS; i++) {
		if (strcmp(words[i].name, word) == 0)
			return i;
	}
	return -1;
}

bool watch_settings_take(
	struct watch_settings *settings, const char *word, const char *value, struct error *err)
{
	const int at = find(word);
	char known[160] = "";
	size_t size = 0;

	if (at >= 0) {
		if (!words[at].take(settings, value, err))
			return false;
		settings->given |= 1u << at;
		return true;
	}
	for (int i = 0; i < WORDS && size < sizeof known; i++)
		size += (size_t)snprintf(known + size, sizeof known - size, "%s%s",
			i == 0 ? "" : ", ", words[i].name);
	error_set(err, ERROR_USAGE, "there is no word '%.40s'", word);
	return error_hint(err, "there are %s", known);
}

bool watch_settings_is_word(const char *word)
{
	return find(word) >= 0;
}

bool watch_settings_has(const struct watch_settings *settings, const char *word)
{
	const int at = find(word);

	return at >= 0 && (settings->given & 1u << at) != 0;
}

bool watch_settings_check(const struct watch_settings *settings, struct error *err)
{
	return settings->rule_count > 0 || settings->adopt[0] != '\0' ||
	       error_set(err, ERROR_USAGE, "nothing says when to capture");
}
