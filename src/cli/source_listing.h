/* SPDX-License-Identifier: Apache-2.0 */
/* The source of functions with the figures of each line in front of it. */
#pragma once

#include "cli/report_session.h"
#include "cli/routine.h"

/*
 * As text, from a view by lines, inlined functions too. Source that is not here is told on stderr
 * and its lines stay empty. Sets `any` when there was a function to list.
 */
void source_listing_write(const struct report_session *session, const struct view *view,
	struct pattern *pattern, struct buffer *out, bool *any);

/* As a page of HTML, with the assembly of a line behind a click. */
MUST_CHECK bool source_listing_write_html(const struct report_session *session,
	const struct view *view, const struct routine_list *routines, const char *objdump,
	struct buffer *out, struct error *err);
