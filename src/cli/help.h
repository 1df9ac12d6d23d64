/* SPDX-License-Identifier: Apache-2.0 */
/* The help texts, made from the table of verbs. */
#pragma once

#include <stdio.h>

#include "cli/verb.h"

/* What `heapctl VERB --help` prints. */
void help_print(const struct verb *verb, FILE *out);

/* What `heapctl --help` prints: the verbs. */
void help_print_overview(FILE *out);

/*
 * Prints a text filled to lines of at most `limit` columns, each after the first indented by
 * `indent` blanks; `column` is where the first one begins. Paragraphs are separated by empty
 * lines; a line that begins with a blank is kept as it is.
 */
void help_fill(FILE *out, const char *text, size_t column, size_t indent, size_t limit);
