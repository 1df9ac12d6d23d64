/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/filtered_profile.h"

#include <dlfcn.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile_texts.h"
#include "unit.h"

static const char first[] = "--- symbol\n"
			    "0x40010f main\n"
			    "0x800010f parse\n"
			    "---\n"
			    "--- heap\n"
			    "heap_v2/1\n"
			    "  t*: 3: 3000 [0: 0]\n"
			    "  t1: 1: 1000 [0: 0] one\n"
			    "  t2: 2: 2000 [0: 0] two\n"
			    "@ 0x7000110 0x8000110 0x400110\n"
			    "  t*: 3: 3000 [0: 0]\n"
			    "  t1: 1: 1000 [0: 0]\n"
			    "  t2: 2: 2000 [0: 0]\n"
			    "\n"
			    "MAPPED_LIBRARIES:\n"
			    "400000-401000 r-xp 00000000 00:00 1 /bin/server\n"
			    "7000000-7010000 r-xp 00000000 00:00 2 /lib/libjemalloc.so.2\n"
			    "8000000-8010000 r-xp 00000000 00:00 3 /lib/libparse.so.1\n";

/* Another run: the library lies where the allocator was, and a new one where the library was. */
static const char second[] = "--- symbol\n"
			     "0x50010f main\n"
			     "0x700010f parse\n"
			     "0x800010f draw\n"
			     "---\n"
			     "--- heap\n"
			     "heap_v2/1\n"
			     "  t*: 2: 2000 [0: 0]\n"
			     "@ 0x7000110 0x500110\n"
			     "  t*: 1: 1000 [0: 0]\n"
			     "@ 0x8000110 0x500110\n"
			     "  t*: 1: 1000 [0: 0]\n"
			     "\n"
			     "MAPPED_LIBRARIES:\n"
			     "500000-501000 r-xp 00000000 00:00 1 /bin/server\n"
			     "7000000-7010000 r-xp 00000000 00:00 3 /lib/libparse.so.1\n"
			     "8000000-8010000 r-xp 00000000 00:00 4 /lib/libdraw.so.1\n";

static bool has_no_memory;

/* Before the C library's; both make the same tree. */
void *tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	void *(*real)(const void *, void **, int (*)(const void *, const void *)) = NULL;
	void *const found = dlsym(RTLD_NEXT, "tsearch");

	memcpy(&real, &found, sizeof real);
	return has_no_memory ? NULL : real(key, root, compare);
}

static struct profile *select_all(
	const char *now, const char *other, bool is_base, struct filtered_profile_request request)
{
	struct profile *const profiles[] = { must_read_text(now),
		other == NULL ? NULL : must_read_text(other) };
	const struct view_input inputs[] = { { profiles[0], false }, { profiles[1], is_base } };
	const struct filter_text text = { 0 };
	struct filter *filter = NULL;
	struct profile *selected = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&text, &filter, &err));
	request.filter = filter;
	if (!filtered_profile_make(inputs, other == NULL ? 1 : 2, &request, &selected, &err))
		fail_msg("%s", err.message);
	filter_free(filter);
	profile_free(profiles[0]);
	profile_free(profiles[1]);
	return selected;
}

static void leaves_the_allocator_out(void **state)
{
	(void)state;
	struct profile *const selected =
		select_all(first, NULL, false, (struct filtered_profile_request){ 0 });

	assert_int_equal(selected->weighting, PROFILE_WEIGHTED);
	assert_int_equal(selected->sample_count, 1);
	assert_int_equal(selected->stacks[0].depth, 2);
	assert_true(selected->samples[0].counters[PROFILE_INUSE_SPACE] == 3000);
	assert_int_equal(selected->samples[0].object_bytes, 1000);
	assert_int_equal(selected->mapping_count, 2);
	profile_free(selected);
}

static void gives_equal_places_equal_addresses(void **state)
{
	(void)state;
	struct profile *const selected =
		select_all(first, second, false, (struct filtered_profile_request){ 0 });

	/* main and parse are the same in both, draw is new. */
	assert_int_equal(selected->location_count, 3);
	assert_int_equal(selected->stack_count, 2);
	assert_int_equal(selected->samples[0].stack, selected->samples[1].stack);
	profile_free(selected);
}

static void moves_a_module_whose_addresses_are_taken(void **state)
{
	(void)state;
	struct profile *const selected =
		select_all(first, second, false, (struct filtered_profile_request){ 0 });

	for (size_t i = 0; i < selected->location_count; i++) {
		const struct profile_location *const location = &selected->locations[i];
		assert_int_not_equal(location->mapping, PROFILE_NONE);
		const char *const path = selected->mappings[location->mapping].path;
		const char *const function = selected->frames[location->first_frame].function;
		assert_string_equal(path, strcmp(function, "main") == 0	   ? "/bin/server"
					  : strcmp(function, "parse") == 0 ? "/lib/libparse.so.1"
									   : "/lib/libdraw.so.1");
	}
	profile_free(selected);
}

static void subtracts_by_negative_values(void **state)
{
	(void)state;
	struct profile *const selected =
		select_all(first, second, true, (struct filtered_profile_request){ 0 });

	assert_int_equal(selected->sample_count, 2);
	assert_true(selected->samples[0].counters[PROFILE_INUSE_SPACE] == 2000);
	assert_true(selected->samples[1].counters[PROFILE_INUSE_SPACE] == -1000);
	profile_free(selected);
}

