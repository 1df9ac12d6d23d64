/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.0 document of the gateway, written from the table of routes. */
#pragma once

#include "base/buffer.h"

void openapi_write(struct buffer *out);
