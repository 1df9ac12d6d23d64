/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "gateway/fleet_store.h"
#include "gateway/interval_recorder.h"
#include "gateway/gateway.h"
#include "gateway/request_policy.h"
#include "gateway/handlers.h"
#include "gateway/listener.h"
#include "gateway/http_server.h"
#include "gateway/tls_certificate.h"
#include "gateway/send_supervisor.h"
#include "gateway/watch_manager.h"

#define DEFAULT_ADDRESS "127.0.0.1:7070"

enum {
	/* Symbolizing takes a processor each. */
	WORKERS = 2,
	RENDER_CACHE_BYTES = 128 * 1024 * 1024,
	PROFILE_BYTES = 256 * 1024 * 1024,
	PEM_BYTES = 1024 * 1024,
	/* What comes within this time is sent together. */
	GATHER_MAX_MS = 30 * 1000,
	/* How long running requests and snapshots may take when the gateway stops. */
	STOP_TIMEOUT_MS = 3000,
};

/* What has to be undone at the end. */
struct serving {
	struct gateway gateway;
	struct listener listeners[LISTENERS_MAX];
	size_t listener_count;
	struct connection_slots slots;
	struct fleet_store fleet_store;
	struct http_server *servers[LISTENERS_MAX];
	size_t server_count;
	char *token;
};

/* `secret` names a file that others must not read; NULL for a certificate. */
static bool read_pem(const char *path, const char *secret, char **text, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer buffer = BUFFER_OR_EXIT;
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return file_open_failed(path, errno, err);
	if (secret != NULL && !request_policy_check_secret(fd, path, secret, err))
		return false;
	buffer.limit = PEM_BYTES;
	const bool ok = file_read_fd(fd, path, &buffer, err);
	if (ok)
		*text = buffer_take(&buffer);
	return ok;
}

static bool load_certificate(const struct serve_options *options, struct error *err)
{
	CLEANUP(free_cleanup) char *certificate = NULL;
	CLEANUP(free_cleanup) char *key = NULL;

	return read_pem(options->certificate_file, NULL, &certificate, err) &&
	       read_pem(options->key_file, "the private key", &key, err) &&
	       tls_certificate_use(certificate, key, err);
}

static void log_certificate_dates(const struct serve_options *options)
{
	char text[TLS_CERTIFICATE_TEXT_BYTES], line[TLS_CERTIFICATE_TEXT_BYTES + 4200];

	tls_certificate_check_dates(clock_realtime_ms() / 1000, text);
	if (text[0] == '\0' || options->log == NULL)
		return;
	snprintf(line, sizeof line, "%s: %s", options->certificate_file, text);
	options->log(line);
}

static void reload_certificate(const struct serve_options *options)
{
	struct error err;
	char line[1200];

	if (!load_certificate(options, &err)) {
		snprintf(line, sizeof line, "the old certificate stays: %s%s%s%s", err.message,
			err.hint[0] == '\0' ? "" : " (", err.hint, err.hint[0] == '\0' ? "" : ")");
		if (options->log != NULL)
			options->log(line);
		return;
	}
	if (options->log != NULL)
		options->log("the certificate was read again");
	log_certificate_dates(options);
}

static bool read_secrets(
	const struct serve_options *options, struct serving *serving, struct error *err)
{
	if ((options->certificate_file == NULL) != (options->key_file == NULL)) {
		error_set(err, ERROR_USAGE, "TLS needs a certificate and its key");
		return error_hint(err, "give both --tls-cert FILE and --tls-key FILE");
	}
	if (options->token_file != NULL &&
		!request_policy_read_token(options->token_file, &serving->token, err))
		return false;
	return options->certificate_file == NULL || load_certificate(options, err);
}

static void remember_owner(void *context, const char *target, int64_t owner)
{
	struct backend_set *const backends = context;

	backend_set_remember(backends, target, (uid_t)owner);
}

