/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_stream.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/xalloc.h"
#include "elf_builder.h"
#include "section_bytes.h"
#include "symbol/dwarf.h"
#include "symbol/dwarf_claims.h"
#include "symbol/dwarf_constants.h"
#include "symbol/inflate_stream.h"
#include "unit.h"

enum {
	UNIT = 1,  /* low_pc, size, comp_dir */
	FUNCTION,  /* name, low_pc, size */
	REFERENCE, /* origin in any unit */
	LARGE_BYTES = 64 << 20,
	CODE_START = 0x10000,
	UNIT_CODE_BYTES = 0x100,
	MAX_UNITS = 20000,
};

/* How .debug_aranges treats a unit. */
enum listing {
	LISTED,
	UNLISTED,
	HALF_LISTED, /* without its second half */
};

struct debug_file {
	struct buffer info;
	struct buffer abbrev;
	struct buffer aranges;
	size_t unit_count;
	bool is_newer; /* than what can be read: all units */
	bool is_damaged;
	unsigned function_count;    /* of all units, also of those that cover the same code */
	struct elf_builder builder; /* of the plain sections */
	struct elf_image image;
	struct buffer packed; /* .debug_info, with a header as in an ELF file */
};

static void file_init(struct debug_file *file)
{
	static const unsigned char abbrevs[] = { UNIT, DW_TAG_compile_unit, 1, DW_AT_low_pc,
		DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4, DW_AT_comp_dir, DW_FORM_string, 0, 0,
		FUNCTION, DW_TAG_subprogram, 0, DW_AT_name, DW_FORM_string, DW_AT_low_pc,
		DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4, 0, 0, 0 };

	*file = (struct debug_file){ 0 };
	buffer_init(&file->info, &memory_or_exit);
	buffer_init(&file->abbrev, &memory_or_exit);
	buffer_init(&file->aranges, &memory_or_exit);
	buffer_init(&file->packed, &memory_or_exit);
	buffer_append(&file->abbrev, abbrevs, sizeof abbrevs);
}

static void file_deinit(struct debug_file *file)
{
	buffer_deinit(&file->info);
	buffer_deinit(&file->abbrev);
	buffer_deinit(&file->aranges);
	buffer_deinit(&file->packed);
	elf_image_close(&file->image);
	elf_builder_deinit(&file->builder);
}

static void add_arange(struct debug_file *file, uint32_t unit, uint64_t start, uint64_t size)
{
	u32(&file->aranges, 44);
	u16(&file->aranges, 2);
	u32(&file->aranges, unit);
	u8(&file->aranges, 8);
	u8(&file->aranges, 0);
	u32(&file->aranges, 0); /* padding */
	u64(&file->aranges, start);
	u64(&file->aranges, size);
	u64(&file->aranges, 0);
	u64(&file->aranges, 0);
}

static void add_function(struct debug_file *file, uint64_t start, uint32_t size)
{
	char name[32];

	snprintf(name, sizeof name, "function_%u", file->function_count++);
	u8(&file->info, FUNCTION);
	text(&file->info, name);
	u64(&file->info, start);
	u32(&file->info, size);
}

/* A unit with two functions, whose size depends on its number. */
static void add_unit(struct debug_file *file, enum listing listing)
{
	const unsigned number = (unsigned)file->unit_count++;
	const uint64_t start = CODE_START + number * (uint64_t)UNIT_CODE_BYTES;
	const size_t at = file->info.size;
	static const char directory[] = "/a/folder/of/sources";

	u32(&file->info, 0);
	u16(&file->info, file->is_newer ? 6 : 4);
	u32(&file->info, 0);
	u8(&file->info, 8);
	u8(&file->info, UNIT);
	u64(&file->info, start);
	u32(&file->info, UNIT_CODE_BYTES);
	buffer_append(&file->info, directory + number % 20, sizeof directory - number % 20);
	add_function(file, start, UNIT_CODE_BYTES / 2 - 8);
	add_function(file, start + UNIT_CODE_BYTES / 2, UNIT_CODE_BYTES / 2 - 8);
	u8(&file->info, 0);
	const uint32_t length = (uint32_t)(file->info.size - at - 4);
	memcpy(file->info.data + at, &length, sizeof length);
	if (listing != UNLISTED)
		add_arange(file, (uint32_t)at, start,
			listing == LISTED ? UNIT_CODE_BYTES : UNIT_CODE_BYTES / 2);
}

