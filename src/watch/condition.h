/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a capture is to be taken, in words:
 *
 *	rss>2GiB rss>40%	resident memory, in bytes or of the machine's memory
 *	cgroup>85%		memory that counts against the control group's limit
 *	psi>10%			time lost waiting for memory, over the last ten seconds
 *	growth>10%/h		resident memory above its lowest within the last hour
 *	growth>500MiB		above its lowest since the last capture
 *	peak peak>5%		resident memory above the highest; the mark resets hourly
 *	every=15mins
 *	signal			SIGUSR1, sent to heapctl watch
 *
 * A *rule* is such *terms* joined by " and ": all must hold at once. Of several rules any will do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum condition_kind {
	CONDITION_RESIDENT,
	CONDITION_CGROUP,
	CONDITION_PRESSURE,
	CONDITION_GROWTH,
	CONDITION_PEAK,
	CONDITION_EVERY,
	CONDITION_SIGNAL,
};

enum { CONDITION_TERMS_MAX = 4, CONDITION_TEXT_BYTES = 128 };

struct condition {
	enum condition_kind kind;
	bool is_share;	   /* the mark is a share (0.85), not bytes */
	double mark;	   /* bytes or share */
	int64_t period_ms; /* of growth (0: since the last capture) and every */
};

struct condition_rule {
	char text[CONDITION_TEXT_BYTES]; /* as it was written */
	struct condition terms[CONDITION_TERMS_MAX];
	size_t term_count;
};

/* ERROR_USAGE with what is wrong and an example. */
MUST_CHECK bool condition_parse(const char *text, struct condition_rule *rule, struct error *err);

/* Whether any term of the rule is of that kind. */
bool condition_has(const struct condition_rule *rule, enum condition_kind kind);
