/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_series.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/verb.h"
#include "profile/bundle.h"
#include "profile/codec.h"
#include "profile/expand.h"
#include "profile/input.h"
#include "profile/tar.h"

/* Nothing in a trend is about single threads. */
static const struct profile_read_options wanted = { .leaves_out_threads = true };

/* Of a time in milliseconds since 1970 that stands in a file's name. */
enum { MOMENT_DIGITS = 13 };

/* The history's files begin with the milliseconds since 1970; tar itself has whole seconds. */
static int64_t member_time(const struct tar_member *member)
{
	const char *const slash = strrchr(member->name, '/');
	const char *const name = slash == NULL ? member->name : slash + 1;
	const size_t digits = strspn(name, "0123456789");

	return digits >= MOMENT_DIGITS && digits < 19 ? strtoll(name, NULL, 10) : member->time_ms;
}

static bool load_member(struct series *series, const char *path, const struct tar_member *member,
	size_t *damaged_count, struct error *err)
{
	CLEANUP(free_cleanup) char *name = xasprintf("%s(%s)", path, member->name);
	const size_t size = cursor_left(&member->data);
	struct profile *profile = NULL;

	if (!profile_read(name, member->data.start, size, &wanted, &profile, err)) {
		if (err->kind != ERROR_INPUT)
			return false;
		++*damaged_count;
		verb_warn("left out: %s", err->message);
		return true;
	}
	if (profile->time_ms == 0)
		profile->time_ms = member_time(member);
	series_add(series, profile);
	return true;
}

bool trend_series_load(struct series *series, const char *name, struct cursor in,
	size_t *damaged_count, struct error *err)
{
	struct tar_member member;

	while (tar_next(&in, &member)) {
		if (member.is_file && !load_member(series, name, &member, damaged_count, err))
			return false;
	}
	return cursor_ok(&in) || cursor_error(&in, name, err);
}

static bool is_series_text(struct cursor in)
{
	return tar_detect(in) && !bundle_detect(in);
}

/* Whether it is worth while to look at all of it. */
static bool may_be_series(const char *path)
{
	char block[TAR_BLOCK];
	struct stat status;

	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : pread(fd, block, sizeof block, 0);
	if (size <= 0)
		return false;
	return is_series_text(cursor_over(block, (size_t)size)) ||
	       expander_find(block, (size_t)size) != NULL;
}

bool trend_series_load_file(struct series *series, const char *path, size_t *damaged_count,
	bool *is_series, struct error *err)
{
	struct input input = { 0 };

	*is_series = false;
	if (!may_be_series(path))
		return true;
	if (!input_open(path, &wanted, &input, err))
		return false;
	const struct cursor in = cursor_over(input.data, input.size);
	*is_series = is_series_text(in);
	const bool ok = !*is_series || trend_series_load(series, path, in, damaged_count, err);
	input_close(&input);
	return ok;
}
