#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allocators that are linked into the program: their functions are patched while it runs, and restored."""
import json
import os
import pathlib
import random
import re
import resource
import struct
import subprocess
import sys
import time
import unittest

from agent_host import PROGRAMS, only_root
from processes import AGENT, SANITIZED, Case, agent_thread, decoder_without_functions, is_alive, mapped_code, repeats, wait_until

WAYS = ["plain", "zeroed", "resized", "aligned", "paged", "one", "array"]
HELD_BYTES = 50 * 100_000


# Prints where it is.
LEAVES_A_SMALL_RANGE = """
import ctypes, sys
starts = [int(line.split("-")[0], 16) for line in open("/proc/self/maps")]
libraries = min(start for start in starts if start > 0x700000000000)
MIB = 1 << 20
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
assert mmap(libraries - 300 * MIB, 296 * MIB, 0, 0x100022, -1, 0) == libraries - 300 * MIB
print(f"{libraries - 4 * MIB:x} {libraries:x}", flush=True)
sys.stdin.read()
"""


class EntryCase(Case):
    def start_patched(self, program="patched_jemalloc", threads=0, nap_ms=0, **options):
        return self.start_ready(PROGRAMS / program, threads, nap_ms, **options)

    def tell(self, process, word):
        process.stdin.write(word + "\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n", word)

    def assert_unharmed(self, process):
        self.tell(process, "hold")
        self.tell(process, "drop")
        process.stdin.close()
        self.assertRegex(process.stdout.readline(), r"^ok \d+\n$")
        self.assertEqual(process.wait(60), 0)

    def attach(self, pid, *arguments, code=0):
        return self.heapctl("attach", pid, *arguments, code=code)

    def sampler(self, pid):
        return json.loads(self.heapctl("status", pid, "--json")[0])["sampler"]

    def sites(self, pid):
        """The bytes in use, as heapctl estimates them, by the function that called the allocator."""
        profile = os.path.join(self.folder, "now.heap")
        self.heapctl("dump", pid, "-o", profile)
        self.assertRegex(pathlib.Path(profile).read_text(), r"\n#sampling heapctl since .* entry\n")
        out, _ = self.heapctl("report", "--text", "--show_bytes", profile)
        return {line.split()[-1]: int(line.split()[0]) for line in out.splitlines() if re.match(r"\s*\d+\s", line)}

    def function_address(self, process, program, name):
        """In the process, of a program that is loaded at any address."""
        out = subprocess.run(["nm", PROGRAMS / program], capture_output=True, text=True, check=True).stdout
        value = next(int(line.split()[0], 16) for line in out.splitlines() if line.split()[-1] == name)
        begin = next(line for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines() if line.endswith(program))
        return int(begin.split("-")[0], 16) + value

    def write_code(self, pid, address, code):
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), code, address)


