/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of numbers as short texts; the encoding is described in flame_data.h. Any thread. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

void number_column_append(struct buffer *out, uint64_t value);
void number_column_append_signed(struct buffer *out, int64_t value);
