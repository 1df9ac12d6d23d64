/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of source code. Which ones is said by debug information and profiles, and these come from
 * elsewhere: what is read is a matter of the options.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/report_session.h"

struct code_file {
	struct file_map map;
	const char **lines; /* lines[0] is line 1; not terminated */
	size_t *sizes;	    /* without the end of the line */
	size_t count;
};

/* Where sources are: source_place_of() fills it. */
struct source_place {
	const char *sysroot, *root;    /* as they were built, below `sysroot` too, or below `root`
					  alone; or NULL */
	struct symbolizer *symbolizer; /* downloads, where servers are allowed */
	const char *build_id;	       /* of the program that is made of them; "" when unknown */
};

struct source_place source_place_of(const struct report_session *session, const char *build_id);

/* ERROR_NOT_FOUND says where it was looked for. */
MUST_CHECK bool code_file_open(const char *path, const struct source_place *place,
	struct code_file *file, struct error *err);
void code_file_close(struct code_file *file);
