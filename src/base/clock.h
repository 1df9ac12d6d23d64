/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is. Any thread, any place; nothing here fails on Linux. */
#pragma once

#include <stdint.h>

/* Since some moment in the past, never going back. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_ns(void);

/* The same, and the time that the machine slept counts. */
int64_t clock_boottime_ms(void);

/* Since 1970, as the machine's clock has it. */
int64_t clock_realtime_ms(void);
