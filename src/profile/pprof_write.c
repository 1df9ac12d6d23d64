/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/pprof.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "profile/compress.h"

/* What is known of all locations of a mapping that are written. */
struct mapping_use {
	uint64_t number; /* 0 while it is not used */
	bool has_locations;
	bool lacks_functions;
	bool lacks_files;
	bool lacks_lines;
	bool has_inlines;
};

struct function_key {
	const char *name;
	const char *system_name;
	const char *file;
	uint32_t start_line;
};

struct pprof_writer {
	const struct profile *profile;
	struct pprof_write_options options;
	const struct pprof_type *types;
	size_t type_count;
	struct buffer *out;
	struct buffer message; /* the one that is being written */
	struct buffer part;    /* a message within it */
	struct buffer list;    /* a packed list within it */

	struct buffer sampling;	     /* a text that the strings have */
	struct string_pool texts;    /* others that are not the profile's */
	struct text_numbers strings; /* the profile's texts are kept once */
	struct function_key *functions;
	size_t function_count, function_capacity;
	struct hash_index function_index;
	bool *is_location_used;
	struct mapping_use *mappings;
	uint64_t mapping_number;
	double carried[PROFILE_COUNTERS]; /* what rounding has taken so far */
};

/* The number of a text that belongs to the profile. */
static uint64_t string_number(struct pprof_writer *writer, const char *text)
{
	return text[0] == '\0' ? 0 : text_numbers_add(&writer->strings, text);
}

static void finish_message(struct pprof_writer *writer, uint32_t number)
{
	proto_put_bytes(writer->out, number, writer->message.data, writer->message.size);
	buffer_clear(&writer->message);
}

static void finish_part(struct pprof_writer *writer, uint32_t number)
{
	proto_put_bytes(&writer->message, number, writer->part.data, writer->part.size);
	buffer_clear(&writer->part);
}

static void finish_list(struct pprof_writer *writer, uint32_t number)
{
	proto_put_bytes(&writer->message, number, writer->list.data, writer->list.size);
	buffer_clear(&writer->list);
}

static void write_value_type(
	struct pprof_writer *writer, uint32_t number, const char *type, const char *unit)
{
	proto_put_number(&writer->message, VALUE_TYPE_TYPE, string_number(writer, type));
	proto_put_number(&writer->message, VALUE_TYPE_UNIT, string_number(writer, unit));
	finish_message(writer, number);
}

static void write_types(struct pprof_writer *writer)
{
	const struct profile *const profile = writer->profile;

	for (size_t i = 0; i < writer->type_count; i++) {
		const struct pprof_type *const type = &writer->types[i];
		write_value_type(writer, PPROF_SAMPLE_TYPE, type->type, type->unit);
		if (type->counter == profile->default_counter)
			proto_put_number(writer->out, PPROF_DEFAULT_SAMPLE_TYPE,
				string_number(writer, type->type));
	}
	if (profile->interval_bytes != 0) {
		write_value_type(writer, PPROF_PERIOD_TYPE, "space", "bytes");
		proto_put_number(writer->out, PPROF_PERIOD, profile->interval_bytes);
	}
}

static void write_attributes(struct pprof_writer *writer)
{
	const struct profile *const profile = writer->profile;

	proto_put_number(
		writer->out, PPROF_TIME_NANOS, (uint64_t)profile->time_ms * UINT64_C(1000000));
	proto_put_number(writer->out, PPROF_DURATION_NANOS,
		(uint64_t)profile->duration_ms * UINT64_C(1000000));
	proto_put_number(
		writer->out, PPROF_DROP_FRAMES, string_number(writer, profile->drop_frames));
	proto_put_number(
		writer->out, PPROF_KEEP_FRAMES, string_number(writer, profile->keep_frames));
	for (size_t i = 0; i < profile->comment_count; i++)
		proto_put_varint(&writer->list, string_number(writer, profile->comments[i]));
	profile_describe_sampling(profile, &writer->sampling);
	if (writer->sampling.size != 0)
		proto_put_varint(
			&writer->list, string_number(writer, buffer_string(&writer->sampling)));
	if (profile->comment_count != 0 || writer->sampling.size != 0) {
		proto_put_bytes(writer->out, PPROF_COMMENT, writer->list.data, writer->list.size);
		buffer_clear(&writer->list);
	}
}

