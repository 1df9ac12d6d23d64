#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb on a target that cannot answer: stopped, traced, frozen, hung, ended. The reason is reported at once, and no verb waits."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from agent_host import PROGRAMS, Host
from control_group import ControlGroup
from gateway import GatewayCase
from processes import AGENT, Case, HEAPCTL, agent_thread, jemalloc_path, stop, wait_until
from test_top import FINE, Screen
from tracing import trace

# Far from the two minutes that an answer may take, and from what a busy machine makes of "at once".
AT_ONCE_SECONDS = 60

# With the target as {}; those that take a profile write it here.
VERBS = [
    ["status", "{}"], ["status", "{}", "--json"], ["dump", "{}", "-o", "-"], ["dump", "{}", "--bundle", "-o", "-"], ["account", "{}"],
    ["stats", "{}"], ["runs", "{}"], ["activate", "{}"], ["deactivate", "{}"], ["mallctl", "{}", "prof.active"], ["start", "{}"],
    ["stop", "{}"], ["record", "{}", "-d", "1s", "-o", "-"], ["longlived", "{}", "--window", "1s", "--settle", "1s", "-o", "longlived"],
    ["report", "{}"], ["report", "--fragmentation", "{}"], ["top", "{}", "--count", "1"], ["trend", "{}"],
    ["watch", "{}", "--when", "rss>900GiB"],
]

# Listens where an agent would, and never answers; on request in a sleep that no signal interrupts, as a parent of vfork() is.
HUNG = """
import ctypes, os, pathlib, signal, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"{sys.argv[1]}/{os.getpid()}.sock")
listener.listen(8)
if len(sys.argv) > 2:
    pathlib.Path("/proc/self/comm").write_text("heapctl")
    libc = ctypes.CDLL(None)
    if libc.vfork() == 0:
        libc.pause()
signal.pause()
"""


