/* SPDX-License-Identifier: Apache-2.0 */
/* What the database of a fleet answered, as text for people and as JSON. */
#pragma once

#include "cli/fleet_options.h"
#include "fleet/questions.h"

/* As they are typed. Ends with NULL. */
extern const char *const fleet_action_names[FLEET_ACTIONS + 1];

void fleet_print_findings(const struct fleet_options *options,
	const struct fleet_findings *findings, struct buffer *out);
void fleet_print_hosts(
	const struct fleet_options *options, const struct fleet_hosts *hosts, struct buffer *out);
