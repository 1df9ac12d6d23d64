/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/shared_library.h"
#include "base/xalloc.h"

/* The client library's functions that are used; debuginfod_find_debuginfo(3). */
struct client;
typedef int client_progress(struct client *client, long done, long total);

struct debuginfod {
	pthread_mutex_t lock; /* one download at a time */
	void *library;	      /* NULL when it is not there */
	struct client *client;
	struct client *(*begin)(void);
	void (*end)(struct client *client);
	int (*find_debuginfo)(
		struct client *client, const unsigned char *build_id, int size, char **path);
	int (*find_source)(struct client *client, const unsigned char *build_id, int size,
		const char *source, char **path);
	void (*set_progress)(struct client *client, client_progress *progress);
	void (*set_log)(struct client *client, int fd); /* NULL before elfutils 0.186 */
	int log_fd;	  /* where the client says what the servers answered; -1 without it */
	struct error why; /* there is no client */
	int timeout_ms;
	int64_t deadline_ms; /* 0 until the first download */
};

/* Larger than any source file that people write. */
enum { SOURCE_BYTES_MAX = 64 * 1024 * 1024 };

/* The library gives its callback no context; downloads run one at a time. */
static _Atomic int64_t current_deadline_ms; /* monotonic */
static _Atomic long current_bytes_max;
static _Atomic bool current_is_too_long;

static _Atomic bool has_failed;

static int cancel_when_over(struct client *client, long done, long total)
{
	const long max = atomic_load(&current_bytes_max);

	(void)client;
	if (done > max || total > max)
		atomic_store(&current_is_too_long, true);
	return atomic_load(&current_is_too_long) ||
	       clock_monotonic_ms() >= atomic_load(&current_deadline_ms);
}

static void *find_function(struct debuginfod *debuginfod, const char *name)
{
	return debuginfod->library == NULL ? NULL : dlsym(debuginfod->library, name);
}

static void load_library(struct debuginfod *debuginfod)
{
	/* Told when a file is wanted. */
	struct error *const why = &debuginfod->why;

	if (!shared_library_open("libdebuginfod.so.1", "libdebuginfod1", &debuginfod->library, why))
		return;
	error_set(why, ERROR_UNSUPPORTED, "libdebuginfod.so.1 is no client of debuginfod");
	error_hint(why, "install it anew: apt install --reinstall libdebuginfod1");
	/* dlsym gives an object pointer for a function. */
	void *functions[] = {
		find_function(debuginfod, "debuginfod_begin"),
		find_function(debuginfod, "debuginfod_end"),
		find_function(debuginfod, "debuginfod_find_debuginfo"),
		find_function(debuginfod, "debuginfod_find_source"),
		find_function(debuginfod, "debuginfod_set_progressfn"),
	};
	memcpy(&debuginfod->begin, &functions[0], sizeof functions[0]);
	memcpy(&debuginfod->end, &functions[1], sizeof functions[1]);
	memcpy(&debuginfod->find_debuginfo, &functions[2], sizeof functions[2]);
	memcpy(&debuginfod->find_source, &functions[3], sizeof functions[3]);
	memcpy(&debuginfod->set_progress, &functions[4], sizeof functions[4]);
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		if (functions[i] == NULL)
			return;
	}
	debuginfod->client = debuginfod->begin();
	if (debuginfod->client == NULL)
		return;
	debuginfod->set_progress(debuginfod->client, cancel_when_over);
	void *const set_log = find_function(debuginfod, "debuginfod_set_verbose_fd");
	memcpy(&debuginfod->set_log, &set_log, sizeof set_log);
	/* With that variable, the user reads it. */
	if (set_log != NULL && getenv("DEBUGINFOD_VERBOSE") == NULL)
		debuginfod->log_fd = memfd_create("debuginfod", MFD_CLOEXEC);
	if (debuginfod->log_fd >= 0)
		debuginfod->set_log(debuginfod->client, debuginfod->log_fd);
}

struct debuginfod *debuginfod_new(const char *urls, int timeout_ms)
{
	struct debuginfod *const debuginfod = xcalloc(1, sizeof *debuginfod);
	char seconds[32];

	debuginfod->timeout_ms = timeout_ms;
	debuginfod->log_fd = -1;
	pthread_mutex_init(&debuginfod->lock, NULL);
	snprintf(seconds, sizeof seconds, "%d", timeout_ms < 1000 ? 1 : (timeout_ms + 999) / 1000);
	setenv("DEBUGINFOD_URLS", urls, 1);
	setenv("DEBUGINFOD_TIMEOUT", seconds, 1);
	setenv("DEBUGINFOD_MAXTIME", seconds, 1);
	load_library(debuginfod);
	return debuginfod;
}

