/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a flame graph or a difference of a fleet is drawn from, and the same as JSON: the gateway
 * asks the database once and draws the answer many times.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "fleet/findings.h"

struct fleet_picture {
	struct fleet_findings now, base;
	bool is_difference; /* from base to now */
	bool has_services;  /* the service is the root of each stack */
	const char *title, *subtitle;
};

void fleet_picture_init(struct fleet_picture *picture);
void fleet_picture_deinit(struct fleet_picture *picture);

/* Copies both texts. */
void fleet_picture_set_texts(
	struct fleet_picture *picture, const char *title, const char *subtitle);

void fleet_picture_write(const struct fleet_picture *picture, struct buffer *out);

/* Into one that was initialised. ERROR_INPUT for anything that was not written by the above. */
MUST_CHECK bool fleet_picture_read(
	const char *text, size_t size, struct fleet_picture *picture, struct error *err);
