#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `heapctl trend` promises, checked on heaps with known growth that jemalloc itself sampled.

Each replicate is a series of hourly profiles. Printed:

- intervals: how often the stated 95% intervals contain the truth, for sites of many kinds and by the number of profiles. The truth is the rate of
  the least-squares line through what the program really held (without its swings, where trend found their period). Not judged, but
  printed: what never changes. Neither do its samples, so the estimate is exactly 0 like the truth, every time;
- false suspects: how many trends name a suspect when nothing leaks, among 7 sites and among 256;
- detection: after how many profiles a leak of 1% of a heap of 4.6 MiB an hour is found, with as many samples as 590 MiB, and as 74 MiB, have at
  the default rate; beside what sampling noise alone allows: to a test that is told which site leaks, that nothing was there before and that
  nothing is freed, and so need only count its samples; and to one that has to think that its objects may be replaced, which no profile
  tells. The plot goes to BENCH_PLOT, if set;
- time and memory: a trend of 1,000 profiles against a report on one, and the memory of a trend against its profiles, of 10,000 stacks each.

BENCH_REPLICATES (default 200) and BENCH_SEED (1) set length and the program's own chance. jemalloc's sampling cannot be seeded, so figures
differ from run to run by their binomial errors, which are printed.
"""
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
HEAPCTL = BUILD / "src/cli/heapctl"
PROGRAM = BUILD / "tests/integration/trend_heap"
REPLICATES = int(os.environ.get("BENCH_REPLICATES", "200"))
SEED = int(os.environ.get("BENCH_SEED", "1"))
SITES = BUILD / "tests/integration/trend_sites"
INNOCENT = ["site_static", "site_fast", "site_slow", "site_noisy"]
HEAP_BYTES = 4.6 * 1048576
LEAK = int(HEAP_BYTES * 0.01) // 128 * 128
ROUNDS = 16
LENGTHS = [3, 4, 5, 6, 7, 8, 10, 12, 16]
KINDS = {"site_leak": "a leak alone", "site_busy": "a leak below what is all replaced", "site_fast": "all replaced",
         "site_few": "all replaced, but few", "site_slow": "a fifth replaced", "site_slowest": "a sixteenth replaced",
         "site_half": "half stays, half replaced", "site_mixed": "half replaced, half a tenth",
         "site_cycle": "swings", "site_static": "all stays (not judged)"}
LEAKING = ("site_leak", "site_busy")


def sample(folder, program, rounds, *words, lg_sample=12):
    """A list of paths for each replicate, one profile an hour."""
    os.mkdir(folder)
    subprocess.run([program, folder, str(REPLICATES), str(rounds), *map(str, words)], check=True,
                   env=dict(os.environ, MALLOC_CONF=f"prof:true,lg_prof_sample:{lg_sample}"))
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
    return f"{100 * count / of:.1f}% ± {100 * error:.1f}"


def holds(site, truth):
    return site["interval95"][0] <= truth <= site["interval95"][1]


def line_rate(values):
    middle = (len(values) - 1) / 2
    return sum((at - middle) * value for at, value in enumerate(values)) / sum((at - middle) ** 2 for at in range(len(values)))


def true_rate(name, site, profiles):
    if name == "site_cycle" and not site.get("period_hours"):
        return line_rate([(400 + at % 4 * 800) * 512 for at in range(profiles)])
    return LEAK if name in LEAKING else 0


def check_intervals(series, cache):
    """site_noisy is left out: trend_heap draws its own ups and downs anew."""
    lengths = (5, 8, 16, 32)
    print(f"intervals: the truth is held in\n{'profiles':32}" + "".join(f"{n:>14}" for n in lengths) + f"{'all':>14}")
    found = {n: trends([paths[:n] for paths in series], cache) for n in lengths}
    together = []
    for name, kind in KINDS.items():
        # A site of which no sample was taken has no interval.
        held = [[holds(sites[name], true_rate(name, sites[name], n)) for sites in found[n] if name in sites] for n in lengths]
        print(f"  {kind:30}" + "".join(f"{share(sum(row), len(row)):>14}" for row in (*held, sum(held, []))))
        if name != "site_static":
            together.append(held)
    columns = [sum((held[at] for held in together), []) for at in range(len(lengths))]
    print(f"  {'all that is judged':30}" + "".join(f"{share(sum(row), len(row)):>14}" for row in (*columns, sum(columns, []))))


def check_innocents(series, lengths, cache):
    for length in lengths:
        found = trends([paths[:length] for paths in series], cache)
        named = sum(any(site["is_suspect"] for site in sites.values()) for sites in found)
        least = min(len(sites) for sites in found)
        print(f"  {length:2} profiles of {least} sites or more: one is suspected in {share(named, len(found))} of the trends")


def counting_power(length, lg_sample, chance=0.05 / 5):
    """The best that counting can do: some samples of the leak were seen, at the same level, Holm's for 5 sites."""
    mean = LEAK / 2 ** lg_sample * (length - 1)
    # By chance a site that does not grow may gain half a sample.
    needed = 1
    while math.exp(-0.5) * sum(0.5 ** k / math.factorial(k) for k in range(needed, 60)) > chance:
        needed += 1
    return 1 - math.exp(-mean) * sum(mean ** k / math.factorial(k) for k in range(needed))


