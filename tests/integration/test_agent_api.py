#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl.h: what a program can call, with a thread, without one, and without a socket."""
import os
import time
import unittest

from agent_host import NO_SOCKET, NO_THREAD, NOT_IN_CHILDREN, PROFILING, SANITIZED, HostCase, receive_all, unread_bytes
from processes import agent_thread, ask, is_alive, open_descriptors, wait_until


class Calls:
    def test_profile_statistics_status(self):
        server = self.host(self.kind)
        path = os.path.join(self.folder, "profile.heap")
        server("dump", path)
        with open(path, "rb") as profile:
            self.assertTrue(profile.read().startswith(b"heap_v2/"))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertGreater(int(server("stats")), 10)
        allocator, available, active, running, lg_sample, last_bytes = server("status").split()
        self.assertEqual((allocator, available, active, running, lg_sample), ("jemalloc", "1", "0", "0", "19"))
        self.assertEqual(int(last_bytes), os.path.getsize(path))

    def test_a_file_that_cannot_be_written_says_why(self):
        server = self.host(self.kind)
        self.assertIn("No such file", server.refuses("dump", "/nonexistent/profile"))
        self.assertIn("No space left", server.refuses("dump", "/dev/full"))
        self.assertIn("Broken pipe", server.refuses("dump-to-closed-pipe"))
        # Nothing of that reached the program as a signal.
        self.assertEqual(server("signals"), "0")

    def test_calls_and_socket_are_the_same_agent(self):
        server = self.host(self.kind)
        path = self.wait_for_agent(server.pid)
        server("activate")
        self.assertEqual(ask(path, "/v1/status")[1]["profiling"]["activated_by"], "heapctl")
        self.assertIn("error -5", server.refuses("run-start", 2000))
        server("deactivate")
        run = int(server("run-start", 60000).split()[0])
        self.assertEqual(ask(path, "/v1/status")[1]["run"]["id"], run)
        self.assertEqual(server("run-start", 5000).split()[:3], [str(run), "1", "1"])
        self.assertIn("stop the run", server.refuses("deactivate"))
        self.assertEqual(ask(path, "/v1/runs/stop", "POST")[1]["id"], run)
        self.assertEqual(server("run-get").split()[:2], [str(run), "2"])

    def test_a_run_started_by_a_call_ends_on_time(self):
        server = self.host(self.kind)
        server("run-start", 1000)
        wait_until(lambda: server("status").split()[3] == "0", "the run's end")
        self.assertEqual(server("run-get").split()[1], "2")
        self.assertIn("error -3", server.refuses("run-start", 10))

    def test_a_run_says_where_it_ran_and_how_it_ended(self):
        server = self.host(self.kind)
        self.assertEqual(server("run-start", 60000).split()[4:], [str(server.pid), "0"])
        self.assertEqual(server("run-stop").split()[4:], [str(server.pid), "2"])
        server("run-start", 1000)
        wait_until(lambda: server("status").split()[3] == "0", "the run's end")
        self.assertEqual(server("run-get").split()[4:], [str(server.pid), "1"])
        self.assertEqual(server("run-get-as-before").split()[:2], server("run-get").split()[:2])

    def test_both_profiles_of_a_run_are_written_to_a_descriptor(self):
        server = self.host(self.kind)
        path = os.path.join(self.folder, "run.heap")
        self.assertIn("there is no run", server.refuses("run-dump", path))
        server("run-start", 60000)
        server("run-stop")
        for order in ("run-dump", "run-dump-start"):
            server(order, path)
            with open(path, "rb") as profile:
                self.assertTrue(profile.read().startswith(b"heap_v2/"), order)

    def test_a_reset_changes_the_interval(self):
        server = self.host(self.kind)
        server("reset", 14)
        self.assertEqual(server("status").split()[4], "14")

    def test_requests_without_a_socket(self):
        server = self.host(self.kind, flags=NO_SOCKET)
        self.assertEqual(self.sockets(), [])
        self.assertTrue(server("handle", "GET", "/v1/status").startswith("200 application/json"))
        self.assertIn("heap_v2/", server("handle", "GET", "/v1/profile"))
        self.assertTrue(server("handle", "POST", "/v1/runs?duration_ms=5000").startswith("201 "))
        self.assertTrue(server("handle", "GET", "/v1/nothing").startswith("404 "))
        self.assertIn("too long", server.refuses("handle", "GET", "/" + "x" * 3000))

    def test_a_socket_that_was_not_requested_is_not_reported(self):
        os.mkdir(self.agents, 0o755)
        with open(os.path.join(self.folder, "said"), "w+") as said:
            server = self.host(self.kind, flags=NO_SOCKET, env={"HEAPCTL_LOG": "stderr"}, stderr=said)
            server("run-start", 1000)
            wait_until(lambda: server("status").split()[3] == "0", "the run's end")
            said.seek(0)
            text = said.read()
        self.assertIn("runs stay in memory", text)
        self.assertIn("a folder of its own, such as", text)
        self.assertNotIn("no socket", text)

    def test_stop_and_start_again(self):
        server = self.host(self.kind)
        self.assertIn("started already", server.refuses("start", 0))
        for _ in range(3):
            server("stop")
            self.assertEqual(self.sockets(), [])
            # The client has disconnected; the kernel may still be closing its socket.
            wait_until(lambda: agent_thread(server.pid) is None, "the thread to be gone")
            self.assertIn("heapctl_start", server.refuses("activate"))
            server("start", 0)
            self.wait_for_agent(server.pid)

    def test_each_refused_start_says_what_to_do(self):
        for env, flags, reason in (({"HEAPCTL_DISABLE": "1"}, 0, "HEAPCTL_DISABLE is set (start the program without it)"),
                                   ({}, 1 << 20, "unknown flags 0x100000 (use the library of the heapctl.h"),
                                   ({"HEAPCTL_DIR": "relative"}, 0, "is not an absolute path (begin it with /)")):
            self.assertIn(reason, self.host(self.kind, start=False, env=env).refuses("start", flags))
        server = self.host(self.kind)
        self.assertIn("started already (call heapctl_stop before", server.refuses("start", 0))

    def test_stop_ends_a_run(self):
        server = self.host(self.kind)
        run = int(server("run-start", 60000).split()[0])
        server("stop")
        server("start", 0)
        self.assertEqual(server("status").split()[2:4], ["0", "0"])
        # Its files are those of an earlier agent of this process.
        self.assertEqual(server("run-get").split()[:2], [str(run), "2"])

    def test_forks_while_another_thread_starts_and_stops_it(self):
        if SANITIZED:
            self.skipTest("the sanitizers' own allocators leave their locks held in a child of a program that is just starting threads")
        server = self.host(self.kind)
        server("forks-while-starting", 100)

    def test_calls_while_another_thread_starts_and_stops_it(self):
        server = self.host(self.kind)
        server("calls-while-starting", 3000)

    def test_children_without_an_agent(self):
        server = self.host(self.kind, flags=NOT_IN_CHILDREN)
        self.wait_for_agent(server.pid)
        pid = int(server("fork"))
        self.end_child_later(pid)
        self.let_young_processes_look(self.kind)
        self.assertTrue(is_alive(pid))
        self.assertIsNone(agent_thread(pid))
        self.assertNotIn(f"{pid}.sock", self.sockets())


