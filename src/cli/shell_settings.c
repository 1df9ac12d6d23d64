/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/xalloc.h"
#include "cli/report_option_ids.h"
#include "cli/terminal.h"
#include "profile/profile.h"
#include "render/quantity.h"

#define AT(member) offsetof(struct report_options, member)

_Static_assert(sizeof(enum profile_counter) == sizeof(unsigned) &&
		       sizeof(enum view_granularity) == sizeof(unsigned) &&
		       sizeof(enum render_sort) == sizeof(unsigned) &&
		       sizeof(enum render_unit) == sizeof(unsigned),
	"a word is stored as an unsigned");

/* The next row of the table of options that is a setting; NULL behind the last. */
static const struct verb_option *next_setting(const struct verb_option *row)
{
	row = row == NULL ? report_option_table : row + 1;
	while (row->name != NULL && row->setting == NULL)
		row++;
	return row->name == NULL ? NULL : row;
}

static bool is_refused(const struct verb_option *setting)
{
	return setting->id == OPTION_REFUSED;
}

static bool is_tag(const struct verb_option *setting)
{
	return setting->id == OPTION_TAG || setting->id == OPTION_TAG_IGNORE;
}

static bool is_pattern(const struct verb_option *setting)
{
	return setting->store == OPTION_STORE_TEXT && strcmp(setting->argument, "REGEX") == 0;
}

void shell_settings_init(struct shell_settings *settings, const struct report_options *options)
{
	*settings = (struct shell_settings){ .options = *options, .initial = options };
	string_pool_init(&settings->strings);
}

void shell_settings_deinit(struct shell_settings *settings)
{
	string_pool_deinit(&settings->strings);
}

static size_t name_size(const char *line)
{
	return strspn(line, "abcdefghijklmnopqrstuvwxyz_");
}

bool shell_settings_names_one(const char *line)
{
	const size_t size = name_size(line);

	return size > 0 && line[size + strspn(line + size, " \t")] == '=';
}

/* Of the `size` characters of a name. */
static const struct verb_option *find(const char *name, size_t size)
{
	for (const struct verb_option *row = NULL; (row = next_setting(row)) != NULL;) {
		if (strlen(row->setting) == size && strncmp(row->setting, name, size) == 0)
			return row;
	}
	return NULL;
}

static size_t member_size(const struct verb_option *setting)
{
	switch ((int)setting->store) {
	case OPTION_STORE_WORD:
		return sizeof(unsigned);
	case OPTION_STORE_TEXT:
		return sizeof(const char *);
	case OPTION_STORE_COUNT:
		return sizeof(size_t);
	case OPTION_STORE_REAL:
		return sizeof(double);
	case OPTION_STORE_SWITCH:
		return sizeof(bool);
	default:
		return sizeof(struct filter_tags);
	}
}

/* "flat, cum, change, name" */
static void append_words(struct buffer *out, const char *const *words)
{
	for (size_t i = 0; words[i] != NULL; i++)
		buffer_printf(out, "%s%s", i == 0 ? "" : ", ", words[i]);
}

static bool read_word(const struct verb_option *setting, const char *value, void *member)
{
	for (unsigned i = 0; setting->words[i] != NULL; i++) {
		if (strcasecmp(setting->words[i], value) != 0)
			continue;
		memcpy(member, &i, sizeof i);
		return true;
	}
	return false;
}

static bool read_number(const struct verb_option *setting, const char *value, void *member)
{
	char *end = NULL;

	if (setting->store == OPTION_STORE_COUNT) {
		const long long count = strtoll(value, &end, 10);
		if (*end != '\0' || count < setting->min || count > setting->max)
			return false;
		*(size_t *)member = (size_t)count;
		return true;
	}
	const double min = (double)setting->min, max = (double)setting->max;
	const double number = strtod(value, &end);
	if (*end != '\0' || !(number >= min && number <= max) ||
		(setting->is_above_min && !(number > min)))
		return false;
	*(double *)member = number;
	return true;
}

