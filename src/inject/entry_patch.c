/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/entry_patch.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "inject/child.h"
#include "inject/injection.h"
#include "inject/prologue.h"
#include "inject/stopped_process.h"

enum {
	STOP_MS = 500,	    /* until all stand still; they must not wait for one for long */
	PATIENCE_MS = 5000, /* until none stands in the way */
	AGAIN_US = 500,
	CHILD_MS = PATIENCE_MS + 10000,
	LOOK_AGAIN_US = 20000, /* for threads to leave the area */
	INDIRECT_JUMP_BYTES = 6,
};

/* struct entry of sampler/got.h, as the agent has it. */
struct remote_entry {
	uint64_t name, replacement, original;
	uint8_t releases, is_called_here, padding[6];
};

struct patching {
	const struct entry_functions *found;
	const struct entry_agent *agent;
	/* The area, as it is to be. */
	union {
		struct entry_area header;
		unsigned char bytes[ENTRY_AREA_BYTES];
	} area;
	struct remote_entry entries[ENTRY_PATCHES_MAX];
	bool is_written; /* the area is like this already */
	struct remote_process remote;
	struct stack_waiting waiting;
	struct entry_result *result;
};

static uint64_t slot_at(size_t i)
{
	return sizeof(struct entry_area) + i * ENTRY_SLOT_BYTES;
}

/* --- What is to be written --- */

static bool write_slot(struct patching *patching, size_t i, struct error *err)
{
	/* jmp *0(%rip), and the address behind it */
	static const unsigned char jump[INDIRECT_JUMP_BYTES] = { 0xff, 0x25, 0, 0, 0, 0 };
	const struct entry_function *const function = &patching->found->functions[i];
	struct entry_patch *const patch = &patching->area.header.patches[i];
	unsigned char *const slot = patching->area.bytes + slot_at(i);
	const uint64_t at = patching->agent->area + slot_at(i);
	const uint64_t replacement = patching->entries[function->index].replacement;
	struct prologue prologue = { 0 };

	if (!prologue_move(&prologue, function->bytes, function->size, function->address,
		    at + ENTRY_SLOT_MOVED, err))
		return error_prefix(err, "%s", function->name);
	memcpy(slot, jump, sizeof jump);
	memcpy(slot + sizeof jump, &replacement, sizeof replacement);
	memcpy(slot + ENTRY_SLOT_MOVED, prologue.moved, prologue.moved_bytes);
	*patch = (struct entry_patch){ .function = function->address,
		.index = function->index,
		.releases = function->releases,
		.length = (uint32_t)prologue.length };
	memcpy(patch->before, function->bytes, sizeof patch->before);
	/* Straight there from what is near enough: a library, mostly. */
	return prologue_jump(patch->after, function->address, replacement) ||
	       prologue_jump(patch->after, function->address, at) ||
	       error_set(err, ERROR_UNSUPPORTED, "%s is farther than 2 GiB from the area",
		       function->name);
}

static bool build_area(struct patching *patching, struct error *err)
{
	const struct entry_functions *const found = patching->found;
	struct entry_area *const header = &patching->area.header;

	header->magic = ENTRY_AREA_MAGIC;
	header->bytes = ENTRY_AREA_BYTES;
	header->count = (uint32_t)found->count;
	snprintf(header->where, sizeof header->where, "%s", found->where);
	snprintf(header->missed, sizeof header->missed, "%s", found->missed);
	for (size_t i = 0; i < found->count; i++) {
		if (!write_slot(patching, i, err))
			return false;
	}
	return true;
}

/* The agent may be of another build: its list has to be ours. */
static bool read_entries(struct patching *patching, struct error *err)
{
	const struct entry_agent *const agent = patching->agent;
	char name[64];

	if (agent->count > ENTRY_PATCHES_MAX ||
		!remote_copy(&patching->remote, agent->entries, patching->entries,
			agent->count * sizeof *patching->entries))
		return error_set(err, ERROR_STATE, "the agent's list of functions cannot be read");
	for (size_t i = 0; i < patching->found->count; i++) {
		const struct entry_function *const function = &patching->found->functions[i];
		const size_t size = strlen(function->name) + 1;
		if (function->index >= agent->count || size > sizeof name ||
			!remote_copy(&patching->remote, patching->entries[function->index].name,
				name, size) ||
			memcmp(name, function->name, size) != 0)
			return error_set(err, ERROR_STATE, "the agent is of another version");
	}
	return true;
}

/* A thread may still be in what an earlier attach has written: it stays, if it is the same. */
static bool compare_area(struct patching *patching, struct error *err)
{
	CLEANUP(free_cleanup) unsigned char *now = xmalloc(ENTRY_AREA_BYTES);

	if (!remote_copy(&patching->remote, patching->agent->area, now, ENTRY_AREA_BYTES))
		return error_set(err, ERROR_STATE, "the agent's memory cannot be read");
	patching->is_written = memcmp(now, patching->area.bytes, ENTRY_AREA_BYTES) == 0;
	if (patching->is_written || ((struct entry_area *)(void *)now)->magic != ENTRY_AREA_MAGIC)
		return true;
	return error_set(err, ERROR_STATE,
		"other functions were patched before, and a thread may still be in that code");
}

