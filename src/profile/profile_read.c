/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "profile/compress.h"
#include "profile/readers.h"
#include "profile/bundle.h"
#include "profile/text_profile.h"

enum {
	/* Smaller files are read: a mapping would fail under us if another process cut the file. */
	MIN_MAPPED_BYTES = 16 * 1024 * 1024,
	/* A file compressed twice is an accident; more often it is an attack. */
	MAX_LAYERS = 3,
	/* Longer than any line, and enough to recognise any format. */
	BEGINNING_BYTES = 2 * 1024 * 1024,
	MAX_RATIO = 100,
	MAX_HELD_RATIO = 32,
	MIN_LIMIT_BYTES = 64 * 1024 * 1024,
};

static uint64_t machine_memory(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * The limit for compressed input: profiles shrink to a twentieth or so, those of deep recursion to
 * a sixtieth, and a file that expands to hundreds of times its size was made to exhaust memory.
 */
static size_t limit_expanded(size_t limit, size_t compressed, size_t ratio)
{
	const uint64_t fair =
		(uint64_t)compressed > SIZE_MAX / ratio ? SIZE_MAX : (uint64_t)compressed * ratio;
	const uint64_t max = fair < MIN_LIMIT_BYTES ? MIN_LIMIT_BYTES : fair;

	return limit < max ? limit : max;
}

static size_t limit_of(const struct profile_read_options *options)
{
	const uint64_t four_gib = UINT64_C(4) << 30;

	if (options != NULL && options->max_bytes != 0)
		return options->max_bytes;
	const uint64_t half = machine_memory() / 2;
	return half < four_gib ? half : four_gib;
}

void input_close(struct input *input)
{
	expansion_free(input->expansion);
	expansion_free(input->outer);
	file_unmap(&input->map);
	if (input->buffer.memory != NULL)
		buffer_deinit(&input->buffer);
	free(input->name);
	*input = (struct input){ 0 };
}

static const struct profile_reader *find_format(const struct cursor *in)
{
	return bundle_reader.detect(*in)       ? &bundle_reader
	       : symbolized_reader.detect(*in) ? &symbolized_reader
					       : profile_reader_find(in);
}

/* Whether a profile, or a tar of profiles, can begin like this. */
static bool may_be_profile(const void *data, size_t size)
{
	struct cursor in = cursor_over(data, size);
	struct text_line line;

	while (text_at(&in, "%") && text_line(&in, &line))
		continue;
	return cursor_ok(&in) &&
	       (cursor_left(&in) == 0 || find_format(&in) != NULL || tar_detect(in));
}

/*
 * Whether nothing that follows could make it a profile. Then no more is read, were it endless: the
 * beginning is enough for the error.
 */
static bool is_hopeless(const char *data, size_t size)
{
	return size >= BEGINNING_BYTES / 2 && expander_find(data, size) == NULL &&
	       !may_be_profile(data, size);
}

static void set_data(struct input *input, const struct expansion *expansion)
{
	input->data = expansion->data;
	input->size = expansion->size;
}

static struct expansion *new_expansion(
	const struct input *input, const char *data, size_t size, struct error *err)
{
	const struct expander *const expander = expander_find(data, size);

	return expansion_new(expander, input->name, data, size,
		limit_expanded(input->max_bytes, input->file_bytes, MAX_RATIO),
		limit_expanded(input->max_bytes, input->file_bytes, MAX_HELD_RATIO), err);
}

/* Expands a beginning of the next layer. */
static bool begin_layer(struct input *input, struct error *err)
{
	if (input->expansion != NULL && !input_expand(input, err))
		return false;
	struct expansion *const layer = new_expansion(input, input->data, input->size, err);
	if (layer == NULL)
		return false;
	expansion_free(input->outer);
	input->outer = input->expansion;
	input->expansion = layer;
	if (!expansion_fill(layer, BEGINNING_BYTES, err))
		return false;
	set_data(input, layer);
	return true;
}

/* Of what is compressed several times only the last layer is read in pieces. */
static bool begin_all(const char *name, size_t max, struct input *input, struct error *err)
{
	input->name = xstrdup(name);
	input->max_bytes = max;
	input->file_bytes = input->size;
	for (int layer = 0; expander_find(input->data, input->size) != NULL; layer++) {
		if (layer == MAX_LAYERS)
			return error_set(err, ERROR_INPUT, "%s: compressed more than %d times over",
				name, MAX_LAYERS);
		if (!begin_layer(input, err))
			return false;
	}
	return true;
}

bool input_expand(struct input *input, struct error *err)
{
	struct cursor in;

	if (!input_cursor(input, &in, err))
		return false;
	if (input->expansion == NULL || is_hopeless(input->data, input->size))
		return true;
	if (!expansion_fill(input->expansion, SIZE_MAX, err))
		return false;
	set_data(input, input->expansion);
	return true;
}

bool input_cursor(struct input *input, struct cursor *in, struct error *err)
{
	struct expansion *const used = input->expansion;

	if (used != NULL && (used->released_bytes != 0 || used->failure.kind != ERROR_NONE)) {
		struct expansion *const anew =
			new_expansion(input, (const char *)used->state.data, used->state.size, err);
		if (anew == NULL)
			return false;
		expansion_free(used);
		input->expansion = anew;
		if (!expansion_fill(anew, BEGINNING_BYTES, err))
			return false;
		set_data(input, anew);
	}
	if (input->expansion != NULL && !is_hopeless(input->data, input->size))
		*in = expansion_cursor(input->expansion);
	else
		*in = cursor_over(input->data, input->size);
	return true;
}

bool input_failure(const struct input *input, struct error *err)
{
	if (input->expansion == NULL || input->expansion->failure.kind == ERROR_NONE)
		return false;
	*err = input->expansion->failure;
	return true;
}

bool input_over(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct input *input, struct error *err)
{
	*input = (struct input){ .data = data, .size = size };
	if (begin_all(name, limit_of(options), input, err))
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
	if (!file_read_until(fd, name, BEGINNING_BYTES, &input->buffer, err) ||
		((limit <= BEGINNING_BYTES ||
			 !is_hopeless(input->buffer.data, input->buffer.size)) &&
			!file_read_fd(fd, name, &input->buffer, err)))
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
	if (map_or_read(fd, name, limit, input, err) && begin_all(name, limit, input, err))
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
		return file_open_failed(path, errno, err);
	return open_fd(fd, path, options, input, err);
}

/* "%warn TEXT" and other commands to the reader may precede any text profile. */
static void read_commands(struct cursor *in, struct profile *profile)
{
	struct text_line line;

	while (text_at(in, "%") && text_line(in, &line))
		profile_add_comment(profile, line.text, line.size);
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
	if (text_profile_is_go_count(in)) {
		error_set(err, ERROR_INPUT, "%s counts goroutines or threads, not memory", name);
		return error_hint(
			err, "take Go's profile of the heap, of its blocks or its mutexes");
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
 * pprof. It is up to half as large as a text of deep stacks, which shrinks to a sixtieth. Input
 * that takes far more was made to exhaust memory.
 */
enum { MEMORY_PER_BYTE = 64, MEMORY_PER_COMPRESSED_BYTE = 32, MEMORY_BASE_BYTES = 64 << 20 };

static uint64_t memory_limit_of(
	const struct profile_read_options *options, const struct input *input)
{
	const uint64_t ratio =
		input->expansion == NULL ? MEMORY_PER_BYTE : MEMORY_PER_COMPRESSED_BYTE;
	const uint64_t fair = MEMORY_BASE_BYTES + (uint64_t)input->file_bytes * ratio;
	const uint64_t max = options != NULL && options->max_memory_bytes != 0
				     ? options->max_memory_bytes
				     : machine_memory() / 2;

	return fair < max ? fair : max;
}

/* What the format does not use may be damaged, or too much. */
static void read_rest(struct cursor *in)
{
	while (cursor_more(in))
		in->position = in->end;
}

bool profile_read_input(const char *name, struct input *input,
	const struct profile_read_options *options, struct profile **profile, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *made = profile_new(name);
	struct cursor in;

	if (!input_cursor(input, &in, err))
		return false;
	made->memory_limit = memory_limit_of(options, input);
	made->leaves_out_threads = options != NULL && options->leaves_out_threads;
	read_commands(&in, made);
	const struct profile_reader *const format = find_format(&in);
	if (cursor_ok(&in) && format == NULL)
		return refuse_unknown(name, &in, err);
	if (cursor_ok(&in) && format->is_binary)
		expansion_fetch_binary(&in);
	if (cursor_ok(&in) && format->read(&in, made, err))
		read_rest(&in);
	else if (cursor_ok(&in))
		return !input_failure(input, err) && error_prefix(err, "%s", name);
	if (input_failure(input, err))
		return false;
	if (!cursor_ok(&in)) {
		(void)cursor_error(&in, name, err);
		if (strcmp(in.problem, PROFILE_FULL_PROBLEM) == 0 && input->expansion != NULL)
			return error_hint(err, "expand it to a file and read that: the limit is "
					       "stricter for compressed profiles");
		if (strcmp(in.problem, PROFILE_NEXT_PROBLEM) == 0)
			return error_hint(err, "give each as a file of its own");
		return err->hint[0] == '\0' && strcmp(in.problem, PROFILE_FULL_PROBLEM) != 0
			       ? error_hint(err, "it is damaged: copy it again, or take another")
			       : false;
	}
	finish(made);
	*profile = TAKE(made);
	return true;
}

bool profile_read(const char *name, const void *data, size_t size,
	const struct profile_read_options *options, struct profile **profile, struct error *err)
{
	struct input input = { 0 };

	if (!input_over(name, data, size, options, &input, err))
		return false;
	const bool done = profile_read_input(name, &input, options, profile, err);
	input_close(&input);
	return done;
}

bool profile_open(const char *path, const struct profile_read_options *options,
	struct profile **profile, struct error *err)
{
	const char *const name = strcmp(path, "-") == 0 ? "standard input" : path;
	struct input input = { 0 };

	if (!input_open(path, options, &input, err))
		return false;
	const bool done = profile_read_input(name, &input, options, profile, err);
	input_close(&input);
	return done;
}
