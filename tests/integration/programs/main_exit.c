/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose main thread ends by pthread_exit, while another goes on:
 *
 *	main_exit LIFE_MS CODE [FLAGS STARTER]
 *
 * The other thread lives so long and then calls exit(CODE), or, with a CODE of -1, just ends. What
 * main has printed is in a buffer until the process' end, and an exit handler prints a line. Linked
 * with the agent (HOST_LINKED) it starts that with FLAGS, in the thread "main" or "other".
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wait_to_begin.h"

#ifdef HOST_LINKED
#include "heapctl.h"
#endif

static int life_ms, code;
static const char *flags = "0", *starter = "";

static void start_agent(void)
{
#ifdef HOST_LINKED
	const struct heapctl_options options = { .size = sizeof options,
		.flags = (unsigned)atoi(flags) };
	struct heapctl_error error;

	if (heapctl_start(&options, &error) != HEAPCTL_OK)
		printf("%s\n", error.message);
#endif
}

static void at_exit(void)
{
	/* More than the agent's thread has. */
	char stack[1024 * 1024];

	memset(stack, 'x', sizeof stack);
	__asm__ volatile("" ::"r"(stack) : "memory");
	puts("exit handler");
}

static void *live(void *ignored)
{
	const struct timespec life = { .tv_sec = life_ms / 1000,
		.tv_nsec = life_ms % 1000 * 1000000L };

	(void)ignored;
	if (strcmp(starter, "other") == 0)
		start_agent();
	nanosleep(&life, NULL);
	if (code >= 0)
		exit(code);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3 && argc != 5)
		return 2;
	wait_to_begin();
	life_ms = atoi(argv[1]);
	code = atoi(argv[2]);
	if (argc == 5) {
		flags = argv[3];
		starter = argv[4];
	}
	atexit(at_exit);
	if (strcmp(starter, "main") == 0)
		start_agent();
	if (life_ms > 0)
		pthread_create(&thread, NULL, live, NULL);
	puts("main ends");
	pthread_exit(NULL);
}
