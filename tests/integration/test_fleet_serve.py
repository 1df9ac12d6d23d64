#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl serve --send and heapctl send --follow: the history goes to a real ClickHouse by itself."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import unittest

from clickhouse import start_for_module
from gateway import GatewayCase
from processes import BUILD, HEAPCTL, children_of, free_port, need, own_name, wait_until

SERVICE = own_name("spool")


def setUpModule():
    global server
    server = start_for_module()


class SendingCase(GatewayCase):
    databases = 0

    def setUp(self):
        super().setUp()
        SendingCase.databases += 1
        server.name = f"serve{SendingCase.databases}"
        self.login = (server.url(), "--password-file", server.password_file)
        self.history = os.path.join(self.folder, "history")
        self.make_tables()
        self.redis_server, self.redis_port = self.start_named_redis(SERVICE)

    def make_tables(self):
        self.heapctl("fleet", "schema", "--apply", "--store", *self.login)

    def serve(self, *words, every="1s"):
        return self.start_gateway("--history", self.history, "--history-every", every, "--send", *self.login, *words, self.redis_server.pid)

    def state(self):
        return self.expect(self.get("/api/v1/sending"), 200).json

    def stored(self, which="1"):
        """The times of snapshots in the history."""
        with sqlite3.connect(os.path.join(self.history, "index.sqlite")) as index:
            found = {row[0] for row in index.execute(f"SELECT time_ms FROM snapshot WHERE {which}")}
        index.close()
        return found

    def arrived(self):
        return {int(row[0]) for row in server.rows("SELECT snapshot FROM profile")}

    def sender(self, gateway):
        """The pid of the process that sends."""
        for pid in children_of(gateway.pid):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--follow" in words and os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "heapctl-fleet":
                    return pid
        return None

    def metric(self, name):
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None


