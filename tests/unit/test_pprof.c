/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/pprof.h"

#include <math.h>

#include "profile_texts.h"

/*
 * Builds a profile.proto message field by field; texts get their numbers when they are first used.
 */
struct builder {
	struct buffer out;
	struct buffer message;
	const char *strings[64];
	size_t string_count;
};

static void builder_init(struct builder *builder)
{
	buffer_init(&builder->out, &memory_heap);
	buffer_init(&builder->message, &memory_heap);
	builder->strings[0] = "";
	builder->string_count = 1;
}

static void builder_deinit(struct builder *builder)
{
	buffer_deinit(&builder->out);
	buffer_deinit(&builder->message);
}

static uint64_t text(struct builder *builder, const char *value)
{
	for (size_t i = 0; i < builder->string_count; i++)
		if (strcmp(builder->strings[i], value) == 0)
			return i;
	builder->strings[builder->string_count] = value;
	return builder->string_count++;
}

static void number(struct builder *builder, uint32_t field, uint64_t value)
{
	proto_put_number(&builder->message, field, value);
}

static void close_message(struct builder *builder, uint32_t field)
{
	proto_put_bytes(&builder->out, field, builder->message.data, builder->message.size);
	buffer_clear(&builder->message);
}

static void type(struct builder *builder, const char *name, const char *unit)
{
	number(builder, VALUE_TYPE_TYPE, text(builder, name));
	number(builder, VALUE_TYPE_UNIT, text(builder, unit));
	close_message(builder, PPROF_SAMPLE_TYPE);
}

static void strings(struct builder *builder)
{
	for (size_t i = 0; i < builder->string_count; i++)
		proto_put_bytes(&builder->out, PPROF_STRING_TABLE, builder->strings[i],
			strlen(builder->strings[i]));
}

/* One function, inlined into another, at one address of a mapping; sampled with these values. */
static void add_common(struct builder *builder)
{
	for (uint64_t id = 1; id <= 2; id++) {
		number(builder, FUNCTION_ID, 10 * id);
		number(builder, FUNCTION_NAME, text(builder, id == 1 ? "inner" : "outer"));
		number(builder, FUNCTION_SYSTEM_NAME, text(builder, id == 1 ? "_Zi" : "outer"));
		number(builder, FUNCTION_FILENAME, text(builder, "/src/a.c"));
		number(builder, FUNCTION_START_LINE, 7);
		close_message(builder, PPROF_FUNCTION);
	}
	number(builder, MAPPING_ID, 3);
	number(builder, MAPPING_START, 0x1000);
	number(builder, MAPPING_LIMIT, 0x2000);
	number(builder, MAPPING_OFFSET, 0x100);
	number(builder, MAPPING_FILENAME, text(builder, "/bin/server"));
	number(builder, MAPPING_BUILD_ID, text(builder, "abcd"));
	close_message(builder, PPROF_MAPPING);
	number(builder, LOCATION_ID, 5);
	number(builder, LOCATION_MAPPING_ID, 3);
	number(builder, LOCATION_ADDRESS, 0x1234);
	proto_put_bytes(&builder->message, LOCATION_LINE, "\x08\x0a\x10\x0c", 4);
	proto_put_bytes(&builder->message, LOCATION_LINE, "\x08\x14\x10\x22", 4);
	close_message(builder, PPROF_LOCATION);
}

static void add_sample(struct builder *builder, const uint64_t *values, size_t count)
{
	number(builder, SAMPLE_LOCATION_ID, 5);
	for (size_t i = 0; i < count; i++) {
		/* proto_put_number leaves out zeros, which count in a list. */
		proto_put_varint(&builder->message, SAMPLE_VALUE << 3);
		proto_put_varint(&builder->message, values[i]);
	}
	close_message(builder, PPROF_SAMPLE);
}

static struct profile *built(struct builder *builder)
{
	strings(builder);
	struct profile *const profile = must_read(builder->out.data, builder->out.size);
	builder_deinit(builder);
	return profile;
}

