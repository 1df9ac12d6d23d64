/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl run: starts a program so that it can be profiled, a gateway for it (--listen), and saves
 * what is alive at its end (--record), for which heapctl stays its parent.
 *
 * The gateway is no child of the program, which may count its own, and ends with it.
 *
 * jemalloc writes the profile of an orderly exit itself (prof_final), into a private folder. A
 * program that a signal kills never gets there; so before the parent passes such a signal on, it
 * requests a profile of the agent, which is used when there is no better one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/option.h"
#include "cli/program_files.h"
#include "cli/sample_interval.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "client/doctor.h"
#include "client/launch.h"
#include "gateway/listener.h"
#include "render/quantity.h"

enum {
	OPTION_CONF = 1,
	OPTION_EXE,
	OPTION_JEMALLOC,
	OPTION_ACTIVATE,
	OPTION_SAMPLE,
	OPTION_MAPPED
};

struct run_options {
	struct launch_request request;
	const char *record;
	const char *listen;
	char *conf, *exes; /* joined */
	char **command;
};

static const struct verb_option options[] = {
	{ 0, "listen", 0, "ADDR",
		.help = "start a gateway for CMD at HOST:PORT or unix:PATH, which ends with CMD; "
			"see heapctl serve",
		OPTION_TEXT(struct run_options, listen) },
	{ 0, "record", 0, "FILE",
		.help = "sample from the first allocation to the exit, and save that profile",
		.complete = "@file", OPTION_TEXT(struct run_options, record) },
	{ OPTION_ACTIVATE, "activate",
		.help = "sample from the start; at the default of one sample per 512 KiB this "
			"costs almost nothing" },
	{ OPTION_SAMPLE, "sample", 0, "BYTES",
		.help = "one sample per this number of bytes on average",
		.complete = "16KiB 64KiB 512KiB 2MiB" },
	{ OPTION_MAPPED, "mapped",
		.help = "sample what CMD maps itself, too: buffers from mmap, frames named mmap; "
			"where heapctl samples" },
	{ OPTION_CONF, "conf", 0, "CONF",
		.help = "options for jemalloc, such as lg_prof_sample:17,prof_leak:true; may be "
			"repeated, the last one wins",
		.complete = "lg_prof_sample: lg_prof_interval: prof_active:true prof_gdump:true "
			    "prof_leak:true prof_final:true prof_prefix: prof_accum:true "
			    "prof_sys_thread_name:true" },
	{ OPTION_EXE, "exe", 0, "NAME",
		.help = "the program to profile, by name or path, when CMD is a script "
			"or starts another one; may be repeated; default is CMD alone",
		.complete = "@command" },
	{ OPTION_JEMALLOC, "jemalloc", 0, "[=FILE]",
		.help = "preload the machine's jemalloc, or FILE, whatever allocator the program "
			"has" },
	{ 0 },
};

enum { EXIT_OF_SIGNAL = 128, EXIT_NOT_STARTED = 127 };

/*
 * Binds the gateway's address before the program runs, so that an error is reported in time.
 * ERROR_DENIED for an address that other machines reach: that takes a token, and heapctl serve.
 */
static bool run_gateway_open(const char *address, int *fd, struct error *err)
{
	struct listener listener;

	if (!listener_open(address, &listener, err))
		return false;
	if (!listener.is_private) {
		error_set(
			err, ERROR_DENIED, "%s can be reached from other machines", listener.where);
		listener_close(&listener);
		return error_hint(err, "listen on 127.0.0.1, or use heapctl serve with a token");
	}
	*fd = listener.fd;
	return true;
}

/* Undoes what heapctl changed about signals, for a program that is about to be started. */
static void run_restore_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Everything that was prepared for the program is not for the gateway. */
static void exec_gateway(int fd, pid_t pid)
{
	char target[16], own[16];

	snprintf(target, sizeof target, "%d", (int)pid);
	snprintf(own, sizeof own, "%d", (int)getpid());
	unsetenv("LD_PRELOAD");
	unsetenv("MALLOC_CONF");
	setenv("LISTEN_PID", own, 1);
	setenv("LISTEN_FDS", "1", 1);
	setsid();
	run_restore_signals();
	const int nowhere = open("/dev/null", O_RDWR);
	dup2(nowhere, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	/* The socket may have that number already, and then the flag goes otherwise. */
	if (fd == LISTENER_FIRST_FD)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, LISTENER_FIRST_FD);
	closefrom(LISTENER_FIRST_FD + 1);
	execl("/proc/self/exe", "heapctl", "serve", "--until-exit", target, target, (char *)NULL);
	perror("heapctl: run: starting the gateway");
	_exit(1);
}

