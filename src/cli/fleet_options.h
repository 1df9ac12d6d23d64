/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of heapctl fleet asks for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/fleet_store.h"
#include "render/renderers.h"
#include "store/identity.h"

enum fleet_action {
	FLEET_TOP,
	FLEET_FLAME,
	FLEET_DIFF,
	FLEET_GROWTH,
	FLEET_VERSIONS,
	FLEET_OUTLIERS,
	FLEET_HOSTS,
	FLEET_SCHEMA,
	FLEET_SYMBOLIZE,
	FLEET_ACTIONS,
};

struct fleet_options {
	struct fleet_store_options store;
	enum fleet_action action;
	struct snapshot_identity of; /* which snapshots */
	int64_t since_ms, until_ms;  /* since 1970 */
	int64_t ago_ms;		     /* of diff: how much earlier the base is */
	const char *base_version;
	const char *output_path;
	const char *renderer; /* of flame and diff: its name; NULL: the action's own */
	/* For the gateway, which asks once and draws many times (fleet/picture.h). */
	bool as_picture;
	const char *picture_file; /* drawn instead of asking; NULL: none */
	struct render_options render;
	int64_t top; /* 0: not given */
	bool as_json;
	int64_t keep_days, keep_growth_days; /* 0: for ever */
	bool applies;
	const char *cluster;	/* NULL: the tables are of one server */
	const char *debuginfod; /* NULL: no server is asked */
	char **files;		/* of symbolize: files and folders */
	size_t file_count;
};