/*
 * Rounds so that the sum of what was written stays within one half of the sum of the values.
 * Nothing stays nothing: no other sample's remainder makes it a change.
 */
static int64_t round_carried(double value, double *carried)
{
	static const double largest = 9.2e18;
	double wanted = value + *carried;

	if (value == 0)
		return 0;
	if (!isfinite(wanted) || fabs(wanted) > largest)
		wanted = isnan(wanted) ? 0 : copysign(largest, wanted);
	const double rounded = nearbyint(wanted);
	*carried = wanted - rounded;
	return (int64_t)rounded;
}

static void write_label_text(struct pprof_writer *writer, const char *key, const char *text)
{
	proto_put_number(&writer->part, LABEL_KEY, string_number(writer, key));
	proto_put_number(&writer->part, LABEL_STR, string_number(writer, text));
	finish_part(writer, SAMPLE_LABEL);
}

static void write_label_number(
	struct pprof_writer *writer, const char *key, uint64_t number, const char *unit)
{
	proto_put_number(&writer->part, LABEL_KEY, string_number(writer, key));
	proto_put_number(&writer->part, LABEL_NUM, number);
	proto_put_number(&writer->part, LABEL_NUM_UNIT, string_number(writer, unit));
	finish_part(writer, SAMPLE_LABEL);
}

static void write_labels(struct pprof_writer *writer, const struct profile_sample *sample)
{
	if (sample->thread != PROFILE_NONE) {
		const struct profile_thread *const thread =
			&writer->profile->threads[sample->thread];
		if (thread->name[0] != '\0')
			write_label_text(writer, "thread", thread->name);
		write_label_number(writer, "thread_id", thread->id, "");
	}
	if (sample->object_bytes != 0)
		write_label_number(writer, "bytes", sample->object_bytes, "bytes");
}

static void write_sample(struct pprof_writer *writer, const struct profile_sample *sample)
{
	const struct profile_stack *const stack = &writer->profile->stacks[sample->stack];

	for (uint32_t i = 0; i < stack->depth; i++) {
		const uint32_t location = writer->profile->stack_locations[stack->first + i];
		writer->is_location_used[location] = true;
		proto_put_varint(&writer->list, location + UINT64_C(1));
	}
	finish_list(writer, SAMPLE_LOCATION_ID);
	for (size_t i = 0; i < writer->type_count; i++) {
		const enum profile_counter counter = writer->types[i].counter;
		proto_put_varint(&writer->list, (uint64_t)round_carried(sample->counters[counter],
							&writer->carried[counter]));
	}
	finish_list(writer, SAMPLE_VALUE);
	write_labels(writer, sample);
	finish_message(writer, PPROF_SAMPLE);
}

static bool is_function(const void *items, uint32_t position, const void *key)
{
	const struct function_key *const have = &((const struct function_key *)items)[position];
	const struct function_key *const wanted = key;

	return have->name == wanted->name && have->system_name == wanted->system_name &&
	       have->file == wanted->file && have->start_line == wanted->start_line;
}

static uint64_t function_number(struct pprof_writer *writer, const struct profile_frame *frame)
{
	const struct function_key key = {
		.name = frame->function,
		.system_name = frame->linkage_name,
		.file = frame->file,
		.start_line = frame->start_line,
	};
	const uint64_t names = hash_combine((uintptr_t)key.name, (uintptr_t)key.system_name);
	const uint64_t place = hash_combine((uintptr_t)key.file, key.start_line);
	const uint32_t found = hash_index_add(&writer->function_index, hash_combine(names, place),
		is_function, writer->functions, &key, (uint32_t)writer->function_count);

	if (found != HASH_INDEX_NONE)
		return found + UINT64_C(1);
	*XAPPEND(writer->functions, writer->function_count, writer->function_capacity) = key;
	return writer->function_count;
}

static struct mapping_use *use_mapping(struct pprof_writer *writer, uint32_t mapping)
{
	struct mapping_use *const use = &writer->mappings[mapping];