/* Starts the gateway for that process on the socket, which is closed here; -1: nothing to do. */
static bool run_gateway_start(int fd, pid_t pid, struct error *err)
{
	if (fd < 0)
		return true;
	const pid_t between = fork();
	if (between == 0) {
		const pid_t gateway = fork();
		if (gateway == 0)
			exec_gateway(fd, pid);
		_exit(gateway < 0);
	}
	close(fd);
	if (between < 0)
		return error_system(err, errno, "starting the gateway");
	int status = 0;
	while (waitpid(between, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 || error_set(err, ERROR_SYSTEM, "the gateway could not be started");
}

struct recording {
	struct output output;
	char folder[4096];     /* private; "" for none */
	char prefix[4200];     /* for prof_prefix */
	char process_name[64]; /* of the program, as far as it is known; "" */
};

/* Opens the output and makes the private folder. */
static bool recording_open(const char *path, struct recording *recording, struct error *err)
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
	(void)context;
	unlink(path);
}

/* Removes the folder and what was not committed. */
static void recording_cleanup(struct recording *recording)
{
	output_discard(&recording->output);
	if (recording->folder[0] == '\0')
		return;
	for_each_file(recording, remove_file, NULL);
	rmdir(recording->folder);
	recording->folder[0] = '\0';
}

/*
 * The signals that are passed on: all that one process sends to another, but those of job control.
 */
static void passed_signals(sigset_t *set)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
		SIGWINCH, SIGCONT, SIGCHLD };

	sigemptyset(set);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		sigaddset(set, numbers[i]);
}

static bool ends_programs(int number)
{
	return number == SIGINT || number == SIGTERM || number == SIGQUIT || number == SIGHUP;
}

/* A profile of the running program. Silent: the one of its exit is expected. */
static void take_profile(struct recording *recording, pid_t pid)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	CLEANUP(fd_cleanup) int fd = -1;
	struct target target;
	struct error err;
	char path[4300];

	if (!target_of_process(pid, &target, &err))
		return;
	snprintf(
		recording->process_name, sizeof recording->process_name, "%s", target.process.name);
	snprintf(path, sizeof path, "%s/signal", recording->folder);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || !agent_fetch_profile(&target, "/v1/profile", fd, path, &answer, &err))
		unlink(path);
}

