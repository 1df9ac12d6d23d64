/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files by their build-id: those that were given, and all in folders that were given. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/error.h"

struct build_id_files;

struct build_id_files *build_id_files_new(void);
void build_id_files_free(struct build_id_files *files);

DEFINE_CLEANUP(build_id_files_cleanup, struct build_id_files *, build_id_files_free)

/*
 * Adds a file, or what is in a folder and below it, without following links. In a folder, files
 * that are no programs or libraries are passed over; a file that is given has to be one.
 */
MUST_CHECK bool build_id_files_add(
	struct build_id_files *files, const char *path, struct error *err);

/* The path of the one with most symbols; NULL when there is none. */
const char *build_id_files_find(const struct build_id_files *files, const char *build_id);

size_t build_id_files_count(const struct build_id_files *files);