class Known(EntryCase):
    """What the program allocates is known."""

    def test_each_way_to_allocate_has_its_exact_bytes(self):
        for program, ways in (("patched_jemalloc", WAYS + ["plain_x", "resized_x"]), ("patched_tcmalloc", WAYS), ("patched", WAYS)):
            with self.subTest(program=program):
                process = self.start_patched(program)
                self.attach(process.pid, "--method", "entry", "--interval", "4KiB")
                self.tell(process, "hold")
                sites = self.sites(process.pid)
                for way in ways:
                    expected = HELD_BYTES if way != "aligned" else 50 * 100_032
                    self.assertEqual(sites.get(f"way_{way}"), expected, sites)
                # Each block counts once, whichever functions call each other.
                self.assertEqual(self.sampler(process.pid)["live_blocks"], 50 * len(ways))
                self.tell(process, "drop")
                self.assertEqual(self.sampler(process.pid)["live_blocks"], 0)
                self.heapctl("detach", process.pid)
                self.assert_unharmed(process)

    def test_the_method_is_chosen_by_the_program(self):
        for program, method in (("patched_jemalloc", "entry"), ("patched_tcmalloc", "entry"), ("patched", "got")):
            with self.subTest(program=program):
                process = self.start_patched(program, 1)
                out, _ = self.attach(process.pid)
                sampler = self.sampler(process.pid)
                self.assertEqual(sampler["method"], method)
                self.assertEqual(sampler["entries"] > 0, method == "entry")
                self.assertEqual("functions of" in out, method == "entry")
                if method == "entry":
                    self.assertEqual(sampler["entries_in"], str(PROGRAMS / program))
                    status, _ = self.heapctl("status", process.pid)
                    self.assertIn(f"sees the calls of {sampler['entries']} functions of", " ".join(status.split()))
                self.heapctl("detach", process.pid)
                self.assert_unharmed(process)

    @unittest.skipIf(SANITIZED, "a program without the sanitizers cannot load a library with them")
    def test_an_agent_that_was_preloaded_leaves_for_one_that_can_profile(self):
        """It would see the calls between modules, and the program has the allocator itself."""
        process = self.start_patched("patched_tcmalloc", env=dict(self.environment, LD_PRELOAD=AGENT, HEAPCTL_ACTIVATE="1"))
        profiling = json.loads(self.heapctl("status", process.pid, "--json")[0])["profiling"]
        self.assertFalse(profiling["available"])
        self.assertIn("heapctl attach patches its functions", profiling["hint"])
        for _ in range(2):
            self.attach(process.pid, "--interval", "4KiB")
            self.tell(process, "hold")
            self.assertEqual(self.sites(process.pid).get("way_plain"), HELD_BYTES)
            self.assertIn("has an agent already", self.attach(process.pid, code=1)[1])
            self.tell(process, "drop")
            self.heapctl("detach", process.pid)
            # Nothing is left that a command would wake.
            self.assertIn("has no agent any more", self.heapctl("status", process.pid, code=1)[1])
        self.assert_unharmed(process)

    def test_what_the_program_maps_is_not_shown(self):
        process = self.start_patched("patched_jemalloc", 1)
        _, err = self.attach(process.pid, "--mapped", code=1)
        self.assertIn("have to be patched, and that does not show what the program maps itself", err)
        self.assertIn("(attach without --mapped", err)
        self.assert_unharmed(process)

    def test_the_code_is_what_it_was(self):
        process = self.start_patched()
        before = mapped_code(process.pid, PROGRAMS / "patched_jemalloc")
        self.attach(process.pid)
        self.assertNotEqual(mapped_code(process.pid, PROGRAMS / "patched_jemalloc"), before)
        out, _ = self.heapctl("detach", process.pid)
        self.assertRegex(out, r"\d+ functions are restored")
        self.assertEqual(mapped_code(process.pid, PROGRAMS / "patched_jemalloc"), before)
        # No thread was in the patched code: nothing of it stays.
        self.assertNotIn("stay:", out)
        self.assertEqual([line for line in self.anonymous_code(process.pid)], [])
        self.assert_unharmed(process)

    def anonymous_code(self, pid):
        return [line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "x" in line.split()[1] and line.split()[4] == "0"
                and not line.endswith("]")]

    def test_no_page_is_writable_and_executable(self):
        process = self.start_patched(threads=2)
        self.attach(process.pid)
        self.assertNotRegex(pathlib.Path(f"/proc/{process.pid}/maps").read_text(), r" [r-]wx")
        self.assertEqual(len(self.anonymous_code(process.pid)), 1)
        self.heapctl("detach", process.pid)

    def test_the_area_is_not_where_stacks_of_threads_come_and_go(self):
        """A small range of free addresses just below the libraries."""
        process = self.start(sys.executable, "-c", LEAVES_A_SMALL_RANGE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first, limit = (int(word, 16) for word in process.stdout.readline().split())
        self.attach(process.pid, "--method", "entry")
        area = self.sampler(process.pid)["entry_area"]
        self.assertNotEqual(area, 0)
        self.assertFalse(first <= area < limit, f"{area:x} in {first:x}-{limit:x}")

    def test_the_agents_own_stacks_do_not_take_its_place(self):
        """They are as large as the limit says, and the kernel maps them just below the libraries."""
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        process = self.start_patched("patched", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (96 << 20, hard)))
        self.attach(process.pid, "--method", "entry")
        self.assertNotEqual(self.sampler(process.pid)["entry_area"], 0)
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)

    def test_addresses_that_the_program_has_kept(self):
        """They are of the agent's functions, if the program reads them from its table while the calls between modules are redirected."""
        process = self.start_patched("patched")
        for i, method in enumerate(("got", "entry", "entry", "got", "entry")):
            self.attach(process.pid, "--method", method)
            if i == 0:
                self.tell(process, "keep")
            self.tell(process, "use")
            self.heapctl("detach", process.pid)
            self.tell(process, "use")
        self.assert_unharmed(process)

    def test_a_child_continues(self):
        process = self.start_patched(threads=2)
        self.attach(process.pid, "--interval", "4KiB")
        for _ in range(3):
            self.tell(process, "fork")
        self.heapctl("detach", process.pid)
        self.tell(process, "fork")
        self.assert_unharmed(process)

    def test_jemalloc_that_profiles_itself_is_not_patched(self):
        environment = dict(self.environment, MALLOC_CONF="prof:true,prof_active:false")
        process = self.start_ready(PROGRAMS / "patched_jemalloc", "0", env=environment)
        before = mapped_code(process.pid, PROGRAMS / "patched_jemalloc")
        self.attach(process.pid)
        self.assertEqual(mapped_code(process.pid, PROGRAMS / "patched_jemalloc"), before)
        self.assertIsNone(self.sampler(process.pid))
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)


