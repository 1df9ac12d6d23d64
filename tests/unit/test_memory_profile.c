/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of Traffic Server's plugin that need no Traffic Server. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trafficserver/arguments.h"
#include "trafficserver/message.h"
#include "trafficserver/profile_file.h"
#include "remove_folder.h"
#include "unit.h"

static enum message_verb verb_of(const char *text, size_t size, char argument[MESSAGE_TEXT_BYTES])
{
	struct message message;
	const char *rest = NULL;

	message_copy(&message, text, size);
	const enum message_verb verb = message_verb(&message, &rest);
	strcpy(argument, rest);
	return verb;
}

static void a_word_is_the_same_with_and_without_its_nul(void **state)
{
	(void)state;
	char argument[MESSAGE_TEXT_BYTES];

	assert_int_equal(verb_of("dump", 4, argument), MESSAGE_DUMP);
	assert_int_equal(verb_of("dump", 5, argument), MESSAGE_DUMP);
	assert_int_equal(verb_of("activate", 9, argument), MESSAGE_ACTIVATE);
}

static void words_match_whole(void **state)
{
	(void)state;
	static const char *const wrong[] = { "d", "du", "dum", "dumps", "a", "activat", "DUMP",
		"statss", "dump now", " dump", "dump=1", "stop it" };
	char argument[MESSAGE_TEXT_BYTES];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_int_equal(verb_of(wrong[i], strlen(wrong[i]), argument), MESSAGE_UNKNOWN);
	assert_int_equal(verb_of("dump\0dump", 9, argument), MESSAGE_UNKNOWN);
}

static void no_parameter_is_distinguished_from_a_wrong_one(void **state)
{
	(void)state;
	char argument[MESSAGE_TEXT_BYTES];

	assert_int_equal(verb_of(NULL, 0, argument), MESSAGE_EMPTY);
	assert_int_equal(verb_of("", 0, argument), MESSAGE_EMPTY);
	assert_int_equal(verb_of("", 1, argument), MESSAGE_EMPTY);
}

static void an_argument_follows_a_space_or_an_equals_sign(void **state)
{
	(void)state;
	char argument[MESSAGE_TEXT_BYTES];

	assert_int_equal(verb_of("start 30s", 10, argument), MESSAGE_START);
	assert_string_equal(argument, "30s");
	assert_int_equal(verb_of("start=5mins", 11, argument), MESSAGE_START);
	assert_string_equal(argument, "5mins");
	assert_int_equal(verb_of("reset", 6, argument), MESSAGE_RESET);
	assert_string_equal(argument, "");
}

static void what_cannot_be_printed_does_not_reach_the_log(void **state)
{
	(void)state;
	char text[200];
	struct message message;

	message_copy(&message, "a\nb\x1b[31m\xff", 9);
	assert_string_equal(message.text, "a?b?[31m?");
	memset(text, 'x', sizeof text);
	message_copy(&message, text, sizeof text);
	assert_int_equal(strlen(message.text), MESSAGE_TEXT_BYTES - 1);
}

static void reads_numbers(void **state)
{
	(void)state;
	int number = 7;

	assert_true(message_number("", &number));
	assert_int_equal(number, -1);
	assert_true(message_number("14", &number));
	assert_int_equal(number, 14);
	assert_false(message_number("-1", &number));
	assert_false(message_number("1x", &number));
	assert_false(message_number("99999999999", &number));
	assert_int_equal(number, 14);
}

static bool read_arguments(
	const char *first, const char *second, struct arguments *arguments, char problem[200])
{
	const char *const argv[] = { "memory_profile.so", first, second };

	return arguments_read(second == NULL ? 2 : 3, argv, arguments, problem, 200);
}

static void takes_the_documented_arguments(void **state)
{
	(void)state;
	struct arguments arguments;
	char problem[200] = "";

	assert_true(read_arguments("--dir=/run/x", "--keep=32", &arguments, problem));
	assert_string_equal(arguments.folder, "/run/x");
	assert_int_equal(arguments.keep, 32);
	assert_false(arguments.no_socket);
	assert_true(read_arguments("--no-socket", NULL, &arguments, problem));
	assert_true(arguments.no_socket);
	assert_null(arguments.folder);
	assert_string_equal(problem, "");
}

