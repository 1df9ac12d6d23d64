# SPDX-License-Identifier: Apache-2.0
"""heapctl serve and watch among agents of other users, that have any name and answer anything."""
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import unittest

from gateway import GatewayCase
from hostile_agent import PYTHON, HostileCase
from processes import HEAPCTL, PATIENCE_SECONDS, SANITIZED, free_port, own_name, wait_until

SERVER, STRANGER = 65002, 65001
NAME = own_name("own")


def resident_peak(pid):
    """Bytes."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) * 1024


def anonymous_bytes(pid):
    """Resident now, without mapped files."""
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) * 1024


class HostileGatewayCase(GatewayCase, HostileCase):
    def setUp(self):
        super().setUp()
        self.log = os.path.join(self.folder, "gateway.log")
        self.history = os.path.join(self.folder, "history")

    def serve(self, *arguments, env=None):
        with open(self.log, "ab") as log:
            return self.start_gateway(*arguments, env=env, stderr=log)

    def said(self):
        return pathlib.Path(self.log).read_text()

    def wait_for_log(self, pattern):
        return wait_until(lambda: re.search(pattern, self.said()), f"/{pattern}/ in the log")

    def pid_of(self, name, path="/v1/status"):
        return self.expect(self.get(f"/targets/{name}{path}"), 200).json["pid"]

    def snapshots(self, name):
        return self.expect(self.get(f"/targets/{name}/api/v1/timeline"), 200).json["snapshots"]

    def end_now(self, process):
        process.kill()
        process.wait()


@unittest.skipUnless(os.getuid() == 0, "processes of several users take root")
class Names(HostileGatewayCase):
    def test_a_name_belongs_to_its_first_user(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        self.serve("--history", self.history, "--history-every", "1s")
        self.assertEqual(self.pid_of(NAME), server.pid)
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        wait_until(lambda: self.get(f"/targets/{stranger.pid}/v1/status").status == 200, "the stranger to be seen")
        self.assertEqual(self.pid_of(NAME), server.pid)
        self.assertEqual(self.pid_of(f"{NAME}@{STRANGER}"), stranger.pid)
        self.assertEqual(self.pid_of(f"{NAME}@{SERVER}"), server.pid)
        # Its history is that of another process.
        wait_until(lambda: self.snapshots(f"{NAME}@{STRANGER}"), "a snapshot of the stranger")
        self.assertEqual({snapshot["pid"] for snapshot in self.snapshots(NAME)}, {server.pid})
        self.assertEqual({snapshot["pid"] for snapshot in self.snapshots(f"{NAME}@{STRANGER}")}, {stranger.pid})
        # Also while the server is away, and after it came back.
        self.end_now(server)
        wait_until(lambda: self.get(f"/targets/{NAME}/v1/status").status == 404, "the name to be vacant")
        again = self.start_hostile(NAME, "honest", SERVER)
        wait_until(lambda: self.get(f"/targets/{NAME}/v1/status").status == 200, "the server to be back")
        self.assertEqual(self.pid_of(NAME), again.pid)

    def test_the_history_remembers_the_user_of_a_name(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        gateway = self.serve("--history", self.history, "--history-every", "1s")
        wait_until(lambda: self.snapshots(NAME), "a snapshot")
        self.end(gateway)
        self.end_now(server)
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        self.serve("--history", self.history, "--history-every", "1s")
        wait_until(lambda: self.get(f"/targets/{NAME}@{STRANGER}/v1/status").status == 200, "the stranger to be seen")
        self.expect(self.get(f"/targets/{NAME}/v1/status"), 404)
        self.assertEqual({snapshot["pid"] for snapshot in self.snapshots(NAME)}, {server.pid})
        self.assertNotEqual(stranger.pid, server.pid)

    def test_a_named_target_is_of_one_user(self):
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        self.serve(f"{NAME}@{SERVER}")
        self.expect(self.get("/v1/status"), 404)
        server = self.start_hostile(NAME, "honest", SERVER)
        wait_until(lambda: self.get("/v1/status").status == 200, "the server to be seen")
        self.assertEqual(self.get("/v1/status").json["pid"], server.pid)
        self.assertEqual(self.pid_of(NAME), server.pid)
        self.expect(self.get(f"/targets/{stranger.pid}/v1/status"), 404)
        listed = [target["pid"] for target in self.get("/targets").json["targets"]]
        self.assertEqual(listed, [server.pid])

    def test_a_name_is_not_anothers_while_a_process_of_its_own_user_has_it(self):
        """Which may have no agent that can be reached."""
        program = shutil.copy(os.path.realpath("/bin/sleep"), os.path.join(self.folder, NAME))
        own = self.start(program, "1000")
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        self.serve(NAME)
        wait_until(lambda: f"[{own.pid}]" in self.get("/targets").text, "the process to be seen")
        self.assertNotEqual(self.get(f"/targets/{NAME}/v1/status").status, 200)
        keep = os.path.join(self.folder, "captures")
        with open(os.path.join(self.folder, "watch.log"), "w+", encoding="utf-8") as log:
            self.start(HEAPCTL, "watch", NAME, "--when", "every=1s", "--interval", "50ms", "--keep", keep, stderr=log, stdout=subprocess.DEVNULL)
            said = wait_until(lambda: pathlib.Path(log.name).read_text(), "the watch to say what it has found")
        self.assertIn(f"[{own.pid}]", said)
        self.assertEqual(list(pathlib.Path(keep).glob("*.heap")), [])
        self.end_now(own)
        wait_until(lambda: self.get(f"/targets/{NAME}/v1/status").status == 200, "the name to be another's")

    def test_root_and_users_of_the_system_come_first(self):
        self.start_hostile(NAME, "honest", STRANGER)
        own = self.start_hostile(NAME, "honest", 0)
        self.serve()
        self.assertEqual(self.pid_of(NAME), own.pid)

    def test_names_that_look_like_others_do_not_become_them(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        self.serve()
        self.assertEqual(self.pid_of(NAME), server.pid)
        number = self.start_hostile(str(server.pid), "honest", STRANGER)
        other = self.start_hostile(f"x@{SERVER}", "honest", STRANGER)
        wait_until(lambda: {number.pid, other.pid} <= {target["pid"] for target in self.get("/targets").json["targets"]}, "both to be seen")
        self.assertEqual(self.pid_of(server.pid), server.pid)
        self.expect(self.get(f"/targets/x@{SERVER}/v1/status"), 404)
        self.assertEqual(self.pid_of(f"x@{SERVER}@{STRANGER}"), other.pid)
        self.assertEqual(self.pid_of(f"{server.pid}@{STRANGER}"), number.pid)

    def test_the_command_names_the_owner_of_processes(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        said = self.heapctl("status", NAME, code=2)[1]
        self.assertIn("NAME@USER", said)
        self.assertIn(f"[{server.pid}]", self.heapctl("status", f"{NAME}@{SERVER}")[0])
        self.assertIn(f"[{stranger.pid}]", self.heapctl("status", f"{NAME}@{STRANGER}")[0])
        self.assertIn("no process of user 65003", self.heapctl("status", f"{NAME}@65003", code=1)[1])


@unittest.skipUnless(os.getuid() == 0, "processes of several users take root")
class Watches(HostileGatewayCase):
    def captures(self, folder):
        return sorted(pathlib.Path(folder).glob("*.heap")) if os.path.isdir(folder) else []

    def write_rules(self, text):
        path = os.path.join(self.folder, "watch.conf")
        pathlib.Path(path).write_text(text)
        os.chmod(path, 0o600)
        return path

    def test_a_section_follows_the_user_it_began_with(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        keep = os.path.join(self.folder, "captures")
        rules = self.write_rules(f"[{NAME}]\nwhen = every=1s\ninterval = 50ms\nkeep = {keep}\nthen = /bin/true\n")
        self.serve("--watch-file", rules)
        self.wait_for_log(r"\[.*\] in line 1 runs a command as root for the user whose process has the name first")
        wait_until(lambda: self.captures(keep), "a capture")
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        self.end_now(server)
        wait_until(lambda: self.get(f"/targets/{stranger.pid}/v1/status").status == 200, "the stranger to be seen")
        self.wait_for_log("waiting for it to come back")
        watches = self.get(f"/targets/{NAME}/watch").json["watches"]
        self.assertEqual([watch["pid"] for watch in watches], [None])
        again = self.start_hostile(NAME, "honest", SERVER)
        self.wait_for_log(rf"watching .*\[{again.pid}\]")
        self.assertNotIn(f"watching {NAME}[{stranger.pid}]", self.said())

    def test_user_and_program_in_a_section(self):
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        keep = os.path.join(self.folder, "captures")
        rules = self.write_rules(f"[{NAME}]\nuser = {SERVER}\nprogram = {os.path.realpath(PYTHON)}\nwhen = every=1s\n"
                                 f"interval = 50ms\nkeep = {keep}\n[{NAME}*]\nuser = {SERVER}\nprogram = /bin/other\nwhen = every=1s\n"
                                 f"keep = {keep}2\n")
        self.serve("--watch-file", rules)
        wait_until(lambda: self.get(f"/targets/{stranger.pid}/v1/status").status == 200, "the stranger to be seen")
        server = self.start_hostile(NAME, "honest", SERVER)
        self.wait_for_log(rf"watching .*\[{server.pid}\]")
        wait_until(lambda: self.captures(keep), "a capture")
        self.assertNotIn(f"[{stranger.pid}]", self.said())
        self.assertFalse(os.path.exists(keep + "2"))

    def test_what_is_no_profile_is_not_captured(self):
        self.start_hostile(NAME, "garbage", STRANGER)
        keep = os.path.join(self.folder, "captures")
        rules = self.write_rules(f"[{NAME}]\nwhen = every=1s\ninterval = 50ms\nkeep = {keep}\nthen = /usr/bin/touch {self.folder}/ran\n")
        self.serve("--watch-file", rules)
        self.wait_for_log("is not a profile")
        self.assertEqual(self.captures(keep), [])
        self.assertFalse(os.path.exists(f"{self.folder}/ran"))

    def test_the_command_follows_the_user_it_began_with(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        keep = os.path.join(self.folder, "captures")
        log = open(os.path.join(self.folder, "watch.log"), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        self.start(HEAPCTL, "watch", NAME, "--when", "every=1s", "--interval", "50ms", "--keep", keep, stderr=log, stdout=subprocess.DEVNULL)
        wait_until(lambda: self.captures(keep), "a capture")
        stranger = self.start_hostile(NAME, "honest", STRANGER)
        self.end_now(server)
        said = lambda: pathlib.Path(log.name).read_text()
        wait_until(lambda: re.search("no process of user .* is called", said()), "the watch to miss its target")
        again = self.start_hostile(NAME, "honest", SERVER)
        wait_until(lambda: f"[{again.pid}] is there" in said(), "the watch to find it again")
        self.assertNotIn(f"[{stranger.pid}]", said())


class Answers(HostileGatewayCase):
    def test_a_process_that_executes_another_program_gets_its_name(self):
        first = own_name("own-1")
        process = self.start_hostile(first, "honest")
        self.serve(env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        named = lambda: [target["name"] for target in self.get("/targets").json["targets"] if target["pid"] == process.pid]
        self.assertEqual(named(), [first])
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: named() == [first[:-1] + "2"], "the name of the other program")
        self.assertEqual(self.get(f"/targets/{first}/v1/status").status, 404)

    def test_what_is_no_profile_does_not_enter_the_history(self):
        process = self.start_hostile(NAME, "garbage")
        self.serve(NAME, "--history", self.history, "--history-every", "1s", env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.wait_for_log(r"history: .*not a heap profile: line 1")
        self.assertEqual(self.snapshots(NAME), [])
        self.assertEqual([name for name in os.listdir(self.history) if name.endswith(".zst")], [])

    def test_answers_without_end_do_not_fill_memory(self):
        folder = os.path.dirname(self.start_hostile(NAME, "honest").socket_path)
        names = [own_name("end"), own_name("decl"), own_name("many")]
        for name, kind in zip(names, ("endless", "declared", "values")):
            self.start_hostile(name, kind)
        gateway = self.serve(NAME, *names, "--history", self.history, "--history-every", "1s", env={"HEAPCTL_DIR": folder})
        for name in names[:2]:
            for path in ("/v1/status", "/v1/runs", "/mtev/heap_profile"):
                self.assertIn(self.get(f"/targets/{name}{path}").status, (400, 500, 503), (name, path))
        for path in ("/v1/profile", "/mtev/memory.json"):
            self.assertIn(self.get(f"/targets/{names[1]}{path}").status, (400, 500, 503), path)
        self.expect(self.get("/metrics"), 200)
        reachable = {target["name"]: target["reachable"] for target in self.expect(self.get("/targets"), 200).json["targets"]}
        self.assertEqual(reachable, {NAME: True, names[0]: False, names[1]: False, names[2]: False})
        self.expect(self.get(f"/targets/{NAME}/v1/profile"), 200)
        wait_until(lambda: self.snapshots(NAME), "a snapshot of the honest one")
        self.assertLess(resident_peak(gateway.pid), (1 << 30) if SANITIZED else (256 << 20))
        for kind, why in ((0, "more than 1048576 bytes"), (1, "more than 1048576 bytes"), (2, "more than 16384 values")):
            self.assertIn(why, self.heapctl("status", names[kind], code=1, env={"HEAPCTL_DIR": folder})[1])

    def test_profiles_that_expand_do_not_fill_memory_while_slow_clients_read(self):
        process = self.start_hostile(NAME, "repeated")
        gateway = self.serve(NAME, "--history", self.history, "--history-every", "5mins",
                             env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        wait_until(lambda: self.snapshots(NAME), "a snapshot")
        clients = []
        for number in range(8):
            client = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(client.close)
            # Each has an answer of its own: requests for the same one would share it.
            client.sendall(f"GET /targets/{NAME}/api/v1/snapshot?format=raw&focus={number} HTTP/1.1\r\n"
                           "Host: localhost\r\n\r\n".encode())
            clients.append(client)
        for client in clients:
            client.settimeout(PATIENCE_SECONDS)
            self.assertIn(b" 200 ", client.recv(64))
        self.assertLess(anonymous_bytes(gateway.pid), (1 << 30) if SANITIZED else (200 << 20))

    @unittest.skipUnless(os.getuid() == 0, "processes of several users take root")
    def test_a_target_with_many_snapshots_does_not_displace_others(self):
        server = self.start_hostile(NAME, "honest", SERVER)
        names = [own_name(f"s{n}-") for n in range(2)]
        self.serve(NAME, *names, "--history", self.history, "--history-every", "1s", "--history-bytes", "5MiB")
        wait_until(lambda: len(self.snapshots(NAME)) >= 3, "a past")
        first = self.snapshots(NAME)[0]["id"]
        for name in names:
            self.start_hostile(name, "large", STRANGER)
        newest = lambda: max((snapshot["id"] for name in names for snapshot in self.snapshots(name)), default=0)
        wait_until(lambda: newest() > first + 16, "many of the stranger's snapshots", seconds=4 * PATIENCE_SECONDS)
        kept = sum(os.path.getsize(entry) for entry in os.scandir(self.history) if entry.name.endswith(".zst"))
        self.assertLess(kept, 7 << 20)
        self.assertEqual(self.snapshots(NAME)[0]["id"], first)
        self.assertEqual({snapshot["pid"] for snapshot in self.snapshots(NAME)}, {server.pid})


class Messages(HostileGatewayCase):
    def test_what_an_agent_says_reaches_log_and_answers_as_plain_text(self):
        process = self.start_hostile(NAME, "rude")
        self.serve(NAME, "--history", self.history, env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.wait_for_log(r"history: .*red")
        answers = [self.get(path) for path in ("/v1/profile", "/debug/pprof/heap", "/mtev/memory.json", "/memory-profiler/start")]
        for text in [self.said(), *(answer.text for answer in answers)]:
            self.assertIn("red", text)
            self.assertNotRegex(text, "[\x1b\u202e]|\\\\u001b|(?m:^heapctl: serving)")


class Clients(HostileGatewayCase):
    """540 of them, more than there are connection slots."""

    def request(self, path, method="GET"):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(s.close)
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return s

    def answered(self, sockets):
        return select.select(sockets, [], [], 0)[0]

    def test_requests_that_wait_leave_connections_for_others(self):
        process = self.start_hostile(NAME, "honest")
        gateway = self.serve(NAME, env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        waiting = [self.request("/debug/pprof/heap?seconds=600") for _ in range(540)]
        wait_until(lambda: len(self.answered(waiting)) >= 540 - 64, "those above the limit to be refused")
        for s in self.answered(waiting):
            head = s.recv(4096)
            self.assertIn(b" 503 ", head)
            self.assertIn(b"Retry-After: ", head)
        self.expect(self.get("/v1/status", timeout=20), 200)
        self.expect(self.get("/openapi.json", timeout=20), 200)
        self.expect(self.get("/metrics", timeout=20), 200)
        self.assertIsNone(gateway.poll())

    def test_requests_to_a_hung_target_leave_connections_for_others(self):
        process = self.start_hostile(NAME, "honest")
        hanging = self.start_hostile(own_name("hang"), "hang")
        self.serve(NAME, own_name("hang"), env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.assertEqual(self.pid_of(NAME), process.pid)
        waiting = [self.request(f"/targets/{hanging.pid}/v1/profile") for _ in range(540)]
        wait_until(lambda: len(self.answered(waiting)) >= 540 - 128, "those above the limit to be refused")
        self.assertIn(b" 503 ", self.answered(waiting)[0].recv(4096))
        self.expect(self.get(f"/targets/{NAME}/v1/status", timeout=20), 200)
        self.assertLess(len(self.answered(waiting)), 540)

    def test_renders_and_sums_of_a_hung_target_leave_places_for_others(self):
        process = self.start_hostile(NAME, "honest")
        hanging = self.start_hostile(own_name("hang"), "hang")
        self.serve(NAME, own_name("hang"), env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.assertEqual(self.pid_of(NAME), process.pid)
        for path in (f"{hanging.pid}/debug/pprof/heap", f"{own_name('hang')}/debug/pprof/heap?merge=1"):
            waiting = [self.request(f"/targets/{path}") for _ in range(400)]
            self.wait_until_settled(waiting)
            for other in (f"/targets/{NAME}/v1/status", f"/targets/{NAME}/debug/pprof/heap", "/targets", "/metrics"):
                self.expect(self.get(other, timeout=60), 200)
            self.assertLess(len(self.answered(waiting)), 400)
            for s in waiting:
                s.close()

    @unittest.skipUnless(os.getuid() == 0, "processes of several users take root")
    def test_sums_of_a_user_delay_those_of_no_other(self):
        process = self.start_hostile(NAME, "honest", SERVER)
        hanging = self.start_hostile(own_name("hang"), "hang", STRANGER)
        self.serve(NAME, own_name("hang"))
        self.assertEqual(self.pid_of(NAME), process.pid)
        waiting = self.request(f"/targets/{hanging.pid}/debug/pprof/heap?merge=1")
        looks = []

        def is_asked_for_a_profile():
            """By a thread that stays; its status is asked for before."""
            looks.append(len(os.listdir(f"/proc/{hanging.pid}/task")) > 1)
            return len(looks) >= 10 and all(looks[-10:])
        wait_until(is_asked_for_a_profile, "the sum to begin")
        self.expect(self.get(f"/targets/{NAME}/debug/pprof/heap?merge=1", timeout=80), 200)
        self.assertEqual(self.answered([waiting]), [])

    def test_hung_targets_never_take_all_connections(self):
        process = self.start_hostile(NAME, "honest")
        hanging = [self.start_hostile(own_name("hang"), "mute") for _ in range(5)]
        self.serve(NAME, own_name("hang"), env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.assertEqual(self.pid_of(NAME), process.pid)
        waiting = [self.request(f"/targets/{target.pid}{path}") for _ in range(100) for target in hanging
                   for path in ("/v1/profile", "/v1/runs")]
        self.wait_until_settled(waiting)
        self.expect(self.get(f"/targets/{NAME}/v1/status", timeout=20), 200)
        self.expect(self.get(f"/targets/{NAME}/v1/profile", timeout=20), 200)

    def test_changes_of_a_hung_target_leave_connections_for_others(self):
        process = self.start_hostile(NAME, "honest")
        hanging = self.start_hostile(own_name("hang"), "mute")
        self.serve(NAME, own_name("hang"), env={"HEAPCTL_DIR": os.path.dirname(process.socket_path)})
        self.assertEqual(self.pid_of(NAME), process.pid)
        waiting = [self.request(f"/targets/{hanging.pid}/v1/activate", "POST") for _ in range(540)]
        self.wait_until_settled(waiting)
        self.expect(self.get(f"/targets/{NAME}/v1/status", timeout=20), 200)

    def wait_until_settled(self, sockets):
        """Until some requests are refused and, for a moment, no more are answered."""
        counts = []

        def is_settled():
            counts.append(len(self.answered(sockets)))
            return counts[-1] > 0 and counts[-10:] == counts[-1:] * 10
        wait_until(is_settled, "those above the limit to be refused")

    def test_slow_clients_delay_others_by_seconds_at_most(self):
        self.serve("1")
        slow = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(600)]
        for s in slow:
            self.addCleanup(s.close)
            s.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        for _ in range(5):
            self.expect(self.get("/openapi.json", timeout=10), 200)

    def serve_with_few_descriptors(self, *arguments):
        process, _ = self.start_redis()
        self.wait_for_agent(process.pid)
        with open(self.log, "ab") as log:
            return self.start_gateway(process.pid, *arguments, stderr=log, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))

    def test_idle_clients_leave_descriptors_for_others(self):
        self.serve_with_few_descriptors()
        for _ in range(80):
            self.addCleanup(socket.create_connection(("127.0.0.1", self.port)).close)
        for path in ("/openapi.json", "/v1/status", "/debug/pprof/heap"):
            self.expect(self.get(path, timeout=15), 200)

    def test_idle_clients_of_several_listeners_leave_descriptors_for_others(self):
        ports = [free_port() for _ in range(3)]
        self.serve_with_few_descriptors(*(word for port in ports for word in ("--listen", f"127.0.0.1:{port}")))
        for port in [self.port, *ports] * 30:
            self.addCleanup(socket.create_connection(("127.0.0.1", port)).close)
        for path in ("/openapi.json", "/v1/status", "/debug/pprof/heap"):
            self.expect(self.get(path, timeout=15), 200)

    def test_renders_without_descriptors_are_asked_to_try_again(self):
        self.serve_with_few_descriptors()
        asked = [self.request(f"/api/v1/profile?format=flame&focus=a{i}") for i in range(80)]
        heads = [s.recv(4096) for s in asked]
        others = [head for head in heads if b" 200 " not in head.split(b"\r\n")[0]]
        self.assertLess(len(others), len(heads))
        for head in others:
            self.assertIn(b" 503 ", head)
            self.assertIn(b"Retry-After: ", head)
            self.assertNotIn(b'"hint":""', head)


if __name__ == "__main__":
    unittest.main()
