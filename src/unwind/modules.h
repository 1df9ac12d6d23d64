/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of all modules of this process, for walks on any thread.
 *
 * One thread updates; it builds the tables of what was loaded since, publishes a new list and
 * releases the old one when no walk reads it any more. A walk enters, finds rules and leaves: no
 * lock, no system call, no memory, so it may run within malloc, in a signal handler and in a child
 * after fork. What is loaded after an update is found more slowly until the next one; what was
 * unloaded may have wrong rules, which a walk has to survive.
 */
#pragma once

#include <stdatomic.h>

#include "unwind/table.h"

enum {
	UNWIND_NAME_MAX = 64,
	/*
	 * A segment of this type is .eh_frame, in a list of modules that is not the loader's
	 * (agent/image_libc.c): linkers give static programs no PT_GNU_EH_FRAME.
	 */
	UNWIND_PT_FRAMES = 0x68656166,
};

struct unwind_module {
	uint64_t begin, end; /* addresses of its code */
	uint64_t base;	     /* the rows count from here */
	const struct unwind_row *rows;
	size_t count;
	uint64_t code_bytes, covered_bytes; /* as in struct unwind_table */
	char name[UNWIND_NAME_MAX];	    /* the file's, without folders; "" for the program */
	/* To see whether another module has taken its place. */
	uint64_t header, fingerprint;
};

struct unwind_list {
	size_t count;
	size_t capacity;
	uint16_t generation;		/* of the list; rules found in another one are stale */
	struct unwind_module modules[]; /* sorted by begin */
};

struct unwind_modules {
	_Atomic(struct unwind_list *) list; /* NULL before the first update */
	_Atomic unsigned epoch;
	_Atomic uint64_t readers[2];   /* walks that entered in an even and an odd epoch */
	unsigned long long adds, subs; /* the loader's counters at the last update */
	uint16_t generation;
};

/*
 * Builds what is new and publishes; `changed` says whether there was anything. Call it from one
 * thread at a time, never from within the allocator: it takes the loader's lock briefly, maps
 * memory, and waits for current walks. ERROR_MEMORY leaves the old list.
 */
MUST_CHECK bool unwind_modules_update(
	struct unwind_modules *modules, bool *changed, struct error *err);

/* Releases all, after the current walks have ended. */
void unwind_modules_deinit(struct unwind_modules *modules);

/* In a child, where the other threads' walks are gone. */
void unwind_modules_after_fork(struct unwind_modules *modules);

/* What a walk reads between the two; the list may be NULL. */
static inline const struct unwind_list *unwind_modules_enter(
	struct unwind_modules *modules, unsigned *epoch)
{
	*epoch = atomic_load(&modules->epoch) & 1;
	atomic_fetch_add(&modules->readers[*epoch], 1);
	return atomic_load(&modules->list);
}

static inline void unwind_modules_leave(struct unwind_modules *modules, unsigned epoch)
{
	atomic_fetch_sub(&modules->readers[epoch], 1);
}

/* NULL when the address is in no module. */
const struct unwind_module *unwind_list_find(const struct unwind_list *list, uint64_t pc);

/*
 * The rule for an address in a module that was loaded after the last update, where the C library
 * knows it without a lock (glibc 2.35). Async-signal-safe.
 */
struct unwind_rule unwind_find_unlisted(uint64_t pc);
