#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl attach and detach on real servers under load: how often it works, how long a thread is stopped, and what it costs.

BENCH_CYCLES (30) cycles on each target; BENCH_ONLY=redis,java only those; BENCH_ROUNDS (5) pairs for the cost. With BENCH_RESULTS=FILE
a line of JSON for each target is appended, as scripts/test-results reads it. Fails when a target dies, hangs or answers otherwise."""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/support"))
from sampled_servers import SERVERS, HttpServer, Server, find, stat_fields

BUILD = pathlib.Path(sys.argv[1]).resolve()
HEAPCTL = BUILD / "heapctl"
CYCLES = int(os.environ.get("BENCH_CYCLES", "30"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
ONLY = [name for name in os.environ.get("BENCH_ONLY", "").split(",") if name]
COMMAND_SECONDS = 60  # then it hangs
GDB_STOPS, GDB_SECONDS = 3, 20
SAMPLE_EVERY = 10  # in each tenth cycle the first sample is waited for

PYTHON = """
import hashlib, threading, time
def work():
    while True:
        parts = [bytes([i % 251]) * (i % 700) for i in range(500)]
        if hashlib.sha1(b"".join(parts)).hexdigest() != DIGEST:
            print("changed", flush=True)
        time.sleep(0.001)
parts = [bytes([i % 251]) * (i % 700) for i in range(500)]
DIGEST = hashlib.sha1(b"".join(parts)).hexdigest()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
input()
print("ok", flush=True)
"""
NODE = """
const crypto = require('crypto'), zlib = require('zlib');
const text = Buffer.alloc(50000, 'heap of words ');
const digest = crypto.createHash('sha1').update(text).digest('hex');
setInterval(() => {
  zlib.gunzip(zlib.gzipSync(text), (problem, out) => {
    if (problem || crypto.createHash('sha1').update(out).digest('hex') !== digest) console.log('changed');
  });
}, 1);
console.log('ready');
process.stdin.on('data', () => { console.log('ok'); process.exit(0); });
"""
JAVA = """
import java.util.Arrays;
public class Load {
  public static void main(String[] words) throws Exception {
    for (int i = 0; i < 4; i++) {
      Thread thread = new Thread(() -> {
        try {
          for (;;) {
            byte[] text = new byte[50000];
            for (int j = 0; j < text.length; j++) text[j] = (byte) (j * 31);
            java.util.zip.Deflater deflater = new java.util.zip.Deflater();
            deflater.setInput(text); deflater.finish();
            byte[] small = new byte[60000]; int size = deflater.deflate(small); deflater.end();
            java.util.zip.Inflater inflater = new java.util.zip.Inflater();
            inflater.setInput(small, 0, size);
            byte[] again = new byte[50000]; inflater.inflate(again); inflater.end();
            if (!Arrays.equals(text, again)) System.out.println("changed");
            Thread.sleep(1);
          }
        } catch (Exception problem) { System.out.println("changed: " + problem); }
      });
      thread.setDaemon(true); thread.start();
    }
    System.out.println("ready");
    System.in.read();
    System.out.println("ok");
    System.exit(0);
  }
}
"""
BASH = """
text=$(printf 'word %.0s' {1..200})
echo ready
while ! read -t 0.001 -r line; do
    parts=($text); joined="${parts[*]}"
    [ "$joined " = "$text" ] || [ "$joined" = "$text" ] || echo changed
    copy=$(echo "$joined" | tr a-z A-Z)
    [ ${#copy} = ${#joined} ] || echo changed
done
echo ok
"""


class SelfChecking:
    """A program that prints "ready", "changed..." when something is wrong, and "ok" for a line of input."""

    def __init__(self, folder, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{command[0]} did not start")
        self.pid = self.process.pid

    def is_alive(self):
        return self.process.poll() is None

    def settle(self):
        """What is wrong with the clients, which end."""

    def pid_for_gdb(self):
        return self.pid

    def finish(self):
        """What is wrong; None when nothing is."""
        if not self.is_alive():
            return f"it has ended ({self.process.returncode})"
        out, _ = self.process.communicate("\n", timeout=COMMAND_SECONDS)
        return None if re.fullmatch(r"ok( \d+)?\n", out) else f"it printed {out[:200]!r}"

    def end(self):
        if self.is_alive():
            self.process.kill()
            self.process.wait()


class Served:
    """A server with clients that load it all the time; their answers must be the same as before."""

    def __init__(self, folder, kind, rounds=0, process=lambda server: server.process.pid):
        self.server = kind(folder)
        self.server.prepare()
        self.server.start()
        self.load = rounds
        self.wanted = self.server.load(max(rounds, 20))
        self.other = None
        self.ending = threading.Event()
        self.clients = threading.Thread(target=self.run, daemon=True)
        self.clients.start()
        self.pid = process(self.server)

    def run(self):
        while self.load and not self.ending.is_set():
            try:
                got = self.server.load(self.load)
            except (subprocess.SubprocessError, OSError) as problem:
                got = str(problem)
            if got != self.wanted:
                self.other = got
                return

    def pid_for_gdb(self):
        return self.pid

    def is_alive(self):
        return os.path.exists(f"/proc/{self.pid}")

    def settle(self):
        self.ending.set()
        self.clients.join()
        if not self.is_alive():
            return "it has ended"
        if self.other is None:
            self.load = self.load or 20
            got = self.server.load(self.load)
            self.other = None if got == self.wanted else got
        return None if self.other is None else f"its clients got {str(self.other)[:200]!r}"

    def finish(self):
        return None if self.is_alive() else "it has ended"

    def end(self):
        self.ending.set()
        self.clients.join()
        if self.server.process.poll() is None:
            # Killed at once it would leave its workers behind.
            self.server.stop()


class Query(Served):
    """A backend of PostgreSQL that runs one long query after another."""

    def __init__(self, folder):
        super().__init__(folder, SERVERS["PostgreSQL"])
        server = self.server
        self.client = subprocess.Popen([server.program("psql"), "-At", *server.where()], env=server.without, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.client.stdin.write("select pg_backend_pid();\n")
        self.client.stdin.flush()
        self.pid = int(self.client.stdout.readline())
        self.answers, self.asked = collections.Counter(), True
        self.asking = threading.Thread(target=self.ask, daemon=True)
        self.asking.start()

    def ask(self):
        while self.asked:
            try:
                self.client.stdin.write("select md5(string_agg(t, ',' order by t)) from (select md5(g::text) t from generate_series(1, 20000) g) s;\n")
                self.client.stdin.flush()
                self.answers[self.client.stdout.readline()] += 1
            except OSError:
                return

    def settle(self):
        self.asked = False
        self.asking.join()
        if not self.is_alive():
            return "it has ended"
        return None if len(self.answers) == 1 and self.answers.total() > 1 else f"the queries gave {dict(self.answers)}"

    def end(self):
        self.asked = False
        self.client.kill()
        self.client.wait()
        super().end()


class HAProxy(HttpServer):
    programs = (("haproxy",),)

    def prepare(self):
        pathlib.Path(self.folder, "haproxy.cfg").write_text(
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
            f"frontend f\n bind 127.0.0.1:{self.port}\n http-request return status 200 content-type text/plain string hello\n")

    def command(self):
        return [find("haproxy"), "-db", "-f", os.path.join(self.folder, "haproxy.cfg")]


class KnotResolver(Server):
    programs = (("kresd",),)

    def prepare(self):
        pathlib.Path(self.folder, "kresd.conf").write_text(
            f"net.listen('127.0.0.1', {self.port}, {{ kind = 'dns' }})\ncache.size = 10 * MB\n"
            "policy.add(policy.all(policy.ANSWER({ [kres.type.A] = { rdata = kres.str2ip('192.0.2.7') } })))\n")

    def command(self):
        return [find("kresd"), "-n", "-c", os.path.join(self.folder, "kresd.conf"), self.folder]

    def ask(self, name):
        query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"".join(
            bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\x00\x00\x01\x00\x01"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(5)
            client.sendto(query, ("127.0.0.1", self.port))
            return client.recv(512)

    def answers(self):
        try:
            return b"\xc0\x00\x02\x07" in self.ask("www.example.test")
        except OSError:
            return False

    def load(self, rounds):
        return {self.ask(f"host{number % 50}.example.test")[-4:] for number in range(rounds)}


def children(server):
    return next(pid for pid in server.pids() if pid != server.process.pid)


def write(folder, name, text):
    path = os.path.join(folder, name)
    pathlib.Path(path).write_text(text)
    return path


class Storm(SelfChecking):
    """This program fails when calls end with EINTR, which gdb's stop causes: gdb gets another program."""

    def __init__(self, folder, threads, name, *words):
        command = BUILD / "tests/integration" / name
        super().__init__(folder, command, threads, *words)
        self.other = None
        self.words = folder, command, threads, "interrupted"

    def pid_for_gdb(self):
        self.other = SelfChecking(*self.words)
        return self.other.pid

    def end(self):
        super().end()
        if self.other is not None:
            self.other.end()


def storm(threads, name="attached", *words):
    return lambda folder: Storm(folder, threads, name, *words)


def methods_of(name):
    """--method, where a target's name ends with one."""
    return ["--method", name.rpartition(" ")[2]] if name.endswith((" got", " entry")) else []


# Those that are checked for by `programs` are left out where they are not installed.
TARGETS = {
    "redis idle": (lambda folder: Served(folder, SERVERS["Redis"]), SERVERS["Redis"].programs),
    "redis loaded": (lambda folder: Served(folder, SERVERS["Redis"], 1500), SERVERS["Redis"].programs),
    "postmaster": (lambda folder: Served(folder, SERVERS["PostgreSQL"], 200), SERVERS["PostgreSQL"].programs),
    "postgres query": (Query, SERVERS["PostgreSQL"].programs),
    "mariadb": (lambda folder: Served(folder, SERVERS["MariaDB"], 200), SERVERS["MariaDB"].programs),
    "nginx worker": (lambda folder: Served(folder, SERVERS["nginx"], 1000, children), SERVERS["nginx"].programs),
    "haproxy": (lambda folder: Served(folder, HAProxy, 500), (*HAProxy.programs, ("ab",))),
    "knot-resolver": (lambda folder: Served(folder, KnotResolver, 300), KnotResolver.programs),
    "python3": (lambda folder: SelfChecking(folder, os.path.realpath(sys.executable), write(folder, "load.py", PYTHON)), ()),
    "node": (lambda folder: SelfChecking(folder, find("node"), write(folder, "load.js", NODE)), (("node",),)),
    "java": (lambda folder: SelfChecking(folder, find("java"), write(folder, "Load.java", JAVA)), (("java",), ("javac",))),
    "bash": (lambda folder: SelfChecking(folder, find("bash"), write(folder, "load.sh", BASH)), (("bash",),)),
    "malloc storm, 1": (storm(1), ()),
    "malloc storm, 8": (storm(8), ()),
    "malloc storm, 64": (storm(64), ()),
}
# While functions are patched SIGCHLD may end epoll_wait() with EINTR: docs/attach.md.
MUSL = {f"musl storm, {threads} {method}": (storm(threads, "attached_musl", *words), ())
        for threads in (1, 8) for method, words in (("got", ()), ("entry", ("interrupted",)))}
MUSL |= {f"musl forks {method}": (lambda folder: SelfChecking(folder, BUILD / "tests/integration/storms_musl", "flush"), ())
         for method in ("got", "entry")}
# Those with musl are there if it is.
STATIC = {f"{kind} storm, {threads}": (storm(threads, f"attached_{kind}", "interrupted"), ())
          for kind in ("static", "static_pie", "musl_static", "musl_static_pie") for threads in ((1, 8) if not kind.endswith("pie") else (1,))}
if (BUILD / "tests/integration/attached_musl").exists():
    TARGETS |= MUSL | STATIC


def heapctl(folder, *words):
    """(exit code, output, seconds); exit code None when it hangs."""
    environment = dict(os.environ)
    environment.pop("HEAPCTL_DIR", None)
    environment["HEAPCTL_DIR"] = folder
    began = time.monotonic()
    try:
        done = subprocess.run([HEAPCTL, *map(str, words)], env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        return None, "hangs", COMMAND_SECONDS
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr, time.monotonic() - began


def folder_for(pid):
    """Where the target's user can make its socket, and only that user."""
    folder = tempfile.mkdtemp(prefix="attach-bench.")
    os.chmod(folder, 0o700)
    owner = os.stat(f"/proc/{pid}").st_uid
    if os.getuid() == 0:
        os.chown(folder, owner, -1)
    return folder


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def reason_in(complaint):
    return re.sub(r"\S*\[\d+\]", "it", complaint.strip().removeprefix("heapctl: "))


class Cycles:
    def __init__(self):
        self.attached = self.hangs = 0
        self.refusals, self.detach_failures = collections.Counter(), collections.Counter()
        self.stops, self.seconds, self.samples = [], [], []

    def run(self, target, folder, methods):
        for cycle in range(CYCLES):
            began = time.monotonic()
            code, out, seconds = heapctl(folder, "attach", target.pid, "--json", "--interval", "16KiB", *methods)
            if code == 0:
                self.attached += 1
                self.seconds.append(seconds)
                self.stops.append(json.loads(out)["stop_us"] / 1000)
                if cycle % SAMPLE_EVERY == 0:
                    self.wait_for_sample(folder, target.pid, began)
            elif code is None:
                self.hangs += 1
            else:
                self.refusals[reason_in(out)] += 1
            was_attached = code == 0
            code, out, _ = heapctl(folder, "detach", target.pid)
            if code is None:
                self.hangs += 1
            elif code != 0 and was_attached:
                self.detach_failures[reason_in(out)] += 1
            if not target.is_alive():
                return

    def wait_for_sample(self, folder, pid, began):
        while time.monotonic() - began < 10:
            code, out, _ = heapctl(folder, "status", pid, "--json")
            if code == 0 and json.loads(out)["sampler"] and json.loads(out)["sampler"]["samples"] > 0:
                self.samples.append(time.monotonic() - began)
                return


def gdb_stop_ms(pid):
    """How long gdb stops the main thread when it attaches and detaches at once, by samples of the thread's state."""
    stops = []
    for _ in range(GDB_STOPS):
        gdb = subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first = last = None
        until = time.monotonic() + GDB_SECONDS
        while gdb.poll() is None and time.monotonic() < until:
            try:
                if stat_fields(pid)[0] in "tT":
                    last = time.monotonic()
                    first = first or last
            except OSError:
                break
            time.sleep(0.0002)
        gdb.terminate()
        gdb.wait()
        # One that was ended while it attached leaves the process stopped.
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            break
        if first is not None:
            stops.append((last - first) * 1000)
    return statistics.median(stops) if stops else float("nan")


def keep_result(name, problem, seconds):
    if os.environ.get("BENCH_RESULTS"):
        with open(os.environ["BENCH_RESULTS"], "a", encoding="utf-8") as results:
            results.write(json.dumps({"stage": "attach", "file": "bench_attach", "case": f"{name}, {CYCLES} cycles",
                                      "status": "failed" if problem else "passed", "reason": problem or "", "ms": int(seconds * 1000)}) + "\n")


def run_target(name, make):
    """Prints a row; returns (cycles, what is wrong)."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attach-target.") as place:
        target = make(place)
        folder = folder_for(target.pid)
        cycles, gdb = Cycles(), float("nan")
        try:
            cycles.run(target, folder, methods_of(name))
            # gdb's stop is so long that clients time out, so they end before it.
            problem = target.settle()
            if shutil.which("gdb") and target.is_alive():
                gdb = gdb_stop_ms(target.pid_for_gdb())
            problem = problem or target.finish() or (f"{cycles.hangs} commands hung" if cycles.hangs else None)
        except (OSError, RuntimeError, subprocess.SubprocessError) as reason:
            problem = repr(reason)
        try:
            target.end()
        except subprocess.TimeoutExpired:
            problem = problem or "it did not end"
        shutil.rmtree(folder)
    late = sum(seconds > 1 for seconds in cycles.seconds)
    print(f"  {name:20} {cycles.attached:6} of {cycles.attached + cycles.refusals.total() + cycles.hangs:<6} {percentile(cycles.stops, 0.5):7.2f} "
          f"{percentile(cycles.stops, 0.99):8.1f} {max(cycles.stops, default=float('nan')):8.1f} {gdb:8.1f} "
          f"{percentile(cycles.seconds, 0.5) * 1000:8.0f} {percentile(cycles.samples, 0.5) * 1000:8.0f} {late:6}  {problem or 'unchanged'}", flush=True)
    for refusal, count in cycles.refusals.items():
        print(f"      {count} times: {refusal}")
    for failure, count in cycles.detach_failures.items():
        print(f"      {count} times at the detach: {failure}")
    keep_result(name, problem, time.monotonic() - began)
    return cycles, problem


def matrix():
    print(f"  {CYCLES} cycles of attach and detach on each, under its load. The stop of a thread as heapctl measures it, that of the main thread")
    print("  by gdb -p PID -batch; the whole command, and from command to the first sample; attaches that took longer than a second")
    print("  target               attached        stop ms: median, 99 %, most      gdb  command   sample   late  what its clients get")
    total, problems = Cycles(), []
    for name, (make, programs) in TARGETS.items():
        if ONLY and not any(word in name for word in ONLY):
            continue
        if not all(find(*program) for program in programs):
            print(f"  {name:20} is not installed")
            continue
        cycles, problem = run_target(name, make)
        problems += [name] if problem else []
        total.attached += cycles.attached
        total.hangs += cycles.hangs
        total.refusals += cycles.refusals
        total.stops += cycles.stops
        total.seconds += cycles.seconds
    tried = total.attached + total.refusals.total() + total.hangs
    print(f"  all: {total.attached} of {tried} attached, {total.refusals.total()} refused, {total.hangs} hung, {len(problems)} targets died or changed;"
          f" stop median {percentile(total.stops, 0.5):.2f} ms, 99 % {percentile(total.stops, 0.99):.1f} ms;"
          f" {sum(seconds <= 1 for seconds in total.seconds)} within a second; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return not problems


def attached_pids(server):
    pids = server.pids()
    return pids[1:] or pids


def cost(server, rounds):
    before = server.cpu_seconds()
    server.load(rounds)
    return server.cpu_seconds() - before


def overhead():
    """The same process without an agent, with sampling, and after the detach, again and again."""
    print(f"  processor time for the same requests, beside that before the attach of the same round: the median of {ROUNDS} rounds, and all")
    for name, rounds in {"Redis": 10000, "nginx": 10000, "MariaDB": 3000}.items():
        if not SERVERS[name].is_installed() or (ONLY and name.lower() not in ONLY):
            continue
        with tempfile.TemporaryDirectory(prefix="attach-target.") as place:
            server = SERVERS[name](place)
            server.prepare()
            server.start()
            folder = folder_for(server.process.pid)
            found = {"attached, 512 KiB": [], "after the detach": []}
            try:
                server.load(rounds)
                for _ in range(ROUNDS):
                    plain = cost(server, rounds)
                    for pid in attached_pids(server):
                        heapctl(folder, "attach", pid)
                    found["attached, 512 KiB"].append(cost(server, rounds) / plain)
                    for pid in attached_pids(server):
                        heapctl(folder, "detach", pid)
                    found["after the detach"].append(cost(server, rounds) / plain)
            finally:
                server.stop()
                shutil.rmtree(folder)
        for variant, ratios in found.items():
            print(f"  {name:10} {variant:20} {statistics.median(ratios):.3f}   {min(ratios):.3f} to {max(ratios):.3f}", flush=True)


unchanged = matrix()
if os.environ.get("BENCH_ONLY") != "none" and ROUNDS > 0:
    overhead()
sys.exit(0 if unchanged else 1)
