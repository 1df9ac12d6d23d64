/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/text_profile.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "base/proc_maps.h"
#include "base/xalloc.h"
#include "profile/readers.h"

bool text_line(struct cursor *in, struct text_line *line)
{
	size_t left = cursor_left(in);

	if (left == 0)
		return false;
	if (left < TEXT_LINE_LIMIT && in->source != NULL) {
		(void)cursor_fetch(in, TEXT_LINE_LIMIT);
		if (!cursor_ok(in))
			return false;
		left = cursor_left(in);
	}
	const char *const text = (const char *)in->position;
	const size_t searched = left < TEXT_LINE_LIMIT ? left : TEXT_LINE_LIMIT;
	const char *const newline = memchr(text, '\n', searched);
	if (newline == NULL && searched < left) {
		cursor_fail(in, "a line of more than a million bytes: this is not a profile");
		return false;
	}

	size_t size = newline == NULL ? left : (size_t)(newline - text);
	in->position += size + (newline != NULL);
	while (size > 0 && isspace((unsigned char)text[size - 1]))
		size--;
	*line = (struct text_line){ .text = text, .size = size, .is_whole = newline != NULL };
	return true;
}

uint64_t text_decimal_slow(struct cursor *in)
{
	const unsigned char *at = in->position;
	uint64_t value = 0;

	for (; at < in->end; at++) {
		const unsigned digit = (unsigned)*at - '0';
		if (digit > 9)
			break;
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digit, &value)) {
			cursor_fail(in, "a number of more than 64 bits");
			return 0;
		}
	}
	if (at == in->position)
		cursor_fail(in, at == in->end ? "it ends where a number should be: truncated"
					      : "a number was expected");
	else
		in->position = at;
	return value;
}

uint64_t text_hexadecimal(struct cursor *in)
{
	uint64_t value = 0;

	if (cursor_left(in) >= 2 && in->position[0] == '0' && in->position[1] == 'x')
		in->position += 2;
	const unsigned char *const begin = in->position;
	for (; in->position < in->end; in->position++) {
		const int digit = hex_digit((char)*in->position);
		if (digit < 0)
			break;
		if (value >> 60 != 0) {
			cursor_fail(in, "an address of more than 64 bits");
			return 0;
		}
		value = value << 4 | (unsigned)digit;
	}
	if (in->position == begin)
		cursor_fail(in, begin == in->end ? "it ends where an address should be: truncated"
						 : "an address was expected");
	return value;
}

enum { KEPT_UNKNOWN_LINES = 32 };

/*
 * The hash of a stack is made of those of its addresses, so that it is known before locations are.
 */
static inline uint64_t add_to_hash(const struct u64_table *table, uint64_t stack, uint64_t address)
{
	return (stack ^ u64_table_hash(table, address)) * table->factor;
}

/* Whether " 0x" is next, and a byte after it. */
static inline bool at_address(const unsigned char *at)
{
	uint32_t word = 0;

	memcpy(&word, at, sizeof word);
	return (le32toh(word) & 0xffffff) == (' ' | '0' << 8 | 'x' << 16);
}

/*
 * Reads addresses as profilers write them, " 0x7f06a3a2630f", as long as there is room for them and
 * the input is far from its end. What follows the last one is left to the caller. Not inline, so
 * that all of the loop is in registers.
 */
static __attribute__((noinline)) size_t read_plain_addresses(
	struct text_profile *text, size_t depth)
{
	enum { REACH = 3 + TEXT_NUMBER_REACH };
	const struct u64_table table = text->addresses;
	const unsigned char *at = text->in->position;
	const size_t capacity = text->depth_capacity;
	uint64_t *const addresses = text->stack_addresses;
	uint64_t hash = text->hash;

	if (cursor_left(text->in) < REACH)
		return depth;
	const unsigned char *const last = text->in->end - REACH;
	for (; depth < capacity && at <= last && at_address(at); depth++) {
		uint64_t address = 0;
		const unsigned char *const next = text_hexadecimal_at(at + 3, &address);
		if (next == NULL)
			break;
		at = next;
		addresses[depth] = address;
		u64_table_prefetch(&table, address);
		hash = add_to_hash(&table, hash, address);
	}
	text->in->position = at;
	text->hash = hash;
	return depth;
}

