#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bounds that tests take from tests/support/chance.py have the stated risk, and are no wider than necessary."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import chance  # noqa: E402


def at_most(count, share, successes):
    return sum(chance.binomial(count, share, k) for k in range(successes + 1))


class Bounds(unittest.TestCase):
    def test_a_distribution_sums_up_to_one(self):
        for count, share in ((1, 0.5), (300, 0.86), (40, 0.05), (10, 0), (10, 1)):
            self.assertAlmostEqual(at_most(count, share, count), 1, places=9)

    def test_fewer_than_the_minimum_is_rarer_than_the_risk(self):
        for count, share in ((300, 0.8647), (40, 0.95), (500, 0.95), (60000, 0.12)):
            least = chance.fewest(count, share)
            self.assertLess(at_most(count, share, least - 1), chance.RISK)
            self.assertGreaterEqual(at_most(count, share, least), chance.RISK)

    def test_more_than_the_maximum_is_rarer_than_the_risk(self):
        for count, share in ((40, 0.05), (500, 0.95), (300, 0.1)):
            most = chance.most(count, share)
            self.assertLess(1 - at_most(count, share, most), chance.RISK * 1.01)
            self.assertGreaterEqual(1 - at_most(count, share, most - 1), chance.RISK)

    def test_few_trials_have_no_bound(self):
        self.assertEqual((chance.fewest(10, 0.5), chance.most(10, 0.5)), (0, 10))

    def test_a_median_lies_in_its_interval_as_often_as_stated(self):
        for count, outside in ((6, 0), (12, 2), (20, 5)):
            low, high = chance.median_interval(range(count))
            self.assertEqual((low, high), (outside, count - 1 - outside))
            self.assertLessEqual(2 * at_most(count, 0.5, outside), 0.05)
            self.assertGreater(2 * at_most(count, 0.5, outside + 1), 0.05)

    def test_an_estimate_is_about_the_truth(self):
        low, high = chance.estimate_bounds(20000, 512, 4096)
        self.assertLess(low, 20000 * 512)
        self.assertGreater(high, 20000 * 512)
        self.assertAlmostEqual((high - low) / 2 / chance.estimate_deviation(20000, 512, 4096), 6, delta=0.2)


if __name__ == "__main__":
    unittest.main()
