/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/compress.h"
#include "profile/readers.h"
#include "profile/tar.h"
#include "profile/text.h"

enum {
	/* Smaller files are read: a mapping would fail under us if another process cut the file. */
	MIN_MAPPED_BYTES = 16 * 1024 * 1024,
	/* A file compressed twice is an accident; more often it is an attack. */
	MAX_LAYERS = 3,
	/* Longer than any line, and enough to recognise any format. */
	BEGINNING_BYTES = 2 * 1024 * 1024,
	MAX_RATIO = 100,
	MIN_LIMIT_BYTES = 64 * 1024 * 1024,
};

uint64_t input_machine_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * The limit for compressed input: profiles shrink to a twentieth or so, and a file that expands to
 * hundreds of times its size was made to exhaust memory.
 */
static size_t limit_expanded(size_t limit, size_t compressed)
{
	const uint64_t fair = (uint64_t)compressed > SIZE_MAX / MAX_RATIO
				      ? SIZE_MAX
				      : (uint64_t)compressed * MAX_RATIO;
	const uint64_t max = fair < MIN_LIMIT_BYTES ? MIN_LIMIT_BYTES : fair;

	return limit < max ? limit : max;
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
	*input = (struct input){ .check = input->check };
}

/*
 * Whether nothing that follows could make it a profile. Then no more is read, were it endless: the
 * beginning is enough for the error.
 */
static bool is_hopeless(input_check *check, const struct buffer *beginning)
{
	return beginning->limit > BEGINNING_BYTES && beginning->size >= BEGINNING_BYTES / 2 &&
	       expander_find(beginning->data, beginning->size) == NULL &&
	       !check(beginning->data, beginning->size);
}

/* Expands no more than a beginning, to see whether more is worth it. */
static bool is_beginning_enough(const char *name, const struct expander *expander,
	const struct input *input, struct buffer *plain)
{
	struct error ignored;
	const size_t limit = plain->limit;

	if (limit <= BEGINNING_BYTES)
		return false;
	plain->limit = BEGINNING_BYTES;
	const bool is_whole = expander->expand(name, input->data, input->size, plain, &ignored);
	plain->limit = limit;
	if (is_whole || is_hopeless(input->check, plain))
		return true;
	buffer_clear(plain);
	return false;
}

/* Puts the expanded bytes in the place of the compressed ones. */
static bool expand_layer(const char *name, const struct expander *expander, size_t limit,
	struct input *input, struct error *err)
{
	struct buffer plain;

	buffer_init(&plain, &memory_pages);
	plain.limit = limit;
	if (!is_beginning_enough(name, expander, input, &plain) &&
		!expander->expand(name, input->data, input->size, &plain, err)) {
		buffer_deinit(&plain);
		return false;
	}
	input_close(input);
	input->buffer = plain;
	input->data = plain.data;
	input->size = plain.size;
	return true;
}

static bool expand_all(const char *name, size_t max, struct input *input, struct error *err)
{
	const size_t limit = limit_expanded(max, input->size);

	for (int layer = 0;; layer++) {
		const struct expander *const expander = expander_find(input->data, input->size);
		if (expander == NULL)
			return true;
		if (layer == MAX_LAYERS)
			return error_set(err, ERROR_INPUT, "%s: compressed more than %d times over",
				name, MAX_LAYERS);
		if (!expand_layer(name, expander, limit, input, err))
			return false;
	}
}

bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, input_check *check, struct input *input,
	struct error *err)
{
	*input = (struct input){ .data = data, .size = size, .check = check };
	if (expand_all(name, limit_of(options), input, err))
		return true;
	input_close(input);
	return false;
}

/* Reads a beginning or more, up to all of the input. */
static bool read_beginning(int fd, const char *name, struct buffer *out, struct error *err)
{
	while (out->size < BEGINNING_BYTES) {
		if (!buffer_reserve(out, 16384))
			return true; /* which reading on says better */
		const ssize_t got = read(fd, out->data + out->size, out->capacity - out->size);
		if (got == 0)
			return true;
		if (got > 0)
			out->size += (size_t)got;
		else if (errno != EINTR)
			return error_system(err, errno, "%s", name);
	}
	return true;
}

static bool map_or_read(
	int fd, const char *name, size_t limit, struct input *input, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", name);
	if (S_ISDIR(status.st_mode)) {
		error_set(err, ERROR_INPUT, "%s is a folder", name);
		return error_hint(err, "heapctl trend reads all profiles of a folder");
	}
	if (S_ISREG(status.st_mode) && status.st_size >= MIN_MAPPED_BYTES) {
		if (!file_map_fd(fd, name, &input->map, err))
			return false;
		input->data = input->map.data;
		input->size = input->map.size;
		return true;
	}
	buffer_init(&input->buffer, &memory_pages);
	input->buffer.limit = limit;
	if (!read_beginning(fd, name, &input->buffer, err) ||
		(!is_hopeless(input->check, &input->buffer) &&
			!file_read_fd(fd, name, &input->buffer, err)))
		return false;
	input->data = input->buffer.data;
	input->size = input->buffer.size;
	return true;
}

static bool open_fd(int fd, const char *name, const struct profile_read_options *options,
	input_check *check, struct input *input, struct error *err)
{
	const size_t limit = limit_of(options);

	*input = (struct input){ .check = check };
	if (map_or_read(fd, name, limit, input, err) && expand_all(name, limit, input, err))
		return true;
	input_close(input);
	return false;
}

