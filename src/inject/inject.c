/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "inject/remote.h"
#include "inject/stack_rule.h"
#include "inject/tracee.h"
#include "inject/trampoline.h"

enum {
	STOP_MS = 5000,	     /* until a thread stands still */
	START_MS = 5000,     /* until the new thread runs */
	LOAD_MS = 10000,     /* until the library has started */
	LEAVE_MS = 5000,     /* until the new thread has ended */
	TAKE_BACK_MS = 1000, /* until it is proven that nothing runs there */
	LOOK_AGAIN_US = 300, /* between two stops */
	POLL_US = 200,
	CHILD_EXTRA_MS = START_MS + LOAD_MS + LEAVE_MS,
	THREADS_MAX = 4096,
	PATH_BYTES = 64,
};

/* What an attempt needs to know of the process. */
struct injection {
	const struct inject_request *request;
	struct remote_process remote;
	struct stack_waiting waiting;
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror;
	uint64_t code;			  /* where the trampoline goes */
	uint64_t memory;		  /* what it maps */
	char before[TRAMPOLINE_CODE_MAX]; /* the unused bytes there */
	int process_memory;		  /* of the program that it was at the beginning */
	pid_t borrowed;			  /* the thread that was used */
	int64_t borrowed_ms;
};

static void sleep_us(long us)
{
	const struct timespec pause = { .tv_nsec = us * 1000 };

	nanosleep(&pause, NULL);
}

/* --- What the process offers --- */

static bool find_functions(struct injection *injection, struct error *err)
{
	const struct remote_process *const remote = &injection->remote;

	if (remote->has_musl)
		return error_set(err, ERROR_UNSUPPORTED,
			"it uses musl's C library, and heapctl's agent needs glibc");
	if (!remote->has_libc)
		return error_set(err, ERROR_UNSUPPORTED,
			"it is a static program, into which nothing can be loaded");
	injection->pthread_create = remote_function(remote, REMOTE_LIBC, "pthread_create");
	injection->pthread_detach = remote_function(remote, REMOTE_LIBC, "pthread_detach");
	injection->dlopen = remote_function(remote, REMOTE_LIBC, "dlopen");
	/* Before glibc 2.34 it is in libdl, which few programs load; this one is there for the
	 * library's own use. */
	if (injection->dlopen == 0)
		injection->dlopen = remote_function(remote, REMOTE_LIBRARY, "dlopen");
	injection->dlsym = remote_function(remote, REMOTE_LIBC, "dlsym");
	if (injection->dlsym == 0)
		injection->dlsym = remote_function(remote, REMOTE_LIBRARY, "dlsym");
	injection->dlerror = remote_function(remote, REMOTE_LIBC, "dlerror");
	if (injection->dlerror == 0)
		injection->dlerror = remote_function(remote, REMOTE_LIBRARY, "dlerror");
	if (injection->pthread_create == 0 || injection->pthread_detach == 0 ||
		injection->dlopen == 0 || injection->dlsym == 0 || injection->dlerror == 0)
		return error_set(err, ERROR_UNSUPPORTED,
			"its C library is older than glibc 2.34, and it has not loaded libpthread "
			"and libdl");
	return true;
}

/*
 * A place that an attach has used which was killed is not used again: a thread may still be there.
 */
static bool is_place_free(struct injection *injection, const struct remote_module *module)
{
	char bytes[TRAMPOLINE_CODE_MAX];

	if (module->spare_bytes < sizeof bytes ||
		!remote_copy(injection->remote.pid, module->spare, bytes, sizeof bytes) ||
		trampoline_is_in(bytes))
		return false;
	injection->code = module->spare;
	memcpy(injection->before, bytes, sizeof bytes);
	return true;
}

