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
	/* A line is written so often in so long: what a user does repeatedly is answered each time.
	 */
	TIMES_MAX = 5,
	WINDOW_MS = 60 * 1000,
};

struct log_line {
	char text[256];	  /* its beginning */
	int64_t since_ms; /* its window began */
	unsigned written, held_back;
};

static struct log_line lines[LINES_MAX];
static size_t line_count;

/* The one that is there, or a place for it: that of the one whose window is the oldest. */
static struct log_line *find(const char *text, bool *is_new)
{
	struct log_line *oldest = &lines[0];

	for (size_t i = 0; i < line_count; i++) {
		if (strncmp(lines[i].text, text, sizeof lines[i].text - 1) == 0) {
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
	bool is_new;
	struct log_line *const known = find(line, &is_new);

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
	snprintf(known->text, sizeof known->text, "%s", line);
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
		struct buffer plain;
		/* A line may hold what an agent said. */
		buffer_init(&plain, &memory_or_exit);
		utf8_append_printable(&plain, text, strlen(text));
		gmtime_r(&now, &moment);
		strftime(when, sizeof when, "%FT%TZ", &moment);
		fprintf(stderr, "heapctl: %s %s\n", when, buffer_string(&plain));
		buffer_deinit(&plain);
	}
	pthread_mutex_unlock(&mutex);
}
