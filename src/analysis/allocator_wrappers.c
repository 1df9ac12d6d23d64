/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/allocator_wrappers.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/string_pool.h"
#include "base/xalloc.h"

enum {
	CALLERS_WANTED = 3,
	MAX_PASSES = 16, /* each may show that another function is not a wrapper */
	MAX_NAME_BYTES = 4096,
	MAX_UNNAMED = 8, /* one calling the other, between the allocator and a wrapper */
};

static const uint32_t NO_FUNCTION = UINT32_MAX;

/* What languages put between the program and the allocator: the name begins so. */
static const char *const beginnings[] = {
	"__rdl_alloc",
	"__rdl_realloc",
	"__rg_alloc",
	"__rg_realloc",
	"__rust_alloc",
	"__rust_realloc",
	"__rustc::__rust_alloc",
	"__rustc::__rust_realloc",
	"alloc::alloc::",
	"alloc::boxed::box_new_uninit",
	"alloc::boxed::Box<T,A>::new",
	"alloc::boxed::Box<T>::new",
	"alloc::raw_vec::",
	"<alloc::alloc::Global as ",
	"<alloc::alloc::Global>::",
	"<alloc::raw_vec::",
	"<tikv_jemallocator::",
	"<jemallocator::",
	"std::alloc::",
	"std::sys::alloc::",
	"void* fallback_impl",
	"void* fallbackNewImpl",
	"fallback_impl",
	"hashbrown::raw::alloc::",
};

/* Parts of C++'s containers that do nothing but allocate: what is left without <...> ends so. */
static const char *const endings[] = {
	"__new_allocator::allocate",
	"new_allocator::allocate",
	"std::allocator::allocate",
	"allocator_traits::allocate",
	"__alloc_traits::allocate",
	"std::__1::allocator::allocate",
	"std::__1::__allocate_at_least",
	"std::__1::__libcpp_allocate",
	"std::__1::__libcpp_operator_new",
	"std::__allocate_guarded",
	"_Vector_base::_M_allocate",
	"_Deque_base::_M_allocate_node",
	"_Deque_base::_M_allocate_map",
	"_Rb_tree::_M_get_node",
	"_List_base::_M_get_node",
	"_Hashtable_alloc::_M_allocate_node",
	"_Hashtable_alloc::_M_allocate_node_ptr",
	"_Hashtable_alloc::_M_allocate_buckets",
	"malloc_allocator::allocate",
	"polymorphic_allocator::allocate",
	"new_delete_resource_t::do_allocate",
};

/* Where Rust's containers are. */
static const char *const rust_homes[] = { "alloc::", "<alloc::", "hashbrown::", "<hashbrown::",
	"std::collections::", "<std::collections::" };
static const char *const rust_traits[] = { " as alloc::vec::spec_from_elem::",
	" as alloc::slice::" };

/* What makes a container there: the caller decides its size. */
static const char *const rust_constructors[] = { "::with_capacity", "::with_capacity_in",
	"::try_with_capacity", "::try_with_capacity_in", "::with_capacity_and_hasher",
	"::with_capacity_and_hasher_in", "::fallible_with_capacity", "::new_uninitialized", "::new",
	"::new_in", "::new_uninit", "::new_uninit_in", "::new_uninit_slice", "::new_zeroed",
	"::pin", "::from_elem", "::from_elem_in", "::to_vec", "::to_vec_in",
	"::allocate_for_layout", "::allocate_for_slice", "::try_allocate_in", "::allocate_in" };

/* Well-known ones whose names would be weak. */
static const char *const known[] = {
	"allocsetalloc",
	"allocsetallocfromnewblock",
	"allocsetalloclarge",
	"allocsetrealloc",
	"alloc_root",
	"generationalloc",
	"l_alloc",
	"memorycontextalloc",
	"memorycontextallocaligned",
	"memorycontextallocextended",
	"memorycontextallochuge",
	"memorycontextallocinternal",
	"memorycontextalloczero",
	"memorycontextalloczeroaligned",
	"ngx_alloc",
	"pymalloc_alloc",
	"slaballoc",
	"bumpalloc",
};

