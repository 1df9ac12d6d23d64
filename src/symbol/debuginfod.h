/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files and sources from debuginfod servers, only when the user allowed it. It uses elfutils'
 * client library, loaded on first use, so that it is an optional dependency. All downloads share
 * one deadline. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

struct debuginfod;

/* `urls` are separated by spaces. Sets environment variables: call it before there are threads. */
struct debuginfod *debuginfod_new(const char *urls, int timeout_ms);
void debuginfod_free(struct debuginfod *debuginfod);

/*
 * Downloads the debug file of a build-id, or finds it in the client's own cache, and sets `path`.
 * On failure `problem` stays empty when the servers merely do not have it; where they were not
 * asked again, because the client's cache keeps that answer, `hint` says what to remove.
 */
bool debuginfod_fetch(struct debuginfod *debuginfod, const char *build_id, struct buffer *path,
	struct buffer *problem, struct buffer *hint);

/* The same of a source file, by the absolute path that the debug information has. */
bool debuginfod_fetch_source(struct debuginfod *debuginfod, const char *build_id,
	const char *source, struct buffer *path, struct buffer *problem, struct buffer *hint);

/* Whether a server of this process failed or was too slow: it may answer another time. */
bool debuginfod_has_failed(void);
