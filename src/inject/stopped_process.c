/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/stopped_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "inject/stack_rule.h"
#include "inject/threads.h"

enum { REST_BYTES_MAX = 8 * 1024 * 1024, PIECE_BYTES = 64 * 1024 };

static bool is_known(const struct stopped_process *process, pid_t thread)
{
	for (size_t i = 0; i < process->count; i++) {
		if (process->threads[i].thread == thread)
			return true;
	}
	return false;
}

/* Seizes those that are new, before it waits for the first. `added`: how many. */
static bool seize_new(struct stopped_process *process, const struct thread_list *list,
	size_t *added, struct error *err)
{
	const size_t known = process->count;

	for (size_t i = 0; i < list->count; i++) {
		if (is_known(process, list->threads[i]))
			continue;
		switch (tracee_seize(list->threads[i], err)) {
		case TRACEE_GONE:
			break;
		case TRACEE_FAILED:
		case TRACEE_STUCK:
			return false;
		case TRACEE_STOPPED:
			process->threads = xreallocarray(
				process->threads, process->count + 1, sizeof *process->threads);
			process->threads[process->count++] =
				(struct tracee){ .thread = list->threads[i] };
			break;
		}
	}
	*added = process->count - known;
	return true;
}

static bool wait_for_new(
	struct stopped_process *process, size_t first, int64_t until_ms, struct error *err)
{
	struct error ignored;
	bool done = true;

	for (size_t i = first; i < process->count; i++) {
		const pid_t thread = process->threads[i].thread;
		const int64_t left_ms = until_ms - clock_monotonic_ms();
		struct tracee tracee = { 0 };
		/* After a failure the others are still to be let go. */
		const enum tracee_outcome outcome = tracee_wait(&tracee, thread,
			done && left_ms > 0 ? (int)left_ms : 0, done ? err : &(struct error){ 0 });
		done = done && outcome != TRACEE_FAILED && outcome != TRACEE_STUCK;
		/* Its number may be that of another process' thread by now. */
		if (outcome == TRACEE_STOPPED && !threads_has(process->remote, thread) &&
			!tracee_resume(&tracee, &ignored)) {
			/* It has ended. */
		}
		process->threads[i] = tracee;
	}
	return done;
}

bool stopped_process_begin(struct stopped_process *process, const struct remote_process *remote,
	const struct stack_waiting *waiting, int wait_ms, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	CLEANUP(free_cleanup) struct thread_list *list = xmalloc(sizeof *list);
	size_t added = 1;
	bool done = true;

	*process = (struct stopped_process){ .remote = remote, .waiting = waiting };
	while (done && added > 0) {
		const size_t first = process->count;
		added = 0;
		done = threads_read(list, remote->pid, err) &&
		       seize_new(process, list, &added, err);
		done = wait_for_new(process, first, until_ms, done ? err : &(struct error){ 0 }) &&
		       done;
	}
	if (done && list->count == THREADS_MAX)
		done = error_set(err, ERROR_UNSUPPORTED, "it has %d threads or more", THREADS_MAX);
	if (!done)
		stopped_process_end(process);
	return done;
}

void stopped_process_end(struct stopped_process *process)
{
	struct error ignored;

	for (size_t i = 0; i < process->count; i++) {
		if (process->threads[i].thread != 0 &&
			!tracee_resume(&process->threads[i], &ignored)) {
			/* It has ended. */
		}
	}
	free(process->threads);
	*process = (struct stopped_process){ 0 };
}

/* --- Where they are --- */

struct range_walk {
	const struct address_range *ranges;
	size_t count;
	uint64_t last_sp;
	bool is_in;
};

static bool is_in_ranges(const struct range_walk *walk, uint64_t address)
{
	for (size_t i = 0; i < walk->count; i++) {
		if (address >= walk->ranges[i].begin && address < walk->ranges[i].end)
			return true;
	}
	return false;
}

static bool look_at_frame(void *context, const struct stack_frame *frame)
{
	struct range_walk *const walk = context;

	walk->last_sp = frame->sp;
	walk->is_in = is_in_ranges(walk, frame->pc);
	return !walk->is_in;
}

/*
 * `top`: no stack that begins below it reaches beyond. A stack that is longer than what is read
 * counts as inside. The end of its memory is not its own end: the next mapping may follow at once.
 */
static bool is_in_rest(
	const struct range_walk *walk, const struct remote_process *remote, uint64_t top)
{
	CLEANUP(free_cleanup) uint64_t *words = xmalloc(PIECE_BYTES);
	uint64_t at = walk->last_sp & ~UINT64_C(7);
	const uint64_t limit = at + REST_BYTES_MAX;
	const uint64_t end = top > at && top < limit ? top : limit;

	while (at < end) {
		const size_t size = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
		const size_t got = remote_copy_some(remote, at, words, size);
		for (size_t i = 0; i < got / sizeof *words; i++) {
			if (is_in_ranges(walk, words[i]))
				return true;
		}
		if (got < size)
			return false;
		at += got;
	}
	return end == limit;
}

static bool is_thread_in(const struct stopped_process *process, const struct tracee *tracee,
	const struct address_range *ranges, size_t count)
{
	struct range_walk walk = { .ranges = ranges, .count = count };
	const struct stack_registers registers = tracee_stack_registers(tracee);

	walk.last_sp = registers.sp;
	return !stack_visit(process->remote, process->waiting, &registers, look_at_frame, &walk) &&
	       (walk.is_in || is_in_rest(&walk, process->remote, tracee_thread_pointer(tracee)));
}

static bool is_called(pid_t pid, pid_t thread, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	return name != NULL &&
	       file_try_read(&text, "/proc/%d/task/%d/comm", (int)pid, (int)thread) &&
	       strncmp(buffer_string(&text), name, strlen(name)) == 0 &&
	       buffer_string(&text)[strlen(name)] == '\n';
}

bool stopped_process_is_in(const struct stopped_process *process,
	const struct address_range *ranges, size_t count, const char *skip)
{
	for (size_t i = 0; i < process->count; i++) {
		const struct tracee *const tracee = &process->threads[i];
		if (tracee->thread != 0 && !is_called(process->remote->pid, tracee->thread, skip) &&
			is_thread_in(process, tracee, ranges, count))
			return true;
	}
	return false;
}
