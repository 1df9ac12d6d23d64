/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/startup.h"

#include <stdio.h>
#include <string.h>

#include "trafficserver/report.h"

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
	report_error("there is no socket, only plugin messages work", err);
	options.flags |= HEAPCTL_NO_SOCKET;
	return heapctl_start(&options, err) == HEAPCTL_OK;
}

/*
 * A server that has just started has a small heap; and its code made at run time is that of
 * PCRE's patterns, which call nothing that allocates.
 */
static bool is_to_be_expected(const char *code)
{
	return strcmp(code, "sample-interval-wide") == 0 || strcmp(code, "unwinder-jit") == 0;
}

static void warn(void *context, const char *code, const char *message, const char *hint)
{
	(void)context;
	if (!is_to_be_expected(code))
		report_warning("%s (%s)", message, hint);
}

static void tell_prefix(const struct heapctl_status *status, char path[PATH_MAX])
{
	struct heapctl_error err;

	if (!profile_file_check(status->prof_prefix, path, &err))
		report_warning(
			"profiles cannot be written to %s.*: %s (%s)", path, err.message, err.hint);
}

static void tell_status(void)
{
	struct heapctl_status status = { .size = sizeof status };
	char path[PATH_MAX] = "";

	if (heapctl_get_status(&status, NULL) != HEAPCTL_OK)
		return;
	if (!status.available) {
		report_warning("no profile can be taken: %s (%s)", status.reason, status.hint);
		return;
	}
	tell_prefix(&status, path);
	report_done("ready: %s %s, sampling is %s, profiles go to %s.*, socket %s",
		status.allocator, status.version, status.active ? "on" : "off", path,
		status.socket[0] == '\0' ? "none" : status.socket);
}

void startup(const struct arguments *arguments, struct worker *worker)
{
	struct heapctl_error err;

	if (!start_agent(arguments, &err)) {
		snprintf(worker->problem, sizeof worker->problem, "%s", err.message);
		report_error("the agent does not start", &err);
		return;
	}
	(void)heapctl_warnings(warn, NULL, NULL);
	tell_status();
}
