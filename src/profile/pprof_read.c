/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/pprof.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "base/hash_index.h"
#include "profile/readers.h"

/* Far beyond what any profile has: a few bytes each could otherwise fill the memory. */
enum {
	MAX_COLUMNS = 256,
	MAX_MAPPINGS = 1 << 20,
	MAX_FUNCTIONS = 1 << 25,
};

struct pprof_function {
	const char *name;
	const char *system_name;
	const char *file;
	uint32_t start_line;
};

struct numbered_mapping {
	struct profile_mapping mapping;
	uint64_t id;
};

/* One of a sample's values. */
struct pprof_column {
	const char *type;
	bool is_used;
	struct pprof_meaning meaning;
};

struct pprof_reader {
	struct cursor whole; /* at the beginning; takes the first failure */
	struct profile *profile;
	const char **strings;
	size_t string_count, string_capacity;
	struct pprof_column *columns;
	size_t column_count, column_capacity;
	struct numbered_mapping *mappings;
	size_t mapping_count, mapping_capacity;
	struct pprof_function *functions;
	size_t function_count, function_capacity;
	uint32_t *stack;
	size_t stack_capacity;
	struct u64_table mapping_ids;
	struct u64_table function_ids;
	struct u64_table location_ids;
	struct u64_table thread_ids;
	const char *default_type;
	const char *empty; /* the profile's own "" */
};

/* False when the id is taken. */
static bool add_id(struct u64_table *ids, uint64_t id)
{
	if (u64_table_find(ids, id) != U64_TABLE_NONE)
		return false;
	u64_table_add(ids, id);
	return true;
}

typedef void read_field(struct pprof_reader *reader, struct proto_field *field);

/* Calls `read` for every top-level field of this number, until something fails. */
static void for_each(struct pprof_reader *reader, uint32_t number, read_field *read)
{
	struct cursor in = reader->whole;
	struct proto_field field;

	while (cursor_ok(&reader->whole) && proto_next(&in, &field))
		if (field.number == number && field.wire == PROTO_BYTES)
			read(reader, &field);
	proto_join(&reader->whole, &in);
}

static const char *string_at(struct pprof_reader *reader, struct cursor *in, uint64_t index)
{
	if (index < reader->string_count)
		return reader->strings[index];
	/* Without a table every text is empty, and so is the first one by definition. */
	if (index != 0)
		cursor_fail(in, "a text index outside the string table");
	return reader->empty;
}

static void read_string(struct pprof_reader *reader, struct proto_field *field)
{
	*XAPPEND(reader->strings, reader->string_count, reader->string_capacity) =
		string_pool_add_sized(&reader->profile->strings,
			(const char *)field->bytes.position, cursor_left(&field->bytes));
	if (profile_is_full(reader->profile))
		cursor_fail(&reader->whole, PROFILE_FULL_PROBLEM);
}

static void read_column(struct pprof_reader *reader, struct proto_field *field)
{
	struct cursor in = field->bytes;
	struct proto_field part;
	uint64_t type = 0;
	uint64_t unit = 0;

	while (proto_next(&in, &part)) {
		if (part.number == VALUE_TYPE_TYPE)
			type = part.value;
		else if (part.number == VALUE_TYPE_UNIT)
			unit = part.value;
	}
	if (reader->column_count == MAX_COLUMNS)
		cursor_fail(&in, "more kinds of samples than a profile has");
	struct pprof_column column = { .type = string_at(reader, &in, type) };
	const char *const unit_name = string_at(reader, &in, unit);
	column.is_used = pprof_type_parse(column.type, unit_name, &column.meaning);
	proto_join(&reader->whole, &in);
	*XAPPEND(reader->columns, reader->column_count, reader->column_capacity) = column;
}

/*
 * Of several kinds the first in the order of the enumeration counts; of equal columns, the first.
 */
static bool choose_columns(struct pprof_reader *reader)
{
	bool is_taken[PROFILE_COUNTERS] = { false };
	enum profile_kind kind = PROFILE_CONTENTION;
	bool has_any = false;

	for (size_t i = 0; i < reader->column_count; i++) {
		const struct pprof_column *const column = &reader->columns[i];
		has_any |= column->is_used;
		if (column->is_used && column->meaning.kind < kind)
			kind = column->meaning.kind;
	}
	for (size_t i = 0; i < reader->column_count; i++) {
		struct pprof_column *const column = &reader->columns[i];
		bool *const taken = &is_taken[column->meaning.counter];
		column->is_used = column->is_used && column->meaning.kind == kind && !*taken;
		*taken |= column->is_used;
	}
	reader->profile->kind = kind;
	return has_any;
}

