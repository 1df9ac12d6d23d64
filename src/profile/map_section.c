/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/map_section.h"

#include <limits.h>
#include <stdlib.h>

#include "base/proc_maps.h"
#include "base/xalloc.h"
#include "profile/text.h"

static const char build_id_line[] = "#build-id ";

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

/* Without its newline a path may be the beginning of one; "[vsyscall]" is whole all the same. */
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
	} else if (!line->is_whole && line->size != 0) {
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

	while (text_line(in, &line)) {
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