/* Code of a library, not of the C library itself, where there is a choice. */
static bool find_place(struct injection *injection, struct error *err)
{
	const struct remote_process *const remote = &injection->remote;

	for (size_t i = 0; i < remote->count; i++) {
		const enum remote_role role = remote->modules[i].role;
		if (is_place_free(injection, &remote->modules[i]) && role != REMOTE_LIBC &&
			role != REMOTE_LOADER)
			break;
	}
	if (injection->code == 0)
		return error_set(err, ERROR_UNSUPPORTED, "no page of its code has %d unused bytes",
			TRAMPOLINE_CODE_MAX);
	if (remote->gap_bytes < 4 * TRAMPOLINE_MAPPED_BYTES)
		return error_set(err, ERROR_UNSUPPORTED, "it has no free addresses");
	/* In the middle: what the program maps meanwhile begins at the ends. */
	injection->memory = (remote->gap + remote->gap_bytes / 2) & ~(uint64_t)0xfff;
	return true;
}

static bool read_target(struct injection *injection, pid_t pid, struct error *err)
{
	if (!remote_read(&injection->remote, pid, err) || !find_functions(injection, err) ||
		!find_place(injection, err))
		return false;
	stack_waiting_find(&injection->waiting, &injection->remote);
	return true;
}

/* --- Threads --- */

struct thread_list {
	pid_t threads[THREADS_MAX];
	size_t count;
};

static bool list_threads(struct thread_list *list, pid_t pid, struct error *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *const tasks = opendir(path);
	if (tasks == NULL)
		return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
	list->count = 0;
	for (struct dirent *entry; list->count < THREADS_MAX && (entry = readdir(tasks)) != NULL;) {
		if (isdigit((unsigned char)entry->d_name[0]))
			list->threads[list->count++] = atoi(entry->d_name);
	}
	closedir(tasks);
	return true;
}

/*
 * Where a thread waits, without stopping it: /proc/PID/task/TID/syscall has the number of its
 * system call, six arguments, the stack and the instruction pointer; "running" of one that runs.
 */
static bool read_waiting_thread(pid_t pid, pid_t thread, struct stack_registers *registers)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	struct error ignored;
	char path[PATH_BYTES];
	long number = -1;

	buffer_init(&text, &memory_or_exit);
	snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", (int)pid, (int)thread);
	*registers = (struct stack_registers){ .is_in_call = true };
	return file_read(path, &text, &ignored) &&
	       sscanf(buffer_string(&text), "%ld %*s %*s %*s %*s %*s %*s %" SCNx64 " %" SCNx64,
		       &number, &registers->sp, &registers->pc) == 3 &&
	       number >= 0;
}

/*
 * A look from outside: NULL when the thread could be used. Without its frame pointer, which is not
 * shown, a walk may end early; but a waiting function of the C library needs none.
 */
static const char *look_at(const struct injection *injection, pid_t thread)
{
	struct stack_registers registers;
	struct thread_stack stack;

	if (!read_waiting_thread(injection->remote.pid, thread, &registers))
		return "runs";
	stack_walk(&stack, &injection->remote, &injection->waiting, &registers);
	return stack_refusal(&stack);
}

static void swap_threads(struct thread_list *list, size_t a, size_t b)
{
	const pid_t thread = list->threads[a];

	list->threads[a] = list->threads[b];
	list->threads[b] = thread;
}

/*
 * Those that could be used as they wait come first; not always the same one, as any may be unlucky.
 * The main thread comes after the others: while it is traced, the kernel wakes threads for signals
 * that the program ignores (SIGCHLD), and some waits end with EINTR by that.
 */
static void sort_threads(const struct injection *injection, struct thread_list *list)
{
	size_t good = 0;

	for (size_t i = list->count; i > 1; i--)
		swap_threads(list, i - 1, (size_t)random() % i);
	for (size_t i = 0; i + 1 < list->count; i++) {
		if (list->threads[i] == injection->remote.pid)
			swap_threads(list, i, list->count - 1);
	}
	for (size_t i = 0; i < list->count; i++) {
		if (look_at(injection, list->threads[i]) == NULL)
			swap_threads(list, i, good++);
	}
}

