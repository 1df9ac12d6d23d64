#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl serve --store: the page's view of a fleet and its URLs, with a real ClickHouse and a real Chromium."""
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.parse

import browser
from clickhouse import start_for_module
from gateway import GatewayCase
from json_schema import Schemas
from page_case import ViewCase
from processes import HEAPCTL, wait_until
from relay import Relay
from sampled_profiles import profile_text


def setUpModule():
    global server
    browser.require()
    server = start_for_module()


class Counts(Relay):
    """Counts the queries, and can hold answers back."""

    def __init__(self, case, server_port):
        self.queries, self.running, self.most = [], 0, 0
        self.lock, self.open = threading.Lock(), threading.Event()
        self.open.set()
        case.addCleanup(self.open.set)
        super().__init__(case, server_port)

    def forward(self, client, server):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)

        def back():
            while data := self.receive(server):
                self.open.wait()
                try:
                    client.sendall(data)
                except OSError:
                    break
        answers = threading.Thread(target=back, daemon=True)
        answers.start()
        while data := self.receive(client):
            if b"SELECT" in data:
                self.queries.append(data)
            server.sendall(data)
        server.shutdown(socket.SHUT_RDWR)
        with self.lock:
            self.running -= 1
        answers.join()

    @staticmethod
    def receive(peer):
        try:
            return peer.recv(65536)
        except OSError:
            return b""


class FleetCase(GatewayCase):
    """Eight hosts of a service in two versions, of which the later one leaks, one host has much, and one leaks elsewhere; and a second service."""

    HOSTS, SNAPSHOTS, STEP = 8, 5, 600
    is_filled = False

    def setUp(self):
        super().setUp()
        server.name = "fleet_page"
        self.login = (server.url(user="viewer"), "--store-password-file", server.viewer_file)
        if not FleetCase.is_filled:
            self.fill()
            FleetCase.is_filled = True

    def fill(self):
        chance = random.Random(18)
        to = ("--to", server.url(), "--password-file", server.password_file)
        self.heapctl("fleet", "schema", "--apply", "--store", *to[1:])
        for host in range(self.HOSTS):
            paths = []
            for at in range(self.SNAPSHOTS):
                sites = {("main", "serve", f"site{n}"): 200 + chance.randrange(-14, 15) for n in range(12)}
                sites[("main", "serve", "site4")] += 100 * at if host == 6 else 0
                sites[("main", "cache")] = 60 + chance.randrange(-7, 8) + (400 if host == 5 else 0)
                sites[("main", "serve", "leak")] = 50 + chance.randrange(-7, 8) + (60 * at if host % 2 else 0)
                path = os.path.join(self.folder, f"api.{1000 + host}.{at}.i{at}.heap")
                pathlib.Path(path).write_text(profile_text(sites, base=0x400000 + 0x10000 * host, build=host % 2))
                moment = time.time() - self.STEP * (self.SNAPSHOTS - 1 - at) - 30
                os.utime(path, (moment, moment))
                paths.append(path)
            self.heapctl("send", *paths, "--host", f"h{host}", "--version", "v3" if host % 2 else "v2", *to)
        path = os.path.join(self.folder, "web.7.0.i0.heap")
        pathlib.Path(path).write_text(profile_text({("main", "render"): 90}, program="/srv/web"))
        self.heapctl("send", path, "--host", "h0", *to)

    def serve(self, *words, store=None):
        # Without targets of its own: those of the machine are nothing to the fleet.
        return self.start_gateway("--store", *(store or self.login), *words, "no-such-target")

    def ask_fleet(self, path, status=200, **values):
        query = urllib.parse.urlencode(values)
        return self.expect(self.get(f"/api/v1/fleet{path}{'?' + query if query else ''}"), status)


