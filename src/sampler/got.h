/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces functions in the tables through which the modules of this process call each other (the
 * global offset tables), and puts them back.
 *
 * Every module has a slot for each function that it calls in another module. A slot is replaced by
 * one aligned store; threads that are in the old function come back as ever. Slots in pages that
 * the loader has made read-only are made writable for the store. A slot that leads to another
 * function than the original (another allocator's, another tool's) stays. One that the loader has
 * not resolved yet is replaced where it can only lead to the original: a module opened with
 * RTLD_DEEPBIND may prefer another one.
 *
 * Calls that do not go through a slot are not seen: within the module that defines the function,
 * through pointers that were taken before, in static programs. The C library's own calls of malloc
 * do go through its table.
 *
 * A program that is linked with libheapctl.a is the module of this code: it shares its slots. Those
 * of functions that this code calls itself stay.
 *
 * One thread at a time, never within malloc. It takes the loader's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct entry {
	const char *name;
	void *replacement;
	void **original; /* where the replacement finds it; NULL in there: the process has none */
	bool releases;	 /* blocks may leave here: replaced first, put back last */
	bool is_called_here; /* by this code itself */
};

struct got_figures {
	size_t modules; /* with a slot that is replaced */
	size_t slots;
	size_t foreign;	   /* slots that lead elsewhere, and were left */
	size_t unresolved; /* slots that may yet lead elsewhere, and were left for now */
	size_t protected;  /* slots that could not be written */
	size_t taken;	   /* slots that were replaced, and that another tool has changed since */
};

/* Before main: the modules that are loaded now were not opened by dlopen(). */
void got_note_start(void);

/*
 * Whether no module was opened by dlopen() so far; true only on the thread of got_note_start(),
 * where no other one can be doing that.
 */
bool got_is_at_start(void);

/* Whether no module that was opened later prefers its own names (RTLD_DEEPBIND). False at first. */
void got_trust_opened_modules(bool is_trusted);

/*
 * Replaces `entries` in all modules but the loader, and those of the originals (unless it is the C
 * library). Again after modules were loaded: what is replaced already stays. `figures`
 * counts all that is replaced now. False when a module is being loaded just now, or a slot was left
 * for now: to be called again later.
 */
bool got_replace(const struct entry *entries, size_t count, struct got_figures *figures);

/* Puts the originals back wherever the replacement still is; `figures` counts what was put back. */
void got_restore(const struct entry *entries, size_t count, struct got_figures *figures);

/*
 * How many slots that were replaced lead elsewhere by now: neither to the replacement nor to the
 * original. got_restore() leaves them.
 */
size_t got_count_taken(const struct entry *entries, size_t count);

/* After got_restore(), so that got_count_taken() counts what is replaced from then on. */
void got_forget_replaced(void);

/* Whether the word at an address, which is aligned, can be written; does not change it. */
bool got_is_writable(const void *word);

/* Counts the modules loaded, and unloaded, since the process began: to see whether it changes. */
unsigned long long got_count_changes(void);
