/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc shows of a process that may be a target: its identity, what it has loaded, the
 * environment it began with. Never connects to an agent. Much of it is hidden from other users;
 * this is reported, never guessed.
 *
 * The *inner pid* is the number of the process in its own pid namespace.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

struct process {
	pid_t pid;
	pid_t inner_pid;
	pid_t parent;
	uid_t uid, effective_uid, file_uid; /* the last: setfsuid(2) */
	char comm[16];			    /* what the main thread calls itself */
	/*
	 * comm, whole where it was cut, or exe's where comm is not the program's; printable UTF-8.
	 */
	char name[64];
	char exe[1024];	  /* path inside its own root; "" when it is hidden or a kernel thread */
	bool exe_deleted; /* replaced or removed since it was started */
	bool other_root;  /* its root folder is not ours: container or chroot */
	bool has_seccomp;
	unsigned long threads;
	uint64_t resident_bytes;
};

/* ERROR_NOT_FOUND when there is no such process, or it is a zombie or a thread of another. */
MUST_CHECK bool process_read(pid_t pid, struct process *process, struct error *err);

/* It has neither a program nor memory of its own. */
bool process_is_kernel_thread(const struct process *process);

/*
 * The number under which /proc describes the memory and files of a process: its pid, or another
 * thread's, where the main thread has ended (pthread_exit) and the process continues without it.
 */
pid_t process_living_thread(pid_t pid);

/* The text behind "Name:" in the contents of /proc/PID/status; "" when it is not there. */
const char *process_status_field(const char *status, const char *name);

/* Whether `set`, one of the hexadecimal sets of signals there ("SigCgt", "SigBlk"), has the signal.
 */
bool process_status_has_signal(const char *status, const char *set, int signal_number);

/* The number after a label of status or limits; ULONG_MAX where there is none, or "unlimited". */
unsigned long process_number_after(const char *text, const char *label);

/* A soft limit, by its name in /proc/PID/limits; ULONG_MAX where there is none, or it is hidden. */
unsigned long process_read_limit(pid_t pid, const char *name);

/*
 * The pid that `text` is; 0 where it is the name of something. ERROR_USAGE where it is empty or a
 * number that no process can have.
 */
MUST_CHECK bool process_parse_pid(const char *text, pid_t *pid, struct error *err);

/*
 * Reports that no process of the user (USER_ANY: of any) has the name; `hint` says what lists those
 * that there are. Returns false.
 */
bool process_refuse_name(const char *name, uid_t owner, const char *hint, struct error *err);

/*
 * The process that `text` names, with or without an agent: a pid, a name that one process has, or
 * NAME@USER. ERROR_NOT_FOUND, ERROR_USAGE.
 */
MUST_CHECK bool process_find(const char *text, struct process *process, struct error *err);

/* How long ago it was started or forked; INT64_MAX when that cannot be read. */
int64_t process_age_ms(pid_t pid);

/* Whether this names the process: comm, the last part of exe, or of argv[0]. */
bool process_is_called(const struct process *process, const char *name);

/* What heapctl run preloads; it loads the agent into the programs that shall have one. */
#define PROCESS_PRELOADER "libheapctl-preload.so"

/* The libraries that matter here, as the process has them mapped. Paths as in its own root. */
struct process_modules {
	bool has_mappings;   /* not a thread of the kernel, nor a program that is just ending */
	char agent[1024];    /* libheapctl.so, memory_profile.so or PROCESS_PRELOADER; "" */
	char jemalloc[1024]; /* libjemalloc.so.2 and the like */
	char other_allocator[1024]; /* libtcmalloc, libmimalloc, ... */
	char sanitizer[1024];
	bool has_valgrind;    /* it runs under valgrind */
	bool has_agent_mark;  /* its agent can start on demand: see docs/protocol.md */
	int filters_at_start; /* of seccomp, from that mark */
	bool has_libgcc;
	bool has_jit;	  /* writable and executable, or anonymous and executable, memory */
	bool has_deleted; /* some library was replaced since */
	bool has_libc;	  /* dynamically linked, also where it is not loaded yet */
	bool has_musl;	  /* its C library is musl */
	bool is_go;	  /* a Go program, with or without C parts */
};

