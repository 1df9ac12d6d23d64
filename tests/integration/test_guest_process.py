#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are hard on a guest, each without the agent and with it: they must behave the same."""
import pathlib
import signal
import subprocess
import unittest

from agent_host import NO_THREAD, PROGRAMS, SANITIZED
from processes import AGENT, Case, agent_thread, wait_until


@unittest.skipIf(SANITIZED, "a sanitizer's allocator and jemalloc exclude each other")
class GuestCase(Case):
    def program(self, name):
        return str(PROGRAMS / name)

    def guest_environment(self, **more):
        return dict(self.environment, LD_PRELOAD=AGENT, MALLOC_CONF="prof:true,prof_active:false", **more)

    def outcome(self, *command, env, timeout=30):
        """(exit code, output) of a program that ends by itself."""
        result = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, timeout=timeout)
        return result.returncode, result.stdout, result.stderr


class MainThreadEnds(GuestCase):
    """The main thread calls pthread_exit; the process must end when it would without the agent, as it would."""

    def assert_same(self, *arguments, linked=(), **env):
        plain = self.outcome(self.program("main_exit_plain"), *arguments, env=self.environment)
        self.assertEqual(plain[1:], ("main ends\nexit handler\n", ""))
        guest = self.outcome(self.program("main_exit_plain"), *arguments, env=self.guest_environment(**env))
        self.assertEqual(guest, plain)
        for flags, starter in linked:
            guest = self.outcome(self.program("main_exit_linked"), *arguments, flags, starter, env=dict(self.environment, **env))
            self.assertEqual(guest, plain, (flags, starter))

    def test_alone(self):
        self.assert_same(0, -1, linked=[(0, "main"), (NO_THREAD, "main")])

    def test_while_another_thread_goes_on(self):
        self.assert_same(1500, -1, linked=[(0, "main"), (0, "other"), (NO_THREAD, "main")])

    def test_and_another_thread_calls_exit(self):
        self.assert_same(1500, 3, linked=[(0, "main"), (0, "other")])

    def test_without_a_socket(self):
        self.assert_same(1500, -1, HEAPCTL_DIR="/proc/self/nothing")

    def test_on_demand(self):
        self.assert_same(1500, -1, linked=[(0, "main")], HEAPCTL_THREAD="on-demand")

    def test_sigterm_ends_it_while_the_other_thread_lives(self):
        for env in (self.environment, self.guest_environment()):
            process = subprocess.Popen([self.program("main_exit_plain"), "600000", "-1"], env=env, stdout=subprocess.DEVNULL)
            self.addCleanup(self.end, process)
            wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the main thread's end")
            if "LD_PRELOAD" in env:
                wait_until(lambda: agent_thread(process.pid), "the agent")
                self.assertEqual(self.threads(process.pid), ["heapctl", "heapctl-last", "main_exit_plain", "main_exit_plain"])
            process.terminate()
            self.assertEqual(process.wait(30), -signal.SIGTERM)

    def threads(self, pid):
        return sorted((task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir())

    def test_a_main_thread_that_lives_costs_no_thread(self):
        process = self.start("sleep", "600", env=self.guest_environment())
        self.wait_for_agent(process.pid)
        self.assertEqual(self.threads(process.pid), ["heapctl", "sleep"])


if __name__ == "__main__":
    unittest.main()
