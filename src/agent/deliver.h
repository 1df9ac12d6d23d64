/* SPDX-License-Identifier: Apache-2.0 */
/* A profile to where a program wants it. These wait for who reads. */
#pragma once

#include "agent/descriptor.h"

/* The whole file, from its first byte, to `fd`. */
MUST_CHECK bool deliver_to_fd(const struct descriptor *file, int fd, struct error *err);

/*
 * To a path, mode 0600, complete or not at all, replacing an older file. What is there and no
 * regular file (a pipe, a device) is written into.
 */
MUST_CHECK bool deliver_to_path(const struct descriptor *file, const char *path, struct error *err);
