/* SPDX-License-Identifier: Apache-2.0 */
/* What heapctl and heapctl-net have in place of the parts that only heapctl-fleet is linked with.
 */
#include "cli/fleet_session.h"
#include "cli/program_files.h"
#include "cli/send_session.h"

bool send_session_run(const struct send_options *options, struct error *err)
{
	(void)options;
	return fleet_program_exec(err);
}

bool fleet_session_run(const struct fleet_options *options, struct error *err)
{
	(void)options;
	return fleet_program_exec(err);
}
