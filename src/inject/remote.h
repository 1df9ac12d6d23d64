/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of another process, read out of its memory: where their code is, how its frames are
 * walked, which functions they show. Nothing is stopped, and no file is opened: what is mapped is
 * what runs, also in another container or after an upgrade.
 *
 * The process may be hostile: each read is bounded, and what it says of itself leads to fewer
 * modules or rows, never to a wild read here.
 *
 * Needs the right to trace the process (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "unwind/table.h"

enum remote_role {
	REMOTE_PROGRAM,
	REMOTE_LIBC,	  /* glibc's libc, and libpthread before 2.34; musl's */
	REMOTE_LOADER,	  /* ld.so */
	REMOTE_ALLOCATOR, /* a library that brings a malloc of its own */
	REMOTE_LIBRARY,	  /* any other, and the vDSO */
};

struct remote_module {
	uint64_t begin, end;	     /* addresses of its code */
	uint64_t bias;		     /* what the loader added to the file's addresses */
	uint64_t spare, spare_bytes; /* behind its code, on its last page: mapped and unused */
	enum remote_role role;
	bool has_malloc;      /* it defines malloc */
	bool is_program;      /* the one that the kernel has started */
	bool has_interpreter; /* it is a program for a loader */
	bool stays;	      /* it cannot be unloaded: remote_find_needs */
	bool is_apart; /* the program does not call it: in a namespace of dlmopen() or LD_AUDIT,
			  or of a program that this one emulates */
	struct unwind_table table;
	uint64_t dynamic, dynamic_bytes; /* its dynamic section; 0: none */
	/* The dynamic symbol table; 0: none. */
	uint64_t symbols, strings, strings_bytes;
	uint64_t hash, old_hash; /* tables of DT_GNU_HASH, of DT_HASH; 0: none */
};

struct remote_process {
	pid_t pid;
	pid_t thread; /* by which its memory is read: the main thread may have ended before others
		       */
	/* Its folder in /proc, and its memory: not those of a later process with the same pid. */
	int folder, memory;
	struct remote_module *modules; /* sorted by `begin` */
	size_t count;
	bool has_musl; /* its C library, which has no unwind information */
	bool has_libc;
	bool has_interpreter;	  /* its libraries are loaded by a loader: it is not static */
	uint64_t program_headers; /* where the program's are */
	uint64_t gap, gap_bytes;  /* the largest range where nothing is mapped */
};

/* What a function of a module covers. */
struct remote_function {
	uint64_t begin, end;
};

/* ERROR_DENIED, ERROR_NOT_FOUND. Release with remote_deinit, on failure too. */
MUST_CHECK bool remote_read(struct remote_process *remote, pid_t pid, struct error *err);
void remote_deinit(struct remote_process *remote);

/* The module whose code begins last at the address or before it; NULL: none. */
const struct remote_module *remote_find_begun(
	const struct remote_process *remote, uint64_t address);

/* NULL where no module has code. */
const struct remote_module *remote_find(const struct remote_process *remote, uint64_t address);

/*
 * The functions of this name that the module defines: up to `max`, as there may be one for each
 * version. Returns how many.
 */
size_t remote_functions(const struct remote_process *remote, const struct remote_module *module,
	const char *name, struct remote_function *functions, size_t max);

/* The first function of this name in a module of that role, not apart; 0 when there is none. */
uint64_t remote_function(
	const struct remote_process *remote, enum remote_role role, const char *name);

/*
 * Copies memory of the process: all `size` bytes, or as many as can be read from `address` on. When
 * it executes another program, the memory is that of before, and nothing can be read.
 */
bool remote_copy(const struct remote_process *remote, uint64_t address, void *bytes, size_t size);
size_t remote_copy_some(
	const struct remote_process *remote, uint64_t address, void *bytes, size_t size);

/* Also where it may not write itself. False when not all could be written. */
bool remote_write(
	const struct remote_process *remote, uint64_t address, const void *bytes, size_t size);

/* Whether that memory is no more: the process has ended, or executes another program. */
bool remote_is_gone(const struct remote_process *remote);
