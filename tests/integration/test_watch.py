# SPDX-License-Identifier: Apache-2.0
"""heapctl watch on a real Redis: captures at the right time, within limits, listed, and passed to a command."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from gateway import FakeAgent, fake_status
from processes import HEAPCTL, Case, free_port, need_namespace, own_name, stop, wait_until

WATCHED = own_name("watch")
FINE = "prof:true,prof_active:true,lg_prof_sample:12"


class WatchCase(Case):
    def setUp(self):
        super().setUp()
        self.keep = os.path.join(self.folder, "captures")

    def redis_with_agent(self, conf=FINE, env=None):
        server, port = self.start_redis(conf=conf, env=env)
        self.wait_for_agent(server.pid)
        return server, port

    def watch(self, *arguments, **options):
        self.messages = os.path.join(self.folder, f"watch.{len(os.listdir(self.folder))}")
        with open(self.messages, "wb") as messages:
            return self.start(HEAPCTL, "watch", "--keep", self.keep, "--keep-free", "0", "--interval", "50ms", *arguments,
                              stderr=messages, **options)

    def wait_for_message(self, text, process):
        def is_said():
            said = pathlib.Path(self.messages).read_text()
            if text not in said and process.poll() is not None:
                raise AssertionError(f"heapctl watch ended with {process.returncode}: {said}")
            return text in said
        wait_until(is_said, f"the message '{text}'")

    def captures(self):
        try:
            return sorted(name for name in os.listdir(self.keep) if name.endswith(".heap"))
        except FileNotFoundError:
            return []

    def catalogue(self):
        with open(os.path.join(self.keep, "captures.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def wait_for_captures(self, count, process):
        def are_there():
            if process.poll() not in (None, 0):
                raise AssertionError(pathlib.Path(self.messages).read_text())
            return len(self.captures()) >= count
        wait_until(are_there, f"{count} captures")

    def capture_now(self, watch, number):
        """That is the capture's number; the watch is one for a signal."""
        watch.send_signal(signal.SIGUSR1)
        wait_until(lambda: self.captures() and int(self.captures()[-1][:8]) == number, f"capture {number}")


