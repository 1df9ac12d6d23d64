/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { SIZE = 65536, TOUCHED = 40960 };

static void read_a_cut_file(int fd, int messages)
{
	dup2(messages, STDERR_FILENO);
	input_guard_install();
	const char *const data = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED || ftruncate(fd, 4096) != 0)
		_exit(2);
	_exit(((const volatile char *)data)[TOUCHED] == 0 ? 3 : 4);
}

static void names_the_file_that_was_cut(void **state)
{
	(void)state;
	char path[] = "/tmp/heapctl-bus-XXXXXX";
	char text[1024] = "";
	char wanted[128];
	int pipe_fds[2];
	int status = 0;
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(pipe(pipe_fds), 0);
	const pid_t child = fork();
	if (child == 0)
		read_a_cut_file(fd, pipe_fds[1]);
	close(pipe_fds[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(read(pipe_fds[0], text, sizeof text - 1) >= 0);
	close(pipe_fds[0]);
	close(fd);
	unlink(path);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	snprintf(wanted, sizeof wanted, "%s: byte %d: the file was cut short", path, TOUCHED);
	assert_contains(text, wanted);
}

static void leaves_other_bus_errors_alone(void **state)
{
	(void)state;
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		input_guard_install();
		raise(SIGBUS);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(names_the_file_that_was_cut),
	cmocka_unit_test(leaves_other_bus_errors_alone),
};
UNIT_MAIN(tests)