static bool refuse_columns(const struct pprof_reader *reader, struct error *err)
{
	const char *const first = reader->column_count == 0 ? "" : reader->columns[0].type;

	if (first[0] == '\0')
		return error_set(err, ERROR_INPUT, "it does not say what was sampled");
	error_set(err, ERROR_INPUT, "it has samples of \"%.100s\"", first);
	return error_hint(err, "heap, CPU and contention profiles can be shown");
}

/* Whether profile_describe_sampling says it: other tools may begin a comment like that, too. */
static bool is_sampling(const char *text)
{
	static const char *const words[] = { PROFILE_SAMPLING_WORDS "heapctl",
		PROFILE_SAMPLING_WORDS "jemalloc" };

	for (const char *at = text; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			return false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const size_t size = strlen(words[i]);
		if (strncmp(text, words[i], size) == 0 &&
			(text[size] == '\0' || text[size] == ' ' || text[size] == ','))
			return true;
	}
	return false;
}

/* Written anew as a comment when the profile is, so it is none until then. */
static bool take_sampling(struct profile *profile, const char *text)
{
	if (profile->sampling[0] != '\0' || !is_sampling(text))
		return false;
	profile->sampling = text;
	return true;
}

/* Fields of the profile that are a single number each. */
static void read_attributes(struct pprof_reader *reader)
{
	struct profile *const profile = reader->profile;
	struct cursor in = reader->whole;
	struct proto_field field;
	uint64_t comment = 0;

	while (proto_next(&in, &field)) {
		switch (field.number) {
		case PPROF_DROP_FRAMES:
			profile->drop_frames = string_at(reader, &in, field.value);
			break;
		case PPROF_KEEP_FRAMES:
			profile->keep_frames = string_at(reader, &in, field.value);
			break;
		case PPROF_TIME_NANOS:
			profile->time_ms = (int64_t)field.value / 1000000;
			break;
		case PPROF_DURATION_NANOS:
			profile->duration_ms = (int64_t)field.value / 1000000;
			break;
		case PPROF_PERIOD:
			profile->interval_bytes = (int64_t)field.value < 0 ? 0 : field.value;
			break;
		case PPROF_DEFAULT_SAMPLE_TYPE:
			reader->default_type = string_at(reader, &in, field.value);
			break;
		case PPROF_COMMENT:
			while (proto_repeated(&in, &field, &comment)) {
				const char *const text = string_at(reader, &in, comment);
				if (!take_sampling(profile, text))
					profile_add_own_comment(profile, text);
			}
			break;
		default:
			break;
		}
	}
	proto_join(&reader->whole, &in);
}

/* The type that the profile names; else the last one, as in go's pprof. */
static void set_default_counter(struct pprof_reader *reader)
{
	bool is_named = false;

	for (size_t i = 0; i < reader->column_count && !is_named; i++) {
		if (!reader->columns[i].is_used)
			continue;
		is_named = reader->columns[i].type == reader->default_type;
		reader->profile->default_counter = reader->columns[i].meaning.counter;
	}
}

static void read_mapping(struct pprof_reader *reader, struct proto_field *field)
{
	struct cursor in = field->bytes;
	struct proto_field part;
	struct numbered_mapping read = { .mapping = { .executable = true } };
	uint64_t path = 0;
	uint64_t build_id = 0;

	while (proto_next(&in, &part)) {
		switch (part.number) {
		case MAPPING_ID:
			read.id = part.value;
			break;
		case MAPPING_START:
			read.mapping.start = part.value;
			break;
		case MAPPING_LIMIT:
			read.mapping.limit = part.value;
			break;
		case MAPPING_OFFSET:
			read.mapping.file_offset = part.value;
			break;
		case MAPPING_FILENAME:
			path = part.value;
			break;
		case MAPPING_BUILD_ID:
			build_id = part.value;
			break;
		default:
			break;
		}
	}
	if (reader->mapping_count == MAX_MAPPINGS)
		cursor_fail(&in, "more mappings than a program has");
	read.mapping.path = string_at(reader, &in, path);
	read.mapping.build_id = string_at(reader, &in, build_id);
	proto_join(&reader->whole, &in);
	*XAPPEND(reader->mappings, reader->mapping_count, reader->mapping_capacity) = read;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct profile_mapping *const left = &((const struct numbered_mapping *)a)->mapping;
	const struct profile_mapping *const right = &((const struct numbered_mapping *)b)->mapping;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->limit < right->limit ? -1 : left->limit > right->limit;
}

