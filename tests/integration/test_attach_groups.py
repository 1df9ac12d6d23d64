#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes whose control group, limits or namespaces are in the way."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import unittest

from agent_host import only_root
from control_group import ControlGroup
from processes import HEAPCTL, agent_thread, children_of, is_alive, need, need_namespace, wait_until
from test_attach import AttachCase

MIB = 1 << 20
CLONE_NEWPID = 0x20000000
CLONE_NEWTIME = 0x80
HOLDS_MEMORY = "import time\nheld = bytes(b'x' * (20 << 20))\nprint('ready', flush=True)\ntime.sleep(600)"
# All but a hundred of the mappings that it may have.
MAPS_PAGES = """
import ctypes, mmap, time
count = int(open("/proc/sys/vm/max_map_count").read()) - len(open("/proc/self/maps").readlines()) - 100
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_size_t, [ctypes.c_size_t, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
protect = libc.mprotect
protect.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
address = libc.mmap(0, count * 4096, 3, 0x4022, -1, 0)
for page in range(1, count - 1, 2):
    protect(address + 4096 * page, 4096, 1)
print("ready", flush=True)
time.sleep(600)
"""
# heapctl in a container of its own: its group, of which it may start no two more threads, is all that it sees.
IN_OTHER_CONTAINER = """
umount "$1" && mount -t "$2" -o "$3" none "$1" || exit 77
exec "$4" attach "$5"
"""
# Its main thread's children belong to another pid or time namespace; the other thread's do not.
OPENS_NAMESPACE = """
import ctypes, os, sys, threading, time
if sys.argv[1] == "threads":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(int(sys.argv[2])) != 0:
    print(os.strerror(ctypes.get_errno()), flush=True)
print("ready", flush=True)
time.sleep(600)
"""


class RoomCase(AttachCase):
    def assert_refused(self, pid, words):
        """By attach, and foretold by doctor; the process goes on."""
        self.assertRegex(self.attach(pid, code=1)[1], words)
        self.assertRegex(" ".join(self.heapctl("doctor", pid, code=None)[0].split()), "heapctl attach would refuse: .*" + words)
        self.assertIsNone(agent_thread(pid))
        self.assertTrue(is_alive(pid))