/* Reads one address in any form. */
static void read_address(struct text_profile *text, size_t depth)
{
	struct cursor *const in = text->in;
	const uint64_t address = text_hexadecimal(in);
	const char after = text_peek(in);

	if (after != ' ' && after != '\n' && after != '\r' && after != '\t')
		cursor_fail(in, "an address was expected");
	if (depth == PROFILE_STACK_LIMIT)
		cursor_fail(in, PROFILE_STACK_PROBLEM);
	text->stack_addresses = xgrow(text->stack_addresses, &text->depth_capacity, depth + 1,
		sizeof *text->stack_addresses);
	text->stack_addresses[depth] = address;
	text->hash = add_to_hash(&text->addresses, text->hash, address);
}

/*
 * Reads " 0x1 0x2" to the end of the line and returns how many there were. The table's memory is
 * prefetched here and read only at the end of the line, so that cache misses overlap.
 */
static size_t read_addresses(struct text_profile *text)
{
	text->hash = 0;
	for (size_t depth = 0;; depth++) {
		depth = read_plain_addresses(text, depth);
		text_skip_blanks(text->in);
		const char next = text_peek(text->in);
		if (next == '\n' || next == '\r')
			return depth;
		read_address(text, depth);
	}
}

/* Not inline, so that the loop around it stays small. */
static __attribute__((noinline)) uint32_t find_or_add(struct text_profile *text, uint64_t address)
{
	const uint32_t found = u64_table_find(&text->addresses, address);

	if (found != U64_TABLE_NONE)
		return found;
	const uint32_t location = profile_add_address(text->profile, address);
	const uint32_t position = u64_table_add(&text->addresses, address);
	assert(position == location);
	return position;
}

/* Writes the locations of the addresses where the profile will have its next stack. */
static __attribute__((noinline)) void find_locations(struct text_profile *text)
{
	uint32_t *const locations = profile_stack_room(text->profile, text->depth);
	const uint64_t *const addresses = text->stack_addresses;
	const size_t depth = text->depth;

	if (depth != 0 && text->addresses.count == 0)
		find_or_add(text, addresses[0]);
	struct u64_table table = text->addresses;
	for (size_t i = 0; i < depth; i++) {
		const uint64_t address = addresses[i];
		uint32_t location = u64_table_guess(&table, address);
		if (__builtin_expect(table.keys[location] != address, false)) {
			location = find_or_add(text, address);
			table = text->addresses;
		}
		locations[i] = location;
	}
}

static void set_stacks(struct profile_sample *samples, size_t begin, size_t end,
	uint32_t first_stack, const uint32_t *positions)
{
	for (size_t i = begin; i < end; i++)
		samples[i].stack = positions[samples[i].stack - first_stack];
}

void text_profile_end_stacks(struct text_profile *text)
{
	struct profile *const profile = text->profile;
	const size_t count = text->pending_count;
	const size_t stack_count = profile->stack_count;
	uint32_t positions[TEXT_PENDING_STACKS];

	profile_index_stacks(profile, text->pending_hashes, count, positions);
	text->pending_count = 0;
	if (profile->stack_count == stack_count)
		return;
	const uint32_t first = (uint32_t)(stack_count - count);
	set_stacks(profile->samples, text->first_sample, profile->sample_count, first, positions);
	set_stacks(profile->thread_samples, text->first_thread_sample, profile->thread_sample_count,
		first, positions);
}

void text_profile_read_stack(struct text_profile *text)
{
	if (text->pending_count == TEXT_PENDING_STACKS)
		text_profile_end_stacks(text);
	text->depth = read_addresses(text);
	if (!cursor_ok(text->in))
		return;
	text->hash = hash_u64(text->hash);
	hash_index_prefetch(&text->profile->stack_index, text->hash);
	find_locations(text);
	if (profile_is_full(text->profile))
		cursor_fail(text->in, PROFILE_FULL_PROBLEM);
}

