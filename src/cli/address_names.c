/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/address_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/function_name.h"
#include "base/file.h"
#include "base/proc_maps.h"
#include "base/xalloc.h"
#include "cli/report_session.h"
#include "source/program_mappings.h"

struct address_question {
	struct profile *profile;
	uint32_t *locations; /* in the order of the input */
	size_t count, capacity;
};

static void question_deinit(struct address_question *question)
{
	profile_free(question->profile);
	free(question->locations);
}

static void read_line(struct address_question *question, const char *line, size_t size)
{
	struct profile *const profile = question->profile;
	const char *const hex = memmem(line, size, "0x", 2);
	struct proc_map map;

	if (hex != NULL) {
		question->locations = xgrow(question->locations, &question->capacity,
			question->count + 1, sizeof *question->locations);
		question->locations[question->count++] =
			profile_add_exact_address(profile, strtoull(hex, NULL, 16));
	} else if (proc_map_parse(line, size, &map)) {
		CLEANUP(free_cleanup) char *path = xstrndup(map.path, map.path_size);
		const struct profile_mapping mapping = {
			.start = map.start,
			.limit = map.limit,
			.file_offset = map.file_offset,
			.path = path,
			.build_id = "",
			.deleted = map.deleted,
		};
		profile_add_mapping(profile, &mapping);
	}
}

static bool read_question(
	struct address_question *question, const struct report_options *options, struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };

	buffer_init(&text, &memory_or_exit);
	if (!file_read_fd(STDIN_FILENO, "standard input", &text, err))
		return false;
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		read_line(question, line, size);
		line += size + (line[size] == '\n');
	}
	if (question->profile->mapping_count == 0 && options->operand_count != 0 &&
		!program_mappings_add(question->profile, options->operands[0], err))
		return false;
	profile_assign_mappings(question->profile);
	return true;
}

/* The function that is really there, as jeprof prints it. */
static void print_name(const struct profile *profile, uint32_t at, struct buffer *name)
{
	const struct profile_location *const location = &profile->locations[at];

	buffer_clear(name);
	if (location->frame_count != 0)
		function_name_append_short(
			name, profile->frames[location->first_frame + location->frame_count - 1]
				      .function);
	puts(name->size == 0 ? "??" : buffer_string(name));
}

bool address_names_print(const struct report_options *options, struct error *err)
{
	CLEANUP(question_deinit) struct address_question question = { .profile = profile_new("-") };
	struct report_session session = {
		.options = options,
		.profiles = &question.profile,
		.profile_count = 1,
		.program = options->operand_count == 0 ? NULL : options->operands[0],
	};
	CLEANUP(buffer_cleanup) struct buffer name = { 0 };

	buffer_init(&name, &memory_or_exit);
	if (!read_question(&question, options, err))
		return false;
	const bool done = report_session_add_symbols(&session, err);
	for (size_t i = 0; done && i < question.count; i++)
		print_name(question.profile, question.locations[i], &name);
	symbolizer_free(session.symbolizer);
	return done;
}
