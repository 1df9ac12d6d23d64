/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of numbers as the flame graph's script reads them (render_flame.c has the format), and
 * the columns of one counter.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/view.h"
#include "base/buffer.h"
#include "base/json_writer.h"

/* Append one number of a column. */
void number_column_append(struct buffer *out, uint64_t value);
void number_column_append_signed(struct buffer *out, int64_t value);

void number_column_write(struct json_writer *json, const char *key, const struct buffer *column);

enum value_column {
	COLUMN_NOW,
	COLUMN_ERROR,
	COLUMN_SAMPLES,
	COLUMN_BASE,
	COLUMN_BASE_ERROR,
	COLUMN_BASE_SAMPLES,
	VALUE_COLUMNS,
};

/* One counter of leaves, or of functions. */
struct value_columns {
	struct buffer columns[VALUE_COLUMNS];
	bool is_filled[VALUE_COLUMNS]; /* with something else than zeros */
};

void value_columns_init(struct value_columns *values);
void value_columns_deinit(struct value_columns *values);

/* Multiplied by `scale`, but for samples; `base` may be NULL. */
void value_columns_append(struct value_columns *values, const struct estimate *now,
	const struct estimate *base, int scale);

/* As members of an object; columns that are zero all over are left out. */
void value_columns_write(struct json_writer *json, const struct value_columns *values);
