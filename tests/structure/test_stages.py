#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test with a stand-in for make: which stages run, side by side or alone, and what is counted."""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGES = ["plain", "check-asan", "check-tsan", "fuzz", "lint"]
LIMIT_S = 60
# Notes when a stage begins and ends. What the test writes into PLAN runs in between.
MAKE = """#!/bin/bash
for word in "$@"; do
    case $word in check) stage=plain ;; check-*|fuzz|lint|all) stage=$word ;; esac
done
echo "begin $stage" >>events
wait_for() { until grep -qx "$1" events; do sleep 0.02; done; }
case $stage in check-*|plain)
    echo "{\\"stage\\": \\"$TEST_STAGE\\", \\"file\\": \\"f\\", \\"case\\": \\"c\\", \\"status\\": \\"passed\\", \\"reason\\": null, \\"ms\\": 1}" >>"$TEST_RESULTS" ;;
esac
echo "output of $stage"
. ./plan
echo "end $stage" >>events
exit "${status:-0}"
"""


class Stages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "scripts").mkdir()
        (self.folder / "tests/support").mkdir(parents=True)
        for name in ("scripts/test", "scripts/test-results", "tests/support/permitted_skips.txt"):
            (self.folder / name).write_bytes((ROOT / name).read_bytes())
            (self.folder / name).chmod(0o755)
        self.program("bin/make", MAKE)
        self.program("scripts/build-tree", '#!/bin/sh\necho "tree $1" >>events\n')
        self.plan("")

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def plan(self, text):
        (self.folder / "plan").write_text(text)

    def begin(self, test="", **variables):
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}", **variables)
        for name in ("TEST_RESULTS", "TEST_STAGE", "TEST_KEEP", "TEST_LIST"):
            if name not in variables:
                environment.pop(name, None)
        return subprocess.Popen(["scripts/test", "build", test], cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def run_all(self, test="", **variables):
        with self.begin(test, **variables) as process:
            output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output

    def events(self):
        path = self.folder / "events"
        return path.read_text().splitlines() if path.exists() else []

    def test_every_stage_runs_once_and_is_shown_and_counted(self):
        status, output = self.run_all(TEST_KEEP="kept")
        self.assertEqual(status, 0, output)
        for stage in STAGES:
            self.assertEqual(self.events().count(f"end {stage}"), 1, stage)
            self.assertEqual(output.count(f"output of {stage}\n"), 1, output)
        self.assertEqual([f"tree {name}" for name in ("asan", "tsan", "fuzz")],
                         [line for line in self.events() if line.startswith("tree")])
        self.assertTrue(output.endswith("5 passed, 0 failed, 0 skipped\n"), output)
        self.assertEqual(len((self.folder / "kept").read_text().splitlines()), 5)
        table = output.split("their processor time:\n")[1].splitlines()[:5]
        self.assertEqual([line.split(maxsplit=2)[2] for line in table],
                         ["plain", "address and undefined behaviour sanitizers, by clang", "thread sanitizer", "fuzzing", "lint"])

    def test_thread_sanitizer_and_fuzzing_run_beside_address_sanitizer(self):
        self.plan('[ "$stage" != check-asan ] || { wait_for "end check-tsan"; wait_for "end fuzz"; }\n')
        status, output = self.run_all()
        self.assertEqual(status, 0, output)
        for stage in ("check-asan", "fuzz"):
            self.assertGreater(self.events().index(f"begin {stage}"), self.events().index("end plain"))

    def test_lint_begins_while_the_plain_tests_run_and_after_the_build(self):
        self.plan('[ "$stage" != plain ] || wait_for "begin lint"\n')
        status, output = self.run_all()
        self.assertEqual(status, 0, output)
        self.assertGreater(self.events().index("begin lint"), self.events().index("end all"))

    def test_stage_that_fails_without_a_failed_case_is_one(self):
        for stage in STAGES:
            with self.subTest(stage):
                self.plan(f'[ "$stage" != {stage} ] || status=3\n')
                status, output = self.run_all()
                self.assertEqual(status, 1, output)
                self.assertIn("exit status 3", output)
                self.assertIn(" 1 failed, 0 skipped", output)

    def test_one_test_runs_in_the_plain_build_alone(self):
        status, output = self.run_all("heap_v2")
        self.assertEqual(status, 0, output)
        self.assertEqual(self.events(), ["begin plain", "end plain"])

    def test_what_runs_is_ended_with_it(self):
        self.plan('[ "$stage" != plain ] || { echo $$ >pid; exec sleep 1000; }\n')
        with self.begin() as process:
            deadline = time.monotonic() + LIMIT_S
            while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text().endswith("\n"):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            pid = int((self.folder / "pid").read_text())
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_S)
        while pathlib.Path(f"/proc/{pid}/stat").exists() and ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main()