void debuginfod_free(struct debuginfod *debuginfod)
{
	if (debuginfod == NULL)
		return;
	if (debuginfod->client != NULL)
		debuginfod->end(debuginfod->client);
	if (debuginfod->log_fd >= 0)
		close(debuginfod->log_fd);
	/* The library stays loaded: curl behind it may have threads that still end. */
	pthread_mutex_destroy(&debuginfod->lock);
	free(debuginfod);
}

/* What is asked for: `source` is NULL for the debug file. */
struct wanted_file {
	const char *build_id;
	const char *source;
};

/* A debug file may have gigabytes; one that is above the process's own limit would end it. */
static long bytes_max(const struct wanted_file *wanted)
{
	struct rlimit limit;

	if (wanted->source != NULL)
		return SOURCE_BYTES_MAX;
	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur > LONG_MAX
		       ? LONG_MAX
		       : (long)limit.rlim_cur;
}

/* The client chooses it in this order; debuginfod_find_debuginfo(3). */
static void append_cache_folder(struct buffer *folder)
{
	const char *const chosen = getenv("DEBUGINFOD_CACHE_PATH");
	const char *const caches = getenv("XDG_CACHE_HOME");
	const char *const home = getenv("HOME");

	if (chosen != NULL && chosen[0] != '\0') {
		buffer_append_string(folder, chosen);
		return;
	}
	buffer_printf(folder, "%s/.debuginfod_client_cache", home == NULL ? "/" : home);
	if (access(buffer_string(folder), F_OK) == 0)
		return;
	buffer_clear(folder);
	if (caches != NULL && caches[0] != '\0')
		buffer_append_string(folder, caches);
	else
		buffer_printf(folder, "%s/.cache", home == NULL ? "/" : home);
	buffer_append_string(folder, "/debuginfod_client");
}

/* Whether the client could not keep a file: it never came to ask, or could not write an answer. */
static bool is_cache_failure(int errnum, const char *folder)
{
	struct stat status;

	switch (errnum) {
	case ENOENT: /* the client makes the folder, but not what is above it */
		return stat(folder, &status) != 0;
	case EACCES:
	case EDQUOT:
	case EEXIST:
	case EIO: /* what curl could not write */
	case ENOSPC:
	case ENOTDIR:
	case EPERM:
	case EROFS:
		return true;
	default:
		return false;
	}
}

/* What the client logged of a request; empty where it logs nothing. */
static void read_log(const struct debuginfod *debuginfod, struct buffer *log)
{
	enum { LOG_BYTES_MAX = 64 * 1024 };
	CLEANUP(free_cleanup) char *text = xmalloc(LOG_BYTES_MAX);

	const ssize_t size =
		debuginfod->log_fd < 0 ? 0 : pread(debuginfod->log_fd, text, LOG_BYTES_MAX, 0);
	if (size > 0)
		buffer_append(log, text, (size_t)size);
}

static void clear_log(const struct debuginfod *debuginfod)
{
	if (debuginfod->log_fd >= 0 && ftruncate(debuginfod->log_fd, 0) == 0)
		(void)lseek(debuginfod->log_fd, 0, SEEK_SET);
}

/* Host and port of the URL that has this number in the log: users and passwords are not shown. */
static void append_server(struct buffer *out, const char *log, const char *number)
{
	CLEANUP(free_cleanup)
	char *line = xasprintf("\nurl %.*s ", (int)strcspn(number, " "), number);
	const char *url = strstr(log, line);

	url = url == NULL ? NULL : strstr(url, "://");
	if (url == NULL)
		return;
	url += strlen("://");
	const size_t size = strcspn(url, "/\n");
	if (size == 0) /* file:// */
		return;
	const char *const login = memrchr(url, '@', size);
	const char *const host = login == NULL ? url : login + 1;
	buffer_append(out, host, (size_t)(url + size - host));
	buffer_append_string(out, ": ");
}

/* The first answer that is neither a file nor that there is none, with the name of the server. */
static void find_refusal(const char *log, struct buffer *answer)
{
	static const char response[] = "\nserver response ";
	static const char detail[] = "\nurl ";

	for (const char *at = log; (at = strstr(at, response)) != NULL;) {
		const char *text = at + sizeof response - 1;
		at = text + strcspn(text, "\n");
		buffer_clear(answer);
		if (strncmp(at, detail, sizeof detail - 1) == 0) {
			const char *const number = at + sizeof detail - 1;
			append_server(answer, log, number);
			text = number + strcspn(number, " \n");
			text += *text == ' ';
		}
		const size_t size = strcspn(text, "\n");
		CLEANUP(free_cleanup) char *said = xstrndup(text, size);
		/* The second one is of a server that is a folder. */
		if (strstr(said, "error: 404") == NULL &&
			strstr(said, "Couldn't open file") == NULL) {
			/* What curl calls no error has no byte of a file. */
			buffer_append_string(answer,
				strcmp(said, "No error") == 0 ? "the answer is empty" : said);
			return;
		}
	}
	buffer_clear(answer);
}

