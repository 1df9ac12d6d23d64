/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a stack as a fleet keeps them: without the allocator's frames, without arguments and
 * what compilers add; what has no name is "FILE+0xOFFSET", or "[anonymous]" outside of files. The
 * names are the site.
 */
#pragma once

#include "analysis/filter.h"
#include "profile/profile.h"

struct stack_namer {
	const struct profile *profile;
	bool keeps_named;   /* names of locations without addresses are as a fleet keeps them */
	const char **names; /* of the stack that was taken, root first */
	size_t name_count, name_capacity;
	struct filter *filter;
	struct stack_filter stack_filter;
	struct string_pool strings;
	struct buffer scratch;
};

/* The profile is borrowed, and is not changed meanwhile. */
MUST_CHECK bool stack_namer_init(
	struct stack_namer *namer, const struct profile *profile, struct error *err);
void stack_namer_deinit(struct stack_namer *namer); /* also of { 0 } */

/* Sets the names of a stack. The site. */
uint64_t stack_namer_take(struct stack_namer *namer, const struct profile_stack *stack);

/* The file that has a location, NULL for none, and where it is in it. */
const struct profile_mapping *stack_names_mapping(
	const struct profile *profile, const struct profile_location *location);
uint64_t stack_names_offset(
	const struct profile_mapping *mapping, const struct profile_location *location);

uint64_t stack_names_hash(uint64_t hash, const char *text);
