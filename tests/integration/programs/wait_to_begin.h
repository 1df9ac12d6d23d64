/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With WAIT_TO_BEGIN in its environment the program says "waits" and begins when it gets a line on
 * its standard input: until then the tests attach an agent.
 */
#pragma once

#include <stdlib.h>
#include <unistd.h>

static inline void wait_to_begin(void)
{
	char byte;

	if (getenv("WAIT_TO_BEGIN") == NULL)
		return;
	unsetenv("WAIT_TO_BEGIN");
	if (write(STDOUT_FILENO, "waits\n", 6) != 6 || read(STDIN_FILENO, &byte, 1) != 1)
		_exit(1);
}
