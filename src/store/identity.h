/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a snapshot is of: the service, its version, the host, and labels that users choose. Each
 * value is the first that was found, so sources are taken in the order of their weight: options,
 * then what is known of the process (watch/process_identity.h), then what a stored snapshot says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { IDENTITY_LABELS = 16 };

struct identity_label {
	char name[64];
	char value[256];
	const char *source;
};

/* Starts as { 0 }. */
struct snapshot_identity {
	char service[128], version[64], host[256]; /* "": not known */
	struct identity_label labels[IDENTITY_LABELS];
	size_t label_count;
	/* Where a value is from; NULL: not noted. */
	const char *service_source, *version_source, *host_source;
	const char *source; /* of what is set next: a literal, or NULL */
};

/*
 * Each sets what is not set yet. ERROR_USAGE for a name other than letters, digits and underscores,
 * and for a value that is empty, too long or not printable. The names service, version and host are
 * no labels but these.
 */
MUST_CHECK bool identity_set(
	struct snapshot_identity *identity, const char *name, const char *value, struct error *err);

/* "name=value". */
MUST_CHECK bool identity_set_label(
	struct snapshot_identity *identity, const char *label, struct error *err);

/* "service=api,version=1.4,zone=b", as HEAPCTL_LABELS has them. */
MUST_CHECK bool identity_set_labels(
	struct snapshot_identity *identity, const char *labels, struct error *err);

/* The same for a text that another program chose: what is not printable is replaced, "" ignored. */
void identity_set_found(struct snapshot_identity *identity, const char *name, const char *value);

/* The same for "zone=b,team=x". */
void identity_set_found_labels(struct snapshot_identity *identity, const char *labels);

/* "zone=b,team=x", without those that do not fit. */
void identity_join_labels(const struct snapshot_identity *identity, char *text, size_t size);
