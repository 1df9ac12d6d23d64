/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server for tests of the agent: does what it reads, line by line, and answers each with a line.
 * It waits for its next order in read(), as servers wait. With HOST_LINKED it knows heapctl.h's
 * calls as well; without, it knows nothing of the agent and gets it by LD_PRELOAD.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HOST_LINKED
#include "heapctl.h"
#endif
#ifdef HOST_FAKE
#include "allocator_fake.h"
#include "allocator_stub.h"
#endif

static char answer[65536] = "ok";

static void fail(const char *what)
{
	snprintf(answer, sizeof answer, "error %s: %s", what, strerror(errno));
}

static void check(long result, const char *what)
{
	if (result < 0)
		fail(what);
}

/* --- memory --- */

__attribute__((noinline)) static void *deep_b(unsigned path, unsigned depth, size_t size);

__attribute__((noinline)) static void *deep_a(unsigned path, unsigned depth, size_t size)
{
	void *const block =
		depth == 0 ? malloc(size)
			   : ((path & 1) != 0 ? deep_a : deep_b)(path >> 1, depth - 1, size);
	__asm__ volatile("" ::"r"(block) : "memory");
	return block;
}

__attribute__((noinline)) static void *deep_b(unsigned path, unsigned depth, size_t size)
{
	void *const block =
		depth == 0 ? malloc(size)
			   : ((path & 1) != 0 ? deep_a : deep_b)(path >> 1, depth - 1, size);
	__asm__ volatile("nop" ::"r"(block) : "memory");
	return block;
}

static void allocate(unsigned stacks, size_t size)
{
	for (unsigned i = 0; i < stacks; i++) {
		char *const block = deep_a(i, 16, size);
		if (block == NULL)
			fail("malloc");
		else
			block[0] = 1;
	}
}

/* --- processes --- */

/* A child that runs until it is killed, or until its parent has ended. */
static void live_as_child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It must not read its parent's commands. */
	close(STDIN_FILENO);
	for (;;)
		pause();
}

static void report_child(pid_t pid, const char *what)
{
	check(pid, what);
	if (pid > 0)
		snprintf(answer, sizeof answer, "%d", pid);
}

static void do_fork(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		live_as_child();
	report_child(pid, "fork");
}

/*
 * A filter on what an agent does and this program does not: `action` is what comes of it. Without
 * no_new_privs where that is allowed, so that the filter is all there is to be seen.
 */
static int enter_seccomp(unsigned action, unsigned flags)
{
#define REFUSE(call) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(socket),
		REFUSE(accept4),
		REFUSE(memfd_create),
		REFUSE(unlinkat),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = sizeof code / sizeof *code, .filter = code };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0)
		return 0;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void do_fork_filtered(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		if (enter_seccomp(SECCOMP_RET_KILL_PROCESS, 0) != 0)
			_exit(1);
		live_as_child();
	}
	report_child(pid, "fork");
}

/* As programs do that show a title in ps: /proc no longer has its first arguments. */
static void do_hide(void)
{
	char *const folder = getenv("HEAPCTL_DIR");

	if (folder != NULL)
		memset(folder, 'x', strlen(folder));
}

/* A child that drops rights before a client reads its state. */
static void do_fork_sandboxed(const char *root)
{
	const pid_t pid = fork();

	if (pid == 0) {
		if (root[0] != '\0' && (chroot(root) != 0 || chdir("/") != 0))
			_exit(1);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		live_as_child();
	}
	report_child(pid, "fork");
}

static void do_clone(void)
{
	const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		live_as_child();
	report_child(pid, "clone");
}

/* A child whose pid, in a namespace of its own, may be the same as ours; ends as programs end. */
static void do_clone_and_exit(void)
{
	const pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
	int status = -1;

	if (pid == 0)
		exit(0);
	check(pid, "clone");
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0))
		snprintf(answer, sizeof answer, "error child ended with %#x", status);
}

/* Children that end at once, as servers make them all day. */
static void do_forks(int count, const char *program)
{
	for (int i = 0; i < count; i++) {
		const pid_t pid = fork();
		if (pid == 0) {
			if (program[0] != '\0')
				execl(program, program, NULL);
			_exit(program[0] != '\0' ? 127 : 0);
		}
		int status = 0;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			fail("fork");
	}
}

static void do_spawn_and_keep(const char *program)
{
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "1000", NULL);
		_exit(127);
	}
	report_child(pid, "fork");
}

static void do_daemon(void)
{
	const pid_t pid = fork();

	if (pid > 0)
		exit(0);
	check(pid, "fork");
	setsid();
	snprintf(answer, sizeof answer, "%d", getpid());
}

