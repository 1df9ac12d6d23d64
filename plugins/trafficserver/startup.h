/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the agent inside Traffic Server, and telling the operator what will not work and why. */
#pragma once

#include "trafficserver/arguments.h"
#include "trafficserver/worker.h"

/* In TSPluginInit. What stands in the way is logged and, when nothing can work, in the worker. */
void startup(const struct arguments *arguments, struct worker *worker);