static void pass_on(struct recording *recording, pid_t pid, const siginfo_t *signal_info)
{
	const int number = signal_info->si_signo;

	if (ends_programs(number))
		take_profile(recording, pid);
	/* What the terminal sends, it sends to the program as well. */
	if (signal_info->si_code != SI_KERNEL)
		kill(pid, number);
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

	passed_signals(&set);
	for (;;) {
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
};

static void consider(const char *path, void *context)
{
	struct exit_profile *const found = context;
	const char *const name = strrchr(path, '/') + 1;
	const bool is_exit = strncmp(path, found->exit_prefix, strlen(found->exit_prefix)) == 0;

	if (is_exit || (found->path[0] == '\0' && strcmp(name, "signal") == 0))
		snprintf(found->path, sizeof found->path, "%s", path);
	found->is_of_exit |= is_exit;
}

static bool save(struct recording *recording, pid_t pid, struct error *err)
{
	struct exit_profile found = { 0 };
	CLEANUP(buffer_deinit) struct buffer profile = BUFFER_OR_EXIT;

	snprintf(
		found.exit_prefix, sizeof found.exit_prefix, "%s.%d.", recording->prefix, (int)pid);
	for_each_file(recording, consider, &found);
	if (found.path[0] == '\0') {
		error_set(err, ERROR_NOT_FOUND,
			"the program left no profile: it did not get as far as an orderly exit, or "
			"could not write to %s",
			recording->folder);
		return error_hint(err, "use heapctl record while it runs");
	}
	bool ok = file_read(found.path, &profile, err) &&
		  file_write_fd(output_fd(&recording->output), output_name(&recording->output),
			  profile.data, profile.size, err) &&
		  (!found.is_of_exit || agent_append_process_name(recording->process_name,
						output_fd(&recording->output),
						output_name(&recording->output), err)) &&
		  output_commit(&recording->output, err);
	if (ok)
		fprintf(stderr, "%s: %s\n", output_name(&recording->output),
			quantity_format(QUANTITY_BYTES, (double)profile.size, false).text);
	return ok;
}

static void start(char **command, int listen_fd)
{
	struct error err;

	if (!run_gateway_start(listen_fd, getpid(), &err))
		verb_warn("run: %s", err.message);
	run_restore_signals();
	execvp(command[0], command);
	error_system(&err, errno, "run: %s", command[0]);
	verb_fail(&err);
	_exit(EXIT_NOT_STARTED);
}

/*
 * Runs the program to its end and saves the profile; returns the exit code of heapctl. On
 * `listen_fd` a gateway for the program is started; -1 for none.
 */
static int recording_run(struct recording *recording, char **command, int listen_fd)
{
	struct error err;
	sigset_t set;

	passed_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	const pid_t pid = fork();
	if (pid < 0) {
		error_system(&err, errno, "run: starting %s", command[0]);
		return verb_fail(&err);
	}
	if (pid == 0)
		start(command, listen_fd);

	if (listen_fd >= 0)
		close(listen_fd);
	const int status = wait_for_end(recording, pid, command[0]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_STARTED)
		return EXIT_NOT_STARTED;
	const int exit_code =
		WIFSIGNALED(status) ? EXIT_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	/* The program's own status is worth more than ours, unless all was well with it. */
	if (!save(recording, pid, &err)) {
		const int failed = verb_fail(&err);
		return exit_code == EXIT_DONE ? failed : exit_code;
	}
	return exit_code;
}

static void run_options_cleanup(struct run_options *wanted)
{
	free(wanted->conf);
	free(wanted->exes);
}

static void join(char **list, char separator, const char *item)
{
	char *const joined =
		*list == NULL ? xstrdup(item) : xasprintf("%s%c%s", *list, separator, item);

	free(*list);
	*list = joined;
}

/* As it was before the name became optional: --jemalloc FILE. */
static void attach_jemalloc(int *argc, char **argv)
{
	for (int i = 1; i + 1 < *argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--jemalloc") != 0 || strstr(argv[i + 1], ".so") == NULL)
			continue;
		/* Kept until the process ends. */
		argv[i] = xasprintf("--jemalloc=%s", argv[i + 1]);
		for (int k = i + 1; k + 1 < *argc; k++)
			argv[k] = argv[k + 1];
		(*argc)--;
	}
}

static bool join_sample(struct option_parser *parser, struct run_options *wanted)
{
	char option[40];
	int lg_sample;

	if (!sample_interval_option(parser, &lg_sample))
		return false;
	snprintf(option, sizeof option, "lg_prof_sample:%d", lg_sample);
	join(&wanted->conf, ',', option);
	return true;
}

/* False: return *exit_code. */
static bool parse(
	const struct verb *verb, int argc, char **argv, struct run_options *wanted, int *exit_code)
{
	struct option_parser parser;

	attach_jemalloc(&argc, argv);
	option_begin(&parser, verb, argc, argv, wanted);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		switch (id) {
		case OPTION_ACTIVATE:
			join(&wanted->conf, ',', "prof_active:true");
			break;
		case OPTION_SAMPLE:
			if (!join_sample(&parser, wanted)) {
				*exit_code = parser.exit_code;
				return false;
			}
			break;
		case OPTION_MAPPED:
			wanted->request.wants_mapped = true;
			break;
		case OPTION_CONF:
			join(&wanted->conf, ',', parser.value);
			break;
		case OPTION_EXE:
			join(&wanted->exes, ':', parser.value);
			break;
		case OPTION_JEMALLOC:
			wanted->request.wants_jemalloc = true;
			wanted->request.jemalloc = parser.value;
			break;
		default:
			*exit_code = parser.exit_code;
			return false;
		}
	}
	wanted->command = parser.operands;
	wanted->command[parser.operand_count] = NULL;
	return true;
}

/*
 * The agent inside the program has no voice of its own: what would keep it off is said beforehand.
 */
static void warn_of_folder(void)
{
	CLEANUP(diagnosis_deinit) struct diagnosis diagnosis = { 0 };

	diagnosis_init(&diagnosis);
	doctor_examine_own_folder(&diagnosis);
	for (size_t i = 0; i < diagnosis.count; i++) {
		const struct finding *const finding = &diagnosis.items[i];
		if (finding->level == FINDING_WRONG)
			verb_warn("run: %s (%s)", finding->message, finding->hint);
	}
}

