#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent does not disturb what its program does with processes, descriptors, users and roots."""
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from agent_host import SANITIZED, SANITIZER, HostCase, only_root, voluntary_switches, wait_until_asleep
from processes import PATIENCE_SECONDS, agent_thread, ask, claim, is_alive, need_namespace, open_descriptors, wait_until


class AgentProcess:
    """The same tests for an agent that was preloaded and for one that is linked."""

    def start_host(self, **options):
        server = self.host(self.kind, **options)
        path = self.wait_for_agent(server.pid)
        return server, path

    def child(self, pid):
        self.end_child_later(int(pid))
        return int(pid)

    def assert_stays_without_agent(self, pid):
        self.let_young_processes_look()
        self.assertTrue(is_alive(pid))
        self.assertNotIn(f"{pid}.sock", self.sockets())
        self.assertIsNone(agent_thread(pid))

    def assert_loses_its_agent(self, pid):
        """Its thread leaves at its first look, which is when a child that was forked later has its agent, or on a busy machine later."""
        self.let_young_processes_look()
        wait_until(lambda: agent_thread(pid) is None, "the thread to leave")
        self.assertTrue(is_alive(pid))
        self.assertNotIn(f"{pid}.sock", self.sockets())

    def test_its_thread_is_quiet_and_blocks_the_programs_signals_only(self):
        server, path = self.start_host()
        status = (agent_thread(server.pid) / "status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGPIPE, signal.SIGPROF):
            self.assertTrue(blocked >> (number - 1) & 1, number)
        for number in (32, 33, signal.SIGSYS):
            self.assertFalse(blocked >> (number - 1) & 1, number)
        for _ in range(5):
            server.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: server("signals") != "0", "the program's own signal")
        self.assertEqual(ask(path, "/v1/status")[0], 200)

    def test_its_descriptors_are_close_on_exec(self):
        server, _ = self.start_host()
        task = agent_thread(server.pid)
        for number, target in open_descriptors(task).items():
            if number <= 2:
                continue
            try:
                flags = (task / "fdinfo" / str(number)).read_text().partition("flags:")[2].split()[0]
            except FileNotFoundError:
                continue  # a connection that has just ended
            self.assertTrue(int(flags, 8) & os.O_CLOEXEC, f"{number} {target}")

    def test_a_daemon_is_the_target(self):
        server, path = self.start_host()
        pid = self.child(server("daemon"))
        self.assertEqual(server.process.wait(60), 0)
        self.wake(pid)
        # The name of the ended process is removed at the next listing.
        wait_until(lambda: self.heapctl("ps") and self.sockets() == [f"{pid}.sock"], "the daemon's socket alone")
        self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[1]["pid"], pid)
        self.assertEqual(server("pid"), str(pid))

    def test_a_long_lived_child_is_a_target_of_its_own(self):
        server, path = self.start_host()
        ask(path, "/v1/runs?duration_ms=60000", "POST")
        pid = self.child(server("fork"))
        child_path = self.wait_for_agent(pid)
        self.assertEqual(ask(child_path, "/v1/status")[1]["pid"], pid)
        status = ask(child_path, "/v1/status")[1]
        self.assertIsNone(status["run"])
        self.assertTrue(ask(path, "/v1/status")[1]["profiling"]["active"])
        self.assertFalse(status["profiling"]["active"])
        self.assertEqual(ask(child_path, "/v1/runs")[1]["runs"], [])
        self.assertEqual(len(ask(path, "/v1/runs")[1]["runs"]), 1)
        self.assertEqual(ask(child_path, "/v1/profile")[0], 200)

    def test_a_child_inherits_what_was_activated(self):
        server, path = self.start_host()
        ask(path, "/v1/activate", "POST")
        pid = self.child(server("fork"))
        profiling = ask(self.wait_for_agent(pid), "/v1/status")[1]["profiling"]
        self.assertEqual((profiling["active"], profiling["activated_by"]), (True, "heapctl"))

    def test_a_child_does_not_inherit_its_memory(self):
        server, path = self.start_host()
        self.assertEqual(ask(path, "/v1/status")[0], 200)
        own = [line for line in pathlib.Path(f"/proc/{server.pid}/smaps").read_text().splitlines()
               if line.startswith("VmFlags:") and " dc" in line]
        self.assertGreater(len(own), 0)

    def test_a_killed_childs_name_is_removed_by_the_next(self):
        self.hide_from_others()
        server, _ = self.start_host()
        server("hide")
        pid = int(server("fork"))
        self.wait_for_agent(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), "its end")
        self.assertIn(f"{pid}.sock", self.sockets())
        # The child is a zombie and keeps its pid until the server ends.
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "its pid to be free")
        second, _ = self.start_host()
        wait_until(lambda: self.sockets() == [f"{second.pid}.sock"], "the dead names to be gone")

    def test_short_lived_children_leave_nothing(self):
        server, path = self.start_host()
        self.leave_nothing(lambda: server("forks", 50))
        self.assertEqual(ask(path, "/v1/status")[0], 200)

    def test_programs_that_it_starts_get_no_agent(self):
        server, _ = self.start_host()
        self.leave_nothing(lambda: server("execs", "/bin/true"))
        self.assert_stays_without_agent(self.child(server("spawn", "/bin/sleep")))

    def leave_nothing(self, work):
        """A child that stood still for 100 ms on a busy machine is not short-lived, and what ends it by force leaves its name to the next
        that looks. Where each child leaves one, no try passes."""
        def leaves_nothing():
            before = set(os.listdir(self.agents))
            work()
            return set(os.listdir(self.agents)) <= before
        wait_until(leaves_nothing, "children that leave nothing")

    def test_a_child_made_by_clone_is_left_alone(self):
        server, path = self.start_host()
        self.assert_stays_without_agent(self.child(server("clone")))
        self.assertEqual(ask(path, "/v1/status")[0], 200)

    @only_root
    def test_a_child_made_by_clone_may_have_its_parents_pid(self):
        need_namespace("--pid")
        server = self.host(self.kind, wrap=["unshare", "--pid", "--fork", "--kill-child"])
        self.assertEqual(server("pid"), "1")
        path = self.wait_for_agent(1)
        for _ in range(3):
            server("clone-exit")
        self.assertEqual(ask(path, "/v1/status")[0], 200)
        # unshare does not forward SIGTERM.
        server.send("exit", 0)
        self.assertEqual(server.process.wait(60), 0)

    def test_closefrom_is_survived(self):
        server, path = self.start_host()
        for _ in range(2):
            server("closefrom", 3)

            def answers():
                try:
                    return ask(path, "/v1/status")[0] == 200
                except OSError:
                    return False
            wait_until(answers, "the agent to listen again")

    def test_numbers_taken_by_the_program_stay_the_programs(self):
        server, path = self.start_host()
        client = self.raw(path, b"GET /v1/sta")
        wait_until(lambda: ask(path, "/v1/status")[0] == 200, "both clients to be known")
        # With a shared table a program that closes what the agent is just closing has a race of its own making.
        self.wait_until_idle(server.pid)
        server("closefrom", 3)
        server("occupy", 900, 1000)
        try:
            client.sendall(b"tus HTTP/1.1\r\n\r\n")
            ask(path, "/v1/status")
        except OSError:
            pass
        wait_until(lambda: self.answers(path), "the agent to listen again")
        self.assertEqual(server("occupied", 900, 1000), "101")

    def wait_until_idle(self, pid):
        def idle():
            before = voluntary_switches(agent_thread(pid))
            time.sleep(0.1)
            return voluntary_switches(agent_thread(pid)) == before
        wait_until(idle, "the agent to be idle")

    def answers(self, path):
        try:
            return ask(path, "/v1/status")[0] == 200
        except OSError:
            return False

    @only_root
    def test_setuid_takes_the_agent_along(self):
        server, path = self.start_host()
        user = claim("uid", range(54000, 58000))
        self.addCleanup(shutil.rmtree, f"/tmp/heapctl-{user}", ignore_errors=True)
        server("setuid", user)
        self.assertEqual(ask(path, "/v1/status")[1]["uid"], user)
        for line in (agent_thread(server.pid) / "status").read_text().splitlines():
            if line.startswith(("Uid:", "Gid:")):
                self.assertEqual(set(line.split()[1:]), {str(user)})
        # A worker has no right to its parent's folder and takes one of its own.
        pid = self.child(server("fork"))
        own = f"/tmp/heapctl-{user}/{pid}.sock"
        self.wake(pid)
        wait_until(lambda: os.path.exists(own), "the worker's socket")
        self.assertEqual(ask(own, "/v1/status")[1]["uid"], user)
        self.assertEqual(os.stat(os.path.dirname(own)).st_uid, user)

    def assert_mapped(self, pid, profile):
        """Without /proc the loader reports where code is: each of its ranges, at the kernel's addresses and with the same file."""
        def code(text):
            fields = [line.split(None, 5) for line in text.splitlines()]
            return {(*(int(at, 16) for at in range_.split("-")), int(offset, 16), os.path.realpath(path))
                    for range_, flags, offset, _, _, path in (f for f in fields if len(f) == 6) if flags == "r-xp" and path[0] == "/"}
        found = code(profile.decode().partition("MAPPED_LIBRARIES:\n")[2])
        self.assertEqual(found, code(pathlib.Path(f"/proc/{pid}/maps").read_text()))
        self.assertIn(os.path.realpath(f"/proc/{pid}/exe"), {path for *_, path in found})

    @only_root
    def test_a_changed_root_is_survived(self):
        server, path = self.start_host()
        root = os.path.join(self.folder, "root")
        os.mkdir(root)
        self.assertEqual(ask(path, "/v1/activate", "POST")[0], 200)
        server("alloc", 64, 1 << 20)
        server("chroot", root)
        self.assertEqual(ask(path, "/v1/status")[0], 200)
        # Neither /proc nor the agent's folder is here: a place for the profile is made and removed.
        status, profile = ask(path, "/v1/profile")
        self.assertEqual(status, 200)
        self.assertEqual(os.listdir(root), [])
        self.assert_mapped(server.pid, profile)
        child = self.child(server("fork"))
        self.let_young_processes_look()
        self.assertTrue(is_alive(child))
        os.makedirs(root + self.folder)
        os.mkdir(root + self.agents, 0o700)
        second = self.child(server("fork"))
        inside = f"{root}{self.agents}/{second}.sock"
        self.wake(second)
        wait_until(lambda: self.answers(inside), "an agent inside the new root")
        # No /proc in there: the profile goes through a file without a name.
        status, profile = ask(inside, "/v1/profile")
        self.assertEqual(status, 200, profile)
        self.assertTrue(profile.startswith(b"heap_v2/"))
        self.assert_mapped(second, profile)
        self.assertEqual([name for name in os.listdir(root + self.agents) if not name.endswith(".sock")], [])

    def test_no_descriptors_left(self):
        server, path = self.start_host()
        task = agent_thread(server.pid)
        # With a client all that it waits for is more than poll() takes then.
        wait_until(lambda: "anon_inode:inotify" in open_descriptors(task).values(), "the watch of its folder")
        known = self.raw(path, b"GET /v1/status HTTP/1.1\r\n\r\n")
        self.assertTrue(known.recv(1))
        server("nofile", 3)
        self.assert_alive_and_idle(server)
        # A client waits in the queue; the agent must not spin over it, nor leave.
        client = self.raw(path, b"GET /v1/status HTTP/1.1\r\n\r\n")
        wait_until_asleep(task)
        client.close()
        child = self.child(server("fork"))
        self.let_young_processes_look()
        self.assertTrue(is_alive(child))
        self.assert_alive_and_idle(server)
        wait_until_asleep(task)

    def test_too_few_descriptors_at_the_start_are_named(self):
        server = self.host(self.kind, wrap=["prlimit", "--nofile=5"])
        for verb in ("status", "doctor"):
            said = " ".join(" ".join(self.heapctl(verb, server.pid, code=None)).split())
            self.assertIn("its limit of open files (RLIMIT_NOFILE) is 5", said)

    def test_fewer_descriptors_than_it_waits_for(self):
        server, path = self.start_host()
        client = self.raw(path, b"GET /v1/sta")
        wait_until(lambda: ask(path, "/v1/status")[0] == 200, "the first client to be known")
        # poll() refuses a list of more descriptors than this.
        server("nofile", 3)
        client.sendall(b"tus HTTP/1.1\r\n\r\n")
        self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 "))

    def assert_alive_and_idle(self, server):
        self.assertEqual(server("pid"), str(server.pid))

    def test_it_enters_a_sandbox_that_it_can_enter(self):
        server, path = self.start_host()
        server("nnp")
        self.assertEqual(ask(path, "/v1/status")[0], 200)
        self.assertIn("NoNewPrivs:\t1\n", (agent_thread(server.pid) / "status").read_text())
        self.assertEqual(ask(path, "/v1/profile")[0], 200)
        self.assertEqual(server("pid"), str(server.pid))

    def test_a_child_in_such_a_sandbox_has_an_agent(self):
        # The thread sanitizer delivers signals when it likes: it wakes no child.
        for children in ("thread",) if SANITIZER == "thread" else ("on-demand", "thread"):
            server, _ = self.start_host(env={"HEAPCTL_CHILDREN": children})
            pid = self.child(server("fork-sandboxed"))
            self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[0], 200, children)
            self.assertIn("NoNewPrivs:\t1\n", (agent_thread(pid) / "status").read_text())

    def test_it_leaves_a_process_that_filters_its_calls(self):
        server, path = self.start_host()
        server("filter")
        try:
            self.assertEqual(ask(path, "/v1/status")[1]["error"]["code"], "state")
        except OSError:
            pass
        wait_until(lambda: agent_thread(server.pid) is None, "the thread to leave")
        self.assertEqual(server("pid"), str(server.pid))

    def test_a_child_that_filters_its_calls_gets_none(self):
        for children in ("on-demand", "thread"):
            server, _ = self.start_host(env={"HEAPCTL_CHILDREN": children})
            self.assert_loses_its_agent(self.child(server("fork-filtered")))

    def test_a_filter_on_all_threads_makes_it_quiet_not_busy(self):
        server, path = self.start_host()
        server("filter-all-threads")
        client = self.raw(path, b"GET /v1/status HTTP/1.1\r\n\r\n")
        # By then it has noticed, or has had no request at all.
        self.let_young_processes_look()
        task = agent_thread(server.pid)
        if task is not None:
            wait_until_asleep(task)
        client.close()
        self.assertEqual(server("pid"), str(server.pid))

    @only_root
    def test_what_is_not_its_own_keeps_its_mode(self):
        if SANITIZER == "thread":
            self.skipTest("a program that closes what the agent is just closing is a race, of its own making")

        def modes():
            return [oct(os.stat(path).st_mode) for path in ("/dev/null", "/dev/full", self.folder, own)]
        own = os.path.join(self.folder, "the-programs-own")
        pathlib.Path(own).write_text("x")
        os.chmod(own, 0o644)
        before = modes()
        self.assertEqual(before[0], "0o20666")
        server, path = self.start_host()
        for _ in range(20):
            # The program takes the agent's numbers while it listens again and works.
            server("closefrom", 3)
            server("occupy", 900, 1000)
            for target in ("/v1/profile", "/v1/runs"):
                try:
                    ask(path, target, timeout=5)
                except OSError:
                    pass
            server("closefrom", 3)
        wait_until(lambda: self.answers(path), "the agent to listen again")
        self.assertEqual(ask(path, "/v1/runs?duration_ms=60000", "POST")[0], 201)
        self.assertEqual(ask(path, "/v1/runs/stop", "POST")[0], 200)
        self.assertEqual(modes(), before)

    def test_exit_does_not_wait_for_a_dump(self):
        server, path = self.start_host()
        if self.kind == "fake":
            server("dump-delay", 24 * 3600 * 1000)
        else:
            ask(path, "/v1/activate", "POST")
            server("alloc", 3000, 20000)
        self.raw(path, b"GET /v1/profile HTTP/1.1\r\n\r\n")
        server.send("exit", 7)
        self.assertEqual(server.process.wait(PATIENCE_SECONDS), 7)

    def test_the_name_of_a_process_that_ended_is_removed_by_the_next_agent(self):
        server, path = self.start_host()
        server.send("exit", 0)
        self.assertEqual(server.process.wait(60), 0)
        other, _ = self.start_host()
        wait_until(lambda: not os.path.exists(path), "the old name to go")

    def test_runs_outlive_a_killed_process(self):
        server, path = self.start_host()
        first = ask(path, "/v1/runs?duration_ms=60000", "POST")[1]["id"]
        ask(path, "/v1/runs/stop", "POST")
        second = ask(path, "/v1/runs?duration_ms=60000", "POST")[1]["id"]
        server.process.kill()
        server.process.wait()
        again, path = self.start_host()
        runs = ask(path, "/v1/runs")[1]["runs"]
        self.assertEqual([(run["id"], run["state"], run["ended_by"]) for run in runs],
                         [(first, "finished", "stop"), (second, "failed", "exit")])
        self.assertEqual({run["pid"] for run in runs}, {server.pid})
        for target in (f"{first}/profile", f"{first}/start", f"{second}/start"):
            self.assertTrue(ask(path, "/v1/runs/" + target)[1].startswith(b"heap_v2/"), target)
        self.assertEqual(ask(path, f"/v1/runs/{second}/profile")[0], 404)
        self.assertGreater(ask(path, "/v1/runs", "POST")[1]["id"], second)

    def test_disabled_by_the_environment(self):
        server = self.host(self.kind, env={"HEAPCTL_DISABLE": "1"}, start=False)
        self.let_young_processes_look()
        self.assertIsNone(agent_thread(server.pid))
        self.assertNotIn(f"{server.pid}.sock", self.sockets())

    def test_no_folder_no_socket_no_harm(self):
        server = self.host(self.kind, env={"HEAPCTL_DIR": "/proc/self/nothing"}, start=False)
        if self.kind != "plain":
            self.assertIn("/proc/self/nothing", server.refuses("start", 0))
        self.assertEqual(server("pid"), str(server.pid))
        server("forks", 3)

    def host_with_own_mounts(self, command):
        """A server after `command` in a mount namespace of its own, and the path of its socket from outside."""
        need_namespace("--mount")
        os.mkdir(self.agents, 0o700)
        server = self.host(self.kind, wrap=["unshare", "-m", "sh", "-c", command + ' && exec "$@"', "sh"])
        path = f"/proc/{server.pid}/root{self.agents}/{server.pid}.sock"
        wait_until(lambda: self.answers(path), "the agent")
        return server, path

    @only_root
    def test_a_full_disk_keeps_runs_in_memory(self):
        server, path = self.host_with_own_mounts('mount -t tmpfs -o size=16k,mode=700 none "$HEAPCTL_DIR"')
        if self.kind == "fake":
            server("dump-size", 100000)
        else:
            ask(path, "/v1/activate", "POST")
            server("alloc", 300, 100000)
            ask(path, "/v1/deactivate", "POST")
        run = ask(path, "/v1/runs?duration_ms=60000", "POST")[1]
        stopped = ask(path, "/v1/runs/stop", "POST")[1]
        self.assertEqual(stopped["state"], "finished", stopped)
        for which in ("start", "profile"):
            status, profile = ask(path, f"/v1/runs/{run['id']}/{which}")
            self.assertEqual(status, 200, profile)
            self.assertGreater(len(profile), 16384)
        self.assertEqual(os.listdir(os.path.dirname(path)), [f"{server.pid}.sock"])

    @only_root
    def test_runs_leave_their_file_system_free_to_become_read_only(self):
        server, path = self.host_with_own_mounts('mount -t tmpfs -o mode=700 none "$HEAPCTL_DIR"')
        for ended in (False, True):
            run = ask(path, "/v1/runs?duration_ms=60000", "POST")[1]
            if ended:
                self.assertEqual(ask(path, "/v1/runs/stop", "POST")[1]["state"], "finished")
            for mode in ("ro", "rw"):
                subprocess.run(["nsenter", "--mount", f"--target={server.pid}", "mount", "-o", f"remount,{mode}", self.agents], check=True)
            if not ended:
                ask(path, "/v1/runs/stop", "POST")
            # Its lock is kept nevertheless.
            profile = next(name for name in os.listdir(os.path.dirname(path)) if name.endswith(f".{run['id']}.start"))
            with open(os.path.join(os.path.dirname(path), profile), "rb") as file, self.assertRaises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

    @only_root
    def test_without_proc(self):
        server, path = self.host_with_own_mounts("mount -t tmpfs none /proc")
        status, profile = ask(path, "/v1/profile")
        self.assertEqual(status, 200, profile)
        self.assertTrue(profile.startswith(b"heap_v2/"))
        self.assertEqual(os.listdir(self.agents), [f"{server.pid}.sock"])
        # The thread sanitizer itself wants /proc in a child.
        if SANITIZER != "thread":
            server("forks", 5)


