/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/significance.h"

#include <math.h>

/* The continued fraction of the incomplete beta function, by Lentz' method (DLMF 8.17.22). */
static double beta_fraction(double x, double a, double b)
{
	enum { MAX_STEPS = 500 };
	const double tiny = 1e-300, precision = 1e-14;
	double c = 1, d = 1 - (a + b) * x / (a + 1);

	d = 1 / (fabs(d) < tiny ? tiny : d);
	double value = d;
	for (int m = 1; m <= MAX_STEPS; m++) {
		const double n = m;
		const double steps[] = {
			n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n)),
			-(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1)),
		};
		double change = 1;
		for (int i = 0; i < 2; i++) {
			d = 1 + steps[i] * d;
			c = 1 + steps[i] / c;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = fabs(c) < tiny ? tiny : c;
			change = c * d;
			value *= change;
		}
		if (fabs(change - 1) < precision)
			break;
	}
	return value;
}

/* The regularized incomplete beta function. */
static double beta(double x, double a, double b)
{
	if (x <= 0 || x >= 1)
		return x >= 1;
	const double front =
		exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));

	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a
					 : 1 - front * beta_fraction(1 - x, b, a) / b;
}

double student_tail(double t, double degrees_of_freedom)
{
	if (isinf(t))
		return t < 0;
	const double x = degrees_of_freedom / (degrees_of_freedom + t * t);
	const double tail = beta(x, degrees_of_freedom / 2, 0.5) / 2;

	return t < 0 ? 1 - tail : tail;
}

double student_width95(double degrees_of_freedom)
{
	double low = 1.9, high = 13; /* of one degree it is 12.7 */

	while (high - low > 1e-9) {
		const double middle = (low + high) / 2;
		if (student_tail(middle, degrees_of_freedom) > 0.025)
			low = middle;
		else
			high = middle;
	}
	return high;
}

bool welch_test(const double means[2], const double variances[2], const double counts[2], double *t,
	double *degrees_of_freedom)
{
	const double variance = variances[0] + variances[1];

	if (counts[0] < 2 || counts[1] < 2)
		return false;
	if (variance <= 0) {
		*t = means[1] > means[0] ? INFINITY : means[1] < means[0] ? -INFINITY : 0;
		*degrees_of_freedom = counts[0] + counts[1] - 2;
		return true;
	}
	*t = (means[1] - means[0]) / sqrt(variance);
	*degrees_of_freedom = variance * variance /
			      (variances[0] * variances[0] / (counts[0] - 1) +
				      variances[1] * variances[1] / (counts[1] - 1));
	return true;
}

void holm_adjust(double *p, size_t count, size_t tests)
{
	double adjusted = 0;

	for (size_t i = 0; i < count; i++) {
		adjusted = fmax(adjusted, fmin(1, p[i] * (double)(tests - i)));
		p[i] = adjusted;
	}
}

double robust_freedom(double estimated, double known, double count)
{
	/* Of normal values; the standard deviation has 1 (Lax, 1985). */
	const double efficiency = 0.85;
	const double max = 10000; /* hardly different from a normal distribution */
	const double share = estimated / (estimated + known);

	return estimated > 0 ? fmin(max, efficiency * (count - 1) / (share * share)) : max;
}