def replaced_power(length, lg_sample, chance=0.05 / 5):
    """What the rate alone can tell where what is sampled may be replaced from one profile to the next: its error is a Poisson count's, all the
    more since nothing but the leak was there. What leaks does stay, so it is a random walk whose rate differs from the true one by less."""
    each = LEAK / 2 ** lg_sample
    middle = (length - 1) / 2
    weights = [(at - middle) / sum((k - middle) ** 2 for k in range(length)) for at in range(length)]
    supposed = math.sqrt(sum(weight ** 2 for weight in weights) * each * (length + 1) / 2)
    real = math.sqrt(each * sum(sum(weights[at:]) ** 2 for at in range(length)))
    normal = statistics.NormalDist()
    return normal.cdf((each - normal.inv_cdf(1 - chance) * supposed) / real)


def check_detection(folder, lg_sample, cache):
    series = sample(f"{folder}/leak-{lg_sample}", PROGRAM, ROUNDS, LEAK, SEED, lg_sample=lg_sample)
    print(f"detection: a leak of {LEAK} bytes an hour, {LEAK / 2 ** lg_sample:.1f} samples")
    powers, bounds, replaced_bounds = [], [], []
    for length in LENGTHS:
        found = trends([paths[:length] for paths in series], cache)
        caught = sum("site_leak" in sites and sites["site_leak"]["is_suspect"] for sites in found)
        blamed = sum(any(sites[name]["is_suspect"] for name in INNOCENT if name in sites) for sites in found)
        powers.append(caught / len(found))
        bounds.append(counting_power(length, lg_sample))
        replaced_bounds.append(replaced_power(length, lg_sample))
        print(f"  {length:2} profiles: found in {share(caught, len(found))} (counting: {100 * bounds[-1]:.1f}%, were objects replaced: "
              f"{100 * replaced_bounds[-1]:.1f}%), an innocent named in {share(blamed, len(found))}")
    return powers, bounds, replaced_bounds


def plot(curves, path):
    """`curves`: (label, colour, powers, bounds, replaced_bounds) each."""
    width, height, left, top = 560, 310, 60, 76
    x = lambda n: left + (n - LENGTHS[0]) / (LENGTHS[-1] - LENGTHS[0]) * (width - left - 20)
    y = lambda p: top + (1 - p) * (height - top - 40)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="system-ui,sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{left - 44}" y="20" font-size="14" font-weight="600">A leak of 1% of the heap an hour: how often it is found</text>',
             f'<text x="{left - 44}" y="37" fill="#656d76">by hourly profiles; dotted: if objects may be replaced; dashed: if known to stay</text>']
    for p in (0, 0.5, 1):
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(p):.1f}" y2="{y(p):.1f}" stroke="#d0d7de"/>'
                     f'<text x="{left - 8}" y="{y(p) + 4:.1f}" text-anchor="end" fill="#656d76">{p:.0%}</text>')
    for n in LENGTHS:
        lines.append(f'<text x="{x(n):.1f}" y="{height - 22}" text-anchor="middle" fill="#656d76">{n}</text>')
    lines.append(f'<text x="{(left + width - 20) / 2:g}" y="{height - 5}" text-anchor="middle" fill="#656d76">profiles</text>')
    for at, (label, colour, powers, bounds, replaced_bounds) in enumerate(curves):
        lines.append(f'<text x="{left - 44 + 250 * at}" y="54" fill="{colour}">{label}</text>')
        for values, style in ((bounds, 'stroke-dasharray="6 4"'), (replaced_bounds, 'stroke-dasharray="1.5 3"'), (powers, 'stroke-width="2"')):
            points = " ".join(f"{x(n):.1f},{y(p):.1f}" for n, p in zip(LENGTHS, values))
            lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" {style}/>')
        lines += [f'<circle cx="{x(n):.1f}" cy="{y(p):.1f}" r="3" fill="{colour}"/>' for n, p in zip(LENGTHS, powers)]
    pathlib.Path(path).write_text("\n".join(lines + ["</svg>"]) + "\n")


