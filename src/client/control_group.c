/* SPDX-License-Identifier: Apache-2.0 */
#include "client/control_group.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/xalloc.h"

/* A limit beyond this is version 1's way to say none. */
#define NO_LIMIT UINT64_C(0x4000000000000000)

/* In a list with a comma before and behind each word. */
static bool has_word(const char *list, const char *word)
{
	char wanted[64];

	snprintf(wanted, sizeof wanted, ",%s,", word);
	return strstr(list, wanted) != NULL;
}

/* The path of the group in /proc/PID/cgroup; false when the controller is not there. */
static bool find_membership(const char *memberships, bool first_version, const char *controller,
	char *path, size_t path_size)
{
	for (const char *line = memberships; *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		char controllers[256] = ",", name[4096] = "";
		if (sscanf(line, "%*u:%253[^:\n]:%4095[^\n]", controllers + 1, name) < 2) {
			if (!first_version && sscanf(line, "0::%4095[^\n]", name) == 1)
				goto found;
		} else if (first_version) {
			strcat(controllers, ",");
			if (has_word(controllers, controller))
				goto found;
		}
		line += size + (line[size] == '\n');
		continue;
	found:
		snprintf(path, path_size, "%s", name);
		return true;
	}
	return false;
}

/* Where the hierarchy is mounted, and which part of it. */
static bool find_mount(const char *mounts, bool first_version, const char *controller,
	char root[4096], char point[4096])
{
	for (const char *line = mounts; *line != '\0';) {
		char text[9000];
		const size_t size = strcspn(line, "\n");
		snprintf(text, sizeof text, "%.*s", (int)(size < 8999 ? size : 8999), line);
		line += size + (line[size] == '\n');
		const char *const type = strstr(text, " - ");
		if (type == NULL || strncmp(type + 3, first_version ? "cgroup " : "cgroup2 ",
					    first_version ? 7 : 8) != 0)
			continue;
		char options[1024] = ",";
		snprintf(options + 1, sizeof options - 2, "%s", strrchr(type, ' ') + 1);
		strcat(options, ",");
		if (first_version && !has_word(options, controller))
			continue;
		if (sscanf(text, "%*s %*s %*s %4095s %4095s", root, point) == 2)
			return true;
	}
	return false;
}

/* How many groups up it leads from the root of the own namespace of control groups. */
static size_t count_up(const char *path)
{
	size_t count = 0;

	while (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0')) {
		path += 3;
		count++;
	}
	return count;
}

/*
 * What is behind `root`, the part that is mounted, in the path of a group; "" for a group below it
 * whose name there is not known; NULL for one that is elsewhere: in another container.
 */
static const char *path_in_mount(const char *path, const char *root)
{
	const size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);
	const char *const rest = path + size;

	if (strncmp(path, root, size) == 0 && (*rest == '/' || *rest == '\0') &&
		count_up(rest) == 0)
		return strcmp(rest, "/") == 0 ? "" : rest;
	return size == 3 * count_up(root) && count_up(root) > count_up(path) ? "" : NULL;
}

static bool locate(const char *memberships, const char *own_memberships, const char *mounts,
	bool first_version, const char *controller, struct cgroup *group)
{
	char path[4096], own_path[4096], root[4096], point[4096];

	if (!find_membership(memberships, first_version, controller, path, sizeof path) ||
		!find_mount(mounts, first_version, controller, root, point))
		return false;
	const char *rest = path_in_mount(path, root);
	if (rest == NULL) {
		/* A container may see its own group as the root of what is mounted. */
		if (!find_membership(own_memberships, first_version, controller, own_path,
			    sizeof own_path) ||
			strcmp(path, own_path) != 0)
			return false;
		rest = "";
	}
	*group = (struct cgroup){ .top_size = strlen(point), .is_first_version = first_version };
	const int size = snprintf(group->folder, sizeof group->folder, "%s%s", point, rest);
	if (size < 0 || (size_t)size >= sizeof group->folder)
		return false;
	if (access(group->folder, F_OK) != 0)
		group->folder[group->top_size] = '\0';
	return true;
}

static bool read_memberships(pid_t pid, struct buffer *text)
{
	return file_try_read(text, "/proc/%d/cgroup", (int)pid);
}

static uint64_t hash_of(const struct buffer *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < text->size; i++)
		hash = (hash ^ (unsigned char)text->data[i]) * UINT64_C(1099511628211);
	return hash;
}

