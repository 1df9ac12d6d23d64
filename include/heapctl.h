/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl inside a program: the agent that lets an operator profile the heap of this process.
 *
 *	struct heapctl_error err;
 *	if (heapctl_start(NULL, &err) != 0)
 *		fprintf(stderr, "no heap profiling: %s\n", err.message);
 *
 * Then `heapctl status PID`, `heapctl record PID` and the others work on this process. Link with
 * `pkg-config --libs heapctl`. A jemalloc that was started with profiling enabled
 * (MALLOC_CONF=prof:true,prof_active:false) takes the samples; with any other malloc the agent
 * does.
 *
 * Threads: every function may be called by any thread at any time, but not from a signal handler,
 * from inside the allocator, or from the agent's own log callback. Calls wait for each other; a
 * dump can take seconds. Of the program's signals only SIGRTMAX-3 is touched, if it has no handler:
 * it wakes the agent of a forked child.
 *
 * Fork: a child gets an agent of its own, with neither the parent's runs nor its clients, unless
 * HEAPCTL_NOT_IN_CHILDREN is set. Its thread begins when a client or a call needs it
 * (HEAPCTL_CHILDREN=thread in the environment: at once). Children made by clone(2) directly have
 * none.
 *
 * Results: 0, or a negative enum heapctl_code, and then the error is filled. Every `err` may be
 * NULL; another pointer may be NULL only where its comment allows it, else that is HEAPCTL_USAGE.
 * Nothing here ends the process, and only heapctl_start takes memory from malloc.
 *
 * Structures begin with their size, which the caller sets. The library reads and writes no more
 * than that, so programs that were compiled against an older header keep working. New fields are
 * added at the end. 0 is the default of every field, and the value that an older library leaves in
 * fields that it does not know. The exception is struct heapctl_error, which has no size and never
 * changes.
 */
#ifndef HEAPCTL_H
#define HEAPCTL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPCTL_API __attribute__((visibility("default")))

/*
 * Incremented when something here changes its meaning, not when something is added. heapctl_abi()
 * is the library's. heapctl(3) explains versions.
 */
#define HEAPCTL_ABI 1

enum heapctl_code {
	HEAPCTL_OK = 0,
	HEAPCTL_SYSTEM = -1,	  /* a system call failed: errnum says why */
	HEAPCTL_MEMORY = -2,	  /* no memory */
	HEAPCTL_USAGE = -3,	  /* a wrong argument */
	HEAPCTL_NOT_FOUND = -4,	  /* no such run, file, name */
	HEAPCTL_STATE = -5,	  /* not now: not started, a run is on, sampling is on */
	HEAPCTL_UNSUPPORTED = -6, /* never in this process: no profiles, or no jemalloc */
	HEAPCTL_DENIED = -7	  /* not allowed */
};

struct heapctl_error {
	int code;   /* enum heapctl_code */
	int errnum; /* errno, or jemalloc's own return code; 0 where there is none */
	char message[400];
	char hint[320]; /* what to do about it; may be empty */
};

/* "0.1.0". */
HEAPCTL_API const char *heapctl_version(void);
HEAPCTL_API int heapctl_abi(void);

/* --- Starting and stopping --- */

/* An unknown flag is HEAPCTL_USAGE: so a library that is older than the program reports it. */
enum heapctl_flags {
	/* No socket: only the program uses the agent, through the calls below. */
	HEAPCTL_NO_SOCKET = 1,
	/* No thread: the program waits for heapctl_get_fd() and calls heapctl_process(). */
	HEAPCTL_NO_THREAD = 2,
	/* Children made by fork get no agent. */
	HEAPCTL_NOT_IN_CHILDREN = 4,
	/* The environment (HEAPCTL_DIR, HEAPCTL_KEEP ...) is not read. */
	HEAPCTL_NO_ENVIRONMENT = 8
};

enum heapctl_log_level { HEAPCTL_LOG_ERROR, HEAPCTL_LOG_WARNING, HEAPCTL_LOG_INFO };

struct heapctl_options {
	size_t size;	/* sizeof(struct heapctl_options) */
	unsigned flags; /* enum heapctl_flags */
	unsigned keep;	/* finished runs kept, 1 to 32; 0: HEAPCTL_KEEP, else 16 */
	/* For the socket and kept runs, an absolute path; NULL: HEAPCTL_DIR, else the usual place.
	 */
	const char *folder;
	/*
	 * The program's name in lists: the part after the last '/', at most 63 bytes, so argv[0]
	 * works. Not empty. NULL: the name that it was started by.
	 */
	const char *name;
	uint64_t keep_bytes; /* all kept runs together; 0: HEAPCTL_KEEP_BYTES, else 256 MiB */
	/*
	 * The agent's log, called with one line without a newline. Called from the agent's thread,
	 * or from inside heapctl_start, heapctl_process or heapctl_get_fd. The agent holds no lock
	 * meanwhile, so it may take locks of the program. NULL: no log.
	 */
	void (*log)(void *context, int level, const char *message);
	void *log_context;
};

