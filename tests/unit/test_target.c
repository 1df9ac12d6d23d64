/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target.h"
#include "client/target_agent.h"
#include "client/target_resolve.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/http_client.h"
#include "client/process.h"
#include "unit.h"

static void takes_urls_apart(void **state)
{
	(void)state;
	struct target target;
	struct error err;

	assert_true(target_parse_url("http://host:7070", &target, &err));
	assert_string_equal(target.url.host, "host");
	assert_string_equal(target.url.port, "7070");
	assert_string_equal(target.url.prefix, "");
	assert_false(target.url.use_tls);
	assert_true(target_parse_url("HTTPS://[::1]/targets/db%201/", &target, &err));
	assert_string_equal(target.url.host, "::1");
	assert_string_equal(target.url.port, "443");
	assert_string_equal(target.url.prefix, "/targets/db%201");
	assert_true(target.url.use_tls);
	assert_string_equal(target.file_stem, "db_201");
}

static void refuses_urls_that_are_no_target(void **state)
{
	(void)state;
	static const char *const urls[] = { "http://", "http://:80", "http://h:0", "http://h:70000",
		"http://h:x", "http://h:", "http://[::1", "http://h/pprof/heap",
		"http://h/targets/a/b", "http://h?x" };

	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		struct target target;
		struct error err = { 0 };
		if (target_parse_url(urls[i], &target, &err))
			fail_msg("%s was taken for a target", urls[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_contains(err.message, urls[i]);
	}
}

static void keeps_a_token_in_a_url_out_of_the_error(void **state)
{
	(void)state;
	struct target target;
	struct error err = { 0 };

	assert_false(target_parse_url("http://any:secret@h", &target, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_contains(err.message, "http://...@h");
	assert_null(strstr(err.message, "secret"));
}

static void tells_urls_from_paths(void **state)
{
	(void)state;
	assert_true(gateway_url_detect("https://x"));
	assert_false(gateway_url_detect("/run/heapctl/1.sock"));
	assert_false(gateway_url_detect("httpd"));
}

static void says_what_is_not_there(void **state)
{
	(void)state;
	struct target target;
	struct error err = { 0 };

	assert_false(target_resolve("999999999", &target, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_contains(err.message, "no process 999999999");
	assert_false(target_resolve("no-such-process-name", &target, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_contains(err.hint, "heapctl ps");
	assert_false(target_resolve("", &target, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_false(target_resolve("0", &target, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_false(target_resolve("/nonexistent/1.sock", &target, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* A folder with a socket in it; a long name, so that the path does not fit a socket address. */
struct place {
	char folder[200];
	char path[300];
	int fd;
};

static void place_make(struct place *place, pid_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(place->folder, "/tmp/heapctl-unit-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/x", place->folder);
	place->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(place->fd, (struct sockaddr *)&address, sizeof address), 0);
	strcat(place->folder, "/a-name-that-is-so-long-that-the-path-of-the-socket-does-not-fit-"
			      "into-the-address-of-a-socket-of-108-bytes");
	assert_int_equal(mkdir(place->folder, 0700), 0);
	snprintf(place->path, sizeof place->path, "%s/%d.sock", place->folder, (int)pid);
	assert_int_equal(rename(address.sun_path, place->path), 0);
}

static void place_remove(struct place *place)
{
	close(place->fd);
	unlink(place->path);
	rmdir(place->folder);
	*strrchr(place->folder, '/') = '\0';
	rmdir(place->folder);
	unsetenv("HEAPCTL_DIR");
}

static void finds_a_process_by_its_socket(void **state)
{
	(void)state;
	struct place place;
	struct target target;
	struct error err = { 0 };

	place_make(&place, getpid());
	assert_int_equal(listen(place.fd, 5), 0);
	setenv("HEAPCTL_DIR", place.folder, 1);
	const bool ok = target_of_process(getpid(), &target, &err);
	place_remove(&place);
	if (!ok)
		fail_msg("%s", err.message);
	assert_int_equal(target.process.pid, getpid());
	assert_string_equal(target.socket_path, place.path);
	assert_contains(target.label, "test_target[");
}

/* The socket has the name of another process: its process must not be taken for that one. */
static void does_not_trust_a_name(void **state)
{
	(void)state;
	struct place place;
	struct target target;
	struct error err = { 0 };

	place_make(&place, getppid());
	assert_int_equal(listen(place.fd, 5), 0);
	setenv("HEAPCTL_DIR", place.folder, 1);
	const bool ok = target_of_process(getppid(), &target, &err);
	place_remove(&place);
	assert_false(ok);
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_contains(err.message, "listens there, not");
}

static void recognises_a_socket_without_a_listener(void **state)
{
	(void)state;
	struct place place;
	struct target target;
	struct error err = { 0 };

	place_make(&place, 1234);
	const bool ok = target_of_socket(place.path, &target, &err);
	place_remove(&place);
	assert_false(ok);
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_contains(err.message, "no process listens there any more");
}

static struct process_start start_of(Elf64_auxv_t *vector, size_t count)
{
	const struct buffer auxv = { .data = (char *)vector, .size = count * sizeof *vector };

	return process_start_of_vector(&auxv);
}

static void calls_a_program_static_only_when_it_has_been_executed(void **state)
{
	(void)state;
	Elf64_auxv_t vector[] = { { .a_type = AT_PAGESZ, .a_un.a_val = 4096 },
		{ .a_type = AT_BASE, .a_un.a_val = 0 }, { .a_type = AT_ENTRY, .a_un.a_val = 1 },
		{ .a_type = AT_SECURE, .a_un.a_val = 1 }, { .a_type = AT_NULL } };

	assert_true(start_of(vector, 5).is_static);
	assert_true(start_of(vector, 5).is_secure);
	assert_false(start_of(vector + 4, 1).is_static); /* in the middle of execve() */
	assert_false(start_of(vector, 2).is_static);
	assert_false(start_of(vector, 0).is_static);
	vector[1].a_un.a_val = 0x7f0000000000;
	assert_false(start_of(vector, 5).is_static);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(takes_urls_apart),
	cmocka_unit_test(refuses_urls_that_are_no_target),
	cmocka_unit_test(keeps_a_token_in_a_url_out_of_the_error),
	cmocka_unit_test(tells_urls_from_paths),
	cmocka_unit_test(says_what_is_not_there),
	cmocka_unit_test(finds_a_process_by_its_socket),
	cmocka_unit_test(does_not_trust_a_name),
	cmocka_unit_test(recognises_a_socket_without_a_listener),
	cmocka_unit_test(calls_a_program_static_only_when_it_has_been_executed),
};
UNIT_MAIN(tests)