	if (use->number == 0)
		use->number = ++writer->mapping_number;
	return use;
}

static void note_frames(struct mapping_use *use, const struct profile_location *location,
	const struct profile_frame *frames)
{
	use->has_locations = true;
	use->lacks_functions |= location->frame_count == 0;
	use->has_inlines |= location->frame_count > 1;
	for (uint32_t i = 0; i < location->frame_count; i++) {
		use->lacks_functions |= frames[i].function[0] == '\0';
		use->lacks_files |= frames[i].file[0] == '\0';
		use->lacks_lines |= frames[i].line == 0;
	}
}

static void write_location(struct pprof_writer *writer, uint32_t position)
{
	struct profile_location shown = writer->profile->locations[position];
	const struct profile_location *const location = &shown;

	if (writer->options.strip_names && location->address != 0)
		shown.frame_count = 0;
	const struct profile_frame *const frames =
		location->frame_count == 0 ? NULL : &writer->profile->frames[location->first_frame];

	proto_put_number(&writer->message, LOCATION_ID, position + UINT64_C(1));
	if (location->mapping != PROFILE_NONE) {
		struct mapping_use *const use = use_mapping(writer, location->mapping);
		note_frames(use, location, frames);
		proto_put_number(&writer->message, LOCATION_MAPPING_ID, use->number);
	}
	proto_put_number(&writer->message, LOCATION_ADDRESS,
		location->is_exact || location->address == 0 ? location->address
							     : location->address - 1);
	for (uint32_t i = 0; i < location->frame_count; i++) {
		proto_put_number(
			&writer->part, LINE_FUNCTION_ID, function_number(writer, &frames[i]));
		proto_put_number(&writer->part, LINE_LINE, frames[i].line);
		finish_part(writer, LOCATION_LINE);
	}
	finish_message(writer, PPROF_LOCATION);
}

static void write_mapping(struct pprof_writer *writer, uint32_t position)
{
	const struct profile_mapping *const mapping = &writer->profile->mappings[position];
	const struct mapping_use *const use = &writer->mappings[position];
	const bool has_functions = use->has_locations && !use->lacks_functions;
	struct buffer *const out = &writer->message;

	proto_put_number(out, MAPPING_ID, use->number);
	proto_put_number(out, MAPPING_START, mapping->start);
	proto_put_number(out, MAPPING_LIMIT, mapping->limit);
	proto_put_number(out, MAPPING_OFFSET, mapping->file_offset);
	proto_put_number(out, MAPPING_FILENAME, string_number(writer, mapping->path));
	proto_put_number(out, MAPPING_BUILD_ID, string_number(writer, mapping->build_id));
	proto_put_number(out, MAPPING_HAS_FUNCTIONS, has_functions);
	proto_put_number(out, MAPPING_HAS_FILENAMES, has_functions && !use->lacks_files);
	proto_put_number(out, MAPPING_HAS_LINE_NUMBERS, has_functions && !use->lacks_lines);
	proto_put_number(out, MAPPING_HAS_INLINE_FRAMES, use->has_inlines);
	finish_message(writer, PPROF_MAPPING);
}

static void write_functions(struct pprof_writer *writer)
{
	for (size_t i = 0; i < writer->function_count; i++) {
		const struct function_key *const function = &writer->functions[i];
		const char *const system_name =
			function->system_name[0] != '\0' ? function->system_name : function->name;
		proto_put_number(&writer->message, FUNCTION_ID, i + 1);
		proto_put_number(
			&writer->message, FUNCTION_NAME, string_number(writer, function->name));
		proto_put_number(
			&writer->message, FUNCTION_SYSTEM_NAME, string_number(writer, system_name));
		proto_put_number(
			&writer->message, FUNCTION_FILENAME, string_number(writer, function->file));
		proto_put_number(&writer->message, FUNCTION_START_LINE, function->start_line);
		finish_message(writer, PPROF_FUNCTION);
	}
}

