/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts in ClickHouse's languages: a value of a query ('it\'s'), and a column of the format
 * TabSeparated. Bytes that are not UTF-8 are written as U+FFFD, everything else as it is, quoted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* In quotes, for a query and for an element of an array. */
void clickhouse_append_quoted(struct buffer *out, const char *text);

/* Without quotes, for a column. */
void clickhouse_append_column(struct buffer *out, const char *text);

/* A column that is an array. */
void clickhouse_append_texts(struct buffer *out, const char *const *texts, size_t count);
void clickhouse_append_numbers(struct buffer *out, const uint64_t *numbers, size_t count);

/* With as many digits as the value has. */
void clickhouse_append_real(struct buffer *out, double value);

/* Whether it can be the name of a database or a cluster, as it is. */
bool clickhouse_is_name(const char *name);
