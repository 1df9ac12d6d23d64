/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's figures of a process' memory, part by part, as in a bundle (docs/bundle.md): for a
 * process of this machine from /proc, for a gateway's target through the gateway.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "client/target.h"

enum kernel_part {
	KERNEL_SMAPS,
	KERNEL_MAPS,
	KERNEL_LIMITS,
	KERNEL_STATUS,
	KERNEL_CGROUP,	/* limits of a version 2 control group; empty when there is none */
	KERNEL_MACHINE, /* the release of the kernel and the kind of machine, a line each */
	KERNEL_PARTS,
};

/* Their names in a bundle and in URLs; ends with NULL. */
extern const char *const kernel_part_names[KERNEL_PARTS + 1];

/*
 * Appends the part of a target. ERROR_NOT_FOUND when it has ended, ERROR_UNSUPPORTED when
 * neither this process nor a gateway is on its machine; a gateway may be too old, or not allowed to
 * read.
 */
MUST_CHECK bool kernel_view_fetch(
	const struct target *target, enum kernel_part part, struct buffer *out, struct error *err);