static void apply(const struct launch_plan *plan)
{
	warn_of_folder();
	for (size_t i = 0; i < plan->note_count; i++)
		verb_warn("run: %s", plan->notes[i]);
	for (size_t i = 0; i < plan->variable_count; i++)
		setenv(plan->variables[i].name, plan->variables[i].value, 1);
}

static int exec_command(const struct launch_plan *plan, char **command, int listen_fd)
{
	struct error err;

	apply(plan);
	if (!run_gateway_start(listen_fd, getpid(), &err))
		verb_warn("run: %s", err.message);
	/* Ignored signals are inherited, and this one is only ours. */
	run_restore_signals();
	execvp(command[0], command);
	error_system(&err, errno, "%s", command[0]);
	return verb_fail(&err);
}

static int fail_prefixed(struct error *err)
{
	error_prefix(err, "run");
	return verb_fail(err);
}

/* The agent itself where it was copied without the small library, which needs it beside itself. */
static bool find_preload(char path[4096], struct error *err)
{
	struct error ignored;

	return agent_library_find(AGENT_LIBRARY_PRELOAD, path, &ignored) ||
	       agent_library_find(AGENT_LIBRARY, path, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	CLEANUP(run_options_cleanup) struct run_options wanted = { 0 };
	CLEANUP(recording_cleanup) struct recording recording = { 0 };
	char library[4096];
	struct launch_plan plan;
	struct error err;
	int exit_code, listen_fd = -1;

	if (!parse(verb, argc, argv, &wanted, &exit_code))
		return exit_code;
	if (!find_preload(library, &err) ||
		(wanted.record != NULL && !recording_open(wanted.record, &recording, &err)))
		return verb_fail(&err);
	wanted.request.command = wanted.command[0];
	wanted.request.conf = wanted.conf;
	wanted.request.exes = wanted.exes;
	wanted.request.agent_library = library;
	wanted.request.final_prefix = wanted.record == NULL ? NULL : recording.prefix;
	if ((wanted.listen != NULL && !run_gateway_open(wanted.listen, &listen_fd, &err)) ||
		!launch_plan_make(&wanted.request, &plan, &err))
		return fail_prefixed(&err);
	if (wanted.record == NULL) {
		exit_code = exec_command(&plan, wanted.command, listen_fd);
	} else {
		apply(&plan);
		exit_code = recording_run(&recording, wanted.command, listen_fd);
	}
	launch_plan_deinit(&plan);
	return exit_code;
}

const struct verb verb_run = {
	.name = "run",
	.arguments = "[--activate] [--sample BYTES] [--mapped] [--listen ADDR] [--record FILE] "
		     "[--] CMD...",
	.summary = "start a program with the agent, ready to be profiled",
	.description = "Starts CMD with the agent, ready to be profiled, by exec: the pid stays "
		       "the same. The program keeps its allocator. jemalloc's profiler is enabled "
		       "but inactive (prof:true,prof_active:false); with any other allocator "
		       "heapctl takes the samples. --jemalloc preloads jemalloc instead, which has "
		       "more statistics and settings.\n\n"
		       "Options for jemalloc in the environment are kept, and --conf overrides "
		       "them; mistakes in them are reported. Programs that CMD starts get no "
		       "agent, unless --exe names them.\n\n"
		       "With --record heapctl stays as the parent: it forwards signals, saves the "
		       "profile when CMD exits and returns its exit status (128 and the signal's "
		       "number when it was killed). Before it forwards a signal that ends programs "
		       "it takes a profile, in case CMD does not exit normally.",
	.examples = "heapctl run -- redis-server --port 6380\n"
		    "# with a web page\n"
		    "heapctl run --listen 127.0.0.1:7070 -- redis-server --port 6380\n"
		    "# always on: a profile at any time shows all that is in use\n"
		    "heapctl run --activate -- redis-server --port 6380\n"
		    "# a database that maps its buffers itself\n"
		    "heapctl run --activate --mapped -- ./myserver\n"
		    "# leaks of a program that ends\n"
		    "heapctl run --record leaks.heap -- ./myprogram\n"
		    "# a profile every GiB allocated, written by jemalloc\n"
		    "heapctl run --conf lg_prof_interval:30,prof_prefix:/var/tmp/my -- ./myserver\n"
		    "# a start script\n"
		    "heapctl run --exe myserver -- ./start.sh",
	.options = options,
	.complete = "@command",
	.min_operands = 1,
	.max_operands = SIZE_MAX,
	.stops_at_operand = true,
	.run = run,
};
