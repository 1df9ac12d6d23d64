/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include "base/clock.h"
#include "inject/borrow.h"
#include "inject/child.h"
#include "inject/injection.h"
#include "inject/loader_thread.h"
#include "inject/raw_thread.h"
#include "inject/threads.h"

enum { AVOIDED_MAX = 16 };

struct inject_attempt {
	const struct inject_request *request;
	const struct borrow_limits *limits;
};

struct inject_outcome {
	pid_t stuck; /* a thread that does not stop: it is let go when our child has ended */
	struct inject_result result;
};

static bool inject(const void *context, void *result_ret, struct error *err)
{
	const struct inject_attempt *const attempt = context;
	const struct inject_request *const request = attempt->request;
	struct inject_outcome *const outcome = result_ret;
	const struct loader_request load = { .path = request->path,
		.image = request->image,
		.image_size = request->image_size,
		.function = request->function,
		.settings = request->settings };
	struct inject_result *const result = &outcome->result;
	struct borrowed_thread borrowed = { 0 };
	struct injection injection = { .remote = { .folder = -1, .memory = -1 } };

	const bool done =
		loader_request_check(&load, err) && injection_init(&injection, request->pid, err) &&
		borrow_some_thread(&injection, attempt->limits, &borrowed, &outcome->stuck, err) &&
		(injection.is_raw ? raw_thread_run : loader_thread_run)(&injection, &borrowed,
			&load, &result->returned, result->answer, sizeof result->answer, err);
	result->stop_us = borrowed.stops.used_us;
	result->max_stop_us = borrowed.stops.max_us;
	result->total_stop_us = borrowed.stops.total_us;
	result->stops = borrowed.stops.count;
	injection_deinit(&injection);
	return done;
}

bool inject_library(
	const struct inject_request *request, struct inject_result *result, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + request->patience_ms;
	struct borrow_limits limits = { .patience_ms = request->patience_ms };
	struct inject_outcome outcome = { 0 };
	pid_t avoided[AVOIDED_MAX];
	const struct inject_attempt attempt = { request, &limits };
	bool done;

	limits.avoided = avoided;
	for (;;) {
		done = child_run(inject, &attempt, &outcome, sizeof outcome,
			limits.patience_ms + BORROW_EXTRA_MS + LOADER_MS, err);
		limits.patience_ms = (int)(until_ms - clock_monotonic_ms());
		if (done || outcome.stuck == 0 || limits.avoided_count == AVOIDED_MAX ||
			limits.patience_ms <= 0)
			break;
		avoided[limits.avoided_count++] = outcome.stuck;
	}
	if (done)
		*result = outcome.result;
	return done;
}

bool inject_look(pid_t pid, int *safe, int *looks, struct error *err)
{
	enum { LOOKS = 3, LOOK_MS = 5 };
	struct injection injection;
	struct thread_list list;
	bool done = injection_init_for_looks(&injection, pid, err);

	*safe = 0;
	for (*looks = 0; done && *looks < LOOKS; (*looks)++) {
		bool is_safe = false;
		done = threads_read(&list, pid, err);
		for (size_t i = 0; done && i < list.count && !is_safe; i++)
			is_safe = borrow_look(&injection, list.threads[i]) == NULL;
		*safe += is_safe;
		clock_sleep_us(LOOK_MS * 1000);
	}
	injection_deinit(&injection);
	return done;
}
