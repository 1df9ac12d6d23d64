/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /discovery: the targets in the form of Prometheus' http_sd, which Parca and Grafana Alloy read,
 * too. Targets are listed without asking their agents, but for the environment of a process that
 * has written its title over it, or that may not be read.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "watch/process_identity.h"

/* For all agents of an answer together. */
enum { ASK_MS = 2000 };

/* "host", "host:port" or "[v6]:port": what scrapers accept, and nothing that ends a URL's host. */
static bool is_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *const bracket = strrchr(text, ']');

	if (colon != NULL && bracket != NULL && bracket > colon)
		colon = NULL;
	if (colon != NULL && (colon == text || colon[1] == '\0' ||
				     colon[1 + strspn(colon + 1, "0123456789")] != '\0'))
		return false;
	for (const char *at = text; *at != '\0'; at++) {
		if (!isalnum((unsigned char)*at) && strchr(".-_:[]", *at) == NULL)
			return false;
	}
	return text[0] != '\0' && strlen(text) < 256;
}

static bool find_address(const struct request *request, const char **address, struct error *err)
{
	const char *const given = request_text(request, "address");
	const char *const text = given != NULL ? given : request->host;

	if (!is_address(text)) {
		error_set(err, ERROR_USAGE, "'%.80s' is not an address of this gateway", text);
		return error_hint(err, "give one: /discovery?address=HOST:PORT");
	}
	*address = text;
	return true;
}

/* What the process was started with says; the rest stays as it is. */
static void read_identity(
	struct backend *backend, int64_t asks_until_ms, struct snapshot_identity *identity)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	CLEANUP(json_cleanup) json_t *noted = NULL;
	struct error ignored;

	if (!process_identity_read_environment(backend->pid, &environment)) {
		noted = backend_identity(backend, asks_until_ms - clock_monotonic_ms());
		process_identity_copy_noted(noted, &environment);
	}
	(void)!process_identity_take_environment(&environment, identity, &ignored);
}

/*
 * A process chooses its labels. Those that scrapers act on, and ours, are not for it: a
 * "__address__" would send a scraper, with its token, elsewhere.
 */
static bool is_free_label(const char *name)
{
	static const char *const ours[] = { "name", "pid", "user", "service_name", "version", "job",
		"instance" };

	if (strncmp(name, "__", 2) == 0)
		return false;
	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
		if (strcmp(name, ours[i]) == 0)
			return false;
	}
	return true;
}

/* Any user's process can call itself any service; whose it is it cannot choose. */
static void put_user(struct json_writer *json, const struct backend *backend)
{
	char user[USER_NAME_BYTES];

	if (backend->owner == USER_ANY)
		return;
	user_name_format(backend->owner, user);
	json_member_string(json, "user", user);
}

static void put_identity(struct json_writer *json, const struct backend *backend,
	const struct snapshot_identity *identity)
{
	json_member_string(json, "service_name",
		identity->service[0] == '\0' ? backend->name : identity->service);
	if (identity->version[0] != '\0')
		json_member_string(json, "version", identity->version);
	if (identity->host[0] != '\0')
		json_member_string(json, "host", identity->host);
	for (size_t i = 0; i < identity->label_count; i++) {
		if (is_free_label(identity->labels[i].name))
			json_member_string(
				json, identity->labels[i].name, identity->labels[i].value);
	}
}

/* Scrapers encode the path themselves. */
static void put_path(struct json_writer *json, const char *target, bool has_metrics)
{
	CLEANUP(free_cleanup) char *prefix = xasprintf("/targets/%s", target);
	CLEANUP(free_cleanup) char *metrics = xasprintf("%s/metrics", prefix);

	if (has_metrics)
		json_member_string(json, "__metrics_path__", metrics);
	json_member_string(json, "__profile_path_prefix__", prefix);
}

static void begin_group(
	struct json_writer *json, const struct gateway *gateway, const char *address)
{
	json_object_begin(json);
	json_member_array(json, "targets");
	json_put_string(json, address);
	json_array_end(json);
	json_member_object(json, "labels");
	if (gateway->has_tls)
		json_member_string(json, "__scheme__", "https");
}

static void end_group(struct json_writer *json)
{
	json_object_end(json);
	json_object_end(json);
}

static void put_target(struct json_writer *json, struct backend *backend, int64_t asks_until_ms)
{
	struct snapshot_identity identity = { 0 };
	char pid[16];

	snprintf(pid, sizeof pid, "%d", (int)backend->pid);
	put_path(json, backend->pid != 0 ? pid : backend->name, true);
	json_member_string(json, "name", backend->name);
	if (backend->pid != 0)
		json_member_string(json, "pid", pid);
	put_user(json, backend);
	read_identity(backend, asks_until_ms, &identity);
	put_identity(json, backend, &identity);
}

/* Without what differs between the processes of a name: their profile is that of no one of them. */
static void put_name(struct json_writer *json, const struct backend_list *list, size_t first,
	int64_t asks_until_ms)
{
	const char *const name = list->items[first]->name;
	struct snapshot_identity identity = { 0 };
	bool is_one_user = true, is_one_service = true;

	read_identity(list->items[first], asks_until_ms, &identity);
	for (size_t i = first + 1; i < list->count; i++) {
		struct snapshot_identity other = { 0 };
		if (strcmp(list->items[i]->name, name) != 0)
			continue;
		read_identity(list->items[i], asks_until_ms, &other);
		is_one_user = is_one_user && list->items[i]->owner == list->items[first]->owner;
		is_one_service = is_one_service && strcmp(other.service, identity.service) == 0;
	}
	put_path(json, name, false);
	json_member_string(json, "__param_merge", "1");
	json_member_string(json, "name", name);
	if (is_one_user)
		put_user(json, list->items[first]);
	json_member_string(json, "service_name",
		is_one_service && identity.service[0] != '\0' ? identity.service : name);
}

static bool is_first_of_name(const struct backend_list *list, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (strcmp(list->items[i]->name, list->items[at]->name) == 0)
			return false;
	}
	return true;
}

bool discovery(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };
	const bool by_name = request_number(request, "merge", 0) != 0;
	const int64_t asks_until_ms = clock_monotonic_ms() + ASK_MS;
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	const char *address = NULL;

	if (!find_address(request, &address, err))
		return false;
	backend_set_list(&gateway->backends, &list);
	json_init(&json, &body);
	json_array_begin(&json);
	for (size_t i = 0; i < list.count; i++) {
		if (by_name && !is_first_of_name(&list, i))
			continue;
		begin_group(&json, gateway, address);
		if (by_name)
			put_name(&json, &list, i, asks_until_ms);
		else
			put_target(&json, list.items[i], asks_until_ms);
		end_group(&json);
	}
	json_array_end(&json);
	reply_buffer(reply, 200, "application/json", &body);
	return true;
}
