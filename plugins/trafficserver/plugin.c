/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_profile.so: Traffic Server's heap profiles by plugin message.
 *
 *	plugin.config:  /usr/local/lib/x86_64-linux-gnu/heapctl/memory_profile.so
 *	traffic_ctl plugin msg memory_profile dump
 *
 * docs/trafficserver.md says more.
 */
#include "trafficserver/plugin.h"

#include <stdio.h>
#include <string.h>
#include <ts/ts.h>

#include "trafficserver/arguments.h"
#include "trafficserver/report.h"
#include "trafficserver/startup.h"
#include "trafficserver/worker.h"

/* A dump that is going on when the server ends is waited for, but not for ever. */
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
		report_failure("'%s' is not done: %d messages are waiting already, or the server "
			       "is ending",
			message.text, QUEUE_CAPACITY);
	return 0;
}

static int handle_shutdown(TSCont continuation, TSEvent event, void *data)
{
	struct worker *const worker = TSContDataGet(continuation);

	size_t forgotten = 0;

	(void)event;
	(void)data;
	if (!queue_close(&worker->queue, SHUTDOWN_WAIT_MS, &forgotten))
		report_warning("the server ends while a message is being worked on");
	if (forgotten > 0)
		report_warning("the server ends: %zu messages are not done", forgotten);
	return 0;
}

/* Without a mutex: the server would end itself on finding it held. */
static void add_hook(TSLifecycleHookID hook, TSEventFunc function, struct worker *worker)
{
	const TSCont continuation = TSContCreate(function, NULL);

	TSContDataSet(continuation, worker);
	TSLifecycleHookAdd(hook, continuation);
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
		startup(&arguments, &worker);
	else
		report_failure("plugin.config: %s", worker.problem);
	if (TSThreadCreate(worker_main, &worker) == NULL) {
		report_failure("its thread cannot be started");
		return;
	}
	add_hook(TS_LIFECYCLE_MSG_HOOK, handle_message, &worker);
	add_hook(TS_LIFECYCLE_SHUTDOWN_HOOK, handle_shutdown, &worker);
}
