/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a folder of an earlier version may have in it: after an 'l' the lines of captures.jsonl,
 * after a 'c' or an 'h' the name of a file. It is opened twice, and the second time nothing is new.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "store/capture_list.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char first[] = "00000001-20261121T101500Z-tag-a.7.heap";

static void put(const char *folder, const char *name, const void *data, size_t size)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, name);
	CLEANUP(fd_cleanup) const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0 && write(fd, data, size) != (ssize_t)size)
		abort();
}

static size_t count(const char *folder, enum store_use use)
{
	const struct store_limits limits = { .bytes = UINT64_MAX };
	const struct store_query all = { .from_ms = INT64_MIN, .to_ms = INT64_MAX };
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	struct json_writer json;
	struct error err;
	size_t total = 0;

	buffer_init(&text, &memory_or_exit);
	json_init(&json, &text);
	if (!store_open(folder, use, &limits, &store, &err) ||
		!store_list(store, &all, SIZE_MAX, &json, &total, &err))
		abort();
	return total;
}

static void remove_folder(const char *folder)
{
	CLEANUP(free_cleanup) char *command = xasprintf("rm -rf %s", folder);

	if (system(command) != 0) /* NOLINT(cert-env33-c): the name is ours */
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char folder[] = "/dev/shm/hc-fuzz-store.XXXXXX";
	char name[256] = "";

	if (size < 2 || size > 4096 || strchr("lch", data[0]) == NULL || data[0] == '\0')
		return 0;
	const bool is_list = data[0] == 'l';
	const enum store_use use = data[0] == 'h' ? STORE_HISTORY : STORE_CAPTURES;
	snprintf(name, sizeof name, "%.*s", (int)(size - 1), (const char *)data + 1);
	if (!is_list && (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
				strncmp(name, "index.sqlite", 12) == 0))
		return 0;
	if (mkdtemp(folder) == NULL)
		abort();
	put(folder, first, "profile", 7);
	if (is_list)
		put(folder, CAPTURE_LIST, data + 1, size - 1);
	else
		put(folder, name, "profile", 7);
	const size_t found = count(folder, use);
	if (count(folder, use) != found || (is_list && found != 1))
		abort();
	remove_folder(folder);
	return 0;
}