class Moments(WatchCase):
    def test_damaged_lines_of_the_list_are_reported(self):
        server, _ = self.redis_with_agent()
        os.mkdir(self.keep, 0o700)
        pathlib.Path(self.keep, "00000001-20261121T000000Z-tag-one.7.heap").write_bytes(b"heap_v2/1\n  t*: 0: 0 [0: 0]\n")
        pathlib.Path(self.keep, "captures.jsonl").write_text('\n{"file": "0000\n')
        watch = self.watch(server.pid, "--when", "rss>64GiB")
        self.wait_for_message("captures.jsonl: line 2 is damaged: captures without a line are listed by their names", watch)
        self.wait_for_message("watching redis-server", watch)

    def test_a_level_that_is_passed_is_captured_once(self):
        server, port = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "rss>64MiB", "--cool-down", "0s")
        self.wait_for_message("watching redis-server", watch)
        self.assertEqual(self.captures(), [])
        self.load_redis(port, keys=60000, size=1000)
        self.wait_for_captures(1, watch)
        self.load_redis(port, keys=70000, size=1000)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        name, = self.captures()
        self.assertRegex(name, rf"^00000001-\d{{8}}T\d{{6}}Z-rss\d+MiB-redis-server\.{server.pid}\.heap$")
        entry, = self.catalogue()
        self.assertEqual((entry["file"], entry["reason"], entry["pid"]), (name, "rss>64MiB", server.pid))
        self.assertGreater(entry["resident_bytes"], 64 << 20)
        self.assertRegex(pathlib.Path(self.messages).read_text(), r"rss>64MiB at [\d.]+ MiB resident: a profile of [\d.]+ KiB")
        self.assertEqual(entry["bytes"], os.path.getsize(os.path.join(self.keep, name)))
        text = pathlib.Path(self.keep, name).read_text()
        self.assertIn("heap_v2", text[:100])
        self.assertTrue(text.endswith("\n#process redis-server\n"))

    def test_a_signal_captures_now(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "signal", "--count", "2")
        self.wait_for_message("watching", watch)
        for count in (1, 2):
            watch.send_signal(signal.SIGUSR1)
            self.wait_for_captures(count, watch)
        self.assertEqual(watch.wait(60), 0)

    def test_growth_is_captured(self):
        server, port = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "growth>24MiB/h", "--count", "1")
        self.wait_for_message("watching", watch)
        self.load_redis_until(port, lambda: watch.poll() is not None, "a capture")
        self.assertEqual(watch.returncode, 0)
        self.assertEqual(self.catalogue()[0]["reason"], "growth>24MiB/h")

    def test_activate_switches_sampling_on(self):
        server, _ = self.redis_with_agent("prof:true,prof_active:false")
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "1", "--activate")
        self.assertEqual(watch.wait(60), 0)
        self.assertTrue(json.loads(self.heapctl("status", server.pid, "--json")[0])["profiling"]["active"])
        self.assertNotIn("sampling is off", pathlib.Path(self.messages).read_text())

    def control_group(self, limit_bytes):
        """A control group (version 1) with a limit; its processes must have ended with the test."""
        parent = next((line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                       if " - cgroup " in line and "memory" in line.split()[-1]), None)
        if parent is None:
            self.skipTest("no memory controller of version 1")
        group = pathlib.Path(parent, f"hc-watch-{os.getpid()}-{limit_bytes}")
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest(f"no control group can be made: {error}")

        def remove():
            wait_until(lambda: not (group / "cgroup.procs").read_text(), "the control group to be empty")
            group.rmdir()
        self.addCleanup(remove)
        try:
            (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
        except OSError as error:
            self.skipTest(f"no limit can be set: {error}")
        return group

    def test_a_share_of_a_control_group_is_captured(self):
        group = self.control_group(256 << 20)
        server, port = self.redis_with_agent()
        (group / "cgroup.procs").write_text(str(server.pid))
        # What is left to the limit may be filled before the next look: it comes much earlier.
        watch = self.watch(server.pid, "--when", "cgroup>30%", "--count", "1", "--interval", "1hrs")
        self.wait_for_message("watching", watch)
        self.load_redis(port, keys=120000, size=1000)
        self.assertEqual(watch.wait(60), 0)
        self.assertGreater(self.catalogue()[0]["cgroup_share"], 0.3)

    def test_a_target_is_followed_into_another_control_group(self):
        first, second = self.control_group(512 << 20), self.control_group(256 << 20)
        server, port = self.redis_with_agent()
        (first / "cgroup.procs").write_text(str(server.pid))
        watch = self.watch(server.pid, "--when", "cgroup>30%", "--count", "1")
        self.wait_for_message("watching", watch)
        (second / "cgroup.procs").write_text(str(server.pid))
        self.wait_for_message(f"was put into another control group: {second}", watch)
        (second.parent / "cgroup.procs").write_text(str(server.pid))
        self.wait_for_message("has a memory limit", watch)
        (second / "cgroup.procs").write_text(str(server.pid))
        self.load_redis(port, keys=120000, size=1000)
        self.assertEqual(watch.wait(60), 0)

    def test_memory_pressure_is_captured_when_the_kernel_reports_it(self):
        if not os.access("/proc/pressure/memory", os.W_OK):
            self.skipTest("no triggers of memory pressure here")
        group = self.control_group(24 << 20)
        server, _ = self.redis_with_agent()
        # Between its first reading and the end of the test it reads only on a signal.
        watch = self.watch(server.pid, "--when", "psi>5%", "--interval", "1hrs", "--count", "1")
        self.wait_for_message("watching", watch)
        self.assertIn("reported by the kernel (/proc/pressure/memory)", pathlib.Path(self.messages).read_text())
        # Three times as much of a file as the group may have in memory.
        squeeze = (f"import mmap, os\nopen({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
                   f"file = os.open({self.folder + '/big'!r}, os.O_RDWR | os.O_CREAT)\n"
                   "os.posix_fallocate(file, 0, 72 << 20)\nmemory = mmap.mmap(file, 72 << 20)\n"
                   "while True:\n    for at in range(0, 72 << 20, 4096):\n        memory[at] ^= 1\n")
        # Pressure is the share of time in which one of them waits for memory: on a busy machine one alone waits for a processor most of the time.
        for _ in range(4):
            self.start(sys.executable, "-c", squeeze)
        self.assertEqual(watch.wait(60), 0)
        entry, = self.catalogue()
        self.assertEqual(entry["reason"], "psi>5%")
        self.assertGreater(entry["pressure_share"], 0.05)

    def test_a_kernel_that_does_not_report_pressure_is_noted(self):
        if not os.access("/proc/pressure/memory", os.R_OK):
            self.skipTest("no figures of memory pressure here")
        need_namespace("--mount")
        server, _ = self.redis_with_agent()
        folder = os.path.join(self.folder, "proc-pressure")
        os.mkdir(folder)
        pathlib.Path(folder, "memory").write_text("some avg10=50.00 avg60=0.00 avg300=0.00 total=1\n")
        self.messages = os.path.join(self.folder, "watch.said")
        with open(self.messages, "wb") as messages:
            watch = self.start("unshare", "--mount", "sh", "-c",
                               f'mount --bind {folder} /proc/pressure && mount -o remount,bind,ro {folder} /proc/pressure && exec "$@"', "sh",
                               HEAPCTL, "watch", "--keep", self.keep, "--keep-free", "0", "--interval", "50ms", server.pid,
                               "--when", "psi>10%", "--count", "1", stderr=messages)
        self.assertEqual(watch.wait(60), 0, pathlib.Path(self.messages).read_text())
        self.assertIn("the kernel does not report it (/proc/pressure/memory: Read-only file system)", pathlib.Path(self.messages).read_text())
        self.assertEqual(self.catalogue()[0]["pressure_share"], 0.5)


class Restarts(WatchCase):
    def test_a_named_target_is_followed_to_its_next_process(self):
        port = free_port()
        first, _ = self.start_named_redis(WATCHED, port)
        watch = self.watch(WATCHED, "--when", "every=1s")
        self.wait_for_captures(1, watch)
        first.kill()
        first.wait()
        self.wait_for_message("waiting for it to come back", watch)
        second, _ = self.start_named_redis(WATCHED, port)
        wait_until(lambda: any(f".{second.pid}.heap" in name for name in self.captures()), "a capture of the new process")
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        pids = [entry["pid"] for entry in self.catalogue()]
        self.assertEqual(sorted(pids, key=[first.pid, second.pid].index), pids)

    def test_what_came_back_but_cannot_be_watched_is_reported(self):
        port = free_port()
        first, _ = self.start_named_redis(WATCHED, port)
        watch = self.watch(WATCHED, "--when", "peak")
        self.wait_for_message("watching", watch)
        first.kill()
        first.wait()
        self.start_named_redis(WATCHED, port, conf="prof:false", env={"HEAPCTL_SAMPLER": "no"})
        self.wait_for_message("cannot be profiled: profiling is not enabled", watch)

    def test_a_target_that_hangs_does_not_hold_up_the_end(self):
        agent = FakeAgent(self.agents, lambda method, target: None if "profile" in target else (200, fake_status()))
        self.addCleanup(agent.close)
        watch = self.watch(os.getpid(), "--when", "every=1s")
        # Its capture has begun, and may take two minutes.
        wait_until(lambda: agent.waiting, "the capture")
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name for name in os.listdir(self.keep) if ".heap." in name], [])

    def test_a_target_that_is_stopped_is_named_and_captured_again_later(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s")
        self.wait_for_captures(1, watch)
        stop(server.pid)
        self.addCleanup(os.kill, server.pid, signal.SIGCONT)
        self.wait_for_message("is stopped (T)", watch)
        os.kill(server.pid, signal.SIGCONT)
        self.wait_for_captures(3, watch)

    def test_a_pid_ends_with_its_process(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "peak")
        self.wait_for_message("watching", watch)
        self.end(server)
        self.assertEqual(watch.wait(60), 1)
        self.assertIn("has ended (use its name instead of its pid", pathlib.Path(self.messages).read_text())


class Keeping(WatchCase):
    def test_the_oldest_are_removed_and_numbers_grow(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--keep-count", "2", "--count", "3")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name[:8] for name in self.captures()], ["00000002", "00000003"])
        self.assertEqual([entry["file"] for entry in self.catalogue()], self.captures())
        watch = self.watch(server.pid, "--when", "every=1s", "--keep-count", "2", "--count", "1")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name[:8] for name in self.captures()], ["00000003", "00000004"])
        self.assertEqual(len(self.catalogue()), 2)

    def test_a_capture_is_kept_even_if_it_alone_is_too_much(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--keep-bytes", "1", "--count", "2")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name[:8] for name in self.captures()], ["00000002"])

    def test_without_space_nothing_is_captured_and_nothing_removed(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "2")
        self.assertEqual(watch.wait(60), 0)
        watch = self.watch(server.pid, "--when", "every=1s", "--keep-free", "4000TiB")
        self.wait_for_message("nothing can be captured now", watch)
        self.wait_for_message("would stay free on its disk", watch)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name[:8] for name in self.captures()], ["00000001", "00000002"])

    def tiny_disk(self):
        """A disk of 1 MiB for the captures; returns where it is."""
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=False, capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        self.keep = os.path.join(disk, "captures")
        return disk

    def test_the_minimum_free_space_is_kept(self):
        disk = self.tiny_disk()
        server, _ = self.redis_with_agent()
        # Room for a few captures of some 40 KiB, and for the index and its log.
        floor = 700 << 10
        watch = self.watch(server.pid, "--when", "signal", "--keep-free", floor)
        self.wait_for_message("watching", watch)
        for number in range(1, 13):
            self.capture_now(watch, number)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        self.assertIn(len(self.captures()), range(1, 12))
        room = os.statvfs(disk)
        self.assertGreaterEqual(room.f_bavail * room.f_frsize, floor)

    def test_a_full_disk_costs_the_new_capture_only(self):
        disk = self.tiny_disk()
        server, port = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "1")
        self.assertEqual(watch.wait(60), 0)
        first = self.captures()
        room = os.statvfs(disk)
        with open(os.path.join(disk, "ballast"), "wb") as ballast:
            ballast.write(b"x" * (room.f_bavail * room.f_frsize - 8192))
        watch = self.watch(server.pid, "--when", "every=1s")
        self.wait_for_message("no capture for every=1s", watch)
        self.assertEqual(os.listdir(self.keep).count(first[0]), 1)
        os.unlink(os.path.join(disk, "ballast"))
        self.wait_for_captures(2, watch)
        self.assertEqual([name for name in os.listdir(self.keep) if ".heap." in name], [])

    def test_a_folder_that_was_removed_or_replaced_is_bounded_as_before(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "signal", "--keep-count", "2")
        self.wait_for_message("watching", watch)
        number = 0
        for replace in (False, True):
            for _ in range(3):
                number += 1
                self.capture_now(watch, number)
            self.assertLessEqual(len(self.captures()), 3)  # the last one and the two before it
            os.rename(self.keep, os.path.join(self.folder, f"away{replace}"))
            if replace:
                os.mkdir(self.keep)
        for _ in range(3):
            number += 1
            self.capture_now(watch, number)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(len(self.captures()), 2)

    def test_what_was_never_finished_is_removed(self):
        server, _ = self.redis_with_agent()
        os.mkdir(self.keep, 0o700)
        unfinished = pathlib.Path(self.keep, "00000007-20260101T000000Z-rss1MiB-x.1.heap.0123456789abcdef")
        unfinished.write_text("half")
        foreign = pathlib.Path(self.keep, "notes.heap.0123456789abcdef")
        foreign.write_text("mine")
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "1")
        self.assertEqual(watch.wait(60), 0)
        self.assertFalse(unfinished.exists())
        self.assertTrue(foreign.exists())

    def test_one_at_a_time(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "signal")
        self.wait_for_message("watching", watch)
        _, said = self.heapctl("watch", server.pid, "--when", "peak", "--keep", self.keep, code=1)
        self.assertIn("in use by another heapctl watch", said)


