#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes whose threads are at unusual places: coroutines, waits without end, a program's start."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from agent_host import PROGRAMS, only_root
from processes import HEAPCTL, PATIENCE_SECONDS, SANITIZED, agent_thread, is_alive, need, repeats, wait_until
from test_attach import ALLOCATES, AttachCase


# Prints whether its C library has seen a second thread.
OPENS_NAMESPACES = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.dlmopen.restype = ctypes.c_void_p
libc.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
for _ in range(int(sys.argv[1])):
    assert libc.dlmopen(-1, b"libz.so.1", 2)
for line in iter(sys.stdin.readline, ""):
    print(ctypes.c_char.in_dll(libc, "__libc_single_threaded").value == bytes(1), flush=True)
"""


class PlacesCase(AttachCase):
    def start_places(self, mode):
        process = self.start_ready(PROGRAMS / "attached_places", mode)
        return process


class Places(PlacesCase):
    def assert_attaches(self, process):
        for _ in range(3):
            self.attach(process.pid)
            self.detach(process.pid)
        self.assert_unharmed(process)

    def test_a_coroutine_that_waits(self):
        self.assert_attaches(self.start_places("waiting"))

    def test_a_coroutine_that_computes(self):
        self.assert_attaches(self.start_places("computing"))

    def test_beside_a_thread_that_cannot_be_stopped(self):
        process = self.start_places("blocked")
        self.assertIn("D (", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        self.assert_attaches(process)

    def test_beside_a_library_that_is_loaded_and_unloaded(self):
        """Its addresses are the lowest of all libraries; no thread may execute code in its pages."""
        process = self.start_ready(PROGRAMS / "storms", "load", "libz.so.1", "zlibVersion")
        done = sum(self.attach_and_detach(process, "--interval", "4KiB") for _ in range(repeats(16)))
        self.assertGreater(done, 0)
        self.assert_unharmed(process)

    def test_a_program_with_several_c_libraries(self):
        """Those that dlmopen() brings would not tell the program's own that it has threads now."""
        for namespaces in (1, 3):
            with self.subTest(namespaces=namespaces):
                process = self.start(sys.executable, "-c", OPENS_NAMESPACES, namespaces, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for attach, answer in ((False, "False\n"), (True, "True\n")):
                    if attach:
                        self.attach(process.pid)
                    process.stdin.write("\n")
                    process.stdin.flush()
                    self.assertEqual(process.stdout.readline(), answer)
                self.detach(process.pid)

    def test_a_program_that_its_loader_was_started_with(self):
        loader = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/ld-" in line)
        process = self.start(loader, sys.executable, "-c", ALLOCATES, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.attach(process.pid, "--interval", "4KiB")
        wait_until(lambda: self.status(process.pid)["sampler"]["live_blocks"] > 0, "samples")
        self.detach(process.pid)
        self.assertIsNone(process.poll())

    def test_a_handler_that_interrupted_a_wait(self):
        """As in the helpers of PostgreSQL up to 15, which never return from it."""
        process = self.start_ready(PROGRAMS / "storms", "paused")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().startswith("19 "), "its readv")
        self.assertIn("can-attach", self.heapctl("doctor", process.pid, "--json", code=1)[0])
        self.assert_attaches(process)

    def test_a_handler_that_interrupted_a_lock(self):
        """In thrd_join(), which a walk shows; in malloc(), without unwind information that leads there."""
        started = []
        for mode in ("joining", "hidden", "restoring"):
            process = self.start(PROGRAMS / "trapped_calls", mode, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            line = process.stdout.readline()
            if "Invalid argument" in line:
                self.skipTest(f"Linux 5.11 or later is needed: {line}")
            self.assertEqual(line, "ready\n")
            # Each takes the five seconds that heapctl tries for.
            started.append((process, subprocess.Popen([HEAPCTL, "attach", str(process.pid)], env=self.environment, stderr=subprocess.PIPE, text=True)))
        for process, command in started:
            with self.subTest(mode=process.args[1]):
                _, message = command.communicate(timeout=120)
                self.assertRegex(message, "the last one is in a signal handler")
                self.assert_unharmed(process)

    def test_a_handler_that_returns_late_into_the_borrowed_code(self):
        self.attach_with_signal_in_stop("handling")

    def test_a_thread_that_is_cancelled_while_it_is_borrowed(self):
        """It would leave pthread_create() with its locks."""
        self.attach_with_signal_in_stop("cancelled")

    def attach_with_signal_in_stop(self, mode):
        process = self.start_places(mode)
        # The leak checker cannot work in a process that is traced.
        environment = dict(self.environment, ASAN_OPTIONS="detect_leaks=0")
        # The main thread is borrowed where it is the only one.
        stats = [task / "stat" for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()]
        stat = next(stat for stat in stats if len(stats) == 1 or stat.parent.name != str(process.pid))
        # In a stop that is used, the eighth call resumes the thread; its signals are blocked already.
        command = subprocess.Popen([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=ptrace", "--inject=ptrace:delay_enter=400000:when=8", HEAPCTL,
                                    "attach", str(process.pid)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, command)
        wait_until(lambda: self.stands_still(stat), "the stop")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(command.wait(60), 0)
        self.detach(process.pid)
        self.assert_unharmed(process)

    def stands_still(self, stat):
        """For longer than any other of the command's calls takes."""
        for _ in range(10):
            if stat.read_text().rpartition(") ")[2][0] != "t":
                return False
            time.sleep(0.01)
        return True

    def test_the_stops_are_counted(self):
        process = self.start(need("sleep"), "1000")
        wait_until(lambda: "sleep" in os.readlink(f"/proc/{process.pid}/exe"), "the program")
        answer = json.loads(self.attach(process.pid, "--json")[0])
        self.assertGreaterEqual(answer["stops"], 1)
        self.assertGreater(answer["stop_us"], 0)
        self.assertGreaterEqual(answer["max_stop_us"], answer["stop_us"])
        self.assertGreaterEqual(answer["total_stop_us"], answer["max_stop_us"])

    def test_from_the_first_moment(self):
        """A program that loads its libraries is not taken for one that has none."""
        for _ in range(10):
            process = self.start(need("sleep"), "1000")
            _, message = self.heapctl("attach", process.pid, code=None)
            self.assertNotIn("static", message)
            self.assertNotIn("glibc", message)
            self.assertTrue(is_alive(process.pid))


# Is another user for a moment, again and again, or for good. For each line of input it prints "done".
ACTS_FOR_USERS = """
import os, select, sys, time
print('ready', flush=True)
for line in sys.stdin:
    if line.strip().isdigit():
        os.seteuid(0)
        os.seteuid(int(line))
    print('done', flush=True)
    while line == 'both\\n' and not select.select([0], [], [], 0.001)[0]:
        os.seteuid(65534)
        time.sleep(0.001)
        os.seteuid(0)
"""


# The number is that of setresuid() of x86-64, which changes the calling thread alone.
HAS_THREADS_OF_ANOTHER_USER = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
users = []

def act():
    users.append(libc.syscall(117, -1, 65534, -1))
    time.sleep(600)
for _ in range(8):
    threading.Thread(target=act, daemon=True).start()
while len(users) < 8:
    time.sleep(0.01)
print('ready', flush=True)
sys.stdin.readline()
print('ok', sum(users), flush=True)
"""


@only_root
class Users(PlacesCase):
    def test_a_thread_of_another_user_is_not_borrowed(self):
        """The agent would be that user's for ever, and not be trusted."""
        process = self.start_ready(sys.executable, "-c", HAS_THREADS_OF_ANOTHER_USER)
        for _ in range(3):
            # None of the eight was stopped to find that out.
            self.assertLess(json.loads(self.attach(process.pid, "--json")[0])["stops"], 8)
            self.assertIn("\nUid:\t0\t0\t0\t0\n", pathlib.Path(agent_thread(process.pid), "status").read_text())
            self.detach(process.pid)
        self.assert_unharmed(process)

    def tell(self, process, word):
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def start_for_users(self):
        """The program, and a folder of one of its users."""
        process = self.start_ready(sys.executable, "-c", ACTS_FOR_USERS)
        os.chmod(self.folder, 0o711)
        folder = os.path.join(self.folder, "of-user")
        os.mkdir(folder, 0o700)
        os.chown(folder, 65534, -1)
        return process, folder

    def test_a_program_that_acts_for_several_users(self):
        """Its agent has made the socket as one of them, and cannot remove that of another."""
        process, folder = self.start_for_users()
        self.attach(process.pid)
        self.tell(process, 65534)
        self.detach(process.pid)
        # Abandoned, it is removed by any search for agents on this machine.
        self.assertIn(os.listdir(self.agents), ([f"{process.pid}.sock"], []))
        self.heapctl("attach", process.pid, env={"HEAPCTL_DIR": folder})
        self.tell(process, "both")
        self.assertTrue(self.status(process.pid)["attached"])
        self.detach(process.pid)
        self.assertIsNone(agent_thread(process.pid))

    def test_an_agent_of_a_user_that_the_program_is_no_more_is_not_trusted(self):
        process, folder = self.start_for_users()
        self.tell(process, 65534)
        self.heapctl("attach", process.pid, env={"HEAPCTL_DIR": folder})
        self.tell(process, 0)
        self.assertIn("the socket belongs to untrusted user 65534", self.heapctl("detach", process.pid, code=1)[1])
        self.tell(process, 65534)
        self.detach(process.pid)


class Killed(PlacesCase):
    """heapctl dies at some moment of an attach: a call that its stop has ended with EINTR stays so (docs/attach.md)."""
    STRIDE = 6

    def kill_before(self, call, pid):
        """Whether there was such a call."""
        # The leak checker cannot work in a process that is traced.
        environment = dict(self.environment, ASAN_OPTIONS="detect_leaks=0")
        result = subprocess.run([PROGRAMS / "kill_at_step", str(call), HEAPCTL, "attach", str(pid)], env=environment, capture_output=True,
                                text=True, timeout=120)
        return "ended" not in result.stdout.split()

    def test_before_each_system_call(self):
        """All of its calls are tried, a part of them in each run."""
        call, has_more = random.randrange(self.STRIDE), True
        while has_more:
            with self.subTest(call=call):
                process = self.start_waits(1, "interrupted")
                has_more = self.kill_before(call, process.pid)
                _, message = self.heapctl("attach", process.pid, code=None)
                self.assertTrue(message == "" or "has an agent" in message, message)
                self.detach(process.pid)
                self.assert_unharmed(process)
            call += self.STRIDE * (5 if SANITIZED else 1)

    def test_again_and_again(self):
        """Each leaves code in another page, where a thread waits for heapctl; when that has ended the page can be used again."""
        process = self.start_waits(1, "interrupted")
        for _ in range(repeats(8)):
            self.attach_killed_when_it_waits(process.pid)
        messages = []
        def attaches():
            if process.poll() is not None:
                self.fail(f"the program has ended with {process.returncode}: {process.stdout.read()}")
            messages.append(self.heapctl("attach", process.pid, code=None)[1])
            return messages[-1] == ""
        # The threads count their sleeps, which a busy machine makes longer.
        with self.paused(process):
            wait_until(attaches, lambda: f"an attach after those that were killed: {messages[-1]}", 5 * PATIENCE_SECONDS, pause_seconds=0.5)
        self.detach(process.pid)
        for message in messages[:-1]:
            self.assertRegex(message, r"attaches that were killed have left code in it, .*\(try again in 10 seconds; nothing was changed\)\n$|"
                             r"did not stop: .*the machine is too busy\n$|could be used in \d+ ms: .*\(try again; nothing was changed\)\n$")
        self.attach(process.pid)
        self.detach(process.pid)
        self.assert_unharmed(process)

    def test_what_waits_is_not_in_the_way_of_patching(self):
        """Its stack cannot be walked, and ends where the next thread's begins."""
        process = self.start_places("stacked")
        self.attach_killed_when_it_waits(process.pid)
        out, _ = self.attach(process.pid, "--method", "entry")
        self.assertIn("functions of", out)
        self.detach(process.pid)
        self.assert_unharmed(process)

    def attach_killed_when_it_waits(self, pid):
        """For the new thread, which it has started by then: its first sleep, or no sleep at all."""
        subprocess.run([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=clock_nanosleep", "--inject=clock_nanosleep:signal=KILL:when=1", HEAPCTL,
                        "attach", str(pid)], env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), capture_output=True, timeout=120)
        self.heapctl("detach", pid, code=None)


if __name__ == "__main__":
    unittest.main()
