/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

/* A file with a symbol table, its texts, a build-id note and a constant. */
struct image {
	ElfW(Ehdr) header;
	ElfW(Phdr) segment;
	ElfW(Sym) symbols[5];
	char texts[64];
	struct {
		ElfW(Nhdr) header;
		char name[4];
		unsigned char id[4];
	} note;
	char constant[16];
	char names[32];
	ElfW(Dyn) dynamic[5];
	ElfW(Shdr) sections[7];
};

static const char texts[] = "\0_rjem_mallctl\0mallctl_not\0malloc\0elsewhere_mallctl";
static const char names[] = "A_CONF\0B_CONF\0B_CONFIGURE";

static ElfW(Sym) symbol(const char *name, uint64_t value, uint16_t section, unsigned type)
{
	const char *const at = memmem(texts, sizeof texts, name, strlen(name) + 1);

	return (ElfW(Sym)){
		.st_name = (uint32_t)(at - texts),
		.st_value = (ElfW(Addr))value,
		.st_shndx = section,
		.st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, type),
	};
}

static struct image image_of_a_program(void)
{
	struct image image = {
		.header = { .e_ident = { 0x7f, 'E', 'L', 'F', sizeof(void *) == 8 ? 2 : 1, 1 },
			.e_shoff = offsetof(struct image, sections),
			.e_shentsize = sizeof(ElfW(Shdr)),
			.e_shnum = 7,
			.e_phoff = offsetof(struct image, segment),
			.e_phentsize = sizeof(ElfW(Phdr)),
			.e_phnum = 1 },
		.segment = { .p_type = PT_LOAD, .p_vaddr = 0x1000 },
		.symbols = { { 0 }, symbol("_rjem_mallctl", 0x1100, 1, STT_FUNC),
			symbol("mallctl_not", 0x1200, 1, STT_FUNC),
			symbol("elsewhere_mallctl", 0, SHN_UNDEF, STT_FUNC),
			symbol("malloc", 0x1300, 1, STT_FUNC) },
		.note = { .header = { .n_namesz = 4, .n_descsz = 4, .n_type = NT_GNU_BUILD_ID },
			.name = "GNU",
			.id = { 0xde, 0xad, 0xbe, 0xef } },
		.constant = "<jemalloc>: ",
		.dynamic = { { DT_NEEDED, { 1 } }, { DT_RUNPATH, { 16 } }, { DT_NEEDED, { 27 } },
			{ DT_NEEDED, { 34 } }, { DT_NEEDED, { 60 } } },
	};
	memcpy(image.texts, texts, sizeof texts);
	memcpy(image.names, names, sizeof names);
	image.sections[1] = (ElfW(Shdr)){ .sh_type = SHT_SYMTAB,
		.sh_link = 2,
		.sh_offset = offsetof(struct image, symbols),
		.sh_size = sizeof image.symbols,
		.sh_entsize = sizeof(ElfW(Sym)) };
	image.sections[2] = (ElfW(Shdr)){ .sh_type = SHT_STRTAB,
		.sh_offset = offsetof(struct image, texts),
		.sh_size = sizeof texts };
	image.sections[3] = (ElfW(Shdr)){ .sh_type = SHT_NOTE,
		.sh_offset = offsetof(struct image, note),
		.sh_size = sizeof image.note };
	image.sections[4] = (ElfW(Shdr)){ .sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC,
		.sh_offset = offsetof(struct image, constant),
		.sh_size = sizeof image.constant };
	image.sections[5] = (ElfW(Shdr)){ .sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC,
		.sh_offset = offsetof(struct image, names),
		.sh_size = sizeof names };
	image.sections[6] = (ElfW(Shdr)){ .sh_type = SHT_DYNAMIC,
		.sh_link = 2,
		.sh_offset = offsetof(struct image, dynamic),
		.sh_size = sizeof image.dynamic };
	return image;
}

struct sightings {
	unsigned count;
	uint64_t value;
	char name[32];
};

