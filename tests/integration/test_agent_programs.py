#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are easily disturbed, each without the agent and with it: they must behave the same."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from agent_host import NO_THREAD, PROGRAMS, SANITIZED, Host
from processes import (AGENT, PRELOAD, Case, agent_thread, children_of, free_port, handles_waking, is_alive, need, need_namespace, own_name,
                       wait_until, wait_until_unused)


@unittest.skipIf(SANITIZED, "a sanitizer's allocator and jemalloc exclude each other")
class ComparedCase(Case):
    def program(self, name):
        return str(PROGRAMS / name)

    def agent_environment(self, **more):
        return {**self.environment, "LD_PRELOAD": AGENT, "MALLOC_CONF": "prof:true,prof_active:false", **more}

    def second_agent(self):
        """Another copy of the agent, as in a program that contains it."""
        return shutil.copy(os.path.realpath(AGENT), os.path.join(self.folder, "libheapctl.so"))

    def outcome(self, *command, env, timeout=120):
        """(exit code, output) of a program that ends by itself."""
        result = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, timeout=timeout)
        return result.returncode, result.stdout, result.stderr


class MainThreadEnds(ComparedCase):
    """The main thread calls pthread_exit; the process must end when it would without the agent, as it would."""

    def assert_same(self, *arguments, linked=(), **env):
        plain = self.outcome(self.program("main_exit_plain"), *arguments, env=self.environment)
        self.assertEqual(plain[1:], ("main ends\nexit handler\n", ""))
        with_agent = self.outcome(self.program("main_exit_plain"), *arguments, env=self.agent_environment(**env))
        self.assertEqual(with_agent, plain)
        for flags, starter in linked:
            with_agent = self.outcome(self.program("main_exit_linked"), *arguments, flags, starter, env=dict(self.environment, **env))
            self.assertEqual(with_agent, plain, (flags, starter))

    def test_alone(self):
        self.assert_same(0, -1, linked=[(0, "main"), (NO_THREAD, "main")])

    def test_while_another_thread_continues(self):
        self.assert_same(1500, -1, linked=[(0, "main"), (0, "other"), (NO_THREAD, "main")])

    def test_and_another_thread_calls_exit(self):
        self.assert_same(1500, 3, linked=[(0, "main"), (0, "other")])

    def test_without_a_socket(self):
        self.assert_same(1500, -1, HEAPCTL_DIR="/proc/self/nothing")

    def test_on_demand(self):
        self.assert_same(1500, -1, linked=[(0, "main")], HEAPCTL_THREAD="on-demand")

    def test_beside_a_second_agent(self):
        for life_ms in (0, 500):
            self.assert_same(life_ms, -1, LD_PRELOAD=f"{self.second_agent()}:{AGENT}")

    def test_sigterm_ends_it_while_the_other_thread_lives(self):
        for env in (self.environment, self.agent_environment()):
            process = subprocess.Popen([self.program("main_exit_plain"), "600000", "-1"], env=env, stdout=subprocess.DEVNULL)
            self.addCleanup(self.end, process)
            wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the main thread's end")
            if "LD_PRELOAD" in env:
                wait_until(lambda: agent_thread(process.pid), "the agent")
                # A new thread names itself.
                wait_until(lambda: self.threads(process.pid) == ["heapctl", "heapctl-last", "main_exit_plain", "main_exit_plain"],
                           "the thread in the place of the main thread")
            process.terminate()
            self.assertEqual(process.wait(60), -signal.SIGTERM)

    def test_it_is_profiled_while_the_other_thread_lives(self):
        process = self.start(self.program("main_exit_plain"), "600000", "-1", stdout=subprocess.DEVNULL,
                             env=self.agent_environment(LD_PRELOAD=f"{AGENT}:libjemalloc.so.2"))
        wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the main thread's end")
        listed = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        self.assertEqual((listed[process.pid]["name"], listed[process.pid]["state"]), ("main_exit_plain", "reachable"))
        # Without the folder in its own environment heapctl has to read that of the process.
        self.assertIn("main_exit_plain[", self.heapctl("status", process.pid, env={"HEAPCTL_DIR": ""})[0])
        self.assertGreater(json.loads(self.heapctl("account", process.pid, "--json")[0])["resident"], 0)
        profile = self.heapctl("dump", process.pid, "-o", "-")[0]
        self.assertIn("/main_exit_plain\n", profile.partition("MAPPED_LIBRARIES:\n")[2])
        process.terminate()
        process.wait(60)
        self.assertIn("there is no process", self.heapctl("status", process.pid, code=1)[1])

    def threads(self, pid):
        return sorted((task / "comm").read_text().strip() for task in pathlib.Path(f"/proc/{pid}/task").iterdir())

    def test_a_main_thread_that_lives_costs_no_thread(self):
        process = self.start("sleep", "600", env=self.agent_environment())
        self.wait_for_agent(process.pid)
        self.assertEqual(self.threads(process.pid), ["heapctl", "sleep"])


