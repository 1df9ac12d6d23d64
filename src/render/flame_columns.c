/* SPDX-License-Identifier: Apache-2.0 */
#include "render/flame_columns.h"

#include <math.h>

#include "base/xalloc.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void number_column_append(struct buffer *out, uint64_t value)
{
	char text[13];
	size_t length = 0;

	while (value >= 32) {
		text[length++] = digits[32 | (value & 31)];
		value >>= 5;
	}
	text[length++] = digits[value];
	buffer_append(out, text, length);
}

void number_column_append_signed(struct buffer *out, int64_t value)
{
	number_column_append(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

/* Values beyond this are not exact in the script's numbers. */
#define MAX_NUMBER 9007199254740992.0 /* 2^53 */

static const char *const value_keys[VALUE_COLUMNS] = { "now", "error", "samples", "base",
	"base_error", "base_samples" };

void number_column_write(struct json_writer *json, const char *key, const struct buffer *column)
{
	json_key(json, key);
	json_put_string_sized(json, column->data == NULL ? "" : column->data, column->size);
}

static int64_t whole_number(double value)
{
	if (isnan(value))
		return 0;
	return llround(fmax(-MAX_NUMBER, fmin(MAX_NUMBER, value)));
}

void value_columns_init(struct value_columns *values)
{
	*values = (struct value_columns){ 0 };
	for (size_t i = 0; i < VALUE_COLUMNS; i++)
		buffer_init(&values->columns[i], &memory_or_exit);
}

void value_columns_deinit(struct value_columns *values)
{
	for (size_t i = 0; i < VALUE_COLUMNS; i++)
		buffer_deinit(&values->columns[i]);
}

static void append_value(struct value_columns *values, enum value_column column, double value)
{
	const int64_t number = whole_number(value);

	if (column == COLUMN_NOW || column == COLUMN_BASE)
		number_column_append_signed(&values->columns[column], number);
	else
		number_column_append(&values->columns[column], (uint64_t)(number < 0 ? 0 : number));
	values->is_filled[column] |= number != 0;
}

/* `base` may be NULL. */
void value_columns_append(struct value_columns *values, const struct estimate *now,
	const struct estimate *base, int scale)
{
	append_value(values, COLUMN_NOW, now->value * scale);
	append_value(values, COLUMN_ERROR, sqrt(now->variance) * scale);
	append_value(values, COLUMN_SAMPLES, now->samples);
	if (base == NULL)
		return;
	append_value(values, COLUMN_BASE, base->value * scale);
	append_value(values, COLUMN_BASE_ERROR, sqrt(base->variance) * scale);
	append_value(values, COLUMN_BASE_SAMPLES, base->samples);
}

/* Columns that are zero all over are left out. */
void value_columns_write(struct json_writer *json, const struct value_columns *values)
{
	for (size_t i = 0; i < VALUE_COLUMNS; i++) {
		if (values->is_filled[i])
			number_column_write(json, value_keys[i], &values->columns[i]);
	}
}
