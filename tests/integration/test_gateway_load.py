#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred clients on all routes at once, against a Redis under traffic. The long version is in bench/."""
import os
import re
import threading
import unittest

from gateway import GatewayCase
from gateway_load import Load
from processes import is_alive


# Why something may be refused in this mix, by what was asked; anything else is a fault. A run is started and stopped, sampling is
# switched on and off by many at once, and the agent keeps 16 runs only, so that those of the beginning may be gone.
RUN_IS_ON = r"run \d+ is (still )?on"
RUN_IS_GONE = r"there is no run \d+"
SWITCHED_ON = r"sampling was switched on by "
REFUSALS = {
    "/memory-profiler/start": {409: SWITCHED_ON},
    "/memory-profiler/stop": {400: f"{RUN_IS_ON}|{SWITCHED_ON}|there is no finished run"},
    "/memory-profiler/download/raw": {400: RUN_IS_ON},
    "/v1/activate": {409: RUN_IS_ON},
    "/v1/deactivate": {409: RUN_IS_ON},
}
WITH_AN_ID = {400: RUN_IS_GONE, 404: RUN_IS_GONE}
BUSY = r"did not answer in time|too many requests (wait|are waiting)|too many profiles are being worked on"
# Whether these ever succeed depends on which request was first.
MAY_ALWAYS_FAIL = {"/memory-profiler/stop", "/memory-profiler/download/raw", "/v1/deactivate", "/v1/activate"}


def is_expected(path, status, words):
    # libmtev's answer to every failure is 500.
    if status == (500 if path.startswith("/mtev/") else 503):
        return re.search(BUSY, words) is not None
    reasons = WITH_AN_ID if "id=" in path else REFUSALS.get(path.split("?")[0], {})
    return status in reasons and re.search(reasons[status], words) is not None


def counts(load):
    """Whether more than one request of each client was answered, and most of them not by "busy"."""
    answered = sum(load.statuses.values())
    refused = sum(count for (_, _, status), count in load.statuses.items() if status == 503)
    return answered > load.clients and refused < answered / 2


class Crowd(GatewayCase):
    def test_every_answer_is_one_that_is_described(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        gateway = self.start_gateway(process.pid)
        run = self.make_run(port)
        other = self.make_run(port)
        document = self.get("/openapi.json").json
        prefix = f"/targets/{process.pid}"
        requests = [
            ("GET", "/"), ("GET", "/targets"), ("GET", "/openapi.json"), ("GET", "/metrics"), ("GET", "/metrics?collect=all"),
            ("GET", "/memory-profiler/state"), ("GET", "/memory-profiler/statistics"), ("GET", "/memory-profiler/start?duration=1"),
            ("GET", "/memory-profiler/stop"), ("GET", f"/memory-profiler/download/raw?id={run}"),
            ("GET", f"/memory-profiler/download/text?id={run}"), ("GET", f"{prefix}/memory-profiler/download/flame?id={other}"),
            ("GET", f"/memory-profiler/download/graph?id={other}"), ("GET", "/memory-profiler/download/raw"),
            ("GET", f"/diff?base={run}&id={other}"), ("GET", "/mtev/heap_profile"), ("GET", "/mtev/memory.json"),
            ("GET", "/mtev/heap_profile?trigger_dump=true"), ("GET", "/pprof/heap"), ("GET", "/pprof/cmdline"),
            ("GET", "/debug/pprof/heap"), ("GET", "/debug/pprof/heap?seconds=1"), ("GET", f"{prefix}/v1/status"), ("GET", "/v1/runs"),
            ("GET", "/v1/mallctl/opt.prof"), ("GET", "/api/v1/history"), ("GET", "/api/v1/classes"),
            ("GET", f"/api/v1/profile?id={run}&format=json"), ("POST", "/v1/activate"), ("POST", "/v1/deactivate"),
        ]
        ended = threading.Event()
        traffic = threading.Thread(target=self.keep_busy, args=(port, ended))
        traffic.start()
        try:
            # Four seconds are enough unless the machine is busy.
            needed = {path for _, path in requests if path not in MAY_ALWAYS_FAIL}
            load = Load(self.port, requests, clients=200, seconds=4, is_enough=lambda load: needed <= load.succeeded and counts(load)).run()
        finally:
            ended.set()
            traffic.join()
        self.assertEqual(load.problems, [])
        for (method, path, status), count in load.statuses.items():
            pattern = path.split("?")[0].replace(prefix, "/targets/{target}").replace("opt.prof", "{name}")
            described = document["paths"][pattern][method.lower()]["responses"]
            self.assertIn(str(status), described, path)
            self.assertTrue(status in (200, 201, 302) or status >= 400, f"{path}: {status}")
        unexpected = [(key, words) for key, reasons in load.reasons.items() for words in reasons if not is_expected(key[1], key[2], words)]
        self.assertEqual(unexpected, [])
        self.assertEqual(needed - load.succeeded, set())
        self.assertTrue(counts(load), load.statuses)
        self.assertTrue(is_alive(process.pid))
        self.assertIsNone(gateway.poll())
        # Nothing leaks: the numbers of descriptors and threads return to those of an idle gateway.
        self.expect(self.get("/targets"), 200)
        self.assertLess(len(os.listdir(f"/proc/{gateway.pid}/fd")), 120)

    def keep_busy(self, port, ended):
        while not ended.is_set():
            self.load_redis(port, keys=2000, size=300)


if __name__ == "__main__":
    unittest.main()
