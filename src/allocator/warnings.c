/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "allocator/jemalloc.h"
#include "base/file.h"
#include "base/malloc_conf.h"
#include "base/proc_maps.h"

struct report {
	struct allocator *allocator;
	void (*visit)(void *context, const struct allocator_warning *warning);
	void *context;
};

static void warn(const struct report *report, const char *code, const char *hint,
	const char *format, ...) PRINTF_FORMAT(4, 5);

static void warn(
	const struct report *report, const char *code, const char *hint, const char *format, ...)
{
	struct allocator_warning warning = { .code = code };
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(warning.message, sizeof warning.message, format, arguments);
	va_end(arguments);
	snprintf(warning.hint, sizeof warning.hint, "%s", hint);
	report->visit(report->context, &warning);
}

static bool is_older(const struct allocator_identity *identity, unsigned major, unsigned minor)
{
	return identity->major != 0 &&
	       (identity->major < major || (identity->major == major && identity->minor < minor));
}

static void check_conf(const struct report *report, const char *source, const char *conf)
{
	char whole[ALLOCATOR_CONF_MAX];
	struct error problem;

	/* A longer text is cut, and its last option may be incomplete. */
	snprintf(whole, sizeof whole, "%s", conf);
	char *const last = strlen(conf) < sizeof whole - 1 ? NULL : strrchr(whole, ',');
	if (last != NULL)
		*last = '\0';
	for (size_t i = 0; malloc_conf_problem(whole, i, &problem); i++)
		warn(report, "conf-malformed", problem.hint, "%s: %s", source, problem.message);
}

static void check_options(const struct report *report)
{
	const struct allocator_configuration *const configuration =
		&report->allocator->configuration;
	char hint[sizeof((struct allocator_warning *)NULL)->hint];

	check_conf(report, configuration->variable, configuration->environment);
	check_conf(report, "the program's malloc_conf", configuration->program);
	check_conf(report, "/etc/malloc.conf", configuration->file);

	if (configuration->ignored_variable[0] != '\0') {
		snprintf(hint, sizeof hint, "set %s instead", configuration->variable);
		warn(report, "variable-ignored", hint, "%s is set, but this jemalloc reads %s only",
			configuration->ignored_variable, configuration->variable);
	}
}

/* Also without jemalloc, which may be missing for this reason. */
static void check_start(const struct report *report)
{
	const char *const variable = report->allocator->configuration.variable;

	if (getauxval(AT_SECURE) == 0)
		return;
	warn(report, "secure-start",
		"start it as the user it runs as (capabilities may be ambient), or use "
		"/etc/ld.so.preload and the symlink /etc/malloc.conf",
		"the process gained privileges when it started: LD_PRELOAD and %s were ignored",
		variable[0] == '\0' ? "MALLOC_CONF" : variable);
}

static void check_identity(const struct report *report)
{
	const struct allocator_identity *const identity = &report->allocator->identity;

	if (!identity->owns_malloc)
		warn(report, "malloc-not-owned",
			"to profile all of it, preload jemalloc or link it without a prefix",
			"malloc is that of %s (%s): only calls of %s's own functions are "
			"profiled",
			identity->malloc_name, identity->malloc_where, identity->where);
	if (identity->other_jemalloc[0] != '\0')
		warn(report, "another-jemalloc",
			"preload no jemalloc into a program that contains one",
			"there is another jemalloc in the process, %s, which is not profiled",
			identity->other_jemalloc);
}

static void check_version(const struct report *report)
{
	const struct allocator_identity *const identity = &report->allocator->identity;
	const struct allocator_profiling *const profiling = &report->allocator->profiling;

	if (identity->major == 5 && identity->minor == 2 && identity->patch <= 1)
		warn(report, "version-off-on", "use 5.3.0 or newer, or leave sampling on",
			"jemalloc %s may never sample a thread again that allocated while sampling "
			"was off",
			identity->version);
	if (is_older(identity, 5, 1) && (profiling->gdump || profiling->lg_interval >= 0))
		warn(report, "version-automatic-dumps", "use 5.1.0 or newer",
			"jemalloc %s writes automatic dumps also while sampling is off",
			identity->version);
	if (is_older(identity, 5, 3))
		warn(report, "version-bias", "use 5.3.0 or newer",
			"jemalloc %s scales each stack by its average size, which is inexact where "
			"sizes vary",
			identity->version);
	if (is_older(identity, 4, 0))
		warn(report, "version-old", "use 5.3.0 or newer",
			"jemalloc %s can neither reset samples nor exclude threads",
			identity->version);
}

