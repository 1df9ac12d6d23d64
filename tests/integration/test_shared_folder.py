#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One HEAPCTL_DIR for processes of several pid namespaces, as for containers with a common volume; and what ended processes leave there."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from agent_host import NO_THREAD, SANITIZED, HostCase, only_root, voluntary_switches
from processes import agent_thread, ask, children_of, claim, is_alive, need_namespace, open_descriptors, wait_until


@only_root
class SharedFolder(HostCase):
    kind = "fake"

    def container(self, **settings):
        """A host that is pid 1 of a pid namespace of its own; host.pid is what the others call it."""
        need_namespace("--pid")
        # Of the default propagation, a changed root that is no mount point is refused.
        host = self.host(self.kind, wrap=["unshare", "--pid", "--fork", "--propagation", "unchanged", "--mount-proc", "--kill-child"], env=settings)
        host.unshare = host.pid
        host.pid = wait_until(lambda: children_of(host.unshare), "the first process of the namespace")[0]
        self.addCleanup(self.end_container, host)
        self.assertEqual(host("pid"), "1")
        return host

    def wait_for_name(self, name):
        path = os.path.join(self.agents, name)

        def answers():
            try:
                return ask(path, "/v1/status", timeout=5)[0] == 200
            except OSError:
                return False
        wait_until(answers, f"an agent at {name}")
        return path

    def second_name(self, host):
        return f"1.{os.stat(f'/proc/{host.pid}/ns/pid').st_ino}.sock"

    def two_containers(self, **settings):
        first = self.container(**settings)
        first.path = self.wait_for_name("1.sock")
        second = self.container(**settings)
        second.path = self.wait_for_name(self.second_name(second))
        return first, second

    def end_container(self, host):
        """unshare waits for its child and lets SIGTERM wait as well."""
        if host.process.poll() is None:
            os.kill(host.pid, signal.SIGKILL)
        host.process.wait()
        wait_until(lambda: not is_alive(host.pid), "the namespace to end")

    def test_two_first_processes_have_a_socket_each(self):
        first, second = self.two_containers()
        self.assertEqual(self.sockets(), sorted(["1.sock", self.second_name(second)]))
        for host in (first, second):
            self.assertEqual(ask(host.path, "/v1/status")[0], 200)
            status = json.loads(self.heapctl("status", host.pid, "--json")[0])
            self.assertEqual(status["pid"], 1)
        listed = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        self.assertEqual([os.path.basename(listed[host.pid]["socket"]) for host in (first, second)], ["1.sock", self.second_name(second)])
        # The first process outside, which has no agent, is not taken for the one that has the name.
        self.assertNotIn(1, listed)
        self.assertIn("another pid namespace", self.log_of(second))

    def test_the_socket_name_of_an_ended_process_is_reused(self):
        first, second = self.two_containers()
        self.end_container(first)
        third = self.container()
        self.wait_for_name("1.sock")
        self.assertEqual(json.loads(self.heapctl("status", third.pid, "--json")[0])["pid"], 1)
        self.assertEqual(ask(second.path, "/v1/status")[0], 200)

    def test_a_running_run_is_its_own_processes_alone(self):
        first, second = self.two_containers(HEAPCTL_KEEP="1")
        run = ask(first.path, "/v1/runs?duration_ms=60000", "POST")[1]["id"]
        self.assertEqual(ask(second.path, "/v1/runs")[1]["runs"], [])
        for _ in range(3):
            self.assertEqual(ask(second.path, "/v1/runs?duration_ms=60000", "POST")[0], 201)
            ask(second.path, "/v1/runs/stop", "POST")
        files = [name for name in os.listdir(self.agents) if f".{run}." in name]
        self.assertEqual(len(files), 2, files)
        self.assertEqual(ask(first.path, "/v1/runs/stop", "POST")[1]["state"], "finished")
        for which in ("start", "profile"):
            self.assertEqual(ask(first.path, f"/v1/runs/{run}/{which}")[0], 200)
        # The finished one is still that of a living process.
        third = self.container()
        path = self.wait_for_name(self.second_name(third))
        self.assertEqual(ask(path, "/v1/runs")[1]["runs"], [])

    def test_an_agent_outside_leaves_the_socket_of_a_container(self):
        first = self.container()
        self.wait_for_name("1.sock")
        inode = os.stat(os.path.join(self.agents, "1.sock")).st_ino
        self.wait_for_agent(self.host(self.kind).pid)
        # Under the lock of the next agent the first has finished.
        self.wait_for_agent(self.host(self.kind).pid)
        self.assertEqual(os.stat(self.wait_for_name("1.sock")).st_ino, inode)
        self.assertTrue(is_alive(first.pid))

    def test_a_lock_outlives_closed_descriptors_and_not_the_process(self):
        first, second = self.two_containers()
        run = ask(first.path, "/v1/runs?duration_ms=60000", "POST")[1]["id"]
        first("closefrom", 3)
        self.end_child_later(int(first("clone")))
        self.assertEqual(ask(second.path, "/v1/runs")[1]["runs"], [])
        self.end_container(first)
        third = self.container()
        self.wait_for_name("1.sock")
        runs = ask(os.path.join(self.agents, "1.sock"), "/v1/runs")[1]["runs"]
        self.assertEqual([(entry["id"], entry["state"]) for entry in runs], [(run, "failed")])
        self.assertTrue(is_alive(third.pid))


