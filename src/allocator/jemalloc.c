/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/jemalloc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/loaded_module.h"

/*
 * A read with the exact size. jemalloc fills what fits and answers EINVAL when the size is another,
 * so there is room for more than asked.
 */
static int read_exactly(
	const struct jemalloc_functions *jemalloc, const char *name, void *value, size_t size)
{
	unsigned char room[16] = { 0 };
	size_t got = size;
	const int code = jemalloc->mallctl(name, room, &got, NULL, 0);

	if (code != 0)
		return code;
	if (got != size)
		return EINVAL;
	memcpy(value, room, size);
	return 0;
}

static int write_exactly(
	const struct jemalloc_functions *jemalloc, const char *name, const void *value, size_t size)
{
	unsigned char room[16] = { 0 };

	memcpy(room, value, size);
	return jemalloc->mallctl(name, NULL, NULL, room, size);
}

int jemalloc_read_bool(const struct jemalloc_functions *jemalloc, const char *name, bool *value)
{
	return read_exactly(jemalloc, name, value, sizeof *value);
}

static int read_u64(const struct jemalloc_functions *jemalloc, const char *name, uint64_t *value)
{
	return read_exactly(jemalloc, name, value, sizeof *value);
}

int jemalloc_read_size(const struct jemalloc_functions *jemalloc, const char *name, size_t *value)
{
	return read_exactly(jemalloc, name, value, sizeof *value);
}

int jemalloc_read_ssize(const struct jemalloc_functions *jemalloc, const char *name, int64_t *value)
{
	ssize_t got = 0;
	const int code = read_exactly(jemalloc, name, &got, sizeof got);

	if (code == 0)
		*value = got;
	return code;
}

int jemalloc_read_text(
	const struct jemalloc_functions *jemalloc, const char *name, char *text, size_t room)
{
	const char *got = NULL;
	const int code = read_exactly(jemalloc, name, &got, sizeof got);

	if (code == 0)
		snprintf(text, room, "%s", got == NULL ? "" : got);
	return code;
}

static bool get_active(struct allocator *allocator, bool *active, struct error *err)
{
	const int code = jemalloc_read_bool(&allocator->jemalloc, "prof.active", active);

	return code == 0 || jemalloc_failure(allocator, "reading", "prof.active", code, err);
}

static bool set_active(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	bool before = false;
	size_t size = sizeof before;
	bool after = active;
	const int code =
		allocator->jemalloc.mallctl("prof.active", &before, &size, &after, sizeof after);

	if (code != 0)
		return jemalloc_failure(allocator, "writing", "prof.active", code, err);
	*was_active = before;
	return true;
}

static bool switch_thread_off(struct allocator *allocator, struct error *err)
{
	const bool active = false;
	const int code =
		write_exactly(&allocator->jemalloc, "thread.prof.active", &active, sizeof active);

	/* Before 4.0 there is no such name, and the thread is sampled like any other. */
	return code == 0 || code == ENOENT ||
	       jemalloc_failure(allocator, "writing", "thread.prof.active", code, err);
}

static bool dump_to_path(struct allocator *allocator, const char *path, struct error *err)
{
	const int code = write_exactly(&allocator->jemalloc, "prof.dump", &path, sizeof path);

	return code == 0 || jemalloc_failure(allocator, "writing", "prof.dump", code, err);
}

static void append_text(void *context, const char *text)
{
	buffer_append_string(context, text);
}

static bool print_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	if (allocator->jemalloc.stats_print == NULL)
		return error_set(err, ERROR_UNSUPPORTED,
			"the program was linked without jemalloc's malloc_stats_print");
	allocator->jemalloc.stats_print(append_text, out, options);
	return true;
}

static bool read_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	struct allocator_memory got = { 0 };
	const struct {
		const char *name;
		uint64_t *value;
	} figures[] = {
		{ "stats.active", &got.active },
		{ "stats.metadata", &got.metadata },
		{ "stats.resident", &got.resident },
		{ "stats.mapped", &got.mapped },
		{ "stats.retained", &got.retained },
	};
	const uint64_t epoch = 1;
	size_t value = 0;

	int code = write_exactly(&allocator->jemalloc, "epoch", &epoch, sizeof epoch);
	if (code != 0)
		return jemalloc_failure(allocator, "writing", "epoch", code, err);
	code = jemalloc_read_size(&allocator->jemalloc, "stats.allocated", &value);
	if (code == ENOENT)
		return error_set(
			err, ERROR_UNSUPPORTED, "this jemalloc was built without statistics");
	if (code != 0)
		return jemalloc_failure(allocator, "reading", "stats.allocated", code, err);
	got.allocated = value;
	/* Older versions have fewer figures: 0 then. */
	for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
		if (jemalloc_read_size(&allocator->jemalloc, figures[i].name, &value) == 0)
			*figures[i].value = value;
	}
	*ret = got;
	return true;
}

