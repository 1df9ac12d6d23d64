# SPDX-License-Identifier: Apache-2.0
"""Bounds for what is sampled: a number lies beyond one by chance in less than one run of a billion (RISK).

A test that compares a sampled number with a fixed one says how the number is distributed, and takes its bound from here:

    self.assertGreaterEqual(stacks, fewest(300, sampled_share(8192, 4096)))
"""
import math

RISK = 1e-9
# A normal variable is farther from its mean than so many standard deviations in RISK of all cases, both sides together.
NORMAL_DEVIATIONS = 6.11


def sampled_share(size_bytes, interval_bytes):
    """The chance that jemalloc samples an allocation of that usable size: samples are interval_bytes apart on average, anywhere."""
    return -math.expm1(-size_bytes / interval_bytes)


def binomial(count, share, successes):
    """The chance of exactly so many successes."""
    if share in (0, 1):
        return float(successes == count * share)
    return math.exp(math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
                    + successes * math.log(share) + (count - successes) * math.log1p(-share))


def fewest(count, share):
    """Fewer of `count` independent trials succeed with a chance below RISK."""
    below, least = 0.0, 0
    while least < count:
        below += binomial(count, share, least)
        if below >= RISK:
            break
        least += 1
    return least


def most(count, share):
    """More of `count` independent trials succeed with a chance below RISK."""
    return count - fewest(count, 1 - share)


def estimate_deviation(count, size_bytes, interval_bytes):
    """The standard deviation of the estimate, in bytes, of `count` live objects of one size: each counts with chance p, for 1/p."""
    share = sampled_share(size_bytes, interval_bytes)
    return size_bytes * math.sqrt(count * (1 - share) / share)


def estimate_bounds(count, size_bytes, interval_bytes):
    """(low, high): the estimate of so many live objects lies outside with a chance below twice RISK."""
    share = sampled_share(size_bytes, interval_bytes)
    return tuple(size_bytes * objects / share for objects in (fewest(count, share), most(count, share)))


def median_interval(values, risk=0.05):
    """(low, high): holds the median of what the values are drawn from, independently, but for the risk (sign test)."""
    ordered = sorted(values)
    outside, below = 0, binomial(len(ordered), 0.5, 0)
    while 2 * below <= risk and 2 * (outside + 1) < len(ordered):
        outside += 1
        below += binomial(len(ordered), 0.5, outside)
    return ordered[max(0, outside - 1)], ordered[len(ordered) - max(1, outside)]
