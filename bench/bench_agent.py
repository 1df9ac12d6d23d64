#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent costs its server: throughput, wake-ups, memory, and how long a capture holds malloc."""
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1])
HEAPCTL = BUILD / "heapctl"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "9"))
STALL_ROUNDS = 3 * ROUNDS


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Redis:
    """Debian's redis-server, with its allocator's profiler ready but off; with or without the agent."""

    def __init__(self, folder, with_agent):
        self.port = free_port()
        self.folder = folder
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", folder]
        environment = dict(os.environ, HEAPCTL_DIR=folder + "/agent", MALLOC_CONF="prof:true,prof_active:false")
        if with_agent:
            command = [HEAPCTL, "run", "--"] + command
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(200):
            if subprocess.run(["redis-cli", "-p", str(self.port), "ping"], capture_output=True).stdout == b"PONG\n":
                return
            time.sleep(0.05)
        raise RuntimeError("redis-server did not start")

    def requests_per_second(self):
        out = subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-n", "200000", "-r", "100000", "-d", "100", "-P", "16", "-t",
             "set", "--csv"], capture_output=True, text=True, check=True).stdout
        return float(out.splitlines()[-1].split(",")[1].strip('"'))

    def private_kib(self):
        """(memory of this process alone, file pages that no other process maps at the moment), KiB."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return tuple(int(re.search(rf"^Private_{kind}: *(\d+) kB", text, re.M)[1]) for kind in ("Dirty", "Clean"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def agent_thread(self):
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text() == "heapctl\n":
                return task
        return None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def ratios_of(pairs):
    """Median and range of the ratios of pairs measured side by side."""
    ratios = sorted(with_agent / plain for with_agent, plain in pairs)
    return f"median {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} pairs)"


def quartiles_of(pairs):
    """The longest of many mallocs has a long tail: the quartiles say more than the extremes."""
    low, middle, high = statistics.quantiles([with_agent / plain for with_agent, plain in pairs], n=4)
    return f"median {middle:.2f}, half of them from {low:.2f} to {high:.2f} ({len(pairs)} pairs)"


def idle_cost(folder):
    plain, with_agent = Redis(folder, False), Redis(folder, True)
    try:
        time.sleep(6)  # a young process is checked three times in its first five seconds
        plain_kib, with_agent_kib = plain.private_kib(), with_agent.private_kib()
        speeds, costs = [], []
        for i in range(ROUNDS + 1):
            figures = {}
            for server in (plain, with_agent) if i % 2 == 0 else (with_agent, plain):
                before = server.cpu_seconds()
                figures[server] = server.requests_per_second(), server.cpu_seconds() - before
            if i > 0:  # the first pair warms both up
                speeds.append((figures[with_agent][0], figures[plain][0]))
                costs.append((figures[with_agent][1], figures[plain][1]))
        thread = with_agent.agent_thread()

        def switches():
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (thread / "status").read_text(), re.M)[1])
        before = switches()
        time.sleep(10)
        print(f"requests per second with the idle agent / without: {ratios_of(speeds)}")
        print(f"server's processor time for the same requests, with / without: {ratios_of(costs)}")
        print(f"wake-ups of the idle agent in 10 s: {switches() - before}")
        print(f"memory of the agent in a fresh server: {with_agent_kib[0] - plain_kib[0]} KiB private, "
              f"{with_agent_kib[1] - plain_kib[1]} KiB pages of its file")
    finally:
        plain.stop()
        with_agent.stop()


def stall_of_capture(folder, stacks):
    """Both figures are measured while heapctl works beside the server: they differ in what writes the dump, and where to."""
    environment = dict(os.environ, HEAPCTL_DIR=folder + "/agent")
    program = subprocess.Popen(
        [HEAPCTL, "run", "--conf", "prof_active:true,lg_prof_sample:8", "--", BUILD / "bench/stall", str(stacks)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(command):
        program.stdin.write(command + "\n")
        program.stdin.flush()
        return int(program.stdout.readline())

    def heapctl(*arguments):
        subprocess.run([HEAPCTL, *arguments], env=environment, check=True, capture_output=True)

    def by_itself():
        ask(f"dump {folder}/own.heap")
        heapctl("status", str(program.pid), "--json")

    def by_agent():
        heapctl("dump", str(program.pid), "-o", folder + "/ours.heap")

    def longest_ms(dump):
        """On a busy machine the thread may not have had the processor at all meanwhile: then again."""
        longest = 0
        while longest == 0:
            ask("reset")
            dump()
            longest = ask("longest")
        return longest / 1e6

    try:
        program.stdout.readline()
        pairs, costs = [], []
        for i in range(STALL_ROUNDS + 1):
            figures = {dump: longest_ms(dump) for dump in ((by_agent, by_itself) if i % 2 == 0 else (by_itself, by_agent))}
            cost = ask("dump-to-memory"), ask(f"dump {folder}/own.heap")
            if i > 0:
                pairs.append((figures[by_agent], figures[by_itself]))
                costs.append(cost)
        size = os.stat(folder + "/ours.heap").st_size
        ours, own = (statistics.median(column) for column in zip(*pairs))
        print(f"longest malloc of another thread, {size / 1e6:.1f} MB profile: during a capture {ours:.2f} ms, "
              f"while jemalloc dumps to a file itself {own:.2f} ms, ratio of the medians {ours / own:.2f}; "
              f"of pairs: {quartiles_of(pairs)}")
        print(f"processor time of that dump, into memory as the agent does / into a file: {quartiles_of(costs)}")
    finally:
        program.stdin.close()
        program.wait()


with tempfile.TemporaryDirectory() as work:
    idle_cost(work)
    for distinct in (1000, 10000, 60000):
        stall_of_capture(work, distinct)