static void hint_at_server(const char *answer, struct buffer *hint)
{
	const bool is_refused = strstr(answer, "error: 401") != NULL ||
				strstr(answer, "error: 403") != NULL ||
				strstr(answer, "error: 407") != NULL;

	buffer_append_string(
		hint, is_refused ? "give the server's token in the file of DEBUGINFOD_HEADERS_FILE"
				 : "check the URL and the network");
}

/*
 * The client keeps an answer without a file as an empty file, with which it answers for ten
 * minutes. Which file a source has depends on the version of the client. Appends what to remove;
 * false when there is none.
 */
static bool find_kept_miss(
	const struct wanted_file *wanted, const char *folder, struct buffer *kept)
{
	CLEANUP(free_cleanup)
	char *path = xasprintf(
		"%s/%s%s", folder, wanted->build_id, wanted->source == NULL ? "/debuginfo" : "");
	struct stat status;

	if (stat(path, &status) != 0 || (wanted->source == NULL && status.st_size != 0))
		return false;
	buffer_printf(kept, "%s%s", wanted->source == NULL ? "" : "the empty files in ", path);
	return true;
}

static void hint_at_kept_miss(
	const struct wanted_file *wanted, const char *folder, struct buffer *hint)
{
	CLEANUP(buffer_deinit) struct buffer kept = BUFFER_OR_EXIT;

	if (find_kept_miss(wanted, folder, &kept))
		buffer_printf(hint, ", then remove %s, which keeps this answer for ten minutes",
			buffer_string(&kept));
}

static void explain(const struct debuginfod *debuginfod, const struct wanted_file *wanted,
	int errnum, struct buffer *problem, struct buffer *hint)
{
	CLEANUP(buffer_deinit) struct buffer folder = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer log = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer answer = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer kept = BUFFER_OR_EXIT;

	append_cache_folder(&folder);
	read_log(debuginfod, &log);
	find_refusal(buffer_string(&log), &answer);
	const bool is_cache = is_cache_failure(errnum, buffer_string(&folder));
	const bool is_missing = errnum == ENOENT && !is_cache;
	if (is_missing && answer.size == 0) {
		if (problem->size == 0 && log.size != 0 &&
			strstr(buffer_string(&log), "\ninit server ") == NULL) {
			buffer_clear(hint);
			if (find_kept_miss(wanted, buffer_string(&folder), &kept))
				buffer_printf(hint,
					"remove %s to ask the debuginfod servers again, from which "
					"no file came less than ten minutes ago",
					buffer_string(&kept));
		}
		return;
	}
	buffer_clear(problem);
	buffer_clear(hint);
	if (errnum != EFBIG)
		atomic_store(&has_failed, true);
	if (errnum == ETIME || errnum == EINTR || errnum == ECANCELED) {
		buffer_append_string(problem, "the debuginfod servers did not answer in time");
		if (find_kept_miss(wanted, buffer_string(&folder), &kept))
			buffer_printf(hint,
				"try again in ten minutes, or remove %s and allow more time",
				buffer_string(&kept));
		else
			buffer_append_string(hint, "try again later, or allow more time");
	} else if (errnum == EFBIG && !atomic_load(&current_is_too_long)) {
		buffer_append_string(problem, "what the debuginfod servers have is larger than "
					      "DEBUGINFOD_MAXSIZE allows");
		buffer_append_string(hint, "raise DEBUGINFOD_MAXSIZE, or unset it");
		hint_at_kept_miss(wanted, buffer_string(&folder), hint);
	} else if (errnum == EFBIG && wanted->source != NULL) {
		buffer_append_string(
			problem, "what the debuginfod servers have is too long for a source file");
	} else if (errnum == EFBIG) {
		buffer_printf(problem,
			"the debug file of the debuginfod servers has more than the %ld bytes that "
			"this process may write",
			bytes_max(wanted));
		buffer_append_string(hint,
			"download it once with heapctl report --debuginfod, as the same user and "
			"without that limit");
	} else if (is_cache) {
		buffer_printf(problem, "debuginfod's cache %s cannot be written: %s",
			buffer_string(&folder), strerror(errnum));
		buffer_append_string(hint,
			errnum == ENOSPC || errnum == EDQUOT
				? "free space there, or set DEBUGINFOD_CACHE_PATH to a folder "
				  "that can be written"
				: "set DEBUGINFOD_CACHE_PATH to a folder that can be written");
	} else {
		const char *const why =
			answer.size == 0 ? strerror(errnum) : buffer_string(&answer);
		buffer_printf(problem, "the debuginfod servers failed: %s", why);
		hint_at_server(why, hint);
		if (is_missing)
			hint_at_kept_miss(wanted, buffer_string(&folder), hint);
	}
}

