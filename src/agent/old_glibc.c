/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets libheapctl.so, built with a new glibc, load with one as old as 2.31: glibc 2.33 and 2.34
 * gave some functions new versions without changing what they do. Each is defined here for this
 * library alone, by its system call or by its old version.
 *
 * Old glibcs keep threads and dynamic loading in libraries of their own, which a process may not
 * have: those references are weak, and where nothing is behind them there is no agent, but the
 * program runs. x86-64 only; elsewhere the library needs the glibc that it was built with.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Declares NAME's old version as old_NAME. */
#define OLD_VERSION(name, version)                                  \
	__asm__(".symver old_" #name ", " #name "@GLIBC_" version); \
	extern __typeof__(name) old_##name __attribute__((weak))

OLD_VERSION(pthread_create, "2.2.5");
OLD_VERSION(pthread_join, "2.2.5");
OLD_VERSION(pthread_kill, "2.2.5");
OLD_VERSION(pthread_key_create, "2.2.5");
OLD_VERSION(pthread_key_delete, "2.2.5");
OLD_VERSION(pthread_setspecific, "2.2.5");
OLD_VERSION(pthread_mutex_trylock, "2.2.5");
OLD_VERSION(pthread_attr_setstacksize, "2.2.5");
OLD_VERSION(pthread_sigmask, "2.2.5");
OLD_VERSION(pthread_condattr_setclock, "2.3.3");
OLD_VERSION(dlsym, "2.2.5");
OLD_VERSION(dladdr, "2.2.5");
OLD_VERSION(dlopen, "2.2.5");

/* What these glibcs open libraries with themselves, in processes without libdl too. */
extern void *libc_dlopen(const char *path, int mode) __asm__("__libc_dlopen_mode")
	__attribute__((weak));
extern void *libc_dlsym(void *handle, const char *name) __asm__("__libc_dlsym")
	__attribute__((weak));

/* What the headers make of stat() and its like with 64-bit offsets. */
HIDDEN int own_stat(const char *path, struct stat *status) __asm__("stat64");
HIDDEN int own_fstat(int fd, struct stat *status) __asm__("fstat64");
HIDDEN int own_fstatat(int folder_fd, const char *path, struct stat *status, int flags) __asm__(
	"fstatat64");

int own_stat(const char *path, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int own_fstat(int fd, struct stat *status)
{
	return (int)syscall(SYS_fstat, fd, status);
}

int own_fstatat(int folder_fd, const char *path, struct stat *status, int flags)
{
	return (int)syscall(SYS_newfstatat, folder_fd, path, status, flags);
}

HIDDEN int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*function)(void *), void *argument)
{
	return old_pthread_create == NULL
		       ? ENOSYS
		       : old_pthread_create(thread, attributes, function, argument);
}

HIDDEN int pthread_join(pthread_t thread, void **result)
{
	return old_pthread_join == NULL ? ENOSYS : old_pthread_join(thread, result);
}

HIDDEN int pthread_kill(pthread_t thread, int number)
{
	return old_pthread_kill == NULL ? ENOSYS : old_pthread_kill(thread, number);
}

HIDDEN int pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
	return old_pthread_key_create == NULL ? ENOSYS : old_pthread_key_create(key, destroy);
}

HIDDEN int pthread_key_delete(pthread_key_t key)
{
	return old_pthread_key_delete == NULL ? ENOSYS : old_pthread_key_delete(key);
}

HIDDEN int pthread_setspecific(pthread_key_t key, const void *value)
{
	return old_pthread_setspecific == NULL ? ENOSYS : old_pthread_setspecific(key, value);
}

HIDDEN int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	return old_pthread_mutex_trylock == NULL ? EBUSY : old_pthread_mutex_trylock(mutex);
}

HIDDEN int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t size)
{
	return old_pthread_attr_setstacksize == NULL
		       ? ENOSYS
		       : old_pthread_attr_setstacksize(attributes, size);
}

HIDDEN int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
	return old_pthread_sigmask == NULL ? ENOSYS : old_pthread_sigmask(how, set, before);
}

HIDDEN int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
{
	return old_pthread_condattr_setclock == NULL
		       ? ENOSYS
		       : old_pthread_condattr_setclock(attributes, clock);
}

/* __libc_dlsym knows the handles of libraries alone. */
HIDDEN void *dlsym(void *handle, const char *name)
{
	if (old_dlsym != NULL)
		return old_dlsym(handle, name);
	if (libc_dlsym == NULL || handle == RTLD_DEFAULT || handle == RTLD_NEXT)
		return NULL;
	return libc_dlsym(handle, name);
}

/* Where there is no libdl it is loaded first, so that the library that is opened finds it. */
HIDDEN void *dlopen(const char *path, int mode)
{
	const unsigned by_program = 0x80000000; /* __RTLD_DLOPEN */

	if (old_dlopen != NULL)
		return old_dlopen(path, mode);
	if (libc_dlopen == NULL ||
		libc_dlopen("libdl.so.2", (int)(by_program | RTLD_NOW | RTLD_GLOBAL)) == NULL)
		return NULL;
	return libc_dlopen(path, (int)(by_program | (unsigned)mode));
}

HIDDEN int dladdr(const void *address, Dl_info *info)
{
	return old_dladdr == NULL ? 0 : old_dladdr(address, info);
}
