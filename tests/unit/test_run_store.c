/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/run_store_files.h"
#include "allocator_fake.h"
#include "failing_memory.h"
#include "unit.h"

static struct folder folder;

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder.path, "/tmp/heapctl-test-XXXXXX");
	return mkdtemp(folder.path) == NULL;
}

static bool remove_file(void *context, const char *name)
{
	unlinkat(*(int *)context, name, 0);
	return true;
}

static int remove_folder(void **state)
{
	(void)state;
	struct error err;
	int fd = -1;

	if (folder_open(&folder, false, &fd, &err) && folder_list(fd, remove_file, &fd, &err))
		close(fd);
	chmod(folder.path, 0700);
	return rmdir(folder.path);
}

static bool count_file(void *context, const char *name)
{
	(void)name;
	++*(int *)context;
	return true;
}

static int count_files(void)
{
	struct error err;
	int fd = -1, count = 0;

	assert_true(folder_open(&folder, false, &fd, &err));
	assert_true(folder_list(fd, count_file, &count, &err));
	close(fd);
	return count;
}

static void write_file(const char *name, const char *text)
{
	char path[sizeof folder.path + 128];

	snprintf(path, sizeof path, "%s/%s", folder.path, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void init(struct run_store *store, const struct folder *where, unsigned keep, uint64_t bytes)
{
	const struct run_retention retention = { .count = keep, .bytes = bytes };

	run_store_init(store, &memory_heap, where, "my server", &retention);
}

static struct captured_profile capture_of(const char *profile)
{
	static struct allocator_fake fake;
	struct captured_profile capture = CAPTURE_NONE;
	const struct folder none = { .path = "" };
	struct error err;

	allocator_fake_init(&fake);
	fake.profile = profile;
	assert_true(capture_take(&fake.allocator, &none, &capture, &err));
	return capture;
}

static struct run run_of(int64_t id)
{
	struct run run = { .id = id, .pid = getpid(), .state = RUN_RUNNING };

	run.start_bytes = 6;
	return run;
}

static void add_run(struct run_store *store, int64_t id, const char *profile)
{
	struct run run = run_of(id);
	struct captured_profile start = capture_of("start\n");
	struct captured_profile end = capture_of(profile);
	struct error err;

	assert_true(run_store_begin(store, &run, &start, &err));
	run.state = RUN_FINISHED;
	run.profile_bytes = end.size_bytes;
	run_store_finish(store, &run, &end);
	assert_int_equal(start.file.fd, -1);
	assert_int_equal(end.file.fd, -1);
}

static void assert_profile(
	const struct run_store *store, int64_t id, enum run_store_profile which, const char *text)
{
	struct descriptor file = DESCRIPTOR_NONE;
	char bytes[64] = "";
	uint64_t size = 0;
	struct error err = { 0 };

	if (!run_store_open(store, id, which, &file, &size, &err))
		fail_msg("%s", err.message);
	assert_int_equal(size, strlen(text));
	assert_int_equal(pread(file.fd, bytes, sizeof bytes - 1, 0), strlen(text));
	assert_string_equal(bytes, text);
	descriptor_close(&file);
}

static void a_profile_that_is_cut_short_is_none(void **state)
{
	(void)state;
	static struct allocator_fake fake;
	const struct folder none = { .path = "" };
	struct captured_profile capture = CAPTURE_NONE;
	struct error err;

	allocator_fake_init(&fake);
	fake.profile = "heap_v2/1\n@ 0x10";
	assert_false(capture_take(&fake.allocator, &none, &capture, &err));
	assert_contains(err.message, "cut short at 16 bytes");
	assert_int_equal(capture.file.fd, -1);
}

static void a_profile_in_memory_cannot_be_executed(void **state)
{
	(void)state;
	/* Since Linux 6.3: MFD_NOEXEC_SEAL. */
	const int probe = memfd_create("probe", MFD_CLOEXEC | 8U);
	struct captured_profile capture = capture_of("end\n");
	struct stat status;

	assert_int_equal(fstat(capture.file.fd, &status), 0);
	if (probe >= 0) {
		assert_int_equal(status.st_mode & 0111, 0);
		close(probe);
	}
	capture_release(&capture);
}

static void keeps_runs_in_the_folder(void **state)
{
	(void)state;
	struct run_store store;
	init(&store, &folder, 9, 1000);
	add_run(&store, 7, "end\n");
	assert_int_equal(count_files(), 3);
	assert_profile(&store, 7, RUN_STORE_START, "start\n");
	assert_profile(&store, 7, RUN_STORE_END, "end\n");
	assert_int_equal(run_store_last_id(&store), 7);
	struct error err;
	assert_true(run_store_remove(&store, 7, &err));
	assert_int_equal(count_files(), 0);
	assert_false(run_store_remove(&store, 7, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	run_store_deinit(&store);
}

static void keeps_runs_in_memory_without_a_folder(void **state)
{
	(void)state;
	const struct folder gone = { .path = "/nonexistent/heapctl" };
	const struct folder *const places[] = { NULL, &gone };
	for (size_t i = 0; i < 2; i++) {
		struct run_store store;
		init(&store, places[i], 2, 1000);
		for (int64_t id = 1; id <= 3; id++)
			add_run(&store, id, "end\n");
		assert_int_equal(store.count, 2);
		assert_null(run_store_find(&store, 1));
		assert_profile(&store, 2, RUN_STORE_END, "end\n");
		assert_profile(&store, 3, RUN_STORE_START, "start\n");
		run_store_deinit(&store);
	}
}

static void forgets_the_oldest_beyond_number_and_bytes(void **state)
{
	(void)state;
	struct run_store store;
	init(&store, &folder, 2, 1000);
	for (int64_t id = 1; id <= 4; id++)
		add_run(&store, id, "end\n");
	assert_int_equal(store.count, 2);
	assert_null(run_store_find(&store, 2));
	assert_int_equal(count_files(), 6);
	run_store_deinit(&store);

	init(&store, &folder, 9, 25);
	run_store_load(&store);
	assert_int_equal(store.count, 2);
	add_run(&store, 5, "012345678\n");
	assert_int_equal(store.count, 1);
	assert_int_equal(count_files(), 3);
	run_store_deinit(&store);
}

/* A memory that checks, at each request, which files exist. */
struct watching_memory {
	struct memory memory;
	const char *old_file;
	const char *new_file;
	bool old_without_new;
	bool old_with_new;
	bool neither;
};

static bool exists(const char *name)
{
	char path[sizeof folder.path + 128];

	snprintf(path, sizeof path, "%s/%s", folder.path, name);
	return access(path, F_OK) == 0;
}

static void *watching_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	struct watching_memory *const self = (struct watching_memory *)(uintptr_t)memory;
	const bool old_is_there = exists(self->old_file);
	const bool new_is_there = exists(self->new_file);

	self->old_without_new |= old_is_there && !new_is_there;
	self->old_with_new |= old_is_there && new_is_there;
	self->neither |= !old_is_there && !new_is_there;
	return memory_resize(&memory_heap, block, old_size, new_size);
}

static void an_old_run_is_removed_when_the_new_one_is_safe(void **state)
{
	(void)state;
	char old_file[64], new_file[64];
	struct run_store store;
	init(&store, &folder, 1, 1000);
	add_run(&store, 1, "end\n");
	snprintf(old_file, sizeof old_file, "my_server.%d.1.profile", getpid());
	snprintf(new_file, sizeof new_file, "my_server.%d.2.profile", getpid());
	struct watching_memory watching = {
		.memory = { .resize = watching_resize }, .old_file = old_file, .new_file = new_file
	};
	store.memory = &watching.memory;
	add_run(&store, 2, "end\n");
	store.memory = &memory_heap;
	assert_true(watching.old_without_new);
	assert_true(watching.old_with_new);
	assert_false(watching.neither);
	assert_false(exists(old_file));
	assert_true(exists(new_file));
	run_store_deinit(&store);
}

static void another_users_folder_is_not_used(void **state)
{
	(void)state;
	const struct folder root = { .path = "/" };
	struct error err;
	int fd = -1;

	if (geteuid() == 0)
		assert_int_equal(chown(folder.path, 65534, 65534), 0);
	assert_false(folder_open(geteuid() == 0 ? &folder : &root, true, &fd, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_int_equal(fd, -1);
}

static void a_later_process_has_the_runs_of_before(void **state)
{
	(void)state;
	struct run_store store;
	init(&store, &folder, 9, 1000);
	add_run(&store, 20, "end\n");
	struct run running = run_of(30);
	struct captured_profile start = capture_of("start\n");
	struct error err;
	assert_true(run_store_begin(&store, &running, &start, &err));
	run_store_deinit(&store);

	init(&store, &folder, 9, 1000);
	assert_int_equal(run_store_last_id(&store), 0);
	run_store_load(&store);
	run_store_load(&store);
	assert_int_equal(store.count, 2);
	assert_int_equal(run_store_last_id(&store), 30);
	assert_profile(&store, 20, RUN_STORE_END, "end\n");
	const struct run *const interrupted = &run_store_find(&store, 30)->run;
	assert_int_equal(interrupted->state, RUN_FAILED);
	assert_int_equal(interrupted->ended_by, RUN_END_EXIT);
	assert_profile(&store, 30, RUN_STORE_START, "start\n");
	struct descriptor file;
	uint64_t size;
	assert_false(run_store_open(&store, 30, RUN_STORE_END, &file, &size, &err));
	assert_contains(err.message, "the process ended before");
	run_store_deinit(&store);
}

static void living_processes_and_other_programs_keep_theirs(void **state)
{
	(void)state;
	struct run_store store;
	char name[64];
	snprintf(name, sizeof name, "my_server.%d.5.run", getppid());
	write_file(name, "id 5\nstate 2\n");
	snprintf(name, sizeof name, "other.%d.6.run", getpid());
	write_file(name, "id 6\nstate 2\n");
	init(&store, &folder, 9, 1000);
	run_store_load(&store);
	assert_int_equal(store.count, 0);
	assert_int_equal(count_files(), 2);
	run_store_deinit(&store);
}

static pid_t dead_pid(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

/* A run of a process that ended, whose profiles say which one. */
static void write_run(pid_t pid, int64_t id, const char *profile)
{
	char name[64];
	char text[128];

	snprintf(name, sizeof name, "my_server.%d.%d.run", pid, (int)id);
	snprintf(text, sizeof text, "id %d\npid %d\nstate 2\n", (int)id, pid);
	write_file(name, text);
	snprintf(name, sizeof name, "my_server.%d.%d.start", pid, (int)id);
	write_file(name, profile);
	snprintf(name, sizeof name, "my_server.%d.%d.profile", pid, (int)id);
	write_file(name, profile);
}

static int by_pid(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

static void runs_of_one_id_are_all_there_under_ids_of_their_own(void **state)
{
	(void)state;
	struct run_store store;
	struct error err;
	pid_t pids[4];

	for (size_t i = 0; i < 4; i++)
		pids[i] = dead_pid();
	qsort(pids, 4, sizeof *pids, by_pid);
	write_run(pids[2], 5, "third\n");
	write_run(pids[0], 5, "first\n");
	write_run(pids[1], 5, "second\n");
	write_run(pids[3], 6, "of 6\n");
	for (int i = 0; i < 2; i++) {
		init(&store, &folder, 9, 1000);
		run_store_load(&store);
		assert_int_equal(store.count, 4);
		assert_profile(&store, 5, RUN_STORE_END, "first\n");
		assert_profile(&store, 6, RUN_STORE_END, "of 6\n");
		assert_profile(&store, 7, RUN_STORE_END, "second\n");
		assert_profile(&store, 8, RUN_STORE_START, "third\n");
		assert_int_equal(run_store_find(&store, 8)->run.pid, pids[2]);
		assert_int_equal(run_store_last_id(&store), 8);
		if (i == 0)
			run_store_deinit(&store);
	}
	assert_true(run_store_remove(&store, 7, &err));
	assert_int_equal(count_files(), 9);
	assert_profile(&store, 5, RUN_STORE_END, "first\n");
	assert_profile(&store, 8, RUN_STORE_END, "third\n");
	run_store_deinit(&store);
}

static void files_of_ended_processes_are_removed(void **state)
{
	(void)state;
	struct run_store store;
	const pid_t dead = dead_pid();
	char name[96];
	snprintf(name, sizeof name, "my_server.%d.5.start", dead);
	write_file(name, "cut off");
	snprintf(name, sizeof name, ".%d.0123456789abcdef", dead);
	write_file(name, "cut off");
	snprintf(name, sizeof name, "my_server.%d.6.run", dead);
	write_file(name, "no record at all");
	write_file("my_server.notes", "an operator's own");
	init(&store, &folder, 9, 1000);
	run_store_load(&store);
	assert_int_equal(store.count, 0);
	assert_int_equal(count_files(), 2);
	run_store_deinit(&store);
}

static void a_records_name_must_be_its_own(void **state)
{
	(void)state;
	struct run_store store;
	char name[96];
	const pid_t dead = dead_pid();
	snprintf(name, sizeof name, "my_server.%d.5.run", dead);
	write_file(name, "id 6\nstate 2\n");
	init(&store, &folder, 9, 1000);
	run_store_load(&store);
	assert_int_equal(store.count, 0);
	run_store_deinit(&store);
}

/* As the first processes of two containers, whose runs began in the same millisecond. */
static void files_of_another_process_with_the_same_names_stay(void **state)
{
	(void)state;
	struct run_store first, second;
	struct run run = run_of(5);
	struct captured_profile start = capture_of("of the first\n");
	struct error err;
	init(&first, &folder, 1, 1000);
	assert_true(run_store_begin(&first, &run, &start, &err));
	init(&second, &folder, 1, 1000);
	add_run(&second, 5, "of the second\n");
	assert_profile(&second, 5, RUN_STORE_END, "of the second\n");
	add_run(&second, 6, "newer\n");
	assert_null(run_store_find(&second, 5));
	assert_profile(&first, 5, RUN_STORE_START, "of the first\n");
	assert_true(run_store_remove(&second, 6, &err));
	run_store_deinit(&second);
	run_store_deinit(&first);
	init(&first, &folder, 1, 1000);
	run_store_load(&first);
	assert_profile(&first, 5, RUN_STORE_START, "of the first\n");
	assert_true(run_store_remove(&first, 5, &err));
	assert_int_equal(first.count, 0);
	run_store_deinit(&first);
	init(&first, &folder, 1, 1000);
	run_store_load(&first);
	assert_int_equal(first.count, 0);
	run_store_deinit(&first);
}

static void names_of_programs_fit_for_files(void **state)
{
	(void)state;
	char name[RUN_STORE_NAME_MAX];
	run_store_files_program_name("../a b.c/d-9_Z", name, sizeof name);
	assert_string_equal(name, "___a_b_c_d-9_Z");
	run_store_files_program_name("", name, sizeof name);
	assert_string_equal(name, "unknown");
	run_store_files_program_name(
		"0123456789012345678901234567890123456789x", name, sizeof name);
	assert_int_equal(strlen(name), RUN_STORE_NAME_MAX - 1);
}

static void survives_missing_memory(void **state)
{
	(void)state;
	for (unsigned nth = 1;; nth++) {
		struct failing_memory memory = failing_memory_at(nth);
		const struct run_retention retention = { .count = 9, .bytes = 1000 };
		struct run_store store;
		struct error err;
		struct run run = run_of(1);
		struct captured_profile start = capture_of("start\n");
		run_store_init(&store, &memory.memory, &folder, "my server", &retention);
		run_store_load(&store);
		if (!run_store_begin(&store, &run, &start, &err))
			assert_int_equal(err.kind, ERROR_MEMORY);
		capture_release(&start);
		run_store_finish(&store, &run, NULL);
		run_store_deinit(&store);
		run_store_init(&store, &memory.memory, &folder, "my server", &retention);
		run_store_load(&store);
		run_store_deinit(&store);
		if (!memory.failed) {
			assert_true(nth > 3);
			return;
		}
	}
}

static void only_a_private_folder_of_our_own_will_do(void **state)
{
	(void)state;
	struct error err;
	struct folder linked;
	int fd = -1;
	chmod(folder.path, 0750);
	assert_false(folder_open(&folder, false, &fd, &err));
	assert_contains(err.message, "open to other users");
	assert_contains(err.hint, "chmod 700");
	chmod(folder.path, 0700);
	snprintf(linked.path, sizeof linked.path, "%.250s.link", folder.path);
	assert_int_equal(symlink(folder.path, linked.path), 0);
	assert_false(folder_open(&linked, true, &fd, &err));
	unlink(linked.path);
	if (geteuid() == 0) {
		assert_int_equal(chown(folder.path, 12345, 12345), 0);
		assert_false(folder_open(&folder, false, &fd, &err));
		assert_contains(err.message, "belongs to uid 12345");
		assert_int_equal(chown(folder.path, 0, 0), 0);
	}
	assert_true(folder_open(&folder, false, &fd, &err));
	close(fd);
}

static void the_folder_that_was_asked_for_comes_first(void **state)
{
	(void)state;
	struct settings settings = { 0 };
	struct folder chosen;
	struct error err;
	snprintf(settings.folder, sizeof settings.folder, "%.200s/sub", folder.path);
	assert_true(folder_choose(&settings, &chosen, &err));
	assert_string_equal(chosen.path, settings.folder);
	rmdir(settings.folder);
	strcpy(settings.folder, "/nonexistent/sub");
	assert_false(folder_choose(&settings, &chosen, &err));
	assert_contains(err.message, "/nonexistent/sub");
	strcpy(settings.folder, "relative");
	assert_false(folder_choose(&settings, &chosen, &err));
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

static void keeps_the_newest_within_number_and_bytes(void **state)
{
	(void)state;
	const uint64_t bytes[] = { 10, 20, 30, 40 };
	const struct run_retention by_count = { .count = 2, .bytes = 1000 };
	const struct run_retention by_bytes = { .count = 9, .bytes = 70 };
	const struct run_retention tiny = { .count = 9, .bytes = 1 };
	const uint64_t huge[] = { 1, UINT64_MAX, UINT64_MAX };
	assert_int_equal(run_retention_excess(&by_count, bytes, 4), 2);
	assert_int_equal(run_retention_excess(&by_bytes, bytes, 4), 2);
	assert_int_equal(run_retention_excess(&tiny, bytes, 4), 3);
	assert_int_equal(run_retention_excess(&tiny, bytes, 1), 0);
	assert_int_equal(run_retention_excess(&tiny, NULL, 0), 0);
	assert_int_equal(run_retention_excess(&by_bytes, huge, 3), 2);
}

static const struct CMUnitTest tests[] = {
	in_folder(keeps_runs_in_the_folder),
	cmocka_unit_test(keeps_runs_in_memory_without_a_folder),
	cmocka_unit_test(a_profile_that_is_cut_short_is_none),
	cmocka_unit_test(a_profile_in_memory_cannot_be_executed),
	in_folder(an_old_run_is_removed_when_the_new_one_is_safe),
	in_folder(another_users_folder_is_not_used),
	in_folder(forgets_the_oldest_beyond_number_and_bytes),
	in_folder(a_later_process_has_the_runs_of_before),
	in_folder(living_processes_and_other_programs_keep_theirs),
	in_folder(runs_of_one_id_are_all_there_under_ids_of_their_own),
	in_folder(files_of_ended_processes_are_removed),
	in_folder(files_of_another_process_with_the_same_names_stay),
	in_folder(a_records_name_must_be_its_own),
	cmocka_unit_test(keeps_the_newest_within_number_and_bytes),
	cmocka_unit_test(names_of_programs_fit_for_files),
	in_folder(survives_missing_memory),
	in_folder(only_a_private_folder_of_our_own_will_do),
	in_folder(the_folder_that_was_asked_for_comes_first),
};
UNIT_MAIN(tests)
