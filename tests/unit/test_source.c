/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of operand hands out each datum, and is opened, fetched and parsed once. */
/* Its open() cannot be replaced. */
#undef _FORTIFY_SOURCE
#include "source/source.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "profile/bundle.h"
#include "profile/compress.h"
#include "source/source_series.h"
#include "unit.h"

static const char heap[] = "heap_v2/524288\n"
			   "  t*: 1: 64 [0: 0]\n"
			   "@ 0x400110\n"
			   "  t*: 1: 64 [0: 0]\n"
			   "\nMAPPED_LIBRARIES:\n"
			   "400000-401000 r-xp 00000000 00:00 1 /bin/server\n";
static const char about[] = "{\"bundle\":1,\"time_ms\":1763600000123,\"target\":\"server[47]\"}";
static const char stats[] = "{\"jemalloc\":{\"stats\":{\"allocated\":4711}}}";
static const char status[] = "{\"pid\":47,\"profiling\":{\"available\":true}}";

static char folder[32];
static const char *counted = "/none";
static atomic_int open_count;

/* In front of libc's: how often is a file opened whose name begins so? */
int open(const char *path, int flags, ...);
int open(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	if (strncmp(path, counted, strlen(counted)) == 0)
		open_count++;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static const struct source_options usual = { .server = { .page = "/pprof/heap" } };
static const struct source_options agents = { .needs_agent = true };

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/hc-source.XXXXXX");
	return mkdtemp(folder) == NULL;
}

static char *path_of(const char *name)
{
	return xasprintf("%s/%s", folder, name);
}

/* Writes it and counts how often it is opened from then on. The caller frees the path. */
static char *write_file(const char *name, const void *data, size_t size)
{
	char *const path = path_of(name);
	struct error err;

	counted = "/none";
	assert_true(file_write(path, data, size, 0600, &err));
	counted = path;
	open_count = 0;
	return path;
}

static void remove_file(char *path)
{
	counted = "/none";
	unlink(path);
	free(path);
}

static struct buffer make_bundle(void)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	tar_append(&out, BUNDLE_ABOUT, about, strlen(about), 1763600000123);
	tar_append(&out, BUNDLE_PROFILE, heap, strlen(heap), 1763600000123);
	tar_append(&out, "status.json", status, strlen(status), 0);
	tar_append(&out, "stats.json", stats, strlen(stats), 0);
	tar_append(&out, "smaps", "the smaps", 9, 0);
	tar_append(&out, "maps", "the maps", 8, 0);
	tar_finish(&out);
	return out;
}

static void check_text(struct source *source, enum source_part part, const char *expected)
{
	struct cursor text;
	struct error err = { 0 };

	for (int time = 0; time < 2; time++) {
		if (!source_text(source, part, &text, &err))
			fail_msg("%s", err.message);
		assert_int_equal(cursor_left(&text), strlen(expected));
		assert_memory_equal(text.start, expected, strlen(expected));
	}
}

static void check_profile(struct source *source)
{
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct error err = { 0 };

	if (!source_profile(source, &profile, &err))
		fail_msg("%s", err.message);
	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile->mapping_count, 1);
}

/* All that a bundle has, and a target when it is read now. */
static void check_all_data(struct source *source)
{
	struct error err = { 0 };
	const json_t *first, *again;

	check_profile(source);
	check_text(source, SOURCE_SMAPS, "the smaps");
	check_text(source, SOURCE_MAPS, "the maps");
	check_text(source, SOURCE_STATUS, status);
	assert_int_equal(json_integer_value(json_object_get(source_status(source), "pid")), 47);
	assert_true(source_stats(source, &first, &err));
	assert_true(source_stats(source, &again, &err));
	assert_ptr_equal(first, again);
	assert_non_null(json_object_get(first, "jemalloc"));
}

