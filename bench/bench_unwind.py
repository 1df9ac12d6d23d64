#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of samples: time and instructions against libgcc's unwinder, cost and size of the tables, equality on real programs."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/support"))
from clickhouse import ClickHouse
from sampled_servers import SERVERS

BUILD = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = os.environ.get("BENCH_ROUNDS", "200")
PARTS = os.environ.get("BENCH_PARTS", "times instructions cover equality").split()

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
JAVA_WORK = """
import java.util.zip.*;
public class Work {
    public static void main(String[] a) throws Exception {
        for (int i = 0; i < 3000; i++) {
            Deflater d = new Deflater(i % 9); d.setInput(new byte[50000]); d.finish(); d.deflate(new byte[60000]); d.end();
            new Thread(() -> { java.nio.ByteBuffer.allocateDirect(5000); }).start();
        }
    }
}
"""
NODE_WORK = """
const zlib = require('zlib'), crypto = require('crypto');
for (let i = 0; i < 4000; i++) { zlib.deflateSync(Buffer.alloc(20000, i)); crypto.createHash('sha256').update('x' + i).digest(); JSON.parse('[' + i + ']'); }
"""
CXX_WORK = """
#include <map>
#include <stdexcept>
#include <string>
static int fall(int depth) { std::string text(depth * 50 + 40, 'x'); return depth == 0 ? throw std::runtime_error(text) : fall(depth - 1) + (int)text.size(); }
int main() {
    std::map<int, std::string> kept;
    for (int i = 0; i < 20000; i++) { try { fall(i % 20); } catch (const std::exception &e) { kept[i % 1000] = e.what(); } }
    return kept.size() == 1000 ? 0 : 1;
}
"""
PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", PYTHON_WORK],
    "cc1": ["gcc", "-O2", "-c", "-o", "/dev/null", str(SOURCE / "bench/synthetic_profile.c"), f"-I{SOURCE}/src", "-D_GNU_SOURCE"],
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


def instructions():
    """What sampling adds, all of it, of a program whose blocks are all sampled alike: the agent, which is there in all three, counts in none."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("  instructions of a sample: valgrind is not installed")
        return
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "work.cc").write_text(CXX_WORK)
        subprocess.run(["g++", "-O2", "-o", "work", "work.cc"], check=True, cwd=folder)
        for name, active, unwinder in (("none", "false", {}), ("jemalloc", "true", {"HEAPCTL_UNWINDER": "jemalloc"}), ("heapctl", "true", {})):
            environment = dict(os.environ, LD_PRELOAD=f"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 {BUILD / 'src/agent/libheapctl.so'}", HEAPCTL_DIR=folder,
                               MALLOC_CONF=f"prof:true,prof_active:{active},lg_prof_sample:10", **unwinder)
            # The agent's thread gets its turn.
            subprocess.run([valgrind, "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={folder}/{name}", "./work"], cwd=folder,
                           env=environment, check=True, capture_output=True)
            counts[name] = next(int(line.split()[1]) for line in pathlib.Path(folder, name).read_text().splitlines() if line.startswith("totals:"))
    by_jemalloc, by_heapctl = (counts[name] - counts["none"] for name in ("jemalloc", "heapctl"))
    print(f"  instructions that samples of jemalloc add to a C++ program with exceptions: {by_jemalloc / 1e6:.0f} million with libgcc's unwinder,"
          f" {by_heapctl / 1e6:.0f} million with heapctl's: {by_jemalloc / by_heapctl:.1f}x", flush=True)


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


# How often the load of a test is taken.
SERVER_BATCHES = {"Redis": 300, "PostgreSQL": 300}


def compared(folder):
    """The environment in which each stack of jemalloc's is taken by both unwinders, and what they were found to be."""
    library = BUILD.resolve() / "tests/integration/libcompare_stacks.so"
    counts = pathlib.Path(folder, "counts")
    counts.mkdir()
    # A server may run as another user.
    counts.chmod(0o777)
    return counts, dict(LD_PRELOAD=f"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 {library}", COMPARE_STACKS=f"{counts}/of",
                        MALLOC_CONF="prof:true,lg_prof_sample:10")


def run_program(command):
    def run(folder, environment):
        subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=folder)
    return run


def run_server(name):
    def run(folder, environment):
        server = SERVERS[name](folder)
        server.prepare()
        words = server.command()
        # Not what makes it another user's: glibc ends a process whose threads have other rights.
        before = len(server.as_user()) if hasattr(server, "as_user") and "--reuid=65534" in words else 0
        server.command = lambda: [*words[:before], "env", *(f"{key}={value}" for key, value in environment.items()), *words[before:]]
        server.start()
        try:
            server.load(SERVER_BATCHES[name])
        finally:
            server.stop()
    return run


def run_clickhouse(folder, environment):
    server = ClickHouse(folder)
    server.start(**environment)
    try:
        for _ in range(10):
            server.ask("SELECT number % 100, groupArray(toString(number)), uniq(number) FROM (SELECT * FROM system.numbers LIMIT 200000) GROUP BY number % 100")
    finally:
        server.stop()


def run_compiled(name, text, compiler, command):
    def run(folder, environment):
        pathlib.Path(folder, name).write_text(text)
        subprocess.run(compiler, check=True, cwd=folder)
        run_program(command)(folder, environment)
    return run


def equality():
    """Just-in-time code has no rules that libgcc could follow, so its stacks may end early, and ours be longer."""
    programs = {name: run_program(command) for name, command in PROGRAMS.items()}
    programs["C++, exceptions"] = run_compiled("work.cc", CXX_WORK, ["g++", "-O2", "-o", "work", "work.cc"], ["./work"])
    programs |= {name: run_server(name) for name in SERVER_BATCHES if SERVERS[name].is_installed()}
    if shutil.which("clickhouse-server"):
        programs["ClickHouse"] = run_clickhouse
    if shutil.which("node"):
        programs["node"] = run_program(["node", "-e", NODE_WORK])
    if shutil.which("javac"):
        programs["java"] = run_compiled("Work.java", JAVA_WORK, ["javac", "Work.java"], ["java", "-Xint", "Work"])
    print("  program              same  different  shorter  longer   own ns/stack  libgcc ns/stack")
    for name, run in programs.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o711)
            counts, environment = compared(folder)
            try:
                run(folder, environment)
            except (subprocess.CalledProcessError, RuntimeError) as problem:
                print(f"  {name:16} failed: {problem}")
                continue
            total = [0] * 7
            for file in counts.iterdir():
                total = [a + int(b) for a, b in zip(total, file.read_text().split())]
        stacks = sum(total[:4])
        print(f"  {name:16} {total[0]:8} {total[1]:10} {total[2]:8} {total[3]:7} {total[4] / stacks:14.0f} {total[5] / stacks:16.0f}", flush=True)


for part, measure in {"times": times, "instructions": instructions, "cover": cover, "equality": equality}.items():
    if part in PARTS:
        measure()
