#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The symbolizer, with the file and with its index, against llvm-symbolizer, binutils' addr2line and Rust's crate addr2line on the largest debug files that Debian has.

The same random addresses of the code go to every tool, with inlined calls and demangling, for the file as the archive has it
(its sections compressed) and with plain sections. The tools take turns, and each turn has its ratios: their median is
printed, with the smallest and the largest. Of a compressed file, rows that begin with "unpacking" are the libraries alone: the
sections that heapctl reads as wholes with libdeflate, on one thread and on two, and .debug_info with ISA-L, into memory that is used again;
what a tool would have over heapctl if it did nothing else is the largest possible gain. BENCH_ROUNDS (default 3) sets the number of turns, BENCH_ADDRESSES the numbers of
addresses ("1000 10000"), BENCH_PACKAGES the packages ("ceph-mon-dbg openjdk-17-dbg"). Then the frames are compared by their
linkage names, and every difference is explained or shown. A memory below the benchmark's own, some 20 to 110 MiB, does not show.
The packages (400 MB) are downloaded once into $BENCH_SYMBOL_FOLDER, else into a temporary folder that is removed afterwards.
"""
import collections
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import symbol_oracles as oracles  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
TOOL = str(BUILD / "tests/integration/symbolize")
UNPACK = str(BUILD / "bench/unpack_sections")
HEAPCTL = str(BUILD / "heapctl")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
COUNTS = [int(count) for count in os.environ.get("BENCH_ADDRESSES", "1000 10000").split()]
RUST_SOURCES = pathlib.Path(__file__).resolve().parent / "addr2line_rs"
CRATES = "/usr/share/cargo/registry"  # Debian's librust-*-dev
# Package, and what its largest debug file is of.
KNOWN = {"ceph-mon-dbg": "ceph-mon", "openjdk-17-dbg": "libjvm"}
PACKAGES = {package: KNOWN[package] for package in os.environ.get("BENCH_PACKAGES", " ".join(KNOWN)).split()}
SHOWN = 5


def fetch(package, folder):
    """The largest debug file of a package, as it is and with its sections decompressed."""
    packed, plain = (os.path.join(folder, f"{package}.{kind}.debug") for kind in ("packed", "plain"))
    if os.path.exists(plain):
        return packed, plain
    subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    archive = next(pathlib.Path(folder).glob(package + "_*.deb"))
    unpacked = os.path.join(folder, package)
    subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
    largest = max(pathlib.Path(unpacked).rglob("*.debug"), key=lambda path: path.stat().st_size)
    shutil.copyfile(largest, packed)
    shutil.rmtree(unpacked)
    archive.unlink()
    subprocess.run(["objcopy", "--decompress-debug-sections", packed, plain], check=True)
    return packed, plain


def build_rust_rival(folder):
    """The program around Rust's crate; None where it cannot be built."""
    sources = os.path.join(folder, "addr2line_rs")
    shutil.copytree(RUST_SOURCES, sources)
    # Not a cargo from elsewhere that is found first: the crates are of the age of Debian's.
    command = ["/usr/bin/cargo", "build", "--offline", "--release", "--quiet", "--config", 'source.crates-io.replace-with="debian"',
               "--config", f'source.debian.directory="{CRATES}"']
    environment = dict(os.environ, CARGO_HOME=os.path.join(folder, "cargo"), RUSTC="/usr/bin/rustc")
    try:
        subprocess.run(command, cwd=sources, env=environment, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        reason = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()[-1]
        print(f"addr2line (Rust): not measured, it cannot be built here ({reason})")
        return None
    return os.path.join(sources, "target/release/addr2line_rs")


def code_addresses(path, count):
    sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    start, size = (int(field, 16) for field in re.search(r" \.text\s+\w+\s+(\w+)\s+\w+\s+(\w+)", sections).groups())
    chooser = random.Random(1)
    return [start + chooser.randrange(size) for _ in range(count)]


def measure(command, addresses):
    """(seconds, seconds of processor, MiB) of one run."""
    with tempfile.TemporaryFile("w+") as given:
        given.write(oracles.text(addresses))
        given.seek(0)
        started = time.monotonic()
        process = subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def times(ratio):
    return f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def spread(values):
    return f"{times(statistics.median(values)):>5} ({times(min(values))}-{times(max(values))})"


def race(path, addresses, cache, rust_rival, is_packed):
    index = cache + ".index"
    subprocess.run([HEAPCTL, "symbols", "index", "-o", index, path], stderr=subprocess.DEVNULL, check=True)
    tools = {
        "heapctl": [TOOL, "--text", path, "-"],
        "heapctl, one thread": [TOOL, "--text", "--threads", "1", path, "-"],
        "heapctl, index": [TOOL, "--text", index, "-"],
        "heapctl, cached": [TOOL, "--text", "--cache-dir", cache, path, "-"],
        "llvm-symbolizer": ["llvm-symbolizer", f"--obj={path}", "--inlines", "--demangle"],
        "addr2line": ["addr2line", "-f", "-i", "-C", "-e", path],
    }
    if is_packed:
        tools["unpacking, one thread"] = [UNPACK, "1", path]
        tools["unpacking, two threads"] = [UNPACK, "2", path]
        tools["unpacking, .debug_info"] = [UNPACK, "stream", path]
    if rust_rival is not None:
        tools["addr2line (Rust)"] = [rust_rival, path]
    subprocess.run([TOOL, "--brief", "--cache-dir", cache, path, "-"], input=oracles.text(addresses), text=True,
                   stdout=subprocess.DEVNULL, check=True)
    rounds = [{name: measure(command, addresses) for name, command in tools.items()} for _ in range(ROUNDS)]
    print(f"index: {os.path.getsize(index) / 2**20:.1f} MiB")
    print(f"{len(addresses)} addresses: ms, and how many times heapctl's; ms of processor, and times; MiB, and times")
    for name in tools:
        parts = []
        for part, scale in ((0, 1000), (1, 1000), (2, 1)):
            ratios = [turn[name][part] / max(turn["heapctl"][part], 1e-3) for turn in rounds]
            parts.append(f"{statistics.median(turn[name][part] for turn in rounds) * scale:7.0f} {spread(ratios):20}")
        print(f"    {name:22} " + "".join(parts).rstrip())


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
        rust_rival = build_rust_rival(temporary)
        for package, name in PACKAGES.items():
            try:
                files = fetch(package, folder)
            except subprocess.CalledProcessError as failure:
                print(f"{package}: not measured, it cannot be had here ({failure})")
                continue
            for kind, path in zip(("as in the archive", "with plain sections"), files):
                print(f"{name} {kind}: {os.path.getsize(path) / 2**20:.0f} MiB")
                for count in COUNTS:
                    race(path, code_addresses(path, count), os.path.join(temporary, f"cache-{name}-{kind[:2]}-{count}"), rust_rival,
                         path == files[0])
            compare(path, code_addresses(path, max(COUNTS)))


main()
