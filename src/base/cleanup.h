/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope guards: a local resource is released when its scope ends, on every path.
 *
 *	CLEANUP(fd_cleanup) int fd = open(...);
 *	...
 *	*fd_ret = TAKE_FD(fd);	// ownership moves to the caller
 *
 * A guard function takes a pointer to the variable. It also runs on a `return` before the first
 * use, so the variable is initialised at its declaration (tests/structure checks that) with what
 * the guard can release. Modules write theirs next to x_deinit or x_free; that of
 * a pointer is DEFINE_CLEANUP(x_cleanup, struct x *, x_free).
 */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(function) __attribute__((cleanup(function)))
#define DEFINE_CLEANUP(function, type, release)    \
	static inline void function(type *guarded) \
	{                                          \
		release(*guarded);                 \
	}
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_FORMAT(text_at, values_at) __attribute__((format(printf, text_at, values_at)))

/* Moves a pointer out of its guard: yields the value and leaves NULL behind. */
#define TAKE(pointer)                                   \
	__extension__({                                 \
		__typeof__(pointer) taken_ = (pointer); \
		(pointer) = NULL;                       \
		taken_;                                 \
	})

/* The same for a descriptor, leaving -1. */
#define TAKE_FD(fd)                \
	__extension__({            \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

/* For memory from malloc: `CLEANUP(free_cleanup) char *p`. */
static inline void free_cleanup(void *pointer_to_pointer)
{
	free(*(void **)pointer_to_pointer);
}

static inline void fd_cleanup(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
