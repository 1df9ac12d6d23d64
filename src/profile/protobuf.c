/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/protobuf.h"

/* The cursor steps over the bytes; what is returned covers just them. */
static struct cursor take_bytes(struct cursor *in)
{
	const uint64_t size = cursor_uleb(in);
	struct cursor bytes = *in;

	cursor_skip(in, size);
	bytes.end = in->position;
	if (!cursor_ok(in))
		bytes.position = bytes.end;
	return bytes;
}

bool proto_next(struct cursor *in, struct proto_field *field)
{
	if (cursor_left(in) == 0)
		return false;
	const struct cursor before = *in;
	const uint64_t key = cursor_uleb(in);
	*field = (struct proto_field){ .number = (uint32_t)(key >> 3), .wire = key & 7 };
	if (cursor_ok(in) && (key >> 3 == 0 || key >> 3 > 0x1fffffff)) {
		in->position = before.position;
		cursor_fail(in, "invalid field number");
	}
	switch (key & 7) {
	case PROTO_VARINT:
		field->value = cursor_uleb(in);
		break;
	case PROTO_FIXED64:
		field->value = cursor_u64(in);
		break;
	case PROTO_BYTES:
		field->bytes = take_bytes(in);
		break;
	case PROTO_FIXED32:
		field->value = cursor_u32(in);
		break;
	default:
		in->position = before.position;
		cursor_fail(in, "a field of no known kind");
	}
	return cursor_ok(in);
}

void proto_join(struct cursor *whole, const struct cursor *part)
{
	if (cursor_ok(part) || !cursor_ok(whole))
		return;
	whole->position = whole->start + part->problem_offset;
	cursor_fail(whole, part->problem);
}

bool proto_repeated(struct cursor *in, struct proto_field *field, uint64_t *value)
{
	if (field->wire == PROTO_VARINT) {
		*value = field->value;
		/* Once only: from now on it is an empty packed field. */
		field->wire = PROTO_BYTES;
		field->bytes = *in;
		field->bytes.end = field->bytes.position;
		return true;
	}
	if (cursor_left(&field->bytes) == 0)
		return false;
	*value = cursor_uleb(&field->bytes);
	proto_join(in, &field->bytes);
	return cursor_ok(in);
}

void proto_put_varint(struct buffer *out, uint64_t value)
{
	char bytes[10];
	size_t size = 0;

	while (value >= 0x80) {
		bytes[size++] = (char)(value | 0x80);
		value >>= 7;
	}
	bytes[size++] = (char)value;
	buffer_append(out, bytes, size);
}

void proto_put_number(struct buffer *out, uint32_t number, uint64_t value)
{
	if (value == 0)
		return;
	proto_put_varint(out, (uint64_t)number << 3 | PROTO_VARINT);
	proto_put_varint(out, value);
}

void proto_put_bytes(struct buffer *out, uint32_t number, const void *data, size_t size)
{
	proto_put_varint(out, (uint64_t)number << 3 | PROTO_BYTES);
	proto_put_varint(out, size);
	buffer_append(out, data, size);
}
