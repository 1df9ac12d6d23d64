/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/pprof.h"

#include <string.h>

/* The cursor steps over the bytes; what is returned covers just them. */
static struct cursor take_bytes(struct cursor *in)
{
	const uint64_t size = cursor_uleb(in);
	struct cursor bytes = *in;

	cursor_skip(in, size);
	bytes.end = in->position;
	if (!cursor_ok(in))
		bytes.position = bytes.end;
	return bytes;
}

bool proto_next(struct cursor *in, struct proto_field *field)
{
	if (cursor_left(in) == 0)
		return false;
	const struct cursor before = *in;
	const uint64_t key = cursor_uleb(in);
	*field = (struct proto_field){ .number = (uint32_t)(key >> 3), .wire = key & 7 };
	if (cursor_ok(in) && (key >> 3 == 0 || key >> 3 > 0x1fffffff)) {
		in->position = before.position;
		cursor_fail(in, "invalid field number");
	}
	switch (key & 7) {
	case PROTO_VARINT:
		field->value = cursor_uleb(in);
		break;
	case PROTO_FIXED64:
		field->value = cursor_u64(in);
		break;
	case PROTO_BYTES:
		field->bytes = take_bytes(in);
		break;
	case PROTO_FIXED32:
		field->value = cursor_u32(in);
		break;
	default:
		in->position = before.position;
		cursor_fail(in, "a field of no known kind");
	}
	return cursor_ok(in);
}

void proto_join(struct cursor *whole, const struct cursor *part)
{
	if (cursor_ok(part) || !cursor_ok(whole))
		return;
	whole->position = whole->start + part->problem_offset;
	cursor_fail(whole, part->problem);
}

bool proto_repeated(struct cursor *in, struct proto_field *field, uint64_t *value)
{
	if (field->wire == PROTO_VARINT) {
		*value = field->value;
		/* Once only: from now on it is an empty packed field. */
		field->wire = PROTO_BYTES;
		field->bytes = *in;
		field->bytes.end = field->bytes.position;
		return true;
	}
	if (cursor_left(&field->bytes) == 0)
		return false;
	*value = cursor_uleb(&field->bytes);
	proto_join(in, &field->bytes);
	return cursor_ok(in);
}

void proto_put_varint(struct buffer *out, uint64_t value)
{
	char bytes[10];
	size_t size = 0;

	while (value >= 0x80) {
		bytes[size++] = (char)(value | 0x80);
		value >>= 7;
	}
	bytes[size++] = (char)value;
	buffer_append(out, bytes, size);
}

void proto_put_number(struct buffer *out, uint32_t number, uint64_t value)
{
	if (value == 0)
		return;
	proto_put_varint(out, (uint64_t)number << 3 | PROTO_VARINT);
	proto_put_varint(out, value);
}

void proto_put_bytes(struct buffer *out, uint32_t number, const void *data, size_t size)
{
	proto_put_varint(out, (uint64_t)number << 3 | PROTO_BYTES);
	proto_put_varint(out, size);
	buffer_append(out, data, size);
}

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
