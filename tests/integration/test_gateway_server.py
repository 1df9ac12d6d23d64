#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway as a server: which requests it permits, what it does when targets hang or end, and whether it follows its document."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

from gateway import FakeAgent, GatewayCase, fake_status
from json_schema import Schemas
from processes import AGENT, BUILD, HEAPCTL, SANITIZED, children_of, free_port, need, need_namespace, own_name, stop, thread_called, wait_until, wait_while_it_progresses
from sampled_profiles import pprof_with_file
from tracing import trace

SEVERAL = own_name("both")
SOURCE = pathlib.Path(__file__).resolve().parents[2]

IS_BUSY = """
print("ready", flush=True)
while True:
    pass
"""


def long_work():
    """A profile that takes a worker some time to draw, about equally long with and without a sanitizer."""
    count = 20000 if SANITIZED else 200000
    stacks = "".join(f"@ 0x{0x400000 + 16 * n:x} 0x{0x500000 + n:x}\n  t*: 1: 100 [0: 0]\n" for n in range(count))
    return f"heap_v2/524288\n  t*: {count}: {100 * count} [0: 0]\n{stacks}".encode()


class Document(GatewayCase):
    """Every route of /openapi.json is answered, and only as it is described there."""

    # Values that lead somewhere for parameters that must have one.
    VALUES = {"part": "smaps", "line": "1", "number": "1", "target": None, "file": "app.js", "id": "1763716881123", "name": "prof.active", "duration_ms": "1000", "base": "17",
              "question": "top", "build_id": "00" * 20, "text": "deployed"}

    def test_every_route_answers_as_described(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        self.VALUES["target"] = str(process.pid)
        document = self.expect(self.get("/openapi.json"), 200).json
        self.assertEqual(document["openapi"], "3.1.0")
        self.assertGreater(len(document["paths"]), 60)
        for pattern, operations in document["paths"].items():
            for method, operation in operations.items():
                with self.subTest(f"{method} {pattern}"):
                    self.check(pattern, method.upper(), operation)
            for other in {"get", "post"} - set(operations):
                path = re.sub(r"{(\w+)}", lambda match: self.VALUES[match.group(1)], pattern)
                answer = self.expect(self.ask(path, other.upper()), 405)
                self.assertIn("GET" if other == "post" else "POST", answer.headers["Allow"])
                self.assertIn("send GET" if other == "post" else "send POST", answer.json["error"]["hint"])

    def check(self, pattern, method, operation):
        path = re.sub(r"{(\w+)}", lambda match: self.VALUES[match.group(1)], pattern)
        required = [p["name"] for p in operation["parameters"] if p["required"] and p["in"] == "query"]
        for query in {"", "&".join(f"{name}={self.VALUES[name]}" for name in required)}:
            answer = self.ask(f"{path}?{query}" if query else path, method)
            self.assertIn(str(answer.status), operation["responses"], answer)
            if answer.status == 200:
                media_types = operation["responses"]["200"]["content"]
                self.assertIn(answer.headers["Content-Type"].split(";")[0], {*media_types, *self.also(pattern)})
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertIn("frame-ancestors", answer.headers["Content-Security-Policy"])
            self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
        answer = self.ask(path, method, body=b"a" * 9_000_000)
        # What becomes a file may be larger: test_too_large_a_file_is_refused_before_it_is_sent.
        self.assertEqual(answer.status, 400 if pattern == "/api/v1/file" else 413, answer)
        self.assertIn("413", operation["responses"])
        if method == "POST" and self.get(f"/targets/{self.VALUES['target']}/v1/status").json["run"]:
            self.post("/v1/runs/stop")

    @staticmethod
    def also(pattern):
        # The type of an asset or a picture depends on which one.
        return {"text/css", "text/javascript", "text/html", "image/svg+xml"} if "assets" in pattern else set()

    def test_unknown_paths_and_parameters_are_refused(self):
        self.start_gateway("1")
        for path in ("/nowhere", "/targets/", "/targets//v1/status", "/v1", "/../etc/passwd", "/%2e%2e/etc/passwd", "/v1/mallctl/"):
            self.expect(self.get(path), 404)
        self.expect(self.get("/%zz"), 400)
        self.expect(self.get("/api/v1/profile?formt=flame"), 400)
        self.expect(self.get("/v1/status?a=1&a=2"), 400)

    def test_a_range_of_sizes_that_is_none_is_refused(self):
        self.start_gateway(os.getpid())
        for parameter in ("bytes=nan", "bytes=5:1", "tagignore=bytes=0x10:"):
            answer = self.expect(self.post(f"/api/v1/file?{parameter}", body=b"heap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x1\n  t*: 1: 1 [0: 0]\n"), 400)
            self.assertIn(f"'{parameter.split('=')[-1]}' is not a range of sizes", answer.text)


class Bodies(GatewayCase):
    """Every body is as /openapi.json says, and what it says of bodies is answered, or at least written, by the code."""

    # What this target does not show is still in the source that answers it.
    SOURCES = {"TrendSite": "src/cli/trend.c", "Captures": "src/watch/recorder.c", "Report": "src/profile/profile.c",
               "Status": "src/agent/core_status.c", "MallocStatistics": "src/allocator/malloc_owner.c",
               "Overview": "src/gateway/handle_overview.c", "Targets": "src/gateway/handle_page.c"}
    # Answers of a database, which test_fleet_page.py has.
    ELSEWHERE = {"FleetHosts", "FleetSites"}

    def setUp(self):
        super().setUp()
        self.server, port = self.start_named_redis(SEVERAL)
        self.load_redis(port, keys=500)
        rules = pathlib.Path(self.folder, "watch.conf")
        rules.write_text(f"[{self.server.pid}]\nwhen = rss>1MiB\ncool-down = 1s\nkeep = {self.folder}/captures\n"
                         f"[{self.server.pid}]\nwhen = rss>1MiB\nthen = /nowhere/program\n")
        dead = own_name("gone")
        self.without_jemalloc = self.start("sleep", "600", env={"LD_PRELOAD": AGENT})
        self.wait_for_agent(self.without_jemalloc.pid)
        self.attached = self.start("sleep", "600")
        wait_until(lambda: "sleep" in os.readlink(f"/proc/{self.attached.pid}/exe"), "the program")
        self.heapctl("attach", self.attached.pid)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s", "--watch-file", rules,
                           "--send", f"clickhouse://127.0.0.1:{free_port()}/heap", self.server.pid, dead, self.without_jemalloc.pid, self.attached.pid)
        self.document = self.get("/openapi.json").json
        self.schemas = Schemas(self.document["components"]["schemas"])
        self.asked = set()

    def check(self, path, method="GET", status=200, body=None):
        """Asks, and compares the body with its schema; returns the answer."""
        plain = path.partition("?")[0]
        patterns = [known for known in self.document["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", known), plain)]
        pattern = min(patterns, key=lambda known: known.count("{"))
        answer = self.expect(self.ask(path, method, body=body), status)
        content = self.document["paths"][pattern][method.lower()]["responses"][str(status)]["content"]
        media_type = answer.headers["Content-Type"].partition(";")[0]
        self.assertIn(media_type, content, path)
        schema = content[media_type]["schema"]
        if schema:
            body = answer.json if media_type == "application/json" else answer.text
            self.assertEqual(self.schemas.problems(body, schema), [], f"{method} {path}")
        self.asked.add((pattern, method.lower()))
        return answer

    def test_bodies_are_as_they_are_described(self):
        wait_until(lambda: len(self.get("/api/v1/timeline").json.get("snapshots", [])) >= 4, "snapshots")
        wait_until(lambda: self.get("/api/v1/captures").json.get("captures"), "a capture")
        wait_until(lambda: self.get("/api/v1/sending").json["problem"], "a database that does not answer")
        for path in ("/openapi.json", "/targets", "/api/v1/targets", "/api/v1/history", "/api/v1/overview", "/api/v1/archive", "/api/v1/timeline",
                     "/watch", "/api/v1/watches", "/api/v1/sending", "/api/v1/fleet", "/api/v1/captures", "/api/v1/classes", "/api/v1/kernel?part=maps", "/metrics", "/discovery",
                     "/v1/runs", "/v1/stats", "/v1/stats?format=text", "/v1/profile", "/v1/mallctl/prof.active", "/memory-profiler/state",
                     "/memory-profiler/statistics", "/mtev/memory.json", "/mtev/heap_profile", "/mtev/heap_profile?active=true",
                     "/mtev/heap_profile?trigger_dump=true", "/pprof/heap", "/pprof/symbol", "/pprof/cmdline", "/debug/pprof/",
                     "/debug/pprof/heap", "/debug/pprof/heap?debug=1", "/debug/pprof/allocs", "/debug/pprof/symbol", "/debug/pprof/cmdline"):
            with self.subTest(path):
                self.check(path)
        if not SANITIZED:
            self.check(f"/targets/{self.without_jemalloc.pid}/v1/stats")
        self.check_changes()
        # Among the snapshots, so that the timeline and the trend have it.
        when = self.get("/api/v1/timeline").json["snapshots"][1]["time_ms"]
        note = self.check(f"/api/v1/notes?text=deployed&time_ms={when}", "POST", 201).json["id"]
        self.check("/api/v1/notes")
        self.check("/api/v1/timeline")
        self.check_pictures()
        self.check(f"/api/v1/notes/{note}/remove", "POST")
        self.check(f"/targets/{self.attached.pid}/v1/detach", "POST")
        for path in ("/api/v1/fleet/hosts", "/api/v1/fleet/sites?question=top", "/api/v1/fleet/picture?question=flame"):
            self.check(path, status=404)
        self.check("/buildid/" + "00" * 20 + "/debuginfo", status=404)
        self.check("/v1/runs/17", status=404)
        self.check("/pprof/growth", status=404)
        self.check("/memory-profiler/download/raw?id=17", status=404)
        self.check_completeness()

    def check_changes(self):
        self.check("/v1/deactivate", "POST")
        self.check("/v1/activate", "POST")
        self.check("/v1/reset", "POST")
        self.check("/v1/detach", "POST", 409)
        self.check("/v1/mallctl/prof.active?value=false", "POST")
        for symbol in ("/pprof/symbol", "/debug/pprof/symbol"):
            self.check(symbol, "POST")
        for method in ("GET", "POST"):
            self.check("/memory-profiler/start?duration=1hrs", method)
            self.check("/v1/runs", "POST")
            self.check("/v1/status")
            self.check("/memory-profiler/state", method)
            self.check("/memory-profiler/statistics", method)
            self.check("/memory-profiler/stop", method)
        run = self.check("/v1/runs", "POST", 201).json["id"]
        other = self.check("/v1/runs/stop", "POST").json["id"]
        self.assertEqual(run, other)
        self.check(f"/v1/runs/{run}")
        for kind in ("profile", "start"):
            self.check(f"/v1/runs/{run}/{kind}")
        first = self.get("/v1/runs").json["runs"][0]["id"]
        for prefix in ("", "/memory-profiler"):
            for method in ("GET", "POST"):
                for name in ("raw", "text", "graph", "flame", "pprof", "collapsed", "json"):
                    self.check(f"{prefix}/download/{name}?id={run}", method)
                for name in ("text", "json", "graph", "pprof"):
                    self.check(f"{prefix}/diff?id={run}&base={first}&format={name}", method)
        self.check(f"/v1/runs/{run}/remove", "POST")

    def check_pictures(self):
        capture = self.get("/api/v1/captures").json["captures"][-1]
        others = f"line={capture['line']}&number={capture['number']}"
        for name in ("raw", "text", "tree", "graph", "flame", "flame-data", "collapsed", "pprof", "rows", "json"):
            for path in ("/api/v1/profile?", "/api/v1/snapshot?", f"/api/v1/capture?{others}&"):
                with self.subTest(path, format=name):
                    self.check(f"{path}format={name}")
        self.check("/api/v1/snapshot?granularity=addresses")
        self.check("/api/v1/moment")
        self.check("/api/v1/profile?base=now")
        self.check("/api/v1/file?format=rows", "POST", body=b"main;parse 300\n")
        for name in ("json", "text", "svg", "html", "raw"):
            self.check(f"/api/v1/trend?format={name}")

    def check_completeness(self):
        pages = {("/", "get"), ("/assets/{file}", "get"), ("/pprof/growth", "get")}
        twins, described = set(), set()
        for pattern, operations in self.document["paths"].items():
            for method, operation in operations.items():
                if not pattern.startswith("/targets/{target}"):
                    described.add((pattern, method))
                    continue
                # A path of a named target is described as that of the gateway's own target.
                twin = self.document["paths"][pattern.removeprefix("/targets/{target}")][method]
                self.assertEqual({**operation, "parameters": operation["parameters"][1:]}, twin)
                twins.add((pattern, method))
        self.assertGreater(len(twins), 50)
        self.assertEqual(described - self.asked - pages, set(), "not asked")
        missing = set()
        for name in set(self.schemas.described()) - self.schemas.used:
            if name.partition(".")[0] in self.ELSEWHERE:
                continue
            source = self.SOURCES.get(name.partition(".")[0].rstrip("[]"))
            key = name.rpartition(".")[2]
            if source is None or f'"{key}"' not in (SOURCE / source).read_text():
                missing.add(name)
        if SANITIZED:
            # The statistics of a malloc that is not the sanitizer's were not asked for, either.
            missing = {name for name in missing if not name.startswith("MallocStatistics")}
        self.assertEqual(missing, set(), "described and never answered")

    def test_examples_are_as_they_are_described(self):
        components = self.schemas.components
        for name, schema in components.items():
            for example in schema.get("examples", []):
                self.assertEqual(self.schemas.problems(example, schema, name, name), [])
        # Whatever a route names exists.
        named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(self.document)))
        self.assertEqual(named, set(components))

    def test_a_wrong_body_would_be_found(self):
        run = self.document["components"]["schemas"]["Run"]
        good = run["examples"][0]
        for change in ({"id": "1"}, {"state": "asleep"}, {"surprise": 1}, {"sampling_gaps": -1}, {"error": False}):
            self.assertEqual(len(self.schemas.problems({**good, **change}, run)), 1, change)
        self.assertEqual(len(self.schemas.problems({key: good[key] for key in good if key != "pid"}, run)), 1)


