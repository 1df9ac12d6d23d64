/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic Server's plugin between a server and an agent that are functions of this file: every
 * argument of plugin.config with every message.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ts/ts.h>
#include <unistd.h>

#include "heapctl.h"
#include "remove_folder.h"
#include "unit.h"

/* --- The server --- */

enum { LINES_MAX = 64, LINE_BYTES = 400, WAIT_S = 30 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char lines[LINES_MAX][LINE_BYTES]; /* "NOTE ...", "WARNING ...", "ERROR ..." */
	size_t count;
	TSEventFunc on_message;
	void *data;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct tsapi_cont {
	TSEventFunc function;
	void *data;
};

static void __attribute__((format(printf, 2, 0)))
add_line(const char *level, const char *format, va_list arguments)
{
	pthread_mutex_lock(&server.lock);
	if (server.count < LINES_MAX) {
		char *const line = server.lines[server.count++];
		const int length = snprintf(line, LINE_BYTES, "%s ", level);
		vsnprintf(line + length, LINE_BYTES - (size_t)length, format, arguments);
	}
	pthread_cond_broadcast(&server.changed);
	pthread_mutex_unlock(&server.lock);
}

#define DEFINE_LOG(function, level)                 \
	void function(const char *format, ...)      \
	{                                           \
		va_list arguments;                  \
		va_start(arguments, format);        \
		add_line(level, format, arguments); \
		va_end(arguments);                  \
	}

DEFINE_LOG(TSNote, "NOTE")
DEFINE_LOG(TSWarning, "WARNING")
DEFINE_LOG(TSError, "ERROR")

TSReturnCode TSPluginRegister(const TSPluginRegistrationInfo *info)
{
	(void)info;
	return TS_SUCCESS;
}

TSCont TSContCreate(TSEventFunc function, TSMutex mutex)
{
	TSCont const continuation = calloc(1, sizeof *continuation);

	(void)mutex;
	continuation->function = function;
	return continuation;
}

void TSContDataSet(TSCont continuation, void *data)
{
	continuation->data = data;
}

void *TSContDataGet(TSCont continuation)
{
	return continuation->data;
}

static TSCont message_hook;

void TSLifecycleHookAdd(TSLifecycleHookID id, TSCont continuation)
{
	if (id == TS_LIFECYCLE_MSG_HOOK)
		message_hook = continuation;
}

TSThread TSThreadCreate(TSThreadFunc function, void *data)
{
	static pthread_t thread;

	return pthread_create(&thread, NULL, function, data) == 0 ? (TSThread)&thread : NULL;
}

int TSStatCreate(
	const char *name, TSRecordDataType type, TSStatPersistence persistence, TSStatSync sync)
{
	(void)name;
	(void)type;
	(void)persistence;
	(void)sync;
	return 1;
}

void TSStatIntSet(int id, TSMgmtInt value)
{
	(void)id;
	(void)value;
}

/* --- The agent, which can do everything --- */

static struct {
	struct heapctl_options options;
	char folder[100];
	char prefix[100]; /* of profiles */
	int is_running;
	bool refuses_sockets;
} agent;

int heapctl_start(const struct heapctl_options *options, struct heapctl_error *err)
{
	agent.options = *options;
	snprintf(agent.folder, sizeof agent.folder, "%s",
		options->folder == NULL ? "" : options->folder);
	if (!agent.refuses_sockets || (options->flags & HEAPCTL_NO_SOCKET) != 0)
		return HEAPCTL_OK;
	*err = (struct heapctl_error){ .code = HEAPCTL_SYSTEM, .message = "no such folder" };
	return HEAPCTL_SYSTEM;
}

void heapctl_stop(void)
{
}

int heapctl_get_status(struct heapctl_status *status, struct heapctl_error *err)
{
	(void)err;
	*status = (struct heapctl_status){ .size = sizeof *status,
		.available = 1,
		.lg_sample = 19,
		.running = agent.is_running,
		.allocator = "jemalloc",
		.version = "5.3.0",
		.last_dump_stacks = 3 };
	snprintf(status->prof_prefix, sizeof status->prof_prefix, "%s", agent.prefix);
	return HEAPCTL_OK;
}

int heapctl_warnings(
	void (*visit)(void *context, const char *code, const char *message, const char *hint),
	void *context, struct heapctl_error *err)
{
	(void)visit;
	(void)context;
	(void)err;
	return HEAPCTL_OK;
}

int heapctl_activate(struct heapctl_error *err)
{
	(void)err;
	return HEAPCTL_OK;
}

int heapctl_deactivate(struct heapctl_error *err)
{
	(void)err;
	return HEAPCTL_OK;
}

int heapctl_dump_fd(int fd, struct heapctl_error *err)
{
	(void)err;
	return write(fd, "heap", 4) == 4 ? HEAPCTL_OK : HEAPCTL_SYSTEM;
}

int heapctl_run_dump_fd(int64_t id, int start, int fd, struct heapctl_error *err)
{
	(void)id;
	(void)start;
	return heapctl_dump_fd(fd, err);
}

int heapctl_reset(int lg_sample, struct heapctl_error *err)
{
	(void)lg_sample;
	(void)err;
	return HEAPCTL_OK;
}

int heapctl_stats(const char *options, int (*write_piece)(void *, const char *, size_t),
	void *context, struct heapctl_error *err)
{
	(void)options;
	(void)err;
	write_piece(context, "statistics\n", 11);
	return HEAPCTL_OK;
}

int heapctl_parse_duration(const char *text, int64_t *duration_ms, struct heapctl_error *err)
{
	(void)text;
	(void)err;
	*duration_ms = 300000;
	return HEAPCTL_OK;
}

static void fill_run(struct heapctl_run *run, int state)
{
	*run = (struct heapctl_run){ .size = sizeof *run,
		.state = state,
		.id = 7,
		.duration_ms = 300000,
		.remaining_ms = state == HEAPCTL_RUN_RUNNING ? 300000 : 0 };
}

int heapctl_run_start(int64_t duration_ms, struct heapctl_run *run, struct heapctl_error *err)
{
	(void)duration_ms;
	(void)err;
	fill_run(run, HEAPCTL_RUN_RUNNING);
	agent.is_running = 1;
	return HEAPCTL_OK;
}

int heapctl_run_stop(struct heapctl_run *run, struct heapctl_error *err)
{
	(void)err;
	fill_run(run, HEAPCTL_RUN_FINISHED);
	agent.is_running = 0;
	return HEAPCTL_OK;
}

int heapctl_run_get(int64_t id, struct heapctl_run *run, struct heapctl_error *err)
{
	(void)id;
	(void)err;
	fill_run(run, HEAPCTL_RUN_RUNNING);
	return HEAPCTL_OK;
}

/* --- A conversation, in a process of its own: the plugin is initialized once in each --- */

enum { ARGUMENTS_MAX = 4 };

/* Every message that docs/trafficserver.md names, in an order in which each can be done. */
static const char *const messages[] = { "activate", "deactivate", "dump", "stats", "status",
	"start=30s", "stop", "start 5mins", "stop", "start", "stop", "reset", "reset=14",
	"reset 14" };

enum { MESSAGES_COUNT = sizeof messages / sizeof messages[0] };

struct conversation {
	const char *arguments[ARGUMENTS_MAX + 1];
	bool refuses_sockets;
	struct heapctl_options options; /* what the agent got */
	char folder[100];
	char answers[MESSAGES_COUNT][LINE_BYTES];
};

static void wait_for_line(size_t count)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&server.lock);
	while (server.count <= count &&
		pthread_cond_timedwait(&server.changed, &server.lock, &until) == 0)
		continue;
	pthread_mutex_unlock(&server.lock);
}

