/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which user's processes a name means. A process chooses its name, so a gateway that sees
 * those of several users gives a name to the user whose process had it first: URLs, history and
 * watches of the name mean that user's processes. Those of other users are "NAME@USER".
 *
 * One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	NAME_REGISTRY_MAX = 8192,
	/* Of one user other than root and the gateway's own: a user may invent names. */
	NAME_REGISTRY_PER_USER_MAX = 256,
};

struct name_claim {
	char name[128];
	uid_t owner;
};

struct name_registry {
	struct name_claim *items;
	size_t count, capacity;
};

void name_registry_deinit(struct name_registry *registry);

/* False when no user has the name. */
bool name_registry_find(const struct name_registry *registry, const char *name, uid_t *owner);

/*
 * Whether the name belongs to the user: it already does, or no user has it and it does from now on.
 * Also false when there are too many names.
 */
bool name_registry_claim(struct name_registry *registry, const char *name, uid_t owner);

/* From now on the name belongs to this user. */
void name_registry_assign(struct name_registry *registry, const char *name, uid_t owner);

/*
 * The order of two users whose processes appear with the same name at the same time: root, the
 * gateway's own user, then lower numbers (users of the system) first. As strcmp.
 */
int name_registry_compare(uid_t a, uid_t b);
