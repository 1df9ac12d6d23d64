/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a process with another root. A path below /proc/PID/root is not enough: the kernel
 * resolves an absolute symbolic link there from our root, so that the process chooses which of our
 * files is read.
 */
#pragma once

/*
 * Opens `path` as a process does whose root is the folder `root`: links, absolute ones too, and
 * ".." stay below it. The result is close-on-exec; -1 and errno on failure. Only for reading, and
 * for O_PATH.
 */
int rooted_file_open(const char *root, const char *path, int flags);

/* The same without openat2(2), for older kernels and for filters that deny it. */
int rooted_file_walk(const char *root, const char *path, int flags);