/* --- The stop --- */

static bool start_thread(
	const struct injection *injection, struct tracee *tracee, struct error *err)
{
	uint64_t code[TRAMPOLINE_CODE_MAX / sizeof(uint64_t)];
	const struct trampoline_request request = { .resume = tracee->registers.rip,
		.memory = injection->memory,
		.pthread_create = injection->pthread_create,
		.pthread_detach = injection->pthread_detach,
		.signals = tracee->signals,
		.flags = tracee->flags,
		.resume_interrupted = tracee->registers.rip + 2,
		.blocked = tracee->blocked };
	const size_t size = trampoline_make(&request, code);
	struct error ignored;

	if (size == 0)
		error_set(
			err, ERROR_UNSUPPORTED, "this processor cannot save its registers (XSAVE)");
	else if (tracee_write(tracee, injection->code, code, (size + 7) / 8, err))
		return tracee_redirect(tracee, injection->code, TRAMPOLINE_BLOCKED, err);
	if (!tracee_resume(tracee, &ignored)) {
		/* It has ended. */
	}
	return false;
}

static const char *refuse_stop(const struct injection *injection, const struct tracee *tracee)
{
	const struct stack_registers registers = { .pc = tracee->registers.rip,
		.sp = tracee->registers.rsp,
		.fp = tracee->registers.rbp,
		.is_in_call = tracee->is_in_call };
	struct thread_stack stack;

	if (tracee->is_in_sequence)
		return "is in a restartable sequence (rseq)";
	if (tracee->has_signal)
		return "has a signal to handle";
	stack_walk(&stack, &injection->remote, &injection->waiting, &registers);
	return stack_refusal(&stack);
}

enum attempt { ATTEMPT_DONE, ATTEMPT_REFUSED, ATTEMPT_FAILED };

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum attempt try_thread(const struct injection *injection, pid_t thread,
	struct inject_result *result, const char **refusal, struct error *err)
{
	const int64_t begun_us = now_us();
	struct error ignored;
	struct tracee tracee;

	switch (tracee_stop(&tracee, thread, STOP_MS, err)) {
	case TRACEE_GONE:
		return ATTEMPT_REFUSED;
	case TRACEE_FAILED:
		return ATTEMPT_FAILED;
	case TRACEE_STOPPED:
		break;
	}
	result->stops++;
	const char *const reason = refuse_stop(injection, &tracee);
	if (reason != NULL) {
		*refusal = reason;
		if (!tracee_resume(&tracee, &ignored)) {
			/* It has ended. */
		}
		return ATTEMPT_REFUSED;
	}
	const bool done = start_thread(injection, &tracee, err);
	result->stop_us = now_us() - begun_us;
	return done ? ATTEMPT_DONE : ATTEMPT_FAILED;
}

/*
 * Whether the memory that the attach began with is no more: the process has ended, or executes
 * another program. The file was opened before, and reads as empty then.
 */
static bool is_gone(const struct injection *injection)
{
	char byte;

	return pread(injection->process_memory, &byte, 1, (off_t)injection->code) == 0;
}

static bool explain_end(struct error *err)
{
	return error_set(err, ERROR_NOT_FOUND, "it has ended, or executes another program now");
}