class Commands(WatchCase):
    def test_the_command_gets_the_file_without_a_shell(self):
        self.keep = os.path.join(self.folder, "a b;touch pwned")
        reported = os.path.join(self.folder, "reported")
        script = pathlib.Path(self.folder, "tell.py")
        script.write_text("import json, os, sys\n"
                          f"json.dump([sys.argv[1:], dict(os.environ)], open({reported!r}, 'w'))\n")
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "1", "--then",
                           f"python3 -E {script} 'two words' $HOME", env={"SECRET": "1", "LD_LIBRARY_PATH": "/nowhere"})
        self.assertEqual(watch.wait(60), 0)
        words, environment = json.loads(pathlib.Path(reported).read_text())
        path = os.path.join(self.keep, self.captures()[0])
        self.assertEqual(words, ["two words", "$HOME", path])
        self.assertEqual(environment["HEAPCTL_FILE"], path)
        self.assertEqual(environment["HEAPCTL_REASON"], "every=1s")
        self.assertEqual(environment["HEAPCTL_TARGET"], f"redis-server[{server.pid}]")
        self.assertNotIn("SECRET", environment)
        self.assertNotIn("LD_LIBRARY_PATH", environment)

    def test_what_the_command_prints_is_not_mixed_with_the_paths(self):
        server, _ = self.redis_with_agent()
        printed = pathlib.Path(self.folder, "printed")
        with printed.open("wb") as out:
            watch = self.watch(server.pid, "--when", "every=1s", "--count", "1", "--then", "echo shouts", stdout=out)
        self.assertEqual(watch.wait(60), 0)
        path = os.path.join(self.keep, self.captures()[0])
        self.assertEqual(printed.read_text(), path + "\n")
        self.assertIn(f"shouts {path}", pathlib.Path(self.messages).read_text())

    def test_a_command_that_fails_is_reported_and_the_watch_continues(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "2", "--then", "false")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(pathlib.Path(self.messages).read_text().count("the command false ended with 1"), 2)

    def test_the_command_gets_no_descriptor_of_ours(self):
        reported = pathlib.Path(self.folder, "reported")
        script = pathlib.Path(self.folder, "tell.py")
        script.write_text(f"import os\nfound = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{{n}}')]\nopen({str(reported)!r}, 'w').write(str(found))\n")
        server, _ = self.redis_with_agent()
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "1", "--then", f"python3 {script}", pass_fds=(reader, writer))
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(reported.read_text(), "[]")

    def test_a_parent_that_ignores_its_children_does_not_stop_the_commands(self):
        reported = pathlib.Path(self.folder, "reported")
        script = pathlib.Path(self.folder, "tell.py")
        script.write_text(f"import sys\nopen({str(reported)!r}, 'a').write(sys.argv[1] + '\\n')\n")
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "2", "--then", f"python3 {script}",
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(reported.read_text().split(), [os.path.join(self.keep, name) for name in self.captures()])

    def test_a_command_that_hangs_does_not_stop_the_captures(self):
        server, _ = self.redis_with_agent()
        pid_file = pathlib.Path(self.folder, "pid")
        script = pathlib.Path(self.folder, "hang.py")
        script.write_text(f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
        watch = self.watch(server.pid, "--when", "every=1s", "--then", f"python3 {script}")
        self.wait_for_captures(3, watch)
        self.end_pid_later(int(pid_file.read_text()))
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)


