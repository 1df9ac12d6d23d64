/* SPDX-License-Identifier: Apache-2.0 */
/* Heapctl under jeprof's name. */
#pragma once

/* The same program, with jeprof's command line and habits. Returns the exit code. */
int jeprof_main(int argc, char **argv);
