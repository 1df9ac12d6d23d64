#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/fuzz with stand-ins for the targets: what it says of a wrong TARGET or FUZZ_SECONDS, and of an input that crashes."""
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("scripts/fuzz", (ROOT / "scripts/fuzz").read_text())
        self.program("scripts/build-tree", "#!/bin/sh\n")
        self.program("build-fuzz/tests/fuzz/fuzz_heap", "#!/bin/sh\necho stat::number_of_executed_units: 7\n")
        self.program("build-fuzz/tests/fuzz/fuzz_heap_more", "#!/bin/sh\necho crash\nexit 1\n")
        (self.folder / "tmp").mkdir()
        self.options = {"cwd": self.folder, "text": True, "env": dict(os.environ, TMPDIR=str(self.folder / "tmp"))}

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        path.chmod(0o755)

    def fuzz(self, target, seconds, code):
        done = subprocess.run(["scripts/fuzz", target, seconds], capture_output=True, timeout=60, **self.options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def left(self):
        return len(list((self.folder / "tmp").iterdir()))

    def test_a_target_is_run(self):
        self.assertIn("7 inputs in 1 s, nothing found", self.fuzz("heap", "1", 0))
        self.assertEqual(self.left(), 0)

    def test_an_input_that_crashes_is_kept(self):
        self.assertIn("fuzz_heap_more found something", self.fuzz("", "2", 123))
        self.assertEqual(self.left(), 1)

    def test_an_interrupt_leaves_only_what_was_found(self):
        for found in (False, True):
            with self.subTest(found=found):
                keep = 'for word; do case $word in -artifact_prefix=*) : >"${word#*=}crash-1";; esac; done; ' if found else ""
                self.program("build-fuzz/tests/fuzz/fuzz_heap", f"#!/bin/bash\n{keep}echo started >&3\nsleep 60\n")
                ours, its = os.pipe()
                process = subprocess.Popen(["bash", "-c", 'exec 3>&"$1"; exec scripts/fuzz heap 60', "bash", str(its)], pass_fds=[its],
                                           start_new_session=True, **self.options)
                self.addCleanup(os.close, ours)
                os.close(its)
                self.assertEqual(os.read(ours, 64), b"started\n")
                os.killpg(process.pid, signal.SIGINT)
                self.assertEqual(process.wait(30), 130)
                self.assertEqual(self.left(), found)

    def test_an_unknown_target_is_refused(self):
        for name in ("nonsense", "heap heap_more", "hea."):
            with self.subTest(name):
                self.assertEqual(self.fuzz(name, "1", 2), f'fuzz: no target "{name}" (TARGET is one of: heap heap_more)\n')
        self.assertEqual(self.left(), 0)

    def test_seconds_that_are_no_number_are_refused(self):
        for seconds in ("abc", "", "-1", "0", "1.5"):
            with self.subTest(seconds):
                self.assertEqual(self.fuzz("heap", seconds, 2), f"fuzz: FUZZ_SECONDS={seconds} is no number of seconds\n")
        self.assertEqual(self.left(), 0)


if __name__ == "__main__":
    unittest.main()