static void do_limit(unsigned long long files)
{
	const struct rlimit limit = { .rlim_cur = files, .rlim_max = files };

	check(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

/* Takes the numbers that the agent had. */
/*
 * Right after closefrom the agent's thread may still close, or be opening, a number that it had in
 * hand and that is ours by now (EBADF, EBUSY): then again.
 */
static void do_occupy(int first, int last)
{
	int tries_left = 1000;

	for (int fd = first; fd <= last;) {
		const int file = open("/dev/null", O_RDONLY);
		if (file == fd || dup2(file, fd) == fd)
			fd++;
		else if ((errno != EBADF && errno != EBUSY) || --tries_left == 0)
			check(-1, "dup2");
		if (file != fd - 1)
			close(file);
	}
}

/* How many of these numbers are still /dev/null. */
static void do_occupied(int first, int last)
{
	int count = 0;

	for (int fd = first; fd <= last; fd++) {
		char path[64], target[64];
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		const ssize_t size = readlink(path, target, sizeof target);
		count += size == 9 && memcmp(target, "/dev/null", 9) == 0;
	}
	snprintf(answer, sizeof answer, "%d", count);
}

enum { TIMER_S = 3600 };

/* Takes them with timers of its own, which have no inode of their own: each rings in an hour. */
static void do_occupy_with_timers(int first, int last)
{
	const struct itimerspec when = { .it_value.tv_sec = TIMER_S };

	for (int number = first; number <= last; number++) {
		const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
		check(timer, "timerfd_create");
		check(timerfd_settime(timer, 0, &when, NULL), "timerfd_settime");
		if (timer == number)
			continue;
		check(dup2(timer, number), "dup2");
		close(timer);
	}
}

/* How many of these numbers are still such a timer, as it was set. */
static void do_timers(int first, int last)
{
	int count = 0;

	for (int number = first; number <= last; number++) {
		struct itimerspec when = { 0 };
		count += timerfd_gettime(number, &when) == 0 && when.it_value.tv_sec > TIMER_S / 2;
	}
	snprintf(answer, sizeof answer, "%d", count);
}

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
	(void)number;
	signals_seen++;
}

static void *spin(void *ignored)
{
	(void)ignored;
	for (;;)
		free(deep_a((unsigned)getpid(), 4, 100));
	return NULL;
}

static void do_spin(void)
{
	pthread_t thread;

	check(-pthread_create(&thread, NULL, spin, NULL), "pthread_create");
}

/* A thread that forks all the time while others work. */
static void *fork_all_the_time(void *ignored)
{
	(void)ignored;
	for (;;) {
		const pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return NULL;
}

static void do_forker(void)
{
	pthread_t thread;

	check(-pthread_create(&thread, NULL, fork_all_the_time, NULL), "pthread_create");
}

static bool run_plain(const char *order, int a, int b, const char *text)
{
	if (strcmp(order, "pid") == 0)
		snprintf(answer, sizeof answer, "%d", getpid());
	else if (strcmp(order, "alloc") == 0)
		allocate((unsigned)a, (size_t)b);
	else if (strcmp(order, "fork") == 0)
		do_fork();
	else if (strcmp(order, "fork-sandboxed") == 0)
		do_fork_sandboxed(text);
	else if (strcmp(order, "fork-filtered") == 0)
		do_fork_filtered();
	else if (strcmp(order, "filter") == 0)
		check(enter_seccomp(SECCOMP_RET_KILL_PROCESS, 0), "seccomp");
	else if (strcmp(order, "filter-all-threads") == 0)
		check(enter_seccomp(SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC),
			"seccomp");
	else if (strcmp(order, "hide") == 0)
		do_hide();
	else if (strcmp(order, "clone") == 0)
		do_clone();
	else if (strcmp(order, "clone-exit") == 0)
		do_clone_and_exit();
	else if (strcmp(order, "forks") == 0)
		do_forks(a, "");
	else if (strcmp(order, "execs") == 0)
		do_forks(20, text);
	else if (strcmp(order, "spawn") == 0)
		do_spawn_and_keep(text);
	else if (strcmp(order, "daemon") == 0)
		do_daemon();
	else if (strcmp(order, "setuid") == 0)
		check(setgid((gid_t)a) != 0 ? -1 : setuid((uid_t)a), "setuid");
	else if (strcmp(order, "unshare") == 0)
		check(unshare(CLONE_NEWUSER), "unshare");
	else if (strcmp(order, "chroot") == 0)
		check(chroot(text) != 0 ? -1 : chdir("/"), "chroot");
	else if (strcmp(order, "closefrom") == 0)
		closefrom(a);
	else if (strcmp(order, "occupy") == 0)
		do_occupy(a, b);
	else if (strcmp(order, "occupied") == 0)
		do_occupied(a, b);
	else if (strcmp(order, "occupy-with-timers") == 0)
		do_occupy_with_timers(a, b);
	else if (strcmp(order, "timers") == 0)
		do_timers(a, b);
	else if (strcmp(order, "nofile") == 0)
		do_limit((unsigned long long)a);
	else if (strcmp(order, "nnp") == 0)
		check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
	else if (strcmp(order, "spin") == 0)
		do_spin();
	else if (strcmp(order, "forker") == 0)
		do_forker();
	else if (strcmp(order, "signals") == 0)
		snprintf(answer, sizeof answer, "%d", (int)signals_seen);
	else if (strcmp(order, "exit") == 0)
		exit(a);
	else
		return false;
	return true;
}

#ifdef HOST_LINKED

static struct heapctl_error error;

static void report(int code)
{
	if (code != HEAPCTL_OK)
		snprintf(answer, sizeof answer, "error %d %s (%s)", error.code, error.message,
			error.hint);
}

static void log_line(void *context, int level, const char *message)
{
	(void)context;
	fprintf(stderr, "log %d: %s\n", level, message);
}

static void do_start(unsigned flags)
{
	const struct heapctl_options options = {
		.size = sizeof options, .flags = flags, .log = log_line
	};

	report(heapctl_start(&options, &error));
}

static void do_start_in(const char *folder)
{
	const struct heapctl_options options = { .size = sizeof options,
		.flags = HEAPCTL_NO_ENVIRONMENT,
		.folder = folder,
		.keep = 1,
		.keep_bytes = 1 << 20,
		.log = log_line };

	report(heapctl_start(&options, &error));
}

static void *start_and_stop(void *ends)
{
	while (!*(_Atomic bool *)ends) {
		heapctl_stop();
		heapctl_start(NULL, NULL);
	}
	return NULL;
}

/* Children that are forked at any moment of the agent's work can start and stop their own. */
static void do_forks_while_starting(int count)
{
	_Atomic bool ends = false;
	pthread_t thread;

	check(-pthread_create(&thread, NULL, start_and_stop, &ends), "pthread_create");
	int status = 0;
	for (int i = 0; i < count && status == 0; i++) {
		const pid_t pid = fork();
		if (pid == 0) {
			alarm(30);
			heapctl_stop();
			_exit(heapctl_start(NULL, NULL));
		}
		waitpid(pid, &status, 0);
		if (status != 0)
			snprintf(answer, sizeof answer, "error child ended with %#x", status);
	}
	ends = true;
	pthread_join(thread, NULL);
}

static void give_run(int code, const struct heapctl_run *run)
{
	report(code);
	if (code == HEAPCTL_OK)
		snprintf(answer, sizeof answer, "%lld %d %d %lld %d %d", (long long)run->id,
			run->state, run->already_running, (long long)run->remaining_ms, run->pid,
			run->ended_by);
}

/* As a program does that was compiled before a run had a pid: nothing behind may be written. */
static void do_run_get_as_before(void)
{
	union {
		struct heapctl_run run;
		unsigned char bytes[sizeof(struct heapctl_run)];
	} given;

	memset(&given, 0x5a, sizeof given);
	given.run.size = offsetof(struct heapctl_run, pid);
	give_run(heapctl_run_get(0, &given.run, &error), &given.run);
	for (size_t i = given.run.size; i < sizeof given.bytes; i++) {
		if (given.bytes[i] != 0x5a)
			snprintf(answer, sizeof answer, "error byte %zu was written", i);
	}
}

static int collect(void *context, const char *data, size_t size)
{
	*(size_t *)context += size;
	return data[0] == '\0';
}

static void do_stats(void)
{
	size_t total = 0;

	report(heapctl_stats(NULL, collect, &total, &error));
	if (answer[0] != 'e')
		snprintf(answer, sizeof answer, "%zu", total);
}

static void do_status(void)
{
	struct heapctl_status status = { .size = sizeof status };
	const int code = heapctl_get_status(&status, &error);

	report(code);
	if (code == HEAPCTL_OK)
		snprintf(answer, sizeof answer, "%s %d %d %d %u %llu", status.allocator,
			status.available, status.active, status.running, status.lg_sample,
			(unsigned long long)status.last_dump_bytes);
}

static void do_handle(const char *method, const char *target)
{
	const struct heapctl_request request = {
		.size = sizeof request, .method = method, .target = target
	};
	struct heapctl_response response = { .size = sizeof response };
	const int code = heapctl_handle(&request, &response, &error);

	report(code);
	if (code != HEAPCTL_OK)
		return;
	char start[65] = "";
	if (response.fd >= 0 && pread(response.fd, start, sizeof start - 1, 0) < 0)
		fail("pread");
	if (response.body != NULL)
		snprintf(start, sizeof start, "%.*s", (int)response.body_size, response.body);
	start[strcspn(start, "\n")] = '\0';
	snprintf(answer, sizeof answer, "%d %s %llu %s", response.status, response.content_type,
		(unsigned long long)response.body_size, start);
	heapctl_response_release(&response);
}

/*
 * A program with a loop of its own: waits and drives the agent for so long; for 0 ms until the next
 * order has come.
 */
static void do_loop(int ms)
{
	struct timespec begin, now;
	int turns = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int left = ms == 0 ? -1 : ms; left != 0;) {
		struct pollfd fds[] = { { .fd = heapctl_get_fd(), .events = POLLIN },
			{ .fd = ms == 0 ? STDIN_FILENO : -1, .events = POLLIN } };
		if (fds[0].fd < 0) {
			snprintf(answer, sizeof answer, "error no descriptor");
			return;
		}
		const int ready = poll(fds, 2, left);
		if (ready > 0 && fds[0].revents != 0) {
			turns++;
			if (heapctl_process(&error) != HEAPCTL_OK) {
				report(error.code);
				return;
			}
		}
		if (fds[1].revents != 0)
			break;
		if (ms == 0)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = ms - (int)((now.tv_sec - begin.tv_sec) * 1000 +
				    (now.tv_nsec - begin.tv_nsec) / 1000000);
		if (left < 0)
			left = 0;
	}
	snprintf(answer, sizeof answer, "%d", turns);
}

/* The same by epoll, edge-triggered: one call for each event. */
static void do_loop_on_edges(int ms)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	const int fd = heapctl_get_fd();
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct timespec begin, now;
	int turns = 0;

	check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int left = ms; left > 0 && answer[0] != 'e';) {
		if (epoll_wait(epoll, &event, 1, left) > 0) {
			turns++;
			report(heapctl_process(&error));
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = ms - (int)((now.tv_sec - begin.tv_sec) * 1000 +
				    (now.tv_nsec - begin.tv_nsec) / 1000000);
	}
	close(epoll);
	if (answer[0] != 'e')
		snprintf(answer, sizeof answer, "%d", turns);
}

