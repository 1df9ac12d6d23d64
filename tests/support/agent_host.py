# SPDX-License-Identifier: Apache-2.0
"""The program that tests of the agent control (tests/integration/programs/agent_host.c), and raw clients of its socket."""
import contextlib
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import termios
import time
import unittest

from processes import AGENT, BUILD, PATIENCE_SECONDS, Case, is_alive, jemalloc_path, wait_until

PROGRAMS = BUILD / "tests/integration"
SANITIZER = os.environ.get("HEAPCTL_SANITIZE", "none")
SANITIZED = SANITIZER != "none"
PROFILING = "prof:true,prof_active:false"

# Of heapctl.h.
NO_SOCKET, NO_THREAD, NOT_IN_CHILDREN, NO_ENVIRONMENT = 1, 2, 4, 8


class Host:
    """A running agent_host: host("fork") gives the order and returns the answer."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise AssertionError(f"agent_host ended with {self.process.wait(PATIENCE_SECONDS)}")
        return line[:-1]

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def __call__(self, *words):
        self.send(*words)
        answer = self.read()
        if answer.startswith("error"):
            raise AssertionError(f"{words}: {answer}")
        return answer

    @contextlib.contextmanager
    def looping(self):
        """An embedded host drives its agent as long as the block lasts; then `turns` says how often."""
        self.send("loop", 0)
        yield
        self.send("pid")
        self.turns = int(self.read())
        self.read()

    def refuses(self, *words):
        self.send(*words)
        answer = self.read()
        if not answer.startswith("error"):
            raise AssertionError(f"{words} should have failed: {answer}")
        return answer


class HostCase(Case):
    """Kinds of host: "fake" runs the agent on a fake allocator and is there under sanitizers too; "linked" has jemalloc and the
    agent linked; "plain" has jemalloc linked and gets the agent by LD_PRELOAD."""

    def setUp(self):
        super().setUp()
        # The sanitizer refuses threads in a child of a program with threads, which is what the agent is made for.
        self.environment["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":die_after_fork=0"
        # It delivers signals later, not where they came.
        if SANITIZER == "thread":
            self.environment["HEAPCTL_CHILDREN"] = "thread"

    def hide_from_others(self):
        """Hosts that start from now on and obey "hide" are found by their path alone: another heapctl on this machine, which lists
        what there is, would wake them up. The kernel's table of sockets does not know paths that are too long for an address."""
        folder = os.path.join(self.folder, "x" * 100)
        os.mkdir(folder, 0o700)
        self.agents = os.path.join(self.folder, "hidden")
        os.symlink(folder, self.agents)
        self.environment["HEAPCTL_DIR"] = folder

    def host(self, kind="fake", flags=0, conf=PROFILING, env=None, wrap=(), start=True, **options):
        if kind != "fake" and SANITIZED:
            self.skipTest("a sanitizer's allocator and jemalloc exclude each other")
        settings = dict(env or {})
        if kind != "fake":
            settings["MALLOC_CONF"] = conf
        if kind == "plain":
            settings["LD_PRELOAD"] = AGENT
        arguments = [str(flags)] if start and kind != "plain" else []
        process = self.start(*wrap, PROGRAMS / f"agent_host_{kind}", *arguments, env=settings, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, **options)
        host = Host(process)
        host.socket = self.socket_of(host.pid)
        return host

    def let_young_processes_look(self, kind="fake"):
        """Waits until a child that is forked now has its agent; an older one has had its time."""
        server = self.host(kind)
        # The sanitizers' own allocators leave their locks held in a child of a program that is just starting a thread.
        self.wait_for_agent(server.pid)
        pid = int(server("fork"))
        self.end_child_later(pid)
        self.wait_for_agent(pid)

    def log_of(self, _host):
        """What the hosts of this test wrote to stderr."""
        return "".join(path.read_text() for path in sorted(pathlib.Path(self.folder).glob("log.*")))

    def sockets(self, folder=None):
        try:
            return sorted(name for name in os.listdir(folder or self.agents) if name.endswith(".sock"))
        except FileNotFoundError:
            return []

    def raw(self, path, data=b"", timeout=PATIENCE_SECONDS):
        """A connected client, for the caller to use."""
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(client.close)
        # Without a time limit, which would make a full queue an error.
        client.connect(str(path))
        client.settimeout(timeout)
        if data:
            client.sendall(data)
        return client

    def end_child_later(self, pid):
        self.end_pid_later(pid)

    def wait_for_death(self, pid):
        wait_until(lambda: not is_alive(pid), f"process {pid} to end")


def voluntary_switches(task):
    for line in (task / "status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError(task)


def wait_until_asleep(task):
    """Fails for a thread that spins: such a one is runnable whenever it is looked at, however busy the machine is. One that sleeps, and
    wakes up now and then, is found asleep most of the time."""
    def is_asleep():
        looks = 50
        asleep = 0
        for _ in range(looks):
            asleep += (task / "stat").read_text().rsplit(")", 1)[1].split()[0] in "SD"
            time.sleep(0.01)
        return asleep > looks / 2
    wait_until(is_asleep, "the thread to sleep")


def unread_bytes(client):
    """How much of what was sent the other end has not read."""
    return struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))[0]


def receive_all(client, seconds=PATIENCE_SECONDS):
    """Everything until the other side closes."""
    data = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            piece = client.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece
    raise AssertionError("the answer does not end")


def is_root():
    return os.geteuid() == 0


def only_root(test):
    return unittest.skipUnless(is_root(), "needs root")(test)


__all__ = ["Host", "HostCase", "PROFILING", "PROGRAMS", "SANITIZED", "SANITIZER", "NO_SOCKET", "NO_THREAD", "NOT_IN_CHILDREN", "NO_ENVIRONMENT",
           "voluntary_switches", "wait_until_asleep", "receive_all", "is_root", "only_root", "jemalloc_path"]
