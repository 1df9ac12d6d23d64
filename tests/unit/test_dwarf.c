/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "elf_builder.h"
#include "section_bytes.h"
#include "symbol/dwarf_constants.h"
#include "unit.h"

/* The kinds of DIE that the tests write: .debug_abbrev in one table. */
enum abbrev {
	UNIT = 1,
	FUNCTION,	     /* name, low_pc, size */
	ABSTRACT,	     /* name */
	INLINED,	     /* origin, low_pc, size, call_line */
	STRUCT_WITH_SIBLING, /* sibling */
	CONCRETE,	     /* origin, low_pc, size */
	REFERRING,	     /* origin */
	FIXED,		     /* sibling, origin, low_pc, size of one byte */
	VARYING,	     /* block, text, number, sibling; behind them a byte */
	RANGED_UNIT,	     /* ranges */
};

struct writer {
	struct buffer info;
	struct buffer abbrev;
	struct buffer lines;
	struct buffer ranges;
};

/* The attributes are pairs of name and form, ended by two zeros; all numbers are below 128. */
static void abbrev(struct writer *w, unsigned code, unsigned tag, bool has_children,
	const unsigned char *attributes, size_t size)
{
	u8(&w->abbrev, code);
	u8(&w->abbrev, tag);
	u8(&w->abbrev, has_children);
	buffer_append(&w->abbrev, attributes, size);
	u16(&w->abbrev, 0);
}

#define ABBREV(w, code, tag, has_children, ...)                                      \
	do {                                                                         \
		static const unsigned char attributes_[] = { __VA_ARGS__ };          \
		abbrev(w, code, tag, has_children, attributes_, sizeof attributes_); \
	} while (0)

static void writer_init(struct writer *w)
{
	buffer_init(&w->info, &memory_heap);
	buffer_init(&w->abbrev, &memory_heap);
	buffer_init(&w->lines, &memory_heap);
	buffer_init(&w->ranges, &memory_heap);
	ABBREV(w, UNIT, DW_TAG_compile_unit, true, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
		DW_FORM_data4, DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_comp_dir, DW_FORM_string);
	ABBREV(w, FUNCTION, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_low_pc,
		DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4);
	ABBREV(w, ABSTRACT, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string);
	ABBREV(w, INLINED, DW_TAG_inlined_subroutine, true, DW_AT_abstract_origin, DW_FORM_ref_addr,
		DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4, DW_AT_call_line,
		DW_FORM_data1);
	ABBREV(w, STRUCT_WITH_SIBLING, 0x13, true, DW_AT_sibling, DW_FORM_ref4);
	ABBREV(w, CONCRETE, DW_TAG_subprogram, true, DW_AT_abstract_origin, DW_FORM_ref_addr,
		DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4);
	ABBREV(w, REFERRING, DW_TAG_subprogram, false, DW_AT_abstract_origin, DW_FORM_ref_addr);
	ABBREV(w, FIXED, DW_TAG_subprogram, true, DW_AT_sibling, DW_FORM_ref4,
		DW_AT_abstract_origin, DW_FORM_ref_addr, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
		DW_FORM_data1);
	ABBREV(w, VARYING, 0x34, true, 0x02, DW_FORM_block1, DW_AT_name, DW_FORM_string, 0x1c,
		DW_FORM_udata, DW_AT_sibling, DW_FORM_ref4, 0x3b, DW_FORM_data1);
	ABBREV(w, RANGED_UNIT, DW_TAG_compile_unit, false, DW_AT_ranges, DW_FORM_sec_offset);
	u8(&w->abbrev, 0);
}

static void writer_deinit(struct writer *w)
{
	buffer_deinit(&w->info);
	buffer_deinit(&w->abbrev);
	buffer_deinit(&w->lines);
	buffer_deinit(&w->ranges);
}

/* Returns where the unit begins; unit_end writes its length. */
static size_t unit_begin(struct writer *w, uint64_t low_pc, uint32_t size)
{
	const size_t start = w->info.size;

	u32(&w->info, 0);
	u16(&w->info, 4);
	u32(&w->info, 0);
	u8(&w->info, 8);
	u8(&w->info, UNIT);
	u64(&w->info, low_pc);
	u32(&w->info, size);
	u32(&w->info, 0);
	text(&w->info, "/src");
	return start;
}

static void unit_end(struct writer *w, size_t start)
{
	const uint32_t length = (uint32_t)(w->info.size - start - 4);

	u8(&w->info, 0);
	const uint32_t whole = length + 1;
	memcpy(w->info.data + start, &whole, sizeof whole);
}