static bool open_store(
	const struct serve_options *options, struct serving *serving, struct error *err)
{
	const struct store_limits limits = {
		.keep_ms = options->history_keep_ms,
		.bytes = options->history_bytes,
		.free_bytes = options->history_free_bytes,
	};

	if (options->history_folder == NULL)
		return true;
	if (!store_open(
		    options->history_folder, STORE_HISTORY, &limits, &serving->gateway.store, err))
		return false;
	/* A name with a history stays with its user. */
	if (!store_each_owner(
		    serving->gateway.store, remember_owner, &serving->gateway.backends, err))
		return false;
	const size_t count = store_relisted_count(serving->gateway.store);
	if (count > 0 && options->log != NULL) {
		char line[200];
		snprintf(line, sizeof line,
			"history: its index was gone; %zu profiles are listed again, without "
			"their memory figures",
			count);
		options->log(line);
	}
	return true;
}

/* A name that was mistyped would answer every request with "not found". */
static bool check_folder(const char *option, const char *folder, struct error *err)
{
	if (folder == NULL)
		return true;
	CLEANUP(fd_cleanup) const int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 || error_system(err, errno, "%s %.200s", option, folder);
}

/* Of folders separated by colons each; empty ones count as absent. */
static bool check_folders(const char *option, const char *folders, struct error *err)
{
	for (const char *at = folders; at != NULL;) {
		const size_t size = strcspn(at, ":");
		CLEANUP(free_cleanup) char *folder = xstrndup(at, size);
		if (!check_folder(option, folder, err))
			return false;
		at = at[size] == ':' ? at + size + 1 : NULL;
	}
	return true;
}

static bool open_watch_file(
	const struct serve_options *options, struct serving *serving, struct error *err)
{
	return options->watch_file == NULL ||
	       watch_manager_open(&serving->gateway, options->watch_file,
		       &serving->gateway.watch_manager, err);
}

static bool add_listener(struct serving *serving, const char *address, int fd, struct error *err)
{
	struct listener *const listener = &serving->listeners[serving->listener_count];

	if (serving->listener_count == LISTENERS_MAX)
		return error_set(err, ERROR_USAGE, "more than %d addresses", LISTENERS_MAX);
	if (address == NULL ? !listener_adopt(fd, listener, err)
			    : !listener_open(address, listener, err))
		return false;
	serving->listener_count++;
	if (listener->is_private || serving->token != NULL)
		return true;
	if (listener->is_unix) {
		error_set(err, ERROR_DENIED, "all users of this machine may connect to %s",
			listener->where[0] == '\0' ? "an abstract socket" : listener->where);
		return error_hint(
			err, "make it SocketMode=0600, or protect it with --token-file FILE");
	}
	error_set(err, ERROR_DENIED, "%s can be reached from other machines", listener->where);
	return error_hint(err, "protect it with --token-file FILE, or listen on 127.0.0.1");
}

static bool open_listeners(
	const struct serve_options *options, struct serving *serving, struct error *err)
{
	const int inherited = listener_inherited_count();

	for (int i = 0; i < inherited; i++) {
		if (!add_listener(serving, NULL, LISTENER_FIRST_FD + i, err))
			return false;
	}
	for (size_t i = 0; i < options->address_count; i++) {
		if (!add_listener(serving, options->addresses[i], -1, err))
			return false;
	}
	return serving->listener_count > 0 || add_listener(serving, DEFAULT_ADDRESS, -1, err);
}

static void announce(const struct serve_options *options, const struct serving *serving)
{
	const bool has_certificate = options->certificate_file != NULL;
	char line[400];

	for (size_t i = 0; i < serving->listener_count && options->log != NULL; i++) {
		const struct listener *const listener = &serving->listeners[i];
		if (listener->is_unix)
			snprintf(line, sizeof line, "serving on unix:%s", listener->where);
		else
			snprintf(line, sizeof line, "serving on %s://%s/",
				has_certificate ? "https" : "http", listener->where);
		options->log(line);
		if (!listener->is_private && !has_certificate)
			options->log("the token crosses the network for all to read "
				     "(--tls-cert and --tls-key hide it)");
	}
	if (has_certificate)
		log_certificate_dates(options);
}

/* The server of a name may start later, but the name may also be a typing error. */
static void log_missing_targets(const struct serve_options *options, struct serving *serving)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };
	char line[1200];

	/* That process has just been started. */
	if (options->log == NULL || options->target_count == 0 || options->until_exit != 0)
		return;
	backend_set_list(&serving->gateway.backends, &list);
	for (size_t i = 0; i < list.problem_count; i++) {
		const struct error *const err = &list.problems[i].err;
		snprintf(line, sizeof line, "target not reachable yet: %s%s%s%s", err->message,
			err->hint[0] == '\0' ? "" : " (", err->hint,
			err->hint[0] == '\0' ? "" : ")");
		options->log(line);
	}
}

