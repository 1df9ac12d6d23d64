# SPDX-License-Identifier: Apache-2.0
"""TARGET:*, the processes of a server that forks: dump, record and report of all of them."""
import glob
import gzip
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import unittest

from processes import AGENT, HEAPCTL, SANITIZED, Case, children_of, free_port, need, open_descriptors, own_name, wait_until
from sampled_servers import PostgreSQL

SAMPLED = {"LD_PRELOAD": AGENT, "HEAPCTL_SAMPLE": "4096", "HEAPCTL_CHILDREN": "thread"}
# On SIGUSR1 each keeps 5 MB, in blocks so large that each is sampled; on SIGUSR2 one more worker is forked.
WORKERS = ("$SIG{USR1} = sub { push @a, map { 'y' x (100000 + $_) } 1..50 }; $SIG{USR2} = sub { fork or $0 = 'workers: late' };"
           "for (1..2) { unless (fork) { $0 = 'workers: one'; last } } $0 = 'workers: first' if $0 =~ m{/}; sleep 1 while 1")
KEPT_BYTES = 50 * 100000


class TreeCase(Case):
    def start_tree(self, script, env):
        """A program of that name, and two children."""
        program = os.path.join(self.folder, own_name("prefork"))
        shutil.copy(need("perl"), program)
        self.parent = self.start(program, "-e", script, env=env)
        wait_until(lambda: len(children_of(self.parent.pid)) == 2, "two children")
        self.pids = [self.parent.pid, *children_of(self.parent.pid)]
        for pid in self.pids:
            self.end_pid_later(pid)
            wait_until(lambda pid=pid: b": " in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(), "its title")
        self.tree = f"{self.parent.pid}:*"

    def is_on(self, pid):
        """A run is stored before sampling is switched on."""
        runs = json.loads(self.heapctl("runs", pid, "--json")[0])["runs"]
        return any(run["state"] == "running" for run in runs) and json.loads(self.heapctl("status", pid, "--json")[0])["profiling"]["active"]

    def total(self, *operands):
        return json.loads(self.heapctl("report", "--json", *operands)[0])["total"]


