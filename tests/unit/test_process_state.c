/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/process.h"
#include "unit.h"

/* Starts a process that waits for the kernel (D) as the parent of children of vfork(). */
static pid_t start_parent(struct timespec life_of_child)
{
	if (unit_is_emulated())
		skip_because(
			"the emulator's vfork is a fork, during which the parent does not wait");

	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		const pid_t child = vfork();
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			nanosleep(&life_of_child, NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static bool explain(pid_t pid, struct error *err)
{
	struct process process;

	if (!process_read(pid, &process, err))
		fail_msg("%s", err->message);
	return process_explain_silence(&(struct process_watch){ .process = &process }, err);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void one_long_wait_is_the_reason_for_silence(void **state)
{
	struct error err = { 0 };

	(void)state;
	const pid_t pid = start_parent((struct timespec){ .tv_sec = 60 });
	/* Before it is in vfork() its state may be another one. */
	for (int i = 0; i < 100 && explain(pid, &err); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	end(pid);
	assert_non_null(strstr(err.message, "waits for the kernel (D)"));
}

static void many_short_waits_are_not(void **state)
{
	struct error err = { 0 };

	(void)state;
	const pid_t pid = start_parent((struct timespec){ .tv_nsec = 130000000 });
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(explain(pid, &err));
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_long_wait_is_the_reason_for_silence),
		cmocka_unit_test(many_short_waits_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
