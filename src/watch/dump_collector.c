/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/dump_collector.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

/* Unchanged for so long: written completely. */
enum { QUIET_MS = 2000, RETRY_MS = 60 * 1000 };

struct dump_file {
	char name[256];
	uint64_t sequence; /* the process' count of its profiles */
	off_t bytes;
	struct timespec modified;
	int64_t since_ms; /* it has been like that */
	bool is_refused;  /* no profile: reported once */
};

struct dump_collector {
	char folder[3000];	 /* with the slash at its end */
	char base[256];		 /* last part of the prefix */
	struct dump_file *files; /* of the last look, by name */
	size_t count;
	struct dump_file **ready; /* of these, oldest first */
	size_t ready_count, ready_next;
};

bool dump_collector_new(const char *prefix, struct dump_collector **ret, struct error *err)
{
	const char *const base = path_base_name(prefix);
	struct dump_collector *const collector = xcalloc(1, sizeof *collector);

	if (*base == '\0' || strlen(base) > 200 || strlen(prefix) >= sizeof collector->folder) {
		free(collector);
		error_set(err, ERROR_USAGE, "'%.60s' is not a prefix of files", prefix);
		return error_hint(err, "use jemalloc's prof_prefix");
	}
	snprintf(collector->folder, sizeof collector->folder, "%.*s",
		base == prefix ? 2 : (int)(base - prefix), base == prefix ? "./" : prefix);
	strcpy(collector->base, base);
	*ret = collector;
	return true;
}

void dump_collector_free(struct dump_collector *collector)
{
	if (collector == NULL)
		return;
	free(collector->ready);
	free(collector->files);
	free(collector);
}

/* What made jemalloc write it, by the letter in the name; NULL when the name is another one. */
static const char *reason_of(const struct dump_collector *collector, const char *name, char tag[24])
{
	const size_t base = strlen(collector->base);
	char letter = '\0', number[16] = "", rest = '\0';

	if (strncmp(name, collector->base, base) != 0)
		return NULL;
	const int got =
		sscanf(name + base, ".%*[0-9].%*[0-9].%c%15[0-9].hea%c", &letter, number, &rest);
	const bool is_final = got == 1 && letter == 'f' && strstr(name + base, ".f.heap") != NULL;
	const char *const end = strstr(name + base, ".heap");
	if ((got != 3 && !is_final) || end == NULL || end[5] != '\0')
		return NULL;
	snprintf(tag, 24, "%c%s", letter, number);
	switch (letter) {
	case 'i':
		return "jemalloc's interval";
	case 'u':
		return "jemalloc's new peak of mapped memory";
	case 'f':
		return "the end of the program";
	case 'm':
	case 'h': /* memory_profile.so */
		return "a dump by hand";
	default:
		return NULL;
	}
}

static int compare_names(const void *a, const void *b)
{
	const struct dump_file *const x = a, *const y = b;

	return strcmp(x->name, y->name);
}

