/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/recorder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "watch/process_identity.h"

void recorder_identify(struct snapshot *snapshot, const struct target *target, const json_t *status)
{
	const bool is_here = target->kind == TARGET_AGENT;
	struct snapshot_identity identity = { 0 };
	struct error ignored;

	if (snapshot->target[0] == '\0')
		snprintf(snapshot->target, sizeof snapshot->target, "%s",
			target->process.name[0] != '\0' ? target->process.name : target->file_stem);
	/* `heapctl status` reports malformed labels. */
	(void)!process_identity_read(target, status, &identity, &ignored);
	snprintf(snapshot->service, sizeof snapshot->service, "%s",
		identity.service[0] != '\0' ? identity.service : snapshot->target);
	snprintf(snapshot->version, sizeof snapshot->version, "%s", identity.version);
	snprintf(snapshot->host, sizeof snapshot->host, "%s", identity.host);
	identity_join_labels(&identity, snapshot->labels, sizeof snapshot->labels);
	snapshot->owner =
		is_here && target->owner != USER_ANY ? (int64_t)target->owner : STORE_NO_OWNER;
	snapshot->pid = target->process.pid != 0 ? target->process.pid : json_number(status, "pid");
	snapshot->started_ms = json_number(status, "started_ms");
	snapshot->is_attached = json_flag(status, "attached");
}

/* The line of captures.jsonl, without the columns of the store. */
static char *describe(const struct target *target, const struct trigger_observation *seen,
	const struct snapshot *snapshot)
{
	json_t *const details = json_pack("{s:s, s:I, s:s, s:i}", "reason", snapshot->reason,
		"time_ms", (json_int_t)snapshot->time_ms, "target", target->label, "pid",
		(int)target->process.pid);

	if (!isnan(seen->resident_bytes))
		json_object_set_new(
			details, "resident_bytes", json_integer((json_int_t)seen->resident_bytes));
	if (!isnan(seen->cgroup_share))
		json_object_set_new(details, "cgroup_share", json_real(seen->cgroup_share));
	if (!isnan(seen->pressure_share))
		json_object_set_new(details, "pressure_share", json_real(seen->pressure_share));
	char *const text = json_dumps(details, JSON_COMPACT);
	json_decref(details);
	return text;
}

/* What is kept is given to a command, and takes the place of what was kept before. */
static bool check_profile(
	const struct target *target, const struct file_draft *draft, struct error *err)
{
	CLEANUP(file_unmap) struct file_map map = { 0 };

	return file_map_fd(draft->fd, draft->path, &map, err) &&
	       (heap_text_check(map.data, map.size, err) || error_prefix(err, "%s", target->label));
}

bool recorder_capture(struct store *store, const struct target *target,
	const struct trigger_observation *seen, struct snapshot *snapshot, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct file_draft draft = { .fd = -1 };
	char tag[40] = "capture";

	snapshot->time_ms = clock_realtime_ms();
	if (!isnan(seen->resident_bytes)) {
		snapshot->bytes[FIGURE_RSS] = (uint64_t)seen->resident_bytes;
		snprintf(tag, sizeof tag, "rss%.0fMiB", seen->resident_bytes / 1048576);
	}
	CLEANUP(free_cleanup) char *details = describe(target, seen, snapshot);
	snapshot->tag = tag;
	snapshot->stem = target->file_stem;
	snapshot->details = details;
	const bool ok =
		store_begin(store, snapshot, &draft, err) &&
		agent_fetch_profile(target, "/v1/profile", draft.fd, draft.path, &answer, err) &&
		check_profile(target, &draft, err) && store_commit(store, snapshot, &draft, err);
	if (!ok)
		file_draft_discard(&draft);
	snapshot->tag = snapshot->stem = snapshot->details = NULL;
	return ok;
}

bool recorder_take_dump(
	struct store *store, const struct dump *dump, struct snapshot *snapshot, struct error *err)
{
	snprintf(snapshot->reason, sizeof snapshot->reason, "%s", dump->reason);
	snapshot->time_ms = dump->time_ms;
	json_t *const object = json_pack("{s:s, s:I, s:s}", "reason", snapshot->reason, "time_ms",
		(json_int_t)snapshot->time_ms, "original", dump->path);
	CLEANUP(free_cleanup)
	char *details = object == NULL ? xstrdup("{}") : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	snapshot->tag = dump->tag;
	snapshot->stem = dump->stem;
	snapshot->details = details;
	const bool ok = store_take(store, dump->path, dump->fd, snapshot, err);
	snapshot->tag = snapshot->stem = snapshot->details = NULL;
	return ok;
}
