/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_job.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/target_resolve.h"
#include "client/target_tree.h"

enum { CANCEL_MS = 200 };

struct top_job {
	pthread_t thread;
	struct top_request request;
	struct top_result result;
	int done_fd, cancel_fd;
};

/* The usual reason of a failure, which says more than the state of the socket. */
static bool explain(const struct target *target, struct error *err)
{
	struct process process;
	struct error why = { 0 };

	if (target->kind == TARGET_AGENT && target->process.pid != 0 &&
		!process_read(target->process.pid, &process, &why) && why.kind == ERROR_NOT_FOUND)
		return error_set(err, ERROR_NOT_FOUND, "%s has ended", target->label);
	return false;
}

static bool switch_one(struct target *target, struct top_job *job, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	const bool on = job->request.sampling == TOP_SWITCH_ON;

	target->cancel_fd = &job->cancel_fd;
	return agent_call_json(
		target, "POST", on ? "/v1/activate" : "/v1/deactivate", &answer, err);
}

/* In all processes that can be reached; one that fails is the reason. */
static bool switch_tree(struct top_job *job, struct error *err)
{
	CLEANUP(target_tree_deinit) struct target_tree tree = { 0 };
	bool ok = true;

	if (!target_tree_resolve(job->request.operand, &tree, err))
		return false;
	for (size_t i = 0; i < tree.count; i++) {
		if (tree.entries[i].is_reached && !switch_one(&tree.entries[i].target, job, err))
			ok = false;
	}
	return ok;
}

static bool switch_sampling(struct top_job *job)
{
	struct top_result *const result = &job->result;

	return job->request.is_tree ? switch_tree(job, &result->switch_err)
				    : switch_one(&result->target, job, &result->switch_err);
}

static bool take_snapshot(struct top_job *job)
{
	struct top_result *const result = &job->result;
	const enum stack_pruning pruning = job->request.pruning;
	struct target again;
	struct error ignored;

	if (job->request.is_tree)
		return top_snapshot_take_tree(job->request.operand, &job->cancel_fd, pruning,
			&result->snapshot, &result->snapshot_err);
	if (top_snapshot_take(&result->target, pruning, &result->snapshot, &result->snapshot_err))
		return true;
	explain(&result->target, &result->snapshot_err);
	if (!target_resolve(job->request.operand, &again, &ignored))
		return false;
	again.cancel_fd = &job->cancel_fd;
	result->target = again;
	return top_snapshot_take(&result->target, pruning, &result->snapshot, &ignored);
}

static void *work(void *context)
{
	struct top_job *const job = context;

	if (job->request.sampling != TOP_SWITCH_LEAVE)
		job->result.has_switched = switch_sampling(job);
	if (job->request.wants_snapshot)
		job->result.has_snapshot = take_snapshot(job);
	eventfd_write(job->done_fd, 1);
	return NULL;
}

static void job_free(struct top_job *job)
{
	fd_cleanup(&job->done_fd);
	fd_cleanup(&job->cancel_fd);
	free(job);
}

/* Signals are for the thread that has the screen. */
static int start_thread(struct top_job *job)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	const int problem = pthread_create(&job->thread, NULL, work, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return problem;
}

bool top_job_start(const struct top_request *request, struct top_job **ret, struct error *err)
{
	struct top_job *const job = xcalloc(1, sizeof *job);

	job->request = *request;
	job->done_fd = eventfd(0, EFD_CLOEXEC);
	job->cancel_fd = eventfd(0, EFD_CLOEXEC);
	job->result.target = request->target;
	job->result.target.cancel_fd = &job->cancel_fd;
	const int problem = job->done_fd < 0 || job->cancel_fd < 0 ? errno : start_thread(job);
	if (problem != 0) {
		job_free(job);
		return error_system(err, problem, "starting a thread");
	}
	*ret = job;
	return true;
}

int top_job_fd(const struct top_job *job)
{
	return job->done_fd;
}

void top_job_finish(struct top_job *job, struct top_result *result)
{
	pthread_join(job->thread, NULL);
	*result = job->result;
	result->target.cancel_fd = NULL;
	job_free(job);
}

bool top_job_cancel(struct top_job *job)
{
	/* pthread_timedjoin_np has no other clock. */
	const struct timespec end = clock_timespec(clock_realtime_ms() + CANCEL_MS);

	eventfd_write(job->cancel_fd, 1);
	if (pthread_timedjoin_np(job->thread, NULL, &end) != 0)
		return false;
	if (job->result.has_snapshot)
		top_snapshot_deinit(&job->result.snapshot);
	job_free(job);
	return true;
}