/*
 * Starts the agent. `options` NULL means all defaults; texts are copied. HEAPCTL_STATE when it is
 * started already, or HEAPCTL_DISABLE=1 is in the environment. The first call takes over an agent
 * that LD_PRELOAD has started: it sets the log callback and ignores the other options. Call it
 * early, before threads that fork; it may take memory from malloc and starts the thread "heapctl".
 *
 * A program that contains libheapctl.a may have libheapctl.so preloaded as well. Then that agent
 * has the socket, and this one serves only the calls below; it writes that to the log.
 */
HEAPCTL_API int heapctl_start(const struct heapctl_options *options, struct heapctl_error *err);

/*
 * 1 when there is an agent in this process that this library runs: started by heapctl_start, or
 * preloaded; else 0.
 */
HEAPCTL_API int heapctl_is_started(void);

/*
 * Ends the agent, joins its thread and removes the socket. Kept runs stay. Then an object that
 * contains libheapctl.a may be unloaded: call this before dlclose(), not in a destructor. One that
 * has sampled stays loaded, because another thread may be in its code.
 */
HEAPCTL_API void heapctl_stop(void);

/*
 * HEAPCTL_NO_THREAD: a descriptor that becomes readable when heapctl_process() has something to
 * do; for poll, epoll, select. -1 when there is none. It stays the agent's; a forked child has
 * another, and so has a program that closed descriptors that it did not open: call this again. If
 * it is watched edge-triggered, one heapctl_process() per event is enough. Only one thread may call
 * both functions.
 */
HEAPCTL_API int heapctl_get_fd(void);

/*
 * Serves clients and ends runs without blocking on them; only a dump that a client requests takes
 * its time. HEAPCTL_STATE when there is no agent that the program has to drive.
 */
HEAPCTL_API int heapctl_process(struct heapctl_error *err);

/* --- Profiling --- */

/* Switches sampling on or off. Off is HEAPCTL_STATE during a run. */
HEAPCTL_API int heapctl_activate(struct heapctl_error *err);
HEAPCTL_API int heapctl_deactivate(struct heapctl_error *err);

/*
 * Writes a profile (jemalloc's heap_v2 text) to a descriptor: a file, a pipe, a socket. Blocks
 * until all is written, and leaves it open.
 */
HEAPCTL_API int heapctl_dump_fd(int fd, struct heapctl_error *err);

/* The same to a file, mode 0600, which appears complete or not at all, replacing an older one. */
HEAPCTL_API int heapctl_dump_path(const char *path, struct heapctl_error *err);

/*
 * Discards all samples. `lg_sample` 12 to 40 sets the sample interval to 2^lg_sample; -1 keeps it.
 */
HEAPCTL_API int heapctl_reset(int lg_sample, struct heapctl_error *err);

/*
 * Passes jemalloc's statistics to `write` piece by piece; it returns 0 to continue, another value
 * to stop early (which is no error). `options` are malloc_stats_print's letters, NULL for JSON
 * without the tables that grow with the number of arenas.
 */
HEAPCTL_API int heapctl_stats(const char *options,
	int (*write)(void *context, const char *data, size_t size), void *context,
	struct heapctl_error *err);

struct heapctl_status {
	size_t size;   /* sizeof(struct heapctl_status), set by the caller */
	int available; /* a profile can be taken; else `reason` and `hint` */
	int active;    /* sampling is on */
	int running;   /* a run is on */
	unsigned lg_sample;
	int64_t run_id;		  /* of that run; 0 */
	int64_t run_remaining_ms; /* until its end; 0 */
	uint64_t allocated;	  /* bytes, by jemalloc's count; 0 where it keeps none */
	uint64_t resident;
	int64_t last_dump_time_ms; /* since 1970; 0: none yet */
	int64_t last_dump_ms;	   /* how long it took */
	uint64_t last_dump_bytes;
	uint64_t last_dump_stacks;
	char allocator[32]; /* "jemalloc", "glibc" ... */
	char version[96];
	char reason[400];
	__extension__ union {
		char hint[320]; /* what to do */
		char cure[320]; /* its name before 0.2, until 0.3 */
	};
	char prof_prefix[512]; /* jemalloc's own, for the names of profiles; may be empty */
	char socket[320];      /* where clients connect; empty when there is none */
};

HEAPCTL_API int heapctl_get_status(struct heapctl_status *status, struct heapctl_error *err);

