/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent, without the thread that drives it: core, socket, clients, and its periodic checks. Its
 * owner polls and steps it, in a thread of its own or in the program's event loop:
 *
 *	service_poll(&service, fds, &count, service_timeout_ms(&service));
 *	go_on = service_step(&service, fds, count);
 *
 * Without a request and a run, the time-out is infinite. Other threads may use the core
 * under the lock and then call service_wake.
 */
#pragma once

#include <pthread.h>

#include "agent/core.h"
#include "agent/folder.h"
#include "agent/sandbox_check.h"
#include "agent/listener.h"
#include "agent/log.h"
#include "agent/server.h"

enum {
	SERVICE_POLL_MAX = SERVER_POLL_MAX + FOLDER_WATCH_POLL_MAX + 1,
	SERVICE_CHECKS = 3,	   /* of a young process, after these times: */
	SERVICE_CHECK_1_MS = 100,  /* long-lived enough to be worth a socket */
	SERVICE_CHECK_2_MS = 1000, /* privileges dropped, sandbox entered? */
	SERVICE_CHECK_3_MS = 5000,
	SERVICE_CHECK_LATER_MS = 30000, /* and from then on, in a process with a seccomp filter */
	SERVICE_CHECK_LAST_MS = 1000,	/* while the main thread has ended and others go on */
	/* An attached agent does not learn of the main thread's end. */
	SERVICE_CHECK_ATTACHED_MS = 5000,
	SERVICE_IDLE_MS = 10000, /* on demand: an unused thread ends after this time */
	/* The socket's name is gone: tries to make it again, at growing intervals. */
	SERVICE_LISTEN_AGAIN_MS = 1000,
	SERVICE_LISTEN_AGAIN_MAX_MS = 10000,
};

struct service_options {
	struct allocator *allocator;
	const struct memory *memory;
	const struct settings *settings;
	const struct log *log;
	const char *name;
	struct core_activation *activation;
	pthread_mutex_t *lock; /* guards the core */
	bool with_socket;
	bool is_child;	     /* after fork: waits a little before anything can be seen */
	bool ends_when_idle; /* ends when unused */
	bool is_preloaded;   /* not started by a call of the program */
	bool own_thread;     /* may compare its rights with the main thread's */
	int wake_signal; /* what wakes it when it shares no descriptors: blocked; 0: a socket pair
			  */
};

struct service {
	struct core core;
	struct agent_listener listener;
	struct agent_server server;
	struct descriptor wake[2]; /* a socket pair: polled, written to; or a signalfd: polled */
	int wake_signal;
	const struct log *log;
	pthread_mutex_t *lock;
	struct sandbox_check sandbox;
	struct folder_watch watch;
	int64_t listen_again_ms;   /* when to try again; 0: the name is there, or was never made */
	int64_t listen_pause_ms;   /* and how long to wait after that */
	struct error listen_error; /* why there was no socket; written under `lock` */
	struct settings settings;
	bool with_socket;
	bool ends_when_idle;
	bool own_thread;
	bool has_folder;
	bool is_child;
	pid_t parent;	    /* at the beginning */
	bool has_own_files; /* the thread has its own table of descriptors */
	bool must_end;
	bool is_last; /* must leave because the process has no other thread any more */
	struct sandbox_check_main_thread main_thread; /* at the last check */
	bool in_allocator; /* the thread has called it and is not sampled */
	int64_t begun_ms;
	int64_t used_ms;      /* the last request */
	unsigned checks_done; /* of a young process */
	int64_t checked_ms;
	int64_t maintain_ms; /* when to call allocator_maintain(); -1: after the next request */
};

void service_init(struct service *service, const struct service_options *options);

/* Ends a run that is on. No other thread may use the core. */
void service_end_run(struct service *service);

/*
 * Ends a run that is on, closes everything and removes the socket. Kept runs stay in their folder.
 */
void service_deinit(struct service *service);

/* Opens what wakes it, in its thread. Without descriptors nothing can wake it. */
void service_open_wake(struct service *service);

/* Chooses the folder and listens now, instead of at the first step. */
MUST_CHECK bool service_listen(struct service *service, struct error *err);

/* The same for a program that works without: a failure is logged. */
void service_listen_or_log(struct service *service);

/* Fills `fds`, room for SERVICE_POLL_MAX. */
size_t service_poll_list(const struct service *service, struct pollfd *fds);

/*
 * Fills `fds` and polls them, as poll(). Where that refuses more than RLIMIT_NOFILE, the watch of
 * the socket's name is closed. On failure all *count of `fds` are without events.
 */
int service_poll(struct service *service, struct pollfd *fds, size_t *count, int timeout_ms);

/* For poll; -1: no limit. */
int service_timeout_ms(const struct service *service);

/* The same under the lock. */
int service_timeout_locked_ms(const struct service *service);

/* False when the agent should end: the sandbox rule, or idle in on-demand mode. */
MUST_CHECK bool service_step(struct service *service, const struct pollfd *fds, size_t count);

/* Makes poll return, where there is a pair. Any thread, under the lock. */
void service_wake(const struct service *service);
