#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/figures.md, which bench/run writes with bench/figures.py."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Figures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.page = self.folder / "figures.md"

    def write(self, name, output, **variables):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BENCH_")}
        return subprocess.run([ROOT / "bench/figures.py", self.page, name], input=output, text=True, capture_output=True, env=dict(environment, **variables))

    def run_benchmarks(self, *arguments, **scripts):
        """bench/run with these benchmarks in place of ours."""
        (self.folder / "bench").mkdir()
        (self.folder / "build").mkdir()
        for name in ("run", "figures.py"):
            (self.folder / "bench" / name).write_bytes((ROOT / "bench" / name).read_bytes())
            (self.folder / "bench" / name).chmod(0o755)
        for name, text in scripts.items():
            (self.folder / f"bench/bench_{name}.py").write_text(text)
        return subprocess.run(["bench/run", "build", *arguments], cwd=self.folder, env=dict(os.environ, BENCH_FIGURES=str(self.page)), text=True,
                              capture_output=True)

    def test_a_section_names_command_date_commit_and_kind_of_machine(self):
        run = self.write("symbol", "libjvm 5.0 (4.5-6.1)\n", BENCH_ROUNDS="9", BENCH_ADDRESSES="1000 10000", BENCH_SYMBOL_FOLDER="/tmp/x")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        text = self.page.read_text()
        self.assertIn("`BENCH_ADDRESSES='1000 10000' BENCH_ROUNDS=9 make bench TARGET=symbol`, ", text)
        self.assertRegex(text, r", \d{4}-\d\d-\d\d, at \S+, \d+ processors \(.+\), \d+ GiB, Linux [\d.]+, load \d+\.\d\.\n")
        self.assertIn("```text\nlibjvm 5.0 (4.5-6.1)\n```\n", text)
        self.assertNotRegex(text, rf"\b{re.escape(os.uname().nodename)}\b")
        self.assertNotIn("/tmp", text)

    def test_a_run_replaces_its_own_section_alone(self):
        for name, output in (("symbol", "one"), ("agent", "two"), ("symbol", "## three"), ("parse", "four")):
            self.assertEqual(self.write(name, output).returncode, 0)
        text = self.page.read_text()
        self.assertEqual(re.findall(r"^## (agent|parse|symbol)$", text, re.M), ["agent", "parse", "symbol"])
        self.assertEqual(text.count("# Figures\n"), 1)
        self.assertNotIn("one\n```", text)
        for output in ("two", "## three", "four"):
            self.assertEqual(text.count(f"```text\n{output}\n```\n"), 1)

    def test_output_that_looks_like_a_section_stays_in_its_own(self):
        for name in ("b", "a", "b"):
            self.assertEqual(self.write(name, "## x\n").returncode, 0)
        self.assertEqual(self.page.read_text().count("## x\n"), 2)

    def test_only_what_succeeds_is_kept(self):
        run = self.run_benchmarks(good="print('fast')", bad="print('half'); raise SystemExit(1)")
        self.assertEqual(run.returncode, 1)
        self.assertIn("half\n", run.stdout)
        self.assertIn("fast\n", self.page.read_text())
        self.assertNotIn("half", self.page.read_text())

    def test_a_benchmark_that_is_not_there_is_an_error(self):
        run = self.run_benchmarks("fats", fast="print('fast')")
        self.assertEqual(run.returncode, 2)
        self.assertIn("there is no benchmark 'fats'", run.stderr)
        self.assertFalse(self.page.exists())


if __name__ == "__main__":
    unittest.main()