/* With 100 samples, a function with a tenth of the memory has an error of a third. */
static void check_sample_count(const struct report *report, unsigned lg_sample, uint64_t allocated)
{
	enum { SAMPLES_MIN = 100 };
	unsigned lg_wanted = lg_sample;
	char hint[sizeof((struct allocator_warning *)NULL)->hint] = "";

	if (allocated >> lg_sample >= SAMPLES_MIN)
		return;
	while (lg_wanted > ALLOCATOR_LG_SAMPLE_LOW && allocated >> lg_wanted < SAMPLES_MIN)
		lg_wanted--;
	if (lg_wanted < lg_sample)
		snprintf(hint, sizeof hint,
			"heapctl record --sample %" PRIu64
			"KiB, or start it with heapctl run --activate --sample %" PRIu64 "KiB",
			UINT64_C(1) << (lg_wanted - 10), UINT64_C(1) << (lg_wanted - 10));
	warn(report, "sample-interval-wide", hint,
		"%" PRIu64 " KiB in use at one sample per %" PRIu64 " KiB are at most %" PRIu64
		" samples: the profile is coarse",
		allocated / 1024, (UINT64_C(1) << lg_sample) / 1024, allocated >> lg_sample);
}

static void check_sample_interval(const struct report *report)
{
	struct allocator_memory memory = { 0 };
	struct error ignored;
	unsigned lg_sample = 0;

	if (!allocator_lg_sample(report->allocator, &lg_sample, &ignored))
		return;
	if (lg_sample < ALLOCATOR_LG_SAMPLE_LOW)
		warn(report, "lg-sample-low", "use lg_prof_sample:19, the default",
			"a sample every %u bytes slows the process and inflates its memory",
			1U << lg_sample);
	if (lg_sample > ALLOCATOR_LG_SAMPLE_MAX) {
		warn(report, "lg-sample-high", "use lg_prof_sample:19, the default",
			"lg_sample %u: nothing will ever be sampled", lg_sample);
		return;
	}
	if (allocator_memory(report->allocator, &memory, &ignored))
		check_sample_count(report, lg_sample, memory.allocated);
}

static void check_profiling(const struct report *report)
{
	const struct allocator_profiling *const profiling = &report->allocator->profiling;

	if (profiling->accumulates)
		warn(report, "accumulates", "remove prof_accum unless totals are needed",
			"prof_accum:true keeps every stack forever, so memory grows");
	if (!profiling->thread_active_init)
		warn(report, "threads-start-inactive", "set prof_thread_active_init:true",
			"new threads are not sampled until they set thread.prof.active");
	if (profiling->gdump || profiling->lg_interval >= 0)
		warn(report, "automatic-dumps",
			"remove prof_gdump and lg_prof_interval; heapctl takes profiles",
			"jemalloc writes profiles automatically, in the program's threads, to "
			"files named %s.*",
			profiling->prefix);
	if ((profiling->gdump || profiling->lg_interval >= 0 || profiling->final) &&
		profiling->prefix[0] == '\0')
		warn(report, "prefix-empty", "set prof_prefix to a path",
			"automatic dumps cannot be written: prof_prefix is empty");
}

static bool starts_with(const struct proc_map *map, const char *start)
{
	const size_t size = strlen(start);

	return map->path_size >= size && memcmp(map->path, start, size) == 0;
}

static bool is_jit_mapping(const struct proc_map *map)
{
	return map->executable &&
	       (map->path_size == 0 || starts_with(map, "[anon") || starts_with(map, "/memfd:"));
}

/* Code without a file was made at run time, and has no unwind tables. */
static bool has_code_made_at_run_time(void)
{
	struct buffer text;
	struct error ignored;
	bool found = false;

	buffer_init(&text, &memory_pages);
	text.limit = 16 << 20;
	if (file_read_own_maps(&text, &ignored)) {
		const char *at = text.data;
		struct proc_map map;
		while (!found && proc_map_next(&at, text.data + text.size, &map))
			found = is_jit_mapping(&map);
	}
	buffer_deinit(&text);
	return found;
}

static void check_unwinder(const struct report *report)
{
	const char *const unwinder = report->allocator->profiling.unwinder;

	if (strcmp(unwinder, "libgcc") != 0 && strcmp(unwinder, "gcc") != 0)
		return;
	if (!report->allocator->profiling.has_unwinder_hook && has_code_made_at_run_time())
		warn(report, "unwinder-jit",
			"use a jemalloc configured with --enable-prof-libunwind, or try it on a "
			"copy first",
			"the process runs code made at run time: while sampling is on, the %s "
			"unwinder stops there, and in some programs aborts the process",
			unwinder);
	if (jemalloc_would_end_the_process(report->allocator))
		warn(report, "static-unwinder",
			"link the C library dynamically, or add -Wl,--wrap=_Unwind_Backtrace where "
			"libheapctl.a is linked",
			"the program is static: with glibc the %s unwinder aborts the process as "
			"soon as profiling is enabled",
			unwinder);
}

void allocator_warnings(struct allocator *allocator,
	void (*visit)(void *context, const struct allocator_warning *warning), void *context)
{
	const struct report report = { .allocator = allocator, .visit = visit, .context = context };

	check_start(&report);
	if (strcmp(allocator->identity.name, "jemalloc") != 0)
		return;
	check_options(&report);
	check_identity(&report);
	/* The rest concerns jemalloc's profiler. */
	if (!allocator->profiling.compiled_in || allocator_has_other_sampler(allocator))
		return;
	check_version(&report);
	check_unwinder(&report);
	if (!allocator->profiling.enabled)
		return;
	check_sample_interval(&report);
	check_profiling(&report);
}