uint32_t text_profile_add_stack(struct text_profile *text)
{
	const struct profile *const profile = text->profile;

	if (text->pending_count == 0) {
		text->first_sample = profile->sample_count;
		text->first_thread_sample = profile->thread_sample_count;
	}
	text->pending_hashes[text->pending_count++] = text->hash;
	return profile_append_stack(text->profile, text->depth);
}

uint32_t text_profile_stack(struct text_profile *text)
{
	text_profile_read_stack(text);
	return cursor_ok(text->in)
		       ? profile_add_stack_in_room(text->profile, text->hash, text->depth)
		       : PROFILE_NONE;
}

static bool expect(struct cursor *in, char c, const char *problem)
{
	text_skip_blanks(in);
	if (!text_accept(in, c))
		cursor_fail(in, problem);
	text_skip_blanks(in);
	return cursor_ok(in);
}

bool text_profile_expect(struct text_profile *text, char c, const char *problem)
{
	return expect(text->in, c, problem);
}

/* "28: 1500", a number of objects and their bytes */
static double read_count(struct cursor *in)
{
	const double count = (double)text_decimal(in);

	if (count >= PROFILE_COUNT_LIMIT)
		cursor_fail(in, PROFILE_COUNT_PROBLEM);
	return count;
}

static bool read_pair(struct cursor *in, double *objects, double *bytes)
{
	*objects = read_count(in);
	if (!expect(in, ':', "a colon was expected after the number of objects"))
		return false;
	*bytes = read_count(in);
	return cursor_ok(in);
}

bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS])
{
	struct cursor *const in = text->in;
	const unsigned char *const end = cursor_left(in) < TEXT_COUNTERS_REACH
						 ? NULL
						 : text_profile_counters_at(in->position, counters);

	if (end != NULL) {
		in->position = end;
		text_skip_blanks(in);
		return true;
	}
	return read_pair(in, &counters[PROFILE_INUSE_OBJECTS], &counters[PROFILE_INUSE_SPACE]) &&
	       expect(in, '[', "'[' was expected before the counts of all allocations") &&
	       read_pair(in, &counters[PROFILE_ALLOC_OBJECTS], &counters[PROFILE_ALLOC_SPACE]) &&
	       expect(in, ']', "']' was expected after the counts of all allocations");
}

/* Several profiles in one, as cat writes them: only the first would be counted. */
static bool refuse_next_profile(struct cursor *in, const struct text_line *line)
{
	if (!text_starts(line, "heap_v2/") && !text_starts(line, "heap profile:") &&
		!text_starts(line, "--- symbol"))
		return false;
	in->position = (const unsigned char *)line->text;
	cursor_fail(in, PROFILE_NEXT_PROBLEM);
	return true;
}

void text_profile_place(
	struct profile *profile, struct profile_frame *frame, const struct text_line *place)
{
	const char *const colon = memrchr(place->text, ':', place->size);

	if (colon == NULL)
		return;
	const size_t size = (size_t)(colon - place->text);
	struct cursor number = cursor_over(colon + 1, place->size - size - 1);
	const uint64_t line = text_decimal(&number);
	frame->file = string_pool_add_sized(&profile->strings, place->text, size);
	frame->line = cursor_ok(&number) && line <= UINT32_MAX ? (uint32_t)line : 0;
}

static const char go_frame_line[] = "#\t0x";

/*
 * The same name again is that of a recursive call, whose address the stack has several times, and
 * ends what is inlined at that address.
 */
static void add_go_frame(
	struct text_profile *text, uint32_t position, const struct profile_frame *frame)
{
	struct profile *const profile = text->profile;
	struct profile_location *const location = &profile->locations[position];
	const bool is_next = position == text->go_location;
	const bool is_repeated =
		is_next && profile->frames[location->first_frame].function == frame->function;

	if (location->frame_count != 0 && (!is_next || is_repeated)) {
		text->go_location = PROFILE_NONE;
		return;
	}
	const uint32_t added = profile_add_own_frame(profile, frame);
	if (location->frame_count++ == 0)
		location->first_frame = added;
	text->go_location = position;
	if (profile_is_full(profile))
		cursor_fail(text->in, PROFILE_FULL_PROBLEM);
}

