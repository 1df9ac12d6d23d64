/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *block, size_t size)
{
	if (block == NULL) {
		fprintf(stderr, "heapctl: out of memory: %zu bytes wanted\n", size);
		exit(1);
	}
	return block;
}

void *xmalloc(size_t size)
{
	return checked(malloc(size == 0 ? 1 : size), size);
}

void *xcalloc(size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return checked(calloc(count, size), size);
}

void *xreallocarray(void *block, size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return checked(reallocarray(block, count, size), size);
}

void *xgrow(void *items, size_t *capacity, size_t needed, size_t size)
{
	if (items != NULL && needed <= *capacity)
		return items;

	size_t wanted = *capacity < 8 ? 16 : 2 * *capacity;
	if (wanted < needed)
		wanted = needed;
	items = xreallocarray(items, wanted, size);
	*capacity = wanted;
	return items;
}

char *xstrndup(const char *text, size_t size)
{
	return checked(strndup(text, size), size);
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xasprintf(const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	return checked(text, strlen(format));
}

static void *resize_or_exit(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	(void)memory;
	(void)old_size;
	if (new_size == 0) {
		free(block);
		return NULL;
	}
	return checked(realloc(block, new_size), new_size);
}

const struct memory memory_or_exit = { .resize = resize_or_exit };