static bool read_switch(const char *value, void *member)
{
	static const char *const on[] = { "true", "t", "1", NULL };
	static const char *const off[] = { "false", "f", "0", NULL };

	for (size_t i = 0; on[i] != NULL; i++) {
		if (strcasecmp(value, on[i]) != 0 && strcasecmp(value, off[i]) != 0)
			continue;
		*(bool *)member = strcasecmp(value, on[i]) == 0;
		return true;
	}
	return false;
}

static bool read_text(struct shell_settings *settings, const struct verb_option *setting,
	const char *value, void *member, struct error *err)
{
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;

	if (is_pattern(setting) && !pattern_new(value, &pattern, err))
		return false;
	*(const char **)member = string_pool_add(&settings->strings, value);
	return true;
}

/* One in place of those that the command line has. */
static bool read_tag(
	struct shell_settings *settings, const char *value, void *member, struct error *err)
{
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	struct filter_tags *const tags = member;
	const bool is_ignored = tags == &settings->options.filter.ignored_tags;
	const char **const text = is_ignored ? &settings->ignored_tag : &settings->tag;

	if (!filter_new(&(struct filter_text){ .tags = { &value, 1 } }, &filter, err))
		return false;
	*text = string_pool_add(&settings->strings, value);
	*tags = (struct filter_tags){ text, 1 };
	return true;
}

static bool refuse_value(const struct verb_option *setting, const char *value, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer choices = BUFFER_OR_EXIT;

	if (setting->store == OPTION_STORE_WORD)
		append_words(&choices, setting->words);
	else if (setting->store == OPTION_STORE_SWITCH)
		buffer_append_string(&choices, "true or false");
	else if (setting->store == OPTION_STORE_COUNT)
		buffer_append_string(&choices, "a number");
	else if (setting->is_above_min)
		buffer_printf(&choices, "a number above %lld", (long long)setting->min);
	else
		buffer_printf(&choices, "a number from %lld to %lld", (long long)setting->min,
			(long long)setting->max);
	return error_set(err, ERROR_USAGE, "%s='%.60s': use %s", setting->setting, value,
		buffer_string(&choices));
}

/* What a setting means for others. */
static void follow(
	struct shell_settings *settings, const struct verb_option *setting, bool is_given)
{
	const struct report_options *const initial = settings->initial;
	struct report_options *const options = &settings->options;

	if (setting->offset == AT(counter))
		options->has_counter = is_given || initial->has_counter;
	if (setting->offset == AT(render.graph.node_count))
		options->render.line_limit =
			is_given ? options->render.graph.node_count : initial->render.line_limit;
}

/* Without the blanks around it. */
static const char *trim(struct buffer *text, const char *value)
{
	value += strspn(value, " \t");
	size_t size = strlen(value);
	while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
		size--;
	buffer_append(text, value, size);
	return buffer_string(text);
}

bool shell_settings_set(struct shell_settings *settings, const char *line, struct error *err)
{
	const size_t size = name_size(line);
	const struct verb_option *const setting = find(line, size);
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (setting == NULL) {
		error_set(err, ERROR_USAGE, "there is no setting '%.*s'", (int)size, line);
		return error_hint(err, "options lists them");
	}
	if (is_refused(setting))
		return error_set(err, ERROR_USAGE, "there is no setting '%s': %s", setting->setting,
			setting->help);
	const char *const value = trim(&text, strchr(line, '=') + 1);
	void *const member = (char *)&settings->options + setting->offset;
	bool done = true;
	if (*value == '\0')
		memcpy(member, (const char *)settings->initial + setting->offset,
			member_size(setting));
	else if (setting->store == OPTION_STORE_TEXT)
		return read_text(settings, setting, value, member, err);
	else if (is_tag(setting))
		return read_tag(settings, value, member, err);
	else if (setting->store == OPTION_STORE_WORD)
		done = read_word(setting, value, member);
	else if (setting->store == OPTION_STORE_SWITCH)
		done = read_switch(value, member);
	else
		done = read_number(setting, value, member);
	if (!done)
		return refuse_value(setting, value, err);
	follow(settings, setting, *value != '\0');
	return true;
}

/* ":" of pprof takes these back. */
static void clear_filters(struct shell_settings *settings)
{
	static const struct filter_text none;
	struct filter_text *const filter = &settings->options.filter;

	filter->focus = none.focus;
	filter->ignore = none.ignore;
	filter->hide = none.hide;
	filter->tags = none.tags;
	filter->ignored_tags = none.ignored_tags;
}