static uint32_t function(struct writer *w, const char *name, uint64_t low_pc, uint32_t size)
{
	const uint32_t at = (uint32_t)w->info.size;

	u8(&w->info, FUNCTION);
	text(&w->info, name);
	u64(&w->info, low_pc);
	u32(&w->info, size);
	return at;
}

static uint32_t abstract(struct writer *w, const char *name)
{
	const uint32_t at = (uint32_t)w->info.size;

	u8(&w->info, ABSTRACT);
	text(&w->info, name);
	return at;
}

static void inlined(
	struct writer *w, uint32_t origin, uint64_t low_pc, uint32_t size, unsigned call_line)
{
	u8(&w->info, INLINED);
	u32(&w->info, origin);
	u64(&w->info, low_pc);
	u32(&w->info, size);
	u8(&w->info, call_line);
}

static void end_children(struct writer *w)
{
	u8(&w->info, 0);
}

/* What was found for some addresses; the reader stays open until reading_end. */
struct reading {
	struct elf_builder builder;
	struct elf_image image;
	struct file_search search;
	struct symbolizer_options options;
	struct dwarf_reader *reader;
	uint64_t vaddrs[16];
	bool is_function[16];
	const struct dwarf_answer *answers;
};

static void read_all(
	struct reading *reading, const struct writer *w, const uint64_t *vaddrs, size_t count)
{
	struct error err;

	*reading = (struct reading){ 0 };
	memcpy(reading->vaddrs, vaddrs, count * sizeof *vaddrs);
	memset(reading->is_function, true, sizeof reading->is_function);
	elf_builder_init(&reading->builder);
	elf_builder_add_code(&reading->builder, 0x1000, 0x1000);
	elf_builder_add_data(&reading->builder, ".debug_info", w->info.data, w->info.size);
	elf_builder_add_data(&reading->builder, ".debug_abbrev", w->abbrev.data, w->abbrev.size);
	elf_builder_add_data(&reading->builder, ".debug_line",
		w->lines.size == 0 ? "" : w->lines.data, w->lines.size);
	elf_builder_add_data(&reading->builder, ".debug_ranges",
		w->ranges.size == 0 ? "" : w->ranges.data, w->ranges.size);
	elf_builder_finish(&reading->builder);
	assert_true(elf_image_over("test", reading->builder.out.data, reading->builder.out.size,
		NULL, &reading->image, &err));
	file_search_init(&reading->search, &reading->options, 0);
	assert_true(dwarf_reader_new(
		&reading->image, &reading->search, "/src/program", &reading->reader, &err));
	dwarf_plan(reading->reader, reading->vaddrs, reading->is_function, count);
	for (size_t i = 0; i < dwarf_job_count(reading->reader); i++)
		dwarf_run_job(reading->reader, i);
	reading->answers = dwarf_answers(reading->reader);
}

static void reading_end(struct reading *reading)
{
	dwarf_reader_free(reading->reader);
	file_search_deinit(&reading->search);
	elf_image_close(&reading->image);
	elf_builder_deinit(&reading->builder);
}

static void tells_inlined_calls_from_the_inside_out(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	const uint32_t inner = abstract(&w, "inner");
	const uint32_t middle = abstract(&w, "middle");
	function(&w, "outer", 0x1000, 0x80);
	inlined(&w, middle, 0x1010, 0x20, 7);
	inlined(&w, inner, 0x1018, 8, 5);
	end_children(&w);
	end_children(&w);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1000, 0x1010, 0x101f, 0x1020, 0x1080 };
	read_all(&reading, &w, vaddrs, 5);
	static const uint32_t counts[] = { 1, 2, 3, 2, 0 };
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(reading.answers[i].frame_count, counts[i]);
	const struct dwarf_frame *const frames = reading.answers[2].frames;
	assert_string_equal(frames[0].name, "inner");
	assert_string_equal(frames[1].name, "middle");
	assert_int_equal(frames[1].line, 5);
	assert_string_equal(frames[2].name, "outer");
	assert_int_equal(frames[2].line, 7);
	reading_end(&reading);
	writer_deinit(&w);
}