static void a_profile_is_opened_once_and_has_no_statistics(void **state)
{
	struct source source;
	struct error err = { 0 };
	const json_t *none;
	char *const path = write_file("server.47.20261121-101500.heap", heap, strlen(heap));

	(void)state;
	assert_true(source_open(path, &usual, &source, &err));
	assert_int_equal(source.kind, SOURCE_FILE);
	assert_string_equal(source.program_name, "server");
	assert_true(source.file_time_ms > 1763600000123);
	check_profile(&source);
	assert_false(source_stats(&source, &none, &err));
	assert_contains(err.message, "is not a bundle");
	assert_contains(err.hint, "dump --bundle");
	assert_null(source_status(&source));
	assert_int_equal(open_count, 1);
	source_close(&source);
	remove_file(path);
}

static void a_bundle_is_opened_and_expanded_once_for_all_its_data(void **state)
{
	struct source source;
	struct error err = { 0 };
	struct buffer bundle = make_bundle(), packed;

	(void)state;
	buffer_init(&packed, &memory_or_exit);
	assert_true(compress_gzip(&bundle, &packed, &err));
	char *const path = write_file("night.tar.gz", packed.data, packed.size);
	assert_true(source_open(path, &agents, &source, &err));
	assert_int_equal(source.kind, SOURCE_BUNDLE);
	check_all_data(&source);
	check_text(&source, SOURCE_LIMITS, "");
	assert_string_equal(source.process, "server[47]");
	assert_string_equal(source.program_name, "server");
	assert_int_equal(source.time_ms, 1763600000123);
	assert_int_equal(open_count, 1);
	source_close(&source);
	remove_file(path);
	buffer_deinit(&bundle);
	buffer_deinit(&packed);
}

static void a_bundle_of_another_format_says_so_for_each_datum(void **state)
{
	static const char foreign[] = "{\"bundle\":2}";
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	struct source source;
	struct cursor text;
	struct error err = { 0 };

	(void)state;
	buffer_init(&out, &memory_or_exit);
	tar_append(&out, BUNDLE_ABOUT, foreign, strlen(foreign), 0);
	tar_finish(&out);
	char *const path = write_file("new.tar", out.data, out.size);
	assert_true(source_open(path, &usual, &source, &err));
	assert_false(source_text(&source, SOURCE_SMAPS, &text, &err));
	assert_contains(err.message, "new.tar: it is a bundle of format 2");
	source_close(&source);
	remove_file(path);
}

static void standard_input_may_be_a_bundle(void **state)
{
	struct buffer bundle = make_bundle();
	const int kept = dup(STDIN_FILENO), fd = memfd_create("input", 0);
	struct source source;
	struct error err = { 0 };

	(void)state;
	assert_int_equal(write(fd, bundle.data, bundle.size), bundle.size);
	lseek(fd, 0, SEEK_SET);
	dup2(fd, STDIN_FILENO);
	assert_true(source_open("-", &usual, &source, &err));
	assert_int_equal(source.kind, SOURCE_BUNDLE);
	assert_string_equal(source.name, "standard input");
	check_all_data(&source);
	source_close(&source);
	dup2(kept, STDIN_FILENO);
	close(kept);
	close(fd);
	buffer_deinit(&bundle);
}

static char warned[400];

static void keep_warning(const char *format, ...) PRINTF_FORMAT(1, 2);
static void keep_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(warned, sizeof warned, format, arguments);
	va_end(arguments);
}

struct seen {
	size_t count;
	int64_t times[8];
	char names[8][96];
};

static void see(void *context, const struct source *source, struct profile *profile)
{
	struct seen *const seen = context;

	(void)source;
	seen->times[seen->count] = profile->time_ms;
	snprintf(seen->names[seen->count++], sizeof seen->names[0], "%s", profile->name);
	profile_free(profile);
}

static struct source_series reader_of(struct seen *seen)
{
	struct source_series series = { .options = usual, .add = see, .context = seen };

	series.options.warn = keep_warning;
	return series;
}

