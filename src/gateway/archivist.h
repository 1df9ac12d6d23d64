/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the gateway that puts a profile and the memory figures of every target into the
 * archive, at once and then every so often. A target that cannot be profiled is passed over.
 */
#pragma once

#include "gateway/archive.h"
#include "gateway/gateway.h"

struct archivist;

/* The gateway, with its stop_fd, must outlive it. */
MUST_CHECK bool archivist_start(
	struct gateway *gateway, int64_t every_ms, struct archivist **archivist, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void archivist_join(struct archivist *archivist);