void cgroup_find(pid_t pid, const char *controller, struct cgroup *group)
{
	CLEANUP(buffer_deinit) struct buffer memberships = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer own = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer mounts = BUFFER_OR_EXIT;

	*group = (struct cgroup){ 0 };
	const bool is_there = read_memberships(pid, &memberships);
	if (!read_memberships(getpid(), &own) || !file_try_read(&mounts, "/proc/self/mountinfo") ||
		!is_there)
		return;
	const char *const texts[] = { buffer_string(&memberships), buffer_string(&own),
		buffer_string(&mounts) };
	if (!locate(texts[0], texts[1], texts[2], true, controller, group) &&
		!locate(texts[0], texts[1], texts[2], false, controller, group))
		*group = (struct cgroup){ 0 };
	group->memberships = hash_of(&memberships);
}

bool cgroup_is_current(pid_t pid, const struct cgroup *group)
{
	CLEANUP(buffer_deinit) struct buffer memberships = BUFFER_OR_EXIT;

	/* Of one that has ended there is nothing to be read. */
	return !read_memberships(pid, &memberships) || memberships.size == 0 ||
	       hash_of(&memberships) == group->memberships;
}

static bool read_number(const char *folder, const char *name, uint64_t *number)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	return file_try_read(&text, "%s/%s", folder, name) &&
	       sscanf(buffer_string(&text), "%" SCNu64, number) == 1;
}

static uint64_t read_stat(const char *folder, bool first_version, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	char key[64];
	uint64_t bytes = 0;

	snprintf(key, sizeof key, "\n%s%s ", first_version ? "total_" : "", name);
	if (!file_try_read(&text, "%s/memory.stat", folder))
		return 0;
	const char *const at = strstr(buffer_string(&text), key);
	return at != NULL && sscanf(at + strlen(key), "%" SCNu64, &bytes) == 1 ? bytes : 0;
}

static bool read_memory(const char *folder, bool first_version, uint64_t *limit, uint64_t *used)
{
	return read_number(folder, first_version ? "memory.limit_in_bytes" : "memory.max", limit) &&
	       *limit != 0 && *limit < NO_LIMIT &&
	       read_number(
		       folder, first_version ? "memory.usage_in_bytes" : "memory.current", used);
}

static double share_of(const char *folder, bool first_version, double *left_bytes)
{
	uint64_t limit = 0, used = 0;

	if (!read_memory(folder, first_version, &limit, &used))
		return NAN;
	const uint64_t easy = read_stat(folder, first_version, "inactive_file");
	const double held = (double)(used > easy ? used - easy : 0);
	*left_bytes = fmin(*left_bytes, fmax(0, (double)limit - held));
	return held / (double)limit;
}

/* The folder of the group above; false behind the top. */
static bool go_up(const struct cgroup *group, char *folder)
{
	char *const slash = strrchr(folder, '/');

	if (slash == NULL || (size_t)(slash - folder) < group->top_size || slash == folder)
		return false;
	*slash = '\0';
	return true;
}

double cgroup_share(const struct cgroup *group, double *left_bytes)
{
	char folder[4096];
	double share = NAN;

	*left_bytes = INFINITY;
	memcpy(folder, group->folder, sizeof folder);
	if (folder[0] == '\0')
		return NAN;
	do {
		share = fmax(share, share_of(folder, group->is_first_version, left_bytes));
	} while (go_up(group, folder));
	return share;
}

static uint64_t memory_left(const char *folder, bool first_version)
{
	uint64_t limit = 0, used = 0;

	if (!read_memory(folder, first_version, &limit, &used))
		return UINT64_MAX;
	/* Version 1 does not tell of the last one. */
	const uint64_t easy = read_stat(folder, first_version, "inactive_file") +
			      read_stat(folder, first_version, "active_file") +
			      read_stat(folder, first_version, "slab_reclaimable");
	const uint64_t held = used > easy ? used - easy : 0;
	return limit > held ? limit - held : 0;
}

static uint64_t threads_left(const char *folder)
{
	uint64_t limit = 0, used = 0;

	if (!read_number(folder, "pids.max", &limit) || !read_number(folder, "pids.current", &used))
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

struct cgroup_room cgroup_read_room(const struct cgroup *group)
{
	struct cgroup_room room = { UINT64_MAX, UINT64_MAX };
	char folder[4096];

	memcpy(folder, group->folder, sizeof folder);
	if (folder[0] == '\0')
		return room;
	do {
		const uint64_t bytes = memory_left(folder, group->is_first_version);
		const uint64_t threads = threads_left(folder);
		room.bytes = bytes < room.bytes ? bytes : room.bytes;
		room.threads = threads < room.threads ? threads : room.threads;
	} while (go_up(group, folder));
	return room;
}
