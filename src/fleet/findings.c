/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/findings.h"

#include <stdlib.h>

void fleet_findings_init(struct fleet_findings *findings)
{
	*findings = (struct fleet_findings){ 0 };
	string_pool_init(&findings->strings);
	arena_init(&findings->frames);
}

void fleet_findings_deinit(struct fleet_findings *findings)
{
	free(findings->items);
	string_pool_deinit(&findings->strings);
	arena_deinit(&findings->frames);
}
