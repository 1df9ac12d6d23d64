/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's protocol buffers (profile.proto of google/pprof), usually compressed with gzip.
 *
 * Addresses there lie within the call, not after it as in heap_v2, so locations that are read are
 * exact, and one is taken from return addresses that are written. Values are estimates already:
 * nothing is left to scale up.
 *
 * Threads: a label "thread" with a number or a name makes a sample that of a thread, on top of
 * counting for all threads together. A label "bytes" is the size of one object.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

/* Where a mapped file has its code: what readers need to find an address in it. */
struct pprof_executable {
	unsigned elf_type;	/* ET_DYN, ...; 0 when it is not known */
	uint64_t offset, vaddr; /* of the segment that is mapped */
};

struct pprof_write_options {
	bool plain;	  /* do not compress */
	bool strip_names; /* of what has addresses: readers look them up themselves */
	/*
	 * For each mapping of the profile; NULL for none. Each mapping that is written gets a
	 * comment "executableInfo=TYPE;OFFSET;VADDR", in hexadecimal and in the order of the
	 * mappings, as Parca reads them.
	 */
	const struct pprof_executable *executables;
};

/*
 * Writes the samples, whose stacks and threads are those of `profile` and whose counters are
 * estimates, with the profile's mappings, names, time and comments.
 *
 * pprof has only whole numbers. Each counter is rounded so that the sums over all samples are
 * those of the estimates, too: what rounding took from one sample, the next one gets.
 *
 * A mapping is marked as having functions, files or lines only when every location in it that is
 * written has; then go's pprof does not look for symbols on its own.
 */
MUST_CHECK bool pprof_write(const struct profile *profile, const struct profile_sample *samples,
	size_t sample_count, const struct pprof_write_options *options, struct buffer *out,
	struct error *err);

/* The fields of the messages. */
enum {
	PPROF_SAMPLE_TYPE = 1,
	PPROF_SAMPLE = 2,
	PPROF_MAPPING = 3,
	PPROF_LOCATION = 4,
	PPROF_FUNCTION = 5,
	PPROF_STRING_TABLE = 6,
	PPROF_DROP_FRAMES = 7,
	PPROF_KEEP_FRAMES = 8,
	PPROF_TIME_NANOS = 9,
	PPROF_DURATION_NANOS = 10,
	PPROF_PERIOD_TYPE = 11,
	PPROF_PERIOD = 12,
	PPROF_COMMENT = 13,
	PPROF_DEFAULT_SAMPLE_TYPE = 14,
};

enum {
	VALUE_TYPE_TYPE = 1,
	VALUE_TYPE_UNIT = 2,
};

enum {
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
};

enum {
	LABEL_KEY = 1,
	LABEL_STR = 2,
	LABEL_NUM = 3,
	LABEL_NUM_UNIT = 4,
};

enum {
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINE_NUMBERS = 9,
	MAPPING_HAS_INLINE_FRAMES = 10,
};

enum {
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
};

enum {
	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
};

enum {
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
	FUNCTION_START_LINE = 5,
};

struct pprof_meaning {
	enum profile_kind kind;
	enum profile_counter counter;
	double scale; /* a recorded unit in the counter's unit */
};

/*
 * The meaning of a type and its unit, as ("inuse_space", "bytes"). Other spellings are understood
 * by their parts. False when our profiles cannot represent it (goroutines, for example).
 */
bool pprof_type_parse(const char *type, const char *unit, struct pprof_meaning *meaning);

struct pprof_type {
	const char *type;
	const char *unit;
	enum profile_counter counter;
};

/* The types in which a profile of this kind is written, in order. */
const struct pprof_type *pprof_types_of(enum profile_kind kind, size_t *count);

/*
 * The wire format of protocol buffers, as much of it as pprof needs.
 *
 * Reading: proto_next steps from field to field; the bytes of a field of wire type 2 are a cursor
 * of their own, whose offsets still count from the beginning of the whole input. Writing appends
 * to a buffer; a message inside a message is written to a buffer of its own first.
 */

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
