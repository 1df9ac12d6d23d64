/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent for static programs (agent/image_start.c) does itself of what its C library
 * would: its own definitions of these functions come first at the link.
 *
 * errno, because functions of the library run on the program's threads. The loader's list of
 * modules, which is the program and this image. Threads, which block all signals from their first
 * instruction on: the library's own numbers (32 to 34) are the program's here. No memory of a heap:
 * the library's would move the program break, which is the program's.
 */
#pragma once

struct image_exchange;

/* Where the program's headers are. Before any other use. */
void image_libc_learn_program(const struct image_exchange *exchange);

/* On the thread for which the library itself was started. */
void image_libc_begin_first_thread(void);

/* On a thread without storage of its own: gives it some; image_libc_end_thread() takes it back. */
void image_libc_begin_thread(void);

/* From then on the thread may only call image_leave(). */
void image_libc_end_thread(void);
