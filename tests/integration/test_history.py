# SPDX-License-Identifier: Apache-2.0
"""heapctl serve --history: the timeline, a snapshot, two compared, and what a kill of the gateway leaves."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from gateway import FakeAgent, GatewayCase, fake_status
from processes import SANITIZED, faketime_library, own_name, stop, wait_until
from store_files import profiles, rows

RESTARTED, JUMPED = own_name("again"), own_name("jump")


class Served(GatewayCase):
    def setUp(self):
        super().setUp()
        self.archive = os.path.join(self.folder, "history")
        self.server, self.redis_port = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12")
        self.wait_for_agent(self.server.pid)

    def serve(self, *arguments):
        return self.start_gateway("--history", self.archive, "--history-every", "1s", *arguments, self.server.pid)

    def snapshots(self, query=""):
        return self.expect(self.get(f"/api/v1/timeline{query}"), 200).json["snapshots"]

    def wait_for_snapshots(self, count):
        wait_until(lambda: len(self.snapshots()) >= count, f"{count} snapshots", pause_seconds=0.1)
        return self.snapshots()

    def test_a_folder_that_was_removed_or_replaced_is_reported_and_checked(self):
        log = open(os.path.join(self.folder, "serve.log"), "w+")
        self.addCleanup(log.close)

        def said():
            return pathlib.Path(log.name).read_text()

        def is_stored_in(folder):
            return list(pathlib.Path(folder).glob("*.heap.zst"))
        self.start_gateway("--history", self.archive, "--history-every", "1s", self.server.pid, stderr=log)
        self.wait_for_snapshots(1)
        shutil.rmtree(self.archive)
        wait_until(lambda: "history: its folder was removed or replaced" in said(), "the first message")
        wait_until(lambda: is_stored_in(self.archive), "a snapshot in the new folder")
        # A link to a folder that other users can change gets nothing.
        foreign, elsewhere = os.path.join(self.folder, "foreign"), os.path.join(self.folder, "elsewhere")
        os.mkdir(foreign)
        os.chmod(foreign, 0o777)
        os.rename(self.archive, elsewhere)
        os.symlink(foreign, self.archive)
        wait_until(lambda: "may be written to by others" in said(), "the refusal")
        self.assertEqual(os.listdir(foreign), [])
        # The folder is back: so are its snapshots.
        os.unlink(self.archive)
        os.rename(elsewhere, self.archive)
        wait_until(lambda: said().count("was removed or replaced") == 2, "the second message")
        # SQLite names its file without links: another link does not move it.
        own = os.path.join(self.folder, "own")
        os.mkdir(own, 0o700)
        os.rename(self.archive, elsewhere)
        os.symlink(elsewhere, self.archive)
        wait_until(lambda: len(is_stored_in(elsewhere)) > 2, "snapshots through a link")
        os.unlink(self.archive)
        os.symlink(own, self.archive)
        wait_until(lambda: os.path.exists(os.path.join(own, "index.sqlite")) and is_stored_in(own), "a snapshot behind another link")
        os.unlink(self.archive)
        os.symlink(foreign, self.archive)
        wait_until(lambda: said().count("may be written to by others") >= 2, "the second refusal")
        self.assertEqual(os.listdir(foreign), [])

    def test_two_moments_are_listed_drawn_and_compared(self):
        self.serve()
        self.wait_for_snapshots(1)
        before = self.snapshots()[-1]
        self.load_redis(self.redis_port, keys=30000, size=1000)
        seen = len(self.snapshots())
        after = self.wait_for_snapshots(seen + 2)[-1]
        self.assertEqual((after["target"], after["pid"]), ("redis-server", self.server.pid))
        self.assertGreater(after["allocated"], before["allocated"] + 25e6)
        self.assertGreater(after["rss"], 30e6)
        self.assertEqual([snapshot["id"] for snapshot in self.snapshots(f"?from_ms={after['time_ms']}")][0], after["id"])
        self.assertEqual(self.snapshots(f"?to_ms={before['time_ms'] - 100000000}"), [])

        raw = self.expect(self.get(f"/api/v1/snapshot?format=raw&at_ms={after['time_ms']}"), 200)
        self.assertTrue(raw.text.startswith("heap_v2/4096"))
        self.assertTrue(raw.text.endswith("\n#process redis-server\n"))
        self.assertEqual(raw.headers["Heapctl-Time-Ms"], str(after["time_ms"]))
        text = self.expect(self.get(f"/api/v1/snapshot?format=text&at_ms={after['time_ms']}&base_ms={before['time_ms']}"), 200).text
        self.assertIn("sds", text)
        self.assertIn("createStringObject", text)
        flame = self.expect(self.get(f"/api/v1/snapshot?format=flame&at_ms={after['time_ms']}"), 200)
        self.assertIn("sandbox", flame.headers["Content-Security-Policy"])

    def test_a_moment_between_two_is_the_one_before(self):
        self.serve()
        first, second = self.wait_for_snapshots(2)[:2]
        for at_ms, expected in ((second["time_ms"] - 1, first), (second["time_ms"], second), (0, first)):
            answer = self.expect(self.get(f"/api/v1/snapshot?format=raw&at_ms={at_ms}"), 200)
            self.assertEqual(answer.headers["Heapctl-Time-Ms"], str(expected["time_ms"]))

    def test_it_is_there_after_kill_and_after_the_target_has_ended(self):
        gateway = self.serve()
        kept = self.wait_for_snapshots(2)
        gateway.kill()
        gateway.wait()
        self.serve()
        self.assertEqual(self.snapshots()[:len(kept)], kept)
        self.end(self.server)
        path = "/targets/redis-server"
        snapshots = self.expect(self.get(f"{path}/api/v1/timeline"), 200).json["snapshots"]
        self.assertEqual(snapshots[:len(kept)], kept)
        self.assertIn("aeCreateEventLoop", self.expect(self.get(f"{path}/api/v1/snapshot?format=text"), 200).text)

    def fill_until_snapshots(self, count, port=None):
        """A Redis that grows from one snapshot to the next."""
        known = -1
        while known < count:
            known += wait_until(lambda: len(self.snapshots()) - known, "a snapshot", pause_seconds=0.1)
            self.load_redis(port or self.redis_port, keys=500 * (known + 1), size=700)
        return self.snapshots()

    def test_a_trend_over_a_range(self):
        self.serve()
        snapshots = self.fill_until_snapshots(6)
        span = f"from_ms={snapshots[0]['time_ms']}&to_ms={snapshots[5]['time_ms']}"
        answer = self.expect(self.get(f"/api/v1/trend?{span}&by=stacks"), 200)
        self.assertEqual((answer.headers["Heapctl-Moments"], answer.headers["Heapctl-Processes"]), ("6", "1"))
        trend = answer.json
        self.assertEqual(trend["first_ms"], snapshots[0]["time_ms"])
        self.assertEqual([round(hours * 3600000) for hours in trend["hours"]],
                         [snapshot["time_ms"] - snapshots[0]["time_ms"] for snapshot in snapshots[:6]])
        self.assertGreater(trend["total"]["rate_per_hour"], 0)
        self.assertTrue([site for site in trend["sites"] if "sds" in site["stack"]])
        self.assertEqual(len(self.get(f"/api/v1/trend?{span}&top=2").json["sites"]), 2)
        self.assertEqual(len(self.get(f"/api/v1/trend?{span}&max=3").json["hours"]), 3)
        self.assertIn("6 profiles", self.expect(self.get(f"/api/v1/trend?{span}&format=text"), 200).text)
        for drawn, kind in (("svg", "<svg"), ("html", "<!doctype html>")):
            answer = self.expect(self.get(f"/api/v1/trend?{span}&format={drawn}"), 200)
            self.assertIn(kind, answer.text)
            self.assertIn("sandbox", answer.headers["Content-Security-Policy"])
        # The profiles themselves say the same on another machine.
        series = os.path.join(self.folder, "series.tar")
        pathlib.Path(series).write_bytes(self.expect(self.get(f"/api/v1/trend?{span}&format=raw"), 200).body)
        said, _ = self.heapctl("trend", "--json", "--stacks", series)
        self.assertEqual(json.loads(said)["hours"], trend["hours"])
        # Without a file in between, of the target behind the gateway: all that was kept.
        said, _ = self.heapctl("trend", "--json", "--stacks", self.url)
        self.assertEqual(json.loads(said)["hours"][:len(trend["hours"])], trend["hours"])
        for query, words in ((f"from_ms={snapshots[0]['time_ms']}&to_ms={snapshots[0]['time_ms']}", "only one snapshot"), ("to_ms=5", "no snapshot")):
            self.assertIn(words, self.expect(self.get(f"/api/v1/trend?{query}"), 404).text)
        self.expect(self.get(f"/api/v1/trend?{span}&focus=("), 400)

    def test_figures_that_were_lost_with_the_index_are_not_called_zero(self):
        gateway = self.serve()
        known = self.wait_for_snapshots(2)
        self.end(gateway)
        for path in pathlib.Path(self.archive).glob("index.sqlite*"):
            path.unlink()
        log = os.path.join(self.folder, "gateway.log")
        with open(log, "wb") as said:
            self.start_gateway("--history", self.archive, "--history-every", "24hrs", self.server.pid, stderr=said)
        again = self.snapshots()[0]
        self.assertEqual((again["time_ms"], again["pid"], again["rss"], again["allocated"]), (known[0]["time_ms"], known[0]["pid"], None, None))
        self.assertRegex(pathlib.Path(log).read_text(), r"history: its index was gone; \d+ profiles are listed again")
        self.assertIn("aeCreateEventLoop", self.expect(self.get(f"/api/v1/snapshot?format=text&id={again['id']}"), 200).text)

    def test_a_damaged_profile_is_named_and_costs_no_trend(self):
        self.serve()
        first, second, _, fourth = self.wait_for_snapshots(4)[:4]
        name = next(row[1] for row in rows(self.archive) if row[0] == first["id"])
        path = pathlib.Path(self.archive, name)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xff
        path.write_bytes(data)
        snapshot = rf"^what was in use at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC: byte \d+: bad zstd data"
        for query in (f"id={first['id']}", f"id={second['id']}&base={first['id']}"):
            answer = self.expect(self.get(f"/api/v1/snapshot?format=text&{query}"), 400)
            self.assertRegex(answer.json["error"]["message"], snapshot)
        answer = self.expect(self.get(f"/api/v1/trend?to_ms={second['time_ms']}"), 400)
        self.assertIn(f"{self.archive}({first['time_ms']}-{first['pid']}.heap.zst): byte", answer.json["error"]["message"])
        trend = self.expect(self.get(f"/api/v1/trend?to_ms={fourth['time_ms']}"), 200).json
        self.assertEqual((trend["damaged"], len(trend["hours"]), trend["first_ms"]), (1, 3, second["time_ms"]))
        for drawn in ("text", "svg"):
            self.assertIn("1 damaged and left out", self.expect(self.get(f"/api/v1/trend?to_ms={fourth['time_ms']}&format={drawn}"), 200).text)

    def test_every_choice_that_is_described_is_answered(self):
        self.serve()
        snapshots = self.wait_for_snapshots(3)
        paths = self.expect(self.get("/openapi.json"), 200).json["paths"]
        values = {"from_ms": snapshots[0]["time_ms"], "to_ms": snapshots[2]["time_ms"], "pid": snapshots[0]["pid"],
                  "started_ms": snapshots[0]["started_ms"], "max": 2, "most": 2, "top": 1, "id": snapshots[1]["id"], "base": snapshots[0]["id"],
                  "at_ms": snapshots[1]["time_ms"], "base_ms": snapshots[0]["time_ms"], "focus": ".", "ignore": "nothing", "exclude": "nothing",
                  **dict.fromkeys(("show", "show_from", "function", "rows"), "."), "hide": "nothing", "first": 1, "limit": 10, "frames": 100,
                  "root": "main", "bytes": "1:", "thread": 0, "prune_from": ".", "tagignore": "bytes=:1"}
        asked = 0
        for name in ("archive", "timeline", "snapshot", "trend"):
            for parameter in paths[f"/api/v1/{name}"]["get"]["parameters"] or [None]:
                choices = [""] if parameter is None else parameter["schema"].get("enum") or [values[parameter["name"]]]
                for choice in choices:
                    query = f"?{parameter['name']}={choice}" if parameter else ""
                    with self.subTest(f"{name}{query}"):
                        # jemalloc, which took these samples, does not count temporary allocations; the gateway has no --source-root and no --disasm.
                        expected = {"?churn=1": 400, "?format=source": 403, "?format=disasm": 403}.get(query, 200)
                        answer = self.expect(self.get(f"/api/v1/{name}{query}"), expected)
                        self.assertEqual(b"temporary allocations" in answer.body, query == "?churn=1")
                        asked += 1
        self.assertGreater(asked, 40)

    def test_processes_of_one_name_are_distinguished(self):
        name = RESTARTED
        server, _ = self.start_named_redis(name)
        self.start_gateway("--history", self.archive, "--history-every", "1s")
        base = f"/targets/{name}/api/v1"
        timeline = lambda query="": self.expect(self.get(f"{base}/timeline{query}"), 200).json
        wait_until(lambda: len(timeline()["snapshots"]) >= 2, "two snapshots")
        self.end(server)
        again, _ = self.start_named_redis(name)
        wait_until(lambda: len(timeline(f"?pid={again.pid}")["snapshots"]) >= 2, "two snapshots of the next process")
        first, second = timeline()["processes"]
        self.assertEqual([first["pid"], second["pid"]], [server.pid, again.pid])
        self.assertLess(first["last_ms"], second["started_ms"] + 1)
        # A restart is part of the series.
        restarted = self.expect(self.get(f"{base}/trend"), 200)
        self.assertEqual(restarted.headers["Heapctl-Processes"], "2")
        self.assertEqual(set(restarted.json["runs"]), {0, 1})
        only = timeline(f"?pid={second['pid']}&started_ms={second['started_ms']}")
        self.assertEqual({snapshot["pid"] for snapshot in only["snapshots"]}, {again.pid})
        # Two at the same time are no series.
        self.start_named_redis(name)
        wait_until(lambda: len(timeline()["processes"]) == 3, "a third process")
        wait_until(lambda: self.get(f"{base}/trend").status == 409, "two processes at the same time")
        self.assertIn("at the same time", self.get(f"{base}/trend").text)
        _, messages = self.heapctl("trend", f"{self.url}{base.removesuffix('/api/v1')}", code=1)
        self.assertIn("at the same time", messages)
        self.expect(self.get(f"{base}/trend?pid={again.pid}"), 200)
        named = {entry["name"]: entry for entry in self.expect(self.get("/api/v1/archive"), 200).json["targets"]}
        self.assertEqual(named[name]["processes"], 3)

    def test_a_target_that_hangs_delays_the_history_of_no_other(self):
        agent = FakeAgent(self.agents, lambda method, target: (200, fake_status()) if target == "/v1/status" else None)
        self.start_gateway("--history", self.archive, "--history-every", "1s", agent.path, self.server.pid)
        self.addCleanup(agent.close)
        wait_until(lambda: [r for r in agent.requests if r[1] == "/v1/profile"], "the hanging agent to be asked for a profile")
        path = f"/targets/{self.server.pid}/api/v1/timeline"
        known = len(self.get(path).json["snapshots"])
        wait_until(lambda: len(self.get(path).json["snapshots"]) >= known + 3, "three more snapshots of the other")
        self.assertEqual(len([r for r in agent.requests if r[1] == "/v1/profile"]), 1)

    def test_the_end_does_not_wait_for_targets_that_hang_and_loses_no_moment(self):
        agent = FakeAgent(self.agents, lambda method, target: (200, fake_status()) if target == "/v1/status" else None)
        self.addCleanup(agent.close)
        arguments = ("--history", self.archive, "--history-every", "1s", agent.path, self.server.pid)
        gateway = self.start_gateway(*arguments)
        path = f"/targets/{self.server.pid}/api/v1"
        snapshots = lambda: self.expect(self.get(f"{path}/timeline"), 200).json["snapshots"]
        wait_until(lambda: len(snapshots()) >= 2, "two snapshots")
        wait_until(lambda: [r for r in agent.requests if r[1] == "/v1/profile"], "the hanging agent to be asked for a profile")
        stop(self.server.pid)
        self.addCleanup(os.kill, self.server.pid, signal.SIGCONT)
        asked = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(asked.close)
        asked.sendall(f"GET /targets/{self.server.pid}/v1/profile HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        known = snapshots()
        gateway.terminate()
        # Each of the calls may take two minutes.
        self.assertEqual(gateway.wait(60), 0)
        os.kill(self.server.pid, signal.SIGCONT)
        self.start_gateway(*arguments)
        again = {snapshot["id"]: snapshot for snapshot in snapshots()}
        for snapshot in known:
            self.assertEqual(again[snapshot["id"]], snapshot)
            self.expect(self.get(f"{path}/snapshot?id={snapshot['id']}"), 200)

    def test_a_moment_by_its_id(self):
        self.serve()
        first, second = self.wait_for_snapshots(2)[:2]
        answer = self.expect(self.get(f"/api/v1/snapshot?format=text&id={second['id']}&base={first['id']}"), 200)
        # The former names stay until the next release.
        former = self.expect(self.get(f"/api/v1/moment?format=text&id={second['id']}&base={first['id']}"), 200)
        self.assertEqual(former.text, answer.text)
        timeline = self.get("/api/v1/timeline?most=2").json
        self.assertEqual(timeline["moments"], timeline["snapshots"])
        self.assertEqual([process["moments"] for process in timeline["processes"]], [process["snapshots"] for process in timeline["processes"]])
        self.assertEqual(answer.headers["Heapctl-Time-Ms"], str(second["time_ms"]))
        self.expect(self.get("/api/v1/snapshot?id=99999"), 404)
        self.expect(self.get(f"/api/v1/snapshot?id={second['id']}&base=99999"), 404)
        self.assertLessEqual(len(self.snapshots("?max=2")), 2)

    def test_a_clock_that_jumps_and_a_target_that_restarts_lose_nothing(self):
        if SANITIZED:
            self.skipTest("a sanitizer wants to be preloaded first")
        day_ms = 24 * 3600 * 1000
        clock = pathlib.Path(self.folder, "clock")
        captures = os.path.join(self.folder, "captures")
        rules = pathlib.Path(self.folder, "watch.conf")
        rules.write_text(f"[{JUMPED}]\nwhen = every=1s\ninterval = 50ms\nkeep = {captures}\nkeep-free = 0\nkeep-count = 1000\n")
        rules.chmod(0o600)

        def set_clock(offset):
            clock.with_suffix(".new").write_text(offset)
            clock.with_suffix(".new").rename(clock)

        def captured():
            return sum(name.endswith(".heap") for name in os.listdir(captures)) if os.path.isdir(captures) else 0

        server, port = self.start_named_redis(JUMPED)
        set_clock("+0")
        self.start_gateway("--history", self.archive, "--history-every", "1s", "--watch-file", str(rules), JUMPED,
                           env=dict(LD_PRELOAD=faketime_library(), FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1",
                                    FAKETIME_DONT_FAKE_MONOTONIC="1"))
        path = f"/targets/{JUMPED}"

        def snapshots():
            return self.expect(self.get(f"{path}/api/v1/timeline"), 200).json["snapshots"]

        def wait_for_two(min_ms, max_ms, pid):
            def found():
                new = [m for m in snapshots() if min_ms <= m["time_ms"] <= max_ms and m["pid"] == pid]
                return len(new) >= 2 and new
            return wait_until(found, f"two snapshots of {pid} from {min_ms} to {max_ms}")

        first_pid = server.pid
        kept = wait_for_two(0, day_ms * 10**6, first_pid)
        now_ms = kept[0]["time_ms"]
        phases = [kept]
        # Captures and snapshots are taken again at once, although the clock was set back.
        for offset, days in (("+20d", 20), ("-20d", -20)):
            before = captured()
            set_clock(offset)
            phases.append(wait_for_two(now_ms + days * day_ms - 3600000, now_ms + days * day_ms + 3600000, first_pid))
            wait_until(lambda before=before: captured() >= before + 2, "two more captures")
        server.kill()
        server.wait()
        server, _ = self.start_named_redis(JUMPED, port)
        phases.append(wait_for_two(now_ms - 21 * day_ms, now_ms - 19 * day_ms, server.pid))
        set_clock("+0")
        phases.append(wait_for_two(now_ms, now_ms + day_ms, server.pid))
        # Nothing acknowledged is lost, and later snapshots have higher numbers whatever their time.
        identities = [m["id"] for m in snapshots()]
        for phase in phases:
            for snapshot in phase:
                self.assertIn(snapshot["id"], identities)
                answer = self.expect(self.get(f"{path}/api/v1/snapshot?format=raw&at_ms={snapshot['time_ms']}"), 200)
                self.assertEqual(answer.headers["Heapctl-Time-Ms"], str(snapshot["time_ms"]))
        order = [max(m["id"] for m in phase) for phase in phases]
        self.assertEqual(order, sorted(order))
        both = {str(first_pid), str(server.pid)}
        wait_until(lambda: {name.split(".")[-2] for name in os.listdir(captures) if name.endswith(".heap")} == both, "captures of both")

    def test_what_is_too_old_or_too_much_goes(self):
        self.serve("--history-keep", "2s")
        last = self.wait_for_snapshots(2)[-1]["id"]
        wait_until(lambda: self.snapshots()[0]["id"] > last, "old snapshots to go")
        self.assertLessEqual(len(self.snapshots()), 4)
        # The list and the folder are read while snapshots come and go.
        wait_until(lambda: len(profiles(self.archive)) == len(rows(self.archive)), "as many files as rows")

    def test_a_limit_of_bytes_keeps_the_newest(self):
        self.serve("--history-bytes", "1")
        wait_until(lambda: self.snapshots() and self.snapshots()[-1]["id"] >= 3, "three snapshots")
        # Of two the older goes once the newer is safe.
        wait_until(lambda: len(self.snapshots()) == 1, "the newest alone")

    def test_one_gateway_at_a_time(self):
        self.serve()
        _, said = self.heapctl("serve", "--history", self.archive, "--listen", f"unix:{self.folder}/s", code=1)
        self.assertIn("is the history of another heapctl serve", said)

    def test_without_history_it_says_so(self):
        self.start_gateway(str(self.server.pid))
        answer = self.expect(self.get("/api/v1/timeline"), 404)
        self.assertIn("has no history", answer.text)
        self.heapctl("serve", "--history-every", "1mins", code=2)
        self.heapctl("serve", "--history", self.archive, "--history-every", "1ms", code=2)


class Attached(GatewayCase):
    """A process that was attached to twice: two runs, of which a trend fits growth within each."""

    def test_each_attach_is_a_run_of_its_own(self):
        code = ("import time\nblocks = []\nprint('ready', flush=True)\nwhile True:\n    blocks.append(bytearray(100000))\n"
                "    del blocks[:-200]\n    time.sleep(0.001)\n")
        process = self.start(sys.executable, "-c", code, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        attached = []

        def attach():
            self.heapctl("attach", process.pid, "--interval", "4KiB")
            attached.append(json.loads(self.heapctl("status", process.pid, "--json")[0])["started_ms"])

        def timeline():
            return self.expect(self.get("/api/v1/timeline"), 200).json

        def counts():
            """Of snapshots, by the attach that they are of."""
            return {run["started_ms"]: run["snapshots"] for run in timeline()["processes"]}
        attach()
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s", process.pid)
        wait_until(lambda: counts().get(attached[0], 0) >= 2, "two snapshots of the first attach")
        self.heapctl("detach", process.pid)
        attach()
        wait_until(lambda: counts().get(attached[1], 0) >= 2, "two snapshots of the second attach")
        found = timeline()
        self.assertEqual([(run["pid"], run["started_ms"], run["attached"]) for run in found["processes"]], [(process.pid, moment, True) for moment in attached])
        self.assertEqual({snapshot["attached"] for snapshot in found["snapshots"]}, {True})
        first, last = found["snapshots"][0], found["snapshots"][-1]
        for moment, begun in ((first, attached[0]), (last, attached[1])):
            raw = self.expect(self.get(f"/api/v1/snapshot?format=raw&at_ms={moment['time_ms']}"), 200).text
            self.assertIn(f" attached {begun} ", raw)
        trend = self.expect(self.get(f"/api/v1/trend?from_ms={first['time_ms']}&to_ms={last['time_ms']}"), 200).json
        self.assertEqual((trend["attach_count"], sorted(set(trend["runs"]))), (1, list(range(len(set(trend["runs"]))))))
        self.assertEqual(len(set(trend["runs"])), 2)


if __name__ == "__main__":
    unittest.main()
