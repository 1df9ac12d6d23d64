/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of an ELF file at the addresses that it was linked for, where a profile does not say
 * where it was loaded.
 */
#pragma once

#include "base/error.h"
#include "profile/profile.h"

/* Adds those of executable segments, where the profile has no mapping yet. */
MUST_CHECK bool program_mappings_add(struct profile *profile, const char *path, struct error *err);
