/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of one target by the gateway: a thread with a watcher (watch/watcher.h). The
 * watch_manager sends it requests, and any thread may ask for its report. It outlives its target:
 * when the target comes back as another process, the watch_manager assigns that, and the state of
 * the conditions is kept.
 *
 * Any thread, but all requests come from one.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/backend.h"
#include "gateway/gateway.h"
#include "store/store.h"
#include "watch/settings.h"
#include "watch/watcher.h"

/*
 * The folders that the gateway's watches keep their captures in: several watches may share one, and
 * one that is no longer used is closed. Any thread.
 */
struct watch_folders {
	pthread_mutex_t mutex;
	struct watch_folder *items;
};

void watch_folders_init(struct watch_folders *folders);

/* After the last store was given back. */
void watch_folders_deinit(struct watch_folders *folders);

enum watch_state {
	WATCH_WAITING,	/* for its target to appear */
	WATCH_WATCHING, /* the target is being watched */
	WATCH_REFUSED,	/* it cannot be watched: see `problem`; retried from time to time */
};

struct watch_report {
	char name[128]; /* of the target */
	pid_t pid;	/* 0 while waiting, or when it is not known */
	struct watch_section section;
	enum watch_state state;
	struct error problem;
	bool armed[TRIGGER_RULES_MAX];
	char rule_problems[TRIGGER_RULES_MAX][WATCHER_RULE_PROBLEM_BYTES];
	uint64_t captures, failures;
	int64_t captured_ms; /* since 1970; 0: never */
	char reason[CONDITION_TEXT_BYTES];
	char path[4096];
	uint64_t bytes;
	int64_t failed_ms;
	struct error failure;
};

/* Whether it is of the target with that name or pid. */
bool watch_report_is_about(const struct watch_report *report, const char *name);

/* Where its captures go: a pattern's targets have a folder each. "" for the history. */
void watch_report_folder(const struct watch_report *report, char path[4096]);

struct target_watch;

/* The gateway and the folders must outlive it. */
MUST_CHECK bool target_watch_start(struct gateway *gateway, struct watch_folders *folders,
	const struct watch_section *section, const char *name, struct target_watch **watch,
	struct error *err);

/* Requests to its thread. */
void target_watch_assign(struct target_watch *watch, struct backend *backend);
void target_watch_change(struct target_watch *watch, const struct watch_section *section);
void target_watch_signal(struct target_watch *watch);

/* _stop requests its end and returns at once; _join waits for the end and frees it. */
void target_watch_stop(struct target_watch *watch);
bool target_watch_has_stopped(struct target_watch *watch);
void target_watch_join(struct target_watch *watch);

void target_watch_report(struct target_watch *watch, struct watch_report *report);

/* The target's name, and the generation of the backend that was assigned last (0: none yet). */
const char *target_watch_name(const struct target_watch *watch);
uint64_t target_watch_generation(const struct target_watch *watch);

/* Whether it has no target. */
bool target_watch_is_idle(struct target_watch *watch);
