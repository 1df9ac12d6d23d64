/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory figures of a target at one moment, in bytes: what its agent's status says, and the
 * kernel's resident set.
 */
#pragma once

#include <stdint.h>

#include <jansson.h>

#include "store/store.h"

struct backend;

/* 0 for what is not known. `status` is the answer to /v1/status. */
void memory_figures_take(
	const struct backend *backend, const json_t *status, uint64_t bytes[FIGURES]);