static void finds_names_in_other_units(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t first = unit_begin(&w, 0x1100, 0x10);
	const uint32_t named = abstract(&w, "elsewhere");
	unit_end(&w, first);
	const size_t second = unit_begin(&w, 0x1000, 0x100);
	u8(&w.info, CONCRETE);
	u32(&w.info, named);
	u64(&w.info, 0x1000);
	u32(&w.info, 0x10);
	end_children(&w);
	unit_end(&w, second);
	static const uint64_t vaddrs[] = { 0x1008 };
	read_all(&reading, &w, vaddrs, 1);
	assert_int_equal(reading.answers[0].frame_count, 1);
	assert_string_equal(reading.answers[0].frames[0].name, "elsewhere");
	reading_end(&reading);
	writer_deinit(&w);
}

static void finds_functions_inside_types(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	const size_t type = w.info.size;
	u8(&w.info, STRUCT_WITH_SIBLING);
	u32(&w.info, 0);
	function(&w, "member", 0x1040, 0x10);
	end_children(&w);
	end_children(&w);
	const uint32_t behind = (uint32_t)(w.info.size - unit);
	memcpy(w.info.data + type + 1, &behind, sizeof behind);
	function(&w, "free", 0x1000, 0x10);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1008, 0x1048 };
	read_all(&reading, &w, vaddrs, 2);
	assert_string_equal(reading.answers[0].frames[0].name, "free");
	assert_string_equal(reading.answers[1].frames[0].name, "member");
	reading_end(&reading);
	writer_deinit(&w);
}

static void finds_functions_of_classes_inside_functions(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	/* "outer" holds no address; the classes in it have one function for each of them. */
	function(&w, "outer", 0x1000, 0x10);
	for (unsigned i = 0; i < 2; i++) {
		u8(&w.info, STRUCT_WITH_SIBLING);
		u32(&w.info, 0);
		function(&w, i == 0 ? "lambda" : "another", 0x1040 + 0x10 * i, 0x10);
		inlined(&w, (uint32_t)unit, 0x1048, 4, 7);
		end_children(&w);
		end_children(&w);
		end_children(&w);
	}
	end_children(&w);
	function(&w, "behind", 0x1080, 0x10);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1040, 0x1048, 0x1058, 0x1088 };
	static const char *const names[] = { "lambda", "lambda", "another", "behind" };
	static const uint32_t counts[] = { 1, 2, 1, 1 };
	read_all(&reading, &w, vaddrs, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct dwarf_answer *const answer = &reading.answers[i];
		assert_int_equal(answer->frame_count, counts[i]);
		assert_string_equal(answer->frames[counts[i] - 1].name, names[i]);
	}
	reading_end(&reading);
	writer_deinit(&w);
}

/* A function of fixed size; returns where its sibling is to be written. */
static size_t fixed(struct writer *w, uint32_t origin, uint64_t low_pc, unsigned size)
{
	u8(&w->info, FIXED);
	const size_t sibling = w->info.size;
	u32(&w->info, 0);
	u32(&w->info, origin);
	u64(&w->info, low_pc);
	u8(&w->info, size);
	return sibling;
}

static void set_sibling(struct writer *w, size_t unit, size_t at)
{
	const uint32_t here = (uint32_t)(w->info.size - unit);

	memcpy(w->info.data + at, &here, sizeof here);
}

static void steps_over_functions_by_what_is_at_fixed_places(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x1000);
	const uint32_t first = abstract(&w, "first");
	const uint32_t last = abstract(&w, "last");
	/* Without a query for it, its contents are not read. */
	const size_t other = fixed(&w, last, 0x1100, 0x10);
	u8(&w.info, 99);
	end_children(&w);
	set_sibling(&w, unit, other);
	(void)fixed(&w, first, 0x1000, 0x10);
	end_children(&w);
	/* Its size ends the unit: the seven bytes behind it are not there. */
	(void)fixed(&w, last, 0x1200, 0xff);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1000, 0x100f, 0x1010, 0x1200, 0x12fe, 0x12ff };
	static const char *const names[] = { "first", "first", NULL, "last", "last", NULL };
	read_all(&reading, &w, vaddrs, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(reading.answers[i].frame_count, names[i] != NULL);
		if (names[i] != NULL)
			assert_string_equal(reading.answers[i].frames[0].name, names[i]);
	}
	reading_end(&reading);
	writer_deinit(&w);
}

