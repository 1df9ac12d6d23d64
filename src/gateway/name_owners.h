/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user's processes a name stands for. A process chooses its name, so a gateway that sees
 * those of several users keeps to the user whose process had a name first: by it people ask for the
 * target, its past goes on, and a watch follows it. The processes of other users have "NAME@USER".
 *
 * One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	NAME_OWNERS_MAX = 8192,
	/* Of one user that is neither root nor the gateway's own: it may invent names. */
	NAME_OWNERS_OF_USER_MAX = 256,
};

struct name_owner {
	char name[128];
	uid_t owner;
};

struct name_owners {
	struct name_owner *items;
	size_t count, capacity;
};

void name_owners_deinit(struct name_owners *owners);

/* False when nobody has the name. */
bool name_owners_find(const struct name_owners *owners, const char *name, uid_t *owner);

/*
 * Whether the name is the user's: it was, or is from now on, because no user has it. False as well
 * when there are too many names.
 */
bool name_owners_claim(struct name_owners *owners, const char *name, uid_t owner);

/* From now on the name is the user's, whoever had it. */
void name_owners_assign(struct name_owners *owners, const char *name, uid_t owner);

/*
 * Which of two users has a name that the processes of both appear with at the same time: root and
 * the gateway's own user before others, users of the system (low numbers) before people. As
 * strcmp.
 */
int name_owners_compare(uid_t a, uid_t b);
