/* SPDX-License-Identifier: Apache-2.0 */
/* How much each size class of a process wastes, from its statistics. */
#pragma once

#include "analysis/waste.h"

/*
 * Of a bundle, or of a target now. Small classes only, ascending. `classes` is the caller's to
 * free().
 */
MUST_CHECK bool waste_classes_load(
	const char *operand, struct waste_class **classes, size_t *count, struct error *err);
