# SPDX-License-Identifier: Apache-2.0
"""The control verbs against a real redis-server."""
import fcntl
import gzip
import json
import os
import pathlib
import pty
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

from gateway import FakeAgent, fake_status
from processes import (AGENT, HEAPCTL, Case, ask, children_of, free_port, is_alive, jemalloc_path, need, need_namespace, own_name, processor_seconds,
                       wait_until, wait_while_it_progresses)

FINE = "prof:true,prof_active:false,lg_prof_sample:12"


class ControlCase(Case):
    def setUp(self):
        super().setUp()
        self.server, self.port = self.start_redis(conf=FINE)
        self.pid = str(self.server.pid)
        self.wait_for_agent(self.server.pid)

    def path(self, name):
        return os.path.join(self.folder, name)

    def status(self):
        return json.loads(self.heapctl("status", self.pid, "--json")[0])

    def runs(self):
        return json.loads(self.heapctl("runs", self.pid, "--json")[0])["runs"]


    def on_terminal(self, columns, *arguments):
        """What heapctl shows on a terminal of that width."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        seen = bytearray()

        def read():
            try:
                while data := os.read(ours, 4096):
                    seen.extend(data)
            except OSError:
                pass  # the other end is closed
        client = self.start(HEAPCTL, *arguments, stdout=theirs, stderr=theirs, env={"TERM": "xterm"})
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        self.assertEqual(client.wait(60), 0)
        reader.join(60)
        return seen.decode()


class Looking(ControlCase):
    def test_lines_fit_the_terminal(self):
        # The longest texts are those for what is not possible.
        other, _ = self.start_redis(conf="prof:false")
        self.wait_for_agent(other.pid)
        def lines(*arguments):
            return re.sub("\033\\[[0-9;]*m", "", self.on_terminal(80, *arguments)).splitlines()
        listed = lines("ps")
        for i, line in enumerate(listed):
            # Other rows are other tests' processes, which may come and go with long names of files.
            if line.split()[0] in ("PID", self.pid, str(other.pid)):
                self.assertLessEqual(len(line), 80, line)
        for arguments in (["status", self.pid], ["status", str(other.pid)], ["status", "--help"], ["--help"]):
            for line in lines(*arguments):
                self.assertLessEqual(len(line), 80, line)
        for line in self.on_terminal(50, "status", "--help").splitlines():
            self.assertLessEqual(len(line), 50, line)

    def test_status_says_what_switched_sampling_on(self):
        sampling = lambda pid: re.search(r"sampling is (.*)", " ".join(self.heapctl("status", pid)[0].split()))[1]
        self.heapctl("activate", self.pid)
        self.assertRegex(sampling(self.pid), r"^on since \S+, switched on by heapctl activate ")
        self.heapctl("deactivate", self.pid)
        self.heapctl("start", self.pid)
        self.assertRegex(sampling(self.pid), r"^on since \S+, switched on by a run ")
        other, _ = self.start_redis(conf="prof:true")
        self.wait_for_agent(other.pid)
        self.assertRegex(sampling(other.pid), r"^on, switched on by its options at the start \(prof_active:true\) ")

    def test_an_interval_beyond_every_size(self):
        other, _ = self.start_redis(conf="prof:true,prof_active:false,lg_prof_sample:63")
        self.wait_for_agent(other.pid)
        self.assertIn("lg_prof_sample:63", self.heapctl("status", other.pid)[0])
        self.assertRegex(self.heapctl("record", other.pid, "-d", "1s", "-o", self.path("none.heap"))[1],
                         r": 0 samples in \d+(\.\d)? s at one per 8 EiB: too few to rely on \(--sample 512KiB is the default\)")
        self.assertIn("nothing will ever be sampled", self.heapctl("doctor", other.pid, code=1)[0].replace("\n         ", " "))
        self.assertIn(other.pid, self.listed_pids())
        self.heapctl("runs", other.pid)

    def test_a_main_thread_with_another_name(self):
        child = self.start("perl", "-e", "$0 = 'perl'; open F, '>', \"/proc/$$/comm\"; syswrite F, '[MAIN]'; close F; print 'x'; sleep 100")
        wait_until(lambda: pathlib.Path(f"/proc/{child.pid}/comm").read_text() == "[MAIN]\n", "its name")
        self.assertTrue(self.heapctl("doctor", child.pid, code=1)[0].startswith(f"perl[{child.pid}]"))

    def test_ps_lists_it(self):
        entries = json.loads(self.heapctl("ps", "--json")[0])
        mine = [entry for entry in entries if entry.get("pid") == self.server.pid]
        self.assertEqual(len(mine), 1)
        self.assertEqual(mine[0]["state"], "reachable")
        self.assertEqual(mine[0]["name"], "redis-server")
        self.assertTrue(mine[0]["status"]["profiling"]["available"])
        out, _ = self.heapctl("ps")
        line = next(line for line in out.splitlines() if line.split()[0] == self.pid)
        self.assertIn("redis-server", line)
        self.assertIn("jemalloc 5.", line)
        self.assertIn("ready, sampling is off", line)

    def test_ps_reports_which_processes_could_be_reached(self):
        other, _ = self.start_redis(preload=False)
        out, _ = self.heapctl("ps")
        line = next(line for line in out.splitlines() if line.split()[0] == str(other.pid))
        self.assertIn("no agent: load one with heapctl attach, or start it with heapctl run", line)

    def test_an_unusual_folder_is_found(self):
        # Redis has written over the environment that it began with, and the client has another folder.
        out, said = self.heapctl("status", self.pid, env={"HEAPCTL_DIR": self.path("elsewhere")})
        self.assertIn("possible", out, said)
        pids = [entry.get("pid") for entry in json.loads(self.heapctl("ps", "--json", env={"HEAPCTL_DIR": self.path("elsewhere")})[0])
                if entry["state"] == "reachable"]
        self.assertIn(self.server.pid, pids)

    def test_ps_removes_what_is_left_over(self):
        stale = self.socket_of(99999999)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(stale)
        # In a folder that others can write to, a name may belong to any user.
        os.chmod(self.agents, 0o755)
        self.assertIn(f"stale socket: {stale}", self.heapctl("ps")[0])
        os.chmod(self.agents, 0o700)
        self.assertNotIn(stale, self.heapctl("ps")[0])
        self.assertFalse(os.path.exists(stale))
        self.assertTrue(os.path.exists(self.socket_of(self.pid)))

    def test_ps_never_shows_a_child_that_has_ended(self):
        self.load_redis(self.port, keys=200)
        self.redis(self.port, "CONFIG", "SET", "rdb-key-save-delay", "10000")
        self.redis(self.port, "BGSAVE")
        self.wake(wait_until(lambda: children_of(self.pid), "the saving child")[0])
        wait_until(lambda: len(self.sockets()) == 2, "the saving child's agent")
        self.redis(self.port, "CONFIG", "SET", "rdb-key-save-delay", "0")
        wait_until(lambda: b"rdb_bgsave_in_progress:0" in self.redis(self.port, "INFO", "persistence"), "the end of BGSAVE")
        states = [entry["state"] for entry in json.loads(self.heapctl("ps", "--json")[0])
                  if os.path.dirname(entry.get("socket", "")) == self.agents]
        self.assertEqual(states, ["reachable"])
        self.assertEqual(self.sockets(), [f"{self.pid}.sock"])

    def sockets(self):
        return [name for name in os.listdir(self.agents) if name.endswith(".sock")]

    def test_status_says_it_in_words(self):
        out, _ = self.heapctl("status", self.pid)
        self.assertTrue(out.startswith(f"redis-server[{self.pid}]\n"), out)
        self.assertRegex(out, r"allocator +jemalloc 5\.")
        self.assertRegex(out, r"profiling +possible; sampling is off")
        self.assertRegex(out, r"interval +one sample in 4.0 KiB on average \(lg_prof_sample:12\)")
        self.assertRegex(out, r"last dump +none yet")
        self.assertNotIn("\033", out)
        self.heapctl("dump", self.pid, "-o", self.path("a"))
        out, _ = self.heapctl("status", self.pid)
        self.assertRegex(out, r"last dump +\S+: \d+ stacks, .* took \d+ ms")

    def test_a_target_is_a_socket_too(self):
        for path in (self.socket_of(self.pid), "unix:" + self.socket_of(self.pid)):
            out, _ = self.heapctl("status", path)
            self.assertTrue(out.startswith(f"redis-server[{self.pid}]\n"), out)
            self.heapctl("report", "--raw", "-o", self.path("of_socket"), path)

    @unittest.skipIf(os.environ.get("HEAPCTL_SANITIZE", "none") != "none", "the sanitizers need /proc themselves")
    def test_a_socket_without_proc(self):
        need_namespace("--mount")
        script = f"umount -l /proc && {HEAPCTL} status {self.socket_of(self.pid)}"
        out = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("possible", out.stdout)

    @unittest.skipIf(os.environ.get("HEAPCTL_SANITIZE", "none") != "none", "the sanitizers need /proc themselves")
    def test_without_proc_that_is_the_reason(self):
        need_namespace("--mount")
        for words in (["status", self.pid], ["attach", "redis-server"], ["ps"]):
            with self.subTest(words[0]):
                out = subprocess.run(["unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh", HEAPCTL, *words], capture_output=True, text=True, timeout=60)
                self.assertEqual((out.returncode, out.stderr), (1, "heapctl: /proc is not mounted, so no process can be seen (mount -t proc proc /proc)\n"))

    def test_stats_are_jemallocs(self):
        out, _ = self.heapctl("stats", self.pid)
        self.assertIn("Begin jemalloc statistics", out)
        out, _ = self.heapctl("stats", self.pid, "--json")
        self.assertGreater(json.loads(out)["jemalloc"]["stats"]["allocated"], 0)
        self.heapctl("stats", self.pid, "--options", "z", code=2)

    def test_mallctl_reads_and_writes(self):
        self.assertEqual(self.heapctl("mallctl", self.pid, "opt.lg_prof_sample")[0], "12\n")
        self.assertEqual(self.heapctl("mallctl", self.pid, "prof.thread_active_init=false")[0], "false\n")
        self.assertEqual(self.heapctl("mallctl", self.pid, "prof.thread_active_init")[0], "false\n")
        answer = json.loads(self.heapctl("mallctl", self.pid, "--json", "prof.thread_active_init=true")[0])
        self.assertEqual((answer["before"], answer["value"]), (False, True))
        said = self.heapctl("mallctl", self.pid, "arena.0.purge", code=2)[1]
        self.assertIn(f"arena.0.purge is an action and has no value to read (run it with heapctl mallctl {self.pid} arena.0.purge=)",
                      said)
        self.heapctl("mallctl", self.pid, "arena.0.purge=")
        refusal = self.heapctl("mallctl", self.pid, "prof.prefix=/nowhere/x", code=1)[1]
        self.assertIn("(to do it anyway, add --force)", refusal)
        self.heapctl("mallctl", self.pid, "--force", "prof.prefix=/nowhere/x")
        for name in ("", "=1", "opt prof", "a/b", "opt.prof?x"):
            self.assertIn("not the name of a mallctl", self.heapctl("mallctl", self.pid, name, code=2)[1])
        _, complaint = self.heapctl("mallctl", self.pid, "no.such.name", "--type", "bool", code=1)
        self.assertIn("no.such.name", complaint)


class Switching(ControlCase):
    def test_activate_and_deactivate(self):
        self.assertEqual(self.heapctl("activate", self.pid)[0], f"redis-server[{self.pid}]: sampling is on\n")
        self.assertEqual(self.heapctl("activate", self.pid)[0], f"redis-server[{self.pid}]: sampling is on already\n")
        self.assertTrue(self.status()["profiling"]["active"])
        answer = json.loads(self.heapctl("deactivate", self.pid, "--json")[0])
        self.assertEqual(answer, {"active": False, "was_active": True})
        self.assertFalse(self.status()["profiling"]["active"])

    def test_dump_is_private_and_complete(self):
        self.heapctl("activate", self.pid)
        self.load_redis(self.port)
        path = self.path("now.heap")
        pathlib.Path(path).write_text("old")
        _, said = self.heapctl("dump", self.pid, "-o", path)
        self.assertRegex(said, rf"^{path}: .*B, taken in \d+ ms\n$")
        text = pathlib.Path(path).read_text()
        self.assertTrue(text.startswith("heap_v2/4096\n"))
        self.assertIn("MAPPED_LIBRARIES", text)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertTrue(self.heapctl("dump", self.pid, "-o", "-")[0].startswith("heap_v2/4096\n"))

    def into_pipe(self, *words):
        """What heapctl writes into a named pipe, and what it says."""
        os.mkfifo(self.path("pipe"))
        reader = self.start("cat", self.path("pipe"), stdout=subprocess.PIPE)
        _, said = self.heapctl("60", HEAPCTL, *words, "-o", self.path("pipe"), program="timeout")
        return reader.communicate(timeout=60)[0].decode(), said

    def test_a_dump_into_a_pipe_ends(self):
        text, said = self.into_pipe("dump", self.pid)
        self.assertTrue(text.startswith("heap_v2/4096\n"))
        self.assertIn(f"{self.path('pipe')}: ", said)

    def test_a_recording_into_a_pipe_ends_and_has_no_file_beside(self):
        self.heapctl("activate", self.pid)
        text, said = self.into_pipe("record", self.pid, "-d", "1s")
        self.assertTrue(text.startswith("heap_v2/4096\n"))
        self.assertIn("has older samples, too; no profile of the start is saved beside a pipe, a device or a descriptor (--start-profile FILE saves one)", said)
        self.assertFalse(os.path.exists(self.path("pipe.before")))

    def test_a_recording_that_cannot_save_its_start_leaves_no_run(self):
        self.heapctl("activate", self.pid)
        os.mkdir(self.path("out.before"))
        self.assertIn("out.before", self.heapctl("record", self.pid, "-d", "1mins", "-o", self.path("out"), code=1)[1])
        self.assertIsNone(self.status()["run"])
        for same in (self.path("out"), os.path.join(self.folder, ".", "out")):
            said = self.heapctl("record", self.pid, "-d", "1mins", "-o", self.path("out"), "--start-profile", same, code=2)[1]
            self.assertIn("two profiles need two files", said)
        self.assertIn("standard output has older samples, too", self.heapctl("record", self.pid, "-d", "1s", "-o", "-")[1])

    def test_the_end_is_saved_where_the_start_cannot_be(self):
        said = self.heapctl("record", self.pid, "-d", "1s", "-o", self.path("end.heap"), "--start-profile", "/dev/full", code=1)[1]
        self.assertRegex(said, r"/dev/full: No space left on device .*--save \d+ -o END --start-profile START")
        run, = self.runs()
        for same in ("end.heap", "./end.heap"):
            self.assertIn("two profiles need two files", self.heapctl("runs", self.pid, "--save", run["id"], "-o", "end.heap", "--start-profile", same, code=2, cwd=self.folder)[1])
        self.assertIn("two profiles need two files", self.heapctl("record", self.pid, "-d", "1s", "-o", "-", "--start-profile", "/dev/stdout", code=2)[1])
        os.unlink(self.path("end.heap"))
        self.heapctl("runs", self.pid, "--save", run["id"], "-o", self.path("end.heap"), "--start-profile", "/dev/full", code=1)
        self.assertTrue(pathlib.Path(self.path("end.heap")).read_text().startswith("heap_v2/4096\n"))

    def test_longlived_needs_a_regular_file(self):
        os.mkfifo(self.path("pipe"))
        reader = self.start("cat", self.path("pipe"), stdout=subprocess.DEVNULL)
        said = self.heapctl("20", HEAPCTL, "longlived", self.pid, "-w", "1s", "-s", "0s", "-o", self.path("pipe"), code=2, program="timeout")[1]
        self.assertIn("cannot be saved beside", said)
        reader.wait(60)
        self.assertFalse(self.runs())
        self.assertFalse(os.path.exists(self.path("pipe.before")))

    def test_an_account_without_samples_gives_no_interval(self):
        out, _ = self.heapctl("account", self.pid)
        self.assertIn("The profile has no samples", out)
        self.assertNotIn("(95%)", out)

    def test_an_empty_dump_is_explained(self):
        _, said = self.heapctl("dump", self.pid, "-o", self.path("empty"))
        self.assertIn("the profile has no samples", said)

    def test_dump_makes_up_a_name(self):
        folder = self.path("here")
        os.mkdir(folder)
        for _ in range(3):
            self.heapctl("dump", self.pid, cwd=folder)
        names = sorted(os.listdir(folder))
        self.assertEqual(len(names), 3)
        for name in names:
            self.assertRegex(name, rf"^redis-server\.{self.pid}\.\d{{8}}-\d{{6}}(-\d)?\.heap$")

    def test_a_file_without_a_name_is_refused(self):
        self.assertIn("--output: the name is empty", self.heapctl("dump", self.pid, "-o", "", code=2)[1])

    def test_a_dump_that_fails_leaves_nothing(self):
        folder = self.path("gone")
        _, said = self.heapctl("dump", self.pid, "-o", f"{folder}/x", code=1)
        self.assertIn(f"writing {folder}/x: No such file or directory (there is no folder {folder}: create it", said)
        for words, why in ((("stats", self.pid, "-o", f"{folder}/x"), f"there is no folder {folder}: create it"),
                           (("record", self.pid, "-d", "1s", "-o", f"{folder}/x"), f"there is no folder {folder}: create it"),
                           (("dump", self.pid, "-o", self.folder), "it is a folder: name a file in it"),
                           (("stats", self.pid, "-o", self.folder), "it is a folder: name a file in it")):
            self.assertIn(f"writing {words[-1]}: ", self.heapctl(*words, code=1)[1])
            self.assertIn(why, self.heapctl(*words, code=1)[1])
        os.mkdir(folder)
        agent = FakeAgent(self.agents, lambda method, target: None if "profile" in target else (200, fake_status()))
        try:
            client = self.start(HEAPCTL, "dump", os.getpid(), "-o", f"{folder}/x")
            wait_until(lambda: agent.waiting, "the request")
        finally:
            agent.close()
        self.assertEqual(client.wait(60), 1)
        self.assertEqual(os.listdir(folder), [])

    def test_an_interrupt_ends_the_wait_for_a_run(self):
        agent = FakeAgent(self.agents, lambda method, target: None if method == "POST" else (200, fake_status()))
        self.addCleanup(agent.close)
        for verb, waits in (("record", True), ("longlived", True), ("record", False), ("longlived", False)):
            with self.subTest(verb, waits=waits):
                agent.waiting.clear()
                client = self.start(HEAPCTL, verb, os.getpid(), "-o", self.path("x"), stderr=subprocess.PIPE, text=True)
                wait_until(lambda: agent.waiting, "the request")
                if waits:
                    self.assertIn("Waiting (Ctrl-C ends it)", client.stderr.readline())
                client.send_signal(signal.SIGTERM)
                client.communicate(timeout=20)
                self.assertIn(client.returncode, (-signal.SIGTERM, -signal.SIGINT))
                self.assertFalse(os.path.exists(self.path("x")))

    def test_an_interrupt_ends_the_wait_of_an_attach(self):
        """For the agent that is there already."""
        agent = FakeAgent(self.agents, lambda method, target: None)
        self.addCleanup(agent.close)
        client = self.start(HEAPCTL, "attach", os.getpid(), stderr=subprocess.PIPE, text=True)
        wait_until(lambda: agent.waiting, "the request")
        self.assertIn("Waiting (Ctrl-C ends it)", client.stderr.readline())
        client.send_signal(signal.SIGTERM)
        client.communicate(timeout=20)
        self.assertEqual(client.returncode, -signal.SIGTERM)

    def test_an_output_that_fails_is_named_alone(self):
        _, said = self.heapctl("dump", self.pid, "-o", "/dev/full", code=1)
        full = "No space left on device (make room there, or write to another disk)\n"
        self.assertEqual(said, f"heapctl: /dev/full: {full}")
        for words in (("dump", self.pid, "--bundle"), ("stats", self.pid)):
            self.assertEqual(self.heapctl(*words, "-o", "/dev/full", code=1)[1].splitlines(True)[-1], f"heapctl: /dev/full: {full}", words)
        for words in (("dump", self.pid, "-o", "-"), ("stats", self.pid), ("status", self.pid), ("ps",), ("report", "--json", self.pid)):
            with open("/dev/full", "w") as out:
                done = subprocess.run([HEAPCTL, *words], env=self.environment, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr.splitlines(True)[-1]), (1, f"heapctl: standard output: {full}"), words)


class Running(ControlCase):
    def test_start_stop_runs_save(self):
        out, said = self.heapctl("start", self.pid, "--duration", "10mins")
        self.assertIn(f"`heapctl stop {self.pid}` ends it early", said)
        number = out.strip()
        self.assertRegex(number, r"^\d+$")
        self.assertIn("a run of 10 min has begun", said)
        self.load_redis(self.port)
        again, said = self.heapctl("start", self.pid)
        self.assertEqual(again.strip(), number)
        self.assertIn("a run is on already", said)
        self.assertIn("running, ", self.heapctl("runs", self.pid)[0])
        _, said = self.heapctl("record", self.pid, "-d", "1s", "-o", self.path("x"), code=1)
        self.assertIn(f"run {number} is on already", said)
        self.assertFalse(os.path.exists(self.path("x")))

        self.assertEqual(self.heapctl("stop", self.pid)[0].strip(), number)
        _, said = self.heapctl("stop", self.pid, code=1)
        self.assertIn("there is no run to stop (heapctl runs lists the finished ones, heapctl start begins one)", said)
        self.assertIn("finished (stop)", self.heapctl("runs", self.pid)[0])
        self.heapctl("runs", self.pid, "--save", number, "-o", self.path("end"), "--start-profile", self.path("start"))
        for name in ("end", "start"):
            self.assertTrue(pathlib.Path(self.path(name)).read_text().startswith("heap_v2/"))
        self.assertGreater(os.path.getsize(self.path("end")), os.path.getsize(self.path("start")))
        self.heapctl("runs", self.pid, "--remove", number)
        self.assertEqual(self.runs(), [])
        self.heapctl("runs", self.pid, "--save", number, "-o", self.path("y"), code=1)

    def test_record_saves_what_was_allocated(self):
        client = self.start(HEAPCTL, "record", self.pid, "-d", "2s", "-o", self.path("r.heap"),
                            "--start-profile", self.path("s.heap"), stderr=subprocess.PIPE)
        with self.loading_redis(self.port):
            self.assertEqual(client.wait(60), 0)
        said = client.stderr.read().decode()
        self.assertNotIn("\r", said)
        self.assertIn("r.heap: ", said)
        self.assertGreater(os.path.getsize(self.path("r.heap")), os.path.getsize(self.path("s.heap")))
        self.assertEqual(self.runs()[-1]["ended_by"], "deadline")
        self.assertFalse(self.status()["profiling"]["active"])

    def test_an_interrupt_ends_the_run_early_and_saves(self):
        client = self.start(HEAPCTL, "record", self.pid, "-d", "1hrs", "-o", self.path("r.heap"), stderr=subprocess.PIPE)
        wait_until(self.runs, "the run")
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.wait(60), 0)
        self.assertIn("interrupted: ending the run now", client.stderr.read().decode())
        self.assertTrue(os.path.exists(self.path("r.heap")))
        self.assertEqual(self.runs()[-1]["ended_by"], "stop")

    def test_the_run_outlives_a_killed_client(self):
        client = self.start(HEAPCTL, "record", self.pid, "-d", "4s", "-o", self.path("r.heap"))
        # By its socket, which is quicker than by a process: the client must not have come to the end by itself.
        wait_until(lambda: ask(self.socket_of(self.pid), "/v1/runs")[1]["runs"], "the run")
        client.kill()
        client.wait()
        wait_until(lambda: self.runs()[-1]["state"] == "finished", "the end of the run")
        number = self.runs()[-1]["id"]
        self.assertEqual(self.runs()[-1]["ended_by"], "deadline")
        self.assertFalse(os.path.exists(self.path("r.heap")))
        self.heapctl("runs", self.pid, "--save", number, "-o", self.path("r.heap"))
        self.assertFalse(self.status()["profiling"]["active"])

    def test_a_lost_terminal_does_not_lose_the_profile(self):
        client = self.start(HEAPCTL, "record", self.pid, "-d", "10mins", "-o", self.path("r.heap"))
        wait_until(self.runs, "the run")
        # The terminal sends one, and the shell another.
        for _ in range(3):
            client.send_signal(signal.SIGHUP)
        self.assertEqual(client.wait(60), 0)
        self.assertTrue(os.path.exists(self.path("r.heap")))
        self.assertEqual(self.runs()[-1]["ended_by"], "stop")

    def test_a_watch_ends_with_its_terminal(self):
        client = self.start(HEAPCTL, "watch", self.pid, "--when", "rss>1TiB", "--keep", self.path("captures"), stderr=subprocess.PIPE)
        self.assertTrue(any(b"watching " in line for line in client.stderr))
        client.send_signal(signal.SIGHUP)
        self.assertEqual(client.wait(60), 0)

    def test_nohup_keeps_a_recording_without_a_terminal(self):
        client = self.start("env", "--ignore-signal=HUP", HEAPCTL, "record", self.pid, "-d", "2s", "-o", self.path("r.heap"))
        wait_until(self.runs, "the run")
        client.send_signal(signal.SIGHUP)
        self.assertEqual(client.wait(60), 0)
        self.assertEqual(self.runs()[-1]["ended_by"], "deadline")

    def test_titles_are_the_name_of_the_process(self):
        # The program's file is redis-check-rdb on Debian.
        self.heapctl("activate", self.pid)
        self.load_redis(self.port)
        bundle = self.path("b.tar")
        self.heapctl("dump", self.pid, "--bundle", "-o", bundle)
        # A name without a meaning, as in README's example.
        profile, recorded, again = self.path("a.heap"), self.path("r.heap"), self.path("again.heap")
        self.heapctl("dump", self.pid, "-o", profile)
        self.heapctl("record", self.pid, "-d", "1s", "-o", recorded)
        self.heapctl("report", "--raw", profile, "-o", again)
        for source in (self.pid, self.socket_of(self.pid), bundle, profile, recorded, again):
            self.assertEqual(json.loads(self.heapctl("report", "--json", source)[0])["program"], "redis-server", source)
            self.heapctl("report", "--pprof", "-o", self.path("p.pb.gz"), source)
            texts = gzip.decompress(pathlib.Path(self.path("p.pb.gz")).read_bytes())
            self.assertIn(b"/usr/bin/redis-server", texts, source)
            self.assertNotIn(b"/redis-check-rdb", texts, source)

    @unittest.skipIf(shutil.which("jeprof") is None, "without jeprof")
    def test_jeprof_reads_a_profile_that_names_its_process(self):
        self.heapctl("activate", self.pid)
        self.load_redis(self.port)
        profile, plain = self.path("a.heap"), self.path("plain.heap")
        self.heapctl("dump", self.pid, "-o", profile)
        text = pathlib.Path(profile).read_text()
        self.assertTrue(text.endswith("\n#process redis-server\n"))
        pathlib.Path(plain).write_text(text.replace("#process redis-server\n", ""))
        read = [subprocess.run(["jeprof", "--text", "--show_bytes", "/usr/bin/redis-server", path], capture_output=True, text=True, timeout=120) for path in (profile, plain)]
        self.assertEqual(read[0].stdout, read[1].stdout)
        self.assertRegex(read[0].stdout, r"^Total: [1-9]")

    def test_words_that_are_options_here(self):
        self.assertIn("(give --type bool, u32,",
                      self.heapctl("mallctl", self.pid, "no.such", code=None)[1])

    def test_a_second_recording_names_the_samples_of_the_first(self):
        first, second = self.path("first.heap"), self.path("second.heap")
        for path in (first, second):
            record = self.start(HEAPCTL, "record", self.pid, "-d", "1mins", "-o", path, stderr=subprocess.PIPE)
            wait_until(lambda: any(run["state"] == "running" for run in self.runs()), "the run")
            self.load_redis(self.port, keys=20000)
            record.send_signal(signal.SIGINT)
            said = record.stderr.read().decode()
            self.assertEqual(record.wait(60), 0, said)
        self.assertFalse(os.path.exists(first + ".before"))
        self.assertIn(f"sampling was on before: {second} has older samples, too; what this recording added: heapctl diff {second}.before {second}", said)
        self.assertFalse(self.status()["profiling"]["active"])
        self.assertTrue(json.loads(self.heapctl("report", "--json", second + ".before")[0])["nodes"])
        _, said = self.heapctl("record", self.pid, "-d", "1s", "-o", self.path("third.heap"))
        self.assertRegex(said, r": \d samples? \(and \d+ from before\) in \d\.\d s at one per 4 KiB: too few to rely on")

    def test_a_recording_leaves_sampling_on_and_keeps_the_profile_before(self):
        self.load_redis(self.port, keys=3000)
        self.heapctl("activate", self.pid)
        self.load_redis(self.port, keys=6000)
        record = self.start(HEAPCTL, "record", self.pid, "-d", "1mins", "-o", self.path("on.heap"), stderr=subprocess.PIPE)
        wait_until(self.runs, "the run")
        self.load_redis(self.port, keys=20000)
        record.send_signal(signal.SIGINT)
        self.assertEqual(record.wait(60), 0)
        self.assertIn(f"heapctl diff {self.path('on.heap')}.before {self.path('on.heap')}", record.stderr.read().decode())
        self.assertTrue(self.status()["profiling"]["active"])
        self.assertEqual(self.status()["profiling"]["activated_by"], "heapctl")
        before, after = self.total(self.path("on.heap.before")), self.total(self.path("on.heap"))
        self.assertGreater(before, 0)
        self.assertAlmostEqual(self.total(self.path("on.heap.before"), self.path("on.heap"), verb="diff"), after - before, delta=1)
        self.assertIn("stays on", self.heapctl("start", self.pid, "-d", "1mins")[1])
        self.heapctl("stop", self.pid)
        self.assertTrue(self.status()["profiling"]["active"])

    def total(self, *paths, verb="report"):
        return json.loads(self.heapctl(verb, "--json", *paths)[0])["total"]["value"]

    def test_longlived_leaves_sampling_on(self):
        self.heapctl("activate", self.pid)
        client = self.start(HEAPCTL, "longlived", self.pid, "-w", "1s", "-s", "1mins", "-o", self.path("l.heap"), stderr=subprocess.PIPE)
        wait_until(lambda: not self.status()["profiling"]["active"], "the wait without sampling")
        client.send_signal(signal.SIGINT)
        self.assertEqual(client.wait(60), 0)
        self.assertTrue(self.status()["profiling"]["active"])

    def test_longlived_that_is_killed_leaves_sampling_on(self):
        self.heapctl("activate", self.pid)
        client = self.start(HEAPCTL, "longlived", self.pid, "-w", "1s", "-s", "2s", "-o", self.path("l.heap"), stderr=subprocess.PIPE)
        wait_until(lambda: not self.status()["profiling"]["active"], "the wait without sampling")
        client.kill()
        wait_until(lambda: self.status()["profiling"]["active"], "sampling to be on again")

    def test_an_interval_for_one_recording_needs_consent_to_lose_samples(self):
        words = ["record", self.pid, "-d", "1s", "--sample", "16KiB", "-o", self.path("s.heap")]
        self.heapctl("activate", self.pid)
        self.load_redis(self.port, keys=6000)
        _, said = self.heapctl(*words, code=1)
        self.assertRegex(said, r"has \d+ samples, which --sample would discard \(save them with heapctl dump, then add --discard\)")
        self.assertFalse(os.path.exists(self.path("s.heap")))
        self.assertNotIn("\nheap_v2/16384", self.heapctl("dump", self.pid, "-o", "-")[0])
        self.assertIn("its samples are discarded", self.heapctl(*words, "--discard")[1])
        self.assertFalse(os.path.exists(self.path("s.heap.before")))
        self.assertTrue(pathlib.Path(self.path("s.heap")).read_text().startswith("heap_v2/16384\n"))
        self.assertEqual(self.status()["profiling"]["lg_sample"], 12)
        self.assertTrue(self.status()["profiling"]["active"])
        # Nothing is lost with the interval that there is.
        self.load_redis(self.port, keys=6000)
        words[5] = "4KiB"
        self.heapctl(*words)
        self.assertIn("powers of two: one sample per 64 KiB",
                      self.heapctl("record", self.pid, "-d", "1s", "--sample", "100000", "--discard", "-o", self.path("t.heap"))[1])
        self.assertIn("from 4KiB to", self.heapctl("record", self.pid, "--sample", "1KiB", code=2)[1])

    def test_few_samples_are_reported_with_the_interval_that_would_do(self):
        server, port = self.start_redis(conf="prof:true,prof_active:false")
        self.wait_for_agent(server.pid)
        record = self.start(HEAPCTL, "record", server.pid, "-d", "1mins", "-o", self.path("few.heap"), stderr=subprocess.PIPE)
        wait_until(lambda: json.loads(self.heapctl("status", server.pid, "--json")[0])["run"], "the run")
        # Some 36 samples: none at all, or the hundred that would be enough, come in less than one run of a billion.
        self.load_redis(port, keys=30000, size=500)
        record.send_signal(signal.SIGINT)
        self.assertEqual(record.wait(60), 0)
        said = record.stderr.read().decode()
        found = re.search(r"(\d+) samples? in .* at one per 512 KiB: too few to rely on \(--sample (\d+)KiB would have given about a hundred", said)
        self.assertTrue(found, said)
        self.assertNotIn("heapctl record", said)
        # So much smaller as there were too few.
        self.assertLessEqual(int(found[2]), 512 * int(found[1]) / 100)
        self.assertGreater(int(found[2]), 512 * int(found[1]) / 200)

    def test_memory_that_was_freed_again_is_not_called_too_few_samples(self):
        process = self.start(sys.executable, "-c", "print(flush=True)\nwhile True: bytearray(30000)", stdout=subprocess.PIPE,
                             env={"LD_PRELOAD": AGENT, "PYTHONMALLOC": "malloc"})
        process.stdout.readline()
        self.wait_for_agent(process.pid)
        record = self.start(HEAPCTL, "record", process.pid, "-d", "1h", "--sample", "16KiB", "-o", self.path("freed.heap"), stderr=subprocess.PIPE)
        wait_until(lambda: json.loads(self.heapctl("status", process.pid, "--json")[0])["run"], "the run")
        used = processor_seconds(process.pid)
        wait_while_it_progresses(lambda: processor_seconds(process.pid), used + 1, "some 100,000 allocations")
        record.send_signal(signal.SIGINT)
        self.assertEqual(record.wait(60), 0)
        said = record.stderr.read().decode()
        self.assertRegex(said, r": of \d{3,} samples \d\d? (is|are) in use; the others were freed \(heapctl report --alloc_space shows all\)")
        self.assertNotIn("too few", said)
        self.assertRegex(self.heapctl("report", "--text", "--alloc_space", self.path("freed.heap"))[0], "(?m)^Total: [1-9]")

    def test_what_was_sampled_from_the_start_is_not_called_older(self):
        """40 blocks of 3 MiB are about 40 samples, and not the 240 that their bytes look like."""
        code = "x = [bytearray(3 << 20) for i in range(40)]; print(flush=True); import time; time.sleep(600)"
        process = self.start(sys.executable, "-c", code, stdout=subprocess.PIPE,
                             env={"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "MALLOC_CONF": "prof:true,prof_active:true", "PYTHONMALLOC": "malloc"})
        self.wait_for_agent(process.pid)
        process.stdout.readline()
        _, said = self.heapctl("record", process.pid, "-d", "1s", "-o", self.path("large.heap"))
        self.assertIn("too few to rely on (", said)
        self.assertNotIn("before sampling was on", said)

    def test_the_agents_thread_makes_no_advice_about_arenas(self):
        """One thread of Redis allocates, whatever the number of arenas."""
        out, _ = self.heapctl("account", self.pid)
        self.assertIn("free places in slabs", out)
        self.assertNotIn("narenas", out)
        self.assertNotIn("fewer arenas", out)

    def test_what_is_older_than_sampling_is_not_called_little(self):
        server, port = self.start_redis(conf="prof:true,prof_active:false")
        self.wait_for_agent(server.pid)
        self.load_redis(port, keys=60000, size=500)
        self.heapctl("activate", server.pid)
        _, said = self.heapctl("record", server.pid, "-d", "1s", "-o", self.path("late.heap"))
        self.assertRegex(said, r"most of the \S+ MiB in use were allocated before sampling was on: heapctl run --activate samples")
        self.assertNotIn("little in use", said)

    def test_an_empty_recording_is_explained_once(self):
        _, said = self.heapctl("longlived", self.pid, "-w", "1s", "-s", "1s", "-o", self.path("empty.heap"))
        self.assertEqual(said.count("sample"), 1, said)
        self.assertIn("record for longer", said)

    def test_a_closed_output_sends_nothing_to_the_agent(self):
        for words in (["dump", self.pid, "-o", "-"], ["status", self.pid]):
            done = subprocess.run(["sh", "-c", '"$@" >&-', "-", HEAPCTL, *map(str, words)], stderr=subprocess.PIPE,
                                  env=self.environment, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"Bad file descriptor", done.stderr)

    def test_a_target_that_ends_is_reported(self):
        client = self.start(HEAPCTL, "record", self.pid, "-d", "8s", "-o", self.path("r.heap"), stderr=subprocess.PIPE)
        wait_until(self.runs, "the run")
        self.server.kill()
        self.server.wait()
        self.assertEqual(client.wait(60), 1)
        self.assertIn(f"heapctl: redis-server[{self.pid}]", client.stderr.read().decode())
        self.assertFalse(os.path.exists(self.path("r.heap")))

    def test_the_bar_is_for_terminals(self):
        def is_drawn():
            seen = self.on_terminal(80, "record", self.pid, "-d", "1s", "-o", self.path("r.heap"))
            self.assertIn(f"recording redis-server[{self.pid}] [", seen)
            return "#" in seen
        # If it had no processor for that second, it draws the beginning alone.
        wait_until(is_drawn, "a bar")

    def test_the_bar_fits_a_narrow_terminal(self):
        seen = self.on_terminal(40, "record", self.pid, "-d", "1s", "-o", self.path("r.heap"))
        bars = [part for part in seen.split("\r") if "left" in part]
        self.assertTrue(bars, seen)
        for bar in bars:
            self.assertLess(len(bar.replace("\033[K", "")), 40)

    def test_a_profile_that_found_no_room_stays_with_the_agent(self):
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        need_namespace("--mount")
        folder = self.path("tiny")
        os.mkdir(folder)
        script = f"mount -t tmpfs -o size=4k none {folder} && {HEAPCTL} record {self.pid} -d 1s -o {folder}/x"
        result = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=self.environment, capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.startswith(f"heapctl: {folder}/x: No space left on device"), result.stderr)
        words = result.stderr.partition("the agent has it: heapctl ")[2].split()
        self.heapctl(*words[:4], "-o", self.path("saved"))
        self.assertTrue(pathlib.Path(self.path("saved")).read_text().startswith("heap_v2/"))

    def test_longlived_saves_both_and_shows_the_difference(self):
        client = self.start(HEAPCTL, "longlived", self.pid, "--window", "2s", "--settle", "0s", "-o", self.path("l.heap"),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with self.loading_redis(self.port):
            out, said = client.communicate(timeout=120)
        self.assertEqual(client.returncode, 0, said)
        self.assertGreater(os.path.getsize(self.path("l.heap")), os.path.getsize(self.path("l.heap.before")))
        self.assertFalse(self.status()["profiling"]["active"])
        overview = self.heapctl("--help")[0]
        if "\n  diff " in overview:
            self.assertIn(b"createStringObject", out)

    def test_wrong_durations_are_usage_errors(self):
        for verb in ("start", "record"):
            for duration in ("0.5s", "25hrs", "soon"):
                _, said = self.heapctl(verb, self.pid, "--duration", duration, code=2)
                self.assertIn("--duration", said)
        self.heapctl("longlived", self.pid, "--settle", "x", code=2)
        self.assertEqual(self.runs(), [])


class OfManyProcesses(Case):
    """What is the same for all of them is read once: the kernel's table of sockets can have thousands of lines."""

    SURVEY = """
    for i in 1 2 3 4 5 6 7 8; do sleep 60 & done
    unshare --net sleep 60 & unshare --net sleep 60 &
    until [ "$(readlink /proc/[0-9]*/ns/net | sort -u | wc -l)" -eq 3 ]; do sleep 0.1; done
    strace -f -o "$1" -e trace=openat "$2" ps --all
    exit
    """

    def test_a_table_is_read_once_for_a_network_namespace(self):
        need_namespace("--pid")
        log = os.path.join(self.folder, "opened")
        subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", need("bash"), "-c", self.SURVEY, "bash", log, HEAPCTL],
                       check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        opened = re.findall(r'"(/proc/\w+)/net/unix"', pathlib.Path(log).read_text())
        self.assertEqual(len(opened), 3, opened)


