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
	bool is_there;
	bool is_refused; /* no profile: said once */
};

struct adoption {
	char folder[3000]; /* with the slash at its end */
	char base[256];	   /* last part of the prefix */
	struct sighting *sightings;
	size_t count, capacity;
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
		return "a dump by hand";
	default:
		return NULL;
	}
}

static struct sighting *find_sighting(struct adoption *adoption, const char *name)
{
	for (size_t i = 0; i < adoption->count; i++) {
		if (strcmp(adoption->sightings[i].name, name) == 0)
			return &adoption->sightings[i];
	}
	adoption->sightings = xgrow(adoption->sightings, &adoption->capacity, adoption->count + 1,
		sizeof *adoption->sightings);
	struct sighting *const sighting = &adoption->sightings[adoption->count++];
	*sighting = (struct sighting){ .bytes = -1 };
	(void)sscanf(name + strlen(adoption->base), ".%*[0-9].%" SCNu64, &sighting->sequence);
	snprintf(sighting->name, sizeof sighting->name, "%s", name);
	return sighting;
}

static void note(
	struct adoption *adoption, const char *name, const struct stat *status, int64_t now_ms)
{
	struct sighting *const sighting = find_sighting(adoption, name);

	sighting->is_there = true;
	if (sighting->bytes == status->st_size &&
		sighting->modified.tv_sec == status->st_mtim.tv_sec &&
		sighting->modified.tv_nsec == status->st_mtim.tv_nsec)
		return;
	sighting->bytes = status->st_size;
	sighting->modified = status->st_mtim;
	sighting->since_ms = now_ms;
	sighting->is_refused = false;
}

static bool look(struct adoption *adoption, int64_t now_ms, struct error *err)
{
	DIR *const stream = opendir(adoption->folder);
	size_t kept = 0;
	char tag[24];

	if (stream == NULL)
		return error_system(err, errno, "%s", adoption->folder);
	for (size_t i = 0; i < adoption->count; i++)
		adoption->sightings[i].is_there = false;
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		if (reason_of(adoption, entry->d_name, tag) != NULL &&
			fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(status.st_mode))
			note(adoption, entry->d_name, &status, now_ms);
	}
	closedir(stream);
	for (size_t i = 0; i < adoption->count; i++) {
		if (adoption->sightings[i].is_there)
			adoption->sightings[kept++] = adoption->sightings[i];
	}
	adoption->count = kept;
	return true;
}

/* Profiles may be written faster than the clock of the disk ticks. */
static bool is_older(const struct sighting *a, const struct sighting *b)
{
	if (a->modified.tv_sec != b->modified.tv_sec)
		return a->modified.tv_sec < b->modified.tv_sec;
	if (a->modified.tv_nsec != b->modified.tv_nsec)
		return a->modified.tv_nsec < b->modified.tv_nsec;
	return a->sequence < b->sequence;
}

static struct sighting *find_ready(struct adoption *adoption, int64_t now_ms)
{
	struct sighting *best = NULL;

	for (size_t i = 0; i < adoption->count; i++) {
		struct sighting *const one = &adoption->sightings[i];
		if (one->is_refused || one->bytes == 0 || now_ms - one->since_ms < QUIET_MS)
			continue;
		if (best == NULL || is_older(one, best))
			best = one;
	}
	return best;
}

static bool is_profile(int fd)
{
	char head[8];

	return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
	       memcmp(head, "heap_v2/", sizeof head) == 0;
}

bool adoption_take(struct adoption *adoption, struct capture_folder *folder, int64_t now_ms,
	char path[4096], const char **reason, struct error *err)
{
	char from[4096], tag[24];

	path[0] = '\0';
	if (!look(adoption, now_ms, err))
		return false;
	struct sighting *const ready = find_ready(adoption, now_ms);
	if (ready == NULL)
		return true;
	/* Should it fail. */
	ready->since_ms = now_ms + RETRY_MS;
	snprintf(from, sizeof from, "%s%s", adoption->folder, ready->name);
	CLEANUP(fd_cleanup) const int fd = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
