#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent's socket: every path of docs/protocol.md, several clients, and clients that behave badly."""
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

from agent_host import HostCase, only_root, receive_all, unread_bytes, voluntary_switches
from processes import UnixConnection, agent_thread, ask, wait_until


STATUS = b"GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n"


class Paths(HostCase):
    def setUp(self):
        super().setUp()
        self.server = self.host()
        self.path = self.wait_for_agent(self.server.pid)

    def ask(self, target, method="GET"):
        return ask(self.path, target, method)

    def test_status_names_the_process(self):
        status, body = self.ask("/v1/status")
        self.assertEqual(status, 200)
        self.assertEqual(body["pid"], self.server.pid)
        self.assertEqual(body["name"], "agent_host_fake")
        self.assertEqual(body["uid"], os.geteuid())
        self.assertEqual(body["protocol"], 1)
        self.assertTrue(body["profiling"]["available"])
        self.assertEqual(body["keep"]["folder"], self.agents)

    def test_the_socket_and_its_folder_are_private(self):
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(self.agents).st_mode & 0o777, 0o700)
        self.assertEqual(os.listdir(self.agents), [os.path.basename(self.path)])

    def test_a_folder_whose_path_is_longer_than_an_address(self):
        deep = os.path.join(self.folder, "d" * 100, "e" * 60)
        os.makedirs(deep, 0o700)
        server = self.host(env={"HEAPCTL_DIR": deep})
        wait_until(lambda: self.sockets(deep) == [f"{server.pid}.sock"], "the socket")
        folder = os.open(deep, os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, folder)
        self.assertEqual(ask(f"/proc/self/fd/{folder}/{server.pid}.sock", "/v1/status")[0], 200)

    def test_a_folder_that_is_not_private_is_refused(self):
        os.mkdir(self.folder + "/open", 0o755)
        os.symlink(self.agents, self.folder + "/link")
        server = self.host(env={"HEAPCTL_DIR": self.folder + "/open"}, start=False)
        self.assertIn("a folder of its own, such as", server.refuses("start", 0))
        server = self.host(env={"HEAPCTL_DIR": self.folder + "/link"}, start=False)
        server.refuses("start", 0)

    def test_activate_and_deactivate(self):
        self.assertEqual(self.ask("/v1/activate", "POST"), (200, {"active": True, "was_active": False}))
        self.assertEqual(self.server("is-active"), "1")
        self.assertEqual(self.ask("/v1/deactivate", "POST"), (200, {"active": False, "was_active": True}))

    def test_a_get_changes_nothing(self):
        for path in ("activate", "deactivate", "reset", "runs/stop", "runs/1/remove"):
            self.assertIn(self.ask("/v1/" + path)[0], (400, 404, 405), path)
        self.assertEqual(self.server("is-active"), "0")

    def test_profile_and_statistics(self):
        status, profile = self.ask("/v1/profile")
        self.assertEqual(status, 200)
        self.assertTrue(profile.startswith(b"heap_v2/"))
        self.assertEqual(self.ask("/v1/stats")[1], {"jemalloc": {}})
        self.assertEqual(self.ask("/v1/status")[1]["last_dump"]["bytes"], len(profile))

    def test_a_run_ends_by_itself_without_a_client(self):
        status, run = self.ask("/v1/runs?duration_ms=1000", "POST")
        self.assertEqual((status, run["state"]), (201, "running"))
        self.assertEqual(self.server("is-active"), "1")
        wait_until(lambda: self.server("is-active") == "0", "the end of the run")
        runs = self.ask("/v1/runs")[1]["runs"]
        self.assertEqual([(r["id"], r["state"], r["ended_by"]) for r in runs], [(run["id"], "finished", "deadline")])
        # The clock may be adjusted by up to 500 ppm; times are whole milliseconds.
        self.assertGreaterEqual(runs[0]["ended_ms"] - runs[0]["started_ms"], 998)
        for which in ("profile", "start"):
            self.assertTrue(self.ask(f"/v1/runs/{run['id']}/{which}")[1].startswith(b"heap_v2/"))

    def test_a_second_start_answers_with_the_first_run(self):
        first = self.ask("/v1/runs?duration_ms=60000", "POST")[1]
        status, second = self.ask("/v1/runs?duration_ms=1000", "POST")
        self.assertEqual((status, second["id"], second["already_running"]), (200, first["id"], True))
        status, stopped = self.ask("/v1/runs/stop", "POST")
        self.assertEqual((status, stopped["ended_by"]), (200, "stop"))
        self.assertEqual(self.ask("/v1/runs/stop", "POST")[0], 409)

    def test_finished_runs_are_kept_up_to_a_number(self):
        server = self.host(env={"HEAPCTL_KEEP": "2"})
        path = self.wait_for_agent(server.pid)
        ids = []
        for _ in range(3):
            ids.append(ask(path, "/v1/runs", "POST")[1]["id"])
            ask(path, "/v1/runs/stop", "POST")
        self.assertEqual(sorted(set(ids)), ids)
        self.assertEqual([run["id"] for run in ask(path, "/v1/runs")[1]["runs"]], ids[1:])
        kept = [name for name in os.listdir(self.agents) if f".{server.pid}." in name]
        self.assertEqual(len(kept), 6, kept)

    def test_a_setting_that_cannot_be_read_is_a_warning(self):
        server = self.host(env={"HEAPCTL_KEEP": "some"})
        warnings = ask(self.wait_for_agent(server.pid), "/v1/status")[1]["warnings"]
        self.assertIn(("settings", "HEAPCTL_KEEP: invalid value 'some'", "the default is used instead"),
                      [(warning["code"], warning["message"], warning["hint"]) for warning in warnings])

    def test_an_error_says_what_and_why(self):
        status, body = self.ask("/v1/runs?duration=5mins", "POST")
        self.assertEqual((status, body["error"]["code"]), (400, "usage"))
        self.assertIn("duration", body["error"]["message"])

    def test_curl_speaks_to_it(self):
        output = subprocess.run(["curl", "-sS", "--unix-socket", self.path, "-d", "duration_ms=60000", "http://agent/v1/runs"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(json.loads(output.stdout)["duration_ms"], 60000, output)

    def test_one_connection_carries_many_requests(self):
        connection = UnixConnection(self.path)
        for _ in range(5):
            connection.request("GET", "/v1/profile")
            answer = connection.getresponse()
            self.assertEqual(answer.getheader("Heapctl-Protocol"), "1")
            self.assertEqual(len(answer.read()), int(answer.getheader("Content-Length")))
        connection.close()

    def test_head_has_no_body(self):
        connection = UnixConnection(self.path)
        connection.request("HEAD", "/v1/status")
        answer = connection.getresponse()
        self.assertGreater(int(answer.getheader("Content-Length")), 500)
        self.assertEqual(answer.read(), b"")
        connection.request("GET", "/v1/stats")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()


class BadClients(HostCase):
    def setUp(self):
        super().setUp()
        self.server = self.host()
        self.path = self.wait_for_agent(self.server.pid)

    def assert_answers(self):
        # An agent that waits for a client that takes nothing does so for 30 s.
        self.assertEqual(ask(self.path, "/v1/status", timeout=25)[0], 200)

    def test_half_a_request_delays_no_client_and_is_cut_off(self):
        def is_answered_before_they_are_cut_off():
            slow = [self.raw(self.path, STATUS[:20]) for _ in range(3)]
            self.assert_answers()
            cut_off = select.select(slow, [], [], 0)[0]
            self.assertIn(b"HTTP/1.1 408", receive_all(slow[0]))
            return not cut_off
        # An agent that waits for the slow ones answers after that, each time; one that stood still for seconds on a busy machine, once.
        wait_until(is_answered_before_they_are_cut_off, "an answer beside three slow clients")

    def test_a_client_that_reads_nothing_delays_no_client(self):
        self.server("dump-size", 20000000)

        slow = [self.raw(self.path, b"GET /v1/profile HTTP/1.1\r\n\r\n") for _ in range(3)]
        self.assert_answers()
        for client in slow:
            client.recv(1)
        self.assert_answers()

    def test_a_slow_reader_gets_all_of_it(self):
        self.server("dump-size", 3000000)
        client = self.raw(self.path, b"GET /v1/profile HTTP/1.1\r\nConnection: close\r\n\r\n")
        head, _, start = receive_all(client).partition(b"\r\n\r\n")
        size = 3000000 + len("#sampling jemalloc\n")
        self.assertIn(f"Content-Length: {size}\r\n".encode(), head + b"\r\n")
        self.assertEqual(len(start), size)

    def test_a_half_closed_client_is_answered(self):
        client = self.raw(self.path, STATUS)
        client.shutdown(socket.SHUT_WR)
        self.assertIn(b"200 OK", receive_all(client))

    def test_clients_that_leave_in_the_middle_do_no_harm(self):
        self.server("dump-size", 5000000)
        for data in (b"", b"GET", STATUS, b"GET /v1/profile HTTP/1.1\r\n\r\n"):
            for _ in range(5):
                self.raw(self.path, data).close()
        self.assert_answers()
        self.assertEqual(self.server("signals"), "0")

    def test_a_client_killed_while_its_profile_is_taken(self):
        self.server("dump-delay", 24 * 3600 * 1000)
        client = subprocess.Popen([sys.executable, "-c", f"""
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect({self.path!r})
s.sendall(b"GET /v1/profile HTTP/1.1\\r\\n\\r\\n"); print("sent", flush=True); s.recv(100000000)"""], stdout=subprocess.PIPE)
        client.stdout.readline()
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
        self.server("dump-delay", 0)
        self.assertEqual(ask(self.path, "/v1/profile")[0], 200)

    def test_two_profiles_at_once(self):
        self.server("dump-delay", 300)
        clients = [self.raw(self.path, b"GET /v1/profile HTTP/1.1\r\nConnection: close\r\n\r\n") for _ in range(2)]
        for client in clients:
            self.assertIn(b"heap_v2/", receive_all(client))

    def test_the_program_works_while_a_profile_is_taken(self):
        self.server("dump-delay", 24 * 3600 * 1000)
        client = self.raw(self.path, b"GET /v1/profile HTTP/1.1\r\nConnection: close\r\n\r\n")
        wait_until(lambda: unread_bytes(client) == 0, "the agent to read the request")
        self.server("pid")
        self.assertEqual(select.select([client], [], [], 0)[0], [], "the profile came first")
        self.server("dump-delay", 0)
        self.assertIn(b"heap_v2/", receive_all(client))

    def test_eight_clients_are_served_side_by_side(self):
        clients = [UnixConnection(self.path) for _ in range(8)]
        for _ in range(2):
            for client in clients:
                client.request("GET", "/v1/runs")
            self.assertEqual([client.getresponse().read() for client in clients], [b'{"runs":[]}\n'] * 8)
        with self.raw(self.path) as ninth:
            self.assertIn(b" 503 ", ninth.recv(200))
        for client in clients:
            client.close()

    def test_too_many_connections_are_refused(self):
        clients = [self.raw(self.path) for _ in range(60)]
        refused = set()

        def are_refused():
            for client in select.select([client for client in clients if client not in refused], [], [], 0)[0]:
                try:
                    if b"503" in client.recv(200):
                        refused.add(client)
                except ConnectionResetError:
                    pass
            return len(refused) >= 40
        wait_until(are_refused, "40 of 60 clients to be refused")
        for client in clients:
            client.close()
        wait_until(lambda: ask(self.path, "/v1/status")[0] == 200, "an answer after the flood")

    def test_a_flood_of_bytes_is_bounded(self):
        client = self.raw(self.path)
        with self.assertRaises(OSError):
            for _ in range(1000):
                client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 100000)
        self.assert_answers()

    def test_malformed_requests_are_answered(self):
        for data, status in ((b"\x00\x01\x02\r\n\r\n", b"400"), (b"GET / HTTP/3.0\r\n\r\n", b"505"),
                             (b"POST /v1/runs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"501"),
                             (b"POST /v1/runs HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", b"413"),
                             (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, b"431")):
            self.assertTrue(receive_all(self.raw(self.path, data)).startswith(b"HTTP/1.1 " + status), status)

    def test_an_idle_agent_is_not_woken(self):
        self.hide_from_others()
        server = self.host()
        server("hide")
        wait_until(lambda: agent_thread(server.pid), "the agent's thread")

        def sleeps_on():
            before = voluntary_switches(agent_thread(server.pid))
            time.sleep(3)
            return voluntary_switches(agent_thread(server.pid)) == before
        # The checks of a young process end after 5 s.
        wait_until(sleeps_on, "three seconds without waking up")

    @only_root
    def test_another_user_is_refused(self):
        os.chmod(self.agents, 0o755)
        os.chmod(self.path, 0o666)
        script = f"""
import socket
s = socket.socket(socket.AF_UNIX); s.connect({self.path!r}); print(s.makefile().read())"""
        result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script],
                                capture_output=True, text=True, timeout=60)
        self.assertIn("HTTP/1.1 403", result.stdout, result.stderr)
        self.assertIn('"denied"', result.stdout)


if __name__ == "__main__":
    unittest.main()
