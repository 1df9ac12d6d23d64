/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run_profiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent_client.h"

void run_profiles_deinit(struct run_profiles *recording)
{
	blob_drop(recording->profile);
	blob_drop(recording->start);
	*recording = (struct run_profiles){ 0 };
}

static bool is_running(const json_t *run)
{
	return strcmp(json_text(run, "state"), "running") == 0;
}

static bool say_running(int64_t id, struct error *err)
{
	error_set(err, ERROR_STATE, "run %" PRId64 " is still on", id);
	return error_hint(err, "wait for its end or stop it; give an id for an earlier one");
}

bool run_profiles_newest(struct backend *backend, int64_t *id, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;

	if (!backend_get_json(backend, "/v1/runs", &answer, err))
		return false;
	const json_t *const runs = json_at(answer, "runs");
	for (size_t i = json_array_size(runs); i > 0; i--) {
		const json_t *const run = json_array_get(runs, i - 1);
		if (is_running(run))
			return say_running(json_number(run, "id"), err);
		if (strcmp(json_text(run, "state"), "finished") == 0) {
			*id = json_number(run, "id");
			return true;
		}
	}
	error_set(err, ERROR_NOT_FOUND, "there is no finished run");
	return error_hint(err, "start one: /memory-profiler/start?duration=5mins");
}

/* What a maker of a run's profile needs. */
struct profile_order {
	struct backend *backend;
	const char *path;
};

static bool fetch_profile(void *context, struct blob **blob, struct error *err)
{
	const struct profile_order *const order = context;
	struct backend_answer answer;

	if (!backend_get_profile(order->backend, order->path, &answer, err))
		return false;
	*blob = answer.body;
	return true;
}

/* A profile of a finished run never changes, so it is asked for once. */
static bool get_kept(struct gateway *gateway, struct backend *backend, int64_t id,
	const char *which, struct blob **blob, struct error *err)
{
	char path[96], key[128];
	struct profile_order order = { .backend = backend, .path = path };

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id, which);
	snprintf(key, sizeof key, "%" PRIu64 "%s", backend->generation, path);
	return result_cache_get(
		&gateway->profile_cache, key, true, fetch_profile, &order, blob, err);
}

/* Whether the profile records anything: its "t*:" line begins with a number of objects. */
static bool has_samples(const struct blob *profile)
{
	static const char line[] = "\n  t*: ";
	const char *const at =
		profile->data == NULL ? NULL
				      : memmem(profile->data, profile->size, line, sizeof line - 1);

	return at != NULL && (size_t)(at - profile->data) + sizeof line - 1 < profile->size &&
	       at[sizeof line - 1] != '0';
}

static bool load_run(struct gateway *gateway, struct backend *backend, struct run_profiles *loaded,
	struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64, loaded->id);
	if (!backend_get_json(backend, path, &run, err))
		return false;
	if (is_running(run))
		return say_running(loaded->id, err);
	if (json_number(run, "ended_ms") > json_number(run, "started_ms"))
		loaded->span_ms = json_number(run, "ended_ms") - json_number(run, "started_ms");
	if (!get_kept(gateway, backend, loaded->id, "profile", &loaded->profile, err))
		return false;
	if (json_number(run, "start_bytes") == 0)
		return true;
	struct error ignored;
	/* The start may have been let go to save memory; the run is still worth showing. */
	if (!get_kept(gateway, backend, loaded->id, "start", &loaded->start, &ignored))
		return true;
	if (!has_samples(loaded->start)) {
		blob_drop(loaded->start);
		loaded->start = NULL;
	}
	return true;
}

bool run_profiles_load(struct gateway *gateway, struct backend *backend, int64_t id,
	struct run_profiles *recording, struct error *err)
{
	struct run_profiles loaded = { .id = id };
	struct backend_answer now;

	if (id != RUN_PROFILES_NOW) {
		if (!load_run(gateway, backend, &loaded, err)) {
			run_profiles_deinit(&loaded);
			return false;
		}
	} else {
		if (!backend_get_profile(backend, "/v1/profile", &now, err))
			return false;
		loaded.profile = now.body;
	}
	*recording = loaded;
	return true;
}
