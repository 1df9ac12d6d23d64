/* SPDX-License-Identifier: Apache-2.0 */
/* Where libheapctl.so is: beside the binary in a build tree, in the library folder when installed.
 */
#pragma once

#include "base/error.h"

MUST_CHECK bool agent_library_find(char path[4096], struct error *err);
