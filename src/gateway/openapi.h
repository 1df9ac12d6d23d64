/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.0 document of the gateway, written from the table of routes. */
#pragma once

#include "base/buffer.h"
#include "gateway/route.h"

void openapi_write(const struct route *routes, struct buffer *out);
