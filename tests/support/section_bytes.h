/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names as DWARF's sections have them, in the byte order of this machine. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"

static inline void u8(struct buffer *out, unsigned value)
{
	buffer_append_char(out, (char)value);
}

static inline void u16(struct buffer *out, uint16_t value)
{
	buffer_append(out, &value, sizeof value);
}

static inline void u32(struct buffer *out, uint32_t value)
{
	buffer_append(out, &value, sizeof value);
}

static inline void u64(struct buffer *out, uint64_t value)
{
	buffer_append(out, &value, sizeof value);
}

static inline void text(struct buffer *out, const char *value)
{
	buffer_append(out, value, strlen(value) + 1);
}
