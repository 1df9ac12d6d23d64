#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memory_profile.so in Debian's Traffic Server: messages, what they leave behind, and what they report to the operator."""
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from chance import fewest, sampled_share
from processes import AGENT, HEAPCTL, free_port, need, wait_until
from traffic_server import SERVER, Load, TrafficServerCase

WROTE = re.compile(r"wrote (\S+), (\d+) bytes")


class Messages(TrafficServerCase):
    def dump(self, word="dump"):
        """The file that a dump wrote, after checking what was said about it."""
        line = self.message(word)
        match = WROTE.search(line)
        self.assertTrue(match, line)
        path = pathlib.Path(match[1])
        self.assert_profile(path, int(match[2]))
        return path

    def assert_profile(self, path, size):
        self.assertEqual(path.parent, self.dumps)
        self.assertRegex(path.name, rf"^jeprof\.{self.pid}\.(\d+)\.h\1\.heap$")
        status = path.stat()
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o600)
        self.assertEqual(status.st_size, size)
        self.assertTrue(path.read_bytes().startswith(b"heap_v2/4096\n"))

    def test_messages(self):
        """One server for many steps: each needs what the one before left."""
        self.start_server()
        self.check_start()
        self.check_original_words()
        self.check_wrong_words()
        self.check_runs()
        self.check_reset()
        self.check_socket()
        self.check_metrics()
        self.check_reload()
        self.check_many_messages()
        self.stop_server()
        self.assertEqual([name for name in os.listdir(self.agents) if name.endswith(".sock")], [])
        self.assertEqual(len(list(self.dumps.iterdir())), int(self.dumps_made))

    def check_start(self):
        ready = self.next_line("ready: ")
        self.assertIn("NOTE", ready)
        self.assertIn("sampling is off", ready)
        self.assertIn(f"{self.dumps}/jeprof.*", ready)
        self.assertIn(f"{self.pid}.sock", ready)
        self.assertEqual([line for line in self.log_lines() if "WARNING" in line or "ERROR" in line], [])
        # A file without stacks would mislead, too.
        self.assertIn("sampling is off (activate it first)", self.message("dump"))

    def check_original_words(self):
        self.assertIn("sampling is on", self.message("activate"))
        self.assertIn("was on already", self.message("activate"))
        ballast, block_bytes, interval_bytes = 300, 8192, 4096
        self.message(str(ballast), tag="ballast")
        for _ in range(20):
            self.assertEqual(self.get(), 200)
        first = self.dump()
        content = first.read_bytes()
        # Each block has a stack of its own; 259 +- 6 of them are sampled.
        self.assertGreaterEqual(content.count(b"\n@ "), fewest(ballast, sampled_share(block_bytes, interval_bytes)))
        second = self.dump()
        self.assertNotEqual(first, second)
        self.check_jemallocs_own_dumps()
        self.assertEqual(first.read_bytes(), content)
        before = (self.root / "log/traffic.out").stat().st_size
        line = self.message("stats")
        self.assertIn("traffic.out", line)
        output = (self.root / "log/traffic.out").read_bytes()[before:]
        self.assertIn(b"Begin jemalloc statistics", output)
        self.assertIn(b"End jemalloc statistics", output)
        self.assertIn("sampling is on", self.message("status"))
        self.assertIn("sampling is off", self.message("deactivate"))
        self.assertIn("was off already", self.message("deactivate"))
        self.assertIn("NOTE", line)

    def check_jemallocs_own_dumps(self):
        """jemalloc numbers its dumps from 0, too, and writes over what has their names."""
        before = {path: path.read_bytes() for path in self.dumps.iterdir()}
        for _ in range(len(before) + 1):
            self.assertIn("dump: 0", self.message("dump", tag="ballast"))
        own = set(self.dumps.iterdir()) - set(before)
        self.assertEqual(len(own), len(before) + 1, own)
        for path, content in before.items():
            self.assertEqual(path.read_bytes(), content, path)
        for path in own:
            path.unlink()

    def check_wrong_words(self):
        files = sorted(self.dumps.iterdir())
        for word in ("d", "dum", "dumps", "DUMP", "a", "dump now", "\x1b[2Jx"):
            line = self.message(word)
            self.assertIn("ERROR", line)
            self.assertIn("there is no message", line)
            self.assertIn("activate, deactivate, dump, stats", line)
            self.assertIn(f"'{word}'".replace("\x1b", "?"), line)
        self.assertIn("empty message", self.message())
        self.assertIn("empty message", self.message(""))
        self.assertEqual(sorted(self.dumps.iterdir()), files)
        # All plugins get all messages: those for other plugins are not answered.
        before = len(self.log_lines())
        self.send("dump", tag="memory_profiles")
        self.send("dump", tag="other")
        if os.geteuid() == 0:
            refused = self.traffic_ctl("plugin", "msg", "memory_profile", "dump", user="nobody")
            self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("sampling is off", self.message("status"))
        self.assertEqual(len(self.log_lines()), before + 1)

    def check_runs(self):
        self.assertIn("on for 1.0 s", self.message("start=1s"))
        match = WROTE.search(self.next_line(r"start: run \d+ took"))
        self.assert_profile(pathlib.Path(match[1]), int(match[2]))
        self.assertIn("on for 300.0 s", self.message("start 5mins"))
        self.assertIn("a run is on", self.message("status"))
        self.assertIn("is on already", self.message("start"))
        self.assertIn("ERROR", self.message("deactivate"))
        self.dump("stop")
        self.assertIn("ERROR", self.message("stop"))
        for wrong in ("start soon", "start 1ms", "start 2days"):
            self.assertIn("ERROR", self.message(wrong))

    def check_reset(self):
        self.assertIn("every 8192 bytes", self.message("reset=13"))
        self.assertIn("every 4096 bytes", self.message("reset 12"))
        self.assertIn("discarded", self.message("reset"))
        for wrong in ("5", "99", "-1", "x"):
            line = self.message(f"reset={wrong}")
            self.assertIn("ERROR", line)
            self.assertIn(f"'{wrong}' is not a number from 12 to 40", line)

    def check_socket(self):
        # Its main thread calls itself [TS_MAIN].
        self.assertTrue(self.heapctl("status", self.pid)[0].startswith(f"{SERVER}[{self.pid}]"))
        findings = json.loads(self.heapctl("doctor", self.pid, "--json")[0])["findings"]
        codes = [finding["code"] for finding in findings]
        self.assertEqual(sorted(set(codes)), sorted(codes))
        output, _ = self.heapctl("status", SERVER, "--json")
        self.assertIn(f'"{SERVER}"', output)
        path = self.root / "by-socket.heap"
        self.heapctl("dump", self.pid, "-o", path)
        self.assertTrue(path.read_bytes().startswith(b"heap_v2/4096\n"))
        path.unlink()
        self.check_gateway()
        self.heapctl("record", self.pid, "--duration", "1s", "-o", path)
        self.assertTrue(path.read_bytes().startswith(b"heap_v2/4096\n"))

    def check_gateway(self):
        port = free_port()

        def answer(path):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
                    return response.read()
            except urllib.error.URLError:
                return None
        gateway = self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{port}", SERVER, wait_for=lambda: answer("/metrics"))
        self.assertTrue(answer("/pprof/heap").startswith(b"heap"))
        self.assertIn(b"prof.active: false", answer("/mtev/heap_profile"))
        self.end(gateway)

    def check_metrics(self):
        self.dumps_made = str(len(list(self.dumps.iterdir())))
        failures = str(sum("ERROR" in line for line in self.log_lines()))

        def are_right():
            seen = self.metrics()
            return seen if (seen.get("dumps"), seen.get("failures")) == (self.dumps_made, failures) else None
        seen = wait_until(are_right, f"{self.dumps_made} dumps and {failures} failures among the metrics")
        self.assertEqual(set(seen), {"active", "dumps", "failures", "allocated", "resident", "last_dump_bytes", "last_dump_ms"})
        self.assertEqual(seen["active"], "0")
        self.assertGreater(int(seen["allocated"]), 1 << 20)
        self.assertGreater(int(seen["resident"]), int(seen["allocated"]) // 2)
        self.assertGreater(int(seen["last_dump_bytes"]), 1000)
        self.message("activate")
        wait_until(lambda: self.metrics().get("active") == "1", "the metric memory_profile.active to be 1")
        self.message("deactivate")

    def check_reload(self):
        result = self.traffic_ctl("config", "reload")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("sampling is off", self.message("status"))
        self.assertEqual(self.get(), 200)

    def check_many_messages(self):
        """All of a hundred are answered, be it that there were too many."""
        before = len(self.log_lines())
        begun = time.monotonic()
        for i in range(100):
            self.send("dump" if i % 4 == 0 else "status")
        sent_s = time.monotonic() - begun
        wait_until(lambda: len(self.log_lines()) >= before + 100, "100 answers")
        lines = self.log_lines()[before:]
        self.assertEqual(len(lines), 100)
        done = [line for line in lines if "NOTE" in line]
        refused = [line for line in lines if "are waiting already" in line]
        self.assertEqual(len(done) + len(refused), 100, lines)
        print(f"\n100 messages were sent in {sent_s:.2f} s, {len(done)} done, {len(refused)} refused", flush=True)
        self.dumps_made = str(len(list(self.dumps.iterdir())))
        self.assertEqual(self.get(), 200)


class Dumping(TrafficServerCase):
    stacks = 30000

    def fill(self):
        self.message("activate")
        self.message(str(self.stacks), tag="ballast")

    def test_under_load_and_at_shutdown(self):
        self.start_server()
        self.fill()
        with Load(self) as idle:
            wait_until(lambda: idle.count >= 100 or idle.failed, "100 requests")
        with Load(self) as load:
            line = self.message("dump")
        self.assertEqual(idle.failed + load.failed, [])
        stacks = int(re.search(r"(\d+) stacks", line)[1])
        self.assertGreaterEqual(stacks, fewest(self.stacks, sampled_share(8192, 4096)))
        print(f"\n{line[line.index('wrote'):]}; longest request {load.longest_ms:.1f} ms of {load.count}, "
              f"without a dump {idle.longest_ms:.1f} ms of {idle.count}", flush=True)
        self.check_shutdown()

    def check_shutdown(self):
        """The server ends in the middle of dumps: each file is complete, and was reported."""
        for _ in range(5):
            self.send("dump")
        before = set(self.dumps.iterdir())
        # At once; the manager would take a second to pass it on.
        os.kill(self.pid, signal.SIGTERM)
        self.stop_server()
        self.assertNotIn("Fatal", (self.root / "log/traffic.out").read_text(errors="replace"))
        self.assertNotIn("crashed", self.diagnostics())
        self.assertNotRegex((self.root / "log/manager.log").read_text(), r"signal (6|11)\b")
        after = set(self.dumps.iterdir())
        self.assertTrue(before <= after)
        for path in after:
            self.assertIn(b"MAPPED_LIBRARIES", path.read_bytes(), path)
        not_done = sum(int(number) for line in self.log_lines() for number in re.findall(r"ends: (\d+) messages are not done", line))
        # The last may not have come from the manager yet.
        self.assertLessEqual(len(after) + not_done, 6)
        print(f"\n{not_done} of 5 dumps were not done at the shutdown", flush=True)
        reported = {match[1] for match in map(WROTE.search, self.log_lines()) if match}
        self.assertEqual({str(path) for path in after}, reported)


class Storage(TrafficServerCase):
    def test_a_place_that_cannot_be_written(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        mount = subprocess.run([need("mount"), "-t", "tmpfs", "-o", "size=64k,mode=0777", "tmpfs", self.dumps], capture_output=True)
        if mount.returncode != 0:
            self.skipTest(f"no file system can be mounted here: {mount.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, [need("umount"), "-l", self.dumps])
        self.start_server()
        self.message("activate")
        self.message("2000", tag="ballast")

        line = self.message("dump")
        self.assertIn("ERROR", line)
        self.assertIn("No space left on device", line)
        self.assertIn(f"{self.dumps}/jeprof.{self.pid}.0.h0.heap", line)
        self.assertEqual(list(self.dumps.iterdir()), [])

        self.message("reset")
        self.message("deactivate")
        self.assertIn("wrote", self.message("dump"))
        subprocess.run([need("mount"), "-o", "remount,ro", self.dumps], check=True)
        self.assertIn("Read-only file system", self.message("dump"))
        self.assertIn("ERROR", self.message("dump"))
        subprocess.run([need("mount"), "-o", "remount,rw", self.dumps], check=True)
        os.chmod(self.dumps, 0o700)
        os.chown(self.dumps, 0, 0)
        line = self.message("dump")
        self.assertIn("Permission denied", line)
        self.assertIn("prof_prefix", line)
        self.assertEqual(self.get(), 200)


class Traps(TrafficServerCase):
    def test_a_variable_that_is_not_read(self):
        said = self.start_server_alone(conf=None, env={"JEMALLOC_CONF": "prof:true"})
        self.assertIn("JEMALLOC_CONF is set, but this jemalloc reads MALLOC_CONF only", said)
        self.assertIn("ready: jemalloc", said)

    def test_a_colon_for_a_comma_and_a_prefix_that_cannot_be_written(self):
        said = self.start_server_alone(conf="prof:true,prof_final:false:prof_active:false", prefix="/proc/nowhere/x")
        self.assertIn("options are separated by ','", said)
        self.assertIn("profiles cannot be written to /proc/nowhere/x.*: No such file or directory", said)

    def test_profiling_off(self):
        self.assertIn("ready: jemalloc", self.start_server_alone(conf="prof:false"))

    def test_no_jemalloc(self):
        self.assertIn("ready: glibc", self.start_server_alone(preload=False))

    def test_started_as_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.start_server(launcher=[])
        said = "\n".join(self.log_lines())
        self.assertIn("the process gained privileges when it started: LD_PRELOAD and MALLOC_CONF were ignored", said)
        self.assertIn("ready: glibc", said)
        self.assertIn("sampling is on", self.message("activate"))
        self.assertIn("sampling is off", self.message("deactivate"))
        self.assertRegex(self.message("stats"), r"stats: wrote \d+ bytes")
        self.assertEqual(list(self.dumps.iterdir()), [])

    def test_started_as_the_user_with_a_capability(self):
        """What docs/trafficserver.md has systemd do."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.start_server(launcher=self.as_user("net_bind_service"))
        effective = re.search(r"^CapEff:\s*(\w+)$", pathlib.Path(f"/proc/{self.pid}/status").read_text(), re.M)[1]
        self.assertTrue(int(effective, 16) >> 10 & 1, "the capability to use low ports is kept")
        self.next_line("ready: ")
        self.assertIn("wrote", self.message("dump"))


class Arguments(TrafficServerCase):
    def test_an_unknown_argument_answers_every_message(self):
        self.write_plugin_arguments("--dir=/tmp", "--verbose")
        self.start_server()
        self.assertIn("there is no argument --verbose", self.log_lines()[0])
        line = self.message("dump")
        self.assertIn("ERROR", line)
        self.assertIn("there is no argument --verbose", line)
        self.assertEqual(self.get(), 200)

    def test_all_of_them_and_every_kind_of_message(self):
        self.write_plugin_arguments("--keep=4", f"--dir={self.agents}", "--no-socket")
        self.start_server()
        self.next_line("ready: .*socket none")
        for word in ("activate", "status", "dump", "stats", "deactivate", "reset=14", "reset", "start=30s", "stop"):
            self.assertIn("NOTE", self.message(word), word)
        self.assertEqual(len(list(self.dumps.iterdir())), 2)
        self.assertEqual([line for line in self.log_lines() if "ERROR" in line], [])

    def test_without_a_socket(self):
        self.write_plugin_arguments("--no-socket", f"--dir={self.agents}")
        self.assertIn("socket none", self.start_server_alone())
        self.assertFalse(os.path.exists(self.agents) and any(name.endswith(".sock") for name in os.listdir(self.agents)))

    def test_an_agent_that_is_preloaded_as_well(self):
        """It has the socket; and without a prof_prefix profiles go where the server works."""
        agent = shutil.copy(AGENT, self.root / "plugin")
        said = self.start_server_alone(conf=None, preload=False,
                                       env={"LD_PRELOAD": f"{agent}:{self.jemalloc}", "MALLOC_CONF": "prof:true,prof_active:false"})
        self.assertIn("libheapctl.so is in this process as well", said)
        self.assertRegex(said, rf"ready: .*profiles go to {self.root}/jeprof\.\*, socket none")
        self.assertEqual(len([name for name in os.listdir(self.agents) if name.endswith(".sock")]), 1)
        self.heapctl("status", SERVER)

    def test_a_folder_that_cannot_be_used(self):
        self.write_plugin_arguments("--dir=/proc/nowhere", "--keep=2")
        said = self.start_server_alone()
        self.assertIn("no socket: only plugin messages work", said)
        self.assertIn("/proc/nowhere", said)
        self.assertIn("ready: ", said)


if __name__ == "__main__":
    unittest.main()