/* pprof takes the first mapping for the program's. */
static void use_program(struct pprof_writer *writer)
{
	const struct profile *const profile = writer->profile;

	for (uint32_t i = 0; i < profile->mapping_count; i++) {
		if (profile->mappings[i].executable && profile->program[0] != '\0' &&
			profile->mappings[i].path == profile->program) {
			use_mapping(writer, i);
			return;
		}
	}
}

static void write_executable(struct pprof_writer *writer, const struct pprof_executable *executable)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	buffer_printf(&text, "executableInfo=0x%x;0x%" PRIx64 ";0x%" PRIx64, executable->elf_type,
		executable->offset, executable->vaddr);
	proto_put_number(writer->out, PPROF_COMMENT,
		string_number(writer, string_pool_add(&writer->texts, buffer_string(&text))));
}

/* Mappings in the order of their numbers. */
static void write_mappings(struct pprof_writer *writer)
{
	CLEANUP(free_cleanup)
	uint32_t *order = xcalloc(writer->mapping_number, sizeof *order);

	for (uint32_t i = 0; i < writer->profile->mapping_count; i++)
		if (writer->mappings[i].number != 0)
			order[writer->mappings[i].number - 1] = i;
	for (uint64_t i = 0; i < writer->mapping_number; i++) {
		write_mapping(writer, order[i]);
		if (writer->options.executables != NULL)
			write_executable(writer, &writer->options.executables[order[i]]);
	}
}

static void write_strings(struct pprof_writer *writer)
{
	for (size_t i = 0; i < writer->strings.count; i++)
		proto_put_bytes(writer->out, PPROF_STRING_TABLE, writer->strings.texts[i],
			strlen(writer->strings.texts[i]));
}

static void write_all(
	struct pprof_writer *writer, const struct profile_sample *samples, size_t sample_count)
{
	write_types(writer);
	write_attributes(writer);
	for (size_t i = 0; i < sample_count; i++)
		write_sample(writer, &samples[i]);
	use_program(writer);
	for (uint32_t i = 0; i < writer->profile->location_count; i++)
		if (writer->is_location_used[i])
			write_location(writer, i);
	write_mappings(writer);
	write_functions(writer);
	write_strings(writer);
}

static void writer_init(
	struct pprof_writer *writer, const struct profile *profile, struct buffer *out)
{
	*writer = (struct pprof_writer){ .profile = profile, .out = out };
	writer->types = pprof_types_of(profile->kind, &writer->type_count);
	buffer_init(&writer->message, &memory_or_exit);
	buffer_init(&writer->part, &memory_or_exit);
	buffer_init(&writer->list, &memory_or_exit);
	buffer_init(&writer->sampling, &memory_or_exit);
	string_pool_init(&writer->texts);
	writer->is_location_used =
		xcalloc(profile->location_count, sizeof *writer->is_location_used);
	writer->mappings = xcalloc(profile->mapping_count, sizeof *writer->mappings);
	/* The first text is the empty one. */
	(void)text_numbers_add(&writer->strings, "");
}

static void writer_deinit(struct pprof_writer *writer)
{
	buffer_deinit(&writer->message);
	buffer_deinit(&writer->part);
	buffer_deinit(&writer->list);
	buffer_deinit(&writer->sampling);
	string_pool_deinit(&writer->texts);
	hash_index_deinit(&writer->function_index);
	text_numbers_deinit(&writer->strings);
	free(writer->functions);
	free(writer->is_location_used);
	free(writer->mappings);
}

bool pprof_write(const struct profile *profile, const struct profile_sample *samples,
	size_t sample_count, const struct pprof_write_options *options, struct buffer *out,
	struct error *err)
{
	struct pprof_writer writer;
	CLEANUP(buffer_deinit) struct buffer plain = BUFFER_OR_EXIT;

	writer_init(&writer, profile, &plain);
	if (options != NULL)
		writer.options = *options;
	write_all(&writer, samples, sample_count);
	writer_deinit(&writer);
	bool done = true;
	if (options != NULL && options->plain)
		buffer_append(out, plain.data, plain.size);
	else
		done = compress_gzip(&plain, out, err);
	if (done && out->failed)
		done = error_set(err, ERROR_MEMORY, "no memory for the profile");
	return done;
}
