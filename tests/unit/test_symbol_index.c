/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "elf_builder.h"
#include "symbol/symbol_index_encode.h"
#include "unit.h"

/* An index as it is written, and as it is read again. */
struct sample {
	struct symbol_chains chains;
	uint64_t *vaddrs;
	uint32_t *chain_of;
	size_t count;
	struct buffer file;
	struct elf_image image; /* of the file */
	struct work_budget budget;
	struct symbol_index *index;
};

static void sample_init(struct sample *sample, size_t count)
{
	*sample = (struct sample){ .count = count };
	symbol_chains_init(&sample->chains, NULL);
	sample->vaddrs = xcalloc(count, sizeof *sample->vaddrs);
	sample->chain_of = xcalloc(count, sizeof *sample->chain_of);
	buffer_init(&sample->file, &memory_or_exit);
	work_budget_init(&sample->budget);
	work_budget_allow_addresses(&sample->budget, 1000000);
}

static void sample_deinit(struct sample *sample)
{
	symbol_index_free(sample->index);
	elf_image_close(&sample->image);
	symbol_chains_deinit(&sample->chains);
	free(sample->vaddrs);
	free(sample->chain_of);
	buffer_deinit(&sample->file);
}

/* Encodes it for a program with code at 0x1000 and a build-id. */
static void encode(struct sample *sample)
{
	static const unsigned char note[] = { 4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0,
		0xab, 0xcd, 0xef, 0x01 };
	const Elf64_Shdr header = { .sh_type = SHT_NOTE, .sh_addralign = 4 };
	const struct symbol_ranges ranges = { sample->vaddrs, sample->chain_of, sample->count };
	struct elf_builder program;
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	uint64_t range_count = 0;
	struct error err;

	elf_builder_init(&program);
	elf_builder_add_code(&program, 0x1000, 0x10000000);
	elf_builder_add(&program, ".note.gnu.build-id", &header, note, sizeof note);
	elf_builder_finish(&program);
	assert_true(
		elf_image_over("program", program.out.data, program.out.size, NULL, &image, &err));
	assert_true(symbol_index_encode(&sample->chains, &ranges, &image, SYMBOL_SOURCE_DWARF,
		&sample->file, &range_count, &err));
	elf_builder_deinit(&program);
}

static bool open_index(struct sample *sample, struct error *err)
{
	return elf_image_over(
		       "index", sample->file.data, sample->file.size, NULL, &sample->image, err) &&
	       symbol_index_open(&sample->image, &sample->budget, &sample->index, err);
}

static uint32_t add(struct sample *sample, uint32_t outer, const char *name, uint32_t line)
{
	const struct dwarf_frame frame = { name, "_Z4linkv", "/src/a.cc", line, 7 };

	return symbol_chains_add(&sample->chains, outer, &frame);
}

/* outer() from 0x1000, with a call of inner() inlined from 0x1010 to 0x1018, until 0x1020. */
static void make_small(struct sample *sample)
{
	sample_init(sample, 4);
	const uint32_t outer = add(sample, NO_SYMBOL_CHAIN, "outer", 10);
	const uint32_t inner = add(sample, outer, "inner", 3);
	const uint64_t vaddrs[] = { 0x1000, 0x1010, 0x1018, 0x1020 };
	const uint32_t chains[] = { outer, inner, outer, NO_SYMBOL_CHAIN };
	memcpy(sample->vaddrs, vaddrs, sizeof vaddrs);
	memcpy(sample->chain_of, chains, sizeof chains);
	encode(sample);
}

static void each_address_of_a_range_has_its_frames(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	const uint64_t vaddrs[] = { 0xfff, 0x1000, 0x100f, 0x1010, 0x1017, 0x1018, 0x101f, 0x1020,
		UINT64_MAX };
	const uint32_t counts[] = { 0, 1, 1, 2, 2, 1, 1, 0, 0 };
	struct error err;

	(void)state;
	make_small(&sample);
	assert_true(open_index(&sample, &err));
	assert_int_equal(symbol_index_source(sample.index), SYMBOL_SOURCE_DWARF);
	const struct dwarf_answer *const answers = symbol_index_find(sample.index, vaddrs, 9, 1);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(answers[i].frame_count, counts[i]);
	assert_string_equal(answers[3].frames[0].name, "inner");
	assert_string_equal(answers[3].frames[0].linkage, "_Z4linkv");
	assert_string_equal(answers[3].frames[0].file, "/src/a.cc");
	assert_int_equal(answers[3].frames[0].line, 3);
	assert_int_equal(answers[3].frames[0].start_line, 7);
	assert_string_equal(answers[3].frames[1].name, "outer");
	assert_int_equal(answers[3].frames[1].line, 10);
	assert_int_equal(answers[3].frames[1].line, 10);
	assert_false(symbol_index_is_damaged(sample.index));
}

