/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/debian_package.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash_index.h"
#include "base/xalloc.h"

static const char directory_path[] = "/var/lib/dpkg/info";
static const char suffix[] = ".list";

struct package_path {
	const char *text;
	size_t size;
};

/* Lists may say /lib where the file system says /usr/lib: they are the same directory. */
static struct package_path key_of(const char *path, size_t size)
{
	const size_t usr = sizeof "/usr" - 1;

	if (size > usr && memcmp(path, "/usr/", usr + 1) == 0)
		return (struct package_path){ path + usr, size - usr };
	return (struct package_path){ path, size };
}

static bool is_path(const void *items, uint32_t position, const void *key)
{
	const struct package_path *const wanted = key;
	const char *const path = ((const char *const *)items)[position];
	const struct package_path have = key_of(path, strlen(path));

	return have.size == wanted->size && memcmp(have.text, wanted->text, have.size) == 0;
}

struct lookup {
	const char *const *paths;
	char **names;
	size_t left; /* paths without a name yet */
	struct hash_index index;
	uint64_t last_characters[4]; /* a bit for each last character of a path: most lines miss */
};

static void look_up_line(
	struct lookup *lookup, const char *line, size_t size, const char *list, size_t name_size)
{
	const unsigned char last = (unsigned char)line[size - 1];

	if ((lookup->last_characters[last / 64] >> (last % 64) & 1) == 0)
		return;
	const struct package_path key = key_of(line, size);
	const uint32_t found = hash_index_find(
		&lookup->index, hash_bytes(key.text, key.size), is_path, lookup->paths, &key);
	if (found == HASH_INDEX_NONE || lookup->names[found] != NULL)
		return;
	lookup->names[found] = xstrndup(list, name_size);
	lookup->left--;
}

/* The length of the package's name: "redis-tools.list", "libc6:amd64.list" */
static size_t package_size(const char *list)
{
	const size_t size = strcspn(list, ":");

	return list[size] == ':' ? size : size - (sizeof suffix - 1);
}

static void look_up_list(struct lookup *lookup, const struct buffer *text, const char *list)
{
	const size_t name_size = package_size(list);
	const char *const limit = text->data + text->size;

	for (const char *line = text->data; line < limit;) {
		const char *const newline = memchr(line, '\n', (size_t)(limit - line));
		const char *const end = newline == NULL ? limit : newline;
		if (end > line)
			look_up_line(lookup, line, (size_t)(end - line), list, name_size);
		line = end + 1;
	}
}

/* Whether this is a list, and of a package that can have programs or libraries in it. */
static bool is_wanted_list(const char *name)
{
	static const char *const without_code[] = { "-dev", "-doc", "-data", "-dbg", "-locales" };
	const size_t size = strlen(name);

	if (size < sizeof suffix || strcmp(name + size - (sizeof suffix - 1), suffix) != 0)
		return false;
	const size_t name_size = package_size(name);
	for (size_t i = 0; i < sizeof without_code / sizeof *without_code; i++) {
		const size_t ending = strlen(without_code[i]);
		if (name_size > ending &&
			memcmp(name + name_size - ending, without_code[i], ending) == 0)
			return false;
	}
	return true;
}

struct list {
	char *name;
	size_t likeness; /* characters that it has in common with the beginning of a file's name */
};

struct lists {
	struct list *items;
	size_t count, capacity;
};

static void lists_deinit(struct lists *lists)
{
	for (size_t i = 0; i < lists->count; i++)
		free(lists->items[i].name);
	free(lists->items);
}

static size_t likeness_of(const char *list, const char *const *paths, size_t path_count)
{
	const size_t name_size = package_size(list);
	size_t best = 0;

	for (size_t i = 0; i < path_count; i++) {
		const char *const file = path_base_name(paths[i]);
		size_t same = 0;
		while (same < name_size && file[same] == list[same])
			same++;
		best = same > best ? same : best;
	}
	return best;
}

static int compare_likeness(const void *a, const void *b)
{
	const struct list *const left = a;
	const struct list *const right = b;

	if (left->likeness != right->likeness)
		return left->likeness > right->likeness ? -1 : 1;
	return strcmp(left->name, right->name);
}

static void find_lists(
	DIR *directory, const char *const *paths, size_t path_count, struct lists *lists)
{
	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		if (!is_wanted_list(entry->d_name))
			continue;
		lists->items = xgrow(
			lists->items, &lists->capacity, lists->count + 1, sizeof *lists->items);
		lists->items[lists->count++] = (struct list){
			.name = xstrdup(entry->d_name),
			.likeness = likeness_of(entry->d_name, paths, path_count),
		};
	}
	qsort(lists->items, lists->count, sizeof *lists->items, compare_likeness);
}

/*
 * Packages are mostly called like their programs and libraries (libssl3 has libssl.so.3), so a few
 * lists of the many are enough when those that look alike are read first.
 */
static void read_lists(struct lookup *lookup, size_t path_count)
{
	DIR *const directory = opendir(directory_path);
	CLEANUP(lists_deinit) struct lists lists = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (directory == NULL)
		return;
	find_lists(directory, lookup->paths, path_count, &lists);
	for (size_t i = 0; i < lists.count && lookup->left > 0; i++) {
		const char *const name = lists.items[i].name;
		struct error err;
		CLEANUP(fd_cleanup)
		const int fd = openat(dirfd(directory), name, O_RDONLY | O_CLOEXEC);
		buffer_clear(&text);
		if (fd >= 0 && file_read_fd(fd, name, &text, &err))
			look_up_list(lookup, &text, name);
	}
	closedir(directory);
}

void debian_package_find(const char *const *paths, size_t count, char **names)
{
	struct lookup lookup = { .paths = paths, .names = names };

	hash_index_init(&lookup.index);
	for (size_t i = 0; i < count; i++) {
		const struct package_path key = key_of(paths[i], strlen(paths[i]));
		names[i] = NULL;
		if (key.size == 0)
			continue;
		const unsigned char last = (unsigned char)key.text[key.size - 1];
		lookup.last_characters[last / 64] |= UINT64_C(1) << (last % 64);
		if (hash_index_add(&lookup.index, hash_bytes(key.text, key.size), is_path, paths,
			    &key, (uint32_t)i) == HASH_INDEX_NONE)
			lookup.left++;
	}
	if (count != 0)
		read_lists(&lookup, count);
	hash_index_deinit(&lookup.index);
}
