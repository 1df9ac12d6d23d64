/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a plugin that contains the agent, starts and stops the agent and unloads the plugin, so
 * many times. On one processor, beside threads that compute: then the agent's thread is often
 * interrupted just before its end, and must not run code that is gone.
 *
 *	unload PLUGIN COUNT           it must be gone afterwards
 *	unload PLUGIN COUNT sampling  the agent has switched sampling on: it must stay, as a thread
 *	                              that allocates may be in its code
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_THREADS = 3 };

static void *compute(void *ignored)
{
	(void)ignored;
	for (volatile unsigned long i = 0;; i = i + 1)
		continue;
	return NULL;
}

static void make_busy(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	cpu_set_t one;

	sched_getaffinity(0, sizeof one, &one);
	for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
		if (found)
			CPU_CLR(cpu, &one);
		else
			found = CPU_ISSET(cpu, &one);
	}
	sched_setaffinity(0, sizeof one, &one);
	for (int i = 0; i < BUSY_THREADS; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, compute, NULL);
	}
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) != 0)
		fprintf(stderr, "no priority\n");
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4)
		return 2;
	const bool must_stay = argc == 4;
	make_busy();
	for (int i = atoi(argv[2]); i > 0; i--) {
		int (*start_and_stop)(void) = NULL;
		void *const object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (object == NULL) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		const void *const symbol =
			dlsym(object, must_stay ? "sample_and_stop" : "start_and_stop");
		memcpy(&start_and_stop, &symbol, sizeof start_and_stop);
		if (start_and_stop == NULL || start_and_stop() != 0)
			return 1;
		dlclose(object);
		/* The agent's thread runs before the plugin is at the same addresses again. */
		usleep(1000);
		if ((dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL) != must_stay) {
			fprintf(stderr, "the plugin is %s loaded\n",
				must_stay ? "no longer" : "still");
			return 1;
		}
	}
	return 0;
}
