/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of the samples of a difference when equal ones, of what is looked at and of what is
 * subtracted, are put together. Only then may they be rounded: each on its own would leave a byte
 * of difference where nothing changed.
 */
#pragma once

#include "profile/profile.h"

/*
 * Samples of equal stack, thread and size of objects become one, and those without a value are
 * removed. With `drop_negative` samples of equal stack and thread become one, and values below
 * zero are zero. Samples are ordered by stack afterwards.
 */
void net_samples(struct profile *profile, bool drop_negative);