static void leaves_out_what_shrank_when_asked(void **state)
{
	(void)state;
	struct profile *const selected = select_all(
		first, second, true, (struct filtered_profile_request){ .drop_negative = true });

	assert_int_equal(selected->sample_count, 1);
	assert_true(selected->samples[0].counters[PROFILE_INUSE_SPACE] == 2000);
	profile_free(selected);
}

/* pprof has addresses of calls, a heap those of returns. */
static void subtracts_a_profile_of_another_form(void **state)
{
	(void)state;
	const struct filter_text text = { 0 };
	struct profile *const heap = must_read_text(first);
	struct profile *const pprof = must_read_text(first);
	struct error err = { 0 };

	for (size_t i = 0; i < pprof->location_count; i++) {
		pprof->locations[i].address--;
		pprof->locations[i].is_exact = true;
	}
	for (int i = 0; i < 2; i++) {
		const struct view_input inputs[] = { { i == 0 ? heap : pprof, false },
			{ i == 0 ? pprof : heap, true } };
		struct filtered_profile_request request = { .drop_negative = true };
		struct profile *selected = NULL;
		assert_true(filter_new(&text, &request.filter, &err));
		assert_true(filtered_profile_make(inputs, 2, &request, &selected, &err));
		assert_int_equal(selected->sample_count, 0);
		filter_free(request.filter);
		profile_free(selected);
	}
	profile_free(heap);
	profile_free(pprof);
}

/* Collapsed stacks have neither addresses nor modules. */
static void subtracts_collapsed_stacks_by_names(void **state)
{
	(void)state;
	static const char heap[] = "--- symbol\n"
				   "0x40010f main(int)\n"
				   "---\n"
				   "--- heap\n"
				   "heap_v2/1\n"
				   "  t*: 2: 2000 [0: 0]\n"
				   "@ 0x7000110 0x8000110 0x400110\n"
				   "  t*: 2: 2000 [0: 0]\n"
				   "\n"
				   "MAPPED_LIBRARIES:\n"
				   "400000-401000 r-xp 00000000 00:00 1 /bin/server\n"
				   "7000000-7010000 r-xp 00000000 00:00 2 /lib/libjemalloc.so.2\n"
				   "8000000-8010000 r-xp 00000000 00:00 3 /lib/libparse.so.1\n";
	static const char collapsed[] = "main;[libparse.so.1]+0x10f 1500\n";
	struct profile *const grown = select_all(
		heap, collapsed, true, (struct filtered_profile_request){ .strip_labels = true });
	struct profile *const shrunk = select_all(
		collapsed, heap, true, (struct filtered_profile_request){ .drop_negative = true });

	assert_int_equal(grown->sample_count, 1);
	assert_true(grown->samples[0].counters[PROFILE_INUSE_SPACE] == 500);
	assert_int_equal(shrunk->sample_count, 0);
	profile_free(grown);
	profile_free(shrunk);
}

static void leaves_nothing_where_nothing_changed(void **state)
{
	(void)state;
	/* At this interval the estimates are fractions, of which the second stack has two. */
	static const char text[] = "heap_v2/3000\n"
				   "  t*: 0: 0 [0: 0]\n"
				   "@ 0x7000110 0x8000110\n"
				   "  t*: 1: 1000 [0: 0]\n"
				   "@ 0x7000110 0x9000110\n"
				   "  t*: 1: 1000 [0: 0]\n"
				   "@ 0x7000120 0x9000110\n"
				   "  t*: 2: 2000 [0: 0]\n"
				   "\n"
				   "MAPPED_LIBRARIES:\n"
				   "7000000-7010000 r-xp 00000000 00:00 2 /lib/libjemalloc.so.2\n";
	struct profile *const selected =
		select_all(text, text, true, (struct filtered_profile_request){ 0 });

	assert_int_equal(selected->sample_count, 0);
	profile_free(selected);
}

static void tells_threads_apart_when_asked(void **state)
{
	(void)state;
	struct profile *const selected = select_all(
		first, NULL, false, (struct filtered_profile_request){ .by_thread = true });

	assert_int_equal(selected->sample_count, 0);
	assert_int_equal(selected->thread_sample_count, 2);
	assert_string_equal(selected->threads[selected->thread_samples[1].thread].name, "two");
	assert_true(selected->thread_samples[0].counters[PROFILE_INUSE_SPACE] +
			    selected->thread_samples[1].counters[PROFILE_INUSE_SPACE] ==
		    3000);
	profile_free(selected);
}

/* A range that is not noted would be given to another module as well. */
static void ends_where_a_taken_range_cannot_be_noted(void **state)
{
	(void)state;
	int status = 0;
	const pid_t pid = fork();

	if (pid == 0) {
		fclose(stderr);
		has_no_memory = true;
		profile_free(
			select_all(first, second, false, (struct filtered_profile_request){ 0 }));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(ends_where_a_taken_range_cannot_be_noted),
	cmocka_unit_test(leaves_the_allocator_out),
	cmocka_unit_test(gives_equal_places_equal_addresses),
	cmocka_unit_test(moves_a_module_whose_addresses_are_taken),
	cmocka_unit_test(subtracts_by_negative_values),
	cmocka_unit_test(leaves_out_what_shrank_when_asked),
	cmocka_unit_test(subtracts_a_profile_of_another_form),
	cmocka_unit_test(subtracts_collapsed_stacks_by_names),
	cmocka_unit_test(leaves_nothing_where_nothing_changed),
	cmocka_unit_test(tells_threads_apart_when_asked),
};

UNIT_MAIN(tests)
