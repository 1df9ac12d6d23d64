/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run.h"

#include <stdio.h>
#include <string.h>

void run_machine_init(struct run_machine *machine, int64_t last_id)
{
	*machine = (struct run_machine){ .state = RUN_IDLE, .last_id = last_id };
}

static enum run_action start(struct run_machine *machine, const struct run_input *input)
{
	if (machine->state == RUN_RUNNING)
		return RUN_ACTION_ALREADY;
	machine->last_id =
		input->wall_ms > machine->last_id ? input->wall_ms : machine->last_id + 1;
	machine->run = (struct run){
		.id = machine->last_id,
		.state = RUN_IDLE,
		.started_ms = input->wall_ms,
		.duration_ms = input->duration_ms,
	};
	return RUN_ACTION_BEGIN;
}

static enum run_action begun(struct run_machine *machine, const struct run_input *input)
{
	machine->state = RUN_RUNNING;
	machine->run.state = RUN_RUNNING;
	machine->deadline_ms = input->now_ms + machine->run.duration_ms;
	machine->sampling_seen_off = false;
	return RUN_ACTION_NONE;
}

static enum run_action finish(struct run_machine *machine, enum run_end end)
{
	machine->run.ended_by = end;
	return RUN_ACTION_FINISH;
}

static enum run_action ended(
	struct run_machine *machine, const struct run_input *input, enum run_state state)
{
	machine->state = RUN_IDLE;
	machine->run.state = state;
	machine->run.ended_ms = input->wall_ms;
	if (input->error != NULL)
		snprintf(machine->run.error, sizeof machine->run.error, "%s", input->error);
	return RUN_ACTION_NONE;
}

/* One gap each time that sampling goes from on to off. */
static enum run_action look_at_sampling(struct run_machine *machine, bool is_off)
{
	if (is_off && !machine->sampling_seen_off)
		machine->run.sampling_gaps++;
	machine->sampling_seen_off = is_off;
	return RUN_ACTION_NONE;
}

/* What can only happen while a run is on. */
static enum run_action step_running(struct run_machine *machine, const struct run_input *input)
{
	switch (input->event) {
	case RUN_EVENT_TICK:
		if (input->now_ms < machine->deadline_ms)
			return RUN_ACTION_NONE;
		return finish(machine, RUN_END_DEADLINE);
	case RUN_EVENT_STOP:
		return finish(machine, RUN_END_STOP);
	case RUN_EVENT_ENDED:
		return ended(machine, input, RUN_FINISHED);
	case RUN_EVENT_END_FAILED:
		return ended(machine, input, RUN_FAILED);
	case RUN_EVENT_SAMPLING_ON:
	case RUN_EVENT_SAMPLING_OFF:
		return look_at_sampling(machine, input->event == RUN_EVENT_SAMPLING_OFF);
	case RUN_EVENT_RESET:
		machine->run.resets++;
		return RUN_ACTION_NONE;
	case RUN_EVENT_START:
	case RUN_EVENT_BEGUN:
	case RUN_EVENT_BEGIN_FAILED:
		break;
	}
	return RUN_ACTION_NONE;
}

enum run_action run_step(struct run_machine *machine, const struct run_input *input)
{
	if (input->event == RUN_EVENT_START)
		return start(machine, input);
	if (machine->state == RUN_RUNNING)
		return step_running(machine, input);
	if (input->event == RUN_EVENT_BEGUN)
		return begun(machine, input);
	return input->event == RUN_EVENT_STOP ? RUN_ACTION_REFUSE : RUN_ACTION_NONE;
}

int64_t run_wait_ms(const struct run_machine *machine, int64_t now_ms)
{
	if (machine->state != RUN_RUNNING)
		return -1;
	return machine->deadline_ms > now_ms ? machine->deadline_ms - now_ms : 0;
}

const char *run_state_name(enum run_state state)
{
	static const char *const names[] = {
		[RUN_IDLE] = "idle",
		[RUN_RUNNING] = "running",
		[RUN_FINISHED] = "finished",
		[RUN_FAILED] = "failed",
	};
	return names[state];
}

const char *run_end_name(enum run_end end)
{
	static const char *const names[] = {
		[RUN_END_NONE] = NULL,
		[RUN_END_DEADLINE] = "deadline",
		[RUN_END_STOP] = "stop",
		[RUN_END_EXIT] = "exit",
	};
	return names[end];
}
