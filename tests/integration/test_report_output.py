#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Outputs of heapctl report that are too long to be kept in memory: written while they are made."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from processes import HEAPCTL, need_namespace

STACKS = 14000
OUTPUTS = "--collapsed", "--json", "--raw"


def profile():
    """As collapsed stacks, which need no symbols: each of its own functions."""
    return "".join(f"main;server::serve_a_request_{i};a_function_with_a_rather_long_name_{i};insert_a_row {i + 1}\n" for i in range(STACKS))


def heap():
    """The same number of stacks as jemalloc has them."""
    stacks = "".join(f"@ {' '.join(hex(0x1000 * i + 16 * k) for k in range(12))}\n  t*: 1: {i + 1} [0: 0]\n" for i in range(1, STACKS))
    return f"heap_v2/524288\n  t*: 1: 1 [0: 0]\n{stacks}\nMAPPED_LIBRARIES:\n"


class LongOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="heapctl-output-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.inputs = {}
        for name, contents in (("names", profile()), ("addresses", heap())):
            cls.inputs[name] = f"{cls.folder}/{name}"
            with open(cls.inputs[name], "w", encoding="ascii") as file:
                file.write(contents)

    def report(self, *words, code=0, **options):
        env = dict(os.environ, XDG_CACHE_HOME=f"{self.folder}/cache", HOME=self.folder)
        options.setdefault("stdout", subprocess.PIPE)
        result = subprocess.run([HEAPCTL, "report", *words], stderr=subprocess.PIPE, env=env, check=False, **options)
        self.assertEqual(result.returncode, code, (words, result.stderr))
        return result

    def input_of(self, option):
        return self.inputs["addresses" if option == "--raw" else "names"]

    def test_a_file_and_a_pipe_get_the_same_output(self):
        for option in OUTPUTS:
            path = f"{self.folder}/out"
            self.report(option, "-o", path, self.input_of(option))
            with open(path, "rb") as file:
                written = file.read()
            self.assertGreater(len(written), 1 << 20, option)
            self.assertTrue(written == self.report(option, self.input_of(option)).stdout, option)
            self.assertEqual(os.listdir(self.folder).count("out"), 1)

    def test_all_of_it_is_there(self):
        lines = self.report("--collapsed", self.input_of("--collapsed")).stdout.decode().splitlines()
        self.assertEqual(len(lines), STACKS)
        self.assertEqual(set(lines) ^ set(profile().splitlines()), set())

    def test_a_full_disk_is_named_and_leaves_the_old_file(self):
        for option in OUTPUTS:
            with open("/dev/full", "wb") as full:
                self.assertIn(b"standard output: No space left", self.report(option, self.input_of(option), code=1, stdout=full).stderr)
            self.assertIn(b"/dev/full: No space left", self.report(option, "-o", "/dev/full", self.input_of(option), code=1).stderr)
        missing = self.report("--collapsed", "-o", f"{self.folder}/missing/out", self.input_of("--collapsed"), code=1).stderr
        self.assertIn(b"there is no folder", missing)

    def test_a_name_of_standard_output_is_that_descriptor(self):
        need_namespace("--mount")
        path = f"{self.folder}/appended"
        private = f'mount -t tmpfs none /dev && ln -s /proc/self/fd /dev/fd && ln -s /proc/self/fd/1 /dev/stdout && ln -s {path} /dev/link && "$@"'
        for name, code in (("/dev/stdout", 0), ("/dev/fd/1", 0), ("/proc/self/fd/1", 0), ("/dev/link", 2)):
            with self.subTest(name):
                pathlib.Path(path).write_bytes(b"old\n")
                words = ["unshare", "-m", "sh", "-c", f'{private}; code=$?; test -L {name} || exit 9; exit $code', "sh",
                         HEAPCTL, "report", "--collapsed", "-o", name, self.input_of("--collapsed")]
                with open(path, "ab") as file:
                    result = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, check=False, env=dict(os.environ, HOME=self.folder))
                self.assertEqual(result.returncode, code, result.stderr)
                written = pathlib.Path(path).read_bytes()
                self.assertTrue(written.startswith(b"old\n"))
                self.assertEqual(len(written.splitlines()), 1 + STACKS * (code == 0))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be another user")
    def test_a_file_of_another_user_in_a_sticky_folder_is_refused_at_once(self):
        """As in /tmp, where only the rename at the end would be refused."""
        shared, program = pathlib.Path(self.folder, "shared"), shutil.copy(HEAPCTL, self.folder)
        os.chmod(self.folder, 0o755)
        shared.mkdir()
        shared.chmod(0o1777)
        for owner, code in (0, 1), (65534, 0):
            file = shared / str(owner)
            file.write_text("old")
            os.chown(file, owner, owner)
            result = subprocess.run([program, "report", "--collapsed", "-o", file, "-"], input=b"main 1\n", capture_output=True, check=False, user=65534, group=65534,
                                    env=dict(os.environ, HOME=str(shared)))
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(b"it belongs to another user: name another file" in result.stderr, code == 1, result.stderr)
            self.assertEqual(file.read_text(), "old" if code else "main 1\n")
        self.assertEqual(sorted(file.name for file in shared.glob("[0-9]*")), ["0", "65534"])

    def test_a_limit_of_file_sizes_leaves_no_part_behind(self):
        path = f"{self.folder}/kept"
        with open(path, "w", encoding="ascii") as file:
            file.write("old")
        words = ["sh", "-c", 'trap "" XFSZ; ulimit -f 2100; exec "$@"', "sh", HEAPCTL, "report", "--json", "-o", path, self.input_of("--json")]
        result = subprocess.run(words, capture_output=True, check=False, env=dict(os.environ, HOME=self.folder))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(b"File too large", result.stderr)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("kept.")], [])


if __name__ == "__main__":
    unittest.main()
