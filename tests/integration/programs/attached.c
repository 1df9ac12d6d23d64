/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that an agent is attached to while it waits in many ways and allocates, and that
 * notices what an agent must not do to it: a call that ends with EINTR, a wait that ends late or
 * early, a block or a register that changes.
 *
 * usage: attached THREADS [interrupted|creating]
 *
 * Prints "ready", then what went wrong, or "ok" after a line or the end of its input. From a p to
 * a c in its input, the threads that compute sleep. An "interrupted" one lets calls end with EINTR.
 * One that is "creating" does nothing but start threads that end at once.
 *
 * THREADS storm through malloc. The waits have no signal to end them, so each EINTR is a fault.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 40, LATE_MS = 30000, BLOCKS = 512 };

static _Atomic bool is_ending;
static _Atomic bool is_paused;
static _Atomic long rounds;

static void fault(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* heapctl may be killed between the stop that ends a call with EINTR and its repair. */
static bool may_be_interrupted;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- Waits --- */

static int descriptors[2]; /* a pipe that stays empty */
static int instance;	   /* of epoll */
static int queue;	   /* of messages, that stays empty */
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static struct timespec after_ms(clockid_t clock, int ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += ms * 1000000L;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static int wait_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(instance, &event, 1, WAIT_MS);
}

static int wait_poll(void)
{
	struct pollfd one = { .fd = descriptors[0], .events = POLLIN };

	return poll(&one, 1, WAIT_MS);
}

static int wait_ppoll(void)
{
	struct pollfd one = { .fd = descriptors[0], .events = POLLIN };
	const struct timespec time = { .tv_nsec = WAIT_MS * 1000000L };
	sigset_t none;

	sigemptyset(&none);
	return ppoll(&one, 1, &time, &none);
}

static int wait_select(void)
{
	struct timeval time = { .tv_usec = WAIT_MS * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(descriptors[0], &set);
	return select(descriptors[0] + 1, &set, NULL, NULL, &time);
}

static int wait_nanosleep(void)
{
	const struct timespec time = { .tv_nsec = WAIT_MS * 1000000L };

	return nanosleep(&time, NULL);
}

static int wait_usleep(void)
{
	return usleep(WAIT_MS * 1000);
}

static int wait_absolute(void)
{
	const struct timespec time = after_ms(CLOCK_MONOTONIC, WAIT_MS);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static int wait_semaphore(void)
{
	const struct timespec time = after_ms(CLOCK_REALTIME, WAIT_MS);

	return sem_timedwait(&semaphore, &time) == 0 || errno != ETIMEDOUT ? -1 : 0;
}

static int wait_condition(void)
{
	const struct timespec time = after_ms(CLOCK_REALTIME, WAIT_MS);

	pthread_mutex_lock(&mutex);
	errno = pthread_cond_timedwait(&condition, &mutex, &time);
	pthread_mutex_unlock(&mutex);
	return errno == ETIMEDOUT ? 0 : -1;
}

static int wait_signal(void)
{
	const struct timespec time = { .tv_nsec = WAIT_MS * 1000000L };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &time) < 0 && errno == EAGAIN ? 0 : -1;
}

/* A receive with a time limit, which the kernel ends with EINTR and not by beginning anew. */
static int wait_receive(void)
{
	const struct timeval time = { .tv_usec = WAIT_MS * 1000 };
	int pair[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0)
		return -1;
	const ssize_t got = recv(pair[0], &byte, 1, 0);
	const int number = errno;
	close(pair[0]);
	close(pair[1]);
	errno = number;
	return got < 0 && number == EAGAIN ? 0 : -1;
}

static int wait_child(void)
{
	const pid_t child = fork();

	if (child == 0) {
		usleep(WAIT_MS * 1000);
		_exit(0);
	}
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

static void *take_messages(void *ignored)
{
	struct {
		long type;
		char text[8];
	} message;

	(void)ignored;
	while (msgrcv(queue, &message, sizeof message.text, 0, 0) < 0) {
		if (errno != EINTR || !may_be_interrupted)
			fault("msgrcv");
	}
	return NULL;
}

static const struct wait {
	const char *name;
	int (*wait)(void); /* 0 when its time has passed */
} waits[] = {
	{ "epoll_wait", wait_epoll },
	{ "poll", wait_poll },
	{ "ppoll", wait_ppoll },
	{ "select", wait_select },
	{ "nanosleep", wait_nanosleep },
	{ "usleep", wait_usleep },
	{ "clock_nanosleep", wait_absolute },
	{ "sem_timedwait", wait_semaphore },
	{ "pthread_cond_timedwait", wait_condition },
	{ "sigtimedwait", wait_signal },
	{ "recv", wait_receive },
	{ "waitpid", wait_child },
};

static void *run_wait(void *argument)
{
	const struct wait *const wait = argument;

	while (!atomic_load(&is_ending)) {
		const int64_t begun_ms = now_ms();
		errno = 0;
		if (wait->wait() != 0) {
			if (errno != EINTR || !may_be_interrupted)
				fault(wait->name);
			continue;
		}
		const int64_t took_ms = now_ms() - begun_ms;
		/*
		 * recv's time limit counts ticks, which a virtual machine may get late and then
		 * several at once. A wait that was cut off ends at any time.
		 */
		if (took_ms < WAIT_MS / 2 || took_ms > LATE_MS) {
			printf("took %lld ms\n", (long long)took_ms);
			fault(wait->name);
		}
		atomic_fetch_add(&rounds, 1);
	}
	return NULL;
}

/* --- Blocks and registers --- */

static void sleep_while_paused(void)
{
	while (atomic_load(&is_paused))
		usleep(WAIT_MS * 1000);
}

static void fill(unsigned char *block, size_t size, unsigned char value)
{
	memset(block, value, size);
}

static void check(const unsigned char *block, size_t size, unsigned char value)
{
	for (size_t i = 0; i < size; i++) {
		if (block[i] != value)
			fault("a block has changed");
	}
}

static void *storm(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	unsigned char *blocks[BLOCKS] = { 0 };
	size_t sizes[BLOCKS] = { 0 };

	while (!atomic_load(&is_ending)) {
		const size_t at = (size_t)rand_r(&seed) % BLOCKS;
		const unsigned char value = (unsigned char)at;
		sleep_while_paused();
		if (blocks[at] != NULL)
			check(blocks[at], sizes[at], value);
		if (rand_r(&seed) % 4 == 0) {
			free(blocks[at]);
			blocks[at] = NULL;
			continue;
		}
		sizes[at] = (size_t)rand_r(&seed) % 3000 + 1;
		blocks[at] = realloc(blocks[at], sizes[at]);
		if (blocks[at] == NULL)
			fault("realloc");
		fill(blocks[at], sizes[at], value);
		atomic_fetch_add(&rounds, 1);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

/* Sums that are in registers of each kind the whole time: integers, SSE, x87, flags. */
static void *calculate(void *ignored)
{
	(void)ignored;
	while (!atomic_load(&is_ending)) {
		uint64_t number = 1;
		double real = 1;
		long double extended = 1;
		sleep_while_paused();
		for (int i = 0; i < 2000000; i++) {
			number = number * 6364136223846793005u + 1442695040888963407u;
			real = real * 0.5 + 1;
			extended = extended * 0.5L + 1;
		}
		static uint64_t expected;
		if (expected == 0)
			expected = number;
		if (number != expected || real != 2.0 || extended < 1.9999L || extended > 2.0L)
			fault("a register has changed");
		atomic_fetch_add(&rounds, 1);
	}
	return NULL;
}

static void *end_at_once(void *ignored)
{
	free(malloc(1000));
	return ignored;
}

static void *create_threads(void *ignored)
{
	pthread_t threads[8];

	for (;;) {
		size_t count = 0;
		while (count < 8 && pthread_create(&threads[count], NULL, end_at_once, NULL) == 0)
			count++;
		while (count > 0)
			pthread_join(threads[--count], NULL);
	}
	return ignored;
}

int main(int argc, char **argv)
{
	const long storms = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	const size_t wait_count = sizeof waits / sizeof *waits;
	struct {
		long type;
		char text[8];
	} message = { 1, "e" };
	pthread_t thread;
	sigset_t set;
	char byte;

	may_be_interrupted = argc > 2;
	if (argc > 2 && strcmp(argv[2], "creating") == 0) {
		puts("ready");
		fflush(stdout);
		for (long i = 1; i < storms; i++)
			pthread_create(&thread, NULL, create_threads, NULL);
		create_threads(NULL);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	/*
	 * While the main thread is traced, the kernel wakes a thread for one although it is
	 * ignored, which docs/attach.md says.
	 */
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	instance = epoll_create1(0);
	queue = msgget(IPC_PRIVATE, 0600);
	if (instance < 0 || queue < 0 || pipe(descriptors) != 0 || sem_init(&semaphore, 0, 0) != 0)
		fault("set-up");
	for (size_t i = 0; i < wait_count; i++)
		pthread_create(&thread, NULL, run_wait, (void *)(uintptr_t)&waits[i]);
	for (long i = 0; i < storms; i++)
		pthread_create(&thread, NULL, storm, (void *)(uintptr_t)(i + 1));
	pthread_create(&thread, NULL, calculate, NULL);
	pthread_t taker;
	pthread_create(&taker, NULL, take_messages, NULL);
	puts("ready");
	fflush(stdout);
	ssize_t got;
	while ((got = read(STDIN_FILENO, &byte, 1)) == 1 && (byte == 'p' || byte == 'c'))
		atomic_store(&is_paused, byte == 'p');
	if (got < 0)
		fault("read");
	if (msgsnd(queue, &message, sizeof message.text, 0) != 0)
		fault("msgsnd");
	pthread_join(taker, NULL);
	msgctl(queue, IPC_RMID, NULL);
	atomic_store(&is_ending, true);
	printf("ok %ld\n", atomic_load(&rounds));
	fflush(stdout);
	_exit(0);
}
