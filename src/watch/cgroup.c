/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/cgroup.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

/* A limit beyond this is version 1's way to say none. */
#define NO_LIMIT UINT64_C(0x4000000000000000)

static bool read_text(const char *path, struct buffer *text)
{
	struct error err;

	buffer_init(text, &memory_or_exit);
	return file_read(path, text, &err);
}

/* The path of the group in /proc/PID/cgroup; false when the controller is not there. */
static bool find_membership(
	const char *memberships, bool first_version, char *path, size_t path_size)
{
	for (const char *line = memberships; *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		char controllers[256] = ",", name[4096] = "";
		if (sscanf(line, "%*u:%253[^:\n]:%4095[^\n]", controllers + 1, name) < 2) {
			if (!first_version && sscanf(line, "0::%4095[^\n]", name) == 1)
				goto found;
		} else if (first_version) {
			strcat(controllers, ",");
			if (strstr(controllers, ",memory,") != NULL)
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
static bool find_mount(const char *mounts, bool first_version, char root[4096], char point[4096])
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
		const char *const options = strrchr(type, ' ') + 1;
		if (first_version && strstr(options, "memory") == NULL)
			continue;
		if (sscanf(text, "%*s %*s %*s %4095s %4095s", root, point) == 2)
			return true;
	}
	return false;
}

static bool locate(
	const char *memberships, const char *mounts, bool first_version, struct cgroup *group)
{
	char path[4096], root[4096], point[4096];

	if (!find_membership(memberships, first_version, path, sizeof path) ||
		!find_mount(mounts, first_version, root, point))
		return false;
	/* A container may see its own group as the root of what is mounted. */
	const size_t root_size = strcmp(root, "/") == 0 ? 0 : strlen(root);
	const char *rest = strncmp(path, root, root_size) == 0 ? path + root_size : "";
	if (strcmp(rest, "/") == 0 || strncmp(rest, "/..", 3) == 0)
		rest = "";
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
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	return read_text(path, text);
}

static uint64_t hash_of(const struct buffer *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < text->size; i++)
		hash = (hash ^ (unsigned char)text->data[i]) * UINT64_C(1099511628211);
	return hash;
}

void cgroup_find(pid_t pid, struct cgroup *group)
{
	CLEANUP(buffer_deinit) struct buffer memberships = { 0 };
	CLEANUP(buffer_deinit) struct buffer mounts = { 0 };

	*group = (struct cgroup){ 0 };
	const bool is_there = read_memberships(pid, &memberships);
	if (!read_text("/proc/self/mountinfo", &mounts) || !is_there)
		return;
	const char *const texts[] = { buffer_string(&memberships), buffer_string(&mounts) };
	if (!locate(texts[0], texts[1], true, group) && !locate(texts[0], texts[1], false, group))
		*group = (struct cgroup){ 0 };
	group->memberships = hash_of(&memberships);
}

bool cgroup_is_current(pid_t pid, const struct cgroup *group)
{
	CLEANUP(buffer_deinit) struct buffer memberships = { 0 };

	/* Of one that has ended there is nothing to be read. */
	return !read_memberships(pid, &memberships) || memberships.size == 0 ||
	       hash_of(&memberships) == group->memberships;
}

static bool read_number(const char *folder, const char *name, uint64_t *number)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	char path[4200];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return read_text(path, &text) && sscanf(buffer_string(&text), "%" SCNu64, number) == 1;
}

static uint64_t read_inactive_file(const char *folder, bool first_version)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	const char *const key = first_version ? "\ntotal_inactive_file " : "\ninactive_file ";
	char path[4200];
	uint64_t bytes = 0;

	snprintf(path, sizeof path, "%s/memory.stat", folder);
	if (!read_text(path, &text))
		return 0;
	const char *const at = strstr(buffer_string(&text), key);
	return at != NULL && sscanf(at + strlen(key), "%" SCNu64, &bytes) == 1 ? bytes : 0;
}

static double share_of(const char *folder, bool first_version, double *left_bytes)
{
	uint64_t limit = 0, used = 0;

	if (!read_number(folder, first_version ? "memory.limit_in_bytes" : "memory.max", &limit) ||
		limit == 0 || limit >= NO_LIMIT ||
		!read_number(
			folder, first_version ? "memory.usage_in_bytes" : "memory.current", &used))
		return NAN;
	const uint64_t easy = read_inactive_file(folder, first_version);
	const double held = (double)(used > easy ? used - easy : 0);
	*left_bytes = fmin(*left_bytes, fmax(0, (double)limit - held));
	return held / (double)limit;
}

double cgroup_share(const struct cgroup *group, double *left_bytes)
{
	char folder[4096];
	double share = NAN;

	*left_bytes = INFINITY;
	memcpy(folder, group->folder, sizeof folder);
	for (size_t size = strlen(folder); size >= group->top_size && size > 0;) {
		share = fmax(share, share_of(folder, group->is_first_version, left_bytes));
		const char *const slash = strrchr(folder, '/');
		size = (size_t)(slash - folder);
		folder[size] = '\0';
	}
	return share;
}

void cgroup_pressure_path(const struct cgroup *group, char path[CGROUP_PATH_BYTES])
{
	static const char of_machine[] = "/proc/pressure/memory";

	snprintf(path, CGROUP_PATH_BYTES, "%s/memory.pressure", group->folder);
	if (group->folder[0] == '\0' || access(path, R_OK) != 0)
		strcpy(path, access(of_machine, R_OK) == 0 ? of_machine : "");
}

double cgroup_pressure(const char *path)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	double percent = 0;

	if (path[0] == '\0' || !read_text(path, &text) ||
		sscanf(buffer_string(&text), "some avg10=%lf", &percent) != 1)
		return NAN;
	return percent / 100;
}
