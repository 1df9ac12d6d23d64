/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of jeprof's mode: commands on loaded profiles, until "quit" or the end of the input. */
#pragma once

#include "cli/report_session.h"

void report_shell_run(const struct report_session *session);
