/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/run.h"

void run_store_init(struct run_store *store, const struct memory *memory,
	const struct folder *folder, const char *program, const struct run_retention *retention)
{
	*store = (struct run_store){ .memory = memory, .retention = *retention };
	if (folder != NULL)
		store->folder = *folder;
	run_store_files_program_name(program, store->name, sizeof store->name);
}

static void release_entry(struct run_store_entry *entry)
{
	descriptor_close(&entry->memory[RUN_STORE_START]);
	descriptor_close(&entry->memory[RUN_STORE_END]);
	file_lock_release(&entry->locks[RUN_STORE_START]);
	file_lock_release(&entry->locks[RUN_STORE_END]);
}

void run_store_deinit(struct run_store *store)
{
	for (size_t i = 0; i < store->count; i++)
		release_entry(&store->entries[i]);
	memory_resize(store->memory, store->entries, store->capacity * sizeof *store->entries, 0);
	store->entries = NULL;
	store->count = store->capacity = 0;
}

/* Room for one more, or NULL. It is not counted yet. */
static struct run_store_entry *next_entry(struct run_store *store)
{
	if (store->count == store->capacity) {
		const size_t wanted = store->capacity == 0 ? 8 : 2 * store->capacity;
		struct run_store_entry *const entries = memory_resize(store->memory, store->entries,
			store->capacity * sizeof *entries, wanted * sizeof *entries);
		if (entries == NULL)
			return NULL;
		store->entries = entries;
		store->capacity = wanted;
	}
	struct run_store_entry *const entry = &store->entries[store->count];
	*entry = (struct run_store_entry){ .memory = { DESCRIPTOR_NONE, DESCRIPTOR_NONE } };
	return entry;
}

/*
 * By id; of equal ids first a run of this process, whose id clients may have, then one that has the
 * id of its files, then by pid.
 */
static bool is_before(const struct run_store_entry *a, const struct run_store_entry *b)
{
	if (a->run.id != b->run.id)
		return a->run.id < b->run.id;
	if (a->is_adopted != b->is_adopted)
		return !a->is_adopted;
	if ((a->run.id == a->file_id) != (b->run.id == b->file_id))
		return a->run.id == a->file_id;
	return a->run.pid < b->run.pid;
}

static void swap(struct run_store_entry *a, struct run_store_entry *b)
{
	const struct run_store_entry swapped = *a;
	*a = *b;
	*b = swapped;
}

static void sort_in(struct run_store *store)
{
	struct run_store_entry *const entries = store->entries;

	for (size_t i = store->count - 1; i > 0 && is_before(&entries[i], &entries[i - 1]); i--)
		swap(&entries[i], &entries[i - 1]);
}

static void adopt(void *context, const struct run *run)
{
	struct run_store *const store = context;
	struct run_store_entry *const entry = next_entry(store);

	if (entry == NULL)
		return;
	entry->run = *run;
	entry->file_id = run->id;
	entry->is_adopted = true;
	entry->in_folder[RUN_STORE_START] = true;
	entry->in_folder[RUN_STORE_END] = run->state == RUN_FINISHED;
	if (run->state == RUN_RUNNING) {
		entry->run.state = RUN_FAILED;
		entry->run.ended_by = RUN_END_EXIT;
		snprintf(entry->run.error, sizeof entry->run.error,
			"the process ended before the run");
	}
	store->count++;
	sort_in(store);
}

/*
 * Of two equal ids the later one becomes the next number, which is never an own run's. So every
 * process of the program finds the same ids, in whatever order it reads the folder.
 */
static void make_ids_unique(struct run_store *store)
{
	struct run_store_entry *const entries = store->entries;

	for (size_t i = 1; i < store->count;) {
		if (entries[i].run.id != entries[i - 1].run.id) {
			i++;
			continue;
		}
		entries[i].run.id++;
		for (size_t at = i;
			at + 1 < store->count && is_before(&entries[at + 1], &entries[at]); at++)
			swap(&entries[at], &entries[at + 1]);
	}
}

void run_store_load(struct run_store *store)
{
	if (store->loaded || store->folder.path[0] == '\0')
		return;
	store->loaded = true;
	run_store_files_scan(&store->folder, store->name, store->memory, adopt, store);
	make_ids_unique(store);
}

int64_t run_store_last_id(const struct run_store *store)
{
	return store->count == 0 ? 0 : store->entries[store->count - 1].run.id;
}

/* The run with the id of its files. */
static struct run run_of_files(const struct run_store_entry *entry)
{
	struct run run = entry->run;

	run.id = entry->file_id;
	return run;
}

/* Into the folder when that works, else it stays where it is, in memory. */
static void keep_profile(struct run_store *store, struct run_store_entry *entry,
	enum run_store_profile which, struct captured_profile *capture)
{
	struct error err = { 0 };

	if (store->folder.path[0] != '\0' && !entry->only_memory &&
		run_store_files_save_profile(&store->folder, store->name, &entry->run, which,
			&capture->file, &entry->locks[which], &err)) {
		entry->in_folder[which] = true;
		capture_release(capture);
		return;
	}
	entry->only_memory |= err.errnum == EEXIST;
	entry->memory[which] = capture->file;
	capture->file = DESCRIPTOR_NONE;
}

