/* SPDX-License-Identifier: Apache-2.0 */
/* The source code of functions with the figures of each line in front of it: --list, --weblist. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "cli/report_session.h"
#include "cli/disassembly.h"

/* A file of source code. */
struct code_file {
	struct file_map map;
	const char **lines; /* lines[0] is line 1; not terminated */
	size_t *sizes;	    /* without the end of the line */
	size_t count;
};

/* Looks for the path below `sysroot` too, which may be NULL. ERROR_NOT_FOUND says where. */
MUST_CHECK bool code_file_open(
	const char *path, const char *sysroot, struct code_file *file, struct error *err);
void code_file_close(struct code_file *file);

/*
 * As text, from a view by lines, inlined functions too. A missing source file is reported on stderr
 * and its lines stay empty. Sets `any` when there was a function to list.
 */
void code_listing_write(const struct report_session *session, const struct view *view,
	struct pattern *pattern, struct buffer *out, bool *any);

/* As a page of HTML, with the assembly of a line behind a click. */
MUST_CHECK bool code_listing_write_html(const struct report_session *session,
	const struct view *view, const struct routine_list *routines, const char *objdump,
	struct buffer *out, struct error *err);
