/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin reports to the operator: one line each in Traffic Server's diags.log, failures as
 * errors. Any thread.
 */
#pragma once

#include "heapctl.h"

/* The tag of messages to this plugin, and the first part of its metrics' names. */
#define PLUGIN_TAG "memory_profile"

#define REPORT_PRINTF __attribute__((format(printf, 1, 2)))

void report_done(const char *format, ...) REPORT_PRINTF;
void report_warning(const char *format, ...) REPORT_PRINTF;
void report_failure(const char *format, ...) REPORT_PRINTF;

/* "WHAT: message (hint)", as a failure. */
void report_error(const char *what, const struct heapctl_error *err);

/* A log callback for heapctl_start. */
void report_agent(void *context, int level, const char *message);
