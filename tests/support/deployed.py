# SPDX-License-Identifier: Apache-2.0
"""A real program that begins to leak, takes two steps, and swings while it leaks, followed by `heapctl watch` and `heapctl serve --history`."""
import json
import os
import pathlib
import subprocess
import time

import browser
from gateway import GatewayCase
from processes import AGENT, BUILD, HEAPCTL, jemalloc_path

CONF = "prof:true,prof_active:true,lg_prof_sample:12"
MIB = 1 << 20


class DeployedCase(GatewayCase):
    is_told = False

    def follow(self, every, profiles):
        """Profiles each `every` seconds; a step after 0.3 and 0.65 of them, the leak's onset in the middle. Its two trends are checked."""
        self.every, self.length = every, every * profiles
        # As much as both stay is lost in all, so that swings of 1.6 MiB are outgrown, too.
        self.rate = 6 * MIB / self.length
        self.program = self.start(BUILD / "tests/integration/deployed", int(self.length / 5 * 1000), int(self.rate), stdin=subprocess.PIPE,
                                  env=dict(LD_PRELOAD=f"{jemalloc_path()}:{AGENT}", MALLOC_CONF=CONF))
        self.wait_for_agent(self.program.pid)
        folder = pathlib.Path(self.folder, "watched")
        watch = self.start(HEAPCTL, "watch", self.program.pid, "--when", f"every={every}s", "--keep", folder, "--keep-count", 10000, "--keep-free", 0)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", f"{every}s", "--history-free", 0,
                           self.program.pid)
        started = time.time()
        self.moments = {}
        for share, command in ((0.3, "p"), (0.5, "d"), (0.65, "p")):
            time.sleep(max(0, started + share * self.length - time.time()))
            self.program.stdin.write(command.encode())
            self.program.stdin.flush()
            self.moments.setdefault(command, []).append(time.time())
        time.sleep(max(0, started + self.length - time.time()))
        self.end(watch)
        captures = sorted(folder.glob("*.heap*"))
        self.check("watched", json.loads(self.heapctl("trend", "--json", *captures)[0]))
        self.text = self.heapctl("trend", *captures)[0]
        self.page = self.heapctl("trend", "--html", *captures)[0]
        target = f"/targets/{self.program.pid}/api/v1"
        moments = self.expect(self.get(f"{target}/timeline"), 200).json["snapshots"]
        span = f"from_ms={moments[0]['time_ms']}&to_ms={moments[-1]['time_ms']}"
        self.check("by its history", self.expect(self.get(f"{target}/trend?{span}&format=json"), 200).json)
        if browser.missing() is None:
            self.look(moments)

    def check(self, label, trend):
        sites = {site["name"]: site for site in trend["sites"]}
        seconds = lambda hours: trend["first_ms"] / 1000 + hours * 3600
        for name in ("new_version", "load_plugin", "serve_day"):
            site = sites[name]
            shown = {key: site.get(key) for key in ("kind", "is_suspect", "p", "rate_per_hour", "interval95", "onset_hours", "onset_interval95",
                                                    "steps", "period_hours")}
            if self.is_told:
                print(f"{label}: {name}: {json.dumps(shown)}")
        leak, plugins, day = sites["new_version"], sites["load_plugin"], sites["serve_day"]
        with self.subTest(label):
            self.assertEqual([leak["kind"], plugins["kind"], day["kind"]], ["steady", "jump", "steady"])
            self.assertEqual([site["is_suspect"] for site in (leak, plugins, day)], [True, False, True])
            # The onset is a profile; the true one may be up to one before or behind it, and one is what its noise leaves open.
            self.assertAlmostEqual(seconds(leak["onset_hours"]), self.moments["d"][0], delta=2.5 * self.every)
            # 1500 samples and 3000: 3% and 2%, and what the first interval of the leak lacks.
            self.assertAlmostEqual(leak["rate_per_hour"] / 3600, self.rate, delta=0.2 * self.rate)
            self.assertAlmostEqual(day["rate_per_hour"] / 3600, self.rate, delta=0.2 * self.rate)
            self.assertAlmostEqual(day["period_hours"] * 3600, self.length / 5, delta=self.length / 25)
            self.assertEqual(len(plugins["steps"]), 2)
            for step, moment in zip(plugins["steps"], self.moments["p"]):
                self.assertAlmostEqual(seconds(step["hours"]), moment, delta=1.5 * self.every)
                # 256 samples: 6%; four of that.
                self.assertAlmostEqual(step["size"], MIB, delta=0.25 * MIB)

    def look(self, moments):
        first, last = moments[0], moments[-1]
        with browser.Browser(height=1600) as page:
            page.goto(f"{self.url}/#/{self.program.pid}/history?base={first['id']}&at={last['id']}"
                      f"&begin={first['time_ms']}&end={last['time_ms']}")
            page.wait_for("document.querySelector('.site .fit.leak') && document.querySelector('.site .onset')")
            for words in ("still growing", "two steps"):
                page.wait_for(f"document.querySelector('.result').textContent.includes('{words}')")
            if "BENCH_FOLDER" in os.environ:
                page.screenshot(os.path.join(os.environ["BENCH_FOLDER"], "deployed.png"))
