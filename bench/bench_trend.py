#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `heapctl trend` promises, checked on heaps with known growth that jemalloc itself sampled.

Each replicate is a series of hourly profiles of a heap of 4.5 MiB at one sample per 4 KiB (as many samples as 576 MiB have at the default
rate). Printed: how often the stated 95% intervals hold the truth, how many trends name an innocent when nothing leaks, and after how many
profiles a leak of 1% of the heap an hour is found, beside what sampling noise alone allows: a test that is told which site leaks, that
nothing was there before and that nothing is freed, and so need only count its samples. The plot goes to BENCH_PLOT, if set.

Ratios, not times; BENCH_REPLICATES (default 200) and BENCH_SEED (1) set length and the program's own chance. jemalloc's sampling cannot be
seeded, so figures differ from run to run by their binomial errors, which are printed.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
HEAPCTL = BUILD / "src/cli/heapctl"
PROGRAM = BUILD / "tests/integration/trend_heap"
REPLICATES = int(os.environ.get("BENCH_REPLICATES", "200"))
SEED = int(os.environ.get("BENCH_SEED", "1"))
INNOCENT = ["site_static", "site_fast", "site_slow", "site_noisy"]
HEAP_BYTES = 4.6 * 1048576
LEAK = int(HEAP_BYTES * 0.01) // 128 * 128
ROUNDS = 16
LENGTHS = [3, 4, 5, 6, 7, 8, 10, 12, 16]


def sample(folder, leak, rounds):
    """A list of paths for each replicate, one profile an hour."""
    subprocess.run([PROGRAM, folder, str(REPLICATES), str(rounds), str(leak), str(SEED)], check=True,
                   env=dict(os.environ, MALLOC_CONF="prof:true,lg_prof_sample:12"))
    series = [[f"{folder}/{r}-{k:04d}.heap" for k in range(rounds)] for r in range(REPLICATES)]
    for paths in series:
        for at, path in enumerate(paths):
            os.utime(path, (1763600000 + 3600 * at,) * 2)
    return series


def trend(paths, cache):
    out = subprocess.run([HEAPCTL, "trend", "--json", *paths], capture_output=True, check=True,
                         env=dict(os.environ, XDG_CACHE_HOME=cache)).stdout
    return {site["name"]: site for site in json.loads(out)["sites"]}


def trends(series, cache):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda paths: trend(paths, cache), series))


def share(count, of):
    error = math.sqrt(max(count, 1) * max(of - count, 1) / of) / of
    return f"{100 * count / of:5.1f}% ± {100 * error:.1f}"


def holds(site, truth):
    return site is not None and site["interval95"][0] <= truth <= site["interval95"][1]


def check_intervals(found, length, leak):
    """site_noisy is left out: its own ups and downs are the program's, and its drift has no known truth."""
    truths = {"site_leak": leak, "site_fast": 0, "site_slow": 0}
    for name, truth in truths.items():
        if name == "site_leak" and leak == 0:
            continue
        held = sum(holds(sites.get(name), truth) for sites in found)
        print(f"  {length:2} profiles, {name:11} interval holds the truth in {share(held, len(found))}")


def counting_power(length, chance=0.05 / 7):
    """The best that counting can do: some samples of the leak were seen, at the same level, Holm's for 7 sites."""
    mean = LEAK / 4096 * (length - 1)
    # By chance a site that does not grow may gain half a sample.
    needed = 1
    while math.exp(-0.5) * sum(0.5 ** k / math.factorial(k) for k in range(needed, 60)) > chance:
        needed += 1
    return 1 - math.exp(-mean) * sum(mean ** k / math.factorial(k) for k in range(needed))


def plot(powers, bounds, path):
    width, height, left, top = 560, 260, 60, 50
    x = lambda n: left + (n - LENGTHS[0]) / (LENGTHS[-1] - LENGTHS[0]) * (width - left - 20)
    y = lambda p: top + (1 - p) * (height - top - 40)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="system-ui,sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{left - 44}" y="20" font-size="14" font-weight="600">A leak of 1% of the heap an hour: how often it is found</text>',
             f'<text x="{left - 44}" y="37" fill="#656d76">by the number of hourly profiles; dashed: what counting the leak\'s samples '
             'would allow</text>']
    for p in (0, 0.5, 1):
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(p):.1f}" y2="{y(p):.1f}" stroke="#d0d7de"/>'
                     f'<text x="{left - 8}" y="{y(p) + 4:.1f}" text-anchor="end" fill="#656d76">{p:.0%}</text>')
    for n in LENGTHS:
        lines.append(f'<text x="{x(n):.1f}" y="{height - 22}" text-anchor="middle" fill="#656d76">{n}</text>')
    for values, style in ((powers, 'stroke="#0969da" stroke-width="2"'), (bounds, 'stroke="#cf222e" stroke-dasharray="6 4"')):
        points = " ".join(f"{x(n):.1f},{y(p):.1f}" for n, p in zip(LENGTHS, values))
        lines.append(f'<polyline points="{points}" fill="none" {style}/>')
    lines += [f'<circle cx="{x(n):.1f}" cy="{y(p):.1f}" r="3" fill="#0969da"/>' for n, p in zip(LENGTHS, powers)] + ["</svg>"]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-trend-") as folder:
        cache = folder + "/cache"
        for name in ("none", "leak"):
            os.mkdir(f"{folder}/{name}")
        innocent = sample(folder + "/none", 0, ROUNDS)
        leaking = sample(folder + "/leak", LEAK, ROUNDS)
        print(f"{REPLICATES} replicates each; leak of {LEAK} bytes an hour")
        print("nothing leaks:")
        for length in (6, 12, 16):
            found = trends([paths[:length] for paths in innocent], cache)
            false = sum(any(site["is_suspect"] for site in sites.values()) for sites in found)
            print(f"  {length:2} profiles, some site is suspected in {share(false, len(found))} of the trends (promised: at most 5%)")
            check_intervals(found, length, 0)
        print("1% of the heap leaks in an hour:")
        powers, bounds = [], []
        for length in LENGTHS:
            found = trends([paths[:length] for paths in leaking], cache)
            caught = sum("site_leak" in sites and sites["site_leak"]["is_suspect"] for sites in found)
            blamed = sum(any(sites[name]["is_suspect"] for name in INNOCENT if name in sites) for sites in found)
            powers.append(caught / len(found))
            bounds.append(counting_power(length))
            print(f"  {length:2} profiles: found in {share(caught, len(found))} (counting: {100 * bounds[-1]:.1f}%), an innocent named in "
                  f"{share(blamed, len(found))}")
            if length in (6, 12, 16):
                check_intervals(found, length, LEAK)
        if os.environ.get("BENCH_PLOT"):
            plot(powers, bounds, os.environ["BENCH_PLOT"])


if __name__ == "__main__":
    main()