/*
 * Calls `visit` for each problem of this process' configuration, with a stable code for it
 * ("variable-ignored"), a description, and what to do. Takes milliseconds. `visit` may call the
 * functions here.
 */
HEAPCTL_API int heapctl_warnings(
	void (*visit)(void *context, const char *code, const char *message, const char *hint),
	void *context, struct heapctl_error *err);

/* --- Runs: sampling for a length of time, a profile at the start and one at the end --- */

enum heapctl_run_end {
	HEAPCTL_RUN_END_NONE = 0, /* it is on, or failed at its start */
	HEAPCTL_RUN_END_DEADLINE = 1,
	HEAPCTL_RUN_END_STOP = 2, /* it was stopped earlier */
	HEAPCTL_RUN_END_EXIT = 3  /* the process ended first */
};

enum heapctl_run_state {
	HEAPCTL_RUN_RUNNING = 1,
	HEAPCTL_RUN_FINISHED = 2,
	HEAPCTL_RUN_FAILED = 3
};

struct heapctl_run {
	size_t size;	     /* sizeof(struct heapctl_run), set by the caller */
	int state;	     /* enum heapctl_run_state */
	int already_running; /* heapctl_run_start found this one on */
	int64_t id;	     /* increases from run to run, also over restarts of the program */
	int64_t started_ms;  /* since 1970 */
	int64_t ended_ms;    /* since 1970; 0 while it is on */
	int64_t duration_ms;
	int64_t remaining_ms;
	uint64_t start_bytes;
	uint64_t profile_bytes;
	unsigned lg_sample;
	unsigned sampling_gaps;
	unsigned resets;
	unsigned reserved;
	char error[200]; /* why it failed; empty */
	int pid; /* of the process that it ran in: this one, or an earlier one of the program */
	int ended_by; /* enum heapctl_run_end */
};

/*
 * Parses the length of a run: "30s", "5mins", "1.5hrs", "600" (seconds); 1 s to 24 h. Works without
 * an agent.
 */
HEAPCTL_API int heapctl_parse_duration(
	const char *text, int64_t *duration_ms, struct heapctl_error *err);

/*
 * Starts a run of 1 s to 24 h (`duration_ms` 0: 5 min), which ends after that time; or finds the
 * one that is on. HEAPCTL_STATE when sampling is on without a run. `run` may be NULL.
 */
HEAPCTL_API int heapctl_run_start(
	int64_t duration_ms, struct heapctl_run *run, struct heapctl_error *err);

/* Ends the run now. HEAPCTL_STATE when none is on. `run` may be NULL. */
HEAPCTL_API int heapctl_run_stop(struct heapctl_run *run, struct heapctl_error *err);

/* A run that is on or kept; `id` 0: the newest. HEAPCTL_NOT_FOUND when there is none. */
HEAPCTL_API int heapctl_run_get(int64_t id, struct heapctl_run *run, struct heapctl_error *err);

/* Writes a run's profile to a descriptor: that of its end, or with `start` that of its start. */
HEAPCTL_API int heapctl_run_dump_fd(int64_t id, int start, int fd, struct heapctl_error *err);

/* --- The agent's requests inside a program that has an HTTP server of its own --- */

struct heapctl_request {
	size_t size;	    /* sizeof(struct heapctl_request) */
	const char *method; /* "GET", "HEAD", "POST" */
	const char *target; /* "/v1/profile", "/v1/runs?duration_ms=30000": docs/protocol.md */
	const char *form;   /* body of a form, "a=1&b=2"; NULL: none */
};

struct heapctl_response {
	size_t size; /* sizeof(struct heapctl_response), set by the caller */
	int status;  /* 200, 404 ... */
	int fd;	     /* when it is not -1 the body is this file, to be read from offset 0 */
	uint64_t body_size;
	const char *body; /* NULL when `fd` is open */
	const char *content_type;
	int64_t dump_ms; /* how long a profile took; -1: it is none */
	void *owner;
};

/*
 * Answers a request as the socket would; the program decides which requests it passes on. Errors of
 * the request are answers, too: the result is negative only when there is no agent, the arguments
 * are wrong, or a text has 2 KiB or more. Release every response.
 */
HEAPCTL_API int heapctl_handle(const struct heapctl_request *request,
	struct heapctl_response *response, struct heapctl_error *err);

/*
 * Frees what the response holds, and closes its `fd`. Does nothing with NULL, with a response that
 * was released already, and with one that is all zeros; do not release a copy of a response as
 * well. A response belongs to the process that made the request: a child after fork inherits
 * neither its body nor its descriptor, and must not use or release it.
 */
HEAPCTL_API void heapctl_response_release(struct heapctl_response *response);

#ifdef __cplusplus
}
#endif

#endif