class Embedded:
    """A program that drives the agent from its own loop, without a thread of the agent."""

    def test_the_loop_serves_clients(self):
        server = self.host(self.kind, flags=NO_THREAD)
        self.assertIsNone(agent_thread(server.pid))
        client = self.raw(server.socket, b"GET /v1/profile HTTP/1.1\r\nConnection: close\r\n\r\n")
        with server.looping():
            self.assertIn(b"heap_v2/", receive_all(client))
            self.assertEqual(ask(server.socket, "/v1/status")[0], 200)
            self.assertEqual(ask(server.socket, "/v1/activate", "POST")[0], 200)
        self.assertGreater(server.turns, 3)

    def test_the_loop_ends_runs(self):
        self.hide_from_others()
        server = self.host(self.kind, flags=NO_THREAD)
        server("hide")
        server("fd")
        server("run-start", 1000)
        turns = 0

        def is_over():
            nonlocal turns
            turns += int(server("loop", 300))
            return server("run-get").split()[1] == "2"
        wait_until(is_over, "the end of the run")
        # One that spins has thousands. Mounts of other processes may add a few.
        self.assertLess(turns, 100)

    def test_a_run_that_begins_does_not_outlast_the_patience_with_a_client(self):
        self.hide_from_others()
        server = self.host(self.kind, flags=NO_THREAD)
        server("hide")
        client = self.raw(server.socket, b"GET /v1/sta")
        with server.looping():
            wait_until(lambda: unread_bytes(client) == 0, "the client to be known")
        server("run-start", 3600000)
        with server.looping():
            self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 408"))

    def test_an_idle_loop_is_not_woken(self):
        self.hide_from_others()
        server = self.host(self.kind, flags=NO_THREAD)
        server("hide")
        server("loop", 6000)
        # Unless other processes mount something just then.
        wait_until(lambda: server("loop", 1500) == "0", "a loop that sleeps on")

    def test_a_client_that_disconnects_kills_no_program(self):
        server = self.host(self.kind, flags=NO_THREAD)
        if self.kind == "fake":
            server("dump-size", 5000000)
        for data in (b"GET /v1/profile HTTP/1.1\r\n\r\n", b"GET /v1/", b""):
            with server.looping():
                client = self.raw(server.socket, data)
                # The answer, which fills the socket, is on its way.
                wait_until(lambda: unread_bytes(client) == 0, "the request to be read")
                if data.endswith(b"\r\n\r\n"):
                    self.assertEqual(len(client.recv(1)), 1)
                client.close()
                # Only an agent that has noticed the end of the first serves a second one, and survives it.
                self.assertEqual(ask(server.socket, "/v1/status")[0], 200)
        self.assertEqual(server("signals"), "0")
        self.assertEqual(server("pid"), str(server.pid))

    def test_descriptors_that_became_the_programs_are_left_alone(self):
        """After closefrom() the numbers of the agent's epoll and timer are timers of the program."""
        server = self.host(self.kind, flags=NO_THREAD)
        own = int(server("fd"))
        first, last = own - 8, own + 8
        server("closefrom", 3)
        server("occupy-with-timers", first, last)
        child = int(server("fork"))
        self.end_child_later(child)
        server("process")
        # The call sets the agent's timer to another time.
        server("run-start", 60000)
        server("run-stop")
        server("process")
        self.assertEqual(server("timers", first, last), str(last - first + 1))
        kinds = [os.readlink(f"/proc/{child}/fd/{number}") for number in range(first, last + 1)]
        self.assertEqual(kinds, ["anon_inode:[timerfd]"] * len(kinds))
        # The program gets the descriptor again, and everything works.
        again = int(server("fd"))
        self.assertFalse(first <= again <= last)
        server.send("loop", 3000)
        self.assertEqual(ask(server.socket, "/v1/status")[0], 200)
        server.read()
        server("stop")
        self.assertEqual(server("timers", first, last), str(last - first + 1))

    def test_a_program_that_closes_only_the_timer_is_served(self):
        server = self.host(self.kind, flags=NO_THREAD)
        own = int(server("fd"))
        timers = [number for number, target in open_descriptors(f"/proc/{server.pid}").items() if target == "anon_inode:[timerfd]"]
        self.assertEqual(len(timers), 1)
        server("occupy-with-timers", timers[0], timers[0])
        server("run-start", 60000)
        server("process")
        self.assertEqual(server("timers", timers[0], timers[0]), "1")
        self.assertGreater(int(server("fd")), 2)
        server.send("loop", 3000)
        self.assertEqual(ask(server.socket, "/v1/status")[0], 200)
        server.read()
        server("stop")
        self.assertEqual(server("timers", timers[0], timers[0]), "1")
        self.assertNotEqual(own, timers[0])

    def test_edge_triggered_polling_is_enough(self):
        """An event loop that watches the descriptor with EPOLLET misses nothing."""
        server = self.host(self.kind, flags=NO_THREAD)
        clients = [self.raw(server.socket, b"GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n") for _ in range(4)]
        server.send("loop-on-edges", 3000)
        self.assertEqual(ask(server.socket, "/v1/runs?duration_ms=1000", "POST")[0], 201)
        for client in clients:
            self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 200"))
        server.read()
        # The timer, too.
        self.assertEqual(server("run-get").split()[1], "2")

    def test_a_child_drives_its_own(self):
        server = self.host(self.kind, flags=NO_THREAD)
        server("loop", 50)
        pid = int(server("daemon"))
        self.end_child_later(pid)
        with server.looping():
            wait_until(lambda: f"{pid}.sock" in self.sockets(), "the daemon's socket")
            self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[1]["pid"], pid)