class Served(SendingCase):
    def test_the_history_arrives_by_itself_and_is_marked(self):
        gateway = self.serve("--version", "7", "--label", "zone=b")
        wait_until(lambda: self.state()["sent"] >= 3, lambda: f"three snapshots: {self.state()}")
        found = server.rows("SELECT DISTINCT service, version, label_values, pid FROM profile")
        self.assertEqual(found, [[SERVICE, "7", ["b"], self.redis_server.pid]])
        wait_until(lambda: len(self.stored("sent_ms > 0")) >= 3, "the marks")
        state = self.state()
        self.assertEqual((state["problem"], state["restarts"], state["to"]), (None, 0, server.url()))
        self.assertGreater(state["last_sent_ms"], 0)
        self.assertEqual(self.metric("heapctl_sending_up"), 1)
        self.assertGreaterEqual(self.metric('heapctl_sending_snapshots_total{result="sent"}'), 3)
        # The libraries of the client are not in the gateway.
        self.assertNotIn("libcurl", pathlib.Path(f"/proc/{gateway.pid}/maps").read_text())
        sender = wait_until(lambda: self.sender(gateway), "the sender")
        self.assertIn("libcurl", pathlib.Path(f"/proc/{sender}/maps").read_text())
        gateway.terminate()
        self.assertEqual(gateway.wait(30), 0)
        self.assertFalse(os.path.exists(f"/proc/{sender}"))

    def test_nothing_is_lost_while_the_database_is_down(self):
        server.kill()
        gateway = self.serve()
        wait_until(lambda: self.state()["problem"] is not None and self.state()["unsent"] >= 3, lambda: f"a problem: {self.state()}")
        state = self.state()
        self.assertEqual(state["state"], "waiting")
        self.assertIn("connect", state["problem"]["message"])
        self.assertGreater(state["next_attempt_ms"], 0)
        self.assertGreater(state["oldest_unsent_ms"], 0)
        self.assertEqual(self.metric("heapctl_sending_up"), 0)
        # The next gateway goes on with them.
        gateway.terminate()
        gateway.wait(30)
        kept = self.stored()
        server.start()
        self.serve(every="10s")
        wait_until(lambda: kept <= self.arrived(), lambda: f"{len(kept)} snapshots: {self.state()}")
        wait_until(lambda: self.state()["state"] == "idle", lambda: f"an idle sender: {self.state()}")
        self.assertEqual(self.metric("heapctl_sending_up"), 1)

    def test_kills_at_any_time_lose_nothing_and_count_once(self):
        gateway = self.serve()
        for _ in range(4):
            os.kill(wait_until(lambda: self.sender(gateway), "a sender"), signal.SIGKILL)
            count = len(self.arrived())
            wait_until(lambda count=count: len(self.arrived()) > count, lambda: f"snapshots after a kill: {self.state()}")
        self.assertGreaterEqual(self.state()["restarts"], 4)
        sender = wait_until(lambda: self.sender(gateway), "a sender")
        gateway.kill()
        gateway.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{sender}"), "the end of the sender without its gateway")
        self.serve(every="10s")
        wait_until(lambda: self.stored() <= self.arrived(), lambda: f"all snapshots: {self.state()}")
        self.assertEqual(*server.rows("SELECT count(), uniqExact(service, host, pid, started, snapshot, stack) FROM sample")[0])

    def test_tables_that_were_made_anew_get_the_stacks_again(self):
        self.serve()
        wait_until(lambda: self.state()["sent"] >= 1, "a snapshot")
        server.ask(f"DROP DATABASE {server.name}")
        wait_until(lambda: self.state()["problem"] is not None, lambda: f"a problem: {self.state()}")
        self.assertIn("heapctl fleet schema --apply", self.state()["problem"]["message"])
        self.make_tables()
        wait_until(lambda: server.rows("SELECT count() FROM profile") != [["0"]], lambda: f"a snapshot: {self.state()}")
        self.assertEqual(server.rows("SELECT count() FROM sample WHERE stack NOT IN (SELECT stack FROM stack)"), [["0"]])

    def test_each_target_says_what_it_is(self):
        # Redis writes its title over the environment, which the agent has noted.
        shop, _ = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12",
                                   env={"HEAPCTL_LABELS": "service=shop,version=8,zone=d", "KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "shop-1",
                                        "NODE_NAME": "node7"})
        self.wait_for_agent(shop.pid)
        reported = json.loads(self.heapctl("status", shop.pid, "--json")[0])["identity"]
        self.assertEqual([reported[name] for name in ("service", "version", "host")], ["shop", "8", "node7"])
        self.assertLessEqual({"zone": "d", "pod": "shop-1"}.items(), reported["labels"].items())
        self.assertEqual((reported["sources"]["service"], reported["sources"]["host"], reported["problem"]), ("HEAPCTL_LABELS", "NODE_NAME", None))
        self.assertRegex(self.heapctl("status", shop.pid)[0], r"identity +service shop \(HEAPCTL_LABELS\); version 8")
        reported = json.loads(self.heapctl("status", self.redis_server.pid, "--json")[0])["identity"]
        self.assertEqual((reported["service"], reported["sources"]["service"], reported["host"]), (SERVICE, "name of the process", socket.gethostname()))
        self.start_gateway("--history", self.history, "--history-every", "1s", "--send", *self.login, "--label", "zone=b", self.redis_server.pid, shop.pid)
        wait_until(lambda: len(server.rows("SELECT DISTINCT pid FROM profile")) == 2, lambda: f"both: {self.state()}")
        found = {row[0]: row[1:3] + [dict(zip(*row[3:]))] for row in
                 server.rows("SELECT DISTINCT service, version, host, label_names, label_values FROM profile")}
        self.assertEqual(found["shop"][:2], ["8", "node7"])
        self.assertLessEqual({"zone": "b", "pod": "shop-1"}.items(), found["shop"][2].items())
        self.assertEqual(found[SERVICE][:2], ["", socket.gethostname()])

    def test_a_snapshot_that_ends_the_sender_is_left_out(self):
        server.kill()
        gateway = self.serve()
        wait_until(lambda: self.state()["unsent"] >= 3, "three snapshots")
        gateway.terminate()
        gateway.wait(30)
        with sqlite3.connect(os.path.join(self.history, "index.sqlite")) as index:
            fatal = index.execute("SELECT file, time_ms FROM snapshot ORDER BY id LIMIT 1").fetchone()
        index.close()
        server.start()
        self.environment.update(LD_PRELOAD=str(BUILD / "tests/integration/fatal_file.so"),
                                FATAL_FILE=os.path.join(os.path.realpath(self.history), fatal[0]))
        self.serve(every="10s")
        wait_until(lambda: self.stored() - self.arrived() == {fatal[1]}, lambda: f"the other snapshots: {self.state()}")
        state = self.state()
        self.assertEqual((state["left_out"], state["restarts"]), (1, 2))
        wait_until(lambda: self.stored("sent_ms = 0") == {fatal[1]}, "the marks of the others")

    def test_the_first_answer_knows_of_the_sending(self):
        slow = ("--daemonize", "--follow-forks", "--output=/dev/null", "--trace=clone3", "--inject=clone3:delay_enter=300000")
        self.port = free_port()
        answers = []

        def answered():
            try:
                answers.append(self.get("/api/v1/sending").status)
            except OSError:
                pass
            return answers
        self.start(need("strace"), *slow, HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", "--history", self.history, "--send", *self.login,
                   env={"ASAN_OPTIONS": "detect_leaks=0"}, wait_for=answered)
        self.assertEqual(answers, [200])

    def test_what_cannot_be_is_refused_at_the_start(self):
        for words in (("--send", "clickhouse://x/heap"), ("--history", self.history, "--service", "x"),
                      ("--history", self.history, "--send", "clickhouse://x/heap", "--label", "x"),
                      ("--history", self.history, "--send", "http://x/heap"), ("--history", self.history, "--send", "clickhouse://u:secret@x/heap")):
            said = self.heapctl("serve", *words, code=2)[1]
            self.assertNotIn("secret", said)


