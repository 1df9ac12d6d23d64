/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/exponential.h"

#include <string.h>

/* xorshift64*, Vigna 2016; never 0. */
static uint64_t next_random(uint64_t *random)
{
	*random ^= *random >> 12;
	*random ^= *random << 25;
	*random ^= *random >> 27;
	return *random * UINT64_C(0x2545f4914f6cdd1d);
}

/*
 * The natural logarithm of a number in (0, 1], to 1e-9: 2 atanh((m - 1) / (m + 1)) of the mantissa
 * in [1/sqrt 2, sqrt 2), and the exponent. libm is no library of the agent's.
 */
static double logarithm(double number)
{
	uint64_t bits = 0;
	double mantissa = 0;

	memcpy(&bits, &number, sizeof bits);
	int exponent = (int)(bits >> 52) - 1023;
	bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
	memcpy(&mantissa, &bits, sizeof mantissa);
	if (mantissa > 1.4142135623730951) {
		mantissa /= 2;
		exponent++;
	}
	const double s = (mantissa - 1) / (mantissa + 1);
	const double q = s * s;
	double sum = 0;
	for (int k = 13; k >= 1; k -= 2)
		sum = sum * q + 1.0 / k;
	return 2 * s * sum + exponent * 0.69314718055994531;
}

uint64_t exponential_seed(uint64_t number)
{
	uint64_t random = number | 1;

	/* Seeds that differ in few bits differ in all after some steps. */
	for (int i = 0; i < 8; i++)
		next_random(&random);
	return random;
}

double exponential_draw(uint64_t *random)
{
	return -logarithm(((double)(next_random(random) >> 11) + 1) * 0x1p-53);
}

/* The series for an x below 1/64, then doubled as often. */
double exponential_share(double x)
{
	unsigned halvings = 0;
	double sum = 0;

	if (x > 40)
		return 1;
	for (; x >= 1.0 / 64; x /= 2)
		halvings++;
	for (int k = 6; k >= 1; k--)
		sum = x / k * (1 - sum);
	for (; halvings > 0; halvings--)
		sum *= 2 - sum;
	return sum;
}
