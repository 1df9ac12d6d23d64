/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on a jemalloc of any version: one whose mallctl answers from a table. */
#include "allocator/jemalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/allocator.h"
#include "unit.h"

struct answer {
	const char *name;
	const char *text; /* of a string */
	uint64_t number;
	size_t size; /* of a number */
	int write_code;
};

static const struct answer *answers;
static char written[64];

static int scripted_mallctl(
	const char *name, void *old, size_t *old_size, void *new, size_t new_size)
{
	for (const struct answer *answer = answers; answer->name != NULL; answer++) {
		if (strcmp(answer->name, name) != 0)
			continue;
		if (old != NULL) {
			const void *const value = answer->text != NULL
							  ? (const void *)&answer->text
							  : (const void *)&answer->number;
			const size_t size =
				answer->text != NULL ? sizeof answer->text : answer->size;
			const size_t fits = *old_size < size ? *old_size : size;
			memcpy(old, value, fits);
			if (*old_size != size)
				return EINVAL;
		}
		if (new != NULL && answer->write_code == 0)
			snprintf(written, sizeof written, "%s %zu", name, new_size);
		return new == NULL ? 0 : answer->write_code;
	}
	return ENOENT;
}

static int scripted_nametomib(const char *name, size_t *mib, size_t *mib_size)
{
	(void)mib;
	(void)mib_size;
	return scripted_mallctl(name, NULL, NULL, NULL, 0);
}

static struct allocator allocator;

static void set_up_jemalloc(const struct answer *script)
{
	unsetenv("MALLOC_CONF");
	answers = script;
	written[0] = '\0';
	allocator = (struct allocator){
		.operations = &jemalloc_operations,
		.jemalloc = { scripted_mallctl, scripted_nametomib, NULL },
		.identity = { .name = "jemalloc",
			.symbol = "mallctl",
			.where = "/lib/libj.so",
			.owns_malloc = true },
	};
	jemalloc_read_capabilities(&allocator);
}

#define BOOL(name, value)               \
	{                               \
		name, NULL, value, 1, 0 \
	}
#define SIZE(name, value)                            \
	{                                            \
		name, NULL, value, sizeof(size_t), 0 \
	}
#define TEXT(name, value)            \
	{                            \
		name, value, 0, 0, 0 \
	}

static const struct answer jemalloc_5_3_0[] = { TEXT("version", "5.3.0-0-g54ea"),
	BOOL("config.prof", 1), BOOL("config.prof_libgcc", 1), BOOL("opt.prof", 1),
	BOOL("prof.active", 0), BOOL("prof.thread_active_init", 1), SIZE("prof.lg_sample", 19),
	TEXT("opt.prof_prefix", "jeprof"),
	{ "opt.lg_prof_interval", NULL, UINT64_MAX, sizeof(size_t), 0 },
	{ "epoch", NULL, 1, sizeof(uint64_t), 0 }, SIZE("stats.allocated", 1 << 30),
	SIZE("stats.active", 2000), SIZE("stats.metadata", 300), SIZE("stats.resident", 4000),
	SIZE("stats.mapped", 5000), SIZE("stats.retained", 6000),
	{ "prof.reset", NULL, 0, sizeof(size_t), 0 }, BOOL("thread.prof.active", 1),
	{ "prof.dump", NULL, 0, sizeof(char *), EFAULT },
	{ "opt.narenas", NULL, 4, sizeof(unsigned), EPERM },
	{ "arenas.dirty_decay_ms", NULL, UINT64_MAX, sizeof(ssize_t), 0 },
	{ NULL, NULL, 0, 0, 0 } };

static const struct answer jemalloc_5_2_1_off[] = { TEXT("version", "5.2.1-0-gea6b"),
	BOOL("config.prof", 1), BOOL("opt.prof", 0), BOOL("prof.active", 1),
	{ NULL, NULL, 0, 0, 0 } };

static const struct answer jemalloc_5_2_1[] = { TEXT("version", "5.2.1-0-gea6b"),
	BOOL("config.prof", 1), BOOL("config.prof_libunwind", 1), BOOL("opt.prof", 1),
	BOOL("prof.active", 1), SIZE("prof.lg_sample", 5), BOOL("opt.prof_accum", 1),
	BOOL("opt.prof_gdump", 1), TEXT("opt.prof_prefix", ""), { NULL, NULL, 0, 0, 0 } };

