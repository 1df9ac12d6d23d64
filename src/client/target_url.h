/* SPDX-License-Identifier: Apache-2.0 */
/* Gateways' URLs. The other half is target_parse_url in client/target.h. */
#pragma once

#include <stdbool.h>

/* Whether the text is meant as one: it begins with http:// or https://. */
bool target_is_url(const char *text);