/* Compresses a section as in an ELF file. */
static void pack(const struct buffer *plain, struct buffer *packed)
{
	uLongf size = compressBound(plain->size);
	CLEANUP(free_cleanup) unsigned char *out = xmalloc(size);
	const Elf64_Chdr header = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = plain->size };

	assert_int_equal(
		compress2(out, &size, (const unsigned char *)plain->data, plain->size, 1), Z_OK);
	buffer_append(packed, &header, sizeof header);
	buffer_append(packed, out, size);
}

/* Compresses .debug_info, and makes the files with the plain sections and with packed ones. */
static void finish(struct debug_file *file, bool is_packed)
{
	pack(&file->info, &file->packed);
	elf_builder_init(&file->builder);
	elf_builder_add_code(&file->builder, CODE_START, file->unit_count * UNIT_CODE_BYTES);
	if (is_packed) {
		const Elf64_Shdr section = { .sh_type = SHT_PROGBITS, .sh_flags = SHF_COMPRESSED };
		CLEANUP(buffer_deinit) struct buffer abbrev = BUFFER_OR_EXIT;
		pack(&file->abbrev, &abbrev);
		elf_builder_add(&file->builder, ".debug_info", &section, file->packed.data,
			file->packed.size);
		elf_builder_add(
			&file->builder, ".debug_abbrev", &section, abbrev.data, abbrev.size);
	} else {
		elf_builder_add_data(
			&file->builder, ".debug_info", file->info.data, file->info.size);
		elf_builder_add_data(
			&file->builder, ".debug_abbrev", file->abbrev.data, file->abbrev.size);
	}
	elf_builder_add_data(&file->builder, ".debug_aranges",
		file->aranges.size == 0 ? "" : file->aranges.data, file->aranges.size);
	elf_builder_finish(&file->builder);
	struct error err;
	assert_true(elf_image_over(
		"test", file->builder.out.data, file->builder.out.size, NULL, &file->image, &err));
}

static struct elf_packed packed_info(const struct debug_file *file)
{
	const unsigned char *const data = (const unsigned char *)file->packed.data;

	return (struct elf_packed){ UNPACK_ZLIB, data + sizeof(Elf64_Chdr),
		file->packed.size - sizeof(Elf64_Chdr), file->info.size };
}

/* Addresses of all functions, and between them. */
struct asked {
	uint64_t *vaddrs;
	bool *is_function;
	struct dwarf_addresses addresses;
};

static void asked_init(struct asked *asked, size_t unit_count, bool are_functions)
{
	const size_t count = 3 * unit_count;

	asked->vaddrs = xcalloc(count, sizeof *asked->vaddrs);
	asked->is_function = xcalloc(count, sizeof *asked->is_function);
	for (size_t i = 0; i < count; i++) {
		static const unsigned offsets[] = { 5, UNIT_CODE_BYTES / 2 - 2,
			UNIT_CODE_BYTES / 2 + 7 };
		asked->vaddrs[i] = CODE_START + i / 3 * UNIT_CODE_BYTES + offsets[i % 3];
		asked->is_function[i] = are_functions && i % 3 != 1;
	}
	asked->addresses = (struct dwarf_addresses){ asked->vaddrs, asked->is_function, count };
}

static void asked_deinit(struct asked *asked)
{
	free(asked->vaddrs);
	free(asked->is_function);
}

static void assert_same(const struct dwarf_answer *a, const struct dwarf_answer *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(a[i].frame_count, b[i].frame_count);
		for (uint32_t j = 0; j < a[i].frame_count; j++)
			assert_string_equal(a[i].frames[j].name, b[i].frames[j].name);
	}
}

