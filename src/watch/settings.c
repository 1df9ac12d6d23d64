/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "watch/command.h"
#include "watch/dump_collector.h"

enum { INTERVAL_MIN_MS = 50, COUNT_DIGITS_MAX = 6 };

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
		return error_set(err, ERROR_USAGE, "no value given");
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
		return error_set(err, ERROR_USAGE, "'%.40s' must be yes or no", value);
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
	if (interval_ms < INTERVAL_MIN_MS)
		return error_set(
			err, ERROR_USAGE, "the interval is at least %dms", INTERVAL_MIN_MS);
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

	if (digits == 0 || digits > COUNT_DIGITS_MAX || value[digits] != '\0' || atoi(value) == 0)
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
	error_set(err, ERROR_USAGE, "unknown word '%.40s'", word);
	return error_hint(err, "use one of %s", known);
}

bool watch_settings_has(const struct watch_settings *settings, const char *word)
{
	const int at = find(word);

	return at >= 0 && (settings->given & 1u << at) != 0;
}

bool watch_settings_check(const struct watch_settings *settings, struct error *err)
{
	return settings->rule_count > 0 || settings->adopt[0] != '\0' ||
	       error_set(err, ERROR_USAGE, "no condition for captures");
}

enum { FILE_BYTES_MAX = 1 << 20, LINE_BYTES = 8192 };

void watch_file_deinit(struct watch_file *file)
{
	free(file->sections);
	*file = (struct watch_file){ 0 };
}

bool watch_section_is_pattern(const struct watch_section *section)
{
	return strpbrk(section->pattern, "*?[") != NULL;
}

static struct watch_section *last_section(const struct watch_file *file)
{
	return file->count == 0 ? NULL : &file->sections[file->count - 1];
}

static bool begin_section(
	struct watch_file *file, const char *pattern, unsigned line, struct error *err)
{
	if (pattern[0] == '\0' || strlen(pattern) >= WATCH_PATTERN_BYTES)
		return error_set(err, ERROR_INPUT, "[%.40s] is not the name of a target", pattern);
	if (file->count == WATCH_SECTIONS_MAX)
		return error_set(err, ERROR_INPUT, "more than %d sections", WATCH_SECTIONS_MAX);
	struct watch_section *const section = XAPPEND(file->sections, file->count, file->capacity);
	*section = (struct watch_section){ .line = line, .number = 1, .user = USER_ANY };
	strcpy(section->pattern, pattern);
	watch_settings_init(&section->settings);
	for (size_t i = 0; i + 1 < file->count; i++)
		section->number += strcmp(file->sections[i].pattern, pattern) == 0;
	return true;
}

/* The gateway may be started anywhere. */
static bool check_absolute(const char *word, const char *value, struct error *err)
{
	const bool is_path = strcmp(word, "keep") == 0 || strcmp(word, "adopt") == 0;

	return !is_path || value[0] == '/' ||
	       error_set(err, ERROR_INPUT, "'%.60s' does not begin with /", value);
}

/* Which of the processes that have the name are meant. */
static bool take_identity(
	struct watch_section *section, const char *word, const char *value, struct error *err)
{
	const bool is_user = strcmp(word, "user") == 0;

	if (is_user ? section->user != USER_ANY : section->program[0] != '\0')
		return error_set(
			err, ERROR_INPUT, "%s is given twice for [%s]", word, section->pattern);
	if (is_user) {
		return user_name_parse(value, &section->user) ||
		       error_set(err, ERROR_INPUT, "user: there is no user '%.40s'", value);
	}
	if (value[0] != '/' || strlen(value) >= sizeof section->program)
		return error_set(err, ERROR_INPUT,
			"program: '%.60s' is not a path that begins with /", value);
	strcpy(section->program, value);
	return true;
}

static bool is_identity(const char *word)
{
	return strcmp(word, "user") == 0 || strcmp(word, "program") == 0;
}

static bool take_setting(struct watch_file *file, char *line, char *sign, struct error *err)
{
	struct watch_section *const section = last_section(file);
	char *const value = sign + 1 + strspn(sign + 1, " \t");
	const char *const word = line;

	while (sign > line && (sign[-1] == ' ' || sign[-1] == '\t'))
		sign--;
	*sign = '\0';
	if (section == NULL)
		return error_set(err, ERROR_INPUT, "'%.40s' comes before any [TARGET]", word);
	if (is_identity(word))
		return take_identity(section, word, value, err);
	if (strcmp(word, "when") != 0 && watch_settings_has(&section->settings, word))
		return error_set(
			err, ERROR_INPUT, "%s is given twice for [%s]", word, section->pattern);
	if (check_absolute(word, value, err) &&
		watch_settings_take(&section->settings, word, value, err))
		return true;
	if (find(word) >= 0)
		return error_prefix(err, "%s", word);
	/* Words of a section alone. */
	const size_t size = strlen(err->hint);
	snprintf(err->hint + size, sizeof err->hint - size, ", user, program");
	return false;
}

