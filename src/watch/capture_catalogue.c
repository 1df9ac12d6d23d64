/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/capture_catalogue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "watch/capture_folder.h"

/* "NNNNNNNN-....heap": a capture; with 16 more digits behind: one that was never finished. */
static bool is_capture_name(const char *name, bool *is_unfinished)
{
	const char *const end = strstr(name, ".heap");

	if (strspn(name, "0123456789") < CAPTURE_NUMBER_DIGITS ||
		name[strspn(name, "0123456789")] != '-' || end == NULL ||
		strlen(name) >= CAPTURE_NAME_BYTES)
		return false;
	*is_unfinished =
		end[5] == '.' && strlen(end) == 22 && strspn(end + 6, "0123456789abcdef") == 16;
	return end[5] == '\0' || *is_unfinished;
}

void capture_catalogue_add(
	struct capture_catalogue *catalogue, const char *name, uint64_t bytes, json_t *details)
{
	catalogue->items = xgrow(catalogue->items, &catalogue->capacity, catalogue->count + 1,
		sizeof *catalogue->items);
	struct capture *const capture = &catalogue->items[catalogue->count++];
	*capture = (struct capture){
		.number = strtoull(name, NULL, 10), .bytes = bytes, .details = details
	};
	snprintf(capture->name, sizeof capture->name, "%s", name);
	catalogue->bytes += bytes;
	if (capture->number > catalogue->last_number)
		catalogue->last_number = capture->number;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct capture *const x = a, *const y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static bool read_names(
	struct capture_catalogue *catalogue, const char *folder, int folder_fd, struct error *err)
{
	DIR *const stream = opendir(folder);

	if (stream == NULL)
		return error_system(err, errno, "%s", folder);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		bool is_unfinished = false;
		if (!is_capture_name(entry->d_name, &is_unfinished) ||
			fstatat(folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		if (is_unfinished)
			unlinkat(folder_fd, entry->d_name, 0);
		else
			capture_catalogue_add(
				catalogue, entry->d_name, (uint64_t)status.st_size, NULL);
	}
	closedir(stream);
	if (catalogue->count > 0)
		qsort(catalogue->items, catalogue->count, sizeof *catalogue->items,
			compare_numbers);
	return true;
}

/* What the catalogue says of the files that are there; a damaged line is none. */
static void read_lines(struct capture_catalogue *catalogue, const char *folder)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	char path[4096];
	struct error err;

	buffer_init(&text, &memory_or_exit);
	snprintf(path, sizeof path, "%s/%s", folder, CAPTURE_CATALOGUE);
	if (!file_read(path, &text, &err))
		return;
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		json_t *const details = json_loadb(line, size, 0, NULL);
		const char *const name = json_string_value(json_object_get(details, "file"));
		for (size_t i = 0; name != NULL && i < catalogue->count; i++) {
			struct capture *const capture = &catalogue->items[i];
			if (capture->details == NULL && strcmp(capture->name, name) == 0)
				capture->details = json_incref(details);
		}
		json_decref(details);
		line += size + (line[size] == '\n');
	}
}

void capture_catalogue_write(const struct capture_catalogue *catalogue, const char *folder)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	char path[4096];
	struct error unwritten;

	buffer_init(&text, &memory_or_exit);
	for (size_t i = 0; i < catalogue->count; i++) {
		const struct capture *const capture = &catalogue->items[i];
		if (capture->details == NULL)
			continue;
		char *const line = json_dumps(capture->details, JSON_COMPACT);
		buffer_append_string(&text, line == NULL ? "{}" : line);
		buffer_append_char(&text, '\n');
		free(line);
	}
	snprintf(path, sizeof path, "%s/%s", folder, CAPTURE_CATALOGUE);
	(void)!file_write(path, text.data, text.size, 0600, &unwritten);
}

/* A kill, or a full disk, came between a capture and its line. Its file tells the rest. */
static void complete(struct capture_catalogue *catalogue, const char *folder, int folder_fd)
{
	bool is_complete = true;

	for (size_t i = 0; i < catalogue->count; i++) {
		struct capture *const capture = &catalogue->items[i];
		struct stat status;
		if (capture->details != NULL || fstatat(folder_fd, capture->name, &status, 0) != 0)
			continue;
		capture->details = json_pack("{s:s, s:I, s:s, s:I}", "reason", "not known",
			"time_ms",
			(json_int_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000,
			"file", capture->name, "bytes", (json_int_t)capture->bytes);
		is_complete = false;
	}
	if (!is_complete)
		capture_catalogue_write(catalogue, folder);
}

static void clear(struct capture_catalogue *catalogue)
{
	for (size_t i = 0; i < catalogue->count; i++)
		json_decref(catalogue->items[i].details);
	catalogue->count = 0;
	catalogue->bytes = 0;
}

bool capture_catalogue_read(
	struct capture_catalogue *catalogue, const char *folder, int folder_fd, struct error *err)
{
	clear(catalogue);
	if (!read_names(catalogue, folder, folder_fd, err))
		return false;
	read_lines(catalogue, folder);
	complete(catalogue, folder, folder_fd);
	return true;
}

void capture_catalogue_deinit(struct capture_catalogue *catalogue)
{
	clear(catalogue);
	free(catalogue->items);
}

void capture_catalogue_forget_first(struct capture_catalogue *catalogue)
{
	struct capture *const first = &catalogue->items[0];

	catalogue->bytes -= first->bytes;
	json_decref(first->details);
	catalogue->count--;
	memmove(first, first + 1, catalogue->count * sizeof *first);
}
