/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from an ELF file of this machine's kind (elf(5)) its functions by name, its constant texts
 * and its needed libraries. Every offset is checked against the file: a damaged file yields fewer
 * names or an error, never a wild read. Takes no memory; safe on the resident side.
 *
 * The file is read piece by piece and never mapped: one that is truncated meanwhile yields fewer
 * names, too, where a mapping would kill the process by SIGBUS.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	ELF_BUILD_ID_MAX = 2 * 64 + 1,
	ELF_WINDOW_BYTES = 4096,
	ELF_NAME_MAX = 128, /* longer names are skipped */
	ELF_NAMES_MAX = 64, /* and so are names with the same ending beyond this number */
};

/* One thread at a time. */
struct elf_file {
	int fd;			   /* -1: the bytes are in memory */
	const unsigned char *data; /* borrowed */
	uint64_t size;
	ElfW(Ehdr) header;
	unsigned char window[ELF_WINDOW_BYTES]; /* the last piece read */
	uint64_t window_offset;
	size_t window_size;
};

/*
 * ERROR_INPUT when it is no ELF file, ERROR_UNSUPPORTED when its words have another size or order
 * than this machine's. Close with elf_file_close.
 */
MUST_CHECK bool elf_file_open(struct elf_file *elf, const char *path, struct error *err);

/* The same of an open file, which is borrowed: do not close it with elf_file_close. */
MUST_CHECK bool elf_file_init_fd(struct elf_file *elf, int fd, const char *name, struct error *err);
void elf_file_close(struct elf_file *elf);

/* The same of bytes in memory, which are borrowed; `name` is for the message. */
MUST_CHECK bool elf_file_init(
	struct elf_file *elf, const void *data, size_t size, const char *name, struct error *err);

/* The hash of a name in a table of DT_GNU_HASH; in one of DT_HASH. */
uint32_t elf_gnu_hash(const char *name);
uint32_t elf_old_hash(const char *name);

/* Whether there is a full symbol table, that is: it was not stripped. */
bool elf_file_has_symbol_table(struct elf_file *elf);

/*
 * Calls `visit` for each defined function whose name ends in `suffix`, first those of the full
 * symbol table, then the dynamic ones. `value` is as linked, without the load bias. Ends early when
 * `visit` returns false, which may read the same file.
 */
void elf_file_functions(struct elf_file *elf, const char *suffix,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context);

/* Where a function of exactly this name is; 0 when there is none. */
uint64_t elf_file_function(struct elf_file *elf, const char *name);

/*
 * Whether a constant text contains `first` followed by `rest`; those of a stripped file are still
 * there. In two parts, so that it does not find the caller's own constant, which may be in this
 * file.
 */
bool elf_file_has_text(struct elf_file *elf, char first, const char *rest);

/*
 * Whether there is a constant text `name` with a NUL behind it and no letter, digit or underscore
 * before it. At most ELF_NAME_MAX bytes long.
 */
bool elf_file_has_name(struct elf_file *elf, const char *name);

/*
 * Calls `visit` with the text of each entry of the dynamic section that has this tag (DT_NEEDED,
 * DT_RUNPATH), which is read into `text`; those that do not fit are skipped. Ends early when
 * `visit` returns false. False when there is no dynamic section.
 */
bool elf_file_dynamic_texts(struct elf_file *elf, int64_t tag, char *text, size_t size,
	bool (*visit)(void *context, const char *text), void *context);

/* Whether a dynamic loader starts it (PT_INTERP). */
bool elf_file_has_interpreter(struct elf_file *elf);

/* Whether its program headers are these. */
bool elf_file_has_headers(struct elf_file *elf, const ElfW(Phdr) * headers, size_t count);

/* The NT_GNU_BUILD_ID note in lower-case hex; false when there is none. */
bool elf_file_build_id(struct elf_file *elf, char id[ELF_BUILD_ID_MAX]);

/* The same out of note bytes, of a loaded object for instance. */
bool elf_notes_build_id(const void *notes, size_t size, char id[ELF_BUILD_ID_MAX]);

/* Whether Go's linker made it: its note is there in stripped files, too. */
bool elf_file_is_go(struct elf_file *elf);
