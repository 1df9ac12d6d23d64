/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modules of another process stay until its end: the program, its C library and its loader,
 * and all that these need (DT_NEEDED). Any other may be unloaded at each moment (dlclose(3)), and
 * another one mapped in its place.
 */
#pragma once

#include "inject/remote.h"

/*
 * Sets `stays` of the modules. Nothing is unloaded by musl, nor where there is no loader. A module
 * that cannot be read, or whose name several have, does not count as one that stays.
 */
void remote_find_needs(struct remote_process *remote);
