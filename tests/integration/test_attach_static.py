#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to static programs, which have no loader, of either C library."""
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import test_attach_places
from agent_host import PROGRAMS
from known_heap import KNOWN, bytes_by_site
from processes import BUILD, SECCOMP_EPERM, agent_thread, decoder_without_functions, forbid_call, mapped_code, need, repeats, wait_until
from test_attach import AttachCase

STATIC_AGENT = BUILD / "src/agent/libheapctl-static.so"
KINDS = ("static", "static_pie", "musl_static", "musl_static_pie")
MMAP = 9  # the number of the system call
# The thread that is used has a table of its own, which is full; that of the main thread is not.
FILLS_A_TABLE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
static void *fill(void *table)
{
	if (unshare(CLONE_FILES) != 0)
		return table;
	while (dup(0) >= 0)
		;
	printf("ready\n");
	fflush(stdout);
	for (;;)
		sleep(1);
}
int main(void)
{
	struct rlimit limit = { 64, 64 };
	pthread_t thread;
	setrlimit(RLIMIT_NOFILE, &limit);
	free(malloc(1));
	pthread_create(&thread, NULL, fill, NULL);
	pthread_join(thread, NULL);
	return 1;
}
"""
OUTERMOST = r"\b(main|site_thread)\b"


def needs_static(case):
    return unittest.skipUnless(STATIC_AGENT.exists(), "built without the agent for musl")(case)


class StaticCase(AttachCase):
    may_fail_by = r"stood in the first instructions|stood still|could be used in \d+ ms|did not stop|has ended|have been taken meanwhile"

    def start_program(self, name, *words):
        return self.start_ready(PROGRAMS / name, *words)


@needs_static
class Attached(StaticCase):
    """The program does not notice."""

    def test_waits_blocks_and_registers(self):
        """While all threads are stopped, SIGCHLD may end epoll_wait() with EINTR: docs/attach.md."""
        for kind in KINDS:
            for storms in ("1", "8"):
                with self.subTest(kind, storms=storms):
                    process = self.start_program(f"attached_{kind}", storms, "interrupted")
                    done = sum(self.attach_and_detach(process, "--interval", "4KiB") for _ in range(repeats(3)))
                    self.assertGreater(done, 0)
                    self.assert_unharmed(process)

    def test_storms(self):
        for kind in KINDS:
            for words in ("fork", "thread", "signal"):
                with self.subTest(kind, storm=words):
                    process = self.start_program(f"storms_{kind}", words)
                    done = sum(self.attach_and_detach(process, "--interval", "4KiB") for _ in range(2))
                    self.assertGreater(done, 0)
                    self.assert_unharmed(process)

    def test_a_program_that_opens_libraries(self):
        """They bring a C library, which the program does not call, and whose functions its threads cannot run."""
        for kind in ("static", "static_pie"):
            with self.subTest(kind):
                process = self.start_program(f"storms_{kind}", "load", "libz.so.1", "zlibVersion")
                wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "the other C library")
                done = sum(self.attach_and_detach(process, "--interval", "4KiB") for _ in range(3))
                self.assertGreater(done, 0)
                self.assert_unharmed(process)

    def test_a_program_that_executes_itself(self):
        process = self.start_program("storms_static", "exec")
        for _ in range(4):
            self.attach(process.pid, code=None)
            self.heapctl("detach", process.pid, code=None)
            self.assertIsNone(process.poll())
        self.assert_unharmed(process)

    def test_a_program_that_makes_no_system_call(self):
        """It is stopped at any of its instructions, which use flags and memory below the stack pointer."""
        for kind in ("static", "static_pie"):
            with self.subTest(kind):
                process = self.start_program(f"attached_spinning_{kind}")
                for _ in range(repeats(4)):
                    self.attach(process.pid)
                    self.detach(process.pid)
                process.send_signal(signal.SIGUSR1)
                self.assertRegex(process.stdout.readline(), r"^ok \d+\n$")
                self.assertEqual(process.wait(60), 0)

    def test_samples_and_their_stacks(self):
        for kind in KINDS:
            with self.subTest(kind):
                process = self.start_program(f"sampled_malloc_{kind}")
                self.attach(process.pid, "--interval", "4KiB")
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "kept\n")
                found = bytes_by_site(self, process.pid, OUTERMOST)
                self.assertLessEqual(set(found), set(KNOWN))
                # The others may have no sample.
                self.assertAlmostEqual(found["large"] / KNOWN["large"], 1, delta=0.01)
                status = self.status(process.pid)
                self.assertEqual((status["allocator"]["name"], status["sampler"]["method"]), ("static", "entry"))
                self.assertGreater(status["sampler"]["entries"], 0)
                self.detach(process.pid)

    def test_again_with_one_copy_and_nothing_left(self):
        process = self.start_program("attached_static", "0", "interrupted")
        path = pathlib.Path(f"/proc/{process.pid}/maps")
        lines, bytes_mapped = [], []
        for _ in range(10):
            if self.attach_and_detach(process):
                self.assertIsNone(agent_thread(process.pid))
                lines.append(len(path.read_text().splitlines()))
                bytes_mapped.append(int(re.search(r"VmSize:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]))
        self.assertLessEqual(max(lines[len(lines) // 2:]), max(lines[:len(lines) // 2]))
        self.assertLessEqual(max(bytes_mapped[len(lines) // 2:]), max(bytes_mapped[:len(lines) // 2]))
        self.assert_unharmed(process)

    def test_the_code_behind_patched_functions_goes_with_them(self):
        for kind in KINDS:
            with self.subTest(kind):
                process = self.start_program(f"sampled_malloc_{kind}")
                messages = []
                for _ in range(repeats(4)):
                    self.attach(process.pid)
                    messages.append(self.detach(process.pid)[0])
                # A word of a stack may look like an address in it.
                self.assertTrue(any("functions are restored" in message and "code behind them" not in message for message in messages), messages[-1])

    def test_the_signals_of_the_program_are_not_for_the_agent(self):
        process = self.start_program("attached_static", "0", "interrupted")
        self.attach(process.pid)
        status = pathlib.Path(agent_thread(process.pid), "status").read_text()
        # All but SIGKILL and SIGSTOP.
        self.assertIn("SigBlk:\tfffffffffffbfeff", status)
        self.detach(process.pid)
        self.assert_unharmed(process)

    def test_an_allocator_that_has_a_prefix_only(self):
        process = self.start_program("allocates_by_prefix")
        self.attach(process.pid)
        self.assertEqual(self.status(process.pid)["sampler"]["entries"], 2)
        self.detach(process.pid)
        self.assertIsNone(process.poll())

    def test_verbs(self):
        process = self.start_program("attached_static", "1", "interrupted")
        self.assertIn("can-attach", self.heapctl("doctor", process.pid, "--json", code=None)[0])
        row = next(row for row in json.loads(self.heapctl("ps", "--all", "--json")[0]) if row.get("pid") == process.pid)
        self.assertEqual((row["can_attach"], row["problem"]), (True, ""))
        self.assertIn(f"heapctl attach {process.pid} loads one while it runs", self.heapctl("status", process.pid, code=1)[1])
        profile = os.path.join(self.folder, "recorded.heap")
        self.heapctl("record", process.pid, "--attach", "--duration", "1s", "-o", profile)
        self.assertGreater(os.path.getsize(profile), 0)
        self.attach(process.pid)
        self.heapctl("account", process.pid)
        self.assertIn("calls no function of a static program", self.heapctl("stats", process.pid, code=1)[1])
        self.detach(process.pid)
        self.assert_unharmed(process)


@needs_static
class Refused(StaticCase):
    def assert_refused(self, process, expected, *arguments):
        before = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        self.assertRegex(self.attach(process.pid, *arguments, code=1)[1], expected)
        self.assertEqual(pathlib.Path(f"/proc/{process.pid}/maps").read_text(), before)
        self.assertIsNone(agent_thread(process.pid))

    def test_a_stripped_program(self):
        path = os.path.join(self.folder, "stripped")
        shutil.copy(PROGRAMS / "attached_static", path)
        subprocess.run([need("strip"), path], check=True)
        process = self.start_ready(path, "0")
        self.assert_refused(process, r"is a static program without symbols of malloc and free \(stripped\): its allocator cannot be found")
        self.assertIn("without symbols of malloc and free", " ".join(self.heapctl("doctor", process.pid, code=None)[0].split()))
        self.assert_unharmed(process)

    def test_what_musl_leaves_out_of_a_program_that_does_not_call_it(self):
        for program, expected in (("never_frees", "with malloc but without free: nothing shows which blocks"),
                                  ("allocates_nothing", "without malloc, calloc and realloc: it uses no allocator that heapctl knows")):
            with self.subTest(program):
                process = self.start_program(program)
                self.assert_refused(process, rf"is a static program {expected}.*heapctl account {process.pid}")
                doctor = " ".join(self.heapctl("doctor", process.pid, code=None)[0].split())
                self.assertNotIn("stripped", doctor)
                # What attach refuses is not recommended.
                self.assertNotIn("only attached", doctor)
                self.assertEqual("no malloc of another kind" in doctor, program == "allocates_nothing")
                row = next(line for line in self.heapctl("ps", "--all")[0].splitlines() if line.split()[0] == str(process.pid))
                self.assertRegex(row, rf"no agent: it is a static program {expected}")

    def test_a_thread_that_has_opened_all_it_may(self):
        """Only the agent finds it."""
        path = os.path.join(self.folder, "fills")
        subprocess.run([need("cc"), "-static", "-x", "c", "-", "-o", path], input=FILLS_A_TABLE, text=True, check=True)
        process = self.start_ready(path)
        self.assertRegex(self.attach(process.pid, code=1)[1], r"Too many open files \(raise the process's RLIMIT_NOFILE with prlimit --nofile\)")
        self.assertIsNone(agent_thread(process.pid))

    def test_a_program_that_may_map_no_code(self):
        """Nothing stays of the attempt, and the reason is the same each time."""
        process = self.start_ready(PROGRAMS / "attached_static", "0", "interrupted", preexec_fn=forbid_call(MMAP, SECCOMP_EPERM, third_argument_bits=mmap.PROT_EXEC))
        before = mapped_code(process.pid)
        for _ in range(2):
            self.assert_refused(process, r"it cannot map executable memory: Operation not permitted", "--force")
            self.assertEqual(mapped_code(process.pid), before)
        self.assert_unharmed(process)

    def test_a_missing_decoder(self):
        """Neither doctor nor ps promises the attach that would be refused."""
        process = self.start_program("attached_static", "0")
        name = decoder_without_functions(self.folder)
        for verb in (("attach", process.pid), ("doctor", process.pid), ("status", process.pid), ("ps", "--all")):
            with self.subTest(verb[0]):
                shown = " ".join(" ".join(self.heapctl(*verb, env={"LD_LIBRARY_PATH": self.folder}, code=None)).split())
                self.assertIn(f"it cannot be decoded: {name} has no decoder for it", shown)
                self.assertNotIn("would load the agent", shown)
        self.assert_unharmed(process)

    def test_what_has_no_tables(self):
        process = self.start_program("attached_static", "0")
        self.assert_refused(process, r"is a static program, which has no tables of calls between modules", "--method", "got")
        self.assert_refused(process, r"does not show what the program maps itself", "--mapped")
        self.assert_unharmed(process)


@needs_static
class Killed(StaticCase):
    """heapctl dies at some moment of an attach."""
    STRIDE = 8 * test_attach_places.Killed.STRIDE
    kill_before = test_attach_places.Killed.kill_before

    def test_before_each_system_call(self):
        """All of its calls are tried, a part of them in each run."""
        call, has_more = os.getpid() % self.STRIDE, True
        while has_more:
            with self.subTest(call=call):
                process = self.start_program("attached_static", "1", "interrupted")
                has_more = self.kill_before(call, process.pid)
                def attaches():
                    message = self.heapctl("attach", process.pid, code=None)[1]
                    return message == "" or "has an agent" in message
                # A new thread that was left alone ends after ten seconds.
                if not attaches():
                    with self.paused(process):
                        wait_until(attaches, "an attach after one that was killed", pause_seconds=0.5)
                self.detach(process.pid)
                self.assert_unharmed(process)
            call += self.STRIDE


class Image(unittest.TestCase):
    """What the agent for static programs may not contain, because the process' threads and memory are another C library's."""

    @needs_static
    def test_it_has_no_heap_and_starts_no_threads_of_its_libc(self):
        names = set(re.findall(r" [A-Za-z] (\S+)$", subprocess.run([need("nm"), STATIC_AGENT], capture_output=True, text=True, check=True).stdout, re.M))
        self.assertFalse(names & {"__libc_malloc", "__libc_malloc_impl", "__expand_heap", "__pthread_exit", "__synccall", "__libc_exit", "__fork_handler",
                                  "__dl_seterr", "setuid", "sbrk"})

    @needs_static
    def test_it_has_no_thread_local_variable(self):
        headers = subprocess.run([need("readelf"), "-lW", STATIC_AGENT], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("TLS", headers)
        self.assertNotIn("INTERP", headers)

    @needs_static
    def test_functions_that_run_on_the_programs_threads_use_no_storage_of_a_thread(self):
        """What they call of the C library may compare the word by which glibc and musl protect stacks."""
        text = subprocess.run([need("objdump"), "-d", "--no-show-raw-insn", STATIC_AGENT], capture_output=True, text=True, check=True).stdout
        users, function = set(), ""
        for line in text.splitlines():
            function = (re.match(r"[0-9a-f]+ <(\w+)", line) or [0, function])[1]
            if "%fs:" in line and "%fs:0x28" not in line:
                users.add(function)
        # Those that read the thread pointer alone, and those of threads of the agent's own.
        self.assertLessEqual(users, {"find_state", "unwind_stack_init", "image_libc_end_thread", "note", "main_thread_note_child", "main_thread_note_by_stack",
                                     "__init_ssp", "__lockfile", "__pthread_cond_timedwait", "__pthread_key_create", "__pthread_mutex_trylock_owner",
                                     "pthread_mutex_timedlock", "pthread_mutex_unlock", "pthread_self", "pthread_setcancelstate", "pthread_setspecific",
                                     "raise", "strerror", "wcrtomb"})


if __name__ == "__main__":
    unittest.main()
