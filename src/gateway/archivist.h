/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the gateway that puts a profile and the memory figures of every target into the
 * archive, at once and then every so often. A target that cannot be profiled is passed over; one
 * that hangs delays no other.
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

/* Keeps this moment of the target as well, for that reason. Any thread. */
MUST_CHECK bool archivist_keep(struct gateway *gateway, struct backend *backend, const char *reason,
	struct archive_moment *moment, struct error *err);
