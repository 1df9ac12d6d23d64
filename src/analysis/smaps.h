/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/PID/smaps says of the resident memory of a process, by what it is of (proc(5)). The
 * kernel does not name the stacks of threads; a mapping right above a guard (no access, up to
 * 64 KiB) is taken for one, unless it was made with MAP_NORESERVE, as jemalloc makes its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct smaps {
	uint64_t resident; /* sum of the following six */
	uint64_t files;	   /* pages of files and the kernel's own */
	uint64_t shmem; /* shared memory: of System V, MAP_SHARED without a file, memfd, /dev/shm */
	uint64_t file_data; /* private copies of files' pages: .data, relocations */
	uint64_t stacks;
	uint64_t program_break; /* [heap] */
	uint64_t anonymous;	/* the rest */
	uint64_t swapped;
	uint64_t huge_pages; /* of all of these: in transparent huge pages */
	/* Of `anonymous`: mappings for which the kernel keeps nothing free (MAP_NORESERVE). */
	uint64_t unreserved_size, unreserved_resident;
	/*
	 * Of these the writable ones that begin at a multiple of 64 MiB, as the heaps of glibc's
	 * arenas do.
	 */
	uint64_t heaps_size, heaps_resident;
	size_t heap_count;
	uint64_t program_break_size;
	size_t mapping_count;
	/*
	 * The address space that contains an allocator's mappings: anonymous ones from 1 MiB up.
	 */
	size_t gib_ranges;     /* of 1 GiB, aligned */
	size_t two_mib_ranges; /* of 2 MiB, aligned */
};

/* False when there is no mapping in it. */
bool smaps_read(const char *text, size_t size, struct smaps *ret);