/* The stream's answers for a file, compared with those of the whole section. */
static enum dwarf_stream_result run(struct debug_file *file, const struct elf_packed *info,
	const struct asked *asked, unsigned threads, size_t piece_bytes, struct error *err)
{
	const struct symbolizer_options options = { .threads = threads };
	struct file_search search;
	struct dwarf_splits splits;
	struct dwarf dwarf;
	struct dwarf_reader *whole = NULL;
	CLEANUP(free_cleanup)
	struct dwarf_answer *answers = xcalloc(asked->addresses.count, sizeof *answers);
	CLEANUP(free_cleanup)
	struct arena *arenas = xcalloc(parallel_thread_count(threads), sizeof *arenas);

	assert_true(inflate_stream_is_possible(info));
	file_search_init(&search, &options, 0);
	dwarf_splits_init(&splits, &search, "/src/program");
	dwarf_open(&dwarf, &file->image, false, &search.budget);
	const struct dwarf_stream_request request = { &file->image, *info, threads, piece_bytes,
		&splits, &asked->addresses };
	const enum dwarf_stream_result result =
		dwarf_stream_run(&dwarf, &request, answers, arenas, err);
	if (result == DWARF_STREAM_ANSWERED) {
		CLEANUP(buffer_deinit) struct buffer damage = BUFFER_OR_EXIT;
		assert_true(dwarf_reader_new(&file->image, &search, "/src/program", &whole, err));
		dwarf_plan(whole, asked->vaddrs, asked->is_function, asked->addresses.count);
		for (size_t i = 0; i < dwarf_job_count(whole); i++)
			dwarf_run_job(whole, i);
		assert_same(answers, dwarf_answers(whole), asked->addresses.count);
		assert_int_equal(dwarf_is_damaged(whole, &damage), file->is_damaged);
		assert_int_equal(atomic_load(&dwarf.damage) != NULL, file->is_damaged);
		dwarf_reader_free(whole);
	}
	if (result == DWARF_STREAM_UNSUITED && file->is_newer) {
		assert_false(dwarf_load_info(&dwarf, &file->image, false, err));
		assert_contains(err->message, "DWARF 6, and heapctl reads 2 to 5");
	} else if (result == DWARF_STREAM_UNSUITED) {
		assert_true(dwarf_load_info(&dwarf, &file->image, false, err));
		for (size_t i = 0; i < dwarf.unit_count; i++)
			(void)dwarf_unit_root(&dwarf.units[i]);
		assert_null(atomic_load(&dwarf.damage));
	}
	for (size_t i = 0; i < parallel_thread_count(threads); i++)
		arena_deinit(&arenas[i]);
	dwarf_deinit(&dwarf);
	dwarf_splits_deinit(&splits);
	file_search_deinit(&search);
	return result;
}

static void check_all_ways(struct debug_file *file)
{
	static const size_t piece_bytes[] = { 1, 50, 333, DWARF_PIECE_BYTES };
	struct error err;

	finish(file, false);
	const struct elf_packed info = packed_info(file);
	for (int are_functions = 0; are_functions < 2; are_functions++) {
		CLEANUP(asked_deinit) struct asked asked = { 0 };
		asked_init(&asked, file->unit_count, are_functions != 0);
		for (size_t i = 0; i < sizeof piece_bytes / sizeof *piece_bytes; i++)
			for (unsigned threads = 1; threads <= 3; threads += 2)
				assert_int_equal(
					run(file, &info, &asked, threads, piece_bytes[i], &err),
					DWARF_STREAM_ANSWERED);
	}
}

static void answers_are_those_of_the_whole_section(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };

	file_init(&file);
	for (unsigned i = 0; i < 60; i++)
		add_unit(&file, LISTED);
	check_all_ways(&file);
}

static void units_that_aranges_do_not_list_are_found(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };

	file_init(&file);
	for (unsigned i = 0; i < 60; i++)
		add_unit(&file, i % 4 == 1 ? UNLISTED : i % 4 == 2 ? HALF_LISTED : LISTED);
	check_all_ways(&file);
}

static void the_first_of_two_units_at_an_address_answers(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };

	file_init(&file);
	for (unsigned i = 0; i < 60; i++) {
		add_unit(&file, i % 3 == 0 ? HALF_LISTED : UNLISTED);
		if (i % 2 == 1)
			file.unit_count--;
	}
	check_all_ways(&file);
}

static void what_follows_the_units_is_ignored(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };

	file_init(&file);
	for (unsigned i = 0; i < 10; i++)
		add_unit(&file, i % 2 == 0 ? LISTED : UNLISTED);
	for (unsigned i = 0; i < 1000; i++)
		u32(&file.info, UINT32_MAX - i);
	file.is_damaged = true;
	check_all_ways(&file);
}

static void short_rests_are_damage_as_in_the_whole_section(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t size;
		bool is_damage;
	} rests[] = {
		{ "\0\0\0", 3, false },
		{ "\0\0\0\0\0\0\0\0\0", 9, false },
		{ "\1", 1, true },
		{ "\0\0\1", 3, true },
		{ "\0\0\1\0\0\0\0", 7, true },
		{ "\xff\xff\xff\xff\0\0\0\0", 8, true },
	};

	for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
		CLEANUP(file_deinit) struct debug_file file = { 0 };
		file_init(&file);
		add_unit(&file, LISTED);
		buffer_append(&file.info, rests[i].bytes, rests[i].size);
		file.is_damaged = rests[i].is_damage;
		check_all_ways(&file);
	}
}

