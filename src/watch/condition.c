/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/condition.h"

#include <stdio.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/duration.h"

static const double DEFAULT_PEAK = 0.05;

static bool parse_share(const char *text, double *share, struct error *err)
{
	double value = 0;
	int used = 0;

	if (strspn(text, "0123456789.") == 0 || sscanf(text, "%lf%%%n", &value, &used) != 1 ||
		used == 0 || text[used] != '\0' || !(value > 0) || value > 1e6) {
		error_set(err, ERROR_USAGE, "'%.40s' is not a percentage", text);
		return error_hint(err, "write for example 85%%");
	}
	*share = value / 100;
	return true;
}

/* A share of something that there is only once. */
static bool parse_part(const char *text, double *share, struct error *err)
{
	double parsed = 0;

	if (!parse_share(text, &parsed, err))
		return false;
	if (parsed >= 1)
		return error_set(err, ERROR_USAGE, "more than 100%% can never be");
	*share = parsed;
	return true;
}

static bool parse_amount(const char *text, struct condition *term, struct error *err)
{
	const size_t size = strlen(text);
	uint64_t bytes = 0;

	if (size > 0 && text[size - 1] == '%') {
		term->is_share = true;
		return parse_share(text, &term->mark, err);
	}
	if (!byte_size_parse(text, &bytes, err))
		return false;
	if (bytes == 0)
		return error_set(err, ERROR_USAGE, "a mark of 0 is always passed");
	term->mark = (double)bytes;
	return true;
}

static bool parse_level(const char *text, struct condition *term, struct error *err)
{
	return parse_amount(text, term, err) &&
	       (!term->is_share || parse_part(text, &term->mark, err));
}

static bool parse_only_part(const char *text, struct condition *term, struct error *err)
{
	term->is_share = true;
	return parse_part(text, &term->mark, err);
}

static bool parse_only_share(const char *text, struct condition *term, struct error *err)
{
	term->is_share = true;
	return parse_share(text, &term->mark, err);
}

/* "h" is one hour. */
static bool parse_period(const char *text, int64_t *period_ms, struct error *err)
{
	char full[48];

	snprintf(full, sizeof full, "%s%.40s", *text >= '0' && *text <= '9' ? "" : "1", text);
	if (*text == '\0')
		return error_set(err, ERROR_USAGE, "a time is missing, such as 15mins");
	if (!duration_parse(full, period_ms, err))
		return false;
	return *period_ms >= 1000 ||
	       error_set(err, ERROR_USAGE, "'%.40s' is too short a time", text);
}

static bool parse_growth(const char *text, struct condition *term, struct error *err)
{
	const char *const slash = strchr(text, '/');
	char amount[48];

	if (slash == NULL)
		return parse_amount(text, term, err);
	snprintf(amount, sizeof amount, "%.*s", (int)(slash - text), text);
	return parse_amount(amount, term, err) && parse_period(slash + 1, &term->period_ms, err);
}

static bool parse_every(const char *text, struct condition *term, struct error *err)
{
	return parse_period(text, &term->period_ms, err);
}

struct word {
	const char *name;
	enum condition_kind kind;
	char sign;	   /* between name and value */
	bool may_be_alone; /* without sign and value */
	bool (*parse)(const char *value, struct condition *term, struct error *err);
};

static const struct word words[] = {
	{ "rss", CONDITION_RESIDENT, '>', false, parse_level },
	{ "cgroup", CONDITION_CGROUP, '>', false, parse_only_part },
	{ "psi", CONDITION_PRESSURE, '>', false, parse_only_part },
	{ "growth", CONDITION_GROWTH, '>', false, parse_growth },
	{ "peak", CONDITION_PEAK, '>', true, parse_only_share },
	{ "every", CONDITION_EVERY, '=', false, parse_every },
	{ "signal", CONDITION_SIGNAL, '\0', true, NULL },
};

static bool parse_term(const char *text, struct condition *term, struct error *err)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const struct word *const word = &words[i];
		const size_t size = strlen(word->name);

		if (strncmp(text, word->name, size) != 0)
			continue;
		*term = (struct condition){ .kind = word->kind };
		if (text[size] == '\0' && word->may_be_alone) {
			term->is_share = word->kind == CONDITION_PEAK;
			term->mark = DEFAULT_PEAK;
			return true;
		}
		if (word->sign != '\0' && text[size] == word->sign)
			return word->parse(text + size + 1, term, err);
	}
	error_set(err, ERROR_USAGE, "'%.60s' is no condition", text);
	return error_hint(err, "rss>2GiB, cgroup>85%%, psi>10%%, growth>10%%/h, peak, every=15mins "
			       "or signal");
}

bool condition_parse(const char *text, struct condition_rule *rule, struct error *err)
{
	static const char joint[] = " and ";
	struct condition_rule parsed = { 0 };
	char rest[CONDITION_TEXT_BYTES];

	if (strlen(text) >= sizeof parsed.text)
		return error_set(err, ERROR_USAGE, "the condition '%.40s...' is too long", text);
	strcpy(parsed.text, text);
	strcpy(rest, text);
	for (char *at = rest; at != NULL;) {
		char *const end = strstr(at, joint);
		if (end != NULL)
			*end = '\0';
		if (parsed.term_count == CONDITION_TERMS_MAX)
			return error_set(err, ERROR_USAGE, "'%s': more than %d terms", text,
				CONDITION_TERMS_MAX);
		if (!parse_term(at, &parsed.terms[parsed.term_count++], err))
			return false;
		at = end == NULL ? NULL : end + sizeof joint - 1;
	}
	*rule = parsed;
	return true;
}

bool condition_has(const struct condition_rule *rule, enum condition_kind kind)
{
	for (size_t i = 0; i < rule->term_count; i++) {
		if (rule->terms[i].kind == kind)
			return true;
	}
	return false;
}