class Gateways(SendingCase):
    """Three hosts of two services, one in two versions; the database fails and comes back."""

    HOSTS = (("a", "shop", "1"), ("b", "shop", "2"), ("c", "cart", "1"))

    def unsent(self, port):
        self.port = port
        return self.state()["unsent"]

    def history_of(self, host):
        self.history = os.path.join(self.folder, f"history-{host}")
        return self.stored()

    def test_all_that_three_gateways_took_arrives_once_and_is_answered(self):
        self.load_redis(self.redis_port)
        gateways, ports = [], []
        for host, service, version in self.HOSTS:
            self.history = os.path.join(self.folder, f"history-{host}")
            gateways.append(self.serve("--host", host, "--service", service, "--version", version))
            ports.append(self.port)
        wait_until(lambda: server.rows("SELECT uniqExact(host) FROM profile") == [["3"]], "a snapshot of each host")
        server.kill()
        wait_until(lambda: all(self.unsent(port) >= 2 for port in ports), "snapshots that cannot be sent")
        server.start()
        wait_until(lambda: server.rows("SELECT min(n) > 4 FROM (SELECT host, count() AS n FROM profile GROUP BY host)") == [[1]], "the later ones")
        for gateway in gateways:
            gateway.terminate()
            gateway.wait(30)
        # What a gateway could not send any more is sent by hand.
        for host, service, version in self.HOSTS:
            self.heapctl("send", os.path.join(self.folder, f"history-{host}"), "--host", host, "--service", service, "--version", version, "--to", *self.login)
            kept = self.history_of(host)
            self.assertEqual({int(row[0]) for row in server.rows(f"SELECT snapshot FROM profile WHERE host = '{host}'")}, kept)
        self.assertEqual(*server.rows("SELECT count(), uniqExact(service, host, pid, started, snapshot, stack) FROM sample FINAL")[0])

        def ask(*words):
            return json.loads(self.heapctl("fleet", *words, "--json", "--store", *self.login)[0])
        hosts = ask("hosts")["hosts"]
        self.assertEqual({(row["host"], row["service"], row["version"]) for row in hosts}, set(self.HOSTS))
        self.assertTrue(all(row["bytes"] > 0 and row["rss_bytes"] > 0 for row in hosts))
        top = ask("top")
        self.assertAlmostEqual(top["total_bytes"], sum(row["bytes"] for row in hosts), delta=1)
        # One Redis is on all three hosts, so its sites are the same in all.
        self.assertEqual({site["hosts"] for site in top["sites"] if site["service"] == "shop"}, {2})
        self.assertIn("<!doctype html>", self.heapctl("fleet", "flame", "--store", *self.login)[0][:100])
        self.assertEqual(ask("diff", "--since", "10mins", "--ago", "1s", "--service", "cart")["difference"], True)
        self.assertEqual({site["hosts"] for site in ask("growth")["sites"]}, {1})
        self.assertEqual((ask("versions", "--service", "shop")["base_version"], ask("versions", "--service", "shop")["version"]), ("1", "2"))
        self.assertEqual(ask("outliers", "--service", "shop")["sites"], [])
        self.assertEqual(ask("symbolize").keys(), {"completed", "improved", "unchanged"})
        self.assertIn("CREATE TABLE", self.heapctl("fleet", "schema", "--store", *self.login)[0])


class Followed(SendingCase):
    def test_a_folder_of_captures_is_followed(self):
        captures = os.path.join(self.folder, "captures")
        self.heapctl("watch", self.redis_server.pid, "--when", "every=1s", "--count", "1", "--keep", captures)
        self.start(HEAPCTL, "send", captures, "--follow", "--to", *self.login)
        wait_until(lambda: len(self.arrived()) == 1, "the first capture")
        self.heapctl("watch", self.redis_server.pid, "--when", "every=1s", "--count", "1", "--keep", captures)
        wait_until(lambda: len(self.arrived()) == 2, "the second capture")
        self.assertIn("not a folder of snapshots", self.heapctl("send", self.folder, "--follow", "--to", *self.login, code=2)[1])


if __name__ == "__main__":
    unittest.main()