class Adopting(WatchCase):
    def test_what_jemalloc_writes_is_moved_and_bounded(self):
        prefix = os.path.join(self.folder, "je/own")
        os.mkdir(os.path.dirname(prefix))
        other = pathlib.Path(self.folder, "je/own.notes.heap")
        other.write_text("mine")
        empty = pathlib.Path(self.folder, "je/own.1.1.i1.heap")
        empty.write_text("no profile at all")
        server, port = self.redis_with_agent(f"{FINE},lg_prof_interval:23,prof_prefix:{prefix}")
        self.load_redis(port, keys=60000, size=1000)
        written = len(list(pathlib.Path(self.folder, "je").glob(f"own.{server.pid}.*.heap")))
        self.assertGreater(written, 3)
        watch = self.watch(server.pid, "--adopt", prefix, "--keep-count", "3")
        wait_until(lambda: sorted(os.listdir(os.path.dirname(prefix))) == [empty.name, other.name], "the files to be taken")
        self.wait_for_captures(3, watch)
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(len(self.captures()), 3)
        last = self.catalogue()[-1]
        self.assertEqual(last["reason"], "jemalloc's interval")
        self.assertRegex(last["file"], rf"-i\d+-own\.{server.pid}\.heap$")
        self.assertIn("is not a profile of jemalloc; it is left as it is", pathlib.Path(self.messages).read_text())
        self.heapctl("report", "--text", os.path.join(self.keep, last["file"]))

    def test_what_would_be_removed_at_once_is_not_taken_first(self):
        """prof_gdump writes thousands of files in a second; the conditions are checked meanwhile."""
        prefix = os.path.join(self.folder, "je/own")
        os.mkdir(os.path.dirname(prefix))
        for sequence in range(2000):
            pathlib.Path(f"{prefix}.4711.{sequence}.u{sequence}.heap").write_text("heap_v2/524288\n  t*: 0: 0 [0: 0]\n")
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--adopt", prefix, "--keep-count", "5")
        wait_until(lambda: not os.listdir(os.path.dirname(prefix)), "the files to be taken")
        self.wait_for_captures(5, watch)
        self.wait_for_message(f"removed 1995 of jemalloc's files at {prefix}: keep-count is 5", watch)
        self.assertEqual([name[:8] for name in self.captures()], [f"{number:08}" for number in range(1, 6)])
        # A capture is listed after its file is in the folder.
        wait_until(lambda: len(self.catalogue()) == 5, "five captures to be listed")
        self.assertEqual([entry["original"].split(".")[-3] for entry in self.catalogue()], ["1995", "1996", "1997", "1998", "1999"])

    def test_a_folder_of_jemallocs_that_is_not_there_is_reported_once(self):
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--when", "every=1s", "--count", "2", "--adopt", "/nowhere/own")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual(pathlib.Path(self.messages).read_text().count("/nowhere/: No such file or directory"), 1)

    def test_files_for_which_there_is_no_room_are_reported_together(self):
        prefix = os.path.join(self.folder, "je/own")
        os.mkdir(os.path.dirname(prefix))
        if subprocess.run(["mount", "-t", "tmpfs", "none", os.path.dirname(prefix)], check=False, capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", os.path.dirname(prefix)], check=True)
        for sequence in range(10):
            pathlib.Path(f"{prefix}.4711.{sequence}.u{sequence}.heap").write_text("heap_v2/524288\n")
        pathlib.Path(f"{prefix}.4711.10.f.heap").write_text("the newest, and so the last\n")
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--adopt", prefix, "--keep-free", 1 << 60)
        self.wait_for_message("is not a profile of jemalloc", watch)
        # The first is said when the watch begins.
        self.assertEqual(pathlib.Path(self.messages).read_text().count("would stay free on its disk"), 2)
        self.assertEqual(len(os.listdir(os.path.dirname(prefix))), 11)

    def test_files_of_one_moment_are_taken_in_their_order(self):
        prefix = os.path.join(self.folder, "own")
        for sequence in reversed(range(95, 105)):
            path = pathlib.Path(f"{prefix}.4711.{sequence}.u{sequence}.heap")
            path.write_text("heap_v2/524288\n  t*: 0: 0 [0: 0]\n")
            os.utime(path, (1000000000, 1000000000))
        server, _ = self.redis_with_agent()
        watch = self.watch(server.pid, "--adopt", prefix, "--count", "10")
        self.assertEqual(watch.wait(60), 0)
        self.assertEqual([name.split("-")[2] for name in self.captures()], [f"u{sequence}" for sequence in range(95, 105)])
        self.assertEqual(self.catalogue()[0]["original"], f"{prefix}.4711.95.u95.heap")
        self.assertIn("jemalloc's new peak of mapped memory: a profile of ", pathlib.Path(self.messages).read_text())


class Usage(WatchCase):
    def test_what_cannot_work_is_refused_at_once(self):
        for arguments, why in (
                ((), "no condition given"),
                (("--when", "rss>lots"), "'lots' is not an amount of memory"),
                (("--when", "rss > 2GiB"), "'rss > 2GiB' is not a condition; rss>2GiB, cgroup>85%,"),
                (("--when", "peak", "--then", "'x"), "a closing quote is missing"),
                (("--when", "peak", "--interval", "1ms"), "at least 50ms")):
            _, said = self.heapctl("watch", os.getpid(), *arguments, code=2)
            self.assertIn(why, said)

    def test_a_target_that_cannot_be_profiled_is_refused(self):
        server, _ = self.redis_with_agent("prof:false", env={"HEAPCTL_SAMPLER": "no"})
        _, said = self.heapctl("watch", server.pid, "--when", "peak", "--keep", self.keep, code=1)
        self.assertIn("cannot be profiled", said)
        self.assertFalse(os.path.exists(self.keep))


if __name__ == "__main__":
    unittest.main()