static void says_what_is_wrong_with_an_argument(void **state)
{
	(void)state;
	struct arguments arguments;
	char problem[200];

	assert_false(read_arguments("--verbose", NULL, &arguments, problem));
	assert_contains(problem, "--verbose");
	assert_contains(problem, "--no-socket");
	assert_false(read_arguments("--keep=33", NULL, &arguments, problem));
	assert_contains(problem, "1 to 32");
	assert_false(read_arguments("--keep=", NULL, &arguments, problem));
	assert_false(read_arguments("--keep=4x", NULL, &arguments, problem));
	assert_false(read_arguments("--dir=here", NULL, &arguments, problem));
	assert_contains(problem, "absolute");
	assert_false(read_arguments("--no-socket=1", NULL, &arguments, problem));
}

static void a_full_queue_refuses_and_a_taken_message_makes_room(void **state)
{
	(void)state;
	struct queue queue;
	struct message message;

	queue_init(&queue);
	message_copy(&message, "dump", 4);
	for (int i = 0; i < QUEUE_CAPACITY; i++)
		assert_true(queue_put(&queue, &message));
	assert_false(queue_put(&queue, &message));
	assert_int_equal(queue_refused(&queue), 1);
	assert_int_equal(queue_refused(&queue), 0);
	assert_int_equal(queue_take(&queue, &message, 1000), QUEUE_MESSAGE);
	assert_string_equal(message.text, "dump");
	assert_true(queue_put(&queue, &message));
}

static void messages_come_in_order_and_waiting_ends(void **state)
{
	(void)state;
	struct queue queue;
	struct message message;

	queue_init(&queue);
	message_copy(&message, "one", 3);
	queue_put(&queue, &message);
	message_copy(&message, "two", 3);
	queue_put(&queue, &message);
	assert_int_equal(queue_take(&queue, &message, 0), QUEUE_MESSAGE);
	assert_string_equal(message.text, "one");
	assert_int_equal(queue_take(&queue, &message, 0), QUEUE_MESSAGE);
	assert_string_equal(message.text, "two");
	assert_int_equal(queue_take(&queue, &message, 1), QUEUE_TIMEOUT);
}

static void *take_until_closed(void *context)
{
	struct message message;

	while (queue_take(context, &message, 10000) != QUEUE_CLOSED)
		continue;
	return NULL;
}

static void closing_waits_for_the_taker_and_refuses_more(void **state)
{
	(void)state;
	struct queue queue;
	struct message message;
	pthread_t thread;
	size_t forgotten = 7;

	queue_init(&queue);
	message_copy(&message, "dump", 4);
	queue_put(&queue, &message);
	/* No message is taken, as while another is processed. */
	assert_false(queue_close(&queue, 1, &forgotten));
	assert_int_equal(forgotten, 1);
	assert_int_equal(pthread_create(&thread, NULL, take_until_closed, &queue), 0);
	assert_true(queue_close(&queue, 60000, &forgotten));
	assert_int_equal(forgotten, 0);
	pthread_join(thread, NULL);
	assert_false(queue_put(&queue, &message));
}

/* A folder of the test's own, as a prefix. */
struct place {
	char folder[64];
	char prefix[80];
};

static int set_up_place(void **state)
{
	struct place *const place = calloc(1, sizeof *place);

	strcpy(place->folder, "/tmp/memory-profile-XXXXXX");
	if (mkdtemp(place->folder) == NULL)
		return -1;
	snprintf(place->prefix, sizeof place->prefix, "%s/x", place->folder);
	*state = place;
	return 0;
}

static int tear_down_place(void **state)
{
	struct place *const place = *state;

	remove_folder(place->folder);
	free(place);
	return 0;
}

static int count_files(const struct place *place)
{
	DIR *const folder = opendir(place->folder);
	int count = -2;

	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count;
}

static int write_a_profile(int64_t run_id, int fd, struct heapctl_error *err)
{
	(void)run_id;
	(void)err;
	return write(fd, "heap", 4) == 4 ? HEAPCTL_OK : HEAPCTL_SYSTEM;
}

static int fail_to_write(int64_t run_id, int fd, struct heapctl_error *err)
{
	(void)run_id;
	(void)fd;
	*err = (struct heapctl_error){ .code = HEAPCTL_SYSTEM, .errnum = ENOSPC };
	strcpy(err->message, "descriptor 5: No space left on device");
	return HEAPCTL_SYSTEM;
}

