/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/stack_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/file.h"
#include "base/hash_index.h"
#include "base/xalloc.h"

enum { FRAMES_MAX = 1024, NAME_BYTES_MAX = 1000 };

/*
 * What compilers put behind the name of a function that they changed: ".constprop.0", ".isra.1",
 * ".llvm.123456". They come and go from build to build.
 */
static size_t size_without_clones(const char *name, size_t size)
{
	static const char *const marks[] = { ".constprop", ".isra", ".part", ".cold", ".lto_priv",
		".llvm", ".localalias", " [clone " };
	size_t end = size;

	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
		const char *const at = memmem(name, end, marks[i], strlen(marks[i]));
		if (at != NULL && at != name)
			end = (size_t)(at - name);
	}
	return end;
}

static const char *function_name(struct stack_namer *namer, const char *function)
{
	struct buffer *const text = &namer->scratch;

	buffer_clear(text);
	function_name_append_short(text, function);
	size_t size = size_without_clones(text->data, text->size);
	if (size > NAME_BYTES_MAX)
		size = NAME_BYTES_MAX;
	return string_pool_add_sized(&namer->strings, text->data, size);
}

const struct profile_mapping *stack_names_mapping(
	const struct profile *profile, const struct profile_location *location)
{
	const struct profile_mapping *const mapping =
		location->mapping == PROFILE_NONE ? NULL : &profile->mappings[location->mapping];

	return mapping == NULL || mapping->path[0] == '\0' ? NULL : mapping;
}

uint64_t stack_names_offset(
	const struct profile_mapping *mapping, const struct profile_location *location)
{
	return location->address - mapping->start + mapping->file_offset;
}

static void add_name(struct stack_namer *namer, const char *name)
{
	if (namer->name_count < FRAMES_MAX)
		*XAPPEND(namer->names, namer->name_count, namer->name_capacity) = name;
}

/* The names of one location, innermost first. */
static void add_names(struct stack_namer *namer, const struct profile_location *location)
{
	const struct profile *const profile = namer->profile;
	const struct profile_mapping *const mapping = stack_names_mapping(profile, location);
	char text[NAME_BYTES_MAX];

	if (namer->keeps_named && location->is_named) {
		add_name(namer, profile->frames[location->first_frame].function);
		return;
	}
	for (uint32_t i = 0; i < location->frame_count; i++) {
		const struct profile_frame *const frame =
			&profile->frames[location->first_frame + i];
		if (frame->function[0] != '\0')
			add_name(namer, function_name(namer, frame->function));
	}
	if (location->frame_count != 0 &&
		profile->frames[location->first_frame].function[0] != '\0')
		return;
	if (mapping == NULL)
		snprintf(text, sizeof text, "[anonymous]");
	else
		snprintf(text, sizeof text, "%.800s+0x%" PRIx64, path_base_name(mapping->path),
			stack_names_offset(mapping, location));
	add_name(namer, string_pool_add(&namer->strings, text));
}

uint64_t stack_names_hash(uint64_t hash, const char *text)
{
	return hash_fixed_combine(hash, hash_fixed_bytes(text, strlen(text)));
}

static void gather_names(struct stack_namer *namer, const struct profile_stack *stack)
{
	const uint32_t *locations = NULL;
	size_t depth = 0;

	namer->name_count = 0;
	/* Without a filter no stack is left out. */
	(void)stack_filter_pick(&namer->stack_filter, stack, &locations, &depth);
	for (size_t i = 0; i < depth; i++) {
		const struct profile_location location =
			stack_filter_location(&namer->stack_filter, locations[i]);
		add_names(namer, &location);
	}
}

static void reverse(struct stack_namer *namer)
{
	for (size_t i = 0; i < namer->name_count / 2; i++) {
		const char *const name = namer->names[i];
		namer->names[i] = namer->names[namer->name_count - 1 - i];
		namer->names[namer->name_count - 1 - i] = name;
	}
}

uint64_t stack_namer_take(struct stack_namer *namer, const struct profile_stack *stack)
{
	gather_names(namer, stack);
	reverse(namer);
	uint64_t hash = namer->name_count;
	for (size_t i = 0; i < namer->name_count; i++)
		hash = stack_names_hash(hash, namer->names[i]);
	return hash;
}

bool stack_namer_init(struct stack_namer *namer, const struct profile *profile, struct error *err)
{
	static const struct filter_text everything;

	*namer = (struct stack_namer){ .profile = profile };
	if (!filter_new(&everything, &namer->filter, err))
		return false;
	/*
	 * By name: wrappers that are recognised by what they do in one profile might not be in
	 * another.
	 */
	stack_filter_init(&namer->stack_filter, namer->filter, PRUNE_ALLOCATOR);
	stack_filter_prepare(&namer->stack_filter, &profile, 1);
	stack_filter_enter(&namer->stack_filter, profile);
	string_pool_init(&namer->strings);
	buffer_init(&namer->scratch, &memory_or_exit);
	return true;
}

void stack_namer_deinit(struct stack_namer *namer)
{
	if (namer->filter == NULL)
		return;
	stack_filter_deinit(&namer->stack_filter);
	filter_free(namer->filter);
	string_pool_deinit(&namer->strings);
	buffer_deinit(&namer->scratch);
	free(namer->names);
}
