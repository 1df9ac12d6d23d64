/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded: counts the calls by which the program changes files, and kills it at one.
 *
 *	DYING_AT=N	the program dies at its N-th such call
 *	DYING_PART=P	of a write P of 4 quarters are done, of any other call nothing when P is 0;
 *			P above 4: a write lacks its last byte
 *	DYING_FULL=1	the process lives: the first write finds the disk full, as if another
 *			one had filled it
 *	DYING_COUNT=F	the number of calls is written into F at the end
 */
/* Else pwrite and pwrite64 were one name here. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls;
static long last_call;
static int part;
static bool is_full;

__attribute__((constructor)) static void begin(void)
{
	const char *const at = getenv("DYING_AT"), *const of = getenv("DYING_PART");

	last_call = at == NULL ? 0 : atol(at);
	part = of == NULL ? 0 : atoi(of);
	is_full = getenv("DYING_FULL") != NULL;
}

__attribute__((destructor)) static void end(void)
{
	const char *const path = getenv("DYING_COUNT");
	FILE *const file = path == NULL ? NULL : fopen(path, "w");

	if (file == NULL)
		return;
	fprintf(file, "%ld\n", calls);
	fclose(file);
}

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Whether this is the call to die at. */
static bool is_last(void)
{
	return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == last_call;
}

static _Noreturn void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

static size_t done_of(size_t size)
{
	return part > 4 ? size - (size > 0) : size * (size_t)part / 4;
}

#pragma GCC visibility push(default)

ssize_t write(int fd, const void *data, size_t size)
{
	if (__atomic_exchange_n(&is_full, false, __ATOMIC_RELAXED)) {
		errno = ENOSPC;
		return -1;
	}
	if (is_last()) {
		syscall(SYS_write, fd, data, done_of(size));
		die();
	}
	return syscall(SYS_write, fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
	if (is_last()) {
		syscall(SYS_pwrite64, fd, data, done_of(size), offset);
		die();
	}
	return syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return pwrite64(fd, data, size, offset);
}

/* Other calls are done as a whole, or not at all. */
#define WHOLE(name, arguments, values)                                                        \
	int name arguments                                                                    \
	{                                                                                     \
		int(*const next) arguments = (int(*) arguments)(__UINTPTR_TYPE__)real(#name); \
		const bool last = is_last();                                                  \
		if (last && part == 0)                                                        \
			die();                                                                \
		const int result = next values;                                               \
		if (last)                                                                     \
			die();                                                                \
		return result;                                                                \
	}

WHOLE(fsync, (int fd), (fd))
WHOLE(fdatasync, (int fd), (fd))
WHOLE(ftruncate, (int fd, off_t size), (fd, size))
WHOLE(ftruncate64, (int fd, off64_t size), (fd, size))
WHOLE(rename, (const char *from, const char *to), (from, to))
WHOLE(unlink, (const char *path), (path))
WHOLE(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
