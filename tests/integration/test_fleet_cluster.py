#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet's database on two shards of two replicas: the answers are those of one server, also after replicas failed."""
import json
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
import unittest

from clickhouse_cluster import Cluster
from processes import Case
from sampled_profiles import profile_text

DAY = 24 * 3600
LATE = "give the command again; a server that stays behind says why in its log, and may have to be restarted"
TABLES = ("sample_local", "profile_local", "growth_day_local", "process_day_local", "stack", "heapctl_schema")


def setUpModule():
    global cluster
    folder = tempfile.mkdtemp(prefix="hc-cluster-")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    cluster = Cluster(folder)
    unittest.addModuleCleanup(cluster.stop)
    cluster.start()


class ClusterCase(Case):
    def fleet(self, server, *words, code=0, name="heap"):
        server.name = name
        return self.heapctl("fleet", *words, "--store", server.url(), "--password-file", server.password_file, code=code)

    def apply(self, server, *words, **options):
        """As the hint says, since a server of 18.16 may cease to execute such statements (docs/fleet.md)."""
        for _ in range(3):
            try:
                return self.fleet(server, "schema", "--apply", "--cluster", cluster.name, *words, **options)
            except AssertionError as error:
                if LATE not in str(error):
                    raise
            for late in cluster.all():
                late.stop()
                late.start()
        raise AssertionError("the cluster does not make its tables")

    def send(self, server, *words, name="heap", code=0):
        server.name = name
        return self.heapctl("send", *words, "--retry", "20s", "--to", server.url(), "--password-file", server.password_file, code=code)[0]

    def write(self, name, sites, at, **options):
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_text(profile_text(sites, **options))
        os.utime(path, (at, at))
        return path

    def catch_up(self, *servers):
        for server in servers:
            for table in TABLES:
                server.ask(f"SYSTEM SYNC REPLICA heap.{table}")

    def host(self, host, begin):
        """Snapshots of ten days and of the last hour; the later version leaks, and one host has much."""
        chance = random.Random(host)
        times = [begin - at * DAY for at in range(10, 0, -1)] + [begin + 60 * at for at in range(4)]
        paths = []
        for at, when in enumerate(times):
            sites = {("main", f"site{n}"): 200 + chance.randrange(-14, 15) for n in range(6)}
            sites["main", "leak"] = 50 + chance.randrange(-7, 8) + (30 * at if host % 2 else 0)
            sites["main", "cache"] = 60 + chance.randrange(-7, 8) + (400 if host == 3 else 0)
            paths.append(self.write(f"api.{1000 + host}.{at}.i{at}.heap", sites, when + host / 8, base=0x400000 + 0x10000 * host, build=host % 2))
        return [*paths, "--host", f"h{host}", "--version", f"v{2 + host % 2}", "--label", f"zone={'ab'[host % 4 // 2]}"]

    def answers(self, server, until, name="heap", is_all=False):
        """Of all questions, with the numbers rounded: sums depend on the order by their last bits."""
        scope = ("--until", until)
        questions = (("top", *scope), ("flame", "--collapsed", *scope), ("diff", "--ago", "24hrs", "--service", "api", *scope, "--json"), ("growth", *scope),
                     ("growth", "--since", "12days", *scope), ("versions", "--service", "api", *scope), ("hosts", "--since", "12days", *scope),
                     ("outliers", "--service", "api", *scope), ("top", "--label", "zone=b", *scope))

        def rounded(value):
            if isinstance(value, dict):
                # The times of "12days ago" differ from call to call.
                return {key: rounded(item) for key, item in value.items() if key not in ("since_ms", "until_ms", "subtitle", "description")}
            if isinstance(value, list):
                return [rounded(item) for item in value]
            return float(f"{value:.6g}") if isinstance(value, float) else value

        def ask(words):
            text = self.fleet(server, *words, *(() if "--collapsed" in words or "--json" in words else ("--json",)), name=name)[0]
            return sorted(text.splitlines()) if "--collapsed" in words else rounded(json.loads(text))
        return [ask(words) for words in (questions if is_all else questions[3:7])]


