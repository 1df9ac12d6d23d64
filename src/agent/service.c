/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/service.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/stacks.h"
#include "agent/thread_names.h"
#include "base/clock.h"

static const int64_t check_times_ms[SERVICE_CHECKS] = { SERVICE_CHECK_1_MS, SERVICE_CHECK_2_MS,
	SERVICE_CHECK_3_MS };

/*
 * Before the agent's thread calls the allocator for the first time: it must not be sampled. Not
 * earlier, because any call makes jemalloc give the thread caches and an arena, some 300 KiB.
 * Without the lock, as everything that logs: the program's callback may wait for a lock of the
 * program, whose holder may be waiting for ours.
 */
static void enter_allocator(struct service *service)
{
	struct error err;

	if (service->in_allocator || !service->own_thread)
		return;
	service->in_allocator = true;
	if (!allocator_thread_sampling_off(service->core.allocator, &err))
		log_error(service->log, LOG_WARNING, "own thread", &err);
}

/*
 * A main thread that a filter kills, or that makes the system call `exit`, runs no destructor
 * (agent/thread.h), and no descriptor reports its end while this thread runs: so it is polled.
 * When its end is noticed late, other threads may have ended since.
 */
static void check_main_thread(struct service *service)
{
	const bool had_ended = service->main_thread.has_ended;

	/* Several requests may be there at once: what the first one has noticed stays. */
	if (!service->own_thread || service->is_last)
		return;
	service->main_thread = sandbox_check_read_main_thread(&service->sandbox);
	if (!service->main_thread.has_ended ||
		(service->main_thread.others > 1 && !thread_names_are_agents(false)))
		return;
	/* The kernel takes the status of the thread that ends last. */
	if (had_ended)
		service->main_thread.status = 0;
	service->is_last = true;
	service->must_end = true;
}

/*
 * Whether the agent has to end: nothing else is left of the process, or its thread has rights
 * that the main thread has dropped. A filter may have killed the main thread: its end is checked
 * first, as the process takes its status.
 */
static bool check_must_end(struct service *service, struct error *reason)
{
	if (!service->own_thread)
		return false;
	check_main_thread(service);
	if (service->is_last)
		return !error_set(reason, ERROR_STATE, "the program has ended");
	if (!sandbox_check_must_end(&service->sandbox))
		return false;
	log_write(service->log, LOG_INFO, "the process has entered a sandbox: the agent ends");
	service->must_end = true;
	error_set(reason, ERROR_STATE,
		"the process has entered a sandbox that the agent must not weaken");
	return !error_hint(reason, "the agent ends; a command starts it again where it can be in "
				   "that sandbox, too");
}

static void handle_request(
	void *context, const struct agent_request *request, struct response *response)
{
	struct service *const service = context;
	struct error err;

	service->used_ms = clock_monotonic_ms();
	if (allocator_has_other_sampler(service->core.allocator))
		service->maintain_ms = service->used_ms;
	if (check_must_end(service, &err)) {
		response_set_error(response, &err);
		return;
	}
	enter_allocator(service);
	pthread_mutex_lock(service->lock);
	/* A run that is overdue ends before the request. */
	core_tick(&service->core);
	routes_handle(&service->core, request, response);
	/* As soon as all answers are sent. */
	if (service->core.is_detaching) {
		service->ends_when_idle = true;
		service->used_ms -= SERVICE_IDLE_MS;
	}
	pthread_mutex_unlock(service->lock);
}

