/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buffer_init(struct buffer *buffer, const struct memory *memory)
{
	*buffer = (struct buffer){ .limit = SIZE_MAX, .memory = memory };
}

void buffer_deinit(struct buffer *buffer)
{
	if (buffer->data != NULL)
		memory_resize(buffer->memory, buffer->data, buffer->capacity, 0);
	buffer_init(buffer, buffer->memory);
}

bool buffer_reserve(struct buffer *buffer, size_t extra)
{
	size_t needed = 0;

	if (buffer->failed)
		return false;
	if (__builtin_add_overflow(buffer->size, extra, &needed) || needed > buffer->limit) {
		buffer->failed = true;
		return false;
	}
	if (needed <= buffer->capacity)
		return true;

	size_t wanted = buffer->capacity < 256 ? 256 : buffer->capacity;
	while (wanted < needed && !__builtin_mul_overflow(wanted, (size_t)2, &wanted))
		continue;
	char *const data = memory_resize(buffer->memory, buffer->data, buffer->capacity, wanted);
	if (data == NULL) {
		buffer->failed = true;
		return false;
	}
	buffer->data = data;
	buffer->capacity = wanted;
	return true;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size)
{
	if (size == 0 || !buffer_reserve(buffer, size))
		return;
	memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
}

void buffer_append_string(struct buffer *buffer, const char *text)
{
	buffer_append(buffer, text, strlen(text));
}

void buffer_append_char(struct buffer *buffer, char c)
{
	buffer_append(buffer, &c, 1);
}

void buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
{
	va_list again;

	va_copy(again, arguments);
	if (buffer_reserve(buffer, 64)) {
		const size_t room = buffer->capacity - buffer->size;
		const int length = vsnprintf(buffer->data + buffer->size, room, format, arguments);
		if (length < 0) {
			buffer->failed = true;
		} else if ((size_t)length < room) {
			buffer->size += (size_t)length;
		} else if (buffer_reserve(buffer, (size_t)length + 1)) {
			vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, again);
			buffer->size += (size_t)length;
		}
	}
	va_end(again);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	buffer_vprintf(buffer, format, arguments);
	va_end(arguments);
}

void buffer_drain(struct buffer *buffer)
{
	enum { DRAINED_BYTES = 1024 * 1024 };
	const struct buffer_drain *const drain = buffer->drain;

	if (drain == NULL || buffer->failed || buffer->size < DRAINED_BYTES)
		return;
	buffer->failed = !drain->take(drain->context, buffer->data, buffer->size);
	buffer->size = 0;
}

void buffer_clear(struct buffer *buffer)
{
	buffer->size = 0;
	buffer->failed = false;
}

const char *buffer_string(struct buffer *buffer)
{
	if (!buffer_reserve(buffer, 1))
		return "";
	buffer->data[buffer->size] = '\0';
	return buffer->data;
}

char *buffer_take(struct buffer *buffer)
{
	if (!buffer_reserve(buffer, 1)) {
		buffer_deinit(buffer);
		return NULL;
	}
	buffer->data[buffer->size] = '\0';
	char *const data = buffer->data;
	buffer_init(buffer, buffer->memory);
	return data;
}
