/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/archivist.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"

enum { STACK_BYTES = 1024 * 1024 };

struct archivist {
	struct gateway *gateway;
	int64_t every_ms;
	pthread_t thread;
};

static void say(const struct archivist *archivist, const struct error *err)
{
	char line[900];

	if (archivist->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "history: %s%s%s%s", err->message,
		err->hint[0] == '\0' ? "" : " (", err->hint, err->hint[0] == '\0' ? "" : ")");
	archivist->gateway->log(line);
}

static bool keep(struct gateway *gateway, struct backend *backend, const json_t *status,
	struct archive_moment *moment, struct error *err)
{
	struct backend_answer answer;
	char path[64];

	moment->time_ms = clock_realtime_ms();
	for (size_t i = 0; i < ARCHIVE_RSS; i++) {
		snprintf(path, sizeof path, "memory.%s", archive_figure_names[i]);
		moment->bytes[i] = (uint64_t)json_number(status, path);
	}
	moment->bytes[ARCHIVE_RSS] = backend_resident_bytes(backend);
	moment->pid = backend->pid != 0 ? backend->pid : json_number(status, "pid");
	moment->started_ms = json_number(status, "started_ms");
	snprintf(moment->target, sizeof moment->target, "%s", backend->name);
	if (!backend_get_profile(backend, "/v1/profile", &answer, err))
		return false;
	const bool ok =
		archive_add(gateway->archive, moment, answer.body->data, answer.body->size, err);
	blob_drop(answer.body);
	return ok;
}

bool archivist_keep(struct gateway *gateway, struct backend *backend, const char *reason,
	struct archive_moment *moment, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*moment = (struct archive_moment){ 0 };
	snprintf(moment->reason, sizeof moment->reason, "%s", reason);
	return backend_get_json(backend, "/v1/status", &status, err) &&
	       keep(gateway, backend, status, moment, err);
}

static bool keep_regularly(
	const struct archivist *archivist, struct backend *backend, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct archive_moment moment = { 0 };

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	return !json_flag(status, "profiling.available") ||
	       keep(archivist->gateway, backend, status, &moment, err);
}

static bool is_over(const struct archivist *archivist, int64_t patience_ms)
{
	struct pollfd poller = { .fd = archivist->gateway->stop_fd, .events = POLLIN };

	return poll(&poller, 1, patience_ms > INT32_MAX ? INT32_MAX : (int)patience_ms) > 0;
}

static void keep_all(const struct archivist *archivist)
{
	CLEANUP(backend_list_cleanup) struct backend_list list;
	struct error err;

	backend_set_list(&archivist->gateway->backends, &list);
	for (size_t i = 0; i < list.count && !is_over(archivist, 0); i++) {
		if (!keep_regularly(archivist, list.items[i], &err))
			say(archivist, &err);
	}
}

static void *work(void *context)
{
	const struct archivist *const archivist = context;

	do {
		const int64_t begun_ms = clock_monotonic_ms();
		keep_all(archivist);
		const int64_t left_ms = begun_ms + archivist->every_ms - clock_monotonic_ms();
		if (is_over(archivist, left_ms < 0 ? 0 : left_ms))
			break;
	} while (true);
	return NULL;
}

bool archivist_start(
	struct gateway *gateway, int64_t every_ms, struct archivist **ret, struct error *err)
{
	struct archivist *const archivist = xcalloc(1, sizeof *archivist);
	pthread_attr_t attributes;

	archivist->gateway = gateway;
	archivist->every_ms = every_ms;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	const int failed = pthread_create(&archivist->thread, &attributes, work, archivist);
	pthread_attr_destroy(&attributes);
	if (failed != 0) {
		free(archivist);
		return error_system(err, failed, "starting the thread of the history");
	}
	*ret = archivist;
	return true;
}

void archivist_join(struct archivist *archivist)
{
	if (archivist == NULL)
		return;
	pthread_join(archivist->thread, NULL);
	free(archivist);
}