class LeftBehind(HostCase):
    def bind(self, pid, name=".{}.0123456789abcdef"):
        """A socket that never listened."""
        os.makedirs(self.agents, mode=0o700, exist_ok=True)
        path = os.path.join(self.agents, name.format(pid))
        with socket.socket(socket.AF_UNIX) as unfinished:
            unfinished.bind(path)
        return path

    def dead_pid(self):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid

    def test_the_next_agent_removes_a_socket_that_never_listened(self):
        dead, living = self.bind(self.dead_pid()), self.bind(os.getpid())
        self.wait_for_agent(self.host().pid)
        wait_until(lambda: not os.path.exists(dead), "the dead name to go")
        # Its process may be about to listen.
        self.assertTrue(os.path.exists(living))

    def test_the_next_agent_removes_the_socket_of_an_ended_container(self):
        """Its processes had numbers that here are those of others, which never end."""
        dead = self.bind(1, "{}.sock")
        self.wait_for_agent(self.host().pid)
        wait_until(lambda: not os.path.exists(dead), "the dead name to go")

    @unittest.skipIf(SANITIZED, "the sanitizers need /proc at the end")
    @only_root
    def test_a_name_outside_of_a_changed_root_is_removed_later(self):
        """As `named -t` leaves it: nothing in the process can reach its folder at the end."""
        for remover in ("the next agent", "heapctl ps"):
            server = self.host("fake")
            path = self.wait_for_agent(server.pid)
            root = tempfile.mkdtemp(dir=self.folder)
            server("chroot", root)
            server.send("exit", 0)
            self.assertEqual(server.process.wait(60), 0)
            self.assertTrue(os.path.exists(path))
            if remover == "heapctl ps":
                self.heapctl("ps")
            else:
                self.wait_for_agent(self.host("fake").pid)
            wait_until(lambda: not os.path.exists(path), f"{remover} to remove it")

    def test_ps_removes_it_when_it_is_old(self):
        path = self.bind(self.dead_pid())
        self.heapctl("ps")
        self.assertTrue(os.path.exists(path))
        wait_until(lambda: self.heapctl("ps") and not os.path.exists(path), "it to be old enough")


