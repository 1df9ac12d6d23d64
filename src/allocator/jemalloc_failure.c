/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/jemalloc_failure.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* In a static program there is no loader. */
bool jemalloc_would_end_the_process(const struct allocator *allocator)
{
	const char *const unwinder = allocator->profiling.unwinder;

	return getauxval(AT_BASE) == 0 &&
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
			"link the C library dynamically, then start it with "
			"%s=prof:true,prof_active:false; in this static program the %s unwinder "
			"would end the process",
			configuration->variable, allocator->profiling.unwinder);
	return error_hint(
		err, "restart it with %s=prof:true,prof_active:false", configuration->variable);
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
