/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_source.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "cli/remote_profile.h"
#include "client/agent_client.h"
#include "client/target.h"
#include "profile/codec.h"

bool report_source_is_program(const char *operand)
{
	char magic[4] = "";
	struct stat status;

	if (stat(operand, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	CLEANUP(fd_cleanup) const int fd = open(operand, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic &&
	       memcmp(magic, "\177ELF", sizeof magic) == 0;
}

/* Whether anything that is asked for can be about single threads. */
static bool needs_threads(const struct report_options *options)
{
	const struct filter_text *const filter = &options->filter;

	if (options->output == REPORT_RAW || options->output == REPORT_PPROF ||
		options->output == REPORT_INTERACTIVE || filter->thread != NULL)
		return true;
	for (size_t i = 0; i < filter->tag_count; i++) {
		if (strncmp(filter->tags[i], "bytes=", 6) != 0)
			return true;
	}
	return false;
}

/* A profile of a running process, taken now. */
static bool read_target(const char *text, const struct profile_read_options *options, pid_t *pid,
	struct profile **ret, struct error *err)
{
	const struct agent_call call = { .method = "GET", .path = "/v1/profile" };
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	struct target target;

	http_answer_init(&answer);
	if (!target_resolve(text, &target, err)) {
		if (err->kind == ERROR_NOT_FOUND)
			error_hint(err, "there is no file of that name either");
		return false;
	}
	if (!agent_call(&target, &call, &answer, err))
		return false;
	*pid = target.kind == TARGET_AGENT ? target.process.pid : 0;
	return profile_read(target.label, answer.body.data, answer.body.size, options, ret, err);
}

/* What can only be meant as a file, so that a typing error is told as one. */
static bool looks_like_file(const char *source)
{
	const char *const dot = strrchr(source, '.');

	return strchr(source, '/') != NULL ||
	       (dot != NULL && strspn(dot + 1, "0123456789") != strlen(dot + 1));
}

bool report_source_read(const char *source, const struct report_options *options, bool has_program,
	pid_t *pid, struct profile **ret, struct error *err)
{
	const struct profile_read_options wanted = {
		.leaves_out_threads = !needs_threads(options),
	};
	struct stat status;
	const bool is_there = stat(source, &status) == 0;

	if (is_there && S_ISSOCK(status.st_mode))
		return read_target(source, &wanted, pid, ret, err);
	if (is_there || strcmp(source, "-") == 0)
		return profile_open(source, &wanted, ret, err);
	if (remote_profile_is_url(source))
		return remote_profile_read(source, options, !has_program, ret, err);
	if (looks_like_file(source))
		return profile_open(source, &wanted, ret, err);
	return read_target(source, &wanted, pid, ret, err);
}

bool report_source_read_each(const char *operand, report_source_load *load,
	struct report_session *session, struct error *err)
{
	const char *const at = strrchr(operand, '@');
	char *rest = NULL;
	const long count = at == NULL ? 0 : strtol(at + 1, &rest, 10);

	if (at == NULL || !isdigit((unsigned char)at[1]) || (*rest != '\0' && *rest != '/') ||
		access(operand, F_OK) == 0)
		return load(session, operand, err);
	for (long i = 0; i < count; i++) {
		CLEANUP(free_cleanup)
		char *source = xasprintf("%ld.%.*s%s", i, (int)(at - operand), operand, rest);
		if (!load(session, source, err))
			return false;
	}
	return true;
}
