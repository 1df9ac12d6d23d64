/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format 0.0.4 and OpenMetrics 1.0 (the same data, another ending and other names
 * for counters): one family after the other, as both demand.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum exposition_type {
	EXPOSITION_GAUGE,
	EXPOSITION_COUNTER,
};

struct exposition {
	struct buffer *out;
	bool is_openmetrics;
	const char *family;
	enum exposition_type type;
};

void exposition_init(struct exposition *exposition, struct buffer *out, bool is_openmetrics);

/* The media type of what is written. */
const char *exposition_media_type(const struct exposition *exposition);

/* Begins a family; `name` without "_total". Samples of it follow. */
void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type,
	const char *help);

/* `labels` are written already (exposition_label); "" for none. */
void exposition_sample(struct exposition *exposition, const char *labels, double value);

void exposition_end(struct exposition *exposition);

/* Appends `name="value"` with a comma in front when something is there already. */
void exposition_label(struct buffer *labels, const char *name, const char *value);
