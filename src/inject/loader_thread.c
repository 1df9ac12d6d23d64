/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/loader_thread.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "inject/threads.h"

enum {
	START_MS = 5000,     /* until the new thread runs */
	LOAD_MS = 10000,     /* until the library has started */
	TAKE_BACK_MS = 1000, /* until it is proven that nothing runs there */
	POLL_US = 200,
	PATH_BYTES = 64,
};

_Static_assert(START_MS + LOAD_MS + 2 * BORROW_LEAVE_MS == LOADER_MS, "the contract");

bool loader_request_check(const struct loader_request *request, struct error *err)
{
	const struct trampoline_exchange *const exchange = NULL;

	return ((request->path == NULL || strlen(request->path) < sizeof exchange->path) &&
		       strlen(request->settings) < sizeof exchange->settings) ||
	       error_set(err, ERROR_USAGE,
		       "the path of the agent's library or HEAPCTL_DIR is too long");
}

/* Waits until the state is at least `state`; -1 in time out, or when the memory is not there. */
static int wait_for_state(const struct injection *injection, uint32_t state, int wait_ms)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	uint32_t now = 0;

	while (clock_monotonic_ms() < until_ms) {
		if (remote_copy(&injection->remote, injection->memory, &now, sizeof now) &&
			now >= state)
			return (int)now;
		if (remote_is_gone(&injection->remote))
			return -1;
		clock_sleep_us(POLL_US);
	}
	return -1;
}

/*
 * No thread was started: it has no memory of ours then. A new thread that came late would hold its
 * memory longer than this lasts.
 */
static void take_back(const struct injection *injection, const struct borrowed_thread *borrowed)
{
	const int64_t until_ms = borrowed->at_ms + START_MS + TAKE_BACK_MS;
	char byte;

	if (!remote_copy(&injection->remote, injection->memory, &byte, sizeof byte) &&
		borrow_wait_until_left(injection, borrowed->thread, until_ms) &&
		!remote_copy(&injection->remote, injection->memory, &byte, sizeof byte) &&
		clock_monotonic_ms() < until_ms)
		injection_write_unused_bytes(injection);
}

static bool explain_no_start(const struct injection *injection,
	const struct borrowed_thread *borrowed, struct error *err)
{
	if (remote_is_gone(&injection->remote))
		return injection_explain_end(err);
	char byte;
	/* The borrowed thread has mapped it, and is in pthread_create(). */
	if (remote_copy(&injection->remote, injection->memory, &byte, sizeof byte)) {
		error_set(err, ERROR_STATE,
			"its pthread_create() has not returned for %d s: another thread has a lock "
			"that it needs, or forks (musl)",
			START_MS / 1000);
		return error_hint(err, "try again when that has ended; the attach that has begun "
				       "ends by itself then");
	}
	take_back(injection, borrowed);
	if (sched_getscheduler(borrowed->thread) == SCHED_DEADLINE) {
		error_set(err, ERROR_UNSUPPORTED,
			"thread %d is scheduled by deadlines (SCHED_DEADLINE), and the kernel lets "
			"such a thread start no other",
			(int)borrowed->thread);
		return error_hint(err, "start it with heapctl run, or let it set "
				       "SCHED_FLAG_RESET_ON_FORK");
	}
	error_set(err, ERROR_STATE,
		"it could not start a thread: no memory (RLIMIT_AS), a limit of processes "
		"(RLIMIT_NPROC, pids.max), or its sandbox (seccomp)");
	return error_hint(err, "raise the limit, then try again; nothing was changed");
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

/* Whether the module is this file: all of it that nothing writes to. */
static bool is_image(const struct injection *injection, const struct remote_module *module,
	const struct loader_request *request)
{
	const char *const image = request->image;
	Elf64_Ehdr header;

	if (request->image_size < sizeof header)
		return false;
	memcpy(&header, image, sizeof header);
	if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > request->image_size ||
		header.e_phnum > (request->image_size - header.e_phoff) / sizeof(Elf64_Phdr))
		return false;
	for (size_t i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		memcpy(&segment, image + header.e_phoff + i * sizeof segment, sizeof segment);
		if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0)
			continue;
		if (segment.p_offset > request->image_size ||
			segment.p_filesz > request->image_size - segment.p_offset)
			return false;
		CLEANUP(free_cleanup) char *loaded = xmalloc(segment.p_filesz);
		if (!remote_copy(&injection->remote, module->bias + segment.p_vaddr, loaded,
			    segment.p_filesz) ||
			memcmp(loaded, image + segment.p_offset, segment.p_filesz) != 0)
			return false;
	}
	return true;
}

