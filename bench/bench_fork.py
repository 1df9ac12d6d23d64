#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent costs a program that makes children: each figure is a ratio of the same work with the agent and without, in pairs."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
AGENT = BUILD / "src/agent/libheapctl-preload.so"  # as heapctl run does
PROGRAM = BUILD / "bench/fork_cost"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "60"))
POSTGRES = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench"))


def ratios_of(pairs):
    """Two servers take turns, so that other load on the machine affects both; the quartiles say how much it did. It can only add
    to a time, so the fastest of each say most on a busy machine."""
    low, middle, high = statistics.quantiles([with_agent / plain for with_agent, plain in pairs], n=4)
    fastest = min(with_agent for with_agent, _ in pairs) / min(plain for _, plain in pairs)
    return f"fastest {fastest:.3f}; median {middle:.3f}, half of them from {low:.3f} to {high:.3f} ({len(pairs)} pairs)"


def environment(folder, with_agent, **more):
    result = dict(os.environ, HEAPCTL_DIR=folder + "/agent", MALLOC_CONF="prof:true,prof_active:false")
    if with_agent:
        result.update(LD_PRELOAD=str(AGENT), HEAPCTL_EXE="fork_cost")
    result.update(more)
    return result


class Forker:
    def __init__(self, folder, with_agent, **more):
        self.process = subprocess.Popen([PROGRAM], env=environment(folder, with_agent, **more), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def pairs_of(plain, with_agent, measure, rounds=ROUNDS):
    pairs = []
    for i in range(rounds + 1):
        figures = {}
        for one in (plain, with_agent) if i % 2 == 0 else (with_agent, plain):
            figures[one] = measure(one)
        if i > 0:  # the first pair warms both up
            pairs.append((figures[with_agent], figures[plain]))
    return pairs


def children(folder, title, with_agent=True, **more):
    plain, agent = Forker(folder, False), Forker(folder, with_agent, **more)
    try:
        time.sleep(6)  # a young process is checked three times in its first five seconds
        for name, order in (("fork and _exit", "exit 40"), ("fork and exec of a program that is no target", f"exec 20 {shutil.which('true')}"),
                            ("posix_spawn of a target", f"spawn 20 {PROGRAM}")):
            print(f"{name}, {title}: {ratios_of(pairs_of(plain, agent, lambda one: one.ask(order)))}")
    finally:
        plain.stop()
        agent.stop()


def shell_script(folder):
    script = "for i in {1..150}; do (:); x=$(:); : | :; done"

    def measure(with_agent):
        begin = time.monotonic()
        subprocess.run(["bash", "-c", script], env=environment(folder, with_agent), check=True)
        return time.monotonic() - begin
    print(f"a shell script of 600 forks, in the environment of a target: {ratios_of(pairs_of(False, True, measure, max(ROUNDS // 6, 2)))}")


class Postgres:
    """A server with jemalloc, which forks a child for each connection."""

    def __init__(self, folder, with_agent):
        self.folder = f"{folder}/pg{int(with_agent)}"
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        os.mkdir(self.folder)
        if self.user:
            shutil.chown(self.folder, "postgres")
        self.bin = POSTGRES[-1].parent
        self.run(self.bin / "initdb", "-D", self.folder + "/data", "-A", "trust", "--no-sync")
        preload = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2" + (f":{AGENT}" if with_agent else "")
        self.process = subprocess.Popen(
            [*self.user, self.bin / "postgres", "-D", self.folder + "/data", "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            env=dict(os.environ, LD_PRELOAD=preload, HEAPCTL_EXE="postgres", HEAPCTL_DIR=self.folder + "/agent", MALLOC_CONF="prof:true,prof_active:false"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        while subprocess.run([*self.user, self.bin / "pg_isready", "-q", "-h", self.folder], cwd=self.folder).returncode != 0:
            time.sleep(0.1)
        self.run(self.bin / "pgbench", "-h", self.folder, "-i", "-q", "postgres")

    def run(self, *command):
        return subprocess.run([*self.user, *command], check=True, capture_output=True, text=True, cwd=self.folder).stdout

    def seconds_per_transaction(self):
        text = self.run(self.bin / "pgbench", "-h", self.folder, "-C", "-S", "-n", "-T", "3", "postgres")
        return 1 / float(text.partition("tps = ")[2].split()[0])

    def stop(self):
        self.process.terminate()
        self.process.wait()


def postgres(folder):
    if not POSTGRES:
        print("pgbench -C: PostgreSQL is not installed")
        return
    os.chmod(folder, 0o755)
    plain, with_agent = Postgres(folder, False), Postgres(folder, True)
    try:
        print(f"time of a new connection and a query (pgbench -C -S): {ratios_of(pairs_of(plain, with_agent, Postgres.seconds_per_transaction, max(ROUNDS // 6, 2)))}")
    finally:
        plain.stop()
        with_agent.stop()


with tempfile.TemporaryDirectory() as work:
    children(work, "with the agent / without")
    # The part of this that the C library takes for a second thread.
    children(work, "with a second thread that sleeps / without", with_agent=False, FORK_COST_THREAD="1")
    children(work, "with HEAPCTL_THREAD=on-demand / without", HEAPCTL_THREAD="on-demand")
    children(work, "with HEAPCTL_CHILDREN=no / without", HEAPCTL_CHILDREN="no")
    children(work, "with HEAPCTL_CHILDREN=thread / without", HEAPCTL_CHILDREN="thread")
    shell_script(work)
    postgres(work)
