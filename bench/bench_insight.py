#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real servers followed for some minutes by `heapctl watch`, and by `heapctl serve --history` at the same time; what `heapctl trend` says of the
one, and the gateway's trend of the other.

- seeded_leaks: one slow leak, one queue that fills and empties, one leak that only requests cause, which come for a tenth of the time;
- a Redis whose keys are rewritten all the time, and one that also gets new ones; the truth is the growth of its own used_memory;
- a named that answers questions.

All of them at once, on loopback. Printed are the verdicts beside the truth; it fails when one is wrong. BENCH_SECONDS (default 360) sets the
length, BENCH_FOLDER keeps captures, text, JSON, SVG, HTML, and pictures of the gateway's page there.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

os.environ.setdefault("HEAPCTL_BUILD", sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import browser  # noqa: E402
from gateway import GatewayCase  # noqa: E402
from processes import BUILD, HEAPCTL, AGENT, jemalloc_path, run_alone  # noqa: E402

SECONDS = float(os.environ.get("BENCH_SECONDS", "360"))
PROFILES = 60
CONF = "prof:true,prof_active:true,lg_prof_sample:14"
SLOW, CYCLE, REQUEST, REQUESTS = 2000, 4 << 20, 65536, 24
NEW_KEYS = 20


class Followed(GatewayCase):
    def follow(self, name, pid):
        folder = self.results / name
        watch = self.start(HEAPCTL, "watch", pid, "--when", f"every={self.every}s", "--keep", folder, "--keep-count", 10000,
                           "--keep-free", 0)
        self.watches.append((name, folder, watch))

    def trend(self, name, folder):
        captures = sorted(folder.glob("*.heap*"))
        return self.note(f"{name}, watched", name, lambda output: self.heapctl(
            "trend", *([] if output == "text" else [f"--{output}"]), *captures)[0])

    def history_trend(self, name, process):
        target = f"/targets/{self.program_name(process)}/api/v1"
        snapshots = self.expect(self.get(f"{target}/timeline?pid={process.pid}&to_ms={self.ended_ms}"), 200).json["snapshots"]
        path = f"{target}/trend?pid={process.pid}&from_ms={snapshots[0]['time_ms']}&to_ms={snapshots[-1]['time_ms']}&format="
        found = self.note(f"{name}, by its history", f"{name}.history", lambda output: self.expect(self.get(path + output), 200).text)
        self.assertEqual(found["hours"], [(snapshot["time_ms"] - snapshots[0]["time_ms"]) / 3600000 for snapshot in snapshots])
        if "BENCH_FOLDER" in os.environ and browser.missing() is None:
            self.draw(name, process, snapshots)
        return found

    def draw(self, name, process, snapshots):
        first, last = snapshots[0], snapshots[-1]
        with browser.Browser(height=1600) as page:
            page.goto(f"{self.url}/#/{self.program_name(process)}/history?pid={process.pid}&base={first['id']}&at={last['id']}"
                      f"&begin={first['time_ms']}&end={last['time_ms']}")
            page.wait_for("Boolean(document.querySelector('.site') && document.querySelector('.timeline path.line'))")
            page.screenshot(str(self.results / f"{name}.history.png"))

    @staticmethod
    def program_name(process):
        return pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip()

    def note(self, label, name, get):
        outputs = {output: get(output) for output in ("text", "json", "svg", "html")}
        for output, text in outputs.items():
            (self.results / f"{name}.{output}").write_text(text)
        trend = json.loads(outputs["json"])
        print(f"\n{label}: {len(trend['hours'])} profiles")
        for site in trend["sites"][:6]:
            low, high = site.get("interval95", (0, 0))
            print(f"  {'suspect' if site['is_suspect'] else '':8}{site['kind']:8}{site.get('rate_per_hour', 0) / 3600:10.0f} B/s, "
                  f"95%: {low / 3600:.0f} to {high / 3600:.0f}  {site['name']}")
        return trend

    def during(self, work):
        def loop():
            while not self.is_over.is_set():
                work()
        thread = threading.Thread(target=loop)
        thread.start()
        self.threads.append(thread)

    def used_memory(self, port):
        return int(re.search(rb"used_memory:(\d+)", self.redis(port, "INFO", "memory"))[1])

    def start_all(self):
        self.seeded = self.start(BUILD / "tests/integration/seeded_leaks", SLOW, CYCLE, int(SECONDS * 1000 / 9), REQUEST, stdin=subprocess.PIPE,
                                 env=dict(LD_PRELOAD=f"{jemalloc_path()}:{AGENT}", MALLOC_CONF=CONF))
        self.steady, steady_port = self.start_redis(conf=CONF)
        self.growing, self.growing_port = self.start_redis(conf=CONF)
        self.named, named_port = self.start_named(conf=CONF, names=20000)
        chance = random.Random(1)
        self.keys = 20000
        for port in (steady_port, self.growing_port):
            self.load_redis(port, keys=self.keys)

        def rewrite():
            for port in (steady_port, self.growing_port):
                self.redis(port, "SET", f"key:{chance.randrange(20000):08d}", "x" * 200)
            time.sleep(0.01)

        def add():
            self.keys += 1
            self.redis(self.growing_port, "SET", f"key:{self.keys:08d}", "x" * 200)
            time.sleep(max(0, self.started + (self.keys - 20000) / NEW_KEYS - time.monotonic()))

        def ask():
            self.ask_named(named_port, f"h{chance.randrange(20000)}")
            time.sleep(0.01)
        self.started = time.monotonic()
        for work in (rewrite, add, ask):
            self.during(work)
        self.first_bytes = self.used_memory(self.growing_port)
        self.servers = {"seeded": self.seeded, "steady": self.steady, "growing": self.growing, "named": self.named}
        for name, process in self.servers.items():
            self.wait_for_agent(process.pid)
            self.follow(name, process.pid)
        self.start_gateway("--history", self.results / "history", "--history-every", f"{self.every}s", "--history-free", 0,
                           *[process.pid for process in self.servers.values()])

    def burst(self):
        time.sleep(SECONDS * 0.45)
        for _ in range(REQUESTS):
            self.seeded.stdin.write(b"r")
            self.seeded.stdin.flush()
            time.sleep(SECONDS * 0.1 / REQUESTS)
        time.sleep(max(0, self.started + SECONDS - time.monotonic()))

    def runTest(self):
        self.every = max(1, round(SECONDS / PROFILES))
        self.watches, self.threads, self.is_over = [], [], threading.Event()
        self.results = pathlib.Path(os.environ.get("BENCH_FOLDER", self.folder))
        self.results.mkdir(exist_ok=True, parents=True)
        try:
            self.start_all()
            self.burst()
            rate = (self.used_memory(self.growing_port) - self.first_bytes) / (time.monotonic() - self.started)
        finally:
            self.ended_ms = int(time.time() * 1000)
            self.is_over.set()
            for thread in self.threads:
                thread.join()
        for _, _, watch in self.watches:
            self.end(watch)
        watched = {name: self.trend(name, folder) for name, folder, _ in self.watches}
        kept = {name: self.history_trend(name, process) for name, process in self.servers.items()}
        for trends in (watched, kept):
            self.check(trends, rate)

    def check(self, trends, redis_rate):
        sites = {site["name"]: site for site in trends["seeded"]["sites"]}
        low, high = sites["leak_slowly"]["interval95"]
        print(f"\nleak_slowly loses {SLOW} B/s; said: {low / 3600:.0f} to {high / 3600:.0f}")
        print(f"the growing Redis grows by {redis_rate:.0f} B/s")
        self.assertEqual([name for name, site in sites.items() if site["is_suspect"]], ["leak_slowly"])
        self.assertTrue(low <= SLOW * 3600 <= high)
        self.assertEqual(sites["fill_queue"]["kind"], "cycle")
        self.assertEqual(sites["serve_request"]["kind"], "jump")
        total = trends["growing"]["total"]
        print(f"  said: {total['interval95'][0] / 3600:.0f} to {total['interval95'][1] / 3600:.0f}")
        self.assertTrue(any(site["is_suspect"] for site in trends["growing"]["sites"]))
        for name in ("steady", "named"):
            self.assertFalse([site["name"] for site in trends[name]["sites"] if site["is_suspect"]], name)


if __name__ == "__main__":
    sys.exit(run_alone(Followed()))