/* Stops one thread after the other until one can be used. */
static bool use_some_thread(
	struct injection *injection, struct inject_result *result, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + injection->request->patience_ms;
	const char *refusal = "runs";
	struct thread_list list;

	do {
		if (is_gone(injection))
			return explain_end(err);
		if (!list_threads(&list, injection->request->pid, err))
			return false;
		sort_threads(injection, &list);
		for (size_t i = 0; i < list.count && clock_monotonic_ms() < until_ms; i++) {
			switch (try_thread(injection, list.threads[i], result, &refusal, err)) {
			case ATTEMPT_DONE:
				injection->borrowed = list.threads[i];
				injection->borrowed_ms = clock_monotonic_ms();
				return true;
			case ATTEMPT_FAILED:
				return false;
			case ATTEMPT_REFUSED:
				sleep_us(LOOK_AGAIN_US);
				break;
			}
		}
	} while (clock_monotonic_ms() < until_ms);
	error_set(err, ERROR_STATE,
		"none of its %zu threads could be used in %d ms: the last one %s", list.count,
		injection->request->patience_ms, refusal);
	return error_hint(err, "try again; nothing was changed");
}

/* --- The exchange with the new thread --- */

static bool write_memory(pid_t pid, uint64_t address, const void *bytes, size_t size)
{
	const struct iovec from = { (void *)(uintptr_t)bytes, size };
	const struct iovec to = { (void *)(uintptr_t)address, size };

	return process_vm_writev(pid, &from, 1, &to, 1, 0) == (ssize_t)size;
}

/* Waits until the state is at least `state`; -1 in time out, or when the memory is not there. */
static int wait_for_state(const struct injection *injection, uint32_t state, int wait_ms)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	uint32_t now = 0;

	while (clock_monotonic_ms() < until_ms) {
		if (remote_copy(injection->request->pid, injection->memory, &now, sizeof now) &&
			now >= state)
			return (int)now;
		if (is_gone(injection))
			return -1;
		sleep_us(POLL_US);
	}
	return -1;
}

/* Nothing runs there any more. */
static void write_unused_bytes(const struct injection *injection)
{
	if (pwrite(injection->process_memory, injection->before, sizeof injection->before,
		    (off_t)injection->code) < 0) {
		/* What is left is unused, as it was before. */
	}
}

/* Whether the borrowed thread, which stands still, is outside, and will not return there. */
static bool has_left_code(const struct injection *injection, const struct tracee *tracee)
{
	return tracee->registers.rip - injection->code >= TRAMPOLINE_CODE_MAX &&
	       refuse_stop(injection, tracee) == NULL;
}

/*
 * No thread was started: it has no memory of ours then. A new thread that came late would hold its
 * memory longer than this lasts.
 */
static void take_back(const struct injection *injection)
{
	const int64_t until_ms = injection->borrowed_ms + START_MS + TAKE_BACK_MS;
	struct error ignored;
	struct tracee tracee;
	bool has_left = false;
	char byte;

	while (!has_left && clock_monotonic_ms() < until_ms &&
		!remote_copy(injection->request->pid, injection->memory, &byte, sizeof byte) &&
		tracee_stop(&tracee, injection->borrowed, TAKE_BACK_MS, &ignored) ==
			TRACEE_STOPPED) {
		has_left = has_left_code(injection, &tracee) && clock_monotonic_ms() < until_ms;
		if (has_left)
			write_unused_bytes(injection);
		if (!tracee_resume(&tracee, &ignored)) {
			/* It has ended. */
		}
		sleep_us(LOOK_AGAIN_US);
	}
}

