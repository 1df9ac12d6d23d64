/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "allocator/allocator.h"
#include "allocator/jemalloc.h"
#include "allocator/malloc_owner.h"

#define PRELOAD_HINT                                     \
	"start it with heapctl run --jemalloc, or with " \
	"LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=prof:true,prof_active:false"

static void fill_identity(struct allocator_identity *identity, const struct jemalloc_search *search,
	const struct jemalloc_candidate *chosen)
{
	memcpy(identity->prefix, chosen->prefix, sizeof identity->prefix);
	memcpy(identity->symbol, chosen->symbol, sizeof identity->symbol);
	memcpy(identity->where, chosen->where, sizeof identity->where);
	snprintf(identity->name, sizeof identity->name, "jemalloc");
	snprintf(identity->found_by, sizeof identity->found_by, "%s", chosen->found_by);
	identity->owns_malloc = chosen->owns_malloc;
	if (chosen->owns_malloc) {
		snprintf(identity->malloc_name, sizeof identity->malloc_name, "jemalloc");
		memcpy(identity->malloc_where, chosen->where, sizeof identity->malloc_where);
	}
	identity->jemalloc_count = (unsigned)search->count;
	for (size_t i = 0; i < search->count; i++) {
		if (&search->found[i] != chosen)
			snprintf(identity->other_jemalloc, sizeof identity->other_jemalloc,
				"%s in %s", search->found[i].symbol, search->found[i].where);
	}
}

static void explain_left_out(struct error *why)
{
	error_set(why, ERROR_UNSUPPORTED,
		"the program contains a jemalloc that was linked without its mallctl function");
	error_hint(why, "link it with -Wl,-u,mallctl (Rust: -C link-arg=-Wl,-u,_rjem_mallctl)");
}

static void explain_stripped_program(
	const struct jemalloc_search *search, const char *where, struct error *why)
{
	const char *const id = search->program_build_id;

	error_set(why, ERROR_UNSUPPORTED,
		search->program_has_jemalloc
			? "%s contains jemalloc, but no symbol table to find it"
			: "malloc is inside %s, which has no symbol table: its allocator is "
			  "unknown",
		where);
	if (!search->program_has_jemalloc)
		error_hint(why, "heapctl attach patches its functions and samples it");
	else if (strlen(id) > 2)
		error_hint(why,
			"install its debug symbols as /usr/lib/debug/.build-id/%.2s/%s.debug, or "
			"link it with -Wl,--export-dynamic-symbol=mallctl",
			id, id + 2);
	else
		error_hint(why, "do not strip it, or link it with "
				"-Wl,--export-dynamic-symbol=mallctl");
}

static bool is_program(const struct malloc_owner *owner)
{
	char program[ALLOCATOR_PATH_MAX];

	malloc_owner_program_path(program, sizeof program);
	return strcmp(owner->where, program) == 0;
}

static void explain_other_malloc(const struct malloc_owner *owner, struct error *why)
{
	if (strcmp(owner->name, "unknown") == 0)
		error_set(why, ERROR_UNSUPPORTED,
			"malloc is that of %s, which has no jemalloc that can be called, and "
			"heapctl does not sample it",
			owner->where);
	else
		error_set(why, ERROR_UNSUPPORTED,
			"the process uses the malloc of %s (%s): it is not jemalloc, and heapctl "
			"does not sample it",
			owner->name, owner->where);
	if (getauxval(AT_SECURE) != 0)
		error_hint(why,
			"the process gained privileges when it started, so LD_PRELOAD is "
			"ignored: start it as the user it runs as, or name libjemalloc.so.2 in "
			"/etc/ld.so.preload");
	else if (is_program(owner))
		error_hint(why,
			"heapctl attach patches its functions and samples it; a malloc that is "
			"preloaded is not called");
	else
		error_hint(why, PRELOAD_HINT);
}

static void explain_absence(struct allocator *allocator, const struct jemalloc_search *search,
	const struct malloc_owner *owner)
{
	struct error *const why = &allocator->unavailable;
	char program[ALLOCATOR_PATH_MAX];

	malloc_owner_program_path(program, sizeof program);
	const bool unknown_inside = strcmp(owner->name, "unknown") == 0 && is_program(owner);
	allocator->identity.hides_jemalloc =
		search->program_has_jemalloc || (search->program_stripped && unknown_inside);
	if (search->program_stripped && (search->program_has_jemalloc || unknown_inside))
		explain_stripped_program(search, program, why);
	else if (search->program_has_jemalloc)
		explain_left_out(why);
	else
		explain_other_malloc(owner, why);
}

/*
 * The operations of a process without jemalloc say what is there instead. The others are not called
 * where allocator->unavailable is set.
 */
static bool absent_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	if (allocator->malloc.is_known) {
		malloc_stats_write(&allocator->malloc, allocator->identity.malloc_name,
			allocator->identity.malloc_where, options, out);
		return true;
	}
	if (!allocator_available(allocator, err))
		return false;
	error_set(err, ERROR_UNSUPPORTED, "the malloc of %s reports no statistics",
		allocator->identity.malloc_name);
	return error_hint(err, "for statistics, start it with heapctl run --jemalloc");
}

static bool absent_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	(void)ret;
	return allocator_available(allocator, err);
}

static bool absent_read(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	(void)name;
	(void)value;
	return allocator_available(allocator, err);
}

static bool absent_write(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	(void)name;
	(void)value;
	return allocator_available(allocator, err);
}

static bool absent_has(const struct allocator *allocator, const char *name)
{
	(void)allocator;
	(void)name;
	return false;
}

static const struct allocator_operations absent_operations = {
	.stats = absent_stats,
	.memory = absent_memory,
	.read = absent_read,
	.write = absent_write,
	.has = absent_has,
};

void allocator_find(struct allocator *allocator)
{
	struct jemalloc_search search;
	struct malloc_owner owner;

	*allocator = (struct allocator){ .operations = &absent_operations };
	jemalloc_search(&search);
	malloc_owner_find(&owner);
	memcpy(allocator->identity.malloc_name, owner.name, sizeof owner.name);
	memcpy(allocator->identity.malloc_where, owner.where,
		sizeof allocator->identity.malloc_where);

	malloc_stats_find(&allocator->malloc, &owner);
	const struct jemalloc_candidate *const chosen = jemalloc_search_choice(&search);
	if (chosen == NULL) {
		memcpy(allocator->identity.name, owner.name, sizeof owner.name);
		memcpy(allocator->identity.where, owner.where, sizeof allocator->identity.where);
		explain_absence(allocator, &search, &owner);
		return;
	}
	allocator->operations = &jemalloc_operations;
	allocator->jemalloc = chosen->functions;
	fill_identity(&allocator->identity, &search, chosen);
	jemalloc_read_capabilities(allocator);
}
