/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a source file. */
#pragma once

#include "base/error.h"
#include "base/file.h"

struct source_file {
	struct file_map map;
	const char **lines; /* lines[0] is line 1; not terminated */
	size_t *sizes;	    /* without the end of the line */
	size_t count;
};

/* Looks for the path below `sysroot` too, which may be NULL. ERROR_NOT_FOUND says where. */
MUST_CHECK bool source_file_open(
	const char *path, const char *sysroot, struct source_file *file, struct error *err);
void source_file_close(struct source_file *file);

/*
 * Where a function ends that begins at `first` and has code at `last`, judged by indentation: the
 * line that closes it is no deeper than the first.
 */
size_t source_file_end_of(const struct source_file *file, size_t first, size_t last);
