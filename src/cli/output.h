/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a verb's result goes: the file of -o, standard output for "-", or a file in the working
 * folder under a sensible name. Files are private (0600), appear only when they are complete, and
 * then replace what had the name; a name that was made up here never replaces anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct output {
	bool is_stdout;
	struct file_draft draft;
};

/*
 * `path` is what -o said; NULL makes up "STEM.YYYYMMDD-HHMMSS.SUFFIX". Bytes go to output_fd.
 * Writing to a terminal is refused: profiles are for files.
 */
MUST_CHECK bool output_open(const char *path, const char *stem, const char *suffix,
	struct output *output, struct error *err);
int output_fd(const struct output *output);

/* For messages: the path or "standard output". */
const char *output_name(const struct output *output);

/* Lets the file appear under its name. */
MUST_CHECK bool output_commit(struct output *output, struct error *err);

/* Fine after a commit, and for a zeroed one. */
void output_discard(struct output *output);
