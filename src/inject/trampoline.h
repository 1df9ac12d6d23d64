/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread of the target runs when it is made to start another thread, and what that one runs.
 *
 * The borrowed thread saves its registers, maps memory for a stack, calls
 * pthread_create() there, releases the stack, restores everything and continues where it was, its
 * system call included. It needs no help for that: the process that has put it there may end at any
 * moment.
 *
 * The new thread waits in nanosleep() until the exchange (struct trampoline_exchange) has its
 * request, loads the library, calls one function of it, reports, and ends. Without a request it
 * ends by itself after some seconds.
 *
 * The code is never writable where it runs: it is written into the unused end of a page of code
 * that the process has already, through the kernel. x86-64 only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trampoline_state {
	TRAMPOLINE_MAPPED,    /* by the borrowed thread */
	TRAMPOLINE_STARTED,   /* the new thread waits for its request */
	TRAMPOLINE_REQUESTED, /* by us */
	TRAMPOLINE_HAS_FILE,  /* `descriptor` is of a new file without a name, or an error */
	TRAMPOLINE_FILLED,    /* by us: the file is the library, `path` leads to it */
	TRAMPOLINE_RETURNED,  /* the function has returned `result` */
	/* `error` is the loader's text, or `result` < 0: an errno of opening the library */
	TRAMPOLINE_NOT_LOADED,
	TRAMPOLINE_READ, /* by us: the thread may end */
};

/* One page that the process and we both know. The assembler code knows the offsets. */
struct trampoline_exchange {
	uint32_t state;
	int32_t result;
	uint64_t thread; /* its number */
	uint64_t error;
	/* The request: addresses of functions in the process. */
	uint64_t dlopen, dlsym, dlerror;
	uint64_t function; /* which is loaded already; 0: not yet */
	/* The flags of the file that is to be made by memfd_create(path); -1: none. */
	int32_t descriptor;
	uint32_t unused;
	char path[1024]; /* of the library */
	char name[64];	 /* of its function */
	char settings[1536];
	char answer[1024];
};

/* Memory of the process that is mapped for it: the exchange, then the borrowed thread's stack. */
enum {
	TRAMPOLINE_EXCHANGE_BYTES = 4096,
	TRAMPOLINE_XSTATE_BYTES = 16384,
	TRAMPOLINE_STACK_BYTES = 256 * 1024,
	TRAMPOLINE_MAPPED_BYTES =
		TRAMPOLINE_EXCHANGE_BYTES + TRAMPOLINE_XSTATE_BYTES + TRAMPOLINE_STACK_BYTES,
};

/* What the code has to know. The assembler code knows the order. */
struct trampoline_request {
	uint64_t resume;			 /* where the borrowed thread continues */
	uint64_t memory;			 /* where to map; unused */
	uint64_t pthread_create, pthread_detach; /* addresses of functions in the process */
	/*
	 * Of a system call that `resume` begins anew: signals whose handlers end it with EINTR,
	 * unless the handler's flags (sigaction(2)) have one of these; and where it continues then.
	 */
	uint64_t signals, flags, resume_interrupted;
	uint64_t blocked;	    /* its signal mask when it continues */
	uint64_t blocked_meanwhile; /* and from before its first instruction until then */
};

/*
 * What the borrowed thread blocks meanwhile: all signals but SIGILL, SIGTRAP, SIGBUS, SIGFPE,
 * SIGSEGV, and those that the C library sends to all threads: glibc's 33, and musl's 32 to 34, for
 * which the sender waits with a lock that pthread_create() takes. glibc's 32 cancels a thread: one
 * that waits where it may be cancelled would leave pthread_create() with its locks.
 */
#define TRAMPOLINE_BLOCKED UINT64_C(0xfffffffefffffb27)
#define TRAMPOLINE_BLOCKED_MUSL UINT64_C(0xfffffffc7ffffb27)

enum {
	TRAMPOLINE_CODE_MAX = 960,
	TRAMPOLINE_WAIT_S = 10, /* the longest wait of the new thread for us */
};

/*
 * Whether these bytes, TRAMPOLINE_CODE_MAX of them, are such code already; `memory` is the address
 * that its request has.
 */
bool trampoline_is_in(const char *bytes, uint64_t *memory);

/* Bytes of code, for `code`; 0 on a machine that has none, or cannot save its registers. */
size_t trampoline_make(
	const struct trampoline_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8]);
