/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/capture.h"
#include "agent/folder.h"
#include "agent/on_demand.h"
#include "agent/service.h"
#include "agent/stacks.h"
#include "agent/thread.h"
#include "base/clock.h"
#include "base/loader_use.h"
#include "sampler/sampler.h"
#include "sampler/sampler_operations.h"

/* Short: at a dlopen the thread may wait for the caller. */
enum { SOCKET_WAIT_MS = 200 };

/* The child has no run that would end the sampling. */
static void end_inherited_run(void)
{
	struct error ignored;

	if (atomic_load(&agent_state.activation.cause) != CORE_CAUSE_RUN)
		return;
	if (allocator_active_set(&agent_state.allocator, false, NULL, &ignored))
		atomic_store(&agent_state.activation.cause, CORE_CAUSE_NONE);
}

/*
 * Makes no system call, except for SETTINGS_CHILDREN_THREAD: most children exec or exit at once and
 * some are in a sandbox that would kill them. Without a thread an agent starts on a client's
 * signal, or when the child calls heapctl.h.
 */
static void begin_in_child(bool had_agent)
{
	struct error ignored;

	main_thread_reset();
	agent_state.is_child = true;
	end_inherited_run();
	agent_state.options.need_socket = false;
	agent_state.started = agent_state.children != SETTINGS_CHILDREN_NO;
	if (!agent_state.started || agent_state.options.mode != AGENT_THREAD)
		return;
	if (agent_state.children == SETTINGS_CHILDREN_ON_DEMAND)
		agent_state.options.mode = AGENT_ON_DEMAND;
	else if (had_agent && !agent_thread_begin(true, &ignored))
		agent_state.started = false;
}

/*
 * In a new child, before anything here is used. The parent's agent is gone; so are its threads,
 * which may have held the locks.
 */
static void init_child(void)
{
	if (!process_mark_begin_child())
		return;
	const bool had_agent = agent_state.agent != NULL;
	pthread_mutex_init(&agent_state.lifetime, NULL);
	pthread_mutex_init(&agent_state.lock, NULL);
	agent_thread_init();
	if (had_agent && atomic_load(&agent_state.has_own_files))
		descriptor_forget_inherited();
	else
		agent_state.has_inherited_files = true;
	agent_state.agent = NULL;
	agent_state.has_thread = false;
	agent_state.is_joinable = false;
	if (agent_state.started)
		begin_in_child(had_agent);
	process_mark_end_child();
}

/* Whether marking the child is not enough. */
FORK_HANDLER static bool must_init_child_at_fork(void)
{
	return agent_state.started &&
	       (agent_state.children == SETTINGS_CHILDREN_THREAD ||
		       atomic_load(&agent_state.activation.cause) == CORE_CAUSE_RUN);
}

/*
 * In the child, where this thread is the only one. Each page that the child reads code from, or
 * writes to, costs it a page fault: so the handler and its callees lie together (FORK_HANDLER),
 * call nothing of the C library and write to one page.
 */
FORK_HANDLER static void after_fork_in_child(void)
{
	process_mark_set_new_child();
	loader_use_after_fork_in_child();
	main_thread_note_child();
	stacks_after_fork();
	sampler_after_fork();
	if (!must_init_child_at_fork())
		return;
	const int errnum = errno;
	init_child();
	errno = errnum;
}

/* Sampling may be on already; the compiler's unwinder may end the process at the next sample. */
static void prepare_stacks(void)
{
	struct error ignored;

	if (!agent_state.allocator.profiling.active_at_start ||
		agent_state.options.settings.jemalloc_stacks ||
		allocator_has_other_sampler(&agent_state.allocator))
		return;
	if (!stacks_take_over(&agent_state.allocator, &ignored)) {
		/* status says by what stacks are walked. */
	}
}

/* heapctl's sampler is on from the start if `heapctl run --activate` requests it. */
static void activate_at_start(void)
{
	struct error err;

	if (!agent_state.options.settings.activate ||
		!allocator_has_other_sampler(&agent_state.allocator))
		return;
	if (!stacks_take_over(&agent_state.allocator, &err) ||
		!allocator_active_set(&agent_state.allocator, true, NULL, &err)) {
		log_error(&agent_state.options.log, LOG_WARNING, "sampling", &err);
		return;
	}
	agent_state.allocator.profiling.active_at_start = true;
	atomic_store(&agent_state.activation.cause, CORE_CAUSE_START);
	atomic_store(&agent_state.activation.since_ms, clock_realtime_ms());
}