static void reads_all_parts(void **state)
{
	(void)state;
	struct builder builder;
	builder_init(&builder);
	type(&builder, "inuse_objects", "count");
	type(&builder, "inuse_space", "bytes");
	add_common(&builder);
	add_sample(&builder, (const uint64_t[]){ 3, 4096 }, 2);
	proto_put_number(&builder.out, PPROF_TIME_NANOS, UINT64_C(1700000000123000000));
	proto_put_number(&builder.out, PPROF_DURATION_NANOS, UINT64_C(30000000000));
	proto_put_number(&builder.out, PPROF_PERIOD, 524288);
	proto_put_number(&builder.out, PPROF_COMMENT, text(&builder, "a remark"));
	proto_put_number(&builder.out, PPROF_DROP_FRAMES, text(&builder, "malloc"));
	proto_put_number(&builder.out, PPROF_DEFAULT_SAMPLE_TYPE, text(&builder, "inuse_objects"));
	CLEANUP(profile_cleanup) struct profile *profile = built(&builder);

	assert_int_equal(profile->kind, PROFILE_HEAP);
	assert_int_equal(profile->weighting, PROFILE_WEIGHTED);
	assert_int_equal(profile->default_counter, PROFILE_INUSE_OBJECTS);
	assert_int_equal(profile->interval_bytes, 524288);
	assert_true(profile->time_ms == INT64_C(1700000000123));
	assert_int_equal(profile->duration_ms, 30000);
	assert_string_equal(profile->comments[0], "a remark");
	assert_string_equal(profile->drop_frames, "malloc");
	assert_string_equal(profile->program, "/bin/server");
	assert_string_equal(profile->mappings[0].build_id, "abcd");
	assert_true(profile->mappings[0].has_functions);
	assert_counters(profile->samples[0].counters, 3, 4096, 0, 0);
	assert_true(address_at(profile, &profile->samples[0], 0) == 0x1234);
	assert_true(profile->locations[0].is_exact);
	assert_int_equal(profile->locations[0].frame_count, 2);
	assert_string_equal(profile->frames[0].function, "inner");
	assert_string_equal(profile->frames[0].linkage_name, "_Zi");
	assert_int_equal(profile->frames[0].line, 12);
	assert_int_equal(profile->frames[0].start_line, 7);
	assert_string_equal(profile->frames[1].function, "outer");
	assert_string_equal(profile->frames[1].linkage_name, "");
	assert_int_equal(profile->frames[1].line, 34);
}

