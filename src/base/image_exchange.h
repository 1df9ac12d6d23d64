/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heapctl and the agent for static programs share: one page that heapctl has mapped into the
 * process, at the lowest address of the starting thread's stack (inject/raw_code.h).
 *
 * A new thread, which belongs to no C library, makes the system calls that heapctl requests. Then
 * it enters the agent's image (agent/image_start.c) with the address of this page as the program's
 * first argument, and the agent answers here.
 */
#pragma once

#include <stdint.h>

enum image_state {
	IMAGE_MAPPED,	/* by the borrowed thread */
	IMAGE_READY,	/* the new thread waits for a request; `returned` is of the last call */
	IMAGE_CALL,	/* by heapctl: one system call */
	IMAGE_ENTER,	/* by heapctl: the image begins at `entry`, on `stack` */
	IMAGE_RETURNED, /* the agent has answered */
	IMAGE_READ,	/* by heapctl: the thread may end */
};

/* The assembler code of inject/raw_code.c and agent/image_entry.c knows the offsets. */
struct image_exchange {
	uint32_t state;
	int32_t result;	 /* an error kind */
	uint64_t thread; /* the new thread's number, in its namespace */
	/* Not 0: the borrowed thread uses this memory no more. */
	uint32_t is_left, unused;
	uint64_t call[7]; /* number, arguments */
	int64_t returned;
	uint64_t entry, stack;
	/* The program's own, of whose modules there is no other list. */
	uint64_t program_headers, program_header_count, program_bias;
	/* Its .eh_frame, where the headers lead to no index of it; else 0. */
	uint64_t program_frames, program_frames_bytes;
	char settings[1536];
	char answer[1024];
};

enum {
	IMAGE_EXCHANGE_BYTES = 4096,
	/* The whole mapping: the exchange, the new thread's stack, the borrowed thread's. */
	IMAGE_MEMORY_BYTES = 256 * 1024,
	IMAGE_BORROWED_STACK_BYTES = 4096,
	IMAGE_WAIT_S = 10, /* the longest wait of the new thread for heapctl */
};

_Static_assert(sizeof(struct image_exchange) <= IMAGE_EXCHANGE_BYTES, "one page");
