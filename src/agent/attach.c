/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `heapctl attach` calls in a process that was not started for it, on a thread that it has
 * made (inject/inject.h).
 *
 * Children of the process get no agent, and no signal handler is installed: the program knows of
 * neither. The agent leaves by POST /v1/detach, and may be attached again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/agent.h"
#include "agent/folder.h"
#include "agent/thread.h"
#include "sampler/entries.h"
#include "sampler/entry_area.h"
#include "sampler/interposer.h"
#include "sampler/sampler_operations.h"

/* NAME=VALUE lines, in the place of an environment: one thread attaches at a time. */
static const char *settings_text;

static char *find_setting(const char *name)
{
	/* One that is too long stays so. */
	static char value[SETTINGS_PATH_MAX + 1];
	const size_t size = strlen(name);

	for (const char *line = settings_text; *line != '\0';) {
		const size_t length = strcspn(line, "\n");
		if (length > size && line[size] == '=' && strncmp(line, name, size) == 0) {
			snprintf(value, sizeof value, "%.*s", (int)(length - size - 1),
				line + size + 1);
			return value;
		}
		line += length + (line[length] == '\n');
	}
	return NULL;
}

#ifdef HEAPCTL_STATIC_IMAGE
/* A static program has no tables; that its main thread has ended is seen within seconds. */
static void replace_exit(void)
{
}
#else
/*
 * The library was loaded on another thread, so the main thread is noted (agent/thread.h) when it
 * calls pthread_exit(), which is replaced in the tables of the modules. One that calls it through a
 * pointer is not.
 */
static void (*exit_thread)(void *);

static void note_and_exit_thread(void *value)
{
	main_thread_note_by_stack();
	exit_thread(value);
}

static const struct entry exits[] = {
	{ "pthread_exit", __extension__(void *) note_and_exit_thread,
		__extension__(void **) & exit_thread, false, true },
};

static void restore_exit(void)
{
	interposer_restore_others(exits, 1);
}

static void replace_exit(void)
{
	*exits[0].original = entries_definition(exits[0].name);
	if (exit_thread == NULL)
		return;
	agent_state.give_back = restore_exit;
	interposer_replace_others(exits, 1);
}
#endif

/* Otherwise err->kind is ERROR_NONE where the agent did not note why. */
static bool has_socket(struct error *err)
{
	char path[SETTINGS_PATH_MAX + 64] = "";

	*err = (struct error){ 0 };
	pthread_mutex_lock(&agent_state.lock);
	if (agent_state.agent != NULL) {
		listener_path(&agent_state.agent->service.listener, path, sizeof path);
		*err = agent_state.agent->service.listen_error;
	}
	pthread_mutex_unlock(&agent_state.lock);
	return path[0] != '\0';
}

/* On a busy machine the new thread may wait for a processor; shorter than heapctl waits for this.
 */
enum { SOCKET_WAIT_MS = 6000 };

/* Where the code of patched functions may be: "FIRST LIMIT", in hexadecimal digits. */
static bool find_entry_range(uint64_t *first, uint64_t *limit)
{
	const char *const text = find_setting("entry_range");
	char *end = NULL;

	if (text == NULL)
		return false;
	*first = strtoull(text, &end, 16);
	*limit = strtoull(end, &end, 16);
	return true;
}

/* What no function jumps into. */
static void unmap_unused_area(void)
{
	if (entry_area_get() == NULL)
		entry_area_unmap();
}

static bool refuse_other_method(struct error *err)
{
	error_set(err, ERROR_STATE,
		"its functions were patched before, and a thread may still be in that code");
	return error_hint(err, "heapctl attach --method entry");
}

/* The thread of an attach that was killed may start it at the same time. */
static bool ensure_started(const struct agent_options *options, struct error *err)
{
	return agent_is_started() || agent_start(options, err) || agent_is_started();
}

static bool start_agent(struct agent_options *options, struct error *err)
{
	uint64_t first = 0, limit = 0;

	options->settings.with_entries = find_entry_range(&first, &limit);
	if (!options->settings.with_entries && entry_area_get() != NULL)
		return refuse_other_method(err);
	const bool done = (!options->settings.with_entries || entry_area_map(first, limit, err)) &&
			  ensure_started(options, err);
	if (!done || !sampler_operations_use_entries())
		unmap_unused_area();
	return done;
}

/*
 * A program may forbid its threads to read the processor's counter, by which the C library tells
 * the time: the signal would end it. Nothing shows that from outside, and the thread that loads the
 * agent has it from the one that was borrowed.
 */
static bool check_clock(struct error *err)
{
#ifdef __x86_64__
	int mode = PR_TSC_ENABLE;

	if (prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode == PR_TSC_SIGSEGV) {
		error_set(err, ERROR_UNSUPPORTED,
			"it forbids itself to read the processor's time stamp counter "
			"(PR_SET_TSC), which its agent needs");
		return error_hint(err, "profile it without that setting");
	}
#endif
	(void)err;
	return true;
}

static bool start(const char *settings, struct error *err)
{
	struct agent_options options = { .with_socket = true, .preloaded = true };
	struct folder folder;

	if (!check_clock(err))
		return false;
	settings_text = settings;
	settings_read(&options.settings, find_setting);
	options.settings.attached = true;
	options.settings.children = SETTINGS_CHILDREN_NO;
	const char *const name = find_setting("name");
	snprintf(options.name, sizeof options.name, "%s", name == NULL ? "" : name);
	if (!folder_choose(&options.settings, &folder, err))
		return err->hint[0] == '\0' &&
		       error_hint(err, "%s",
			       err->errnum == EMFILE
				       ? "raise the process's RLIMIT_NOFILE with prlimit --nofile"
				       : "mount a tmpfs at its /dev/shm, or name a folder that it "
					 "can write to: HEAPCTL_DIR=FOLDER heapctl attach");
	if (!start_agent(&options, err))
		return false;
	replace_exit();
	const bool has_tried = agent_thread_wait_for_socket(SOCKET_WAIT_MS);
	if (has_socket(err))
		return true;
	agent_end_attached();
	unmap_unused_area();
	if (!has_tried) {
		error_set(err, ERROR_TIMEOUT, "its agent's thread did not run for %d s",
			SOCKET_WAIT_MS / 1000);
		return error_hint(err, "the machine is too busy: try again");
	}
	if (err->kind == ERROR_NONE)
		error_set(err, ERROR_STATE, "its agent could make no socket in %s", folder.path);
	else
		error_prefix(err, "its agent could make no socket");
	if (err->hint[0] != '\0')
		return false;
	return error_hint(err, "name a folder that the process can write to: HEAPCTL_DIR=FOLDER "
			       "heapctl attach");
}

int heapctl_attach_agent(const char *settings, char *answer, size_t size);

/*
 * Returns an error kind; `answer` is the message and, on a line of its own, the hint. On success,
 * where functions are to be patched: the addresses of the area, of the table of entries, and how
 * many entries that has.
 */
__attribute__((visibility("default"))) int heapctl_attach_agent(
	const char *settings, char *answer, size_t size)
{
	struct error err = { 0 };
	size_t count = 0;

	if (start(settings, &err)) {
		const struct entry *const entries = entries_list(&count);
		if (sampler_operations_use_entries())
			snprintf(answer, size, "%" PRIxPTR " %" PRIxPTR " %zu",
				entry_area_address(), (uintptr_t)entries, count);
		return 0;
	}
	snprintf(answer, size, "%s\n%s", err.message, err.hint);
	return (int)err.kind;
}
