/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/memory_drift.h"

#include <math.h>

#include "analysis/significance.h"

bool memory_drift_find(const struct memory_point *points, size_t count, struct memory_drift *drift)
{
	if (count < MEMORY_DRIFT_POINTS_MIN)
		return false;
	const double hours = points[count - 1].hours - points[0].hours;
	const double rate = (points[count - 1].bytes - points[0].bytes) / hours;
	double squares = 0;

	for (size_t i = 1; i < count; i++) {
		const double step = points[i].hours - points[i - 1].hours;
		const double rest = points[i].bytes - points[i - 1].bytes - rate * step;
		if (!(step > 0))
			return false;
		squares += rest * rest / step;
	}
	/* As many increments as intervals, and one of them is spent on the rate. */
	const double freedom = (double)count - 2;
	const double error = sqrt(squares / freedom / hours);

	*drift = (struct memory_drift){
		.rate = rate,
		.low = rate - student_width95(freedom) * error,
		.high = rate + student_width95(freedom) * error,
		.p = error > 0	? student_tail(rate / error, freedom)
		     : rate > 0 ? 0
				: 1,
	};
	return true;
}
