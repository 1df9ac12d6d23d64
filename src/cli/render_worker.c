/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl render-worker: what the gateway starts to render a profile (gateway/worker.h). It puts
 * limits on itself and then is `heapctl report` or `heapctl trend`, or looks up addresses.
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/verb.h"
#include "gateway/worker.h"

enum { WORKER_NICE = 5 };

/* Address space includes mapped debug files, which may have gigabytes. */
#define WORKER_MEMORY_BYTES (UINT64_C(6) << 30)

static void limit(int resource, rlim_t value)
{
	const struct rlimit limits = { .rlim_cur = value, .rlim_max = value };

	setrlimit(resource, &limits);
}

static void restrain(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/* Sanitizers reserve terabytes of address space. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_AS, WORKER_MEMORY_BYTES);
#endif
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, WORKER_WALL_MS / 1000);
	limit(RLIMIT_FSIZE, WORKER_OUTPUT_BYTES);
	if (nice(WORKER_NICE) < 0)
		return;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct error err = { 0 };

	if (argc < 2)
		return verb_usage(verb, "only the gateway starts it");
	restrain();
	if (strcmp(argv[1], "report") == 0)
		return verb_report.run(&verb_report, argc - 1, argv + 1);
	if (strcmp(argv[1], "trend") == 0)
		return verb_trend.run(&verb_trend, argc - 1, argv + 1);
	if (strcmp(argv[1], "symbols") == 0)
		return symbol_worker_run(STDIN_FILENO, STDOUT_FILENO, &err) ? EXIT_DONE
									    : verb_fail(&err);
	return verb_usage(verb, "unknown work '%s'", argv[1]);
}

const struct verb verb_render_worker = {
	.name = "render-worker",
	.arguments = "report|trend|symbols ...",
	.summary = "draw a profile for the gateway",
	.description = "",
	.is_hidden = true,
	.stops_at_operand = true,
	.run = run,
};
