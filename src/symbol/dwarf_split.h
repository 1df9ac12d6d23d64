/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: units whose DIEs the compiler left in .dwo files, or dwp put together in a .dwp.
 * The functions may be called from several threads at once.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "symbol/dwarf_unit.h"
#include "symbol/file_search.h"

struct dwarf_split_file;

/* The split files of a module that were opened so far. */
struct dwarf_splits {
	struct file_search *search;
	const char *program; /* path of the module, which the .dwp is named after; borrowed */
	pthread_mutex_t lock;
	struct dwarf_split_file **files;
	size_t file_count, file_capacity;
	bool looked_for_package;
	struct dwarf_split_file *package; /* the .dwp, NULL when there is none */
	const char *package_problem;	  /* why it cannot be opened; NULL when it can */
	char *problem; /* of the first file that cannot be used; NULL when there is none */
};

void dwarf_splits_init(
	struct dwarf_splits *splits, struct file_search *search, const char *program);
void dwarf_splits_deinit(struct dwarf_splits *splits);

/* The first of the files whose damage was noted; NULL for none. */
const struct dwarf *dwarf_splits_damaged(const struct dwarf_splits *splits);

/* Whether the unit's DIEs are in another file. */
bool dwarf_unit_is_skeleton(struct dwarf_unit *unit);

/* The unit with the DIEs of a skeleton; NULL when its file is missing or is another one. */
struct dwarf_unit *dwarf_splits_find(struct dwarf_splits *splits, struct dwarf_unit *skeleton);
