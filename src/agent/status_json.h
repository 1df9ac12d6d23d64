/* SPDX-License-Identifier: Apache-2.0 */
/* The Status object of docs/protocol.md. */
#pragma once

#include "agent/core.h"
#include "base/json_writer.h"

/* Looks at the allocator and writes what it finds; what cannot be read is left at zero or null. */
void status_json_write(struct core *core, struct json_writer *json);