class Silent(GatewayCase):
    def setUp(self):
        super().setUp()
        self.server, self.port = self.start_redis(conf=FINE)
        self.pid = self.server.pid
        self.wait_for_agent(self.pid)

    def freeze(self, pid, mount=None):
        """Freezes a process with a control group of its own; skips where it cannot make one."""
        group = ControlGroup(self, "freezer", mount)
        group.add(pid)
        self.addCleanup(group.thaw)
        group.freeze()

    def hung(self, *arguments):
        os.makedirs(self.agents, mode=0o700, exist_ok=True)
        process = self.start(sys.executable, "-c", HUNG, self.agents, *arguments)
        wait_until(lambda: os.path.exists(self.socket_of(process.pid)), "a socket")
        return process.pid

    def timed(self, *arguments, code=1, **options):
        begun = time.monotonic()
        out, said = self.heapctl(*arguments, code=code, **options)
        self.assertLess(time.monotonic() - begun, AT_ONCE_SECONDS, arguments)
        return out, said

    def check_kernel_rows(self, verb, pid, reason):
        """What the kernel shows of a process that is stopped or frozen, and why there is no more."""
        out, said = self.timed(*[word.format(pid) for word in verb], code=0 if verb[0] == "account" else 1)
        self.assertRegex(out if verb[0] == "account" else said, reason)
        if "--json" not in verb:
            self.assertRegex(out, "mapped anonymous")
            return
        found = json.loads(out)
        self.assertEqual((found["state"], found["pid"], found["can_attach"]), ("silent", pid, False))
        self.assertGreater(found["kernel"]["resident_bytes"], 1 << 20)

    def check_verbs(self, pid, reason, verbs=VERBS, code=1, has_rows=False, **options):
        """Every verb fails at once and says why; those that look at all processes list it and go on."""
        for verb in verbs:
            with self.subTest(" ".join(verb)):
                if has_rows and verb[0] in ("status", "account"):
                    self.check_kernel_rows(verb, pid, reason)
                    continue
                words = [word.format(pid) for word in verb]
                out, said = self.timed(*words, code=code, cwd=self.folder, **options)
                self.assertRegex(said, reason)
                self.assertEqual(out, "")
                self.assertEqual(said.count("\n"), 1, said)

    def check_lists(self, pid, reason):
        out, _ = self.timed("ps", code=0)
        self.assertRegex(out, rf"(?m)^ *{pid} .*{reason}")
        out, _ = self.timed("doctor", code=None)
        self.assertRegex(" ".join(out.split()), reason)
        out, _ = self.timed("doctor", pid)
        self.assertRegex(" ".join(out.split()), rf"wrong \S*{reason}|wrong .*{reason}")

    def test_stopped(self):
        stop(self.pid)
        self.addCleanup(os.kill, self.pid, signal.SIGCONT)
        self.check_verbs(self.pid, r"is stopped \(T\)( \(|.*\n)let it continue: kill -CONT \d+", has_rows=True)
        self.check_verbs(self.socket_of(self.pid), r"is stopped \(T\)", verbs=[["status", "{}"]])
        self.check_lists(self.pid, r"is stopped \(T\)")

    def test_traced(self):
        tracer = trace(self, self.pid)
        reason = rf"is stopped by hc-debugger\[{tracer.pid}\], which traces it \(t\)"
        self.check_verbs(self.pid, reason)
        self.check_lists(self.pid, reason)

    def test_only_the_agents_thread_is_traced(self):
        tracer = trace(self, self.pid, "heapctl")
        self.check_verbs(self.pid, rf"is stopped by hc-debugger\[{tracer.pid}\]", verbs=VERBS[:3])

    def sleeper(self):
        """A child, whose agent is asleep."""
        environment = {"LD_PRELOAD": AGENT, "MALLOC_CONF": "prof:true,prof_active:false"}
        parent = self.start(PROGRAMS / "agent_host_plain", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.wait_for_agent(parent.pid)
        pid = int(Host(parent)("fork"))
        self.end_pid_later(pid)
        wait_until(lambda: pid in [entry.get("pid") for entry in json.loads(self.heapctl("ps", "--json")[0])], "a child that does not just pass")
        return pid

    def test_a_sleeping_agents_process_is_traced(self):
        pid = self.sleeper()
        tracer = trace(self, pid)
        self.check_verbs(pid, rf"is stopped by hc-debugger\[{tracer.pid}\], which traces it \(t\)", verbs=VERBS[:3])

    def test_a_sleeping_agents_process_is_stopped(self):
        pid = self.sleeper()
        stop(pid)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.check_verbs(pid, r"is stopped \(T\)", verbs=VERBS[:5], has_rows=True)
        self.check_lists(pid, r"is stopped \(T\)")

    def test_an_agent_that_has_no_socket_is_not_asleep(self):
        server = self.start("sleep", "600", env={"LD_PRELOAD": AGENT, "HEAPCTL_DIR": "/proc/self/nothing"})
        wait_until(lambda: agent_thread(server.pid), "the agent's thread")
        reason = r"has the agent loaded, but its socket was not found"
        out, said = self.timed("status", server.pid, code=1)
        self.assertRegex(said, reason)
        self.assertIn("loaded, does not answer; run heapctl doctor", " ".join(out.split()))
        self.assertRegex(self.timed("status", server.pid, "--json", code=1)[1], reason)
        wait_until(lambda: re.search(rf"(?m)^ *{server.pid} .*{reason}", self.heapctl("ps")[0]), "an agent that is not young")

    def test_files_that_are_only_read_are_not_loaded(self):
        """A debugger maps the files of the process that it examines."""
        reader = self.start(sys.executable, "-c", "import mmap, sys, time\n"
                            "files = [open(path, 'rb') for path in sys.argv[1:]]\n"
                            "maps = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]\n"
                            "print(flush=True)\ntime.sleep(600)", AGENT, jemalloc_path(), stdout=subprocess.PIPE)
        reader.stdout.readline()
        self.assertNotIn(reader.pid, self.listed_pids())
        self.assertRegex(self.heapctl("status", reader.pid, code=None)[1], rf"has no agent \(heapctl attach {reader.pid} loads one")

    def test_frozen(self):
        self.freeze(self.pid)
        self.check_verbs(self.pid, "is frozen with its control group", has_rows=True)
        self.check_lists(self.pid, "is frozen with its control group")

    def test_frozen_by_the_second_version_beside_the_first(self):
        self.freeze(self.pid, pathlib.Path("/sys/fs/cgroup/unified"))
        self.check_verbs(self.pid, "is frozen with its control group", verbs=[("status", "{}")], has_rows=True)

    def test_asleep_in_the_kernel(self):
        pid = self.hung("vfork")
        wait_until(lambda: "\nState:\tD" in pathlib.Path(f"/proc/{pid}/status").read_text(), "a sleep")
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            self.end_pid_later(int(child))
        self.addCleanup(lambda: [os.kill(int(n), signal.SIGKILL) for n in (*children, pid)])
        self.check_verbs(pid, r"waits for the kernel \(D\)", verbs=VERBS[:3])
        self.check_lists(pid, r"waits for the kernel \(D\)")

    def test_zombie_and_ended(self):
        path = self.socket_of(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        # The main thread is one before the others are gone; until then the process counts as running.
        wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{self.pid}/status").read_text()
                   and os.listdir(f"/proc/{self.pid}/task") == [str(self.pid)], "a zombie")
        self.check_verbs(self.pid, rf"process {self.pid} has ended")
        self.server.wait()
        self.check_verbs(self.pid, rf"there is no process {self.pid}")
        # Any heapctl ps of the machine removes it.
        self.check_verbs(path, r"has ended|its process is gone|No such file", verbs=[["status", "{}"]])

    def test_without_socket(self):
        # The agent makes it again.
        os.unlink(self.socket_of(self.pid))
        self.assertIn(f"redis-server[{self.pid}]", self.timed("status", self.pid, code=0)[0])

    def test_a_full_queue_of_connections(self):
        stop(self.pid)
        self.addCleanup(os.kill, self.pid, signal.SIGCONT)
        waiting = []
        for _ in range(1000):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            self.addCleanup(client.close)
            try:
                client.connect(self.socket_of(self.pid))
            except BlockingIOError:
                break
        self.check_verbs(self.pid, r"is stopped \(T\)", verbs=VERBS[:3], has_rows=True)
        self.check_verbs(self.socket_of(self.pid), "takes no connections", verbs=VERBS[:1])
        self.check_lists(self.pid, r"is stopped \(T\)")

    def test_hung_agents_are_asked_together(self):
        pids = [self.hung() for _ in range(6)]
        begun = time.monotonic()
        entries = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        # One after the other they would take twelve seconds.
        self.assertLess(time.monotonic() - begun, AT_ONCE_SECONDS)
        for pid in pids:
            self.assertEqual(entries[pid]["state"], "silent")
            self.assertIn("no answer in time", entries[pid]["problem"])
        self.assertEqual(entries[self.pid]["state"], "reachable")

    def test_waiting_for_a_hung_agent_is_reported(self):
        pid = self.hung()
        client = subprocess.Popen([HEAPCTL, "status", str(pid)], env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, client)
        self.assertRegex(client.stderr.readline(), rf"\[{pid}\]: no answer yet; it may be busy")
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.wait(AT_ONCE_SECONDS), -signal.SIGINT)

    def test_waiting_for_an_answer_that_comes_byte_by_byte_is_reported(self):
        def answer(listener, head):
            client = listener.accept()[0]
            while not client.recv(4096):  # it only looks whether a process listens
                client = listener.accept()[0]
            with client, contextlib.suppress(OSError):
                client.sendall(head)
                while True:
                    client.send(b" ")
                    time.sleep(0.05)

        for head in (b"HTTP/1.1 200 OK\r\nX-Long:", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{"):
            with self.subTest(head), socket.socket(socket.AF_UNIX) as listener:
                path = f"{self.folder}/slow{len(head)}.sock"
                listener.bind(path)
                listener.listen()
                thread = threading.Thread(target=answer, args=(listener, head))
                thread.start()
                client = subprocess.Popen([HEAPCTL, "status", path], env=self.environment, stderr=subprocess.PIPE, text=True)
                self.addCleanup(self.end, client)
                try:
                    self.assertTrue(select.select([client.stderr], [], [], 10)[0])
                    self.assertIn("no answer yet; it may be busy", client.stderr.readline())
                finally:
                    client.send_signal(signal.SIGINT)
                    thread.join()
                self.assertEqual(client.wait(AT_ONCE_SECONDS), -signal.SIGINT)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_of_another_user(self):
        # The build may be in a folder that is closed to others.
        os.chmod(self.folder, 0o755)
        for program in (HEAPCTL, HEAPCTL + "-net"):
            shutil.copy(program, self.folder)
        self.check_verbs(self.pid, "run heapctl as that user or as root", program=os.path.join(self.folder, "heapctl"),
                         user=65534, group=65534, extra_groups=[])

    def test_q_ends_top_while_nothing_answers(self):
        screen = Screen(self, self.pid, "--interval", "300ms")
        screen.wait_for_text("IN USE*")
        tracer = trace(self, self.pid, "heapctl")
        screen.press("q")
        screen.expect_end(0)
        self.end(tracer)
        screen = Screen(self, self.hung())
        screen.wait_for_text("waiting for the first profile")
        screen.press("aq")
        screen.expect_end(0)

    def test_top_says_that_its_target_is_stopped(self):
        screen = Screen(self, self.pid, "--interval", "300ms")
        screen.wait_for_text("IN USE*")
        stop(self.pid)
        self.addCleanup(os.kill, self.pid, signal.SIGCONT)
        screen.wait_for_text("is stopped (T)")
        os.kill(self.pid, signal.SIGCONT)
        screen.wait_for(lambda lines: not any("is stopped" in line for line in lines), "a profile again")
        screen.press("q")
        screen.expect_end(0)

    def test_a_recording_of_a_target_that_stops_meanwhile_names_its_run(self):
        for verb in (["record", "-d", "5s"], ["longlived", "--window", "5s"]):
            output = os.path.join(self.folder, verb[0])
            client = self.start(HEAPCTL, *verb, self.pid, "-o", output, stderr=subprocess.PIPE)
            runs = lambda: [run["id"] for run in json.loads(self.heapctl("runs", self.pid, "--json")[0])["runs"] if run["state"] == "running"]
            run, = wait_until(runs, "the run")
            stop(self.pid)
            said = client.communicate(timeout=60)[1].decode()
            os.kill(self.pid, signal.SIGCONT)
            self.assertIn("is stopped (T)", said)
            self.assertIn(f"`heapctl runs {self.pid} --save {run}`", said)
            wait_until(lambda: not runs(), "the end of the run")
            self.heapctl("runs", self.pid, "--save", run, "-o", output + ".saved")

    def test_the_gateway_continues(self):
        other, _ = self.start_redis(conf=FINE)
        self.wait_for_agent(other.pid)
        stop(self.pid)
        self.addCleanup(os.kill, self.pid, signal.SIGCONT)
        self.start_gateway(self.pid, other.pid)
        begun = time.monotonic()
        answer = self.get(f"/targets/{self.pid}/v1/status")
        self.assertIn("is stopped (T)", answer.text)
        self.assertGreaterEqual(answer.status, 500)
        self.assertEqual(self.get(f"/targets/{other.pid}/v1/status").status, 200)
        self.assertEqual(self.get("/targets").status, 200)
        self.assertLess(time.monotonic() - begun, AT_ONCE_SECONDS)


if __name__ == "__main__":
    unittest.main()
