/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that the questions to a fleet's database share: conditions in SQL, and findings from rows.
 *
 * Tables of a cluster are Distributed, except `stack`, which each server has whole. So a subquery
 * in IN is GLOBAL, which changes nothing on one server, and a JOIN has a subquery on its left,
 * which makes the server that was asked join.
 */
#pragma once

#include "base/buffer.h"
#include "fleet/clickhouse.h"
#include "fleet/findings.h"

enum { QUESTION_ROWS_MAX = 100000 }; /* of one answer; a fleet has thousands of sites */

#define QUESTION_DAY_MS INT64_C(86400000)

enum { QUESTION_MIN_SNAPSHOTS = 3 }; /* of a process: fewer have no slope that says anything */

/* Of a snapshot, since a time in milliseconds. */
#define QUESTION_HOURS "(toFloat64(snapshot) - %" PRId64 ") / 3600000"

#define QUESTION_PROCESS "service, host, pid, started"
#define QUESTION_PROCESS_OF_VERSION "service, version, host, pid, started"

/* Of a row of `sample`: nan where its profile does not say how it was sampled. */
#define QUESTION_VARIANCE "if(sampling_interval = 0, nan, inuse_variance)"

/* The site of each stack, by the row that has most names (fleet/schema.h). */
#define QUESTION_SITES "(SELECT stack, argMax(site, rank) AS site FROM stack GROUP BY stack)"

/* A condition for rows of `profile` and `sample`; of whole days, for those of the sums of days. */
void question_append_scope(struct buffer *out, const struct fleet_scope *scope);
void question_append_days(struct buffer *out, const struct fleet_scope *scope);

/* " FROM profile WHERE ...", also by labels; and the same of process_day. */
void question_append_profiles(struct buffer *out, const struct fleet_scope *scope);
void question_append_process_days(struct buffer *out, const struct fleet_scope *scope);

/* Rows of `sample` of snapshots that are whole: all of them, or the last one of each process. */
void question_append_samples(struct buffer *out, const struct fleet_scope *scope, bool is_last);

/* A SELECT of each process: the number `n` of its snapshots, the sum of their hours `st`, `stt`. */
void question_append_processes(struct buffer *out, const struct fleet_scope *scope);

struct fleet_finding *question_add_finding(struct fleet_findings *findings);
const char *question_take_text(struct fleet_findings *findings, const json_t *row, size_t column);
void question_take_frames(
	struct fleet_findings *findings, struct fleet_finding *finding, const json_t *frames);

/*
 * Sorts by p, and adjusts it for all findings that have one; or for `tests` where the others, whose
 * p is larger, are no findings.
 */
void question_adjust(struct fleet_findings *findings, size_t tests);

/* Keeps the first `max` findings, and asks for their frames. */
MUST_CHECK bool question_finish(struct clickhouse *clickhouse, struct fleet_findings *findings,
	size_t max, struct error *err);

/* Mean over `hosts` values, of which those that are not in the sums are 0; the mean's variance. */
double question_mean_of_sums(double sum, double squares, double hosts, double *variance);

/* Of rows of service, version and a number of hosts: that number; 0 without such a row. */
double question_hosts_of(const json_t *counts, const char *service, const char *version);
