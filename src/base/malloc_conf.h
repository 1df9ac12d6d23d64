/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's option strings, as in MALLOC_CONF: "prof:true,prof_active:false".
 *
 * jemalloc only prints a warning about an invalid option and ignores it, so code that sets or reads
 * such a string checks it here. Pairs are separated by ',' and a value ends at the next ',', with
 * any colons in it; a later pair overrides an earlier one; a character that cannot be in a key ends
 * the parsing. Takes no memory; safe on the resident side. Any thread.
 */
#pragma once

/* Where a jemalloc that can profile comes from, for hints. Debian's for arm64 cannot. */
#ifdef __aarch64__
#define MALLOC_CONF_JEMALLOC_SOURCE \
	"build jemalloc with --enable-prof; Debian's libjemalloc2 has no profiling on arm64"
#else
#define MALLOC_CONF_JEMALLOC_SOURCE "Debian: apt-get install libjemalloc2"
#endif

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct malloc_conf_pair {
	const char *key; /* not NUL-terminated, like the value */
	size_t key_size;
	const char *value;
	size_t value_size;
};

/*
 * Reads the pair at *text and moves behind it. False at the end, and where jemalloc stops reading:
 * then *text is not at its NUL but at the text that jemalloc cannot read.
 */
bool malloc_conf_next(const char **text, struct malloc_conf_pair *pair);

/* The effective pair of this key: the last one that jemalloc reads. */
bool malloc_conf_find(const char *text, const char *key, struct malloc_conf_pair *pair);

/* Whether an on/off option is on; `otherwise` when the text does not set it to true or false. */
bool malloc_conf_is_on(const char *text, const char *key, bool otherwise);

/*
 * Whether jemalloc will read the text as it was meant; if not, `err` (ERROR_USAGE) is the first
 * problem and its hint says what to write.
 */
bool malloc_conf_check(const char *text, struct error *err);

/*
 * The `index`-th problem; false when there are fewer. For lists of warnings:
 * for (i = 0; malloc_conf_problem(text, i, &err); i++).
 */
bool malloc_conf_problem(const char *text, size_t index, struct error *err);

enum { MALLOC_CONF_VARIABLE_BYTES = 64 };

/*
 * The environment variable that a jemalloc reads whose mallctl has this name: "mallctl" ->
 * MALLOC_CONF, "_rjem_mallctl" -> _RJEM_MALLOC_CONF. Returns `variable`.
 */
const char *malloc_conf_variable(
	const char *mallctl_symbol, char variable[MALLOC_CONF_VARIABLE_BYTES]);