static void steps_over_values_of_varying_size(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	for (unsigned i = 0; i < 3; i++) {
		u8(&w.info, VARYING);
		u8(&w.info, i);
		for (unsigned j = 0; j < i; j++)
			u8(&w.info, FUNCTION);
		text(&w.info, i == 1 ? "" : "name");
		u8(&w.info, 0x80);
		u8(&w.info, i);
		const size_t sibling = w.info.size;
		u32(&w.info, 0);
		u8(&w.info, 0);
		/* The last one does not say where its sibling is. */
		if (i < 2) {
			u8(&w.info, 99);
			end_children(&w);
			set_sibling(&w, unit, sibling);
		} else {
			function(&w, "inside", 0x1000, 0x10);
			end_children(&w);
			end_children(&w);
		}
	}
	function(&w, "behind", 0x1000, 0x10);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1008 };
	read_all(&reading, &w, vaddrs, 1);
	assert_int_equal(reading.answers[0].frame_count, 1);
	assert_string_equal(reading.answers[0].frames[0].name, "behind");
	reading_end(&reading);
	writer_deinit(&w);
}

static void ends_with_cycles_of_origins_and_siblings(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	const uint32_t first = (uint32_t)w.info.size;
	u8(&w.info, REFERRING);
	u32(&w.info, first + 5);
	u8(&w.info, REFERRING);
	u32(&w.info, first);
	u8(&w.info, STRUCT_WITH_SIBLING);
	u32(&w.info, first - (uint32_t)unit);
	end_children(&w);
	function(&w, "outer", 0x1000, 0x80);
	inlined(&w, first, 0x1000, 0x40, 3);
	end_children(&w);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1000 };
	read_all(&reading, &w, vaddrs, 1);
	assert_int_equal(reading.answers[0].frame_count, 2);
	assert_string_equal(reading.answers[0].frames[0].name, "");
	assert_string_equal(reading.answers[0].frames[1].name, "outer");
	reading_end(&reading);
	writer_deinit(&w);
}

static void gives_an_address_to_the_first_function_that_claims_it(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	function(&w, "first", 0x1000, 0x20);
	end_children(&w);
	function(&w, "second", 0x1000, 0x40);
	end_children(&w);
	function(&w, "discarded", 0, 0x2000);
	end_children(&w);
	unit_end(&w, unit);
	static const uint64_t vaddrs[] = { 0x1010, 0x1030, 0x1050 };
	read_all(&reading, &w, vaddrs, 3);
	assert_int_equal(reading.answers[0].frame_count, 1);
	assert_string_equal(reading.answers[0].frames[0].name, "first");
	assert_string_equal(reading.answers[1].frames[0].name, "second");
	assert_int_equal(reading.answers[2].frame_count, 0);
	reading_end(&reading);
	writer_deinit(&w);
}

/* A program of version 4 with one directory and one file. */
static void write_lines(struct writer *w)
{
	static const unsigned char lengths[] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	struct buffer header;

	buffer_init(&header, &memory_heap);
	u8(&header, 1);	   /* minimum instruction */
	u8(&header, 1);	   /* operations */
	u8(&header, 1);	   /* is_stmt */
	u8(&header, 0xfb); /* line base -5 */
	u8(&header, 14);   /* line range */
	u8(&header, 13);   /* opcode base */
	buffer_append(&header, lengths, sizeof lengths);
	text(&header, "sub");
	u8(&header, 0);
	text(&header, "a.c");
	u8(&header, 1);
	u16(&header, 0);
	u8(&header, 0);

	u32(&w->lines, 0);
	u16(&w->lines, 4);
	u32(&w->lines, (uint32_t)header.size);
	buffer_append(&w->lines, header.data, header.size);
	buffer_deinit(&header);
}

static void set_address(struct writer *w, uint64_t address)
{
	u8(&w->lines, 0);
	u8(&w->lines, 9);
	u8(&w->lines, DW_LNE_set_address);
	u64(&w->lines, address);
}

static void end_sequence(struct writer *w, unsigned advance)
{
	u8(&w->lines, DW_LNS_advance_pc);
	u8(&w->lines, advance);
	u8(&w->lines, 0);
	u8(&w->lines, 1);
	u8(&w->lines, DW_LNE_end_sequence);
}

/* Advances the line and the address as one special opcode. */
static void row(struct writer *w, int line, unsigned address)
{
	u8(&w->lines, (unsigned)(line + 5) + 14 * address + 13);
}

