/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_read.h"

#include <string.h>

#include "profile/compress.h"
#include "profile/expansion.h"
#include "profile/readers.h"
#include "profile/tar.h"
#include "profile/text_profile.h"

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
				     : input_machine_memory() / 2;

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
		return false;
	}
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
	const bool done = profile_read_input(name, &input, options, profile, err);
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
	const bool done = profile_read_input(name, &input, options, profile, err);
	input_close(&input);
	return done;
}