/* Three functions with a gap behind the first, and with calls inlined in them, of several blocks.
 */
static void functions_reach_over_inlined_calls_and_blocks(void **state)
{
	enum { RANGES = 100000 };
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	CLEANUP(free_cleanup) struct symbol_extent *functions = NULL;
	const struct symbol_extent expected[] = { { 0, 1000 }, { 1001, 50000 },
		{ 50000, RANGES - 1 } };
	size_t count = 0;
	struct error err;

	(void)state;
	sample_init(&sample, RANGES);
	for (uint32_t i = 0; i < RANGES; i++) {
		const char *const name = i < 1000 ? "first" : i < 50000 ? "second" : "third";
		const uint32_t outer = add(&sample, NO_SYMBOL_CHAIN, name, i);
		sample.vaddrs[i] = 0x1000 + i;
		sample.chain_of[i] = i == 1000 || i == RANGES - 1 ? NO_SYMBOL_CHAIN
				     : i % 3 == 0		  ? add(&sample, outer, "inner", i)
								  : outer;
	}
	encode(&sample);
	assert_true(open_index(&sample, &err));
	functions = symbol_index_functions(sample.index, &count);
	assert_int_equal(count, 3);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(functions[i].start, 0x1000 + expected[i].start);
		assert_int_equal(functions[i].limit, 0x1000 + expected[i].limit);
	}
}
static void the_file_has_the_build_id_and_the_addresses_of_the_program(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	struct error err;

	(void)state;
	make_small(&sample);
	assert_true(open_index(&sample, &err));
	assert_string_equal(sample.image.build_id, "abcdef01");
	assert_int_equal(sample.image.code_start, 0x1000);
	assert_int_equal(sample.image.code_limit, 0x10001000);
	assert_false(sample.image.has_code);
}

/* Many blocks of each kind, with gaps between ranges that need all sizes of numbers. */
static void make_large(struct sample *sample, size_t count)
{
	uint64_t vaddr = 0x1000;
	char name[400];

	sample_init(sample, count);
	for (size_t i = 0; i < count; i++) {
		uint32_t chain = NO_SYMBOL_CHAIN;
		for (size_t depth = i * 7 % 5; depth-- > 0;) {
			snprintf(name, sizeof name, "function_%zu_%0*d", i * 31 % 5000,
				(int)(i % 300), (int)depth);
			chain = add(sample, chain, name, (uint32_t)(i * 13 % 100000 + depth));
		}
		sample->vaddrs[i] = vaddr;
		sample->chain_of[i] = chain;
		vaddr += 1 + (i % 100 == 0 ? 70000 : i % 40);
	}
	encode(sample);
}

static void assert_answer(
	const struct sample *sample, const struct dwarf_answer *answer, uint32_t chain)
{
	for (uint32_t i = 0; i < answer->frame_count; i++) {
		const struct symbol_chain *const wanted = &sample->chains.chains[chain];
		const struct symbol_index_function *const function =
			&sample->chains.functions[wanted->function];
		assert_string_equal(
			answer->frames[i].name, sample->chains.text.data + function->name);
		assert_int_equal(answer->frames[i].line, wanted->line);
		chain = wanted->outer;
	}
	assert_int_equal(chain, NO_SYMBOL_CHAIN);
}

static void large_indexes_answer_every_address(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	struct error err;

	(void)state;
	make_large(&sample, 40000);
	assert_true(open_index(&sample, &err));
	const struct dwarf_answer *const answers =
		symbol_index_find(sample.index, sample.vaddrs, sample.count, 3);
	assert_false(symbol_index_is_damaged(sample.index));
	for (size_t i = 0; i < sample.count; i++)
		assert_answer(&sample, &answers[i], sample.chain_of[i]);
}

