/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "base/xalloc.h"

enum {
	LINES_MAX = 64, /* that are remembered */
	KIND_BYTES = 256,
	/* Digits of a number that a file's name gets from the time or from a counter. */
	SERIAL_DIGITS = 8,
	/* A line is written so often in so long: what a user does repeatedly is answered each time.
	 */
	TIMES_MAX = 5,
	WINDOW_MS = 60 * 1000,
};

struct log_line {
	char kind[KIND_BYTES];
	int64_t since_ms; /* its window began */
	unsigned written, held_back;
};

static struct log_line lines[LINES_MAX];
static size_t line_count;

/*
 * The beginning of a line without what differs each time: a full disk is reported with another file
 * name for every snapshot. From a long number on, the digits of a word count as equal.
 */
static void make_kind(const char *line, char kind[KIND_BYTES])
{
	bool is_serial = false;
	size_t i = 0;

	for (; line[i] != '\0' && i < KIND_BYTES - 1; i++) {
		is_serial = line[i] != ' ' &&
			    (is_serial || strspn(line + i, "0123456789") >= SERIAL_DIGITS);
		kind[i] = line[i];
		if (is_serial && line[i] >= '0' && line[i] <= '9')
			kind[i] = '#';
	}
	kind[i] = '\0';
}

/* The one that is there, or a place for it: that of the one whose window is the oldest. */
static struct log_line *find(const char kind[KIND_BYTES], bool *is_new)
{
	struct log_line *oldest = &lines[0];

	for (size_t i = 0; i < line_count; i++) {
		if (strcmp(lines[i].kind, kind) == 0) {
			*is_new = false;
			return &lines[i];
		}
		if (lines[i].since_ms < oldest->since_ms)
			oldest = &lines[i];
	}
	*is_new = true;
	return line_count < LINES_MAX ? &lines[line_count++] : oldest;
}

void serve_log_filter(const char *line, int64_t monotonic_ms, char text[SERVE_LOG_LINE_BYTES])
{
	char kind[KIND_BYTES];
	bool is_new;

	make_kind(line, kind);
	struct log_line *const known = find(kind, &is_new);

	text[0] = '\0';
	if (!is_new && monotonic_ms - known->since_ms < WINDOW_MS) {
		if (known->written == TIMES_MAX) {
			known->held_back++;
			return;
		}
		known->written++;
		snprintf(text, SERVE_LOG_LINE_BYTES, "%s", line);
		return;
	}
	if (!is_new && known->held_back > 0)
		snprintf(text, SERVE_LOG_LINE_BYTES, "%.1100s (%u times more since)", line,
			known->held_back);
	else
		snprintf(text, SERVE_LOG_LINE_BYTES, "%s", line);
	memcpy(known->kind, kind, sizeof kind);
	known->since_ms = monotonic_ms;
	known->written = 1;
	known->held_back = 0;
}

void serve_log(const char *line)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	const time_t now = time(NULL);
	char text[SERVE_LOG_LINE_BYTES], when[32];
	struct tm moment;

	pthread_mutex_lock(&mutex);
	serve_log_filter(line, clock_boottime_ms(), text);
	if (text[0] != '\0') {
		CLEANUP(buffer_deinit) struct buffer plain = BUFFER_OR_EXIT;
		/* A line may hold what an agent said. */
		utf8_append_printable(&plain, text, strlen(text));
		gmtime_r(&now, &moment);
		strftime(when, sizeof when, "%FT%TZ", &moment);
		fprintf(stderr, "heapctl: %s %s\n", when, buffer_string(&plain));
	}
	pthread_mutex_unlock(&mutex);
}
