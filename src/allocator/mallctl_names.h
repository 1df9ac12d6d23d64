/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's control names (mallctl(3)): the type of each value, and which of them an operator may
 * use. jemalloc reports no types, answers a wrong size with EINVAL after it has written some bytes,
 * and crashes on a few names.
 *
 * Patterns match numbered names: "arena.<i>.purge". A number is any decimal number, or 4096
 * for all arenas together.
 *
 * Pure functions on constant tables: any thread, any place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_writer.h"

enum mallctl_type {
	MALLCTL_UNKNOWN, /* not in the table: the caller has to say */
	MALLCTL_BOOL,	 /* bool, 1 byte */
	MALLCTL_U32,	 /* unsigned */
	MALLCTL_U64,
	MALLCTL_SIZE,
	MALLCTL_SSIZE,
	MALLCTL_STRING, /* const char * */
	MALLCTL_UNIT,	/* takes and gives no value; writing it does something */
};

enum {
	MALLCTL_NAME_MAX = 128,	  /* bytes of a name, with its NUL */
	MALLCTL_STRING_MAX = 1024 /* bytes of a string value, with its NUL; longer ones are cut */
};

struct mallctl_value {
	enum mallctl_type type;
	uint64_t number; /* bool: 0 or 1; ssize: two's complement */
	char text[MALLCTL_STRING_MAX];
};

/* "bool", "u32", "u64", "size", "ssize", "string", "unit"; "unknown". */
const char *mallctl_type_name(enum mallctl_type type);
/* The reverse; MALLCTL_UNKNOWN for any other word. */
enum mallctl_type mallctl_type_parse(const char *word);

/* The type of jemalloc's own names, numbered ones too; MALLCTL_UNKNOWN for others. */
enum mallctl_type mallctl_name_type(const char *name);

/*
 * Whether reading `name` is harmless. ERROR_USAGE: no name at all. ERROR_DENIED: it would crash
 * the process, or its value is a structure or a pointer.
 */
MUST_CHECK bool mallctl_check_read(const char *name, struct error *err);

/*
 * The same for writing. Beyond those, refused with ERROR_DENIED unless `force`: names that write
 * files, discard samples behind the agent's back, or make resources that cannot be given back
 * (prof.dump, prof.prefix, prof.log_start, prof.reset, prof.gdump, arenas.create, tcache.create,
 * background_thread, max_background_threads). Never allowed: names that free memory the
 * application still uses (arena.<i>.reset, arena.<i>.destroy, tcache.flush, tcache.destroy).
 */
MUST_CHECK bool mallctl_check_write(const char *name, bool force, struct error *err);

/* Reads what an operator typed: "true"/"false"/"1"/"0", decimal or 0x numbers, text. */
MUST_CHECK bool mallctl_value_parse(
	enum mallctl_type type, const char *text, struct mallctl_value *value, struct error *err);

/* The value as JSON: true, 42, "text"; null for unit. */
void mallctl_value_json(struct json_writer *json, const struct mallctl_value *value);
