/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that contains libheapctl.a: starts the agent and stops it again. */
#include "heapctl.h"

__attribute__((visibility("default"))) int start_and_stop(void);
__attribute__((visibility("default"))) int sample_and_stop(void);

int start_and_stop(void)
{
	const int code = heapctl_start(NULL, NULL);

	heapctl_stop();
	return code;
}

int sample_and_stop(void)
{
	int code = heapctl_start(NULL, NULL);

	if (code == HEAPCTL_OK)
		code = heapctl_activate(NULL);
	heapctl_stop();
	return code;
}
