/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose malloc this process uses, by the file that it lies in and the names beside it. Run once
 * at the start; dlsym may allocate.
 */
#pragma once

#include <stddef.h>

enum { MALLOC_OWNER_PATH_MAX = 512 };

struct malloc_owner {
	char name[32]; /* "glibc", "tcmalloc", "mimalloc", "asan" ...; "unknown" */
	char where[MALLOC_OWNER_PATH_MAX];
	const void *base; /* of the object that malloc lies in */
};

void malloc_owner_find(struct malloc_owner *owner);

/* The program's own path; "" when nothing says it. */
void program_path(char *path, size_t room);

/* Where the program is loaded, as dladdr's dli_fbase has it; NULL in a static program. */
const void *program_base(void);