void service_init(struct service *service, const struct service_options *options)
{
	const struct connection_handler handler = { .handle = handle_request, .context = service };
	const struct core_options core_options = { .allocator = options->allocator,
		.memory = options->memory,
		.settings = options->settings,
		.is_preloaded = options->is_preloaded,
		.name = options->name,
		.activation = options->activation,
		.now_ms = clock_monotonic_ms,
		.wall_ms = clock_realtime_ms };

	*service = (struct service){ .wake = { DESCRIPTOR_NONE, DESCRIPTOR_NONE },
		.sandbox = SANDBOX_CHECK_NONE,
		.watch = FOLDER_WATCH_NONE,
		.is_child = options->is_child,
		.parent = getppid(),
		.log = options->log,
		.lock = options->lock,
		.settings = *options->settings,
		.with_socket = options->with_socket,
		.ends_when_idle = options->ends_when_idle,
		.own_thread = options->own_thread,
		.wake_signal = options->wake_signal,
		.begun_ms = clock_monotonic_ms(),
		.checks_done = options->is_child ? 0 : 1 };
	service->used_ms = service->begun_ms;
	service->maintain_ms =
		allocator_has_other_sampler(options->allocator) ? service->begun_ms : -1;
	service->checked_ms = service->begun_ms;
	core_init(&service->core, &core_options);
	listener_init(&service->listener);
	server_init(&service->server, &service->listener, options->memory, &handler);
}

void service_end_run(struct service *service)
{
	struct error ignored;
	struct run run;

	if (!core_is_running(&service->core))
		return;
	enter_allocator(service);
	if (!core_run_stop(&service->core, &run, &ignored)) {
		/* It was on just now. */
	}
}

void service_deinit(struct service *service)
{
	service_end_run(service);
	if (core_wait_ms(&service->core) >= 0) {
		enter_allocator(service);
		core_resume(&service->core);
	}
	server_deinit(&service->server);
	folder_watch_close(&service->watch);
	listener_deinit(&service->listener);
	descriptor_close(&service->wake[0]);
	descriptor_close(&service->wake[1]);
	sandbox_check_close(&service->sandbox);
	core_deinit(&service->core);
}

/* Other threads use the pair under the lock. Both may be missing. */
static void set_wake(struct service *service, struct descriptor *polled, struct descriptor *written)
{
	pthread_mutex_lock(service->lock);
	descriptor_close(&service->wake[0]);
	descriptor_close(&service->wake[1]);
	service->wake[0] = *polled;
	service->wake[1] = *written;
	pthread_mutex_unlock(service->lock);
}

static void make_wake(struct descriptor *polled, struct descriptor *written)
{
	struct error ignored;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return;
	if (!descriptor_own(pair[0], polled, &ignored))
		close(pair[1]);
	else if (!descriptor_own(pair[1], written, &ignored))
		descriptor_close(polled);
}

static void make_wake_by_signal(int number, struct descriptor *polled)
{
	struct error ignored;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, number);
	const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd >= 0 && !descriptor_own(fd, polled, &ignored))
		*polled = DESCRIPTOR_NONE;
}

void service_open_wake(struct service *service)
{
	struct descriptor polled = DESCRIPTOR_NONE, written = DESCRIPTOR_NONE;

	if (service->wake_signal != 0)
		make_wake_by_signal(service->wake_signal, &polled);
	else
		make_wake(&polled, &written);
	set_wake(service, &polled, &written);
}

