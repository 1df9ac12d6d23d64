/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/pprof.h"

#include <string.h>

static const struct pprof_type heap_types[] = {
	{ "alloc_objects", "count", PROFILE_ALLOC_OBJECTS },
	{ "alloc_space", "bytes", PROFILE_ALLOC_SPACE },
	{ "inuse_objects", "count", PROFILE_INUSE_OBJECTS },
	{ "inuse_space", "bytes", PROFILE_INUSE_SPACE },
};

static const struct pprof_type cpu_types[] = {
	{ "samples", "count", PROFILE_INUSE_OBJECTS },
	{ "cpu", "nanoseconds", PROFILE_INUSE_SPACE },
};

static const struct pprof_type contention_types[] = {
	{ "contentions", "count", PROFILE_INUSE_OBJECTS },
	{ "delay", "nanoseconds", PROFILE_INUSE_SPACE },
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const struct pprof_type *pprof_types_of(enum profile_kind kind, size_t *count)
{
	switch (kind) {
	case PROFILE_CPU:
		*count = COUNT_OF(cpu_types);
		return cpu_types;
	case PROFILE_CONTENTION:
		*count = COUNT_OF(contention_types);
		return contention_types;
	case PROFILE_HEAP:
	case PROFILE_GROWTH:
		break;
	}
	*count = COUNT_OF(heap_types);
	return heap_types;
}

struct pprof_unit {
	const char *name;
	bool is_time;
	double scale; /* in bytes or nanoseconds; 0 for a count */
};

static const struct pprof_unit units[] = {
	{ "count", false, 0 },
	{ "bytes", false, 1 },
	{ "byte", false, 1 },
	{ "kilobytes", false, 1024 },
	{ "megabytes", false, 1048576 },
	{ "nanoseconds", true, 1 },
	{ "microseconds", true, 1e3 },
	{ "milliseconds", true, 1e6 },
	{ "seconds", true, 1e9 },
};

static const struct pprof_unit *find_unit(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(units); i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

static bool contains_any(const char *text, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcasestr(text, parts[i]) != NULL)
			return true;
	return false;
}

/* Live or ever allocated: "inuse_space", "alloc_objects", "live_bytes", "space", "objects". */
static bool parse_heap_type(
	const char *type, const struct pprof_unit *unit, struct pprof_meaning *meaning)
{
	static const char *const live[] = { "inuse", "in_use", "live" };
	static const char *const allocated[] = { "alloc" };
	static const char *const any[] = { "space", "objects", "bytes", "size", "memory", "heap" };
	const bool is_live = contains_any(type, live, COUNT_OF(live));
	const bool is_allocated = !is_live && contains_any(type, allocated, COUNT_OF(allocated));
	const bool is_size = unit->scale != 0;

	if (!is_live && !is_allocated && !contains_any(type, any, COUNT_OF(any)))
		return false;
	meaning->kind = PROFILE_HEAP;
	if (is_allocated)
		meaning->counter = is_size ? PROFILE_ALLOC_SPACE : PROFILE_ALLOC_OBJECTS;
	else
		meaning->counter = is_size ? PROFILE_INUSE_SPACE : PROFILE_INUSE_OBJECTS;
	return true;
}

bool pprof_type_parse(const char *type, const char *unit_name, struct pprof_meaning *meaning)
{
	const struct pprof_unit *const unit = find_unit(unit_name);
	struct pprof_meaning found = { 0 };

	if (unit == NULL)
		return false;
	found.scale = unit->scale == 0 ? 1 : unit->scale;
	found.counter = unit->scale == 0 ? PROFILE_INUSE_OBJECTS : PROFILE_INUSE_SPACE;
	if (unit->is_time ? strcmp(type, "cpu") == 0 : strcmp(type, "samples") == 0)
		found.kind = PROFILE_CPU;
	else if (unit->is_time ? strcmp(type, "delay") == 0 : strcmp(type, "contentions") == 0)
		found.kind = PROFILE_CONTENTION;
	else if (unit->is_time || !parse_heap_type(type, unit, &found))
		return false;
	*meaning = found;
	return true;
}