class Removed:
    """The folder of a running agent is removed and made again."""

    def start_server(self):
        server = self.host(self.kind)
        server.path = self.wait_for_agent(server.pid)
        return server

    def test_a_folder_that_is_removed_is_made_again(self):
        server = self.start_server()
        shutil.rmtree(self.agents)
        self.wait_for_agent(server.pid)
        self.assertEqual(json.loads(self.heapctl("status", server.pid, "--json")[0])["pid"], server.pid)
        # And once more: the new name is watched as the old one was.
        shutil.rmtree(self.agents)
        os.mkdir(self.agents, 0o700)
        self.wait_for_agent(server.pid)
        self.assertEqual(server("pid"), str(server.pid))

    def test_a_folder_whose_parent_was_removed_as_well(self):
        parent = os.path.join(self.folder, "parent")
        self.agents = os.path.join(parent, "agents")
        self.environment["HEAPCTL_DIR"] = self.agents
        os.mkdir(parent)
        server = self.start_server()
        shutil.rmtree(parent)
        if self.kind == "plain":
            self.assertIn(f"no folder {parent}", self.heapctl("doctor", server.pid, code=1)[0].replace("\n         ", " "))
        os.makedirs(self.agents, mode=0o700)
        self.wait_for_agent(server.pid)

    def test_a_folder_that_is_renamed_gets_a_successor(self):
        server = self.start_server()
        os.rename(self.agents, self.agents + ".old")
        self.wait_for_agent(server.pid)

    def test_changes_by_other_processes_wake_no_agent(self):
        server = self.start_server()
        task = agent_thread(server.pid)
        # In the first seconds of a process the agent makes more checks.
        wait_until(lambda: time.monotonic() - self.begun > 6, "the young process's looks")
        def is_left_alone():
            before = voluntary_switches(task)
            for number in range(50):
                name = os.path.join(self.agents, f"{number}.other")
                pathlib.Path(name).write_text("x")
                os.unlink(name)
            os.chmod(self.agents, 0o700)
            return voluntary_switches(task) - before < 10
        # Another heapctl on this machine that lists what there is may wake it, but not each time.
        wait_until(is_left_alone, "an agent that sleeps on")

    def test_a_daemon_notices_too(self):
        server = self.start_server()
        pid = int(server("daemon"))
        self.end_child_later(pid)
        self.assertEqual(server.process.wait(60), 0)
        self.wait_for_agent(pid)
        # Its agent finds out at one of its first looks that its parent has gone.
        wait_until(lambda: "anon_inode:inotify" in self.descriptors(agent_thread(pid)), "a watch")
        shutil.rmtree(self.agents)
        self.wait_for_agent(pid)

    def test_a_child_of_many_takes_none_of_the_users_few_instances(self):
        self.environment["HEAPCTL_CHILDREN"] = "thread"
        server = self.start_server()
        pid = int(server("fork"))
        self.end_child_later(pid)
        self.wait_for_agent(pid)
        # A daemon that came later has its watch by then.
        later = int(self.start_server()("daemon"))
        self.end_child_later(later)
        self.wait_for_agent(later)
        wait_until(lambda: "anon_inode:inotify" in self.descriptors(agent_thread(later)), "the watch of another")
        self.assertNotIn("anon_inode:inotify", self.descriptors(agent_thread(pid)))

    def in_its_mounts(self, server, *command):
        subprocess.run(["nsenter", "--mount", f"--target={server.pid}", *command], check=True)

    def assert_is_reachable(self, server, folder):
        """At the path that clients in its mount namespace use."""
        path = f"/proc/{server.pid}/root{folder}/{server.pid}.sock"

        def answers():
            try:
                return ask(path, "/v1/status", timeout=5)[0] == 200
            except OSError:
                return False
        wait_until(answers, f"an agent at {path}")

    def start_in_mounts_of_its_own(self, **options):
        need_namespace("--mount")
        parent = os.path.join(self.folder, "parent")
        folder = os.path.join(parent, "agents")
        os.makedirs(folder, mode=0o700)
        self.environment["HEAPCTL_DIR"] = folder
        server = self.host(self.kind, wrap=["unshare", "--mount", "--propagation", "private"], **options)
        return server, parent, folder

    @only_root
    def test_a_file_system_that_is_mounted_over_the_folder(self):
        server, parent, folder = self.start_in_mounts_of_its_own()
        self.assert_is_reachable(server, folder)
        wait_until(lambda: time.monotonic() - self.begun > 6, "the young process's looks")
        self.in_its_mounts(server, "mount", "-t", "tmpfs", "-o", "mode=700", "none", folder)
        self.assert_is_reachable(server, folder)
        # The one below is visible again, with the name that nothing listens at any more.
        # Lazily: it has the socket.
        self.in_its_mounts(server, "umount", "--lazy", folder)
        self.assert_is_reachable(server, folder)
        self.in_its_mounts(server, "mount", "-t", "tmpfs", "none", parent)
        self.in_its_mounts(server, "mkdir", "-m", "700", folder)
        self.assert_is_reachable(server, folder)
        self.assertEqual(server("pid"), str(server.pid))

    def assert_name_is_kept(self, server, *orders):
        before = os.stat(server.path).st_ino
        for order in orders:
            server(*order)
        wait_until(lambda: time.monotonic() - self.begun > 7, "the young process's looks, and a second after")
        self.assertEqual(os.stat(server.path).st_ino, before)
        self.assertEqual(ask(server.path, "/v1/status")[0], 200)
        self.assertNotIn("removed", self.log_of(server))

    @only_root
    def test_a_folder_that_its_new_user_may_not_enter_keeps_the_socket(self):
        server = self.start_server()
        user = claim("uid", range(54000, 58000))
        self.addCleanup(shutil.rmtree, f"/tmp/heapctl-{user}", ignore_errors=True)
        self.assert_name_is_kept(server, ("setuid", user))
        self.assertFalse(os.path.exists(f"/tmp/heapctl-{user}"))

    @unittest.skipIf(SANITIZED, "the sanitizers need /proc at the end")
    @only_root
    def test_a_folder_outside_of_a_changed_root_keeps_the_socket(self):
        server = self.start_server()
        root = tempfile.mkdtemp(dir=self.folder)
        os.mkdir(os.path.join(root, "tmp"))
        self.assert_name_is_kept(server, ("chroot", root))
        self.assertEqual(os.listdir(os.path.join(root, "tmp")), [])

    def descriptors(self, task):
        return list(open_descriptors(task).values()) if task is not None else []

    def setUp(self):
        super().setUp()
        self.environment["HEAPCTL_LOG"] = "stderr"
        self.begun = time.monotonic()