static void read_go_frame(struct text_profile *text, const struct text_line *line)
{
	struct profile *const profile = text->profile;
	struct profile_frame frame = { .linkage_name = "", .file = "" };
	struct cursor in = cursor_over(line->text, line->size);

	profile->has_go_names = true;
	profile->has_mappings = true;
	if (!line->is_whole) {
		cursor_fail(text->in, "it ends in the middle of a name: truncated");
		return;
	}
	cursor_skip(&in, strlen("#\t"));
	const uint32_t position = u64_table_find(&text->addresses, text_hexadecimal(&in) + 1);
	if (!text_accept(&in, '\t'))
		text->has_nameless_go_frames = true;
	if (!cursor_ok(&in) || cursor_left(&in) == 0 || position == U64_TABLE_NONE)
		return;
	const char *const name = (const char *)in.position;
	const char *const end = memchr(name, '\t', cursor_left(&in));
	const size_t reach = end == NULL ? cursor_left(&in) : (size_t)(end - name);
	const char *const plus = memrchr(name, '+', reach);
	frame.function = string_pool_add_sized(
		&profile->strings, name, plus == NULL ? reach : (size_t)(plus - name));
	cursor_skip(&in, reach);
	text_skip_blanks(&in);
	const struct text_line place = { (const char *)in.position, cursor_left(&in), true };
	if (place.size != 0)
		text_profile_place(profile, &frame, &place);
	add_go_frame(text, position, &frame);
}

/* Of all functions, printStackRecord leaves out only this one wherever it is. */
static void name_go_root(struct profile *profile, const struct profile_stack *stack)
{
	const struct profile_frame frame = { .function = "runtime.goexit" };

	if (stack->depth < 2)
		return;
	struct profile_location *const root =
		&profile->locations[profile->stack_locations[stack->first + stack->depth - 1]];
	if (root->frame_count != 0)
		return;
	root->first_frame = profile_add_frame(profile, &frame);
	root->frame_count = 1;
}

/* Its names are left out at the leaf, but not of a stack that has no other. */
static bool is_go_runtime(const struct profile *profile, uint32_t position)
{
	static const char *const packages[] = { "runtime.", "internal/runtime/" };
	const struct profile_location *const location = &profile->locations[position];

	if (location->frame_count == 0)
		return true;
	const char *const function = profile->frames[location->first_frame].function;
	for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
		if (strncmp(function, packages[i], strlen(packages[i])) == 0)
			return true;
	return false;
}

/* What had no line is nowhere else, and needs no name any more. */
static void hide_go_runtime(struct profile *profile, struct profile_stack *stack)
{
	const uint32_t *const positions = profile->stack_locations + stack->first;
	uint32_t hidden = 0;

	while (hidden < stack->depth && is_go_runtime(profile, positions[hidden]))
		hidden++;
	if (hidden == stack->depth)
		return;
	for (uint32_t i = 0; i < hidden; i++)
		if (profile->locations[positions[i]].frame_count == 0)
			profile->locations[positions[i]].address = 0;
	stack->first += hidden;
	stack->depth -= hidden;
}

void text_profile_end_go_names(struct text_profile *text, bool hides_runtime)
{
	struct profile *const profile = text->profile;

	if (!profile->has_go_names || text->has_nameless_go_frames)
		return;
	for (size_t i = 0; i < profile->stack_count; i++)
		name_go_root(profile, &profile->stacks[i]);
	for (size_t i = 0; i < profile->stack_count && hides_runtime; i++)
		hide_go_runtime(profile, &profile->stacks[i]);
}

bool text_profile_is_go_count(const struct cursor *in)
{
	return text_at(in, "goroutine profile:") || text_at(in, "threadcreate profile:");
}

void text_profile_unknown_line(struct text_profile *text)
{
	struct text_line line;

	if (!text_line(text->in, &line) || line.size == 0 || refuse_next_profile(text->in, &line))
		return;
	if (text_starts(&line, go_frame_line))
		read_go_frame(text, &line);
	else if (text->unknown_lines++ < KEPT_UNKNOWN_LINES)
		profile_add_comment(text->profile, line.text, line.size);
}

