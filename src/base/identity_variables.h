/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of the environment that say what a process is of: HEAPCTL_LABELS, and what Kubernetes'
 * downward API is usually given, as its documentation and common charts call it. The agent keeps
 * them from the start of the process (agent/settings.h), which may write its title over its
 * environment; watch/process_identity.h reads them.
 */
#pragma once

#include <stddef.h>

#define IDENTITY_LABELS_VARIABLE "HEAPCTL_LABELS"
/* Is set in every container of a pod; the other names may mean anything elsewhere. */
#define IDENTITY_POD_VARIABLE "KUBERNETES_SERVICE_HOST"

static const struct identity_variable {
	const char *variable, *label;
} identity_variables[] = {
	{ "POD_NAME", "pod" },
	{ "MY_POD_NAME", "pod" },
	{ "K8S_POD_NAME", "pod" },
	{ "POD_NAMESPACE", "namespace" },
	{ "MY_POD_NAMESPACE", "namespace" },
	{ "K8S_NAMESPACE", "namespace" },
	{ "CONTAINER_NAME", "container" },
	{ "MY_CONTAINER_NAME", "container" },
	{ "NODE_NAME", "host" },
	{ "MY_NODE_NAME", "host" },
	{ "K8S_NODE_NAME", "host" },
	/* Without any of these a pod's host name is its own. */
	{ "HOSTNAME", "pod" },
};

enum { IDENTITY_VARIABLES = sizeof identity_variables / sizeof identity_variables[0] };
