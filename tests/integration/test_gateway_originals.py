#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway in place of Mesos, libmtev, gperftools and Go, used by their own clients, with a real Redis."""
import gzip
import json
import os
import re
import subprocess
import threading
import time
import unittest

from gateway import GatewayCase
from processes import need, wait_until


class Originals(GatewayCase):
    def setUp(self):
        super().setUp()
        self.redis_process, self.redis_port = self.start_redis()
        self.wait_for_agent(self.redis_process.pid)
        self.start_gateway(self.redis_process.pid)

    def run_program(self, *command, shell=False, env=None, code=0):
        settings = dict(self.environment, HOME=self.folder, JEPROF_TMPDIR=os.path.join(self.folder, "jeprof"),
                        PPROF_TMPDIR=os.path.join(self.folder, "pprof"), **(env or {}))
        result = subprocess.run(command[0] if shell else [str(word) for word in command], shell=shell, cwd=self.folder,
                                env=settings, capture_output=True, text=True, timeout=180)
        if code is not None:
            self.assertEqual(result.returncode, code, f"{command}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
        self.code = result.returncode
        return result.stdout + result.stderr


    def run_until_it_works(self, *command):
        """For a script that sleeps until it believes a run to be over, and on a busy machine may be wrong."""
        said = []

        def works():
            said.append(self.run_program(*command, code=None))
            return self.code == 0
        try:
            wait_until(works, f"{command} to work")
        except AssertionError as error:
            raise AssertionError(f"{error}: {said[-1][-2000:]}") from None

    def assert_remaining(self, text, seconds, started):
        """A run of so many seconds began after `started`."""
        self.assertTrue(seconds - (time.monotonic() - started) - 1 <= int(text) <= seconds, text)


class Mesos(Originals):
    def test_the_documented_script_runs_unchanged(self):
        need("curl"), need("wget")
        script = os.path.join(self.folder, "profile.sh")
        with open(script, "w") as file:
            file.write("#!/bin/bash\n\nSECONDS=1\nHOST=127.0.0.1:%d\n\n"
                       "curl ${HOST}/memory-profiler/start?duration=${SECONDS}\n"
                       "sleep $((${SECONDS} + 1))\n"
                       "wget ${HOST}/memory-profiler/download/raw\n" % self.port)
        self.run_until_it_works("bash", script)
        with open(os.path.join(self.folder, "raw")) as file:
            self.assertTrue(file.read().startswith("heap_v2/524288\n"))

    def test_the_script_that_keeps_the_id_runs_too(self):
        need("curl"), need("wget"), need("jq")
        script = os.path.join(self.folder, "profile.sh")
        with open(script, "w") as file:
            file.write("#!/bin/bash\nset -e\nHOST=127.0.0.1:%d\n"
                       "ID=$(curl -s ${HOST}/memory-profiler/start?duration=1 | jq .id)\n"
                       "sleep 1.5\n"
                       "wget -O mine ${HOST}/memory-profiler/download/raw?id=${ID}\n"
                       "curl -sf -o mine.txt ${HOST}/memory-profiler/download/text?id=${ID}\n"
                       "curl -sf -o mine.svg ${HOST}/memory-profiler/download/graph?id=${ID}\n" % self.port)
        self.run_until_it_works("bash", script)
        with open(os.path.join(self.folder, "mine")) as file:
            self.assertTrue(file.read().startswith("heap_v2/"))

    def test_start_answers_as_the_original(self):
        started = time.monotonic()
        answer = self.expect(self.get("/memory-profiler/start?duration=5mins"), 200)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        first = answer.json
        self.assertEqual(set(first), {"id", "message", "remaining_seconds"})
        self.assertIs(type(first["id"]), int)
        self.assertIs(type(first["message"]), str)
        self.assertIs(type(first["remaining_seconds"]), str)
        self.assertRegex(first["remaining_seconds"], r"^\d+$")
        self.assert_remaining(first["remaining_seconds"], 300, started)
        again = self.expect(self.get("/memory-profiler/start?duration=10secs"), 200).json
        self.assertEqual(again["id"], first["id"])
        self.assertIn("already active", again["message"])
        # A form works as well as the query.
        posted = self.post("/memory-profiler/start", {"Content-Type": "application/x-www-form-urlencoded"}, "duration=1mins")
        self.assertEqual(posted.json["id"], first["id"])

    def test_the_default_is_five_minutes(self):
        started = time.monotonic()
        self.assert_remaining(self.get("/memory-profiler/start").json["remaining_seconds"], 300, started)

    def test_every_unit_is_known(self):
        for text, seconds in {"90000ms": 90, "2mins": 120, "1.5mins": 90, "0.5hrs": 1800, "90000000us": 90, "90": 90,
                              "90secs": 90, "0.001days": 86.4}.items():
            started = time.monotonic()
            run = self.expect(self.get(f"/memory-profiler/start?duration={text}"), 200).json
            self.assert_remaining(run["remaining_seconds"], seconds, started)
            self.expect(self.get("/memory-profiler/stop"), 200)

    def test_wrong_durations_are_refused_in_plain_text(self):
        for text in ("0", "0.5", "25hrs", "-1mins", "abc", "", "5parsecs", "2days", "1weeks"):
            answer = self.expect(self.get(f"/memory-profiler/start?duration={text}"), 400)
            self.assertTrue(answer.headers["Content-Type"].startswith("text/plain"), answer.headers)

    def test_sampling_that_another_tool_switched_on_is_left_alone(self):
        self.expect(self.post("/v1/activate"), 200)
        self.expect(self.get("/memory-profiler/start?duration=5mins"), 409)
        self.expect(self.get("/memory-profiler/stop"), 400)
        self.assertTrue(self.get("/v1/status").json["profiling"]["active"])

    def test_stop_says_where_the_profiles_are(self):
        self.expect(self.get("/memory-profiler/stop"), 400)
        run = self.get("/memory-profiler/start?duration=5mins").json
        # One sample in 512 KiB, so 40 of the values; none at all once in e^40 runs.
        self.load_redis(self.redis_port, keys=40000, size=500)
        stopped = self.expect(self.get("/memory-profiler/stop"), 200).json
        self.assertEqual(set(stopped), {"id", "message", "url_raw_profile", "url_graph_profile", "url_symbolized_profile"})
        self.assertEqual(stopped["id"], str(run["id"]))
        self.assertEqual(stopped["url_raw_profile"], f"/memory-profiler/download/raw?id={run['id']}")
        again = self.expect(self.get("/memory-profiler/stop"), 200).json
        self.assertEqual(again["id"], stopped["id"])
        raw = self.expect(self.get(stopped["url_raw_profile"]), 200)
        text = self.expect(self.get(stopped["url_symbolized_profile"]), 200)
        graph = self.expect(self.get(stopped["url_graph_profile"]), 200)
        for answer in (raw, text, graph):
            self.assertEqual(answer.headers["Content-Type"], "application/octet-stream")
            self.assertRegex(answer.headers["Content-Disposition"], r"^attachment; filename=[A-Za-z0-9._-]+$")
        self.assertTrue(raw.body.startswith(b"heap_v2/"))
        self.assertTrue(text.body.startswith(b"Total: "))
        self.assertIn("createStringObject", text.text)
        self.assertIn(b"<svg", graph.body)

    def test_state_has_the_documented_keys(self):
        state = self.expect(self.get("/memory-profiler/state"), 200).json
        self.assertEqual(state["memory_profiler"], {
            "jemalloc_detected": True, "tmp_dir": "Not yet generated", "current_run": {"id": None, "remaining_seconds": 0}})
        self.assertEqual(state["jemalloc"], {
            "malloc_conf": {"environment": "prof:true,prof_active:false", "build_options": state["jemalloc"]["malloc_conf"]["build_options"]},
            "profiling_enabled": True, "profiling_active": False})
        self.assertIs(type(state["jemalloc"]["malloc_conf"]["build_options"]), str)
        started = time.monotonic()
        run = self.get("/memory-profiler/start?duration=5mins").json
        running = self.get("/memory-profiler/state").json
        self.assertEqual(running["memory_profiler"]["current_run"]["id"], run["id"])
        self.assert_remaining(running["memory_profiler"]["current_run"]["remaining_seconds"], 300, started)
        self.assertTrue(running["jemalloc"]["profiling_active"])
        self.get("/memory-profiler/stop")
        self.get("/memory-profiler/download/raw")
        after = self.get("/memory-profiler/state").json["memory_profiler"]
        self.assertEqual(after["current_run"], {"id": run["id"], "remaining_seconds": 0})
        self.assertNotEqual(after["tmp_dir"], "Not yet generated")

    def test_statistics_are_malloc_stats_print(self):
        answer = self.expect(self.get("/memory-profiler/statistics"), 200)
        self.assertEqual(answer.headers["Content-Type"], "application/json; charset=utf-8")
        self.assertIn("stats.arenas", answer.json["jemalloc"])

    def test_downloads_are_refused_where_the_original_refuses(self):
        for what in ("raw", "text", "graph"):
            path = f"/memory-profiler/download/{what}"
            self.expect(self.get(path), 400)
            for wrong in ("abc", "-1", "5%3Bls", "99999999999999999999", ""):
                self.expect(self.get(f"{path}?id={wrong}"), 400)
            self.assertIn("there is no run 12345", self.expect(self.get(f"{path}?id=12345"), 404).text)
        first = self.get("/memory-profiler/start?duration=5mins").json["id"]
        self.get("/memory-profiler/stop")
        second = self.get("/memory-profiler/start?duration=5mins").json["id"]
        self.assertNotEqual(first, second)
        self.expect(self.get("/memory-profiler/download/raw"), 400)
        self.expect(self.get(f"/memory-profiler/download/raw?id={second}"), 400)
        self.expect(self.get(f"/memory-profiler/download/raw?id={first}"), 200)

    def test_a_second_run_does_not_contain_the_first(self):
        # One sample in 4 KiB: the first holds some 20 +- 0.3 MiB, the second what a connection and ten keys need.
        self.expect(self.post("/v1/reset?lg_sample=12"), 200)
        first = self.make_run(self.redis_port, keys=40000)
        second = self.make_run(self.redis_port, keys=10)
        total = {}
        for run in (first, second):
            text = self.expect(self.get(f"/memory-profiler/download/text?id={run}"), 200).text
            # Like jeprof, a profile without a sample has no "Total:" line; a few keys may well leave none. One that was
            # freed in the run makes it negative.
            total[run] = float(re.search(r"^Total: (-?[\d.]+) MB", text).group(1)) if text else 0
        self.assertGreater(total[first], 5)
        self.assertLess(total[second], 2)

    def test_more_formats_under_the_same_roof(self):
        run = self.make_run(self.redis_port, keys=40000)
        other = self.make_run(self.redis_port, keys=50000)
        flame = self.expect(self.get(f"/memory-profiler/download/flame?id={run}"), 200)
        self.assertIn(b"<html", flame.body)
        pprof = self.expect(self.get(f"/memory-profiler/download/pprof?id={run}"), 200)
        self.assertIn(b"inuse_space", gzip.decompress(pprof.body))
        collapsed = self.expect(self.get(f"/memory-profiler/download/collapsed?id={run}"), 200)
        self.assertRegex(collapsed.text.splitlines()[0], r"^\S.* \d+$")
        self.assertTrue(self.expect(self.get(f"/memory-profiler/download/json?id={run}"), 200).json)
        for path in ("/memory-profiler/diff", "/diff"):
            diff = self.expect(self.get(f"{path}?base={run}&id={other}"), 200)
            self.assertIn("Total:", diff.text)
        self.expect(self.get(f"/diff?base={run}&id={other}&format=flame"), 200)
        self.expect(self.get(f"/diff?base={run}"), 400)
        self.expect(self.get(f"/diff?base={run}&id=17"), 404)
        self.expect(self.get(f"/diff?base=17&id={run}"), 404)


class Libmtev(Originals):
    def test_the_three_lines(self):
        answer = self.expect(self.get("/mtev/heap_profile"), 200)
        self.assertTrue(answer.headers["Content-Type"].startswith("text/plain"))
        self.assertEqual(answer.text, "opt.prof: true\nprof.active: false\nprof.thread_active_init: true\n")

    def test_sampling_is_switched_by_get(self):
        self.assertEqual(len(self.expect(self.get("/mtev/heap_profile?active=true"), 200).text.splitlines()), 1)
        self.assertIn("prof.active: true", self.get("/mtev/heap_profile").text)
        for wrong in ("active=", "active=NaN", "active=-1", "active=yes", "active=TRUE", "trigger_dump=yes", "activ=true"):
            answer = self.expect(self.get(f"/mtev/heap_profile?{wrong}"), 400)
            self.assertRegex(answer.text, r"must be one of true, false, not|there is no parameter 'activ'")
        self.assertIn("prof.active: true", self.get("/mtev/heap_profile").text)
        # `active` wins over `trigger_dump`.
        self.expect(self.get("/mtev/heap_profile?trigger_dump=true&active=false"), 200)
        self.assertIn("prof.active: false", self.get("/mtev/heap_profile").text)

    def test_a_dump_is_the_body(self):
        answer = self.expect(self.get("/mtev/heap_profile?trigger_dump=true"), 200)
        self.assertEqual(answer.headers["Content-Type"], "application/x-jemalloc-heap-profile")
        self.assertTrue(answer.body.startswith(b"heap_v2/"))
        self.assertIn(b"MAPPED_LIBRARIES", answer.body)

    def test_memory_json(self):
        answer = self.expect(self.get("/mtev/memory.json"), 200)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.assertIn("jemalloc", answer.json)

    def test_a_failure_is_500_in_plain_text(self):
        self.end(self.redis_process)
        answer = self.expect(self.get("/mtev/heap_profile"), 500)
        self.assertTrue(answer.headers["Content-Type"].startswith("text/plain"))


class UnknownTargets(Originals):
    def test_a_target_that_does_not_exist_is_404(self):
        for path in ("mtev/memory.json", "mtev/heap_profile", "mtev/heap_profile?active=true", "memory-profiler/state",
                     "memory-profiler/start", "memory-profiler/stop", "memory-profiler/statistics",
                     "memory-profiler/download/raw", "memory-profiler/download/flame?id=1", "download/raw",
                     "memory-profiler/diff?base=1&id=2", "diff?base=1&id=2", "pprof/heap", "pprof/growth", "pprof/symbol",
                     "pprof/cmdline", "debug/pprof/", "debug/pprof/heap", "debug/pprof/heap?seconds=1", "debug/pprof/allocs",
                     "debug/pprof/symbol", "debug/pprof/cmdline", "metrics"):
            answer = self.get(f"/targets/nosuch/{path}")
            self.assertEqual((answer.status, answer.text),
                             (404, "there is no target 'nosuch' (/targets lists them; a pid works, too)\n"), path)

    def test_an_unknown_parameter_is_named(self):
        for path in ("memory-profiler/start", "memory-profiler/stop", "memory-profiler/state", "memory-profiler/download/raw",
                     "pprof/heap", "pprof/cmdline", "pprof/symbol", "debug/pprof/heap", "debug/pprof/", "metrics", "mtev/heap_profile"):
            answer = self.expect(self.get(f"/{path}?duratoin=5mins"), 400)
            self.assertIn("there is no parameter 'duratoin'", answer.text)
        for path in ("api/v1/timeline?max=x", "api/v1/profile?id=x", "api/v1/profile?format=x", "v1/stats?options=5x", "v1/runs/x"):
            self.assertTrue(self.expect(self.get(f"/{path}"), 400).json["error"]["hint"], path)
        self.assertIsNone(self.get("/memory-profiler/state").json["memory_profiler"]["current_run"]["id"])


class Gperftools(Originals):
    def test_jeprof_prints_symbols(self):
        jeprof = need("jeprof")
        self.make_run(self.redis_port)
        output = self.run_program(jeprof, "--text", f"{self.url}/pprof/heap")
        self.assertIn("createStringObject", output)
        # What allocates is the program, not an address inside the allocator.
        flat = re.search(r"^ +[\d.]+ +[\d.]+% +[\d.]+% +[\d.]+ +[\d.]+% (\S+)", output, re.M).group(1)
        self.assertFalse(flat.startswith("0x"), output)

    def test_symbols_by_hand(self):
        self.assertEqual(self.expect(self.get("/pprof/symbol"), 200).text, "num_symbols: 1\n")
        with open(f"/proc/{self.redis_process.pid}/maps") as file:
            start = next(int(line.split("-")[0], 16) for line in file if "redis" in line)
        address = start + self.offset_of("aeMain")
        answer = self.expect(self.post("/pprof/symbol", body=f"0x{address:x}+0x1"), 200)
        self.assertEqual(answer.text, f"0x{address:x}\taeMain\n")
        self.expect(self.post("/pprof/symbol", body="0x1; rm -rf /"), 400)
        self.expect(self.post("/pprof/symbol", body="0x1+" * (3 << 20)), 413)

    def offset_of(self, name):
        program = os.readlink(f"/proc/{self.redis_process.pid}/exe")
        symbols = subprocess.run(["nm", "-D", program], capture_output=True, text=True, check=True).stdout
        return int(re.search(rf"^([0-9a-f]+) T {name}$", symbols, re.M).group(1), 16)

    def test_growth_says_that_there_is_none(self):
        self.assertIn("jemalloc", self.expect(self.get("/pprof/growth"), 404).text)

    def test_cmdline(self):
        self.assertIn("redis-server", self.expect(self.get("/pprof/cmdline"), 200).text)


class Go(Originals):
    def numbers_of(self, path):
        """The fields of a pprof answer that are one number, and its comments."""
        data = gzip.decompress(self.expect(self.get(path), 200).body)
        fields, lists, at = {}, {}, 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 0x7f) << shift
                shift += 7
                if byte < 0x80:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                fields[key >> 3] = varint()
            else:
                self.assertEqual(key & 7, 2)
                size = varint()
                lists.setdefault(key >> 3, []).append(data[at:at + size])
                at += size
        comments = [lists[6][number].decode() for number in b"".join(lists.get(13, []))]
        return {"time": fields.get(9, 0), "duration": fields.get(10, 0), "comments": comments}

    def test_pprof_says_when_it_was_taken_and_whether_sampling_is_on(self):
        now = self.numbers_of("/debug/pprof/heap")
        self.assertLess(abs(now["time"] / 1e9 - time.time()), 300)
        self.assertEqual(now["duration"], 0)
        self.post("/v1/deactivate")
        self.assertTrue(any("sampling is off" in text for text in self.numbers_of("/debug/pprof/heap")["comments"]))
        self.post("/v1/activate")
        self.assertFalse(any("sampling is off" in text for text in self.numbers_of("/debug/pprof/heap")["comments"]))
        self.assertEqual(self.numbers_of("/debug/pprof/heap?seconds=1")["duration"], 10**9)
        self.post("/v1/deactivate")
        started = self.expect(self.post("/v1/runs?duration_ms=1000"), 201).json
        wait_until(lambda: self.get("/v1/runs").json["runs"][-1]["state"] == "finished", "the run to end")
        run = self.numbers_of(f"/memory-profiler/download/pprof?id={started['id']}")
        self.assertEqual(run["time"] // 10**6, started["started_ms"])
        self.assertGreaterEqual(run["duration"], 10**9)

    def test_go_tool_pprof_reads_it(self):
        go = need("go")
        self.make_run(self.redis_port)
        for path in ("heap", "allocs"):
            output = self.run_program(go, "tool", "pprof", "-top", f"{self.url}/debug/pprof/{path}")
            self.assertIn("createStringObject", output)

    def raw(self, query):
        """What go tool pprof reads: (comments, samples, {id: (address, mapping, name)}, {id: (start, limit, offset, file)})."""
        text = self.run_program(need("go"), "tool", "pprof", "-symbolize=none", "-raw", f"{self.url}/debug/pprof/heap?{query}")
        head, _, rest = text.partition("Samples:\n")
        samples, _, rest = rest.partition("Locations\n")
        locations, _, mappings = rest.partition("Mappings\n")
        places = {int(number): (int(address, 16), int(mapping), name) for number, address, mapping, name in
                  re.findall(r"^ +(\d+): (0x[0-9a-f]+) M=(\d+) ?(\S*)", locations, re.M)}
        files = {int(number): (int(start, 16), int(limit, 16), int(offset, 16), file) for number, start, limit, offset, file in
                 re.findall(r"^(\d+): (0x[0-9a-f]+)/(0x[0-9a-f]+)/(0x[0-9a-f]+) (\S+)", mappings, re.M)}
        stacks = re.findall(r"^ +[-\d]+ +[-\d]+ +[-\d]+ +[-\d]+: ([\d ]+?) *$", samples, re.M)
        self.assertTrue(stacks and places and files, text)
        return re.findall(r"executableInfo=\S+", head), samples, stacks, places, files

    def test_addresses_can_be_those_of_the_files(self):
        self.make_run(self.redis_port)
        _, _, _, named, _ = self.raw("labels=none")
        comments, samples, stacks, plain, files = self.raw("normalize=1&symbols=none&labels=none")
        self.assertEqual((comments, "bytes:" in samples, len(stacks)), ([], False, len(set(stacks))))
        self.assertEqual({name for _, _, name in plain.values()}, {""})
        server = os.path.realpath(f"/proc/{self.redis_process.pid}/exe")
        symbols = subprocess.run(["readelf", "-sW", server], capture_output=True, text=True, check=True).stdout
        ranges = {name: (int(start, 16), int(start, 16) + int(size)) for start, size, name in
                  re.findall(r"^ +\d+: ([0-9a-f]+) +(\d+) FUNC .* \d+ (\w+)$", symbols, re.M)}
        checked = 0
        for number, (address, mapping, _) in plain.items():
            start, limit, _, _ = files[mapping]
            self.assertTrue(start <= address < limit, (number, address, files[mapping]))
            if os.path.basename(files[mapping][3]).startswith("redis") and named[number][2] in ranges:
                begin, end = ranges[named[number][2]]
                self.assertTrue(begin <= address < end, (hex(address), named[number]))
                checked += 1
        self.assertGreater(checked, 3)

    def test_parca_gets_what_it_normalizes_by(self):
        self.make_run(self.redis_port)
        comments, samples, _, plain, files = self.raw("symbols=none")
        self.assertEqual(len(comments), len(files))
        self.assertIn("bytes:", samples)
        for comment, (number, (start, _, offset, file)) in zip(comments, sorted(files.items())):
            kind, segment, vaddr = (int(text, 16) for text in comment.partition("=")[2].split(";"))
            if not os.path.exists(file):
                continue
            headers = subprocess.run(["readelf", "-lW", file], capture_output=True, text=True, check=True).stdout
            loads = {(int(a, 16), int(b, 16)) for a, b in re.findall(r"^  LOAD +(0x\w+) (0x\w+) .* R E ", headers, re.M)}
            self.assertIn((segment, vaddr), loads, file)
            self.assertEqual(kind, 3 if "DYN" in headers else 2)

    def test_what_shrank_can_be_left_out(self):
        self.post("/v1/activate")

        def samples_of_a_flush(query):
            self.load_redis(self.redis_port, keys=20000, size=500)
            dumped = lambda: (self.get("/v1/status").json["last_dump"] or {}).get("time_ms")
            before, answers = dumped(), []
            url = f"{self.url}/debug/pprof/heap?seconds=1{query}"
            thread = threading.Thread(target=lambda: answers.append(self.run_program(
                need("go"), "tool", "pprof", "-symbolize=none", "-raw", url)))
            thread.start()
            wait_until(lambda: dumped() != before, "the first of both profiles")
            self.redis(self.redis_port, "FLUSHALL")
            thread.join()
            return answers[0].partition("Samples:\n")[2].partition("Locations\n")[0]
        self.assertIn(" -", samples_of_a_flush(""))
        self.assertNotIn(" -", samples_of_a_flush("&drop_negative=1"))

    def test_the_difference_leaves_sampling_alone(self):
        self.make_run(self.redis_port)
        before = self.get("/v1/status").json["profiling"]
        answer = self.expect(self.get("/debug/pprof/heap?seconds=1"), 200)
        self.assertIn(b"inuse_space", gzip.decompress(answer.body))
        after = self.get("/v1/status").json["profiling"]
        self.assertEqual((before["active"], before["active_since_ms"]), (after["active"], after["active_since_ms"]))

    def test_build_ids_are_there(self):
        self.make_run(self.redis_port)
        maps = self.get("/debug/pprof/heap").body
        notes = subprocess.run(["readelf", "-n", os.readlink(f"/proc/{self.redis_process.pid}/exe")], capture_output=True,
                               text=True, check=True).stdout
        build_id = re.search(r"Build ID: (\w+)", notes).group(1)
        self.assertIn(build_id.encode(), gzip.decompress(maps))

    def test_the_rest(self):
        self.assertIn("heap", self.expect(self.get("/debug/pprof/"), 200).text)
        text = self.expect(self.get("/debug/pprof/heap?gc=1&debug=1"), 200).body
        self.assertTrue(text.startswith(b"heap_v2/"))
        # The program's file is redis-check-rdb on Debian.
        self.assertTrue(text.endswith(b"\n#process redis-server\n"))
        self.assertTrue(self.expect(self.get("/v1/profile"), 200).body.endswith(b"\n#process redis-server\n"))
        self.assertIn(b"redis-server", self.expect(self.get("/debug/pprof/cmdline"), 200).body)
        self.expect(self.get("/debug/pprof/heap?seconds=abc"), 400)
        self.expect(self.get("/debug/pprof/heap?seconds=99999"), 400)

    def test_a_client_that_leaves_ends_the_wait(self):
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/debug/pprof/heap?seconds=600")
        connection.sock.close()
        # The gateway stops within moments although the wait had ten minutes to go.
        wait_until(lambda: self.get("/targets").status == 200, "the gateway to answer")


if __name__ == "__main__":
    unittest.main()
