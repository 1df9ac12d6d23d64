/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_settings.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/xalloc.h"
#include "profile/profile.h"
#include "render/quantity.h"

enum setting_kind {
	SETTING_WORD,
	SETTING_PATTERN,
	SETTING_COUNT,
	SETTING_SHARE,
	SETTING_SWITCH,
	SETTING_TAG,
};

struct setting {
	const char *name; /* with the '=', as completion types it */
	const char *help;
	enum setting_kind kind;
	size_t offset;		  /* in struct report_options */
	const char *const *words; /* of SETTING_WORD: what the enum's values are called */
};

#define AT(member) offsetof(struct report_options, member)

static const struct setting settings_table[] = {
	{ "sample_index=", "figures", SETTING_WORD, AT(counter), profile_counter_names },
	{ "granularity=", "what a row is", SETTING_WORD, AT(granularity), view_granularity_names },
	{ "sort=", "order of rows", SETTING_WORD, AT(render.sort), render_sort_names },
	{ "focus=", "only stacks with a match", SETTING_PATTERN, AT(filter.focus), NULL },
	{ "ignore=", "no stacks with a match", SETTING_PATTERN, AT(filter.ignore), NULL },
	{ "show=", "only matching frames", SETTING_PATTERN, AT(filter.show), NULL },
	{ "hide=", "no matching frames", SETTING_PATTERN, AT(filter.hide), NULL },
	{ "show_from=", "only stacks with a match, without its callers", SETTING_PATTERN,
		AT(filter.show_from), NULL },
	{ "prune_from=", "nothing below the innermost match, by function", SETTING_PATTERN,
		AT(filter.prune_from), NULL },
	{ "tagfocus=", "only samples with thread=REGEX or bytes=LOW:HIGH", SETTING_TAG,
		AT(filter.tags), NULL },
	{ "tagignore=", "no samples with thread=REGEX or bytes=LOW:HIGH", SETTING_TAG,
		AT(filter.ignored_tags), NULL },
	{ "nodecount=", "maximum of rows and boxes", SETTING_COUNT, AT(render.graph.node_count),
		NULL },
	{ "nodefraction=", "no boxes below this share", SETTING_SHARE,
		AT(render.graph.node_fraction), NULL },
	{ "edgefraction=", "no arrows below this share", SETTING_SHARE,
		AT(render.graph.edge_fraction), NULL },
	{ "unit=", "of text and call graphs", SETTING_WORD, AT(render.unit), render_unit_names },
	{ "mean=", "of top: bytes of one object, or time of one delay", SETTING_SWITCH,
		AT(render.mean), NULL },
	{ "show_bytes=", "bytes rather than MB", SETTING_SWITCH, AT(render.show_bytes), NULL },
	{ "confidence=", "standard errors beside the figures", SETTING_SWITCH,
		AT(render.confidence), NULL },
	{ "noinlines=", "callers in the place of what is inlined into them", SETTING_SWITCH,
		AT(no_inlines), NULL },
	{ "drop_negative=", "no negative values of a difference", SETTING_SWITCH, AT(drop_negative),
		NULL },
	{ "inverted=", "trees and flame graphs from the leaves", SETTING_SWITCH,
		AT(render.is_inverted), NULL },
};

enum { SETTINGS = sizeof settings_table / sizeof settings_table[0] };
_Static_assert((int)SETTINGS <= (int)SHELL_SETTINGS_MAX, "the shell has room for all names");
_Static_assert(sizeof(enum profile_counter) == sizeof(unsigned) &&
		       sizeof(enum view_granularity) == sizeof(unsigned) &&
		       sizeof(enum render_sort) == sizeof(unsigned) &&
		       sizeof(enum render_unit) == sizeof(unsigned),
	"SETTING_WORD stores an unsigned");

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

static const struct setting *find(const char *line)
{
	const size_t size = name_size(line);

	for (size_t i = 0; i < SETTINGS; i++) {
		if (strlen(settings_table[i].name) == size + 1 &&
			strncmp(settings_table[i].name, line, size) == 0)
			return &settings_table[i];
	}
	return NULL;
}

static size_t member_size(const struct setting *setting)
{
	static const size_t sizes[] = { [SETTING_WORD] = sizeof(unsigned),
		[SETTING_PATTERN] = sizeof(const char *),
		[SETTING_COUNT] = sizeof(size_t),
		[SETTING_SHARE] = sizeof(double),
		[SETTING_SWITCH] = sizeof(bool),
		[SETTING_TAG] = sizeof(struct filter_tags) };

	return sizes[setting->kind];
}

/* "flat, cum, change, name" */
static void append_words(struct buffer *out, const char *const *words)
{
	for (size_t i = 0; words[i] != NULL; i++)
		buffer_printf(out, "%s%s", i == 0 ? "" : ", ", words[i]);
}

static bool read_word(const struct setting *setting, const char *value, void *member)
{
	for (unsigned i = 0; setting->words[i] != NULL; i++) {
		if (strcasecmp(setting->words[i], value) != 0)
			continue;
		memcpy(member, &i, sizeof i);
		return true;
	}
	return false;
}

static bool read_number(const struct setting *setting, const char *value, void *member)
{
	char *end = NULL;

	if (setting->kind == SETTING_COUNT) {
		const long long count = strtoll(value, &end, 10);
		if (*end != '\0' || count < 0 || count > INT32_MAX)
			return false;
		*(size_t *)member = (size_t)count;
		return true;
	}
	const double share = strtod(value, &end);
	if (*end != '\0' || !(share >= 0 && share <= 1))
		return false;
	*(double *)member = share;
	return true;
}

