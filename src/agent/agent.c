/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/capture.h"
#include "agent/embedded.h"
#include "agent/main_thread.h"
#include "agent/on_demand.h"
#include "base/memory.h"
#include "agent/process_mark.h"
#include "agent/service.h"
#include "agent/stacks.h"
#include "agent/thread.h"
#include "base/clock.h"
#include "sampler/sampler.h"
#include "sampler/sampler_operations.h"

/* One agent's life: from start, or from fork, to its end. Not inherited by a child. */
struct agent {
	struct service service;
	struct embedded embedded;
	bool is_child;
	bool had_proc; /* when its thread was made */
	_Atomic bool stopping;
};

/* Lives as long as the process, and is inherited. */
static struct {
	bool prepared; /* allocator and fork handlers are there */
	_Atomic bool started;
	struct allocator allocator;
	struct core_activation activation;
	struct agent_options options; /* written under both locks */
	pthread_mutex_t lifetime;     /* one start or stop at a time; taken before `lock` */
	pthread_mutex_t lock;	      /* guards the core and the fields below */
	pthread_cond_t changed;	      /* of the two flags of the thread */
	struct agent *agent;	      /* NULL: none */
	size_t stack_bytes;	      /* of its thread */
	bool has_thread;
	bool is_joinable; /* `thread` is to be joined; under `lifetime` */
	pthread_t thread;
	bool has_tried_to_listen;
	bool own_files;		    /* the thread may have its own table of descriptors */
	_Atomic bool has_own_files; /* it has */
	bool has_inherited_files;   /* of the parent's agent: to be closed before one begins */
	bool is_child;
	enum settings_children children; /* what they get; never the default */
} process = {
	.lifetime = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static struct agent *make_agent(bool is_child)
{
	struct agent *const agent = memory_resize(&memory_private, NULL, 0, sizeof *agent);
	const struct service_options options = { .allocator = &process.allocator,
		.memory = &memory_private,
		.settings = &process.options.settings,
		.log = &process.options.log,
		.name = process.options.name,
		.activation = &process.activation,
		.lock = &process.lock,
		.with_socket = process.options.with_socket,
		.is_child = is_child,
		.leave_idle = process.options.mode == AGENT_ON_DEMAND,
		.wake_signal = process.own_files ? on_demand_signal() : 0,
		.own_thread = process.options.mode != AGENT_EMBEDDED };

	if (agent == NULL)
		return NULL;
	agent->is_child = is_child;
	service_init(&agent->service, &options);
	return agent;
}

static void free_agent(struct agent *agent)
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
 * Gives the thread its own descriptors, if the program does not know of the agent: calls of
 * heapctl.h by other threads share descriptors with this one.
 *
 * False when the process entered a sandbox before the thread ran for the first time: /proc, which
 * was there, is gone, and the agent can no longer find out which sandbox it is in.
 */
MUST_CHECK static bool leave_program_files(struct agent *agent)
{
	struct log log = process.options.log;

	log_detach_stderr(&log);
	if (!process.own_files || !descriptor_unshare())
		return true;
	pthread_mutex_lock(&process.lock);
	process.options.log = log;
	pthread_mutex_unlock(&process.lock);
	agent->service.is_apart = true;
	atomic_store(&process.has_own_files, true);
	return sandbox_check_open(&agent->service.sandbox) || !agent->had_proc;
}

static void listen_at_start(struct agent *agent)
{
	if (!agent->is_child && !agent->service.has_folder)
		service_listen_or_log(&agent->service);
	pthread_mutex_lock(&process.lock);
	process.has_tried_to_listen = true;
	pthread_cond_broadcast(&process.changed);
	pthread_mutex_unlock(&process.lock);
}

static void *thread_main(void *argument)
{
	struct agent *const agent = argument;

	prctl(PR_SET_NAME, "heapctl");
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

	pthread_mutex_lock(&process.lock);
	process.agent = NULL;
	pthread_mutex_unlock(&process.lock);
	free_agent(agent);
	pthread_mutex_lock(&process.lock);
	process.has_thread = false;
	pthread_cond_broadcast(&process.changed);
	pthread_mutex_unlock(&process.lock);
	return NULL;
}

static void publish(struct agent *agent, bool has_thread)
{
	pthread_mutex_lock(&process.lock);
	process.agent = agent;
	process.has_thread = has_thread;
	pthread_mutex_unlock(&process.lock);
}

/*
 * Waits until a thread that is ending runs none of this code any more: then the object may be
 * unloaded. Under `lifetime`, without a thread.
 */
static void join_thread(void)
{
	if (process.is_joinable)
		pthread_join(process.thread, NULL);
	process.is_joinable = false;
}

/* Does nothing in embedded mode. Returns an errno. */
static int make_thread(struct agent *agent)
{
	if (process.options.mode == AGENT_EMBEDDED)
		return 0;
	join_thread();
	if (!main_thread_allow_agent())
		return EAGAIN;
	const int errnum = thread_start(&process.thread, thread_main, agent, process.stack_bytes);
	process.is_joinable = errnum == 0;
	return errnum;
}

/* Makes the agent and its thread, where the mode has one. Under `lifetime`, or alone in a child. */
static bool begin(bool is_child, struct error *err)
{
	if (process.has_inherited_files) {
		embedded_close_inherited();
		descriptor_close_inherited();
	}
	process.has_inherited_files = false;
	atomic_store(&process.has_own_files, false);
	struct agent *const agent = make_agent(is_child);
	if (agent == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for the agent");
	if (process.options.need_socket && !is_child && !service_listen(&agent->service, err)) {
		free_agent(agent);
		return false;
	}
	agent->had_proc = process.own_files && sandbox_check_can_open();
	publish(agent, process.options.mode != AGENT_EMBEDDED);
	const int errnum = make_thread(agent);
	if (errnum == 0)
		return true;
	publish(NULL, false);
	free_agent(agent);
	return error_system(err, errnum, "starting the agent's thread");
}

/* The child has no run that would end the sampling. */
static void end_inherited_run(void)
{
	struct error ignored;

	if (atomic_load(&process.activation.cause) != CORE_CAUSE_RUN)
		return;
	if (allocator_active_set(&process.allocator, false, NULL, &ignored))
		atomic_store(&process.activation.cause, CORE_CAUSE_NONE);
}

/*
 * Makes no system call, except for SETTINGS_CHILDREN_THREAD: most children exec or exit at once and
 * some are in a sandbox that would kill them. Without a thread an agent begins when a client asks
 * for it by signal, or the child calls heapctl.h.
 */
static void begin_in_child(bool had_agent)
{
	struct error ignored;

	main_thread_reset();
	process.is_child = true;
	end_inherited_run();
	process.options.need_socket = false;
	process.started = process.children != SETTINGS_CHILDREN_NO;
	if (!process.started || process.options.mode != AGENT_THREAD)
		return;
	if (process.children == SETTINGS_CHILDREN_ON_DEMAND)
		process.options.mode = AGENT_ON_DEMAND;
	else if (had_agent && !begin(true, &ignored))
		process.started = false;
}

/* Its timeouts are measured by the clock that cannot be set. */
static void init_changed(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&process.changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

/*
 * In a new child, before anything here is used. The parent's agent is gone; so are its threads,
 * which may have held the locks.
 */
static void adopt_child(void)
{
	if (!process_mark_begin_adoption())
		return;
	const bool had_agent = process.agent != NULL;
	pthread_mutex_init(&process.lifetime, NULL);
	pthread_mutex_init(&process.lock, NULL);
	init_changed();
	if (had_agent && atomic_load(&process.has_own_files))
		descriptor_forget_inherited();
	else
		process.has_inherited_files = true;
	process.agent = NULL;
	process.has_thread = false;
	process.is_joinable = false;
	if (process.started)
		begin_in_child(had_agent);
	process_mark_end_adoption();
}

/* Whether marking the child is not enough. */
FORK_HANDLER static bool must_adopt_at_once(void)
{
	return process.started && (process.children == SETTINGS_CHILDREN_THREAD ||
					  atomic_load(&process.activation.cause) == CORE_CAUSE_RUN);
}

/*
 * In the child, where this thread is the only one. Each page that the child reads code from, or
 * writes to, costs it a page fault: so the handler and its callees lie together (FORK_HANDLER),
 * call nothing of the C library and write to one page.
 */
FORK_HANDLER static void after_fork_in_child(void)
{
	process_mark_set_new_child();
	main_thread_note_child();
	stacks_after_fork();
	sampler_after_fork();
	if (!must_adopt_at_once())
		return;
	const int errnum = errno;
	adopt_child();
	errno = errnum;
}

/* Sampling may be on already; the compiler's unwinder may end the process at the next sample. */
static void prepare_stacks(void)
{
	struct error ignored;

	if (!process.allocator.profiling.active_at_start ||
		process.options.settings.jemalloc_stacks ||
		allocator_has_other_sampler(&process.allocator))
		return;
	if (!stacks_take_over(&process.allocator, &ignored)) {
		/* status says by what stacks are walked. */
	}
}

/* heapctl's sampler is on from the start where that was asked for: `heapctl run --activate`. */
static void activate_at_start(void)
{
	struct error err;

	if (!process.options.settings.activate || !allocator_has_other_sampler(&process.allocator))
		return;
	if (!stacks_take_over(&process.allocator, &err) ||
		!allocator_active_set(&process.allocator, true, NULL, &err)) {
		log_error(&process.options.log, LOG_WARNING, "sampling", &err);
		return;
	}
	process.allocator.profiling.active_at_start = true;
	atomic_store(&process.activation.cause, CORE_CAUSE_HEAPCTL);
	atomic_store(&process.activation.since_ms, clock_realtime_ms());
}

/* jemalloc registers its own handlers first: in a child it works before this one is called. */
static void prepare(const struct settings *settings)
{
	if (process.prepared)
		return;
	init_changed();
	allocator_find(&process.allocator);
	sampler_operations_offer(&process.allocator, settings->lg_sample);
	process.stack_bytes = thread_stack_bytes();
	process_mark_open();
	capture_learn_program();
	pthread_atfork(NULL, NULL, after_fork_in_child);
	process.prepared = true;
}

static bool is_ours(void)
{
	adopt_child();
	return process.started && process_mark_is_ours();
}

enum {
	CONNECT_AGAIN_MS = 10,
	CONNECTS_MAX = 200,
	SOCKET_WAIT_MS = 200,
};

static struct timespec after_ms(int64_t wait_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += wait_ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return until;
}

/* Waits for the end of the thread; under the lock. */
static bool wait_for_end(int64_t wait_ms)
{
	const struct timespec until = after_ms(wait_ms);

	while (process.has_thread) {
		if (pthread_cond_timedwait(&process.changed, &process.lock, &until) != 0)
			return !process.has_thread;
	}
	return true;
}

/*
 * Lets a preloaded agent make its socket before the program's main begins, which may drop the
 * rights to do so or enter a chroot. The wait is short: at a dlopen the thread may wait for us.
 */
static void wait_for_socket(void)
{
	const struct timespec until = after_ms(SOCKET_WAIT_MS);

	pthread_mutex_lock(&process.lock);
	while (process.has_thread && !process.has_tried_to_listen &&
		pthread_cond_timedwait(&process.changed, &process.lock, &until) == 0)
		continue;
	pthread_mutex_unlock(&process.lock);
}

/*
 * Ends the thread, which shares no descriptor with this one: a signal that it blocks and polls, or
 * a connection to its socket, wakes it. A new thread may not poll either yet; another may be
 * dumping.
 */
static bool end_thread_with_own_files(struct error *err)
{
	bool ended = false;

	pthread_mutex_lock(&process.lock);
	if (process.agent != NULL)
		atomic_store(&process.agent->stopping, true);
	for (int i = 0; !ended && i < CONNECTS_MAX; i++) {
		if (process.has_thread)
			pthread_kill(process.thread, on_demand_signal());
		const bool connected = process.agent == NULL ||
				       listener_connect_self(&process.agent->service.listener, err);
		ended = wait_for_end(CONNECT_AGAIN_MS) || (connected && wait_for_end(1000));
	}
	if (!ended && process.agent != NULL)
		atomic_store(&process.agent->stopping, false);
	pthread_mutex_unlock(&process.lock);
	if (ended)
		join_thread();
	return ended || error_set(err, ERROR_STATE, "its thread is busy");
}

/* From now on the program calls the agent: the two must share descriptors. */
static bool take_over(const struct agent_options *options, struct error *err)
{
	if (process.own_files && !end_thread_with_own_files(err))
		return error_prefix(err, "taking over the preloaded agent");
	pthread_mutex_lock(&process.lock);
	process.own_files = false;
	/* Another start has to find it started. */
	process.options.preloaded = false;
	process.options.log = options->log;
	process.options.need_socket = options->need_socket;
	pthread_mutex_unlock(&process.lock);
	if (process.options.mode == AGENT_ON_DEMAND || begin(false, err))
		return true;
	process.started = false;
	return false;
}

static void stop_thread(void)
{
	pthread_mutex_lock(&process.lock);
	if (process.agent != NULL) {
		atomic_store(&process.agent->stopping, true);
		service_wake(&process.agent->service);
	}
	while (process.has_thread)
		pthread_cond_wait(&process.changed, &process.lock);
	pthread_mutex_unlock(&process.lock);
	join_thread();
}

static unsigned count_own_threads(void)
{
	if (process_mark_is_new_child())
		return 0;
	pthread_mutex_lock(&process.lock);
	const unsigned count = process.has_thread;
	pthread_mutex_unlock(&process.lock);
	return count;
}

/* The handler stays: a signal that asks for an agent may still come. */
static void end_for_good(void)
{
	struct error ignored;

	adopt_child();
	pthread_mutex_lock(&process.lifetime);
	if (is_ours() && process.options.mode != AGENT_EMBEDDED) {
		process.started = false;
		if (!process.own_files)
			stop_thread();
		while (process.own_files && !end_thread_with_own_files(&ignored))
			continue;
	}
	pthread_mutex_unlock(&process.lifetime);
}

/*
 * From a signal handler, where the program is in no library; it must not wait for a thread that
 * holds a lock of ours.
 */
static void begin_on_demand(void)
{
	/* The program's callback may not be called in a signal handler. */
	const struct log log = { .to_stderr = process.options.log.to_stderr };
	struct error err;

	if (!is_ours() || pthread_mutex_trylock(&process.lifetime) != 0)
		return;
	if (!process.has_thread && !begin(false, &err))
		log_error(&log, LOG_WARNING, "on demand", &err);
	pthread_mutex_unlock(&process.lifetime);
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

	if (!options->with_socket || on_demand_install(begin_on_demand, options->preloaded, &err))
		return;
	log_error(&options->log, LOG_WARNING, "children get a thread at once", &err);
	process.children = SETTINGS_CHILDREN_THREAD;
}

static bool start(const struct agent_options *options, struct error *err)
{
	static const struct main_thread_agent threads = { count_own_threads, end_for_good };

	if (is_ours() && process.options.preloaded && !options->preloaded)
		return take_over(options, err);
	if (process.started)
		return error_set(err, ERROR_STATE, "the agent is started already");
	prepare(&options->settings);
	pthread_mutex_lock(&process.lock);
	process.options = *options;
	process.own_files = options->preloaded;
	pthread_mutex_unlock(&process.lock);
	process_mark_set();
	main_thread_watch(&threads);
	prepare_stacks();
	activate_at_start();
	process.children = choose_children(options);
	if (options->mode == AGENT_ON_DEMAND &&
		!on_demand_install(begin_on_demand, options->preloaded, err))
		return false;
	if (process.children == SETTINGS_CHILDREN_ON_DEMAND && options->mode == AGENT_THREAD)
		install_for_children(options);
	if (options->mode != AGENT_ON_DEMAND && !begin(false, err))
		return false;
	process.started = true;
	if (options->preloaded && options->mode == AGENT_THREAD)
		wait_for_socket();
	return true;
}

bool agent_start(const struct agent_options *options, struct error *err)
{
	adopt_child();
	pthread_mutex_lock(&process.lifetime);
	const bool done = start(options, err);
	pthread_mutex_unlock(&process.lifetime);
	return done;
}

bool agent_is_started(void)
{
	return is_ours();
}

static void stop_embedded(void)
{
	struct agent *const agent = process.agent;

	publish(NULL, false);
	if (agent == NULL)
		return;
	embedded_close(&agent->embedded);
	free_agent(agent);
}

void agent_stop(void)
{
	adopt_child();
	pthread_mutex_lock(&process.lifetime);
	/* The program may not stop a preloaded agent that it never took over. */
	if (is_ours() && !process.own_files) {
		on_demand_remove();
		if (process.options.mode == AGENT_EMBEDDED)
			stop_embedded();
		else
			stop_thread();
		allocator_release(&process.allocator);
		stacks_give_back(&process.allocator);
		process.started = false;
	}
	pthread_mutex_unlock(&process.lifetime);
}

/*
 * On demand there may be no thread, or one that is just ending because it was unused; and in a
 * child nothing has begun.
 */
static bool ensure_agent(struct error *err)
{
	pthread_mutex_lock(&process.lifetime);
	pthread_mutex_lock(&process.lock);
	while (process.has_thread && process.agent == NULL)
		pthread_cond_wait(&process.changed, &process.lock);
	const bool has_agent = process.agent != NULL;
	pthread_mutex_unlock(&process.lock);
	const bool is_embedded = process.options.mode == AGENT_EMBEDDED;
	const bool done = has_agent || begin(is_embedded && process.is_child, err);
	pthread_mutex_unlock(&process.lifetime);
	return done;
}

/* Whether the program's calls create a missing agent. */
static bool begins_when_called(void)
{
	adopt_child();
	pthread_mutex_lock(&process.lock);
	const bool begins = is_ours() && process.options.mode != AGENT_THREAD && !process.own_files;
	pthread_mutex_unlock(&process.lock);
	return begins;
}

static bool try_lock(struct agent_use *use)
{
	held_signals_begin(&use->signals);
	pthread_mutex_lock(&process.lock);
	if (is_ours() && process.agent != NULL && !process.own_files) {
		use->core = &process.agent->service.core;
		use->listener = &process.agent->service.listener;
		core_tick(use->core);
		return true;
	}
	pthread_mutex_unlock(&process.lock);
	held_signals_end(&use->signals);
	return false;
}

bool agent_lock(struct agent_use *use, struct error *err)
{
	/* The thread may have ended before the lock was taken. */
	enum { TRIES = 3 };
	bool begins = true;

	for (int i = 0; begins && i < TRIES; i++) {
		begins = begins_when_called();
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
	/* Its loop checks everything and plans anew. */
	if (plan_changed && process.options.mode == AGENT_EMBEDDED)
		embedded_plan(&process.agent->embedded, 0);
	else if (plan_changed)
		service_wake(&process.agent->service);
	pthread_mutex_unlock(&process.lock);
	held_signals_end(&use->signals);
}

/* Other threads set its timer as soon as it is open. */
static bool open_embedded(struct embedded *embedded)
{
	struct error ignored;

	pthread_mutex_lock(&process.lock);
	/* The program may have closed a part of it. */
	embedded_close(embedded);
	const bool done = embedded_open(embedded, &ignored);
	pthread_mutex_unlock(&process.lock);
	return done;
}

int agent_fd(void)
{
	struct error ignored;

	if (!is_ours() || process.options.mode != AGENT_EMBEDDED || !ensure_agent(&ignored))
		return -1;
	struct embedded *const embedded = &process.agent->embedded;
	if (!embedded_is_open(embedded) && (!open_embedded(embedded) || !agent_process(&ignored)))
		return -1;
	return embedded->epoll_fd;
}

bool agent_process(struct error *err)
{
	struct pollfd fds[SERVICE_POLL_MAX];
	struct held_signals signals;

	if (!is_ours() || process.options.mode != AGENT_EMBEDDED)
		return error_set(
			err, ERROR_STATE, "there is no agent that this program has to drive");
	if (!ensure_agent(err))
		return false;
	struct service *const service = &process.agent->service;
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
	pthread_mutex_lock(&process.lock);
	embedded_watch(&process.agent->embedded, fds, count);
	embedded_plan(&process.agent->embedded, service_timeout_locked_ms(service));
	pthread_mutex_unlock(&process.lock);
	held_signals_end(&signals);
	return go_on || error_set(err, ERROR_STATE, "the agent has ended");
}