static bool explain_no_start(const struct injection *injection, struct error *err)
{
	if (is_gone(injection))
		return explain_end(err);
	take_back(injection);
	error_set(err, ERROR_STATE,
		"it could not start a thread: no memory, or a limit of processes (RLIMIT_NPROC, "
		"pids.max)");
	return error_hint(err, "raise the limit, then try again; nothing was changed");
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static bool send_request(const struct injection *injection, struct error *err)
{
	const struct inject_request *const request = injection->request;
	struct trampoline_exchange exchange = { .dlopen = injection->dlopen,
		.dlsym = injection->dlsym,
		.dlerror = injection->dlerror };
	const uint32_t state = TRAMPOLINE_REQUESTED;
	const size_t first = offsetof(struct trampoline_exchange, dlopen);

	if (strlen(request->path) >= sizeof exchange.path ||
		strlen(request->settings) >= sizeof exchange.settings)
		return error_set(err, ERROR_USAGE,
			"the path of the agent's library or HEAPCTL_DIR is too long");
	copy_text(exchange.path, sizeof exchange.path, request->path);
	copy_text(exchange.name, sizeof exchange.name, request->function);
	copy_text(exchange.settings, sizeof exchange.settings, request->settings);
	return (write_memory(request->pid, injection->memory + first, (char *)&exchange + first,
			sizeof exchange - first) &&
		       write_memory(request->pid, injection->memory, &state, sizeof state)) ||
	       explain_end(err);
}

static bool read_answer(const struct injection *injection, int state, struct inject_result *result,
	struct error *err)
{
	const pid_t pid = injection->request->pid;
	struct trampoline_exchange exchange;
	char text[300] = "";

	if (is_gone(injection))
		return explain_end(err);
	if (state < 0)
		return error_set(err, ERROR_TIMEOUT,
			"the library did not start in %d s: another thread may hold the loader's "
			"lock",
			LOAD_MS / 1000);
	if (!remote_copy(pid, injection->memory, &exchange, sizeof exchange))
		return explain_end(err);
	if (state == TRAMPOLINE_NOT_LOADED) {
		const size_t got = remote_copy_some(pid, exchange.error, text, sizeof text - 1);
		text[got] = '\0';
		return error_set(err, ERROR_INPUT, "its loader says: %s", text);
	}
	result->returned = exchange.result;
	copy_text(result->answer, sizeof result->answer, exchange.answer);
	return true;
}

/* The last number of NSpid is the one by which the thread knows itself (pid_namespaces(7)). */
static bool is_called(pid_t pid, pid_t thread, pid_t own_number)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	struct error ignored;
	char path[PATH_BYTES];

	buffer_init(&text, &memory_or_exit);
	snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)thread);
	if (!file_read(path, &text, &ignored))
		return false;
	const char *at = strstr(buffer_string(&text), "\nNSpid:");
	long number = thread;
	for (at = at == NULL ? "" : at + strlen("\nNSpid:"); *at == '\t';) {
		char *end;
		number = strtol(at, &end, 10);
		at = end;
	}
	return number == own_number;
}

/* Our number of the thread; 0 when there is none. */
static pid_t find_thread(pid_t pid, pid_t own_number)
{
	struct thread_list list;
	struct error ignored;

	if (!list_threads(&list, pid, &ignored))
		return 0;
	for (size_t i = 0; i < list.count; i++) {
		if (is_called(pid, list.threads[i], own_number))
			return list.threads[i];
	}
	return 0;
}

/* Puts back the unused bytes once nothing runs there. */
static void leave(const struct injection *injection, pid_t own_number)
{
	const pid_t thread = find_thread(injection->request->pid, own_number);
	const int64_t until_ms = clock_monotonic_ms() + LEAVE_MS;
	const uint32_t state = TRAMPOLINE_READ;
	char path[PATH_BYTES];

	if (!write_memory(injection->request->pid, injection->memory, &state, sizeof state))
		return;
	snprintf(path, sizeof path, "/proc/%d/task/%d", (int)injection->request->pid, (int)thread);
	while (access(path, F_OK) == 0 && clock_monotonic_ms() < until_ms)
		sleep_us(POLL_US);
	if (thread != 0 && access(path, F_OK) != 0)
		write_unused_bytes(injection);
}

static bool talk_to_thread(
	const struct injection *injection, struct inject_result *result, struct error *err)
{
	uint64_t thread = 0;

	if (wait_for_state(injection, TRAMPOLINE_STARTED, START_MS) < 0 ||
		!remote_copy(injection->request->pid,
			injection->memory + offsetof(struct trampoline_exchange, thread), &thread,
			sizeof thread))
		return explain_no_start(injection, err);
	if (!send_request(injection, err))
		return false;
	const int state = wait_for_state(injection, TRAMPOLINE_RETURNED, LOAD_MS);
	const bool done = read_answer(injection, state, result, err);
	leave(injection, (pid_t)thread);
	return done;
}

