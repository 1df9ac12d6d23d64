/* SPDX-License-Identifier: Apache-2.0 */
/* What heapctl note does, and does to the folder of a history without its gateway. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct note_request {
	const char *target; /* a name, or a pid */
	const char *text;   /* NULL: none is written */
	int64_t time_ms;    /* of the note */
	int64_t remove;	    /* id; 0: none is removed */
	const char *folder; /* of the history; NULL: the gateway does it */
	const char *gateway;
	bool has_time, lists, as_json;
};

/*
 * In the folder, also beside a gateway that keeps it. The answers are those of the gateway: a
 * note, {"removed": ID} or {"notes": [...]}; release with json_decref.
 */
MUST_CHECK bool note_store_run(
	const struct note_request *request, json_t **answer, struct error *err);
