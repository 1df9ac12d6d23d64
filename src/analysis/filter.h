/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects stacks, frames and samples of a profile. All patterns are Perl's.
 *
 *	focus, ignore	stacks with a location that matches, by its address (16 hex digits),
 *			one of its names, or "file:line": only those; all but those
 *	retain, exclude	locations by the name of their outermost function: only those; all but
 *			those. A stack that ends up empty is dropped.
 *	show, hide	frames, inlined ones too, by name or file: only those; all but those
 *	tags		samples: "thread=PATTERN" by the thread's name, "bytes=LOW:HIGH" by the
 *			size of one object, either end may be missing; all must match
 *	thread		samples of the threads with that number, or with exactly that name
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "profile/profile.h"

/*
 * A Perl regular expression, compiled once. One that takes too long on some text is an error, not a
 * hang.
 */
struct pattern;

/* ERROR_USAGE says where in the text what is wrong. */
MUST_CHECK bool pattern_new(const char *text, struct pattern **ret, struct error *err);
void pattern_free(struct pattern *pattern);

static inline void pattern_cleanup(struct pattern **pattern)
{
	pattern_free(*pattern);
}

/* Whether it occurs anywhere in the text. False after it exceeded its limits: see pattern_check. */
bool pattern_matches(struct pattern *pattern, const char *text);

/* ERROR_USAGE when the pattern exceeded its limits on some text. */
MUST_CHECK bool pattern_check(const struct pattern *pattern, struct error *err);

struct filter_text {
	const char *focus, *ignore, *retain, *exclude, *show, *hide; /* NULL or "" for none */
	const char *const *tags;
	size_t tag_count;
	const char *thread; /* NULL for all */
};

struct filter;

MUST_CHECK bool filter_new(const struct filter_text *text, struct filter **ret, struct error *err);
void filter_free(struct filter *filter);

static inline void filter_cleanup(struct filter **filter)
{
	filter_free(*filter);
}

/* The filter's answer for a location, the same in every stack. */
struct filter_verdict {
	bool has_focus;
	bool is_ignored;
	bool is_dropped; /* by retain or exclude */
};

struct filter_verdict filter_judge(struct filter *filter, const struct profile *profile,
	const struct profile_location *location);

/* Whether show and hide leave the frame. */
bool filter_shows(struct filter *filter, const struct profile_frame *frame);

bool filter_has_focus(const struct filter *filter);
bool filter_drops_empty(const struct filter *filter);

/* Whether figures are needed thread by thread. */
bool filter_needs_threads(const struct filter *filter);

/* Whether `wanted` means this thread: its name, "7" or "t7". */
bool filter_is_thread(const struct profile_thread *thread, const char *wanted);

/* Whether the sample is of the wanted thread, whatever the other filters say of it. */
bool filter_takes_thread(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample);
bool filter_takes(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample);

/* Whether a function's name matches, with or without what is in angle brackets. */
bool filter_matches_function(struct pattern *pattern, struct buffer *scratch, const char *function);

/* ERROR_USAGE when a pattern exceeded its limits. */
MUST_CHECK bool filter_check(const struct filter *filter, struct error *err);
