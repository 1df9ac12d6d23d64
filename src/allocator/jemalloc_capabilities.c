/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "allocator/jemalloc.h"
#include "allocator/loaded_symbol.h"
#include "base/malloc_conf.h"

static bool read_flag(const struct allocator *allocator, const char *name)
{
	bool value = false;

	(void)jemalloc_read_bool(&allocator->jemalloc, name, &value);
	return value;
}

/* "5.3.0-0-g54ea..." */
static void read_version(struct allocator *allocator)
{
	struct allocator_identity *const identity = &allocator->identity;

	if (jemalloc_read_text(&allocator->jemalloc, "version", identity->version,
		    sizeof identity->version) != 0)
		return;
	unsigned *const parts[] = { &identity->major, &identity->minor, &identity->patch };
	const char *at = identity->version;
	for (size_t i = 0; i < 3 && isdigit((unsigned char)*at); i++) {
		char *end = NULL;
		*parts[i] = (unsigned)strtoul(at, &end, 10);
		at = *end == '.' ? end + 1 : end;
	}
}

static void read_unwinder(struct allocator *allocator)
{
	static const struct {
		const char *name;
		const char *word;
	} unwinders[] = {
		{ "config.prof_libunwind", "libunwind" },
		{ "config.prof_frameptr", "frameptr" },
		{ "config.prof_libgcc", "libgcc" },
	};
	struct allocator_profiling *const profiling = &allocator->profiling;
	const char *word = profiling->compiled_in ? "gcc" : "unknown";

	for (size_t i = 0; i < sizeof unwinders / sizeof unwinders[0]; i++) {
		if (read_flag(allocator, unwinders[i].name)) {
			word = unwinders[i].word;
			break;
		}
	}
	snprintf(profiling->unwinder, sizeof profiling->unwinder, "%s", word);
}

static void read_profiling(struct allocator *allocator)
{
	struct allocator_profiling *const profiling = &allocator->profiling;
	size_t lg_sample = 0;

	profiling->compiled_in = read_flag(allocator, "config.prof");
	profiling->enabled = profiling->compiled_in && read_flag(allocator, "opt.prof");
	profiling->accumulates = read_flag(allocator, "opt.prof_accum");
	profiling->gdump = read_flag(allocator, "opt.prof_gdump");
	profiling->final = read_flag(allocator, "opt.prof_final");
	profiling->leak = read_flag(allocator, "opt.prof_leak");
	profiling->sys_thread_name = read_flag(allocator, "opt.prof_sys_thread_name");
	profiling->lg_interval = -1;
	(void)jemalloc_read_ssize(
		&allocator->jemalloc, "opt.lg_prof_interval", &profiling->lg_interval);
	(void)jemalloc_read_text(&allocator->jemalloc, "opt.prof_prefix", profiling->prefix,
		sizeof profiling->prefix);
	if (jemalloc_read_size(&allocator->jemalloc, "prof.lg_sample", &lg_sample) != 0)
		(void)jemalloc_read_size(&allocator->jemalloc, "opt.lg_prof_sample", &lg_sample);
	profiling->lg_sample = (unsigned)lg_sample;
	/* Before 5.3 prof.active can be read, and even written, where nothing is enabled. */
	profiling->active_at_start = profiling->enabled && read_flag(allocator, "prof.active");
	/* Before 4.0 threads cannot be excluded: all are sampled. */
	profiling->thread_active_init = true;
	if (profiling->enabled)
		(void)jemalloc_read_bool(&allocator->jemalloc, "prof.thread_active_init",
			&profiling->thread_active_init);
	read_unwinder(allocator);
	profiling->has_unwinder_hook =
		allocator_has(allocator, "experimental.hooks.prof_backtrace");
}

/* What an option says about a text; the sum, how much it says that jemalloc has read the text. */
enum evidence {
	EVIDENCE_AGAINST = -1, /* jemalloc has another value than the text */
	EVIDENCE_NONE = 0,
	EVIDENCE_FOR = 1, /* it has a value that is not its default */
};

static enum evidence compare_flag(
	const struct allocator *allocator, const char *text, const char *key, bool is_default_on)
{
	struct malloc_conf_pair pair;
	char name[40];
	bool is_on = false;

	snprintf(name, sizeof name, "opt.%s", key);
	if (!malloc_conf_find(text, key, &pair) ||
		jemalloc_read_bool(&allocator->jemalloc, name, &is_on) != 0)
		return EVIDENCE_NONE;
	/* What is neither true nor false is as if it were not there. */
	const bool is_wanted = malloc_conf_is_on(text, key, is_on);
	if (is_wanted != is_on)
		return EVIDENCE_AGAINST;
	return is_on == is_default_on ? EVIDENCE_NONE : EVIDENCE_FOR;
}

static enum evidence compare_lg_sample(const struct allocator *allocator, const char *text)
{
	enum { DEFAULT = 19, LARGEST = 63 };
	struct malloc_conf_pair pair;
	size_t value = 0;

