/* SPDX-License-Identifier: Apache-2.0 */
#include "client/library_search.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* A library for another kind of machine has the same name, in another folder. */
static bool is_for_this_machine(const char *path)
{
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr theirs, ours;

	if (fd < 0 || read(fd, &theirs, sizeof theirs) != sizeof theirs)
		return false;
	CLEANUP(fd_cleanup) const int own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || read(own_fd, &ours, sizeof ours) != sizeof ours)
		return memcmp(theirs.e_ident, ELFMAG, SELFMAG) == 0;
	return memcmp(theirs.e_ident, ours.e_ident, EI_DATA + 1) == 0 &&
	       theirs.e_machine == ours.e_machine;
}

/* One folder of a list: FOLDER/NAME, with $ORIGIN written out. */
static bool try_folder(const char *folder, size_t size, const char *origin, const char *name,
	char path[LIBRARY_PATH_BYTES])
{
	static const char *const origins[] = { "$ORIGIN", "${ORIGIN}" };
	const char *const slash = strrchr(origin, '/');
	const int origin_size = slash == NULL ? 0 : (int)(slash - origin);

	for (size_t i = 0; i < 2; i++) {
		const size_t token = strlen(origins[i]);
		if (size < token || memcmp(folder, origins[i], token) != 0)
			continue;
		snprintf(path, LIBRARY_PATH_BYTES, "%.*s%.*s/%s", origin_size, origin,
			(int)(size - token), folder + token, name);
		return is_for_this_machine(path);
	}
	if (size == 0)
		return false;
	snprintf(path, LIBRARY_PATH_BYTES, "%.*s/%s", (int)size, folder, name);
	return is_for_this_machine(path);
}

static bool try_list(
	const char *list, const char *origin, const char *name, char path[LIBRARY_PATH_BYTES])
{
	while (list != NULL && *list != '\0') {
		const size_t size = strcspn(list, ":;");
		if (try_folder(list, size, origin, name, path))
			return true;
		list += size + (list[size] != '\0');
	}
	return false;
}

/* The header and the entries of /etc/ld.so.cache, as glibc writes them since 2.2. */
struct cache_header {
	char magic[20];
	uint32_t count;
	uint32_t string_bytes;
	uint8_t flags;
	uint8_t padding[3];
	uint32_t extension_offset;
	uint32_t unused[3];
};

struct cache_entry {
	int32_t flags;
	uint32_t name;
	uint32_t path;
	uint32_t os_version;
	uint64_t hardware;
};

static const char *cache_string(const char *cache, size_t size, uint32_t offset)
{
	if (offset >= size || memchr(cache + offset, '\0', size - offset) == NULL)
		return "";
	return cache + offset;
}

static bool try_cache_bytes(
	const char *cache, size_t size, const char *name, char path[LIBRARY_PATH_BYTES])
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	struct cache_header header;

	if (size < sizeof header || memcmp(cache, magic, sizeof header.magic) != 0)
		return false;
	memcpy(&header, cache, sizeof header);
	if (header.count > (size - sizeof header) / sizeof(struct cache_entry))
		return false;
	for (uint32_t i = 0; i < header.count; i++) {
		struct cache_entry entry;
		memcpy(&entry, cache + sizeof header + i * sizeof entry, sizeof entry);
		if (strcmp(cache_string(cache, size, entry.name), name) != 0)
			continue;
		snprintf(path, LIBRARY_PATH_BYTES, "%s", cache_string(cache, size, entry.path));
		if (is_for_this_machine(path))
			return true;
	}
	return false;
}

static bool try_cache(const char *name, char path[LIBRARY_PATH_BYTES])
{
	struct file_map map;
	struct error err;

	if (!file_map("/etc/ld.so.cache", &map, &err))
		return false;
	const bool found = map.data != NULL && try_cache_bytes(map.data, map.size, name, path);
	file_unmap(&map);
	return found;
}

bool library_search(const char *name, const char *needed_by, const char *run_path,
	char path[LIBRARY_PATH_BYTES])
{
	static const char defaults[] =
		"/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:"
		"/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib";

	if (strchr(name, '/') != NULL) {
		snprintf(path, LIBRARY_PATH_BYTES, "%s", name);
		return is_for_this_machine(path);
	}
	return try_list(run_path, needed_by, name, path) ||
	       try_list(getenv("LD_LIBRARY_PATH"), needed_by, name, path) ||
	       try_cache(name, path) || try_list(defaults, needed_by, name, path);
}
