/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all processes of one name have in use, added up and rendered: a service of many workers as
 * one profile. A process that gives no profile is left out, and the render says so.
 */
#pragma once

#include "gateway/gateway.h"
#include "gateway/profile_render.h"
#include "gateway/request.h"

/*
 * Renders the profiles that the request's processes give now; `render` has no ids. Requests for the
 * same render at the same time share it; different ones wait for each other. Fails with the error
 * of the first process when none gives a profile. Drop the reference.
 */
MUST_CHECK bool merged_render_get(struct gateway *gateway, const struct request *request,
	const struct profile_render *render, struct blob **blob, struct error *err);
