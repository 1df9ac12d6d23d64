/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, the input of flame graph scripts: a line for each stack, root first, and its
 * value, whose unit is unknown: it is read as bytes.
 *
 *	main;serve;parse 4096
 *
 * Lines that begin with '#' are comments.
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool collapsed_detect(struct cursor in);
bool collapsed_read(struct cursor *in, struct profile *profile, struct error *err);
