/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory figures of a target at one moment, in bytes: what its agent's status says, and the
 * kernel's resident set.
 */
#pragma once

#include <stdint.h>

#include <jansson.h>

enum memory_figure {
	FIGURE_ALLOCATED,
	FIGURE_ACTIVE,
	FIGURE_METADATA,
	FIGURE_RESIDENT, /* by the allocator's own count */
	FIGURE_MAPPED,
	FIGURE_RETAINED,
	FIGURE_RSS, /* by the kernel's; last, as the status does not have it */
	FIGURES,
};

/* As in the status, in JSON and in the archive's index. */
extern const char *const memory_figure_names[FIGURES];

struct backend;

/* 0 for what is not known. `status` is the answer to /v1/status. */
void memory_figures_take(
	const struct backend *backend, const json_t *status, uint64_t bytes[FIGURES]);
