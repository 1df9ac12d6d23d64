/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile is of, for a fleet: the service, its version, the host, and labels that users
 * choose. Each value is the first that was found, so sources are taken in the order of their
 * weight: options, then HEAPCTL_LABELS of the process, then what the snapshot or the process says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { IDENTITY_LABELS = 16 };

struct fleet_label {
	char name[64];
	char value[256];
};

/* Starts as { 0 }. */
struct fleet_identity {
	char service[128], version[64], host[256]; /* "": not known */
	struct fleet_label labels[IDENTITY_LABELS];
	size_t label_count;
};

/*
 * Each sets what is not set yet. ERROR_USAGE for a name other than letters, digits and underscores,
 * and for a value that is empty, too long or not printable. The names service, version and host are
 * no labels but these.
 */
MUST_CHECK bool identity_set(
	struct fleet_identity *identity, const char *name, const char *value, struct error *err);

/* "name=value". */
MUST_CHECK bool identity_set_label(
	struct fleet_identity *identity, const char *label, struct error *err);

/* "service=api,version=1.4,zone=b", as HEAPCTL_LABELS has them. */
MUST_CHECK bool identity_set_labels(
	struct fleet_identity *identity, const char *labels, struct error *err);

/* The same for a text that another program chose: what is not printable is replaced, "" ignored. */
void identity_set_found(struct fleet_identity *identity, const char *name, const char *value);
