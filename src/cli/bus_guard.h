/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Big files are mapped rather than read. When another process truncates such a file while it is
 * being read, the kernel answers with SIGBUS; the guard turns that into a message that names the
 * file and the byte, and exit code 1.
 */
#pragma once

/* For the whole process, once, before there are other threads. */
void bus_guard_install(void);
