/* SPDX-License-Identifier: Apache-2.0 */
/* The URL of a gateway, http://host:port, or of a target behind it, http://host:port/targets/NAME.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct gateway_url {
	bool use_tls;
	char host[256];
	char port[8];
	char prefix[512]; /* "" or "/targets/NAME", encoded as typed */
};

/* Whether the text is meant as a URL: it begins with http:// or https://. */
bool gateway_url_detect(const char *text);

/* ERROR_USAGE when it is not that of a gateway or a target. */
MUST_CHECK bool gateway_url_parse(const char *text, struct gateway_url *url, struct error *err);
