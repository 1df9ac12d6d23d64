#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rights, signals and priorities: the agent's thread has no more than the main thread, and takes nothing that is meant for it. Each
program does the same with and without the agent."""
import os
import pathlib
import signal
import subprocess
import unittest

from agent_host import HostCase, only_root
from processes import AGENT, agent_thread, ask, is_alive, jemalloc_path, stop, wait_until
from agent_host import PROGRAMS

WAITED_FOR = [signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGTRAP, signal.SIGSYS, signal.SIGILL, signal.SIGFPE, signal.SIGUSR1]


def fields(task):
    return dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)


class ComparedCase(HostCase):
    def start_program(self, program, *arguments, agent=True, **options):
        settings = {"MALLOC_CONF": "prof:true,prof_active:false", "LD_PRELOAD": f"{AGENT}:{jemalloc_path()}" if agent else ""}
        process = self.start(PROGRAMS / program, *arguments, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        process.first = process.stdout.readline().strip()
        if agent:
            process.path = self.wait_for_agent(process.pid)
        return process


class Signals(ComparedCase):
    def take_signals(self, agent):
        process = self.start_program("waits_for_signals", agent=agent)
        taken = [process.first]
        for number in WAITED_FOR + [signal.SIGTERM]:
            process.send_signal(number)
            taken.append(process.stdout.readline().strip())
            if agent and number != signal.SIGTERM:
                self.assertEqual(ask(process.path, "/v1/status")[0], 200)
        return taken, process.wait(60)

    def test_signals_that_a_program_waits_for_come_to_it(self):
        expected = ["ready"] + [str(int(number)) for number in WAITED_FOR] + [str(int(signal.SIGTERM))]
        self.assertEqual(self.take_signals(agent=False), (expected, 0))
        self.assertEqual(self.take_signals(agent=True), (expected, 0))

    def test_signals_that_come_between_two_waits(self):
        """While it waits for them the kernel does not count them as blocked; the agent looks then."""
        process = self.start_program("waits_for_signals")
        status = pathlib.Path(f"/proc/{process.pid}/status")

        def blocks_none():
            return "\nSigBlk:\t0000000000000000\n" in status.read_text()
        wait_until(blocks_none, "it to wait for signals")
        self.assertEqual(ask(process.path, "/v1/status")[0], 200)
        # A stopped process does not wait.
        stop(process.pid)
        for number in WAITED_FOR:
            process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        self.assertEqual({process.stdout.readline().strip() for _ in WAITED_FOR}, {str(int(number)) for number in WAITED_FOR})
        process.terminate()
        self.assertEqual(process.wait(60), 0)

    @only_root
    def test_a_real_time_priority_is_the_programs(self):
        if subprocess.run(["chrt", "-f", "10", "true"], capture_output=True).returncode != 0:
            self.skipTest("real-time priorities are not allowed here")
        server = self.host("plain", wrap=["chrt", "-f", "10"])
        self.wait_for_agent(server.pid)
        self.assertEqual(os.sched_getscheduler(server.pid), os.SCHED_FIFO)
        self.assertEqual(os.sched_getscheduler(int(agent_thread(server.pid).name)), os.SCHED_OTHER)

    def test_a_nice_value_is_the_agents_too(self):
        server = self.host("plain", wrap=["nice", "-n", "5"])
        self.wait_for_agent(server.pid)
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, int(agent_thread(server.pid).name)), os.getpriority(os.PRIO_PROCESS, server.pid))


class Output(ComparedCase):
    def start_daemon(self, agent):
        """Its pid, once nothing has its output open any more; it still runs then."""
        settings = dict(self.environment, HEAPCTL_LOG="stderr", LD_PRELOAD=f"{AGENT}:{jemalloc_path()}" if agent else "")
        done = subprocess.run([PROGRAMS / "becomes_daemon"], env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        pid = int(done.stdout)
        self.end_pid_later(pid)
        self.assertTrue(is_alive(pid))
        return pid

    def test_a_daemons_output_is_closed(self):
        self.start_daemon(agent=False)
        pid = self.start_daemon(agent=True)
        self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[0], 200)

    def test_a_line_goes_to_the_programs_own_stderr(self):
        self.environment["HEAPCTL_LOG"] = "stderr"
        process = self.start_program("drops_rights", "second-filter")
        process.stdin.write("x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline().strip(), "second-filter")
        try:
            ask(process.path, "/v1/status")
        except OSError:
            pass
        wait_until(lambda: "sandbox" in self.log_of(process), "the agent's line")


@only_root
class Rights(ComparedCase):
    def after_giving_up(self, what):
        """The program after its main thread has dropped rights; it behaves and ends the same without an agent."""
        for agent in (False, True):
            process = self.start_program("drops_rights", what, agent=agent)
            self.assertEqual(process.first, "started")
            process.stdin.write("x")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline().strip(), what)
            if not agent:
                process.stdin.close()
                self.assertEqual(process.wait(60), 0)
        return process

    def assert_entered(self, what, *names):
        """The agent answers, and its thread has the same as the main thread."""
        process = self.after_giving_up(what)
        self.assertEqual(ask(process.path, "/v1/status")[0], 200)
        main, own = fields(pathlib.Path(f"/proc/{process.pid}")), fields(agent_thread(process.pid))
        self.assertEqual([own[name] for name in names], [main[name] for name in names])
        self.assertEqual(ask(process.path, "/v1/profile")[0], 200)
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)

    def assert_left(self, what):
        process = self.after_giving_up(what)
        try:
            self.assertEqual(ask(process.path, "/v1/status")[1]["error"]["code"], "state")
        except OSError:
            pass
        wait_until(lambda: agent_thread(process.pid) is None, "the thread to leave")
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)

    def test_capabilities_are_given_up_with_the_main_thread(self):
        self.assert_entered("capabilities", "CapInh", "CapPrm", "CapEff", "CapAmb")

    def test_a_bounding_set_is_entered(self):
        self.assert_entered("bounding", "CapBnd")

    def test_no_new_privs_is_entered(self):
        self.assert_entered("no_new_privs", "NoNewPrivs")

    def test_what_the_main_thread_can_take_back_is_kept(self):
        self.assert_entered("effective", "CapPrm")
        self.assert_entered("effective-user", "CapPrm")
        self.assert_entered("nothing", "CapEff", "NoNewPrivs")

    def test_another_filter_on_the_main_thread_is_left(self):
        self.assert_left("second-filter")

    def test_a_user_of_the_main_thread_alone_is_left(self):
        self.assert_left("user")


if __name__ == "__main__":
    unittest.main()
