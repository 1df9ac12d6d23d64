/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files: makes its corpus an ordinary test without a fuzzer.
 * usage: fuzz_NAME FOLDER
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool replay(const char *path)
{
	struct buffer bytes;
	struct error err;

	buffer_init(&bytes, &memory_heap);
	if (!file_read(path, &bytes, &err)) {
		fprintf(stderr, "%s\n", err.message);
		return false;
	}
	/* An exact copy on the heap, so that a sanitizer sees a read past the end. */
	uint8_t *const copy = malloc(bytes.size + (bytes.size == 0));
	if (bytes.size > 0)
		memcpy(copy, bytes.data, bytes.size);
	LLVMFuzzerTestOneInput(copy, bytes.size);
	free(copy);
	buffer_deinit(&bytes);
	return true;
}

int main(int argc, char **argv)
{
	DIR *const folder = argc == 2 ? opendir(argv[1]) : NULL;
	size_t count = 0;
	bool good = true;

	if (folder == NULL) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
		char path[4096];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
		good = replay(path) && good;
		count++;
	}
	closedir(folder);
	printf("%zu inputs replayed\n", count);
	return good && count > 0 ? 0 : 1;
}
