/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/malloc_conf.h"
#include "base/xalloc.h"
#include "client/doctor.h"
#include "client/library_search.h"

void doctor_examine_own_folder(struct diagnosis *diagnosis)
{
	const char *const own = getenv("HEAPCTL_DIR");
	const char *const runtime = getenv("XDG_RUNTIME_DIR");
	char path[4096];

	if (own != NULL && *own != '\0') {
		if (doctor_examine_named_folder(diagnosis, "", own, geteuid()))
			return;
		if (access(own, F_OK) != 0)
			diagnosis_add(diagnosis, FINDING_NOTE, "folder-missing", "",
				"HEAPCTL_DIR, %s, does not exist yet", own);
		doctor_examine_folder(diagnosis, own, geteuid());
		return;
	}
	if (geteuid() == 0)
		snprintf(path, sizeof path, "/run/heapctl");
	else if (runtime != NULL && runtime[0] == '/')
		snprintf(path, sizeof path, "%s/heapctl", runtime);
	else
		snprintf(path, sizeof path, "/tmp/heapctl-%u", geteuid());
	doctor_examine_folder(diagnosis, path, geteuid());
}

static void examine_conf(struct diagnosis *diagnosis, const char *name, const char *text)
{
	struct error problem;

	for (size_t i = 0; malloc_conf_problem(text, i, &problem); i++)
		diagnosis_add(diagnosis, FINDING_WRONG, "conf-malformed", problem.hint, "%s: %s",
			name, problem.message);
}

static void examine_environment(struct diagnosis *diagnosis)
{
	const char *const conf = getenv("MALLOC_CONF");
	char link[4096];

	if (conf != NULL)
		examine_conf(diagnosis, "MALLOC_CONF of this shell", conf);
	if (getenv("JEMALLOC_CONF") != NULL && conf == NULL)
		diagnosis_add(diagnosis, FINDING_NOTE, "variable-ignored",
			"set MALLOC_CONF instead (heapctl run takes it over)",
			"JEMALLOC_CONF is set in this shell, which jemalloc does not read");
	const ssize_t size = readlink("/etc/malloc.conf", link, sizeof link - 1);
	if (size < 0)
		return;
	link[size] = '\0';
	examine_conf(diagnosis, "/etc/malloc.conf", link);
	diagnosis_add(diagnosis, FINDING_NOTE, "etc-malloc-conf", "",
		"/etc/malloc.conf sets '%s' for every program with jemalloc", link);
}

static long read_number(const char *path)
{
	struct buffer text;
	struct error err;
	long number = -1;

	buffer_init(&text, &memory_or_exit);
	if (access(path, R_OK) == 0 && file_read(path, &text, &err))
		number = atol(buffer_string(&text));
	buffer_deinit(&text);
	return number;
}

static void examine_kernel(struct diagnosis *diagnosis)
{
	struct buffer mounts;
	struct error err;

	if (access("/proc/self/maps", R_OK) != 0) {
		diagnosis_add(diagnosis, FINDING_WRONG, "proc-missing", "mount -t proc proc /proc",
			"/proc is not mounted: neither targets nor their libraries can be seen");
		return;
	}
	if (read_number("/proc/sys/vm/memfd_noexec") >= 2)
		diagnosis_add(diagnosis, FINDING_NOTE, "memfd-forbidden",
			"nothing needs to be done as long as HEAPCTL_DIR can be written",
			"vm.memfd_noexec is 2: profiles go through a file of HEAPCTL_DIR");
	buffer_init(&mounts, &memory_or_exit);
	if (geteuid() != 0 && file_read("/proc/self/mounts", &mounts, &err) &&
		strstr(buffer_string(&mounts), "hidepid=") != NULL)
		diagnosis_add(diagnosis, FINDING_NOTE, "proc-hidden", "run heapctl as root",
			"/proc hides the processes of other users (hidepid)");
	buffer_deinit(&mounts);
}

static void examine_libraries(struct diagnosis *diagnosis, const char *agent_library)
{
	char path[LIBRARY_PATH_BYTES];

	if (agent_library == NULL)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-missing",
			"install heapctl completely",
			"libheapctl.so is not where heapctl expects it: heapctl run cannot work");
	else
		diagnosis_add(diagnosis, FINDING_GOOD, "agent-found", "", "the agent is %s",
			agent_library);
	if (library_search("libjemalloc.so.2", "", NULL, path))
		diagnosis_add(diagnosis, FINDING_GOOD, "jemalloc-found", "",
			"programs without jemalloc can get %s", path);
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "jemalloc-missing",
			MALLOC_CONF_JEMALLOC_SOURCE,
			"there is no libjemalloc.so.2: only programs that bring jemalloc can be "
			"profiled");
}

void doctor_examine_host(struct diagnosis *diagnosis, const char *agent_library)
{
	examine_kernel(diagnosis);
	examine_libraries(diagnosis, agent_library);
	doctor_examine_own_folder(diagnosis);
	examine_environment(diagnosis);
}
