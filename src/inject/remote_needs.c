/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote_needs.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum { DYNAMIC_MAX = 256, NAME_BYTES = 256 };

/* A module's own name, and those that it needs, as numbers among its strings. */
struct needs {
	uint64_t needed[DYNAMIC_MAX];
	size_t count;
	uint64_t name; /* 0: it has none */
};

static void read_needs(const struct remote_process *remote, const struct remote_module *module,
	struct needs *needs)
{
	Elf64_Dyn entries[DYNAMIC_MAX];
	const size_t size =
		module->dynamic_bytes < sizeof entries ? module->dynamic_bytes : sizeof entries;
	const size_t read = remote_copy_some(remote, module->dynamic, entries, size);

	*needs = (struct needs){ 0 };
	for (size_t i = 0; i < read / sizeof *entries && entries[i].d_tag != DT_NULL; i++) {
		if (entries[i].d_tag == DT_NEEDED)
			needs->needed[needs->count++] = entries[i].d_un.d_val;
		else if (entries[i].d_tag == DT_SONAME)
			needs->name = entries[i].d_un.d_val;
	}
}

/* False when it is not there, or too long. */
static bool read_name(const struct remote_process *remote, const struct remote_module *module,
	uint64_t number, char name[NAME_BYTES])
{
	if (number >= module->strings_bytes)
		return false;
	const size_t read = remote_copy_some(remote, module->strings + number, name, NAME_BYTES);
	return memchr(name, '\0', read) != NULL && name[0] != '\0';
}

static void mark_name(struct remote_process *remote, char (*names)[NAME_BYTES], const char *name)
{
	struct remote_module *found = NULL;

	for (size_t i = 0; i < remote->count; i++) {
		if (remote->modules[i].is_apart || strcmp(names[i], name) != 0)
			continue;
		/* One of them is in a namespace of its own (dlmopen). */
		if (found != NULL)
			return;
		found = &remote->modules[i];
	}
	if (found != NULL)
		found->stays = true;
}

static void mark_needed(struct remote_process *remote, char (*names)[NAME_BYTES],
	const struct remote_module *module)
{
	char name[NAME_BYTES];
	struct needs needs;

	read_needs(remote, module, &needs);
	for (size_t i = 0; i < needs.count; i++) {
		if (read_name(remote, module, needs.needed[i], name))
			mark_name(remote, names, name);
	}
}

void remote_find_needs(struct remote_process *remote)
{
	const bool all_stay = remote->has_musl || !remote->has_libc;
	CLEANUP(free_cleanup) char(*names)[NAME_BYTES] = xcalloc(remote->count, sizeof *names);
	CLEANUP(free_cleanup) bool *is_read = xcalloc(remote->count, sizeof *is_read);
	struct needs needs;
	size_t next;

	for (size_t i = 0; i < remote->count; i++) {
		struct remote_module *const module = &remote->modules[i];
		module->stays = !module->is_apart &&
				(all_stay || module->is_program || module->role == REMOTE_LIBC ||
					module->role == REMOTE_LOADER);
		read_needs(remote, module, &needs);
		if (needs.name == 0 || !read_name(remote, module, needs.name, names[i]))
			names[i][0] = '\0';
	}
	do {
		for (next = 0; next < remote->count; next++) {
			if (remote->modules[next].stays && !is_read[next])
				break;
		}
		if (next < remote->count) {
			is_read[next] = true;
			mark_needed(remote, names, &remote->modules[next]);
		}
	} while (next < remote->count);
}
