/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/worker.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "trafficserver/actions.h"
#include "trafficserver/plugin.h"
#include "trafficserver/report.h"

/* Traffic Server itself publishes metrics that often. */
enum { METRICS_MS = 10000 };

static bool unknown(struct worker *worker, const struct message *message)
{
	(void)worker;
	report_failure("there is no message '%s'; there are " MESSAGE_WORDS, message->text);
	return false;
}

static bool obey(struct worker *worker, const struct message *message)
{
	const char *argument = "";
	const enum message_verb verb = message_verb(message, &argument);

	if (worker->problem[0] != '\0') {
		report_failure("'%s' is not done: %s", message->text, worker->problem);
		return false;
	}
	switch (verb) {
	case MESSAGE_ACTIVATE:
		return actions_activate();
	case MESSAGE_DEACTIVATE:
		return actions_deactivate();
	case MESSAGE_DUMP:
		return actions_dump(worker);
	case MESSAGE_STATS:
		return actions_stats();
	case MESSAGE_STATUS:
		return actions_status();
	case MESSAGE_START:
		return actions_start(worker, argument);
	case MESSAGE_STOP:
		return actions_stop(worker);
	case MESSAGE_RESET:
		return actions_reset(argument);
	case MESSAGE_EMPTY:
		report_failure("a message without a word; there are " MESSAGE_WORDS);
		return false;
	case MESSAGE_UNKNOWN:
		break;
	}
	return unknown(worker, message);
}

static void update_metrics(struct worker *worker)
{
	struct heapctl_status status = { .size = sizeof status };

	metrics_add(&worker->metrics, METRIC_FAILURES, queue_refused(&worker->queue));
	if (worker->problem[0] == '\0' && heapctl_get_status(&status, NULL) == HEAPCTL_OK)
		metrics_set_status(&worker->metrics, &status);
}

/* Until the run that is waited for ends, or the metrics are due. */
static int64_t wait_ms(const struct worker *worker)
{
	struct heapctl_run run = { .size = sizeof run };

	if (worker->run_id == 0 || heapctl_run_get(worker->run_id, &run, NULL) != HEAPCTL_OK)
		return METRICS_MS;
	if (run.state != HEAPCTL_RUN_RUNNING)
		return 0;
	/* A little later, so that it has ended by then. */
	return run.remaining_ms + 50 < METRICS_MS ? run.remaining_ms + 50 : METRICS_MS;
}

/* The server's signals are for its own threads. */
static void block_signals(void)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGHUP);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

void *worker_main(void *context)
{
	struct worker *const worker = context;
	struct message message;

	prctl(PR_SET_NAME, PLUGIN_TAG);
	block_signals();
	for (;;) {
		update_metrics(worker);
		switch (queue_take(&worker->queue, &message, wait_ms(worker))) {
		case QUEUE_MESSAGE:
			if (!obey(worker, &message))
				metrics_add(&worker->metrics, METRIC_FAILURES, 1);
			break;
		case QUEUE_TIMEOUT:
			if (!actions_finish_run(worker))
				metrics_add(&worker->metrics, METRIC_FAILURES, 1);
			break;
		case QUEUE_CLOSED:
			return NULL;
		}
	}
}