static void offer_sampler(const struct settings *settings)
{
	if (settings->no_sampler)
		return;
	sampler_operations_request_mapped(settings->mapped);
	sampler_operations_offer(
		&agent_state.allocator, settings->lg_sample, settings->with_entries);
}

/* jemalloc registers its own handlers first: in a child it works before this one is called. */
static void prepare(const struct settings *settings)
{
	if (agent_state.prepared) {
		offer_sampler(settings);
		return;
	}
	agent_thread_init();
	process_mark_open();
	loader_use_open();
	pthread_atfork(loader_use_before_fork, loader_use_after_fork, after_fork_in_child);
	/* It asks the loader many times. */
	loader_use_begin();
	stacks_learn_thread();
	allocator_find(&agent_state.allocator);
	offer_sampler(settings);
	agent_state.stack_bytes = thread_stack_bytes();
	capture_learn_program();
	loader_use_end();
	agent_state.prepared = true;
}

static bool is_ours(void)
{
	init_child();
	return agent_state.started && process_mark_is_ours();
}

/* From now on the program calls the agent: the two must share descriptors. */
static bool take_over(const struct agent_options *options, struct error *err)
{
	if (agent_state.own_files && !agent_thread_end_with_own_files(err))
		return error_prefix(err, "taking over the preloaded agent");
	pthread_mutex_lock(&agent_state.lock);
	agent_state.own_files = false;
	/* Another start has to find it started. */
	agent_state.options.preloaded = false;
	agent_state.options.log = options->log;
	agent_state.options.need_socket = options->need_socket;
	pthread_mutex_unlock(&agent_state.lock);
	if (agent_state.options.mode == AGENT_ON_DEMAND || agent_thread_begin(false, err))
		return true;
	agent_state.started = false;
	return false;
}

/* The handler stays: a client may still send the signal. */
static void end_agent(void)
{
	struct error ignored;

	init_child();
	pthread_mutex_lock(&agent_state.lifetime);
	if (is_ours() && agent_state.options.mode != AGENT_EMBEDDED) {
		agent_state.started = false;
		if (!agent_state.own_files)
			agent_thread_end();
		while (agent_state.own_files && !agent_thread_end_with_own_files(&ignored))
			continue;
	}
	pthread_mutex_unlock(&agent_state.lifetime);
}

/*
 * From a signal handler, where the program is in no library; it must not wait for a thread that
 * holds a lock of ours.
 */
static void begin_on_demand(void)
{
	/* The program's callback may not be called in a signal handler. */
	const struct log log = { .to_stderr = agent_state.options.log.to_stderr };
	struct error err;

	if (!is_ours() || pthread_mutex_trylock(&agent_state.lifetime) != 0)
		return;
	if (!agent_state.has_thread && !agent_thread_begin(false, &err))
		log_error(&log, LOG_WARNING, "on demand", &err);
	pthread_mutex_unlock(&agent_state.lifetime);
}

static enum settings_children choose_children(const struct agent_options *options)
{
	if (!options->in_children)
		return SETTINGS_CHILDREN_NO;
	if (options->settings.children != SETTINGS_CHILDREN_DEFAULT)
		return options->settings.children;
	return on_demand_is_possible() ? SETTINGS_CHILDREN_ON_DEMAND : SETTINGS_CHILDREN_THREAD;
}

/* A child inherits the handler. Without a socket only the child's own calls reach its agent. */
static void install_for_children(const struct agent_options *options)
{
	struct error err;

	if (!options->with_socket || on_demand_install(begin_on_demand, &err))
		return;
	log_error(&options->log, LOG_WARNING, "children get a thread at once", &err);
	agent_state.children = SETTINGS_CHILDREN_THREAD;
}

