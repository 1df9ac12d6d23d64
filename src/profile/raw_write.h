/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a heap or growth profile as text with its counters as they are, so that the reader
 * scales them up as we would: heap_v2 with its threads where counters are meant that way,
 * gperftools' form otherwise. Locations that have no address get one that no process uses, which
 * the reader forgets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "profile/profile.h"

/* Appends to `out`. ERROR_UNSUPPORTED for other kinds of profiles and for negative values. */
MUST_CHECK bool raw_write(const struct profile *profile, struct buffer *out, struct error *err);

/* Appends a text on one line: tabulators and newlines become blanks. */
void raw_put_text(struct buffer *out, const char *text);

/*
 * The address by which a location is written. It is a return address: that of an exact location
 * is one more than where execution was.
 */
uint64_t raw_address(const struct profile *profile, uint32_t location);

/* Whether raw_address() made up this address, for a location that has none. */
bool raw_is_made_up(uint64_t address);
