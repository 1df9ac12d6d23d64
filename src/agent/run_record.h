/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as text, "name value" on each line: what is kept beside its profiles, so that a server
 * that was started again still knows the runs of before. And the same run as JSON, for clients.
 */
#pragma once

#include "agent/run.h"
#include "base/buffer.h"
#include "base/json_writer.h"

void run_record_write(struct buffer *out, const struct run *run);

/*
 * Reads what run_record_write wrote; unknown names are skipped. False when it is no record: no
 * id, no state.
 */
bool run_record_read(const char *text, size_t size, struct run *run);

/* The RUN object of docs/protocol.md. `remaining_ms` 0 when it is over. */
void run_record_json(struct json_writer *json, const struct run *run, int64_t remaining_ms,
	bool already_running);
