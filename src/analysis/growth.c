/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/growth_series.h"
#include "analysis/growth_shape.h"
#include "base/xalloc.h"

/* Ratios w of the walk to the independent part, for one interval; the last is "only the walk". */
static const double ratios[] = { 0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 1e4 };
enum { RATIOS = sizeof ratios / sizeof ratios[0] };

/* What full replacement weighs beforehand, against 1 of each other member. */
static const double independent_weight = 10;

/* What the walk alone weighs where the variance rises: what was there at the start may stay, too.
 */
static const double lasting_weight = 10;

/* What the prior of the scale weighs, in observations. */
static const double prior_weight = 1;

/* One member of the mixture. */
struct member {
	double rate;
	double scale; /* standard error of the rate */
	double log_likelihood;
	double weight;
};

struct mixture {
	struct member members[RATIOS];
	double degrees;
};

/* Sums of products, with the inverse covariance between, of one run: 1, t and y. */
struct products {
	double oo, ot, oy, tt, ty, yy;
	double log_determinant;
};

/*
 * Cholesky's decomposition of the covariance in place; then 1, t and y are solved for alongside
 * and multiplied. The lower triangle of the matrix is in rows of GROWTH_POINTS.
 */
static struct products multiply(const struct series_point *points, size_t count, double ratio,
	double step, double lower[GROWTH_POINTS][GROWTH_POINTS])
{
	struct products sums = { 0 };
	double o[GROWTH_POINTS], t[GROWTH_POINTS], y[GROWTH_POINTS];

	for (size_t i = 0; i < count; i++) {
		o[i] = 1;
		t[i] = points[i].hours - points[0].hours;
		y[i] = points[i].value - points[0].value;
		for (size_t j = 0; j <= i; j++) {
			double sum = ratio * (points[j].hours - points[0].hours) / step;
			if (i == j)
				sum += points[i].weight;
			for (size_t k = 0; k < j; k++)
				sum -= lower[i][k] * lower[j][k];
			lower[i][j] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / lower[j][j];
		}
		for (size_t k = 0; k < i; k++) {
			o[i] -= lower[i][k] * o[k];
			t[i] -= lower[i][k] * t[k];
			y[i] -= lower[i][k] * y[k];
		}
		o[i] /= lower[i][i];
		t[i] /= lower[i][i];
		y[i] /= lower[i][i];
		sums.log_determinant += 2 * log(lower[i][i]);
		sums.oo += o[i] * o[i];
		sums.ot += o[i] * t[i];
		sums.oy += o[i] * y[i];
		sums.tt += t[i] * t[i];
		sums.ty += t[i] * y[i];
		sums.yy += y[i] * y[i];
	}
	return sums;
}

/* Fits all runs with one rate; what the run's own level explains is taken out run by run. */
static struct member fit_member(const struct series *series, double ratio, double *degrees)
{
	double lower[GROWTH_POINTS][GROWTH_POINTS];
	double tt = 0, ty = 0, yy = 0, logs = 0;
	size_t used = 0, runs = 0;

	for (size_t first = 0; first < series->count;) {
		const size_t end = series_run_end(series, first);
		if (end - first >= 2) {
			const struct products p = multiply(series->points + first, end - first,
				ratio, series->step_hours, lower);
			tt += p.tt - p.ot * p.ot / p.oo;
			ty += p.ty - p.ot * p.oy / p.oo;
			yy += p.yy - p.oy * p.oy / p.oo;
			logs += p.log_determinant + log(p.oo);
			used += end - first;
			runs++;
		}
		first = end;
	}
	const double rate = ty / tt;
	const double residual = fmax(yy - ty * rate, 0);
	const double prior = series->variance / (1 + ratio * (double)used / 2);
	*degrees = (double)(used - runs) - 1 + prior_weight;
	const double scale = (prior_weight * prior + residual) / *degrees;
	return (struct member){
		.rate = rate,
		.scale = sqrt(scale / tt),
		.log_likelihood = -0.5 * (logs + log(tt)) + 0.5 * prior_weight * log(prior) -
				  0.5 * *degrees * log(prior_weight * prior + residual),
	};
}

/*
 * What a member weighs beforehand. Those below the least ratio are no choice any more: the last of
 * them stands for the least ratio itself. A least ratio that is as good as 0 changes nothing.
 */
static double prior_of(const struct series *series, size_t member)
{
	const double negligible = 0.05;

	if (series->least_ratio < negligible)
		return member == 0 ? independent_weight : 1;
	if (member + 1 == RATIOS)
		return lasting_weight;
	return ratios[member + 1] <= series->least_ratio ? 0 : 1;
}

