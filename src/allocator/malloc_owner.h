/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose malloc this process uses, by the file that contains it and the names there. Run once
 * at the start; dlsym may allocate. And the statistics of a malloc that is not jemalloc's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { MALLOC_OWNER_PATH_MAX = 512 };

struct malloc_owner {
	char name[32]; /* "glibc", "tcmalloc", "mimalloc", "asan" ...; "unknown" */
	char where[MALLOC_OWNER_PATH_MAX];
	const void *base; /* of the object that contains malloc */
};

void malloc_owner_find(struct malloc_owner *owner);

/* The program's own path; "" when nothing says it. */
void malloc_owner_program_path(char *path, size_t room);

/* Where the program is loaded, as dladdr's dli_fbase has it; NULL in a static program. */
const void *program_base(void);

/*
 * Figures of a malloc that is not jemalloc's, as far as it reports any: glibc's mallinfo2(),
 * tcmalloc's properties, mimalloc's mi_process_info().
 *
 * glibc counts by walking all free chunks while malloc waits, some tenths of a second for a
 * million of them. So glibc is asked only while its heaps are small, or for the letter w among the
 * options. The others keep counters.
 *
 * Resident code: takes no heap memory, also not within these functions. A malloc that is damaged
 * may fail in them as it would in the program's next call.
 */

struct malloc_owner;

/* The layout of glibc's struct mallinfo2, which other C libraries do not declare. */
struct glibc_mallinfo {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
		keepcost;
};

struct malloc_option {
	const char *name; /* of the environment variable; NULL ends the list */
	char value[160];
};

enum {
	MALLOC_OPTIONS_MAX = 8,
	/* Heaps of glibc's that are small: walking them takes some milliseconds at most. */
	MALLOC_WALK_BYTES_MAX = 16 * 1024 * 1024,
};

struct malloc_stats {
	/* At most one of these is there. */
	struct glibc_mallinfo (*glibc)(void);
	int (*tcmalloc)(const char *property, size_t *value);
	void (*mimalloc)(size_t *elapsed_ms, size_t *user_ms, size_t *system_ms, size_t *rss,
		size_t *peak_rss, size_t *commit, size_t *peak_commit, size_t *page_faults);
	bool is_known;	  /* it has figures, or a reason why it has none */
	char version[32]; /* of glibc; "" */
	/* Variables that the malloc read at its start and that were set. */
	struct malloc_option options[MALLOC_OPTIONS_MAX];
};

/* Once, at the start; dlsym may allocate. */
void malloc_stats_find(struct malloc_stats *stats, const struct malloc_owner *owner);

/*
 * Appends MallocStatistics of docs/protocol.md with the letter J among `letters`, else a table for
 * people. `name` and `where`: of the malloc.
 */
void malloc_stats_write(const struct malloc_stats *stats, const char *name, const char *where,
	const char *letters, struct buffer *out);