static void a_tar_is_a_series_and_is_opened_once(void **state)
{
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	struct seen seen = { 0 };
	struct source_series series = reader_of(&seen);
	struct error err = { 0 };

	(void)state;
	buffer_init(&out, &memory_or_exit);
	tar_append(&out, "1763600000123.heap", heap, strlen(heap), 1000);
	tar_append(&out, "b.heap", "no profile", 10, 2000);
	tar_append(&out, "c.heap", heap, strlen(heap), 3000);
	tar_finish(&out);
	char *const path = write_file("series.tar", out.data, out.size);
	assert_true(source_series_read(&series, path, &err));
	assert_int_equal(series.count, 2);
	assert_int_equal(seen.times[0], 1763600000123);
	assert_int_equal(seen.times[1], 3000);
	assert_int_equal(series.damaged_count, 1);
	assert_contains(warned, "series.tar(b.heap)");
	assert_int_equal(open_count, 1);
	remove_file(path);
}

static void a_folder_is_a_series_and_nothing_else(void **state)
{
	char *const first = write_file("b.heap", heap, strlen(heap));
	char *const second = write_file("a.heap", heap, strlen(heap));
	char *const inner = path_of("c.heap");
	struct seen seen = { 0 };
	struct source_series series = reader_of(&seen);
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	CLEANUP(free_cleanup) char *each = path_of("b.heap");
	struct source source;
	struct error err = { 0 };

	(void)state;
	assert_int_equal(mkdir(inner, 0700), 0);
	counted = each;
	assert_true(source_series_read(&series, folder, &err));
	assert_int_equal(series.count, 2);
	assert_contains(seen.names[0], "/a.heap");
	assert_contains(seen.names[1], "/b.heap");
	assert_int_equal(series.damaged_count, 1);
	assert_int_equal(open_count, 1);

	assert_true(source_open(folder, &usual, &source, &err));
	assert_int_equal(source.kind, SOURCE_FOLDER);
	assert_false(source_profile(&source, &profile, &err));
	assert_contains(err.message, "is a folder");
	assert_contains(err.hint, "heapctl trend");
	source_close(&source);
	rmdir(inner);
	free(inner);
	remove_file(first);
	remove_file(second);
}

/* A server on the loopback: pages and how often each was asked for. */
static struct {
	const char *path, *body;
	atomic_int count;
} pages[] = {
	{ "GET /targets/db/pprof/heap ", heap, 0 },
	{ "GET /targets/db/v1/profile ", heap, 0 },
	{ "GET /targets/db/v1/status ", status, 0 },
	{ "GET /targets/db/v1/stats?options=Ja ", stats, 0 },
	{ "GET /targets/db/api/v1/kernel?part=smaps ", "the smaps", 0 },
	{ "GET /targets/db/api/v1/kernel?part=maps ", "the maps", 0 },
	{ "GET /targets/db/v1/runs ",
		"{\"runs\":[{\"id\":3,\"state\":\"finished\",\"profile_bytes\":9,\"ended_ms\":77}]"
		"}",
		0 },
	{ "GET /targets/db/v1/runs/3/profile ", heap, 0 },
};

enum { PAGES = sizeof pages / sizeof pages[0] };

struct server {
	pthread_t thread;
	int listener;
	char url[64];
};

static void answer(int client)
{
	static const char missing[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
	char request[4096] = "", head[96];

	if (read(client, request, sizeof request - 1) <= 0)
		return;
	for (int i = 0; i < PAGES; i++) {
		if (strncmp(request, pages[i].path, strlen(pages[i].path)) != 0)
			continue;
		pages[i].count++;
		const int size = snprintf(head, sizeof head,
			"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(pages[i].body));
		(void)send(client, head, (size_t)size, MSG_NOSIGNAL);
		(void)send(client, pages[i].body, strlen(pages[i].body), MSG_NOSIGNAL);
		return;
	}
	(void)send(client, missing, strlen(missing), MSG_NOSIGNAL);
}

static void *serve(void *context)
{
	const struct server *const server = context;

	for (;;) {
		const int client = accept(server->listener, NULL, NULL);
		if (client < 0)
			return NULL;
		answer(client);
		close(client);
	}
}

static void server_start(struct server *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;

	for (int i = 0; i < PAGES; i++)
		pages[i].count = 0;
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(server->listener, 8), 0);
	getsockname(server->listener, (struct sockaddr *)&address, &size);
	snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d/targets/db",
		ntohs(address.sin_port));
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->listener);
}

