/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does one thing again and again while an agent is attached to it and detached, and
 * checks its blocks meanwhile.
 *
 * usage: storms fork|flush|thread|signal|exec|handler|paused|forking|(load LIBRARY SYMBOL)
 *
 * Prints "ready", then what went wrong, or "ok" and a count at the end of its input.
 *
 * fork: children that allocate and take the loader's lock; flush: children, while a stream's lock
 * keeps fork() waiting; thread: threads that allocate and end; signal: handlers on an alternate
 * stack that wait; load: another thread opens and closes a library that has SYMBOL; exec: the
 * program itself, several times a second. "handler" waits for its input in a handler that has
 * interrupted malloc(), "paused" in one that has interrupted sigsuspend(), "forking" while the
 * fork() of another thread waits for a lock.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 64, THREADS = 4, STACK_BYTES = 64 * 1024, INTERVAL_US = 5000, EXEC_MS = 300 };
enum { FLUSHED_BYTES = 64 * 1024, PAUSE_US = 1000, CHILD_SECONDS = 30 };

static void fault(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* Allocates blocks that know their number, and frees them. */
static void churn(void)
{
	unsigned char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		const size_t size = 16 + 97 * (size_t)i;
		blocks[i] = i % 3 == 0 ? calloc(1, size) : malloc(size);
		if (blocks[i] == NULL)
			fault("no memory");
		if (i % 3 == 0 && blocks[i][size - 1] != 0)
			fault("a block is not zero");
		memset(blocks[i], i, size);
	}
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = realloc(blocks[i], 8000);
		if (blocks[i] == NULL)
			fault("no memory");
		for (size_t at = 0; at < 16 + 97 * (size_t)i; at++) {
			if (blocks[i][at] != i)
				fault("a block has changed");
		}
		free(blocks[i]);
	}
}

static int pass_over(struct dl_phdr_info *info, size_t size, void *ignored)
{
	(void)info;
	(void)size;
	(void)ignored;
	return 0;
}

/* A child that has to wait for the loader's lock waits for ever. */
static void fork_once(void)
{
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		alarm(CHILD_SECONDS);
		dl_iterate_phdr(pass_over, NULL);
		churn();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fault("a child has failed");
}

static void fork_at_once(void)
{
	int status = 0;
	const pid_t child = fork();

	if (child == 0)
		_exit(0);
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fault("a child has failed");
	churn();
}

static int slow[2]; /* a pipe */

/* Holds the lock of the list of streams while the pipe is full; fork() waits for that with others.
 */
static void *flush_streams(void *ignored)
{
	static char block[FLUSHED_BYTES];
	static char buffer[2 * FLUSHED_BYTES];
	FILE *const stream = fdopen(slow[1], "w");

	if (stream == NULL || setvbuf(stream, buffer, _IOFBF, sizeof buffer) != 0)
		fault("no stream");
	for (;;) {
		if (fwrite(block, 1, sizeof block, stream) != sizeof block || fflush(NULL) != 0)
			fault("a stream");
		usleep(PAUSE_US);
	}
	return ignored;
}

/* Another process: any thread of this one may wait for fork() when it starts the agent. */
static void read_slowly(void)
{
	char block[FLUSHED_BYTES / 8];

	close(slow[1]);
	while (read(slow[0], block, sizeof block) > 0)
		usleep(5 * PAUSE_US);
	_exit(0);
}

static void begin_streams(void)
{
	pthread_t thread;

	if (pipe(slow) != 0)
		fault("no pipe");
	const pid_t reader = fork();
	if (reader == 0)
		read_slowly();
	close(slow[0]);
	if (reader < 0 || pthread_create(&thread, NULL, flush_streams, NULL) != 0)
		fault("no reader or thread");
}

static _Atomic bool must_end, has_ended;
static _Atomic long forks;

static void *fork_in_thread(void *ignored)
{
	for (; !must_end; forks++)
		fork_at_once();
	has_ended = true;
	return ignored;
}

/* fork() waits for the stream's lock until the input comes: then the pipe is read. */
static void wait_while_forking(struct pollfd *input)
{
	struct pollfd full = { .events = POLLOUT };
	static char block[FLUSHED_BYTES];
	pthread_t flusher, forker;

	if (pipe(slow) != 0 || pthread_create(&flusher, NULL, flush_streams, NULL) != 0)
		fault("no pipe or thread");
	full.fd = slow[1];
	while (poll(&full, 1, 0) != 0)
		usleep(PAUSE_US);
	if (pthread_create(&forker, NULL, fork_in_thread, NULL) != 0)
		fault("no thread");
	/* The stream's thread may be between two writes. */
	for (long before = -1; forks != before; usleep(500 * PAUSE_US))
		before = forks;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6 || poll(input, 1, -1) != 1)
		fault("no input");
	/* A new thread would wait for fork(). */
	full = (struct pollfd){ .fd = slow[0], .events = POLLIN };
	must_end = true;
	while (!has_ended) {
		if (poll(&full, 1, 1) == 1 && read(slow[0], block, sizeof block) <= 0)
			fault("the pipe");
	}
	_exit(write(STDOUT_FILENO, "ok 1\n", 5) != 5);
}