static bool reset_samples(struct allocator *allocator, int lg_sample, struct error *err)
{
	size_t wanted = (size_t)lg_sample;
	const bool keep = lg_sample == ALLOCATOR_LG_SAMPLE_KEEP;
	const int code = allocator->jemalloc.mallctl(
		"prof.reset", NULL, NULL, keep ? NULL : &wanted, keep ? 0 : sizeof wanted);

	return code == 0 || jemalloc_failure(allocator, "writing", "prof.reset", code, err);
}

static bool read_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	size_t value = 0;
	int code = jemalloc_read_size(&allocator->jemalloc, "prof.lg_sample", &value);

	/* Before 4.0 it never changes. */
	if (code == ENOENT)
		code = jemalloc_read_size(&allocator->jemalloc, "opt.lg_prof_sample", &value);
	if (code != 0)
		return jemalloc_failure(allocator, "reading", "prof.lg_sample", code, err);
	*lg_sample = (unsigned)value;
	return true;
}

static int read_value(
	const struct jemalloc_functions *jemalloc, const char *name, struct mallctl_value *value)
{
	bool truth = false;
	uint32_t narrow = 0;
	int64_t number = 0;
	size_t size = 0;
	int code = EINVAL;

	switch (value->type) {
	case MALLCTL_BOOL:
		code = jemalloc_read_bool(jemalloc, name, &truth);
		value->number = truth;
		break;
	case MALLCTL_U32:
		code = read_exactly(jemalloc, name, &narrow, sizeof narrow);
		value->number = narrow;
		break;
	case MALLCTL_U64:
		code = read_u64(jemalloc, name, &value->number);
		break;
	case MALLCTL_SIZE:
		code = jemalloc_read_size(jemalloc, name, &size);
		value->number = size;
		break;
	case MALLCTL_SSIZE:
		code = jemalloc_read_ssize(jemalloc, name, &number);
		value->number = (uint64_t)number;
		break;
	case MALLCTL_STRING:
		code = jemalloc_read_text(jemalloc, name, value->text, sizeof value->text);
		break;
	case MALLCTL_UNIT:
	case MALLCTL_UNKNOWN:
		break;
	}
	return code;
}

static bool read_name(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	const int code = read_value(&allocator->jemalloc, name, value);

	return code == 0 || jemalloc_failure(allocator, "reading", name, code, err);
}

static int write_value(const struct jemalloc_functions *jemalloc, const char *name,
	const struct mallctl_value *value)
{
	const bool truth = value->number != 0;
	const uint32_t narrow = (uint32_t)value->number;
	const size_t size = (size_t)value->number;
	const char *const text = value->text;

	switch (value->type) {
	case MALLCTL_BOOL:
		return write_exactly(jemalloc, name, &truth, sizeof truth);
	case MALLCTL_U32:
		return write_exactly(jemalloc, name, &narrow, sizeof narrow);
	case MALLCTL_U64:
		return write_exactly(jemalloc, name, &value->number, sizeof value->number);
	case MALLCTL_SIZE:
	case MALLCTL_SSIZE:
		return write_exactly(jemalloc, name, &size, sizeof size);
	case MALLCTL_STRING:
		return write_exactly(jemalloc, name, &text, sizeof text);
	case MALLCTL_UNIT:
		return jemalloc->mallctl(name, NULL, NULL, NULL, 0);
	case MALLCTL_UNKNOWN:
		break;
	}
	return EINVAL;
}

static bool write_name(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	const int code = write_value(&allocator->jemalloc, name, value);

	return code == 0 || jemalloc_failure(allocator, "writing", name, code, err);
}

static bool has_name(const struct allocator *allocator, const char *name)
{
	size_t mib[16];
	size_t length = sizeof mib / sizeof mib[0];

	/* Without the function to ask: jemalloc's table is that of 5.3. */
	if (allocator->jemalloc.nametomib == NULL)
		return mallctl_name_type(name) != MALLCTL_UNKNOWN;
	return allocator->jemalloc.nametomib(name, mib, &length) == 0;
}

static const char backtrace_name[] = "experimental.hooks.prof_backtrace";

static bool get_backtrace(
	struct allocator *allocator, allocator_backtrace **function, struct error *err)
{
	const int code =
		read_exactly(&allocator->jemalloc, backtrace_name, function, sizeof *function);

	return code == 0 || jemalloc_failure(allocator, "reading", backtrace_name, code, err);
}

