#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl's own sampler: a pair of malloc and free on four allocators, and the requests of a Redis, beside the same without it."""
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).resolve()
AGENT = str(BUILD / "src/agent/libheapctl.so")
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"glibc": None, "mimalloc": "libmimalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "jemalloc": "libjemalloc.so.2"}
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def redis(variant, folder):
    """Requests per second, and processor time per request in us. Debian's Redis, with glibc's malloc by preloading the C library first."""
    port = free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                              env=environment(variant, folder, str(LIBRARIES / "libc.so.6")), stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout == b"PONG\n":
                break
            time.sleep(0.05)
        owner = re.search(r"mem_allocator:(\S+)", subprocess.run(["redis-cli", "-p", str(port), "info", "memory"], capture_output=True,
                                                                 text=True).stdout)
        before = sum(map(int, pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        count = 400000
        out = subprocess.run(["redis-benchmark", "-p", str(port), "-n", str(count), "-r", "100000", "-d", "700", "-P", "16", "-t", "set",
                              "--csv"], capture_output=True, text=True, check=True).stdout
        after = sum(map(int, pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        rate = float(out.splitlines()[-1].split(",")[1].strip('"'))
        return rate, (after - before) / os.sysconf("SC_CLK_TCK") / count * 1e6, owner and owner[1]
    finally:
        server.terminate()
        server.wait()


def requests(folder):
    print(f"  Redis, SET of 700 bytes: the median of {ROUNDS} interleaved rounds, and the ratio to plain")
    found = {variant: [] for variant in VARIANTS}
    for _ in range(ROUNDS):
        for variant, figures in found.items():
            figures.append(redis(variant, folder))
    print("  variant    requests/s  ratio   us/request  ratio")
    plain = None
    for variant, figures in found.items():
        rate, cost = (statistics.median(figure[i] for figure in figures) for i in (0, 1))
        plain = plain or (rate, cost)
        print(f"  {variant:9} {rate:11.0f} {rate / plain[0]:6.3f} {cost:12.3f} {cost / plain[1]:6.3f}")


with tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o700)
    pairs(place)
    requests(place)
