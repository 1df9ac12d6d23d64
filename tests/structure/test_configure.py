# SPDX-License-Identifier: Apache-2.0
"""scripts/configure and scripts/build-tree: what a build folder was set up for is noticed, on a project of three lines."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Configure(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hc-configure-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.make_tree("tree")

    def make_tree(self, name):
        tree = self.folder / name
        tree.mkdir()
        (tree / "meson.build").write_text("project('small', 'c')\nconfigure_file(input: 'where.in', output: 'where', install: true,\n"
                                          "    install_dir: 'share', configuration: {'prefix': get_option('prefix')})\n")
        (tree / "where.in").write_text("@prefix@\n")
        shutil.copytree(ROOT / "scripts", tree / "scripts")
        shutil.copy(ROOT / "Makefile", tree)
        return tree

    def make(self, *words, tree=None, code=0, **variables):
        environment = {key: value for key, value in os.environ.items() if key not in ("PREFIX", "DESTDIR", "MAKEFLAGS", "BUILD")} | variables
        done = subprocess.run(["make", "-C", tree or self.tree, *words], env=environment, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def installed(self, *words):
        """The prefixes at which, and for which, it is installed."""
        target = self.folder / "root"
        shutil.rmtree(target, ignore_errors=True)
        self.make("install", f"DESTDIR={target}", *words)
        return {(f"/{path.parent.parent.relative_to(target)}", path.read_text().strip()) for path in target.rglob("where")}

    def test_a_prefix_given_after_the_first_build_counts_and_is_kept(self):
        self.make()
        self.assertEqual(self.installed(), {("/usr/local", "/usr/local")})
        self.assertEqual(self.installed("PREFIX=/opt/heapctl"), {("/opt/heapctl", "/opt/heapctl")})
        self.assertEqual(self.installed(), {("/opt/heapctl", "/opt/heapctl")})

    def test_a_relative_destination_is_in_the_folder_of_make(self):
        self.make("install", "DESTDIR=out of it's")
        self.assertEqual((self.tree / "out of it's/usr/local/share/where").read_text(), "/usr/local\n")

    def test_a_prefix_that_units_cannot_name_is_refused(self):
        for is_set_up in (False, True):
            for prefix in ("opt", "/o pt", "/it's", '/"opt"', "/100%", "/a\\b"):
                with self.subTest(prefix, is_set_up=is_set_up):
                    self.assertIn(f"configure: the prefix '{prefix}' ", self.make(f"PREFIX={prefix}", code=2))
            self.make()

    def test_the_reason_of_meson_is_shown(self):
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "meson").write_text("#!/bin/sh\necho 'ERROR: the reason'\nexit 1\n")
        (tools / "meson").chmod(0o755)
        path = f"{tools}:{os.environ['PATH']}"
        self.assertIn("ERROR: the reason", self.make(code=2, PATH=path))
        self.make()
        self.assertIn("ERROR: the reason", self.make("PREFIX=/opt", code=2, PATH=path))

    def test_a_folder_that_cannot_be_written_is_named(self):
        (self.folder / "file").touch()
        said = self.make(f"BUILD={self.folder}/file/build", code=2)
        self.assertIn("Not a directory", said)
        self.assertIn("/file/build cannot be written; make BUILD=FOLDER builds elsewhere", said)

    def test_a_copied_tree_is_built_from_its_own_sources(self):
        self.make()
        copy = self.folder / "copy"
        shutil.copytree(self.tree, copy, symlinks=True)
        (copy / "where.in").write_text("copy\n")
        self.assertIn(f"build was set up for {self.tree}; setting it up anew", self.make(tree=copy))
        self.assertEqual((copy / "build/where").read_text(), "copy\n")
        self.assertEqual((self.tree / "build/where").read_text(), "/usr/local\n")
        self.assertEqual(self.make(tree=copy), "")

    def test_a_moved_tree_and_one_reached_by_a_link(self):
        self.make()
        moved = self.tree.rename(self.folder / "moved")
        self.assertIn("setting it up anew", self.make(tree=moved))
        link = self.folder / "link"
        link.symlink_to(moved)
        self.assertEqual(self.make(tree=link), "")

    def test_what_needs_git_says_so(self):
        for target in ("lint", "format", "dist", "deb", "rpm", "tarball", "release"):
            with self.subTest(target):
                self.assertIn("make: this needs a git checkout, and these sources are none", self.make(target, code=2))

    def build_tree(self, name, code=0, **variables):
        # A compiler's own variables would reach each tree.
        environment = {key: value for key, value in os.environ.items() if key not in ("CC", "CC_LD")}
        done = subprocess.run(["scripts/build-tree", name], cwd=self.tree, env=environment | variables, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def option(self, name, build):
        text = subprocess.run(["meson", "introspect", build, "--buildoptions"], cwd=self.tree, check=True, text=True, capture_output=True).stdout
        return next(option["value"] for option in json.loads(text) if option["name"] == name)

    def test_a_tree_of_the_tests_follows_the_options_of_its_script(self):
        self.build_tree("tsan")
        self.assertEqual(self.option("optimization", "build-tsan"), "1")
        self.assertEqual(self.build_tree("tsan"), "")
        script = self.tree / "scripts/build-tree"
        script.write_text(script.read_text().replace("optimization=1", "optimization=2"))
        self.assertIn("build-tsan was set up with another compiler or other options", self.build_tree("tsan"))
        self.assertEqual(self.option("optimization", "build-tsan"), "2")
        self.assertEqual(self.build_tree("tsan"), "")
        self.assertIn("another compiler", self.build_tree("tsan", CC="gcc"))
        # As a script set it up that did not note its options.
        (self.tree / "build-tsan/configured-as").unlink()
        self.assertIn("another compiler", self.build_tree("tsan", CC="gcc"))

    def test_a_users_options_stay(self):
        subprocess.run(["meson", "setup", "build", "-Doptimization=3"], cwd=self.tree, check=True, capture_output=True)
        self.assertEqual(self.make(CC="gcc"), "")
        self.assertEqual(self.option("optimization", "build"), "3")

    def test_the_advice_for_a_tree_of_the_tests_installs_what_is_missing(self):
        tools = self.folder / "bin"
        tools.mkdir()
        for name in ("bash", "sh", "mkdir", "flock", "cat", "meson", "ninja", "pkg-config"):
            (tools / name).symlink_to(shutil.which(name))
        self.assertIn("clang is missing (scripts/setup test installs it)", self.build_tree("asan", 1, PATH=str(tools)))
        clang = tools / "clang"
        clang.write_text("#!/bin/sh\ncase $1 in -print-prog-name=*) echo ${1#*=} ;; esac\n")
        clang.chmod(0o755)
        self.assertIn("ld.lld is missing (scripts/setup test installs it)", self.build_tree("asan", 1, PATH=str(tools)))
        clang.write_text("#!/bin/sh\nexit 1\n")
        self.assertIn("clang cannot link with -fsanitize=address,undefined (scripts/setup test installs the runtime)",
                      self.build_tree("asan", 1, PATH=str(tools)))


if __name__ == "__main__":
    unittest.main()