static bool start_servers(
	const struct serve_options *options, struct serving *serving, struct error *err)
{
	for (size_t i = 0; i < serving->listener_count; i++) {
		if (!http_server_start(&serving->gateway, &serving->listeners[i], &serving->slots,
			    options->certificate_file != NULL, &serving->servers[i], err))
			return false;
		serving->server_count++;
	}
	return true;
}

/* Readable once that process has ended; -1 for pid 0. */
static bool watch_process(int64_t pid, int *fd, struct error *err)
{
	*fd = pid == 0 ? -1 : (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (pid == 0 || *fd >= 0)
		return true;
	error_system(err, errno, "--until-exit: watching process %d", (int)pid);
	return error_hint(err, "give the pid of a process that runs; heapctl ps --all lists them");
}

/* False for a signal that ends the gateway. */
static bool handle_signal(
	const struct serve_options *options, struct watch_manager *watch_manager, unsigned number)
{
	if (number != SIGHUP && number != SIGUSR1)
		return false;
	if (number == SIGHUP && options->certificate_file != NULL)
		reload_certificate(options);
	if (number == SIGHUP && watch_manager != NULL)
		watch_manager_reload(watch_manager);
	if (number == SIGUSR1)
		watch_manager_signal(watch_manager);
	return true;
}

/*
 * Blocks until a signal to stop arrives or the process ends. The signal is consumed; the next one
 * ends the gateway at once.
 */
static bool await_end(const struct serve_options *options, struct watch_manager *watch_manager,
	int signals, int process, struct error *err)
{
	struct signalfd_siginfo info;
	struct pollfd pollers[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = process, .events = POLLIN },
	};

	do {
		while (poll(pollers, 2, -1) < 0) {
			if (errno != EINTR)
				return error_system(err, errno, "waiting for a signal");
		}
		if (pollers[0].revents == 0)
			return true;
		if (read(signals, &info, sizeof info) < 0)
			return error_system(err, errno, "reading a signal");
	} while (handle_signal(options, watch_manager, info.ssi_signo));
	return true;
}

/* Until no request is being answered, for a limited time. */
static void await_idle(const struct gateway *gateway)
{
	const int64_t deadline_ms = clock_monotonic_ms() + STOP_TIMEOUT_MS;

	while (__atomic_load_n(&gateway->counters.active, __ATOMIC_RELAXED) > 0 &&
		clock_monotonic_ms() < deadline_ms)
		usleep(20 * 1000);
}

static struct send_settings send_settings_of(const struct serve_options *options)
{
	const int64_t gather_ms = options->history_every_ms / 10;

	return (struct send_settings){
		.url = options->send_url,
		.arguments = options->send_arguments,
		.folder = options->history_folder,
		.gather_ms = gather_ms < GATHER_MAX_MS ? gather_ms : GATHER_MAX_MS,
	};
}

