/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where libheapctl.so is: beside the binary in a build tree, in the library folder when installed.
 */
#pragma once

#include "base/error.h"

/* ERROR_NOT_FOUND when it is in none of these places. */
MUST_CHECK bool agent_library_find(char path[4096], struct error *err);