/* Calls from one thread while another starts and stops the agent all the time. */
static void do_calls_while_starting(int count)
{
	struct heapctl_status status = { .size = sizeof status };
	_Atomic bool ends = false;
	pthread_t thread;

	check(-pthread_create(&thread, NULL, start_and_stop, &ends), "pthread_create");
	for (int i = 0; i < count; i++) {
		const int code =
			i % 2 == 0 ? heapctl_get_status(&status, &error) : heapctl_activate(&error);
		if (code != HEAPCTL_OK && code != HEAPCTL_STATE)
			report(code);
	}
	ends = true;
	pthread_join(thread, NULL);
}

/* To a pipe without a reader: must be an error and not end the program. */
static void do_dump_to_closed_pipe(void)
{
	int ends[2];

	check(pipe(ends), "pipe");
	close(ends[0]);
	report(heapctl_dump_fd(ends[1], &error));
	close(ends[1]);
}

static void do_run_dump(int start, const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	check(fd, "open");
	report(heapctl_run_dump_fd(0, start, fd, &error));
	close(fd);
}

static void add_code(void *context, const char *code, const char *message, const char *hint)
{
	(void)message, (void)hint;
	const size_t length = strlen(context);
	snprintf((char *)context + length, sizeof answer - length, "%s ", code);
}

