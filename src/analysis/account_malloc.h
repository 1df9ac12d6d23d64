/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of a process whose malloc is not jemalloc's (analysis/account.h): rows of what that
 * malloc reports of itself, then the kernel's.
 *
 * glibc's arenas have their memory in the program break (the main arena) and in heaps of 64 MiB
 * of address space, which smaps shows. What is not resident of these is exact. Blocks with mappings
 * of their own look like other anonymous mappings: they are taken as resident, as far as
 * there is room.
 *
 * Where a malloc reports nothing, or has not been asked, the kernel's figures stand alone. So they
 * do of a process that has no agent.
 */
#pragma once

#include "analysis/account.h"

enum account_malloc_kind {
	ACCOUNT_MALLOC_OTHER, /* reports nothing */
	ACCOUNT_MALLOC_GLIBC,
	ACCOUNT_MALLOC_TCMALLOC,
	ACCOUNT_MALLOC_MIMALLOC,
};

/* Of MallocStatistics in docs/protocol.md. */
struct account_malloc {
	enum account_malloc_kind kind;
	char name[32];
	bool has_figures;
	char reason[256]; /* why it has none; "" */
	const json_t *figures;
	double agent; /* bytes of the agent's tables */
};

/*
 * Whether `document` has the statistics of such a malloc. `figures` borrows from it.
 */
bool account_malloc_read(const json_t *document, struct account_malloc *ret);

/* `smaps` is NULL when it is not known: then there are only the rows of the malloc. */
struct account account_malloc_make(const struct account_malloc *malloc, const struct smaps *smaps,
	const struct account_profile *profile);

/*
 * Of a process without an agent. `has_glibc`: its malloc may be glibc's, so that what looks like
 * heaps of arenas is a row.
 */
struct account account_kernel_make(const struct smaps *smaps, bool has_glibc);
