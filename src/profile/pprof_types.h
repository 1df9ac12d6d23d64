/* SPDX-License-Identifier: Apache-2.0 */
/* What pprof's sample types mean in terms of the four counters. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

struct pprof_meaning {
	enum profile_kind kind;
	enum profile_counter counter;
	double scale; /* a recorded unit in the counter's unit */
};

/*
 * The meaning of a type and its unit, as ("inuse_space", "bytes"). Other spellings are understood
 * by their parts. False when it is nothing that a profile of ours can hold (goroutines, say).
 */
bool pprof_type_parse(const char *type, const char *unit, struct pprof_meaning *meaning);

struct pprof_type {
	const char *type;
	const char *unit;
	enum profile_counter counter;
};

/* The types in which a profile of this kind is written, in order. */
const struct pprof_type *pprof_types_of(enum profile_kind kind, size_t *count);
