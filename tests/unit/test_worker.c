/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "unit.h"

/* The worker is this program itself: it copies its inputs to its output. */
static int work(void)
{
	static const int inputs[] = { STDIN_FILENO, WORKER_FIRST_FD, WORKER_FIRST_FD + 1 };
	char text[64];

	/* A test that fails leaves none of them behind. */
	if (pread(STDIN_FILENO, text, sizeof text, 0) == 4 && memcmp(text, "hang", 4) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
		const ssize_t size = pread(inputs[i], text, sizeof text, 0);
		if (size < 0 || write(STDOUT_FILENO, text, (size_t)size) != size)
			return 1;
	}
	return write(STDERR_FILENO, "done\n", 5) == 5 ? 0 : 1;
}

/* An emulator does not emulate what is executed in it. */
static void need_workers(void)
{
	if (unit_is_emulated())
		skip_because("the emulator executes no program of its machine");
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
	struct blob *const blobs[] = { first, second };
	static const char *const names[2];
	const struct worker_job job = { .arguments = arguments,
		.inputs = blobs,
		.names = names,
		.input_count = 2,
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
	need_workers();
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

/* There are as many as the worker's own take, and none to watch it with, nor for musl to start it.
 */
static void says_that_descriptors_ran_out(void **state)
{
#ifdef __GLIBC__
	static const char message[] = "watching the worker: Too many open files";
#else
	static const char message[] = "starting a worker: Too many open files";
#endif
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
	assert_string_equal(err.message, message);
	worker_pool_deinit(&pool);
}

static bool run_text_for(struct worker_pool *pool, uid_t owner, struct waiting_clients *clients,
	const char *text, struct blob **output, struct error *err)
{
	static const char *const arguments[] = { NULL };
	CLEANUP(blob_cleanup) struct blob *first = make_input("");
	CLEANUP(blob_cleanup) struct blob *second = make_input("");
	struct blob *const blobs[] = { first, second };
	static const char *const names[2];
	const struct worker_job job = { .owner = owner,
		.clients = clients,
		.arguments = arguments,
		.inputs = blobs,
		.names = names,
		.input_count = 2,
		.standard_input = text,
		.standard_input_size = strlen(text) };

	return worker_run(pool, &job, output, err);
}

static bool run_text(struct worker_pool *pool, uid_t owner, const char *text, struct blob **output,
	struct error *err)
{
	return run_text_for(pool, owner, NULL, text, output, err);
}

static void results_count_until_their_clients_have_them(void **state)
{
	static const char text[] = "twenty bytes of text";
	const uint64_t usual = blob_scratch_budget.limit;
	struct blob *first = NULL, *second = NULL;
	struct error err = { 0 };
	struct worker_pool pool;

	(void)state;
	need_workers();
	worker_pool_init(&pool, 1);
	blob_scratch_budget.limit = 32;
	assert_true(run_text(&pool, 0, text, &first, &err));
	assert_int_equal(blob_scratch_budget.used, 20);
	assert_false(run_text(&pool, 0, text, &second, &err));
	assert_int_equal(err.kind, ERROR_TIMEOUT);
	assert_int_equal(blob_scratch_budget.used, 20);
	blob_drop(first);
	assert_int_equal(blob_scratch_budget.used, 0);
	assert_true(run_text(&pool, 0, text, &second, &err));
	blob_drop(second);
	blob_scratch_budget.limit = usual;
	worker_pool_deinit(&pool);
}

enum { SLOW_USER = 1001, OTHER_USER };

struct hung_job {
	struct worker_pool *pool;
	struct waiting_clients *clients;
	pthread_t thread;
};

static void *run_hung_job(void *context)
{
	struct hung_job *const hung = context;
	struct blob *output = NULL;
	struct error err = { 0 };

	assert_false(run_text_for(hung->pool, SLOW_USER, hung->clients, "hang", &output, &err));
	return NULL;
}

static unsigned taken(struct worker_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	const unsigned count = pool->taken;
	pthread_mutex_unlock(&pool->mutex);
	return count;
}

static void a_user_whose_jobs_hang_delays_no_other(void **state)
{
	enum { JOBS = 5, PLACES = 2 };
	struct hung_job hung[JOBS];
	struct worker_pool pool;
	struct error err = { 0 };
	int cancel[2];

	(void)state;
	need_workers();
	worker_pool_init(&pool, PLACES);
	assert_int_equal(pipe2(cancel, O_CLOEXEC), 0);
	pool.cancel_fd = cancel[0];
	for (size_t i = 0; i < JOBS; i++) {
		hung[i] = (struct hung_job){ .pool = &pool };
		assert_int_equal(pthread_create(&hung[i].thread, NULL, run_hung_job, &hung[i]), 0);
	}
	while (taken(&pool) < PLACES)
		usleep(1000);
	for (int i = 0; i < 3; i++) {
		CLEANUP(blob_cleanup) struct blob *output = NULL;
		if (!run_text(&pool, OTHER_USER, "text", &output, &err))
			fail_msg("%s", err.message);
		assert_int_equal(taken(&pool), PLACES);
	}
	close(cancel[1]);
	for (size_t i = 0; i < JOBS; i++)
		pthread_join(hung[i].thread, NULL);
	close(cancel[0]);
	worker_pool_deinit(&pool);
}

/* Those that run, and those that wait for a slot. */
static void jobs_end_when_their_clients_have_left(void **state)
{
	enum { JOBS = 2 };
	struct waiting_clients clients[JOBS];
	struct hung_job hung[JOBS];
	struct worker_pool pool;
	int ends[JOBS][2];

	(void)state;
	need_workers();
	worker_pool_init(&pool, 1);
	for (size_t i = 0; i < JOBS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
		clients[i] = WAITING_CLIENTS_NONE;
		assert_true(waiting_clients_add(&clients[i], ends[i][0]));
		hung[i] = (struct hung_job){ .pool = &pool, .clients = &clients[i] };
		assert_int_equal(pthread_create(&hung[i].thread, NULL, run_hung_job, &hung[i]), 0);
		while (taken(&pool) < 1)
			usleep(1000);
	}
	for (size_t i = JOBS; i-- > 0;) {
		assert_false(waiting_clients_have_left(&clients[i]));
		close(ends[i][1]);
		pthread_join(hung[i].thread, NULL);
		assert_false(waiting_clients_add(&clients[i], -1));
		assert_int_equal(taken(&pool), i);
		close(ends[i][0]);
		waiting_clients_deinit(&clients[i]);
	}
	worker_pool_deinit(&pool);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(whatever_numbers_the_descriptors_have),
	cmocka_unit_test(says_that_descriptors_ran_out),
	cmocka_unit_test(results_count_until_their_clients_have_them),
	cmocka_unit_test(a_user_whose_jobs_hang_delays_no_other),
	cmocka_unit_test(jobs_end_when_their_clients_have_left),
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "render-worker") == 0)
		return work();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