void service_wake(const struct service *service)
{
	if (descriptor_is_ours(&service->wake[1]))
		send(service->wake[1].fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * A client that finds no socket sends the signal: what was in the way may be gone. Not tried at
 * intervals: a sandbox that the process has entered since may kill for the calls.
 */
static void listen_for_client(struct service *service)
{
	if (service->listen_again_ms != 0)
		service->listen_again_ms = clock_monotonic_ms();
	else if (service->with_socket && !listener_is_open(&service->listener))
		service_listen_or_log(service);
}

static void drain_wake(struct service *service)
{
	struct signalfd_siginfo request;
	char bytes[16];

	if (!descriptor_is_ours(&service->wake[0])) {
		service_open_wake(service);
		return;
	}
	while (service->wake_signal != 0 &&
		read(service->wake[0].fd, &request, sizeof request) > 0) {
		/* Not the program's own, which ends the thread. */
		if (request.ssi_code == SI_QUEUE)
			listen_for_client(service);
	}
	while (recv(service->wake[0].fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		continue;
}

/*
 * A child with a parent is one of many; an orphan is a daemon. The kernel needs some 20 ms to end a
 * process that has an inotify descriptor, so short-lived children get none.
 */
static void watch_name(struct service *service)
{
	const pid_t parent = getppid();

	folder_watch_close_inherited(&service->watch);
	if (!folder_watch_is_open(&service->watch) &&
		clock_monotonic_ms() >= service->begun_ms + SERVICE_CHECK_2_MS &&
		(!service->is_child || parent <= 1 || parent != service->parent))
		folder_watch_open(&service->watch, &service->listener.folder,
			service->listener.name, service->listener.inode, service->has_own_files);
}

bool service_listen(struct service *service, struct error *err)
{
	struct folder folder;

	if (!folder_choose(&service->settings, &folder, err))
		return false;
	pthread_mutex_lock(service->lock);
	core_set_folder(&service->core, &folder);
	pthread_mutex_unlock(service->lock);
	service->has_folder = true;
	if (!service->with_socket)
		return true;
	/* It watches the old name. */
	folder_watch_close(&service->watch);
	if (!listener_open(&service->listener, &folder, err))
		return folder_explain_denial(folder.path, W_OK | X_OK, err);
	service->listen_again_ms = 0;
	watch_name(service);
	if (service->listener.shares_folder)
		log_write(service->log, LOG_WARNING,
			"%s/%d.sock is the socket of a process in another pid namespace: this one "
			"is %s (give each container its own HEAPCTL_DIR)",
			folder.path, getpid(), service->listener.name);
	return true;
}

void service_listen_or_log(struct service *service)
{
	struct error err;

	if (service_listen(service, &err))
		return;
	log_error(service->log, LOG_WARNING,
		service->with_socket ? "no socket" : "runs stay in memory", &err);
	pthread_mutex_lock(service->lock);
	service->listen_error = err;
	pthread_mutex_unlock(service->lock);
}

static void plan_to_listen(struct service *service, int64_t now_ms, int64_t pause_ms)
{
	service->listen_pause_ms =
		pause_ms < SERVICE_LISTEN_AGAIN_MAX_MS ? pause_ms : SERVICE_LISTEN_AGAIN_MAX_MS;
	service->listen_again_ms = now_ms + service->listen_pause_ms;
}

/*
 * Not at once: a new socket would be in the way where the folder is being removed. Clients that
 * have connected to the old one are served meanwhile.
 */
static void check_name(struct service *service, int64_t now_ms)
{
	if (service->listen_again_ms == 0 && listener_has_lost_name(&service->listener))
		plan_to_listen(service, now_ms, SERVICE_LISTEN_AGAIN_MS);
}

/* Listens or watches once more: a young process may have dropped privileges since. */
static void check_process(struct service *service)
{
	if (service->with_socket ? !listener_is_open(&service->listener) : !service->has_folder) {
		service_listen_or_log(service);
	} else if (service->with_socket) {
		watch_name(service);
		/* It may have been lost before the watch began. */
		check_name(service, clock_monotonic_ms());
	}
}

static int64_t next_check_ms(const struct service *service)
{
	if (service->own_thread && service->main_thread.has_ended)
		return service->checked_ms + SERVICE_CHECK_LAST_MS;
	if (service->checks_done < SERVICE_CHECKS)
		return service->begun_ms + check_times_ms[service->checks_done];
	if (service->settings.attached)
		return service->checked_ms + SERVICE_CHECK_ATTACHED_MS;
	return service->own_thread && service->main_thread.is_filtered
		       ? service->checked_ms + SERVICE_CHECK_LATER_MS
		       : INT64_MAX;
}

static void run_checks(struct service *service, int64_t now_ms)
{
	struct error ignored;

	while (!service->must_end && now_ms >= next_check_ms(service)) {
		service->checked_ms = now_ms;
		if (!check_must_end(service, &ignored) && service->checks_done < SERVICE_CHECKS) {
			service->checks_done++;
			check_process(service);
		}
	}
}

static void listen_again(struct service *service, int64_t now_ms)
{
	const int64_t pause_ms = service->listen_pause_ms;
	struct error err;

	if (service->listen_again_ms == 0 || now_ms < service->listen_again_ms)
		return;
	if (service_listen(service, &err)) {
		log_write(service->log, LOG_INFO,
			"the agent's socket was removed or hidden, and created again");
		return;
	}
	if (pause_ms == SERVICE_LISTEN_AGAIN_MS)
		log_error(service->log, LOG_WARNING, "the agent's socket was removed or hidden",
			&err);
	plan_to_listen(service, now_ms, 2 * pause_ms);
}

size_t service_poll_list(const struct service *service, struct pollfd *fds)
{
	const int64_t now_ms = clock_monotonic_ms();
	size_t count = server_poll_list(&service->server, now_ms, fds);

	count += folder_watch_poll_list(&service->watch, now_ms, fds + count);
	if (service->wake[0].fd >= 0)
		fds[count++] = (struct pollfd){ .fd = service->wake[0].fd, .events = POLLIN };
	return count;
}

/*
 * poll takes at most RLIMIT_NOFILE descriptors, and the program may have lowered that. Clients come
 * first in the list: some have to wait until one of them is closed.
 */
static int poll_within_limit(struct pollfd *fds, size_t count, int timeout_ms)
{
	enum { POLL_AGAIN_MS = 1000 };
	struct rlimit limit = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) {
		errno = EINVAL;
		return -1;
	}
	return poll(fds + (count - limit.rlim_cur), (nfds_t)limit.rlim_cur,
		timeout_ms < 0 || timeout_ms > POLL_AGAIN_MS ? POLL_AGAIN_MS : timeout_ms);
}

int service_poll(struct service *service, struct pollfd *fds, size_t *count, int timeout_ms)
{
	*count = service_poll_list(service, fds);
	for (size_t i = 0; i < *count; i++)
		fds[i].revents = 0;
	int ready = poll(fds, *count, timeout_ms);
	if (ready < 0 && errno == EINVAL && folder_watch_is_open(&service->watch)) {
		folder_watch_close(&service->watch);
		return service_poll(service, fds, count, timeout_ms);
	}
	if (ready < 0 && errno == EINVAL)
		ready = poll_within_limit(fds, *count, timeout_ms);
	return ready;
}

static int64_t shorter_wait(int64_t a, int64_t b)
{
	if (a < 0)
		return b;
	return b < 0 || a < b ? a : b;
}

/* A client that keeps its connection open between requests does not keep a detached agent. */
static bool has_clients(const struct service *service)
{
	return service->core.is_detaching ? server_is_answering(&service->server)
					  : service->server.count > 0;
}

/* When an unused agent ends; a client or a run may keep it. */
static int64_t idle_wait_ms(const struct service *service, bool has_deadline, int64_t now_ms)
{
	if (!service->ends_when_idle || has_deadline || has_clients(service))
		return -1;
	const int64_t wait = service->used_ms + SERVICE_IDLE_MS - now_ms;
	return wait < 0 ? 0 : wait;
}

static int64_t check_wait_ms(const struct service *service, int64_t now_ms)
{
	const int64_t next_ms = next_check_ms(service);

	if (next_ms == INT64_MAX)
		return -1;
	return next_ms > now_ms ? next_ms - now_ms : 0;
}

static int64_t listen_wait_ms(const struct service *service, int64_t now_ms)
{
	if (service->listen_again_ms == 0)
		return -1;
	return service->listen_again_ms > now_ms ? service->listen_again_ms - now_ms : 0;
}

static int64_t maintain_wait_ms(const struct service *service, int64_t now_ms)
{
	if (service->maintain_ms < 0)
		return -1;
	return service->maintain_ms > now_ms ? service->maintain_ms - now_ms : 0;
}

int service_timeout_locked_ms(const struct service *service)
{
	const int64_t now_ms = clock_monotonic_ms();
	int64_t wait = server_wait_ms(&service->server, now_ms);

	wait = shorter_wait(wait, core_wait_ms(&service->core));
	wait = shorter_wait(wait, check_wait_ms(service, now_ms));
	wait = shorter_wait(wait, maintain_wait_ms(service, now_ms));
	wait = shorter_wait(wait, listen_wait_ms(service, now_ms));
	wait = shorter_wait(wait, folder_watch_wait_ms(&service->watch, now_ms));
	wait = shorter_wait(wait, idle_wait_ms(service, core_wait_ms(&service->core) >= 0, now_ms));
	return wait > INT_MAX ? INT_MAX : (int)wait;
}

int service_timeout_ms(const struct service *service)
{
	pthread_mutex_lock(service->lock);
	const int wait = service_timeout_locked_ms(service);
	pthread_mutex_unlock(service->lock);
	return wait;
}

/* Whether a run or a pause has a deadline. */
static bool is_deadline_set(const struct service *service)
{
	pthread_mutex_lock(service->lock);
	const bool found = core_wait_ms(&service->core) >= 0;
	pthread_mutex_unlock(service->lock);
	return found;
}

static void tick(struct service *service)
{
	enter_allocator(service);
	pthread_mutex_lock(service->lock);
	core_tick(&service->core);
	pthread_mutex_unlock(service->lock);
}

/* Modules that were loaded since get their entries, and walks their tables. */
static void maintain(struct service *service, int64_t now_ms)
{
	if (service->maintain_ms < 0 || now_ms < service->maintain_ms)
		return;
	enter_allocator(service);
	pthread_mutex_lock(service->lock);
	const int64_t wait_ms = allocator_maintain(service->core.allocator);
	if (wait_ms >= 0)
		stacks_refresh();
	pthread_mutex_unlock(service->lock);
	service->maintain_ms = wait_ms < 0 ? -1 : now_ms + wait_ms;
}

static bool is_unused(struct service *service, int64_t now_ms)
{
	if (!service->ends_when_idle || now_ms < service->used_ms + SERVICE_IDLE_MS ||
		has_clients(service))
		return false;
	return !is_deadline_set(service);
}

/* Its descriptors are the last ones; the number of those before. */
static size_t step_watch(
	struct service *service, const struct pollfd *fds, size_t count, int64_t now_ms)
{
	/* In an epoll of the program the event of changed mounts is gone by now. */
	bool may_be_lost = !service->own_thread && folder_watch_is_open(&service->watch);

	while (count > 0 && folder_watch_has(&service->watch, fds[count - 1].fd)) {
		count--;
		if (fds[count].revents != 0)
			may_be_lost |= folder_watch_drain(&service->watch, fds[count].fd, now_ms);
	}
	if (may_be_lost)
		check_name(service, now_ms);
	return count;
}

bool service_step(struct service *service, const struct pollfd *fds, size_t count)
{
	const int64_t now_ms = clock_monotonic_ms();
	size_t server_count = count;

	if (count > 0 && service->wake[0].fd >= 0 && fds[count - 1].fd == service->wake[0].fd) {
		server_count--;
		if (fds[server_count].revents != 0)
			drain_wake(service);
	}
	server_count = step_watch(service, fds, server_count, now_ms);
	run_checks(service, now_ms);
	if (!service->must_end)
		listen_again(service, now_ms);
	/* The number may be a file of the program's by now, which makes no event. */
	if (!service->must_end && (!server_step(&service->server, fds, server_count, now_ms) ||
					  listener_is_lost(&service->listener))) {
		log_write(service->log, LOG_INFO, "the program closed the agent's socket");
		service_listen_or_log(service);
	}
	/* One that begins after this check wakes the thread again. */
	if (is_deadline_set(service))
		tick(service);
	maintain(service, clock_monotonic_ms());
	return !service->must_end && !is_unused(service, now_ms);
}