/*
 * Two at a time would write to the same place. The lock is on a file that those may open who may
 * trace the process.
 */
static bool lock_target(pid_t pid, int *lock, struct error *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	*lock = open(path, O_RDWR | O_CLOEXEC);
	if (*lock < 0)
		return error_set(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_DENIED,
			"the memory of process %d cannot be opened: %s", (int)pid,
			errno_text(errno));
	if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
		return true;
	return error_set(err, ERROR_STATE, "another heapctl is just attaching to it");
}

static bool inject(
	const struct inject_request *request, struct inject_result *result, struct error *err)
{
	struct injection injection = { .request = request };

	CLEANUP(fd_cleanup) int lock = -1;
	if (!lock_target(request->pid, &lock, err))
		return false;
	injection.process_memory = lock;
	const bool done = read_target(&injection, request->pid, err) &&
			  use_some_thread(&injection, result, err) &&
			  talk_to_thread(&injection, result, err);
	remote_deinit(&injection.remote);
	return done;
}

/* --- Our child --- */

struct inject_outcome {
	bool done;
	struct inject_result result;
	struct error err;
};

/* It finishes what it has begun, also when we die. */
static void run_child(const struct inject_request *request, int out)
{
	struct inject_outcome outcome = { 0 };

	srandom((unsigned)now_us());
	outcome.done = inject(request, &outcome.result, &outcome.err);
	if (write(out, &outcome, sizeof outcome) != (ssize_t)sizeof outcome)
		_exit(1);
	_exit(0);
}

static bool read_outcome(int in, int wait_ms, struct inject_outcome *outcome)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	size_t got = 0;

	while (got < sizeof *outcome) {
		struct pollfd ready = { .fd = in, .events = POLLIN };
		const int64_t left_ms = until_ms - clock_monotonic_ms();
		if (left_ms <= 0 || (poll(&ready, 1, (int)left_ms) < 0 && errno != EINTR))
			return false;
		if (ready.revents == 0)
			continue;
		const ssize_t size = read(in, (char *)outcome + got, sizeof *outcome - got);
		if (size <= 0)
			return false;
		got += (size_t)size;
	}
	return true;
}

bool inject_library(
	const struct inject_request *request, struct inject_result *result, struct error *err)
{
	struct inject_outcome outcome;
	sigset_t all, before;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "a pipe");
	/* An interrupt is for what comes after: half an attach helps nobody. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(request, ends[1]);
	}
	close(ends[1]);
	const bool has_outcome =
		child > 0 &&
		read_outcome(ends[0], request->patience_ms + STOP_MS + CHILD_EXTRA_MS, &outcome);
	close(ends[0]);
	if (child > 0 && !has_outcome)
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (child < 0)
		return error_set(err, ERROR_MEMORY, "no process can be started (fork)");
	if (!has_outcome)
		return error_set(err, ERROR_TIMEOUT, "process %d does not stop", (int)request->pid);
	*result = outcome.result;
	*err = outcome.err;
	return outcome.done;
}

bool inject_look(pid_t pid, int *safe, int *looks, struct error *err)
{
	enum { LOOKS = 3, LOOK_MS = 5 };
	struct injection injection = { 0 };
	struct thread_list list;
	bool done = read_target(&injection, pid, err);

	*safe = 0;
	for (*looks = 0; done && *looks < LOOKS; (*looks)++) {
		bool is_safe = false;
		done = list_threads(&list, pid, err);
		for (size_t i = 0; done && i < list.count && !is_safe; i++)
			is_safe = look_at(&injection, list.threads[i]) == NULL;
		*safe += is_safe;
		sleep_us(LOOK_MS * 1000);
	}
	remote_deinit(&injection.remote);
	return done;
}
