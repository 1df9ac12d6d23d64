/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/name_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

void name_registry_deinit(struct name_registry *registry)
{
	free(registry->items);
	*registry = (struct name_registry){ 0 };
}

static struct name_claim *find(const struct name_registry *registry, const char *name)
{
	for (size_t i = 0; i < registry->count; i++) {
		if (strcmp(registry->items[i].name, name) == 0)
			return &registry->items[i];
	}
	return NULL;
}

bool name_registry_find(const struct name_registry *registry, const char *name, uid_t *owner)
{
	const struct name_claim *const found = find(registry, name);

	if (found != NULL)
		*owner = found->owner;
	return found != NULL;
}

static bool is_foreign(uid_t owner)
{
	return owner != 0 && owner != geteuid();
}

static size_t count_of(const struct name_registry *registry, uid_t owner)
{
	size_t count = 0;

	for (size_t i = 0; i < registry->count; i++)
		count += registry->items[i].owner == owner;
	return count;
}

static void add(struct name_registry *registry, const char *name, uid_t owner)
{
	struct name_claim *const item =
		XAPPEND(registry->items, registry->count, registry->capacity);
	item->owner = owner;
	snprintf(item->name, sizeof item->name, "%s", name);
}

bool name_registry_claim(struct name_registry *registry, const char *name, uid_t owner)
{
	const struct name_claim *const found = find(registry, name);

	if (found != NULL)
		return found->owner == owner;
	if (is_foreign(owner) && (registry->count >= NAME_REGISTRY_MAX ||
					 count_of(registry, owner) >= NAME_REGISTRY_PER_USER_MAX))
		return false;
	add(registry, name, owner);
	return true;
}

void name_registry_assign(struct name_registry *registry, const char *name, uid_t owner)
{
	struct name_claim *const found = find(registry, name);

	if (found != NULL)
		found->owner = owner;
	else
		add(registry, name, owner);
}

static uid_t rank(uid_t owner)
{
	return owner == 0 ? 0 : owner == geteuid() ? 1 : 2;
}

int name_registry_compare(uid_t a, uid_t b)
{
	if (rank(a) != rank(b))
		return rank(a) < rank(b) ? -1 : 1;
	return (a > b) - (a < b);
}
