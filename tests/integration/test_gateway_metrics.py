#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics, judged by promtool and scraped by a real Prometheus; the dashboard and the alerts in contrib/ against what it got."""
import json
import os
import pathlib
import pwd
import re
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from gateway import GatewayCase
from processes import free_port, need, own_name, wait_until

# The last ones are for scrapers and of the gateway: a process may not choose them.
LABELS = "service=cache,version=7.2,zone=b,__address__=192.0.2.1:1,__scheme__=https,job=x,pid=1,user=nobody"
USER = pwd.getpwuid(os.getuid()).pw_name
CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"


class Metrics(GatewayCase):
    def setUp(self):
        super().setUp()
        # Its title covers its environment.
        self.process, self.redis_port = self.start_redis(env={"HEAPCTL_LABELS": LABELS})
        self.wait_for_agent(self.process.pid)
        self.start_gateway(self.process.pid)

    def promtool(self, *arguments, data=None):
        result = subprocess.run([need("promtool"), *map(str, arguments)], input=data, capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def sample(self, text, name):
        match = re.search(rf'^{name}{{pid="{self.process.pid}",name="[^"]*redis[^"]*",allocator="jemalloc"}} (\S+)$', text, re.M)
        self.assertIsNotNone(match, f"{name} in {text}")
        return float(match.group(1))

    def test_promtool_finds_nothing_wrong(self):
        self.make_run(self.redis_port)
        for query in ("", "?collect=arenas", "?collect=classes", "?collect=all"):
            answer = self.expect(self.get("/metrics" + query), 200)
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            self.promtool("check", "metrics", data=answer.body)
        self.expect(self.get("/metrics?collect=everything"), 400)

    def test_the_figures_are_the_agents(self):
        self.make_run(self.redis_port)
        text = ""

        def are_alike():
            nonlocal text
            text = self.get("/metrics").text
            memory = self.get("/v1/status").json["memory"]
            return all(abs(self.sample(text, f"heapctl_{name}_bytes") - memory[name]) <= 0.2 * memory[name]
                       for name in ("allocated", "active", "metadata", "resident", "mapped"))
        # Freed pages may go back between the two answers.
        wait_until(are_alike, "the same figures in both answers")
        self.assertGreater(self.sample(text, "heapctl_rss_bytes"), 1 << 20)
        self.assertEqual(self.sample(text, "heapctl_up"), 1)
        self.assertEqual(self.sample(text, "heapctl_profiling_enabled"), 1)
        self.assertEqual(self.sample(text, "heapctl_profiling_active"), 0)
        self.assertEqual(self.sample(text, "heapctl_sample_interval_bytes"), 524288)
        self.assertEqual(self.sample(text, "heapctl_run_active"), 0)
        self.assertEqual(self.sample(text, "heapctl_runs_kept"), 1)
        self.assertGreaterEqual(self.sample(text, "heapctl_last_dump_bytes"), 1)
        last_dump = self.get("/v1/status").json["last_dump"]
        self.assertAlmostEqual(self.sample(text, "heapctl_last_dump_timestamp_seconds"), last_dump["time_ms"] / 1000, delta=0.01)
        started = time.monotonic()
        self.get("/memory-profiler/start?duration=5mins")
        text = self.get(f"/targets/{self.process.pid}/metrics").text
        self.assertEqual(self.sample(text, "heapctl_run_active"), 1)
        remaining = self.sample(text, "heapctl_run_remaining_seconds")
        self.assertTrue(300 - (time.monotonic() - started) - 1 <= remaining <= 300, remaining)
        self.assertNotIn("heapctl_gateway", text)

    def test_openmetrics_is_given_to_who_asks_for_it(self):
        accept = {"Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"}
        answer = self.get("/metrics", headers=accept)
        self.assertEqual(answer.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(answer.text.endswith("\n# EOF\n"))
        self.assertIn("# TYPE heapctl_gateway_responses counter\n", answer.text)
        self.assertIn('heapctl_gateway_responses_total{class="2xx"} ', answer.text)
        self.assertNotIn("# EOF", self.get("/metrics").text)

    def test_the_number_of_series_is_bounded(self):
        plain = self.get("/metrics").text
        everything = self.get("/metrics?collect=all").text
        self.assertNotIn("heapctl_arena", plain)
        self.assertIn('heapctl_arena_active_bytes{', everything)
        self.assertIn('heapctl_class_held_bytes{', everything)
        self.assertLess(everything.count("\n"), 1500)

    def test_prometheus_scrapes_it(self):
        prometheus = need("prometheus")
        port = free_port()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w") as file:
            file.write(f"""
global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}}
rule_files: ["{CONTRIB}/prometheus/heapctl.rules.yml"]
scrape_configs:
  - job_name: heapctl
    params: {{collect: [all]}}
    static_configs: [{{targets: ["127.0.0.1:{self.port}"]}}]
  - job_name: discovered
    honor_labels: true
    http_sd_configs: [{{url: "http://127.0.0.1:{self.port}/discovery", refresh_interval: 2s}}]
""")
        self.promtool("check", "config", config)

        def query(expression):
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return json.load(answer)["data"]["result"]
            except urllib.error.HTTPError as refusal:
                # 503 while it starts; 4xx for an expression that it cannot read.
                if refusal.code < 500:
                    self.fail(f"{expression}: {refusal.read()}")
                return []
            except OSError:
                return []
        self.start(prometheus, f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb", "--storage.tsdb.retention.time=1h",
                   f"--web.listen-address=127.0.0.1:{port}",
                   wait_for=lambda: query('up{job="heapctl"} == 1'))
        wait_until(lambda: query(f'heapctl_allocated_bytes{{pid="{self.process.pid}"}} > 0'), "the figures of Redis")
        self.assertEqual(query('scrape_samples_scraped{job="heapctl"} > 100') != [], True)
        found = wait_until(lambda: query('heapctl_up{job="discovered"} == 1'), "the target that was discovered")
        self.assertEqual(found[0]["metric"], {
            "__name__": "heapctl_up", "job": "discovered", "instance": f"127.0.0.1:{self.port}", "name": "redis-server",
            "pid": str(self.process.pid), "user": USER, "service_name": "cache", "version": "7.2", "zone": "b", "allocator": "jemalloc"})
        empty = []

        def have_data():
            # No profile was taken yet. A rate needs two scrapes.
            empty[:] = set(self.empty_panels(query)) - {"Growth", "The gateway", "Time of the last profile"}
            return not empty
        try:
            wait_until(have_data, "data in the panels")
        except AssertionError as error:
            raise AssertionError(f"{error}: {empty}") from None

    def empty_panels(self, query):
        """Prometheus can evaluate the query of every panel; returns the panels without data."""
        dashboard = json.loads((CONTRIB / "grafana/heapctl.json").read_text())
        empty = []
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$name", ".*").replace("$pid", ".*").replace("$__rate_interval", "1m")
                if not query(expression):
                    empty.append(panel["title"])
        return empty

    def test_the_address_of_discovery_is_that_of_the_request_or_given(self):
        group, = self.expect(self.get("/discovery"), 200).json
        self.assertEqual(group["targets"], [f"127.0.0.1:{self.port}"])
        self.assertEqual(group["labels"], {
            "__metrics_path__": f"/targets/{self.process.pid}/metrics", "__profile_path_prefix__": f"/targets/{self.process.pid}",
            "name": "redis-server", "pid": str(self.process.pid), "user": USER, "service_name": "cache", "version": "7.2", "zone": "b"})
        self.expect(self.get(group["labels"]["__metrics_path__"]), 200)
        for address in ("db7.example:7070", "[2001:db8::7]:7070", "db7"):
            self.assertEqual(self.expect(self.get(f"/discovery?address={address}"), 200).json[0]["targets"], [address])
        for address in ("", "db7:", ":7070", "db7:70x", "db7/x", "a@db7:7070", "db7:7070?x"):
            self.expect(self.get("/discovery?address=" + urllib.parse.quote(address)), 400)

    def test_discovery_by_name_is_for_sums(self):
        group, = self.expect(self.get("/discovery?merge=1"), 200).json
        self.assertEqual(group["labels"], {"__profile_path_prefix__": "/targets/redis-server", "__param_merge": "1", "name": "redis-server",
                                           "user": USER, "service_name": "cache"})
        self.expect(self.get(f"/targets/{self.process.pid}/debug/pprof/heap?merge=1"), 200)


class SeveralOfAName(GatewayCase):
    def test_a_sum_is_of_no_service_in_particular(self):
        name = own_name("sum")
        pids = [self.start_named_redis(name, env={"HEAPCTL_LABELS": f"service={service}"})[0].pid for service in ("shop", "cache")]
        self.start_gateway(*pids)
        group, = self.expect(self.get("/discovery?merge=1"), 200).json
        self.assertEqual((group["labels"]["name"], group["labels"]["service_name"], group["labels"]["user"]), (name, name, USER))

    def test_a_sum_is_of_its_service(self):
        name = own_name("sum")
        pids = [self.start_named_redis(name, env={"HEAPCTL_LABELS": f"service=shop,zone={zone}"})[0].pid for zone in "ab"]
        self.start_gateway(*pids)
        group, = self.expect(self.get("/discovery?merge=1"), 200).json
        self.assertEqual(group["labels"]["service_name"], "shop")


class Rules(GatewayCase):
    def promtool(self, *arguments):
        done = subprocess.run([need("promtool"), *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_alerts_are_well_formed(self):
        self.promtool("check", "rules", CONTRIB / "prometheus/heapctl.rules.yml")

    def test_growth_is_told_with_its_error(self):
        self.promtool("test", "rules", CONTRIB / "prometheus/heapctl.rules.test.yml")


if __name__ == "__main__":
    unittest.main()