class Reports(TreeCase):
    PREFORK = "@a = map { 'x' x (100000 + $_) } 1..50; for (1..2) { fork or last } $0 = 'prefork: worker'; sleep 1000"

    def setUp(self):
        super().setUp()
        self.start_tree(self.PREFORK, dict(SAMPLED, HEAPCTL_ACTIVATE="1"))
        for pid in self.pids:
            self.wait_for_agent(pid)

    def test_a_report_adds_the_processes_and_their_variances(self):
        alone = [self.total(str(pid)) for pid in self.pids]
        whole = self.total(self.tree)
        self.assertAlmostEqual(whole["value"], sum(total["value"] for total in alone), delta=1)
        self.assertAlmostEqual(whole["standard_error"] ** 2, sum(total["standard_error"] ** 2 for total in alone), delta=1)
        self.assertEqual(whole["samples"], sum(total["samples"] for total in alone))

    def test_outputs_name_the_processes(self):
        names = [f"prefork: worker[{pid}]" for pid in sorted(self.pids)]
        said = "3 processes added up: " + ", ".join(names)
        self.assertTrue(json.loads(self.heapctl("report", "--json", self.tree)[0])["source"].startswith(said))
        path = os.path.join(self.folder, "sum.pb.gz")
        self.heapctl("report", "--pprof", "-o", path, self.tree)
        self.assertIn(said.encode(), gzip.decompress(pathlib.Path(path).read_bytes()))

    def test_a_dump_writes_a_file_for_each(self):
        _, said = self.heapctl("dump", self.tree, cwd=self.folder)
        saved = [name for name in os.listdir(self.folder) if name.endswith(".heap")]
        self.assertEqual(len(saved), 3, said)

    def test_a_dump_into_one_file_is_the_sum(self):
        path = os.path.join(self.folder, "sum.heap")
        _, said = self.heapctl("dump", self.tree, "-o", path)
        self.assertIn("3 processes added up", said)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        whole, saved = self.total(self.tree), self.total(path)
        # A file has whole bytes for each stack.
        self.assertAlmostEqual(saved["value"], whole["value"], delta=whole["value"] / 1e5)
        _, said = self.heapctl("dump", self.tree, "--bundle", "-o", path, code=2)
        self.assertIn("a bundle is of one process", said)

    def test_a_process_without_agent_is_named_and_left_out(self):
        name = own_name("mixed")
        self.start_named_redis(name)
        bare = self.start(os.path.join(self.folder, name), "--bind", "127.0.0.1", "--port", free_port(), "--save", "", "--dir", self.folder)
        wait_until(lambda: pathlib.Path(f"/proc/{bare.pid}/comm").read_text().startswith(name[:8]), "its name")
        out, said = self.heapctl("report", "--json", f"{name}:*")
        self.assertIn("1 process added up", json.loads(out)["source"])
        self.assertRegex(said, rf"left out: \S*\[{bare.pid}\] has no agent")
        _, said = self.heapctl("report", "--json", f"{bare.pid}:*", code=1)
        self.assertIn("has no agent", said)

    def test_a_process_that_does_not_answer_is_named_and_left_out(self):
        stopped = self.pids[1]
        os.kill(stopped, signal.SIGSTOP)
        self.addCleanup(os.kill, stopped, signal.SIGCONT)
        out, said = self.heapctl("report", "--json", self.tree)
        self.assertIn("2 processes added up", json.loads(out)["source"])
        self.assertRegex(said, rf"left out: .*\[{stopped}\] is stopped")

    def test_different_intervals_and_samplers_are_said(self):
        name = own_name("mixed")
        jemalloc, _ = self.start_named_redis(name, conf="prof:true,prof_active:true,lg_prof_sample:16")
        self.wait_for_agent(jemalloc.pid)
        program = os.path.join(self.folder, "perl", name)
        os.mkdir(os.path.dirname(program))
        shutil.copy(need("perl"), program)
        other = self.start(program, "-e", "@a = map { 'x' x (100000 + $_) } 1..50; sleep 1000", env=dict(SAMPLED, HEAPCTL_ACTIVATE="1"))
        self.wait_for_agent(other.pid)
        out, said = self.heapctl("report", "--json", f"{name}:*")
        self.assertRegex(said, r"was sampled by (jemalloc|heapctl), .* by (jemalloc|heapctl): each counts the calls that it sees")
        self.assertIn("one sample per 4 KiB to one per 64 KiB: each is scaled up by its own interval", said)
        self.assertIn("a sample every 4 KiB to 64 KiB", json.loads(out)["source"])

    def test_verbs_of_one_process_refuse_it(self):
        _, said = self.heapctl("status", self.tree, code=2)
        self.assertIn("means several processes (report, dump, record and top take it", said)
        self.heapctl("report", own_name("nothing") + ":*", code=1)

    def test_ps_tells_them_apart(self):
        entries = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        for pid in self.pids[1:]:
            self.assertEqual(entries[pid]["parent"], self.parent.pid)
            self.assertEqual(entries[pid]["command"], "prefork: worker")
            self.assertEqual(entries[pid]["user"], pwd.getpwuid(os.geteuid()).pw_name)
        out = self.heapctl("ps")[0]
        self.assertEqual(out.split()[:4], ["PID", "NAME", "USER", "PARENT"])
        self.assertIn("TITLE", out.splitlines()[0])


