/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/send_report.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/verb.h"

void send_report_begin(const struct send_report *report)
{
	if (report->fd >= 0)
		prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* It may have ended before: then this finds no reader. */
	send_report_write(report, 0, NULL);
}

void send_report_write(const struct send_report *report, int64_t wait_ms, const struct error *why)
{
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;
	struct json_writer json;

	if (report->fd < 0)
		return;
	json_init(&json, &line);
	json_object_begin(&json);
	json_member_unsigned(&json, "sent", report->sent_count);
	json_member_unsigned(&json, "known", report->known_count);
	json_member_unsigned(&json, "left_out", report->skipped_count);
	json_member_integer(&json, "reading", report->reading);
	json_member_integer(&json, "wait_ms", wait_ms);
	json_member_string(&json, "problem", why == NULL ? "" : why->message);
	json_member_string(&json, "hint", why == NULL ? "" : why->hint);
	json_object_end(&json);
	buffer_append_char(&line, '\n');
	if (write(report->fd, line.data, line.size) < 0)
		exit(EXIT_FAILED);
}
