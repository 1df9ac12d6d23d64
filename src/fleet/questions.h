/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fleet's database is asked. SQL adds up, by statements that are right for ClickHouse 18.16
 * and later; errors and tests are computed here.
 *
 * The unit of all tests is the host: hosts are independent of each other, snapshots of one host are
 * not. A site that a host does not have counts there as 0 bytes.
 */
#pragma once

#include "analysis/view.h"
#include "fleet/clickhouse.h"
#include "fleet/findings.h"

/* What is in use by the last snapshot of each process, largest sites first, at most `max`. */
MUST_CHECK bool fleet_ask_sites(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	size_t max, struct fleet_findings *findings, struct error *err);

/*
 * Bytes per hour of each site, by service and version: the slope of each process over its
 * snapshots, averaged over hosts. Most significant growth first; p is of growth, not of shrinking,
 * adjusted for all sites. At most `max` are returned, with their frames. A range of more than seven
 * days is answered by the sums of its whole days (fleet/growth_days.h).
 */
MUST_CHECK bool fleet_ask_growth(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	size_t max, struct fleet_findings *findings, struct error *err);

/*
 * Sites whose bytes per process differ between two versions of a service; most significant first.
 * `base` NULL: the versions are the two that appeared last. ERROR_NOT_FOUND when there are not two.
 */
MUST_CHECK bool fleet_ask_versions(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	const char *base, size_t max, struct fleet_findings *findings, struct error *err);

/*
 * Hosts of a service that grow at a site as its other hosts do not, most significant first: growth
 * relative to what the host has there, against the median of the hosts that have the site. p is of
 * that, adjusted for all hosts and sites. Then those whose bytes per process are far above the
 * median of those hosts, on a logarithmic scale, most deviating first; that has no p.
 */
MUST_CHECK bool fleet_ask_outliers(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	size_t max, struct fleet_findings *findings, struct error *err);

struct fleet_host {
	const char *service, *version, *host;
	uint64_t processes, snapshots, rss_bytes;
	int64_t last_ms;
	double inuse_bytes, inuse_variance;
};

struct fleet_hosts {
	struct fleet_host *items;
	size_t count, capacity;
	bool has_more; /* than were asked for */
	struct string_pool strings;
};

void fleet_hosts_init(struct fleet_hosts *hosts);
void fleet_hosts_deinit(struct fleet_hosts *hosts);

/* By the last snapshot of each process; largest first. */
MUST_CHECK bool fleet_ask_hosts(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	size_t max, struct fleet_hosts *hosts, struct error *err);

/*
 * A view of sites, for every renderer; `base` NULL: no difference. The service is the root where
 * `has_services`. What was left out is one path.
 */
struct view *fleet_view_make(const struct fleet_findings *now, const struct fleet_findings *base,
	bool has_services, const char *title, const char *subtitle);
