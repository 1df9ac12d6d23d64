/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that contains libheapctl.a: starts the agent and stops it again. */
#include "heapctl.h"

__attribute__((visibility("default"))) int start_and_stop(void);

int start_and_stop(void)
{
	const int code = heapctl_start(NULL, NULL);

	heapctl_stop();
	return code;
}
