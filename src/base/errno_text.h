/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What errno means, in the C library's English words. strerror_r() would look for a translation
 * as soon as the program has chosen a language: that takes memory from its heap, and a lock, which
 * a guest in somebody's server must not. Any thread, signal handlers too.
 */
#pragma once

/* A constant, or NULL for a number that Linux does not use. */
const char *errno_text(int errnum);
