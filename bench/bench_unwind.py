#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of samples: time against libgcc's unwinder, cost and size of the tables, equality on real programs."""
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1])
ROUNDS = os.environ.get("BENCH_ROUNDS", "200")

PYTHON_WORK = """
import json, re, sqlite3, threading
def work():
    for i in range(200):
        json.loads(json.dumps([{'a': list(range(50)), 'b': 'x' * 100}] * 20))
        re.compile('a(b|c)*%d' % i).match('abcb')
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", PYTHON_WORK],
    "cc1": ["gcc", "-O2", "-c", "-o", "/dev/null", "bench/synthetic_profile.c", "-Isrc", "-D_GNU_SOURCE"],
    "perl": ["perl", "-e", "my %h; $h{$_} = 'x' x ($_ % 500) for 1..50000; print scalar(keys %h), qq(\\n)"],
}


FILES = ["bin/python3", "lib/postgresql/*/bin/postgres", "lib/jvm/*/lib/server/libjvm.so", "bin/node", "lib/*/libclickhouse.so.*",
         "bin/redis-server", "lib/*/libcrypto.so.3", "lib/*/libc.so.6", "lib/*/libstdc++.so.6", "sbin/mariadbd", "sbin/nginx", "sbin/kresd"]


def times():
    print("  frames   own ns   libgcc ns   ratio")
    for depth in (3, 18, 33):
        fields = subprocess.run([BUILD / "bench/unwind", str(depth), ROUNDS], capture_output=True, text=True,
                                check=True).stdout.split()
        frames, own, libgcc, built_us, rows, code = map(int, fields)
        print(f"  {frames:6} {own:8} {libgcc:11} {libgcc / own:7.1f}")
    print(f"  tables of the bench itself: {rows} rows of 8 bytes for {code / 1e6:.1f} MB of code in {built_us / 1000:.1f} ms")


def cover():
    print("  file                       MB of code   covered %     rows   ms per MB   bytes of rows per byte of code")
    for pattern in FILES:
        for file in sorted({path.resolve() for path in pathlib.Path("/usr").glob(pattern)}):
            out = subprocess.run([BUILD / "bench/unwind_cover", file], capture_output=True, text=True)
            if out.returncode != 0:
                print(f"  {file.name:26} has no table")
                continue
            rows, code, covered, built_us = map(int, out.stdout.split())
            print(f"  {file.name:26} {code / 1e6:10.2f} {100 * covered / code:11.3f} {rows:8} {built_us / 1e3 / (code / 1e6):11.2f}"
                  f" {8 * rows / code:8.2f}")


def equality():
    library = BUILD.resolve() / "tests/integration/libcompare_stacks.so"
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    print("  program      same  different  shorter  longer   own ns/stack  libgcc ns/stack")
    for name, command in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, LD_PRELOAD=f"{jemalloc} {library}", COMPARE_STACKS=f"{folder}/counts",
                               MALLOC_CONF="prof:true,lg_prof_sample:10")
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            total = [0] * 7
            for file in pathlib.Path(folder).iterdir():
                total = [a + int(b) for a, b in zip(total, file.read_text().split())]
        stacks = sum(total[:4])
        print(f"  {name:10} {total[0]:6} {total[1]:10} {total[2]:8} {total[3]:7} {total[4] / stacks:14.0f} {total[5] / stacks:16.0f}")


times()
cover()
equality()