static bool note_sighting(void *context, const char *name, uint64_t value)
{
	struct sightings *const seen = context;

	seen->count++;
	seen->value = value;
	strncpy(seen->name, name, sizeof seen->name - 1);
	return true;
}

static void finds_functions_by_their_end(void **state)
{
	(void)state;
	const struct image image = image_of_a_program();
	struct elf_file elf;
	struct error err;
	struct sightings seen = { 0 };

	assert_true(elf_file_init(&elf, &image, sizeof image, "image", &err));
	assert_true(elf_file_has_symbol_table(&elf));
	elf_file_functions(&elf, "mallctl", note_sighting, &seen);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.value, 0x1100);
	assert_string_equal(seen.name, "_rjem_mallctl");
	assert_int_equal(elf_file_function(&elf, "malloc"), 0x1300);
	assert_int_equal(elf_file_function(&elf, "elsewhere_mallctl"), 0);
}

static void knows_a_program_of_gos_linker(void **state)
{
	(void)state;
	struct image image = image_of_a_program();
	struct elf_file elf;
	struct error err;
	char id[ELF_BUILD_ID_MAX];

	image.note.header.n_type = 4;
	memcpy(image.note.name, "Go\0", 4);
	assert_true(elf_file_init(&elf, &image, sizeof image, "image", &err));
	assert_true(elf_file_is_go(&elf));
	assert_false(elf_file_build_id(&elf, id));
}

static void reads_what_identifies_a_build(void **state)
{
	(void)state;
	const struct image image = image_of_a_program();
	struct elf_file elf;
	struct error err;
	char id[ELF_BUILD_ID_MAX];
	ElfW(Phdr) other = image.segment;

	assert_true(elf_file_init(&elf, &image, sizeof image, "image", &err));
	assert_true(elf_file_build_id(&elf, id));
	assert_string_equal(id, "deadbeef");
	assert_false(elf_file_is_go(&elf));
	assert_true(elf_file_has_headers(&elf, &image.segment, 1));
	other.p_vaddr++;
	assert_false(elf_file_has_headers(&elf, &other, 1));
	assert_false(elf_file_has_headers(&elf, &image.segment, 2));
	assert_true(elf_file_has_text(&elf, '<', "jemalloc>: "));
	assert_false(elf_file_has_text(&elf, '(', "jemalloc>: "));
	assert_false(elf_file_has_text(&elf, 'm', "allctl_not"));
}

