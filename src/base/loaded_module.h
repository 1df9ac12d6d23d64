/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a module that the loader lists can be read.
 *
 * A file that is cut while it is mapped takes the pages behind its new end with it, also those that
 * were written to since: whoever reads one there gets SIGBUS. The program lives on as long as it
 * does not, and the agent must not be the one who does.
 *
 * Resident code; any thread, also under the loader's lock. Nothing is locked or allocated. What is
 * cut a moment later is not noticed.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The loader's dlpi_addr; 0 in a static program. */
uintptr_t loaded_module_loader(void);

/* Whether the table that dlpi_phdr leads to is there. */
bool loaded_module_has_headers(const struct dl_phdr_info *info);

/* Whether the file is as long as the loader mapped it. */
bool loaded_module_is_whole(const struct dl_phdr_info *info);

/*
 * Keeps the module that contains this code in the process, because other threads may still be in it
 * when the program unloads it. In vain where the program is just doing that. Takes the loader's
 * lock, which the program may hold while it waits for the agent's thread: not there.
 */
void loaded_module_keep_own(void);

/*
 * Whether all are, of this process: the loader itself reads any of them when it is asked for a
 * symbol. If not, `path` gets the file's, cut off at `size` bytes with the NUL; "" for the program.
 * Takes the loader's lock.
 */
bool loaded_modules_are_whole(char *path, size_t size);
