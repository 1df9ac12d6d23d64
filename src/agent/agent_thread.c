/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_thread.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "agent/on_demand.h"
#include "agent/thread.h"
#include "agent/thread_names.h"
#include "agent/stacks.h"
#include "base/clock.h"
#include "base/memory.h"

struct agent_state agent_state = {
	.lifetime = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

void agent_thread_init(void)
{
	clock_condition_init(&agent_state.changed);
}

static struct agent *make_agent(bool is_child)
{
	struct agent *const agent = memory_resize(&memory_private, NULL, 0, sizeof *agent);
	const struct service_options options = { .allocator = &agent_state.allocator,
		.memory = &memory_private,
		.settings = &agent_state.options.settings,
		.log = &agent_state.options.log,
		.name = agent_state.options.name,
		.activation = &agent_state.activation,
		.lock = &agent_state.lock,
		.with_socket = agent_state.options.with_socket,
		.is_preloaded = agent_state.own_files,
		.is_child = is_child,
		.ends_when_idle = agent_state.options.mode == AGENT_ON_DEMAND,
		.wake_signal = agent_state.own_files ? on_demand_signal() : 0,
		.own_thread = agent_state.options.mode != AGENT_EMBEDDED };

	if (agent == NULL)
		return NULL;
	agent->is_child = is_child;
	service_init(&agent->service, &options);
	return agent;
}

void agent_thread_free(struct agent *agent)
{
	service_deinit(&agent->service);
	memory_resize(&memory_private, agent, sizeof *agent, 0);
}

static void serve(struct agent *agent)
{
	struct pollfd fds[SERVICE_POLL_MAX];

	while (!atomic_load(&agent->stopping)) {
		size_t count = 0;
		const int ready = service_poll(
			&agent->service, fds, &count, service_timeout_ms(&agent->service));
		if (ready < 0 && errno != EINTR && errno != ENOMEM && errno != EAGAIN)
			return;
		if (!service_step(&agent->service, fds, count))
			return;
	}
}

/* After a fork most children exec or exit at once; in those the agent should never appear. */
static void delay_after_fork(struct agent *agent)
{
	if (agent->is_child)
		poll(NULL, 0, SERVICE_CHECK_1_MS);
}

/*
 * Gives the thread its own descriptors, if the agent was preloaded: calls of
 * heapctl.h by other threads share descriptors with this one.
 *
 * False when the process entered a sandbox before the thread ran for the first time: /proc, which
 * was there, is gone, and the agent can no longer find out which sandbox it is in.
 */
MUST_CHECK static bool leave_program_files(struct agent *agent)
{
	struct log log = agent_state.options.log;

	log_detach_stderr(&log);
	if (!agent_state.own_files || !descriptor_unshare())
		return true;
	pthread_mutex_lock(&agent_state.lock);
	agent_state.options.log = log;
	pthread_mutex_unlock(&agent_state.lock);
	agent->service.has_own_files = true;
	atomic_store(&agent_state.has_own_files, true);
	return sandbox_check_open(&agent->service.sandbox) || !agent->had_proc;
}

static void listen_at_start(struct agent *agent)
{
	if (!agent->is_child && !agent->service.has_folder)
		service_listen_or_log(&agent->service);
	pthread_mutex_lock(&agent_state.lock);
	agent_state.has_tried_to_listen = true;
	pthread_cond_broadcast(&agent_state.changed);
	pthread_mutex_unlock(&agent_state.lock);
}

void agent_thread_give_back(void)
{
	on_demand_hide();
	allocator_release(&agent_state.allocator);
	stacks_give_back(&agent_state.allocator);
	if (agent_state.give_back != NULL)
		agent_state.give_back();
	atomic_store(&agent_state.started, false);
}

/*
 * Also where an attached agent ends without a request, because it must not follow the process into
 * a sandbox: nothing else could take out what it has changed, and another attach begins anew.
 */
static void leave_program(struct agent *agent)
{
	const bool is_alone =
		agent_state.options.settings.attached && !atomic_load(&agent->stopping);

	if (!agent->service.core.is_detaching && !is_alone)
		return;
	service_end_run(&agent->service);
	agent_thread_give_back();
}

static void *thread_main(void *argument)
{
	struct agent *const agent = argument;

	thread_names_set(THREAD_NAME_AGENT);
	thread_leave_real_time();
	stacks_learn_thread();
	/* At once: a sandboxed child may soon have another root, without /proc. */
	if (leave_program_files(agent)) {
		delay_after_fork(agent);
		service_open_wake(&agent->service);
		listen_at_start(agent);
		serve(agent);
	}
	if (agent->service.is_last)
		main_thread_end_process(agent->service.main_thread.status);
	leave_program(agent);

	pthread_mutex_lock(&agent_state.lock);
	agent_state.agent = NULL;
	pthread_mutex_unlock(&agent_state.lock);
	agent_thread_free(agent);
	pthread_mutex_lock(&agent_state.lock);
	agent_state.has_thread = false;
	pthread_cond_broadcast(&agent_state.changed);
	pthread_mutex_unlock(&agent_state.lock);
	return NULL;
}

void agent_thread_publish(struct agent *agent, bool has_thread)
{
	pthread_mutex_lock(&agent_state.lock);
	agent_state.agent = agent;
	agent_state.has_thread = has_thread;
	agent_state.has_tried_to_listen = false;
	pthread_mutex_unlock(&agent_state.lock);
}

/*
 * Waits until a thread that is ending has left this code: then the object may be
 * unloaded. Under `lifetime`, without a thread.
 */
static void join_thread(void)
{
	if (agent_state.is_joinable)
		pthread_join(agent_state.thread, NULL);
	agent_state.is_joinable = false;
}

/* Does nothing in embedded mode. Returns an errno. */
static int make_thread(struct agent *agent)
{
	if (agent_state.options.mode == AGENT_EMBEDDED)
		return 0;
	join_thread();
	if (!main_thread_allow_agent())
		return EAGAIN;
	const int errnum =
		thread_start(&agent_state.thread, thread_main, agent, agent_state.stack_bytes);
	agent_state.is_joinable = errnum == 0;
	return errnum;
}

bool agent_thread_begin(bool is_child, struct error *err)
{
	if (agent_state.has_inherited_files) {
		embedded_close_inherited();
		descriptor_close_inherited();
	}
	agent_state.has_inherited_files = false;
	atomic_store(&agent_state.has_own_files, false);
	struct agent *const agent = make_agent(is_child);
	if (agent == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for the agent");
	if (agent_state.options.need_socket && !is_child && !service_listen(&agent->service, err)) {
		agent_thread_free(agent);
		return false;
	}
	agent->had_proc = agent_state.own_files && sandbox_check_can_open();
	agent_thread_publish(agent, agent_state.options.mode != AGENT_EMBEDDED);
	const int errnum = make_thread(agent);
	if (errnum == 0)
		return true;
	agent_thread_publish(NULL, false);
	agent_thread_free(agent);
	error_system(err, errnum, "starting the agent's thread");
	if (errnum == EAGAIN)
		return error_hint(err, "raise its limit of threads or memory (RLIMIT_NPROC, "
				       "pids.max, RLIMIT_AS)");
	return false;
}

enum {
	CONNECT_AGAIN_MS = 10,
	CONNECTS_MAX = 200,
};

/* Waits for the end of the thread; under the lock. */
static bool wait_for_end(int64_t wait_ms)
{
	const struct timespec until = clock_timespec(clock_monotonic_ms() + wait_ms);

	while (agent_state.has_thread) {
		if (pthread_cond_timedwait(&agent_state.changed, &agent_state.lock, &until) != 0)
			return !agent_state.has_thread;
	}
	return true;
}

bool agent_thread_wait_for_socket(int wait_ms)
{
	const struct timespec until = clock_timespec(clock_monotonic_ms() + wait_ms);

	pthread_mutex_lock(&agent_state.lock);
	while (agent_state.has_thread && !agent_state.has_tried_to_listen &&
		pthread_cond_timedwait(&agent_state.changed, &agent_state.lock, &until) == 0)
		continue;
	const bool has_tried = agent_state.has_tried_to_listen;
	pthread_mutex_unlock(&agent_state.lock);
	return has_tried;
}

/*
 * Ends the thread, which shares no descriptor with this one: a signal that it blocks and polls, or
 * a connection to its socket, wakes it. A new thread may not poll either yet; another may be
 * dumping.
 */
bool agent_thread_end_with_own_files(struct error *err)
{
	bool ended = false;

	pthread_mutex_lock(&agent_state.lock);
	if (agent_state.agent != NULL)
		atomic_store(&agent_state.agent->stopping, true);
	for (int i = 0; !ended && i < CONNECTS_MAX; i++) {
		if (agent_state.has_thread)
			pthread_kill(agent_state.thread, on_demand_signal());
		const bool connected =
			agent_state.agent == NULL ||
			listener_connect_self(&agent_state.agent->service.listener, err);
		ended = wait_for_end(CONNECT_AGAIN_MS) || (connected && wait_for_end(1000));
	}
	if (!ended && agent_state.agent != NULL)
		atomic_store(&agent_state.agent->stopping, false);
	pthread_mutex_unlock(&agent_state.lock);
	if (ended)
		join_thread();
	return ended || error_set(err, ERROR_STATE, "its thread is busy");
}

void agent_thread_end(void)
{
	pthread_mutex_lock(&agent_state.lock);
	if (agent_state.agent != NULL) {
		atomic_store(&agent_state.agent->stopping, true);
		service_wake(&agent_state.agent->service);
	}
	while (agent_state.has_thread)
		pthread_cond_wait(&agent_state.changed, &agent_state.lock);
	pthread_mutex_unlock(&agent_state.lock);
	join_thread();
}

unsigned agent_thread_count(void)
{
	if (process_mark_is_new_child())
		return 0;
	pthread_mutex_lock(&agent_state.lock);
	const unsigned count = agent_state.has_thread;
	pthread_mutex_unlock(&agent_state.lock);
	return count;
}
