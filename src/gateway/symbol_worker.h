/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the worker process does for /pprof/symbol: reads mappings as in /proc/PID/maps, an empty
 * line and one address in each line, and writes "0xADDRESS<tab>INNER--OUTER" for each that has a
 * name. Addresses are looked up as they are: the protocol's clients step back by themselves.
 */
#pragma once

#include "base/error.h"

/* Reads descriptor `in` to its end, then writes to `out`. */
MUST_CHECK bool symbol_worker_run(int in, int out, struct error *err);
