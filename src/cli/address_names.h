/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --symbols: names for addresses. Standard input has mappings as in /proc/PID/maps and hexadecimal
 * addresses ("0x..."), one on a line; a name is printed for each address, "??" where none is known.
 */
#pragma once

#include "cli/report_options.h"

MUST_CHECK bool address_names_print(const struct report_options *options, struct error *err);