class RemovedPreloaded(Removed, HostCase):
    kind = "plain"

    def test_a_folder_that_could_not_be_made_at_the_start_is_made_for_a_client(self):
        """The agent does not try at intervals; a client that finds no socket has it try."""
        parent = os.path.join(self.folder, "parent")
        self.agents = self.environment["HEAPCTL_DIR"] = os.path.join(parent, "agents")
        begun = time.monotonic()
        server = self.host(self.kind)
        wait_until(lambda: time.monotonic() - begun > 6, "the young process's looks")
        self.assertIn(f"no folder {parent}", self.heapctl("doctor", server.pid, code=1)[0].replace("\n         ", " "))
        os.mkdir(parent)
        self.assertEqual(json.loads(self.heapctl("status", server.pid, "--json")[0])["pid"], server.pid)
        # It loses the folder, and gets one that it may not use.
        shutil.rmtree(self.agents)
        os.mkdir(self.agents)
        os.chmod(self.agents, 0o755)
        self.assertIn("is open to other users", self.heapctl("doctor", server.pid, code=1)[0].replace("\n         ", " "))
        os.chmod(self.agents, 0o700)
        self.assertIn("the agent answers", self.heapctl("doctor", server.pid)[0])
        self.assertEqual(server("pid"), str(server.pid))


class RemovedLinked(Removed, HostCase):
    kind = "fake"

    @only_root
    def test_mounts_elsewhere_wake_it_rarely(self):
        server, parent, folder = self.start_in_mounts_of_its_own()
        self.assert_is_reachable(server, folder)
        wait_until(lambda: time.monotonic() - self.begun > 6, "the young process's looks")
        task = agent_thread(server.pid)
        place = os.path.join(self.folder, "elsewhere")
        os.mkdir(place)

        def is_left_alone():
            begun, before = time.monotonic(), voluntary_switches(task)
            self.in_its_mounts(server, "sh", "-c", f"for i in $(seq 200); do mount -t tmpfs none {place} && umount {place}; done")
            # The kernel's own waits, for memory or a lock, count as well.
            return voluntary_switches(task) - before < 20 + 4 * (time.monotonic() - begun)
        wait_until(is_left_alone, "an agent that sleeps on")

    @only_root
    def test_a_program_with_a_loop_of_its_own_notices_what_is_mounted(self):
        server, _, folder = self.start_in_mounts_of_its_own(flags=NO_THREAD)
        server("loop", 6000)
        self.in_its_mounts(server, "mount", "-t", "tmpfs", "-o", "mode=700", "none", folder)
        with server.looping():
            self.assert_is_reachable(server, folder)


if __name__ == "__main__":
    unittest.main()
