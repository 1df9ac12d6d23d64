/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a synthetic heap_v2 profile to standard output; with names, in jeprof's symbolized form,
 * so that no tool has to look anything up. usage: write_profile STACKS [named]
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "synthetic_profile.h"

int main(int argc, char **argv)
{
	struct error err = { 0 };
	struct buffer text;

	if (argc < 2)
		return 2;
	buffer_init(&text, &memory_pages);
	if (argc > 2)
		synthetic_profile_write_names(&text);
	synthetic_profile_write(&text, strtoul(argv[1], NULL, 10));
	if (text.failed ||
		!file_write_fd(STDOUT_FILENO, "standard output", text.data, text.size, &err)) {
		fprintf(stderr, "write_profile: %s\n", text.failed ? "no memory" : err.message);
		return 1;
	}
	buffer_deinit(&text);
	return 0;
}
