#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred clients on all routes at once, against a Redis under traffic. The long version is in bench/."""
import os
import threading
import unittest

from gateway import GatewayCase
from gateway_load import Load
from processes import is_alive


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
            load = Load(self.port, requests, clients=200, seconds=4).run()
        finally:
            ended.set()
            traffic.join()
        self.assertEqual(load.problems, [])
        for (method, path, status), count in load.statuses.items():
            pattern = path.split("?")[0].replace(prefix, "/targets/{target}").replace("opt.prof", "{name}")
            described = document["paths"][pattern][method.lower()]["responses"]
            self.assertIn(str(status), described, path)
            self.assertTrue(status < 500 or status == 503, f"{path}: {status}")
        answered = sum(load.statuses.values())
        refused = sum(count for (_, _, status), count in load.statuses.items() if status == 503)
        self.assertGreater(answered, 200)
        self.assertLess(refused, answered / 2, load.statuses)
        self.assertTrue(is_alive(process.pid))
        self.assertIsNone(gateway.poll())
        # Nothing is left behind: descriptors and threads go back to what an idle gateway has.
        self.expect(self.get("/targets"), 200)
        self.assertLess(len(os.listdir(f"/proc/{gateway.pid}/fd")), 120)

    def keep_busy(self, port, ended):
        while not ended.is_set():
            self.load_redis(port, keys=2000, size=300)


if __name__ == "__main__":
    unittest.main()