/* Some linkers leave zeros between units. */
static void units_behind_padding_are_left_to_the_whole_section(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	struct error err;

	file_init(&file);
	add_unit(&file, LISTED);
	for (unsigned i = 0; i < 32; i++)
		u32(&file.info, 0);
	for (unsigned i = 0; i < 10; i++)
		add_unit(&file, UNLISTED);
	finish(&file, true);
	asked_init(&asked, file.unit_count, true);
	const struct elf_packed info = packed_info(&file);
	for (unsigned threads = 1; threads <= 3; threads++)
		assert_int_equal(
			run(&file, &info, &asked, threads, 333, &err), DWARF_STREAM_UNSUITED);
}

static void why_no_unit_is_read_is_left_to_the_whole_section(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	struct error err;

	file_init(&file);
	file.is_newer = true;
	for (unsigned i = 0; i < 10; i++)
		add_unit(&file, LISTED);
	finish(&file, true);
	asked_init(&asked, file.unit_count, true);
	const struct elf_packed info = packed_info(&file);
	assert_int_equal(run(&file, &info, &asked, 1, 333, &err), DWARF_STREAM_UNSUITED);
}

static void add_reference(struct debug_file *file)
{
	static const unsigned char abbrev[] = { REFERENCE, DW_TAG_subprogram, 0,
		DW_AT_abstract_origin, DW_FORM_ref_addr, 0, 0, 0 };

	file->abbrev.size--; /* the end of the table */
	buffer_append(&file->abbrev, abbrev, sizeof abbrev);
}

static void units_that_refer_to_others_are_left_to_the_whole_section(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	struct error err;

	file_init(&file);
	add_reference(&file);
	for (unsigned i = 0; i < 60; i++)
		add_unit(&file, LISTED);
	finish(&file, false);
	asked_init(&asked, file.unit_count, true);
	const struct elf_packed info = packed_info(&file);
	assert_int_equal(run(&file, &info, &asked, 2, 333, &err), DWARF_STREAM_UNSUITED);
}

static void references_to_others_are_found_before_anything_is_unpacked(void **state)
{
	(void)state;

	for (int variant = 0; variant < 4; variant++) {
		const bool has_reference = variant % 2 != 0;
		CLEANUP(file_deinit) struct debug_file file = { 0 };
		file_init(&file);
		/* As gcc writes a table with a value of its own, before the one that refers. */
		static const unsigned char constant[] = { 1, DW_TAG_subprogram, 0, DW_AT_decl_line,
			DW_FORM_implicit_const, 0x90, 1, 0, 0, 0 };
		buffer_append(&file.abbrev, constant, sizeof constant);
		if (has_reference)
			add_reference(&file);
		add_unit(&file, LISTED);
		finish(&file, variant >= 2);
		assert_int_equal(dwarf_stream_is_worthwhile(&file.image), !has_reference);
	}
}

static void an_address_that_an_earlier_unit_answers_is_not_offered_again(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	const struct symbolizer_options options = { .threads = 1 };
	const struct dwarf_answer answers[3] = { 0 };
	struct file_search search;
	struct dwarf dwarf;
	struct dwarf_claims claims;
	struct error err;

	file_init(&file);
	for (unsigned i = 0; i < 5; i++) {
		add_unit(&file, UNLISTED);
		file.unit_count = 0;
	}
	file.unit_count = 1;
	finish(&file, false);
	asked_init(&asked, 1, true);
	file_search_init(&search, &options, 0);
	assert_true(dwarf_init(&dwarf, &file.image, false, 1, &search.budget, &err));
	assert_int_equal(dwarf.unit_count, 5);
	dwarf_claims_init(&claims, &dwarf, &asked.addresses);
	/* Threads may bring an earlier unit later. */
	static const size_t order[] = { 2, 3, 1, 4, 0 };
	for (size_t i = 0; i < 5; i++) {
		struct dwarf_unit *const unit = &dwarf.units[order[i]];
		struct dwarf_claim claim;
		dwarf_claims_of_unit(&claims, unit, unit->offset, &claim);
		assert_int_equal(claim.kinds[DWARF_CLAIM_OFFERED].count, order[i] < 3 ? 3 : 0);
		dwarf_claims_offer(&claims, unit->offset, &claim, answers);
		dwarf_claim_deinit(&claim);
	}
	dwarf_claims_deinit(&claims);
	dwarf_deinit(&dwarf);
	file_search_deinit(&search);
}

static void aranges_of_a_unit_that_does_not_exist_are_left_to_the_whole_section(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	struct error err;

	file_init(&file);
	add_arange(&file, 7, CODE_START, 0x20);
	for (unsigned i = 0; i < 10; i++)
		add_unit(&file, LISTED);
	finish(&file, false);
	asked_init(&asked, file.unit_count, true);
	const struct elf_packed info = packed_info(&file);
	assert_int_equal(run(&file, &info, &asked, 2, 333, &err), DWARF_STREAM_UNSUITED);
}

