#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One HEAPCTL_DIR for processes of several pid namespaces, as containers with a common volume have it; and what dead ones leave there."""
import json
import os
import signal
import socket
import unittest

from agent_host import HostCase, only_root
from processes import ask, children_of, is_alive, need_namespace, wait_until


@only_root
class SharedFolder(HostCase):
    kind = "fake"

    def container(self, **settings):
        """A host that is pid 1 of a pid namespace of its own; host.pid is what the others call it."""
        need_namespace("--pid")
        host = self.host(self.kind, wrap=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"], env=settings)
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
        listed = {entry["pid"]: entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        self.assertEqual([os.path.basename(listed[host.pid]["socket"]) for host in (first, second)], ["1.sock", self.second_name(second)])
        self.assertIn("another pid namespace", self.log_of(second))

    def test_a_dead_ones_name_is_taken_over(self):
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
    def bind(self, pid):
        """A socket that never came to listen."""
        os.makedirs(self.agents, mode=0o700, exist_ok=True)
        path = os.path.join(self.agents, f".{pid}.0123456789abcdef")
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

    def test_ps_removes_it_when_it_is_old(self):
        path = self.bind(self.dead_pid())
        self.heapctl("ps")
        self.assertTrue(os.path.exists(path))
        wait_until(lambda: self.heapctl("ps") and not os.path.exists(path), "it to be old enough")


if __name__ == "__main__":
    unittest.main()
