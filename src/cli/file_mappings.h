/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of an ELF file at its own addresses, for when nobody says where it was loaded. */
#pragma once

#include "base/error.h"
#include "profile/profile.h"

/* Adds them where the profile has none yet. */
MUST_CHECK bool file_mappings_add(struct profile *profile, const char *path, struct error *err);
