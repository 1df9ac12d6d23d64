/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the profiles of a report have the figures that its options ask for. */
#pragma once

#include "base/error.h"
#include "cli/report_session.h"

/* ERROR_USAGE for a unit, a mean, shares or a division that these figures do not have. */
MUST_CHECK bool report_figures_check(const struct report_session *session, struct error *err);