bool input_open(const char *path, const struct profile_read_options *options, input_check *check,
	struct input *input, struct error *err)
{
	if (strcmp(path, "-") == 0)
		return open_fd(STDIN_FILENO, "standard input", options, check, input, err);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return open_fd(fd, path, options, check, input, err);
}

/* "%warn TEXT" and other commands to the reader may precede any text profile. */
static void read_commands(struct cursor *in, struct profile *profile)
{
	struct text_line line;

	while (text_at(in, "%") && text_line(in, &line))
		profile_add_comment(profile, line.text, line.size);
}

static const struct profile_reader *find_format(const struct cursor *in)
{
	return bundle_reader.detect(*in)       ? &bundle_reader
	       : symbolized_reader.detect(*in) ? &symbolized_reader
					       : profile_reader_find(in);
}

bool profile_may_begin_with(const void *data, size_t size)
{
	struct cursor in = cursor_over(data, size);
	struct text_line line;

	while (text_at(&in, "%") && text_line(&in, &line))
		continue;
	return cursor_ok(&in) &&
	       (cursor_left(&in) == 0 || find_format(&in) != NULL || tar_detect(in));
}

/* Enough to recognise any format; a shorter file was truncated. */
enum { MIN_BYTES = 4 };

static bool refuse_unknown(const char *name, const struct cursor *in, struct error *err)
{
	const struct foreign_compression *const foreign =
		foreign_compression_find(in->position, cursor_left(in));

	if (foreign != NULL) {
		error_set(err, ERROR_UNSUPPORTED, "%s: compressed with %s, which is not read", name,
			foreign->name);
		return error_hint(err,
			"expand it with %s; gzip, zstd, xz and lzma are read as they are",
			foreign->program);
	}
	if (tar_detect(*in)) {
		error_set(err, ERROR_INPUT, "%s is a tar, but not a bundle of heapctl", name);
		return error_hint(err, "heapctl trend reads all profiles of a tar");
	}
	if (cursor_left(in) == 0)
		error_set(err, ERROR_INPUT, "%s: byte %zu: it is empty", name, cursor_offset(in));
	else
		error_set(err, ERROR_INPUT, "%s: byte %zu: not a profile of any known format%s",
			name, cursor_offset(in), cursor_left(in) < MIN_BYTES ? ": too short" : "");
	return error_hint(err, "profiles of jemalloc, gperftools, jeprof --raw and pprof are read, "
			       "collapsed stacks, and bundles of heapctl");
}

/* A mapping has functions when all of its locations that occur have. */
static void mark_named_mappings(struct profile *profile)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < profile->location_count; i++) {
			const struct profile_location *const location = &profile->locations[i];
			const bool is_named = location->frame_count != 0;
			if (location->mapping != PROFILE_NONE && is_named == (pass == 0))
				profile->mappings[location->mapping].has_functions = is_named;
		}
	}
}

/* What is known only after everything was read. */
static void finish(struct profile *profile)
{
	profile_assign_mappings(profile);
	mark_named_mappings(profile);
	for (size_t i = 0; i < profile->sample_count && !profile->has_allocated; i++)
		profile->has_allocated = profile->samples[i].counters[PROFILE_ALLOC_OBJECTS] != 0 ||
					 profile->samples[i].counters[PROFILE_ALLOC_SPACE] != 0;
}

/*
 * A profile takes up to 30 bytes for each of its input: a sample without anything is two bytes of
 * pprof. Input that takes far more was made to exhaust memory.
 */
enum { MEMORY_PER_BYTE = 64, MEMORY_BASE_BYTES = 64 << 20 };

static uint64_t memory_limit_of(const struct profile_read_options *options, size_t size)
{
	const uint64_t fair = MEMORY_BASE_BYTES + (uint64_t)size * MEMORY_PER_BYTE;
	const uint64_t max = options != NULL && options->max_memory_bytes != 0
				     ? options->max_memory_bytes
				     : input_machine_memory() / 2;

	return fair < max ? fair : max;
}

static bool read_plain(const char *name, const struct input *input,
	const struct profile_read_options *options, struct profile **profile, struct error *err)
{
	struct cursor in = cursor_over(input->data, input->size);
	CLEANUP(profile_cleanup) struct profile *made = profile_new(name);

	made->memory_limit = memory_limit_of(options, input->size);
	made->leaves_out_threads = options != NULL && options->leaves_out_threads;
	read_commands(&in, made);
	const struct profile_reader *const format = find_format(&in);
	if (cursor_ok(&in) && format == NULL)
		return refuse_unknown(name, &in, err);
	if (cursor_ok(&in) && !format->read(&in, made, err) && cursor_ok(&in))
		return error_prefix(err, "%s", name);
	if (!cursor_ok(&in))
		return cursor_error(&in, name, err);
	finish(made);
	*profile = TAKE(made);
	return true;
}

bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err)
{
	struct input input = { 0 };

	if (!input_over(name, data, size, options, profile_may_begin_with, &input, err))
		return false;
	const bool done = read_plain(name, &input, options, profile, err);
	input_close(&input);
	return done;
}

bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err)
{
	const char *const name = strcmp(path, "-") == 0 ? "standard input" : path;
	struct input input = { 0 };

	if (!input_open(path, options, profile_may_begin_with, &input, err))
		return false;
	const bool done = read_plain(name, &input, options, profile, err);
	input_close(&input);
	return done;
}
