/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts, made from the table of verbs: each shell's offers verbs, options, their
 * values, files and running targets. They are printed to standard output.
 */
#pragma once

void completion_print_bash(void);
void completion_print_zsh(void);
void completion_print_fish(void);