static bool set_backtrace(
	struct allocator *allocator, allocator_backtrace *function, struct error *err)
{
	const int code =
		write_exactly(&allocator->jemalloc, backtrace_name, &function, sizeof function);

	return code == 0 || jemalloc_failure(allocator, "writing", backtrace_name, code, err);
}

const struct allocator_operations jemalloc_operations = {
	.active_get = get_active,
	.active_set = set_active,
	.thread_sampling_off = switch_thread_off,
	.dump_path = dump_to_path,
	.stats = print_stats,
	.memory = read_memory,
	.reset = reset_samples,
	.lg_sample = read_lg_sample,
	.read = read_name,
	.write = write_name,
	.has = has_name,
	.backtrace_get = get_backtrace,
	.backtrace_set = set_backtrace,
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* In a static program there is no loader. Where profiling is enabled it has not ended. */
bool jemalloc_would_end_the_process(const struct allocator *allocator)
{
	const char *const unwinder = allocator->profiling.unwinder;

	return loaded_module_loader() == 0 && !allocator->profiling.enabled &&
	       (strcmp(unwinder, "libgcc") == 0 || strcmp(unwinder, "gcc") == 0);
}

bool jemalloc_not_enabled(const struct allocator *allocator, struct error *err)
{
	const struct allocator_configuration *const configuration = &allocator->configuration;

	error_set(err, ERROR_UNSUPPORTED,
		"profiling is not enabled in this process, and cannot be enabled while it runs");
	if (configuration->secure)
		return error_hint(err,
			"the process gained privileges when it started, so the environment is "
			"ignored: start it as the user it runs as, or put "
			"prof:true,prof_active:false into the symlink /etc/malloc.conf");
	if (jemalloc_would_end_the_process(allocator))
		return error_hint(err,
			"link the C library dynamically, or add -Wl,--wrap=_Unwind_Backtrace where "
			"libheapctl.a is linked, then start it with "
			"%s=prof:true,prof_active:false; in this static program the %s unwinder "
			"would end the process",
			configuration->variable, allocator->profiling.unwinder);
	/* Its functions can be patched while it runs. */
	return error_hint(err, "restart it with %s=prof:true,prof_active:false%s",
		configuration->variable,
		allocator->identity.owns_malloc
			? ", or without a restart let heapctl attach sample it"
			: "");
}

static bool no_such_name(const struct allocator *allocator, const char *name, struct error *err)
{
	const bool is_profiling = starts_with(name, "prof.") || starts_with(name, "thread.prof.");

	if (is_profiling && !allocator->profiling.enabled)
		return jemalloc_not_enabled(allocator, err);
	if (strcmp(name, "thread.prof.name") == 0 && allocator->profiling.sys_thread_name)
		return error_set(err, ERROR_STATE,
			"the system names the threads of this process "
			"(prof_sys_thread_name:true)");
	const struct allocator_identity *const identity = &allocator->identity;
	error_set(err, ERROR_NOT_FOUND, "this jemalloc (%u.%u.%u) has no mallctl %s",
		identity->major, identity->minor, identity->patch, name);
	if (is_profiling)
		error_hint(err, "it may need an option at the start, or a newer jemalloc");
	else
		error_hint(err, "jemalloc(3) lists the names; an index in one may be too large");
	return false;
}

static bool not_allowed(const char *verb, const char *name, struct error *err)
{
	if (strcmp(verb, "reading") == 0)
		return error_set(err, ERROR_DENIED, "%s cannot be read, only written", name);
	error_set(err, ERROR_DENIED, "%s cannot be changed in a running process", name);
	if (starts_with(name, "opt."))
		error_hint(err, "options are set when the process starts");
	return false;
}

bool jemalloc_failure(const struct allocator *allocator, const char *verb, const char *name,
	int code, struct error *err)
{
	switch (code) {
	case ENOENT:
		no_such_name(allocator, name, err);
		break;
	case EPERM:
		not_allowed(verb, name, err);
		break;
	case EINVAL:
		error_set(err, ERROR_USAGE, "%s %s: jemalloc refuses the value or its type", verb,
			name);
		break;
	case EFAULT:
		/* For a dump it means the file, whose trouble the caller finds out. */
		if (strcmp(name, "prof.dump") == 0)
			error_set(err, ERROR_SYSTEM, "the profile could not be written");
		else
			error_set(err, ERROR_SYSTEM, "%s %s: jemalloc failed", verb, name);
		break;
	case EAGAIN:
	case ENOMEM:
		error_set(err, ERROR_MEMORY, "%s %s: jemalloc has no memory for it", verb, name);
		break;
	default:
		error_system(err, code, "%s %s", verb, name);
		break;
	}
	err->errnum = code;
	return false;
}