class Recordings(TreeCase):
    def start_workers(self, **env):
        self.start_tree(WORKERS, dict(SAMPLED, **env))
        for pid in self.pids:
            self.wait_for_agent(pid)

    def record(self, duration, *arguments):
        """A recording of all that has begun in all; a short one may have ended before that is seen."""
        client = self.start(HEAPCTL, "record", self.tree, "--duration", duration, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, cwd=self.folder)
        for pid in self.pids:
            wait_until(lambda pid=pid: client.poll() is not None or self.is_on(pid), "its run")
        return client

    def finish(self, client, code=0):
        _, said = client.communicate(timeout=120)
        self.assertEqual(client.returncode, code, said)
        return said

    def saved(self):
        return {int(name.split(".")[-3]): os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.endswith(".heap")}

    def test_each_process_has_a_profile_of_what_it_kept_meanwhile(self):
        self.start_workers()
        client = self.record("4s")
        for pid in self.pids:
            os.kill(pid, signal.SIGUSR1)
        said = self.finish(client)
        self.assertIn("3 processes recorded; heapctl report FILE... adds the profiles up", said)
        saved = self.saved()
        self.assertEqual(sorted(saved), sorted(self.pids))
        for path in saved.values():
            self.assertAlmostEqual(self.total(path)["value"], KEPT_BYTES, delta=KEPT_BYTES / 4)
        self.assertAlmostEqual(self.total(*saved.values())["value"], sum(self.total(path)["value"] for path in saved.values()), delta=1)

    def test_one_file_is_the_sum_and_one_is_of_the_start(self):
        self.start_workers(HEAPCTL_ACTIVATE="1")
        for pid in self.pids:
            os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: self.total(self.tree)["value"] > 2.9 * KEPT_BYTES, "what they keep")
        path = os.path.join(self.folder, "sum.heap")
        said = self.finish(self.record("1s", "-o", path))
        self.assertIn("sum.heap: ", said)
        self.assertIn("3 processes added up", said)
        self.assertIn("sampling was on before in 3 of them", said)
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("sum.")), ["sum.heap", "sum.heap.before"])
        whole = self.total(self.tree)["value"]
        self.assertAlmostEqual(self.total(path)["value"], whole, delta=whole / 100)
        self.assertAlmostEqual(self.total(path + ".before")["value"], whole, delta=whole / 100)
        out, _ = self.heapctl("record", self.tree, "--duration", "1s", "-o", "-", cwd=self.folder)
        self.assertIn("--- heap", out)
        left = [name for name in os.listdir(self.folder) if name.endswith((".heap", ".before"))]
        self.assertEqual(sorted(left), ["sum.heap", "sum.heap.before"])

    def test_a_sum_into_a_pipe_has_no_file_beside(self):
        self.start_workers(HEAPCTL_ACTIVATE="1")
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        reader = self.start("cat", pipe, stdout=subprocess.PIPE)
        said = self.finish(self.record("1s", "-o", pipe))
        self.assertIn(b"--- heap", reader.communicate(timeout=60)[0])
        self.assertIn("no sum of the starts is saved beside a pipe", said)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("pipe.") or name.endswith((".heap", ".before"))], [])

    def test_processes_that_begin_and_end_meanwhile(self):
        self.start_workers()
        client = self.record("7s")
        os.kill(self.parent.pid, signal.SIGUSR2)
        wait_until(lambda: len(children_of(self.parent.pid)) == 3, "a worker more")
        late, = set(children_of(self.parent.pid)) - set(self.pids)
        self.end_pid_later(late)
        gone = self.pids[1]
        os.kill(gone, signal.SIGKILL)
        wait_until(lambda: self.is_on(late), "its run")
        os.kill(late, signal.SIGUSR1)
        said = self.finish(client)
        saved = self.saved()
        self.assertEqual(sorted(saved), sorted({late, *self.pids} - {gone}))
        self.assertRegex(said, rf"left out: .*\[{gone}\], which ended before its profile was taken")
        self.assertGreater(self.total(saved[late])["value"], KEPT_BYTES / 2)

    def test_an_interrupt_saves_all_profiles(self):
        self.start_workers()
        client = self.record("5mins")
        for pid in self.pids:
            os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: self.total(self.tree)["value"] > 2.9 * KEPT_BYTES, "what they keep")
        client.send_signal(signal.SIGINT)
        said = self.finish(client)
        self.assertIn("interrupted: ending the runs now and saving their profiles", said)
        self.assertEqual(sorted(self.saved()), sorted(self.pids))
        self.assertFalse(any(map(self.is_on, self.pids)))

    def test_a_process_that_cannot_be_recorded_is_left_out(self):
        self.start_workers()
        stopped, busy = self.pids[1:]
        os.kill(stopped, signal.SIGSTOP)
        self.heapctl("start", busy, "--duration", "5mins")
        _, said = self.heapctl("record", self.tree, "--duration", "1s", cwd=self.folder)
        self.assertRegex(said, rf"left out: .*\[{stopped}\] is stopped")
        self.assertRegex(said, rf"left out: .*\[{busy}\]: run \d+ is on already, with .* left")
        self.assertEqual(list(self.saved()), [self.parent.pid])
        self.assertIn("1 process recorded", said)
        os.kill(stopped, signal.SIGCONT)

    def test_another_interval_is_asked_about_once(self):
        self.start_workers(HEAPCTL_ACTIVATE="1")
        os.kill(self.parent.pid, signal.SIGUSR1)
        wait_until(lambda: self.total(self.tree)["value"] > KEPT_BYTES / 2, "what it keeps")
        _, said = self.heapctl("record", self.tree, "--duration", "1s", "--sample", "64KiB", cwd=self.folder, code=1)
        self.assertRegex(said, rf"{re.escape(self.tree)} has \d+ samples, which --sample would discard")
        self.assertFalse(self.saved())
        self.heapctl("record", self.tree, "--duration", "1s", "--sample", "64KiB", "--discard", cwd=self.folder)
        self.assertEqual(sorted(self.saved()), sorted(self.pids))

    def test_an_early_interrupt_leaves_no_file(self):
        """While it reads /proc, the file is open already, under its temporary name or, where the file system permits that, under none ("#7 (deleted)")."""
        self.start_workers()
        # The leak checker cannot work in a process that is traced.
        client = self.start(need("strace"), "-f", "-o", "/dev/null", "-e", "trace=getdents64", "--inject=getdents64:delay_enter=300000", HEAPCTL, "record", self.tree,
                            "--duration", "1h", "-o", os.path.join(self.folder, "early.heap"), env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), stderr=subprocess.DEVNULL)
        in_the_making = tuple(os.path.join(self.folder, name) for name in ("early.heap", "#"))
        wait_until(lambda: any(path.startswith(in_the_making) for child in children_of(client.pid) for path in open_descriptors(f"/proc/{child}").values()), "the file")
        os.kill(children_of(client.pid)[0], signal.SIGINT)
        client.wait(60)
        self.assertLessEqual(set(glob.glob(os.path.join(self.folder, "early.heap*"))), {os.path.join(self.folder, "early.heap")})

    def test_options_of_one_process_are_refused(self):
        self.start_workers()
        _, said = self.heapctl("record", self.tree, "--start-profile", "x", code=2)
        self.assertIn("--start-profile does not go with several processes", said)
        self.heapctl("record", own_name("nothing") + ":*", code=1)

    @unittest.skipIf(SANITIZED, "attaching under sanitizers is what test_attach tries")
    def test_processes_without_an_agent_are_attached_to(self):
        self.start_tree(WORKERS, {})
        _, said = self.heapctl("record", self.tree, "--duration", "1s", code=1)
        self.assertIn("has no agent", said)
        _, said = self.heapctl("record", self.tree, "--attach", "--duration", "1s", cwd=self.folder)
        self.assertEqual(sorted(self.saved()), sorted(self.pids))
        for word in ("attached", "detached"):
            self.assertEqual(len(re.findall(rf"\]: {word}", said)), 3, said)


