/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that were cut or written again in their place while a process has them mapped. Whatever
 * makes the loader of the process read one ends it: by SIGBUS, or by the addresses in it, which are
 * no longer those of the process.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/*
 * ERROR_STATE, which names the file, when one of which code is mapped was damaged; takes half a
 * second then. True as well where that cannot be read.
 */
MUST_CHECK bool mapped_files_check(const struct process *process, struct error *err);