/* Without the agent's core: its thread may have a table of descriptors of its own. */
static bool write_final_profile(const char *path, struct error *err)
{
	static const struct folder none = { 0 };
	const struct core_agent agent = { agent_state.started_ms,
		agent_state.options.settings.attached };
	struct captured_profile capture = CAPTURE_NONE;
	struct held_signals signals;

	held_signals_begin(&signals);
	bool done = capture_take(&agent_state.allocator, &none, &capture, err);
	if (done) {
		core_note_sampling(
			&agent_state.allocator, &agent_state.activation, &agent, &capture);
		done = capture_copy_to_path(&capture.file, path, err);
		capture_release(&capture);
	}
	held_signals_end(&signals);
	return done;
}

void agent_write_final_profile(void)
{
	const struct settings *const settings = &agent_state.options.settings;
	char path[SETTINGS_PATH_MAX + 32];
	struct error err;

	if (settings->final[0] == '\0' || !is_ours() || agent_state.is_child ||
		!allocator_has_other_sampler(&agent_state.allocator))
		return;
	/* As jemalloc names its own. */
	snprintf(path, sizeof path, "%s.%d.0.f.heap", settings->final, getpid());
	if (!write_final_profile(path, &err))
		log_error(&agent_state.options.log, LOG_WARNING, "the profile at the exit", &err);
}

/* At exit() there is no agent any more. */
static void end_with_last_thread(void)
{
	agent_write_final_profile();
	end_agent();
}

static bool start(const struct agent_options *options, struct error *err)
{
	static const struct main_thread_agent threads = { agent_thread_count,
		end_with_last_thread };

	if (is_ours() && agent_state.options.preloaded && !options->preloaded)
		return take_over(options, err);
	if (agent_state.started) {
		error_set(err, ERROR_STATE, "the agent is started already");
		return error_hint(err, "call heapctl_stop before another heapctl_start");
	}
	prepare(&options->settings);
	pthread_mutex_lock(&agent_state.lock);
	agent_state.options = *options;
	agent_state.own_files = options->preloaded;
	pthread_mutex_unlock(&agent_state.lock);
	process_mark_set();
	main_thread_watch(&threads);
	prepare_stacks();
	activate_at_start();
	agent_state.started_ms = clock_realtime_ms();
	agent_state.children = choose_children(options);
	if (options->mode == AGENT_ON_DEMAND && !on_demand_install(begin_on_demand, err))
		return false;
	if (agent_state.children == SETTINGS_CHILDREN_ON_DEMAND && options->mode == AGENT_THREAD)
		install_for_children(options);
	/* In a forked child the loader could read a file that was cut meanwhile. */
	if (agent_state.children == SETTINGS_CHILDREN_THREAD && options->mode == AGENT_THREAD)
		thread_bind_start(agent_state.stack_bytes);
	if (options->mode != AGENT_ON_DEMAND && !agent_thread_begin(false, err))
		return false;
	agent_state.started = true;
	/* A program that a target starts is often one of many, and short-lived. */
	if (options->preloaded && options->mode == AGENT_THREAD &&
		!folder_has_socket_of_parent(&options->settings))
		(void)agent_thread_wait_for_socket(SOCKET_WAIT_MS);
	return true;
}

bool agent_start(const struct agent_options *options, struct error *err)
{
	init_child();
	pthread_mutex_lock(&agent_state.lifetime);
	const bool done = start(options, err);
	pthread_mutex_unlock(&agent_state.lifetime);
	return done;
}

bool agent_is_started(void)
{
	return is_ours();
}

void agent_end_attached(void)
{
	end_agent();
	agent_thread_give_back();
}

static void stop_embedded(void)
{
	struct agent *const agent = agent_state.agent;

	agent_thread_publish(NULL, false);
	if (agent == NULL)
		return;
	embedded_close(&agent->embedded);
	agent_thread_free(agent);
}

void agent_stop(void)
{
	init_child();
	pthread_mutex_lock(&agent_state.lifetime);
	/* The program may not stop a preloaded agent that it never took over. */
	if (is_ours() && !agent_state.own_files) {
		on_demand_remove();
		if (agent_state.options.mode == AGENT_EMBEDDED)
			stop_embedded();
		else
			agent_thread_end();
		agent_thread_give_back();
	}
	pthread_mutex_unlock(&agent_state.lifetime);
}

/*
 * On demand there may be no thread, or one that is just ending because it was unused; and in a
 * child nothing has begun.
 */