static bool take_line(struct watch_file *file, char *line, unsigned number, struct error *err)
{
	size_t size;

	line += strspn(line, " \t");
	for (size = strlen(line); size > 0 && strchr(" \t\r", line[size - 1]) != NULL;)
		line[--size] = '\0';
	if (size == 0 || line[0] == '#')
		return true;
	if (line[0] == '[') {
		if (line[size - 1] != ']')
			return error_set(err, ERROR_INPUT, "'%.40s' does not end with ]", line);
		line[size - 1] = '\0';
		return begin_section(file, line + 1, number, err);
	}
	char *const sign = strchr(line, '=');
	if (sign != NULL)
		return take_setting(file, line, sign, err);
	return error_set(err, ERROR_INPUT, "'%.40s' is neither [TARGET] nor WORD = VALUE", line);
}

static const char *first_of(const struct watch_settings *settings, const char *const *names)
{
	while (*names != NULL && !watch_settings_has(settings, *names))
		names++;
	return *names;
}

/* Two sections cannot keep their captures in one folder: each has its own limits for it. */
static bool check_folder(
	const struct watch_file *file, const struct watch_section *section, struct error *err)
{
	for (const struct watch_section *other = file->sections; other < section; other++) {
		if (section->settings.keep[0] != '\0' &&
			strcmp(other->settings.keep, section->settings.keep) == 0)
			return error_set(err, ERROR_INPUT,
				"[%s] keeps its captures in %s as the section in line %u does",
				section->pattern, section->settings.keep, other->line);
	}
	return true;
}

static bool check_section(const struct watch_file *file, const struct watch_section *section,
	bool has_history, struct error *err)
{
	static const char *const of_folders[] = { "adopt", "keep-count", "keep-bytes", "keep-free",
		NULL };
	const struct watch_settings *const settings = &section->settings;
	const char *const needing = first_of(settings, of_folders);

	if (!watch_settings_check(settings, err)) {
		error_prefix(err, "[%s]", section->pattern);
		return error_hint(err, "for example: when = rss>2GiB");
	}
	if (settings->adopt[0] != '\0' && watch_section_is_pattern(section)) {
		error_set(err, ERROR_INPUT, "[%s] adopts files of one prefix for several targets",
			section->pattern);
		return error_hint(err, "name the target");
	}
	if (settings->keep[0] != '\0')
		return check_folder(file, section, err);
	if (!has_history) {
		error_set(err, ERROR_INPUT, "[%s] has no folder for captures", section->pattern);
		return error_hint(err, "add keep = FOLDER, or start heapctl serve with --history");
	}
	if (needing == NULL)
		return true;
	error_set(err, ERROR_INPUT, "[%s] has %s without keep", section->pattern, needing);
	return error_hint(err, "add keep = FOLDER; the history has limits of its own");
}

static bool parse_lines(
	const char *text, size_t size, struct watch_file *file, unsigned *number, struct error *err)
{
	char line[LINE_BYTES];

	for (const char *at = text, *const end = text + size; at < end;) {
		const char *const newline = memchr(at, '\n', (size_t)(end - at));
		const size_t length = (size_t)((newline == NULL ? end : newline) - at);
		++*number;
		if (length >= sizeof line)
			return error_set(err, ERROR_INPUT, "the line is too long");
		if (memchr(at, '\0', length) != NULL)
			return error_set(err, ERROR_INPUT, "it is not text");
		memcpy(line, at, length);
		line[length] = '\0';
		if (!take_line(file, line, *number, err))
			return false;
		at += length + 1;
	}
	return true;
}

static bool check_all(
	const struct watch_file *file, bool has_history, unsigned *number, struct error *err)
{
	for (size_t i = 0; i < file->count; i++) {
		*number = file->sections[i].line;
		if (!check_section(file, &file->sections[i], has_history, err))
			return false;
	}
	return true;
}

bool watch_file_parse(const char *name, const char *text, size_t size, bool has_history,
	struct watch_file *file, struct error *err)
{
	CLEANUP(watch_file_deinit) struct watch_file parsed = { 0 };
	unsigned number = 0;

	if (!parse_lines(text, size, &parsed, &number, err) ||
		!check_all(&parsed, has_history, &number, err)) {
		err->kind = ERROR_INPUT;
		return error_prefix(err, "%s:%u", name, number);
	}
	*file = parsed;
	parsed = (struct watch_file){ 0 };
	return true;
}

/* Write access to the file allows running commands as this user. */
static bool check_owner(int fd, const char *path, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", path);
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_INPUT, "%s is not a file", path);
	if (status.st_uid != 0 && status.st_uid != geteuid()) {
		error_set(err, ERROR_DENIED, "%s belongs to user %u, and it names commands", path,
			(unsigned)status.st_uid);
		return error_hint(err, "chown it to root or to the gateway's user");
	}
	if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return true;
	error_set(
		err, ERROR_DENIED, "%s can be changed by other users, and it names commands", path);
	return error_hint(err, "chmod go-w %s", path);
}

bool watch_file_read(const char *path, bool has_history, struct watch_file *file, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	text.limit = FILE_BYTES_MAX;
	if (fd < 0)
		return file_open_failed(path, errno, err);
	return check_owner(fd, path, err) && file_read_fd(fd, path, &text, err) &&
	       watch_file_parse(
		       path, text.size == 0 ? "" : text.data, text.size, has_history, file, err);
}
