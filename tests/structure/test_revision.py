#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commit and the day that the command shows, as src/cli/meson.build takes them, in a project of these lines alone."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# 2001-09-09, the time of the commit and of the unpacked files.
TIME = 1000000000


class Revision(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "SOURCE_DATE_EPOCH"}
        self.environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_COMMITTER_DATE": f"@{TIME} +0000"}
        self.environment |= {f"GIT_{role}_{what}": "tester@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.tree = self.folder / "outer/tree"
        (self.tree / "src/cli").mkdir(parents=True)
        (self.tree / "scripts").mkdir()
        for name in ("src/cli/commit.h.in", "src/cli/date.h.in", "scripts/revision"):
            shutil.copy(ROOT / name, self.tree / name)
        lines = re.findall(r"^(?:revision|commit|date) = .*\n", (ROOT / "src/cli/meson.build").read_text(), re.M)
        self.assertEqual(len(lines), 3)
        (self.tree / "src/cli/meson.build").write_text("".join(lines) + "custom_target('headers', input: [commit, date], output: 'headers', "
                                                       "command: ['true'], build_by_default: true)\n")
        (self.tree / "meson.build").write_text("project('small', version: '1.2.3')\nsubdir('src/cli')\n")
        os.utime(self.tree / "meson.build", (TIME, TIME))

    def git(self, folder, *words):
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, env=self.environment)

    def commit(self, folder):
        self.git(folder, "init", "-q")
        self.git(folder, "add", "-A")
        self.git(folder, "commit", "-q", "--allow-empty", "-m", "all")

    def built(self, tree=None, **variables):
        """The commit and the date of the headers."""
        build = self.folder / "build"
        shutil.rmtree(build, ignore_errors=True)
        environment = self.environment | variables
        for words in (["meson", "setup", build, tree or self.tree], ["ninja", "-C", build, "src/cli/commit.h", "src/cli/date.h"]):
            done = subprocess.run(words, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return tuple(re.search(f'HEAPCTL_{name} "(.*)"', (build / f"src/cli/{name.lower()}.h").read_text())[1] for name in ("COMMIT", "DATE"))

    def test_sources_without_git_have_no_commit_and_the_day_of_the_files(self):
        self.assertEqual(self.built(), ("", "2001-09-09"))
        self.assertEqual(self.built(SOURCE_DATE_EPOCH="86400"), ("", "1970-01-02"))

    def test_sources_inside_of_another_repository_have_no_commit_of_it(self):
        self.environment["GIT_COMMITTER_DATE"] = "@1100000000 +0000"
        self.commit(self.folder / "outer")
        self.assertEqual(self.built(), ("", "2001-09-09"))

    def test_a_checkout_has_its_commit(self):
        self.commit(self.tree)
        os.utime(self.tree / "meson.build", (0, 0))
        commit, date = self.built()
        self.assertRegex(commit, "^[0-9a-f]{12}$")
        self.assertEqual(date, "2001-09-09")
        self.git(self.tree, "worktree", "add", "-q", self.folder / "linked")
        self.assertEqual(self.built(self.folder / "linked"), (commit, date))
        (self.tree / "meson.build").write_text((self.tree / "meson.build").read_text() + "# changed\n")
        self.assertEqual(self.built()[0], commit + "-dirty")

    def test_a_checkout_of_another_user_has_no_commit(self):
        self.commit(self.tree)
        # Git's own switch for its tests of safe.directory.
        self.assertEqual(self.built(GIT_TEST_ASSUME_DIFFERENT_OWNER="1"), ("", "2001-09-09"))


if __name__ == "__main__":
    unittest.main()