def cost(*command):
    """Seconds of processor time, and the peak memory in MiB."""
    process = subprocess.Popen([HEAPCTL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench_trend: heapctl {command[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def check_time(folder):
    """Of 256 sites; without a symbol cache, so that each of the two names all addresses once."""
    os.mkdir(f"{folder}/long")
    subprocess.run([SITES, f"{folder}/long", "1", "1000", str(SEED)], check=True,
                   env=dict(os.environ, MALLOC_CONF="prof:true,lg_prof_sample:12"))
    paths = [f"{folder}/long/0-{k:04d}.heap" for k in range(1000)]
    one, one_mib = min(cost("report", "--text", "--no-cache", paths[0]) for _ in range(5))
    many, many_mib = min(cost("trend", "--no-cache", *paths) for _ in range(3))
    print(f"time: a trend of 1,000 profiles takes {many:.1f} s of the processor and {many_mib:.0f} MiB, {many / one:.0f} times a report on one "
          f"and {many_mib / one_mib:.1f} times its memory; 1,000 reports would take 1,000 times")


def check_memory(folder, stacks=10000, profiles=100):
    """Of a big server: all of its stacks are in each profile, with other counts, as one in twenty of the lines has another."""
    os.mkdir(f"{folder}/big")
    text = subprocess.run([BUILD / "bench/write_profile", str(stacks)], capture_output=True, check=True, text=True).stdout
    stack = re.compile(r"^  t\*: (\d+): (\d+) (.*)$", re.MULTILINE)
    chance = random.Random(SEED)

    def grown(line):
        objects, size = int(line[1]), int(line[2]) // int(line[1])
        objects += chance.randrange(20) == 0
        return f"  t*: {objects}: {objects * size} {line[3]}"

    paths = [f"{folder}/big/{k:04d}.heap" for k in range(profiles)]
    for at, path in enumerate(paths):
        head, sign, text = text.partition("\n@")
        text = head + sign + stack.sub(grown, text)
        pathlib.Path(path).write_text(text)
        os.utime(path, (1763600000 + 3600 * at,) * 2)
    _, one = cost("report", "--text", "--no-cache", paths[0])
    _, two = cost("trend", "--no-cache", *paths[:2])
    _, many = cost("trend", "--no-cache", *paths)
    print(f"memory: {stacks} stacks take {one:.0f} MiB in a report, {two:.0f} MiB in a trend of 2 profiles and {many:.0f} MiB in one of "
          f"{profiles}: {(many - two) * 1048576 / (profiles - 2) / stacks:.0f} bytes for each further line")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-trend-") as folder:
        cache = folder + "/cache"
        # First: the memory of a child counts from that of this program, which grows.
        check_time(folder)
        check_memory(folder)
        print(f"{REPLICATES} replicates each")
        check_intervals(sample(f"{folder}/kinds", PROGRAM, 32, LEAK, SEED, "kinds"), cache)
        print("innocents: nothing leaks (promised: at most 5%)")
        check_innocents(sample(f"{folder}/none", PROGRAM, ROUNDS, 0, SEED), (4, 6, 12, 16), cache)
        check_innocents(sample(f"{folder}/sites", SITES, ROUNDS, SEED), (4, 6, 12, 16), cache)
        curves = [(f"as many samples as {size} have", colour, *check_detection(folder, lg_sample, cache))
                  for lg_sample, size, colour in ((12, "590 MiB", "#0969da"), (15, "74 MiB", "#bc4c00"))]
        if os.environ.get("BENCH_PLOT"):
            plot(curves, os.environ["BENCH_PLOT"])


if __name__ == "__main__":
    main()