/* Its function in a copy of the library that is loaded already; 0 when there is none. */
static uint64_t find_loaded(const struct injection *injection, const struct loader_request *request,
	int *other_versions)
{
	*other_versions = 0;
	for (size_t i = 0; i < injection->remote.count; i++) {
		const struct remote_module *const module = &injection->remote.modules[i];
		struct remote_function function;
		if (remote_functions(&injection->remote, module, request->function, &function, 1) ==
			0)
			continue;
		if (is_image(injection, module, request))
			return function.begin;
		++*other_versions;
	}
	return 0;
}

static bool send_state(const struct injection *injection, uint32_t state, struct error *err)
{
	return remote_write(&injection->remote, injection->memory, &state, sizeof state) ||
	       injection_explain_end(err);
}

enum { NOEXEC_SEAL = 8 }; /* MFD_NOEXEC_SEAL, since Linux 6.3; some systems insist on it */

static int file_flags(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	const int fd = memfd_create("heapctl", flags | NOEXEC_SEAL);

	if (fd >= 0)
		close(fd);
	return (int)(fd >= 0 ? flags | NOEXEC_SEAL : flags);
}

/*
 * The file that the thread has made. The process may have put another one into its place, which it
 * could not write to itself.
 */
static int open_file(const struct injection *injection, pid_t own_number, int descriptor)
{
	const pid_t thread = threads_find(injection->remote.pid, own_number);
	char path[PATH_BYTES];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d", (int)injection->remote.pid,
		(int)thread, descriptor);
	CLEANUP(fd_cleanup) const int place = open(path, O_PATH | O_CLOEXEC);
	if (place < 0 || fstat(place, &status) != 0 || !S_ISREG(status.st_mode) ||
		status.st_size != 0 || status.st_nlink != 0)
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", place);
	CLEANUP(fd_cleanup) int file = open(path, O_RDWR | O_CLOEXEC);
	const int seals = file < 0 ? -1 : fcntl(file, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SEAL) == 0 ? TAKE_FD(file) : -1;
}

static bool fill_file(int file, const struct loader_request *request, struct error *err)
{
	CLEANUP(file_unmap) struct file_map written = { 0 };
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	for (size_t at = 0; at < request->image_size;) {
		const ssize_t size =
			write(file, (const char *)request->image + at, request->image_size - at);
		if (size < 0)
			return error_system(err, errno, "giving it the library");
		at += (size_t)size;
	}
	if (fcntl(file, F_ADD_SEALS, seals) != 0)
		return error_system(err, errno, "sealing the library");
	return file_map_fd(file, "the library", &written, err) &&
	       ((written.size == request->image_size &&
			memcmp(written.data, request->image, written.size) == 0) ||
		       error_set(err, ERROR_STATE, "another thread of it changed the library"));
}

/* The thread makes the file, and loads it by the name that it has in /proc. */
static bool send_library(const struct injection *injection, const struct loader_request *request,
	pid_t own_number, int other_versions, struct error *err)
{
	char path[PATH_BYTES] = "/proc/thread-self/fd/-1";
	int32_t descriptor = -1;

	if (wait_for_state(injection, TRAMPOLINE_HAS_FILE, START_MS) < 0 ||
		!remote_copy(&injection->remote,
			injection->memory + offsetof(struct trampoline_exchange, descriptor),
			&descriptor, sizeof descriptor))
		return injection_explain_end(err);
	CLEANUP(fd_cleanup)
	const int file = descriptor < 0 ? -1 : open_file(injection, own_number, (int)descriptor);
	bool done = false;
	if (descriptor < 0) {
		error_set(err, ERROR_STATE, "it could not make a file in memory: %s",
			errno_text(-descriptor));
		if (descriptor == -EMFILE)
			error_hint(err,
				"prlimit --nofile=N --pid %d raises its limit of open files",
				(int)injection->remote.pid);
	} else if (file < 0) {
		error_set(err, ERROR_DENIED, "the file that it has made cannot be opened");
	} else {
		done = fill_file(file, request, err);
	}
	/* The loader takes a name that it knows for the same library. */
	if (done)
		snprintf(path, sizeof path, "/proc/thread-self/fd%.*s%d", 1 + other_versions,
			"////////", (int)descriptor);
	/* A path that cannot be opened lets the thread end. */
	struct error ignored;
	return remote_write(&injection->remote,
		       injection->memory + offsetof(struct trampoline_exchange, path), path,
		       sizeof path) &&
	       send_state(injection, TRAMPOLINE_FILLED, done ? err : &ignored) && done;
}

