#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The symbolizer against llvm-symbolizer and addr2line on the largest debug files that Debian has.

The same random addresses of the code go to every tool, with inlined calls and demangling; then the frames are compared
by their linkage names, and every difference is explained or shown. The packages (400 MB) are downloaded once into
$BENCH_SYMBOL_FOLDER, else into a temporary folder that is removed afterwards.
"""
import collections
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import symbol_oracles as oracles  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
TOOL = str(BUILD / "tests/integration/symbolize")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
# Package, and how to know its largest debug file.
PACKAGES = {"ceph-mon-dbg": "ceph-mon", "openjdk-17-dbg": "libjvm"}
SHOWN = 5


def fetch(package, folder):
    """The largest debug file of a package, its sections decompressed, so that every tool starts from the same."""
    plain = os.path.join(folder, package + ".debug")
    if os.path.exists(plain):
        return plain
    subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    archive = next(pathlib.Path(folder).glob(package + "_*.deb"))
    unpacked = os.path.join(folder, package)
    subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
    largest = max(pathlib.Path(unpacked).rglob("*.debug"), key=lambda path: path.stat().st_size)
    subprocess.run(["objcopy", "--decompress-debug-sections", largest, plain], check=True)
    archive.unlink()
    return plain


def code_addresses(path, count):
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    start, size = (int(field, 16) for field in re.search(r" \.text\s+\w+\s+(\w+)\s+\w+\s+(\w+)", sections).groups())
    chooser = random.Random(1)
    return [start + chooser.randrange(size) for _ in range(count)]


def measure(command, addresses):
    """(seconds, seconds of processor, MiB): the best of some runs."""
    best, busy, memory = None, None, 0
    with tempfile.TemporaryFile("w+") as given:
        given.write(oracles.text(addresses))
        given.flush()
        for _ in range(ROUNDS):
            given.seek(0)
            started = time.monotonic()
            process = subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            elapsed = time.monotonic() - started
            best = elapsed if best is None else min(best, elapsed)
            used = usage.ru_utime + usage.ru_stime
            busy = used if busy is None else min(busy, used)
            memory = usage.ru_maxrss / 1024
    return best, busy, memory


def race(path, addresses, cache):
    tools = {
        "heapctl": [TOOL, "--text", path, "-"],
        "heapctl, one thread": [TOOL, "--text", "--threads", "1", path, "-"],
        "heapctl, cached": [TOOL, "--text", "--cache-dir", cache, path, "-"],
        "llvm-symbolizer": ["llvm-symbolizer", f"--obj={path}", "--inlines", "--demangle"],
        "addr2line": ["addr2line", "-f", "-i", "-C", "-e", path],
    }
    subprocess.run([TOOL, "--brief", "--cache-dir", cache, path, "-"], input=oracles.text(addresses), text=True,
                   stdout=subprocess.DEVNULL, check=True)
    mine = None
    for name, command in tools.items():
        seconds, busy, memory = measure(command, addresses)
        if mine is None:
            mine = seconds, busy
        print(f"{len(addresses):6} addresses  {name:20} {seconds * 1000:7.0f} ms {seconds / mine[0]:6.1f} x   processor "
              f"{busy * 1000:7.0f} ms {busy / mine[1]:6.1f} x  {memory:6.0f} MiB")


def symbol_starts(path):
    starts = collections.defaultdict(set)
    for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        if len(fields) == 3:
            starts[oracles.plain_name(fields[2])].add(fields[0])
    return starts


def demangled(names):
    """The readable form of each name."""
    names = sorted(set(names))
    run = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, run.stdout.split("\n")))


def source_name(name):
    """'swap' of 'swap<int>': compilers write the text in the brackets in different ways."""
    return name if name.startswith("operator") else name.split("<")[0]


def explain_names(mine, other, starts, readable):
    """Why frames that agree in their places differ in names: a reason for each, or None."""
    reasons = set()
    for position, ((name, *_), (theirs, *_)) in enumerate(zip(mine, other)):
        name, theirs = oracles.plain_name(name), oracles.plain_name(theirs)
        if name == theirs:
            continue
        if starts[name] & starts[theirs]:
            reasons.add("two names of one function, merged by the compiler")
        elif name.startswith("_Z") and not theirs.startswith("_Z") and source_name(theirs) in readable[name]:
            reasons.add("DWARF has a local function's name in the source only; heapctl tells the symbol's")
        elif position == 0 and len(mine) > 1 and theirs == oracles.plain_name(mine[-1][0]):
            reasons.add("an inlined function without a linkage name; the other tool tells the symbol around it")
        else:
            return None
    return ", ".join(sorted(reasons))


def explain(why, mine, other, agreed, starts, readable):
    """Why the frames differ; None without an explanation."""
    if not any(name for name, _, _ in oracles.known(mine)):
        return "it lies in no function; the other tool takes the function before it"
    if why == "name" and (reason := explain_names(mine, other, starts, readable)):
        return reason
    if agreed:
        return f"{why}: the third tool agrees with heapctl"
    return None


def compare(path, addresses):
    starts = symbol_starts(path)
    mine, _ = oracles.ours(TOOL, path, addresses)
    readable = demangled(oracles.plain_name(name) for frames in mine for name, _, _ in frames)
    others = {"llvm-symbolizer": oracles.llvm(path, addresses), "addr2line": oracles.addr2line(path, addresses)}
    for name, answers in others.items():
        third = others["addr2line" if name == "llvm-symbolizer" else "llvm-symbolizer"]
        agreed = {address: oracles.difference(a, b) is None for address, a, b in zip(addresses, mine, third)}
        reasons = collections.Counter()
        for address, why, a, b in oracles.differences(addresses, mine, answers):
            reason = explain(why, oracles.known(a), oracles.known(b), agreed[address], starts, readable)
            reasons[reason or f"UNEXPLAINED: {why}"] += 1
            if reason is None and reasons[f"UNEXPLAINED: {why}"] <= SHOWN:
                print(f"    {address:#x}: {why}\n        heapctl: {a}\n        {name}: {b}")
        print(f"frames against {name}: {len(addresses) - sum(reasons.values())} of {len(addresses)} the same")
        for reason, count in reasons.most_common():
            print(f"    {count:5} {reason}")


def main():
    kept = os.environ.get("BENCH_SYMBOL_FOLDER")
    with tempfile.TemporaryDirectory(prefix="hc-bench-") as temporary:
        folder = kept or temporary
        os.makedirs(folder, exist_ok=True)
        for package, name in PACKAGES.items():
            try:
                path = fetch(package, folder)
            except subprocess.CalledProcessError as failure:
                print(f"{package}: not measured, it cannot be had here ({failure})")
                continue
            print(f"{name}: {os.path.getsize(path) / 2**20:.0f} MiB")
            for count in (1000, 10000):
                race(path, code_addresses(path, count), os.path.join(temporary, f"cache-{count}"))
            compare(path, code_addresses(path, 10000))


main()
