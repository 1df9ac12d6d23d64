/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preload_choice.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/file.h"

/* Programs that start another one and then wait, or become it. */
static const char launchers[] =
	"sh:dash:bash:zsh:ksh:ash:busybox:env:nohup:nice:ionice:chrt:taskset:numactl:setsid:"
	"setpriv:"
	"setarch:su:sudo:runuser:timeout:stdbuf:time:start-stop-daemon:systemd-run:tini:dumb-init:"
	"catatonit:gosu:su-exec:chpst:unshare:nsenter:chroot:strace:ltrace:perf:gdb:valgrind:"
	"valgrind.bin:script:"
	"prlimit:choom:cgexec:bwrap:doas:authbind:envdir:softlimit:systemd-cat:linux32:linux64:"
	"flock:xargs:heapctl";

void program_facts_read(struct program_facts *program)
{
	const char *const executed = (const char *)getauxval(AT_EXECFN);
	char path[sizeof program->path];
	const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);

	path[size > 0 ? size : 0] = '\0';
	snprintf(program->path, sizeof program->path, "%s", path);
	const char *as = executed == NULL ? path : executed;
	const size_t length = strlen(as);
	if (length >= sizeof program->started_as)
		as += length - (sizeof program->started_as - 1);
	snprintf(program->started_as, sizeof program->started_as, "%s", as);
}

/* What follows the last slash of the path, of `size` bytes. */
static const char *last_part(const char *path, size_t size)
{
	const char *const slash = memrchr(path, '/', size);

	return slash == NULL ? path : slash + 1;
}

const char *program_facts_name(const struct program_facts *program)
{
	return path_base_name(program->started_as);
}

static bool entry_is(const char *entry, size_t size, const char *name)
{
	return strlen(name) == size && memcmp(entry, name, size) == 0;
}

static const char preload_separators[] = ": \t\n";

/*
 * Whether the entry, of `size` bytes, is the file with the agent, or the one that loads it: that
 * loads the shared library alone, not an object with the static one.
 */
static bool entry_is_agent(const char *entry, size_t size, const char *own_path)
{
	static const char library[] = "libheapctl.so";
	const char *const name = last_part(entry, size);
	const char *const own_name = last_part(own_path, strlen(own_path));
	const size_t length = (size_t)(entry + size - name);

	return length > 0 && (entry_is(name, length, own_name) ||
				     (entry_is(name, length, PRELOAD_LIBRARY) &&
					     strncmp(own_name, library, sizeof library - 1) == 0));
}

bool preload_names_library(const char *preload, const char *own_path)
{
	while (*preload != '\0') {
		const size_t size = strcspn(preload, preload_separators);
		if (entry_is_agent(preload, size, own_path))
			return true;
		preload += size + strspn(preload + size, preload_separators);
	}
	return false;
}

void preload_remove_library(const char *preload, const char *own_path, char *kept)
{
	char *end = kept;

	while (*preload != '\0') {
		const size_t size = strcspn(preload, preload_separators);
		if (size > 0 && !entry_is_agent(preload, size, own_path)) {
			if (end != kept)
				*end++ = ':';
			memcpy(end, preload, size);
			end += size;
		}
		preload += size + strspn(preload + size, preload_separators);
	}
	*end = '\0';
}

/*
 * Whether a ':'-separated list names the executable `path`, started as `started_as`: an entry with
 * a slash is its path, another the last part of its path or of the name it was started by.
 */
static bool is_listed(const char *list, const char *path, const char *started_as)
{
	const char *const name = last_part(path, strlen(path));
	const char *const started_name = last_part(started_as, strlen(started_as));

	for (;; list++) {
		size_t size = 0;
		bool is_path = false;
		for (; list[size] != ':' && list[size] != '\0'; size++)
			is_path = is_path || list[size] == '/';
		if (size > 0 && (entry_is(list, size, is_path ? path : name) ||
					entry_is(list, size, is_path ? started_as : started_name)))
			return true;
		list += size;
		if (*list == '\0')
			return false;
	}
}

bool preload_leaves_out(const char *exes)
{
	const char *const started_as = (const char *)getauxval(AT_EXECFN);
	char path[512];

	if (exes == NULL || exes[0] == '\0' || strlen(exes) >= SETTINGS_EXES_MAX ||
		started_as == NULL)
		return false;
	const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
	if (size <= 0 || (size_t)size >= sizeof path)
		return false;
	path[size] = '\0';
	return !is_listed(exes, path, started_as);
}

enum preload_decision preload_decide(const struct settings *settings,
	const struct program_facts *program, const struct preload_source *source)
{
	const bool preloaded = preload_names_library(source->preload, source->own_path);

	if (settings->disabled ||
		(!preloaded && !preload_names_library(source->preload_file, source->own_path)))
		return PRELOAD_STAY_OUT;
	if (settings->exes[0] != '\0')
		return is_listed(settings->exes, program->path, program->started_as)
			       ? PRELOAD_START
			       : PRELOAD_STAY_OUT;
	if (!preloaded || is_listed(launchers, program->path, program->started_as))
		return PRELOAD_STAY_OUT;
	return PRELOAD_START_AND_NAME;
}