static int count_of(const char *path)
{
	for (int i = 0; i < PAGES; i++) {
		if (strstr(pages[i].path, path) != NULL)
			return pages[i].count;
	}
	return -1;
}

static void a_target_gets_one_request_for_each_datum(void **state)
{
	struct server server;
	struct source source;
	struct error err = { 0 };

	(void)state;
	server_start(&server);
	assert_true(source_open(server.url, &agents, &source, &err));
	assert_int_equal(source.kind, SOURCE_TARGET);
	check_all_data(&source);
	check_all_data(&source);
	/* What the kernel does not show is empty. */
	check_text(&source, SOURCE_LIMITS, "");
	assert_true(source.time_ms != 0);
	assert_int_equal(count_of("/v1/profile "), 1);
	assert_int_equal(count_of("/v1/status "), 1);
	assert_int_equal(count_of("/v1/stats"), 1);
	assert_int_equal(count_of("part=smaps "), 1);
	assert_int_equal(count_of("/pprof/heap "), 0);
	source_close(&source);
	server_stop(&server);
}

static void a_url_gives_its_page_and_the_statistics_beside_it(void **state)
{
	struct server server;
	struct source source;
	const json_t *document;
	struct error err = { 0 };

	(void)state;
	server_start(&server);
	assert_true(source_open(server.url, &usual, &source, &err));
	assert_int_equal(source.kind, SOURCE_URL);
	check_profile(&source);
	assert_true(source_stats(&source, &document, &err));
	assert_int_equal(count_of("/pprof/heap "), 1);
	assert_int_equal(count_of("/v1/stats"), 1);
	assert_int_equal(count_of("/v1/profile "), 0);
	source_close(&source);
	server_stop(&server);
}

static void the_series_of_a_target_are_its_runs_and_a_profile_of_now(void **state)
{
	struct server server;
	struct seen seen = { 0 };
	struct source_series series = reader_of(&seen);
	struct error err = { 0 };

	(void)state;
	server_start(&server);
	series.options.needs_agent = true;
	series.is_only = true;
	if (!source_series_read(&series, server.url, &err))
		fail_msg("%s", err.message);
	assert_int_equal(series.count, 2);
	assert_int_equal(seen.times[0], 77);
	assert_contains(seen.names[0], "run 3");
	assert_true(seen.times[1] > 1763600000123);
	assert_int_equal(count_of("/v1/runs/3/profile "), 1);
	assert_int_equal(count_of("/v1/profile "), 1);
	server_stop(&server);
}

static void a_bundle_of_a_target_is_read_as_the_target(void **state)
{
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct server server;
	struct source source, read_back;
	struct error err = { 0 }, without_profile;
	struct buffer text, out;

	(void)state;
	buffer_init(&text, &memory_or_exit);
	buffer_init(&out, &memory_or_exit);
	buffer_append_string(&text, heap);
	server_start(&server);
	assert_true(source_open(server.url, &agents, &source, &err));
	assert_true(bundle_fetch(&source, &profile, &without_profile, &err));
	assert_non_null(profile);
	bundle_write(&source, &text, false, &without_profile, &out);
	source_close(&source);
	server_stop(&server);
	char *const path = write_file("made.tar", out.data, out.size);
	assert_true(source_open(path, &agents, &read_back, &err));
	check_all_data(&read_back);
	assert_int_equal(open_count, 1);
	source_close(&read_back);
	remove_file(path);
	buffer_deinit(&text);
	buffer_deinit(&out);
}