/* What may follow the verb. */
static const char *const suffixes[] = { "_usable", "_internal", "_impl", "_inline", "_block",
	"_small", "_large", "_huge", "_extended", "_aligned", "_nothrow", "_noerr", "_safe",
	"_or_die", "_or_exit", "_or_abort", "_array", "_zero", "_slow", "_fast", "_cold", "_common",
	"_helper", "_wrapper", "_default", "_raw", "_hook", "_ex", "_noprof", "_st", "_mt", "_n",
	"_num", "_debug", "_atomic", "zero", "raw", "rawnn", "nn", "z", "_" };

static const char *const sure_verbs[] = { "malloc", "calloc", "realloc", "zalloc", "memalign",
	"palloc", "reallocarray", "mallocarray", "callocarray", "recallocarray", "reallocf" };
static const char *const weak_verbs[] = { "alloc", "allocate", "reallocate" };

static bool ends_with(const char *text, size_t size, const char *end)
{
	const size_t end_size = strlen(end);

	return size >= end_size && memcmp(text + size - end_size, end, end_size) == 0;
}

/* Without groups of angle brackets. */
static size_t copy_without_templates(char *to, size_t room, const char *name)
{
	size_t size = 0;
	unsigned depth = 0;

	for (const char *at = name; *at != '\0' && size < room - 1; at++) {
		if (*at == '<')
			depth++;
		else if (*at == '>' && depth > 0)
			depth--;
		else if (depth == 0 && *at == '(')
			break;
		else if (depth == 0)
			to[size++] = *at;
	}
	to[size] = '\0';
	return size;
}

static bool is_of_rusts_containers(const char *function)
{
	for (size_t i = 0; i < sizeof rust_homes / sizeof *rust_homes; i++)
		if (strncmp(function, rust_homes[i], strlen(rust_homes[i])) == 0)
			return true;
	for (size_t i = 0; i < sizeof rust_traits / sizeof *rust_traits; i++)
		if (strstr(function, rust_traits[i]) != NULL)
			return true;
	return false;
}

/* Allocator<false>::alloc, arrow::SlabAllocator::allocate: `name` is without templates. */
static bool is_of_allocator_class(const char *name, size_t size)
{
	size_t end = size;

	while (end > 0 && name[end - 1] != ':')
		end--;
	return end >= 2 && ends_with(name, end - 2, "llocator");
}

static bool is_of_language(const char *function)
{
	char name[MAX_NAME_BYTES];

	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
		const size_t size = strlen(beginnings[i]);
		if (strncmp(function, beginnings[i], size) == 0)
			return true;
	}
	if (strstr(function, " as core::alloc::global::GlobalAlloc>::") != NULL ||
		strstr(function, " as core::alloc::GlobalAlloc>::") != NULL ||
		strstr(function, " as core::alloc::Allocator>::") != NULL)
		return true;
	const size_t size = copy_without_templates(name, sizeof name, function);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (ends_with(name, size, endings[i]))
			return true;
	if (!is_of_rusts_containers(function))
		return false;
	for (size_t i = 0; i < sizeof rust_constructors / sizeof *rust_constructors; i++)
		if (ends_with(name, size, rust_constructors[i]))
			return true;
	return false;
}

/*
 * The size without one of the suffixes, or without digits at the end; the same if it has neither.
 */
static size_t cut_suffix(const char *name, size_t size)
{
	if (size > 0 && isdigit((unsigned char)name[size - 1]))
		return size - 1;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (ends_with(name, size, suffixes[i]))
			return size - strlen(suffixes[i]);
	return size;
}

static bool ends_with_any(
	const char *name, size_t size, const char *const *verbs, size_t verb_count)
{
	for (size_t i = 0; i < verb_count; i++)
		if (ends_with(name, size, verbs[i]))
			return true;
	return false;
}

/* The last part of a qualified name, in small letters, without suffixes of the compiler. */
static size_t last_part(char *to, size_t room, const char *function)
{
	char name[MAX_NAME_BYTES];
	size_t size = copy_without_templates(name, sizeof name, function);
	size_t begin = size;
	size_t made = 0;

	while (begin > 0 && name[begin - 1] != ':' && name[begin - 1] != ' ')
		begin--;
	for (; begin < size && made < room - 1 && name[begin] != '.'; begin++)
		to[made++] = (char)tolower((unsigned char)name[begin]);
	to[made] = '\0';
	return made;
}

enum wrapper_name wrapper_name_judge(const char *function)
{
	char name[256], qualified[MAX_NAME_BYTES];

