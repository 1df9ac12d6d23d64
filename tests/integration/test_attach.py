#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes that were started without the agent, and detaching: what the program notices, what is refused, what stays."""
import concurrent.futures
import contextlib
import ctypes
import gzip
import json
import mmap
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

from agent_host import PROGRAMS, only_root
from processes import (AGENT, Case, HEAPCTL, LANDLOCK_MAKE_SOCK, LANDLOCK_READ_DIR, SANITIZED, SECCOMP_EPERM, SECCOMP_KILL, UnixConnection, agent_thread, children_of,
                       forbid_call, free_port, is_alive,
                       jemalloc_path, landlock, mapped_code, need, need_namespace, repeats, own_name, processor_seconds, stop, wait_until, wait_while_it_progresses)
from tracing import trace

# Allocates a block and frees an older one, without end.
ALLOCATES = """
import time
blocks = []
for i in range(10**9):
    blocks.append(bytearray(100000))
    del blocks[:-200]
    time.sleep(0.001)
    if i == 10:
        print("ready", flush=True)
"""


POLL, MPROTECT, PRCTL = 7, 10, 157  # numbers of system calls
WAITS_FOR_AGENT = """
import os, signal, time

def names():
    for task in os.listdir("/proc/self/task"):
        try:
            yield open(f"/proc/self/task/{task}/comm").read()
        except OSError:
            pass

def has_agent_alone():
    found = list(names())
    return len(found) == 2 and "heapctl\\n" in found
while not has_agent_alone():
    time.sleep(0.002)
"""
STOPS_WITH_AGENT = WAITS_FOR_AGENT + "os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(600)\n"
EXECUTES_WITH_AGENT = WAITS_FOR_AGENT + "time.sleep(0.3)\nos.execv('/bin/sleep', ['sleep', '600'])\n"


