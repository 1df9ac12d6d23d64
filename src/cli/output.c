/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* "redis-server.4711.20261121-101500.heap", with "-2" when that is taken. */
static void make_name(const char *stem, const char *suffix, int attempt, char path[4096])
{
	const time_t now = time(NULL);
	char moment[32], number[16] = "";
	struct tm parts;

	localtime_r(&now, &parts);
	strftime(moment, sizeof moment, "%Y%m%d-%H%M%S", &parts);
	if (attempt > 1)
		snprintf(number, sizeof number, "-%d", attempt);
	snprintf(path, 4096, "%s.%s%s.%s", stem, moment, number, suffix);
}

bool output_open(const char *path, const char *stem, const char *suffix, struct output *output,
	struct error *err)
{
	char made_up[4096];

	if (path != NULL && path[0] == '\0')
		return error_set(err, ERROR_USAGE, "the output file has an empty name");
	*output = (struct output){ .is_stdout = path != NULL && strcmp(path, "-") == 0 };
	if (output->is_stdout) {
		if (isatty(STDOUT_FILENO) != 1)
			return true;
		error_set(err, ERROR_USAGE, "refusing to write a binary profile to a terminal");
		return error_hint(err, "use -o FILE, or a pipe");
	}
	if (path != NULL)
		return file_draft_open(path, 0600, &output->draft, err);
	int attempt = 1;
	do {
		make_name(stem, suffix, attempt, made_up);
	} while (access(made_up, F_OK) == 0 && ++attempt < 1000);
	if (file_draft_open(made_up, 0600, &output->draft, err))
		return true;
	return error_hint(err, "say where to with -o FILE");
}

int output_fd(const struct output *output)
{
	return output->is_stdout ? STDOUT_FILENO : output->draft.fd;
}

const char *output_name(const struct output *output)
{
	return output->is_stdout ? "standard output" : output->draft.path;
}

bool output_commit(struct output *output, struct error *err)
{
	return output->is_stdout || file_draft_commit(&output->draft, err);
}

void output_discard(struct output *output)
{
	if (!output->is_stdout)
		file_draft_discard(&output->draft);
}
