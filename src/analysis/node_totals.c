/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/node_totals.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void node_totals_deinit(struct node_totals *totals)
{
	free(totals->nodes);
	free(totals->flat);
	*totals = (struct node_totals){ 0 };
}

void node_totals_make_room(struct node_totals *totals, size_t node_count)
{
	const size_t old = totals->count;
	size_t capacity = totals->capacity;

	if (node_count <= old)
		return;
	totals->flat = xgrow(totals->flat, &capacity, node_count, sizeof *totals->flat);
	totals->nodes = xgrow(totals->nodes, &totals->capacity, node_count, sizeof *totals->nodes);
	memset(totals->flat + old, 0, (node_count - old) * sizeof *totals->flat);
	memset(totals->nodes + old, 0, (node_count - old) * sizeof *totals->nodes);
	totals->count = node_count;
}

void node_totals_add(struct node_totals *totals, const uint32_t *nodes, size_t depth,
	const struct estimate *estimate)
{
	const uint32_t number = ++totals->stack_count;
	const node_pair value_variance = { estimate->value, estimate->variance };
	const double samples = estimate->samples;
	struct node_total *const all = totals->nodes;

	if (depth == 0)
		return;
	totals->whole += estimate->value;
	estimate_add(&totals->flat[nodes[depth - 1]], *estimate);
	for (size_t i = 0; i < depth; i++) {
		struct node_total *const total = &all[nodes[i]];
		if (total->seen_by == number)
			continue;
		total->seen_by = number;
		total->value_variance += value_variance;
		total->samples += samples;
	}
}

struct view_totals *node_totals_take(const struct node_totals *totals)
{
	struct view_totals *const taken = xcalloc(totals->count, sizeof *taken);

	for (size_t i = 0; i < totals->count; i++) {
		const struct node_total *const total = &totals->nodes[i];
		taken[i] = (struct view_totals){
			.flat = totals->flat[i],
			.cumulative = { total->value_variance[0], total->value_variance[1],
				total->samples },
		};
	}
	return taken;
}