class AttachCase(Case):
    # What start_waits() starts.
    waiting_program = "attached"
    # Why an attach may fail that came at a wrong moment of a storm; it leaves nothing.
    may_fail_by = r"could be used|stood still|did not stop|have been taken meanwhile"

    def attach_and_detach(self, process, *arguments):
        """Whether both were done."""
        _, message = self.attach(process.pid, *arguments, code=None)
        if message == "":
            self.detach(process.pid)
        else:
            self.assertRegex(message, self.may_fail_by)
        self.assertIsNone(process.poll(), process.poll() is not None and process.stdout.read())
        return message == ""

    def attach(self, pid, *arguments, code=0):
        return self.heapctl("attach", pid, *arguments, code=code)

    def detach(self, pid):
        return self.heapctl("detach", pid)

    def status(self, pid, code=0):
        return json.loads(self.heapctl("status", pid, "--json", code=code)[0])

    def start_python(self, code=ALLOCATES, **options):
        if code is ALLOCATES:
            options["stdout"] = subprocess.PIPE
        process = self.start(sys.executable, "-c", code, **options)
        if code is ALLOCATES:
            self.assertEqual(process.stdout.readline(), b"ready\n")
        wait_until(lambda: "python" in os.readlink(f"/proc/{process.pid}/exe"), "the program")
        return process

    def start_waits(self, storms, *arguments):
        """A program that checks itself; see its source."""
        return self.start_ready(PROGRAMS / self.waiting_program, storms, *arguments)

    @contextlib.contextmanager
    def paused(self, process):
        """Such a program's threads that compute sleep as long as the block lasts: a wait of seconds takes no processor from other tests."""
        process.stdin.write("p")
        process.stdin.flush()
        yield
        process.stdin.write("c")
        process.stdin.flush()

    def assert_unharmed(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertRegex(process.stdout.readline(), r"^ok \d+\n$")
        self.assertEqual(process.wait(60), 0)


class Attached(AttachCase):
    """The program does not notice."""

    def test_waits_blocks_and_registers(self):
        for storms in (0, 1, 8):
            with self.subTest(storms=storms):
                process = self.start_waits(storms)
                for _ in range(repeats(8)):
                    self.attach(process.pid, code=None)
                    self.heapctl("detach", process.pid, code=None)
                    self.assertIsNone(process.poll(), process.poll() is not None and process.stdout.read())
                self.assert_unharmed(process)

    def test_samples_are_of_what_came_after(self):
        process = self.start_python()
        self.attach(process.pid, "--interval", "4KiB")
        status = self.status(process.pid)
        self.assertTrue(status["attached"])
        self.assertEqual((status["profiling"]["sampler"], status["profiling"]["active"]), ("heapctl", True))
        self.assertEqual(status["profiling"]["sample_interval"], 4096)
        wait_until(lambda: self.status(process.pid)["sampler"]["samples"] > 400, "200 blocks and their successors")
        profile = os.path.join(self.folder, "attached.heap")
        self.heapctl("dump", process.pid, "-o", profile)
        out, _ = self.heapctl("report", "--text", profile)
        # 200 blocks of 100,000 bytes, each of which is sampled but for one in e^24; one may just come or go.
        total = re.match(r"Total: ([\d.]+) MB", out)
        self.assertIsNotNone(total, out[:200])
        self.assertAlmostEqual(float(total[1]) * (1 << 20) / 20_000_000, 1, delta=0.1)
        self.assertIn("PyByteArray", out)

    def test_reports_say_that_they_are_of_an_attach(self):
        process = self.start_python()
        self.attach(process.pid, "--interval", "4KiB")
        attached = self.status(process.pid)["started_ms"]
        self.assertIn("attached", self.heapctl("status", process.pid)[0])
        wait_until(lambda: self.status(process.pid)["sampler"]["samples"] > 400, "samples")
        first = os.path.join(self.folder, "first.heap")
        bundle = os.path.join(self.folder, "first.tar")
        self.heapctl("dump", process.pid, "-o", first)
        self.heapctl("dump", process.pid, "--bundle", "-o", bundle)
        self.assertRegex(pathlib.Path(first).read_text(), rf"\n#sampling heapctl since \d+ attached {attached} at \d+\n")
        for source in (first, bundle, process.pid):
            with self.subTest(source=source):
                out, said = self.heapctl("report", "--text", source)
                self.assertRegex(said, r"since the attach .* earlier")
                report = json.loads(self.heapctl("report", "--json", source)[0])
                self.assertEqual(report["attached_ms"], attached)
                self.assertIn("since the attach", report["sampling"])
                self.assertIn("since the attach", self.heapctl("report", "--flame", source)[0])
        self.assertIn("allocated since the attach", self.heapctl("top", process.pid, "--count", "1")[0])
        pprof = os.path.join(self.folder, "first.pb.gz")
        self.heapctl("report", "--pprof", first, "-o", pprof)
        self.assertIn(b"since the attach", gzip.decompress(pathlib.Path(pprof).read_bytes()))
        # What is in use is divided, and all rows still add up.
        account = json.loads(self.heapctl("account", process.pid, "--walk", "--json")[0])
        rows = {row["name"]: row for row in account["rows"]}
        self.assertGreater(rows["since_attach"]["bytes"], 15e6)
        self.assertLessEqual(account["before_attach_interval95"][0], rows["before_attach"]["bytes"])
        self.assertAlmostEqual(sum(row["bytes"] for row in account["rows"] if row["kind"] != "outside"), account["resident"], delta=1)
        # Two attaches are not one series.
        self.detach(process.pid)
        self.attach(process.pid, "--interval", "4KiB")
        second = os.path.join(self.folder, "second.heap")
        wait_until(lambda: self.status(process.pid)["sampler"]["samples"] > 400, "samples")
        self.heapctl("dump", process.pid, "-o", second)
        self.assertIn("are of different attaches", self.heapctl("diff", first, second)[1])
        out, _ = self.heapctl("trend", first, second)
        self.assertIn("attached anew 1 time", out)
        trend = json.loads(self.heapctl("trend", "--json", first, second)[0])
        self.assertEqual((trend["attach_count"], trend["runs"]), (1, [0, 1]))

    def test_without_samples_what_was_in_use_before_is_one_figure(self):
        process = self.start(sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        self.attach(process.pid, "--interval", "1GiB")
        out, _ = self.heapctl("account", process.pid, "--walk")
        self.assertRegex(out, r"What was in use before the attach, and what the sampler does not see, is \S+ [KM]iB\.")
        self.assertNotIn("lies between", out)

    def test_out_again_and_in_again(self):
        process = self.start_python()
        for _ in range(5):
            self.attach(process.pid)
            self.assertIsNotNone(agent_thread(process.pid))
            self.assertEqual(os.listdir(self.agents), [f"{process.pid}.sock"])
            self.assertTrue(self.status(process.pid)["sampler"]["installed"])
            out, _ = self.detach(process.pid)
            self.assertIn("detached", out)
            wait_until(lambda: agent_thread(process.pid) is None, "the thread to end")
            self.assertEqual([name for name in os.listdir(self.agents) if name.endswith(".sock")], [])
            self.assertIn("has no agent any more", self.heapctl("status", process.pid, code=1)[1])
        self.assertTrue(is_alive(process.pid))

    def test_a_profile_from_before_sampling_is_on_is_of_its_attach(self):
        process = self.start_waits(0)
        self.attach(process.pid, "--inactive")
        attached = self.status(process.pid)["started_ms"]
        profile = os.path.join(self.folder, "inactive.heap")
        self.heapctl("dump", process.pid, "-o", profile)
        self.assertRegex(pathlib.Path(profile).read_text(), rf"\n#sampling heapctl attached {attached} at \d+\n")
        self.assertEqual(json.loads(self.heapctl("report", "--json", profile)[0])["attached_ms"], attached)

    def test_a_child_of_an_attached_process_is_attached_to(self):
        """It samples already, and takes no waking signal: PostgreSQL's backends do that."""
        program = ("import os,signal,sys,time\nsys.stdin.readline()\npid = os.fork()\nif pid == 0:\n"
                   " signal.signal(signal.SIGRTMAX - 3, signal.SIG_DFL)\n print(os.getpid(), flush=True)\ntime.sleep(600)")
        process = self.start(sys.executable, "-c", program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.attach(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        self.end_pid_later(child)
        said = self.heapctl("status", child, code=1)[1]
        self.assertIn(f"has no agent: only its parent has one (heapctl attach {child} loads one)", said)
        said = self.heapctl("record", child, "--attach", "-d", "1s", "-o", os.path.join(self.folder, "child.heap"))[1]
        self.assertIn("sampling was on before and ends with the detach", said)
        self.assertIn("detached", said)
        self.assertIsNone(agent_thread(child))

    def test_an_agent_whose_thread_waits_for_a_processor(self):
        process = self.start(need("sleep"), "1000", env={"LD_PRELOAD": str(PROGRAMS / "slow_thread.so")})
        self.attach(process.pid)
        self.detach(process.pid)
        self.assertIsNone(agent_thread(process.pid))

    def test_nothing_is_left_of_the_agent_when_detach_has_ended(self):
        process = self.start_python()
        for _ in range(10):
            self.attach(process.pid)
            self.detach(process.pid)
            # At once: other commands would report an agent that does not answer.
            self.assertIsNone(agent_thread(process.pid))
        for command in ("status", "top", "dump", "detach"):
            self.assertIn(f"has no agent any more: the agent has ended (heapctl attach {process.pid} starts it again)",
                          self.heapctl(command, process.pid, code=1)[1], command)
        self.assertIn("has no agent any more: the agent has ended", self.heapctl("account", process.pid)[0])
        findings = json.loads(self.heapctl("doctor", process.pid, "--json", code=1)[0])["findings"]
        ended = next(finding for finding in findings if finding["code"] == "agent-ended")
        self.assertIn(f"heapctl attach {process.pid}", ended["hint"])
        self.assertIn("can-attach", [finding["code"] for finding in findings])
        self.assertIn("has ended or was detached", " ".join(self.heapctl("status", process.pid, code=1)[0].split()))
        row = next(line for line in self.heapctl("ps", "--all")[0].splitlines() if line.split()[0] == str(process.pid))
        self.assertRegex(row, r"\([\d.]+ [KMG]iB\)  no agent: heapctl attach can load one")
        row = next(row for row in json.loads(self.heapctl("ps", "--all", "--json")[0]) if row.get("pid") == process.pid)
        self.assertTrue(row["can_attach"])

    def test_attaching_a_hundred_times_grows_nothing(self):
        process = self.start(need("sleep"), "1000")
        mapped = []
        for _ in range(repeats(100)):
            self.attach(process.pid)
            self.detach(process.pid)
            mapped.append(len(pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines()))
        self.assertEqual(mapped[min(10, len(mapped) // 2)], mapped[-1], mapped)

    def test_children_of_an_attached_program(self):
        process = self.start(need("bash"), "-c", "while :; do x=$(/bin/true; printf %0500d 1); y=$y$x; [ ${#y} -gt 100000 ] && y=; done")
        stat = pathlib.Path(f"/proc/{process.pid}/stat")

        def faults_of_children():
            return int(stat.read_text().rpartition(") ")[2].split()[8])
        for _ in range(5):
            self.attach(process.pid)
            before = faults_of_children()
            wait_until(lambda seen=before: faults_of_children() > seen, "a child that has ended")
            self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))

    def test_a_child_of_an_attached_program_has_no_agent(self):
        process = self.start_python("import os, sys, time\nsys.stdin.read(1)\npid = os.fork()\nif pid: print(pid, flush=True)\ntime.sleep(600)",
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.attach(process.pid)
        process.stdin.write(b"x")
        process.stdin.flush()
        child = int(process.stdout.readline())
        self.end_pid_later(child)
        expected = f"has no agent: only its parent has one (heapctl attach {child} loads one)"
        self.assertIn(expected, self.heapctl("status", child, code=1)[1])
        findings = json.loads(self.heapctl("doctor", child, "--json", code=1)[0])["findings"]
        self.assertIn(expected.partition(" (")[0], "".join(finding["message"] for finding in findings))
        self.attach(child)
        self.assertTrue(self.status(child)["attached"])

    def test_a_signal_during_the_stop(self):
        process = self.start_python("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('woken', flush=True))\nprint('ready', flush=True)\n"
                                    "while True:\n    signal.pause()\n", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        # The leak checker cannot work in a process that is traced.
        environment = dict(self.environment, ASAN_OPTIONS="detect_leaks=0")
        slow = subprocess.Popen([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=ptrace", "--inject=ptrace:delay_enter=10000", HEAPCTL, "attach",
                                 str(process.pid)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, slow)
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(") ")[2][0] == "t", "the stop")
        time.sleep(0.2)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(slow.wait(60), 0)
        woken, _, _ = select.select([process.stdout], [], [], 10)
        self.assertTrue(woken, "the program still waits for a signal that it has had")

    def test_the_borrowed_code_goes_when_the_command_is_slow(self):
        """The new thread ends before the call has returned that lets it end."""
        process = self.start_waits(1)
        before = mapped_code(process.pid)
        subprocess.run([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=pwrite64", "--inject=pwrite64:delay_exit=50000", HEAPCTL, "attach",
                        str(process.pid)], env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), stdout=subprocess.DEVNULL, check=True)
        after = mapped_code(process.pid)
        self.assertEqual([hex(begin) for begin, code in before.items() if after[begin] != code], [])
        self.assert_unharmed(process)

    def test_another_pid_namespace(self):
        need_namespace("--pid")
        outer = self.start_ready("unshare", "--pid", "--fork", "--kill-child", PROGRAMS / "attached", "1")
        inner = wait_until(lambda: children_of(outer.pid), "the first process of the namespace")[0]
        for _ in range(3):
            self.attach(inner)
            self.detach(inner)
        self.assert_unharmed(outer)

    def test_threads_that_end(self):
        process = self.start(PROGRAMS / "attached", "2", "creating", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for _ in range(repeats(12)):
            _, message = self.heapctl("attach", process.pid, code=None)
            # Each of its threads may be in malloc at each look.
            self.assertTrue(message == "" or "could be used" in message or "has an agent" in message, message)
            self.heapctl("detach", process.pid, code=None)
        self.assertTrue(is_alive(process.pid))

    def test_a_main_thread_that_ends(self):
        code = "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=(4,)).start()\ntime.sleep(2)\nctypes.CDLL(None).pthread_exit(0)\n"
        process = self.start_python(code)
        self.attach(process.pid)
        self.assertEqual(process.wait(60), 0)

    def test_a_main_thread_that_has_ended_before(self):
        code = ("import ctypes, threading, time\n\ndef allocate():\n    blocks = []\n    while True:\n        blocks.append(bytearray(100000))\n"
                "        del blocks[:-200]\n        time.sleep(0.001)\n\nthreading.Thread(target=allocate).start()\nctypes.CDLL(None).pthread_exit(0)\n")
        process = self.start_python(code)
        wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the main thread's end")
        findings = json.loads(self.heapctl("doctor", process.pid, "--json", code=1)[0])["findings"]
        self.assertIn("can-attach", [finding["code"] for finding in findings])
        profile = os.path.join(self.folder, "ended.heap")
        for method in ("got", "entry"):
            with self.subTest(method):
                self.attach(process.pid, "--interval", "4KiB", "--method", method)
                wait_until(lambda: self.status(process.pid)["sampler"]["samples"] > 10, "samples")
                self.heapctl("dump", process.pid, "-o", profile)
                self.assertIn("PyByteArray", self.heapctl("report", "--text", profile)[0])
                self.detach(process.pid)
        self.assertTrue(agent_thread(process.pid) is None and os.path.isdir(f"/proc/{process.pid}/task"))

    def test_a_server_with_an_allocator_of_its_own(self):
        for conf, sampler in (("prof:false", "heapctl"), ("prof:true,prof_active:false", "jemalloc")):
            with self.subTest(conf=conf):
                process, port = self.start_redis(conf=conf, preload=False)
                self.attach(process.pid)
                status = self.status(process.pid)
                self.assertEqual((status["profiling"]["sampler"], status["profiling"]["active"]), (sampler, True))
                self.heapctl("dump", process.pid, "-o", os.path.join(self.folder, "redis.heap"))
                self.detach(process.pid)
                self.assertEqual(self.redis(port, "PING"), b"+PONG\r\n")

    def test_what_was_allocated_during_an_earlier_attach_is_not_counted(self):
        process = self.start_python("for line in open(0):\n    for _ in range(400): bytes(1 << 20)\n    print(flush=True)",
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        profile = os.path.join(self.folder, "later.heap")
        for method in ("got", "entry"):
            with self.subTest(method):
                self.attach(process.pid, "--method", method)
                process.stdin.write(b"\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), b"\n")
                self.heapctl("dump", process.pid, "-o", profile)
                self.assertRegex(self.heapctl("report", "--text", "--alloc_space", profile)[0], r"Total: [34]\d\d\.\d MB")
                self.detach(process.pid)
                self.attach(process.pid, "--method", method)
                self.heapctl("dump", process.pid, "-o", profile)
                self.assertNotRegex(self.heapctl("report", "--text", "--alloc_space", profile, code=None)[0], r"Total: [34]\d\d\.\d MB")
                self.detach(process.pid)

    def test_the_interval_is_that_of_before_after_a_detach(self):
        for conf, lg_sample in (("prof:false", 19), ("prof:true,prof_active:false,lg_prof_sample:18", 18)):
            with self.subTest(conf=conf):
                process, _ = self.start_redis(conf=conf, preload=False)
                for arguments, expected in ((("--interval", "64KiB"), 16), (("--inactive",), lg_sample), ((), lg_sample)):
                    self.attach(process.pid, *arguments)
                    self.assertEqual(self.status(process.pid)["profiling"]["lg_sample"], expected)
                    self.detach(process.pid)

    def test_programs_that_make_their_code(self):
        process = self.start(need("node"), "-e", "let a = []; setInterval(() => { a.push(Buffer.alloc(1e5)); if (a.length > 100) a = []; }, 1)")
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "its libraries")
        for _ in range(5):
            self.attach(process.pid)
            self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))


class Mapped(AttachCase):
    """Memory that the program maps itself."""
    CODE = ("import mmap, sys\nprint('ready', flush=True)\nsys.stdin.readline()\nkept = [mmap.mmap(-1, 1 << 20) for _ in range(32)]\n"
            "print('kept', flush=True)\nsys.stdin.readline()\nkept.clear()\nprint('freed', flush=True)\nsys.stdin.readline()\n")

    def start_mapping(self):
        process = self.start_ready(sys.executable, "-c", self.CODE)
        return process

    def go_on(self, process, word):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), word + "\n")

    def mapped_bytes(self, pid):
        path = os.path.join(self.folder, "mapped.heap")
        self.heapctl("dump", pid, "-o", path)
        lines = self.heapctl("report", "--collapsed", path)[0].splitlines()
        return sum(int(line.rpartition(" ")[2]) for line in lines if re.search(r"m(re)?map(64)? \d+$", line))

    def test_it_is_seen_from_the_attach_on(self):
        process = self.start_mapping()
        self.attach(process.pid, "--mapped", "--interval", "4KiB")
        self.assertTrue(self.status(process.pid)["sampler"]["mapped"])
        # A mapping of 256 intervals is never missed; the interpreter's arenas of a MiB are the rest.
        self.go_on(process, "kept")
        self.assertTrue(32 << 20 <= self.mapped_bytes(process.pid) < 40 << 20)
        self.go_on(process, "freed")
        self.assertLess(self.mapped_bytes(process.pid), 8 << 20)
        self.detach(process.pid)
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)

    def test_each_attach_has_its_own_request(self):
        process = self.start_mapping()
        for arguments in ((), ("--mapped",), ()):
            self.attach(process.pid, *arguments)
            self.assertEqual(self.status(process.pid)["sampler"]["mapped"], arguments != ())
            self.detach(process.pid)
        self.attach(process.pid, "--mapped", "--interval", "4KiB")
        self.go_on(process, "kept")
        self.assertGreaterEqual(self.mapped_bytes(process.pid), 32 << 20)

    def test_where_it_cannot_be_seen_nothing_is_attached(self):
        process, _ = self.start_redis(conf="prof:true,prof_active:false", preload=False)
        _, err = self.attach(process.pid, "--mapped", code=1)
        self.assertIn("jemalloc takes the samples, which show nothing that the program maps itself (attach without --mapped", err)
        self.assertIsNone(agent_thread(process.pid))


class Programs(AttachCase):
    """Programs that are easily disturbed (tests/integration/programs): they behave with an attached agent as without one."""
    PROFILERS = ("prof:false", "prof:true,prof_active:false")

    def outcome(self, *command, conf="", attach=("--interval", "4KiB"), detach=False):
        process = self.start(PROGRAMS / command[0], *command[1:], env={"MALLOC_CONF": conf, "WAIT_TO_BEGIN": "1"}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "waits\n")
        if attach is not None:
            self.attach(process.pid, *attach)
        if detach:
            self.detach(process.pid)
        out, err = process.communicate("\n", timeout=120)
        return process.returncode, out, err

    def assert_same(self, *commands, confs=("",), plain=None):
        """All at once: some end only when the agent checks the main thread."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            expected = {(command, conf): pool.submit(self.outcome, *command, conf=conf, attach=None) for command in commands for conf in confs}
            found = {(command, conf, *how): pool.submit(self.outcome, *command, conf=conf, attach=how[0], detach=how[1])
                     for command in commands for conf in confs for how in ((("--interval", "4KiB"), False), (("--inactive",), False), ((), True))}
            for (command, conf, *how), outcome in found.items():
                with self.subTest(command=command, conf=conf, how=how):
                    self.assertEqual(outcome.result(), expected[command, conf].result())
                    if plain is not None:
                        self.assertEqual(outcome.result(), plain)

    def test_a_main_thread_that_calls_pthread_exit(self):
        """The process ends with its last thread, as an orderly exit: by exit handlers, and with what is in its buffers."""
        self.assert_same(*(("main_exit_plain", life_ms, "-1") for life_ms in ("0", "1500", "9000")), confs=self.PROFILERS,
                         plain=(0, "main ends\nexit handler\n", ""))

    def test_another_thread_that_exits(self):
        self.assert_same(("main_exit_plain", "1500", "3"), confs=self.PROFILERS)

    def test_a_main_thread_that_is_killed(self):
        # The agent checks a second and five seconds after its start: the other thread ends later, also on a busy machine.
        self.assert_same(*(("main_killed", how, "500", life_ms) for how in ("exit", "filter") for life_ms in ("0", "12000")))

    def test_a_killing_filter_meets_no_call_of_the_agent(self):
        for program, confs in (("forks_in_sandbox_glibc", ("",)), ("forks_in_sandbox", self.PROFILERS)):
            self.assert_same((program, "allocate"), (program, "allocate", "thread"), (program, "allocate", "coroutine"),
                             (program, "end"), confs=confs)

    def test_sampled_programs(self):
        """Not the one that allocates in signal handlers, which jemalloc allows and glibc does not."""
        self.assert_same(*(("sampled_cases", name) for name in (
            "seccomp-kill", "seccomp-errno", "vfork", "fork-storm", "clone-storm", "thread-storm", "cancelled-threads", "coroutines",
            "alternate-stack", "address-space", "edges")))


class Death(AttachCase):
    """heapctl dies while it attaches."""

    def test_at_any_moment(self):
        attempts = random.Random(os.getpid())
        for _ in range(repeats(6)):
            process = self.start_waits(2, "interrupted")
            for _ in range(3):
                self.kill_heapctl(attempts.random() * 0.15, "attach", process.pid)
                # The one that was killed may have been the last step of it.
                self.heapctl("attach", process.pid, code=None)
                self.heapctl("detach", process.pid, code=None)
                self.assertTrue(is_alive(process.pid))
            self.assert_unharmed(process)

    def test_a_program_that_is_stopped_just_after_the_agent_was_loaded(self):
        """The agent cannot be asked to end then: the message says that it is there."""
        process = self.start_python(STOPS_WITH_AGENT)
        result = subprocess.run([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=connect", "--inject=connect:delay_enter=500000", HEAPCTL, "attach",
                                 str(process.pid)], env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, rf"is stopped \(T\) \(let it continue: kill -CONT {process.pid}; the agent stays loaded until heapctl detach {process.pid}\)")
        process.send_signal(signal.SIGCONT)
        self.detach(process.pid)
        self.assertIsNone(agent_thread(process.pid))

    def test_an_interrupt_takes_the_agent_out_again(self):
        """In the time in which heapctl waits for the agent's answer."""
        process = self.start_python()
        profile = os.path.join(self.folder, "interrupted.heap")
        for verb in (("attach", str(process.pid)), ("record", str(process.pid), "--attach", "-d", "1h", "-o", profile),
                     ("record", f"{process.pid}:*", "--attach", "-d", "1h", "-o", profile)):
            with self.subTest(verb):
                command = subprocess.Popen([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=connect", "--inject=connect:delay_enter=500000", HEAPCTL, *verb],
                                           env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.PIPE, text=True)
                wait_until(lambda: agent_thread(process.pid), "the agent")
                os.kill(children_of(command.pid)[0], signal.SIGINT)
                self.assertIn("interrupted; the agent was taken out again", command.communicate(timeout=60)[1])
                self.assertEqual(command.returncode, 1)
                self.assertIsNone(agent_thread(process.pid))
                self.assertFalse(os.path.exists(profile))

    def test_an_interrupt_waits_for_the_end(self):
        process = self.start_waits(1)
        for _ in range(3):
            command = subprocess.Popen([HEAPCTL, "attach", str(process.pid)], env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(0.02)
            command.send_signal(signal.SIGINT)
            command.wait()
            wait_until(lambda: self.heapctl("attach", process.pid, code=None)[1] == "" or agent_thread(process.pid), "an agent")
            self.detach(process.pid)
        self.assert_unharmed(process)


class Detached(AttachCase):
    """Whatever happened to the process since, the agent is taken out."""
    FILTER = """import ctypes, struct, sys, time
print("ready", flush=True)
sys.stdin.readline()
def rule(*fields): return struct.pack("HBBI", *fields)
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
code = ctypes.create_string_buffer(rule(6, 0, 0, 0x7fff0000))
libc.prctl(22, 2, struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)), 0, 0)
print("filtered", flush=True)
while True:
    x = bytearray(100000)
    time.sleep(0.01)
"""

    def test_another_agent_that_is_attached_at_once_is_not_waited_for(self):
        process = self.start_python()
        self.attach(process.pid)
        # It looks at the threads of the process after a second.
        slow = self.start(need("strace"), "-f", "-o", "/dev/null", "-e", "trace=getdents64", "--inject=getdents64:delay_enter=1000000", HEAPCTL, "detach",
                          str(process.pid), env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: agent_thread(process.pid) is None, "the end of the agent")
        self.attach(process.pid)
        self.assertRegex("".join(slow.communicate(timeout=120)), "detached")
        self.assertIsNotNone(agent_thread(process.pid))
        self.detach(process.pid)

    def test_a_client_that_keeps_its_connection(self):
        process = self.start_python()
        self.attach(process.pid)
        connection = UnixConnection(self.socket_of(process.pid))
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/status")
        self.assertEqual(json.loads(connection.getresponse().read())["pid"], process.pid)
        out, _ = self.detach(process.pid)
        self.assertIsNone(agent_thread(process.pid))
        # What stays is said in bytes: the file's mappings, and the rest of its data behind them.
        said = int(re.search(r"detached; (\d+) bytes of the library stay mapped", out)[1])
        lines = [line.split() for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines() if "libheapctl" in line]
        mapped = sum(int(end, 16) - int(begin, 16) for begin, end in (line[0].split("-") for line in lines))
        self.assertGreaterEqual(said, mapped)

    def test_slots_that_another_tool_has_changed_are_left(self):
        process = self.start(need("sleep"), "1000")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
        self.attach(process.pid, "--method", "got")

        def mappings(name):
            lines = (line.split() for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines())
            return [[int(number, 16) for number in line[0].split("-")] for line in lines if name in line[-1]]
        program, library = (mappings(name) for name in (os.readlink(f"/proc/{process.pid}/exe"), "libheapctl.so"))
        with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
            words = [address for begin, end in program for address in range(begin, end, 8)
                     if any(low <= int.from_bytes(os.pread(memory.fileno(), 8, address), "little") < high for low, high in library)]
            self.assertGreater(len(words), 1)
            os.pwrite(memory.fileno(), bytes(8), words[0])
            out, _ = self.detach(process.pid)
            self.assertIn("that another tool has changed since, and that were left: 1\n", out)
            self.assertEqual(os.pread(memory.fileno(), 8, words[0]), bytes(8))
            for address in words[1:]:
                value = int.from_bytes(os.pread(memory.fileno(), 8, address), "little")
                self.assertFalse(any(low <= value < high for low, high in library))
        self.attach(process.pid, "--method", "got")
        self.assertNotIn("left", self.detach(process.pid)[0])

    def test_a_folder_that_is_removed_and_made_again(self):
        process = self.start_python(env={"HEAPCTL_DIR": ""})
        parent = os.path.join(self.folder, "parent")
        variable = {"HEAPCTL_DIR": os.path.join(parent, "agents")}
        os.mkdir(parent)
        self.heapctl("attach", process.pid, env=variable)
        shutil.rmtree(parent)
        self.assertIn(f"(HEAPCTL_DIR, {parent}/agents, does not exist: an agent that was attached with it creates it again",
                      self.heapctl("detach", process.pid, code=1, env=variable)[1])
        findings = json.loads(self.heapctl("doctor", process.pid, "--json", code=1, env=variable)[0])["findings"]
        self.assertIn("folder-removed", [finding["code"] for finding in findings])
        os.mkdir(parent)
        wait_until(lambda: self.heapctl("detach", process.pid, code=None, env=variable)[1] == "", "the agent's new socket")
        self.assertIsNone(agent_thread(process.pid))

    def test_a_limit_of_open_files_since(self):
        process = self.start_python()
        self.attach(process.pid)
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
        self.assertRegex(self.heapctl("detach", process.pid, code=1)[1],
                         rf"its limit of open files \(RLIMIT_NOFILE\) is 0 \(prlimit --nofile=64 --pid {process.pid} raises the limit\)")
        self.assertIsNotNone(agent_thread(process.pid))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        self.detach(process.pid)
        self.assertIsNone(agent_thread(process.pid))

    def test_an_agent_that_does_not_follow_into_a_sandbox(self):
        """It takes out what it has changed, and another one can be attached."""
        process = self.start_python(self.FILTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.attach(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"filtered\n")
        self.heapctl("status", process.pid, code=None)
        wait_until(lambda: agent_thread(process.pid) is None, "the agent's end")
        hint = f"the agent has ended (heapctl doctor {process.pid} says why heapctl attach would not start it again)"
        self.assertIn(hint, self.heapctl("detach", process.pid, code=1)[1])
        self.assertRegex(self.attach(process.pid, code=1)[1], r"is in a sandbox \(seccomp\)")
        self.attach(process.pid, "--force")
        self.assertTrue(self.status(process.pid)["profiling"]["active"])
        self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))


# As the loader does for a time, again and again.
MAPS_TOO_MUCH = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
file = os.open(sys.argv[1], os.O_RDONLY)
print("ready", flush=True)
while True:
    area = libc.mmap(None, 16384, 5, 2, file, 0)
    time.sleep(0.005)
    libc.munmap(area, 16384)
    time.sleep(0.005)
"""


class Refused(AttachCase):
    """Nothing was changed, and the reason is reported."""

    def assert_refused(self, pid, expected, *arguments):
        before = pathlib.Path(f"/proc/{pid}/maps").read_text()
        message = self.attach(pid, *arguments, code=1)[1]
        self.assertRegex(message, expected)
        self.assertNotIn("libheapctl", before + pathlib.Path(f"/proc/{pid}/maps").read_text())
        self.assertIsNone(agent_thread(pid))

    def test_a_stopped_process(self):
        process = self.start_python()
        stop(process.pid)
        self.assert_refused(process.pid, r"is stopped")
        process.send_signal(signal.SIGCONT)
        self.attach(process.pid)

    def test_a_traced_process(self):
        process = self.start_python()
        tracer = trace(self, process.pid)
        self.assert_refused(process.pid, rf"is (stopped|traced) by \S+\[{tracer.pid}\]")

    def test_what_another_heapctl_traces(self):
        """Also the rest of one that was killed just now."""
        process = self.start_python()
        program = shutil.copy(os.path.realpath(sys.executable), os.path.join(self.folder, "heapctl"))
        tracer = self.start(program, "-c", "import ctypes, signal, sys\n"
                            "print(ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0), flush=True)\nsignal.pause()\n",
                            process.pid, stdout=subprocess.PIPE, text=True, env=dict(self.environment, PYTHONHOME=sys.base_prefix))
        if tracer.stdout.readline() != "0\n":
            self.skipTest("ptrace is not allowed here")
        self.assert_refused(process.pid, rf"is traced by heapctl\[{tracer.pid}\] \(it is just attaching: try again\)")

    def test_a_sandbox(self):
        code = ("import ctypes, struct, time\nlibc = ctypes.CDLL(None)\nlibc.prctl(38, 1, 0, 0, 0)\n"
                "code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
                "program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))\n"
                "libc.prctl(22, 2, program, 0, 0)\n"
                "open('/dev/null').close()\nwhile True:\n    x = bytearray(100000)\n    time.sleep(0.01)\n")
        process = self.start_python(code)
        wait_until(lambda: "Seccomp:\t2" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the filter")
        self.assert_refused(process.pid, r"is in a sandbox \(seccomp\)")

    def test_a_sandbox_that_kills(self):
        process = self.start("/bin/sleep", "600", preexec_fn=forbid_call(PRCTL, SECCOMP_KILL))
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
        self.assert_refused(process.pid, r"is in a sandbox \(seccomp\)")
        # What /proc shows while it ends may be the one or the other.
        self.assertRegex(self.attach(process.pid, "--force", code=1)[1], r"has ended( \(its sandbox \(seccomp\) has killed it, most likely|, or executes)")

    def test_a_sandbox_that_forbids_what_is_called(self):
        """The failure that is reported may be another one's consequence."""
        for call, bits, expected in ((MPROTECT, mmap.PROT_WRITE, r"could not start a thread: .*, or its sandbox \(seccomp\)"),
                                     (POLL, 0, r"its agent (has ended meanwhile|could make no socket).* \(its sandbox \(seccomp\) may forbid what the agent calls")):
            with self.subTest(expected):
                process = self.start("/bin/sleep", "600", preexec_fn=forbid_call(call, SECCOMP_EPERM, third_argument_bits=bits))
                wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
                self.assertRegex(self.attach(process.pid, "--force", code=1)[1], expected)
                self.assertIsNone(agent_thread(process.pid))
                self.assertIsNone(process.poll())

    def test_a_program_with_a_sanitizer_inside(self):
        """No library shows it. Its interceptors look like a malloc of the program's own."""
        program = os.path.join(self.folder, "program")
        subprocess.run([need("cc"), "-fsanitize=address", "-static-libasan", "-x", "c", "-", "-o", program],
                       input="#include <unistd.h>\nint main(void) { write(1, \"ready\\n\", 6); for (;;) pause(); }", text=True, check=True)
        process = self.start(program, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assert_refused(process.pid, r"was built with a sanitizer \(asan\), which has to see each malloc itself")

    def test_a_program_under_valgrind(self):
        process = self.start(need("valgrind"), "-q", "--tool=none", "/bin/sh", "-c", "echo ready; read line", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assert_refused(process.pid, r"runs under valgrind, which has to see each call itself")

    def test_a_process_that_has_an_agent(self):
        process, _ = self.start_redis()
        self.wait_for_agent(process.pid)
        self.assertIn("has an agent already", self.attach(process.pid, code=1)[1])
        self.assertIn("was started with its agent", self.heapctl("detach", process.pid, code=1)[1])

    def test_a_library_that_is_just_mapped_was_not_cut(self):
        """The loader maps as much of the file as the module has memory, then its parts over that."""
        library = pathlib.Path(self.folder, "libmapped.so")
        library.write_bytes(bytes(4096))
        process = self.start(sys.executable, "-c", MAPS_TOO_MUCH, library, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for _ in range(10):
            said = self.heapctl("doctor", process.pid, code=None)[0]
            self.assertNotIn("was cut", said)
            self.assertRegex(" ".join(said.split()), f"heapctl attach {process.pid} would (try to )?load the agent")
        self.attach(process.pid)
        self.detach(process.pid)

    def test_a_program_that_executes_another(self):
        """Whenever that happens, heapctl reports it at once and does not wait until its time limit and name another thread."""
        for delay in (0, 0.02, 0.04, 0.06):
            process = self.start(need("bash"), "-c", "read -t 0.3 line < <(sleep 9); exec sleep 1000")
            time.sleep(0.27 + delay)
            self.assertNotRegex(self.heapctl("attach", process.pid, code=None)[1], "loader|could be used")
            self.assertTrue(is_alive(process.pid))

    def test_a_program_that_executes_another_just_after_the_agent_was_loaded(self):
        """The child process that patches functions begins later than that."""
        process = self.start_python(EXECUTES_WITH_AGENT)
        result = subprocess.run([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=flock", "--inject=flock:delay_enter=1000000", HEAPCTL, "attach",
                                 str(process.pid), "--method", "entry"], env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, rf"^heapctl: \S+\[{process.pid}\] has ended, or executes another program now\n$")
        self.assertTrue(is_alive(process.pid))

    def test_a_thread_that_may_start_no_other(self):
        deadline = ["chrt", "-d", "--sched-runtime", "1000000", "--sched-deadline", "5000000", "--sched-period", "10000000", "0"]
        if subprocess.run([*deadline, "true"], capture_output=True).returncode != 0:
            self.skipTest("real-time priorities are not allowed here")
        process = self.start(*deadline, "sleep", "1000")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
        self.assert_refused(process.pid, r"SCHED_DEADLINE")
        self.assertTrue(is_alive(process.pid))

    def test_a_program_that_may_not_read_the_counter(self):
        """The clock of the C library reads it, and the signal would end the program."""
        process = self.start_python("import ctypes, signal\nctypes.CDLL(None).prctl(26, 2)\nsignal.pause()")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().startswith("34 "), "pause()")
        self.assertIn("PR_SET_TSC), which its agent needs (profile it without that setting)", self.attach(process.pid, code=1)[1])
        self.assertIsNone(agent_thread(process.pid))
        self.assertTrue(is_alive(process.pid))

    def test_no_memory_for_a_thread(self):
        process = self.start(need("sleep"), "1000")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
        code = self.read_code(process.pid)
        _, limit = resource.prlimit(process.pid, resource.RLIMIT_AS)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (1 << 20, limit))
        self.assert_refused(process.pid, r"it could not start a thread", "--force")
        self.assertEqual(self.read_code(process.pid), code)
        self.assertIn("\nSigBlk:\t0000000000000000\n", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))
        self.attach(process.pid)

    @unittest.skipIf(SANITIZED, "the sanitizers' library needs terabytes of addresses")
    def test_no_memory_for_the_tables_of_the_unwinder(self):
        process = self.start(need("sleep"), "1000")
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/wchan").read_text().endswith("nanosleep"), "the program")
        # The stack of its thread, which the C library keeps, is not what there is too little memory for.
        self.attach(process.pid)
        self.detach(process.pid)
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_AS)
        mapped = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        for spare in range(3 << 17, 1 << 21, 1 << 16):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (mapped + spare, hard))
            message = self.attach(process.pid, "--force", code=None)[1]
            if "no memory for the" in message:
                break
            self.assertRegex(message, r"^$|it could not start a thread")
            self.assertNotEqual(message, "", "nothing was too little")
        self.assertRegex(message, r"no memory for the .* \(raise the limit of its address space \(RLIMIT_AS\)")
        resource.prlimit(process.pid, resource.RLIMIT_AS, (hard, hard))
        self.attach(process.pid)
        self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))

    def test_a_limit_of_open_files(self):
        """The process may have no descriptor above the limit, and the agent needs a few."""
        process = self.start_python()
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        for limit in (0, 4, 8, 10):
            with self.subTest(limit):
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, hard))
                expected = rf"its limit of open files \(RLIMIT_NOFILE\) is {limit} \(prlimit --nofile=64 --pid {process.pid} raises the limit\)"
                self.assert_refused(process.pid, expected)
                self.assertIn("(RLIMIT_NOFILE)", " ".join(self.heapctl("doctor", process.pid, code=None)[0].split()))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, hard))
        self.attach(process.pid)
        self.heapctl("dump", process.pid, "-o", os.path.join(self.folder, "now.heap"))

    def test_a_program_that_has_opened_all_it_may(self):
        process = self.start_python("import os, resource, time\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\ntry:\n    while True: os.dup(0)\n"
                                    "except OSError: print('full', flush=True)\ntime.sleep(600)", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"full\n")
        message = rf"leaves its agent no descriptors: .* \(RLIMIT_NOFILE\) permits, 64 \(prlimit --nofile=128 --pid {process.pid} raises the limit\)"
        self.assert_refused(process.pid, message)
        self.assertRegex(" ".join(self.heapctl("doctor", process.pid, code=1)[0].split()), r"heapctl attach would refuse: .* leaves its agent no descriptors")
        self.assertFalse(self.status(process.pid, code=1)["can_attach"])
        # One is enough.
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (65, resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]))
        self.attach(process.pid)
        self.detach(process.pid)

    @only_root
    def test_an_agent_on_demand_that_no_signal_reaches(self):
        """It stays what it is, and can be woken later."""
        process = self.start(sys.executable, "-c", ALLOCATES, stdout=subprocess.PIPE,
                             env=dict(self.environment, LD_PRELOAD=AGENT, HEAPCTL_EXE=os.path.basename(os.path.realpath(sys.executable)),
                                      HEAPCTL_THREAD="on-demand"))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        limits = resource.prlimit(process.pid, resource.RLIMIT_SIGPENDING)
        resource.prlimit(process.pid, resource.RLIMIT_SIGPENDING, (0, limits[1]))
        expected = rf"\(RLIMIT_SIGPENDING\).*prlimit --sigpending=1024 --pid {process.pid} raises the limit"
        self.assertRegex(self.attach(process.pid, code=1)[1], expected)
        findings = " ".join(self.heapctl("doctor", process.pid, code=None)[0].split())
        self.assertRegex(findings, expected)
        self.assertNotIn("heapctl attach", findings)
        resource.prlimit(process.pid, resource.RLIMIT_SIGPENDING, limits)
        self.assertRegex(self.attach(process.pid, code=1)[1], r"has an agent already \(heapctl activate")
        self.assertFalse(self.status(process.pid)["attached"])

    def read_code(self, pid):
        """All memory that it may execute, by address."""
        ranges = [line.split()[0].split("-") for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "r-xp" in line]
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            return {begin: os.pread(memory.fileno(), int(end, 16) - int(begin, 16), int(begin, 16)) for begin, end in ranges}

    def test_an_agent_of_no_use_does_not_stay(self):
        process, _ = self.start_redis(conf="prof:true,prof_active:true", preload=False)
        self.assertIn("sampling is on already", self.attach(process.pid, "--interval", "4KiB", code=1)[1])
        self.assertEqual([name for name in os.listdir(self.agents) if name.endswith(".sock")], [])
        wait_until(lambda: agent_thread(process.pid) is None, "the thread to end")
        self.attach(process.pid)

    def test_what_is_no_process(self):
        self.assertIn("there is no process", self.attach(2 ** 22 - 1, code=1)[1])
        self.assertIn("no process is called", self.attach(own_name("none"), code=1)[1])
        self.assertIn("is not a pid", self.attach("0", code=2)[1])
        self.assertIn("a pid or a name", self.attach("http://localhost:1", code=2)[1])

    def test_a_folder_that_other_users_can_read(self):
        process = self.start_python()
        folder = os.path.join(self.folder, "open-heapctl")
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        said = self.heapctl("attach", process.pid, code=1, env={"HEAPCTL_DIR": folder})[1]
        self.assertIn(f"{folder} is open to other users (mode 0755): the agent does not use it (chmod 700 {folder})", said)
        self.assertIsNone(agent_thread(process.pid))

    def test_a_folder_that_is_none(self):
        process = self.start_python()
        path = os.path.join(self.folder, "file")
        pathlib.Path(path).touch()
        said = self.heapctl("attach", process.pid, code=1, env={"HEAPCTL_DIR": path})[1]
        self.assertIn(f"HEAPCTL_DIR, {path}, is not a folder (set HEAPCTL_DIR to a folder, or remove {path})", said)
        link = os.path.join(self.folder, "link")
        os.symlink(self.folder, link)
        for verb in ("attach", "status", "detach"):
            said = self.heapctl(verb, process.pid, code=1, env={"HEAPCTL_DIR": link})[1]
            self.assertIn(f"(set HEAPCTL_DIR to a folder itself, not to a link, or remove {link}", said, verb)
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{process.pid}/maps").read_text())

    def test_a_folder_that_the_agent_cannot_make(self):
        """Nothing is loaded: an agent that makes no socket, or another one, could not be reached."""
        process = self.start_python()
        for value, expected in (("/" + "d" * 255, "HEAPCTL_DIR has 256 bytes, and the agent takes no more than 255 (choose a shorter path)"),
                                ("relative", "HEAPCTL_DIR, 'relative', is not an absolute path (begin it with /)"),
                                (self.folder + "/two\nlines", "HEAPCTL_DIR has several lines"),
                                (self.folder + "/none/agents", f"HEAPCTL_DIR, {self.folder}/none/agents, cannot be made: its parent does not exist")):
            with self.subTest(value):
                self.assertIn(expected, self.heapctl("attach", process.pid, code=1, env={"HEAPCTL_DIR": value})[1])
                self.assertIn(expected.split(" (")[0], " ".join(self.heapctl("doctor", process.pid, code=1, env={"HEAPCTL_DIR": value})[0].split()))
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{process.pid}/maps").read_text())

    def test_a_folder_that_ends_in_a_slash(self):
        process = self.start_python()
        folder = {"HEAPCTL_DIR": self.folder + "/agents-of-it//"}
        self.heapctl("attach", process.pid, env=folder)
        self.heapctl("detach", process.pid, env=folder)

    def test_a_name_for_the_profile_that_cannot_be_written(self):
        process = self.start_python()
        for target in (process.pid, f"{process.pid}:*"):
            with self.subTest(target):
                self.assertIn("none/x.heap", self.heapctl("record", target, "--attach", "-d", "1s", "-o", self.folder + "/none/x.heap", code=1)[1])
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{process.pid}/maps").read_text())

    @only_root
    def test_another_users_process(self):
        process = self.start_python()
        command = shutil.copy(HEAPCTL, os.path.join(self.folder, "heapctl"))
        result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", command, "attach", str(process.pid)],
                                capture_output=True, text=True, cwd="/")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"may not be traced .*run heapctl as that user or as root|denied")

    @only_root
    def test_a_refusal_names_the_cause_that_is_left(self):
        process = self.start_python()

        def say(*before, verb="attach", **options):
            result = subprocess.run([*before, HEAPCTL, verb, str(process.pid)], capture_output=True, text=True,
                                    env=self.environment, **options)
            self.assertEqual(result.returncode, 1, result.stderr)
            return " ".join((result.stdout + result.stderr).split())

        for verb in ("attach", "doctor"):
            said = say("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all", verb=verb)
            self.assertIn("it has capabilities that heapctl lacks (0x80000), and heapctl lacks CAP_SYS_PTRACE", said)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(444, None, ctypes.c_size_t(0), 1) < 1:
            self.skipTest("no Landlock in this kernel")

        def enter_landlock():
            # Only LANDLOCK_ACCESS_FS_MAKE_BLOCK is restricted; a domain may trace no process outside.
            ruleset = libc.syscall(444, ctypes.byref(ctypes.c_uint64(1 << 11)), ctypes.c_size_t(8), 0)
            libc.prctl(38, 1, 0, 0, 0)
            if ruleset < 0 or libc.syscall(446, ruleset, 0) != 0:
                os._exit(99)
        for verb in ("attach", "doctor"):
            said = say(verb=verb, preexec_fn=enter_landlock)
            self.assertRegex(said, r"a security module of the kernel \([a-z, ]*landlock[a-z, ]*\) refuses it: heapctl has the rights for it "
                                   r"\(CAP_SYS_PTRACE\)")
            self.assertNotIn("lacks", said)

    def test_a_sandbox_of_files(self):
        """The modes permit a socket and Landlock does not: the hint names that, not the folder or a tmpfs."""
        os.makedirs(self.environment["HEAPCTL_DIR"], mode=0o700, exist_ok=True)
        for rights in (LANDLOCK_READ_DIR, LANDLOCK_MAKE_SOCK):
            with self.subTest(rights=rights):
                process = self.start("/bin/sleep", "600", preexec_fn=landlock(self, rights))
                wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
                           and pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "sleep")
                said = self.attach(process.pid, code=1)[1]
                self.assertIn("Permission denied (it may be in a sandbox (Landlock) that lets it make no file or socket there", said)
                self.assertTrue(is_alive(process.pid))

    @only_root
    def test_root_attaches_to_another_users_process(self):
        script = os.path.join(self.folder, "allocates.py")
        pathlib.Path(script).write_text(ALLOCATES)
        process = self.start("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", script,
                             env={"XDG_RUNTIME_DIR": ""})
        wait_until(lambda: "python" in os.readlink(f"/proc/{process.pid}/exe"), "the program")
        # It cannot write to our folder; the library must be where it may read it.
        result = subprocess.run([HEAPCTL, "attach", str(process.pid)], capture_output=True, text=True,
                                env={key: value for key, value in self.environment.items() if key != "HEAPCTL_DIR"})
        if "Permission denied" in result.stderr:
            self.skipTest("the build folder is closed to other users")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.heapctl("detach", process.pid)
        self.assertTrue(is_alive(process.pid))