class FakeCalls(Calls, HostCase):
    kind = "fake"


class FakeEmbedded(Embedded, HostCase):
    kind = "fake"


class RealCalls(Calls, HostCase):
    kind = "linked"

    def test_the_programs_configuration_is_checked(self):
        self.assertNotIn("lg-sample-low", self.host(self.kind)("warnings").split())
        self.assertIn("lg-sample-low", self.host(self.kind, conf=f"{PROFILING},lg_prof_sample:5")("warnings").split())


class RealEmbedded(Embedded, HostCase):
    kind = "linked"


@unittest.skipIf(SANITIZED, "a preloaded library and a sanitizer exclude each other")
class PreloadedAndLinked(HostCase):
    def test_the_program_takes_the_preloaded_agent_over(self):
        server = self.host("linked", start=False, env={"LD_PRELOAD": str(self.agent_path())})
        self.wait_for_agent(server.pid)
        server("start", 0)
        self.wait_for_agent(server.pid)
        self.assertEqual(self.sockets(), [f"{server.pid}.sock"])
        server("activate")
        self.assertTrue(ask(server.socket, "/v1/status")[1]["profiling"]["active"])
        server("stop")
        self.assertEqual(self.sockets(), [])

    def test_the_program_chooses_the_folder_and_how_many_runs_are_kept(self):
        server = self.host("linked", start=False)
        folder = os.path.join(self.folder, "own")
        server("start-in", folder)
        path = os.path.join(folder, f"{server.pid}.sock")
        wait_until(lambda: os.path.exists(path), "the socket")
        self.assertEqual(self.sockets(), [])
        for _ in range(2):
            run = int(server("run-start", 60000).split()[0])
            server("run-stop")
        self.assertEqual([kept["id"] for kept in ask(path, "/v1/runs")[1]["runs"]], [run])

    def test_it_is_taken_over_once(self):
        for settings in ({}, {"HEAPCTL_THREAD": "on-demand"}):
            server = self.host("linked", start=False, env={"LD_PRELOAD": str(self.agent_path()), **settings})
            server("start", 0)
            for _ in range(3):
                self.assertIn("error -5 the agent is started already", server.refuses("start", 0))
            server("activate")
            server("stop")
            server("start", 0)
            self.assertIn("started already", server.refuses("start", 0))

    def test_a_start_that_fails_leaves_no_agent_behind(self):
        os.mkdir(self.agents, 0o755)
        server = self.host("linked", start=False, env={"LD_PRELOAD": str(self.agent_path())})
        for _ in range(2):
            self.assertIn("a folder of its own, such as", server.refuses("start", 0))
            self.assertIn("error -5", server.refuses("activate"))
        os.chmod(self.agents, 0o700)
        server("start", 0)
        server("activate")

    def agent_path(self):
        from processes import AGENT
        return AGENT


if __name__ == "__main__":
    unittest.main()
