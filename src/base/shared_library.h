/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries that few commands need, and that are therefore opened when they are needed. A
 * heapctl that is linked statically opens none: the C library inside it is not the one that they
 * want. Offline side only.
 */
#pragma once

#include "base/error.h"

/*
 * Opens the library for dlsym(). It stays open. The error's hint names Debian's package of it.
 * ERROR_UNSUPPORTED.
 */
MUST_CHECK bool shared_library_open(
	const char *name, const char *package, void **library_ret, struct error *err);
