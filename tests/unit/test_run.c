/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run.h"

#include <string.h>

#include "unit.h"

static enum run_action step_at(struct run_machine *machine, enum run_event event, int64_t now_ms)
{
	const struct run_input input = {
		.event = event, .now_ms = now_ms, .wall_ms = 1000000 + now_ms, .duration_ms = 5000
	};

	return run_step(machine, &input);
}

static void begin(struct run_machine *machine, int64_t now_ms)
{
	assert_int_equal(step_at(machine, RUN_EVENT_START, now_ms), RUN_ACTION_BEGIN);
	assert_int_equal(step_at(machine, RUN_EVENT_BEGUN, now_ms), RUN_ACTION_NONE);
}

static void ends_at_its_deadline(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 0);
	assert_int_equal(run_wait_ms(&machine, 100), -1);
	begin(&machine, 100);
	assert_int_equal(machine.run.id, 1000100);
	assert_int_equal(run_wait_ms(&machine, 100), 5000);
	assert_int_equal(step_at(&machine, RUN_EVENT_TICK, 5099), RUN_ACTION_NONE);
	assert_int_equal(run_wait_ms(&machine, 5099), 1);
	assert_int_equal(step_at(&machine, RUN_EVENT_TICK, 5100), RUN_ACTION_FINISH);
	assert_int_equal(run_wait_ms(&machine, 9000), 0);
	step_at(&machine, RUN_EVENT_ENDED, 5200);
	assert_int_equal(machine.run.state, RUN_FINISHED);
	assert_int_equal(machine.run.ended_by, RUN_END_DEADLINE);
	assert_int_equal(machine.run.ended_ms, 1005200);
	assert_int_equal(run_wait_ms(&machine, 9000), -1);
	assert_int_equal(step_at(&machine, RUN_EVENT_TICK, 99999), RUN_ACTION_NONE);
}

static void stop_ends_it_early_and_only_when_it_is_on(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 0);
	assert_int_equal(step_at(&machine, RUN_EVENT_STOP, 0), RUN_ACTION_REFUSE);
	begin(&machine, 0);
	assert_int_equal(step_at(&machine, RUN_EVENT_STOP, 10), RUN_ACTION_FINISH);
	step_at(&machine, RUN_EVENT_ENDED, 11);
	assert_int_equal(machine.run.ended_by, RUN_END_STOP);
	assert_int_equal(step_at(&machine, RUN_EVENT_STOP, 12), RUN_ACTION_REFUSE);
}

static void a_second_start_finds_the_first(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 0);
	begin(&machine, 0);
	const int64_t id = machine.run.id;
	assert_int_equal(step_at(&machine, RUN_EVENT_START, 10), RUN_ACTION_ALREADY);
	assert_int_equal(machine.run.id, id);
	assert_int_equal(run_wait_ms(&machine, 10), 4990);
}

static void ids_increase_when_the_clock_does_not(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 2000000);
	begin(&machine, 0);
	assert_int_equal(machine.run.id, 2000001);
	step_at(&machine, RUN_EVENT_STOP, 1);
	step_at(&machine, RUN_EVENT_ENDED, 1);
	begin(&machine, 1);
	assert_int_equal(machine.run.id, 2000002);
}

static void a_beginning_that_fails_leaves_no_run(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 0);
	step_at(&machine, RUN_EVENT_START, 0);
	step_at(&machine, RUN_EVENT_BEGIN_FAILED, 1);
	assert_int_equal(machine.state, RUN_IDLE);
	assert_int_equal(run_wait_ms(&machine, 1), -1);
	begin(&machine, 0);
	assert_int_equal(machine.run.id, 1000001);
}

static void counts_gaps_once_each_and_resets(void **state)
{
	(void)state;
	struct run_machine machine;
	run_machine_init(&machine, 0);
	step_at(&machine, RUN_EVENT_RESET, 0);
	begin(&machine, 0);
	step_at(&machine, RUN_EVENT_SAMPLING_ON, 1);
	step_at(&machine, RUN_EVENT_SAMPLING_OFF, 2);
	step_at(&machine, RUN_EVENT_SAMPLING_OFF, 3);
	step_at(&machine, RUN_EVENT_SAMPLING_ON, 4);
	step_at(&machine, RUN_EVENT_SAMPLING_OFF, 5);
	step_at(&machine, RUN_EVENT_RESET, 6);
	assert_int_equal(machine.run.sampling_gaps, 2);
	assert_int_equal(machine.run.resets, 1);
}

static void an_end_that_fails_says_why(void **state)
{
	(void)state;
	struct run_machine machine;
	const struct run_input failed = {
		.event = RUN_EVENT_END_FAILED, .wall_ms = 7, .error = "disk on fire"
	};
	run_machine_init(&machine, 0);
	begin(&machine, 0);
	step_at(&machine, RUN_EVENT_TICK, 5000);
	run_step(&machine, &failed);
	assert_int_equal(machine.run.state, RUN_FAILED);
	assert_string_equal(machine.run.error, "disk on fire");
	assert_int_equal(machine.state, RUN_IDLE);
}

static void records_read_back(void **state)
{
	(void)state;
	struct run run = { .id = 1763716881123,
		.pid = 4711,
		.state = RUN_FINISHED,
		.ended_by = RUN_END_STOP,
		.started_ms = 1,
		.ended_ms = 2,
		.duration_ms = 3,
		.lg_sample = 19,
		.sampling_gaps = 4,
		.resets = 5,
		.start_bytes = 6,
		.profile_bytes = UINT64_MAX };
	struct run again;
	struct buffer text, text_again;
	strcpy(run.version, "5.3.0-0-g54 eaed");
	strcpy(run.error, "two\nlines");
	buffer_init(&text, &memory_heap);
	run_record_write(&text, &run);
	assert_true(run_record_read(text.data, text.size, &again));
	assert_string_equal(again.error, "two lines");
	buffer_init(&text_again, &memory_heap);
	run_record_write(&text_again, &again);
	assert_string_equal(buffer_string(&text_again), buffer_string(&text));
	buffer_deinit(&text_again);
	/* A record cut anywhere is none, or one without its last lines. */
	for (size_t size = 0; size < text.size; size++) {
		if (run_record_read(text.data, size, &again))
			assert_int_equal(again.id, run.id);
	}
	buffer_deinit(&text);
}

static void refuses_what_is_no_record(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "\n", "id 1\n", "id 1\nstate 0\n",
		"id 1\nstate 9\n", "id x\nstate 1\n", "id -1\nstate 1\n", "id 1\nstate 1",
		"id 99999999999999999999\nstate 1\n", "id 1\nstate 1\npid 4294967296\n" };
	struct run run;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (run_record_read(cases[i], strlen(cases[i]), &run))
			fail_msg("'%s' was accepted", cases[i]);
	}
	const char unknown[] = "id 1\nfuture thing\nlone\nstate 1\n";
	assert_true(run_record_read(unknown, strlen(unknown), &run));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(ends_at_its_deadline),
	cmocka_unit_test(stop_ends_it_early_and_only_when_it_is_on),
	cmocka_unit_test(a_second_start_finds_the_first),
	cmocka_unit_test(ids_increase_when_the_clock_does_not),
	cmocka_unit_test(a_beginning_that_fails_leaves_no_run),
	cmocka_unit_test(counts_gaps_once_each_and_resets),
	cmocka_unit_test(an_end_that_fails_says_why),
	cmocka_unit_test(records_read_back),
	cmocka_unit_test(refuses_what_is_no_record),
};
UNIT_MAIN(tests)
