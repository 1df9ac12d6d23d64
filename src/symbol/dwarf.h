/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, inlined calls, files and lines of many addresses of one file at once.
 *
 * dwarf_plan sorts the addresses by unit; then each unit that has some is a job, which reads its
 * DIEs once and its line program once. Jobs may run on different threads at the same time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "symbol/boundaries.h"
#include "symbol/dwarf_job.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"

struct dwarf_reader;

/*
 * A frame of an answer with the name that `symbol`, which the symbol table has at the address (NULL
 * for none), gives to a function without a full name in DWARF.
 */
struct dwarf_frame dwarf_frame_named(
	const struct dwarf_answer *answer, uint32_t position, const char *symbol);

/* Whether the image has DWARF. */
bool dwarf_exists(const struct elf_image *image);

/* `program` names the module's file; split files are found beside it. Both outlive the reader. */
MUST_CHECK bool dwarf_reader_new(const struct elf_image *image, struct file_search *search,
	const char *program, struct dwarf_reader **reader, struct error *err);

/*
 * The same, and answers the addresses, as after dwarf_plan and all jobs; some jobs may be left.
 * Where the file allows it, it is read from its beginning to its end and not kept.
 */
MUST_CHECK bool dwarf_reader_answer(const struct elf_image *image, struct file_search *search,
	const char *program, const struct dwarf_addresses *addresses, struct dwarf_reader **reader,
	struct error *err);

/* Adds what the user can do where one of the two failed. Returns false. */
bool dwarf_hint(struct error *err);
void dwarf_reader_free(struct dwarf_reader *reader);

/*
 * Plans the jobs for sorted addresses, and makes room for the answers. is_function[i] is true where
 * a symbol says that the address is in some function: then a slower search is worth it. The arrays
 * are borrowed; what answers point to lives until dwarf_reader_free.
 */
void dwarf_plan(
	struct dwarf_reader *reader, const uint64_t *vaddrs, const bool *is_function, size_t count);
size_t dwarf_job_count(const struct dwarf_reader *reader);
uint64_t dwarf_job_bytes(const struct dwarf_reader *reader, size_t job);
void dwarf_run_job(struct dwarf_reader *reader, size_t job);

/* Releases the job's answers once they were used: the frames, but not the texts in sections. */
void dwarf_release_job(struct dwarf_reader *reader, size_t job);

/* The positions of the job's addresses in the planned array. */
const uint32_t *dwarf_job_positions(const struct dwarf_reader *reader, size_t job, size_t *count);

/* Adds the boundaries of all units, before anything is planned. */
void dwarf_boundaries(struct dwarf_reader *reader, unsigned threads, struct boundaries *boundaries);

/* One per address, once all jobs have run. */
const struct dwarf_answer *dwarf_answers(const struct dwarf_reader *reader);

/* Releases what answers point to, once they were used. */
void dwarf_release_answers(struct dwarf_reader *reader);

/* The first split file that cannot be used, and why: "a.dwo was not found". NULL for none. */
const char *dwarf_split_problem(const struct dwarf_reader *reader);

/* The same of the file that dwz moved parts to. */
const char *dwarf_alternate_problem(const struct dwarf_reader *reader);

/* Appends what could not be decoded, with its file, and returns true; false where all could. */
bool dwarf_is_damaged(const struct dwarf_reader *reader, struct buffer *problem);

/* The same of a split file: names, files and lines of what is not inlined are in the program. */
bool dwarf_has_damaged_split(const struct dwarf_reader *reader, struct buffer *problem);

/* What the user can do about the three. */
#define DWARF_SPLIT_HINT                                                                     \
	"put the .dwo files of this build where they were compiled, or its .dwp beside the " \
	"program"
#define DWARF_DAMAGE_HINT "get an undamaged copy of the file"
#define DWARF_ALTERNATE_HINT "install the rest of its debug package, or point --build-id-dir at it"