class Linked(AgentProcess, HostCase):
    kind = "fake"


class Preloaded(AgentProcess, HostCase):
    kind = "plain"

    def test_a_limit_on_files_is_no_short_profile(self):
        server, path = self.start_host(wrap=["prlimit", "--fsize=1024"])
        status, answer = ask(path, "/v1/profile")
        self.assertEqual(status, 500)
        self.assertIn("File too large", answer["error"]["message"])
        self.assertIn("prlimit --fsize", answer["error"]["hint"])
        self.assertEqual(server("pid"), str(server.pid))

    def test_an_empty_limit_on_files_is_named(self):
        server, path = self.start_host(wrap=["prlimit", "--fsize=0"])
        self.assertIn("prlimit --fsize", ask(path, "/v1/profile")[1]["error"]["hint"])
        self.assertEqual(server("pid"), str(server.pid))

    def test_a_limit_on_descriptors_is_named(self):
        server, path = self.start_host()
        self.assertEqual(ask(path, "/v1/activate", "POST")[0], 200)
        server("alloc", 64, 1 << 20)
        # A profile needs more descriptors than a client: it is what fails first, and with mappings until then.
        for limit in range(16, 4, -1):
            server("nofile", limit)
            status, answer = ask(path, "/v1/profile")
            if status != 200:
                break
            self.assert_mapped(server.pid, answer)
        self.assertEqual(answer["error"]["message"][-len("Too many open files"):], "Too many open files")
        self.assertIn("prlimit --nofile", answer["error"]["hint"])
        self.assertEqual(server("pid"), str(server.pid))

    @only_root
    def test_a_sandboxed_child_with_another_root_gets_none(self):
        root = os.path.join(self.folder, "root")
        os.makedirs(root + self.folder)
        os.mkdir(root + self.agents, 0o700)
        # On demand there is none before a client asks.
        server, _ = self.start_host(env={"HEAPCTL_CHILDREN": "thread"})
        # With real-time priority on one processor the child has another root before its agent's thread runs.
        processor = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(server.pid, processor)
        for task in os.listdir(f"/proc/{server.pid}/task"):
            os.sched_setaffinity(int(task), processor)
        try:
            os.sched_setscheduler(server.pid, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            self.skipTest("needs the right to set a real-time priority")
        pid = self.child(server("fork-sandboxed", root))
        # By then it has made the thread, which has no name before it runs.
        wait_until(lambda: os.readlink(f"/proc/{pid}/root") == root, "the other root")
        wait_until(lambda: len(os.listdir(f"/proc/{pid}/task")) == 1, "the thread to leave")
        self.assertTrue(is_alive(pid))
        self.assertEqual(os.listdir(root + self.agents), [])

    def test_a_child_that_is_another_program_of_the_list(self):
        server, _ = self.start_host(env={"HEAPCTL_EXE": "agent_host_plain:sleep"})
        pid = self.child(server("spawn", "/bin/sleep"))
        self.wait_for_agent(pid)


class OnDemand(HostCase):
    def setUp(self):
        super().setUp()
        if SANITIZER == "thread":
            self.skipTest("the thread sanitizer delivers signals when it likes, not where they came")

    def test_a_program_can_be_alone_in_its_process(self):
        self.hide_from_others()
        for kind in ("fake",) if SANITIZED else ("fake", "plain"):
            with self.subTest(kind):
                server = self.host(kind, env={"HEAPCTL_THREAD": "on-demand"})
                server("hide")
                self.assertIsNone(agent_thread(server.pid))
                if kind == "plain":
                    need_namespace("--user")
                    server("unshare")
                path = self.wait_for_agent(server.pid)
                self.assertEqual(ask(path, "/v1/activate", "POST")[0], 200)
                self.assertEqual(ask(path, "/v1/profile")[0], 200)
                wait_until(lambda: agent_thread(server.pid) is None, "the thread to leave")
                wait_until(lambda: self.sockets() == [], "its socket to go")
                path = self.wait_for_agent(server.pid)
                self.assertTrue(ask(path, "/v1/status")[1]["profiling"]["active"])
                pid = int(server("fork"))
                self.end_child_later(pid)
                self.wait_for_agent(pid)

    def test_with_a_thread_a_user_namespace_cannot_be_left(self):
        need_namespace("--user")
        server = self.host("plain")
        self.wait_for_agent(server.pid)
        self.assertIn("Invalid argument", server.refuses("unshare"))

    def test_another_signal_or_word_does_nothing(self):
        server = self.host("fake", env={"HEAPCTL_THREAD": "on-demand"})
        libc = __import__("ctypes").CDLL(None)
        os.kill(server.pid, signal.SIGRTMAX - 3)
        libc.sigqueue(server.pid, signal.SIGRTMAX - 3, 1)
        self.assertEqual(server("pid"), str(server.pid))
        self.assertIsNone(agent_thread(server.pid))


if __name__ == "__main__":
    unittest.main()