static void takes_the_last_row_of_an_address(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x100);
	unit_end(&w, unit);
	write_lines(&w);
	/* Discarded code comes first; it must not claim the addresses of code that was kept. */
	set_address(&w, 0);
	row(&w, 8, 0);
	u8(&w.lines, DW_LNS_advance_pc);
	u8(&w.lines, 0x80);
	u8(&w.lines, 0x40); /* 0x2000 */
	u8(&w.lines, DW_LNS_copy);
	end_sequence(&w, 1);
	set_address(&w, 0x1000);
	row(&w, 3, 0);
	row(&w, 1, 0);
	row(&w, 4, 8);
	end_sequence(&w, 8);
	const uint32_t length = (uint32_t)w.lines.size - 4;
	memcpy(w.lines.data, &length, sizeof length);

	static const uint64_t vaddrs[] = { 0x1000, 0x1007, 0x1008, 0x100f, 0x1010 };
	static const uint32_t lines[] = { 5, 5, 9, 9, 0 };
	read_all(&reading, &w, vaddrs, 5);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(reading.answers[i].frame_count, 1);
		assert_int_equal(reading.answers[i].frames[0].line, lines[i]);
		assert_string_equal(reading.answers[i].frames[0].file, "/src/sub/a.c");
		assert_string_equal(reading.answers[i].frames[0].name, "");
	}
	assert_int_equal(reading.answers[4].frame_count, 0);
	reading_end(&reading);
	writer_deinit(&w);
}

/* Each unit has the same long list, which holds none of the addresses. */
static void a_list_that_all_units_share_is_paid_for_each_time(void **state)
{
	(void)state;
	enum { UNITS = 2000, ENTRIES = 20000 };
	struct writer w;
	struct reading reading;

	writer_init(&w);
	for (int i = 0; i < UNITS; i++) {
		u32(&w.info, 12);
		u16(&w.info, 4);
		u32(&w.info, 0);
		u8(&w.info, 8);
		u8(&w.info, RANGED_UNIT);
		u32(&w.info, 0);
	}
	for (int i = 0; i < ENTRIES; i++) {
		u64(&w.ranges, 0x1100);
		u64(&w.ranges, 0x1101);
	}
	static const uint64_t vaddrs[] = { 0x1000 };
	read_all(&reading, &w, vaddrs, 1);
	assert_int_equal(reading.answers[0].frame_count, 0);
	assert_true(work_budget_is_spent(&reading.search.budget));
	const uint64_t limit = reading.search.budget.limit;
	assert_in_range(limit, 1, (uint64_t)UNITS * ENTRIES / 2);
	assert_in_range(reading.search.budget.used, limit, limit + 1000);
	reading_end(&reading);
	writer_deinit(&w);
}

/* Ends of sequences that go back to the first address, past all of them. */
static void a_line_program_that_goes_back_is_paid_for_each_time(void **state)
{
	(void)state;
	struct writer w;
	struct reading reading;
	uint64_t vaddrs[16];

	writer_init(&w);
	const size_t unit = unit_begin(&w, 0x1000, 0x1000);
	function(&w, "outer", 0x1000, 0x80);
	end_children(&w);
	end_children(&w);
	unit_end(&w, unit);
	write_lines(&w);
	const uint32_t rows = 1000;
	for (uint32_t i = 0; i < rows; i++) {
		set_address(&w, 0x1000);
		row(&w, 1, 0);
		row(&w, 1, 15);
	}
	end_sequence(&w, 1);
	const uint32_t length = (uint32_t)w.lines.size - 4;
	memcpy(w.lines.data, &length, sizeof length);
	for (uint64_t i = 0; i < 16; i++)
		vaddrs[i] = i < 15 ? 0x1000 + i : 0x1800;
	read_all(&reading, &w, vaddrs, 16);
	assert_in_range(reading.search.budget.used, rows * 15, rows * 15 + 2 * w.lines.size);
	reading_end(&reading);
	writer_deinit(&w);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_list_that_all_units_share_is_paid_for_each_time),
	cmocka_unit_test(a_line_program_that_goes_back_is_paid_for_each_time),
	cmocka_unit_test(tells_inlined_calls_from_the_inside_out),
	cmocka_unit_test(finds_names_in_other_units),
	cmocka_unit_test(finds_functions_inside_types),
	cmocka_unit_test(finds_functions_of_classes_inside_functions),
	cmocka_unit_test(steps_over_functions_by_what_is_at_fixed_places),
	cmocka_unit_test(steps_over_values_of_varying_size),
	cmocka_unit_test(ends_with_cycles_of_origins_and_siblings),
	cmocka_unit_test(gives_an_address_to_the_first_function_that_claims_it),
	cmocka_unit_test(takes_the_last_row_of_an_address),
};
UNIT_MAIN(tests)
