/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/observer.h"

#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cgroup_tree.h"
#include "unit.h"

static void pressure_is_that_of_the_group(void **state)
{
	const struct cgroup_tree *const tree = *state;

	cgroup_tree_put(tree, "/outer/inner", "memory.pressure",
		"some avg10=12.50 avg60=1.00 avg300=0.00 total=7\n"
		"full avg10=3.00 avg60=0.00 avg300=0.00 total=3\n");
	char path[CGROUP_PATH_BYTES];
	cgroup_pressure_path(&tree->group, path);
	assert_non_null(strstr(path, "/outer/inner/memory.pressure"));
	assert_true(cgroup_pressure(path) == 0.125);
	assert_true(isnan(cgroup_pressure("")));
}

static const char machine[] = "/proc/pressure/memory";

/* A stream whose urgent data make poll say POLLPRI, as the kernel's trigger does. */
static int open_stand_in(int *sender)
{
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;

	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	*sender = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(*sender, (struct sockaddr *)&address, size), 0);
	const int receiver = accept(listener, NULL, NULL);
	assert_true(receiver >= 0);
	close(listener);
	return receiver;
}

static void the_kernel_is_reported_share_and_window(void **state)
{
	(void)state;
	char path[] = "/tmp/hc-pressure.XXXXXX", text[64] = "";
	struct pressure pressure = { 0 };
	struct error err;
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_true(pressure_add(&pressure, path, 0.15, &err));
	/* NUL included. */
	assert_int_equal(pread(fd, text, sizeof text, 0), 20);
	assert_string_equal(text, "some 300000 2000000");
	assert_true(pressure_add(&pressure, path, 0.15, &err));
	assert_int_equal(pressure.count, 1);
	pressure_deinit(&pressure);
	close(fd);
	unlink(path);
}

static void what_the_kernel_refuses_is_reported(void **state)
{
	(void)state;
	struct pressure pressure = { 0 };
	struct error err;

	assert_false(pressure_add(&pressure, "/dev/full", 0.1, &err));
	assert_string_equal(err.message, "/dev/full: No space left on device");
	assert_false(pressure_add(&pressure, "/nowhere/memory.pressure", 0.1, &err));
	assert_int_equal(pressure.count, 0);
	/* Without a trigger it only sleeps. */
	pressure_wait(&pressure, -1, 1);
	assert_true(pressure_reported(&pressure, clock_boottime_ms()) == 0);
}

static void a_report_ends_the_wait_and_lasts(void **state)
{
	(void)state;
	struct pressure pressure = { .count = 1 };
	int sender = -1;

	pressure.triggers[0] = (struct pressure_trigger){
		.fd = open_stand_in(&sender), .share = 0.2, .reported_ms = INT64_MIN
	};
	assert_int_equal(send(sender, "!", 1, MSG_OOB), 1);
	for (int i = 0; i < 100 && pressure.triggers[0].reported_ms == INT64_MIN; i++)
		pressure_wait(&pressure, -1, 60000);
	const int64_t at_ms = pressure.triggers[0].reported_ms;
	assert_true(pressure_reported(&pressure, at_ms) == 0.2);
	assert_true(pressure_reported(&pressure, at_ms + PRESSURE_LASTING_MS - 1) == 0.2);
	assert_true(pressure_reported(&pressure, at_ms + PRESSURE_LASTING_MS) == 0);
	pressure_deinit(&pressure);
	close(sender);
}

static void other_events_end_the_wait_too(void **state)
{
	(void)state;
	struct pressure pressure = { 0 };
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	pressure_wait(&pressure, ends[0], 60000);
	close(ends[0]);
	close(ends[1]);
}

static void a_group_that_was_removed_is_not_asked_again(void **state)
{
	(void)state;
	struct pressure pressure = { .count = 1 };
	int ends[2];

	/* The reading end is closed: poll says POLLERR at once. */
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	pressure.triggers[0] =
		(struct pressure_trigger){ .fd = ends[1], .share = 0.2, .reported_ms = INT64_MIN };
	pressure_wait(&pressure, -1, 60000);
	assert_int_equal(pressure.triggers[0].fd, -1);
	assert_true(pressure_reported(&pressure, clock_boottime_ms()) == 0);
	pressure_wait(&pressure, -1, 1);
	pressure_deinit(&pressure);
}

static void the_kernel_of_this_machine_takes_it(void **state)
{
	(void)state;
	struct pressure pressure = { 0 };
	struct error err;

	if (access(machine, W_OK) != 0)
		skip_because("no triggers of memory pressure here");
	if (!pressure_add(&pressure, machine, 0.1, &err))
		fail_msg("%s", err.message);
	/* A share above 1. */
	assert_false(pressure_add(&pressure, machine, 1.5, &err));
	pressure_deinit(&pressure);
}

static const struct CMUnitTest tests[] = {
	CGROUP_TREE_TEST(pressure_is_that_of_the_group),
	cmocka_unit_test(the_kernel_is_reported_share_and_window),
	cmocka_unit_test(what_the_kernel_refuses_is_reported),
	cmocka_unit_test(a_report_ends_the_wait_and_lasts),
	cmocka_unit_test(other_events_end_the_wait_too),
	cmocka_unit_test(a_group_that_was_removed_is_not_asked_again),
	cmocka_unit_test(the_kernel_of_this_machine_takes_it),
};

UNIT_MAIN(tests)