class MainThreadIsKilled(ComparedCase):
    """The main thread ends alone, without a destructor: the process still ends, with the status that it has without the agent."""

    def statuses(self, delay_ms, lives_ms, env):
        """Of each way of ending; all at once, as the agent checks the main thread only from time to time."""
        started = [(how, life_ms, self.start(self.program("main_killed"), how, delay_ms, life_ms, env=env, stdout=subprocess.PIPE, text=True))
                   for how in ("exit", "filter", "inherited") for life_ms in lives_ms]
        return {(how, life_ms): (process.wait(60), process.stdout.read()) for how, life_ms, process in started}

    def assert_same(self, delay_ms, *lives_ms):
        plain = self.statuses(500, lives_ms, self.environment)
        self.assertEqual(plain["exit", 0], (3, ""))
        self.assertEqual(plain["filter", 0], (-signal.SIGSYS, ""))
        self.assertEqual(plain["inherited", 0], plain["filter", 0])
        self.assertEqual(self.statuses(delay_ms, lives_ms, self.agent_environment()), plain)

    def test_young(self):
        """The agent checks a second and five seconds after its start: the other thread ends later, also on a busy machine."""
        self.assert_same(500, 0, 12000)

    def test_old(self):
        """After the checks of a young process: where a filter was seen the agent goes on to check, else a client makes it notice."""
        plain = self.statuses(500, (0,), self.environment)
        started = {how: self.start(self.program("main_killed"), how, 6000, 0, env=self.agent_environment()) for how in ("exit", "filter", "inherited")}
        self.assertEqual(started["inherited"].wait(60), plain["inherited", 0][0])
        for how in ("exit", "filter"):
            wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{started[how].pid}/status").read_text(), "the main thread's end")
            self.heapctl("status", started[how].pid, code=None)
            self.assertEqual(started[how].wait(60), plain[how, 0][0])

    def test_the_first_process_of_a_container(self):
        """It ignores a signal that it sends itself."""
        need_namespace("--pid")
        statuses = [self.start("unshare", "--pid", "--fork", "--kill-child", self.program("main_killed"), "filter", 500, 0, env=env).wait(60)
                    for env in (self.environment, self.agent_environment(HEAPCTL_EXE="main_killed"))]
        self.assertEqual(statuses, 2 * [-signal.SIGSYS])

    def test_beside_a_second_agent(self):
        started = self.start(self.program("main_killed"), "exit", 500, 0, env=self.agent_environment(LD_PRELOAD=f"{self.second_agent()}:{AGENT}"))
        self.assertEqual(started.wait(60), 3)

    def ask_twice(self, process):
        """Both requests are there when the agent looks."""
        process.send_signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                client = socket.socket(socket.AF_UNIX)
                self.addCleanup(client.close)
                client.connect(self.socket_of(process.pid))
                client.sendall(b"GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n")
        finally:
            process.send_signal(signal.SIGCONT)

    def test_several_clients_make_it_notice(self):
        """The main thread ends after the agent's own checks; on a busy machine these come late, and have ended the process before it is asked."""
        for delay_ms in (6000, 15000, 40000):
            process = self.start(self.program("main_killed"), "exit", delay_ms, 0, env=self.agent_environment())
            wait_until(lambda: "\nState:\tZ" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the main thread's end")
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                self.ask_twice(process)
                break
        else:
            self.fail("the agent has always noticed it by itself")
        self.assertEqual(process.wait(60), 3)

    def test_on_demand_and_used(self):
        process = self.start(self.program("main_killed"), "exit", 4000, 0, env=self.agent_environment(HEAPCTL_THREAD="on-demand"))
        self.heapctl("start", process.pid, "--duration", "1h")
        self.assertEqual(process.wait(60), 3)


class Mappings(ComparedCase):
    def test_a_proc_of_another_pid_namespace_gives_no_mappings_of_another_process(self):
        need_namespace("--pid")
        outer = self.start("unshare", "--pid", "--fork", "--kill-child", self.program("agent_host_plain"),
                           env=self.agent_environment(HEAPCTL_EXE="agent_host_plain"), stdin=subprocess.PIPE)
        inner = wait_until(lambda: children_of(outer.pid), "the first process of the namespace")[0]
        self.addCleanup(os.kill, inner, signal.SIGKILL)
        wait_until(lambda: os.path.exists(os.path.join(self.agents, "1.sock")), "the agent")
        profile = self.heapctl("dump", inner, "-o", "-")[0]
        self.assertIn("/agent_host_plain\n", profile.partition("MAPPED_LIBRARIES:\n")[2])


class InterruptedWaits(ComparedCase):
    """Waking an agent on demand interrupts a system call; the program must not notice."""
    # What a call returns, errno, and the least and most parts of the given seconds that it takes. Of how long the last six have
    # waited the kernel says nothing: they wait their time once more. ETIMEDOUT is 110, EINTR 4, EAGAIN 11.
    KINDS = {"sleep": (0, 0, 1, 1), "nanosleep-rest": (0, 0, 1, 1), "clock_nanosleep": (0, 0, 1, 1), "ppoll": (0, 0, 1, 1),
             "select": (0, 0, 1, 1), "pselect": (0, 0, 1, 1), "sem_timedwait": (-1, 110, 1, 1), "pause": (-1, 4, 1, 1),
             "sigsuspend": (-1, 4, 1, 1), "small-alternate-stack": (0, 0, 1, 1),
             "usleep": (0, 0, 0.9, 1.2), "nanosleep-short": (0, 0, 0.9, 1.2), "poll": (0, 0, 1, 2), "epoll_wait": (0, 0, 1, 2),
             "recv": (-1, 11, 1, 2), "read": (-1, 11, 1, 2)}

    def wake_and_look(self, pid, kind, woken):
        self.heapctl("status", pid, code=None)
        if agent_thread(pid) is not None:
            woken.add(kind)

    def disturbed_in_time(self, kinds, seconds):
        """The kinds among these whose agent woke while they waited, and that were not late. What follows a kind's name is ignored."""
        programs = {kind: self.start(self.program("waits"), kind.split()[0], seconds, stdout=subprocess.PIPE, text=True,
                                     env=dict(self.agent_environment(), HEAPCTL_THREAD="on-demand")) for kind in kinds}
        woken = set()
        late = set()
        for process in programs.values():
            self.assertEqual(process.stdout.readline(), "waits\n")
            self.assertIsNone(agent_thread(process.pid))
        with concurrent.futures.ThreadPoolExecutor(len(kinds)) as pool:
            for kind in kinds:
                pool.submit(self.wake_and_look, programs[kind].pid, kind, woken)
        for kind, (value, errnum, least, most) in kinds.items():
            result = programs[kind].stdout.readline().split()
            self.assertEqual([int(word) for word in result[:2]], [value, errnum], kind)
            self.assertGreaterEqual(float(result[2]), least * seconds - 0.01, kind)
            # The agent adds its waiting time at most; the rest is for a busy machine.
            if float(result[2]) >= (most + 2 / 3) * seconds:
                late.add(kind)
        return woken - late

    def assert_undisturbed(self, kinds):
        # On a busy machine a wait may be over before heapctl comes, and anything may take longer: these wait longer.
        for seconds in (3, 6, 12, 24, 48):
            done = self.disturbed_in_time(kinds, seconds)
            kinds = {kind: expected for kind, expected in kinds.items() if kind not in done}
            if not kinds:
                return
        self.assertEqual(kinds, {})

    def test_all_kinds(self):
        self.assert_undisturbed(self.KINDS)

    def test_a_thread_that_reads_the_signal_does_not_end_the_wait_of_another(self):
        """The agent's thread reads it, too. A signal to the whole process ends the wait of each second program."""
        self.assert_undisturbed({f"epoll_wait-signal-readers {i}": (0, 0, 1, 2) for i in range(8)})

    def test_a_signal_that_comes_with_the_waking_ends_the_wait(self):
        for kind in ("sigsuspend", "ppoll"):
            outcome = self.outcome(self.program("signal_with_wake"), kind, env=self.agent_environment(HEAPCTL_THREAD="on-demand"))
            self.assertEqual(outcome, (0, "ended\n", ""), kind)


class Children(ComparedCase):
    """Children of a program with the agent: without a thread, and reachable."""

    def forks_in_sandbox(self, env):
        process = self.start(self.program("forks_in_sandbox"), "kill", stdout=subprocess.PIPE, text=True, env=env)
        lines = [process.stdout.readline().split() for _ in range(11)]
        self.end_pid_later(int(lines[10][1]))
        return process, [line for line in lines[:10]], int(lines[10][1])

    def test_a_killing_filter_does_not_meet_the_agent(self):
        _, plain, _ = self.forks_in_sandbox(self.environment)
        self.assertEqual(plain, 5 * [["_exit", "0"], ["exit", "0"]])
        for env in ({}, {"HEAPCTL_CHILDREN": "no"}, {"HEAPCTL_THREAD": "on-demand"}):
            process, with_agent, child = self.forks_in_sandbox(self.agent_environment(**env))
            self.assertEqual(with_agent, plain, env)
            for verb in ("status", "dump"):
                _, complaint = self.heapctl(verb, child, code=1)
                self.assertIn("has no agent" if env.get("HEAPCTL_CHILDREN") else "sandbox", complaint.replace("its socket was not found", "has no agent"))
            self.heapctl("ps")
            self.assertTrue(is_alive(child))
            self.assertTrue(is_alive(process.pid))

    def test_a_killing_filter_meets_no_call_of_a_sampled_malloc(self):
        for program, conf in (("forks_in_sandbox_glibc", ""), ("forks_in_sandbox", "prof:false"),
                              ("forks_in_sandbox", "prof:true,prof_active:true,lg_prof_sample:0")):
            for arguments in ([], ["thread"], ["coroutine"]):
                plain = self.outcome(self.program(program), "allocate", *arguments, env=self.environment)
                self.assertEqual(plain[0], 0, plain)
                for mode in ("", "on-demand"):
                    with self.subTest(program=program, conf=conf, arguments=arguments, thread=mode):
                        with_agent = self.outcome(self.program(program), "allocate", *arguments, env=self.agent_environment(
                            HEAPCTL_THREAD=mode, HEAPCTL_ACTIVATE="1", HEAPCTL_SAMPLE="1", MALLOC_CONF=conf))
                        self.assertEqual(with_agent, plain)

    def test_a_killing_filter_does_not_meet_the_agent_at_the_end(self):
        for env in ({}, {"HEAPCTL_THREAD": "on-demand"}):
            for _ in range(10):
                process = self.start(self.program("forks_in_sandbox"), "end", env=self.agent_environment(**env))
                self.assertEqual(process.wait(60), 9, env)

    def test_a_filter_that_was_there_before_is_none_of_its_own(self):
        """As in a container, or with systemd's SystemCallFilter."""
        process = self.start(self.program("forks_in_sandbox"), self.program("agent_host_plain"), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, env=self.agent_environment(HEAPCTL_EXE="agent_host_plain"))
        server = Host(process)
        pid = int(server("fork"))
        self.end_pid_later(pid)
        self.assertIsNone(agent_thread(pid))
        self.assertIn("agent_host_plai", self.heapctl("status", pid)[0])

    def test_a_daemon_is_found_by_its_name(self):
        name = own_name("daemon")
        program = os.path.join(self.folder, name)
        shutil.copy(need("redis-server"), program)
        pidfile = os.path.join(self.folder, "pid")
        process = self.start(program, "--bind", "127.0.0.1", "--port", free_port(), "--save", "", "--dir", self.folder, "--daemonize", "yes",
                             "--pidfile", pidfile, env=self.agent_environment())
        self.assertEqual(process.wait(60), 0)
        pid = int(wait_until(lambda: os.path.exists(pidfile) and pathlib.Path(pidfile).read_text().strip(), "the pid file"))
        self.end_pid_later(pid)
        wait_until(lambda: any(entry.get("pid") == pid for entry in json.loads(self.heapctl("ps", "--json")[0])), "it to be listed")

        def is_asleep_and_stays_so():
            entry = next(entry for entry in json.loads(self.heapctl("ps", "--json")[0]) if entry.get("pid") == pid)
            self.assertEqual(entry["name"], name)
            return entry["state"] == "asleep" and agent_thread(pid) is None and os.listdir(self.agents) == []
        wait_until_unused(is_asleep_and_stays_so, "it to be listed without being woken")
        out, _ = self.heapctl("record", name, "--duration", "1s", "-o", self.folder + "/run.heap")
        self.assertTrue(pathlib.Path(self.folder, "run.heap").read_bytes().startswith(b"heap_v2/"))
        self.assertIsNotNone(agent_thread(pid))
        self.heapctl("activate", pid)
        wait_until_unused(lambda: agent_thread(pid) is None, "the agent to leave when it is unused")
        self.assertTrue(json.loads(self.heapctl("status", name, "--json")[0])["profiling"]["active"])

    def test_with_a_thread_at_once(self):
        process = self.start(self.program("agent_host_plain"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=self.agent_environment(HEAPCTL_CHILDREN="thread"))
        server = Host(process)
        pid = int(server("fork"))
        self.end_pid_later(pid)
        # Younger than its socket: the verb waits.
        self.heapctl("activate", pid)
        self.assertIsNotNone(agent_thread(pid))
        self.assertFalse(handles_waking(pid))

    def test_children_get_no_agent_on_request(self):
        process = self.start(self.program("agent_host_plain"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=self.agent_environment(HEAPCTL_CHILDREN="no", HEAPCTL_EXE="agent_host_plain:sleep"))
        server = Host(process)
        self.wait_for_agent(process.pid)
        child, program = int(server("fork")), int(server("spawn", "/bin/sleep"))
        for pid in (child, program):
            self.end_pid_later(pid)
        wait_until(lambda: pathlib.Path(f"/proc/{program}/comm").read_text() == "sleep\n", "the child to exec")
        for pid in (child, program):
            self.assertFalse(handles_waking(pid))
            self.assertIsNone(agent_thread(pid))
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{program}/maps").read_text())
        self.heapctl("status", child, code=1)

    def test_a_run_of_the_parent_does_not_continue_in_the_child(self):
        process = self.start(self.program("agent_host_plain"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=self.agent_environment())
        server = Host(process)
        self.heapctl("start", process.pid, "--duration", "1m")
        pid = int(server("fork"))
        self.end_pid_later(pid)
        status = json.loads(self.heapctl("status", pid, "--json")[0])
        self.assertEqual((status["profiling"]["active"], status["run"]), (False, None))


class ForkCost(ComparedCase):
    """These are counts, which do not depend on other load on the machine; `make bench TARGET=fork` has the times."""

    def test_a_child_reads_one_page_of_the_agents_code(self):
        """The fork handler and what it calls lie together: each further page of code costs a child a page fault."""
        names = {"after_fork_in_child", "main_thread_note_child", "process_mark_set_new_child", "stacks_after_fork",
                 "unwind_modules_after_fork", "sampler_after_fork"}
        symbols = [line.split() for line in subprocess.run(["nm", AGENT], capture_output=True, text=True, check=True).stdout.splitlines()]
        addresses = {words[2]: int(words[0], 16) for words in symbols if len(words) == 3 and words[2] in names}
        self.assertEqual(addresses.keys(), names)
        self.assertLess(max(addresses.values()) - min(addresses.values()), 512, addresses)

    def test_a_program_that_is_no_target_pays_for_the_loading_only(self):
        """It costs 11 to 13 page faults, and 5 to 7 where the small library is preloaded; to look at all settings first cost 21 to 24. The least of 300
        children, because some depend on where the kernel puts the libraries."""
        def least(preload):
            env = self.agent_environment(HEAPCTL_EXE="none", LD_PRELOAD=preload)
            return min(int(self.outcome(self.program("fork_faults"), "thread", "/bin/true", env=env)[1]) for _ in range(5))
        plain = least("")
        self.assertLessEqual(least(AGENT) - plain, 17)
        self.assertLessEqual(least(PRELOAD) - plain, 13)

    def test_a_program_that_a_target_starts_does_not_wait_for_its_socket(self):
        """Its agent's thread stands still before it makes the socket: the program of a target ends meanwhile, another one waits for a time."""
        env = self.agent_environment(HEAPCTL_EXE="bash:true", HEAPCTL_THREAD="", BASH_ENV="")
        log = os.path.join(self.folder, "calls")
        # The traced program stays a child of its starter (-D).
        traced = [need("strace"), "-D", "-f", "-o", log, "-e", "trace=futex,mkdir,mkdirat", "--inject=mkdir,mkdirat:delay_enter=3000000", need("true")]

        def calls():
            wait_until(lambda: os.path.exists(log) and "+++ exited with 0 +++" in pathlib.Path(log).read_text(), "the program to end")
            return pathlib.Path(log).read_text()
        subprocess.run(traced, env=env, check=True)
        self.assertIn("ETIMEDOUT", calls())
        os.unlink(log)
        shell = self.start("bash", "-c", 'read; "$@"; read', "bash", *traced, env=env, stdin=subprocess.PIPE)
        self.wait_for_agent(shell.pid)
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        self.assertNotIn("ETIMEDOUT", calls())


class ThreadSanitizer(ComparedCase):
    SOURCE = """
        #include <pthread.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void *nothing(void *argument) { return argument; }
        int main(int argc, char **argv) {
            (void)argv;
            usleep(300000);
            if (argc > 1)
                pause();
            const pid_t pid = fork();
            pthread_t thread;
            if (pid == 0)
                _exit(pthread_create(&thread, 0, nothing, 0) != 0 || pthread_join(thread, 0) != 0);
            int status = -1;
            waitpid(pid, &status, 0);
            return status != 0;
        }"""

    def test_a_program_built_with_it_is_left_alone(self):
        program = os.path.join(self.folder, "built-with-tsan")
        if subprocess.run(["cc", "-fsanitize=thread", "-x", "c", "-", "-o", program], input=self.SOURCE, capture_output=True,
                          text=True).returncode != 0:
            self.skipTest("cc -fsanitize=thread does not work")
        plain = self.outcome(program, env=self.environment)
        self.assertEqual(plain, (0, "", ""))
        self.assertEqual(self.outcome(program, env=self.agent_environment()), plain)
        process = self.start(program, "waits", env=self.agent_environment())
        wait_until(lambda: "libheapctl" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "it to be loaded")
        self.assertIn("thread sanitizer", self.heapctl("doctor", process.pid, code=None)[0].replace("\n         ", " "))


if __name__ == "__main__":
    unittest.main()
