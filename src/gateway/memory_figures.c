/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/memory_figures.h"

#include <stdio.h>

#include "client/agent_client.h"
#include "gateway/backend.h"

void memory_figures_take(
	const struct backend *backend, const json_t *status, uint64_t bytes[FIGURES])
{
	char path[64];

	for (size_t i = 0; i < FIGURE_RSS; i++) {
		snprintf(path, sizeof path, "memory.%s", memory_figure_names[i]);
		bytes[i] = (uint64_t)json_number(status, path);
	}
	bytes[FIGURE_RSS] = backend_resident_bytes(backend);
}