static bool run(const struct serve_options *options, struct serving *serving, struct error *err)
{
	int stop[2], cancel[2];
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (serving->gateway.watch_manager != NULL || options->certificate_file != NULL)
		sigaddset(&set, SIGHUP);
	if (serving->gateway.watch_manager != NULL)
		sigaddset(&set, SIGUSR1);
	if (pipe2(stop, O_CLOEXEC) != 0)
		return error_system(err, errno, "making a pipe");
	CLEANUP(fd_cleanup) int stop_reader = stop[0];
	CLEANUP(fd_cleanup) int stop_writer = stop[1];
	if (pipe2(cancel, O_CLOEXEC) != 0)
		return error_system(err, errno, "making a pipe");
	CLEANUP(fd_cleanup) int cancel_reader = cancel[0];
	CLEANUP(fd_cleanup) int cancel_writer = cancel[1];
	/* Threads inherit the mask: only this one sees the signals. */
	pthread_sigmask(SIG_BLOCK, &set, &old);
	CLEANUP(fd_cleanup) int signals = signalfd(-1, &set, SFD_CLOEXEC);
	CLEANUP(fd_cleanup) int process = -1;
	struct interval_recorder *recorder = NULL;
	const struct send_settings sending = send_settings_of(options);
	serving->gateway.source_root = options->source_root;
	serving->gateway.debuginfod = options->debuginfod;
	serving->gateway.shows_disasm = options->shows_disasm;
	serving->gateway.symbols_folder = options->symbols_folder;
	serving->gateway.stop_fd = stop_reader;
	serving->gateway.backends.cancel_fd = cancel_reader;
	serving->gateway.workers.cancel_fd = cancel_reader;
	serving->fleet_store.workers.cancel_fd = cancel_reader;
	/* The servers last: their threads read what the others set. */
	bool ok = watch_process(options->until_exit, &process, err) &&
		  (serving->gateway.store == NULL ||
			  interval_recorder_start(
				  &serving->gateway, options->history_every_ms, &recorder, err)) &&
		  (serving->gateway.watch_manager == NULL ||
			  watch_manager_start(serving->gateway.watch_manager, err)) &&
		  (sending.url == NULL || send_supervisor_start(&serving->gateway, &sending,
						  &serving->gateway.sender, err)) &&
		  start_servers(options, serving, err);
	if (ok) {
		announce(options, serving);
		log_missing_targets(options, serving);
		ok = await_end(options, serving->gateway.watch_manager, signals, process, err);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	/* Ends the waits of handlers. */
	close(TAKE_FD(stop_writer));
	await_idle(&serving->gateway);
	close(TAKE_FD(cancel_writer));
	for (size_t i = 0; i < serving->server_count; i++)
		http_server_stop(serving->servers[i]);
	send_supervisor_join(TAKE(serving->gateway.sender));
	interval_recorder_join(recorder);
	watch_manager_close(TAKE(serving->gateway.watch_manager));
	return ok;
}

/* Clients that read slowly hold results of any kind. Before threads start, and after they ended. */
static void reclaim_from(struct connection_slots *slots)
{
	struct byte_budget *const budgets[] = { &blob_scratch_budget, &backend_scratch_budget,
		&backend_memory_budget };

	for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
		budgets[i]->reclaim = slots == NULL ? NULL : connection_slots_reclaim;
		budgets[i]->reclaim_context = slots;
	}
}

static void serving_deinit(struct serving *serving)
{
	for (size_t i = 0; i < serving->listener_count; i++)
		listener_close(&serving->listeners[i]);
	watch_manager_close(serving->gateway.watch_manager);
	store_close(serving->gateway.store);
	backend_set_deinit(&serving->gateway.backends);
	worker_pool_deinit(&serving->gateway.workers);
	fleet_store_deinit(&serving->fleet_store);
	merge_queue_deinit(&serving->gateway.merges);
	work_places_deinit(&serving->gateway.places);
	result_cache_deinit(&serving->gateway.render_cache);
	result_cache_deinit(&serving->gateway.profile_cache);
	reclaim_from(NULL);
	connection_slots_deinit(&serving->slots);
	free(serving->token);
	tls_certificate_deinit();
}

bool serve_run(const struct serve_options *options, struct error *err)
{
	struct serving *const serving = xcalloc(1, sizeof *serving);

	serving->gateway.routes = routes;
	backend_set_init(&serving->gateway.backends, options->targets, options->target_count);
	result_cache_init(&serving->gateway.render_cache, RENDER_CACHE_BYTES);
	result_cache_init(&serving->gateway.profile_cache, PROFILE_BYTES);
	worker_pool_init(&serving->gateway.workers, WORKERS);
	fleet_store_init(&serving->fleet_store, options->store_url, options->store_password_file);
	if (options->store_url != NULL)
		serving->gateway.fleet_store = &serving->fleet_store;
	work_places_init(&serving->gateway.places);
	merge_queue_init(&serving->gateway.merges);
	connection_slots_init(&serving->slots, SERVER_CONNECTIONS_MAX);
	reclaim_from(&serving->slots);
	serving->gateway.started_ms = clock_realtime_ms();
	serving->gateway.log = options->log;
	bool ok = read_secrets(options, serving, err);
	serving->gateway.token = serving->token;
	serving->gateway.has_tls = options->certificate_file != NULL;
	ok = ok && check_folders("--source-root", options->source_root, err) &&
	     check_folder("--symbols", options->symbols_folder, err) &&
	     open_store(options, serving, err) && open_watch_file(options, serving, err) &&
	     open_listeners(options, serving, err) && run(options, serving, err);
	serving_deinit(serving);
	free(serving);
	return ok;
}
