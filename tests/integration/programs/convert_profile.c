/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a profile and writes it in another form with its counters as they are, for tests.
 *
 *	convert_profile raw|symbolized|pprof|info FILE
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "profile/profile_read.h"
#include "profile/pprof.h"
#include "profile/raw_write.h"
#include "profile/symbolized.h"

static void write_info(const struct profile *profile, struct buffer *out)
{
	buffer_printf(out,
		"stacks %zu\nsamples %zu\nthread_samples %zu\nthreads %zu\nlocations %zu\n",
		profile->stack_count, profile->sample_count, profile->thread_sample_count,
		profile->thread_count, profile->location_count);
	buffer_printf(out, "mappings %zu\ninterval %llu\nprogram %s\n", profile->mapping_count,
		(unsigned long long)profile->interval_bytes, profile->program);
}

static bool convert(
	const char *form, const struct profile *profile, struct buffer *out, struct error *err)
{
	if (strcmp(form, "raw") == 0)
		return raw_write(profile, out, err);
	if (strcmp(form, "symbolized") == 0)
		return symbolized_write(profile, NULL, out, err);
	if (strcmp(form, "pprof") == 0)
		return pprof_write(
			profile, profile->samples, profile->sample_count, NULL, out, err);
	write_info(profile, out);
	return true;
}

int main(int argc, char **argv)
{
	struct profile *profile = NULL;
	struct error err = { 0 };
	struct buffer out;

	if (argc != 3) {
		fprintf(stderr, "usage: %s raw|symbolized|pprof|info FILE\n", argv[0]);
		return 2;
	}
	buffer_init(&out, &memory_heap);
	const bool done = profile_open(argv[2], NULL, &profile, &err) &&
			  convert(argv[1], profile, &out, &err) &&
			  file_write_fd(STDOUT_FILENO, "stdout", out.data, out.size, &err);
	if (!done)
		fprintf(stderr, "convert_profile: %s\n", err.message);
	buffer_deinit(&out);
	profile_free(profile);
	return done ? 0 : 1;
}
