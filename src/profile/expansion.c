/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/expansion.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/xalloc.h"

enum {
	STEP_BYTES = 1024 * 1024,
	MIN_RESERVED_BYTES = 16 * 1024 * 1024,
	MAX_BINARY_RATIO = 16,
	MIN_BINARY_BYTES = 64 * 1024 * 1024,
};

/* Where addresses are limited (ulimit -v), as many as there are. One step more than the limit. */
static bool reserve(struct expansion *expansion)
{
	size_t size = expansion->max_bytes > SIZE_MAX / 2 ? SIZE_MAX / 2 : expansion->max_bytes;

	for (size = (size / STEP_BYTES + 2) * STEP_BYTES;; size /= 2) {
		void *const memory =
			mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory != MAP_FAILED) {
			expansion->data = memory;
			expansion->reserved_bytes = size;
			return true;
		}
		if (size / 2 < MIN_RESERVED_BYTES)
			return false;
	}
}

static void release(struct expansion *expansion, const unsigned char *end)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = (size_t)(end - (const unsigned char *)expansion->data) & ~(page - 1);
	char *const first = (char *)(uintptr_t)expansion->data + expansion->released_bytes;

	if (bytes < expansion->released_bytes + STEP_BYTES)
		return;
	munmap(first, bytes - expansion->released_bytes);
	expansion->released_bytes = bytes;
}

static void extend(struct cursor *cursor, size_t wanted, bool releases)
{
	struct expansion *const expansion = (struct expansion *)cursor->source;
	const size_t at = cursor_offset(cursor);
	const size_t size = wanted > SIZE_MAX - at ? SIZE_MAX : at + wanted;

	if (releases)
		release(expansion, cursor->position);
	if (expansion->failure.kind != ERROR_NONE ||
		!expansion_fill(expansion, size, &expansion->failure))
		cursor_fail(cursor, "it cannot be expanded");
	else
		cursor->end = cursor->start + expansion->size;
	if (expansion->state.is_finished)
		cursor->source = NULL;
}

struct expansion *expansion_new(const struct expander *expander, const char *name, const void *data,
	size_t size, size_t max_bytes, size_t max_held_bytes, struct error *err)
{
	struct expansion *const expansion = xcalloc(1, sizeof *expansion);

	expansion->source.extend = extend;
	expansion->max_bytes = max_bytes;
	expansion->max_held_bytes = max_held_bytes;
	if (!expander_begin(&expansion->state, expander, name, data, size, err)) {
		expansion_free(expansion);
		return NULL;
	}
	if (!reserve(expansion)) {
		error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
		expansion_free(expansion);
		return NULL;
	}
	return expansion;
}

void expansion_free(struct expansion *expansion)
{
	if (expansion == NULL)
		return;
	if (expansion->data != NULL)
		munmap((char *)(uintptr_t)expansion->data + expansion->released_bytes,
			expansion->reserved_bytes - expansion->released_bytes);
	expander_end(&expansion->state);
	free(expansion);
}

static bool refuse_size(const struct expansion *expansion, size_t limit, struct error *err)
{
	error_set(err, ERROR_INPUT, "%s: expands to more than %zu bytes", expansion->state.name,
		limit);
	return error_hint(err, "expand it to a file and read that: a plain file has no limit");
}

static bool grow(struct expansion *expansion, struct error *err)
{
	char *const end = (char *)(uintptr_t)expansion->data + expansion->writable_bytes;

	if (expansion->writable_bytes - expansion->released_bytes >= expansion->max_held_bytes)
		return refuse_size(expansion, expansion->max_held_bytes, err);
	if (expansion->reserved_bytes - expansion->writable_bytes < STEP_BYTES ||
		mprotect(end, STEP_BYTES, PROT_READ | PROT_WRITE) != 0)
		return error_set(
			err, ERROR_MEMORY, "%s: no memory to expand it", expansion->state.name);
	expansion->writable_bytes += STEP_BYTES;
	return true;
}

bool expansion_fill(struct expansion *expansion, size_t size, struct error *err)
{
	size_t made = 0;

	while (expansion->size < size && !expansion->state.is_finished) {
		if (expansion->size == expansion->writable_bytes && !grow(expansion, err))
			return false;
		if (!expander_step(&expansion->state,
			    (char *)(uintptr_t)expansion->data + expansion->size,
			    expansion->writable_bytes - expansion->size, &made, err))
			return false;
		expansion->size += made;
		if (expansion->size > expansion->max_bytes)
			return refuse_size(expansion, expansion->max_bytes, err);
	}
	return true;
}

void expansion_fetch_binary(struct cursor *in)
{
	struct expansion *const expansion = (struct expansion *)in->source;

	if (expansion == NULL)
		return;
	const size_t fair = expansion->state.size * MAX_BINARY_RATIO;
	const size_t max = fair < MIN_BINARY_BYTES ? MIN_BINARY_BYTES : fair;
	if (expansion->max_held_bytes > max)
		expansion->max_held_bytes = max;
	(void)cursor_fetch(in, SIZE_MAX);
}

struct cursor expansion_cursor(struct expansion *expansion)
{
	struct cursor in = cursor_over(expansion->data, expansion->size);

	assert(expansion->released_bytes == 0);
	in.source = expansion->state.is_finished ? NULL : &expansion->source;
	return in;
}
