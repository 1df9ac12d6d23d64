/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "unit.h"

/* The worker is this program itself: it copies its inputs to its output. */
static int work(void)
{
	static const int inputs[] = { STDIN_FILENO, WORKER_FIRST_FD, WORKER_FIRST_FD + 1 };
	char text[64];

	for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
		const ssize_t size = pread(inputs[i], text, sizeof text, 0);
		if (size < 0 || write(STDOUT_FILENO, text, (size_t)size) != size)
			return 1;
	}
	return write(STDERR_FILENO, "done\n", 5) == 5 ? 0 : 1;
}

static struct blob *make_input(const char *text)
{
	struct blob *blob = NULL;
	struct error err = { 0 };
	int fd = -1;

	assert_true(blob_open_scratch(&fd, &err));
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_true(blob_take_fd(fd, &blob, &err));
	return blob;
}

static void check_one(struct worker_pool *pool)
{
	static const char *const arguments[] = { NULL };
	CLEANUP(blob_cleanup) struct blob *first = make_input("first, ");
	CLEANUP(blob_cleanup) struct blob *second = make_input("second");
	CLEANUP(blob_cleanup) struct blob *output = NULL;
	const struct worker_job job = { .arguments = arguments,
		.inputs = { first, second },
		.standard_input = "standard input, ",
		.standard_input_size = strlen("standard input, ") };
	struct error err = { 0 };

	if (!worker_run(pool, &job, &output, &err))
		fail_msg("%s", err.message);
	assert_int_equal(output->size, strlen("standard input, first, second"));
	assert_memory_equal(output->data, "standard input, first, second", output->size);
}

/* As in a gateway with more and more connections. */
static void whatever_numbers_the_descriptors_have(void **state)
{
	enum { OPEN_MAX_HERE = 90 };
	struct worker_pool pool;
	int others[OPEN_MAX_HERE];

	(void)state;
	worker_pool_init(&pool, 1);
	for (int i = 0; i < OPEN_MAX_HERE; i++) {
		others[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(others[i] >= 0);
		check_one(&pool);
	}
	for (int i = 0; i < OPEN_MAX_HERE; i++)
		close(others[i]);
	worker_pool_deinit(&pool);
}

/* There are as many as the worker's own take, and none to watch it with. */
static void says_that_descriptors_ran_out(void **state)
{
	enum { OTHERS = 20, FREE = 3 };
	static const char *const arguments[] = { NULL };
	const struct worker_job job = { .arguments = arguments, .standard_input = "" };
	CLEANUP(blob_cleanup) struct blob *output = NULL;
	struct error err = { 0 };
	struct rlimit before;
	struct worker_pool pool;
	int others[OTHERS];

	(void)state;
	worker_pool_init(&pool, 1);
	for (int i = 0; i < OTHERS; i++)
		others[i] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	const struct rlimit few = { (rlim_t)others[OTHERS - 1] + 1, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int i = 0; i < FREE; i++)
		close(others[i]);
	const bool done = worker_run(&pool, &job, &output, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	for (int i = FREE; i < OTHERS; i++)
		close(others[i]);
	assert_false(done);
	assert_string_equal(err.message, "watching the worker: Too many open files");
	worker_pool_deinit(&pool);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(whatever_numbers_the_descriptors_have),
	cmocka_unit_test(says_that_descriptors_ran_out),
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "render-worker") == 0)
		return work();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