/* The first one is the program's, by pprof's convention. */
static void add_mappings(struct pprof_reader *reader)
{
	if (reader->mapping_count == 0)
		return;
	reader->profile->has_mappings = true;
	reader->profile->program = reader->mappings[0].mapping.path;
	qsort(reader->mappings, reader->mapping_count, sizeof *reader->mappings, compare_mappings);
	for (size_t i = 0; i < reader->mapping_count; i++) {
		if (!add_id(&reader->mapping_ids, reader->mappings[i].id)) {
			cursor_fail(&reader->whole, "duplicate mapping id");
			return;
		}
		profile_add_own_mapping(reader->profile, &reader->mappings[i].mapping);
	}
}

static uint32_t line_number(uint64_t value)
{
	return value > UINT32_MAX ? 0 : (uint32_t)value;
}

static void read_function(struct pprof_reader *reader, struct proto_field *field)
{
	struct cursor in = field->bytes;
	struct proto_field part;
	struct pprof_function function = { 0 };
	uint64_t id = 0;
	uint64_t name = 0;
	uint64_t system_name = 0;
	uint64_t file = 0;

	while (proto_next(&in, &part)) {
		switch (part.number) {
		case FUNCTION_ID:
			id = part.value;
			break;
		case FUNCTION_NAME:
			name = part.value;
			break;
		case FUNCTION_SYSTEM_NAME:
			system_name = part.value;
			break;
		case FUNCTION_FILENAME:
			file = part.value;
			break;
		case FUNCTION_START_LINE:
			function.start_line = line_number(part.value);
			break;
		default:
			break;
		}
	}
	function.name = string_at(reader, &in, name);
	function.system_name = string_at(reader, &in, system_name);
	function.file = string_at(reader, &in, file);
	if (reader->function_count == MAX_FUNCTIONS)
		cursor_fail(&in, "more functions than a program has");
	if (cursor_ok(&in) && !add_id(&reader->function_ids, id))
		cursor_fail(&in, "duplicate function id");
	proto_join(&reader->whole, &in);
	*XAPPEND(reader->functions, reader->function_count, reader->function_capacity) = function;
}

/* Adds the frame of a line of a location. */
static void read_line(struct pprof_reader *reader, struct cursor *bytes)
{
	struct cursor in = *bytes;
	struct proto_field part;
	uint64_t id = 0;
	uint64_t line = 0;

	while (proto_next(&in, &part)) {
		if (part.number == LINE_FUNCTION_ID)
			id = part.value;
		else if (part.number == LINE_LINE)
			line = part.value;
	}
	const uint32_t found = u64_table_find(&reader->function_ids, id);
	if (cursor_ok(&in) && found == U64_TABLE_NONE)
		cursor_fail(&in, "unknown function id");
	if (cursor_ok(&in)) {
		const struct pprof_function *const function = &reader->functions[found];
		const bool is_mangled = function->system_name != function->name;
		profile_add_own_frame(reader->profile,
			&(struct profile_frame){ .function = function->name,
				.linkage_name = is_mangled ? function->system_name : reader->empty,
				.file = function->file,
				.line = line_number(line),
				.start_line = function->start_line });
	}
	proto_join(&reader->whole, &in);
}

static void read_location(struct pprof_reader *reader, struct proto_field *field)
{
	struct profile *const profile = reader->profile;
	struct cursor in = field->bytes;
	struct proto_field part;
	struct profile_location location = {
		.mapping = PROFILE_NONE,
		.first_frame = (uint32_t)profile->frame_count,
		.is_exact = true,
	};
	uint64_t id = 0;
	uint64_t mapping_id = 0;

	while (proto_next(&in, &part)) {
		if (part.number == LOCATION_ID)
			id = part.value;
		else if (part.number == LOCATION_MAPPING_ID)
			mapping_id = part.value;
		else if (part.number == LOCATION_ADDRESS)
			location.address = part.value;
		else if (part.number == LOCATION_LINE)
			read_line(reader, &part.bytes);
	}
	if (mapping_id != 0) {
		location.mapping = u64_table_find(&reader->mapping_ids, mapping_id);
		if (location.mapping == U64_TABLE_NONE)
			cursor_fail(&in, "unknown mapping id");
	}
	if (cursor_ok(&in) && !add_id(&reader->location_ids, id))
		cursor_fail(&in, "duplicate location id");
	if (profile_is_full(profile))
		cursor_fail(&in, PROFILE_FULL_PROBLEM);
	proto_join(&reader->whole, &in);
	location.frame_count = (uint32_t)profile->frame_count - location.first_frame;
	location.is_named = location.address == 0 && location.frame_count != 0;
	profile_add_location(profile, &location);
}