class Answers(FleetCase):
    def test_the_urls_give_what_the_command_prints(self):
        self.serve()
        schemas = Schemas(self.get("/openapi.json").json["components"]["schemas"])
        viewer = ("--store", server.url(user="viewer"), "--password-file", server.viewer_file)

        def check(answer, schema):
            self.assertEqual(schemas.problems(answer, {"$ref": f"#/components/schemas/{schema}"}), [])
            return answer
        self.assertEqual(check(self.ask_fleet("").json, "Fleet"), {"store": server.url(user="viewer")})
        hosts = check(self.ask_fleet("/hosts").json, "FleetHosts")["hosts"]
        self.assertEqual({(row["service"], row["version"], row["host"]) for row in hosts},
                         {("api", "v3" if host % 2 else "v2", f"h{host}") for host in range(self.HOSTS)} | {("web", "", "h0")})
        for question, more in (("top", {}), ("growth", {}), ("versions", {"service": "api"}), ("outliers", {"service": "api"})):
            with self.subTest(question):
                found = check(self.ask_fleet("/sites", question=question, **more).json, "FleetSites")
                printed = json.loads(self.heapctl("fleet", question, "--json", *(f"--{key}={value}" for key, value in more.items()), *viewer)[0])
                self.assertEqual([site["site"] for site in found["sites"]], [site["site"] for site in printed["sites"]][:100])
        self.assertEqual([site["frames"][-1] for site in self.ask_fleet("/sites", question="growth").json["sites"] if site["adjusted_p"] < 0.05], ["leak"])
        self.assertEqual(len(self.ask_fleet("/sites", question="top", limit=3).json["sites"]), 3)
        view = self.ask_fleet("/picture", question="flame", service="api").json
        printed = json.loads(self.heapctl("fleet", "flame", "--service", "api", "--json", *viewer)[0])
        figures = [sorted((node["name"], node["flat"]["value"], node["flat"]["standard_error"]) for node in each["nodes"]) for each in (view, printed)]
        for (name, value, error), (other, wanted, its_error) in zip(*figures, strict=True):
            self.assertEqual(name, other)
            self.assertAlmostEqual(value, wanted, delta=1e-9 * wanted + 1e-9)
            self.assertAlmostEqual(error, its_error, delta=1e-9 * its_error + 1e-9)

    def test_each_form_is_drawn_from_one_answer(self):
        relay = Counts(self, server.port)
        self.serve(store=(server.url(user="viewer", port=relay.port), "--store-password-file", server.viewer_file))
        values = {"question": "flame", "service": "api", "to_ms": int(time.time() * 1000)}
        self.assertIn("main;serve;leak ", self.ask_fleet("/picture", format="collapsed", **values).text)
        asked = len(relay.queries)
        for form, words in (("text", "leak"), ("tree", "leak"), ("graph", "<svg"), ("flame", "<!doctype html>"), ("flame-data", "leak"), ("json", "leak")):
            with self.subTest(form):
                self.assertIn(words, self.ask_fleet("/picture", format=form, **values).text)
        rows = self.ask_fleet("/picture", format="rows", sort="name", first=1, limit=2, **values).json
        self.assertEqual((rows["count"], [row["name"] for row in rows["rows"]]), (16, ["leak", "main"]))
        self.assertEqual([row["name"] for row in self.ask_fleet("/picture", format="rows", rows="^leak$", **values).json["rows"]], ["leak"])
        self.assertEqual(len(relay.queries), asked)
        diff = self.ask_fleet("/picture", question="diff", service="api", last_ms=600000, ago_ms=1200000, format="rows").json
        self.assertEqual(diff["rows"][0]["name"], "leak")
        self.assertEqual(self.ask_fleet("/picture", format="flame", **values).headers["Content-Type"], "text/html; charset=utf-8")

    def test_what_cannot_be_asked_is_refused(self):
        self.serve()
        for path, values, status, words in (
                ("/sites", {"question": "versions"}, 400, "of one service"), ("/sites", {"question": "outliers"}, 400, "of one service"),
                ("/sites", {"question": "hosts"}, 400, "question"), ("/sites", {}, 400, "question"),
                ("/sites", {"question": "growth", "base_version": "v2"}, 400, "base_version"),
                ("/sites", {"question": "versions", "service": "api", "version": "v3"}, 400, "together"),
                ("/sites", {"question": "versions", "service": "api", "version": "v3", "base_version": "v3"}, 400, "are the same"),
                ("/sites", {"question": "versions", "service": "web"}, 404, "fewer than two versions"),
                ("/picture", {"question": "flame", "ago_ms": 60000}, 400, "ago_ms"), ("/picture", {"question": "flame", "format": "pprof"}, 400, "format"),
                ("/picture", {"question": "flame", "service": "nothing"}, 404, "no snapshot"),
                ("/hosts", {"label": "zone"}, 400, "label"), ("/hosts", {"service": ""}, 400, "service"),
                ("/hosts", {"from_ms": 5000000, "to_ms": 4000000}, 400, "before its end")):
            with self.subTest(path=path, **values):
                answer = self.ask_fleet(path, status, **values)
                self.assertIn(words, answer.json["error"]["message"])
        # None of these was a failure of the database.
        self.ask_fleet("/hosts")
        for words in (("--store", "pyroscope://x"), ("--store", "http://x"), ("--store", "clickhouse://u:secret@x/heap"), ("--store-password-file", "x")):
            self.assertNotIn("secret", self.heapctl("serve", *words, code=2)[1])

    def test_a_gateway_without_a_store_says_so(self):
        self.start_gateway("no-such-target")
        self.assertEqual(self.ask_fleet("").json, {"store": None})
        self.assertIn("--store", self.ask_fleet("/hosts", 404).json["error"]["hint"])