static void do_warnings(void)
{
	char codes[sizeof answer] = "";

	report(heapctl_warnings(add_code, codes, &error));
	if (answer[0] != 'e')
		snprintf(answer, sizeof answer, "%s", codes);
}

static bool run_linked(const char *order, int a, const char *text, const char *more)
{
	struct heapctl_run run = { .size = sizeof run };

	if (strcmp(order, "start") == 0)
		do_start((unsigned)a);
	else if (strcmp(order, "start-in") == 0)
		do_start_in(text);
	else if (strcmp(order, "stop") == 0)
		heapctl_stop();
	else if (strcmp(order, "forks-while-starting") == 0)
		do_forks_while_starting(a);
	else if (strcmp(order, "calls-while-starting") == 0)
		do_calls_while_starting(a);
	else if (strcmp(order, "activate") == 0)
		report(heapctl_activate(&error));
	else if (strcmp(order, "deactivate") == 0)
		report(heapctl_deactivate(&error));
	else if (strcmp(order, "dump") == 0)
		report(heapctl_dump_path(text, &error));
	else if (strcmp(order, "dump-to-closed-pipe") == 0)
		do_dump_to_closed_pipe();
	else if (strcmp(order, "reset") == 0)
		report(heapctl_reset(a, &error));
	else if (strcmp(order, "stats") == 0)
		do_stats();
	else if (strcmp(order, "status") == 0)
		do_status();
	else if (strcmp(order, "run-start") == 0)
		give_run(heapctl_run_start(a, &run, &error), &run);
	else if (strcmp(order, "run-stop") == 0)
		give_run(heapctl_run_stop(&run, &error), &run);
	else if (strcmp(order, "run-get") == 0)
		give_run(heapctl_run_get(0, &run, &error), &run);
	else if (strcmp(order, "run-dump") == 0)
		do_run_dump(0, text);
	else if (strcmp(order, "run-dump-start") == 0)
		do_run_dump(1, text);
	else if (strcmp(order, "warnings") == 0)
		do_warnings();
	else if (strcmp(order, "run-get-as-before") == 0)
		do_run_get_as_before();
	else if (strcmp(order, "handle") == 0)
		do_handle(text, more);
	else if (strcmp(order, "loop") == 0)
		do_loop(a);
	else if (strcmp(order, "loop-on-edges") == 0)
		do_loop_on_edges(a);
	else if (strcmp(order, "process") == 0)
		report(heapctl_process(&error));
	else if (strcmp(order, "fd") == 0)
		snprintf(answer, sizeof answer, "%d", heapctl_get_fd());
	else
		return false;
	return true;
}
#else
static bool run_linked(const char *order, int a, const char *text, const char *more)
{
	(void)order, (void)a, (void)text, (void)more;
	return false;
}
#endif

