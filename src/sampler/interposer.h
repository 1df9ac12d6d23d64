/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the sampler's entries into the process, keeps them in modules that are loaded later, and
 * takes them out again.
 *
 * While they are in, dlopen() and dlsym() are replaced as well, by jumps: after a dlopen() the next
 * dlsym() of the process, which is how a program reaches what it has loaded, puts the entries into
 * the new modules before it goes on. The agent does the same for all others: interposer_refresh().
 *
 * Any thread, never within malloc; one at a time does the work, and the others go on without it.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "sampler/got.h"

/* Finds the allocator's entries: once, before the others. As entries_find(). */
MUST_CHECK bool interposer_find(struct error *err);

void interposer_install(void);
bool interposer_is_installed(void);

/* Where modules were loaded or unloaded, or wait, since the last time; else does nothing. */
void interposer_refresh(void);

/* Slots that another tool has changed since, and that interposer_remove() leaves. */
size_t interposer_count_taken(void);

/* Takes all out. Other threads may still be in an entry: the library has to stay. */
void interposer_remove(void);

/* Functions that are no allocator's, whose originals the caller has set. Do nothing when busy. */
void interposer_replace_others(const struct entry *entries, size_t count);
void interposer_restore_others(const struct entry *entries, size_t count);

/* If they ever were in: keeps this library in the process. Takes the loader's lock. */
void interposer_pin(void);

/* Of the last time. */
void interposer_figures(struct got_figures *figures);