static void refuses_what_is_no_file_of_this_machine(void **state)
{
	(void)state;
	struct image image = image_of_a_program();
	struct elf_file elf = { .size = 77 };
	struct error err;

	assert_false(elf_file_init(&elf, "#!/bin/sh", 9, "script", &err));
	assert_contains(err.message, "script");
	assert_false(elf_file_init(&elf, &image, sizeof image.header - 1, "short", &err));
	image.header.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_false(elf_file_init(&elf, &image, sizeof image, "foreign", &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	image.header.e_ident[0] = 0;
	assert_false(elf_file_init(&elf, &image, sizeof image, "other", &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	assert_int_equal(elf.size, 77);
}

static void finds_a_whole_name_only(void **state)
{
	(void)state;
	struct image image = image_of_a_program();
	struct elf_file elf;
	struct error err;

	assert_true(elf_file_init(&elf, &image, sizeof image, "image", &err));
	assert_true(elf_file_has_name(&elf, "A_CONF"));
	assert_true(elf_file_has_name(&elf, "B_CONF"));
	assert_true(elf_file_has_name(&elf, "B_CONFIGURE"));
	assert_false(elf_file_has_name(&elf, "CONF"));
	assert_false(elf_file_has_name(&elf, "A_CON"));
	assert_false(elf_file_has_name(&elf, "FIGURE"));
}

static void finds_a_whole_name_at_every_place(void **state)
{
	(void)state;
	enum { FILLER = 2 * ELF_WINDOW_BYTES };
	const struct image small = image_of_a_program();
	static unsigned char file[sizeof small + FILLER + 8];

	for (size_t shift = 0; shift < FILLER; shift += shift % ELF_WINDOW_BYTES < 4060 ? 290 : 1) {
		struct image image = small;
		struct elf_file elf;
		struct error err;

		image.sections[5].sh_offset = sizeof image;
		image.sections[5].sh_size = FILLER + 8;
		memset(file, '.', sizeof file);
		memcpy(file, &image, sizeof image);
		memcpy(file + sizeof image + shift, "C_CONF", 7);
		assert_true(elf_file_init(&elf, file, sizeof file, "long", &err));
		assert_true(elf_file_has_name(&elf, "C_CONF"));
		if (shift > 0)
			assert_false(elf_file_has_name(&elf, "_CONF"));
		memcpy(file + sizeof image + shift, "XC_CONF", 8);
		assert_true(elf_file_init(&elf, file, sizeof file, "long", &err));
		assert_false(elf_file_has_name(&elf, "C_CONF"));
	}
}

static bool join_text(void *context, const char *text)
{
	char *const joined = context;

	strcat(strcat(joined, text), ";");
	return text[0] != 'e';
}

static void reads_what_a_program_needs(void **state)
{
	(void)state;
	struct image image = image_of_a_program();
	struct elf_file elf;
	struct error err;
	char joined[64] = "", text[16];

	assert_true(elf_file_init(&elf, &image, sizeof image, "image", &err));
	assert_true(elf_file_dynamic_texts(&elf, DT_RUNPATH, text, sizeof text, join_text, joined));
	assert_string_equal(joined, "allctl_not;");
	joined[0] = '\0';
	/* The third is too long, the fourth lies outside. */
	assert_true(elf_file_dynamic_texts(&elf, DT_NEEDED, text, sizeof text, join_text, joined));
	assert_string_equal(joined, "_rjem_mallctl;malloc;");
	image.sections[6].sh_type = SHT_NOTE;
	assert_true(elf_file_init(&elf, &image, sizeof image, "static", &err));
	assert_false(elf_file_dynamic_texts(&elf, DT_NEEDED, text, sizeof text, join_text, joined));

	assert_false(elf_file_has_interpreter(&elf));
	image.segment.p_type = PT_INTERP;
	assert_true(elf_file_init(&elf, &image, sizeof image, "dynamic", &err));
	assert_true(elf_file_has_interpreter(&elf));
}

static bool stop_at_text(void *context, const char *text)
{
	(void)context;
	return text[0] != 'm';
}

static void ask_everything(const void *data, size_t size)
{
	char text[16];
	struct elf_file elf;
	struct error err;
	struct sightings seen = { 0 };
	char id[ELF_BUILD_ID_MAX];
	ElfW(Phdr) segment = { 0 };

	if (!elf_file_init(&elf, data, size, "damaged", &err))
		return;
	elf_file_functions(&elf, "mallctl", note_sighting, &seen);
	elf_file_function(&elf, "malloc");
	elf_file_has_text(&elf, '<', "jemalloc>: ");
	elf_file_build_id(&elf, id);
	elf_file_is_go(&elf);
	elf_file_has_headers(&elf, &segment, 1);
	elf_file_has_name(&elf, "B_CONF");
	elf_file_has_interpreter(&elf);
	elf_file_dynamic_texts(&elf, DT_NEEDED, text, sizeof text, stop_at_text, NULL);
}

/* Where a name lies across the end of a piece that is read. */
static void finds_a_name_at_every_place(void **state)
{
	(void)state;
	enum { FILLER = 2 * ELF_WINDOW_BYTES };
	const struct image small = image_of_a_program();
	static unsigned char file[sizeof small + FILLER + sizeof texts];

	for (size_t shift = 0; shift < FILLER; shift += shift % ELF_WINDOW_BYTES < 4060 ? 290 : 1) {
		struct image image = small;
		struct elf_file elf;
		struct error err;
		struct sightings seen = { 0 };

		memset(file, 'x', sizeof file);
		memcpy(file + sizeof image + shift, texts, sizeof texts);
		image.sections[2].sh_offset = sizeof image;
		image.sections[2].sh_size = shift + sizeof texts;
		for (size_t i = 1; i < 5; i++)
			image.symbols[i].st_name += (uint32_t)shift;
		memcpy(file, &image, sizeof image);
		assert_true(elf_file_init(&elf, file, sizeof file, "long", &err));
		elf_file_functions(&elf, "mallctl", note_sighting, &seen);
		assert_int_equal(seen.count, 1);
		assert_string_equal(seen.name, "_rjem_mallctl");
		assert_int_equal(elf_file_function(&elf, "malloc"), 0x1300);
		assert_int_equal(elf_file_function(&elf, "jem_mallctl"), 0);
	}
}

/* As a package's upgrade in place may do. A mapping would end the process by SIGBUS. */
static void a_file_that_is_cut_meanwhile_has_fewer_names(void **state)
{
	(void)state;
	const struct image image = image_of_a_program();
	char path[] = "/tmp/heapctl-test-XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	for (size_t left = sizeof image; left > 0; left /= 2) {
		struct elf_file elf;
		struct error err;
		struct sightings seen = { 0 };
		char id[ELF_BUILD_ID_MAX];

		assert_int_equal(pwrite(fd, &image, sizeof image, 0), sizeof image);
		assert_true(elf_file_open(&elf, path, &err));
		assert_int_equal(ftruncate(fd, (off_t)(left / 2)), 0);
		elf_file_functions(&elf, "mallctl", note_sighting, &seen);
		assert_int_equal(seen.count, 0);
		assert_int_equal(elf_file_function(&elf, "malloc"), 0);
		assert_false(elf_file_build_id(&elf, id));
		assert_false(elf_file_has_text(&elf, '<', "jemalloc>: "));
		elf_file_close(&elf);
	}
	struct elf_file elf;
	struct error err;
	assert_false(elf_file_open(&elf, path, &err));
	assert_int_equal(pwrite(fd, &image, sizeof image, 0), sizeof image);
	assert_true(elf_file_open(&elf, path, &err));
	assert_int_equal(elf_file_function(&elf, "malloc"), 0x1300);
	elf_file_close(&elf);
	close(fd);
	unlink(path);
}

/* Each length in a block of its own, so that a sanitizer or valgrind sees a step too far. */
static void survives_every_cut(void **state)
{
	(void)state;
	const struct image image = image_of_a_program();

	for (size_t size = 0; size <= sizeof image; size++) {
		void *const cut = malloc(size == 0 ? 1 : size);
		assert_non_null(cut);
		memcpy(cut, &image, size);
		ask_everything(cut, size);
		free(cut);
	}
}

static void survives_every_damaged_byte(void **state)
{
	(void)state;
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	const struct image image = image_of_a_program();
	unsigned char *const damaged = malloc(sizeof image);

	assert_non_null(damaged);
	for (size_t at = 0; at < sizeof image; at++) {
		for (size_t i = 0; i < sizeof values; i++) {
			memcpy(damaged, &image, sizeof image);
			damaged[at] = values[i];
			ask_everything(damaged, sizeof image);
		}
	}
	free(damaged);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_functions_by_their_end),
	cmocka_unit_test(knows_a_program_of_gos_linker),
	cmocka_unit_test(reads_what_identifies_a_build),
	cmocka_unit_test(refuses_what_is_no_file_of_this_machine),
	cmocka_unit_test(finds_a_whole_name_only),
	cmocka_unit_test(finds_a_whole_name_at_every_place),
	cmocka_unit_test(reads_what_a_program_needs),
	cmocka_unit_test(finds_a_name_at_every_place),
	cmocka_unit_test(a_file_that_is_cut_meanwhile_has_fewer_names),
	cmocka_unit_test(survives_every_cut),
	cmocka_unit_test(survives_every_damaged_byte),
};
UNIT_MAIN(tests)