bool shell_settings_expand(struct shell_settings *settings, const char *word)
{
	const size_t size = strcspn(word, " \t\r");
	CLEANUP(free_cleanup) char *own = xasprintf("%.*s", (int)size, word);
	const size_t blanks = strspn(word + size, " \t\r");

	if (word[size + blanks] != '\0')
		return false;
	if (strcmp(own, ":") == 0) {
		clear_filters(settings);
		return true;
	}
	for (const struct verb_option *row = NULL; (row = next_setting(row)) != NULL;) {
		void *const member = (char *)&settings->options + row->offset;
		const bool is_short = row->offset == AT(granularity) ||
				      row->offset == AT(render.sort) || row->offset == AT(counter);
		if (row->store == OPTION_STORE_WORD && is_short && read_word(row, own, member)) {
			follow(settings, row, true);
			return true;
		}
		if (row->store == OPTION_STORE_SWITCH && strcmp(row->setting, own) == 0)
			return read_switch("true", member);
	}
	return false;
}

bool shell_settings_suggest(const char *line, struct error *err)
{
	const size_t size = name_size(line);
	const struct verb_option *const setting = find(line, size);

	if (setting == NULL)
		return false;
	const char *const value = line + size + strspn(line + size, " \t");
	error_set(err, ERROR_USAGE, "%s is a setting", setting->setting);
	if (is_refused(setting))
		error_set(err, ERROR_USAGE, "there is no setting '%s': %s", setting->setting,
			setting->help);
	else
		error_hint(err, "%s=%.100s", setting->setting, *value == '\0' ? "VALUE" : value);
	return true;
}

const char *shell_settings_name(size_t at)
{
	for (const struct verb_option *row = NULL; (row = next_setting(row)) != NULL;) {
		if (!is_refused(row) && at-- == 0)
			return row->setting;
	}
	return NULL;
}

static void append_value(const struct shell_settings *settings, const struct verb_option *setting,
	struct buffer *out)
{
	const void *const member = (const char *)&settings->options + setting->offset;
	const struct filter_tags *tags;
	const char *text;
	unsigned word;

	switch ((int)setting->store) {
	case OPTION_STORE_WORD:
		memcpy(&word, member, sizeof word);
		/* Without one, each profile has its own. */
		if (setting->offset == AT(counter) && !settings->options.has_counter)
			return;
		buffer_append_string(out, setting->words[word]);
		return;
	case OPTION_STORE_TEXT:
		text = *(const char *const *)member;
		buffer_append_string(out, text == NULL ? "" : text);
		return;
	case OPTION_STORE_COUNT:
		buffer_printf(out, "%zu", *(const size_t *)member);
		return;
	case OPTION_STORE_REAL:
		buffer_printf(out, "%g", *(const double *)member);
		return;
	case OPTION_STORE_SWITCH:
		buffer_append_string(out, *(const bool *)member ? "true" : "false");
		return;
	default:
		tags = member;
		for (size_t i = 0; i < tags->count; i++)
			buffer_printf(out, "%s%s", i == 0 ? "" : ", ", tags->texts[i]);
	}
}

enum { HELP_COLUMN = 31, HELP_END = 100 };

/* Broken into lines below one another. */
static void append_help(struct buffer *out, const char *help)
{
	CLEANUP(free_cleanup) char *text = NULL;
	size_t size = 0;
	FILE *const stream = open_memstream(&text, &size);

	if (stream == NULL)
		return;
	terminal_fill(stream, help, HELP_COLUMN, HELP_COLUMN, HELP_END);
	fclose(stream);
	buffer_append(out, text, size);
}

void shell_settings_print(const struct shell_settings *settings, struct buffer *out)
{
	for (const struct verb_option *row = NULL; (row = next_setting(row)) != NULL;) {
		CLEANUP(buffer_deinit) struct buffer value = BUFFER_OR_EXIT;

		if (is_refused(row))
			continue;
		buffer_printf(&value, "%s=", row->setting);
		append_value(settings, row, &value);
		buffer_printf(out, "  %-28s ", buffer_string(&value));
		append_help(out, row->help);
	}
}