static const struct answer jemalloc_3_6[] = { TEXT("version", "3.6.0-0-g46c0"),
	BOOL("config.prof", 1), BOOL("opt.prof", 1), SIZE("opt.lg_prof_sample", 19),
	{ "epoch", NULL, 1, sizeof(uint64_t), 0 }, SIZE("stats.allocated", 1 << 30),
	{ NULL, NULL, 0, 0, 0 } };

static const struct answer without_profiling[] = { TEXT("version", "5.3.0-0-g0"),
	BOOL("config.prof", 0), { NULL, NULL, 0, 0, 0 } };

static char seen_codes[512];

static void note_code(void *context, const struct allocator_warning *warning)
{
	(void)context;
	strncat(seen_codes, warning->code, sizeof seen_codes - strlen(seen_codes) - 2);
	strcat(seen_codes, " ");
	assert_true(warning->message[0] != '\0');
	assert_true(warning->hint[0] != '\0');
}

static const char *codes_of_warnings(void)
{
	seen_codes[0] = '\0';
	allocator_warnings(&allocator, note_code, NULL);
	return seen_codes;
}

static void reads_what_a_jemalloc_can_do(void **state)
{
	(void)state;
	struct error err;

	set_up_jemalloc(jemalloc_5_3_0);
	assert_true(allocator_available(&allocator, &err));
	assert_int_equal(allocator.identity.major, 5);
	assert_int_equal(allocator.identity.minor, 3);
	assert_int_equal(allocator.identity.patch, 0);
	assert_true(allocator.profiling.enabled);
	assert_false(allocator.profiling.active_at_start);
	assert_true(allocator.profiling.thread_active_init);
	assert_int_equal(allocator.profiling.lg_sample, 19);
	assert_int_equal(allocator.profiling.lg_interval, -1);
	assert_string_equal(allocator.profiling.unwinder, "libgcc");
	assert_string_equal(allocator.configuration.variable, "MALLOC_CONF");
	assert_true(allocator_has(&allocator, "prof.dump"));
	assert_false(allocator_has(&allocator, "prof.prefix"));
}

