#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl send and heapctl fleet, with a real ClickHouse."""
import http.server
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from clickhouse import PASSWORD, VIEWER_PASSWORD, start_for_module
from debug_file_server import DebugFileServer
from processes import HEAPCTL, Case, free_port, own_name, wait_until
from relay import Relay
from sampled_profiles import INTERVAL, MEAN, profile_text


def setUpModule():
    global server
    server = start_for_module()


class FleetCase(Case):
    """A database of its own in the server of all."""

    databases = 0

    def setUp(self):
        super().setUp()
        FleetCase.databases += 1
        self.database = server
        server.name = f"heap{FleetCase.databases}"
        self.fleet("schema", "--apply")

    def login(self, **url):
        return self.database.url(**url), "--password-file", self.database.password_file

    def fleet(self, *words, code=0, **url):
        return self.heapctl("fleet", *words, "--store", *self.login(**url), code=code)[0]

    def send(self, *words, code=0, **url):
        return self.heapctl("send", *words, "--retry", "0", "--to", *self.login(**url), code=code)

    def write(self, name, sites, at=None, **options):
        """A profile that was taken `at` so many seconds ago."""
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_text(profile_text(sites, **options))
        moment = time.time() - (at or 0)
        os.utime(path, (moment, moment))
        return path

    def counts(self):
        return self.database.rows("SELECT count(), uniqExact(host, pid, started, snapshot, stack), sum(samples) FROM sample")[0]