/* --- While all stand still --- */

static bool write_memory(const struct patching *patching, uint64_t address, const void *bytes,
	size_t size, struct error *err)
{
	return remote_write(&patching->remote, address, bytes, size) ||
	       error_set(err, ERROR_SYSTEM, "the memory of the process cannot be written");
}

static bool holds(const struct patching *patching, const struct entry_patch *patch,
	const unsigned char bytes[ENTRY_JUMP_BYTES])
{
	unsigned char now[ENTRY_JUMP_BYTES];

	return remote_copy(&patching->remote, patch->function, now, sizeof now) &&
	       memcmp(now, bytes, sizeof now) == 0;
}

/* Counts those that were written. */
static bool write_functions(
	const struct patching *patching, bool restores, bool releases, struct error *err)
{
	const struct entry_area *const header = &patching->area.header;

	for (size_t i = 0; i < header->count; i++) {
		const struct entry_patch *const patch = &header->patches[i];
		const unsigned char *const from = restores ? patch->after : patch->before;
		const unsigned char *const to = restores ? patch->before : patch->after;
		if ((patch->releases != 0) != releases || holds(patching, patch, to))
			continue;
		if (!holds(patching, patch, from)) {
			if (!restores)
				return error_set(err, ERROR_STATE,
					"the first bytes of a function have changed meanwhile");
			patching->result->foreign++;
			continue;
		}
		if (!write_memory(patching, patch->function, to, ENTRY_JUMP_BYTES, err))
			return false;
		patching->result->functions++;
	}
	return true;
}

static bool write_originals(const struct patching *patching, struct error *err)
{
	for (size_t i = 0; i < patching->found->count; i++) {
		const uint8_t index = patching->found->functions[i].index;
		const uint64_t original = patching->agent->area + slot_at(i) + ENTRY_SLOT_MOVED;
		if (!write_memory(patching, patching->entries[index].original, &original,
			    sizeof original, err))
			return false;
	}
	return true;
}

static bool patch_all(const struct patching *patching, struct error *err)
{
	struct error ignored;

	if ((patching->is_written || write_memory(patching, patching->agent->area,
					     patching->area.bytes, ENTRY_AREA_BYTES, err)) &&
		write_originals(patching, err) && write_functions(patching, false, true, err) &&
		write_functions(patching, false, false, err))
		return true;
	if (!write_functions(patching, true, false, &ignored) ||
		!write_functions(patching, true, true, &ignored)) {
		/* What is patched works. */
	}
	return false;
}

/* Of the module that has the address, for a module that is ours. */
static struct address_range code_of(const struct remote_process *remote, uint64_t address)
{
	const struct remote_module *const module = remote_find(remote, address);

	return module == NULL ? (struct address_range){ 0 }
			      : (struct address_range){ module->begin, module->end };
}

/* Where the replacements are, by the slot of the first patch. */
static uint64_t read_replacement(const struct patching *patching)
{
	uint64_t address = 0;

	memcpy(&address, patching->area.bytes + slot_at(0) + INDIRECT_JUMP_BYTES, sizeof address);
	return address;
}

/*
 * Whether any thread may be in the area, or get there: by the agent's own functions. The area of a
 * program at a fixed address begins at 1 MiB, which is a number on many stacks; its code begins
 * later.
 */
static bool is_area_unused(const struct patching *patching, const struct stopped_process *stopped)
{
	const struct address_range ranges[] = {
		{ patching->agent->area + slot_at(0),
			patching->agent->area + slot_at(patching->area.header.count) },
		code_of(&patching->remote, read_replacement(patching)),
	};

	return ranges[1].begin != 0 && !stopped_process_is_in(stopped, ranges, 2, "heapctl");
}

/* Whether a thread stands between two of the instructions that are overwritten. */
static bool is_in_the_way(const struct patching *patching, const struct stopped_process *stopped)
{
	const struct entry_area *const header = &patching->area.header;
	struct address_range ranges[ENTRY_PATCHES_MAX];

	for (size_t i = 0; i < header->count; i++)
		ranges[i] = (struct address_range){ header->patches[i].function + 1,
			header->patches[i].function + header->patches[i].length };
	return stopped_process_is_in(stopped, ranges, header->count, NULL);
}

/* False when one still leads into the area: then it is that of another version. */
static bool restore_originals(const struct patching *patching)
{
	const struct entry_agent *const agent = patching->agent;
	const struct entry_area *const header = &patching->area.header;
	const struct remote_process *const remote = &patching->remote;

	for (size_t i = 0; i < header->count; i++) {
		const struct entry_patch *const patch = &header->patches[i];
		const uint64_t moved = agent->area + slot_at(i) + ENTRY_SLOT_MOVED;
		const uint64_t at = agent->entries + patch->index * sizeof(struct remote_entry);
		struct remote_entry entry;
		uint64_t now = 0;
		if (patch->index >= agent->count ||
			!remote_copy(remote, at, &entry, sizeof entry) ||
			!remote_copy(remote, entry.original, &now, sizeof now))
			return false;
		const bool leads_into_area = now - agent->area < ENTRY_AREA_BYTES;
		if (leads_into_area &&
			(now != moved || !remote_write(remote, entry.original, &patch->function,
						 sizeof patch->function)))
			return false;
	}
	return true;
}