	if (!malloc_conf_find(text, "lg_prof_sample", &pair) ||
		jemalloc_read_size(&allocator->jemalloc, "opt.lg_prof_sample", &value) != 0)
		return EVIDENCE_NONE;
	const unsigned long wanted = strtoul(pair.value, NULL, 10);
	if (wanted > LARGEST || wanted == value)
		return wanted == value && value != DEFAULT ? EVIDENCE_FOR : EVIDENCE_NONE;
	return EVIDENCE_AGAINST;
}

/* Negative: jemalloc has not read this text. Else the number of options that say it has. */
static int count_evidence(const struct allocator *allocator, const char *text)
{
	static const struct {
		const char *key;
		bool is_default_on;
	} flags[] = { { "prof", false }, { "prof_active", true }, { "prof_accum", false },
		{ "prof_gdump", false }, { "prof_final", false } };
	int sum = 0;

	if (text == NULL || !allocator->profiling.compiled_in)
		return 0;
	/* It changes others. */
	if (malloc_conf_is_on(text, "prof_leak", false))
		return 0;
	for (size_t i = 0; i <= sizeof flags / sizeof flags[0]; i++) {
		const enum evidence one = i == sizeof flags / sizeof flags[0]
						  ? compare_lg_sample(allocator, text)
						  : compare_flag(allocator, text, flags[i].key,
							    flags[i].is_default_on);
		if (one == EVIDENCE_AGAINST)
			return EVIDENCE_AGAINST;
		sum += one;
	}
	return sum;
}

/*
 * The names of the functions tell the variable of a jemalloc that was configured with a prefix. One
 * whose functions were renamed later reads MALLOC_CONF: the options show it, once some are set.
 */
static void choose_variable(struct allocator *allocator)
{
	static const char plain[] = "MALLOC_CONF";
	char *const variable = allocator->configuration.variable;

	malloc_conf_variable(allocator->identity.symbol, variable);
	if (count_evidence(allocator, getenv(plain)) > count_evidence(allocator, getenv(variable)))
		memcpy(variable, plain, sizeof plain);
}

static void note_ignored(struct allocator_configuration *configuration, const char *variable)
{
	if (configuration->ignored_variable[0] == '\0' &&
		strcmp(variable, configuration->variable) != 0 && getenv(variable) != NULL)
		snprintf(configuration->ignored_variable, sizeof configuration->ignored_variable,
			"%s", variable);
}

static void find_ignored_variable(struct allocator *allocator)
{
	/* Not as whole names: heapctl run looks for those in a program, which may contain this
	 * code. */
	static const char *const beginnings[] = { "", "JE", "JE_", "_RJEM_", "RJEM_", "JEMALLOC_" };
	char named[MALLOC_CONF_VARIABLE_BYTES];

	malloc_conf_variable(allocator->identity.symbol, named);
	note_ignored(&allocator->configuration, named);
	for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
		snprintf(named, sizeof named, "%sMALLOC_CONF", beginnings[i]);
		note_ignored(&allocator->configuration, named);
	}
}

/* `const char *malloc_conf`, a variable that a program may define to set options. */
static void read_program_conf(struct allocator *allocator)
{
	char symbol[64];

	snprintf(symbol, sizeof symbol, "%smalloc_conf", allocator->identity.prefix);
	const char *const *const conf = loaded_symbol_of_program(symbol);
	if (conf != NULL && *conf != NULL)
		snprintf(allocator->configuration.program, sizeof allocator->configuration.program,
			"%s", *conf);
}

static void read_configuration(struct allocator *allocator)
{
	struct allocator_configuration *const configuration = &allocator->configuration;

	choose_variable(allocator);
	configuration->secure = getauxval(AT_SECURE) != 0;
	const char *const value = secure_getenv(configuration->variable);
	if (value != NULL && count_evidence(allocator, value) >= 0)
		snprintf(
			configuration->environment, sizeof configuration->environment, "%s", value);
	find_ignored_variable(allocator);
	(void)jemalloc_read_text(&allocator->jemalloc, "config.malloc_conf", configuration->build,
		sizeof configuration->build);
	read_program_conf(allocator);
	const ssize_t length =
		readlink("/etc/malloc.conf", configuration->file, sizeof configuration->file - 1);
	configuration->file[length > 0 ? length : 0] = '\0';
}

static void decide_availability(struct allocator *allocator)
{
	struct error *const why = &allocator->unavailable;

	if (allocator->profiling.enabled) {
		snprintf(allocator->profiling.sampler, sizeof allocator->profiling.sampler,
			"jemalloc");
		return;
	}
	if (allocator->profiling.compiled_in) {
		jemalloc_not_enabled(allocator, why);
		return;
	}
	error_set(why, ERROR_UNSUPPORTED, "the jemalloc in %s was built without profiling",
		allocator->identity.where);
	error_hint(why, "%suse one configured with --enable-prof (" MALLOC_CONF_JEMALLOC_SOURCE ")",
		allocator->identity.owns_malloc ? "let heapctl attach sample it, or " : "");
}

void jemalloc_read_capabilities(struct allocator *allocator)
{
	read_version(allocator);
	read_profiling(allocator);
	read_configuration(allocator);
	decide_availability(allocator);
}
