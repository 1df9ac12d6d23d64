/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on single samples: "thread=PATTERN" is by the name of the thread, "bytes=LOW:HIGH" by
 * the size of one object, in units such as "64kb"; either end may be missing.
 */
#pragma once

#include <stdbool.h>

#include "analysis/pattern.h"
#include "base/error.h"
#include "profile/profile.h"

struct sample_tag {
	struct pattern *thread; /* NULL: it is about bytes */
	double min_bytes;
	double max_bytes;
};

/* ERROR_USAGE for a text that is none; `tag` needs no sample_tag_deinit then. */
MUST_CHECK bool sample_tag_parse(const char *text, struct sample_tag *tag, struct error *err);
void sample_tag_deinit(struct sample_tag *tag);

/* `thread` is the name of the sample's thread, "" when unknown. */
bool sample_tag_matches(
	const struct sample_tag *tag, const struct profile_sample *sample, const char *thread);
