#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to programs with the C library musl."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import test_attach_container
import test_attach_places
from agent_host import PROGRAMS, only_root
from known_heap import KNOWN, bytes_by_site
from processes import BUILD, agent_thread, repeats, stop, wait_until
from test_attach import AttachCase
from tracing import trace

MUSL_AGENT = BUILD / "src/agent/libheapctl-musl.so"
# The beginnings of threads of sampled_malloc.c.
OUTERMOST = r"\b(main|site_thread)\b"
LOADER = "/lib/ld-musl-x86_64.so.1"


def needs_musl(case):
    return unittest.skipUnless(MUSL_AGENT.exists(), "built without the agent for musl")(case)


class MuslCase(AttachCase):
    waiting_program = "attached_musl"

    may_fail_by = r"could be used, and they have stood still|could be used in \d+ ms|stands in the way|did not stop|have been taken meanwhile"

    def start_storm(self, *words):
        return self.start_ready(PROGRAMS / "storms_musl", *words)


@needs_musl
class Attached(MuslCase):
    def test_waits_blocks_and_registers(self):
        """While all threads are stopped, SIGCHLD may end epoll_wait() with EINTR: docs/attach.md."""
        for storms in (0, 1, 8):
            for method in ("got", "entry"):
                with self.subTest(storms=storms, method=method):
                    process = self.start_waits(storms, *(["interrupted"] if method == "entry" else []))
                    for _ in range(repeats(4)):
                        self.attach_and_detach(process, "--method", method)
                    self.assert_unharmed(process)

    def test_storms(self):
        for words in (("fork",), ("thread",), ("signal",), ("load", MUSL_AGENT, "heapctl_version")):
            for method in ("got", "entry"):
                with self.subTest(words[0], method=method):
                    process = self.start_storm(*words)
                    done = sum(self.attach_and_detach(process, "--interval", "4KiB", "--method", method) for _ in range(4))
                    self.assertGreater(done, 0)
                    self.assert_unharmed(process)

    def test_forks_that_wait(self):
        """musl's fork() waits with a lock that a thread takes at its end, if its last dlsym() failed."""
        for method in ("got", "entry"):
            with self.subTest(method):
                process = self.start_storm("flush")
                done = sum(self.attach_and_detach(process, "--method", method) for _ in range(6))
                self.assertGreater(done, 0)
                self.assert_unharmed(process)

    def test_a_program_that_executes_itself(self):
        process = self.start_storm("exec")
        for _ in range(4):
            self.attach(process.pid, code=None)
            self.heapctl("detach", process.pid, code=None)
            self.assertIsNone(process.poll())
        self.assert_unharmed(process)

    def test_samples_and_their_stacks(self):
        for method in ("got", "entry"):
            with self.subTest(method):
                process = self.start_ready(PROGRAMS / "sampled_malloc_musl")
                self.attach(process.pid, "--interval", "4KiB", "--method", method)
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "kept\n")
                found = bytes_by_site(self, process.pid, OUTERMOST)
                self.assertLessEqual(set(found), set(KNOWN))
                # The others may have no sample.
                self.assertAlmostEqual(found["large"] / KNOWN["large"], 1, delta=0.01)
                status = self.status(process.pid)
                self.assertEqual((status["allocator"]["name"], status["sampler"]["method"]), ("musl", method))
                self.assertEqual(status["sampler"]["entries"] > 0, method == "entry")
                self.detach(process.pid)

    def test_preloaded_it_counts_every_byte(self):
        process = self.start(PROGRAMS / "sampled_malloc_musl", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=dict(self.environment, LD_PRELOAD=str(MUSL_AGENT), HEAPCTL_ACTIVATE="1", HEAPCTL_SAMPLE="1"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.wait_for_agent(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "kept\n")
        self.assertEqual(bytes_by_site(self, process.pid, OUTERMOST), KNOWN)

    def test_again_with_one_copy_and_nothing_left(self):
        # Threads that allocate would map and unmap memory of their own meanwhile.
        process = self.start_waits(0)
        path = pathlib.Path(f"/proc/{process.pid}/maps")
        lines = []
        for _ in range(12):
            if self.attach_and_detach(process):
                self.assertIsNone(agent_thread(process.pid))
                lines.append(len(path.read_text().splitlines()))
        self.assertLessEqual(max(lines[len(lines) // 2:]), max(lines[:len(lines) // 2]))
        self.assertEqual(len(test_attach_container.copies_of_agent(process.pid)), 1)
        self.assert_unharmed(process)

    def test_verbs(self):
        process = self.start_waits(1)
        found = {finding["code"]: finding for finding in json.loads(self.heapctl("doctor", process.pid, "--json", code=1)[0])["findings"]}
        self.assertEqual(found["no-agent"]["hint"], f"load one with heapctl attach {process.pid}")
        self.assertLessEqual({"musl", "can-attach"}, found.keys())
        row = next(row for row in json.loads(self.heapctl("ps", "--all", "--json")[0]) if row.get("pid") == process.pid)
        self.assertEqual((row["can_attach"], row["problem"]), (True, ""))
        self.assertIn(f"heapctl attach {process.pid} loads one while it runs", self.heapctl("status", process.pid, code=1)[1])
        profile = os.path.join(self.folder, "recorded.heap")
        self.heapctl("record", process.pid, "--attach", "--duration", "1s", "-o", profile)
        self.assertGreater(os.path.getsize(profile), 0)
        self.attach(process.pid)
        self.assertIn("musl", self.heapctl("account", process.pid)[0])
        self.detach(process.pid)
        self.assert_unharmed(process)


@needs_musl
class Refused(MuslCase):
    def assert_refused(self, process, expected, *arguments):
        self.assertRegex(self.attach(process.pid, *arguments, code=1)[1], expected)
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{process.pid}/maps").read_text())
        self.assertIsNone(agent_thread(process.pid))

    def start_waiting_in_a_handler(self):
        process = self.start_storm("handler")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().startswith("19 "), "its readv")
        return process

    def test_a_thread_in_a_handler(self):
        process = self.start_waiting_in_a_handler()
        self.assert_refused(process, "is in a signal handler")
        self.assert_unharmed(process)

    def test_a_fork_that_waits(self):
        """The thread that would be used is the one that lets fork() go on: were it to wait for fork(), the program would stand still."""
        process = self.start_storm("forking")
        self.assert_refused(process, r"a fork\(\) of it waits for a lock of the C library \(\d+ ms\), .*\(try again; nothing was changed\)")
        self.assert_unharmed(process)

    def test_a_stopped_process(self):
        # That alone ends its calls with EINTR.
        process = self.start_waits(0, "interrupted")
        stop(process.pid)
        self.assert_refused(process, "is stopped")
        process.send_signal(signal.SIGCONT)
        self.attach(process.pid)

    def test_a_traced_process(self):
        process = self.start_waits(0)
        tracer = trace(self, process.pid)
        self.assert_refused(process, rf"is (stopped|traced) by \S+\[{tracer.pid}\]")

    def test_a_limit_of_open_files(self):
        """With that limit poll() fails as well: the program waits in readv() already."""
        process = self.start_waiting_in_a_handler()
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]))
        self.assert_refused(process, "leaves its agent no descriptors")
        self.assert_unharmed(process)

    def test_a_sandbox(self):
        """Refused; where the user insists it is attached to."""
        process = self.start(sys.executable, "-c", "import ctypes, os, struct, sys\nlibc = ctypes.CDLL(None)\nlibc.prctl(38, 1, 0, 0, 0)\n"
                             "code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
                             "libc.prctl(22, 2, struct.pack('HxxxxxxQ', 1, ctypes.addressof(code)), 0, 0)\n"
                             "os.execv(sys.argv[1], sys.argv[1:])", PROGRAMS / "attached_musl", "0", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assert_refused(process, r"is in a sandbox \(seccomp\)")
        self.attach(process.pid, "--force")
        self.detach(process.pid)
        self.assert_unharmed(process)

    def test_heapctl_run_names_attach(self):
        _, message = self.heapctl("run", "--", PROGRAMS / "attached_musl", "0", code=1)
        self.assertRegex(message, r"is linked with musl.*heapctl attach PID")

    def test_a_target_can_start_a_program_with_musl(self):
        """musl's loader ends a program whose preloaded library calls a function that musl lacks."""
        out, _ = self.heapctl("run", "--", sys.executable, "-c", "import os, sys\nos.execv(sys.argv[1], sys.argv[1:])", PROGRAMS / "attached_musl", "0")
        self.assertRegex(out, r"^ready\nok \d+\n$")


@needs_musl
class Killed(test_attach_places.Killed):
    waiting_program = "attached_musl"
    # What heapctl does differently for musl are few of its calls.
    STRIDE = 4 * test_attach_places.Killed.STRIDE
    # Of a program with glibc.
    test_what_waits_is_not_in_the_way_of_patching = None


@needs_musl
@only_root
class Container(test_attach_container.ContainerCase):
    """With musl alone in it."""

    def make_root(self):
        root = os.path.join(self.folder, "root")
        for folder in ("proc", "dev", "tmp", "run", "lib"):
            os.makedirs(os.path.join(root, folder))
        shutil.copy(os.path.realpath(LOADER), root + LOADER)
        shutil.copy(PROGRAMS / "attached_musl", os.path.join(root, "attached"))
        return root

    def test_of_other_files_processes_and_network(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc",))
        self.assert_attaches(outer, pid)

    def test_whose_root_is_read_only(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc", "mount -t tmpfs tmpfs {root}/dev",
                                                  "mkdir -m 1777 {root}/dev/shm", "mount -o remount,bind,ro {root}"))
        self.assert_attaches(outer, pid)

    def test_without_proc(self):
        outer, pid = self.start_contained()
        self.assert_refused(outer, pid, r"sees neither \S+ nor /proc in its root.*\(mount /proc there")


if __name__ == "__main__":
    unittest.main()