static void damaged_contents_are_an_error(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file file = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	struct error err;

	file_init(&file);
	for (unsigned i = 0; i < 60; i++)
		add_unit(&file, LISTED);
	finish(&file, false);
	asked_init(&asked, file.unit_count, true);
	for (int damage = 0; damage < 4; damage++) {
		struct elf_packed info = packed_info(&file);
		CLEANUP(free_cleanup) unsigned char *copy = xmalloc(info.data_size);
		memcpy(copy, info.data, info.data_size);
		info.data = copy;
		if (damage == 0)
			info.data_size /= 2;
		else if (damage == 1)
			copy[info.data_size - 1] ^= 1; /* of the checksum */
		else if (damage == 2)
			info.size++;
		else
			info.size--;
		assert_int_equal(run(&file, &info, &asked, 2, 333, &err), DWARF_STREAM_FAILED);
		assert_string_equal(
			err.message, "test: .debug_info: the compressed contents are damaged");
	}
}

static void a_large_file_is_read_so_where_it_is_possible(void **state)
{
	(void)state;
	CLEANUP(file_deinit) struct debug_file packed = { 0 };
	CLEANUP(file_deinit) struct debug_file plain = { 0 };
	CLEANUP(asked_deinit) struct asked asked = { 0 };
	const struct symbolizer_options options = { .threads = 2 };
	struct file_search search;
	struct dwarf_reader *readers[2] = { 0 };
	struct elf_packed info;
	struct error err;

	file_init(&packed);
	file_init(&plain);
	for (unsigned i = 0; i < MAX_UNITS; i++) {
		add_unit(&packed, i % 2 == 0 ? LISTED : UNLISTED);
		add_unit(&plain, i % 2 == 0 ? LISTED : UNLISTED);
	}
	/* What follows the units makes it large; what shrinks too well would be refused. */
	u32(&packed.info, UINT32_MAX - 1);
	uint32_t noise = 1;
	while (packed.info.size < plain.info.size + (3u << 20)) {
		noise = noise * 1664525u + 1013904223u;
		u8(&packed.info, noise >> 24);
	}
	CLEANUP(free_cleanup) char *zeros = xcalloc(LARGE_BYTES, 1);
	buffer_append(&packed.info, zeros, LARGE_BYTES);
	finish(&packed, true);
	finish(&plain, false);
	assert_true(dwarf_stream_is_possible(&packed.image, &info));
	assert_false(dwarf_stream_is_possible(&plain.image, &info));
	asked_init(&asked, MAX_UNITS, true);
	file_search_init(&search, &options, 0);
	assert_true(dwarf_reader_answer(
		&packed.image, &search, "/src/program", &asked.addresses, &readers[0], &err));
	assert_int_equal(dwarf_job_count(readers[0]), 0);
	assert_true(dwarf_reader_answer(
		&plain.image, &search, "/src/program", &asked.addresses, &readers[1], &err));
	for (size_t i = 0; i < dwarf_job_count(readers[1]); i++)
		dwarf_run_job(readers[1], i);
	assert_same(dwarf_answers(readers[0]), dwarf_answers(readers[1]), asked.addresses.count);
	assert_string_equal(dwarf_answers(readers[0])[3].frames[0].name, "function_2");
	dwarf_reader_free(readers[0]);
	dwarf_reader_free(readers[1]);
	file_search_deinit(&search);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(answers_are_those_of_the_whole_section),
	cmocka_unit_test(units_that_aranges_do_not_list_are_found),
	cmocka_unit_test(the_first_of_two_units_at_an_address_answers),
	cmocka_unit_test(what_follows_the_units_is_ignored),
	cmocka_unit_test(short_rests_are_damage_as_in_the_whole_section),
	cmocka_unit_test(units_behind_padding_are_left_to_the_whole_section),
	cmocka_unit_test(why_no_unit_is_read_is_left_to_the_whole_section),
	cmocka_unit_test(units_that_refer_to_others_are_left_to_the_whole_section),
	cmocka_unit_test(references_to_others_are_found_before_anything_is_unpacked),
	cmocka_unit_test(an_address_that_an_earlier_unit_answers_is_not_offered_again),
	cmocka_unit_test(aranges_of_a_unit_that_does_not_exist_are_left_to_the_whole_section),
	cmocka_unit_test(damaged_contents_are_an_error),
	cmocka_unit_test(a_large_file_is_read_so_where_it_is_possible),
};
UNIT_MAIN(tests)