class Load(FleetCase):
    def start_relayed(self):
        relay = Counts(self, server.port)
        self.serve(store=(server.url(user="viewer", port=relay.port), "--store-password-file", server.viewer_file))
        return relay

    def test_few_questions_run_at_a_time_and_each_is_asked_once(self):
        relay = self.start_relayed()
        to_ms = int(time.time() * 1000)
        relay.open.clear()
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            same = [pool.submit(self.ask_fleet, "/hosts", to_ms=to_ms) for _ in range(20)]
            others = [pool.submit(self.ask_fleet, "/hosts", to_ms=to_ms, limit=limit) for limit in range(1, 9)]
            wait_until(lambda: relay.running == 2, "two questions")
            # Other requests are answered meanwhile.
            self.expect(self.get("/api/v1/targets"), 200)
            relay.open.set()
            for each in same + others:
                each.result()
        self.assertEqual(relay.most, 2)
        # One more than are shown: whether there are more is told.
        asked = [data for data in relay.queries if b"LIMIT 1001" in data]
        self.assertEqual(len(asked), 1)

    def test_a_database_that_is_down_is_left_alone_for_a_while(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        self.serve(store=(server.url(user="viewer", port=port), "--store-password-file", server.viewer_file))
        answer = self.ask_fleet("/hosts", 502)
        self.assertIn("Couldn't connect to server", answer.json["error"]["message"])
        self.assertIn("check that the server runs", answer.json["error"]["message"])
        accepted = []
        with socket.create_server(("127.0.0.1", port)) as listener:
            # It is there again, and is not asked yet: the same failure is the answer, also to another question.
            self.assertEqual(self.ask_fleet("/sites", 502, question="top").json, answer.json)
            listener.settimeout(0.2)
            try:
                accepted.append(listener.accept())
            except TimeoutError:
                pass
        self.assertEqual(accepted, [])

    def test_a_wrong_password_is_told_in_words(self):
        self.serve(store=(server.url(user="viewer"), "--store-password-file", server.password_file))
        answer = self.ask_fleet("/hosts", 502).json["error"]
        self.assertIn("--password-file", answer["message"])


class Shown(FleetCase, ViewCase):
    def open_page(self, fragment="//fleet", **options):
        return super().open_page(fragment, **options)

    def test_from_hosts_to_the_flame_graph_of_a_version(self):
        self.serve()
        page = self.open_page("/")
        page.click("#fleet")
        page.wait_for_text("Services and versions")
        self.assertEqual(page.evaluate("document.querySelectorAll('section table')[0].tBodies[0].rows.length"), 3)
        self.assertEqual(page.evaluate("document.querySelectorAll('section table')[1].tBodies[0].rows.length"), self.HOSTS + 1)
        # 90 samples: half of the interval is more than 1.96 standard errors.
        self.assertRegex(page.text("table.cards"), "407 KiB \u00b1 74.5 KiB")
        page.click("table.cards a", "v3")
        page.wait_for("document.querySelector('.flame canvas')")
        page.wait_for_text("leak", ".fg-functions")
        page.wait_for_text("version v3", ".flame")
        self.assertIn("service=api", page.evaluate("location.hash"))
        page.click_on("Table")
        page.wait_for_text("16 rows", ".table-box")
        page.wait_for_text("\u00b1", ".rows")
        page.click_on("Call graph")
        page.wait_for("document.querySelector('.graph svg .node')")
        other = self.open_page(page.evaluate("location.hash").lstrip("#"))
        other.wait_for("document.querySelector('.graph svg .node')")
        other.choose("select", "web")
        other.wait_for_text("render", ".graph svg")
        for each in (page, other):
            self.assertEqual(each.serious_complaints(), [])
        self.assertEqual({url.split("/")[2] for url in page.requests() if url.startswith("http")}, {f"127.0.0.1:{self.port}"})

    def test_what_grew_differs_and_deviates(self):
        self.serve()
        page = self.open_page()
        page.wait_for_text("Services and versions")
        page.click_on("Growth")
        page.wait_for_text("1 site grows", ".panel h2")
        self.assertRegex(page.text(".panel .site"), r"(?s)leak under serve.*4 hosts.*\+\d.*MiB/h.*\u00b1.*api v3, chance")
        page.click(".panel .site summary")
        page.wait_for_text("main", ".stack")
        page.click_on("Versions")
        page.wait_for_text("choose a service")
        page.choose("select", "api")
        page.wait_for_text("Version v3 against v2.")
        page.wait_for_text("1 site differs", ".panel h2")
        page.click_on("Outliers")
        page.wait_for_text("1 host and site grows as other hosts do not", ".panel h2")
        self.assertRegex(page.text(".panel .site"), r"(?s)site4 under serve.*\+\d.*MiB/h.*usual.*/h; in use.*median.*h6, chance")
        self.assertEqual(page.text(".panel + .panel h2"), "Far above the median")
        self.assertRegex(page.text(".panel + .panel .site"), r"(?s)cache under main.*KiB.*median.*h5, \d+ deviations")
        page.click_on("What changed")
        page.wait_for_text("Nothing of that time")
        page.wait_for_text("which would be compared with", ".empty")
        self.assertNotIn("--ago", page.text(".empty"))
        page.choose("label:nth-of-type(5) select", "30 minutes earlier")
        page.wait_for("document.querySelector('.flame canvas')")
        self.assertEqual([complaint for complaint in page.serious_complaints() if "404" not in complaint], [])

    def test_a_view_that_is_none_is_named(self):
        self.serve()
        page = self.open_page("//fleet?show=grwth")
        page.wait_for_text("There is no view \u2018grwth\u2019 of the fleet", ".problem-box")
        self.assertEqual(page.accessibility_faults(), [])
        page.click_on("Growth", ".tabs a")
        page.wait_for_text("grows", ".panel h2")
        self.assertEqual(page.serious_complaints(), [])

    def test_it_fits_a_small_screen(self):
        self.serve()
        page = self.open_page(width=390, height=700)
        page.wait_for_text("Services and versions")
        self.check_view(page, "hosts")
        page.click_on("Growth")
        page.wait_for_text("grows", ".panel h2")
        self.check_view(page, "growth")
        page.click_on("Versions")
        page.wait_for_text("choose a service")
        page.choose("select", "api")
        page.wait_for_text("differs", ".panel h2")
        self.check_view(page, "versions")

    def test_a_question_that_takes_long_is_cancelled_in_the_database_too(self):
        relay = Counts(self, server.port)
        self.serve(store=(server.url(user="viewer", port=relay.port), "--store-password-file", server.viewer_file))
        page = self.open_page()
        page.wait_for_text("Services and versions")
        relay.open.clear()
        for start, shown in ((lambda: page.click("table.cards a", "v3"), "document.querySelector('.flame canvas')"),
                             (lambda: page.click_on("Growth"), "document.querySelector('.panel .site')")):
            start()
            page.wait_for_text("Cancel", ".waiting")
            page.wait_for_text("s", ".waiting span")
            wait_until(lambda: relay.running == 1, "the question")
            self.assertEqual(page.accessibility_faults(), [])
            page.click_on("Cancel")
            page.wait_for_text("Cancelled after", ".empty")
            wait_until(lambda: relay.running == 0, "the end of the question")
            relay.open.set()
            # "Draw again", or "Ask again": in a new minute the view asks for its hosts first.
            page.click(".empty button")
            page.wait_for(shown)
            relay.open.clear()
        self.assertEqual(page.serious_complaints(), [])

    def test_a_database_that_is_down_is_told_in_plain_words(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        self.serve(store=(server.url(user="viewer", port=port), "--store-password-file", server.viewer_file))
        page = self.open_page()
        page.wait_for_text("Couldn't connect to server", ".problem-box")
        page.click_on("Try again")
        page.wait_for_text("Couldn't connect to server", ".problem-box")

    def test_without_a_store_the_page_says_what_it_needs(self):
        self.start_gateway("no-such-target")
        page = self.open_page()
        page.wait_for_text("heapctl serve --store")
        self.assertFalse(page.evaluate("Boolean(document.querySelector('#fleet').offsetParent)"))
        self.assertEqual(page.serious_complaints(), [])


class Endless(ViewCase):
    def test_a_question_ends_in_the_database_once_no_client_waits_for_it(self):
        """The server itself works on: 18.16 does not look at its client before it has an answer."""
        server.name = "fleet_endless"
        self.heapctl("fleet", "schema", "--apply", "--store", server.url(), "--password-file", server.password_file)
        server.make_endless("profile")
        login = (server.url(user="viewer"), "--store-password-file", server.viewer_file)
        self.start_gateway("--store", *login, "no-such-target")
        page = self.open_page("//fleet")
        wait_until(lambda: server.queries_of("viewer"), "the question of the page")
        page.wait_for_text("Cancel", ".waiting")
        page.click_on("Cancel")
        page.wait_for_text("Cancelled after", ".empty")
        wait_until(lambda: not server.queries_of("viewer"), "the end of the question of the page")
        command = self.start(HEAPCTL, "fleet", "hosts", "--store", login[0], "--password-file", login[2], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: server.queries_of("viewer"), "the question of the command")
        command.send_signal(signal.SIGINT)
        self.assertIn("cancelled", command.communicate()[1])
        self.assertEqual(command.returncode, 1)
        wait_until(lambda: not server.queries_of("viewer"), "the end of the question of the command")
        self.assertEqual(page.serious_complaints(), [])


if __name__ == "__main__":
    unittest.main()
