# SPDX-License-Identifier: Apache-2.0
"""heapctl serve --watch-file on real Redis servers: captures, folders, restarts, reloading, and reports."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from gateway import GatewayCase
from json_schema import Schemas
from processes import AGENT, HEAPCTL, free_port, jemalloc_path, own_name, wait_until

FILED, OTHER, STOPPED = own_name("filed"), own_name("other"), own_name("stop")
API_ONE, API_TWO, APIS = own_name("api1"), own_name("api2"), own_name("api?")
ALL = own_name("*")
FINE = "prof:true,prof_active:true,lg_prof_sample:12"


class WatchFileCase(GatewayCase):
    def setUp(self):
        super().setUp()
        self.keep = os.path.join(self.folder, "captures")
        self.archive = os.path.join(self.folder, "history")
        self.rules = os.path.join(self.folder, "watch.conf")

    def write_rules(self, text):
        pathlib.Path(self.rules).write_text(text)
        os.chmod(self.rules, 0o600)

    def serve(self, text, *arguments):
        self.write_rules(text)
        self.log = os.path.join(self.folder, "gateway.log")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        with open(self.log, "ab") as log:
            return self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", "--watch-file", self.rules, *arguments,
                              wait_for=self.is_serving, stderr=log)

    def said(self):
        return pathlib.Path(self.log).read_text()

    def wait_for_log(self, pattern):
        return wait_until(lambda: re.search(pattern, self.said()), f"/{pattern}/ in {self.log}")

    def watches(self, name):
        return self.expect(self.get(f"/targets/{name}/watch"), 200).json["watches"]

    def watch(self, name):
        found, = self.watches(name)
        return found

    def wait_for_watch(self, name, condition, what):
        def holds():
            found = self.watches(name)
            return found and condition(found[0]) and found[0]
        return wait_until(holds, what)

    def captures(self, folder=None):
        try:
            return sorted(name for name in os.listdir(folder or self.keep) if name.endswith(".heap"))
        except FileNotFoundError:
            return []

    def metric(self, family, /, **labels):
        text = self.expect(self.get("/metrics"), 200).text
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        found = re.search(rf"^{family}{re.escape('{' + wanted + '}') if labels else ''} (\S+)$", text, re.M)
        return found and float(found.group(1))

    def reload(self, gateway, text):
        self.write_rules(text)
        seen = len(self.said())
        gateway.send_signal(signal.SIGHUP)
        wait_until(lambda: "watch.conf" in self.said()[seen:], "the file to be read again")


class Document(WatchFileCase):
    def test_the_example_of_the_document_starts_and_watches(self):
        document = (pathlib.Path(__file__).parents[2] / "docs/watch-file.md").read_text()
        example = "\n".join(line[4:] for line in document.split("\nA section begins")[0].splitlines() if line.startswith("    "))
        for word, mine in (("redis-server", FILED), ("user = redis", f"user = {os.getuid()}"), ("/var/lib", self.folder),
                           ("api-*", ALL.replace("*", "ap*"))):
            self.assertIn(word, example)
            example = example.replace(word, mine)
        server, _ = self.start_named_redis(FILED)
        self.serve(example, "--history", self.archive)
        self.wait_for_watch(FILED, lambda watch: watch["state"] == "watching" and watch["pid"] == server.pid, "the watch to begin")
        # A process without a limit loses no other condition by it.
        self.assertEqual([condition["when"] for condition in self.watch(FILED)["conditions"]], ["cgroup>85%", "growth>10%/h"])

    def test_a_condition_that_cannot_be_seen_costs_no_other(self):
        self.start_named_redis(FILED)
        limits = pathlib.Path("/proc/self/cgroup").read_text()
        self.serve(f"[{FILED}]\nwhen = cgroup>85%\nwhen = every=1s\nkeep = {self.keep}/a/b\n")
        wait_until(lambda: self.captures(f"{self.keep}/a/b"), f"a capture ({limits})")
        problems = {condition["when"]: condition["problem"] for condition in self.watch(FILED)["conditions"]}
        self.assertIsNone(problems["every=1s"])
        # This machine's limits decide whether the other one can be seen; the log and the answer agree.
        self.assertEqual("`cgroup>85%` is never true here" in self.said(), problems["cgroup>85%"] is not None, problems)


class Captures(WatchFileCase):
    def test_a_level_is_captured_into_the_folder_and_reported_everywhere(self):
        server, port = self.start_named_redis(FILED)
        reported = os.path.join(self.folder, "reported")
        script = pathlib.Path(self.folder, "tell.py")
        script.write_text("import json, os, signal, sys\n"
                          "blocked = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))\n"
                          f"json.dump([sys.argv[1:], dict(os.environ), blocked], open({reported + '.part'!r}, 'w'))\n"
                          f"os.rename({reported + '.part'!r}, {reported!r})\n")
        self.serve(f"# a comment\n[{FILED}]\nwhen = rss>64MiB\ncool-down = 0s\ninterval = 50ms\nkeep = {self.keep}\n"
                   f"keep-free = 0\nthen = python3 -E {script} 'two words' $HOME ;x\n")
        state = self.wait_for_watch(FILED, lambda w: w["state"] == "watching", "the watch")
        self.assertEqual((state["pid"], state["captures"], state["last_capture"]), (server.pid, 0, None))
        self.assertEqual(state["conditions"], [{"when": "rss>64MiB", "armed": True, "problem": None}])
        self.assertEqual((state["section"], state["line"], state["keep"], state["has_command"]), (FILED, 2, self.keep, True))
        self.assertEqual(self.metric("heapctl_watch_captures_total", name=FILED, section=FILED), 0)
        self.assertEqual(self.metric("heapctl_watch_up", name=FILED, section=FILED), 1)
        self.load_redis(port, keys=60000, size=1000)
        state = self.wait_for_watch(FILED, lambda w: w["captures"] == 1, "a capture")
        self.assertEqual(state["conditions"], [{"when": "rss>64MiB", "armed": False, "problem": None}])
        name, = self.captures()
        self.assertEqual(state["last_capture"]["file"], os.path.join(self.keep, name))
        self.assertEqual(state["last_capture"]["reason"], "rss>64MiB")
        self.assertEqual(state["last_capture"]["bytes"], os.path.getsize(os.path.join(self.keep, name)))
        self.assertEqual(self.metric("heapctl_watch_captures_total", name=FILED, section=FILED), 1)
        self.assertEqual(self.metric("heapctl_watch_failures_total", name=FILED, section=FILED), 0)
        self.assertAlmostEqual(self.metric("heapctl_watch_last_capture_timestamp_seconds", name=FILED, section=FILED),
                               state["last_capture"]["time_ms"] / 1000, places=3)
        self.wait_for_log(f"{FILED}: rss>64MiB: captured into ")
        # The command: no shell, a fixed environment, no signal blocked, and nothing of it over HTTP.
        wait_until(lambda: os.path.exists(reported), "the command")
        words, environment, blocked = json.loads(pathlib.Path(reported).read_text())
        self.assertEqual(words, ["two words", "$HOME", ";x", os.path.join(self.keep, name)])
        self.assertEqual(environment["HEAPCTL_REASON"], "rss>64MiB")
        self.assertEqual(environment["HEAPCTL_TARGET"], f"{FILED}[{server.pid}]")
        self.assertNotIn("HEAPCTL_DIR", environment)
        self.assertEqual(blocked, [])
        self.assertNotIn("tell.py", self.get(f"/targets/{FILED}/watch").text)
        self.assertEqual(self.post(f"/targets/{FILED}/watch").status, 405)

    def test_without_a_folder_it_goes_into_the_history(self):
        server, port = self.start_named_redis(FILED)
        self.serve(f"[{FILED}]\nwhen = signal\ninterval = 50ms\n", "--history", self.archive, "--history-every", "24hrs")
        self.wait_for_watch(FILED, lambda w: w["state"] == "watching", "the watch")
        timeline = f"/targets/{FILED}/api/v1/timeline"
        wait_until(lambda: len(self.get(timeline).json["snapshots"]) == 1, "the first snapshot")
        self.load_redis(port)
        os.kill(self.gateway_pid(), signal.SIGUSR1)
        state = self.wait_for_watch(FILED, lambda w: w["captures"] == 1, "a capture")
        regular, captured = self.get(timeline).json["snapshots"]
        self.assertEqual((regular["reason"], captured["reason"]), ("", "signal"))
        self.assertEqual(captured["pid"], server.pid)
        self.assertGreater(captured["rss"], 0)
        self.assertEqual(os.path.dirname(state["last_capture"]["file"]), self.archive)
        self.assertEqual(self.get(timeline + "?captured=1").json["snapshots"], [captured])
        self.heapctl("report", "--text", state["last_capture"]["file"])

    def test_captures_in_folders_are_listed_and_drawn(self):
        server, port = self.start_named_redis(FILED)
        self.serve(f"[{FILED}]\nwhen = signal\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n"
                   f"[{ALL}]\nwhen = signal\ninterval = 50ms\n", "--history", self.archive, "--history-every", "24hrs")
        captures = f"/targets/{FILED}/api/v1/captures"
        self.assertEqual(self.expect(self.get(captures), 200).json, {"captures": []})
        for count in (1, 2):
            wait_until(lambda: [w["state"] for w in self.get("/api/v1/watches").json["watches"]] == ["watching"] * 2, "both watches")
            os.kill(self.gateway_pid(), signal.SIGUSR1)
            wait_until(lambda: all(w["captures"] == count for w in self.get("/api/v1/watches").json["watches"]), "both captures")
            self.load_redis(port, keys=20000)
        # The other section's are in the history.
        first, second = self.get(captures).json["captures"]
        self.assertEqual([(c["pid"], c["line"], c["reason"]) for c in (first, second)], [(server.pid, 1, "signal")] * 2)
        self.assertEqual(self.get(f"/targets/{server.pid}/api/v1/captures").json["captures"], [first, second])
        one = f"/targets/{FILED}/api/v1/capture?line=1&number={first['number']}"
        self.assertEqual(self.expect(self.get(one + "&format=raw"), 200).body, pathlib.Path(self.keep, first["file"]).read_bytes())
        text = self.expect(self.get(f"/targets/{FILED}/api/v1/capture?line=1&number={second['number']}&base={first['number']}&format=text"), 200).text
        self.assertIn("createStringObject", text)
        # What is not there, or not the target's.
        for path in (one.replace("line=1", "line=6"), one.replace("line=1", "line=5"), f"/targets/{FILED}/api/v1/capture?line=1&number=99",
                     one.replace(FILED, "nobody")):
            self.expect(self.get(path), 404)
        self.expect(self.get(one + "&base=1&format=raw" if first["number"] != 1 else one + "&base=2&format=raw"), 400)
        pathlib.Path(self.keep, first["file"]).unlink()
        self.assertEqual(self.get(captures).json["captures"], [second])
        self.expect(self.get(one), 404)

    def gateway_pid(self):
        for process in reversed(self.started):
            if process.args[1:2] == ["serve"]:
                return process.pid
        raise AssertionError("no gateway")

    def start(self, *command, **options):
        process = super().start(*command, **options)
        self.started = getattr(self, "started", []) + [process]
        return process

    def test_a_pattern_watches_each_target_into_a_folder_of_its_own(self):
        self.start_named_redis(API_ONE)
        self.start_named_redis(API_TWO)
        self.start_named_redis(OTHER)
        self.serve(f"[{APIS}]\nwhen = every=1s\ninterval = 50ms\nkeep = {self.keep}\nkeep-count = 2\nkeep-free = 0\n")
        for name in (API_ONE, API_TWO):
            wait_until(lambda name=name: len(self.captures(os.path.join(self.keep, name))) == 2, f"captures of {name}")
        self.assertEqual(sorted(os.listdir(self.keep)), [API_ONE, API_TWO])
        self.assertEqual(self.watches(OTHER), [])

    def start_called(self, name):
        """A process that calls itself by these bytes."""
        rename = ("import ctypes, os, signal, sys\nctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1]), 0, 0, 0)\nsignal.pause()\n")
        process = self.start(sys.executable, "-c", rename, os.fsdecode(name), env={"LD_PRELOAD": f"{jemalloc_path()}:{AGENT}", "MALLOC_CONF": FINE})
        self.wait_for_agent(process.pid)
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_bytes() == name + b"\n", "the name")
        return process

    def test_names_do_not_leave_the_folder_or_damage_its_list(self):
        up, strange = self.start_called(b".."), self.start_called(b"a\xff\x1bb")
        self.serve(f"[*]\nwhen = every=1s\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n", str(up.pid), str(strange.pid))
        folders = [os.path.join(self.keep, str(up.pid)), os.path.join(self.keep, "a??b")]
        wait_until(lambda: all(os.path.exists(os.path.join(folder, "captures.jsonl")) for folder in folders), "captures of both")
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".heap")], [])
        with open(os.path.join(folders[1], "captures.jsonl"), encoding="utf-8") as catalogue:
            self.assertEqual(json.loads(catalogue.readline())["target"], f"a??b[{strange.pid}]")

    def test_what_jemalloc_writes_is_adopted(self):
        prefix = os.path.join(self.folder, "je/own")
        os.mkdir(os.path.dirname(prefix))
        server, port = self.start_named_redis(FILED, conf=f"{FINE},lg_prof_interval:23,prof_prefix:{prefix}")
        self.load_redis(port, keys=40000, size=1000)
        self.serve(f"[{FILED}]\nadopt = {prefix}\nkeep = {self.keep}\nkeep-count = 3\ninterval = 50ms\n")
        wait_until(lambda: not os.listdir(os.path.dirname(prefix)), "the files to be taken")
        self.wait_for_log("jemalloc's interval: captured into")
        # The oldest goes once the last one is safe.
        wait_until(lambda: len(self.captures()) == 3, "three to be left")
        self.assertIn(f"own.{server.pid}", self.captures()[-1])
        listed = self.get(f"/targets/{FILED}/api/v1/captures").json
        self.assertRegex(listed["captures"][-1]["original"], rf"^{prefix}\.{server.pid}\.\d+\.i\d+\.heap$")
        schemas = self.get("/openapi.json").json["components"]["schemas"]
        self.assertEqual(Schemas(schemas).problems(listed, schemas["Captures"], owner="Captures"), [])


class Restarts(WatchFileCase):
    def test_a_target_is_followed_to_its_next_process_and_the_counts_continue(self):
        first, _ = self.start_named_redis(FILED)
        self.serve(f"[{FILED}]\nwhen = every=1s\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n")
        self.wait_for_watch(FILED, lambda w: w["captures"] >= 1, "a capture")
        first.kill()
        first.wait()
        gone = self.wait_for_watch(FILED, lambda w: w["state"] == "waiting", "the watch to wait")
        self.assertIsNone(gone["pid"])
        self.assertEqual(self.metric("heapctl_watch_up", name=FILED, section=FILED), 0)
        self.wait_for_log(f"process {first.pid} has ended; waiting for it to come back")
        second, _ = self.start_named_redis(FILED)
        state = self.wait_for_watch(FILED, lambda w: w["pid"] == second.pid and w["captures"] > gone["captures"], "the new process")
        self.assertEqual(len(self.watches(FILED)), 1)
        self.assertIn(f".{second.pid}.heap", self.captures()[-1])
        self.assertEqual(self.watch(str(second.pid))["section"], state["section"])

    def test_a_target_that_starts_later_is_found(self):
        self.serve(f"[{FILED}]\nwhen = every=1s\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n")
        self.assertEqual(self.watches(FILED), [])
        server, _ = self.start_named_redis(FILED)
        self.wait_for_watch(FILED, lambda w: w["pid"] == server.pid and w["captures"] > 0, "a capture")

    def test_what_cannot_be_watched_is_reported_once_and_tried_again(self):
        self.start_named_redis(FILED, conf="prof:false", env={"HEAPCTL_SAMPLER": "no"})
        self.start_named_redis(OTHER)
        rules = f"[{FILED}]\nwhen = peak\nkeep = {self.keep}\n[{OTHER}]\nwhen = every=1s\nkeep = {self.keep}2\nkeep-free = 0\n"
        gateway = self.serve(rules)
        state = self.wait_for_watch(FILED, lambda w: w["state"] == "refused", "the refusal")
        self.assertIn("cannot be profiled", state["problem"]["message"])
        self.wait_for_watch(OTHER, lambda w: w["captures"] > 0, "a capture of the other")
        # It is tried again when the rules were read again.
        self.reload(gateway, rules.replace("peak", "peak>7%"))
        self.wait_for_watch(FILED, lambda w: w["conditions"][0]["when"] == "peak>7%" and w["state"] == "refused", "another refusal")
        before = self.watch(OTHER)["captures"]
        self.wait_for_watch(OTHER, lambda w: w["captures"] > before, "another turn")
        self.assertEqual(self.said().count("cannot be profiled"), 1)

    def test_processes_of_one_name_are_one_series(self):
        pids = {self.start_named_redis(FILED)[0].pid for _ in range(2)}
        gateway = self.serve(f"[{FILED}]\nwhen = signal\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n")
        wait_until(lambda: {w["pid"] for w in self.watches(FILED) if w["state"] == "watching"} == pids, "both watches")
        gateway.send_signal(signal.SIGUSR1)
        wait_until(lambda: self.metric("heapctl_watch_captures_total", name=FILED, section=FILED) == 2, "the captures of both")
        text = self.get("/metrics").text
        self.assertEqual(len(re.findall(r"^heapctl_watch_captures_total{", text, re.M)), 1)
        self.assertEqual(len(self.get(f"/targets/{FILED}/api/v1/captures").json["captures"]), 2)

    def test_a_target_that_hangs_does_not_delay_others(self):
        stopped, _ = self.start_named_redis(STOPPED)
        self.start_named_redis(OTHER)
        gateway = self.serve(f"[{ALL}]\nwhen = every=1s\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n")
        self.wait_for_watch(STOPPED, lambda w: w["captures"] > 0, "a capture")
        stopped.send_signal(signal.SIGSTOP)
        self.addCleanup(stopped.send_signal, signal.SIGCONT)
        before = self.watch(OTHER)["captures"]
        self.wait_for_watch(OTHER, lambda w: w["captures"] >= before + 3, "captures of the other")
        # It does not delay the end, either; its capture may take two minutes.
        gateway.terminate()
        self.assertEqual(gateway.wait(60), 0)


class Reading(WatchFileCase):
    def test_errors_name_file_and_line(self):
        self.write_rules("[x]\n\nwhen = rss>lots\n")
        _, said = self.heapctl("serve", "--watch-file", self.rules, code=1)
        self.assertIn(f"{self.rules}:3: when: 'lots' is not an amount of memory", said)
        self.write_rules("[x]\nwhen = peak\n")
        _, said = self.heapctl("serve", "--watch-file", self.rules, code=1)
        self.assertIn(f"{self.rules}:1: [x] has no folder for captures", said)
        os.chmod(self.rules, 0o666)
        _, said = self.heapctl("serve", "--watch-file", self.rules, code=1)
        self.assertIn("can be changed by other users", said)
        _, said = self.heapctl("serve", "--watch-file", self.rules + ".none", code=1)
        self.assertIn("No such file", said)

    def test_a_reload_keeps_the_state_of_conditions_that_stay(self):
        _, port = self.start_named_redis(FILED)
        first = f"[{FILED}]\nwhen = rss>64MiB\nwhen = signal\ncool-down = 0s\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n"
        gateway = self.serve(first)
        self.load_redis(port, keys=60000, size=1000)
        self.wait_for_watch(FILED, lambda w: w["captures"] == 1, "a capture")
        # Another condition, another folder: rss>64MiB was passed already and has not fallen since.
        self.reload(gateway, first.replace("when = signal", "when = growth>16MiB").replace(self.keep, self.keep + "2"))
        state = self.wait_for_watch(FILED, lambda w: len(w["conditions"]) == 2 and w["conditions"][1]["when"] == "growth>16MiB"
                                    and w["state"] == "watching" and w["keep"].endswith("2"), "the new rules")
        self.load_redis(port, keys=100000, size=1000)
        state = self.wait_for_watch(FILED, lambda w: w["captures"] >= 2, "growth")
        with open(os.path.join(self.keep + "2", "captures.jsonl"), encoding="utf-8") as catalogue:
            self.assertEqual({json.loads(line)["reason"] for line in catalogue}, {"growth>16MiB"})
        self.assertFalse(state["conditions"][0]["armed"])
        self.assertEqual(len(self.captures()), 1)
        self.assertIn(f"{self.keep}2/", state["last_capture"]["file"])

    def test_another_folder_counts_while_the_target_has_ended(self):
        """What jemalloc writes at the end of a program is found when there is no program any more."""
        server, _ = self.start_named_redis(FILED)
        prefix = os.path.join(self.folder, "own")
        rules = f"[{FILED}]\nadopt = {prefix}\nkeep = {self.keep}\nkeep-free = 0\ninterval = 50ms\n"
        gateway = self.serve(rules)
        self.wait_for_watch(FILED, lambda w: w["state"] == "watching", "the watch")
        server.kill()
        server.wait()
        self.wait_for_watch(FILED, lambda w: w["state"] == "waiting", "the watch to wait")
        wait_until(lambda: FILED not in self.get("/api/v1/targets").text, "the gateway to have noticed")
        self.reload(gateway, rules.replace(self.keep, self.keep + "2"))
        self.wait_for_watch(FILED, lambda w: w["keep"].endswith("2"), "the new rules")
        pathlib.Path(f"{prefix}.{server.pid}.1.f.heap").write_text("heap_v2/524288\n  t*: 0: 0 [0: 0]\n")
        wait_until(lambda: self.captures() + self.captures(self.keep + "2"), "the file to be taken")
        self.assertEqual(len(self.captures(self.keep + "2")), 1)

    def test_a_bad_file_changes_nothing_and_says_so(self):
        _, port = self.start_named_redis(FILED)
        good = f"[{FILED}]\nwhen = rss>64MiB\ninterval = 50ms\nkeep = {self.keep}\nkeep-free = 0\n"
        gateway = self.serve(good)
        self.wait_for_watch(FILED, lambda w: w["state"] == "watching", "the watch")
        self.reload(gateway, good + "whn = peak\n")
        self.wait_for_log(r"the rules stay as they were: .*watch\.conf:6: unknown word 'whn'")
        reported = self.get(f"/targets/{FILED}/watch").json
        self.assertIn("watch.conf:6: unknown word 'whn'", reported["problem"]["message"])
        self.assertEqual(self.metric("heapctl_watch_file_good"), 0)
        self.load_redis(port, keys=60000, size=1000)
        self.wait_for_watch(FILED, lambda w: w["captures"] == 1, "a capture by the old rules")
        self.reload(gateway, good)
        wait_until(lambda: self.metric("heapctl_watch_file_good") == 1, "the good file")
        self.assertIsNone(self.get(f"/targets/{FILED}/watch").json["problem"])

    def test_a_section_that_was_removed_ends_its_watch(self):
        self.start_named_redis(FILED)
        self.start_named_redis(OTHER)
        one = f"[{FILED}]\nwhen = peak\nkeep = {self.keep}\n"
        gateway = self.serve(one + f"[{OTHER}]\nwhen = peak\nkeep = {self.keep}2\n")
        for name in (FILED, OTHER):
            self.wait_for_watch(name, lambda w: w["state"] == "watching", f"the watch of {name}")
        self.reload(gateway, one)
        wait_until(lambda: self.watches(OTHER) == [], "the watch to end")
        self.assertEqual(self.watch(FILED)["state"], "watching")
        # Its folder is free for others.
        def is_free():
            result = subprocess.run([HEAPCTL, "watch", OTHER, "--when", "every=1s", "--count", "1", "--keep", self.keep + "2",
                                     "--keep-free", "0"], env=self.environment, capture_output=True, timeout=60)
            return result.returncode == 0
        wait_until(is_free, "the folder to be given back")

    def test_without_a_file_it_says_so(self):
        self.start_named_redis(FILED)
        self.start_gateway()
        answer = self.expect(self.get(f"/targets/{FILED}/watch"), 404)
        self.assertIn("--watch-file", answer.json["error"]["hint"])
        self.expect(self.get("/api/v1/watches"), 404)
        self.assertFalse(self.get("/api/v1/targets").json["has_watch_file"])

    def test_it_ends_on_a_signal(self):
        self.start_named_redis(FILED)
        gateway = self.serve(f"[{FILED}]\nwhen = every=1s\nkeep = {self.keep}\nkeep-free = 0\n")
        self.wait_for_watch(FILED, lambda w: w["captures"] > 0, "a capture")
        gateway.terminate()
        self.assertEqual(gateway.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