static void a_search_skips_to_addresses_far_apart(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	uint64_t vaddrs[400];
	struct error err;

	(void)state;
	make_large(&sample, 40000);
	assert_true(open_index(&sample, &err));
	for (size_t i = 0; i < 400; i++)
		vaddrs[i] = sample.vaddrs[i * 97 + i / 3];
	const struct dwarf_answer *const answers = symbol_index_find(sample.index, vaddrs, 400, 1);
	for (size_t i = 0; i < 400; i++)
		assert_answer(&sample, &answers[i], sample.chain_of[i * 97 + i / 3]);
}

static void an_index_of_another_version_is_refused(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	struct error err;

	(void)state;
	make_small(&sample);
	char *const header = memmem(sample.file.data, sample.file.size, "heapidx", 8);
	header[offsetof(struct symbol_index_header, version)]++;
	assert_false(open_index(&sample, &err));
	assert_string_equal(err.message, "index: it is of another version of heapctl");
	assert_string_equal(err.hint, "make it again with heapctl symbols index");
}

/* Each byte of an index in turn: it is refused, or found out, or changes nothing of the answers. */
static void a_damaged_byte_gives_no_wrong_name(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	const uint64_t vaddrs[] = { 0x1000, 0x1010, 0x1018 };
	struct error err;

	(void)state;
	make_small(&sample);
	char *const section = memmem(sample.file.data, sample.file.size, "heapidx", 8);
	char *const end = memmem(sample.file.data, sample.file.size, "\0.note.gnu", 10);
	size_t refused = 0;
	for (char *byte = section; byte < end; byte++) {
		*byte ^= 0x41;
		if (open_index(&sample, &err)) {
			const struct dwarf_answer *const answers =
				symbol_index_find(sample.index, vaddrs, 3, 1);
			if (!symbol_index_is_damaged(sample.index)) {
				assert_int_equal(answers[1].frame_count, 2);
				assert_string_equal(answers[1].frames[0].name, "inner");
				assert_string_equal(answers[1].frames[1].name, "outer");
			}
		} else {
			refused++;
		}
		symbol_index_free(sample.index);
		sample.index = NULL;
		elf_image_close(&sample.image);
		*byte ^= 0x41;
	}
	assert_true(refused > 0);
}

static void a_file_cut_anywhere_is_refused_or_found_out(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	struct error err;

	(void)state;
	make_small(&sample);
	for (size_t size = 0; size < sample.file.size; size++) {
		CLEANUP(elf_image_close) struct elf_image image = { 0 };
		CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
		assert_false(elf_image_over("cut", sample.file.data, size, NULL, &image, &err) &&
			     symbol_index_open(&image, &sample.budget, &index, &err));
	}
}

/* A header that claims more than the file can hold, with the right checksum. */
static void claims_are_bounded_by_the_file(void **state)
{
	CLEANUP(sample_deinit) struct sample sample = { 0 };
	struct symbol_index_header header;
	struct error err;

	(void)state;
	make_small(&sample);
	char *const at = memmem(sample.file.data, sample.file.size, "heapidx", 8);
	memcpy(&header, at, sizeof header);
	struct symbol_index_block *const blocks = (void *)(at + sizeof header);
	size_t count = 0;
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++)
		count += header.block_counts[kind];
	for (size_t i = 0; i < count; i++)
		blocks[i].bytes = SYMBOL_INDEX_MAX_BLOCK_BYTES;
	header.checksum = 0;
	header.checksum = hash_fixed_combine(hash_fixed_bytes(&header, sizeof header),
		hash_fixed_bytes(blocks, count * sizeof *blocks));
	memcpy(at, &header, sizeof header);
	assert_false(open_index(&sample, &err));
	assert_non_null(strstr(err.message, "claims to hold more than a file of its size does"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_address_of_a_range_has_its_frames),
	cmocka_unit_test(functions_reach_over_inlined_calls_and_blocks),
	cmocka_unit_test(the_file_has_the_build_id_and_the_addresses_of_the_program),
	cmocka_unit_test(large_indexes_answer_every_address),
	cmocka_unit_test(a_search_skips_to_addresses_far_apart),
	cmocka_unit_test(an_index_of_another_version_is_refused),
	cmocka_unit_test(a_damaged_byte_gives_no_wrong_name),
	cmocka_unit_test(a_file_cut_anywhere_is_refused_or_found_out),
	cmocka_unit_test(claims_are_bounded_by_the_file),
};
UNIT_MAIN(tests)
