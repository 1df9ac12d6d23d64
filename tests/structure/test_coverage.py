#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make coverage` counts, and the table that scripts/coverage-table makes of it."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def line(number, count, branches=(), **more):
    return {"line_number": number, "count": count, "branches": [{"count": taken} for taken in branches], **more}


class Coverage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def table(self, files, page=None):
        for name in ("src/agent/run.c", "src/cli/main.c", "src/agent/image.c"):
            self.write(name, "")
        if page is not None:
            self.write("docs/coverage.md", page)
        self.write("report/coverage.json", json.dumps({"files": files}))
        script = self.write("scripts/coverage-table", (ROOT / "scripts/coverage-table").read_text())
        return subprocess.run(["python3", script, self.folder / "report"], capture_output=True, text=True)

    def files(self):
        agent = {"file": "src/agent/run.c", "functions": [{"name": "begin", "lineno": 1}, {"name": "end", "lineno": 10}],
                 "lines": [line(1, 5), line(2, 0, (0, 0)), line(3, 0), line(11, 7, (3, 0)), line(12, 0), line(13, 0, **{"gcovr/noncode": True})]}
        command = {"file": "src/cli/main.c", "functions": [{"name": "main", "lineno": 1}], "lines": [line(1, 1, (1, 1)), line(2, 0)]}
        return [agent, command]

    def test_each_folder_has_a_row_and_files_without_counters_are_named(self):
        done = self.table(self.files())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("| folder | lines | branches |\n|---|---|---|\n"
                                               "| `src/agent` | 2 of 5 (40.0 %) | 1 of 4 (25.0 %) |\n"
                                               "| `src/cli` | 1 of 2 (50.0 %) | 2 of 2 (100.0 %) |\n"
                                               "| all | 3 of 7 (42.9 %) | 3 of 6 (50.0 %) |\n\n"
                                               "Without counters: `src/agent/image.c`.\n"), done.stdout)
        self.assertEqual((self.folder / "report/coverage.md").read_text(), done.stdout.partition("\nInside")[0])

    def test_lines_that_did_not_run_inside_of_servers_are_listed_by_function(self):
        done = self.table(self.files(), "| file | functions | reason |\n|---|---|---|\n| `src/agent/run.c` | `other`, `end` (2) | none |\n")
        self.assertEqual((self.folder / "report/resident.txt").read_text(), "src/agent/run.c: begin: 2-3\nsrc/agent/run.c: end: 12\n")
        self.assertIn("3 lines of 2 functions did not run", done.stdout)
        self.assertTrue(done.stdout.endswith("explains 1 of the functions.\nNot explained there:\n  src/agent/run.c: begin: 2-3\n"), done.stdout)

    def test_no_file_is_an_error(self):
        done = self.table([])
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no file of src/", done.stderr)

    def test_a_time_limit_that_is_no_number_is_refused(self):
        for limit in ("0", "soon", "-1"):
            done = subprocess.run([ROOT / "scripts/coverage"], env=dict(os.environ, COVERAGE_SECONDS=limit), capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"COVERAGE_SECONDS={limit} is no number", done.stderr)

    def test_a_child_that_ends_by_exit_without_handlers_is_counted(self):
        source = self.write("child.c", "#include <sys/wait.h>\n#include <unistd.h>\n"
                                       "int main(void)\n{\n\tif (fork() == 0)\n\t\t_exit(0);\n\treturn wait(0) < 0;\n}\n")
        subprocess.run(["cc", "--coverage", "-fprofile-update=atomic", "-include", ROOT / "tests/support/coverage.h", "-o", "child", source],
                       cwd=self.folder, check=True)
        subprocess.run([self.folder / "child"], check=True)
        text = subprocess.run(["gcov", "--stdout", next(self.folder.glob("*.gcda"))], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertRegex(text, r"\b1\*?: +6:\t\t_exit\(0\);")


if __name__ == "__main__":
    unittest.main()
