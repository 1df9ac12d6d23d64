/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/name_owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

void name_owners_deinit(struct name_owners *owners)
{
	free(owners->items);
	*owners = (struct name_owners){ 0 };
}

static struct name_owner *find(const struct name_owners *owners, const char *name)
{
	for (size_t i = 0; i < owners->count; i++) {
		if (strcmp(owners->items[i].name, name) == 0)
			return &owners->items[i];
	}
	return NULL;
}

bool name_owners_find(const struct name_owners *owners, const char *name, uid_t *owner)
{
	const struct name_owner *const found = find(owners, name);

	if (found != NULL)
		*owner = found->owner;
	return found != NULL;
}

static bool is_foreign(uid_t owner)
{
	return owner != 0 && owner != geteuid();
}

static size_t count_of(const struct name_owners *owners, uid_t owner)
{
	size_t count = 0;

	for (size_t i = 0; i < owners->count; i++)
		count += owners->items[i].owner == owner;
	return count;
}

static void add(struct name_owners *owners, const char *name, uid_t owner)
{
	owners->items =
		xgrow(owners->items, &owners->capacity, owners->count + 1, sizeof *owners->items);
	struct name_owner *const item = &owners->items[owners->count++];
	item->owner = owner;
	snprintf(item->name, sizeof item->name, "%s", name);
}

bool name_owners_claim(struct name_owners *owners, const char *name, uid_t owner)
{
	const struct name_owner *const found = find(owners, name);

	if (found != NULL)
		return found->owner == owner;
	if (is_foreign(owner) && (owners->count >= NAME_OWNERS_MAX ||
					 count_of(owners, owner) >= NAME_OWNERS_OF_USER_MAX))
		return false;
	add(owners, name, owner);
	return true;
}

void name_owners_assign(struct name_owners *owners, const char *name, uid_t owner)
{
	struct name_owner *const found = find(owners, name);

	if (found != NULL)
		found->owner = owner;
	else
		add(owners, name, owner);
}

static uid_t rank(uid_t owner)
{
	return owner == 0 ? 0 : owner == geteuid() ? 1 : 2;
}

int name_owners_compare(uid_t a, uid_t b)
{
	if (rank(a) != rank(b))
		return rank(a) < rank(b) ? -1 : 1;
	return (a > b) - (a < b);
}
