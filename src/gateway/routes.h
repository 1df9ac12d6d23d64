/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, with their handlers. */
#pragma once

#include "gateway/route.h"

/* Ends with a NULL pattern. */
extern const struct route routes[];