class Sending(FleetCase):
    def test_what_hosts_sent_adds_up_with_its_error(self):
        paths = []
        for at in range(3):
            paths.append(self.write(f"api.{100 + at}.0.i0.heap", {("main", "serve", "parse"): 10 + at, ("main", "log"): 3},
                                    base=0x400000 + 0x10000 * at))
            said = self.send(paths[-1], "--host", f"h{at}", "--version", "1.4", "--label", "zone=b")[0]
            self.assertIn("1 snapshot sent", said)
        total = json.loads(self.heapctl("report", "--json", *paths)[0])
        stated = {node["function"]: node["flat"]["inuse_space"] if "inuse_space" in node["flat"] else node["flat"] for node in total["nodes"]}
        found = self.database.rows("SELECT frames[length(frames)], sum(b), sqrt(sum(v)) FROM (SELECT stack, sum(inuse_bytes) AS b, "
                                   "sum(inuse_variance) AS v FROM sample GROUP BY stack) ANY LEFT JOIN stack USING stack GROUP BY frames")
        self.assertEqual(len(found), 2)
        for name, value, error in found:
            self.assertAlmostEqual(value, stated[name]["value"], delta=1e-6 * value)
            self.assertAlmostEqual(error, stated[name]["standard_error"], delta=1e-6 * error)
        self.assertEqual(self.database.rows("SELECT DISTINCT service, version, label_names, label_values FROM profile"),
                         [["api", "1.4", ["zone"], ["b"]]])
        self.assertEqual(sorted(self.database.rows("SELECT DISTINCT host, pid FROM sample")), [["h0", 100], ["h1", 101], ["h2", 102]])
        # Wherever the program was loaded, its stacks are the same.
        self.assertEqual(self.database.rows("SELECT uniqExact(stack) FROM sample"), [["2"]])

    def test_what_does_not_say_how_it_was_sampled_has_an_unknown_error(self):
        body = "heap profile: 3: 3000 [3: 3000] @ heapprofile\n3: 3000 [3: 3000] @ 0x400210 0x400110\n\nMAPPED_LIBRARIES:\n400000-500000 r-xp 00000000 00:00 1 /bin/x\n"
        for host, text in ("exact", body), ("unknown", f"--- symbol\nbinary=/bin/x\n0x40010f main\n0x40020f parse\n---\n--- heap\n{body}"):
            path = pathlib.Path(self.folder, f"api.{len(host)}.0.i0.heap")
            path.write_text(text)
            self.send(path, "--host", host)
        asked = {words[-1]: json.loads(self.fleet("top", *words)) for words in (["--json", "--host", "exact"], ["--json", "--host", "unknown"], ["--json"])}
        errors = {name: (found["total_standard_error"], found["sites"][0]["standard_error"], found["sites"][0]["interval95"]) for name, found in asked.items()}
        self.assertEqual(errors["unknown"], (None, None, [None, None]))
        self.assertAlmostEqual(errors["exact"][1], 0)
        self.assertEqual(errors["exact"][0], 0)
        self.assertEqual((asked["--json"]["total_bytes"], errors["--json"][0]), (6000, None))
        for question in ("top", "hosts"):
            self.assertRegex(self.fleet(question, "--host", "unknown"), r"KiB +± \? ")
        hosts = {host["host"]: host["standard_error"] for host in json.loads(self.fleet("hosts", "--json"))["hosts"]}
        self.assertEqual(hosts, {"exact": 0, "unknown": None})
        picture = json.loads(self.fleet("flame", "--host", "unknown", "--json"))
        self.assertEqual((picture["total"]["value"], picture["total"]["standard_error"]), (3000, None))

    def test_a_rebuilt_program_has_the_same_sites(self):
        stack = ("main", "serve", "parse")
        self.send(self.write("api.1.0.i0.heap", {stack: 5}), "--host", "a")
        self.send(self.write("api.2.0.i0.heap", {("main", "serve", "parse.constprop.0"): 5}, build=1), "--host", "b")
        self.assertEqual(self.database.rows("SELECT uniqExact(stack), uniqExact(site) FROM stack"), [["2", "1"]])

    def test_what_is_sent_again_counts_once(self):
        path = self.write("api.100.0.i0.heap", {("main", "serve"): 10, ("main", "log"): 3})
        self.send(path, "--host", "a")
        before = self.counts()
        said = self.send(path, "--host", "a")[0]
        self.assertIn("0 snapshots sent, 1 was there", said)
        self.assertEqual(self.counts(), before)
        self.assertEqual(self.database.rows("SELECT count() FROM profile"), [["1"]])
        # Another host has a process of the same number.
        self.send(path, "--host", "b")
        self.assertEqual(self.database.rows("SELECT count() FROM profile"), [["2"]])

    def test_the_snapshots_of_a_host_are_one_insert(self):
        paths = [self.write(f"{name}.{pid}.0.i0.heap", {("main", name): 5}, program=f"/srv/{name}") for pid, name in ((1, "api"), (2, "web"), (3, "api"))]
        self.send(*paths, "--host", "a")
        self.assertEqual(self.database.rows("SELECT service, pid FROM profile ORDER BY pid"), [["api", 1], ["web", 2], ["api", 3]])
        self.assertEqual(self.database.rows(f"SELECT max(max_block_number) FROM system.parts WHERE database = '{self.database.name}' AND table = 'sample'"),
                         [["1"]])
        self.assertIn("3 were there", self.send(*paths, "--host", "a")[0])

    def test_files_of_an_unknown_start_arrive_wherever_the_server_divides_them(self):
        """The server reads 1 MiB at a time. Its reader of times took a 0 at the end of that for the begin of a date."""
        sites = {("main", f"site{at}"): 3 for at in range(350)}
        for host in range(4):
            paths = [self.write(f"api.{pid}.0.i0.heap", sites) for pid in range(100, 163)]
            self.send(*paths, "--service", "api" + "x" * (7 * host), "--host", f"h{host}")
        self.assertEqual(self.counts()[0], str(4 * 63 * 350))

    def test_a_lost_acknowledgement_counts_once(self):
        path = self.write("api.100.0.i0.heap", {("main", "serve"): 10, ("main", "log"): 3})
        for table in ("stack", "sample", "profile"):
            with self.subTest(table=table):
                relay = Loses(self, self.database.port, f"INSERT%20INTO%20{table}%20")
                said = self.heapctl("send", path, "--host", table, "--retry", "60s", "--to", *self.login(port=relay.port))
                self.assertEqual(relay.lost, 1)
                self.assertIn("trying again", said[1])
                self.assertIn("1 snapshot sent\n", said[0])
                counts = self.database.rows(f"SELECT count(), sum(samples) FROM sample WHERE host = '{table}'")
                self.assertEqual(counts, [["2", 13]])
        self.assertEqual(self.database.rows("SELECT count() FROM profile"), [["3"]])

    def test_a_sender_that_is_killed_leaves_nothing_half_or_twice(self):
        paths = [self.write(f"api.{pid}.0.i0.heap", {("main", f"site{at}"): at + 1 for at in range(200)}) for pid in range(300, 312)]
        for delay in (0.02, 0.05, 0.08, 0.11, 0.15, 0.2, 0.3):
            self.kill_heapctl(delay, "send", *paths, "--host", "a", "--to", *self.login())
        self.send(*paths, "--host", "a")
        rows = len(paths) * 200
        self.assertEqual(self.counts()[:2], [str(rows), str(rows)])
        self.assertEqual(self.database.rows("SELECT uniqExact(pid) FROM profile"), [[str(len(paths))]])

    def test_a_server_that_is_down_loses_nothing(self):
        captures = os.path.join(self.folder, "captures")
        name = own_name("spool")
        redis, _ = self.start_named_redis(name)
        self.heapctl("watch", redis.pid, "--when", "every=1s", "--count", "3", "--keep", captures)

        def unsent():
            with sqlite3.connect(os.path.join(captures, "index.sqlite")) as index:
                found = index.execute("SELECT count(*) FROM snapshot WHERE sent_ms = 0").fetchone()[0]
            index.close()
            return found
        self.database.kill()
        said = self.send(captures, code=1)[1]
        self.assertIn("Couldn't connect to server (check that the server runs, and that it listens at this address and port)", said)
        self.assertEqual(unsent(), 3)
        self.database.start()
        self.assertIn("3 snapshots sent", self.send(captures, "--label", "zone=c")[0])
        self.assertEqual(unsent(), 0)
        self.assertIn("0 snapshots sent\n", self.send(captures)[0])
        self.assertEqual(self.database.rows("SELECT service, pid, count(), min(reason), min(rss) > 0 FROM profile GROUP BY service, pid"),
                         [[name, redis.pid, "3", "every=1s", 1]])

    def test_a_target_says_by_its_environment_what_it_is(self):
        # Redis writes its title over the environment, which the agent has noted.
        redis, _ = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12",
                                    env={"HEAPCTL_LABELS": "service=shop,version=8,zone=d"})
        self.wait_for_agent(redis.pid)
        self.send(redis.pid, "--version", "9")
        self.assertEqual(self.database.rows("SELECT service, version, label_values, pid, started > 0, resident > 0, rss > 0 FROM profile"),
                         [["shop", "9", ["d"], redis.pid, 1, 1, 1]])

    def test_a_sender_waits_for_a_server_that_comes_back(self):
        path = self.write("api.100.0.i0.heap", {("main", "serve"): 10})
        self.database.kill()
        sender = self.start(HEAPCTL, "send", path, "--host", "a", "--retry", "2mins", "--to", *self.login())
        time.sleep(1)
        self.assertIsNone(sender.poll())
        self.database.start()
        self.assertEqual(sender.wait(60), 0)
        self.assertEqual(self.counts(), ["1", "1", 10])

    def test_profiles_of_one_process_and_time_are_reported(self):
        paths = [self.write(f"{name}.heap", {("main", name): 5}) for name in ("one", "two")]
        os.utime(paths[1], ns=(os.stat(paths[0]).st_mtime_ns,) * 2)
        said = self.send(*paths, "--host", "a")
        self.assertIn("1 snapshot sent, 1 left out", said[0])
        self.assertIn("two.heap is of the same process and time as another one", said[1])


    def test_times_that_the_database_does_not_have(self):
        """Its times end in 2106; later ones were taken for earlier ones."""
        for name, seconds, sent in (("early", 5, 1), ("last", 2 ** 32 - 1, 1), ("late", 2 ** 32, 0)):
            path = self.write(f"{name}.1.0.i0.heap", {("main", "serve"): 10}, program=f"/srv/{name}")
            os.utime(path, (seconds, seconds))
            said = self.send(path)
            self.assertIn(f"{sent} snapshot", said[0])
            self.assertEqual("was taken after the year 2105" in said[1], not sent)
        found = json.loads(self.fleet("hosts", "--since", "1970-01-02", "--until", "@99999999999", "--json"))["hosts"]
        self.assertEqual([host["service"] for host in found], ["last"])
        said = self.heapctl("fleet", "diff", "--ago", "60000days", "--until", "@4294967295", "--since", "2100-01-01", "--store", *self.login(), code=1)[1]
        self.assertIn("which would be compared with", said)

    def test_snapshots_without_a_sample_are_told_from_none(self):
        self.send(self.write("api.100.0.i0.heap", {}), "--host", "a")
        for words in (("top",), ("flame",), ("diff",)):
            said = self.heapctl("fleet", *words, "--store", *self.login(), code=1)[1]
            self.assertIn("has snapshots there, but not a sample in them (heapctl activate switches sampling on)", said)
            said = self.heapctl("fleet", *words, "--host", "b", "--store", *self.login(), code=1)[1]
            self.assertIn("has no snapshot", said)

    def test_one_figure_has_one_error(self):
        """Of few samples, half of the interval is not 1.96 standard errors."""
        self.send(self.write("api.100.0.i0.heap", {("main", "serve"): 2}), "--host", "a")
        errors = [re.findall("± +([0-9.]+ KiB)", self.fleet(question)) for question in ("top", "hosts")]
        self.assertEqual(errors[0], errors[1] * 2)

    def test_the_later_version_is_the_one_that_appeared_later(self):
        """Hosts of both ran all the time that is asked about, in any order."""
        hours = ((100, "v1", 72), (200, "v2", 48), (200, "v2", 0.9), (100, "v1", 0.8), (200, "v2", 0.2), (100, "v1", 0.1))
        for at, (pid, version, ago) in enumerate(hours):
            self.send(self.write(f"api.{pid}.{at}.i{at}.heap", {("main", "serve"): 10}, at=3600 * ago), "--host", f"h{pid}", "--version", version)
        found = json.loads(self.fleet("versions", "--service", "api", "--since", "1hrs", "--json"))
        self.assertEqual((found["base_version"], found["version"]), ("v1", "v2"))


