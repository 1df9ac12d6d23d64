/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a socket whose process is gone: killed, or a child that ended with _exit(). Agents
 * remove such names when they open a socket of their own; so does whoever lists them.
 */
#pragma once

#include <stdbool.h>

/*
 * Removes the name when nobody listens there, in a folder that only its owner, who is this user
 * (for root: any user), can enter. False when it is still there.
 */
bool stale_socket_remove(const char *path);