class Storms(EntryCase):
    def test_attach_and_detach_a_hundred_times_under_64_threads(self):
        process = self.start_patched(threads=64, nap_ms=40)
        maps = []

        def attaches():
            message = self.attach(process.pid, "--interval", "16KiB", code=None)[1]
            # On a busy machine no thread may stand where it can be used.
            self.assertRegex(message, r"^$|could be used in \d+ ms: .*\(try again; nothing was changed\)\n$")
            return message == ""
        for _ in range(repeats(100)):
            wait_until(attaches, "an attach")
            self.assertGreater(self.sampler(process.pid)["entries"], 20)
            self.heapctl("detach", process.pid)
            maps.append(len(pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines()))
        self.assertLessEqual(maps[-1], maps[min(20, len(maps) // 2)] + 4, maps)
        self.assert_unharmed(process)

    def test_heapctl_dies_at_any_moment(self):
        process = self.start_patched(threads=4, nap_ms=1)
        attempts = random.Random(os.getpid())
        begun = time.monotonic()
        self.attach(process.pid)
        whole = time.monotonic() - begun
        for i in range(repeats(60)):
            verb = "attach" if i % 2 == 0 else "detach"
            self.kill_heapctl(attempts.random() * 1.5 * whole, verb, process.pid)
            self.assertIsNone(process.poll(), "the program is dead")
            if i % 10 == 9:
                self.heapctl("detach", process.pid, code=None)
                self.attach(process.pid, "--interval", "4KiB", code=None)
        # What they have left is in the way of nothing, at the latest when the thread of the last one has given up.
        said = []

        def starts_anew():
            said[:] = [*self.heapctl("detach", process.pid, code=None), *self.attach(process.pid, code=None)]
            return said[3] == ""
        wait_until(starts_anew, lambda: f"an attach that is let finish: {said}")
        self.assertGreater(self.sampler(process.pid)["entries"], 20)
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)


class Refused(EntryCase):
    def assert_refused(self, process, expected, *arguments):
        before = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        self.assertRegex(self.attach(process.pid, *arguments, code=1)[1], expected)
        self.assertNotIn("libheapctl", before + pathlib.Path(f"/proc/{process.pid}/maps").read_text())
        self.assertIsNone(agent_thread(process.pid))

    def test_what_another_tool_has_patched(self):
        process = self.start_patched()
        malloc = self.function_address(process, "patched_jemalloc", "malloc")
        with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
            before = os.pread(memory.fileno(), 8, malloc)
        self.write_code(process.pid, malloc, b"\xcc")
        self.assert_refused(process, r"malloc of .*patched_jemalloc has a breakpoint or a uprobe")
        self.write_code(process.pid, malloc, b"\xe9" + struct.pack("<i", 0))
        self.assert_refused(process, r"another tool has patched malloc of .*: it jumps into /.*patched_jemalloc", "--method", "entry")
        self.write_code(process.pid, malloc, before)
        self.attach(process.pid)
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)

    def test_a_missing_decoder_is_named(self):
        """It is opened when functions are to be patched."""
        process = self.start_patched()
        name = decoder_without_functions(self.folder)
        _, message = self.heapctl("attach", process.pid, "--method", "entry", env={"LD_LIBRARY_PATH": self.folder}, code=1)
        self.assertIn(f"cannot be decoded: {name} has no decoder for it (install Zydis: apt install --reinstall libzydis", message)
        self.assertIsNone(agent_thread(process.pid))
        self.attach(process.pid)

    def test_what_another_tool_patches_later_is_left(self):
        process = self.start_patched()
        self.attach(process.pid)
        malloc = self.function_address(process, "patched_jemalloc", "malloc")
        self.write_code(process.pid, malloc, b"\xcc")
        out, message = self.heapctl("detach", process.pid)
        self.assertIn("1 functions were left: another tool has patched them since", out)
        self.assertIn("bytes of code behind them stay", out)

    def test_the_agent_does_not_end_under_patched_functions(self):
        process = self.start_patched()
        self.attach(process.pid)
        out, _ = self.curl(process.pid, "/v1/detach")
        self.assertIn("functions of its allocator are still patched", out)
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)

    @unittest.skipIf(SANITIZED, "a program without the sanitizers cannot load a library with them")
    def test_an_area_that_no_function_leads_to_does_not_stay(self):
        """The program has executed another one while heapctl attached: the next attach would use the area, which is far from its functions."""
        code = """
import ctypes, sys, time
answer = ctypes.create_string_buffer(512)
ctypes.CDLL(sys.argv[1]).heapctl_attach_agent(b"name=python\\nentry_range=10000000 20000000\\n", answer, 512)
print(answer.value.decode(), flush=True)
time.sleep(1000)
"""
        process = self.start(sys.executable, "-c", code, AGENT, stdout=subprocess.PIPE, text=True)
        area = process.stdout.readline().split()[0].lower()
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        self.assertIn(f"{int(area, 16):08x}-", maps.read_text())
        self.heapctl("detach", process.pid)
        self.assertNotIn(f"{int(area, 16):08x}-", maps.read_text())

    def curl(self, pid, path):
        result = subprocess.run(["curl", "-s", "-X", "POST", "--unix-socket", os.path.join(self.agents, f"{pid}.sock"), f"http://agent{path}"],
                                capture_output=True, text=True)
        return result.stdout, result.stderr

    def test_an_inactive_attach_says_what_will_not_work(self):
        process = self.start_patched()
        out, _ = self.attach(process.pid, "--method", "got", "--inactive")
        self.assertIn("sampling cannot be switched on: ", out)
        self.assertIn("whose functions --method entry patches", out)
        self.assertNotIn("heapctl activate switches it on", out)
        self.heapctl("activate", process.pid, code=1)
        # The allocator's statistics are there.
        self.heapctl("stats", process.pid)
        self.heapctl("detach", process.pid)
        answer = json.loads(self.attach(process.pid, "--method", "got", "--inactive", "--json")[0])
        self.assertIn("profiling is not enabled in this process", answer["problem"])
        self.heapctl("detach", process.pid)
        answer = json.loads(self.attach(process.pid, "--inactive", "--json")[0])
        self.assertEqual(answer["problem"], "")
        self.heapctl("activate", process.pid)
        self.heapctl("detach", process.pid)
        self.assert_unharmed(process)

    def test_the_account_without_an_agent_names_no_other_allocator(self):
        """Its heap may look like that of glibc's malloc, which the program does not use."""
        for program in ("patched_jemalloc", "patched_tcmalloc"):
            with self.subTest(program):
                process = self.start_patched(program)
                self.assertNotIn("glibc", self.heapctl("account", process.pid)[0])
                rows = json.loads(self.heapctl("account", process.pid, "--json")[0])["rows"]
                self.assertNotIn("arena_heaps", [row["name"] for row in rows])

    def test_got_where_the_program_has_the_allocator(self):
        for program, reason in (("patched_tcmalloc", "has no jemalloc that can be called"), ("patched_jemalloc", "profiling is not enabled in this process")):
            with self.subTest(program=program):
                process = self.start_patched(program)
                said = self.attach(process.pid, "--method", "got", code=1)[1]
                self.assertIn(reason, said)
                self.assertIn("(the program has an allocator of its own, whose functions --method entry patches)", said)
                wait_until(lambda pid=process.pid: agent_thread(pid) is None, "the thread to end")
        self.assertIn("'tables' is not auto, got or entry", self.attach(process.pid, "--method", "tables", code=2)[1])
        self.assert_unharmed(process)


if __name__ == "__main__":
    unittest.main()
