/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mappings of several profiles are the same program or library, however they were loaded:
 * what is compared across restarts and rebuilds are places in modules, never bare addresses.
 *
 * A module's *identity* is its name up to ".so", or "" for the main program, so that a library
 * that got a new version, or a program that was renamed, stays the same module. It *differs* when
 * the profiles disagree in its path or build-id: then offsets and line numbers in it mean
 * other functions in each and are not compared.
 */
#pragma once

#include "base/buffer.h"
#include "base/hash_index.h"
#include "base/string_pool.h"
#include "profile/profile.h"

struct profile_module {
	const char *identity;
	const char *name; /* last part of the path; "anon" for anonymous memory */
	const char *path;
	const char *build_id;
	bool differs;
};

struct module_table {
	struct profile_module *modules;
	size_t count, capacity;
	struct string_pool strings;
	struct text_numbers identities; /* of the pool's copies: the modules' positions */
};

void module_table_init(struct module_table *table);
void module_table_deinit(struct module_table *table);

/* What a profile's mapping is: its module, and the address that offsets count from. */
struct module_place {
	uint32_t module;
	uint64_t base;
	/* The mappings of one file at one base: the first, and the one after this. */
	uint32_t first_part, next_part;
};

/* Adds all mappings of the profile; one place for each, to be released with free(). */
struct module_place *module_table_add(struct module_table *table, const struct profile *profile);

/* A place without a name: "[libfoo.so.1]+0x1234", or its bare address without a module (""). */
void module_append_place(struct buffer *out, const char *module, uint64_t address, uint64_t offset);

struct mapping_placement;

/*
 * One address space for the mappings of several profiles: each module keeps the addresses that it
 * has in the first profile that contains it, unless they are taken.
 */
struct address_space {
	struct profile *out; /* gets the mappings */
	struct module_table modules;
	struct mapping_placement *placements;
	size_t count, capacity;
	struct hash_index index;       /* of the placements */
	void *taken;		       /* tsearch(3): what the mappings of `out` cover */
	uint64_t highest;	       /* the end of these, and of the profile's */
	const struct profile *profile; /* whose mappings are in `highest` */
};

void address_space_init(struct address_space *space, struct profile *out);
void address_space_deinit(struct address_space *space);

/*
 * The address in the common space of an address that a mapping of the profile covers. `places` is
 * what module_table_add made of the profile.
 */
uint64_t address_space_move(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping, uint64_t address);
