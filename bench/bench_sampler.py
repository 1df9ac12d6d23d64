#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl's own sampler: a pair of malloc and free on four allocators, and the requests of real servers, beside the same without it.

BENCH_PARTS (default: memory stall pairs instructions switched servers rivals) and BENCH_SERVERS (default: Redis PostgreSQL nginx MariaDB) select;
BENCH_ROUNDS (default 12): how often each server starts; BENCH_LOAD (default 1): its load, as a factor.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/support"))
from chance import median_interval
from processes import ask
from sampled_servers import SERVERS

BUILD = pathlib.Path(sys.argv[1]).resolve()
AGENT = str(BUILD / "src/agent/libheapctl.so")
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"glibc": None, "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "jemalloc": "libjemalloc.so.2"}
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "12"))
LOAD = float(os.environ.get("BENCH_LOAD", "1"))
PARTS = os.environ.get("BENCH_PARTS", "memory stall pairs instructions switched servers rivals").split()
# How much load takes about a second of processor time.
BATCHES = {"Redis": 1500, "PostgreSQL": 2500, "nginx": 8000, "MariaDB": 2500}
CHOSEN = os.environ.get("BENCH_SERVERS", " ".join(BATCHES)).split()
STALL_ROUNDS = 15
SWITCHES = 24
TRIM_SECONDS = 5  # the agent releases what was outgrown every two seconds
VARIANTS = {"plain": None, "idle": {}, "512 KiB": {"HEAPCTL_ACTIVATE": "1"},
            "2 MiB": {"HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "2M"}}


def environment(variant, folder, *libraries):
    settings = VARIANTS[variant]
    preload = [*libraries] if settings is None else [AGENT, *libraries]
    return dict(os.environ, LD_PRELOAD=":".join(preload), HEAPCTL_DIR=folder, MALLOC_CONF="", **(settings or {}))


def pairs(folder):
    print("  ns per pair: hot, in a ring; and what is added to the plain program's, the least of "
          f"{ROUNDS} interleaved rounds")
    print("  allocator  variant      hot   ring   + hot  + ring")
    for name, library in ALLOCATORS.items():
        if library is not None and not (LIBRARIES / library).exists():
            print(f"  {name:10} {library} is not installed")
            continue
        least = {}
        for _ in range(ROUNDS):
            for variant in VARIANTS:
                libraries = [] if library is None else [str(LIBRARIES / library)]
                out = subprocess.run([BUILD / "bench/malloc_cost"], env=environment(variant, folder, *libraries), capture_output=True,
                                     text=True, check=True).stdout
                figures = list(map(float, out.split()))
                least[variant] = [min(a, b) for a, b in zip(least.get(variant, figures), figures)]
        for variant, (hot, ring) in least.items():
            more = "" if variant == "plain" else f"{hot - least['plain'][0]:+7.2f} {ring - least['plain'][1]:+7.2f}"
            print(f"  {name:10} {variant:9} {hot:6.2f} {ring:6.2f} {more}")


def memory(folder):
    program = subprocess.Popen([BUILD / "bench/sampler_memory"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=dict(environment("512 KiB", folder), HEAPCTL_SAMPLE="4096"))
    try:
        program.stdout.readline()
        time.sleep(TRIM_SECONDS)
        out = subprocess.run([BUILD / "heapctl", "status", str(program.pid), "--json"], env=dict(os.environ, HEAPCTL_DIR=folder),
                             capture_output=True, text=True, check=True).stdout
    finally:
        program.communicate("\n")
    figures = json.loads(out)["sampler"]
    print(f"  memory of the sampler with {figures['live_blocks']} samples in use at {figures['sites']} sites, {figures['samples']} taken: "
          f"{figures['memory_bytes'] / 2**20:.2f} MiB")


def stall(folder):
    """All programs allocate at 10,000 stacks, and nearly every block is sampled."""
    sampled = {"HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "256", "LD_PRELOAD": AGENT, "MALLOC_CONF": "prof:false"}
    own = {"MALLOC_CONF": "prof:true,lg_prof_sample:8"}
    print(f"  longest malloc of another thread, ms: the median of {STALL_ROUNDS} captures, and all")
    for name, settings in {"heapctl, no capture": sampled, "heapctl, capture": sampled, "jemalloc, no dump": own,
                           "jemalloc's own dump": own}.items():
        program = subprocess.Popen([BUILD / "bench/stall", "10000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, HEAPCTL_DIR=folder, **settings))

        def ask(command):
            program.stdin.write(command + "\n")
            program.stdin.flush()
            return int(program.stdout.readline())

        program.stdout.readline()
        longest = []
        while len(longest) < STALL_ROUNDS:
            ask("reset")
            if name == "heapctl, capture":
                subprocess.run([BUILD / "heapctl", "dump", str(program.pid), "-o", folder + "/profile.heap"],
                               env=dict(os.environ, HEAPCTL_DIR=folder), capture_output=True, check=True)
            elif name == "jemalloc's own dump":
                ask(f"dump {folder}/profile.heap")
            else:
                time.sleep(0.2)
            longest.append(ask("longest") / 1e6)
            # On a busy machine the thread may not have run at all.
            longest = [ms for ms in longest if ms > 0]
        program.stdin.close()
        program.wait()
        print(f"  {name:20} {statistics.median(longest):7.3f}   {min(longest):.3f} to {max(longest):.3f}", flush=True)


class GlibcRedis(SERVERS["Redis"]):
    """Debian's is linked to jemalloc; the C library, preloaded, comes first."""

    def start(self, **env):
        super().start(**dict(env, LD_PRELOAD=":".join(filter(None, [env.get("LD_PRELOAD", ""), str(LIBRARIES / "libc.so.6")]))))


def cost(server, batches):
    """Seconds of processor time for the load."""
    before = server.cpu_seconds()
    server.load(batches)
    return server.cpu_seconds() - before


def compare(kind, folder, variants, batches):
    """By variant: of each round the throughput for the same processor time, beside the first one.

    All servers of a round start anew, so that no layout of memory or of a hash table decides; then each is loaded alone, in one
    order and back, so that what changes slowly on the machine meets all alike."""
    servers = {name: kind(os.path.join(folder, f"server-{number}")) for number, name in enumerate(variants)}
    for server in servers.values():
        os.mkdir(server.folder)
        server.prepare()
    batches = max(1, round(batches * LOAD))
    ratios = {name: [] for name in variants}
    for number in range(ROUNDS):
        try:
            for name, settings in variants.items():
                agents = {} if settings is None else {"HEAPCTL_DIR": servers[name].folder_of_agents()}
                servers[name].start(**(settings or {}), **agents)
                servers[name].load(max(1, batches // 5))
            names = list(variants) if number % 2 == 0 else [*reversed(variants)]
            costs = dict.fromkeys(names, 0.0)
            for name in (*names, *reversed(names)):
                costs[name] += cost(servers[name], batches)
        finally:
            for server in servers.values():
                server.stop()
        first = costs[next(iter(variants))]
        for name, seconds in costs.items():
            ratios[name].append(first / seconds)
    return ratios


def print_ratios(name, ratios):
    for variant, values in list(ratios.items())[1:]:
        low, high = median_interval(values)
        print(f"  {name:10} {variant:24} {statistics.median(values):.3f} ({low:.3f} to {high:.3f})", flush=True)


def servers():
    print(f"  requests for the same processor time of the server, as a ratio to plain: the median of {ROUNDS} rounds, and where it"
          " lies with 95 %")
    for name in CHOSEN:
        kind = GlibcRedis if name == "Redis" else SERVERS[name]
        if not kind.is_installed():
            print(f"  {name:10} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o711)
            variants = {variant: None if settings is None else dict(settings, LD_PRELOAD=AGENT) for variant, settings in VARIANTS.items()}
            print_ratios(name, compare(kind, folder, variants, BATCHES[name]))


def switch(server, interval_bits):
    """Sampling on in all processes of the server, every 2^interval_bits bytes; off, and nothing replaced any more, for None."""
    requests = ["/v1/deactivate", "/v1/reset"] if interval_bits is None else [f"/v1/reset?lg_sample={interval_bits}", "/v1/activate"]
    for pid in server.pids():
        path = os.path.join(server.folder_of_agents(), f"{pid}.sock")
        # The agent of a forked child has no socket until a client needs it. One that served a client may end meanwhile.
        if not os.path.exists(path):
            subprocess.run([BUILD / "heapctl", "status", str(pid)], env=dict(os.environ, HEAPCTL_DIR=server.folder_of_agents()),
                           capture_output=True, check=False)
        if not os.path.exists(f"/proc/{pid}"):
            continue
        for request in requests:
            status, body = ask(path, request, "POST")
            if status != 200:
                raise RuntimeError(f"{request}: {status} {body}")


def switched():
    """The same processes with sampling on and off by turns, so that no start, no layout of memory and no warm cache differs; off, on, on,
    off in each round, and the other way round in the next, so that what changes steadily cancels out."""
    print(f"  requests for the same processor time of one server, sampling on as a ratio to off: the mean of {SWITCHES} rounds and its"
          " standard error, the median, and where that lies with 95 %")
    for name in CHOSEN:
        kind = GlibcRedis if name == "Redis" else SERVERS[name]
        if not kind.is_installed():
            print(f"  {name:10} is not installed")
            continue
        batches = max(1, round(BATCHES[name] * LOAD))
        for interval, bits in {"512 KiB": 19, "2 MiB": 21}.items():
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o711)
                server = kind(folder)
                server.prepare()
                server.start(LD_PRELOAD=AGENT, HEAPCTL_DIR=server.folder_of_agents())
                try:
                    server.load(batches)
                    ratios = []
                    for number in range(SWITCHES):
                        costs = {None: 0.0, bits: 0.0}
                        order = [None, bits, bits, None]
                        for state in order if number % 2 == 0 else [bits, None, None, bits]:
                            switch(server, state)
                            # What is done once: the tables of unwinding are made, and the first samples find nothing in a cache.
                            server.load(max(1, batches // 5))
                            costs[state] += cost(server, batches)
                        ratios.append(costs[None] / costs[bits])
                finally:
                    server.stop()
            low, high = median_interval(ratios)
            error = statistics.stdev(ratios) / len(ratios) ** 0.5
            print(f"  {name:10} {interval:8} {statistics.mean(ratios):.4f} +- {error:.4f}   {statistics.median(ratios):.4f}"
                  f" ({low:.4f} to {high:.4f})", flush=True)


def counted(kind, folder, batches, settings):
    """Instructions of the server's processes in user mode, from their start to their end, with the load."""
    class Counted(kind):
        def command(self):
            return ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={self.outputs}/%p", *super().command()]

    server = Counted(folder)
    server.outputs = os.path.join(folder, "instructions")
    os.mkdir(server.outputs)
    # The server may run as another user.
    os.chmod(server.outputs, 0o777)
    kind.prepare(server)
    if settings is not None:
        settings = dict(settings, LD_PRELOAD=AGENT, HEAPCTL_DIR=server.folder_of_agents())
    for path in pathlib.Path(server.outputs).iterdir():
        path.unlink()
    server.start(**(settings or {}))
    try:
        if settings is not None and AGENT not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text():
            raise RuntimeError("the agent is not in the server that is counted")
        server.load(batches)
    finally:
        server.stop()
    return sum(int(line.split()[1]) for path in pathlib.Path(server.outputs).iterdir()
               for line in path.read_text().splitlines() if line.startswith("totals:"))


def instructions():
    """The start costs more than the load here, so each figure is the difference of two loads."""
    print("  instructions of the server for the same requests, in user mode, as a ratio of the plain one's to them")
    for name in CHOSEN:
        # The others start a process or a thread for each client that looks whether they are ready.
        if name not in ("Redis", "nginx"):
            continue
        kind = GlibcRedis if name == "Redis" else SERVERS[name]
        if not kind.is_installed() or shutil.which("valgrind") is None:
            print(f"  {name:10} it, or valgrind, is not installed")
            continue
        for variant, settings in VARIANTS.items():
            counts = []
            for factor in (1, 4):
                with tempfile.TemporaryDirectory() as folder:
                    os.chmod(folder, 0o711)
                    counts.append(counted(kind, folder, factor * max(1, round(BATCHES[name] * LOAD / 20)), settings))
            difference = counts[1] - counts[0]
            if variant == "plain":
                plain = difference
            print(f"  {name:10} {variant:10} {difference / 1e6:9.1f} million  {plain / difference:.4f}", flush=True)


def rivals():
    """Each beside the allocator that it runs on, on the Redis above."""
    print("  other profilers on the same Redis, beside the same allocator without one")
    tcmalloc, jemalloc, heaptrack = (str(path) for path in (LIBRARIES / "libtcmalloc.so.4", LIBRARIES / "libjemalloc.so.2",
                                                            "/usr/lib/heaptrack/libheaptrack_preload.so"))
    active = {"HEAPCTL_ACTIVATE": "1"}
    for kind, library, make_variants in (
            (GlibcRedis, heaptrack, lambda folder: {
                "glibc": None, "glibc, heapctl": dict(active, LD_PRELOAD=AGENT),
                "glibc, heaptrack": {"LD_PRELOAD": heaptrack, "DUMP_HEAPTRACK_OUTPUT": folder + "/heaptrack"}}),
            (SERVERS["Redis"], tcmalloc, lambda folder: {
                "tcmalloc": {"LD_PRELOAD": tcmalloc}, "tcmalloc, heapctl": dict(active, LD_PRELOAD=f"{AGENT}:{tcmalloc}"),
                "tcmalloc, HEAPPROFILE": {"LD_PRELOAD": tcmalloc, "HEAPPROFILE": folder + "/gperftools"}}),
            (SERVERS["Redis"], jemalloc, lambda folder: {
                "jemalloc": {"MALLOC_CONF": "prof:false"}, "jemalloc, heapctl": dict(active, LD_PRELOAD=AGENT, MALLOC_CONF="prof:false"),
                "jemalloc's own": {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:19"}})):
        if os.path.exists(library) and kind.is_installed():
            with tempfile.TemporaryDirectory() as folder:
                print_ratios("Redis", compare(kind, folder, make_variants(folder), BATCHES["Redis"]))


with tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o700)
    for part, measure in {"memory": memory, "stall": stall, "pairs": pairs}.items():
        if part in PARTS:
            measure(place)
if "instructions" in PARTS:
    instructions()
if "switched" in PARTS:
    switched()
if "servers" in PARTS:
    servers()
if "rivals" in PARTS:
    rivals()
