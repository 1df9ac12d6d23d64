/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attach_room.h"

#include <inttypes.h>
#include <stdint.h>

#include "base/file.h"
#include "base/proc_maps.h"
#include "base/units.h"
#include "base/xalloc.h"
#include "client/control_group.h"

enum {
	THREADS = 2, /* the one that loads the agent, and the agent's */
	/*
	 * Of the agent itself 0.3 to 0.8 MiB. The tables of its unwinder took 1/14 (node) to 1/5
	 * (libLLVM) of the code that they are for.
	 */
	AGENT_BYTES = 1024 * 1024,
	CODE_SHARE = 4,
};

static uint64_t estimate_memory(const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	uint64_t code = 0;

	if (!file_try_read(&maps, "/proc/%d/maps", (int)process_living_thread(process->pid)))
		return AGENT_BYTES;
	const char *at = buffer_string(&maps);
	const char *const end = at + maps.size;
	for (struct proc_map map; proc_map_next(&at, end, &map);) {
		if (map.executable && map.inode != 0)
			code += map.limit - map.start;
	}
	return AGENT_BYTES + code / CODE_SHARE;
}

static bool check_threads(const struct process *process, struct error *err)
{
	struct cgroup group;

	cgroup_find(process->pid, "pids", &group);
	const uint64_t threads = cgroup_read_room(&group).threads;
	if (threads >= THREADS)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] cannot start its agent: its control group may have %" PRIu64
		" more threads, and that takes %d",
		process->name, (int)process->pid, threads, THREADS);
	return error_hint(
		err, "raise the limit (pids.max; systemd: TasksMax, docker update: --pids-limit)");
}

static bool check_memory(const struct process *process, struct error *err)
{
	char room_text[BYTE_SIZE_TEXT_BYTES], need_text[BYTE_SIZE_TEXT_BYTES];
	struct cgroup group;

	cgroup_find(process->pid, "memory", &group);
	const uint64_t room = cgroup_read_room(&group).bytes;
	if (room == UINT64_MAX)
		return true;
	const uint64_t need = estimate_memory(process);
	if (room >= need)
		return true;
	byte_size_format(room, room_text);
	byte_size_format(need, need_text);
	error_set(err, ERROR_STATE,
		"%s[%d]: its control group has %s left up to its limit of memory, and the agent "
		"may take %s: the kernel would end a process of the group",
		process->name, (int)process->pid, room_text, need_text);
	return error_hint(err, "raise the limit (memory.max; systemd: MemoryMax, docker update: "
			       "--memory); heapctl attach --force attaches nevertheless");
}

bool attach_room_check(const struct process *process, bool is_forced, struct error *err)
{
	return check_threads(process, err) && (is_forced || check_memory(process, err));
}