static void sample_types_are_understood_by_their_parts(void **state)
{
	(void)state;
	static const struct {
		const char *types[2][2];
		enum profile_kind kind;
		double counters[PROFILE_COUNTERS];
	} cases[] = {
		{ { { "alloc_objects", "count" }, { "alloc_space", "bytes" } }, PROFILE_HEAP,
			{ 0, 0, 2, 3 } },
		{ { { "objects", "count" }, { "space", "bytes" } }, PROFILE_HEAP, { 2, 3, 0, 0 } },
		{ { { "live_bytes", "kilobytes" }, { "x", "count" } }, PROFILE_HEAP,
			{ 0, 2048, 0, 0 } },
		{ { { "samples", "count" }, { "cpu", "nanoseconds" } }, PROFILE_CPU,
			{ 2, 3, 0, 0 } },
		{ { { "contentions", "count" }, { "delay", "microseconds" } }, PROFILE_CONTENTION,
			{ 2, 3000, 0, 0 } },
		{ { { "samples", "count" }, { "inuse_space", "bytes" } }, PROFILE_HEAP,
			{ 0, 3, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder builder;
		builder_init(&builder);
		for (int j = 0; j < 2; j++)
			type(&builder, cases[i].types[j][0], cases[i].types[j][1]);
		add_common(&builder);
		add_sample(&builder, (const uint64_t[]){ 2, 3 }, 2);
		CLEANUP(profile_cleanup) struct profile *profile = built(&builder);
		assert_int_equal(profile->kind, cases[i].kind);
		assert_memory_equal(
			profile->samples[0].counters, cases[i].counters, sizeof cases[i].counters);
	}
}

static void what_cannot_be_shown_is_refused(void **state)
{
	(void)state;
	struct builder builder;
	builder_init(&builder);
	type(&builder, "goroutine", "count");
	add_common(&builder);
	strings(&builder);
	assert_refused(builder.out.data, builder.out.size, "it has samples of \"goroutine\"");
	builder_deinit(&builder);
}

static void references_to_nothing_are_refused(void **state)
{
	(void)state;
	static const struct {
		uint32_t field;
		const char *bytes;
		size_t size;
		const char *problem;
	} cases[] = {
		{ PPROF_SAMPLE, "\x08\x63", 2, "unknown location id" },
		{ PPROF_SAMPLE, "\x10\x01\x10\x01\x10\x01", 6, "more values than there are types" },
		{ PPROF_LOCATION, "\x08\x07\x10\x63", 4, "unknown mapping id" },
		{ PPROF_LOCATION, "\x08\x07\x22\x02\x08\x63", 6, "unknown function id" },
		{ PPROF_LOCATION, "\x08\x05", 2, "duplicate location id" },
		{ PPROF_FUNCTION, "\x08\x0a", 2, "duplicate function id" },
		{ PPROF_FUNCTION, "\x08\x01\x10\x63", 4, "a text index outside the string table" },
		{ PPROF_MAPPING, "\x08\x03", 2, "duplicate mapping id" },
		{ PPROF_SAMPLE, "\x0a\x05\x01", 3, "it ends too early" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder builder;
		builder_init(&builder);
		type(&builder, "inuse_objects", "count");
		type(&builder, "inuse_space", "bytes");
		add_common(&builder);
		proto_put_bytes(&builder.out, cases[i].field, cases[i].bytes, cases[i].size);
		strings(&builder);
		assert_refused(builder.out.data, builder.out.size, cases[i].problem);
		builder_deinit(&builder);
	}
}

static void a_stack_has_a_limit(void **state)
{
	(void)state;
	const size_t size = PROFILE_STACK_LIMIT + 1;
	CLEANUP(free_cleanup) char *locations = malloc(size);
	struct builder builder;

	assert_non_null(locations);
	memset(locations, 5, size);
	builder_init(&builder);
	type(&builder, "inuse_space", "bytes");
	add_common(&builder);
	strings(&builder);
	proto_put_bytes(&builder.message, SAMPLE_LOCATION_ID, locations, size);
	close_message(&builder, PPROF_SAMPLE);
	assert_refused(builder.out.data, builder.out.size, "a stack of more than 65536 frames");
	builder_deinit(&builder);
}

static void a_profile_is_kept_within_bounds(void **state)
{
	(void)state;
	const struct profile_read_options options = { .max_memory_bytes = 1024 * 1024 };
	struct profile *profile = NULL;
	struct error err = { 0 };
	struct builder builder;

	builder_init(&builder);
	type(&builder, "inuse_space", "bytes");
	strings(&builder);
	for (int i = 0; i < 100000; i++)
		close_message(&builder, PPROF_SAMPLE);
	assert_false(
		profile_read("many", builder.out.data, builder.out.size, &options, &profile, &err));
	assert_contains(err.message, "it is larger than can be kept in memory");
	builder_deinit(&builder);
}

/* go's pprof begins with the types of the samples: a piece of two bytes is enough to know it. */
static void a_piece_of_the_beginning_is_reported_as_one(void **state)
{
	(void)state;
	struct builder builder;

	builder_init(&builder);
	type(&builder, "alloc_objects", "count");
	type(&builder, "alloc_space", "bytes");
	for (size_t size = 2; size < builder.out.size; size++) {
		if (size != builder.out.size / 2) /* a whole field is as good as a whole profile */
			assert_refused(builder.out.data, size, "it ends too early");
	}
	assert_refused(builder.out.data, 1, "too short");
	assert_text_refused("\n\x04hello\n", "not a profile of any known format");
	builder_deinit(&builder);
}

static void every_truncation_is_survived(void **state)
{
	(void)state;
	struct builder builder;
	builder_init(&builder);
	type(&builder, "inuse_objects", "count");
	type(&builder, "inuse_space", "bytes");
	add_common(&builder);
	add_sample(&builder, (const uint64_t[]){ 3, 4096 }, 2);
	strings(&builder);
	for (size_t size = 0; size < builder.out.size; size++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		if (!profile_read("test", builder.out.data, size, NULL, &profile, &err))
			assert_contains(err.message, "test: ");
		profile_free(profile);
	}
	builder_deinit(&builder);
}

static struct profile *written_and_read(const struct profile *profile,
	const struct profile_sample *samples, size_t count, bool plain)
{
	const struct pprof_write_options options = { .plain = plain };
	struct buffer out;
	struct error err = { 0 };

	buffer_init(&out, &memory_heap);
	if (!pprof_write(profile, samples, count, &options, &out, &err))
		fail_msg("%s", err.message);
	struct profile *const again = must_read(out.data, out.size);
	buffer_deinit(&out);
	return again;
}

static const char heap_text[] = "heap_v2/524288\n"
				"  t*: 1: 10 [0: 0]\n"
				"  t4: 1: 10 [0: 0] worker one\n"
				"@ 0x1235 0x5000\n"
				"  t*: 3: 4096 [5: 8192]\n"
				"  t4: 3: 4096 [5: 8192]\n"
				"MAPPED_LIBRARIES:\n"
				"1000-2000 r-xp 00000100 fe:00 1 /bin/server\n"
				"#build-id 1000 abcd\n"
				"2000-3000 r-xp 00000100 fe:00 1 /bin/unused\n";

static void writes_what_it_reads(void **state)
{
	(void)state;
	for (int plain = 0; plain < 2; plain++) {
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(heap_text);
		profile->time_ms = 1700000000123;
		profile->duration_ms = 5000;
		profile_add_comment(profile, "a remark", 8);
		const struct profile_frame frame = { .function = "serve",
			.linkage_name = "_Z5serve",
			.file = "/src/a.c",
			.line = 12,
			.start_line = 10 };
		profile->locations[0].first_frame = profile_add_frame(profile, &frame);
		profile->locations[0].frame_count = 1;
		profile->samples[0].object_bytes = 1024;
		CLEANUP(profile_cleanup)
		struct profile *again =
			written_and_read(profile, profile->samples, profile->sample_count, plain);

		assert_counters(again->samples[0].counters, 3, 4096, 5, 8192);
		assert_int_equal(again->samples[0].object_bytes, 1024);
		assert_int_equal(again->interval_bytes, 524288);
		assert_true(again->time_ms == 1700000000123);
		assert_int_equal(again->duration_ms, 5000);
		assert_string_equal(again->comments[0], "a remark");
		assert_string_equal(again->program, "/bin/server");
		assert_int_equal(again->mapping_count, 1);
		assert_int_equal(again->mappings[0].file_offset, 0x100);
		assert_string_equal(again->mappings[0].build_id, "abcd");
		/* Within the call, and what is outside of all mappings as well. */
		assert_true(address_at(again, &again->samples[0], 0) == 0x1234);
		assert_true(address_at(again, &again->samples[0], 1) == 0x4fff);
		assert_int_equal(again->locations[0].mapping, 0);
		assert_int_equal(again->locations[1].mapping, PROFILE_NONE);
		assert_string_equal(again->frames[0].function, "serve");
		assert_string_equal(again->frames[0].linkage_name, "_Z5serve");
		assert_string_equal(again->frames[0].file, "/src/a.c");
		assert_int_equal(again->frames[0].line, 12);
		assert_int_equal(again->frames[0].start_line, 10);
	}
}

static void takes_no_comment_of_other_tools_for_how_it_was_sampled(void **state)
{
	static const char *const comments[] = { "sampled by another tool", "sampled by heapctlx",
		"sampled by jemalloc\nwith a second line", "sampled by heapctl\x1b[2J" };

	(void)state;
	for (size_t i = 0; i < sizeof comments / sizeof *comments; i++) {
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(heap_text);
		profile_add_comment(profile, comments[i], strlen(comments[i]));
		CLEANUP(profile_cleanup)
		struct profile *const again =
			written_and_read(profile, profile->samples, profile->sample_count, false);
		assert_string_equal(again->sampling, "");
		assert_int_equal(again->comment_count, 1);
		assert_string_equal(again->comments[0], comments[i]);
	}
}

static void keeps_how_it_was_sampled(void **state)
{
	(void)state;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer wanted = BUFFER_OR_EXIT;
	buffer_printf(&text,
		"%s#sampling heapctl since 1763716881123 attached 1763716881100 at 1763717601200\n",
		heap_text);
	struct profile *profile = must_read_text(buffer_string(&text));
	profile_describe_sampling(profile, &wanted);
	assert_contains(buffer_string(&wanted), "since the attach 12 min earlier");

	/* Also when it is written again. */
	for (int i = 0; i < 2; i++) {
		CLEANUP(buffer_deinit) struct buffer said = BUFFER_OR_EXIT;
		struct profile *const again =
			written_and_read(profile, profile->samples, profile->sample_count, false);
		profile_describe_sampling(again, &said);
		assert_string_equal(buffer_string(&said), buffer_string(&wanted));
		assert_int_equal(again->comment_count, 0);
		profile_free(profile);
		profile = again;
	}
	profile_free(profile);
}

static void threads_are_labels(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(heap_text);
	CLEANUP(profile_cleanup)
	struct profile *again = written_and_read(
		profile, profile->thread_samples, profile->thread_sample_count, false);

	assert_int_equal(again->thread_count, 1);
	assert_int_equal(again->threads[0].id, 4);
	assert_string_equal(again->threads[0].name, "worker one");
	assert_int_equal(again->sample_count, 1);
	assert_int_equal(again->thread_sample_count, 1);
	assert_counters(again->thread_samples[0].counters, 3, 4096, 5, 8192);
}

static void the_first_thread_keeps_its_number(void **state)
{
	(void)state;
	static const char text_of_two[] = "heap_v2/1\n  t*: 2: 2 [0: 0]\n  t0: 1: 1 [0: 0]\n"
					  "  t1: 1: 1 [0: 0]\n@ 0x1235\n  t*: 2: 2 [0: 0]\n"
					  "  t0: 1: 1 [0: 0]\n  t1: 1: 1 [0: 0]\n";
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(text_of_two);
	CLEANUP(profile_cleanup)
	struct profile *again = written_and_read(
		profile, profile->thread_samples, profile->thread_sample_count, false);

	assert_int_equal(again->thread_count, 2);
	assert_int_equal(again->threads[0].id, 0);
	assert_int_equal(again->threads[1].id, 1);
}

static void rounding_keeps_the_sum(void **state)
{
	(void)state;
	enum { COUNT = 1000 };
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(heap_text);
	struct profile_sample samples[COUNT];
	double exact = 0;
	double written = 0;

	for (int i = 0; i < COUNT; i++) {
		samples[i] = (struct profile_sample){ .thread = PROFILE_NONE };
		samples[i].counters[PROFILE_INUSE_OBJECTS] = 1.0 + 0.37 * (i % 3);
		samples[i].counters[PROFILE_ALLOC_SPACE] = i % 2 ? -1e30 : NAN;
		exact += samples[i].counters[PROFILE_INUSE_OBJECTS];
	}
	CLEANUP(profile_cleanup)
	struct profile *again = written_and_read(profile, samples, COUNT, false);
	for (int i = 0; i < COUNT; i++) {
		const double value = again->samples[i].counters[PROFILE_INUSE_OBJECTS];
		assert_true(fabs(value - samples[i].counters[PROFILE_INUSE_OBJECTS]) <= 1);
		written += value;
	}
	assert_true(fabs(written - exact) <= 0.5);
}

/* Go's pprof looks for symbols itself unless a mapping says that all of them are there. */
static void mappings_are_flagged_honestly(void **state)
{
	(void)state;
	static const char flagged[] = { 0x38, 1, 0x40, 1, 0x48, 1 };
	static const char text_of_two[] = "heap_v2/1\nt*: 1: 1 [0: 0]\n@ 0x1235 0x1300\n"
					  "t*: 1: 1 [0: 0]\nMAPPED_LIBRARIES:\n"
					  "1000-2000 r-xp 00000100 fe:00 1 /bin/server\n";
	const struct pprof_write_options options = { .plain = true };
	const struct profile_frame frame = { .function = "f", .file = "a.c", .line = 1 };

	for (uint32_t named = 0; named <= 2; named++) {
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(text_of_two);
		for (uint32_t i = 0; i < named; i++) {
			profile->locations[i].first_frame = profile_add_frame(profile, &frame);
			profile->locations[i].frame_count = 1;
		}
		struct buffer out;
		struct error err = { 0 };
		buffer_init(&out, &memory_heap);
		assert_true(pprof_write(
			profile, profile->samples, profile->sample_count, &options, &out, &err));
		assert_int_equal(
			memmem(out.data, out.size, flagged, sizeof flagged) != NULL, named == 2);
		buffer_deinit(&out);
	}
}

/* Of a long text that everything shares, each use costs the same as of a short one. */
static void shared_texts_are_read_once(void **state)
{
	(void)state;
	enum { ITEMS = 2000, TEXT_BYTES = 100000 };
	static char name[TEXT_BYTES];
	struct builder builder;

	memset(name, 'x', sizeof name - 1);
	builder_init(&builder);
	type(&builder, "inuse_space", "bytes");
	for (uint64_t id = 1; id <= ITEMS; id++) {
		number(&builder, MAPPING_ID, id);
		number(&builder, MAPPING_START, id << 12);
		number(&builder, MAPPING_LIMIT, (id + 1) << 12);
		number(&builder, MAPPING_FILENAME, text(&builder, name));
		close_message(&builder, PPROF_MAPPING);
		number(&builder, FUNCTION_ID, id);
		number(&builder, FUNCTION_NAME, text(&builder, name));
		number(&builder, FUNCTION_FILENAME, text(&builder, name));
		close_message(&builder, PPROF_FUNCTION);
		struct buffer line;
		buffer_init(&line, &memory_heap);
		proto_put_number(&line, LINE_FUNCTION_ID, id);
		number(&builder, LOCATION_ID, id);
		proto_put_bytes(&builder.message, LOCATION_LINE, line.data, line.size);
		close_message(&builder, PPROF_LOCATION);
		buffer_deinit(&line);
		proto_put_number(&builder.out, PPROF_COMMENT, text(&builder, name));
	}
	struct profile *const profile = built(&builder);
	assert_int_equal(profile->location_count, ITEMS);
	assert_int_equal(profile->comment_count, ITEMS);
	assert_int_equal(strlen(profile->frames[ITEMS - 1].function), TEXT_BYTES - 1);
	assert_in_range(profile->strings.read_bytes, TEXT_BYTES - 1, 2 * TEXT_BYTES);
	profile_free(profile);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_all_parts),
	cmocka_unit_test(sample_types_are_understood_by_their_parts),
	cmocka_unit_test(what_cannot_be_shown_is_refused),
	cmocka_unit_test(references_to_nothing_are_refused),
	cmocka_unit_test(a_stack_has_a_limit),
	cmocka_unit_test(a_profile_is_kept_within_bounds),
	cmocka_unit_test(a_piece_of_the_beginning_is_reported_as_one),
	cmocka_unit_test(every_truncation_is_survived),
	cmocka_unit_test(writes_what_it_reads),
	cmocka_unit_test(takes_no_comment_of_other_tools_for_how_it_was_sampled),
	cmocka_unit_test(keeps_how_it_was_sampled),
	cmocka_unit_test(threads_are_labels),
	cmocka_unit_test(the_first_thread_keeps_its_number),
	cmocka_unit_test(rounding_keeps_the_sum),
	cmocka_unit_test(mappings_are_flagged_honestly),
	cmocka_unit_test(shared_texts_are_read_once),
};
UNIT_MAIN(tests)
