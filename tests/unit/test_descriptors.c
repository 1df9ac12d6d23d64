/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child, which has no use for them. */
static int status_of_child_that_closes(int first)
{
	int status = -1;
	const pid_t child = fork();

	if (child == 0) {
		descriptors_close_from(first);
		_exit(is_open(first - 1) && !is_open(first) && !is_open(first + 1) &&
					!is_open(first + 100)
				? 0
				: 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void closes_the_first_and_all_above(void **state)
{
	(void)state;
	enum { FIRST = 60 };
	static const int numbers[] = { FIRST - 1, FIRST, FIRST + 1, FIRST + 100 };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		assert_int_equal(dup2(STDERR_FILENO, numbers[i]), numbers[i]);
	assert_int_equal(status_of_child_that_closes(FIRST), 0);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		assert_true(is_open(numbers[i]));
		close(numbers[i]);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(closes_the_first_and_all_above),
};
UNIT_MAIN(tests)
