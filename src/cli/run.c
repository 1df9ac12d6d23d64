/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl run: starts a program so that it can be profiled, a gateway for it (--listen), and saves
 * what is alive at its end (--record).
 *
 * The gateway is no child of the program, which may count its own, and ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/option.h"
#include "cli/program_files.h"
#include "cli/run_recording.h"
#include "cli/sample_interval.h"
#include "cli/verb.h"
#include "client/doctor.h"
#include "client/launch.h"
#include "gateway/listener.h"

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
	descriptors_close_from(LISTENER_FIRST_FD + 1);
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

struct recorded_command {
	char **command;
	int listen_fd; /* of a gateway for it; -1 for none */
};

/* In the child process. */
static void start_program(const void *context)
{
	const struct recorded_command *const program = context;
	struct error err;

	if (!run_gateway_start(program->listen_fd, getpid(), &err))
		verb_warn("run: %s", err.message);
	run_restore_signals();
	execvp(program->command[0], program->command);
	error_system(&err, errno, "run: %s", program->command[0]);
	verb_fail(&err);
}

/* Runs the program to its end; returns the exit code of heapctl. */
static int record(struct recording *recording, const struct recorded_command *program)
{
	struct error err;
	int exit_code = 0;

	const pid_t pid = recording_start(recording, start_program, program, &err);
	if (program->listen_fd >= 0)
		close(program->listen_fd);
	if (pid < 0)
		return verb_fail(&err);
	if (recording_finish(recording, pid, program->command[0], &exit_code, &err))
		return exit_code;
	const int failed = verb_fail(&err);
	/* The program's own status is worth more than ours, unless all was well with it. */
	return exit_code == EXIT_DONE ? failed : exit_code;
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
		exit_code =
			record(&recording, &(struct recorded_command){ wanted.command, listen_fd });
	}
	launch_plan_deinit(&plan);
	return exit_code;
}

const struct verb verb_run = {
	.name = "run",
	.arguments = "[--activate] [--sample BYTES] [--mapped] [--listen ADDR] [--record FILE] "
		     "[--] CMD...",
	.summary = "start a program with the agent, ready to be profiled",
	.description =
		"Starts CMD with the agent, ready to be profiled, by exec: the pid stays "
		"the same. The program keeps its allocator. jemalloc's profiler is enabled "
		"but inactive (prof:true,prof_active:false); with any other allocator "
		"heapctl takes the samples. --jemalloc preloads jemalloc instead, which has "
		"more statistics and settings.\n\n"
		"Options for jemalloc in the environment are kept, and --conf overrides "
		"them; mistakes in them are reported. Programs that CMD starts get no "
		"agent, unless --exe names them.\n\n"
		"With --record heapctl stays as the parent: it forwards signals, saves the "
		"profile when CMD exits and returns its exit status (128 and the signal's "
		"number when it was killed). Before it forwards SIGINT, SIGTERM, SIGQUIT or "
		"SIGHUP, or another signal that ends CMD because it does not handle it, it "
		"takes a profile, in case CMD does not exit normally. Where heapctl is a "
		"command in the foreground of a terminal, CMD has a process group of its own "
		"there, so that Ctrl-C reaches heapctl first; a CMD that reads from the "
		"terminal gets it, and Ctrl-C with it. What a terminal, a shell, timeout or "
		"systemctl stop sends to all processes of a command in the background, a "
		"script, a pipeline or a service ends a CMD that does not handle it without "
		"a profile.",
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
