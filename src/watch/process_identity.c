/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/process_identity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/identity_variables.h"
#include "base/xalloc.h"
#include "client/process.h"

bool process_identity_take_environment(
	const struct buffer *environment, struct snapshot_identity *identity, struct error *err)
{
	const char *const labels = process_environment_find(environment, IDENTITY_LABELS_VARIABLE);

	identity->source = IDENTITY_LABELS_VARIABLE;
	const bool is_good = labels == NULL || identity_set_labels(identity, labels, err);
	const bool is_pod = process_environment_find(environment, IDENTITY_POD_VARIABLE) != NULL;
	for (size_t i = 0; is_pod && i < IDENTITY_VARIABLES; i++) {
		identity->source = identity_variables[i].variable;
		identity_set_found(identity, identity_variables[i].label,
			process_environment_find(environment, identity_variables[i].variable));
	}
	return is_good;
}

static bool ends_with(const char *text, size_t size, const char *end)
{
	return size > strlen(end) && memcmp(text + size - strlen(end), end, strlen(end)) == 0;
}

/* "redis@6380.service": of all instances of the unit together. */
static void take_unit(
	const char *unit, size_t size, bool is_child_of_init, struct snapshot_identity *identity)
{
	CLEANUP(free_cleanup) char *name = xstrndup(unit, size);

	/* That of a user's own systemd. */
	if (!ends_with(unit, size, ".service") || strncmp(name, "user@", 5) == 0)
		return;
	identity_set_found(identity, "unit", name);
	name[size - strlen(".service")] = '\0';
	name[strcspn(name, "@")] = '\0';
	if (is_child_of_init)
		identity_set_found(identity, "service", name);
}

/* The number of a container is 64 hexadecimal digits, in Docker and all others. */
static void take_container(const char *path, size_t size, struct snapshot_identity *identity)
{
	enum { DIGITS = 64, SHOWN = 12 };
	size_t run = 0;

	for (size_t i = 0; i < size; i++) {
		run = isxdigit((unsigned char)path[i]) ? run + 1 : 0;
		const bool is_end = i + 1 == size || !isxdigit((unsigned char)path[i + 1]);
		if (run != DIGITS || !is_end)
			continue;
		char number[SHOWN + 1] = "";
		memcpy(number, path + i + 1 - DIGITS, SHOWN);
		identity_set_found(identity, "container", number);
	}
}

/* "pod1234abcd-...", with '_' for '-' where systemd names it. */
static void take_pod(const char *path, size_t size, struct snapshot_identity *identity)
{
	enum { UID_BYTES = 36 };

	for (const char *at = path; size - (size_t)(at - path) >= 3 + UID_BYTES; at++) {
		char uid[UID_BYTES + 1] = "";
		if (strncmp(at, "pod", 3) != 0)
			continue;
		memcpy(uid, at + 3, UID_BYTES);
		for (char *c = uid; (c = strchr(c, '_')) != NULL;)
			*c = '-';
		if (strspn(uid, "0123456789abcdef-") == UID_BYTES)
			identity_set_found(identity, "pod", uid);
	}
}

/* One line: "0::/system.slice/redis-server.service", "1:name=systemd:/...". */
static void take_hierarchy(
	const char *line, bool is_child_of_init, struct snapshot_identity *identity)
{
	const char *const controllers = strchr(line, ':');
	const char *const colon = controllers == NULL ? NULL : strchr(controllers + 1, ':');

	if (colon == NULL)
		return;
	const char *const path = colon + 1;
	const size_t size = strcspn(path, "\n");
	const char *const slash = memrchr(path, '/', size);
	const bool has_units =
		strncmp(line, "0::", 3) == 0 || strncmp(controllers, ":name=systemd:", 14) == 0;
	if (has_units && slash != NULL)
		take_unit(slash + 1, size - (size_t)(slash + 1 - path), is_child_of_init, identity);
	take_container(path, size, identity);
	take_pod(path, size, identity);
}

void process_identity_take_cgroup(
	const char *text, bool is_child_of_init, struct snapshot_identity *identity)
{
	identity->source = "control group";
	for (const char *line = text; line != NULL && *line != '\0';) {
		take_hierarchy(line, is_child_of_init, identity);
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
}

static void take_cgroup(const struct process *process, struct snapshot_identity *identity)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error ignored;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)process->pid);
	if (file_read(path, &text, &ignored))
		process_identity_take_cgroup(buffer_string(&text), process->parent == 1, identity);
}

bool process_identity_read_environment(pid_t pid, struct buffer *environment)
{
	struct error ignored;

	return pid != 0 && process_read_environment(pid, environment, &ignored) &&
	       process_environment_is_intact(environment);
}

void process_identity_copy_noted(const json_t *status, struct buffer *environment)
{
	const char *name;
	json_t *value;

	buffer_clear(environment);
	json_object_foreach(json_object_get(status, "environment"), name, value)
	{
		if (!json_is_string(value))
			continue;
		buffer_printf(environment, "%s=%s", name, json_string_value(value));
		buffer_append(environment, "", 1);
	}
}

static bool take_variables(
	pid_t pid, const json_t *status, struct snapshot_identity *identity, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;

	if (!process_identity_read_environment(pid, &environment))
		process_identity_copy_noted(status, &environment);
	return process_identity_take_environment(&environment, identity, err);
}

bool process_identity_read(const struct target *target, const json_t *status,
	struct snapshot_identity *identity, struct error *err)
{
	const struct process *const process = &target->process;
	const bool is_here = target->kind == TARGET_AGENT;
	char host[256] = "";

	/* Behind another gateway the pid is one of its machine. */
	const bool is_good = take_variables(is_here ? process->pid : 0, status, identity, err);
	if (is_here && process->pid != 0)
		take_cgroup(process, identity);
	identity->source = "name of the process";
	identity_set_found(
		identity, "service", process->name[0] != '\0' ? process->name : target->file_stem);
	identity->source = is_here ? "name of this machine" : "URL";
	if (!is_here || gethostname(host, sizeof host - 1) != 0)
		snprintf(host, sizeof host, "%s", target->url.host);
	identity_set_found(identity, "host", host);
	identity->source = NULL;
	return is_good;
}

void process_identity_read_container(pid_t pid, char container[PROCESS_CONTAINER_BYTES])
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct snapshot_identity identity = { 0 };
	struct error ignored;
	char path[64];

	container[0] = '\0';
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (!file_read(path, &text, &ignored))
		return;
	process_identity_take_cgroup(buffer_string(&text), false, &identity);
	for (size_t i = 0; i < identity.label_count; i++) {
		if (strcmp(identity.labels[i].name, "container") == 0)
			snprintf(container, PROCESS_CONTAINER_BYTES, "%.*s",
				PROCESS_CONTAINER_BYTES - 1, identity.labels[i].value);
	}
}