class Fleet(ClusterCase):
    maxDiff = 2000

    def test_answers_are_those_of_one_server_also_after_replicas_failed(self):
        first = cluster.servers[0][0]
        self.fleet(first, "schema", "--apply", name="alone")
        self.apply(first)
        until = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time()))
        begin = int(time.time()) - 600
        hosts = [self.host(host, begin) for host in range(8)]
        for at, words in enumerate(hosts):
            self.send(first, *words, name="alone")
            server = cluster.all()[at % 4]
            self.assertIn("14 snapshots sent\n", self.send(server, *words))
        self.catch_up(*cluster.all())
        # Sent again to another server, they are there.
        self.assertIn("0 snapshots sent, 14 were there", self.send(cluster.all()[3], *hosts[0]))
        expected = self.answers(first, until, name="alone", is_all=True)
        self.assertEqual([site["frames"][-1] for site in expected[4]["sites"] if site["adjusted_p"] < 0.05], ["leak"])
        self.assertEqual(expected[4]["source"], "days")
        for server in (cluster.servers[0][1], cluster.servers[1][0]):
            self.assertEqual(self.answers(server, until, is_all=True), expected)
        shards = [server.rows("SELECT uniqExact(host) FROM sample_local", "heap")[0][0] for server in (cluster.servers[0][0], cluster.servers[1][0])]
        self.assertEqual(sum(map(int, shards)), 8)
        self.assertNotIn("0", shards)
        # One replica of each shard fails; a host sends meanwhile.
        lost, left = (cluster.servers[0][1], cluster.servers[1][0]), (cluster.servers[0][0], cluster.servers[1][1])
        for server in lost:
            server.kill()
        more = self.host(9, begin)
        self.send(first, *more, name="alone")
        self.assertIn("14 snapshots sent\n", self.send(left[1], *more))
        self.catch_up(*left)
        self.fleet(left[0], "schema", "--apply", code=1)
        grown = self.answers(first, until, name="alone")
        self.assertNotEqual(grown, expected[3:7])
        for server in left:
            self.assertEqual(self.answers(server, until), grown)
        # They come back, and the others fail.
        for server in lost:
            server.start()
        self.catch_up(*lost)
        for server in left:
            server.kill()
        for server in lost:
            self.assertEqual(self.answers(server, until), grown)
        # Without a whole shard there is no answer, instead of a part of it.
        lost[1].kill()
        for words in (("top",), ("growth",), ("hosts",)):
            self.assertRegex(self.fleet(lost[0], *words, code=1)[1], "ClickHouse answered 5")
        for server in (*left, lost[1]):
            server.start()
        self.catch_up(*cluster.all())
        self.assertEqual(self.answers(left[0], until), grown)


class Tables(ClusterCase):
    def test_a_cluster_is_named_and_its_old_weeks_are_dropped_everywhere(self):
        first = cluster.servers[0][0]
        self.apply(first, name="old")
        self.assertIn("name the cluster with --cluster", self.fleet(first, "schema", code=1, name="old")[1])
        self.assertRegex(self.fleet(first, "schema", "--cluster", "none", "--apply", code=1, name="other")[1], "none")
        self.fleet(first, "schema", "--apply", name="single")
        self.assertIn("name another database", self.fleet(first, "schema", "--cluster", cluster.name, code=1, name="single")[1])
        self.fleet(first, "schema", "--cluster", "a'b", code=2)
        now = time.time()
        for host in range(6):
            self.send(first, self.write(f"api.{host}.0.i0.heap", {("main", "serve"): 10}, now - (120 * DAY if host % 2 else 3 * DAY)),
                      "--host", f"h{host}", name="old")
        self.assertIn("ALTER TABLE old.sample_local ON CLUSTER fleet DROP PARTITION", self.fleet(first, "schema", "--cluster", cluster.name,
                                                                                           "--keep", "90days", name="old")[0])
        self.apply(first, "--keep", "90days", name="old")
        for server in cluster.all():
            server.ask("SYSTEM SYNC REPLICA old.profile_local")
            self.assertEqual(server.rows("SELECT host FROM profile ORDER BY host", "old"), [["h0"], ["h2"], ["h4"]])
        self.assertEqual(first.rows("SELECT uniqExact(host) FROM process_day", "old"), [["6"]])

    def test_a_server_that_stays_behind_is_told(self):
        first, late = cluster.servers[0][0], cluster.servers[1][1]
        late.process.send_signal(signal.SIGSTOP)
        try:
            self.assertIn(LATE, self.fleet(first, "schema", "--apply", "--cluster", cluster.name, code=1, name="late")[1])
        finally:
            late.process.send_signal(signal.SIGCONT)
        self.apply(first, name="late")


if __name__ == "__main__":
    unittest.main()
