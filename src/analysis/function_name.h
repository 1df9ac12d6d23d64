/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readable names of functions: a demangled C++ name spells out the types of all
 * arguments and of the result, which makes a line unreadable and rarely matters.
 */
#pragma once

#include "base/buffer.h"

/*
 * Appends the name without arguments and result, keeping template arguments and what Rust or Go
 * put into a name: "void std::vector<int>::emplace<int&>(int&)" is
 * "std::vector<int>::emplace<int&>".
 */
void function_name_append_short(struct buffer *out, const char *name);

/*
 * Appends the name as jeprof shows it: also without anything in angle brackets. All instances of
 * a template look the same then, so this serves patterns written for jeprof, not reports.
 */
void function_name_append_bare(struct buffer *out, const char *name);
