/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions between a program and its allocator: wrappers (xmalloc, zmalloc, g_malloc, palloc),
 * and what languages put there (std::allocator_traits, Rust's alloc::alloc, raw_vec). Their totals
 * are useless to a reader: the memory belongs to the function that called them.
 *
 * A wrapper is recognised by name and by shape. The name says what such functions are called; the
 * shape is that in all stacks of the profiles it calls allocators and wrappers only. A function of
 * such a name that also calls other code, which allocates, is not a wrapper. Names that could be
 * those of the program's own objects ("conn_alloc") count from three different callers on. A
 * function of stripped code has no name: it is a wrapper if nothing but wrappers call it, as
 * PostgreSQL's palloc calls a static function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

enum wrapper_name {
	WRAPPER_NAME_NONE,
	WRAPPER_NAME_WEAK,    /* if it has several callers */
	WRAPPER_NAME_UNKNOWN, /* "[postgres]+0x5c7730": if all of its callers are wrappers */
	WRAPPER_NAME_SURE,
};

/* What the name alone says of a function, which is as a frame has it. */
enum wrapper_name wrapper_name_judge(const char *function);

struct allocator_wrappers;

/* What is known of a location. */
struct wrapper_fact {
	uint16_t inlined; /* innermost frames that are wrappers, inlined into the program's function
			   */
	bool is_wrapper;  /* all frames are wrappers */
};

/* `is_allocator` says of a location of the profile that it is the allocator's own. */
typedef bool wrapper_is_allocator(
	void *context, const struct profile *profile, const struct profile_location *location);

/* Judges the functions of all profiles together, so that a function is the same in each. */
struct allocator_wrappers *allocator_wrappers_find(const struct profile *const *profiles,
	size_t count, wrapper_is_allocator *is_allocator, void *context);
void allocator_wrappers_free(struct allocator_wrappers *wrappers);

/* The facts of one of the profiles, one for each location. */
const struct wrapper_fact *allocator_wrappers_facts(
	const struct allocator_wrappers *wrappers, const struct profile *profile);
