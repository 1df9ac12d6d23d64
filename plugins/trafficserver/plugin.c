/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_profile.so: Traffic Server's heap profiles by plugin message.
 *
 *	plugin.config:  /usr/local/lib/x86_64-linux-gnu/heapctl/memory_profile.so
 *	traffic_ctl plugin msg memory_profile dump
 *
 * docs/trafficserver.md says more.
 */
#include <stdio.h>
#include <string.h>
#include <ts/ts.h>

#include "trafficserver/arguments.h"
#include "trafficserver/report.h"
#include "trafficserver/worker.h"

/* How long the end of the server waits for a dump. */
enum { SHUTDOWN_WAIT_MS = 5000 };

/* Every plugin gets every message. Called on a thread that the server needs back at once. */
static int handle_message(TSCont continuation, TSEvent event, void *data)
{
	struct worker *const worker = TSContDataGet(continuation);
	const TSPluginMsg *const given = data;
	struct message message;

	if (event != TS_EVENT_LIFECYCLE_MSG || strcmp(given->tag, PLUGIN_TAG) != 0)
		return 0;
	message_copy(&message, given->data, given->data_size);
	if (!queue_put(&worker->queue, &message))
		report_failure("'%s' is refused: %d messages are waiting, or the server is ending",
			message.text, QUEUE_CAPACITY);
	return 0;
}

static int handle_shutdown(TSCont continuation, TSEvent event, void *data)
{
	struct worker *const worker = TSContDataGet(continuation);
	size_t discarded = 0;

	(void)event;
	(void)data;
	const bool is_idle = queue_close(&worker->queue, SHUTDOWN_WAIT_MS, &discarded);
	if (!is_idle)
		report_warning("the server ends while a message is being handled");
	if (discarded > 0)
		report_warning("the server ends: %zu messages are not handled", discarded);
	/* Removes the socket's name, which the end of a process leaves. */
	if (is_idle)
		heapctl_stop();
	return 0;
}

/* Without a mutex: the server would end itself on finding it held. */
static void add_hook(TSLifecycleHookID hook, TSEventFunc function, struct worker *worker)
{
	const TSCont continuation = TSContCreate(function, NULL);

	TSContDataSet(continuation, worker);
	TSLifecycleHookAdd(hook, continuation);
}

static bool start_agent(const struct arguments *arguments, struct heapctl_error *err)
{
	struct heapctl_options options = { .size = sizeof options,
		/* traffic_crashlog is a child that waits for the server's end. */
		.flags = HEAPCTL_NOT_IN_CHILDREN,
		.keep = arguments->keep,
		.folder = arguments->folder,
		.log = report_agent };

	if (arguments->no_socket)
		options.flags |= HEAPCTL_NO_SOCKET;
	if (heapctl_start(&options, err) == HEAPCTL_OK)
		return true;
	if (arguments->no_socket || err->code == HEAPCTL_STATE)
		return false;
	report_error("no socket: only plugin messages work", err);
	options.flags |= HEAPCTL_NO_SOCKET;
	return heapctl_start(&options, err) == HEAPCTL_OK;
}

/*
 * A server that has just started has a small heap; and its code made at run time is that of
 * PCRE's patterns, which call nothing that allocates.
 */
static bool is_expected(const char *code)
{
	return strcmp(code, "sample-interval-wide") == 0 || strcmp(code, "unwinder-jit") == 0;
}

static void warn(void *context, const char *code, const char *message, const char *hint)
{
	(void)context;
	if (!is_expected(code))
		report_warning("%s (%s)", message, hint);
}

static void check_prefix(const struct heapctl_status *status, char path[PATH_MAX])
{
	struct heapctl_error err;

	if (!profile_file_check(status->prof_prefix, path, &err))
		report_warning(
			"profiles cannot be written to %s.*: %s (%s)", path, err.message, err.hint);
}

static void report_status(void)
{
	struct heapctl_status status = { .size = sizeof status };
	char path[PATH_MAX] = "";

	if (heapctl_get_status(&status, NULL) != HEAPCTL_OK)
		return;
	if (!status.available) {
		report_warning("no profile can be taken: %s (%s)", status.reason, status.hint);
		return;
	}
	check_prefix(&status, path);
	report_done("ready: %s %s, sampling is %s, profiles go to %s.*, socket %s",
		status.allocator, status.version, status.active ? "on" : "off", path,
		status.socket[0] == '\0' ? "none" : status.socket);
}

/* What stands in the way is logged and, when nothing can work, left in the worker. */
static void start(const struct arguments *arguments, struct worker *worker)
{
	struct heapctl_error err;

	if (!start_agent(arguments, &err)) {
		snprintf(worker->problem, sizeof worker->problem, "%s", err.message);
		report_error("the agent does not start", &err);
		return;
	}
	(void)heapctl_warnings(warn, NULL, NULL);
	report_status();
}

static void register_plugin(void)
{
	const TSPluginRegistrationInfo info = {
		.plugin_name = PLUGIN_TAG, .vendor_name = "heapctl", .support_email = ""
	};

	if (TSPluginRegister(&info) != TS_SUCCESS)
		report_warning("Traffic Server did not register the plugin");
}

HEAPCTL_API void TSPluginInit(int argc, const char *argv[])
{
	static struct worker worker;
	static bool initialized;
	struct arguments arguments;

	if (initialized) {
		report_failure("memory_profile.so is in plugin.config twice");
		return;
	}
	initialized = true;
	register_plugin();
	queue_init(&worker.queue);
	metrics_create(&worker.metrics);
	if (arguments_read(argc, argv, &arguments, worker.problem, sizeof worker.problem))
		start(&arguments, &worker);
	else
		report_failure("plugin.config: %s", worker.problem);
	if (TSThreadCreate(worker_main, &worker) == NULL) {
		report_failure("its thread cannot be started");
		return;
	}
	add_hook(TS_LIFECYCLE_MSG_HOOK, handle_message, &worker);
	add_hook(TS_LIFECYCLE_SHUTDOWN_HOOK, handle_shutdown, &worker);
}
