/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TARGET, as people type it: a pid, the name of a process, that name of one user (NAME@USER), the
 * path of an agent's socket, or the URL of a gateway (http://host:port,
 * http://host:port/targets/NAME).
 */
#pragma once

#include "client/target.h"
#include "client/target_tree_text.h"

/*
 * Finds the target and checks that its agent listens there. ERROR_NOT_FOUND when there is none
 * or it has no agent, ERROR_USAGE when the name is ambiguous, ERROR_DENIED. Wakes an agent that is
 * there on demand.
 */
MUST_CHECK bool target_resolve(const char *text, struct target *target, struct error *err);

/*
 * The same; of the processes that have the name, those of that user alone (base/user_name.h).
 * NAME@USER says so in the text, which then counts. Other operands are accepted from any owner.
 */
MUST_CHECK bool target_resolve_of(
	const char *text, uid_t owner, struct target *target, struct error *err);

/*
 * The caller's own user where a process of that user is called so, whether it can be reached or
 * not: what follows a name from now on must not begin with another user's process. Else USER_ANY.
 */
uid_t target_trusted_owner(const char *name);
