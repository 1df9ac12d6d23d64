/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/metrics.h"

#include <ts/ts.h>

#include "trafficserver/report.h"

static const char *const names[METRIC_COUNT] = {
	[METRIC_ACTIVE] = PLUGIN_TAG ".active",
	[METRIC_DUMPS] = PLUGIN_TAG ".dumps",
	[METRIC_FAILURES] = PLUGIN_TAG ".failures",
	[METRIC_ALLOCATED] = PLUGIN_TAG ".allocated",
	[METRIC_RESIDENT] = PLUGIN_TAG ".resident",
	[METRIC_LAST_DUMP_BYTES] = PLUGIN_TAG ".last_dump_bytes",
	[METRIC_LAST_DUMP_MS] = PLUGIN_TAG ".last_dump_ms",
};

static void set(struct metrics *metrics, enum metric metric, int64_t value)
{
	metrics->values[metric] = value;
	if (metrics->ids[metric] >= 0)
		TSStatIntSet(metrics->ids[metric], value);
}

void metrics_create(struct metrics *metrics)
{
	for (int i = 0; i < METRIC_COUNT; i++) {
		metrics->values[i] = 0;
		metrics->ids[i] = TSStatCreate(
			names[i], TS_RECORDDATATYPE_INT, TS_STAT_NON_PERSISTENT, TS_STAT_SYNC_SUM);
		set(metrics, (enum metric)i, 0);
	}
}

void metrics_add(struct metrics *metrics, enum metric metric, int64_t number)
{
	set(metrics, metric, metrics->values[metric] + number);
}

void metrics_set_status(struct metrics *metrics, const struct heapctl_status *status)
{
	set(metrics, METRIC_ACTIVE, status->active);
	set(metrics, METRIC_ALLOCATED, (int64_t)status->allocated);
	set(metrics, METRIC_RESIDENT, (int64_t)status->resident);
	if (status->last_dump_time_ms == 0)
		return;
	set(metrics, METRIC_LAST_DUMP_BYTES, (int64_t)status->last_dump_bytes);
	set(metrics, METRIC_LAST_DUMP_MS, status->last_dump_ms);
}
