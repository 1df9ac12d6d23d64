/* SPDX-License-Identifier: Apache-2.0 */
/* TARGET:*, which means several processes (client/target_tree.h), as a text. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define TARGET_TREE_SUFFIX ":*"
bool target_tree_detect(const char *text);

/* Where one process is wanted: ERROR_USAGE. Returns false. */
bool target_tree_refuse(const char *text, struct error *err);