/* Whether the process is no target of heapctl run, or the agent could not be loaded. */
bool process_has_preloader_alone(const struct process_modules *modules);

/* What brings the agent into a program that has none. */
const char *process_agent_hint(const struct process_modules *modules);

/* Whether this heapctl was built with the agent for its C library; for a static program that is
 * musl's. */
bool process_has_agent_for(const struct process_modules *modules);

/* ERROR_DENIED when it belongs to another user. */
MUST_CHECK bool process_read_modules(pid_t pid, struct process_modules *modules, struct error *err);

/*
 * The environment that the process began with, as NAME=VALUE texts each with a NUL behind it,
 * appended to `out`.
 */
MUST_CHECK bool process_read_environment(pid_t pid, struct buffer *out, struct error *err);

/*
 * Whether that is still the environment: programs that show a title in ps (Redis, nginx) may have
 * written over it.
 */
bool process_environment_is_intact(const struct buffer *environment);

/* The value of a variable in such an environment; NULL when it is not set. */
const char *process_environment_find(const struct buffer *environment, const char *name);

/* How the kernel started the program. Both are false while it is being executed. */
struct process_start {
	bool is_secure; /* setuid, capabilities: no LD_PRELOAD there */
	bool is_static; /* without a dynamic loader */
};

/* From the process' auxiliary vector, see getauxval(3). */
struct process_start process_start_of_vector(const struct buffer *auxv);

MUST_CHECK bool process_read_start(pid_t pid, struct process_start *start, struct error *err);

/* All pids that /proc shows, ascending. Free with free(). */
MUST_CHECK bool process_list(pid_t **pids, size_t *count, struct error *err);

/*
 * "/proc/PID/root" when the process sees another root than we do, else "": put before a path that
 * the process knows.
 */
const char *process_root(const struct process *process, char root[32]);

/* Whether its root is another one than ours and has no /proc. */
bool process_has_bare_root(const struct process *process);

/*
 * Whether a process can answer at all (process_state.c). The socket of one that is stopped still
 * takes connections, and its agent never reads them: the reason is in /proc, long before a time
 * limit is reached.
 *
 * True unless the process is stopped by a signal, frozen with its control group, or has ended, as
 * far as may be seen. ERROR_TIMEOUT (ERROR_NOT_FOUND of one that has ended) with the reason.
 */
MUST_CHECK bool process_state_check(const struct process *process, struct error *err);

/* Whether the process has ended for certain; false as well when that cannot be seen. */
bool process_has_ended(const struct process *process);

/* The thread of its agent; 0: there is none. */
pid_t process_agent_thread(const struct process *process);
bool process_has_agent_thread(const struct process *process);

/* Whether the thread is there, and an agent's. */
bool process_is_agent_thread(const struct process *process, pid_t thread);

/* Findings that repeat while a process is silent. Starts as { 0 }. */
struct process_watch {
	const struct process *process;
	int traced, asleep; /* times in a row */
	long waits;	    /* of the thread, when it was asleep */
};

/*
 * The same for a process that was silent for a while, checked every PROCESS_WATCH_INTERVAL_MS. Also
 * false if several checks in a row find the agent's thread held by a debugger or in the same
 * uninterruptible wait (D): both states are short in a healthy process.
 */
enum { PROCESS_WATCH_INTERVAL_MS = 200 };
MUST_CHECK bool process_watch_check(struct process_watch *watch, struct error *err);

/* The same for one that was silent already: goes on with the checks as long as that needs. */
MUST_CHECK bool process_explain_silence(struct process_watch *watch, struct error *err);
