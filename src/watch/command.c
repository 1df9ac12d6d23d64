/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/command.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/xalloc.h"

enum { WORDS_MAX = 64, QUEUE_MAX = 64, EXIT_NOT_STARTED = 127 };
#define COMMAND_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct queued_capture {
	char *file, *target, *reason;
};

struct command {
	char *words[WORDS_MAX + 2]; /* room for the file and the end */
	size_t word_count;
	struct queued_capture queue[QUEUE_MAX];
	size_t waiting;
	pid_t pid; /* of the one that runs; 0 for none */
};

/* One word from *at; quotes are taken away. NULL at the end. */
static char *next_word(const char **at, bool *is_open)
{
	char *const word = xmalloc(strlen(*at) + 1);
	char quote = '\0';
	size_t size = 0;

	*at += strspn(*at, " \t");
	const char *const start = *at;
	for (; **at != '\0' && (quote != '\0' || (**at != ' ' && **at != '\t')); (*at)++) {
		if (quote == '\0' && (**at == '\'' || **at == '"'))
			quote = **at;
		else if (**at == quote)
			quote = '\0';
		else
			word[size++] = **at;
	}
	word[size] = '\0';
	*is_open = quote != '\0';
	if (*at != start)
		return word;
	free(word);
	return NULL;
}

bool command_parse(const char *text, struct command **ret, struct error *err)
{
	CLEANUP(command_cleanup) struct command *command = xcalloc(1, sizeof *command);
	bool is_open = false;
	char *word;

	for (const char *at = text; (word = next_word(&at, &is_open)) != NULL;) {
		command->words[command->word_count++] = word;
		if (is_open)
			return error_set(
				err, ERROR_USAGE, "'%.60s': a closing quote is missing", text);
		if (command->word_count == WORDS_MAX)
			return error_set(err, ERROR_USAGE, "'%.60s': too many words", text);
	}
	if (command->word_count == 0)
		return error_set(err, ERROR_USAGE, "the command is empty");
	*ret = TAKE(command);
	return true;
}

static void queued_capture_free(struct queued_capture *capture)
{
	free(capture->file);
	free(capture->target);
	free(capture->reason);
}

static void *await_exit(void *capture)
{
	const pid_t *const pid = capture;

	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	free(capture);
	return NULL;
}

/* A command that continues in a program that continues has to be collected. */
static void reap_in_background(pid_t pid)
{
	pid_t *const own = xmalloc(sizeof *own);
	pthread_t thread;

	*own = pid;
	if (pthread_create(&thread, NULL, await_exit, own) == 0)
		pthread_detach(thread);
	else
		free(own);
}

void command_free(struct command *command)
{
	if (command == NULL)
		return;
	if (command->pid != 0)
		reap_in_background(command->pid);
	for (size_t i = 0; i < command->word_count; i++)
		free(command->words[i]);
	for (size_t i = 0; i < command->waiting; i++)
		queued_capture_free(&command->queue[i]);
	free(command);
}

bool command_enqueue(
	struct command *command, const struct command_capture *capture, struct error *err)
{
	if (command->waiting == QUEUE_MAX)
		return error_set(err, ERROR_STATE,
			"%d captures wait for the command; it is not run for %s", QUEUE_MAX,
			capture->file);
	command->queue[command->waiting++] = (struct queued_capture){
		.file = xstrdup(capture->file),
		.target = xstrdup(capture->target),
		.reason = xstrdup(capture->reason),
	};
	return true;
}

/* What the child needs, made before the fork: other threads may hold locks of malloc's then. */
struct launch {
	char *variables[6];
	char **words;
};

/* In the child: system calls alone. */
static _Noreturn void exec_child(struct launch *launch)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1 };
	const int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		signal(numbers[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDIN_FILENO);
	/* Standard output holds the paths of the captures alone. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	descriptors_close_from(STDERR_FILENO + 1);
	/* execvp searches the PATH of environ, which shall be the fixed one. */
	environ = launch->variables;
	execvp(launch->words[0], launch->words);
	_exit(EXIT_NOT_STARTED);
}

static pid_t spawn(struct command *command, const struct queued_capture *capture)
{
	struct launch launch = { .variables = { xstrdup(COMMAND_PATH), xstrdup("LC_ALL=C.UTF-8"),
					 xasprintf("HEAPCTL_FILE=%s", capture->file),
					 xasprintf("HEAPCTL_TARGET=%s", capture->target),
					 xasprintf("HEAPCTL_REASON=%s", capture->reason) },
		.words = command->words };

	command->words[command->word_count] = capture->file;
	const pid_t pid = fork();
	if (pid == 0)
		exec_child(&launch);
	command->words[command->word_count] = NULL;
	for (size_t i = 0; launch.variables[i] != NULL; i++)
		free(launch.variables[i]);
	return pid;
}

static bool start(struct command *command, struct error *err)
{
	struct queued_capture capture = command->queue[0];
	const pid_t pid = spawn(command, &capture);

	if (pid < 0)
		return error_system(err, errno, "starting %s", command->words[0]);
	command->pid = pid;
	command->waiting--;
	memmove(command->queue, command->queue + 1, command->waiting * sizeof capture);
	queued_capture_free(&capture);
	return true;
}

static bool collect(struct command *command, struct error *err)
{
	int status = 0;

	if (waitpid(command->pid, &status, WNOHANG) != command->pid)
		return true;
	command->pid = 0;
	if (WIFSIGNALED(status))
		return error_set(err, ERROR_SYSTEM, "the command %s was ended by signal %d",
			command->words[0], WTERMSIG(status));
	if (WEXITSTATUS(status) == EXIT_NOT_STARTED)
		return error_set(err, ERROR_SYSTEM,
			"the command %s could not be started, or ended with 127",
			command->words[0]);
	return WEXITSTATUS(status) == 0 ||
	       error_set(err, ERROR_SYSTEM, "the command %s ended with %d", command->words[0],
		       WEXITSTATUS(status));
}

bool command_poll(struct command *command, struct error *err)
{
	if (command->pid != 0 && !collect(command, err))
		return false;
	return command->pid != 0 || command->waiting == 0 || start(command, err);
}

bool command_is_busy(const struct command *command)
{
	return command->pid != 0 || command->waiting > 0;
}