struct label {
	uint64_t key;
	uint64_t text;
	uint64_t number;
};

static struct label parse_label(struct cursor *in)
{
	struct proto_field part;
	struct label label = { 0 };

	while (proto_next(in, &part)) {
		if (part.number == LABEL_KEY)
			label.key = part.value;
		else if (part.number == LABEL_STR)
			label.text = part.value;
		else if (part.number == LABEL_NUM)
			label.number = part.value;
	}
	return label;
}

/* What the labels of a sample say of its thread. */
struct thread_label {
	bool is_there;
	bool has_id; /* which is 0 for jemalloc's first thread; protobuf leaves zeros out */
	uint64_t id;
	uint64_t name; /* in the table of texts */
};

static uint32_t find_thread(struct pprof_reader *reader, const struct thread_label *label)
{
	/* One that has only a name gets a number that no real one has. */
	const uint64_t id = label->has_id ? label->id : ~label->name;
	const uint32_t found = u64_table_find(&reader->thread_ids, id);

	if (found != U64_TABLE_NONE)
		return found;
	u64_table_add(&reader->thread_ids, id);
	return profile_add_own_thread(
		reader->profile, id, string_at(reader, &reader->whole, label->name));
}

static void read_label(struct pprof_reader *reader, struct cursor *bytes,
	struct profile_sample *sample, struct thread_label *thread)
{
	struct cursor in = *bytes;
	const struct label label = parse_label(&in);
	const char *const key = string_at(reader, &in, label.key);

	if (cursor_ok(&in) && strcmp(key, "bytes") == 0) {
		sample->object_bytes = label.number;
	} else if (cursor_ok(&in) && strcmp(key, "thread_id") == 0) {
		thread->is_there = true;
		thread->has_id = label.text == 0;
		thread->id = label.number;
	} else if (cursor_ok(&in) && strcmp(key, "thread") == 0) {
		thread->is_there = true;
		thread->name = label.text;
	}
	proto_join(&reader->whole, &in);
}

static size_t read_stack(
	struct pprof_reader *reader, struct cursor *in, struct proto_field *part, size_t depth)
{
	uint64_t id = 0;

	while (proto_repeated(in, part, &id)) {
		const uint32_t location = u64_table_find(&reader->location_ids, id);
		if (location == U64_TABLE_NONE)
			cursor_fail(in, "unknown location id");
		else if (depth == PROFILE_STACK_LIMIT)
			cursor_fail(in, PROFILE_STACK_PROBLEM);
		*XAPPEND(reader->stack, depth, reader->stack_capacity) = location;
	}
	return depth;
}

static void set_value(struct pprof_reader *reader, struct cursor *in, struct profile_sample *sample,
	size_t column, uint64_t value)
{
	if (column >= reader->column_count) {
		cursor_fail(in, "a sample with more values than there are types");
	} else if (reader->columns[column].is_used) {
		const struct pprof_meaning *const meaning = &reader->columns[column].meaning;
		sample->counters[meaning->counter] = (double)(int64_t)value * meaning->scale;
		if (fabs(sample->counters[meaning->counter]) >= PROFILE_COUNT_LIMIT)
			cursor_fail(in, PROFILE_COUNT_PROBLEM);
	}
}

static void add_sample(struct pprof_reader *reader, struct profile_sample *sample, size_t depth,
	const struct thread_label *thread)
{
	struct profile *const profile = reader->profile;

	sample->stack = profile_add_stack(profile, reader->stack, depth);
	profile_add_sample(profile, sample);
	if (!thread->is_there)
		return;
	sample->thread = find_thread(reader, thread);
	profile_add_sample(profile, sample);
}

