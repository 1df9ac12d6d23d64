/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* Far more than any sensible pattern needs on a function's name. */
enum { MATCH_LIMIT = 1000000, DEPTH_LIMIT = 10000, HEAP_LIMIT_KIB = 65536 };

struct pattern {
	char *text;
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *context;
	int problem; /* the first error of a match, 0 for none */
};

bool pattern_new(const char *text, struct pattern **ret, struct error *err)
{
	int code = 0;
	size_t offset = 0;
	pcre2_code *const compiled =
		pcre2_compile((PCRE2_SPTR)text, strlen(text), 0, &code, &offset, NULL);

	if (compiled == NULL) {
		char message[120] = "";
		pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
		return error_set(err, ERROR_USAGE, "invalid pattern '%.100s' at character %zu: %s",
			text, offset + 1, message);
	}
	struct pattern *const pattern = xcalloc(1, sizeof *pattern);
	pattern->text = xstrdup(text);
	pattern->code = compiled;
	pattern->match = pcre2_match_data_create(1, NULL);
	pattern->context = pcre2_match_context_create(NULL);
	pcre2_set_match_limit(pattern->context, MATCH_LIMIT);
	pcre2_set_depth_limit(pattern->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
	*ret = pattern;
	return true;
}

void pattern_free(struct pattern *pattern)
{
	if (pattern == NULL)
		return;
	pcre2_match_context_free(pattern->context);
	pcre2_match_data_free(pattern->match);
	pcre2_code_free(pattern->code);
	free(pattern->text);
	free(pattern);
}

bool pattern_matches(struct pattern *pattern, const char *text)
{
	const int result = pcre2_match(pattern->code, (PCRE2_SPTR)text, strlen(text), 0, 0,
		pattern->match, pattern->context);

	if (result < 0 && result != PCRE2_ERROR_NOMATCH && pattern->problem == 0)
		pattern->problem = result;
	return result >= 0;
}

bool pattern_check(const struct pattern *pattern, struct error *err)
{
	char message[120] = "";

	if (pattern == NULL || pattern->problem == 0)
		return true;
	pcre2_get_error_message(pattern->problem, (PCRE2_UCHAR *)message, sizeof message);
	error_set(err, ERROR_USAGE, "the pattern '%.100s' takes too long on some names: %s",
		pattern->text, message);
	return error_hint(err, "avoid nested repetitions");
}