class Mappings(RoomCase):
    MAX = 200_000

    def test_near_their_limit(self):
        """Beyond it the program's own mmap() fails."""
        limit = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text())
        if limit > self.MAX:
            self.skipTest(f"vm.max_map_count is {limit}: a program with as many mappings takes too long")
        process = self.start_python(MAPS_PAGES, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assert_refused(process.pid, rf"has \d+ mappings of at most {limit} \(vm.max_map_count\), and the agent may take 256")


class Limits(RoomCase):
    def test_of_mapped_memory(self):
        """Near them the program's own malloc would fail, also after the detach."""
        process = self.start_python()
        status = pathlib.Path(f"/proc/{process.pid}/status")
        for limit, field, what, option, least in ((resource.RLIMIT_AS, "VmSize", r"address space \(RLIMIT_AS\)", "as", 70),
                                                  (resource.RLIMIT_DATA, "VmData", r"data \(RLIMIT_DATA\)", "data", 10)):
            with self.subTest(option):
                before = resource.prlimit(process.pid, limit)
                used = 1024 * int(re.search(rf"{field}:\s+(\d+)", status.read_text()).group(1))
                resource.prlimit(process.pid, limit, (used + least * MIB, before[1]))
                self.assert_refused(process.pid, rf"has [0-9.]+ MiB left up to its limit of {what}, and the agent may take [0-9.]+ MiB")
                self.attach(process.pid, "--force")
                self.detach(process.pid)
                resource.prlimit(process.pid, limit, (used + 3 * least * MIB, before[1]))
                self.attach(process.pid)
                self.detach(process.pid)
                resource.prlimit(process.pid, limit, before)


class Groups(RoomCase):
    def test_that_permits_no_more_threads(self):
        process = self.start_python()
        group = ControlGroup(self, "pids")
        group.add(process.pid)
        for limit in (1, 2):
            group.write("pids.max", limit)
            self.assert_refused(process.pid, rf"its control group may have {limit - 1} more threads, and that takes 2")
        group.write("pids.max", 3)
        self.attach(process.pid)
        self.detach(process.pid)

    def test_that_heapctl_does_not_see(self):
        """Then the limit of its own group says nothing."""
        need_namespace("--mount")
        need_namespace("--cgroup")
        process = self.start_python()
        group = ControlGroup(self, "pids")
        group.write("pids.max", 2)
        kind, options = ("cgroup2", "rw") if group.is_second else ("cgroup", "pids")
        result = subprocess.run(["unshare", "--cgroup", "--mount", "sh", "-c", IN_OTHER_CONTAINER, "sh", group.folder.parent, kind, options, HEAPCTL, str(process.pid)],
                                env=self.environment, capture_output=True, text=True, preexec_fn=lambda: group.write("cgroup.procs", os.getpid()))
        if result.returncode == 77:
            self.skipTest(f"no other container can be made here: {result.stderr}")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.detach(process.pid)

    def test_that_is_at_its_limit_of_memory(self):
        """The kernel would end it for the memory of the agent."""
        group = ControlGroup(self, "memory")
        file = "memory.max" if group.is_second else "memory.limit_in_bytes"
        process = self.start_python(HOLDS_MEMORY, stdout=subprocess.PIPE, preexec_fn=lambda: group.write("cgroup.procs", os.getpid()))
        group.pids.append(process.pid)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        group.write(file, int(group.read("memory.current" if group.is_second else "memory.usage_in_bytes")) + MIB // 2)
        self.assert_refused(process.pid, r"its control group has [0-9.]+ [KM]iB left up to its limit of memory, and the agent may take [0-9.]+ MiB"
                            rf".*raise the limit \({file}; ")
        group.write(file, 1024 * MIB)
        self.attach(process.pid)
        self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))

    def detach_slowly(self, pid):
        """The child process that restores functions waits before it begins."""
        slow = self.start(need("strace"), "-f", "-o", "/dev/null", "-e", "trace=flock", "--inject=flock:delay_enter=2000000", HEAPCTL, "detach", str(pid),
                          env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.PIPE, text=True)
        wait_until(lambda: slow.poll() is not None or any(children_of(child) for child in children_of(slow.pid)), "the child process")
        return slow

    def test_that_is_frozen_while_functions_are_restored(self):
        # Being frozen ends some waits of a program with EINTR; Python waits again.
        process = self.start_python()
        group = ControlGroup(self, "freezer")
        group.add(process.pid)
        self.addCleanup(group.thaw)
        message = ""
        # On a busy machine the detach may be done before the group is frozen.
        while message == "":
            self.attach(process.pid, "--method", "entry")
            slow = self.detach_slowly(process.pid)
            group.freeze()
            message = slow.communicate(timeout=60)[1]
            group.thaw()
        self.assertRegex(message, r"^heapctl: \S+ is frozen with its control group \(thaw the group ")
        self.detach(process.pid)
        self.assertTrue(is_alive(process.pid))


@only_root
class Namespaces(RoomCase):
    def start_it(self, mode, kind=CLONE_NEWPID):
        process = self.start(sys.executable, "-c", OPENS_NAMESPACE, mode, str(kind), stdout=subprocess.PIPE, text=True)
        said = process.stdout.readline()
        if said != "ready\n":
            self.skipTest(f"no namespaces can be made here: {said}")
        return process

    def test_a_thread_that_may_start_no_other_is_not_borrowed(self):
        process = self.start_it("threads")
        for _ in range(5):
            self.attach(process.pid)
            self.detach(process.pid)

    def test_a_process_whose_children_belong_to_another(self):
        for kind in (CLONE_NEWPID, CLONE_NEWTIME):
            with self.subTest(hex(kind)):
                process = self.start_it("alone", kind)
                begun = time.monotonic()
                self.assert_refused(process.pid, r"its children belong to another namespace \(unshare, setns\), so it cannot start a thread")
                self.assertLess(time.monotonic() - begun, 4, "it was tried")
                self.assertFalse(self.status(process.pid, code=1)["can_attach"])
                rows = json.loads(self.heapctl("ps", "--all", "--json")[0])
                self.assertEqual([row["can_attach"] for row in rows if row["pid"] == process.pid], [False])


if __name__ == "__main__":
    unittest.main()
