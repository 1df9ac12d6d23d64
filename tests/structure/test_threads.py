#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The thread sanitizer runs every unit test whose program can begin a thread or handle a signal."""
import json
import os
import pathlib
import re
import subprocess
import unittest

BUILD = pathlib.Path(os.environ.get("HEAPCTL_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
CONCURRENT = re.compile(r"^(.+):\s+U (?:pthread_create|thrd_create|sigaction|MHD_start_daemon)(?:@|$)", re.M)
# Forks, and each child begins a thread, which the thread sanitizer does not survive.
EXCEPTIONS = {"memory_profile_messages"}


class Threads(unittest.TestCase):
    def test_the_suite_has_every_program_that_needs_it(self):
        tests = json.loads(subprocess.run(["meson", "introspect", "--tests", BUILD], check=True, capture_output=True, text=True).stdout)
        units = [test for test in tests if any(suite.endswith(":unit") for suite in test["suite"])]
        programs = {str(BUILD / word): test["name"] for test in units for word in test["cmd"]
                    if pathlib.Path(word).name.startswith(("test_", "fuzz_"))}
        self.assertGreater(len(programs), 80)
        names = subprocess.run(["nm", "--dynamic", "--undefined-only", "--print-file-name", *programs], check=True, capture_output=True,
                               text=True).stdout
        self.assertEqual({programs[program] for program in CONCURRENT.findall(names)} - EXCEPTIONS,
                         {test["name"] for test in units if any(suite.endswith(":threaded") for suite in test["suite"])})


if __name__ == "__main__":
    unittest.main()
