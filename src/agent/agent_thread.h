/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of this process as an object, and its thread: how they begin and end. agent/agent.h
 * decides when. One thread at a time calls these functions, under `lifetime` or alone in a child.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "agent/descriptor.h"
#include "agent/log.h"
#include "agent/service.h"

enum agent_mode {
	AGENT_THREAD,	 /* a thread of its own */
	AGENT_EMBEDDED,	 /* no thread: the program polls agent_fd and calls agent_process */
	AGENT_ON_DEMAND, /* a thread only after a client's signal */
};

struct agent_options {
	enum agent_mode mode;
	struct settings settings;
	char name[64]; /* the program's */
	struct log log;
	bool with_socket;
	bool in_children; /* after fork: children get an agent as well */
	bool preloaded;	  /* not started by the program */
	/* Fail when the socket cannot be made, instead of going on without. */
	bool need_socket;
};

/* One agent's life: from start, or from fork, to its end. Not inherited by a child. */
struct agent {
	struct service service;
	struct embedded embedded;
	bool is_child;
	bool had_proc; /* when its thread was made */
	_Atomic bool stopping;
};

/* Lives as long as the process, and is inherited. */
struct agent_state {
	bool prepared; /* allocator and fork handlers are there */
	_Atomic bool started;
	struct allocator allocator;
	struct core_activation activation;
	int64_t started_ms;	      /* since 1970 */
	struct agent_options options; /* written under both locks */
	pthread_mutex_t lifetime;     /* one start or stop at a time; taken before `lock` */
	pthread_mutex_t lock;	      /* guards the core and the fields below */
	pthread_cond_t changed;	      /* of the two flags of the thread */
	struct agent *agent;	      /* NULL: none */
	size_t stack_bytes;	      /* of its thread */
	bool has_thread;
	bool is_joinable; /* `thread` is to be joined; under `lifetime` */
	pthread_t thread;
	bool has_tried_to_listen;
	bool own_files;		    /* the thread may have its own table of descriptors */
	_Atomic bool has_own_files; /* it has */
	bool has_inherited_files;   /* of the parent's agent: to be closed before one begins */
	bool is_child;
	void (*give_back)(void);	 /* what else was changed in the program; NULL */
	enum settings_children children; /* what they get; never the default */
};

extern struct agent_state agent_state;

/* Makes the condition variable. Its timeouts are measured by the clock that cannot be set. */
void agent_thread_init(void);

/* Makes the agent and its thread, where the mode has one. */
MUST_CHECK bool agent_thread_begin(bool is_child, struct error *err);

/* Makes the agent known to other threads; NULL: there is none. */
void agent_thread_publish(struct agent *agent, bool has_thread);

void agent_thread_free(struct agent *agent);

/*
 * Lets a preloaded agent make its socket before the program's main begins, which may drop the
 * rights to do so or enter a chroot. False when it has not tried in that time.
 */
bool agent_thread_wait_for_socket(int wait_ms);

/* Ends the thread and waits for it. */
void agent_thread_end(void);

/* The same for a thread that may have its own table of descriptors. ERROR_STATE when it is busy. */
MUST_CHECK bool agent_thread_end_with_own_files(struct error *err);

/*
 * Leaves the allocator as it was found, for an agent that ends for good. The code stays: other
 * threads may be in a function that replaced one of the allocator's.
 */
void agent_thread_give_back(void);

/* How many there are: 0 or 1. Any thread. */
unsigned agent_thread_count(void);
