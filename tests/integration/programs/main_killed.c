/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose main thread ends by itself and runs no destructor:
 *
 *	main_killed exit DELAY_MS LIFE_MS       by the system call that ends one thread, status 3
 *	main_killed filter DELAY_MS LIFE_MS     by a seccomp filter that it enters just before
 *	main_killed inherited DELAY_MS LIFE_MS  by a filter that was there before the program
 *
 * That is after DELAY_MS. A LIFE_MS above 0 is the life of another thread, which begins then and
 * prints a line at its end.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wait_to_begin.h"

static void sleep_ms(int ms)
{
	struct timespec rest = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&rest, &rest) != 0)
		continue;
}

static void *live(void *life_ms)
{
	sleep_ms(*(const int *)life_ms);
	if (write(STDOUT_FILENO, "other ends\n", 11) != 11)
		_exit(1);
	return NULL;
}

static void enter_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sync, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = sizeof code / sizeof *code, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	static int life_ms;
	pthread_t thread;

	if (argc != 4)
		return 2;
	wait_to_begin();
	if (strcmp(argv[1], "inherited") == 0) {
		enter_filter();
		argv[1] = "filtered";
		execv(argv[0], argv);
		return 1;
	}
	sleep_ms(atoi(argv[2]));
	life_ms = atoi(argv[3]);
	if (life_ms > 0)
		pthread_create(&thread, NULL, live, &life_ms);
	if (strcmp(argv[1], "exit") == 0)
		syscall(SYS_exit, 3);
	if (strcmp(argv[1], "filter") == 0)
		enter_filter();
	syscall(SYS_sync);
	return 1;
}
