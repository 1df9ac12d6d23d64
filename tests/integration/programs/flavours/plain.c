/* SPDX-License-Identifier: Apache-2.0 */
/* The part in C of the symbolizer's test program; a nested function is gcc's own. */
extern volatile int plain_sink;
volatile int plain_sink;

static inline __attribute__((always_inline)) int plain_inline(int x)
{
	plain_sink = x;
	return plain_sink * 2;
}

static __attribute__((noinline)) int plain_static(int x)
{
	return plain_inline(x) + plain_inline(x + 1);
}

int plain_c(int x);

int plain_c(int x)
{
#ifdef __clang__
	return plain_static(x) + x;
#else
	__attribute__((noinline)) int nested(int y)
	{
		plain_sink = y + x;
		return plain_sink - x;
	}
	return plain_static(x) + nested(x);
#endif
}