/* Profiles may be written faster than the clock of the disk ticks. */
static int compare_ages(const void *a, const void *b)
{
	const struct dump_file *const x = *(struct dump_file *const *)a;
	const struct dump_file *const y = *(struct dump_file *const *)b;

	if (x->modified.tv_sec != y->modified.tv_sec)
		return x->modified.tv_sec < y->modified.tv_sec ? -1 : 1;
	if (x->modified.tv_nsec != y->modified.tv_nsec)
		return x->modified.tv_nsec < y->modified.tv_nsec ? -1 : 1;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* What is there, by name. */
static bool read_folder(const struct dump_collector *collector, int64_t now_ms,
	struct dump_file **files, size_t *count, struct error *err)
{
	DIR *const stream = opendir(collector->folder);
	struct dump_file *found = NULL;
	size_t size = 0, capacity = 0;
	char tag[24];

	if (stream == NULL)
		return error_system(err, errno, "%s", collector->folder);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		if (reason_of(collector, entry->d_name, tag) == NULL ||
			fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		struct dump_file *const one = XAPPEND(found, size, capacity);
		*one = (struct dump_file){
			.bytes = status.st_size, .modified = status.st_mtim, .since_ms = now_ms
		};
		(void)sscanf(entry->d_name + strlen(collector->base), ".%*[0-9].%" SCNu64,
			&one->sequence);
		snprintf(one->name, sizeof one->name, "%s", entry->d_name);
	}
	closedir(stream);
	if (size > 0)
		qsort(found, size, sizeof *found, compare_names);
	*files = found;
	*count = size;
	return true;
}

/* Unchanged files keep their entries. */
static void remember(const struct dump_collector *collector, struct dump_file *files, size_t count)
{
	for (size_t i = 0, before = 0; i < count; i++) {
		struct dump_file *const one = &files[i];
		while (before < collector->count &&
			compare_names(&collector->files[before], one) < 0)
			before++;
		if (before == collector->count)
			return;
		const struct dump_file *const known = &collector->files[before];
		if (compare_names(known, one) != 0 || known->bytes != one->bytes ||
			known->modified.tv_sec != one->modified.tv_sec ||
			known->modified.tv_nsec != one->modified.tv_nsec)
			continue;
		one->since_ms = known->since_ms;
		one->is_refused = known->is_refused;
	}
}

static void find_ready(struct dump_collector *collector, int64_t now_ms)
{
	free(collector->ready);
	collector->ready = xmalloc((collector->count + 1) * sizeof(struct dump_file *));
	collector->ready_count = collector->ready_next = 0;
	for (size_t i = 0; i < collector->count; i++) {
		struct dump_file *const one = &collector->files[i];
		if (!one->is_refused && one->bytes != 0 && now_ms - one->since_ms >= QUIET_MS)
			collector->ready[collector->ready_count++] = one;
	}
	qsort(collector->ready, collector->ready_count, sizeof *collector->ready, compare_ages);
}

static bool is_profile(int fd)
{
	char head[8];

	return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
	       memcmp(head, "heap_v2/", sizeof head) == 0;
}

static int open_ready(
	const struct dump_collector *collector, const struct dump_file *one, char from[4096])
{
	snprintf(from, 4096, "%s%s", collector->folder, one->name);
	return open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* The oldest beyond the limit. Files that are not profiles stay, and dump_collector_next reports
 * them. */
static size_t drop_surplus(struct dump_collector *collector, size_t limit)
{
	const size_t surplus = collector->ready_count > limit ? collector->ready_count - limit : 0;
	size_t kept = 0, dropped = 0;
	char from[4096];

	for (size_t i = 0; i < collector->ready_count; i++) {
		struct dump_file *const one = collector->ready[i];
		if (i < surplus) {
			CLEANUP(fd_cleanup) const int fd = open_ready(collector, one, from);
			if (fd >= 0 && is_profile(fd) && unlink(from) == 0) {
				dropped++;
				continue;
			}
		}
		collector->ready[kept++] = one;
	}
	collector->ready_count = kept;
	return dropped;
}

bool dump_collector_scan(struct dump_collector *collector, int64_t now_ms, size_t limit,
	size_t *dropped, struct error *err)
{
	struct dump_file *files = NULL;
	size_t count = 0;

	if (!read_folder(collector, now_ms, &files, &count, err))
		return false;
	remember(collector, files, count);
	free(collector->files);
	collector->files = files;
	collector->count = count;
	find_ready(collector, now_ms);
	*dropped = drop_surplus(collector, limit);
	return true;
}

bool dump_collector_next(
	struct dump_collector *collector, int64_t now_ms, struct dump *dump, struct error *err)
{
	*dump = (struct dump){ .fd = -1 };
	if (collector->ready_next == collector->ready_count)
		return true;
	struct dump_file *const ready = collector->ready[collector->ready_next++];
	ready->since_ms = now_ms + RETRY_MS;
	CLEANUP(fd_cleanup) int fd = open_ready(collector, ready, dump->path);
	if (fd < 0)
		return error_system(err, errno, "%s", dump->path);
	if (!is_profile(fd)) {
		ready->is_refused = true;
		return error_set(err, ERROR_INPUT,
			"%s is not a profile of jemalloc; it is left as it is", dump->path);
	}
	(void)fchmod(fd, 0600);
	const size_t base = strlen(collector->base) + 1;
	snprintf(dump->stem, sizeof dump->stem, "%.*s",
		(int)(base + strcspn(ready->name + base, ".")), ready->name);
	dump->reason = reason_of(collector, ready->name, dump->tag);
	dump->time_ms = (int64_t)ready->modified.tv_sec * 1000 + ready->modified.tv_nsec / 1000000;
	dump->fd = TAKE_FD(fd);
	return true;
}
