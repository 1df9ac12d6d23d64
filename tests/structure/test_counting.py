#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make test` counts: tests/support/case_runner.py under meson, then scripts/test-results, on files that pass, fail, skip,
crash and hang."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests/support/case_runner.py"
RESULTS = ROOT / "scripts/test-results"

PYTHON = {
    "passes": "class A(unittest.TestCase):\n"
              "    def test_one(self): print('ok 7 - this is no result')\n"
              "    def test_two(self): pass\n",
    "fails": "class A(unittest.TestCase):\n"
             "    def test_bad(self): self.assertEqual('this', 'that')\n"
             "    def test_part(self):\n"
             "        for n in range(3):\n"
             "            with self.subTest(n=n): self.assertLess(n, 1)\n"
             "    def test_after(self): pass\n",
    "computes": "import subprocess\nimport sys\n"
                "def compute(): return subprocess.run([sys.executable, '-c', 'sum(range(10000000))'])\n"
                "class A(unittest.TestCase):\n"
                "    @classmethod\n"
                "    def setUpClass(cls): compute()\n"
                "    def test_one(self): pass\n"
                "    def test_two(self): pass\n",
    "skips": "class A(unittest.TestCase):\n"
             "    @unittest.skip('needs root')\n"
             "    def test_one(self): pass\n"
             "    def test_two(self): self.skipTest('zzip is not installed')\n"
             "    def test_three(self):\n"
             "        with self.subTest('half'): self.skipTest('needs root too')\n"
             "class B(unittest.TestCase):\n"
             "    @classmethod\n"
             "    def setUpClass(cls): raise unittest.SkipTest('needs root')\n"
             "    def test_four(self): pass\n"
             "    def test_five(self): pass\n",
    "module_skips": "def setUpModule(): raise unittest.SkipTest('needs root')\n"
                    "class A(unittest.TestCase):\n"
                    "    def test_one(self): pass\n"
                    "    def test_two(self): pass\n",
    "class_breaks": "class A(unittest.TestCase):\n"
                    "    @classmethod\n"
                    "    def setUpClass(cls): raise ValueError('broken')\n"
                    "    def test_one(self): pass\n",
    "exits": "class A(unittest.TestCase):\n"
             "    def test_a(self): pass\n"
             "    def test_b(self): os._exit(0)\n"
             "    def test_c(self): pass\n",
    "crashes": "class A(unittest.TestCase):\n"
               "    def test_a(self): pass\n"
               "    def test_b(self): os.kill(os.getpid(), 11)\n",
    "hangs": "class A(unittest.TestCase):\n"
             "    def test_a(self): pass\n"
             "    def test_b(self): signal.pause()\n",
    "does_not_load": "import no_such_module\n",
}
# What cmocka prints with CMOCKA_MESSAGE_OUTPUT=TAP.
CMOCKA = {
    "c_passes": "echo 1..2; echo 'ok 1 - a'; echo 'ok 2 - b'; echo '# ok - tests'",
    "c_fails": "echo 1..2; echo 'not ok 1 - a'; echo '# 1 != 2'; echo '# test.c:6: error: Failure!'; echo 'ok 2 - b'; echo '# not ok - tests'; exit 1",
    "c_computes": "echo 1..2; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo 'ok 1 - a'; echo 'ok 2 - b'",
    "c_skips": "echo 1..2; echo '# skip: needs root'; echo 'not ok 1 # SKIP a'; echo 'ok 2 - b'",
    "c_crashes": "echo 1..3; echo 'ok 1 - a'; echo AddressSanitizer >&2; kill -ABRT $$",
    "c_exits": "echo 1..2; echo 'ok 1 - a'; exit 0",
    "c_leaks": "echo 1..1; echo 'ok 1 - a'; echo LeakSanitizer >&2; exit 23",
    "c_hangs": "echo 1..3; echo 'ok 1 - a'; echo 'ok 2 - b'; exec sleep 1000",
}
# Ended as a time-out of meson ends them, as soon as this is printed.
HANG = {"hangs": "# begin A.test_b\n", "c_hangs": "# begin case 3"}
EXPECTED = {
    "passes": {"A.test_one": "passed", "A.test_two": "passed"},
    "fails": {"A.test_bad": "failed", "A.test_part": "failed", "A.test_after": "passed"},
    "computes": {"A.test_one": "passed", "A.test_two": "passed"},
    "skips": {"A.test_one": "skipped", "A.test_two": "skipped", "A.test_three": "passed", "A.test_three [half]": "skipped",
              "B.test_four": "skipped", "B.test_five": "skipped"},
    "module_skips": {"A.test_one": "skipped", "A.test_two": "skipped"},
    "class_breaks": {"setUpClass (test_class_breaks.A)": "failed", "A.test_one": "failed"},
    "exits": {"A.test_a": "passed", "A.test_b": "failed"},
    "crashes": {"A.test_a": "passed", "A.test_b": "failed"},
    "hangs": {"A.test_a": "passed", "A.test_b": "failed"},
    "does_not_load": {"(whole file)": "failed"},
    "c_passes": {"a": "passed", "b": "passed"},
    "c_fails": {"a": "failed", "b": "passed"},
    "c_computes": {"a": "passed", "b": "passed"},
    "c_skips": {"a": "skipped", "b": "passed"},
    "c_crashes": {"a": "passed", "(crash)": "failed"},
    "c_exits": {"a": "passed", "(crash)": "failed"},
    "c_leaks": {"a": "passed", "(exit)": "failed"},
    "c_hangs": {"a": "passed", "b": "passed", "case 3 of 3, the one after b": "failed"},
    "program": {"(whole file)": "passed"},
    "program_fails": {"(whole file)": "failed"},
}