/* 5.2.1 lets prof.active be written, to no effect: opt.prof alone decides. */
static void is_not_taken_in_by_an_old_version(void **state)
{
	(void)state;
	struct error err;

	set_up_jemalloc(jemalloc_5_2_1_off);
	assert_false(allocator.profiling.active_at_start);
	assert_false(allocator_active_set(&allocator, true, NULL, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	assert_contains(err.message, "not enabled");
	assert_contains(err.hint, "MALLOC_CONF=prof:true,prof_active:false");
	assert_contains(err.hint, "heapctl attach");
	assert_string_equal(written, "");
}

static void says_when_profiling_was_not_built_in(void **state)
{
	(void)state;
	struct error err;

	set_up_jemalloc(without_profiling);
	assert_false(allocator_available(&allocator, &err));
	assert_contains(err.message, "/lib/libj.so was built without profiling");
	assert_contains(err.hint, "--enable-prof");
	assert_contains(err.hint, "heapctl attach");
}

static void warns_of_versions_with_faults(void **state)
{
	(void)state;
	set_up_jemalloc(jemalloc_5_2_1);
	const char *const codes = codes_of_warnings();
	assert_contains(codes, "version-off-on");
	assert_contains(codes, "version-bias");
	assert_contains(codes, "lg-sample-low");
	assert_contains(codes, "accumulates");
	assert_contains(codes, "automatic-dumps");
	assert_contains(codes, "prefix-empty");
	if (unit_is_emulated())
		skip_because("the emulator's page for returns of signal handlers is code without a "
			     "file");
	set_up_jemalloc(jemalloc_5_3_0);
	assert_string_equal(codes_of_warnings(), "");
}

static void works_with_the_oldest_names(void **state)
{
	(void)state;
	struct error err;
	struct allocator_memory figures;
	unsigned lg_sample = 0;

	set_up_jemalloc(jemalloc_3_6);
	assert_contains(codes_of_warnings(), "version-old");
	assert_true(allocator_lg_sample(&allocator, &lg_sample, &err));
	assert_int_equal(lg_sample, 19);
	assert_true(allocator_thread_sampling_off(&allocator, &err));
	assert_true(allocator_memory(&allocator, &figures, &err));
	assert_int_equal(figures.retained, 0);
	assert_false(allocator_reset(&allocator, ALLOCATOR_LG_SAMPLE_KEEP, false, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_contains(err.message, "3.6.0");
	assert_contains(err.message, "prof.reset");
}

static void passes_values_in_their_own_size(void **state)
{
	(void)state;
	struct error err;
	bool was = true;
	static struct mallctl_value value;
	char reset[32];

	snprintf(reset, sizeof reset, "prof.reset %zu", sizeof(size_t));
	set_up_jemalloc(jemalloc_5_3_0);
	assert_true(allocator_active_set(&allocator, true, &was, &err));
	assert_false(was);
	assert_string_equal(written, "prof.active 1");
	assert_true(allocator_reset(&allocator, 20, false, &err));
	assert_string_equal(written, reset);
	assert_true(
		allocator_read(&allocator, "arenas.dirty_decay_ms", MALLCTL_UNKNOWN, &value, &err));
	assert_int_equal((int64_t)value.number, -1);
	/* The table says that this one is of another size than asked for. */
	assert_false(allocator_read(&allocator, "epoch", MALLCTL_BOOL, &value, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
}

static void explains_what_codes_mean(void **state)
{
	(void)state;
	struct error err;

	set_up_jemalloc(jemalloc_5_3_0);
	assert_false(allocator_write(&allocator, "opt.narenas", MALLCTL_UNKNOWN, "1", false, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_int_equal(err.errnum, EPERM);
	assert_contains(err.hint, "when the process starts");
	assert_false(jemalloc_failure(&allocator, "writing", "thread.prof.name", EAGAIN, &err));
	assert_int_equal(err.kind, ERROR_MEMORY);
	assert_false(jemalloc_failure(&allocator, "reading", "no.such", ENOENT, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_false(jemalloc_failure(&allocator, "writing", "prof.gdump", EFAULT, &err));
	assert_int_equal(err.kind, ERROR_SYSTEM);
	allocator.profiling.sys_thread_name = true;
	assert_false(jemalloc_failure(&allocator, "writing", "thread.prof.name", ENOENT, &err));
	assert_contains(err.message, "prof_sys_thread_name");
}

static void finds_out_why_a_dump_failed(void **state)
{
	(void)state;
	struct error err;

	set_up_jemalloc(jemalloc_5_3_0);
	assert_false(allocator_dump_path(&allocator, "/nonexistent/x.heap", &err));
	assert_int_equal(err.errnum, ENOENT);
	assert_contains(err.message, "/nonexistent/x.heap");
}

static void reads_nothing_as_text_that_may_be_none(void **state)
{
	(void)state;
	static struct mallctl_value value;
	struct error err;

	set_up_jemalloc(jemalloc_5_3_0);
	assert_false(allocator_read(&allocator, "no.such", MALLCTL_STRING, &value, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_false(allocator_write(&allocator, "no.such", MALLCTL_STRING, "x", true, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
}

static void reports_statistics_that_were_left_out(void **state)
{
	(void)state;
	struct error err;
	struct buffer out;
	struct allocator_memory figures;

	buffer_init(&out, &memory_heap);
	set_up_jemalloc(jemalloc_5_3_0);
	assert_false(allocator_stats(&allocator, NULL, &out, &err));
	assert_contains(err.message, "malloc_stats_print");
	set_up_jemalloc(without_profiling);
	assert_false(allocator_memory(&allocator, &figures, &err));
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_what_a_jemalloc_can_do),
	cmocka_unit_test(is_not_taken_in_by_an_old_version),
	cmocka_unit_test(says_when_profiling_was_not_built_in),
	cmocka_unit_test(warns_of_versions_with_faults),
	cmocka_unit_test(works_with_the_oldest_names),
	cmocka_unit_test(passes_values_in_their_own_size),
	cmocka_unit_test(explains_what_codes_mean),
	cmocka_unit_test(finds_out_why_a_dump_failed),
	cmocka_unit_test(reads_nothing_as_text_that_may_be_none),
	cmocka_unit_test(reports_statistics_that_were_left_out),
};
UNIT_MAIN(tests)
