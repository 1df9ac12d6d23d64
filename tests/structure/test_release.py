#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make release` refuses a tree that does not fit together, before it builds anything."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.0 (2026-01-01)\n\n### Added\n- All.\n"


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The first step of the build, which ends it here.
        self.write("scripts/dist", "#!/bin/sh\necho 'the build begins' >&2\nexit 1\n")
        self.write("scripts/release", (ROOT / "scripts/release").read_text())
        self.write("meson.build", "project('heapctl', 'c',\n    version: '1.2.0',\n")
        self.write("CHANGELOG.md", CHANGELOG)
        self.write("debian/changelog", "heapctl (1.2.0-1) unstable; urgency=medium\n")
        self.write("contrib/rpm/heapctl.spec", "Version:        1.2.0\n")
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *words):
        settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        settings.update({f"GIT_{role}_{what}": "tester@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")})
        subprocess.run(["git", *words], cwd=self.folder, env=dict(os.environ, **settings), check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "-m", "change")

    def release(self):
        done = subprocess.run(["scripts/release", "build"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_a_tree_that_fits_together_is_built(self):
        self.assertEqual(self.release(), "the build begins\n")

    def test_changes_that_are_not_committed_are_refused(self):
        self.write("more", "")
        self.assertIn("changes that are not committed", self.release())

    def test_a_version_that_the_changelog_does_not_have_is_refused(self):
        self.write("CHANGELOG.md", CHANGELOG.replace("1.2.0", "1.1.0"))
        self.commit()
        self.assertIn("no section '## 1.2.0'", self.release())

    def test_entries_that_are_not_of_the_version_are_refused(self):
        self.write("CHANGELOG.md", CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n### Fixed\n" + "- More.\n" * 20000))
        self.commit()
        self.assertIn("entries in the section Unreleased", self.release())

    def test_packages_of_another_version_are_refused(self):
        for name, text in (("debian/changelog", "heapctl (1.1.0-1) unstable; urgency=medium\n"), ("contrib/rpm/heapctl.spec", "Version:        1.1.0\n")):
            with self.subTest(name):
                kept = (self.folder / name).read_text()
                self.write(name, text)
                self.commit()
                self.assertIn(f"{name} is not of version 1.2.0", self.release())
                self.write(name, kept)

    def test_a_tag_of_another_commit_is_refused(self):
        self.git("tag", "v1.2.0")
        self.assertEqual(self.release(), "the build begins\n")
        self.write("more", "")
        self.commit()
        self.assertIn("the tag v1.2.0 is another commit", self.release())


if __name__ == "__main__":
    unittest.main()