void text_profile_init(struct text_profile *text, struct cursor *in, struct profile *profile)
{
	assert(profile->location_count == 0);
	*text = (struct text_profile){
		.in = in,
		.profile = profile,
		.go_location = PROFILE_NONE,
	};
	u64_table_init(&text->addresses, profile->hash_seed);
}

void text_profile_deinit(struct text_profile *text)
{
	u64_table_deinit(&text->addresses);
	free(text->stack_addresses);
}

static const char build_id_line[] = "#build-id ";
static const char process_line[] = "#process ";
static const char sampling_line[] = "#sampling ";
static const char interval_line[] = "#interval ";

struct map_reader {
	struct profile *profile;
	char *build; /* value of the variable, NULL before it is set */
};

bool map_section_at(const struct cursor *in)
{
	return text_at(in, "MAPPED_LIBRARIES:") || text_at(in, "--- Memory map:");
}

static void add_mapping(struct map_reader *reader, const struct proc_map *map)
{
	static const char variable[] = "$build";
	const size_t variable_size = sizeof variable - 1;
	struct profile_mapping mapping = {
		.start = map->start,
		.limit = map->limit,
		.file_offset = map->file_offset,
		.deleted = map->deleted,
		.executable = map->executable,
	};
	CLEANUP(free_cleanup) char *path = NULL;

	if (reader->build != NULL && map->path_size >= variable_size &&
		memcmp(map->path, variable, variable_size) == 0)
		path = xasprintf("%s%.*s", reader->build, (int)(map->path_size - variable_size),
			map->path + variable_size);
	else
		path = xstrndup(map->path, map->path_size);
	mapping.path = path;
	profile_add_mapping(reader->profile, &mapping);
}

/* "40000000-40015000: /lib/ld-2.3.2.so": what gperftools writes where there is no /proc. */
static bool parse_short_line(const struct text_line *line, struct proc_map *map)
{
	struct cursor in = cursor_over(line->text, line->size);

	text_skip_blanks(&in);
	*map = (struct proc_map){ .executable = true };
	map->start = text_hexadecimal(&in);
	if (!cursor_ok(&in) || !text_accept(&in, '-'))
		return false;
	map->limit = text_hexadecimal(&in);
	if (!cursor_ok(&in) || !text_accept(&in, ':'))
		return false;
	text_skip_blanks(&in);
	map->path = (const char *)in.position;
	map->path_size = cursor_left(&in);
	return true;
}

/* "#build-id 55d41fef2000 3f2a...": of the mapping that begins there, which was the last line. */
static void read_build_id(struct map_reader *reader, const struct text_line *line)
{
	struct profile *const profile = reader->profile;
	struct cursor in = cursor_over(line->text, line->size);

	cursor_skip(&in, sizeof build_id_line - 1);
	const uint64_t start = text_hexadecimal(&in);
	text_skip_blanks(&in);
	if (!cursor_ok(&in) || profile->mapping_count == 0)
		return;
	struct profile_mapping *const last = &profile->mappings[profile->mapping_count - 1];
	if (last->start == start)
		last->build_id = string_pool_add_sized(
			&profile->strings, (const char *)in.position, cursor_left(&in));
}

/* A time after this word; 0 where there is none. Up to the year 9999. */
static int64_t read_time(struct cursor *in, const char *word)
{
	text_skip_blanks(in);
	if (!text_at(in, word))
		return 0;
	cursor_skip(in, strlen(word));
	const uint64_t time_ms = text_decimal(in);
	return cursor_ok(in) && time_ms < UINT64_C(253402300800000) ? (int64_t)time_ms : 0;
}

/*
 * "#sampling heapctl since 1763716881123", "#sampling jemalloc from-start", and for an agent that
 * was attached "since 1763716881123 attached 1763716881100 at 1763716890000"; each with " mapped"
 * at the end where mappings are samples, or " entry" where the allocator's functions are patched.
 */
