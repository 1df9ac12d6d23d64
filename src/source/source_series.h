/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All profiles of a source, for what is computed over time: each of a folder or a tar, the runs
 * that an agent keeps and a profile of now, or the history of a gateway.
 *
 * What is damaged or no profile is skipped, counted and warned of: one damaged profile of weeks
 * must not cost the others.
 */
#pragma once

#include "source/source.h"

/* Starts with its counts at 0. */
struct source_series {
	struct source_options options; /* of each source */
	/*
	 * There is no other operand: a target gives its history, not just a profile of now, and a
	 * damaged file is a failure.
	 */
	bool is_only;
	/*
	 * Receives a profile. Its time is 0 where only the file's time is known:
	 * source->file_time_ms.
	 */
	void (*add)(void *context, const struct source *source, struct profile *profile);
	/* Receives a note of a history (store/notes.h); NULL: they are skipped. */
	void (*add_note)(void *context, int64_t time_ms, const char *text);
	void *context;
	size_t count; /* that `add` received */
	size_t damaged_count;
};

MUST_CHECK bool source_series_read(
	struct source_series *series, const char *operand, struct error *err);