static void save_record(struct run_store *store, const struct run_store_entry *entry)
{
	/* A record names files for later processes; without files there is none. */
	if (entry->in_folder[RUN_STORE_START] || entry->in_folder[RUN_STORE_END])
		run_store_files_save_record(
			&store->folder, store->name, store->memory, &entry->run);
}

bool run_store_begin(struct run_store *store, const struct run *run, struct captured_profile *start,
	struct error *err)
{
	struct run_store_entry *const entry = next_entry(store);

	if (entry == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for another run");
	entry->run = *run;
	entry->file_id = run->id;
	keep_profile(store, entry, RUN_STORE_START, start);
	save_record(store, entry);
	store->count++;
	return true;
}

static struct run_store_entry *find(const struct run_store *store, int64_t id)
{
	for (size_t i = 0; i < store->count; i++) {
		if (store->entries[i].run.id == id)
			return &store->entries[i];
	}
	return NULL;
}

static void forget(struct run_store *store, struct run_store_entry *entry)
{
	const struct run named = run_of_files(entry);
	/* An earlier process may have ended before it noted its last profile. */
	const bool profiles[] = { entry->in_folder[RUN_STORE_START],
		entry->in_folder[RUN_STORE_END] || entry->is_adopted };

	if (store->folder.path[0] != '\0')
		run_store_files_remove(&store->folder, store->name, &named, profiles);
	release_entry(entry);
	const size_t after = (size_t)(store->entries + store->count - (entry + 1));
	memmove(entry, entry + 1, after * sizeof *entry);
	store->count--;
}

static void apply_retention(struct run_store *store)
{
	uint64_t bytes[4 * SETTINGS_KEEP_MAX];
	const size_t max = sizeof bytes / sizeof bytes[0];

	while (store->count > max)
		forget(store, store->entries);
	for (size_t i = 0; i < store->count; i++)
		bytes[i] = store->entries[i].run.start_bytes + store->entries[i].run.profile_bytes;
	for (size_t excess = run_retention_excess(&store->retention, bytes, store->count);
		excess > 0; excess--)
		forget(store, store->entries);
}

void run_store_finish(
	struct run_store *store, const struct run *run, struct captured_profile *profile)
{
	struct run_store_entry *const entry = find(store, run->id);

	if (entry == NULL) {
		if (profile != NULL)
			capture_release(profile);
		return;
	}
	entry->run = *run;
	if (profile != NULL)
		keep_profile(store, entry, RUN_STORE_END, profile);
	save_record(store, entry);
	apply_retention(store);
}

const struct run_store_entry *run_store_find(const struct run_store *store, int64_t id)
{
	return find(store, id);
}

/* Another descriptor for a profile in memory, so that it can be forgotten while it is sent. */
static bool open_memory(const struct descriptor *memory, struct descriptor *file,
	uint64_t *size_bytes, struct error *err)
{
	struct stat status;

	if (!descriptor_is_ours(memory) || fstat(memory->fd, &status) != 0)
		return error_set(
			err, ERROR_NOT_FOUND, "the profile is lost: the program closed its file");
	const int copy = fcntl(memory->fd, F_DUPFD_CLOEXEC, memory->fd);
	if (copy < 0)
		return error_system(err, errno, "opening the profile");
	if (!descriptor_own(copy, file, err))
		return false;
	*size_bytes = (uint64_t)status.st_size;
	return true;
}

bool run_store_refuse_id(int64_t id, struct error *err)
{
	error_set(err, ERROR_NOT_FOUND, "there is no run %lld", (long long)id);
	return error_hint(err, "the list of runs has those that are kept: heapctl runs TARGET, or "
			       "GET /v1/runs");
}

bool run_store_open(const struct run_store *store, int64_t id, enum run_store_profile which,
	struct descriptor *file, uint64_t *size_bytes, struct error *err)
{
	const struct run_store_entry *const entry = find(store, id);

	if (entry == NULL)
		return run_store_refuse_id(id, err);
	if (entry->memory[which].fd >= 0)
		return open_memory(&entry->memory[which], file, size_bytes, err);
	if (!entry->in_folder[which])
		return error_set(err, ERROR_NOT_FOUND, "run %lld has no such profile%s%s",
			(long long)id, entry->run.error[0] == '\0' ? "" : ": ", entry->run.error);
	const struct run named = run_of_files(entry);
	return run_store_files_open_profile(
		&store->folder, store->name, &named, which, file, size_bytes, err);
}

bool run_store_remove(struct run_store *store, int64_t id, struct error *err)
{
	struct run_store_entry *const entry = find(store, id);

	if (entry == NULL)
		return run_store_refuse_id(id, err);
	forget(store, entry);
	return true;
}

size_t run_retention_excess(
	const struct run_retention *retention, const uint64_t *bytes, size_t count)
{
	uint64_t total = 0;
	size_t kept = 0;

	while (kept < count) {
		const uint64_t next = bytes[count - 1 - kept];
		if (kept > 0 &&
			(kept >= retention->count || __builtin_add_overflow(total, next, &total) ||
				total > retention->bytes))
			break;
		if (kept == 0)
			total = next;
		kept++;
	}
	return count - kept;
}