static void read_sample(struct pprof_reader *reader, struct proto_field *field)
{
	struct cursor in = field->bytes;
	struct proto_field part;
	struct profile_sample sample = { .thread = PROFILE_NONE };
	struct thread_label thread = { 0 };
	uint64_t value = 0;
	size_t depth = 0;
	size_t column = 0;

	while (proto_next(&in, &part)) {
		if (part.number == SAMPLE_LOCATION_ID)
			depth = read_stack(reader, &in, &part, depth);
		else if (part.number == SAMPLE_VALUE)
			while (proto_repeated(&in, &part, &value))
				set_value(reader, &in, &sample, column++, value);
		else if (part.number == SAMPLE_LABEL)
			read_label(reader, &part.bytes, &sample, &thread);
	}
	if (profile_is_full(reader->profile))
		cursor_fail(&in, PROFILE_FULL_PROBLEM);
	proto_join(&reader->whole, &in);
	if (cursor_ok(&reader->whole))
		add_sample(reader, &sample, depth, &thread);
}

/* Strings come last in most files and are needed first, so the input is read once for each kind. */
static bool read_all(struct pprof_reader *reader, struct error *err)
{
	for_each(reader, PPROF_STRING_TABLE, read_string);
	for_each(reader, PPROF_SAMPLE_TYPE, read_column);
	if (cursor_ok(&reader->whole) && !choose_columns(reader))
		return refuse_columns(reader, err);
	read_attributes(reader);
	if (reader->profile->kind != PROFILE_HEAP)
		reader->profile->interval_bytes = 0;
	set_default_counter(reader);
	for_each(reader, PPROF_MAPPING, read_mapping);
	add_mappings(reader);
	for_each(reader, PPROF_FUNCTION, read_function);
	for_each(reader, PPROF_LOCATION, read_location);
	for_each(reader, PPROF_SAMPLE, read_sample);
	return cursor_ok(&reader->whole);
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct pprof_reader reader = { .whole = *in,
		.profile = profile,
		.default_type = "",
		.empty = profile_intern(profile, "") };

	u64_table_init(&reader.mapping_ids, profile->hash_seed);
	u64_table_init(&reader.function_ids, profile->hash_seed);
	u64_table_init(&reader.location_ids, profile->hash_seed);
	u64_table_init(&reader.thread_ids, profile->hash_seed);
	profile->weighting = PROFILE_WEIGHTED;
	const bool done = read_all(&reader, err);
	proto_join(in, &reader.whole);
	u64_table_deinit(&reader.mapping_ids);
	u64_table_deinit(&reader.function_ids);
	u64_table_deinit(&reader.location_ids);
	u64_table_deinit(&reader.thread_ids);
	free(reader.strings);
	free(reader.columns);
	free(reader.mappings);
	free(reader.functions);
	free(reader.stack);
	return done;
}

/*
 * The first field is the type of a sample: a short message with at most two small numbers. No text
 * begins like that, so even a piece that was cut within it is known for what it is.
 */
static bool begins_with_type(struct cursor in)
{
	enum { BYTES_FIELD = PPROF_SAMPLE_TYPE << 3 | PROTO_BYTES, MAX_BYTES = 8 };
	const uint8_t tag = cursor_u8(&in);
	const uint8_t size = cursor_u8(&in);

	if (!cursor_ok(&in) || tag != BYTES_FIELD || size < 2 || size > MAX_BYTES)
		return false;
	const uint8_t first = cursor_left(&in) == 0 ? VALUE_TYPE_TYPE << 3 : *in.position;
	return first == VALUE_TYPE_TYPE << 3 || first == VALUE_TYPE_UNIT << 3;
}

/* The first few fields must be ones that a profile has, in the form that they have. */
static bool detect(struct cursor in)
{
	enum { TRIED_FIELDS = 16, LAST_MESSAGE = PPROF_STRING_TABLE, LAST_FIELD = 15 };
	const bool is_sure = begins_with_type(in);
	struct proto_field field;
	bool has_message = false;

	for (int i = 0; i < TRIED_FIELDS && proto_next(&in, &field); i++) {
		const bool is_message =
			field.number <= LAST_MESSAGE || field.number == PPROF_PERIOD_TYPE;
		const bool has_bytes = field.wire == PROTO_BYTES;
		if (field.number > LAST_FIELD || field.wire == PROTO_FIXED32 ||
			field.wire == PROTO_FIXED64)
			return false;
		if (is_message != has_bytes && field.number != PPROF_COMMENT)
			return false;
		has_message |= is_message;
	}
	return is_sure || (has_message && cursor_ok(&in));
}

const struct profile_reader pprof_reader = { detect, read_profile, true };