class NotThere(Case):
    def test_the_number_of_a_thread_is_told_from_a_process(self):
        process = self.start(sys.executable, "-c", "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()")
        threads = lambda: [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
        wait_until(lambda: len(threads()) == 2, "its thread")
        thread = max(threads())
        for words in (("status",), ("doctor",), ("attach",), ("detach",), ("record", "-d", "1s", "--attach"), ("account",), ("dump",), ("stop",), ("top", "-n", "1")):
            with self.subTest(words[0]):
                _, said = self.heapctl(*words, thread, code=1)
                self.assertIn(f"{thread} is a thread of process {process.pid}, called python", said)
                self.assertIn(f"(give the number of the process, {process.pid})", said)
        self.assertNotIn("libheapctl", pathlib.Path(f"/proc/{process.pid}/maps").read_text())

    def test_unknown_targets(self):
        for target, why in (("999999999", "there is no process 999999999"), ("no-such-program", "no process is called"),
                            ("/nonexistent/1.sock", "No such file"), (f"http://127.0.0.1:{free_port()}", "Connection refused")):
            _, said = self.heapctl("status", target, code=1)
            self.assertTrue(said.startswith("heapctl: "), said)
            self.assertIn(why, said)
        for verb, target in (("status", "999999999"), ("doctor", "no-such-program"), ("doctor", "999999999")):
            self.assertIn("(heapctl ps --all lists the processes)", self.heapctl(verb, target, code=1)[1])
        self.assertIn("nothing listens there", self.heapctl("status", f"http://127.0.0.1:{free_port()}", code=1)[1])
        said = self.heapctl("status", "x@no-such-user", code=1)[1]
        self.assertIn("no process is called 'x@no-such-user', and there is no user 'no-such-user'", said)
        self.heapctl("status", "http://x:y", code=2)
        self.heapctl("status", code=2)
        self.heapctl("status", "1", "2", code=2)

    def test_verbs_that_need_no_agent_refuse_a_target_as_the_others_do(self):
        name = own_name("alone")
        program = os.path.join(self.folder, name)
        shutil.copy(need("sleep"), program)
        self.start(program, "600")
        other = next(user.pw_name for user in pwd.getpwall() if user.pw_uid not in (0, os.geteuid()))
        for verb in ("status", "attach", "doctor"):
            with self.subTest(verb):
                self.assertIn(f"no process of user {other} is called '{name}'", self.heapctl(verb, f"{name}@{other}", code=1)[1])
                self.assertIn(f"no process is called '{name}@no-such-user', and there is no user 'no-such-user'",
                              self.heapctl(verb, f"{name}@no-such-user", code=1)[1])
                self.assertIn(f"{name}:* means several processes (report, dump, record and top take it", self.heapctl(verb, f"{name}:*", code=2)[1])

    def test_what_cannot_be_found_comes_with_the_next_step(self):
        file = os.path.join(self.folder, "file")
        pathlib.Path(file).write_text("text")
        os.makedirs(self.agents, mode=0o700)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(self.socket_of(99999998))
        for code, words, hint in (
                (1, ("dump", "/nonexistent/1.sock"), "heapctl ps lists the targets"),
                (1, ("dump", self.socket_of(99999998)), "heapctl ps lists the targets"),
                (2, ("dump", file), "heapctl report shows a file"),
                (1, ("dump", "file"), "heapctl report shows the file of that name"),
                (1, ("doctor", "file"), "heapctl report shows the file of that name"),
                (2, ("attach", "/nonexistent/1.sock"), "heapctl ps --all lists the processes"),
                (2, ("attach", "--method", "x", "1"), "'x' is not auto, got or entry"),
                (1, ("run", file), "a script begins with #!"),
                (1, ("run", self.folder), "name the program itself"),
                (1, ("run", "--jemalloc=file", "true"), "name the shared library"),
                (1, ("run", "--jemalloc=" + AGENT, "true"), "name the shared library"),
                (2, ("man", "x"), "man: unknown verb 'x' (see")):
            _, said = self.heapctl(*words, code=code, cwd=self.folder)
            self.assertIn(hint, said, words)

    def test_a_dead_socket(self):
        os.makedirs(self.agents, mode=0o700)
        path = self.socket_of(99999998)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        _, said = self.heapctl("dump", path, "-o", "-", code=1)
        self.assertIn("no process listens there any more", said)
        file = os.path.join(self.folder, "file")
        pathlib.Path(file).write_text("")
        self.assertIn("is not a socket", self.heapctl("dump", file, "-o", "-", code=2)[1])
        for path in (file, self.folder):
            self.assertIn("is not a socket", self.heapctl("serve", "--listen", "127.0.0.1:0", path, code=2)[1])

    def test_a_name_is_a_process_unless_a_file_has_it(self):
        pathlib.Path(self.folder, "first.heap").write_text("heap_v2/1\n")
        _, said = self.heapctl("serve", "--listen", "127.0.0.1:0", "first.heap", code=2, cwd=self.folder)
        self.assertEqual(said, "heapctl: first.heap is not a socket (heapctl report shows a file; heapctl ps lists the targets)\n")
        # A program may be started later.
        name = own_name("later")
        shutil.copy("/bin/true", os.path.join(self.folder, name))
        for served in (name, own_name("none")):
            gateway = self.start(HEAPCTL, "serve", "--listen", f"unix:{self.folder}/s", served, stderr=subprocess.PIPE, cwd=self.folder)
            self.assertIn(b"serving on", gateway.stderr.readline())
            gateway.terminate()
            self.assertEqual(gateway.wait(60), 0)

    def test_an_answer_that_is_no_profile_is_refused_by_its_beginning(self):
        """Another program may listen where an agent would: what it sends is not read to its end."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n"
        profile, length, chunked = b"application/x-jemalloc-heap-profile", b"Content-Length: 2147483648\r\n", b"Transfer-Encoding: chunked\r\n"
        begin = "the answer to /v1/profile is not a profile"
        cases = ((head % (b"text/html", length) + b"heap_v2/1", begin + " but text/html (check that it is an agent"),
                 (head % (b"text/html", chunked) + b"9\r\nheap_v2/1", begin + " but text/html (check that"),
                 (head % (profile, length) + b"heap_v1/1", begin + ": it does not begin with 'heap_v2/' (check that"),
                 (head % (profile, chunked) + b"3\r\nhea\r\n1\r\nq\r\n", begin + ": it does not begin with 'heap_v2/' (check that"),
                 (head % (profile, b"Content-Length: 3\r\n") + b"hea", begin + ": it does not begin with 'heap_v2/' (check that"),
                 (head % (profile, length) + b"heap_v2/1", "the connection broke in the middle of the answer (heapctl ps"),
                 (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", ": the answer has too many headers"),
                 (b"HTTP/1.1 20 OK\r\n\r\n", ": the answer has an invalid status line"))
        for answer, expected in cases:
            agent = FakeAgent(self.agents, lambda method, target: answer if "profile" in target else (200, fake_status()))
            try:
                _, said = self.heapctl("dump", os.getpid(), "-o", os.path.join(self.folder, "x"), code=1)
            finally:
                agent.close()
            self.assertIn(expected, said, answer)
            self.assertEqual(said.count("the answer"), 1, said)
            self.assertNotIn("x", os.listdir(self.folder))

    def test_an_ambiguous_name_lists_the_candidates(self):
        name = own_name("twin")
        for _ in range(2):
            self.start_named_redis(name)
        _, said = self.heapctl("status", name, code=2)
        self.assertIn(f"2 processes are called '{name}'", said)
        self.assertIn(f"give the pid of one of them; heapctl report '{name}:*' adds them up", said)

    def test_a_process_without_agent(self):
        server, _ = self.start_redis(preload=False)
        _, said = self.heapctl("activate", server.pid, code=1)
        self.assertIn(f"redis-server[{server.pid}] has no agent (heapctl attach {server.pid} loads one while it runs", said)

    def test_what_started_the_server_is_told_from_it(self):
        command = f"LD_PRELOAD={AGENT} {need('redis-server')} --bind 127.0.0.1 --port $PORT --save '' & "
        for ports, expected in ((1, r"\(redis-server\[(\d+)\], which it started, has one; heapctl doctor"),
                                (2, r"\(2 processes that it started have one, and heapctl ps lists them; heapctl doctor")):
            with self.subTest(ports):
                free = [free_port() for _ in range(ports)]
                shell = self.start("sh", "-c", "".join(command.replace("$PORT", str(port)) for port in free) + "wait",
                                   wait_for=lambda: all(self.redis(port, "PING") == b"+PONG\r\n" for port in free))
                children = children_of(shell.pid)
                for child in children:
                    self.end_pid_later(child)
                    self.wait_for_agent(child)
                _, said = self.heapctl("status", shell.pid, code=1)
                self.assertRegex(said, rf"sh\[{shell.pid}\] has no agent {expected}")
                if ports == 1:
                    self.assertIn(f"[{children[0]}], which", said)

    def test_another_process_at_the_socket_is_not_believed(self):
        sleeper = self.start("sleep", "600")
        os.makedirs(self.agents, mode=0o700)
        with socket.socket(socket.AF_UNIX) as liar:
            liar.bind(self.socket_of(sleeper.pid))
            liar.listen()
            _, said = self.heapctl("status", sleeper.pid, code=1)
        self.assertIn("listens there, not", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_another_user_is_refused(self):
        server, _ = self.start_redis()
        self.wait_for_agent(server.pid)
        result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", HEAPCTL, "status", str(server.pid)],
                                env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("run heapctl as", result.stderr)
        # By a name that a process of another user alone has.
        name = own_name("hidden")
        program = shutil.copy(need("sleep"), os.path.join(self.folder, name))
        self.start(program, "600")
        for verb in ("status", "attach", "detach", "doctor", "account"):
            with self.subTest(verb):
                result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", HEAPCTL, verb, name],
                                        env=self.environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertRegex(result.stdout + result.stderr, r"permission denied|may not be traced")
        # Of a socket nothing tells the owner where its folder is closed.
        path = self.socket_of(server.pid)
        result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", HEAPCTL, "status", path],
                                env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"{path}: Permission denied (run heapctl as the user that it belongs to or as root)", result.stderr)

    def test_a_text_that_can_be_no_target_is_refused_with_a_hint(self):
        for verb in ("status", "attach", "dump", "report"):
            for text, problem in (("", "the target is empty"), ("0", "0 is not a pid"), ("9" * 20, "9 is not a pid")):
                with self.subTest(verb=verb, text=text):
                    self.assertIn(f"{problem} (heapctl ps --all lists the processes)", self.heapctl(verb, text, code=2)[1])


class OverTheGap(Case):
    """Targets that are harder to find: in namespaces, on demand."""

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make namespaces")
    def test_a_container_is_reached_from_outside(self):
        if subprocess.run(["unshare", "-m", "-p", "-n", "-f", "--mount-proc", "true"], capture_output=True).returncode != 0:
            self.skipTest("namespaces may not be made here")
        environment = dict(self.environment)
        del environment["HEAPCTL_DIR"]
        outer = subprocess.Popen(
            ["unshare", "-m", "-p", "-n", "-f", "--kill-child", "--mount-proc", "sh", "-c",
             f"mount -t tmpfs none /run && exec {HEAPCTL} run -- redis-server --port 0 --unixsocket /run/r.sock --save ''"],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        # It ignores SIGTERM; its children end with it.
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)

        def found():
            entries = json.loads(self.heapctl("ps", "--json")[0])
            return [entry for entry in entries if entry["state"] == "reachable" and entry["status"]["pid"] == 1
                    and entry["status"]["name"] == "redis-server" and parent_of(entry["pid"]) == outer.pid]
        pid = wait_until(found, "the server in the container")[0]["pid"]
        self.assertNotEqual(pid, 1)
        out, _ = self.heapctl("status", pid)
        self.assertIn("1, as it sees itself", out)
        self.assertTrue(self.heapctl("dump", pid, "-o", "-")[0].startswith("heap_v2/"))
        self.assertIn("another file system", self.heapctl("doctor", pid)[0].replace("\n         ", " "))

    def test_an_agent_on_demand_is_woken(self):
        # Of a name of its own: a client that looks for another by its name wakes up all that are called so.
        server, _ = self.start_named_redis(own_name("sleepy"), conf="prof:true,prof_active:false", env={"HEAPCTL_THREAD": "on-demand"}, wait_for_agent=False)
        line = next(line for line in self.heapctl("ps")[0].splitlines() if line.split()[0] == str(server.pid))
        self.assertIn("asleep", line)
        self.assertIn("possible; sampling is off", self.heapctl("status", server.pid)[0])
        self.assertTrue(is_alive(server.pid))


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


if __name__ == "__main__":
    unittest.main()
