/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before each source of the tree that `make coverage` builds: _exit, by which reports and
 * forked children end, does not write gcc's counters. Includes nothing, as some sources define
 * functions of the C library.
 */
#pragma once

void __gcov_dump(void);
__attribute__((noreturn)) void _exit(int status);

__attribute__((noreturn)) static inline void count_and_exit(int status)
{
	__gcov_dump();
	_exit(status);
}

#define _exit count_and_exit
