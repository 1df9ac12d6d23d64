/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source: the meaning of an operand of the command line, and the only access to its data.
 *
 *	FILE		a profile of any known format, a bundle or a tar of profiles, or such a file
 *			compressed
 *	-		the same from standard input
 *	FOLDER		of profiles, or of captures of `heapctl watch`
 *	URL		http://host:port/pprof/heap and the like; "host:port" is one, too
 *	TARGET		see client/target.h; also behind a gateway
 *
 * source_open decides which of these it is, and opens, reads and expands it once. What a target has
 * is fetched when it is first used, once; so is each document parsed once.
 *
 * A source is used by one thread. It prints nothing: warnings go to the caller's function.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "client/target.h"
#include "profile/profile_read.h"
#include "profile/profile.h"
#include "source/server_profile.h"

enum source_kind {
	SOURCE_FILE, /* one profile */
	SOURCE_BUNDLE,
	SOURCE_SERIES, /* a tar of profiles */
	SOURCE_FOLDER,
	SOURCE_URL, /* of a server that serves profiles */
	SOURCE_TARGET,
};

/* The texts that a bundle has (docs/bundle.md), and a target when it is read now. */
enum source_part {
	SOURCE_PROFILE,
	SOURCE_STATUS,
	SOURCE_STATS,
	SOURCE_SMAPS,
	SOURCE_MAPS,
	SOURCE_LIMITS,
	SOURCE_PROCESS,
	SOURCE_CGROUP,
	SOURCE_PARTS,
};

/* The names of the parts in a bundle. */
extern const char *const source_part_names[SOURCE_PARTS];

typedef void source_warn(const char *format, ...) PRINTF_FORMAT(1, 2);

struct source_options {
	/*
	 * More than a profile is wanted: a URL is that of a gateway's target, whose agent is asked,
	 * and a path where there is nothing is that of a socket.
	 */
	bool needs_agent;
	bool walks_heap;	 /* statistics also where malloc has to wait for them (glibc's) */
	bool leaves_out_threads; /* see struct profile_read_options */
	struct server_profile_options server;
	source_warn *warn; /* NULL: no warnings */
};

/* Starts as { 0 }. Fields are for reading. */
struct source {
	struct source_options options;
	enum source_kind kind;
	char *name;	       /* for messages: file or target */
	char process[192];     /* "redis-server[4711]", as a bundle or a target says; or "" */
	char program_name[64]; /* what the process is called; "" when that is not known */
	char *path;	       /* of a file or folder; NULL for others, "-" for standard input */
	int64_t time_ms;       /* of a bundle, or when a target was read; 0: not known */
	int64_t file_time_ms;  /* modification time of a regular file, else 0 */
	pid_t pid;	       /* of a target's process on this machine; 0 otherwise */
	struct target target;  /* of SOURCE_TARGET, and the server of SOURCE_URL */

	/* The rest belongs to source.c. */
	struct server_url url;
	struct input input;		     /* of a file */
	struct buffer fetched[SOURCE_PARTS]; /* of a target */
	bool is_fetched[SOURCE_PARTS];
	struct cursor texts[SOURCE_PARTS];
	struct error about_error; /* of a bundle that cannot be used */
	json_t *status, *stats;
	bool is_status_parsed;
};

/* The pid in the name of a profile's file, as heapctl and jemalloc give it; 0 when there is none.
 */
pid_t source_pid_of_file(const char *path);

/* Whether the operand is an executable rather than a source. */
bool source_is_program(const char *operand);

/*
 * How many sources an operand means, and each of them: "host@3/path" is the hosts 0.host, 1.host
 * and 2.host, anything else is itself. Free the text with free().
 */
size_t source_operand_count(const char *operand);
char *source_operand_at(const char *operand, size_t at);

/* Close the source also when this failed. */
MUST_CHECK bool source_open(const char *operand, const struct source_options *options,
	struct source *source, struct error *err);
/* The same for a path that is that of a file, whatever is there. */
MUST_CHECK bool source_open_file(const char *path, const struct source_options *options,
	struct source *source, struct error *err);
/* The same for a target that was resolved before. */
void source_of_target(
	const struct target *target, const struct source_options *options, struct source *source);
void source_close(struct source *source);

/*
 * The text of a part, valid as long as the source. Empty where a bundle does not have it or
 * the kernel does not show it. ERROR_USAGE for a source that is neither bundle nor target.
 */
MUST_CHECK bool source_text(
	struct source *source, enum source_part part, struct cursor *text, struct error *err);

/* The profile, which the caller owns. A series or a folder has many: source_read_series. */
MUST_CHECK bool source_profile(struct source *source, struct profile **profile, struct error *err);

/* The allocator's statistics as it prints them. Borrowed. */
MUST_CHECK bool source_stats(struct source *source, const json_t **stats, struct error *err);

/* What the agent says of the process; NULL when it is not known. Borrowed. */
const json_t *source_status(struct source *source);

/*
 * "redis-server[4711]"; of a gateway's target that is what the agent says, or the target's URL
 * where it says nothing. "" of a file that is no bundle. Borrowed.
 */
const char *source_process(struct source *source);

/*
 * The process name in the name of a file that dump, record or watch wrote. The program's file may
 * have another name: Debian's redis-server is a link to redis-check-rdb, which is what a profile
 * has. False when the name has none.
 */
bool source_name_of_file(const char *path, char *name, size_t size);

/*
 * Writing a bundle (bundle_writer.c): fetches all parts of a target. A process that cannot be
 * profiled has no profile: then *profile is NULL and `without_profile` says why (its message is ""
 * when there is one). The mappings of the profile of a process of this machine have build-ids. The
 * caller owns the profile.
 */
MUST_CHECK bool bundle_fetch(struct source *source, struct profile **profile,
	struct error *without_profile, struct error *err);

/* Appends a bundle of what was fetched, with this text as its profile. */
void bundle_write(struct source *source, const struct buffer *profile_text, bool has_symbols,
	const struct error *without_profile, struct buffer *out);