class Go(AttachCase):
    """Go's runtime has its own memory, which no allocator's call shows, and its own profiler."""
    STATIC = """package main
import ("os"; "runtime/pprof"; "time")
var held [][]byte
func main() {
	for i := 0; i < 2000; i++ { held = append(held, make([]byte, 16384)) }
	file, _ := os.Create(os.Args[1])
	pprof.WriteHeapProfile(file)
	file.Close()
	os.Stdout.WriteString("ready\\n")
	time.Sleep(time.Hour)
}
"""
    WITH_C = """package main
// #include <stdlib.h>
import "C"
import ("os"; "time")
func main() { C.malloc(100); os.Stdout.WriteString("ready\\n"); time.Sleep(time.Hour) }
"""

    def start_go(self, name, source):
        path = os.path.join(self.folder, name)
        pathlib.Path(path + ".go").write_text(source)
        environment = dict(os.environ, GO111MODULE="off", GOCACHE=os.path.join(self.folder, "cache"), GOFLAGS="")
        subprocess.run([need("go"), "build", "-ldflags=-s -w", "-o", path, path + ".go"], env=environment, check=True, capture_output=True)
        process = self.start(path, path + ".pprof", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process, path

    def words(self, *command, code=0):
        return " ".join("".join(self.heapctl(*command, code=code)).split())

    def test_a_static_program_is_refused_with_gos_profiler_as_the_hint(self):
        process, path = self.start_go("server", self.STATIC)
        hint = "use Go's own profiler, net/http/pprof or runtime/pprof: heapctl report reads its heap profiles"
        for command, code in ((("attach",), 1), (("status",), 1), (("account",), 0), (("doctor",), 1), (("record", "--duration", "1s", "--attach"), 1)):
            said = self.words(command[0], process.pid, *command[1:], code=code)
            self.assertIn(hint, said, command)
            self.assertNotIn("libheapctl.a", said, command)
        self.assertIn("is a static Go program", self.words("ps", "--all"))
        self.assertIn(hint, self.words("run", "--", path, code=1))
        # What the hint says works.
        self.assertRegex(self.words("report", "--text", path + ".pprof"), r"Total: \d+\.\d MB .* main\.main")

    def test_a_program_with_c_parts_says_whose_memory_is_shown(self):
        process, _ = self.start_go("mixed", self.WITH_C)
        for command in ("doctor", "account"):
            said = self.words(command, process.pid, code=None)
            self.assertIn("it is a Go program", said)
            self.assertIn("net/http/pprof", said)
            self.assertNotIn("glibc's arenas", said)
        self.assertIn("start it with heapctl run to see what its C code allocates", self.words("attach", process.pid, code=1))


class Offered(AttachCase):
    """A process without an agent: the command that would attach one, and nothing that does it."""

    def test_by_verbs_that_look_for_an_agent(self):
        process = self.start_python()
        offer = f"heapctl attach {process.pid} loads one while it runs"
        for command in (("top",), ("watch", "--when", "every=1s"), ("status",), ("report",), ("record", "--duration", "1s")):
            with self.subTest(verb=command[0]):
                self.assertIn(offer, self.heapctl(command[0], process.pid, *command[1:], code=1)[1])
        self.assertIsNone(agent_thread(process.pid))

    def test_where_it_is_refused_the_offer_is_what_helps(self):
        process = self.start_python()
        trace(self, process.pid)
        for command in ("top", "status"):
            message = self.heapctl(command, process.pid, code=1)[1]
            self.assertRegex(message, rf"end \S+\[\d+\] first, as a process has one tracer, then heapctl attach {process.pid}")
            self.assertNotIn("heapctl run", message)

    def test_not_where_it_would_be_refused(self):
        process = self.start_python()
        stop(process.pid)
        message = self.heapctl("top", process.pid, code=1)[1]
        process.send_signal(signal.SIGCONT)
        self.assertIn("has no agent", message)
        self.assertNotIn("loads one while it runs", message)

    def test_of_a_name_that_several_have(self):
        name = own_name("twins")
        command = shutil.copy(os.path.realpath("/bin/sleep"), os.path.join(self.folder, name))
        pids = sorted(self.start(command, "1000").pid for _ in range(2))
        wait_until(lambda: all(os.readlink(f"/proc/{pid}/exe") == command for pid in pids), "both programs")
        message = self.heapctl("top", name, code=1)[1]
        self.assertIn(f"2 processes are called '{name}', and none has an agent: {pids[0]}, {pids[1]} (heapctl attach PID", message)


# Listens as its agent would, reads a request, answers with what it is called with, and executes sleep(1), which closes the connection.
LEAVES = """
import os, socket, sys
os.makedirs(sys.argv[1], 0o700, exist_ok=True)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/" + str(os.getpid()) + ".sock")
listener.listen()
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    if client.recv(4096):
        client.send(sys.argv[2].encode())
        os.execvpe("sleep", ["sleep", "1000"], dict(os.environ, LD_PRELOAD=sys.argv[3]))
"""

# The same, but kills itself. Large files are slow to close, so that the connection is closed some time before the process is a zombie.
DIES = """
import os, signal
def open_large_file():
    os.posix_fallocate(os.memfd_create("large"), 0, 100 << 20)
open_large_file()
""" + LEAVES[:LEAVES.index("        os.execvpe")] + """
        open_large_file()
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Lost(AttachCase):
    """A process that executes another program, or dies, while a command waits for its agent: the message is about the process."""

    def test_in_the_middle_of_an_answer(self):
        for answer in ("", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"):
            with self.subTest(answer=answer):
                for preload in ("", AGENT):
                    process = self.start(sys.executable, "-c", LEAVES, self.agents, answer, preload, stdout=subprocess.PIPE)
                    self.assertEqual(process.stdout.readline(), b"ready\n")
                    said = self.heapctl("stats", process.pid, code=1)[1]
                    self.assertRegex(said, rf"^heapctl: python\S*\[{process.pid}\] executes another program now "
                                           rf"\(try again; if that has no agent, heapctl attach {process.pid} loads one\)\n$")

    def test_a_process_that_is_killed_in_the_middle_of_an_answer_has_ended(self):
        process = self.start(sys.executable, "-c", DIES, self.agents, "", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        said = self.heapctl("stats", process.pid, code=1)[1]
        self.assertRegex(said, rf"^heapctl: python\S*\[{process.pid}\] has ended\n$")

    def test_between_two_requests(self):
        process = self.start_python(f"import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: os.execvp('sleep', ['sleep', '1000']))\n{ALLOCATES}",
                                    stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.attach(process.pid, "--inactive")
        running = subprocess.Popen([HEAPCTL, "record", str(process.pid), "-d", "1hrs", "-o", os.path.join(self.folder, "lost.heap")],
                                   env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, running)
        wait_until(lambda: self.status(process.pid)["profiling"]["active"], "sampling")
        process.send_signal(signal.SIGUSR1)
        self.assertRegex(running.communicate(timeout=60)[1], r"executes another program now|has no agent any more: the agent has ended \(heapctl attach")

    def test_just_after_the_program_with_an_agent_began(self):
        """Its process is old, so nothing shows that its agent is about to come."""
        in_time = 0
        while in_time < 5:
            process = self.start("/bin/sh", "-c", "read line; LD_PRELOAD=$0 exec sleep 1000", f"{AGENT}:{PROGRAMS / 'slow_start.so'}",
                                 stdin=subprocess.PIPE)
            time.sleep(1.3)  # no longer young
            process.stdin.write(b"\n")
            process.stdin.flush()
            wait_until(lambda: AGENT in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "its agent to be loaded")
            began = time.monotonic()
            asked = subprocess.run([HEAPCTL, "status", str(process.pid)], env=self.environment, capture_output=True, text=True)
            wait_until(lambda: os.path.exists(os.path.join(self.agents, f"{process.pid}.sock")), "its agent")
            if time.monotonic() - began < 0.2:  # on a busy machine the agent may be later than heapctl waits
                in_time += 1
                self.assertIn("\n  agent ", asked.stdout)
                self.assertEqual(asked.stderr, "")
            self.end(process)


class Record(AttachCase):
    def test_record_attaches_and_detaches(self):
        process = self.start_python()
        profile = os.path.join(self.folder, "recorded.heap")
        self.assertIn("has no agent", self.heapctl("record", process.pid, "-d", "1s", "-o", profile, code=1)[1])
        _, err = self.heapctl("record", process.pid, "--attach", "--duration", "2s", "--sample", "16KiB", "-o", profile)
        self.assertIn("attached; one thread stood still for", err)
        self.assertTrue(err.rstrip().endswith("detached"), err)
        self.assertIn("PyByteArray", self.heapctl("report", "--text", profile)[0])
        self.assertIsNone(agent_thread(process.pid))

    def test_the_recording_of_another_command_goes_on(self):
        """Both find no agent; one of them begins a run, and the other one leaves it."""
        process = self.start_python()
        words = [HEAPCTL, "record", str(process.pid), "--attach", "-d", "3s", "-o"]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        slow = self.start(need("strace"), "-f", "-o", "/dev/null", "-e", "trace=flock", "--inject=flock:delay_enter=1000000", *words,
                          os.path.join(self.folder, "slow.heap"), env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), **streams)
        wait_until(lambda: slow.poll() is not None or any(children_of(child) for child in children_of(slow.pid)), "the child process")
        other = self.start(*words, os.path.join(self.folder, "other.heap"), env=self.environment, **streams)
        said = [recorder.communicate(timeout=120)[1] for recorder in (slow, other)]
        self.assertEqual(sorted((slow.returncode, other.returncode)), [0, 1], said)

    def test_a_profile_that_cannot_be_saved_stays_with_the_agent(self):
        process = self.start_python()
        profile = os.path.join(self.folder, "second.heap")
        for target in (str(process.pid), f"{process.pid}:*"):
            with self.subTest(target):
                out = "/dev/full"
                if ":" in target:
                    out = os.path.join(self.folder, "sum.heap")
                    os.symlink("/dev/full", f"{out}.{process.pid}")
                said = self.heapctl("record", target, "--attach", "-d", "1s", "-o", out, code=1)[1]
                self.assertNotIn("]: detached", said)
                advice = re.search(r"the agent has it: heapctl (runs \d+ --save \d+ -o )FILE, then heapctl detach (\d+)", " ".join(said.split()))
                self.assertIsNotNone(advice, said)
                self.heapctl(*advice[1].split(), profile)
                self.assertGreater(os.path.getsize(profile), 0)
                self.heapctl("detach", advice[2])

    def test_the_advice_for_a_start_that_cannot_be_saved_ends_the_attach(self):
        process, _ = self.start_redis(conf="prof:true,prof_active:true", preload=False)
        said = self.heapctl("record", str(process.pid), "--attach", "-d", "1s", "-o", os.path.join(self.folder, "end.heap"),
                            "--start-profile", "/dev/full", code=1)[1]
        self.assertRegex(" ".join(said.split()), rf"--save \d+ -o END --start-profile START, then heapctl detach {process.pid}\)")
        self.heapctl("detach", str(process.pid))

    def test_a_command_says_that_the_agent_was_detached_meanwhile(self):
        process = self.start_python()
        gone = f"has no agent any more: the agent has ended (heapctl attach {process.pid} starts it again)"
        for command in (("record", "-d", "1hrs", "-o", os.path.join(self.folder, "lost.heap")), ("top", "--interval", "100ms"),
                        ("longlived", "--window", "1hrs", "-o", os.path.join(self.folder, "lost.heap"))):
            with self.subTest(verb=command[0]):
                self.attach(process.pid, *(["--inactive"] if command[0] != "top" else []))
                running = subprocess.Popen([HEAPCTL, command[0], str(process.pid), *command[1:]], env=self.environment,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                self.addCleanup(self.end, running)
                wait_until(lambda: self.status(process.pid)["profiling"]["active"], "sampling")
                self.detach(process.pid)
                self.assertIn(gone, running.communicate(timeout=60)[1])
                self.assertEqual(running.returncode, 1)
        self.assertTrue(is_alive(process.pid))

    def test_few_large_blocks_are_enough(self):
        process = self.start_python("import time\nblocks = []\nwhile True:\n    blocks.append(bytearray(20_000_000))\n    del blocks[:-5]\n    time.sleep(0.05)\n")
        record = self.start(HEAPCTL, "record", process.pid, "--attach", "-d", "1h", "-o", os.path.join(self.folder, "large.heap"), stderr=subprocess.PIPE)
        wait_until(lambda: json.loads(self.heapctl("status", process.pid, "--json", code=None)[0] or "{}").get("run"), "the run")
        used = processor_seconds(process.pid)
        wait_while_it_progresses(lambda: processor_seconds(process.pid), used + 0.5, "some blocks")
        record.send_signal(signal.SIGINT)
        self.assertEqual(record.wait(60), 0)
        self.assertNotIn(b"too few", record.stderr.read())

    def test_doctor_and_ps_say_whether_it_would_work(self):
        process = self.start_python()
        out, _ = self.heapctl("doctor", process.pid, code=None)
        self.assertRegex(" ".join(out.split()), f"heapctl attach {process.pid} would (try to )?load the agent")
        rows = json.loads(self.heapctl("ps", "--all", "--json")[0])
        row = next(row for row in rows if row.get("pid") == process.pid)
        self.assertEqual((row["state"], row["can_attach"]), ("no-agent", True))
        self.assertGreater(row["resident_bytes"], 1 << 20)
        self.assertIsNone(agent_thread(process.pid))


if __name__ == "__main__":
    unittest.main()