#ifdef HOST_FAKE
static bool run_fake(const char *order, int a)
{
	struct allocator_fake *const fake = allocator_stub();
	static const char mappings[] =
		"\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 00:00 0 /fake\n";
	static char *profile;

	if (strcmp(order, "dump-delay") == 0) {
		atomic_store(&fake->dump_delay_ms, (unsigned)a);
	} else if (strcmp(order, "dump-size") == 0) {
		profile = realloc(profile, (size_t)a + 1);
		memset(profile, 'x', (size_t)a);
		memcpy(profile, "heap_v2/524288\n", 15);
		memcpy(profile + a - (sizeof mappings - 1), mappings, sizeof mappings - 1);
		profile[a] = '\0';
		fake->profile = profile;
	} else if (strcmp(order, "is-active") == 0) {
		snprintf(answer, sizeof answer, "%d", (int)atomic_load(&fake->active));
	} else {
		return false;
	}
	return true;
}
#else
static bool run_fake(const char *order, int a)
{
	(void)order, (void)a;
	return false;
}
#endif

static void obey(const char *line)
{
	char order[32] = "", text[4096] = "", more[4096] = "";

	sscanf(line, "%31s %4095s %4095s", order, text, more);
	const int a = atoi(text), b = atoi(more);
	snprintf(answer, sizeof answer, "ok");
	if (!run_plain(order, a, b, text) && !run_linked(order, a, text, more) &&
		!run_fake(order, a))
		snprintf(answer, sizeof answer, "error no such order");
}

/* Byte by byte and without a buffer: a child must not inherit half of the next order. */
static bool read_line(char *line, size_t size)
{
	size_t length = 0;

	while (length + 1 < size) {
		const ssize_t got = read(STDIN_FILENO, line + length, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		if (line[length] == '\n')
			break;
		length++;
	}
	line[length] = '\0';
	return true;
}

static void say(const char *text)
{
	char line[sizeof answer + 1];
	const int length = snprintf(line, sizeof line, "%s\n", text);

	if (write(STDOUT_FILENO, line, (size_t)length) < 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	char line[8192];

	/* Any signal that the agent let through would be seen here. */
	signal(SIGPIPE, count_signal);
	signal(SIGUSR1, count_signal);
#ifdef HOST_LINKED
	if (argc > 1)
		do_start((unsigned)atoi(argv[1]));
#else
	(void)argc, (void)argv;
#endif
	say(answer);
	while (read_line(line, sizeof line)) {
		obey(line);
		say(answer);
	}
	return 0;
}
