/* SPDX-License-Identifier: Apache-2.0 */
#include "client/mapped_files.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/proc_maps.h"
#include "base/xalloc.h"

enum { PATH_BYTES = 96 };

/* A file of which code is mapped: its readable mappings, by their place in the file. */
struct mapped_file {
	struct proc_map last, before_last, before_these;
	bool has_code;
};

/*
 * Whether a page of the mapping is the process' own, as after a write. True where that cannot be
 * read. Bits of /proc/PID/pagemap: 63 the page is in memory, 62 swapped, 61 it is the file's.
 */
static bool has_own_page(pid_t pid, const struct proc_map *map)
{
	enum { PAGES_MAX = 512 };
	const uint64_t page_size = (uint64_t)getpagesize();
	uint64_t pages[PAGES_MAX];
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const size_t wanted = (map->limit - map->start) / page_size * sizeof *pages;
	const ssize_t got = pread(fd, pages, wanted < sizeof pages ? wanted : sizeof pages,
		(off_t)(map->start / page_size * sizeof *pages));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof *pages; i++) {
		if (pages[i] >> 62 != 0 && (pages[i] >> 61 & 1) == 0)
			return true;
	}
	return got <= 0;
}

static bool is_constant(const struct proc_map *map)
{
	return map->start < map->limit && !map->writable && !map->executable;
}

/*
 * What was done to the file in its place while it was mapped; NULL: nothing. Where it was cut, a
 * page that the loader had written to is gone; where it was then written again, such a page is what
 * the file says. The loader writes to what it makes read-only (RELRO), and nobody does after it.
 */
static const char *find_damage(const struct process *process, const struct mapped_file *file)
{
	const struct proc_map *const last = &file->last, *const relro = &file->before_last;
	const uint64_t last_page =
		last->file_offset + (last->limit - last->start) - (uint64_t)getpagesize();
	char root[32], path[4200];
	struct stat status;

	if (!file->has_code || last->deleted)
		return NULL;
	snprintf(path, sizeof path, "%s%.*s", process_root(process, root), (int)last->path_size,
		last->path);
	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != last->inode)
		return NULL;
	if ((uint64_t)status.st_size <= last_page)
		return "was cut";
	/* Until the loader protects it, the constants are in front of what can be written. */
	const struct proc_map *const constants = &file->before_these;
	const bool has_relro =
		last->writable && is_constant(relro) && is_constant(constants) &&
		constants->file_offset != 0 && relro->limit == last->start &&
		relro->file_offset + (relro->limit - relro->start) == last->file_offset;
	return has_relro && !has_own_page(process->pid, relro) ? "was written again" : NULL;
}

/* The first file that was damaged, `text` being the process' mappings; NULL: none. */
static const char *find_damaged_file(
	const struct process *process, const struct buffer *text, struct proc_map *found)
{
	struct mapped_file file = { 0 };
	const char *damage = NULL, *at = text->data;
	struct proc_map map;

	while (proc_map_next(&at, text->data + text->size, &map)) {
		if (map.inode == 0 || !map.readable)
			continue;
		if (map.inode != file.last.inode) {
			damage = find_damage(process, &file);
			if (damage != NULL)
				break;
			file = (struct mapped_file){ 0 };
		}
		file.has_code = file.has_code || map.executable;
		if (map.file_offset >= file.last.file_offset) {
			file.before_these = file.before_last;
			file.before_last = file.last;
			file.last = map;
		}
	}
	if (damage == NULL)
		damage = find_damage(process, &file);
	*found = file.last;
	return damage;
}

/*
 * A file that the loader is just mapping looks cut: it first maps as much of the file as the module
 * has memory. The looks have no common period, which could be that of what the process does.
 */
bool mapped_files_check(const struct process *process, struct error *err)
{
	enum { LOOKS = 50, LOOK_STEP_MS = 7, LOOK_AGAIN_MS = 20 };
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	const char *damage = NULL;
	struct proc_map map = { 0 };

	for (int i = 0; i < LOOKS; i++) {
		if (i > 0)
			poll(NULL, 0, 1 + i * LOOK_STEP_MS % LOOK_AGAIN_MS);
		if (!file_try_read(&maps, "/proc/%d/maps", (int)process->pid))
			return true;
		damage = find_damaged_file(process, &maps, &map);
		if (damage == NULL)
			return true;
	}
	return error_set(err, ERROR_STATE, "%s[%d]: %.*s %s while the process has it mapped",
		process->name, (int)process->pid, (int)map.path_size, map.path, damage);
}