static void *run_thread(void *ignored)
{
	(void)ignored;
	churn();
	return NULL;
}

static void start_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, run_thread, NULL) != 0)
			fault("no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		if (pthread_join(threads[i], NULL) != 0)
			fault("a thread is lost");
	}
}

static struct {
	const char *path, *symbol;
	pthread_t thread;
	_Atomic bool is_ending;
} loads;

static void *load(void *ignored)
{
	while (!loads.is_ending) {
		void *const library = dlopen(loads.path, RTLD_NOW);
		if (library == NULL || dlsym(library, loads.symbol) == NULL ||
			dlclose(library) != 0)
			fault("the library is not there");
		churn();
	}
	return ignored;
}

static void begin_loads(char **words)
{
	loads.path = words[0];
	loads.symbol = words[1];
	if (pthread_create(&loads.thread, NULL, load, NULL) != 0)
		fault("no thread");
}

static void end_loads(void)
{
	loads.is_ending = true;
	if (pthread_join(loads.thread, NULL) != 0)
		fault("a thread is lost");
}

/* Waits meanwhile, so that this thread is the one that an attach borrows. */
static void wait_beside_loads(void)
{
	(void)poll(NULL, 0, 1);
	churn();
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	const int error_number = errno;

	(void)number;
	handled++;
	(void)poll(NULL, 0, 0);
	errno = error_number;
}

static void begin_signals(void)
{
	static char stack[STACK_BYTES];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	const struct sigaction action = { .sa_handler = handle,
		.sa_flags = SA_ONSTACK | SA_RESTART };
	const struct itimerval timer = { { 0, INTERVAL_US }, { 0, INTERVAL_US } };

	if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGALRM, &action, NULL) != 0 ||
		setitimer(ITIMER_REAL, &timer, NULL) != 0)
		fault("no timer");
}

static void wait_for_signals(void)
{
	const sig_atomic_t before = handled;

	churn();
	while (handled == before)
		pause();
}

static void execute(const char *mode)
{
	setenv("STORMS_IS_READY", "1", 1);
	execl("/proc/self/exe", "storms", mode, (char *)NULL);
	fault("exec");
}

static void wait_for_input(int number)
{
	char byte;
	const struct iovec place = { &byte, 1 };

	/* NOLINTNEXTLINE(bugprone-signal-handler): a system call alone */
	const bool is_there = readv(STDIN_FILENO, &place, 1) >= 0;
	_exit(number == 0 || !is_there || write(STDOUT_FILENO, "ok 0\n", 5) != 5);
}

static void wait_in_handler(void)
{
	const struct itimerval timer = { .it_value = { 0, INTERVAL_US } };

	if (signal(SIGALRM, wait_for_input) == SIG_ERR || setitimer(ITIMER_REAL, &timer, NULL) != 0)
		fault("no timer");
	for (;;)
		churn();
}

static void pause_in_handler(void)
{
	const struct itimerval timer = { .it_value = { 0, INTERVAL_US } };
	sigset_t blocked, before;

	/* It is taken in sigsuspend() alone. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	if (sigprocmask(SIG_BLOCK, &blocked, &before) != 0 ||
		signal(SIGALRM, wait_for_input) == SIG_ERR ||
		setitimer(ITIMER_REAL, &timer, NULL) != 0)
		fault("no timer");
	for (;;)
		sigsuspend(&before);
}

int main(int count, char **words)
{
	const char *const mode = count > 1 ? words[1] : "";
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	void (*const step)(void) = strcmp(mode, "fork") == 0	 ? fork_once
				   : strcmp(mode, "flush") == 0	 ? fork_at_once
				   : strcmp(mode, "thread") == 0 ? start_threads
				   : strcmp(mode, "signal") == 0 ? wait_for_signals
				   : count > 3			 ? wait_beside_loads
								 : NULL;
	long rounds = 0;

	if (step == NULL && strcmp(mode, "exec") != 0 && strcmp(mode, "handler") != 0 &&
		strcmp(mode, "paused") != 0 && strcmp(mode, "forking") != 0)
		return 2;
	if (step == wait_for_signals)
		begin_signals();
	if (step == fork_at_once)
		begin_streams();
	if (step == wait_beside_loads)
		begin_loads(words + 2);
	if (strcmp(mode, "forking") == 0)
		wait_while_forking(&input);
	if (getenv("STORMS_IS_READY") == NULL) {
		puts("ready");
		fflush(stdout);
	}
	if (strcmp(mode, "handler") == 0)
		wait_in_handler();
	if (strcmp(mode, "paused") == 0)
		pause_in_handler();
	if (strcmp(mode, "exec") == 0 && poll(&input, 1, EXEC_MS) == 0)
		execute(mode);
	while ((step != NULL && poll(&input, 1, 0) == 0) ||
		(step == wait_for_signals && input.revents == 0)) {
		step();
		rounds++;
	}
	if (step == wait_beside_loads)
		end_loads();
	printf("ok %ld\n", rounds);
	return 0;
}
