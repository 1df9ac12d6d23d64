/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the agent's thread would weaken a sandbox: when the main thread has dropped rights for
 * good that the agent's thread still has, an attacker in the program could use that thread. Then
 * the agent drops the same rights, and where it cannot, as with a seccomp filter, it ends.
 *
 * Rights that the main thread can take back (an effective user or capability beside a saved one)
 * count as kept: servers switch them back and forth, and the C library ends a process in which one
 * thread can change its user and another cannot. Landlock and the securebits of another thread
 * are not visible.
 *
 * Needs /proc; without it the check finds nothing. So a thread with descriptors of its own opens
 * the files before the program can change its root.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum sandbox_check_capability_set {
	SANDBOX_CHECK_INHERITABLE,
	SANDBOX_CHECK_PERMITTED,
	SANDBOX_CHECK_EFFECTIVE,
	SANDBOX_CHECK_BOUNDING,
	SANDBOX_CHECK_AMBIENT,
	SANDBOX_CHECK_SETS,
};

/* What proc(5) says of a thread; -1 and false where it is not known. */
struct sandbox_check_state {
	bool has_ended;
	unsigned threads; /* of its process; one that has ended counts while others go on */
	int seccomp;
	int filters; /* seccomp filters, since Linux 5.9 */
	int no_new_privs;
	bool has_capabilities;
	uint64_t capabilities[SANDBOX_CHECK_SETS];
	bool has_ids;
	uint32_t users[3]; /* real, effective, saved */
	uint32_t groups[3];
	uint64_t other_groups; /* a hash of the supplementary ones */
	uint64_t blocked;      /* signals: bit N-1 is signal N */
};

/* Reads a text piece by piece; begin with SANDBOX_CHECK_READER. */
struct sandbox_check_reader {
	struct sandbox_check_state state;
	char line[256]; /* its beginning */
	size_t size;
	uint64_t hash; /* of the whole line */
	unsigned found;
};

#define SANDBOX_CHECK_READER            \
	((struct sandbox_check_reader){ \
		.state = { .seccomp = -1, .filters = -1, .no_new_privs = -1 } })

void sandbox_check_read(struct sandbox_check_reader *reader, const char *text, size_t size);

/* What a thread has to do so that it has no more rights than the main thread. */
enum sandbox_check_action {
	SANDBOX_CHECK_KEEP,
	SANDBOX_CHECK_LOWER, /* it can drop them itself */
	SANDBOX_CHECK_END,
};

enum sandbox_check_action sandbox_check_compare(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own);

/*
 * The files of proc(5) on the main thread and on the agent's; -1 where they are opened each time.
 */
struct sandbox_check {
	int main_thread;
	int main_thread_stat;
	int main_thread_call;
	int own;
};

#define SANDBOX_CHECK_NONE       \
	((struct sandbox_check){ \
		.main_thread = -1, .main_thread_stat = -1, .main_thread_call = -1, .own = -1 })

/* Whether there is something to open. */
bool sandbox_check_can_open(void);

/* Opens them for the calling thread, until sandbox_check_close; false without /proc. */
MUST_CHECK bool sandbox_check_open(struct sandbox_check *check);
void sandbox_check_close(struct sandbox_check *check);

/*
 * Compares this process' main thread with the calling one, which drops the rights that it can and
 * blocks the signals that the main thread waits for. True when it must end.
 */
bool sandbox_check_must_end(const struct sandbox_check *check);

/* The main thread, which may end while others go on. */
struct sandbox_check_main_thread {
	bool has_ended;
	bool is_filtered; /* by seccomp: a filter may kill it alone */
	unsigned others;  /* threads beside it */
	int status;	  /* what it ended with, as for waitpid(); 0 where that is not known */
};

struct sandbox_check_main_thread sandbox_check_read_main_thread(const struct sandbox_check *check);