	if (function[0] == '\0')
		return WRAPPER_NAME_NONE;
	if (function[0] == '[' && strstr(function, "]+0x") != NULL)
		return WRAPPER_NAME_UNKNOWN;
	if (is_of_language(function))
		return WRAPPER_NAME_SURE;
	size_t size = last_part(name, sizeof name, function);
	if (ends_with(name, size, "dealloc") || ends_with(name, size, "fallocate"))
		return WRAPPER_NAME_NONE;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i]) == 0)
			return WRAPPER_NAME_SURE;
	for (size_t last = 0; size != last && size > 0; size = cut_suffix(name, size)) {
		if (ends_with_any(name, size, sure_verbs, sizeof sure_verbs / sizeof *sure_verbs))
			return WRAPPER_NAME_SURE;
		if (ends_with_any(name, size, weak_verbs, sizeof weak_verbs / sizeof *weak_verbs))
			return is_of_allocator_class(qualified, copy_without_templates(qualified,
									sizeof qualified, function))
				       ? WRAPPER_NAME_SURE
				       : WRAPPER_NAME_WEAK;
		last = size;
	}
	return WRAPPER_NAME_NONE;
}

struct function {
	const char *name; /* in the pool */
	enum wrapper_name judgement;
	bool is_wrapper; /* as far as is known */
	uint32_t callers[CALLERS_WANTED];
	uint32_t caller_count;
};

/* Of a location; of several together what any of them has. */
enum trait {
	IS_ALLOCATOR = 1 << 0,
	HAS_CANDIDATE = 1 << 1, /* a function that may be a wrapper */
};

/* What is kept of one of the profiles. */
struct examined {
	const struct profile *profile;
	uint32_t *functions; /* of each frame */
	uint32_t *unnamed;   /* of each location without frames; NO_FUNCTION where none is known */
	/* Of each location; shown: where it stands it is not cut off. */
	uint8_t *traits, *is_shown;
	struct wrapper_fact *facts;
};

struct allocator_wrappers {
	struct string_pool names;
	struct hash_index index;
	struct function *functions;
	size_t function_count, function_capacity;
	struct examined *examined;
	size_t count;
};

static bool is_function(const void *items, uint32_t position, const void *key)
{
	return ((const struct function *)items)[position].name == key;
}

static uint32_t find_function(struct allocator_wrappers *wrappers, const char *name)
{
	const uint32_t next = (uint32_t)wrappers->function_count;
	const uint32_t found = hash_index_add(&wrappers->index, hash_u64((uintptr_t)name),
		is_function, wrappers->functions, name, next);

	if (found != HASH_INDEX_NONE)
		return found;
	wrappers->functions = xgrow(wrappers->functions, &wrappers->function_capacity,
		wrappers->function_count + 1, sizeof *wrappers->functions);
	const enum wrapper_name judgement = wrapper_name_judge(name);
	wrappers->functions[wrappers->function_count++] = (struct function){
		.name = name,
		.judgement = judgement,
		.is_wrapper = judgement != WRAPPER_NAME_NONE,
	};
	return next;
}

static bool is_wrapper(const struct allocator_wrappers *wrappers, uint32_t function)
{
	return wrappers->functions[function].is_wrapper;
}

/* The function without a name at the location: by its place in the file. */
static uint32_t find_unnamed(struct allocator_wrappers *wrappers, const struct profile *profile,
	const struct profile_location *location)
{
	char name[MAX_NAME_BYTES];

	if (location->frame_count != 0 || location->function_start == 0 ||
		location->mapping == PROFILE_NONE)
		return NO_FUNCTION;
	const struct profile_mapping *const mapping = &profile->mappings[location->mapping];
	snprintf(name, sizeof name, "[%s]+0x%" PRIx64, mapping->path,
		location->function_start - mapping->start + mapping->file_offset);
	return find_function(wrappers, string_pool_add(&wrappers->names, name));
}

