#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CI files follow their systems' schemas, and the checker finds files that do not."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKER = ROOT / "tests/support/check_ci.mjs"
PACKAGES = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heapctl-test"
FILES = {"github": ".github/workflows/ci.yml", "gitlab": ".gitlab-ci.yml"}


def check(system, path, packages=PACKAGES):
    done = subprocess.run(["node", CHECKER, packages, system, path], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class CiFiles(unittest.TestCase):
    def setUp(self):
        if not (PACKAGES / "node_modules/gitlab-ci-local").exists() or not (PACKAGES / "node_modules/@action-validator").exists():
            self.skipTest("the schemas of CI files are not installed; scripts/setup lint fetches them")

    def check_changed(self, system, old, new):
        text = (ROOT / FILES[system]).read_text()
        self.assertIn(old, text)
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / "ci.yml"
            changed.write_text(text.replace(old, new, 1))
            return check(system, changed)

    def test_the_files_follow_their_schemas(self):
        for system, path in FILES.items():
            self.assertEqual(check(system, ROOT / path), (0, ""))

    def test_an_unknown_key_is_found(self):
        for system, old, new in (("github", "runs-on:", "runs-at:"), ("gitlab", "  script:", "  scripts:")):
            status, text = self.check_changed(system, old, new)
            self.assertEqual(status, 1, text)
            self.assertIn("test", text)

    def test_a_value_of_the_wrong_type_is_found(self):
        for system, old, new in (("github", "timeout-minutes: 60", "timeout-minutes: soon"), ("gitlab", "timeout: 1 hour", "timeout: 1")):
            status, text = self.check_changed(system, old, new)
            self.assertEqual(status, 1, text)

    def test_without_the_schemas_nothing_is_judged(self):
        for system, path in FILES.items():
            self.assertEqual(check(system, ROOT / path, "/nonexistent")[0], 3)


if __name__ == "__main__":
    unittest.main()