static bool read_switch(const char *value, void *member)
{
	const bool is_on = strcmp(value, "true") == 0;

	if (!is_on && strcmp(value, "false") != 0)
		return false;
	*(bool *)member = is_on;
	return true;
}

static bool read_pattern(
	struct shell_settings *settings, const char *value, void *member, struct error *err)
{
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;

	if (!pattern_new(value, &pattern, err))
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

static bool refuse_value(const struct setting *setting, const char *value, struct error *err)
{
	static const char *const ranges[] = { [SETTING_COUNT] = "a number",
		[SETTING_SHARE] = "a share from 0 to 1",
		[SETTING_SWITCH] = "true or false" };
	CLEANUP(buffer_deinit) struct buffer choices = BUFFER_OR_EXIT;

	if (setting->kind == SETTING_WORD)
		append_words(&choices, setting->words);
	else
		buffer_append_string(&choices, ranges[setting->kind]);
	return error_set(err, ERROR_USAGE, "%s'%.60s': use %s", setting->name, value,
		buffer_string(&choices));
}

/* What a setting means for others. */
static void follow(struct shell_settings *settings, const struct setting *setting, bool is_given)
{
	const struct report_options *const initial = settings->initial;
	struct report_options *const options = &settings->options;

	if (setting->offset == AT(counter))
		options->has_counter = is_given || initial->has_counter;
	if (setting->offset == AT(render.graph.node_count))
		options->render.line_limit =
			is_given ? options->render.graph.node_count : initial->render.line_limit;
}

bool shell_settings_set(struct shell_settings *settings, const char *line, struct error *err)
{
	const struct setting *const setting = find(line);
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (setting == NULL) {
		error_set(
			err, ERROR_USAGE, "there is no setting '%.*s'", (int)name_size(line), line);
		return error_hint(err, "options lists them");
	}
	const char *value = strchr(line, '=') + 1;
	value += strspn(value, " \t");
	size_t size = strlen(value);
	while (size > 0 && (value[size - 1] == ' ' || value[size - 1] == '\t'))
		size--;
	buffer_append(&text, value, size);
	value = buffer_string(&text);

	void *const member = (char *)&settings->options + setting->offset;
	bool done = true;
	if (size == 0)
		memcpy(member, (const char *)settings->initial + setting->offset,
			member_size(setting));
	else if (setting->kind == SETTING_PATTERN)
		return read_pattern(settings, value, member, err);
	else if (setting->kind == SETTING_TAG)
		return read_tag(settings, value, member, err);
	else if (setting->kind == SETTING_WORD)
		done = read_word(setting, value, member);
	else if (setting->kind == SETTING_SWITCH)
		done = read_switch(value, member);
	else
		done = read_number(setting, value, member);
	if (!done)
		return refuse_value(setting, value, err);
	follow(settings, setting, size != 0);
	return true;
}

bool shell_settings_expand(struct shell_settings *settings, const char *word)
{
	const size_t size = strcspn(word, " \t\r");
	CLEANUP(free_cleanup) char *own = xasprintf("%.*s", (int)size, word);
	const size_t blanks = strspn(word + size, " \t\r");
	unsigned ignored;

	for (size_t i = 0; word[size + blanks] == '\0' && i < SETTINGS; i++) {
		const struct setting *const setting = &settings_table[i];
		void *const member = (char *)&settings->options + setting->offset;
		const bool is_short =
			setting->offset == AT(granularity) || setting->offset == AT(render.sort);
		if (is_short && read_word(setting, own, &ignored))
			return read_word(setting, own, member);
		if (setting->kind == SETTING_SWITCH && strlen(setting->name) == size + 1 &&
			strncmp(setting->name, own, size) == 0)
			return read_switch("true", member);
	}
	return false;
}

size_t shell_settings_names(const char **names)
{
	for (size_t i = 0; i < SETTINGS; i++)
		names[i] = settings_table[i].name;
	return SETTINGS;
}

static void append_value(
	const struct shell_settings *settings, const struct setting *setting, struct buffer *out)
{
	const void *const member = (const char *)&settings->options + setting->offset;
	const struct filter_tags *tags;
	const char *pattern;
	unsigned word;

	switch (setting->kind) {
	case SETTING_WORD:
		memcpy(&word, member, sizeof word);
		/* Without one, each profile has its own. */
		if (setting->offset == AT(counter) && !settings->options.has_counter)
			return;
		buffer_append_string(out, setting->words[word]);
		return;
	case SETTING_PATTERN:
		pattern = *(const char *const *)member;
		buffer_append_string(out, pattern == NULL ? "" : pattern);
		return;
	case SETTING_TAG:
		tags = member;
		for (size_t i = 0; i < tags->count; i++)
			buffer_printf(out, "%s%s", i == 0 ? "" : ", ", tags->texts[i]);
		return;
	case SETTING_COUNT:
		buffer_printf(out, "%zu", *(const size_t *)member);
		return;
	case SETTING_SHARE:
		buffer_printf(out, "%g", *(const double *)member);
		return;
	case SETTING_SWITCH:
		buffer_append_string(out, *(const bool *)member ? "true" : "false");
		return;
	}
}

void shell_settings_print(const struct shell_settings *settings, struct buffer *out)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *const setting = &settings_table[i];
		CLEANUP(buffer_deinit) struct buffer value = BUFFER_OR_EXIT;

		buffer_append_string(&value, setting->name);
		append_value(settings, setting, &value);
		buffer_printf(out, "  %-32s %s", buffer_string(&value), setting->help);
		if (setting->words != NULL) {
			buffer_append_string(out, ": ");
			append_words(out, setting->words);
		}
		buffer_append_char(out, '\n');
	}
}
