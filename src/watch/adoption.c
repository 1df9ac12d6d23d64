/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/adoption.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"

/* Unchanged for so long: written completely. */
enum { QUIET_MS = 2000, RETRY_MS = 60 * 1000 };

struct sighting {
	char name[256];
	uint64_t sequence; /* the process' count of its profiles */
	off_t bytes;
	struct timespec modified;
	int64_t since_ms; /* it has been like that */
	bool is_refused;  /* no profile: said once */
};

struct adoption {
	char folder[3000];	    /* with the slash at its end */
	char base[256];		    /* last part of the prefix */
	struct sighting *sightings; /* of the last look, by name */
	size_t count;
	struct sighting **ready; /* of these, oldest first */
	size_t ready_count, ready_next;
};

bool adoption_new(const char *prefix, struct adoption **ret, struct error *err)
{
	const char *const slash = strrchr(prefix, '/');
	const char *const base = slash == NULL ? prefix : slash + 1;
	struct adoption *const adoption = xcalloc(1, sizeof *adoption);

	if (*base == '\0' || strlen(base) > 200 || strlen(prefix) >= sizeof adoption->folder) {
		free(adoption);
		error_set(err, ERROR_USAGE, "'%.60s' is no prefix of files", prefix);
		return error_hint(err, "give what jemalloc has as prof_prefix");
	}
	snprintf(adoption->folder, sizeof adoption->folder, "%.*s",
		slash == NULL ? 2 : (int)(slash - prefix) + 1, slash == NULL ? "./" : prefix);
	strcpy(adoption->base, base);
	*ret = adoption;
	return true;
}

void adoption_free(struct adoption *adoption)
{
	if (adoption == NULL)
		return;
	free(adoption->ready);
	free(adoption->sightings);
	free(adoption);
}

/* What made jemalloc write it, by the letter in the name; NULL when the name is another one. */
static const char *reason_of(const struct adoption *adoption, const char *name, char tag[24])
{
	const size_t base = strlen(adoption->base);
	char letter = '\0', number[16] = "", rest = '\0';

	if (strncmp(name, adoption->base, base) != 0)
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
	const struct sighting *const x = a, *const y = b;

	return strcmp(x->name, y->name);
}