static void what_is_not_there_is_a_file_by_its_looks(void **state)
{
	static const struct {
		const char *operand;
		bool needs_agent;
		enum source_kind kind;
		const char *message;
	} cases[] = {
		{ "./nothing-here", false, SOURCE_FILE, "./nothing-here: No such file" },
		{ "nothing-here.heap", false, SOURCE_TARGET, "nothing-here.heap: No such file" },
		{ "nothing-here.heap", true, SOURCE_TARGET, "nothing-here.heap: No such file" },
		{ "nothing-here-at-all", false, SOURCE_TARGET, "nothing-here-at-all" },
		{ "/nothing/here.sock", true, SOURCE_TARGET, "/nothing/here.sock" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct source source = { 0 };
		struct error err = { 0 };
		assert_false(source_open(
			cases[i].operand, cases[i].needs_agent ? &agents : &usual, &source, &err));
		assert_contains(err.message, cases[i].message);
		source_close(&source);
	}
}

static void an_operand_may_stand_for_several_hosts(void **state)
{
	CLEANUP(free_cleanup) char *second = source_operand_at("web:80@3/pprof/heap", 1);
	CLEANUP(free_cleanup) char *itself = source_operand_at("a@b.heap", 0);

	(void)state;
	assert_int_equal(source_operand_count("web:80@3/pprof/heap"), 3);
	assert_string_equal(second, "1.web:80/pprof/heap");
	assert_int_equal(source_operand_count("a@b.heap"), 1);
	assert_int_equal(source_operand_count("a@0"), 1);
	assert_int_equal(source_operand_count("a@2.heap"), 1);
	assert_string_equal(itself, "a@b.heap");
}

static void names_of_files_tell_the_process(void **state)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
		{ "/tmp/redis-server.4711.20261121-101500.heap", "redis-server" },
		{ "my.server.4711.20261121-101500-2.heap", "my.server" },
		{ "00000017-20261121T101500Z-rss2048MiB-redis-server.4711.heap", "redis-server" },
		{ "jeprof.4711.0.m0.heap", NULL },
		{ "00000017-20261121T101500Z-rss.heap", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char name[64] = "";
		assert_int_equal(source_name_of_file(cases[i].path, name, sizeof name),
			cases[i].name != NULL);
		if (cases[i].name != NULL)
			assert_string_equal(name, cases[i].name);
	}
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static void a_files_name_has_the_pid(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		pid_t pid;
	} cases[] = {
		{ "dumps.7/jeprof.4711.0.m0.heap", 4711 },
		{ "/tmp/my.service.12.3.i3.heap", 12 },
		{ "all.tar(jeprof.4711.12.f.heap)", 4711 },
		{ "redis-server.47.20261121-101500.heap", 47 },
		{ "00000012-20261121T101500Z-resident-redis-server.53.heap", 53 },
		{ "00000012-20261121T101500Z-resident-redis-server.heap", 0 },
		{ "jeprof.99999999999999999999.0.m0.heap", 0 },
		{ "before.heap", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_int_equal(source_pid_of_file(cases[i].path), cases[i].pid);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_files_name_has_the_pid),
	cmocka_unit_test_setup_teardown(
		a_profile_is_opened_once_and_has_no_statistics, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(
		a_bundle_is_opened_and_expanded_once_for_all_its_data, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(
		a_bundle_of_another_format_says_so_for_each_datum, make_folder, remove_folder),
	cmocka_unit_test(standard_input_may_be_a_bundle),
	cmocka_unit_test_setup_teardown(
		a_tar_is_a_series_and_is_opened_once, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(
		a_folder_is_a_series_and_nothing_else, make_folder, remove_folder),
	cmocka_unit_test(a_target_gets_one_request_for_each_datum),
	cmocka_unit_test(a_url_gives_its_page_and_the_statistics_beside_it),
	cmocka_unit_test(the_series_of_a_target_are_its_runs_and_a_profile_of_now),
	cmocka_unit_test_setup_teardown(
		a_bundle_of_a_target_is_read_as_the_target, make_folder, remove_folder),
	cmocka_unit_test(what_is_not_there_is_a_file_by_its_looks),
	cmocka_unit_test(an_operand_may_stand_for_several_hosts),
	cmocka_unit_test(names_of_files_tell_the_process),
};

UNIT_MAIN(tests)