static void send_all(struct conversation *conversation)
{
	for (size_t i = 0; i < MESSAGES_COUNT; i++) {
		TSPluginMsg message = { .tag = "memory_profile",
			.data = messages[i],
			.data_size = strlen(messages[i]) + 1 };
		pthread_mutex_lock(&server.lock);
		const size_t before = server.count;
		pthread_mutex_unlock(&server.lock);
		message_hook->function(message_hook, TS_EVENT_LIFECYCLE_MSG, &message);
		wait_for_line(before);
		strcpy(conversation->answers[i], server.lines[before]);
	}
}

static void converse_in_child(struct conversation *conversation, const char *folder, int fd)
{
	const char *argv[ARGUMENTS_MAX + 2] = { "memory_profile.so" };
	int argc = 1;

	/* "stats" is written there. */
	dup2(fd, STDERR_FILENO);
	for (; conversation->arguments[argc - 1] != NULL; argc++)
		argv[argc] = conversation->arguments[argc - 1];
	agent.refuses_sockets = conversation->refuses_sockets;
	snprintf(agent.prefix, sizeof agent.prefix, "%s/x", folder);
	TSPluginInit(argc, argv);
	send_all(conversation);
	conversation->options = agent.options;
	strcpy(conversation->folder, agent.folder);
}