def summary(records, *options):
    result = subprocess.run([RESULTS, "summary", *options], input="".join(json.dumps(record) + "\n" for record in records),
                            capture_output=True, text=True)
    return result.returncode, result.stdout


class Counting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            lines = ["project('counted')"]
            for name, text in PYTHON.items():
                (folder / f"test_{name}.py").write_text("import os\nimport signal\nimport unittest\n" + text)
            for name, text in CMOCKA.items():
                path = folder / f"test_{name}"
                path.write_text("#!/bin/sh\n" + text + "\n")
                path.chmod(path.stat().st_mode | stat.S_IXUSR)
            for name in [f"{name}.py" for name in PYTHON] + list(CMOCKA):
                if name.removesuffix(".py") not in HANG:
                    lines.append(f"test('{name.removesuffix('.py')}', find_program('{sys.executable}'), protocol: 'tap', timeout: 0, "
                                 f"args: ['{RUNNER}', files('test_{name}')])")
            lines += [f"test('{name}', find_program('{program}'))" for name, program in (("program", "true"), ("program_fails", "false"))]
            (folder / "meson.build").write_text("\n".join(lines) + "\n")
            environment = {key: value for key, value in os.environ.items() if not key.startswith("MESON")}
            subprocess.run(["meson", "setup", folder / "build", folder], check=True, capture_output=True, env=environment)
            subprocess.run(["meson", "test", "-C", folder / "build", "--num-processes", "8"], capture_output=True, env=environment)
            log = folder / "build/meson-logs/testlog.json"
            with open(log, "a") as stream:
                for name, last in HANG.items():
                    path = folder / (f"test_{name}.py" if name in PYTHON else f"test_{name}")
                    stream.write(json.dumps(cls.timed_out(name, path, last)) + "\n")
            lines = subprocess.run([RESULTS, "collect", "stage", log], check=True,
                                   capture_output=True, text=True).stdout.splitlines()
        cls.records = [json.loads(line) for line in lines]

    @staticmethod
    def timed_out(name, path, last):
        """meson's record of a run that is ended when it has printed `last`."""
        with subprocess.Popen([sys.executable, RUNNER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            output = ""
            while last not in output:
                line = process.stdout.readline()
                if not line:
                    raise AssertionError(f"{name} did not hang: {output}")
                output += line
            process.terminate()
            rest, errors = process.communicate()
        return {"name": f"x / {name}", "stdout": output + rest, "stderr": errors, "result": "TIMEOUT", "duration": 3.0,
                "returncode": process.returncode}

    def record(self, file, case):
        (record,) = [record for record in self.records if (record["file"], record["case"]) == (file, case)]
        return record

    def reason(self, file, case):
        return self.record(file, case)["reason"]

    def test_every_case_is_counted_once_with_its_result(self):
        got = {}
        for record in self.records:
            self.assertNotIn(record["case"], got.setdefault(record["file"], {}))
            got[record["file"]][record["case"]] = record["status"]
        self.assertEqual(got, EXPECTED)

    def test_a_failure_says_why(self):
        self.assertIn("'this' != 'that'", self.reason("fails", "A.test_bad"))
        self.assertIn("(n=2)", self.reason("fails", "A.test_part"))
        self.assertIn("broken", self.reason("class_breaks", "setUpClass (test_class_breaks.A)"))
        self.assertIn("no_such_module", self.reason("does_not_load", "(whole file)"))
        self.assertIn("1 != 2\ntest.c:6", self.reason("c_fails", "a"))

    def test_an_early_end_names_the_case_and_the_cause(self):
        self.assertIn("exit status 0 in A.test_b", self.reason("exits", "A.test_b"))
        self.assertIn("SIGSEGV in A.test_b", self.reason("crashes", "A.test_b"))
        self.assertIn("timed out after 3 s in A.test_b", self.reason("hangs", "A.test_b"))
        self.assertRegex(self.reason("c_crashes", "(crash)"), r"signal 6 .* in case 2 of 3[^$]*AddressSanitizer")
        self.assertIn("LeakSanitizer", self.reason("c_leaks", "(exit)"))

    def test_a_case_has_its_processor_time_and_that_of_its_class(self):
        for file, first, second in (("computes", "A.test_one", "A.test_two"), ("c_computes", "a", "b")):
            first, second = self.record(file, first), self.record(file, second)
            self.assertGreater(first["cpu_ms"], 5 * second["cpu_ms"], file)
        records = [dict(self.record("passes", "A.test_one"), ms=1500, cpu_ms=70), dict(self.record("passes", "A.test_two"), ms=100, cpu_ms=None)]
        self.assertIn("\n      1.50     0.07  stage: passes: A.test_one\n      0.10           stage: passes: A.test_two\n", summary(records)[1])

    def test_a_skip_says_why(self):
        self.assertEqual(self.reason("skips", "A.test_one"), "needs root")
        self.assertEqual(self.reason("skips", "A.test_three [half]"), "needs root too")
        self.assertEqual(self.reason("c_skips", "a"), "needs root")

    def test_the_summary_ends_with_the_counts_alone_on_a_line(self):
        states = [record["status"] for record in self.records]
        counts = [states.count(status) for status in ("passed", "failed", "skipped")]
        status, text = summary(self.records)
        self.assertEqual(status, 1)
        self.assertEqual(text.splitlines()[-1], "%d passed, %d failed, %d skipped" % tuple(counts))
        self.assertIn("stage: skips: A.test_two: zzip is not installed", text)
        good = [record for record in self.records if record["file"] == "passes"]
        self.assertEqual(summary(good), (0, "\n2 passed, 0 failed, 0 skipped\n"))
        self.assertEqual(summary([])[0], 1)

    def test_after_setup_a_missing_program_is_a_failure_and_a_missing_privilege_is_none(self):
        records = [record for record in self.records if record["file"] in ("skips", "c_skips")]
        self.assertEqual(summary(records)[0], 0)
        status, text = summary(records, "--after-setup")
        self.assertEqual((status, text.splitlines()[-1]), (1, "2 passed, 1 failed, 5 skipped"))
        self.assertIn("stage: skips: A.test_two\n      skipped: zzip is not installed", text)

    def test_many_runs_are_summed_up_with_the_reasons(self):
        records = [dict(record, stage=stage) for stage in ("idle", "busy", "busy") for record in self.records if record["file"] == "c_fails"]
        result = subprocess.run([RESULTS, "soak"], input="".join(json.dumps(record) + "\n" for record in records), capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("| idle | 2 | 2 | 1 | 0 |\n| busy | 2 | 4 | 2 | 0 |\n", result.stdout)
        self.assertIn("c_fails: a: failed 3 times of 3 (idle: 1, busy: 2)\n\n    3 x 1 != 2\n        test.c:6: error: Failure!\n", result.stdout)
        self.assertTrue(result.stdout.endswith("\n3 failures of 1 cases\n"))

    def test_one_case_can_be_chosen(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "test_passes.py")
            path.write_text("import unittest\n" + PYTHON["passes"])
            for glob, status, count in (("*one", 0, 1), ("A.test_two", 0, 1), ("A.*", 0, 2), ("nothing", 0, 1)):
                result = subprocess.run([sys.executable, RUNNER, path, glob], capture_output=True, text=True)
                self.assertEqual((result.returncode, f"\n1..{count}\n" in result.stdout), (status, True), glob)

    def test_a_chosen_case_has_to_be_in_one_of_the_files_with_the_name(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "test_passes.py").write_text("import unittest\n" + PYTHON["passes"])
            (folder / "test_c").write_text("#!/bin/sh\necho 1..0\n")
            (folder / "test_c").chmod(0o755)
            for glob, counts in (("*one", (0, 1, 0)), ("nothing", (1, 0, 2))):
                with open(folder / "log", "w") as log:
                    for file in ("test_passes.py", "test_c"):
                        result = subprocess.run([sys.executable, RUNNER, folder / file, glob], capture_output=True, text=True)
                        log.write(json.dumps({"name": "x / passes", "stdout": result.stdout, "stderr": "", "duration": 1.0,
                                              "result": "FAIL" if result.returncode else "OK", "returncode": result.returncode}) + "\n")
                lines = subprocess.run([RESULTS, "collect", "stage", folder / "log"], check=True, capture_output=True, text=True).stdout.splitlines()
                status, text = summary([json.loads(line) for line in lines])
                self.assertEqual((status, text.splitlines()[-1]), (counts[0], "%d passed, %d failed, 0 skipped" % counts[1:]))


if __name__ == "__main__":
    unittest.main()
