/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_recording.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "client/process.h"
#include "client/target_agent.h"
#include "render/quantity.h"

enum { EXIT_OF_SIGNAL = 128, EXIT_NOT_STARTED = 127 };

bool recording_open(const char *path, struct recording *recording, struct error *err)
{
	const char *const base = getenv("TMPDIR");

	if (!output_open(path, "", "", &recording->output, err))
		return error_prefix(err, "--record");
	/* The path becomes a value in MALLOC_CONF, where a comma would end it. */
	const bool is_usable = base != NULL && *base == '/' && strchr(base, ',') == NULL;
	snprintf(recording->folder, sizeof recording->folder, "%s/heapctl-record.XXXXXX",
		is_usable ? base : "/tmp");
	if (mkdtemp(recording->folder) == NULL) {
		error_system(err, errno, "making the folder %s", recording->folder);
		recording->folder[0] = '\0';
		return error_hint(err, "let TMPDIR name a folder that can be written");
	}
	snprintf(recording->prefix, sizeof recording->prefix, "%s/exit", recording->folder);
	terminal_job_init(&recording->job);
	recording->failure_fd = -1;
	return true;
}

/* Calls `visit` with the path of each file of the private folder. */
static void for_each_file(const struct recording *recording,
	void (*visit)(const char *path, void *context), void *context)
{
	DIR *const folder = opendir(recording->folder);

	if (folder == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		char path[4608];
		snprintf(path, sizeof path, "%s/%s", recording->folder, entry->d_name);
		if (entry->d_name[0] != '.')
			visit(path, context);
	}
	closedir(folder);
}

static void remove_file(const char *path, void *context)
{
	const struct recording *const recording = context;

	if (strcmp(path, recording->kept) != 0)
		unlink(path);
}

void recording_cleanup(struct recording *recording)
{
	output_discard(&recording->output);
	if (recording->folder[0] == '\0')
		return;
	terminal_job_deinit(&recording->job);
	if (recording->failure_fd >= 0)
		close(recording->failure_fd);
	for_each_file(recording, remove_file, recording);
	rmdir(recording->folder);
	recording->folder[0] = '\0';
}

/*
 * The signals that are passed on: all that one process sends to another, and those of job control
 * at a terminal. Not those of heapctl's own writes; its own faults end it though they are blocked.
 */
static void passed_signals(const struct recording *recording, sigset_t *set)
{
	static const int own[] = { SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGXFSZ };

	sigfillset(set);
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		sigdelset(set, own[i]);
	terminal_job_add_signals(&recording->job, set);
}

/* Whether the program may end by it. Handlers of the first ones usually end it as well. */
static bool may_end(pid_t pid, int number)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;

	if (number == SIGINT || number == SIGTERM || number == SIGQUIT || number == SIGHUP)
		return true;
	if (number == SIGCONT || number == SIGURG || number == SIGWINCH || number == SIGTSTP)
		return false;
	return file_try_read(&status, "/proc/%d/status", (int)pid) &&
	       !process_status_has_signal(buffer_string(&status), "SigCgt", number) &&
	       !process_status_has_signal(buffer_string(&status), "SigIgn", number);
}

/* A profile of the running program. Silent: the one of its exit is expected. */
static void take_profile(struct recording *recording, pid_t pid)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	CLEANUP(fd_cleanup) int fd = -1;
	struct target target;
	struct error err;
	char path[4300], whole[4300];

	if (!target_of_process(pid, &target, &err))
		return;
	snprintf(
		recording->process_name, sizeof recording->process_name, "%s", target.process.name);
	/* The program may end meanwhile, by a signal before this one, whose profile is kept then.
	 */
	snprintf(path, sizeof path, "%s/signal.part", recording->folder);
	snprintf(whole, sizeof whole, "%s/signal", recording->folder);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || !agent_fetch_profile(&target, "/v1/profile", fd, path, &answer, &err) ||
		rename(path, whole) != 0)
		unlink(path);
}

static void pass_on(struct recording *recording, pid_t pid, const siginfo_t *signal_info)
{
	const int number = signal_info->si_signo;

	if (may_end(pid, number)) {
		terminal_job_continue(&recording->job);
		take_profile(recording, pid);
	}
	terminal_job_signal(&recording->job, signal_info);
}

/*
 * The name of a program that has ended, where it still is what the command was: a link's own name,
 * not that of its file. The kernel keeps 15 bytes of it.
 */
static void find_name(struct recording *recording, pid_t pid, const char *command)
{
	const char *const program = path_base_name(command);
	CLEANUP(buffer_deinit) struct buffer comm = BUFFER_OR_EXIT;

	if (recording->process_name[0] == '\0' && file_try_read(&comm, "/proc/%d/comm", (int)pid) &&
		comm.size > 1 && strncmp(program, comm.data, comm.size - 1) == 0)
		snprintf(recording->process_name, sizeof recording->process_name, "%s", program);
}

