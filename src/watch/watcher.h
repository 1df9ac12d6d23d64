/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches one target and captures when its settings say so: heapctl watch is one of these, and
 * heapctl serve has one for each target that its file names. A watcher has no thread and prints
 * nothing: its *host* polls it, finds the target again when it was lost, and is notified of what
 * happens. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "client/target.h"
#include "store/store.h"
#include "watch/settings.h"

struct watcher_capture {
	const char *reason;
	const struct target *target;
	const json_t *status; /* of its agent, when it was attached */
	/* The figures at that time; NULL for a dump of jemalloc's own. */
	const struct trigger_observation *seen;
	char path[4096];
	uint64_t bytes;
};

struct watcher_host {
	void *context;
	/* Takes a profile of the target and keeps it; fills path and bytes. */
	bool (*keep)(void *context, struct watcher_capture *capture, struct error *err);
	void (*captured)(void *context, const struct watcher_capture *capture);
	/* A capture, a command or a file of jemalloc's failed; the watch continues. */
	void (*failed)(void *context, bool is_capture, const struct error *err);
	/* Something worth a line. */
	void (*note)(void *context, const char *line);
};

struct watcher;

/* Copies both. Free with watcher_free, which does not wait. */
struct watcher *watcher_new(const struct watch_settings *settings, const struct watcher_host *host);
void watcher_free(struct watcher *watcher);

/*
 * Where captures and jemalloc's own files go; borrowed. NULL: the latter stay where they are. Notes
 * when there is no room on its disk.
 */
void watcher_use_store(struct watcher *watcher, struct store *store);

/* Keeps a capture in a store; for a host's `keep`. */
MUST_CHECK bool watcher_keep_in_store(
	struct store *store, struct watcher_capture *capture, struct error *err);

/*
 * New settings. Conditions that existed before keep what they have observed; the command that runs
 * is finished, those that wait are cancelled when the command changed.
 */
void watcher_change(struct watcher *watcher, const struct watch_settings *settings);

/*
 * Begins to watch the target: another one than before starts the conditions over. Switches
 * sampling on where that is wanted, or notes that it is off. ERROR_UNSUPPORTED when the target
 * cannot be profiled, or none of the conditions can ever be observed; one of several is noted.
 */
MUST_CHECK bool watcher_attach(
	struct watcher *watcher, const struct target *target, struct error *err);
void watcher_detach(struct watcher *watcher);
bool watcher_is_attached(const struct watcher *watcher);

/* The target of the last attachment; empty before. */
const struct target *watcher_target(const struct watcher *watcher);

/*
 * Reads the target's figures, captures when a rule fires, collects jemalloc's own dumps, runs
 * pending commands. False when the target is lost; until it is attached again only dumps and
 * commands are handled.
 */
MUST_CHECK bool watcher_poll(struct watcher *watcher, bool signalled, struct error *err);

/* Until the next poll is due, memory is short, a signal comes or `other` (-1: none) has input. */
void watcher_wait(struct watcher *watcher, int other);

/* Starts the next pending command and collects one that ended; whether any are left. */
bool watcher_poll_command(struct watcher *watcher);

/* Why the rule of that number can never be true for the target; "" where it can. */
enum { WATCHER_RULE_PROBLEM_BYTES = 240 };
const char *watcher_rule_problem(const struct watcher *watcher, size_t rule);

/* Whether the rule of that number may fire; not while its level has yet to fall. */
bool watcher_is_armed(const struct watcher *watcher, size_t rule);