static bool ensure_agent(struct error *err)
{
	pthread_mutex_lock(&agent_state.lifetime);
	pthread_mutex_lock(&agent_state.lock);
	while (agent_state.has_thread && agent_state.agent == NULL)
		pthread_cond_wait(&agent_state.changed, &agent_state.lock);
	const bool has_agent = agent_state.agent != NULL;
	pthread_mutex_unlock(&agent_state.lock);
	const bool is_embedded = agent_state.options.mode == AGENT_EMBEDDED;
	const bool done = has_agent || agent_thread_begin(is_embedded && agent_state.is_child, err);
	pthread_mutex_unlock(&agent_state.lifetime);
	return done;
}

/* Whether the program's calls create a missing agent. */
static bool may_begin_on_call(void)
{
	init_child();
	pthread_mutex_lock(&agent_state.lock);
	const bool begins =
		is_ours() && agent_state.options.mode != AGENT_THREAD && !agent_state.own_files;
	pthread_mutex_unlock(&agent_state.lock);
	return begins;
}

static bool try_lock(struct agent_use *use)
{
	held_signals_begin(&use->signals);
	pthread_mutex_lock(&agent_state.lock);
	if (is_ours() && agent_state.agent != NULL && !agent_state.own_files) {
		use->core = &agent_state.agent->service.core;
		use->listener = &agent_state.agent->service.listener;
		core_tick(use->core);
		return true;
	}
	pthread_mutex_unlock(&agent_state.lock);
	held_signals_end(&use->signals);
	return false;
}

bool agent_lock(struct agent_use *use, struct error *err)
{
	/* The thread may have ended before the lock was taken. */
	enum { TRIES = 3 };
	bool begins = true;

	for (int i = 0; begins && i < TRIES; i++) {
		begins = may_begin_on_call();
		if (begins && !ensure_agent(err))
			return false;
		if (try_lock(use))
			return true;
	}
	error_set(err, ERROR_STATE, "there is no agent in this process");
	return error_hint(err, "call heapctl_start first");
}

void agent_unlock(struct agent_use *use, bool plan_changed)
{
	/* Its loop checks everything and plans again. */
	if (plan_changed && agent_state.options.mode == AGENT_EMBEDDED)
		embedded_plan(&agent_state.agent->embedded, 0);
	else if (plan_changed)
		service_wake(&agent_state.agent->service);
	pthread_mutex_unlock(&agent_state.lock);
	held_signals_end(&use->signals);
}

/* Other threads set its timer as soon as it is open. */
static bool open_embedded(struct embedded *embedded)
{
	struct error ignored;

	pthread_mutex_lock(&agent_state.lock);
	/* The program may have closed a part of it. */
	embedded_close(embedded);
	const bool done = embedded_open(embedded, &ignored);
	pthread_mutex_unlock(&agent_state.lock);
	return done;
}

int agent_fd(void)
{
	struct error ignored;

	if (!is_ours() || agent_state.options.mode != AGENT_EMBEDDED || !ensure_agent(&ignored))
		return -1;
	struct embedded *const embedded = &agent_state.agent->embedded;
	if (!embedded_is_open(embedded) && (!open_embedded(embedded) || !agent_process(&ignored)))
		return -1;
	return embedded->epoll_fd;
}

bool agent_process(struct error *err)
{
	struct pollfd fds[SERVICE_POLL_MAX];
	struct held_signals signals;

	if (!is_ours() || agent_state.options.mode != AGENT_EMBEDDED)
		return error_set(err, ERROR_STATE, "the agent is not driven by this program");
	if (!ensure_agent(err))
		return false;
	struct service *const service = &agent_state.agent->service;
	held_signals_begin(&signals);
	size_t count = 0;
	if (service_poll(service, fds, &count, 0) < 0)
		count = 0;
	const bool go_on = service_step(service, fds, count);
	count = service_poll_list(service, fds);
	/*
	 * Under one lock: else an older timeout could replace that of a run which another thread
	 * begins now.
	 */
	pthread_mutex_lock(&agent_state.lock);
	embedded_watch(&agent_state.agent->embedded, fds, count);
	embedded_plan(&agent_state.agent->embedded, service_timeout_locked_ms(service));
	pthread_mutex_unlock(&agent_state.lock);
	held_signals_end(&signals);
	return go_on || error_set(err, ERROR_STATE, "the agent has ended");
}