static struct mixture fit_mixture(const struct series *series)
{
	struct mixture mixture = { 0 };
	double best = -INFINITY, sum = 0;

	for (size_t i = 0; i < RATIOS; i++) {
		const double ratio = fmax(ratios[i], series->least_ratio);
		mixture.members[i] = fit_member(series, ratio, &mixture.degrees);
		mixture.members[i].log_likelihood += log(prior_of(series, i));
		best = fmax(best, mixture.members[i].log_likelihood);
	}
	for (size_t i = 0; i < RATIOS; i++) {
		mixture.members[i].weight = exp(mixture.members[i].log_likelihood - best);
		sum += mixture.members[i].weight;
	}
	for (size_t i = 0; i < RATIOS; i++)
		mixture.members[i].weight /= sum;
	return mixture;
}

/* The continued fraction of the incomplete beta function (Lentz' method). */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1);

	d = 1 / (fabs(d) < tiny ? tiny : d);
	double value = d;
	for (int m = 1; m < 300; m++) {
		const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		const double factors[] = { even, odd };
		double change = 1;
		for (int i = 0; i < 2; i++) {
			d = 1 + factors[i] * d;
			c = 1 + factors[i] / c;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = fabs(c) < tiny ? tiny : c;
			change = d * c;
			value *= change;
		}
		if (fabs(change - 1) < 1e-14)
			break;
	}
	return value;
}

static double beta_regular(double a, double b, double x)
{
	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	const double front =
		exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));

	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
					 : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_cdf(double t, double degrees)
{
	const double tail = 0.5 * beta_regular(degrees / 2, 0.5, degrees / (degrees + t * t));

	return t < 0 ? tail : 1 - tail;
}

/* The probability that the rate is at most this. */
static double mixture_cdf(const struct mixture *mixture, double rate)
{
	double sum = 0;

	for (size_t i = 0; i < RATIOS; i++) {
		const struct member *const m = &mixture->members[i];
		if (m->weight > 1e-12)
			sum += m->weight *
			       student_cdf((rate - m->rate) / m->scale, mixture->degrees);
	}
	return sum;
}

static double mixture_rate(const struct mixture *mixture)
{
	double sum = 0;

	for (size_t i = 0; i < RATIOS; i++)
		sum += mixture->members[i].weight * mixture->members[i].rate;
	return sum;
}

/* Where the distribution function reaches `share`, between bounds that are widened first. */
static double mixture_quantile(const struct mixture *mixture, double share)
{
	double width = 0;

	for (size_t i = 0; i < RATIOS; i++)
		width = fmax(width, mixture->members[i].scale);
	double low = mixture_rate(mixture) - width, high = mixture_rate(mixture) + width;
	for (int i = 0; i < 60 && mixture_cdf(mixture, low) > share; i++)
		low -= width *= 2;
	for (int i = 0; i < 60 && mixture_cdf(mixture, high) < share; i++)
		high += width *= 2;
	for (int i = 0; i < 60 && high - low > 1e-9 * (fabs(low) + fabs(high)); i++) {
		const double middle = (low + high) / 2;
		if (mixture_cdf(mixture, middle) < share)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

static void count_rises(const struct series *series, struct growth *growth)
{
	for (size_t i = 1; i < series->count; i++) {
		if (series->points[i].run != series->points[i - 1].run)
			continue;
		growth->intervals++;
		growth->rises += series->points[i].value > series->points[i - 1].value;
	}
}

static void name_kind(const struct series *series, struct growth *growth)
{
	const struct growth_shape shape = growth_shape_of(series);
	const double level = 0.05;

	if (shape.is_jump) {
		growth->kind = GROWTH_JUMP;
		growth->jump = shape.jump;
		growth->jump_hours = shape.jump_hours;
		return;
	}
	growth->period_hours = shape.period_hours;
	if (growth->p < level && (shape.period_hours == 0 || shape.outgrows_swings))
		growth->kind = GROWTH_STEADY;
	else if (shape.period_hours > 0)
		growth->kind = GROWTH_CYCLE;
	else if (growth->p > 1 - level)
		growth->kind = GROWTH_FALL;
}

bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret)
{
	struct series series;

	if (!series_make(points, count, &series))
		return false;
	const struct mixture mixture = fit_mixture(&series);
	struct growth growth = {
		.rate = mixture_rate(&mixture),
		.low = mixture_quantile(&mixture, 0.025),
		.high = mixture_quantile(&mixture, 0.975),
		.p = mixture_cdf(&mixture, 0),
	};
	count_rises(&series, &growth);
	name_kind(&series, &growth);
	*ret = growth;
	return true;
}
