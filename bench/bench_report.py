#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl report against jeprof: textual reports of real programs' profiles, pictures of big ones.

The profiles are taken here: a small, a medium and a large program run with jemalloc's profiler at one sample every 4 KiB.
Cold means without heapctl's cache of symbols, as for the first report of a program; the files themselves are in the page
cache for all tools. The tools take turns, and each turn has its ratio, so a load that comes and goes affects both.
Processor time is the figure to look at on a busy machine. BENCH_ROUNDS (default 5) sets the number of turns.
"""
import contextlib
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
os.environ["HEAPCTL_BUILD"] = os.path.abspath(sys.argv[1])
import processes  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
HEAPCTL = str(BUILD / "src/cli/heapctl")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PICTURE_STACKS = int(os.environ.get("BENCH_PICTURE_STACKS", "100000"))
REPORT_STACKS = int(os.environ.get("BENCH_REPORT_STACKS", "1000000"))
SOURCE = """
#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <regex>
#include <unordered_map>
int main()
{
    std::map<std::string, std::vector<std::function<int(int)>>> table;
    table["one"].push_back([](int i) { return std::async([i] { return i; }).get(); });
    std::cout << std::regex_match("abcd", std::regex("a(b|c)*d")) << std::filesystem::current_path() << table.size();
}
"""
SCRIPT = """
import asyncio, decimal, email.mime.text, http.client, json, sqlite3, unittest, xml.dom.minidom
rows = json.loads(json.dumps([{str(i): [i] * 5} for i in range(20000)]))
names = {i: str(i) for i in range(100000)}
"""


def profiled(folder, name):
    """The environment in which a program leaves a profile when it ends."""
    conf = f"prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{folder}/{name}"
    return dict(os.environ, MALLOC_CONF=conf, LD_PRELOAD=processes.jemalloc_path())


def profile_of(folder, name):
    """The profile of the process that was started; its children leave smaller ones."""
    return str(max(pathlib.Path(folder).glob(f"{name}.*.heap"), key=lambda path: path.stat().st_size))


def run_redis(folder):
    server, port = processes.need("redis-server"), processes.free_port()
    ping = ["redis-cli", "-p", str(port), "ping"]
    process = subprocess.Popen([server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                               env=profiled(folder, "redis"), stdout=subprocess.DEVNULL)
    try:
        processes.wait_until(lambda: subprocess.run(ping, capture_output=True).returncode == 0, "redis-server answers")
        subprocess.run(["redis-benchmark", "-p", str(port), "-q", "-n", "3000", "-r", "3000", "-d", "300"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    finally:
        process.terminate()
        process.wait()
    return server, profile_of(folder, "redis")


def run_python(folder):
    program = "/usr/bin/python3"
    subprocess.run([program, "-c", SCRIPT], env=profiled(folder, "python"), check=True)
    return os.path.realpath(program), profile_of(folder, "python")


def run_compiler(folder):
    program = subprocess.run(["gcc", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout.strip()
    source = os.path.join(folder, "source.cpp")
    pathlib.Path(source).write_text(SOURCE)
    subprocess.run([program, "-quiet", "-O2", "-std=c++20", "-D_GNU_SOURCE", "-imultiarch", "x86_64-linux-gnu", source,
                    "-o", "/dev/null"], env=profiled(folder, "cc1plus"), check=True)
    return program, profile_of(folder, "cc1plus")


class Run:
    """What one run of a program took, its children included."""

    def __init__(self, command, **environment):
        started = time.monotonic()
        with subprocess.Popen(command, env=dict(os.environ, **environment), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        self.wall = time.monotonic() - started
        self.processor = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024


def show(name, runs, theirs):
    def middle(field):
        return statistics.median(getattr(run, field) for run in runs)

    def ratio(field):
        return statistics.median(getattr(b, field) / getattr(a, field) for a, b in zip(runs, theirs))

    print(f"    {name:22} wall {middle('wall') * 1000:9.1f} ms {ratio('wall'):7.1f} x   processor "
          f"{middle('processor') * 1000:9.1f} ms {ratio('processor'):7.1f} x   peak {middle('memory'):5.0f} MiB",
          flush=True)


def race_texts(size, program, profile):
    jeprof, cold, warm = [], [], []
    with open(profile) as text:
        stacks = sum(line.startswith("@") for line in text)
    print(f"{size} ({os.path.basename(program)}, {os.path.getsize(program) / 2**20:.1f} MiB; {stacks} stacks):")
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="hc-bench-") as cache:
            jeprof.append(Run(["jeprof", "--text", program, profile]))
            cold.append(Run([HEAPCTL, "report", "--text", profile], XDG_CACHE_HOME=cache))
            warm.append(Run([HEAPCTL, "report", "--text", profile], XDG_CACHE_HOME=cache))
    show("jeprof", jeprof, jeprof)
    show("heapctl, cold", cold, jeprof)
    show("heapctl, warm", warm, jeprof)


def write_profile(path, *arguments):
    with open(path, "wb") as out:
        subprocess.run([str(BUILD / "bench/write_profile"), *map(str, arguments)], stdout=out, check=True)


def race_pictures(folder):
    """One turn: jeprof needs a minute, and the names are in the profile, so nothing is looked up."""
    profile = os.path.join(folder, "named.heap")
    write_profile(profile, PICTURE_STACKS, "named")
    print(f"{PICTURE_STACKS} stacks with names, {os.path.getsize(profile) / 1e6:.0f} MB, ratios to jeprof --text:")
    theirs = Run(["jeprof", "--text", profile])
    show("jeprof --text", [theirs], [theirs])
    for output in "text", "flame", "pprof", "svg":
        out = os.path.join(folder, "out." + output)
        runs = [Run([HEAPCTL, "report", "--" + output, "-o", out, profile]) for _ in range(ROUNDS)]
        show(f"heapctl --{output}", runs, [theirs] * ROUNDS)


def measure_big_report(folder):
    profile = os.path.join(folder, "big.heap")
    write_profile(profile, REPORT_STACKS)
    megabytes = os.path.getsize(profile) / 1e6
    print(f"{REPORT_STACKS} stacks, {megabytes:.0f} MB, from the file to the report:")
    runs = [Run([HEAPCTL, "report", "--text", profile]) for _ in range(ROUNDS)]
    show("heapctl --text", runs, runs)
    print(f"    {megabytes / min(run.processor for run in runs):.0f} MB for each second of processor time (the best run)")
    os.unlink(profile)


def main():
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"(peaks below {own:.0f} MiB are not seen: the kernel counts what ran before the program was loaded)")
    if shutil.which("jeprof") is None:
        sys.exit("jeprof is not installed (libjemalloc-dev)")
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as folder:
        for size, take in ("small", run_redis), ("medium", run_python), ("large", run_compiler):
            with contextlib.suppress(processes.unittest.SkipTest):
                race_texts(size, *take(folder))
        race_pictures(folder)
        measure_big_report(folder)


main()