class Servers(TreeCase):
    """A real one, which runs as another user."""

    def test_postgresql(self):
        if not PostgreSQL.is_installed():
            self.skipTest("postgres is not installed")
        server = PostgreSQL(self.folder)
        server.prepare()
        self.environment["HEAPCTL_DIR"] = server.folder_of_agents()
        server.start(**SAMPLED, HEAPCTL_DIR=server.folder_of_agents())
        self.addCleanup(server.end)
        self.addCleanup(server.stop)
        path = os.path.join(self.folder, "sum.heap")
        client = self.start(HEAPCTL, "record", f"{server.process.pid}:*", "--duration", "5mins", "-o", path, stderr=subprocess.PIPE, text=True)
        # A session that begins after the recording, and keeps what it prepares.
        before = set(server.pids())
        session = self.start(server.program("psql"), *server.where(), "-q", stdin=subprocess.PIPE, text=True)
        # The server may start a worker of its own at any time.
        own = wait_until(lambda: next((pid for pid in set(server.pids()) - before if b"[local]" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()), None),
                         "the session")
        wait_until(lambda: self.is_on(own), "its run")
        session.stdin.write("".join(f"prepare p{i} as select {i}, g from generate_series(1, 10) g where g < {i};\n" for i in range(200)))
        session.stdin.flush()
        report = lambda: self.heapctl("report", "--text", "--cum", own)
        wait_until(lambda: "PrepareQuery" in report()[0], lambda: f"what it keeps: {report()}")
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=120)
        self.assertEqual(client.returncode, 0, said)
        self.assertIn(f"{len(server.pids())} processes added up", said)
        self.assertIn("PrepareQuery", self.heapctl("report", "--text", "--cum", path)[0])
        entries = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
        titles = [entries[pid]["command"].strip() for pid in server.pids()[1:]]
        self.assertIn("postgres: checkpointer", titles)
        self.assertIn("postgres: user postgres [local] idle", titles)
        for pid in server.pids()[1:]:
            self.assertEqual(entries[pid]["parent"], server.process.pid)
            self.assertEqual(entries[pid]["user"], pwd.getpwuid(os.stat(server.data).st_uid).pw_name)


if __name__ == "__main__":
    unittest.main()
