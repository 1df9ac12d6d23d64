#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real program that begins to leak after ten minutes, has two steps of 1 MiB, and swings every four minutes while it leaks, followed by `heapctl
watch` and by `heapctl serve --history` at the same time: what the trend of each says. It fails when one is wrong.

BENCH_SECONDS (default 1200) sets the length; the onset is in the middle. BENCH_FOLDER keeps a picture of the gateway's page there.
"""
import os
import pathlib
import sys

os.environ.setdefault("HEAPCTL_BUILD", sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from deployed import DeployedCase  # noqa: E402
from processes import run_alone  # noqa: E402

PROFILES = 60


class Deployed(DeployedCase):
    is_told = True

    def runTest(self):
        self.follow(max(1, round(float(os.environ.get("BENCH_SECONDS", "1200")) / PROFILES)), PROFILES)
        print("\n" + self.text)


if __name__ == "__main__":
    sys.exit(run_alone(Deployed()))
