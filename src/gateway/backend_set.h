/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets that the gateway serves: those named on the command line, or every one that can be
 * seen. They are looked for again for a request, at most every two seconds, so that a server
 * that was restarted is found under its new pid and one that ended is gone. A name means the
 * processes of one user (gateway/name_registry.h): where targets were named, only those are served;
 * else those of others are "NAME@USER". Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/backend.h"
#include "gateway/name_registry.h"

enum {
	BACKEND_SET_MAX = 256,
	BACKEND_SET_REFRESH_MS = 2000,
};

/* A requested name, split once: looking up a user may take long. */
struct called_name {
	char text[160];
	char name[128];
	uid_t owner; /* USER_ANY: it does not say */
};

struct backend_set {
	const char *const *wanted; /* as given on the command line; borrowed */
	size_t wanted_count;	   /* 0: all targets */
	int cancel_fd; /* -1, or cancels all calls to targets once it is readable; set before use */

	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool is_refreshing;
	int64_t refreshed_ms; /* 0: never */
	int64_t refresh_took_ms;
	struct backend **items; /* those wanted in their order, else by name and pid */
	size_t count;
	struct called_name last;     /* that was looked up */
	struct name_registry owners; /* from the command line, else the first user */
	size_t problem_count;
	struct backend_problem *problems;
};

/* A named target, or a process that looks like one, that cannot be served. */
struct backend_problem {
	char name[128];
	pid_t pid; /* 0 when it is not known */
	struct error err;
};

void backend_set_init(struct backend_set *set, const char *const *wanted, size_t count);
void backend_set_deinit(struct backend_set *set);

/*
 * The target of that name or pid; NULL: the gateway's own one, which is the first that was wanted,
 * or the only one there is. Drop the reference. ERROR_NOT_FOUND, ERROR_STATE when the name
 * is not unique or there are several and none was named.
 */
MUST_CHECK bool backend_set_find(
	struct backend_set *set, const char *name, struct backend **backend, struct error *err);

/*
 * Whether `name` means the target: its name, its pid, its program, or one of these followed by
 * "@USER". A program's name that belongs to another user does not.
 */
bool backend_set_is_called(
	struct backend_set *set, const struct backend *backend, const char *name);

/* Before use: a name that was the user's, and still is unless the command line gives it to another.
 */
void backend_set_remember(struct backend_set *set, const char *name, uid_t owner);

/*
 * The name in the history of a target that may have ended: NAME, when NAME@USER was requested and
 * the name is that user's.
 */
void backend_set_plain_name(struct backend_set *set, const char *name, char *out, size_t size);

struct backend_list {
	struct backend **items;
	size_t count;
	struct backend_problem *problems;
	size_t problem_count;
};

/* A reference to each. Release with backend_list_deinit. */
void backend_set_list(struct backend_set *set, struct backend_list *list);
void backend_list_deinit(struct backend_list *list);