/* Until the program has ended; its wait status. */
static int wait_for_end(struct recording *recording, pid_t pid, const char *command)
{
	sigset_t set;
	siginfo_t signal_info;
	int status = 0;

	passed_signals(recording, &set);
	for (;;) {
		signal_info.si_pid = 0;
		if (waitid(P_PID, (id_t)pid, &signal_info, WSTOPPED | WNOHANG) == 0 &&
			signal_info.si_pid == pid)
			terminal_job_has_stopped(&recording->job, signal_info.si_status);
		signal_info.si_pid = 0;
		if (waitid(P_PID, (id_t)pid, &signal_info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
			signal_info.si_pid == pid) {
			find_name(recording, pid, command);
			if (waitpid(pid, &status, 0) == pid)
				return status;
		}
		if (sigwaitinfo(&set, &signal_info) < 0 || signal_info.si_signo == SIGCHLD)
			continue;
		pass_on(recording, pid, &signal_info);
	}
}

/* The best file there is: of the exit of this very process, else from before the signal. */
struct exit_profile {
	char exit_prefix[4300];
	char path[4608];
	bool is_of_exit;
	size_t other_count; /* of the exits of processes that it started */
};

/* Dumps of jemalloc while the program runs, and a profile that was not finished, end otherwise. */
static bool is_final(const char *path)
{
	static const char end[] = ".f.heap";
	const size_t size = strlen(path);

	return size >= sizeof end - 1 && strcmp(path + size - (sizeof end - 1), end) == 0;
}

static void consider(const char *path, void *context)
{
	struct exit_profile *const found = context;
	const char *const name = strrchr(path, '/') + 1;
	const bool is_of_exit = is_final(path) &&
				strncmp(path, found->exit_prefix, strlen(found->exit_prefix)) == 0;

	if (is_of_exit || (found->path[0] == '\0' && strcmp(name, "signal") == 0))
		snprintf(found->path, sizeof found->path, "%s", path);
	found->is_of_exit |= is_of_exit;
	found->other_count += is_final(path) && !is_of_exit;
}

/* Returns false. */
static bool explain_absence(
	const struct recording *recording, const struct exit_profile *found, struct error *err)
{
	if (found->other_count > 0) {
		error_set(err, ERROR_NOT_FOUND,
			"the program left no profile; %zu that it started did, and are not saved",
			found->other_count);
		return error_hint(
			err, "record the one that is meant, or let a script end with exec");
	}
	error_set(err, ERROR_NOT_FOUND,
		"the program left no profile: it did not get as far as an orderly exit, or "
		"could not write to %s",
		recording->folder);
	return error_hint(err, "use heapctl record while it runs");
}

/* In a full file system a file was cut at the end of a block, where a line may end as well. */
static bool fills_up(const char *path, size_t size)
{
	struct statvfs system;

	return statvfs(path, &system) == 0 && system.f_bavail == 0 && system.f_bsize > 0 &&
	       size % system.f_bsize == 0;
}

/* jemalloc takes a short write for a success. */
static bool check_is_whole(const struct recording *recording, const char *path,
	const struct buffer *profile, struct error *err)
{
	if (profile->size > 0 && profile->data[profile->size - 1] == '\n' &&
		!fills_up(path, profile->size))
		return true;
	error_set(err, ERROR_INPUT,
		"the program's profile was cut short at %zu bytes, for lack of room in %s",
		profile->size, recording->folder);
	return error_hint(err, "let TMPDIR name a folder of a file system with more room");
}

static bool save(struct recording *recording, pid_t pid, struct error *err)
{
	struct exit_profile found = { 0 };
	CLEANUP(buffer_deinit) struct buffer profile = BUFFER_OR_EXIT;

	snprintf(
		found.exit_prefix, sizeof found.exit_prefix, "%s.%d.", recording->prefix, (int)pid);
	for_each_file(recording, consider, &found);
	if (found.path[0] == '\0')
		return explain_absence(recording, &found, err);
	if (!file_read(found.path, &profile, err) ||
		!check_is_whole(recording, found.path, &profile, err))
		return false;
	const bool ok = file_write_fd(output_fd(&recording->output),
				output_name(&recording->output), profile.data, profile.size, err) &&
			(!found.is_of_exit || agent_append_process_name(recording->process_name,
						      output_fd(&recording->output),
						      output_name(&recording->output), err)) &&
			output_commit(&recording->output, err);
	if (ok) {
		fprintf(stderr, "%s: %s\n", output_name(&recording->output),
			quantity_format(QUANTITY_BYTES, (double)profile.size, false).text);
		return true;
	}
	/* There is no other one. */
	snprintf(recording->kept, sizeof recording->kept, "%s", found.path);
	verb_warn("the profile stays in %s", recording->kept);
	return false;
}

/* In the child process, whose parent reads of a failure from that descriptor. */
_Noreturn static void start(int failure_fd, recording_exec *exec, const void *context)
{
	exec(context);
	(void)!write(failure_fd, "", 1);
	_exit(EXIT_NOT_STARTED);
}

pid_t recording_start(
	struct recording *recording, recording_exec *exec, const void *context, struct error *err)
{
	sigset_t set;
	int failure[2];

	if (pipe2(failure, O_CLOEXEC) != 0) {
		error_system(err, errno, "run: starting the program");
		return -1;
	}
	passed_signals(recording, &set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	const pid_t pid = fork();
	if (pid < 0)
		error_system(err, errno, "run: starting the program");
	if (pid >= 0)
		terminal_job_begin(&recording->job, pid > 0 ? pid : getpid());
	if (pid == 0)
		start(failure[1], exec, context);
	close(failure[1]);
	recording->failure_fd = failure[0];
	return pid;
}

/* A program may exit with any status itself. */
static bool was_started(const struct recording *recording)
{
	char byte;

	return read(recording->failure_fd, &byte, 1) != 1;
}

bool recording_finish(struct recording *recording, pid_t pid, const char *command, int *exit_code,
	struct error *err)
{
	const int status = wait_for_end(recording, pid, command);

	terminal_job_deinit(&recording->job);
	*exit_code = WIFSIGNALED(status) ? EXIT_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	/* The child has said why. */
	return !was_started(recording) || save(recording, pid, err);
}