class Loses(Relay):
    """The answer to the first request with these bytes is not delivered. Counts the requests."""

    def __init__(self, case, server_port, loses):
        self.loses, self.lost, self.requests = loses.encode(), 0, 0
        super().__init__(case, server_port)

    def forward(self, client, server):
        loses = threading.Event()

        def upward():
            while data := client.recv(65536):
                self.requests += data.count(b"POST /?")
                if self.loses in data and not self.lost:
                    self.lost += 1
                    loses.set()
                server.sendall(data)
        threading.Thread(target=upward, daemon=True).start()
        try:
            while data := server.recv(65536):
                if loses.is_set():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
        except OSError:
            pass


class Asking(FleetCase):
    """Hosts of two versions with six snapshots each; the later version leaks at one site, one host leaks at another, and one has much at a third."""

    HOSTS, SNAPSHOTS, STEP = 16, 6, 600
    LEAK, HEAVY, PLAIN = ("main", "serve", "leak"), ("main", "cache"), ("main", "serve", "parse")

    database_name = None

    def setUp(self):
        """The database is made once: these tests only ask."""
        if self.database_name is None:
            super().setUp()
            self.fill()
            Asking.database_name, Asking.data = server.name, tempfile.mkdtemp(prefix="hc-fleet-")
            self.addClassCleanup(shutil.rmtree, self.data, ignore_errors=True)
            for path in pathlib.Path(self.folder).glob("*.heap"):
                shutil.move(path, self.data)
        else:
            Case.setUp(self)
            self.database, server.name = server, self.database_name

    def fill(self):
        chance = random.Random(17)
        for host in range(self.HOSTS):
            version = "v3" if host % 2 else "v2"
            paths = []
            for at in range(self.SNAPSHOTS):
                sites = {("main", "serve", f"site{n}"): 200 + chance.randrange(-14, 15) for n in range(20)}
                sites[self.PLAIN] = 400 + chance.randrange(-20, 21)
                sites[("main", "serve", "site3")] += 60 * at if host == 8 else 0
                sites[self.HEAVY] = 60 + chance.randrange(-7, 8) + (400 if host == 5 else 0)
                sites[self.LEAK] = 50 + chance.randrange(-7, 8) + (40 * at if version == "v3" else 0)
                paths.append(self.write(f"api.{1000 + host}.{at}.i{at}.heap", sites, at=self.STEP * (self.SNAPSHOTS - 1 - at) + 30,
                                        base=0x400000 + 0x10000 * host, build=int(version == "v3")))
            self.send(*paths, "--host", f"h{host}", "--version", version, "--label", f"zone={'ab'[host % 4 // 2]}")

    def ask(self, *words, **url):
        return json.loads(self.fleet(*words, "--json", **url))

    def test_top_counts_the_last_snapshot_of_each_process(self):
        last = [os.path.join(self.data, f"api.{1000 + host}.{self.SNAPSHOTS - 1}.i{self.SNAPSHOTS - 1}.heap") for host in range(self.HOSTS)]
        report = json.loads(self.heapctl("report", "--json", *last)[0])
        stated = {node["name"]: node["flat"] for node in report["nodes"]}
        found = self.ask("top")
        self.assertEqual(len(found["sites"]), 23)
        self.assertEqual(found["sites"], sorted(found["sites"], key=lambda site: -site["bytes"]))
        for site in found["sites"]:
            expected = stated[site["frames"][-1]]
            self.assertAlmostEqual(site["bytes"], expected["value"], delta=1e-6 * expected["value"])
            self.assertAlmostEqual(site["standard_error"], expected["standard_error"], delta=1e-6 * site["bytes"])
            self.assertEqual(site["hosts"], self.HOSTS)
        self.assertAlmostEqual(found["total_bytes"], sum(site["bytes"] for site in found["sites"]), delta=1)
        one = self.ask("top", "--host", "h5", "--service", "api")
        self.assertEqual([(site["frames"][-1], site["hosts"]) for site in one["sites"]][:2], [("cache", 1), ("parse", 1)])
        # A user who may only read asks the same.
        viewer = (self.database.url(user="viewer"), "--password-file", self.database.viewer_file)
        self.assertEqual(json.loads(self.heapctl("fleet", "top", "--json", "--store", *viewer)[0])["sites"], found["sites"])
        text = self.fleet("top", "--top", "3")
        self.assertRegex(text.splitlines()[2], r"MiB  ± .* 16  api  main > serve > parse$")

    def test_what_was_cut_says_so(self):
        for words in (("top",), ("hosts",), ("growth",), ("versions", "--service", "api"), ("outliers", "--service", "api")):
            self.assertEqual(self.ask(*words)["has_more"], False)
            self.assertNotIn("and more", self.fleet(*words, "--top", "1000"))
            cut = self.ask(*words, "--top", "1")
            self.assertEqual((cut["has_more"], len(cut.get("sites", cut.get("hosts")))), (True, 1))
            self.assertIn("\nand more: --top N shows N of them\n", self.fleet(*words, "--top", "1"))

    def test_pictures_are_those_of_the_other_verbs(self):
        collapsed = self.fleet("flame", "--collapsed", "--service", "api")
        self.assertEqual(len(collapsed.splitlines()), 23)
        self.assertIn("main;serve;leak ", collapsed)
        # Of all services, each is a root.
        self.assertIn("api;main;serve;leak ", self.fleet("flame", "--collapsed"))
        path = os.path.join(self.folder, "flame.html")
        self.fleet("flame", "-o", path)
        self.assertIn("<!doctype html>", pathlib.Path(path).read_text()[:100])
        self.assertIn("<svg", self.fleet("flame", "--svg"))
        view = self.ask("flame", "--service", "api", "--label", "zone=b", "--version", "v3")
        self.assertEqual({node["name"] for node in view["nodes"]} & {"leak", "cache"}, {"leak", "cache"})

    def test_a_difference_of_two_times(self):
        found = self.ask("diff", "--since", "5mins", "--ago", "50mins", "--service", "api")
        changes = {node["name"]: node["flat"] for node in found["nodes"]}
        growing = self.HOSTS // 2 * 200 * MEAN / (1 - math.exp(-MEAN / INTERVAL))
        self.assertAlmostEqual(changes["leak"]["value"], growing, delta=0.15 * growing)
        self.assertGreater(changes["leak"]["standard_error"], 0)
        self.assertRegex(self.fleet("diff", "--since", "5mins", "--ago", "50mins").splitlines()[2], "leak")
        said = self.heapctl("fleet", "diff", "--ago", "9days", "--store", *self.login(), code=1)[1]
        self.assertRegex(said, r"no snapshot from .* to .*, which would be compared with \(--ago compares with another time\)")

    def test_a_planted_leak_is_found_first_and_nothing_else(self):
        found = self.ask("growth")["sites"]
        self.assertEqual([(site["frames"][-1], site["version"]) for site in found if site["adjusted_p"] < 0.05], [("leak", "v3")])
        self.assertEqual(found[0]["frames"], list(self.LEAK))
        rate = 40 * 3600 / self.STEP * MEAN / (1 - math.exp(-MEAN / INTERVAL))
        self.assertAlmostEqual(found[0]["rate_per_hour"], rate, delta=5 * found[0]["standard_error"])
        self.assertLess(found[0]["standard_error"], 0.1 * rate)
        self.assertEqual(found[0]["hosts"], self.HOSTS // 2)
        text = self.fleet("growth", "--top", "2")
        self.assertRegex(text.splitlines()[1], r"e-\d+ .* MiB/h +8  api v3  main > serve > leak")
        self.assertIn("1 of these grow", text)
        self.assertEqual([site for site in self.ask("growth", "--version", "v2")["sites"] if site["adjusted_p"] < 0.05], [])

    def test_versions_that_differ(self):
        found = self.ask("versions", "--service", "api")
        self.assertEqual((found["base_version"], found["version"]), ("v2", "v3"))
        self.assertEqual([site["frames"][-1] for site in found["sites"] if site["adjusted_p"] < 0.05], ["leak"])
        leak = found["sites"][0]
        change = 100 * MEAN / (1 - math.exp(-MEAN / INTERVAL))
        self.assertAlmostEqual(leak["bytes"] - leak["base_bytes"], change, delta=5 * leak["standard_error"])
        self.assertGreater(leak["interval95"][0], 0)
        back = self.ask("versions", "--service", "api", "--version", "v2", "--base-version", "v3")["sites"][0]
        self.assertAlmostEqual(back["bytes"] - back["base_bytes"], leak["base_bytes"] - leak["bytes"], delta=1)
        self.assertIn("1 of these differ", self.fleet("versions", "--service", "api"))
        said = self.heapctl("fleet", "versions", "--service", "other", "--store", *self.login(), code=1)[1]
        self.assertIn("fewer than two versions", said)

    def test_a_host_that_deviates(self):
        leaking, heavy = self.ask("outliers", "--service", "api")["sites"]
        # One grows, which is tested. What a version has in common is no deviation of a host.
        self.assertEqual((leaking["host"], leaking["frames"][-1]), ("h8", "site3"))
        rate = 60 * 3600 / self.STEP * MEAN / (1 - math.exp(-MEAN / INTERVAL))
        self.assertAlmostEqual(leaking["rate_per_hour"], rate, delta=0.1 * rate)
        self.assertLess(abs(leaking["usual_rate_per_hour"]), 0.1 * rate)
        self.assertLess(leaking["adjusted_p"], 1e-4)
        self.assertGreater(leaking["growth_z"], 3.5)
        # The other one has much all the time.
        self.assertEqual((heavy["host"], heavy["frames"]), ("h5", list(self.HEAVY)))
        self.assertGreater(heavy["adjusted_p"], 0.5)
        self.assertGreater(heavy["robust_z"], 3.5)
        self.assertGreater(heavy["bytes"], 5 * heavy["median_bytes"])
        text = self.fleet("outliers", "--service", "api").splitlines()
        self.assertRegex(text[1], r"^\de-\d+ .*MiB/h .* h8  main > serve > site3$")
        self.assertRegex(text[2], r"^1.0000 .* h5  main > cache$")
        self.assertEqual(text[3:], ["1 of these grow as other hosts do not (chance below 0.05)"])
        # Where each host has one snapshot, no growth is tested.
        one = self.ask("outliers", "--service", "api", "--since", "2mins")["sites"]
        self.assertEqual([(site["host"], site["p"], site["rate_per_hour"]) for site in one if site["frames"][-1] == "cache"], [("h5", None, None)])

    def test_hosts_are_listed(self):
        found = self.ask("hosts", "--since", "2hrs")["hosts"]
        self.assertEqual({host["host"] for host in found}, {f"h{at}" for at in range(self.HOSTS)})
        self.assertEqual({(host["service"], host["processes"], host["snapshots"]) for host in found}, {("api", 1, self.SNAPSHOTS)})
        self.assertEqual(found[0]["host"], "h5")
        self.assertEqual(len(self.ask("hosts", "--since", "2hrs", "--label", "zone=b")["hosts"]), self.HOSTS // 2)
        self.assertRegex(self.fleet("hosts", "--since", "2hrs"), r"api v3 h5\n")

    def test_the_dashboard_has_the_same_figures(self):
        dashboard = json.loads((pathlib.Path(__file__).resolve().parents[2] / "contrib/grafana/heapctl-fleet.json").read_text())
        # The macros of Grafana's data source.
        macros = {"$__timeFilter(ts)": "ts > now() - 86400", "$__timeInterval(ts)": "toStartOfHour(ts)", "${service:singlequote}": "'api'"}
        tables = {}
        for panel in dashboard["panels"]:
            query = panel["targets"][0]["rawSql"]
            for macro, text in macros.items():
                query = query.replace(macro, text)
            self.assertNotIn("$", query)
            self.assertNotRegex(query, "(?<!nan, )inuse_variance")
            tables[panel["title"]] = self.database.rows(query)
            self.assertTrue(tables[panel["title"]], panel["title"])
        self.assertEqual(self.database.rows(dashboard["templating"]["list"][1]["query"]), [["api"]])
        top = self.ask("top")["sites"]
        for (service, function, hosts, size, error), site in zip(tables["Sites with the most bytes in use"], top[:5]):
            self.assertEqual((service, function, int(hosts)), ("api", site["frames"][-1], site["hosts"]))
            self.assertAlmostEqual(float(size) / site["bytes"], 1, delta=1e-3)
            self.assertAlmostEqual(float(error) / site["standard_error"], 1, delta=1e-3)
        self.assertEqual(len(tables["Hosts"]), self.HOSTS)
        self.assertEqual({row[1] for row in tables["Bytes of a process by version"]}, {"v2", "v3"})

    def test_what_makes_no_sense_is_refused(self):
        for words in (("top", "--ago", "1hrs"), ("top", "--svg"), ("growth", "--keep", "9days"), ("schema", "--json"), ("nothing",), ("versions",),
                      ("outliers",), ("flame", "--json", "--svg"), ("top", "--since", "yesterday"), ("top", "--since", "1hrs", "--until", "2hrs"),
                      ("versions", "--service", "api", "--version", "v3"), ("top", "--base-version", "v2"), ("schema", "--since", "1hrs")):
            self.fleet(*words, code=2)
        for question in ("top", "outliers", "hosts"):
            said = self.heapctl("fleet", question, "--service", "none", "--store", *self.login(), code=1)[1]
            self.assertIn("no snapshot", said)


class Months(FleetCase):
    """Growth over more than a week is answered by the sums of days."""

    DAYS, HOSTS, STEP = 20, 4, 8 * 3600
    LEAK, PLAIN = ("main", "leak"), ("main", "plain")

    def snapshots(self, host):
        """Three a day, of whole days before today; `again` writes the same."""
        chance = random.Random(host)
        begin = int(time.time()) // 86400 * 86400 - self.DAYS * 86400
        paths = []
        for at in range(3 * self.DAYS):
            sites = {self.PLAIN: 300 + chance.randrange(-20, 21), self.LEAK: 50 + chance.randrange(-7, 8) + 2 * at}
            path = self.write(f"api.{100 + host}.{at}.i{at}.heap", sites)
            os.utime(path, (begin + at * self.STEP + host,) * 2)
            paths.append(path)
        return paths

    def ask(self, *words):
        return json.loads(self.fleet("growth", "--json", *words))

    def test_sums_of_days_say_what_the_snapshots_say(self):
        for host in range(self.HOSTS):
            paths = self.snapshots(host)
            # A part of a day first, and all of it twice.
            for part in (paths[:40], paths, paths):
                self.send(*part, "--host", f"h{host}", "--label", f"zone={'ab'[host % 2]}")
        n = self.HOSTS * self.DAYS
        self.assertEqual(self.database.rows("SELECT count() FROM process_day FINAL"), [[str(n)]])
        found = self.ask("--since", f"{self.DAYS + 1}days")
        self.assertEqual((found["source"], found["missing_days"]), ("days", 0))
        self.assertEqual([site["frames"][-1] for site in found["sites"] if site["adjusted_p"] < 0.05], ["leak"])
        leak = found["sites"][0]
        # By the estimates of all snapshots, with a line through each host's.
        rows = self.database.rows("SELECT host, toFloat64(snapshot) / 3600000 AS t, any(inuse_bytes) FROM sample WHERE stack IN "
                                  "(SELECT stack FROM stack WHERE has(frames, 'leak')) GROUP BY host, snapshot")
        slopes = []
        for host in range(self.HOSTS):
            points = [(float(t), float(y)) for name, t, y in rows if name == f"h{host}"]
            self.assertEqual(len(points), 3 * self.DAYS)
            mean = [sum(values) / len(points) for values in zip(*points)]
            slopes.append(sum((t - mean[0]) * (y - mean[1]) for t, y in points) / sum((t - mean[0]) ** 2 for t, _ in points))
        average = sum(slopes) / self.HOSTS
        error = math.sqrt(sum((slope - average) ** 2 for slope in slopes) / (self.HOSTS - 1) / self.HOSTS)
        self.assertAlmostEqual(leak["rate_per_hour"], average, delta=1e-6 * average)
        self.assertAlmostEqual(leak["standard_error"], error, delta=1e-4 * error)
        self.assertEqual(self.ask("--since", "3days")["source"], "snapshots")
        half = self.ask("--since", f"{self.DAYS + 1}days", "--label", "zone=b", "--until", "10days")["sites"][0]
        self.assertEqual((half["frames"][-1], half["hosts"]), ("leak", self.HOSTS // 2))
        # They stay when the snapshots are removed. Without their sums, that is said.
        week = self.database.rows("SELECT min(toMonday(day)) FROM process_day")[0][0]
        gone = int(self.database.rows(f"SELECT uniqExact(host, day) FROM process_day WHERE toMonday(day) = '{week}'")[0][0])
        self.database.ask(f"ALTER TABLE process_day DROP PARTITION '{week}'", self.database.name)
        lost = self.ask("--since", f"{self.DAYS + 1}days")
        self.assertEqual(lost["missing_days"], gone)
        self.assertIn(f"{gone} days of processes have snapshots that are not in the sums", self.fleet("growth", "--since", f"{self.DAYS + 1}days"))
        self.database.ask("TRUNCATE TABLE process_day", self.database.name)
        said = self.heapctl("fleet", "growth", "--since", f"{self.DAYS + 1}days", "--store", *self.login(), code=1)[1]
        self.assertRegex(said, rf"{n} days of processes .*heapctl fleet schema --apply")
        self.fleet("schema", "--apply")
        for table in ("sample", "profile"):
            self.database.ask(f"TRUNCATE TABLE {table}", self.database.name)
        again = self.ask("--since", f"{self.DAYS + 1}days")
        self.assertAlmostEqual(again["sites"][0]["rate_per_hour"], leak["rate_per_hour"], delta=1e-9 * average)
        self.assertIn("from the sums of whole days, ", self.fleet("growth", "--since", f"{self.DAYS + 1}days").splitlines()[0])


class Symbolized(FleetCase):
    """Stacks of a stripped program get their names later."""

    SOURCE = """
    #define KEEP __attribute__((noinline))
    KEEP int leak(int x) { return x + 1; }
    static inline __attribute__((always_inline)) int inlined(int x) { return leak(x) * 2; }
    KEEP int serve(int x) { return inlined(x) + 3; }
    int main(int argc, char **argv) { (void)argv; return serve(argc) + 4; }
    """

    def setUp(self):
        super().setUp()
        self.program, self.whole = os.path.join(self.folder, "api"), os.path.join(self.folder, "builds/x/api-1.4")
        os.makedirs(os.path.dirname(self.whole))
        pathlib.Path(self.program + ".c").write_text(self.SOURCE)
        subprocess.run(["cc", "-g", "-O1", "-Wl,--build-id", "-o", self.whole, self.program + ".c"], check=True)
        subprocess.run(["strip", "-o", self.program, self.whole], check=True)
        said = subprocess.run(["objdump", "-d", "--no-show-raw-insn", self.whole], check=True, capture_output=True, text=True).stdout
        returns = {name: int(at, 16) for name, at in re.findall(r"<(\w+)>:\n(?:.+\n)*?.*call .*\n\s+(\w+):", said)}
        leaf = int(re.search(r"^(\w+) <leak>:", said, re.M)[1], 16) + 2
        base = 0x555555554000
        stack = " ".join(f"0x{base + at:x}" for at in (leaf, returns["serve"], returns["main"]))
        # One of generated code, of which nothing can be known later.
        self.text = (f"heap_v2/4096\n  t*: 15: 15360 [0: 0]\n@ {stack}\n  t*: 5: 5120 [0: 0]\n@ 0x{base + returns['serve']:x} 0x10 \n  t*: 10: 10240 [0: 0]\n\n"
                     f"MAPPED_LIBRARIES:\n{base + 0x1000:08x}-{base + 0x2000:08x} r-xp 00001000 08:01 1 {self.program}\n")

    def send_from(self, host):
        path = os.path.join(self.folder, f"api.{100 + len(host)}.0.i0.heap")
        pathlib.Path(path).write_text(self.text)
        self.send(path, "--host", host, "--no_cache")

    def top(self, host=None):
        found = json.loads(self.fleet("top", "--json", *(("--host", host) if host else ())))["sites"]
        return sorted((site["site"], site["frames"], site["bytes"]) for site in found)

    def test_names_come_later_and_are_those_that_would_have_been_sent(self):
        self.send_from("early")
        sent = self.top()
        self.assertRegex(" ".join(sent[0][1] + sent[1][1]), r"api\+0x")
        self.assertNotIn("leak", str(sent))
        self.assertIn("0 stacks completed, 0 improved, 2 as before", self.fleet("symbolize"))
        self.assertEqual(self.top(), sent)
        rows = self.database.rows("SELECT * FROM sample ORDER BY stack")
        parts = f"SELECT max(max_block_number) FROM system.parts WHERE database = '{self.database.name}' AND table = 'sample'"
        inserted = self.database.rows(parts)
        both = [self.start(HEAPCTL, "fleet", "symbolize", os.path.join(self.folder, "builds"), "--store", *self.login()) for _ in range(2)]
        self.assertEqual([run.wait(60) for run in both], [0, 0])
        named = self.top()
        self.assertEqual({tuple(frames) for _, frames, _ in named}, {("main", "serve", "inlined", "leak"), ("[anonymous]", "serve", "inlined")})
        self.assertEqual([row[2] for row in sorted(named, key=lambda row: row[2])], [row[2] for row in sorted(sent, key=lambda row: row[2])])
        self.assertEqual((self.database.rows("SELECT * FROM sample ORDER BY stack"), self.database.rows(parts)), (rows, inserted))
        # Again, there is nothing to do. A host that has no names sends the same, and a merge comes.
        self.assertIn("0 stacks completed, 0 improved, 0 as before", self.fleet("symbolize", os.path.join(self.folder, "builds")))
        self.send_from("later")
        self.database.ask("OPTIMIZE TABLE stack FINAL", self.database.name)
        self.assertEqual([row[:2] for row in self.top()], [row[:2] for row in named])
        # A host that had the names sends the same sites.
        shutil.copy(self.whole, self.program)
        self.database.ask("TRUNCATE TABLE stack", self.database.name)
        self.send_from("complete")
        self.assertEqual([row[:2] for row in self.top("complete")], [row[:2] for row in named])

    def test_files_are_known_by_their_build_id_alone(self):
        self.send_from("early")
        other = os.path.join(self.folder, "other")
        pathlib.Path(self.program + ".c").write_text(self.SOURCE.replace("x + 1", "x + 2"))
        subprocess.run(["cc", "-g", "-O1", "-Wl,--build-id", "-o", other, self.program + ".c"], check=True)
        said = self.heapctl("fleet", "symbolize", other, "--store", *self.login())
        self.assertIn("0 stacks completed, 0 improved, 2 as before", said[0])
        identity = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", self.program], check=True, capture_output=True, text=True).stdout)[1]
        self.assertIn(f"api, build-id {identity}: ", said[1])
        debug = os.path.join(self.folder, "debug")
        subprocess.run(["objcopy", "--only-keep-debug", self.whole, debug], check=True)
        server = DebugFileServer(self, {identity: debug})
        self.environment.update(DEBUGINFOD_CACHE_PATH=os.path.join(self.folder, "client"), DEBUGINFOD_URLS="")
        found = json.loads(self.fleet("symbolize", "--json", "--debuginfod", server.url))
        self.assertEqual(found, {"completed": 2, "improved": 0, "unchanged": 0})
        self.assertTrue(server.asked)
        for words in (("symbolize", os.path.join(self.folder, "none")), ("symbolize", self.program + ".c")):
            self.fleet(*words, code=1)
        for words in (("symbolize", "--top", "3"), ("symbolize", "--service", "x"), ("top", self.program), ("top", "--debuginfod", server.url)):
            self.fleet(*words, code=2)

    def test_a_search_for_names_ends_at_an_interrupt(self):
        self.send_from("early")
        server = DebugFileServer(self, {})
        server.is_silent = True
        self.environment.update(DEBUGINFOD_CACHE_PATH=os.path.join(self.folder, "client"), DEBUGINFOD_URLS="")
        command = self.start(HEAPCTL, "fleet", "symbolize", "--debuginfod", server.url, "--store", *self.login())
        wait_until(lambda: server.asked, "the server to be asked")
        command.send_signal(signal.SIGINT)
        self.assertEqual(command.wait(60), -signal.SIGINT)


class Access(FleetCase):
    def test_passwords_stay_in_their_file(self):
        path = self.write("api.100.0.i0.heap", {("main", "serve"): 10})
        # In a URL one would be seen by all users, so it does not even get into a message.
        for url in (f"clickhouse://heap:{VIEWER_PASSWORD}@127.0.0.1/heap", f"http://heap:{VIEWER_PASSWORD}@127.0.0.1/heap"):
            said = self.heapctl("send", path, "--to", url, code=2)[1]
            self.assertNotIn(VIEWER_PASSWORD, said)
        wrong = os.path.join(self.folder, "wrong")
        pathlib.Path(wrong).write_text("anything\n")
        os.chmod(wrong, 0o644)
        said = self.heapctl("send", path, "--to", self.database.url(), "--password-file", wrong, code=1)[1]
        self.assertIn("all users of this machine can read the password", said)
        os.chmod(wrong, 0o600)
        said = self.heapctl("send", path, "--to", self.database.url(), "--password-file", wrong, code=1)[1]
        self.assertIn("Wrong password", said)
        self.assertIn("--password-file", said)
        self.assertNotIn("trying again", said)
        self.assertNotIn("anything", said)
        self.send(path)
        for log in (self.database.folder / "server.log", self.database.folder / "server.err"):
            self.assertNotIn(PASSWORD, log.read_text() if log.exists() else "")

    def test_odd_names_arrive_as_they_are(self):
        odd = "it's\ta\"name\"\\n]',back\\slash\x01ü"
        service, label = "o'Brien \\ ü", "a'b,c"
        self.send(self.write("api.100.0.i0.heap", {("main", odd): 10}), "--service", service, "--host", "h'1", "--version", "1'; DROP TABLE sample",
                  "--label", f"note={label}")
        self.assertEqual(self.database.rows("SELECT service, host, version, label_values FROM profile"),
                         [[service, "h'1", "1'; DROP TABLE sample", [label]]])
        self.assertEqual(self.database.rows("SELECT arrayJoin(frames) FROM stack"), [["main"], [odd]])
        self.assertIn("1 was there", self.send(os.path.join(self.folder, "api.100.0.i0.heap"), "--service", service, "--host", "h'1")[0])
        for words in (("--service", ""), ("--service", "a\nb"), ("--host", "x" * 300), ("--label", "x"), ("--label", "1x=y"), ("--label", "a b=c")):
            self.send(os.path.join(self.folder, "api.100.0.i0.heap"), *words, code=2)

    def test_what_is_no_heap_of_samples_is_left_out(self):
        path = os.path.join(self.folder, "old.heap")
        pathlib.Path(path).write_text("heap profile: 1: 10 [1: 10] @ heap/524288\n 1: 10 [1: 10] @ 0x400010\nMAPPED_LIBRARIES:\n")
        said = self.send(path, "--service", "x", code=0)
        self.assertIn("0 snapshots sent, 1 left out", said[0])
        self.assertIn("gperftools", said[1])


# The tables of version 1 that version 2 changes, as heapctl 0.1.0 made them.
VERSION_1 = ("""CREATE TABLE stack (stack UInt64, site UInt64, frames Array(LowCardinality(String)), build_ids Array(LowCardinality(String)),
                offsets Array(UInt64)) ENGINE = ReplacingMergeTree() ORDER BY stack""",)


class Schema(FleetCase):
    def test_tables_are_made_once_and_later_ones_refused(self):
        self.send(self.write("api.100.0.i0.heap", {("main", "serve"): 10}))
        self.assertIn("tables of version 2", self.fleet("schema", "--apply"))
        self.assertEqual(self.database.rows("SELECT version FROM heapctl_schema"), [[2]])
        self.assertEqual(self.counts()[0], "1")
        printed = self.fleet("schema")
        self.database.ask("CREATE DATABASE by_hand")
        for statement in printed.split(";\n"):
            if statement.strip() and not statement.startswith("SET "):
                self.database.ask(statement, "by_hand&allow_experimental_low_cardinality_type=1")
        tables = [self.database.rows(f"SELECT name FROM system.tables WHERE database = '{name}' ORDER BY name")
                  for name in (self.database.name, "by_hand")]
        self.assertEqual(*tables)
        self.database.ask("INSERT INTO heapctl_schema VALUES (3, now())", self.database.name)
        said = self.heapctl("fleet", "schema", "--apply", "--store", *self.login(), code=1)[1]
        self.assertIn("has tables of version 3", said)
        self.assertIn("has tables of version 3", self.send(os.path.join(self.folder, "api.100.0.i0.heap"), code=1)[1])

    def make_version_1(self):
        """The database with what it has, as version 1 had it."""
        self.database.ask("RENAME TABLE stack TO stack_new", self.database.name)
        for statement in VERSION_1:
            self.database.ask(statement, self.database.name + "&allow_experimental_low_cardinality_type=1")
        columns = "stack, site, frames, build_ids, offsets"
        self.database.ask(f"INSERT INTO stack SELECT {columns} FROM stack_new", self.database.name)
        for table in ("stack_new", "growth_day", "process_day", "heapctl_schema"):
            self.database.ask(f"DROP TABLE {table}", self.database.name)
        self.database.ask("CREATE TABLE heapctl_schema (version UInt32, applied DateTime) ENGINE = MergeTree() ORDER BY version", self.database.name)
        self.database.ask("INSERT INTO heapctl_schema VALUES (1, now())", self.database.name)

    def test_tables_of_version_1_are_taken_over_with_their_rows(self):
        day = 24 * 3600
        paths = [self.write(f"api.100.{at}.i{at}.heap", {("main", "serve"): 10 + at}, at=day * (12 - at)) for at in range(12)]
        self.send(*paths, "--host", "a")
        before = [self.database.rows(f"SELECT * FROM {table} ORDER BY stack, snapshot") for table in ("sample",)]
        stacks = self.database.rows("SELECT stack, site, frames, build_ids, offsets FROM stack ORDER BY stack")
        days = self.database.rows("SELECT * FROM growth_day ORDER BY day, stack")
        self.assertEqual(len(days), 12)
        self.make_version_1()
        for said in (self.send(paths[0], code=1)[1], self.heapctl("fleet", "top", "--store", *self.login(), code=1)[1]):
            self.assertRegex(said, r"has tables of version 1, .* needs version 2.*heapctl fleet schema --apply")
        # Ended after the tables were renamed, and once more.
        printed = self.fleet("schema")
        self.assertIn("RENAME TABLE stack TO stack_1", printed)
        for statement in printed.split(";\n"):
            if "stack_2" in statement:
                self.database.ask(statement, self.database.name + "&allow_experimental_low_cardinality_type=1")
        for _ in range(2):
            self.fleet("schema", "--apply")
            self.assertEqual([self.database.rows(f"SELECT * FROM {table} ORDER BY stack, snapshot") for table in ("sample",)], before)
            self.assertEqual(self.database.rows("SELECT stack, site, frames, build_ids, offsets FROM stack ORDER BY stack"), stacks)
            self.assertEqual(self.database.rows("SELECT * FROM growth_day ORDER BY day, stack"), days)
            self.assertEqual(self.database.rows("SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name"),
                             [["growth_day"], ["heapctl_schema"], ["process_day"], ["profile"], ["sample"], ["stack"]])
        self.assertEqual(self.database.rows("SELECT version FROM heapctl_schema ORDER BY version"), [[1], [2]])
        self.assertIn("1 was there", self.send(paths[0], "--host", "a")[0])

    def test_old_weeks_are_dropped(self):
        day = 24 * 3600
        for pid, age in ((1, 0), (2, 60 * day), (3, 120 * day)):
            self.send(self.write(f"api.{pid}.0.i0.heap", {("main", "serve"): 10}, at=age))
        self.assertEqual(self.fleet("schema", "--keep", "90days").count("DROP PARTITION"), 2)
        self.fleet("schema", "--apply", "--keep", "90days")
        self.assertEqual(self.database.rows("SELECT pid FROM profile ORDER BY pid"), [[1], [2]])
        self.assertEqual(self.database.rows("SELECT DISTINCT pid FROM sample ORDER BY pid"), [[1], [2]])
        # The sums of the past days stay, until their own time is over.
        self.assertEqual(self.database.rows("SELECT pid FROM process_day ORDER BY pid"), [[2], [3]])
        self.fleet("schema", "--apply", "--keep-growth", "90days")
        self.assertEqual(self.database.rows("SELECT pid FROM process_day"), [[2]])
        self.assertEqual(self.database.rows("SELECT pid FROM growth_day"), [[2]])

    def test_a_host_with_a_wrong_clock_keeps_no_week_back(self):
        """The week that 1970 began in has a Monday before all times that the server knows."""
        for pid, moment in ((1, time.time()), (2, 5)):
            path = self.write(f"api.{pid}.0.i0.heap", {("main", "serve"): 10})
            os.utime(path, (moment, moment))
            relay = Loses(self, self.database.port, "nothing")
            self.send(path, port=relay.port)
            # Not one for each week since then.
            self.assertLess(relay.requests, 20)
        self.fleet("schema", "--apply", "--keep", "90days", "--keep-growth", "90days")
        for table in ("sample", "profile"):
            self.assertEqual(self.database.rows(f"SELECT pid FROM {table}"), [[1]])
        for table in ("growth_day", "process_day"):
            self.assertEqual(self.database.rows(f"SELECT count() FROM {table}"), [["0"]])

    def test_missing_tables_are_named_with_what_makes_them(self):
        self.database.ask(f"DROP DATABASE {self.database.name}")
        said = self.send(self.write("api.100.0.i0.heap", {("main", "serve"): 10}), code=1)[1]
        self.assertIn("heapctl fleet schema --apply", said)


class Encrypted(FleetCase):
    def test_only_a_certificate_of_a_known_authority_is_accepted(self):
        path = self.write("api.100.0.i0.heap", {("main", "serve"): 10})
        url = dict(scheme="clickhouses", host="localhost", port=self.database.https)
        said = self.send(path, code=1, **url)[1]
        self.assertRegex(said, "certificate")
        self.assertEqual(self.counts()[0], "0")
        self.environment["HEAPCTL_CACERT"] = str(self.database.certificate)
        self.send(path, **url)
        self.assertEqual(self.counts()[0], "1")
        # Another name than that of the certificate.
        self.assertRegex(self.send(path, code=1, **dict(url, host="127.0.0.1"))[1], "certificate|name")


class Refused(Case):
    """What a command line says that no database has to be asked for."""

    def test_a_version_is_not_compared_with_itself(self):
        words = "--service", "api", "--version", "v1", "--base-version", "v1", "--store", f"clickhouse://127.0.0.1:{free_port()}/heap"
        self.assertIn("--version and --base-version are the same", self.heapctl("fleet", "versions", *words, code=2)[1])


class Hostile(Case):
    """A server that is no ClickHouse, or one that lies."""

    def serve(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                answer(self)

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"clickhouse://127.0.0.1:{server.server_address[1]}/heap"

    @staticmethod
    def body(handler, status, text, **headers):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def refused(self, answer, part):
        path = os.path.join(self.folder, "api.100.0.i0.heap")
        pathlib.Path(path).write_text(profile_text({("main", "serve"): 10}))
        begin = time.monotonic()
        said = self.heapctl("send", path, "--retry", "0", "--to", self.serve(answer), code=1)
        self.assertRegex(said[1], part)
        self.assertIn("0 snapshots sent", said[0])
        self.assertLess(time.monotonic() - begin, 30)

    def test_answers_that_are_not_clickhouses(self):
        def rows(*values):
            return json.dumps({"meta": [], "data": values, "rows": len(values)}).encode()
        # The first question is for the version of the tables, and when they were made.
        for text, part in ((b"", "not ClickHouse's"), (b"<html>log in</html>", "not ClickHouse's"), (b"[" * 100000, "not ClickHouse's"),
                           (rows(["-1", "1"]), "other columns"), (rows(["1"]), "other columns"), (rows("1"), "other columns"),
                           (rows([1.5, "1"]), "other columns"), (rows([str(2 ** 64), "1"]), "other columns"),
                           (rows(["1", "1"]).replace(b'"rows": 1', b'"rows": 2'), "other columns"),
                           (rows(["1", "1"])[:-4], "not ClickHouse's"), (b'{"data":[[' + b"1," * (5 << 20) + b"1]]}", "too many values"),
                           (rows(["9", "1"]), "tables of version 9"), (rows(["1", "1"]), "tables of version 1, .* needs version 2"), (rows(["0", "0"]), "no tables of heapctl"),
                           (b'{"meta":[],"data":[["1"],\nCode: 241, e.displayText() = DB::Exception: Memory limit \x1b[31m exceeded, e.what()', r"Memory limit \\x1b")):
            with self.subTest(text=text[:60]):
                self.refused(lambda handler, text=text: self.body(handler, 200, text), part)

    def test_a_refused_statement_comes_with_the_grant_that_it_needs(self):
        def answer(handler):
            statement = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
            if statement.startswith(answer.refused):
                self.body(handler, 500, b"Code: 164, e.displayText() = DB::Exception: Cannot do that in readonly mode, e.what()")
            elif "version()" in statement:
                self.body(handler, 200, b'{"data": [["23.8.1"]], "rows": 1}')
            elif "groupArray" in statement:
                self.body(handler, 200, b'{"data": [["0", "0", "0", "0", "0"]], "rows": 1}')
            else:
                self.body(handler, 200, b'{"data": [], "rows": 0}' if statement.startswith("SELECT") else b"")
        for answer.refused, grants in (("CREATE DATABASE", "CREATE, SELECT and INSERT for the tables"), ("ALTER TABLE", "ALTER for --keep")):
            with self.subTest(answer.refused):
                url = self.serve(answer)
                said = self.heapctl("fleet", "schema", "--apply", "--keep", "9days", "--store", url, code=1)[1]
                self.assertIn("Cannot do that in readonly mode", said)
                self.assertIn(grants, said)
                self.assertNotIn("INSERT to send", said)

    def test_an_insert_that_answers_is_no_success(self):
        def answer(handler):
            handler.rfile.read(int(handler.headers["Content-Length"]))
            is_insert = "INSERT" in handler.path
            # Before the answer, after which the next question may come on another thread.
            asked, answer.asked = answer.asked, True
            self.body(handler, 200, b"Ok, really." if is_insert else b'{"data": [["2", "1"]], "rows": 1}' if not asked else b'{"data": [], "rows": 0}')
        answer.asked = False
        self.refused(answer, "answered 200: Ok, really")

    def test_other_places_and_endless_answers_are_refused(self):
        elsewhere = f"http://127.0.0.1:{free_port()}/"
        self.refused(lambda handler: self.body(handler, 302, b"", Location=elsewhere), "answered 302")

        def endless(handler):
            handler.send_response(200)
            handler.end_headers()
            try:
                while True:
                    handler.wfile.write(b" " * (1 << 20))
            except OSError:
                pass
        self.refused(endless, "more than 67108864 bytes")
        self.refused(lambda handler: self.body(handler, 500, b"x" * 10000), "answered 500|more than")


if __name__ == "__main__":
    unittest.main()