static bool send_request(const struct injection *injection, const struct loader_request *request,
	pid_t own_number, struct error *err)
{
	int other_versions = 0;
	const uint64_t loaded = find_loaded(injection, request, &other_versions);
	const bool needs_file = loaded == 0 && (request->path == NULL || other_versions > 0);
	struct trampoline_exchange exchange = { .dlopen = injection->dlopen,
		.dlsym = injection->dlsym,
		.dlerror = injection->dlerror,
		.function = loaded,
		.descriptor = needs_file ? file_flags() : -1 };
	const size_t first = offsetof(struct trampoline_exchange, dlopen);
	const char *const path =
		needs_file || request->path == NULL ? "libheapctl.so" : request->path;

	copy_text(exchange.path, sizeof exchange.path, path);
	copy_text(exchange.name, sizeof exchange.name, request->function);
	copy_text(exchange.settings, sizeof exchange.settings, request->settings);
	if (!remote_write(&injection->remote, injection->memory + first, (char *)&exchange + first,
		    sizeof exchange - first))
		return injection_explain_end(err);
	return send_state(injection, TRAMPOLINE_REQUESTED, err) &&
	       (!needs_file || send_library(injection, request, own_number, other_versions, err));
}

static bool read_answer(const struct injection *injection, int state, int *returned, char *answer,
	size_t size, struct error *err)
{
	struct trampoline_exchange exchange;
	char text[300] = "";

	if (remote_is_gone(&injection->remote))
		return injection_explain_end(err);
	if (state < 0) {
		error_set(err, ERROR_TIMEOUT,
			"the library did not start in %d s: another thread may hold the loader's "
			"lock",
			LOAD_MS / 1000);
		return error_hint(err, "it starts when that ends, and heapctl detach %d removes it",
			(int)injection->remote.pid);
	}
	if (!remote_copy(&injection->remote, injection->memory, &exchange, sizeof exchange))
		return injection_explain_end(err);
	if (state == TRAMPOLINE_NOT_LOADED && exchange.result < 0)
		return error_set(err, ERROR_INPUT, "it cannot open the library: %s",
			errno_text(-exchange.result));
	if (state == TRAMPOLINE_NOT_LOADED) {
		const size_t got =
			remote_copy_some(&injection->remote, exchange.error, text, sizeof text - 1);
		text[got] = '\0';
		return error_set(err, ERROR_INPUT, "its loader says: %s", text);
	}
	*returned = exchange.result;
	snprintf(answer, size, "%.*s", (int)sizeof exchange.answer - 1, exchange.answer);
	return true;
}

bool loader_thread_run(const struct injection *injection, const struct borrowed_thread *borrowed,
	const struct loader_request *request, int *returned, char *answer, size_t size,
	struct error *err)
{
	uint64_t thread = 0;

	if (wait_for_state(injection, TRAMPOLINE_STARTED, START_MS) < 0 ||
		!remote_copy(&injection->remote,
			injection->memory + offsetof(struct trampoline_exchange, thread), &thread,
			sizeof thread))
		return explain_no_start(injection, borrowed, err);
	const bool is_sent = send_request(injection, request, (pid_t)thread, err);
	const int state = wait_for_state(injection, TRAMPOLINE_RETURNED, LOAD_MS);
	struct error ignored;
	const bool done =
		read_answer(injection, state, returned, answer, size, is_sent ? err : &ignored) &&
		is_sent;
	borrow_finish(injection, borrowed, (pid_t)thread, TRAMPOLINE_READ);
	return done;
}