static bool fetch(struct debuginfod *debuginfod, const struct wanted_file *wanted,
	struct buffer *path, struct buffer *problem, struct buffer *hint)
{
	/* A size of 0 says that it is hexadecimal text. */
	const unsigned char *const build_id = (const unsigned char *)wanted->build_id;
	char *found = NULL;

	if (debuginfod->deadline_ms == 0)
		debuginfod->deadline_ms = clock_monotonic_ms() + debuginfod->timeout_ms;
	if (clock_monotonic_ms() >= debuginfod->deadline_ms) {
		explain(debuginfod, wanted, ETIME, problem, hint);
		return false;
	}
	atomic_store(&current_deadline_ms, debuginfod->deadline_ms);
	atomic_store(&current_is_too_long, false);
	atomic_store(&current_bytes_max, bytes_max(wanted));
	clear_log(debuginfod);
	const int fd = wanted->source == NULL
			       ? debuginfod->find_debuginfo(debuginfod->client, build_id, 0, &found)
			       : debuginfod->find_source(
					 debuginfod->client, build_id, 0, wanted->source, &found);
	if (fd < 0) {
		const bool is_late = clock_monotonic_ms() >= debuginfod->deadline_ms;
		explain(debuginfod, wanted,
			is_late				    ? ETIME
			: atomic_load(&current_is_too_long) ? EFBIG
							    : -fd,
			problem, hint);
		return false;
	}
	close(fd);
	buffer_clear(path);
	buffer_append_string(path, found);
	free(found);
	return true;
}

/* The client makes a path of its cache from it, and a profile may say anything. */
static bool is_build_id(const char *text)
{
	const size_t size = strspn(text, "0123456789abcdef");

	return size > 0 && text[size] == '\0';
}

static bool fetch_if_possible(struct debuginfod *debuginfod, const struct wanted_file *wanted,
	struct buffer *path, struct buffer *problem, struct buffer *hint)
{
	if (!is_build_id(wanted->build_id))
		return false;
	if (debuginfod->client == NULL) {
		buffer_clear(problem);
		buffer_clear(hint);
		buffer_printf(problem, "debuginfod was allowed, but %s", debuginfod->why.message);
		buffer_append_string(hint, debuginfod->why.hint);
		return false;
	}
	pthread_mutex_lock(&debuginfod->lock);
	const bool found = fetch(debuginfod, wanted, path, problem, hint);
	pthread_mutex_unlock(&debuginfod->lock);
	return found;
}

bool debuginfod_fetch(struct debuginfod *debuginfod, const char *build_id, struct buffer *path,
	struct buffer *problem, struct buffer *hint)
{
	const struct wanted_file wanted = { .build_id = build_id };

	return fetch_if_possible(debuginfod, &wanted, path, problem, hint);
}

/*
 * Without "//", "." and "..", as the servers keep it: none is sent, since a URL of file:// is a
 * path.
 */
static void append_canonical(struct buffer *out, const char *path)
{
	while (*path != '\0') {
		path += strspn(path, "/");
		const size_t size = strcspn(path, "/");
		if (size == 2 && memcmp(path, "..", 2) == 0) {
			while (out->size > 0 && out->data[--out->size] != '/')
				continue;
		} else if (size > 0 && !(size == 1 && path[0] == '.')) {
			buffer_append_char(out, '/');
			buffer_append(out, path, size);
		}
		path += size;
	}
}

bool debuginfod_fetch_source(struct debuginfod *debuginfod, const char *build_id,
	const char *source, struct buffer *path, struct buffer *problem, struct buffer *hint)
{
	CLEANUP(buffer_deinit) struct buffer canonical = BUFFER_OR_EXIT;

	if (source[0] == '/')
		append_canonical(&canonical, source);
	if (canonical.size == 0)
		return false;
	const struct wanted_file wanted = { build_id, buffer_string(&canonical) };
	return fetch_if_possible(debuginfod, &wanted, path, problem, hint);
}

bool debuginfod_has_failed(void)
{
	return atomic_load(&has_failed);
}
