/* SPDX-License-Identifier: Apache-2.0 */
/* A trend as text (trend_words.c), for the terminal and beside the charts; and as charts
 * (trend_chart.c). */
#pragma once

#include "analysis/trend.h"
#include "base/buffer.h"

struct trend_words {
	char text[720];
};

/* "+3.1 ± 0.4 MiB/h, grew in 11 of 12 intervals". */
struct trend_words trend_describe_growth(const struct trend *trend, const struct trend_site *site);

/* How likely it is by chance: "1.2 %"; "" where it is likely. */
struct trend_words trend_describe_chance(const struct trend_site *site);

/*
 * Appends ", 2 runs of the program, samples discarded 3 times", as far as there were several, and
 * what an attach means for the growth.
 */
void trend_append_runs(const struct trend *trend, struct buffer *out);

/* "90 min", "3.5 h" or "2.1 d"; "4 profiles" when there are no times. */
void trend_format_span(const struct trend *trend, double hours, char text[32]);

/* What a user noted about a time: a deploy (store/notes.h). */
struct trend_note {
	int64_t time_ms;
	char *text; /* of anyone: for terminals and markup it is escaped */
};

struct trend_notes {
	struct trend_note *items;
	size_t count, capacity;
};

void trend_notes_deinit(struct trend_notes *notes);

/* Keeps those between the first and the last profile, by time; none where no times are known. */
void trend_notes_settle(struct trend_notes *notes, const struct trend *trend);

/*
 * A trend as pictures: one small chart for each site, every point with its 95% interval, the fitted
 * growth with its onset, the levels between steps, restarts as gaps, notes. SVG, or a page that
 * holds it together with a table; both self-contained, in light and dark.
 */
struct trend_chart_options {
	const char *title;		 /* program or target */
	size_t site_limit;		 /* charts beside that of the total */
	const char *period;		 /* from when to when; "" where no times are known */
	size_t damaged_count;		 /* profiles that could not be read */
	const struct trend_notes *notes; /* settled; NULL: none */
};

void trend_chart_svg(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out);
void trend_chart_html(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out);
