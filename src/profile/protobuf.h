/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format of protocol buffers, as much of it as pprof needs.
 *
 * Reading: proto_next steps from field to field; the bytes of a field of wire type 2 are a cursor
 * of their own, whose offsets still count from the beginning of the whole input. Writing appends
 * to a buffer; a message inside a message is written to a buffer of its own first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"

enum proto_wire {
	PROTO_VARINT = 0,
	PROTO_FIXED64 = 1,
	PROTO_BYTES = 2,
	PROTO_FIXED32 = 5,
};

struct proto_field {
	uint32_t number;
	enum proto_wire wire;
	uint64_t value;	     /* of the numeric wire types */
	struct cursor bytes; /* of PROTO_BYTES */
};

/* The next field; false at the end and when it fails. */
bool proto_next(struct cursor *in, struct proto_field *field);

/* Copies the failure of a part, if there is one, to the whole. */
void proto_join(struct cursor *whole, const struct cursor *part);

/*
 * The next number of a repeated field, which may be single or packed: call it until it is false for
 * each such field.
 */
bool proto_repeated(struct cursor *in, struct proto_field *field, uint64_t *value);

/* Zero is not written: it is the default. */
void proto_put_number(struct buffer *out, uint32_t number, uint64_t value);
void proto_put_bytes(struct buffer *out, uint32_t number, const void *data, size_t size);
void proto_put_varint(struct buffer *out, uint64_t value);