/* Profiles may be written faster than the clock of the disk ticks. */
static int compare_ages(const void *a, const void *b)
{
	const struct sighting *const x = *(struct sighting *const *)a;
	const struct sighting *const y = *(struct sighting *const *)b;

	if (x->modified.tv_sec != y->modified.tv_sec)
		return x->modified.tv_sec < y->modified.tv_sec ? -1 : 1;
	if (x->modified.tv_nsec != y->modified.tv_nsec)
		return x->modified.tv_nsec < y->modified.tv_nsec ? -1 : 1;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* What is there, by name. */
static bool read_folder(const struct adoption *adoption, int64_t now_ms,
	struct sighting **sightings, size_t *count, struct error *err)
{
	DIR *const stream = opendir(adoption->folder);
	struct sighting *found = NULL;
	size_t size = 0, capacity = 0;
	char tag[24];

	if (stream == NULL)
		return error_system(err, errno, "%s", adoption->folder);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		if (reason_of(adoption, entry->d_name, tag) == NULL ||
			fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		found = xgrow(found, &capacity, size + 1, sizeof *found);
		struct sighting *const one = &found[size++];
		*one = (struct sighting){
			.bytes = status.st_size, .modified = status.st_mtim, .since_ms = now_ms
		};
		(void)sscanf(entry->d_name + strlen(adoption->base), ".%*[0-9].%" SCNu64,
			&one->sequence);
		snprintf(one->name, sizeof one->name, "%s", entry->d_name);
	}
	closedir(stream);
	if (size > 0)
		qsort(found, size, sizeof *found, compare_names);
	*sightings = found;
	*count = size;
	return true;
}

/* Those that have not changed go on from what was known of them. */
static void remember(const struct adoption *adoption, struct sighting *sightings, size_t count)
{
	for (size_t i = 0, before = 0; i < count; i++) {
		struct sighting *const one = &sightings[i];
		while (before < adoption->count &&
			compare_names(&adoption->sightings[before], one) < 0)
			before++;
		if (before == adoption->count)
			return;
		const struct sighting *const known = &adoption->sightings[before];
		if (compare_names(known, one) != 0 || known->bytes != one->bytes ||
			known->modified.tv_sec != one->modified.tv_sec ||
			known->modified.tv_nsec != one->modified.tv_nsec)
			continue;
		one->since_ms = known->since_ms;
		one->is_refused = known->is_refused;
	}
}

static void find_ready(struct adoption *adoption, int64_t now_ms)
{
	free(adoption->ready);
	adoption->ready = xmalloc((adoption->count + 1) * sizeof(struct sighting *));
	adoption->ready_count = adoption->ready_next = 0;
	for (size_t i = 0; i < adoption->count; i++) {
		struct sighting *const one = &adoption->sightings[i];
		if (!one->is_refused && one->bytes != 0 && now_ms - one->since_ms >= QUIET_MS)
			adoption->ready[adoption->ready_count++] = one;
	}
	qsort(adoption->ready, adoption->ready_count, sizeof *adoption->ready, compare_ages);
}

static bool is_profile(int fd)
{
	char head[8];

	return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
	       memcmp(head, "heap_v2/", sizeof head) == 0;
}

static int open_ready(const struct adoption *adoption, const struct sighting *one, char from[4096])
{
	snprintf(from, 4096, "%s%s", adoption->folder, one->name);
	return open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* The oldest that are more than so many. What is no profile stays, for adoption_take to tell. */
static size_t drop_surplus(struct adoption *adoption, size_t most)
{
	const size_t surplus = adoption->ready_count > most ? adoption->ready_count - most : 0;
	size_t kept = 0, dropped = 0;
	char from[4096];

	for (size_t i = 0; i < adoption->ready_count; i++) {
		struct sighting *const one = adoption->ready[i];
		if (i < surplus) {
			CLEANUP(fd_cleanup) const int fd = open_ready(adoption, one, from);
			if (fd >= 0 && is_profile(fd) && unlink(from) == 0) {
				dropped++;
				continue;
			}
		}
		adoption->ready[kept++] = one;
	}
	adoption->ready_count = kept;
	return dropped;
}

bool adoption_look(
	struct adoption *adoption, int64_t now_ms, size_t most, size_t *dropped, struct error *err)
{
	struct sighting *sightings = NULL;
	size_t count = 0;

	if (!read_folder(adoption, now_ms, &sightings, &count, err))
		return false;
	remember(adoption, sightings, count);
	free(adoption->sightings);
	adoption->sightings = sightings;
	adoption->count = count;
	find_ready(adoption, now_ms);
	*dropped = drop_surplus(adoption, most);
	return true;
}

bool adoption_take(struct adoption *adoption, struct capture_folder *folder, int64_t now_ms,
	char path[4096], const char **reason, struct error *err)
{
	char from[4096], tag[24];

	path[0] = '\0';
	if (adoption->ready_next == adoption->ready_count)
		return true;
	struct sighting *const ready = adoption->ready[adoption->ready_next++];
	/* Should it fail. */
	ready->since_ms = now_ms + RETRY_MS;
	CLEANUP(fd_cleanup) const int fd = open_ready(adoption, ready, from);
	if (fd < 0)
		return error_system(err, errno, "%s", from);
	if (!is_profile(fd)) {
		ready->is_refused = true;
		return error_set(
			err, ERROR_INPUT, "%s is no profile of jemalloc; left alone", from);
	}
	(void)fchmod(fd, 0600);
	*reason = reason_of(adoption, ready->name, tag);
	char stem[256];
	snprintf(stem, sizeof stem, "%.*s",
		(int)strcspn(ready->name + strlen(adoption->base) + 1, ".") +
			(int)strlen(adoption->base) + 1,
		ready->name);
	json_t *const details = json_pack("{s:s, s:I, s:s}", "reason", *reason, "time_ms",
		(json_int_t)ready->modified.tv_sec * 1000 + ready->modified.tv_nsec / 1000000,
		"original", from);
	return capture_folder_take(folder, from, fd, tag, stem, details, path, err);
}
