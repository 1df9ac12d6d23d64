#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real profiles of real programs: heapctl's figures are jeprof's wherever jeprof's names are right.

For each function that jeprof prints, flat and cumulative bytes must be ours. Where they are not, one of two rules must explain
it, and an independent oracle must say that we are right:

 names  the two name some address differently, and addr2line, or a symbol that really covers the address, agrees with us
        (jeprof takes the nearest symbol below, whatever its size, and gives inlined functions their caller's name);
 cut    jeprof did not recognise a frame of the allocator's library, which has no names for its inner functions, so the stack
        does not end where it should.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jeprof_oracle as jeprof
from processes import HEAPCTL, free_port, jemalloc_path, need, wait_until


def profiled(folder, name, lg_sample, *options):
    """The environment of a program that writes profiles NAME.* into the folder."""
    conf = ["prof:true", f"lg_prof_sample:{lg_sample}", "prof_accum:true", f"prof_prefix:{folder}/{name}", *options]
    return dict(os.environ, LD_PRELOAD=jemalloc_path(), MALLOC_CONF=",".join(conf), LC_ALL="C", PERL5OPT="", PYTHONHASHSEED="0")


def biggest(folder, name):
    return max(pathlib.Path(folder).glob(name + ".*.heap"), key=lambda path: path.stat().st_size)


class Comparison:
    def __init__(self, program, path, counter):
        self.program, self.path, self.counter = str(program), str(path), counter
        self.profile = jeprof.Profile(path, counter)
        self.jeprof_names = self.read_jeprof_names()
        self.our_names = self.read_our_names()
        self.frames_of = self.index_frames()
        self.problems, self.explained, self.equal = [], [], 0

    def jeprof(self, *options):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "MALLOC_CONF")}
        return jeprof.rows(subprocess.run(["jeprof", "--text", "--show_bytes", "--" + self.counter, *options, self.program, self.path],
                                          text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, env=env).stdout)

    def ours(self, *options):
        """Under jeprof's name, which cuts off what jeprof does: wrappers like zmalloc stay."""
        return subprocess.run(["jeprof", "--show_bytes", "--" + self.counter, *options, self.program, self.path],
                              executable=HEAPCTL, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout

    def read_jeprof_names(self):
        """For each address the bare names that jeprof has for it, and the one of its outermost function."""
        names = collections.defaultdict(lambda: {"all": set(), "outer": ""})
        for _, _, text in self.jeprof("--addresses")[1]:
            address, _, rest = re.sub(r" \(discriminator \d+\)", "", text).partition(" ")
            name = rest.rpartition(" ")[0] or rest
            entry = names[int(address, 16)]
            entry["all"].add(jeprof.bare(name))
            if not name.endswith("(inline)"):
                entry["outer"] = jeprof.bare(name)
        return names

    def read_our_names(self):
        """For each address its bare names, innermost first; () when it has none."""
        names = {}
        view = json.loads(self.ours("--json", "--addresses", "--no-prune"))
        for path in view["paths"]:
            for node in (view["nodes"][i] for i in path["nodes"]):
                function = jeprof.bare(node["function"])
                if not node["inlined"]:
                    chain = [function] if function else []
                else:
                    chain.insert(0, function)
                names[node["address"]] = tuple(chain)
        return names

    def is_same(self, address):
        ours = set(self.our_names.get(address, ()))
        theirs = self.jeprof_names[address]["all"] if address in self.jeprof_names else set()
        return ours == {name for name in theirs if name and not name.startswith("0x") and name != "??"}

    def is_ours_right(self, address):
        place = self.profile.place(address)
        ours = self.our_names.get(address, ())
        if place is None or not os.path.exists(place[0]):
            return ours == ()
        at = jeprof.vaddr(*place[:1], place[1])
        return at is None or ours in jeprof.oracle(place[0], at)

    def cuts(self, stack):
        """How many frames of the stack each of the two cuts off."""
        ours = theirs = 0
        for i, address in enumerate(stack):
            place = self.profile.place(address)
            outer = self.our_names.get(address, ())[-1:]
            if (place and jeprof.stripped(place[0])) or set(outer) & jeprof.ALLOCATOR:
                ours = i + 1
            key = self.their_key(stack, i)
            if key in self.jeprof_names and self.jeprof_names[key]["outer"] in jeprof.ALLOCATOR:
                theirs = i + 1
        return ours, theirs

    def their_key(self, stack, i):
        """What jeprof looked up for a frame: it does not step back from the leaf."""
        return stack[i] + 1 if i == 0 else stack[i]

    def index_frames(self):
        """For each bare name, of either, the frames that may be it: address, jeprof's key for it, and whether the stack is cut alike."""
        frames = collections.defaultdict(set)
        for stack, _ in self.profile.stacks:
            ours, theirs = self.cuts(stack)
            for i, address in enumerate(stack):
                key = self.their_key(stack, i)
                theirs_here = self.jeprof_names[key]["all"] if key in self.jeprof_names else set()
                for name in theirs_here.union(self.our_names.get(address, ())):
                    frames[name].add((address, key, ours == theirs))
        return frames

    def our_figures(self):
        """Flat and cumulative by bare name, from our names in the way of the model."""
        flat, cumulative = collections.Counter(), collections.Counter()
        for stack, value in self.profile.stacks:
            kept = stack[self.cuts(stack)[0]:]
            seen = set()
            for address in kept:
                seen.update(self.our_names.get(address, ()))
            for name in seen:
                cumulative[name] += value
            if kept and self.our_names.get(kept[0], ()):
                flat[self.our_names[kept[0]][0]] += value
        return flat, cumulative

    def explain(self, name):
        """Why the figures of a function differ; None when nothing does it."""
        reasons = set()
        for address, key, is_cut_alike in self.frames_of[name]:
            if not is_cut_alike:
                reasons.add("cut")
            if self.is_same(address) and key == address:
                continue
            if not self.is_ours_right(address):
                self.problems.append(f"{name}: {address:#x} is {self.our_names.get(address)}, and no oracle says so")
            reasons.add("names")
        return reasons or None

    def run(self):
        total, rows = self.jeprof()
        our_total, our_rows = jeprof.rows(self.ours("--text"))
        self.total, self.our_total = total, our_total
        flat, cumulative = self.our_figures()
        self.check_our_text(our_rows, flat)
        theirs_flat, theirs_cumulative = collections.Counter(), {}
        for f, c, name in rows:
            theirs_flat[jeprof.bare(name)] += f
            # Of several rows of one bare name only a lower bound follows.
            theirs_cumulative.setdefault(jeprof.bare(name), []).append(c)
        for name, values in theirs_cumulative.items():
            is_flat_equal = abs(flat[name] - theirs_flat[name]) <= len(values)
            is_cumulative_equal = (abs(cumulative[name] - values[0]) <= 1 if len(values) == 1 else
                                   max(values) - 1 <= cumulative[name] <= sum(values) + len(values))
            if is_flat_equal and is_cumulative_equal:
                self.equal += 1
                continue
            reasons = self.explain(name)
            if reasons is None:
                self.problems.append(f"{name}: flat {flat[name]:.1f} against {theirs_flat[name]}, "
                                     f"cumulative {cumulative[name]:.1f} against {values}")
            else:
                self.explained.append((name, sorted(reasons)))
        return self

    def check_our_text(self, our_rows, flat):
        """Our printed flat figures are those of the model."""
        printed = collections.Counter()
        count = collections.Counter()
        for f, _, name in our_rows:
            if not name.startswith("["):
                printed[jeprof.bare(name)] += f
                count[jeprof.bare(name)] += 1
        for name, value in flat.items():
            if abs(printed[name] - value) > count[name] + 1:
                self.problems.append(f"{name}: we print {printed[name]} flat, the model has {value:.1f}")


class TestAgainstJeprof(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need("jeprof")
        cls.folder = tempfile.mkdtemp(prefix="heapctl-jeprof-")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def compare(self, program, name, counter, min_equal):
        comparison = Comparison(os.path.realpath(program), biggest(self.folder, name), counter).run()
        self.assertAlmostEqual(comparison.total, comparison.our_total, delta=1)
        self.assertAlmostEqual(comparison.profile.total(), comparison.our_total, delta=1)
        self.assertEqual(comparison.problems, [])
        self.assertGreaterEqual(comparison.equal, min_equal,
                                f"too few figures to compare; explained: {comparison.explained[:10]}")
        print(f"{name}: {comparison.equal} functions the same, {len(comparison.explained)} explained", file=sys.stderr)

    def run_profiled(self, name, command, lg_sample, **options):
        subprocess.run(command, env=profiled(self.folder, name, lg_sample, "prof_final:true"), check=True, stdout=subprocess.DEVNULL,
                       cwd=self.folder, **options)

    def test_python(self):
        program = os.path.realpath(sys.executable)
        script = "import json, re, decimal; d = [json.loads(json.dumps({str(i): 'x' * i})) for i in range(2000)]"
        self.run_profiled("python", [program, "-S", "-c", script], 12)
        self.compare(program, "python", "alloc_space", 10)

    def test_perl(self):
        program = need("perl")
        self.run_profiled("perl", [program, "-e", 'my %h; $h{$_} = "x" x 100 for 1..40000; print join("", sort keys %h);'], 12)
        self.compare(program, "perl", "alloc_space", 10)

    def test_the_c_compiler(self):
        gcc = need("gcc")
        program = subprocess.run([gcc, "-print-prog-name=cc1"], text=True, capture_output=True, check=True).stdout.strip()
        source = pathlib.Path(self.folder, "many.c")
        source.write_text("".join(f"int f{i}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {i}; return s; }}\n"
                                  for i in range(300)))
        self.run_profiled("cc1", [program, "-quiet", "-O2", "-o", os.devnull, str(source)], 14)
        self.compare(program, "cc1", "alloc_space", 20)

    def test_sqlite(self):
        program = need("sqlite3")
        statements = ("create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) "
                      "insert into t select x, hex(randomblob(40)) from c; create index i on t(b); select count(*) from t;")
        self.run_profiled("sqlite", [program, ":memory:", statements], 12)
        self.compare(program, "sqlite", "alloc_space", 5)

    def test_redis(self):
        program, benchmark = need("redis-server"), need("redis-benchmark")
        port = free_port()
        env = profiled(self.folder, "redis", 12, "lg_prof_interval:22")
        with open(os.path.join(self.folder, "redis.log"), "w") as log:
            server = subprocess.Popen([program, "--port", str(port), "--save", "", "--dir", self.folder], env=env, stdout=log)
        try:
            wait_until(lambda: subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).returncode == 0, "redis")
            subprocess.run([benchmark, "-p", str(port), "-q", "-n", "20000", "-r", "20000", "-d", "200", "-t", "set,lpush,sadd"],
                           check=True, stdout=subprocess.DEVNULL)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        self.compare(program, "redis", "inuse_space", 20)

    def test_named(self):
        program = need("named")
        conf = pathlib.Path(self.folder, "named.conf")
        port = free_port()
        conf.write_text(f'options {{ directory "{self.folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; '
                        f'pid-file none; recursion no; session-keyfile "{self.folder}/key"; managed-keys-directory "{self.folder}"; }};\n'
                        'controls { };\n')
        env = profiled(self.folder, "named", 12, "prof_final:true")
        log = pathlib.Path(self.folder, "named.log")
        with log.open("w") as output:
            server = subprocess.Popen([program, "-g", "-n", "1", "-c", str(conf)], env=env, cwd=self.folder, stderr=output)
        try:
            wait_until(lambda: server.poll() is not None or " running\n" in log.read_text(), "named")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        self.compare(program, "named", "alloc_space", 20)


if __name__ == "__main__":
    unittest.main()