enum try { TRY_DONE, TRY_AGAIN, TRY_FAILED };

static enum try try_once(struct patching *patching, bool restores, struct error *err)
{
	struct entry_result *const result = patching->result;
	const int64_t begun_us = clock_monotonic_ns() / 1000;
	struct stopped_process stopped;
	enum try outcome = TRY_AGAIN;

	if (!stopped_process_begin(&stopped, &patching->remote, &patching->waiting, STOP_MS, err))
		return TRY_FAILED;
	result->stops++;
	result->threads = (int)stopped.count;
	if (restores) {
		const bool done = write_functions(patching, true, false, err) &&
				  write_functions(patching, true, true, err);
		outcome = done ? TRY_DONE : TRY_FAILED;
		result->is_unused = done && result->foreign == 0 && restore_originals(patching) &&
				    is_area_unused(patching, &stopped);
	} else if (!is_in_the_way(patching, &stopped)) {
		outcome = patch_all(patching, err) ? TRY_DONE : TRY_FAILED;
	}
	stopped_process_end(&stopped);
	result->stop_us = clock_monotonic_ns() / 1000 - begun_us;
	return outcome;
}

static bool try_for_long(struct patching *patching, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;

	do {
		switch (try_once(patching, false, err)) {
		case TRY_DONE:
			return true;
		case TRY_FAILED:
			return false;
		case TRY_AGAIN:
			clock_sleep_us(AGAIN_US);
			break;
		}
	} while (clock_monotonic_ms() < until_ms);
	error_set(err, ERROR_STATE,
		"whenever all threads were stopped, one stood in the first instructions of a "
		"function, or may have");
	return error_hint(err, "try again; nothing was changed");
}

/* --- The two jobs --- */

struct patch_job {
	pid_t pid;
	const struct entry_functions *found;
	const struct entry_agent *agent;
};

static bool begin(struct patching *patching, const struct patch_job *job,
	struct entry_result *result, struct error *err)
{
	*patching = (struct patching){ .found = job->found, .agent = job->agent, .result = result };
	*result = (struct entry_result){ 0 };
	if (!remote_read(&patching->remote, job->pid, err) ||
		!injection_lock(&patching->remote, err))
		return false;
	stack_waiting_find(&patching->waiting, &patching->remote);
	return true;
}

static bool run_patch(const void *context, void *outcome, struct error *err)
{
	struct patching *const patching = xmalloc(sizeof *patching);

	/* The process ends after it. */
	return begin(patching, context, outcome, err) && read_entries(patching, err) &&
	       build_area(patching, err) && compare_area(patching, err) &&
	       try_for_long(patching, err);
}

/* No thread gets there any more, and one that was there has mostly left. */
static void look_again(struct patching *patching)
{
	struct entry_result *const result = patching->result;
	const struct entry_result first = *result;
	struct error ignored;

	if (result->is_unused || result->foreign > 0)
		return;
	clock_sleep_us(LOOK_AGAIN_US);
	if (try_once(patching, true, &ignored) != TRY_DONE)
		*result = first;
	else
		result->stop_us += first.stop_us;
}

static bool run_restore(const void *context, void *outcome, struct error *err)
{
	struct patching *const patching = xmalloc(sizeof *patching);
	struct entry_area *const header = &patching->area.header;

	if (!begin(patching, context, outcome, err))
		return false;
	if (!remote_copy(&patching->remote, patching->agent->area, patching->area.bytes,
		    ENTRY_AREA_BYTES) ||
		header->magic != ENTRY_AREA_MAGIC || header->count > ENTRY_PATCHES_MAX ||
		header->count == 0)
		return true;
	if (try_once(patching, true, err) != TRY_DONE)
		return false;
	look_again(patching);
	return true;
}

/* A child that could not stop a thread in time has ended, so that the others went on. */
static bool run_again(bool (*work)(const void *context, void *result, struct error *err),
	const struct patch_job *job, struct entry_result *result, struct error *err)
{
	enum { TRIES = 5, PAUSE_US = 50000 };

	for (int i = 1;; i++) {
		if (child_run(work, job, result, sizeof *result, CHILD_MS, err))
			return true;
		if (err->kind != ERROR_TIMEOUT || i == TRIES)
			return false;
		clock_sleep_us(PAUSE_US);
	}
}

bool entry_patch(pid_t pid, const struct entry_functions *found, const struct entry_agent *agent,
	struct entry_result *result, struct error *err)
{
	const struct patch_job job = { pid, found, agent };

	return run_again(run_patch, &job, result, err);
}

bool entry_restore(
	pid_t pid, const struct entry_agent *agent, struct entry_result *result, struct error *err)
{
	const struct patch_job job = { pid, NULL, agent };

	return run_again(run_restore, &job, result, err);
}