static void read_sampling(struct profile *profile, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);

	cursor_skip(&in, sizeof sampling_line - 1);
	const char *const name = (const char *)in.position;
	const char *const end = memchr(name, ' ', cursor_left(&in));
	const size_t length = end == NULL ? cursor_left(&in) : (size_t)(end - name);
	profile->sampler = string_pool_add_sized(&profile->strings, name, length);
	cursor_skip(&in, length);
	text_skip_blanks(&in);
	profile->is_sampled_from_start = text_at(&in, "from-start");
	if (profile->is_sampled_from_start)
		cursor_skip(&in, strlen("from-start"));
	profile->sampled_since_ms = read_time(&in, "since ");
	profile->attached_ms = read_time(&in, "attached ");
	const int64_t time_ms = read_time(&in, "at ");
	if (time_ms != 0)
		profile->time_ms = time_ms;
	text_skip_blanks(&in);
	profile->has_mapped = text_at(&in, "mapped");
	profile->has_entries = text_at(&in, "entry");
}

/* "#interval 524288": of samples that were scaled up already. */
static void read_interval(struct profile *profile, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);

	cursor_skip(&in, sizeof interval_line - 1);
	const uint64_t interval = text_decimal(&in);
	if (!cursor_ok(&in) || profile->kind != PROFILE_HEAP ||
		profile->weighting != PROFILE_WEIGHTED)
		return;
	profile->interval_bytes = interval;
	profile->is_complete = false;
}

/* Without its newline a path may be the beginning of one; "[vsyscall]" is complete. */
static bool is_path_cut(const struct text_line *line, const struct proc_map *map)
{
	return !line->is_whole && map->path_size != 0 && map->path[map->path_size - 1] != ']';
}

static void fail_cut(struct cursor *in, const struct text_line *line)
{
	in->position = (const unsigned char *)line->text;
	cursor_fail(in, "it ends in the middle of a mapping: truncated");
}

static void read_line(struct map_reader *reader, struct cursor *in, const struct text_line *line)
{
	struct proc_map map;

	if (proc_map_parse(line->text, line->size, &map) || parse_short_line(line, &map)) {
		if (is_path_cut(line, &map))
			fail_cut(in, line);
		else if (map.start < map.limit)
			add_mapping(reader, &map);
	} else if (text_starts(line, "build=")) {
		/* It is put in front of each mapping's path. */
		if (line->size - 6 > PATH_MAX) {
			in->position = (const unsigned char *)line->text;
			cursor_fail(in, "a build directory longer than a path can be");
			return;
		}
		free(reader->build);
		reader->build = xstrndup(line->text + 6, line->size - 6);
	} else if (text_starts(line, build_id_line)) {
		read_build_id(reader, line);
	} else if (text_starts(line, sampling_line)) {
		read_sampling(reader->profile, line);
	} else if (text_starts(line, interval_line)) {
		read_interval(reader->profile, line);
	} else if (text_starts(line, process_line)) {
		reader->profile->process_name = string_pool_add_sized(&reader->profile->strings,
			line->text + sizeof process_line - 1,
			line->size - (sizeof process_line - 1));
	} else if (!refuse_next_profile(in, line) && !line->is_whole && line->size != 0) {
		fail_cut(in, line);
	}
}

/*
 * The program is the file whose code has the lowest address: the kernel places libraries, the
 * loader and the vdso above it.
 */
static void find_program(struct profile *profile)
{
	const struct profile_mapping *lowest = NULL;

	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const mapping = &profile->mappings[i];
		if (mapping->executable && mapping->path[0] == '/' &&
			(lowest == NULL || mapping->start < lowest->start))
			lowest = mapping;
	}
	if (lowest != NULL && profile->program[0] == '\0')
		profile->program = lowest->path;
}

void map_section_read_lines(struct cursor *in, struct profile *profile)
{
	struct map_reader reader = { .profile = profile };
	struct text_line line;

	while (cursor_more(in) && text_line(in, &line)) {
		for (; line.size != 0 && *line.text == ' '; line.text++)
			line.size--;
		read_line(&reader, in, &line);
		if (profile_is_full(profile))
			cursor_fail(in, PROFILE_FULL_PROBLEM);
	}
	free(reader.build);
	find_program(profile);
}

void map_section_read(struct cursor *in, struct profile *profile)
{
	struct text_line title;

	if (!text_line(in, &title))
		return;
	profile->has_mappings = true;
	map_section_read_lines(in, profile);
}