static void converse(struct conversation *conversation)
{
	char folder[] = "/tmp/memory-profile-XXXXXX";
	int pipes[2], errors[2];
	size_t received = 0;
	int status = 0;

	assert_non_null(mkdtemp(folder));
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(errors), 0);
	const pid_t child = fork();
	if (child == 0) {
		converse_in_child(conversation, folder, errors[1]);
		_exit(write(pipes[1], conversation, sizeof *conversation) ==
					(ssize_t)sizeof *conversation
				? 0
				: 1);
	}
	close(pipes[1]);
	close(errors[1]);
	while (received < sizeof *conversation) {
		const ssize_t got = read(
			pipes[0], (char *)conversation + received, sizeof *conversation - received);
		if (got <= 0)
			break;
		received += (size_t)got;
	}
	close(pipes[0]);
	close(errors[0]);
	waitpid(child, &status, 0);
	remove_folder(folder);
	assert_int_equal(status, 0);
	assert_int_equal(received, sizeof *conversation);
}

/* Of the documented ones, those whose bit is set. */
static const char *const documented[] = { "--dir=/run/profiles", "--keep=4", "--no-socket" };

enum { DOCUMENTED_COUNT = sizeof documented / sizeof documented[0] };

static struct conversation with_arguments(unsigned chosen, bool backwards)
{
	struct conversation conversation = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < DOCUMENTED_COUNT; i++) {
		const size_t which = backwards ? DOCUMENTED_COUNT - 1 - i : i;
		if ((chosen & 1U << which) != 0)
			conversation.arguments[count++] = documented[which];
	}
	return conversation;
}

static void assert_all_are_done(const struct conversation *conversation)
{
	for (size_t i = 0; i < MESSAGES_COUNT; i++) {
		if (strncmp(conversation->answers[i], "NOTE ", 5) != 0)
			fail_msg("with %s, '%s' is answered by: %s",
				conversation->arguments[0] == NULL ? "no argument"
								   : conversation->arguments[0],
				messages[i], conversation->answers[i]);
	}
}

static void every_documented_argument_goes_with_every_message(void **state)
{
	(void)state;
	for (unsigned chosen = 0; chosen < 1U << DOCUMENTED_COUNT; chosen++) {
		for (int backwards = 0; backwards < 2; backwards++) {
			struct conversation conversation = with_arguments(chosen, backwards);
			converse(&conversation);
			assert_all_are_done(&conversation);
			assert_string_equal(
				conversation.folder, (chosen & 1) != 0 ? "/run/profiles" : "");
			assert_int_equal(conversation.options.keep, (chosen & 2) != 0 ? 4 : 0);
			assert_int_equal((conversation.options.flags & HEAPCTL_NO_SOCKET) != 0,
				(chosen & 4) != 0);
		}
	}
}

static void every_number_of_kept_runs_works(void **state)
{
	(void)state;
	for (unsigned keep = 1; keep <= 32; keep++) {
		char argument[20];
		struct conversation conversation = { .arguments = { argument } };

		snprintf(argument, sizeof argument, "--keep=%u", keep);
		converse(&conversation);
		assert_all_are_done(&conversation);
		assert_int_equal(conversation.options.keep, keep);
	}
}

static void messages_work_where_there_can_be_no_socket(void **state)
{
	(void)state;
	struct conversation conversation = { .arguments = { "--keep=4", "--dir=/proc/nowhere" },
		.refuses_sockets = true };

	converse(&conversation);
	assert_all_are_done(&conversation);
}

static void a_wrong_argument_is_the_answer_to_every_message(void **state)
{
	(void)state;
	static const char *const wrong[] = { "--verbose", "--keep=0", "--keep=33",
		"--keep=", "--dir=here", "--no-socket=1" };

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct conversation conversation = { .arguments = { "--keep=4", wrong[i] } };

		converse(&conversation);
		for (size_t k = 0; k < MESSAGES_COUNT; k++) {
			assert_int_equal(strncmp(conversation.answers[k], "ERROR ", 6), 0);
			assert_contains(conversation.answers[k], wrong[i]);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_documented_argument_goes_with_every_message),
	cmocka_unit_test(every_number_of_kept_runs_works),
	cmocka_unit_test(messages_work_where_there_can_be_no_socket),
	cmocka_unit_test(a_wrong_argument_is_the_answer_to_every_message),
};

UNIT_MAIN(tests)