static void profiles_have_names_of_their_own_and_replace_none(void **state)
{
	const struct place *const place = *state;
	const struct profile_source source = { .write = write_a_profile };
	struct profile_files files = { 0 };
	struct heapctl_error err;
	char path[PATH_MAX], expected[200];
	uint64_t size_bytes = 0;
	struct stat status;

	snprintf(expected, sizeof expected, "%s.%d.0.h0.heap", place->prefix, (int)getpid());
	assert_true(profile_file_write(&files, place->prefix, &source, path, &size_bytes, &err));
	assert_string_equal(path, expected);
	assert_int_equal(size_bytes, 4);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	/* As after a restart in a container, where the process has the same number again. */
	files = (struct profile_files){ 0 };
	snprintf(expected, sizeof expected, "%s.%d.1.h1.heap", place->prefix, (int)getpid());
	assert_true(profile_file_write(&files, place->prefix, &source, path, &size_bytes, &err));
	assert_string_equal(path, expected);
	assert_int_equal(count_files(place), 2);
}

static void does_not_follow_a_link_in_the_place_of_a_file(void **state)
{
	const struct place *const place = *state;
	const struct profile_source source = { .write = write_a_profile };
	struct profile_files files = { 0 };
	struct heapctl_error err;
	char path[PATH_MAX], trap[200], victim[100];
	uint64_t size_bytes = 0;

	snprintf(trap, sizeof trap, "%s.%d.0.h0.heap", place->prefix, (int)getpid());
	snprintf(victim, sizeof victim, "%s/victim", place->folder);
	assert_int_equal(symlink(victim, trap), 0);
	assert_true(profile_file_write(&files, place->prefix, &source, path, &size_bytes, &err));
	assert_contains(path, ".1.h1.heap");
	assert_int_equal(access(victim, F_OK), -1);
}

static void a_profile_that_fails_leaves_nothing_and_reports_the_reason(void **state)
{
	const struct place *const place = *state;
	const struct profile_source source = { .write = fail_to_write };
	struct profile_files files = { 0 };
	struct heapctl_error err = { 0 };
	char path[PATH_MAX];
	uint64_t size_bytes = 0;

	assert_false(profile_file_write(&files, place->prefix, &source, path, &size_bytes, &err));
	assert_string_equal(err.message, "No space left on device");
	assert_int_equal(err.errnum, ENOSPC);
	assert_contains(err.hint, "space");
	assert_contains(path, ".0.h0.heap");
	assert_int_equal(count_files(place), 0);
}

static void a_prefix_that_cannot_work_is_found_beforehand(void **state)
{
	const struct place *const place = *state;
	struct heapctl_error err = { 0 };
	char path[PATH_MAX];

	assert_true(profile_file_check(place->prefix, path, &err));
	assert_string_equal(path, place->prefix);
	assert_false(profile_file_check("/nonexistent/x", path, &err));
	assert_int_equal(err.errnum, ENOENT);
	assert_string_equal(path, "/nonexistent/x");
	assert_false(profile_file_check("", path, &err));
	assert_contains(err.message, "prof_prefix is empty");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_word_is_the_same_with_and_without_its_nul),
	cmocka_unit_test(words_match_whole),
	cmocka_unit_test(no_parameter_is_distinguished_from_a_wrong_one),
	cmocka_unit_test(an_argument_follows_a_space_or_an_equals_sign),
	cmocka_unit_test(what_cannot_be_printed_does_not_reach_the_log),
	cmocka_unit_test(reads_numbers),
	cmocka_unit_test(takes_the_documented_arguments),
	cmocka_unit_test(says_what_is_wrong_with_an_argument),
	cmocka_unit_test(a_full_queue_refuses_and_a_taken_message_makes_room),
	cmocka_unit_test(messages_come_in_order_and_waiting_ends),
	cmocka_unit_test(closing_waits_for_the_taker_and_refuses_more),
	cmocka_unit_test_setup_teardown(
		profiles_have_names_of_their_own_and_replace_none, set_up_place, tear_down_place),
	cmocka_unit_test_setup_teardown(
		does_not_follow_a_link_in_the_place_of_a_file, set_up_place, tear_down_place),
	cmocka_unit_test_setup_teardown(a_profile_that_fails_leaves_nothing_and_reports_the_reason,
		set_up_place, tear_down_place),
	cmocka_unit_test_setup_teardown(
		a_prefix_that_cannot_work_is_found_beforehand, set_up_place, tear_down_place),
};

UNIT_MAIN(tests)