static void examine(struct allocator_wrappers *wrappers, struct examined *examined,
	const struct profile *profile, wrapper_is_allocator *is_allocator, void *context)
{
	CLEANUP(text_map_deinit) struct text_map texts = { 0 };

	*examined = (struct examined){
		.profile = profile,
		.functions = xcalloc(profile->frame_count, sizeof *examined->functions),
		.unnamed = xcalloc(profile->location_count, sizeof *examined->unnamed),
		.traits = xcalloc(profile->location_count, 1),
		.is_shown = xcalloc(profile->location_count, 1),
		.facts = xcalloc(profile->location_count, sizeof *examined->facts),
	};
	for (size_t i = 0; i < profile->frame_count; i++)
		examined->functions[i] = find_function(wrappers,
			text_map_add(&texts, &wrappers->names, profile->frames[i].function));
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *const location = &profile->locations[i];
		examined->unnamed[i] = find_unnamed(wrappers, profile, location);
		bool has_candidate = examined->unnamed[i] != NO_FUNCTION;
		for (uint32_t f = 0; f < location->frame_count; f++)
			has_candidate |= is_wrapper(
				wrappers, examined->functions[location->first_frame + f]);
		examined->traits[i] =
			(is_allocator(context, profile, location) ? IS_ALLOCATOR : 0) |
			(has_candidate ? HAS_CANDIDATE : 0);
	}
}

static void note_caller(struct function *function, uint32_t caller)
{
	for (uint32_t i = 0; i < function->caller_count; i++)
		if (function->callers[i] == caller)
			return;
	if (function->caller_count < CALLERS_WANTED)
		function->callers[function->caller_count++] = caller;
}

/* A pass over a stack: from the allocator outwards. */
struct wrapper_walk {
	struct allocator_wrappers *wrappers;
	uint32_t last;	/* the wrapper before, whose caller comes now; NO_FUNCTION for none */
	bool is_inside; /* nothing but allocators and wrappers so far */
	bool has_changed;
	uint32_t unnamed[MAX_UNNAMED]; /* just before: their caller must be a wrapper */
	uint32_t unnamed_count;
};

static void drop(struct wrapper_walk *walk, uint32_t position)
{
	walk->wrappers->functions[position].is_wrapper = false;
	walk->has_changed = true;
}

static void leave(struct wrapper_walk *walk)
{
	walk->is_inside = false;
	for (uint32_t i = 0; i < walk->unnamed_count; i++)
		drop(walk, walk->unnamed[i]);
	walk->unnamed_count = 0;
}

static void step(struct wrapper_walk *walk, uint32_t position)
{
	struct function *const function = &walk->wrappers->functions[position];

	if (walk->last != NO_FUNCTION && walk->last != position)
		note_caller(&walk->wrappers->functions[walk->last], position);
	walk->last = NO_FUNCTION;
	if (!function->is_wrapper) {
		leave(walk);
	} else if (!walk->is_inside) {
		drop(walk, position);
	} else if (function->judgement != WRAPPER_NAME_UNKNOWN) {
		walk->last = position;
		walk->unnamed_count = 0;
	} else if (walk->unnamed_count < MAX_UNNAMED) {
		walk->unnamed[walk->unnamed_count++] = position;
	} else {
		drop(walk, position);
		leave(walk);
	}
}

/* How many locations lie at or below the outermost allocator, and the traits of those above. */
static size_t allocator_depth(const struct examined *examined, const uint32_t *locations,
	size_t depth, unsigned *traits_above)
{
	unsigned traits = 0;

	for (*traits_above = 0; depth > 0; depth--) {
		traits |= examined->traits[locations[depth - 1]];
		if ((traits & IS_ALLOCATOR) != 0)
			break;
		*traits_above = traits;
	}
	return depth;
}

static void walk_stack(
	struct wrapper_walk *walk, struct examined *examined, const struct profile_stack *stack)
{
	const struct profile *const profile = examined->profile;
	const uint32_t *const locations = &profile->stack_locations[stack->first];

	walk->is_inside = true;
	walk->last = NO_FUNCTION;
	walk->unnamed_count = 0;
	unsigned traits = 0;
	for (size_t i = allocator_depth(examined, locations, stack->depth, &traits);
		i < stack->depth; i++) {
		const uint32_t at = locations[i];
		const struct profile_location *const location = &profile->locations[at];
		const bool was_inside = walk->is_inside;
		if (!was_inside && (traits & HAS_CANDIDATE) == 0)
			break;
		if (!was_inside && (examined->traits[at] & HAS_CANDIDATE) == 0)
			continue;
		if (!was_inside)
			examined->is_shown[at] = true;
		for (uint32_t f = 0; f < location->frame_count; f++)
			step(walk, examined->functions[location->first_frame + f]);
		if (examined->unnamed[at] != NO_FUNCTION)
			step(walk, examined->unnamed[at]);
		else if (location->frame_count == 0)
			leave(walk);
	}
	/* The unwinder came no further: a wrapper is more than nothing. */
	if (walk->unnamed_count != 0)
		leave(walk);
	if (stack->depth != 0 && walk->is_inside)
		examined->is_shown[locations[stack->depth - 1]] = true;
}

