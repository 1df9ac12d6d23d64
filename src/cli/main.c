/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commit.h"
#include "cli/control.h"
#include "cli/date.h"
#include "cli/input_guard.h"
#include "cli/program_files.h"
#include "cli/verb.h"

/* In the order of the overview: look, control, read, serve. */
static const struct verb *const verbs[] = {
	&verb_run,
	&verb_ps,
	&verb_status,
	&verb_attach,
	&verb_detach,
	&verb_activate,
	&verb_deactivate,
	&verb_dump,
	&verb_stats,
	&verb_account,
	&verb_start,
	&verb_stop,
	&verb_runs,
	&verb_record,
	&verb_longlived,
	&verb_watch,
	&verb_top,
	&verb_mallctl,
	&verb_doctor,
	&verb_report,
	&verb_diff,
	&verb_view,
	&verb_trend,
	&verb_note,
	&verb_symbols,
	&verb_send,
	&verb_fleet,
	&verb_serve,
	&verb_render_worker,
	&verb_completion,
	&verb_man,
	NULL,
};

static int refuse_argument(const char *argument)
{
	verb_warn("'%.60s' is one argument too many (see heapctl --help)", argument);
	return EXIT_USAGE;
}

static int print_help(int argc, char **argv)
{
	if (argc > 2)
		return refuse_argument(argv[2]);
	if (argc < 2) {
		verb_print_overview(stdout);
		return EXIT_DONE;
	}
	const struct verb *const verb = verb_find(argv[1]);
	if (verb == NULL) {
		verb_warn("unknown verb '%s' (heapctl --help lists them)", argv[1]);
		return EXIT_USAGE;
	}
	verb_print_help(verb, stdout);
	return EXIT_DONE;
}

/*
 * Output that got lost must not look like success: a full disk shows up when the rest is written.
 * A reader that has seen enough (`| head`) needs no message.
 */
static int finish(int exit_code)
{
	struct error err;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	if (exit_code == EXIT_DONE && !verb_output_is_closed()) {
		file_write_failed("standard output", errno, &err);
		verb_fail(&err);
	}
	return exit_code == EXIT_DONE ? EXIT_FAILED : exit_code;
}

static void print_version(void)
{
	if (HEAPCTL_COMMIT[0] == '\0')
		puts("heapctl " HEAPCTL_VERSION);
	else
		puts("heapctl " HEAPCTL_VERSION " (" HEAPCTL_COMMIT ")");
}

static int dispatch(int argc, char **argv)
{
	const char *const name = argv[1];

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return print_help(argc - 1, argv + 1);
	if (strcmp(name, "--version") == 0) {
		if (argc > 2)
			return refuse_argument(argv[2]);
		print_version();
		return EXIT_DONE;
	}
	const struct verb *const verb = verb_find(name);
	if (verb == NULL) {
		verb_warn("unknown verb '%s' (heapctl --help lists them)", name);
		return EXIT_USAGE;
	}
	return verb->run(verb, argc - 1, argv + 1);
}

/*
 * A descriptor of these that is closed would become the next file or connection, and messages would
 * be written into it. With O_PATH reads and writes fail with EBADF as before, without any device.
 */
static void reserve_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/", O_PATH | O_CLOEXEC) < 0)
			return;
}

int main(int argc, char **argv)
{
	reserve_standard_descriptors();
	/* When the reader of a pipe ends, write() fails; a signal must not kill heapctl. */
	signal(SIGPIPE, SIG_IGN);
	/* The parent may have ignored it, which exec keeps: no child could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	input_guard_install();
	verb_table = verbs;
	verb_source_date = HEAPCTL_DATE;
	net_program_init(argc, argv);
#if defined(HEAPCTL_NET)
	/* Messages name the command as it was called. */
	prctl(PR_SET_NAME, "heapctl");
#else
	/* Where it cannot be executed, what needs it says so: the URL may be text, or another's. */
	struct error ignored;
	if (net_program_is_wanted(argc, argv))
		net_program_exec(&ignored);
#endif
	agent_on_silence(control_warn_of_wait);
	if (argc > 0 && strcmp(path_base_name(argv[0]), "jeprof") == 0)
		return finish(jeprof_main(argc, argv));
	if (argc < 2) {
		verb_print_overview(stderr);
		return EXIT_USAGE;
	}
	return finish(dispatch(argc, argv));
}
