/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/codec.h"
#include "profile/expand.h"

enum {
	/* Smaller files are read: a mapping would fail under us if somebody cut the file. */
	SMALLEST_MAPPED_BYTES = 16 * 1024 * 1024,
	/* A file compressed twice is an accident; more often it is an attack. */
	MOST_LAYERS = 3,
};

uint64_t input_machine_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t limit_of(const struct profile_read_options *options)
{
	const uint64_t four_gib = UINT64_C(4) << 30;

	if (options != NULL && options->max_bytes != 0)
		return options->max_bytes;
	const uint64_t half = input_machine_memory() / 2;
	return half < four_gib ? half : four_gib;
}

void input_close(struct input *input)
{
	file_unmap(&input->map);
	if (input->buffer.memory != NULL)
		buffer_deinit(&input->buffer);
	*input = (struct input){ 0 };
}

/* Puts the expanded bytes in the place of the compressed ones. */
static bool expand_layer(const char *name, const struct expander *expander, size_t limit,
	struct input *input, struct error *err)
{
	struct buffer plain;

	buffer_init(&plain, &memory_pages);
	plain.limit = limit;
	if (!expander->expand(name, input->data, input->size, &plain, err)) {
		buffer_deinit(&plain);
		return false;
	}
	input_close(input);
	input->buffer = plain;
	input->data = plain.data;
	input->size = plain.size;
	return true;
}

static bool expand_all(const char *name, size_t limit, struct input *input, struct error *err)
{
	for (int layer = 0;; layer++) {
		const struct expander *const expander = expander_find(input->data, input->size);
		if (expander == NULL)
			return true;
		if (layer == MOST_LAYERS)
			return error_set(err, ERROR_INPUT, "%s: compressed more than %d times over",
				name, MOST_LAYERS);
		if (!expand_layer(name, expander, limit, input, err))
			return false;
	}
}

bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct input *input, struct error *err)
{
	*input = (struct input){ .data = data, .size = size };
	if (expand_all(name, limit_of(options), input, err))
		return true;
	input_close(input);
	return false;
}

static bool map_or_read(
	int fd, const char *name, size_t limit, struct input *input, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", name);
	if (S_ISREG(status.st_mode) && status.st_size >= SMALLEST_MAPPED_BYTES) {
		if (!file_map_fd(fd, name, &input->map, err))
			return false;
		input->data = input->map.data;
		input->size = input->map.size;
		return true;
	}
	buffer_init(&input->buffer, &memory_pages);
	input->buffer.limit = limit;
	if (!file_read_fd(fd, name, &input->buffer, err))
		return false;
	input->data = input->buffer.data;
	input->size = input->buffer.size;
	return true;
}

static bool open_fd(int fd, const char *name, const struct profile_read_options *options,
	struct input *input, struct error *err)
{
	const size_t limit = limit_of(options);

	*input = (struct input){ 0 };
	if (map_or_read(fd, name, limit, input, err) && expand_all(name, limit, input, err))
		return true;
	input_close(input);
	return false;
}

bool input_open(const char *path, const struct profile_read_options *options, struct input *input,
	struct error *err)
{
	if (strcmp(path, "-") == 0)
		return open_fd(STDIN_FILENO, "standard input", options, input, err);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return open_fd(fd, path, options, input, err);
}