static bool walk_all(struct allocator_wrappers *wrappers)
{
	struct wrapper_walk walk = { .wrappers = wrappers };

	for (size_t i = 0; i < wrappers->count; i++) {
		const struct profile *const profile = wrappers->examined[i].profile;
		for (size_t s = 0; s < profile->stack_count; s++)
			walk_stack(&walk, &wrappers->examined[i], &profile->stacks[s]);
	}
	return walk.has_changed;
}

static bool drop_weak(struct allocator_wrappers *wrappers)
{
	bool has_changed = false;

	for (size_t i = 0; i < wrappers->function_count; i++) {
		struct function *const function = &wrappers->functions[i];
		if (!function->is_wrapper || function->judgement != WRAPPER_NAME_WEAK ||
			function->caller_count >= CALLERS_WANTED)
			continue;
		function->is_wrapper = false;
		has_changed = true;
	}
	return has_changed;
}

/* A name is a reason of its own to be a wrapper; without one every caller counts. */
static void drop_unnamed(struct allocator_wrappers *wrappers)
{
	for (size_t i = 0; i < wrappers->function_count; i++)
		if (wrappers->functions[i].judgement == WRAPPER_NAME_UNKNOWN)
			wrappers->functions[i].is_wrapper = false;
}

static void set_facts(const struct allocator_wrappers *wrappers, struct examined *examined)
{
	const struct profile *const profile = examined->profile;

	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *const location = &profile->locations[i];
		struct wrapper_fact *const fact = &examined->facts[i];
		uint32_t count = 0;
		if (examined->is_shown[i])
			continue;
		if (examined->unnamed[i] != NO_FUNCTION) {
			fact->is_wrapper = is_wrapper(wrappers, examined->unnamed[i]);
			continue;
		}
		while (count < location->frame_count && count < UINT16_MAX &&
			is_wrapper(wrappers, examined->functions[location->first_frame + count]))
			count++;
		fact->is_wrapper = count != 0 && count == location->frame_count;
		fact->inlined = fact->is_wrapper ? 0 : (uint16_t)count;
	}
}

struct allocator_wrappers *allocator_wrappers_find(const struct profile *const *profiles,
	size_t count, wrapper_is_allocator *is_allocator, void *context)
{
	struct allocator_wrappers *const wrappers = xcalloc(1, sizeof *wrappers);

	string_pool_init(&wrappers->names);
	hash_index_init(&wrappers->index);
	wrappers->examined = xcalloc(count, sizeof *wrappers->examined);
	wrappers->count = count;
	for (size_t i = 0; i < count; i++)
		examine(wrappers, &wrappers->examined[i], profiles[i], is_allocator, context);
	bool is_settled = false;
	for (int pass = 0; pass < MAX_PASSES && !is_settled; pass++)
		/* Only the remaining frames distinguish callers. */
		is_settled = !walk_all(wrappers) && !drop_weak(wrappers);
	if (!is_settled)
		drop_unnamed(wrappers);
	for (size_t i = 0; i < count; i++)
		set_facts(wrappers, &wrappers->examined[i]);
	return wrappers;
}

void allocator_wrappers_free(struct allocator_wrappers *wrappers)
{
	if (wrappers == NULL)
		return;
	for (size_t i = 0; i < wrappers->count; i++) {
		struct examined *const examined = &wrappers->examined[i];
		free(examined->functions);
		free(examined->unnamed);
		free(examined->traits);
		free(examined->is_shown);
		free(examined->facts);
	}
	free(wrappers->examined);
	free(wrappers->functions);
	hash_index_deinit(&wrappers->index);
	string_pool_deinit(&wrappers->names);
	free(wrappers);
}

const struct wrapper_fact *allocator_wrappers_facts(
	const struct allocator_wrappers *wrappers, const struct profile *profile)
{
	for (size_t i = 0; i < wrappers->count; i++)
		if (wrappers->examined[i].profile == profile)
			return wrappers->examined[i].facts;
	return NULL;
}
