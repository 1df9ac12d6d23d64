#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The promises of `heapctl trend`, checked by a second generator that was not used to tune them: bench/trend_kinds.c simulates heaps object by
object, by no code of bench_trend.py's programs, and gives them to the real trend_build.

For each kind of heap and number of profiles, with binomial errors:

- held: how often the 95% interval of the growth contains the truth (of the same line, or line from an onset on, through the bytes really in use);
- innocent: how many trends of three such sites suspect one that does not grow (of three sites, two of which are innocent, where one leaks);
- found: how often the one that leaks is suspected;
- words: how often the right ones are said, and what was said instead.

The kinds of the set "fixed" were used while the statistics were made, to find defects. Those of "held-out" were not: they are other kinds,
and each replicate draws sizes, levels, lifetimes and moments of its own. One look at another seed found a defect (what is noise of large objects);
the figures are of a seed that was not used before.

BENCH_REPLICATES (default 400), BENCH_SEED (default 1; the held-out kinds take the tenth after it), BENCH_KIND (all) and BENCH_PLOT, a file for the plot
of how often an onset is found.
"""
import math
import os
import pathlib
import statistics
import subprocess
import sys

PROGRAM = pathlib.Path(sys.argv[1]) / "bench/trend_kinds"
REPLICATES = int(os.environ.get("BENCH_REPLICATES", "400"))
SEED = int(os.environ.get("BENCH_SEED", "1"))
WORDS = ["no growth", "steady", "since hour N", "step", "cycle", "falling"]


def rows(group, seed):
    only = [os.environ["BENCH_KIND"]] if "BENCH_KIND" in os.environ else []
    with subprocess.Popen([PROGRAM, str(REPLICATES), str(seed), group, *only], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            name, text, *numbers = line.rstrip("\n").split("\t")
            yield name, text, *map(int, numbers)
    if process.returncode != 0:
        sys.exit(f"bench_trend_kinds: trend_kinds failed with {process.returncode}")


def share(count, of):
    error = math.sqrt(max(count, 1) * max(of - count, 1) / of) / of
    return f"{100 * count / of:5.1f} ± {100 * error:.1f}"


def check(title, group, seed):
    print(f"\n{title}, in percent of {REPLICATES} trends\n{'kind':40}{'profiles':>8}{'held':>13}{'innocent':>13}{'found':>13}{'right words':>13}  else")
    for _, text, profiles, trends, held, innocent, found, right, *words, ended, goes_on, stepped in rows(group, seed):
        said = ", ".join(f"{word} {100 * count / trends:.0f}" for count, word in sorted(zip(words, WORDS), reverse=True) if count > 0)
        print(f"{text:40}{profiles:8}{share(held, trends):>13}{share(innocent, trends):>13}"
              f"{share(found, trends) if found >= 0 else '':>13}{share(right, trends):>13}  {said}"
              + (f" (ended {100 * ended / trends:.0f}, still growing {100 * goes_on / trends:.0f}, a step beside it {100 * stepped / trends:.0f})" if found >= 0 else ""), flush=True)


def allowed(length, level, leak, lifetime=3, chance=0.05 / 3):
    """The power of the best test that is told which site leaks, since when, and how long its objects live: generalized least squares, in samples.
    All that it does not know is which objects were sampled, and how many come and go."""
    hours = range(length)
    course = [max(hour - (length - 1) / 2, 0) for hour in hours]
    kept = math.exp(-1 / lifetime)

    def white(column):
        """Of a level that forgets: the first as it is, then what is new."""
        return [(column[0] if at == 0 else (column[at] - kept * column[at - 1]) / math.sqrt(1 - kept * kept)) / math.sqrt(level) for at in hours]
    ones, line = white([1] * length), white(course)
    both, square = sum(x * y for x, y in zip(ones, line)), sum(x * x for x in ones)
    signal = leak * math.sqrt(sum(x * x for x in line) - both * both / square)
    normal = statistics.NormalDist()
    return normal.cdf(signal - normal.inv_cdf(1 - chance))


def check_onset():
    curves = {}
    print(f"\na leak that begins in the middle, below 64 samples of traffic (3 h): found, in percent of {REPLICATES} trends")
    for name, _, profiles, trends, _, _, found, _, *words, _, _, _ in rows("onset", SEED):
        leak = int(name.rpartition("-")[2])
        curves.setdefault(leak, []).append((profiles, found / trends, allowed(profiles, 64, leak)))
        print(f"{leak:3} samples an hour, {profiles:2} profiles: {share(found, trends)} (sampling alone allows {100 * curves[leak][-1][2]:.1f}); "
              f"since hour N is said in {share(words[2], trends)}", flush=True)
    return {leak: sorted(points) for leak, points in curves.items()}


def plot(curves, path):
    width, height, left, top = 560, 310, 60, 76
    lengths = [point[0] for point in next(iter(curves.values()))]
    x = lambda n: left + (n - lengths[0]) / (lengths[-1] - lengths[0]) * (width - left - 20)
    y = lambda p: top + (1 - p) * (height - top - 40)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="system-ui,sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>',
             f'<text x="{left - 44}" y="20" font-size="14" font-weight="600">A leak that begins in the middle: how often it is found</text>',
             f'<text x="{left - 44}" y="37" fill="#656d76">hourly profiles of 3 sites; dashed: a test that knows site and onset</text>']
    for p in (0, 0.5, 1):
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(p):.1f}" y2="{y(p):.1f}" stroke="#d0d7de"/>'
                     f'<text x="{left - 8}" y="{y(p) + 4:.1f}" text-anchor="end" fill="#656d76">{p:.0%}</text>')
    for n in lengths:
        lines.append(f'<text x="{x(n):.1f}" y="{height - 22}" text-anchor="middle" fill="#656d76">{n}</text>')
    lines.append(f'<text x="{(left + width - 20) / 2:g}" y="{height - 5}" text-anchor="middle" fill="#656d76">profiles</text>')
    for at, (leak, points) in enumerate(curves.items()):
        colour = ("#0969da", "#bc4c00")[at % 2]
        lines.append(f'<text x="{left - 44 + 250 * at}" y="54" fill="{colour}">{leak / 2:g} MiB/h below 32 MiB that come and go</text>')
        for column, style in ((2, 'stroke-dasharray="6 4"'), (1, 'stroke-width="2"')):
            path_points = " ".join(f"{x(point[0]):.1f},{y(point[column]):.1f}" for point in points)
            lines.append(f'<polyline points="{path_points}" fill="none" stroke="{colour}" {style}/>')
        lines += [f'<circle cx="{x(point[0]):.1f}" cy="{y(point[1]):.1f}" r="3" fill="{colour}"/>' for point in points]
    pathlib.Path(path).write_text("\n".join(lines + ["</svg>"]) + "\n")


def main():
    check("held-out kinds", "held-out", SEED + 10)
    check("held-out kinds of many profiles", "long", SEED + 10)
    check("kinds that were used", "fixed", SEED)
    if "BENCH_KIND" not in os.environ:
        curves = check_onset()
        if os.environ.get("BENCH_PLOT"):
            plot(curves, os.environ["BENCH_PLOT"])


if __name__ == "__main__":
    main()
