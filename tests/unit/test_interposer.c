/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/interposer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loader_use.h"
#include "unit.h"

enum { FORKS = 20 };

static _Atomic bool is_over;

static void *install_and_remove(void *ignored)
{
	while (!atomic_load(&is_over)) {
		interposer_install();
		interposer_remove();
	}
	return ignored;
}

static void forked_child(void)
{
	struct got_figures figures;

	interposer_install();
	interposer_figures(&figures);
	_exit(interposer_is_installed() && figures.slots > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void a_child_that_is_forked_in_the_middle_installs_all(void **state)
{
	struct error err;
	pthread_t thread;
	int status = 0;

	(void)state;
#if IS_SANITIZED
	skip_because("a sanitizer has its own allocator, and sees each call");
#endif
	assert_true(interposer_find(&err));
	assert_int_equal(pthread_create(&thread, NULL, install_and_remove, NULL), 0);
	for (int i = 0; i < FORKS && status == 0; i++) {
		const pid_t child = fork();
		if (child == 0)
			forked_child();
		waitpid(child, &status, 0);
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
}

/* As the agent. */
static int keep_forks_apart(void **state)
{
	(void)state;
	loader_use_open();
	return pthread_atfork(
		loader_use_before_fork, loader_use_after_fork, loader_use_after_fork_in_child);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_child_that_is_forked_in_the_middle_installs_all),
};

UNIT_MAIN_WITH(tests, keep_forks_apart)
