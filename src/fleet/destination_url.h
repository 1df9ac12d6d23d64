/* SPDX-License-Identifier: Apache-2.0 */
/* The URLs of what snapshots are sent to, and of what is asked, checked without the library that
 * connects. */
#pragma once

#include "base/error.h"

/*
 * ERROR_USAGE when nothing is sent to such a URL, or it has a password, which every user of the
 * machine could see.
 */
MUST_CHECK bool destination_url_check(const char *url, struct error *err);

/* The same for a database that can be asked: ClickHouse. */
MUST_CHECK bool store_url_check(const char *url, struct error *err);