class Assets(GatewayCase):
    def test_a_browser_that_has_a_file_gets_304(self):
        self.start_gateway("1")
        first = self.expect(self.get("/assets/app.js"), 200)
        again = self.expect(self.get("/assets/app.js", headers={"If-None-Match": first.headers["ETag"]}), 304)
        self.assertEqual(again.body, b"")
        self.expect(self.get("/assets/app.js", headers={"If-None-Match": '"another"'}), 200)
        self.expect(self.get("/assets/serve.c"), 404)

    def test_head_is_get_without_the_body(self):
        self.start_gateway("1")
        whole = self.get("/openapi.json")
        head = self.expect(self.ask("/openapi.json", "HEAD"), 200)
        self.assertEqual(head.headers["Content-Length"], str(len(whole.body)))
        self.assertEqual(head.body, b"")


class Targets(GatewayCase):
    def test_several_targets_at_once(self):
        first, first_port = self.start_redis()
        second, second_port = self.start_redis()
        without, _ = self.start_redis(preload=False, conf="")
        for process in (first, second):
            self.wait_for_agent(process.pid)
        nghttpd = self.start_nghttpd()
        named = self.start_named()
        varnish = self.start_varnish()
        self.wait_for_agent(varnish.pid)
        self.start_gateway(first.pid, second.pid, nghttpd.pid, named.pid, varnish.pid, without.pid)
        listed = {target["pid"]: target for target in self.expect(self.get("/targets"), 200).json["targets"]}
        for process in (first, second, nghttpd, named, varnish):
            self.assertTrue(listed[process.pid]["reachable"], listed)
            self.assertTrue(listed[process.pid]["profiling"]["available"])
        unreachable = [target for target in listed.values() if not target["reachable"]]
        self.assertEqual([target["name"] for target in unreachable], [str(without.pid)])
        self.assertIn("no agent", unreachable[0]["error"]["message"])
        # The root is the first that was named; the others are reached by pid or by a name that is unique.
        self.assertEqual(self.get("/v1/status").json["pid"], first.pid)
        self.assertEqual(self.get(f"/targets/{second.pid}/v1/status").json["pid"], second.pid)
        self.assertEqual(self.get("/targets/nghttpd/v1/status").json["pid"], nghttpd.pid)
        ambiguous = self.expect(self.get("/targets/redis-server/v1/status"), 409).json["error"]
        self.assertIn(str(first.pid), ambiguous["message"])
        self.expect(self.get("/targets/nobody/v1/status"), 404)
        self.assertIn("no agent", self.expect(self.get(f"/targets/{without.pid}/v1/status"), 404).json["error"]["message"])
        for process in (nghttpd, named, varnish):
            self.expect(self.get(f"/targets/{process.pid}/debug/pprof/heap"), 200)
            self.expect(self.get(f"/targets/{process.pid}/api/v1/classes"), 200)
        run = self.make_run(second_port, prefix=f"/targets/{second.pid}")
        self.expect(self.get(f"/targets/{second.pid}/memory-profiler/download/text?id={run}"), 200)
        self.expect(self.get(f"/targets/{first.pid}/memory-profiler/download/text?id={run}"), 404)

    def check_sum(self, processes, ports):
        """merge=1 adds up what each of them has, and says whose it is."""
        bytes_of = lambda path: self.expect(self.get(path), 200).json
        for number, port in enumerate(ports):
            self.load_redis(port, keys=10000 * (number + 1), size=500)
        single = [bytes_of(f"/targets/{process.pid}/api/v1/profile")["total"]["value"] for process in processes]
        for path in ("/api/v1/profile?merge=1", f"/targets/{SEVERAL}/api/v1/profile?merge=1"):
            merged = bytes_of(path)
            self.assertAlmostEqual(merged["total"]["value"], sum(single), delta=1 << 20)
            self.assertIn(f"by {len(processes)} processes", merged["source"])
        self.assertIn("createStringObject", self.expect(self.get("/api/v1/profile?merge=1&format=flame"), 200).text)
        self.expect(self.get(f"/targets/{SEVERAL}/debug/pprof/heap?merge=1"), 200)
        for path, words in (("/debug/pprof/heap?merge=1&seconds=1", "in use now"), ("/api/v1/profile?merge=1&base=7", "its own runs"),
                            ("/debug/pprof/heap?merge=1&debug=1", "no raw form")):
            answer = self.expect(self.get(path), 400)
            self.assertIn(words, answer.text)
        # One process is a sum, too.
        self.assertIn("by 1 process", bytes_of(f"/targets/{processes[0].pid}/api/v1/profile?merge=1")["source"])

    def test_a_name_that_several_have_is_all_of_them(self):
        first, first_port = self.start_named_redis(SEVERAL)
        second, second_port = self.start_named_redis(SEVERAL)
        self.start_gateway(SEVERAL)
        self.assertEqual({target["pid"] for target in self.get("/targets").json["targets"]}, {first.pid, second.pid})
        for process in (first, second):
            self.assertEqual(self.expect(self.get(f"/targets/{process.pid}/v1/status"), 200).json["pid"], process.pid)
        # The client must say which one it means.
        for path in ("/v1/status", f"/targets/{SEVERAL}/v1/status"):
            self.assertIn(str(second.pid), self.expect(self.get(path), 409).json["error"]["message"])
        self.check_sum((first, second), (first_port, second_port))
        self.end(second)
        wait_until(lambda: self.get("/v1/status").status == 200, "the other to be the only one")
        self.assertEqual(self.get("/v1/status").json["pid"], first.pid)

    def start_nghttpd(self):
        server = need("nghttpd")
        port = free_port()

        def is_open():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        process = self.start(HEAPCTL, "run", "--", server, "--no-tls", "-a", "127.0.0.1", port, wait_for=is_open)
        self.wait_for_agent(process.pid)
        return process

    def start_named(self):
        server = need("named")
        port = free_port()
        config = os.path.join(self.folder, "named.conf")
        with open(config, "w") as file:
            file.write(f"""options {{ directory "{self.folder}"; pid-file none; session-keyfile none; recursion no; listen-on-v6 {{ none; }};
                listen-on port {port} {{ 127.0.0.1; }}; }}; controls {{ }};""")

        def is_open():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        process = self.start(HEAPCTL, "run", "--", server, "-f", "-c", config, wait_for=is_open)
        self.wait_for_agent(process.pid)
        return process

    def test_without_names_everything_that_can_be_seen_is_served(self):
        first, _ = self.start_redis()
        self.wait_for_agent(first.pid)
        self.start_gateway()
        second, _ = self.start_redis()
        self.wait_for_agent(second.pid)
        for process in (first, second):
            self.expect(self.get(f"/targets/{process.pid}/v1/status"), 200)
        self.end(first)
        self.expect(self.get(f"/targets/{second.pid}/v1/status"), 200)
        wait_until(lambda: first.pid not in [t["pid"] for t in self.get("/targets").json["targets"]], "the list to forget it")

    def test_a_restarted_server_is_found_under_its_name(self):
        name = f"hc-test-{os.getpid() % 100000}"
        program = os.path.join(self.folder, name)
        os.symlink(need("redis-server"), program)
        first = self.start_as(program)
        self.start_gateway(name)
        self.assertEqual(self.get("/v1/status").json["pid"], first.pid)
        self.end(first)
        gone = self.get("/v1/status")
        self.assertIn(gone.status, (404, 503), gone)
        second = self.start_as(program)
        wait_until(lambda: self.get("/v1/status").status == 200, "the new process")
        self.assertEqual(self.get("/v1/status").json["pid"], second.pid)

    def start_as(self, program):
        port = free_port()
        process = self.start(HEAPCTL, "run", "--", program, "--bind", "127.0.0.1", "--port", port, "--save", "",
                             wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")
        self.wait_for_agent(process.pid)
        return process

    @unittest.skipIf(SANITIZED, "the examples are not built with a sanitizer")
    def test_a_process_that_cannot_be_profiled_says_why(self):
        """Its jemalloc is inside the program, where no other sampler sees the calls."""
        process = self.start(BUILD / "examples/event_loop_static", free_port(), env={"MALLOC_CONF": "prof:false"}, stderr=subprocess.DEVNULL)
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        answer = self.expect(self.get("/memory-profiler/start"), 400)
        self.assertIn("prof:true", answer.text)
        self.assertIn("opt.prof: false\n#", self.get("/mtev/heap_profile").text)
        state = self.get("/memory-profiler/state").json
        self.assertFalse(state["jemalloc"]["profiling_enabled"])
        self.expect(self.get("/pprof/heap"), 501)
        self.expect(self.get("/mtev/heap_profile?trigger_dump=true"), 500)

    def test_a_process_without_jemalloc_is_profiled_through_every_protocol(self):
        process = self.start(need("sleep"), "1000", env={"LD_PRELOAD": AGENT})
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        state = self.expect(self.get("/memory-profiler/state"), 200).json
        self.assertEqual(set(state), {"memory_profiler"})
        self.assertIs(state["memory_profiler"]["jemalloc_detected"], False)
        self.assertEqual(self.expect(self.get("/memory-profiler/statistics"), 200).json["malloc"]["name"], "glibc")
        self.expect(self.get("/memory-profiler/start"), 200)
        self.expect(self.get("/memory-profiler/stop"), 200)
        self.assertIn(b"heap_v2/", self.expect(self.get("/memory-profiler/download/raw"), 200).body)
        self.assertEqual(self.expect(self.get("/mtev/memory.json"), 200).json["malloc"]["name"], "glibc")
        self.expect(self.get("/mtev/heap_profile?active=true"), 200)
        self.assertIn(b"heap_v2/", self.expect(self.get("/mtev/heap_profile?trigger_dump=true"), 200).body)
        self.expect(self.get("/debug/pprof/heap"), 200)
        self.expect(self.get("/metrics"), 200)

    def test_heapctl_works_through_the_gateway(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        target = f"{self.url}/targets/{process.pid}"
        status = json.loads(self.heapctl("status", target, "--json")[0])
        self.assertEqual(status["pid"], process.pid)
        self.heapctl("activate", target)
        self.assertTrue(self.get("/v1/status").json["profiling"]["active"])
        self.heapctl("deactivate", target)
        dump = os.path.join(self.folder, "dump.heap")
        self.heapctl("dump", target, "-o", dump)
        with open(dump) as file:
            self.assertTrue(file.read().startswith("heap_v2/"))
        self.assertIn("allocated", self.heapctl("stats", target)[0].lower())

    def test_a_gateway_behind_a_gateway(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        inner = f"{self.url}/targets/{process.pid}"
        self.start_gateway(inner)
        self.assertEqual(self.expect(self.get("/v1/status"), 200).json["pid"], process.pid)
        run = self.make_run(port)
        self.expect(self.get(f"/memory-profiler/download/raw?id={run}"), 200)


class Launched(GatewayCase):
    """heapctl run --listen: the program gets a gateway of its own."""

    def run_redis(self, *options):
        self.port = free_port()
        port = free_port()
        return self.start(HEAPCTL, "run", "--listen", f"127.0.0.1:{self.port}", *options, "--", need("redis-server"), "--bind",
                          "127.0.0.1", "--port", port, "--save", "", wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")

    def is_gone(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) != 0

    def test_the_gateway_comes_and_goes_with_the_program(self):
        process = self.run_redis()
        wait_until(lambda: self.get("/v1/status").status == 200, "the gateway to reach it")
        self.assertEqual(self.get("/v1/status").json["pid"], process.pid)
        # It is no child that the program has to wait for.
        self.assertEqual(children_of(process.pid), [])
        self.end(process)
        wait_until(self.is_gone, "the gateway to end")

    def test_it_works_with_recording(self):
        record = os.path.join(self.folder, "end.heap")
        process = self.run_redis("--record", record)
        wait_until(lambda: self.get("/v1/status").status == 200, "the gateway to reach it")
        self.assertNotEqual(self.get("/v1/status").json["pid"], process.pid)
        self.end(process)
        wait_until(self.is_gone, "the gateway to end")
        self.assertTrue(os.path.exists(record))

    def test_a_wrong_address_is_reported_before_the_program_starts(self):
        marker = os.path.join(self.folder, "started")
        for address in ("0.0.0.0:0", "nowhere", "unix:/nowhere/at/all.sock"):
            self.heapctl("run", "--listen", address, "--", "touch", marker, code=None)
        self.assertFalse(os.path.exists(marker))


class Trouble(GatewayCase):
    """Agents that hang, answer wrongly or end cause errors only for their own callers."""

    def fake(self, answers):
        agent = FakeAgent(self.agents, answers)
        self.addCleanup(agent.close)
        return agent

    def test_a_picture_without_graphviz_says_what_to_install(self):
        need_namespace("--mount")
        library = next((os.path.realpath(path) for path in pathlib.Path("/usr/lib").glob("*/libgvc.so.6")), None)
        if library is None:
            self.skipTest("libgvc is not installed")
        self.port = free_port()
        self.start("unshare", "--mount", "sh", "-c", 'mount --bind /dev/null "$0" && exec "$@"', library, HEAPCTL, "serve", "--listen",
                   f"127.0.0.1:{self.port}", "no-such-target", wait_for=self.is_serving)
        answer = self.expect(self.post("/api/v1/file?format=graph", body=b"main;parse 300\n"), 501)
        self.assertIn("apt install --reinstall libgvc6", answer.text)
        self.expect(self.post("/api/v1/file?format=text", body=b"main;parse 300\n"), 200)

    def test_a_process_that_has_just_started_is_found_by_its_pid(self):
        self.start_gateway()
        path = f"/targets/{os.getpid()}/v1/status"
        # That was a scan of all processes, and the next one has to wait.
        self.expect(self.get(path), 404)
        self.fake(lambda method, target: (200, fake_status()))
        self.expect(self.get(path), 200)

    def test_what_is_not_handed_through_is_not_advised(self):
        hint = "its cost is felt; add force=true to do it all the same"
        self.fake(lambda method, target: (200, fake_status()) if method == "GET"
                  else (403, {"error": {"code": "denied", "message": "lg_sample 5 is too fine", "hint": hint}}))
        self.start_gateway()
        answer = self.expect(self.post(f"/targets/{os.getpid()}/v1/reset?lg_sample=5"), 403)
        self.assertEqual(answer.json["error"]["hint"], "not through a gateway: on the target's machine, with force=true")

    def test_a_value_that_is_too_long_for_an_agent_is_the_clients_error(self):
        self.fake(lambda method, target: (200, fake_status()))
        self.start_gateway()
        answer = self.expect(self.get(f"/targets/{os.getpid()}/v1/stats?options={'a' * 3000}"), 400)
        self.assertIn("too long a request", answer.json["error"]["message"])
        self.assertIn("2047 bytes", answer.json["error"]["hint"])

    def test_a_capture_ends_when_the_last_client_that_waits_for_it_has_left(self):
        agent = self.fake(lambda method, target: None if "profile" in target else (200, fake_status()))
        self.start_gateway(agent.path)

        def ask(path):
            client = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(client.close)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            return client

        def is_left(connection):
            return bool(select.select([connection], [], [], 0)[0]) and connection.recv(1) == b""

        for path in ("/v1/profile", "/api/v1/profile?format=text", "/api/v1/profile?format=text&merge=1", "/pprof/heap", "/mtev/heap_profile?trigger_dump=true"):
            with self.subTest(path):
                # Before the request is sent: it may have come to the agent by the next statement.
                before = len(agent.waiting)
                client = ask(path)
                wait_until(lambda before=before: len(agent.waiting) > before, "the agent to be asked")
                client.close()
                wait_until(lambda: is_left(agent.waiting[-1]), "the gateway to leave the agent")

    def test_a_target_that_does_not_answer_is_asked_once_per_scrape(self):
        agent = self.fake(lambda method, target: None)
        self.start_gateway(agent.path)
        self.expect(self.get("/metrics?collect=all"), 200)
        self.assertEqual({target for _, target in agent.requests}, {"/v1/status"})

    @unittest.skipIf(SANITIZED, "the agent of a sanitizer's build cannot be preloaded into Python")
    def test_a_target_that_does_not_wake_delays_a_scrape_by_its_time_limit_alone(self):
        sleeper = self.start(sys.executable, "-c", IS_BUSY, stdout=subprocess.PIPE, env={
            "LD_PRELOAD": AGENT, "HEAPCTL_THREAD": "on-demand", "HEAPCTL_DIR": self.agents})
        self.assertEqual(sleeper.stdout.readline(), b"ready\n")
        begun = time.monotonic()
        _, said = self.heapctl("status", sleeper.pid, code=1)
        patience = time.monotonic() - begun
        self.assertIn("does not wake its agent", said)
        self.start_gateway()
        path = f"/targets/{sleeper.pid}/metrics"
        wait_until(lambda: self.get(path).status == 200, "the gateway to list it")

        def delay():
            begun = time.monotonic()
            self.assertIn("heapctl_up{", self.expect(self.get(path), 200).text)
            return time.monotonic() - begun

        # A busy machine adds to one of them; with the patience of a command none is below it.
        self.assertLess(min(delay() for _ in range(5)), 0.8 * patience)

    def test_a_target_that_hangs_delays_no_other(self):
        agent = self.fake(lambda method, target: None)
        process, _ = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid, agent.path)
        hanging = [threading.Thread(target=self.get, args=(f"/targets/{os.getpid()}/v1/status",), daemon=True) for _ in range(20)]
        for thread in hanging:
            thread.start()
        wait_until(lambda: agent.requests, "the hanging agent to be asked")
        started = time.monotonic()
        self.expect(self.get("/v1/status"), 200)
        self.expect(self.get(f"/targets/{process.pid}/pprof/heap"), 200)
        listed = {target["pid"]: target for target in self.get("/targets").json["targets"]}
        self.assertTrue(listed[process.pid]["reachable"])
        self.assertFalse(listed[os.getpid()]["reachable"])
        self.assertIn("in time", listed[os.getpid()]["error"]["message"])
        metrics = self.get("/metrics").text
        self.assertIn(f'heapctl_up{{pid="{process.pid}"', metrics)
        self.assertRegex(metrics, rf'heapctl_up{{pid="{os.getpid()}",name="[^"]*",allocator=""}} 0\n')
        # The hanging one is given 5 s to answer; for twenty clients one after the other that would be 100.
        self.assertLess(time.monotonic() - started, 60)
        answer = self.expect(self.get(f"/targets/{os.getpid()}/v1/status"), 503)
        self.assertIn("Retry-After", answer.headers)
        # Twenty clients requested the same; the agent got a few requests at most.
        self.assertLess(len([r for r in agent.requests if r[1] == "/v1/status"]), 10)
        for thread in hanging:
            thread.join(30)

    def test_a_target_that_is_stopped_comes_back(self):
        process, _ = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        self.expect(self.get("/v1/status"), 200)
        stop(process.pid)
        try:
            self.expect(self.get("/v1/status"), 503)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        self.expect(self.get("/v1/status"), 200)

    def test_answers_that_are_nonsense_are_errors(self):
        answers = {"/v1/status": (200, b"[1, 2"), "/v1/runs": (200, b"{}"), "/v1/profile": (200, b"heap_v2/524288\nnonsense")}
        agent = self.fake(lambda method, target: answers.get(target, (404, b"not json")))
        self.start_gateway(agent.path)
        for path in ("/memory-profiler/state", "/memory-profiler/download/raw", "/debug/pprof/heap", "/mtev/heap_profile",
                     "/metrics", "/targets", "/api/v1/classes", "/api/v1/history", "/memory-profiler/start", "/pprof/heap"):
            answer = self.get(path)
            self.assertIn(answer.status, (200, 400, 404, 500, 503), f"{path}: {answer}")
        answers["/v1/status"] = (200, b"[1, 2]")
        self.assertTrue(self.expect(self.get("/api/v1/history"), 503).json["error"]["hint"])
        self.assertIn("not a JSON object: something else (agents", self.expect(self.get("/memory-profiler/state"), 503).text)
        answers["/v1/status"] = (200, json.dumps(fake_status(memory="none", run=[1], profiling=7)).encode())
        for path in ("/targets", "/metrics", "/memory-profiler/state", "/api/v1/history"):
            self.expect(self.get(path), 200)

    def test_a_profile_that_cannot_be_drawn_is_an_error_in_words(self):
        agent = self.fake(lambda method, target: (200, b"heap_v2/524288\n  t*: 1: what\n"))
        self.start_gateway(agent.path)
        answer = self.get("/debug/pprof/heap")
        self.assertIn(answer.status, (400, 500))
        self.assertRegex(answer.text, r"byte \d+|line \d+")

    def test_a_worker_that_dies_affects_no_other_request(self):
        profile = long_work()
        agent = self.fake(lambda method, target: (200, profile))
        gateway = self.start_gateway(agent.path)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.get("/debug/pprof/heap")))
        thread.start()
        worker = wait_until(lambda: children_of(gateway.pid), "a worker")[0]
        os.kill(worker, signal.SIGKILL)
        thread.join()
        self.expect(answers[0], 400)
        self.assertIn("signal 9", answers[0].text)
        self.expect(self.get("/debug/pprof/heap"), 200)

    def test_the_end_does_not_wait_for_a_worker_that_hangs(self):
        profile = long_work()
        agent = self.fake(lambda method, target: (200, profile))
        gateway = self.start_gateway(agent.path)
        asked = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(asked.close)
        asked.sendall(b"GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n")
        worker = wait_until(lambda: children_of(gateway.pid), "a worker")[0]
        # Stopped any sooner it would hold up the thread that starts it, inside the kernel.
        wait_until(lambda: b"render-worker" in pathlib.Path(f"/proc/{worker}/cmdline").read_bytes(), "the worker to be started")
        os.kill(worker, signal.SIGSTOP)
        gateway.terminate()
        # It has a minute for its work.
        self.assertEqual(gateway.wait(40), 0)

    def test_a_slow_client_delays_no_other(self):
        process, _ = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        slow = []
        for _ in range(50):
            s = socket.create_connection(("127.0.0.1", self.port))
            s.sendall(b"GET /memory-profiler/statistics HTTP/1.1\r\nHost: localhost\r\n")
            slow.append(s)
        self.expect(self.get("/v1/status"), 200)
        self.assertEqual(select.select(slow, [], [], 0)[0], [], "slow clients were cut off first")
        for s in slow:
            s.close()

    def test_answers_that_one_client_reads_slowly_leave_room_for_others(self):
        self.fake(lambda method, target: (200, b"x" * (15 << 20) if "stats" in target else fake_status()))
        self.start_gateway()
        path = f"/targets/{os.getpid()}/v1/stats"
        slow = []

        def is_refused():
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.bind(("127.0.0.2", 0))
            s.connect(("127.0.0.1", self.port))
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            slow.append(s)
            return s.recv(12) == b"HTTP/1.1 503"

        def is_answered():
            # None of them stops.
            for s in slow:
                with contextlib.suppress(OSError):
                    s.recv(256, socket.MSG_DONTWAIT)
            return self.get(path).status == 200
        # 256 MiB of answers in memory are for all.
        wait_until(is_refused, "the answers to take all memory for them")
        # As soon as they count as slow, which takes two seconds. Idle ones would leave after 30 s.
        wait_until(is_answered, "an answer for another client", 20)

    @unittest.skipIf(os.environ.get("HEAPCTL_SANITIZE") == "thread", "the thread sanitizer is too slow to fill all places")
    def test_who_comes_when_all_places_are_taken_waits_for_one(self):
        gateway = self.start_gateway("1")
        idle = self.connect_idle(600)
        threads = lambda: len(os.listdir(f"/proc/{gateway.pid}/task"))
        wait_until(lambda: threads() >= 512, "all places to be taken")
        late = socket.create_connection(("127.0.0.1", self.port))
        late.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        # Those that send nothing leave for it by themselves.
        self.assertTrue(select.select([late], [], [], 10)[0])
        self.assertLess(threads(), 540)
        for s in idle:
            s.close()
        self.assertIn(b" 200 ", late.recv(100))
        late.close()
        wait_until(lambda: threads() < 20, "the places to be free")

    def test_no_more_are_let_in_while_those_before_are_still_being_seated(self):
        gateway = self.start_gateway("1")
        wait_until(lambda: thread_called(gateway.pid, "MHD-listen"), "the thread that starts the others")
        descriptors = lambda: len(os.listdir(f"/proc/{gateway.pid}/fd"))
        # Without those of the questions whether it serves, which last for a moment.
        before = descriptors()
        for _ in range(20):
            time.sleep(0.05)
            before = min(before, descriptors())
        tracer = trace(self, gateway.pid, "MHD-listen")
        idle = self.connect_idle(600)
        # One place may still be that of such a question.
        wait_while_it_progresses(lambda: min(descriptors() - before, 511), 511, "as many connections as there are places")
        self.assertEqual(select.select(idle, [], [], 0.5)[0], [], "a connection was closed")
        self.assertLessEqual(descriptors(), before + 513)
        self.end(tracer)
        wait_until(lambda: len(os.listdir(f"/proc/{gateway.pid}/task")) >= 256, "the places to be taken")

    def test_who_is_slow_on_purpose_has_to_leave_when_others_wait(self):
        self.start_gateway("1")
        slow = self.connect_idle(512)
        for s in slow:
            s.sendall(b"GET /openapi.json HTTP/1.1\r\nX-Slow: ")

        def drip():
            while not over.wait(2):
                for s in slow:
                    try:
                        s.sendall(b"a")
                    except OSError:
                        pass
        over = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        # Without that none of them would ever end.
        for _ in range(3):
            self.expect(self.get("/openapi.json"), 200)

    def raw(self, data):
        """Everything that is answered until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(data)
            return b"".join(iter(lambda: s.recv(65536), b""))

    def test_a_head_that_can_be_read_in_two_ways_is_refused(self):
        self.start_gateway("1")
        post = b"POST /memory-profiler/stop HTTP/1.1\r\nConnection: close\r\n"
        for fields in (b"Host: localhost\r\nHost: evil.example\r\n",
                       b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", b"Host: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n",
                       b"Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                       b"Host: localhost\r\nTransfer-Encoding: gzip\r\n"):
            answer = self.raw(post + fields + b"\r\n0\r\n\r\n")
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
            self.assertIn(b"ambiguous", answer)
        hidden = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        keeping = b"POST /memory-profiler/stop HTTP/1.1\r\nHost: localhost\r\n"
        for field in (b"Content-Length : 50", b"Content-Length\t: 50", b"X: a\rContent-Length: 50", b"X: a\r\r", b"Content-Length: 5\0 0",
                      b"Content-Length\0: 50", b"X: a\r\n Content-Length: 50", b"Transfer-Encoding : chunked", b"X y: 1",
                      b"Content-Length:\r\n 50", b"Content-Length: 5\r\n\t0", b"Transfer-Encoding:\r\n chunked", b"X: a\r\n b"):
            answer = self.raw(keeping + field + b"\r\n\r\n" + hidden * 2)
            self.assertNotIn(b" 200 ", answer, field)
            self.assertLessEqual(answer.count(b"HTTP/1.1 "), 1, field)
        chunked = self.raw(post.replace(b"stop", b"start") + b"Host: localhost\r\nTransfer-Encoding: chunked\r\n"
                           b"Content-Type: application/x-www-form-urlencoded\r\n\r\n4\r\ndura\r\n7\r\ntion=so\r\n0\r\n\r\n")
        self.assertIn(b"'so' is not a duration", chunked)

    def test_a_request_without_host_is_refused_but_for_the_old_version(self):
        self.start_gateway("1")
        answer = self.raw(b"GET /openapi.json HTTP/1.1\r\nConnection: close\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer[:200])
        self.assertIn(b"the request has no Host", answer)
        answer = self.raw(b"GET /openapi.json HTTP/1.0\r\n\r\n")
        self.assertRegex(answer, rb"^HTTP/1\.[01] 200 ")

    def test_queries_of_many_parameters_are_answered(self):
        self.start_gateway("1")
        for count in (500, 5000):
            answer = self.raw(b"GET /openapi.json?%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (b"&".join([b"a=b"] * count)))
            self.assertRegex(answer, rb"^HTTP/1\.1 400 [^\0]*duplicate parameter 'a'")
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1)

    def test_a_body_that_is_far_too_large_is_refused_before_it_is_sent(self):
        self.start_gateway("1")
        answer = self.raw(b"POST /v1/activate HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer)

    def connect_idle(self, count):
        sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        for s in sockets:
            self.addCleanup(s.close)
        return sockets

    def test_too_much_is_refused(self):
        self.start_gateway("1")
        answer = self.ask("/v1/status?" + "a" * 40000)
        self.assertIn(answer.status, (400, 414, 431))
        answer = self.get("/v1/status", headers={"X-Long": "a" * 40000})
        self.assertIn(answer.status, (400, 413, 431))
        self.expect(self.post("/memory-profiler/start", body="a" * 100000), 413)


class Safety(GatewayCase):
    def setUp(self):
        super().setUp()
        self.process, _ = self.start_redis()
        self.wait_for_agent(self.process.pid)

    CHANGES = ("/memory-profiler/start", "/memory-profiler/stop", "/mtev/heap_profile?active=true")

    def test_other_sites_cannot_use_a_browser_against_it(self):
        self.start_gateway(self.process.pid)
        for headers in ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
                        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
                        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
                        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Referer": "http://evil.example/"}):
            for path in self.CHANGES:
                self.expect(self.get(path, headers=headers), 403)
            self.expect(self.ask("/v1/activate", "POST", headers), 403)
        self.assertFalse(self.get("/v1/status").json["profiling"]["active"])
        self.assertIsNone(self.get("/v1/status").json["run"])
        # An image or a script of another site reads nothing either; a link to look at something works.
        self.expect(self.get("/pprof/heap", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}), 403)
        self.expect(self.get("/targets", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}), 200)
        own = {"Sec-Fetch-Site": "same-origin", "Origin": self.url}
        self.expect(self.ask("/v1/activate", "POST", own), 200)

    def test_a_name_that_was_made_point_here_is_refused(self):
        self.start_gateway(self.process.pid)
        for path in ("/", "/targets", "/memory-profiler/start", "/metrics"):
            self.expect(self.get(path, headers={"Host": "rebind.example"}), 403)
        for host in ("localhost:1", "127.0.0.1", f"[::1]:{self.port}"):
            self.expect(self.get("/targets", headers={"Host": host}), 200)

    def test_reading_never_changes_anything(self):
        self.start_gateway(self.process.pid)
        before = self.get("/v1/status").json["profiling"]
        document = self.get("/openapi.json").json
        for pattern, operations in document["paths"].items():
            if "get" in operations and not operations["get"]["x-changes"] and "{" not in pattern:
                self.get(pattern)
        after = self.get("/v1/status").json
        self.assertEqual(before["active"], after["profiling"]["active"])
        self.assertIsNone(after["run"])

    def write_token(self, mode=0o600, text="correct-horse-battery\n"):
        path = os.path.join(self.folder, "token")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_addresses_that_are_none_are_refused(self):
        for address in ("", " ", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1:-1", "65536", "127.0.0.1:80:90", "[::1",
                        "[::1]", "[::1]x:80", "::1:80", "unix:", "localhost:99999999999999999999"):
            _, message = self.heapctl("serve", "--listen", address, self.process.pid, code=2)
            self.assertRegex(message, r"has no port|port of .* is too large \(write HOST|more than one ':'|no path \(write unix:", address)

    def test_an_address_that_cannot_be_used_comes_with_advice(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for address, code, words in (("1.2.3.4.5:x", 2, "'x' is not a number (write HOST:PORT"),
                                         ("no-such-host.invalid:7070", 2, "finding the address of 'no-such-host.invalid'"),
                                         ("192.0.2.1:7070", 1, "(use an address of this machine)"),
                                         (f"127.0.0.1:{taken.getsockname()[1]}", 1, "(another process listens there: use another port)")):
                _, message = self.heapctl("serve", "--listen", address, self.process.pid, code=code)
                self.assertIn(words, message)

    def test_a_target_that_is_not_there_is_logged_at_the_start(self):
        log = open(os.path.join(self.folder, "gateway.log"), "w+")
        self.addCleanup(log.close)
        self.port = free_port()
        self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", self.process.pid, "no-such-program", stderr=log, wait_for=self.is_serving)
        text = wait_until(lambda: (found := pathlib.Path(log.name).read_text()).count("\n") >= 2 and found, "the lines in the log")
        self.assertIn("target not reachable yet: no process is called 'no-such-program'", text)
        self.assertEqual(text.count("not reachable"), 1, text)

    def test_an_empty_target_is_refused(self):
        _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", "", code=2)
        self.assertIn("a TARGET is empty", message)

    def test_a_folder_that_is_none_is_refused(self):
        """--source-root "$UNSET" would serve every source of the machine."""
        file = os.path.join(self.folder, "file")
        pathlib.Path(file).touch()
        for option in ("--source-root", "--symbols"):
            for folder, code, reason in (("", 2, "the name is empty"), (os.path.join(self.folder, "absent"), 1, "No such file or directory"),
                                         (file, 1, "Not a directory")):
                _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", option, folder, code=code)
                self.assertIn(option, message)
                self.assertIn(reason, message)
        _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", "--source-root", f"{self.folder}:{self.folder}/absent", code=1)
        self.assertIn("absent: No such file or directory", message)

    def test_a_token_that_no_client_could_send_is_refused(self):
        for text, words in (("", "0 characters"), ("\ncorrect-horse-battery\n", "0 characters"), ("too-short\n", "9 characters"),
                            ("correct-horse-battery \n", "character 22"), ("correct horse battery\n", "character 8"),
                            ("corr\u00e8ct-horse-battery\n", "character 5")):
            path = self.write_token(text=text)
            _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", "--token-file", path, code=1)
            self.assertIn(words, message)

    def test_a_head_alone_changes_nothing(self):
        self.start_gateway(self.process.pid)
        for path in self.CHANGES:
            self.assertIn("GET", self.expect(self.ask(path, "HEAD"), 405).headers["Allow"])
        status = self.get("/v1/status").json
        self.assertEqual((status["run"], status["profiling"]["active"]), (None, False))
        self.expect(self.ask("/mtev/heap_profile", "HEAD"), 200)

    def test_other_addresses_need_a_token(self):
        for address in ("0.0.0.0:0", ":0", "[::]:0"):
            _, message = self.heapctl("serve", "--listen", address, self.process.pid, code=1)
            self.assertIn("--token-file", message)
        _, message = self.heapctl("serve", "--token-file", self.write_token(0o644), code=1)
        self.assertIn("chmod", message)
        _, message = self.heapctl("serve", "--listen", "127.0.0.1", code=2)
        self.assertIn("port", message)

    def test_files_are_drawn_for_those_with_the_token(self):
        stacks, more = b"main;parse 300\nmain;grow 100\n", b"main;parse 300\nmain;grow 150\n"
        self.start_gateway("--token-file", self.write_token(), self.process.pid)
        own = {"Authorization": "Bearer correct-horse-battery"}
        self.expect(self.post("/api/v1/file?format=text", body=stacks), 401)
        self.expect(self.post("/api/v1/file?format=text", {**own, "Origin": "http://elsewhere.example"}, stacks), 403)
        self.expect(self.ask("/api/v1/file?format=text", headers=own), 405)
        answer = self.expect(self.post("/api/v1/file?format=collapsed&name=a.txt", own, stacks), 200)
        self.assertEqual(answer.text, "main;parse 300\nmain;grow 100\n")
        answer = self.expect(self.post(f"/api/v1/file?format=rows&base_size={len(stacks)}", own, stacks + more), 200)
        self.assertEqual(answer.json["total"]["value"], 50)
        for path, body, why in (("", b"", "no profile in its body"), ("?name=x.bin", b"nonsense", "x.bin: byte 0: not a profile"), ("?format=raw", stacks, "what was sent"),
                                (f"?base_size={len(stacks)}", stacks, "base_size must leave something")):
            answer = self.expect(self.post(f"/api/v1/file{path}", own, body), 400)
            self.assertIn(why, answer.json["error"]["message"])

    def test_source_is_read_below_its_folder_alone(self):
        """The names of files come from the profile, which may name any."""
        root, outside = pathlib.Path(self.folder, "root"), pathlib.Path(self.folder, "outside")
        for folder in (root / "src", outside):
            folder.mkdir(parents=True)
        (root / "src/work.c").write_text("int work(void)\n{\n\treturn inside;\n}\n")
        for path in (outside / "secret.c", pathlib.Path(self.folder, "root-not.c")):
            path.write_text("forbidden\n" * 9)
        (root / "link.c").symlink_to(outside / "secret.c")
        (root / "folder").symlink_to(outside)
        os.mkfifo(root / "pipe.c")
        named = ["/build/elsewhere/src/work.c", "src/work.c", str(root / "src/work.c"), str(root / "src/../src/work.c")]
        refused = [str(outside / "secret.c"), "/etc/passwd", "../outside/secret.c", str(root / "../outside/secret.c"), str(root / "link.c"), "link.c",
                   "folder/secret.c", str(root / "folder/secret.c"), f"{root}-not.c", "pipe.c", str(root / "src"), ".", "", "/", "/proc/self/environ", "/dev/zero"]
        self.start_gateway("--source-root", root, self.process.pid)
        for path in (*named, *refused):
            with self.subTest(path):
                answer = self.post("/api/v1/file?format=source&function=work", body=pprof_with_file(path))
                self.assertNotIn("forbidden", answer.text)
                self.assertNotIn("root:", answer.text)
                if path in named:
                    self.assertIn("return inside;", self.expect(answer, 200).text)
        self.expect(self.post("/api/v1/file?format=source", body=pprof_with_file("src/work.c")), 400)
        self.start_gateway(self.process.pid)
        answer = self.expect(self.post("/api/v1/file?format=source&function=work", body=pprof_with_file(str(root / "src/work.c"))), 403)
        self.assertIn("--source-root DIR", answer.json["error"]["hint"])

    def test_symbols_are_served_below_their_folder_alone(self):
        root, outside = pathlib.Path(self.folder, "symbols"), pathlib.Path(self.folder, "outside")
        ids = root / ".build-id/ab"
        ids.mkdir(parents=True)
        outside.write_bytes(b"forbidden")
        contents = os.urandom(3 << 20)
        (ids / "cdef01.debug").write_bytes(contents)
        (ids / "link.debug").write_bytes(b"forbidden")
        (ids / "0002.debug").symlink_to(outside)
        (ids / "0003.debug").symlink_to("../../../outside")
        (ids / "0004.debug").symlink_to("/.build-id/ab/cdef01.debug")
        (ids / "0006.debug").mkdir()
        os.mkfifo(ids / "0005.debug")
        self.start_gateway("--symbols", root, self.process.pid)
        for build_id in ("abcdef01", "ab0004"):
            answer = self.expect(self.get(f"/buildid/{build_id}/debuginfo"), 200)
            self.assertEqual(contents, answer.body)
            self.assertEqual("application/octet-stream", answer.headers["Content-Type"])
        for build_id in ("abcdef02", "ab0002", "ab0003", "ab0005", "ab0006", "ABCDEF01", "ablink", "ab", "..", "%2e%2e%2foutside", "ab" * 65):
            with self.subTest(build_id):
                answer = self.get(f"/buildid/{build_id}/debuginfo")
                self.assertEqual(404, answer.status)
                self.assertNotIn(b"forbidden", answer.body)
        for build_id, why in (("67", "too short: 2 hex digits"), ("a", "too short: 1 hex digit"), ("ab" * 65, "too long: 130 hex digits"),
                              ("ABCDEF01", "lower-case hex digits"), ("..", "lower-case hex digits")):
            self.assertIn(why, self.get(f"/buildid/{build_id}/debuginfo").json["error"]["message"])
        for path in ("/buildid/abcdef01/executable", "/buildid/abcdef01/source/etc/passwd", "/buildid/abcdef01"):
            self.expect(self.get(path), 404)
        self.expect(self.post("/buildid/abcdef01/debuginfo"), 405)
        self.start_gateway(self.process.pid)
        self.assertIn("--symbols DIR", self.expect(self.get("/buildid/abcdef01/debuginfo"), 404).json["error"]["hint"])
        self.start_gateway("--symbols", root, "--token-file", self.write_token(), self.process.pid)
        self.expect(self.get("/buildid/abcdef01/debuginfo"), 401)

    def test_too_large_a_file_is_refused_before_it_is_sent(self):
        self.start_gateway(self.process.pid)
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(f"POST /api/v1/file HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
            self.assertRegex(connection.recv(4096), rb"^HTTP/1.1 413 ")

    def test_the_token_is_asked_for(self):
        self.start_gateway("--token-file", self.write_token(), self.process.pid)
        for headers in ({}, {"Authorization": "Bearer correct-horse-batterx"}, {"Authorization": "Bearer"},
                        {"Authorization": "Basic Og=="}):
            answer = self.expect(self.get("/targets", headers=headers), 401)
            self.assertIn("Bearer", answer.headers["WWW-Authenticate"])
            self.assertEqual(answer.headers.get_all("WWW-Authenticate"), ['Bearer realm="heapctl"', 'Basic realm="heapctl"'])
            own = self.get("/targets", headers=dict(headers, **{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}))
            self.assertEqual(self.expect(own, 401).headers.get_all("WWW-Authenticate"), ['Bearer realm="heapctl"'])
            self.expect(self.get("/metrics", headers=headers), 401)
            self.expect(self.ask("/v1/activate", "POST", headers), 401)
        self.expect(self.get("/targets", headers={"Authorization": "Bearer correct-horse-battery"}), 200)
        # curl -u me:TOKEN, and programs that take it from the URL.
        self.expect(self.get("/targets", headers={"Authorization": "Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"}), 200)
        # The page itself holds no secret: it asks for the token.
        self.expect(self.get("/"), 200)
        status, _ = self.heapctl("status", f"{self.url}/targets/{self.process.pid}",
                                 env={"HEAPCTL_TOKEN": "correct-horse-battery"})
        self.assertIn("redis", status)

    def test_tls(self):
        openssl = need("openssl")
        certificate, key = os.path.join(self.folder, "cert.pem"), os.path.join(self.folder, "key.pem")
        subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                        "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                       check=True, capture_output=True)
        self.port = free_port()
        context = ssl.create_default_context(cafile=certificate)

        def ask_tls():
            connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=20)
            try:
                connection.request("GET", "/targets")
                return connection.getresponse().status
            except ConnectionRefusedError:
                return None
            finally:
                connection.close()
        self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", "--tls-cert", certificate, "--tls-key", key,
                   self.process.pid, wait_for=ask_tls)
        self.assertEqual(ask_tls(), 200)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.get("/targets", timeout=10)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.assertEqual(ask_tls(), 200)
        for ciphers in ("ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA", "AES128-GCM-SHA256"):
            context.set_ciphers(ciphers)
            with self.assertRaises(OSError, msg=ciphers):
                ask_tls()
        os.chmod(key, 0o644)
        _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, code=1)
        self.assertIn("can read the private key", message)
        os.chmod(key, 0o600)
        status, _ = self.heapctl("status", f"https://localhost:{self.port}/targets/{self.process.pid}",
                                 env={"HEAPCTL_CACERT": certificate})
        self.assertIn("redis", status)
        for environment, url, hint in (({}, f"http://localhost:{self.port}", "try https://"),
                                       ({}, f"https://localhost:{self.port}", "HEAPCTL_CACERT names a PEM file"),
                                       ({"HEAPCTL_CACERT": "/nonexistent"}, f"https://localhost:{self.port}", "HEAPCTL_CACERT names a PEM file")):
            self.assertIn(hint, self.heapctl("status", url, code=1, env=environment)[1])
        self.start_gateway(self.process.pid)
        self.assertIn("try http://", self.heapctl("status", self.url.replace("http:", "https:"), code=1)[1])
        _, message = self.heapctl("serve", "--tls-cert", certificate, code=2)
        self.assertIn("key", message)
        os.chmod(certificate, 0o600)
        _, message = self.heapctl("serve", "--listen", "127.0.0.1:0", "--tls-cert", key, "--tls-key", certificate, code=1)
        self.assertIn("PEM", message)

    def test_a_certificate_that_expired_is_reported_and_replaced_on_sighup(self):
        openssl = need("openssl")
        certificate, key, request = (os.path.join(self.folder, name) for name in ("cert.pem", "key.pem", "request.pem"))

        def renew(name, days):
            subprocess.run([openssl, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                            "-out", request, "-subj", f"/CN={name}"], check=True, capture_output=True)
            subprocess.run([openssl, "x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-out", certificate],
                           check=True, capture_output=True)

        def shown():
            return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=20)

        def is_listening():
            with contextlib.suppress(OSError):
                return shown()
        renew("old", -1)
        self.port = free_port()
        log = open(os.path.join(self.folder, "serve.log"), "w+")
        self.addCleanup(log.close)

        def said():
            return pathlib.Path(log.name).read_text()
        gateway = self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", "--tls-cert", certificate, "--tls-key", key,
                             self.process.pid, stderr=log, wait_for=is_listening)
        wait_until(lambda: f"{certificate}: the certificate expired on " in said(), "the warning")
        old = shown()
        open_context = ssl.create_default_context()
        open_context.check_hostname, open_context.verify_mode = False, ssl.CERT_NONE
        kept = http.client.HTTPSConnection("127.0.0.1", self.port, context=open_context, timeout=20)
        self.addCleanup(kept.close)
        kept.request("GET", "/targets")
        self.assertEqual(kept.getresponse().read()[:1], b"{")
        # A half-written renewal changes nothing.
        text = pathlib.Path(certificate).read_text()
        pathlib.Path(certificate).write_text(text[:100])
        gateway.send_signal(signal.SIGHUP)
        wait_until(lambda: "the old certificate stays: " in said(), "the refusal")
        self.assertEqual(shown(), old)
        renew("new", 2)
        gateway.send_signal(signal.SIGHUP)
        wait_until(lambda: "the certificate was read again" in said(), "the new certificate")
        self.assertEqual(shown(), pathlib.Path(certificate).read_text())
        self.assertEqual(said().count("expired"), 1)
        kept.request("GET", "/targets")
        self.assertEqual(kept.getresponse().status, 200)

    def test_a_unix_socket(self):
        path = os.path.join(self.folder, "gateway.sock")
        gateway = self.start(HEAPCTL, "serve", "--listen", f"unix:{path}", self.process.pid, wait_for=lambda: os.path.exists(path))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.expect(self.ask_unix(path, "/targets"), 200)
        self.expect(self.ask_unix(path, "/v1/activate", "POST"), 200)
        # The target is what the gateway serves, not the gateway.
        self.assertTrue(self.heapctl("status", f"unix:{path}")[0].startswith(f"unix:{path} redis-server\n"))
        self.assertIn(f"redis-server[{self.process.pid}]", self.heapctl("account", path)[0].splitlines()[0])
        self.heapctl("dump", path, "-o", os.path.join(self.folder, "profile"))
        self.assertIn(b"\n#process redis-server\n", pathlib.Path(self.folder, "profile").read_bytes())
        _, message = self.heapctl("serve", "--listen", f"unix:{path}", code=1)
        self.assertIn("another process", message)
        self.end(gateway)
        self.assertFalse(os.path.exists(path))
        # A socket that a killed gateway left is replaced; a file that is no socket is not.
        gateway = self.start(HEAPCTL, "serve", "--listen", path, self.process.pid, wait_for=lambda: os.path.exists(path))
        gateway.kill()
        gateway.wait()
        self.start(HEAPCTL, "serve", "--listen", path, self.process.pid, wait_for=lambda: self.answers_at(path))
        regular = os.path.join(self.folder, "file")
        with open(regular, "w") as file:
            file.write("precious")
        self.heapctl("serve", "--listen", regular, code=1)
        with open(regular) as file:
            self.assertEqual(file.read(), "precious")

    def answers_at(self, path):
        try:
            return self.ask_unix(path, "/targets").status == 200
        except OSError:
            return False

    def test_it_ends_at_once_on_a_signal(self):
        gateway = self.start_gateway(self.process.pid)
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/debug/pprof/heap?seconds=600")
        wait_until(lambda: self.get("/v1/status").json["last_dump"], "the first of its two profiles")
        gateway.terminate()
        self.assertEqual(gateway.wait(60), 0)
        connection.close()

    def test_changes_are_logged_with_who_asked(self):
        log = open(os.path.join(self.folder, "gateway.log"), "w+")
        self.addCleanup(log.close)
        self.port = free_port()
        self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", self.process.pid, stderr=log, wait_for=self.is_serving)
        self.post("/v1/activate")
        # It is written when the answer has gone.
        wait_until(lambda: "127.0.0.1 asked for POST /v1/activate: 200" in pathlib.Path(log.name).read_text(), "the line in the log")
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"POST /v1/activate#\x1b[2J\x9b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            while connection.recv(4096):
                pass
        text = pathlib.Path(log.name).read_bytes()
        self.assertNotIn(b"\x1b", text)
        self.assertNotIn(b"\x9b", text)


class Sharing(GatewayCase):
    def test_simultaneous_requests_for_the_same_picture_are_one(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        run = self.make_run(port)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.get(f"/memory-profiler/download/flame?id={run}")))
                   for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(len({answer.body for answer in answers}), 1)
        made = re.search(r'heapctl_gateway_pictures_total{result="made"} (\d+)', self.get("/metrics").text).group(1)
        self.assertEqual(int(made), 1)


if __name__ == "__main__":
    unittest.main()
