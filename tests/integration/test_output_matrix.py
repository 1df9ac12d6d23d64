#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every output of every kind of profile, checked by a program that reads it or against figures counted here."""
import gzip
import html
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from processes import BUILD, HEAPCTL, SANITIZED, need

STORE = BUILD / "tests/integration/store"
CONVERT = BUILD / "tests/integration/convert_profile"

HEADER = "heap profile: 0: 0 [0: 0] @ heapprofile\n"
MAPPINGS = "\nMAPPED_LIBRARIES:\n00001000-00009000 r-xp 00000000 fe:00 1 /nowhere/server\n"
SYMBOLIZED = """--- symbol
binary=/nowhere/server
0x1000 main
#line 0x1000\t/src/main.c:10
0x1fff serve--parse
#line 0x1fff\t/src/serve.c:20\t/src/parse.c:30
---
--- heap
heap profile: 0: 0 [0: 0] @ heapprofile
3: 3000 [30: 30000] @ 0x2000 0x1001
1: 7 [10: 70] @ 0x1001
"""
JEMALLOC = """heap_v2/1
  t*: 4: 5000 [6: 9000]
  t1: 1: 1000 [2: 2000]
  t2: 3: 4000 [4: 7000] worker
@ 0x2000 0x1001
  t*: 3: 3000 [4: 5000]
  t1: 1: 1000 [2: 2000]
  t2: 2: 2000 [2: 3000]
@ 0x3000 0x1001
  t*: 1: 2000 [2: 4000]
  t2: 1: 2000 [2: 4000]
"""
# A contention profile's cycles are its nanoseconds here, and each delay was sampled.
CONTENTION = "--- contention:\ncycles/second = 1000000000\nsampling period = 1\n"
OUTPUTS = ("text", "collapsed", "callgrind", "dot", "svg", "ps", "pdf", "gif", "png", "raw", "flame", "flame-data", "pprof", "json", "tree",
           "list=.", "disasm=.", "weblist=.")
# By what the frames are merged.
SHAPES = ([], ["--addresses"], ["--lines"], ["--files"], ["--granularity=filefunctions"])


def cpu_profile(samples):
    words = [0, 3, 0, 10000, 0]
    for count, addresses in samples:
        words += [count, len(addresses), *addresses]
    return struct.pack(f"<{len(words) + 3}Q", *words, 0, 1, 0) + MAPPINGS.split("\n", 2)[2].encode()


def unsampled(data):
    """The bytes in use of a profile of jemalloc's."""
    interval = int(re.match(r"heap_v2/(\d+)", data)[1])
    lines = re.findall(r"^@.*\n\s+t\*: (\d+): (\d+)", data, re.M)
    return sum(int(size) / (1 - math.exp(-int(size) / int(count) / interval)) for count, size in lines if count != "0")


def synthetic(count):
    """As many stacks, of a byte each, through a few hundred functions."""
    lines = [f"f{i % 7};g{i % 211};h{i} 1" for i in range(count)]
    return "\n".join(lines) + "\n"


class Matrix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="heapctl-matrix-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.environment = dict(os.environ, HOME=str(cls.folder), XDG_CACHE_HOME=str(cls.folder / "cache"), GOCACHE=str(cls.folder / "go"),
                               JEPROF_TMPDIR=str(cls.folder / "jeprof"), PPROF_TMPDIR=str(cls.folder), NO_COLOR="1")

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)

    def tool(self, *arguments, **options):
        done = subprocess.run([*map(str, arguments)], capture_output=True, timeout=600, env=self.environment, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace")[-2000:])
        return done

    def real(self, program):
        """A profile of a real program, and what it should amount to."""
        heap = self.folder / f"{pathlib.Path(program).name}.heap"
        subprocess.run([program, heap, f"{heap}.later"], check=True,
                       env=dict(os.environ, MALLOC_CONF="prof:true,lg_prof_sample:0,prof_accum:true"))
        return str(heap), unsampled(heap.read_text())

    def report(self, output, shape, path, *, code=0):
        out = self.folder / "out"
        out.unlink(missing_ok=True)
        done = subprocess.run([HEAPCTL, "report", f"--{output}", *shape, "-o", str(out), *path], capture_output=True, timeout=120,
                              env=self.environment)
        if code is None:
            # Nothing to annotate is an error that says so.
            code = done.returncode
            self.assertIn(code, (0, 1), done.stderr)
            reasons = b"no function with figures", b"has source lines: ", b"came with the profile"
            self.assertTrue(code == 0 or any(reason in done.stderr for reason in reasons), done.stderr)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertNotIn(b"runtime error", done.stderr)
        return out.read_bytes() if code == 0 else done.stderr.decode()

    @staticmethod
    def has_reader(program):
        # A sanitizer changes no output: what reads it in the plain build takes as long again and finds nothing new.
        return not SANITIZED and shutil.which(program) is not None

    # The reader of an output, and the total that it finds there; None where it shows none.

    def read_text(self, data):
        text = data.decode()
        self.assertNotRegex(text, r"\b-?(nan|inf)\b")
        return float(re.match(r"Total(?: \(\w+\))?: (-?[\d.]+)", text)[1])

    def read_collapsed(self, data):
        lines = data.decode().splitlines()
        for line in lines:
            self.assertRegex(line, r"^.+ -?\d+$")
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines)

    def read_callgrind(self, data):
        path = self.write("callgrind.out", data)
        if self.has_reader("callgrind_annotate"):
            done = self.tool("callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", path)
            self.assertEqual(done.stderr, b"")
        flat = re.findall(rb"^\d+ (\d+)\n", re.sub(rb"calls=.*\n.*\n", b"", data), re.M)
        self.assertEqual(sum(map(int, flat)), int(re.search(rb"\ntotals: (\d+)\n", data)[1]))
        return sum(map(int, flat))

    def read_dot(self, data):
        if self.has_reader("dot"):
            self.assertEqual(self.tool("dot", "-Tplain", input=data).stderr, b"")
        self.assertNotRegex(data, rb"\bnan\b")

    def read_svg(self, data):
        self.assertTrue(xml.etree.ElementTree.fromstring(data).tag.endswith("svg"))
        self.assertNotRegex(data, rb"\bnan\b")

    def read_ps(self, data):
        self.assertTrue(data.startswith(b"%!PS"))

    def read_pdf(self, data):
        self.assertTrue(data.startswith(b"%PDF") and b"%%EOF" in data[-20:])

    def read_gif(self, data):
        self.assertTrue(data.startswith(b"GIF8") and data.endswith(b";"))

    def read_png(self, data):
        self.assertTrue(data.startswith(b"\x89PNG\r\n") and data.endswith(b"IEND\xaeB\x60\x82"))

    def read_raw(self, data):
        return self.again(self.write("raw", data))

    def again(self, path):
        """The total that heapctl finds in what it wrote."""
        return json.loads(self.report("json", [], [path]))["total"]["value"]

    def read_flame(self, data):
        text = data.decode()
        self.assertNotIn("NaN", text.split("</script>")[0][:400])
        found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
        return self.read_flame_data(html.unescape(found[1]))

    def read_flame_data(self, data):
        found = json.loads(data)
        if not found["counters"]:
            return 0
        counter = found["counters"][found["shown"]]
        return (counter["total"] - counter["base_total"])

    def read_pprof(self, data):
        path = self.write("pprof.pb.gz", data)
        gzip.decompress(data)
        if self.has_reader("go"):
            done = self.tool("go", "tool", "pprof", "-raw", "-symbolize=none", path)
            self.assertRegex(done.stdout, rb"PeriodType|Samples")
        return self.again(path)

    def read_json(self, data):
        found = json.loads(data, parse_constant=lambda word: self.fail(word))
        return found["total"]["value"]

    def read_tree(self, data):
        text = data.decode()
        self.assertNotRegex(text, r"\b-?(nan|inf)\b")
        return float(text.splitlines()[1].split()[0])

    def inputs(self, many):
        """Name, total that JSON should have, arguments."""
        def profile(name, total, data, *more):
            return name, total, [self.write(name, data), *more]

        store, total = self.real(STORE)
        stripped_program = self.folder / "stripped"
        self.tool("strip", "-s", "-o", stripped_program, STORE)
        stripped, stripped_total = self.real(stripped_program)
        symbolized = self.write("symbolized", SYMBOLIZED)
        jemalloc = self.write("jemalloc", JEMALLOC + MAPPINGS)
        yield "real", total, [store]
        yield "stripped", stripped_total, [stripped]
        yield "compared", 0, ["--base", store, store]
        yield "shrank", -total, ["--base", store, self.write("nothing", "heap_v2/1\n  t*: 0: 0 [0: 0]\n" + MAPPINGS)]
        yield "symbolized", 3007, [symbolized]
        yield "symbolized, less", 3007 - 3000, ["--base", self.write("base", SYMBOLIZED.rsplit("1: 7", 1)[0]), symbolized]
        yield "other figures", 40, ["--alloc_objects", symbolized]
        yield "nothing left by a filter", 0, ["--focus=no such thing", symbolized]
        yield "jemalloc", 5000, [jemalloc]
        yield "a thread", 4000, ["--thread=2", jemalloc]
        yield profile("without mappings", 5000, JEMALLOC)
        yield profile("gperftools", 3007, HEADER + SYMBOLIZED.split("heapprofile\n")[1] + MAPPINGS)
        yield profile("one stack", 7, HEADER + "1: 7 [1: 7] @ 0x1001\n" + MAPPINGS)
        yield profile("no frames", 7, HEADER + "1: 7 [1: 7] @\n" + MAPPINGS)
        yield profile("no frames of jemalloc", 7, "heap_v2/1\n  t*: 1: 7 [1: 7]\n@\n  t*: 1: 7 [1: 7]\n")
        yield profile("empty", 0, "heap_v2/524288\n  t*: 0: 0 [0: 0]\n" + MAPPINGS)
        yield profile("empty of threads", 0, "heap_v2/524288\n  t*: 0: 0 [0: 0]\n  t1: 0: 0 [0: 0]\n" + MAPPINGS, "--thread=1")
        yield profile("empty gperftools", 0, HEADER + MAPPINGS)
        yield profile("empty symbolized", 0, "--- symbol\nbinary=/nowhere/server\n---\n--- heap\n" + HEADER)
        yield profile("empty without mappings", 0, "heap_v2/524288\n  t*: 0: 0 [0: 0]\n")
        yield "empty, of pprof", 0, [self.convert("pprof", self.write("empty", HEADER + MAPPINGS))]
        yield "pprof", 3007, [self.convert("pprof", symbolized)]
        yield profile("collapsed", 120, "main;serve;parse 100\nmain;serve 20\n")
        yield profile("negative", 80, "main;serve;parse 100\nmain;serve -20\n")
        yield profile("collapsed, hostile names", 7, 'a"b;<c>\\N;fn=(1) x 7\n')
        yield profile("cpu", 5, cpu_profile([(3, [0x2000, 0x1001]), (2, [0x1001])]))
        yield profile("empty cpu", 0, cpu_profile([]))
        yield profile("contention", 21.9e9, CONTENTION + "21780000000 12 @ 0x2000 0x1001\n120000000 1 @ 0x1001\n" + MAPPINGS)
        yield profile("empty contention", 0, CONTENTION + MAPPINGS)
        yield profile("growth", 3000, HEADER.replace("heapprofile", "growth") + "3: 3000 [3: 3000] @ 0x2000 0x1001\n" + MAPPINGS)
        yield profile("many stacks", many, synthetic(many))

    def convert(self, form, path):
        return self.write(os.path.basename(path) + ".converted", self.tool(CONVERT, form, path).stdout)

    def test_every_output_of_every_profile(self):
        # More than any output shows. test_report has the costs of larger profiles.
        for name, total, arguments in self.inputs(many=1000 if SANITIZED else 10000):
            for output in OUTPUTS:
                with self.subTest(name, output=output):
                    self.check(output, total, arguments)

    def test_every_granularity_of_every_profile(self):
        outputs = ("text", "collapsed", "callgrind", "tree", "flame-data", "json")
        # Ten times as many take a minute more, nearly all of it in callgrind_annotate.
        for turn, (name, total, arguments) in enumerate(self.inputs(many=1000 if SANITIZED else 10000), os.getpid()):
            for column, output in enumerate(outputs):
                # Under a sanitizer each pair of profile, output and shape in each run; which ones come together, another run changes.
                for shape in [SHAPES[(turn + column) % len(SHAPES)]] if SANITIZED else SHAPES:
                    with self.subTest(name, output=output, shape=shape):
                        self.check(output, total, arguments, shape)
            for output in ("tree", "flame-data"):
                with self.subTest(name, output=output, shape="--inverted"):
                    self.check(output, total, arguments, ["--inverted"])

    def check(self, output, total, arguments, shape=()):
        shape = ["--show_bytes", *shape]
        is_difference = "--base" in arguments
        if is_difference and output == "raw":
            self.assertIn("cannot hold a difference", self.report(output, shape, arguments, code=2))
            return
        is_heap = not any(word.endswith(("cpu", "contention")) for word in arguments)
        if output == "raw" and not is_heap:
            self.assertIn("add --pprof", self.report(output, shape, arguments, code=1))
            return
        # Without files all its frames are one.
        has_less = arguments[-1].endswith("negative") and "--files" not in shape
        if (total < 0 or has_less) and output == "callgrind":
            self.assertIn("--drop_negative", self.report(output, shape, arguments, code=2))
            shape.append("--drop_negative")
            total = 100 if has_less else 0
        if has_less and output == "raw":
            self.assertIn("add --drop_negative", self.report(output, shape, arguments, code=1))
            shape.append("--drop_negative")
            total = 100
        if "=" in output:
            self.report(output, shape, arguments, code=None)
            return
        data = self.report(output, shape, arguments)
        if output == "text" and total == 0 and not is_difference and not any("--focus" in word for word in arguments):
            self.assertEqual(data, b"")  # as jeprof does
            return
        found = getattr(self, "read_" + output.replace("-", "_"))(data)
        if "contention" in arguments[-1] and output in ("text", "tree"):
            found *= 1e9  # they show seconds
        # A text begins with what was read, a page has all figures: of a filter and of a counter both know more.
        if found is not None and not any(word.startswith(("--focus", "--alloc")) for word in arguments):
            self.assertAlmostEqual(found, total, delta=0.01 * abs(total))


if __name__ == "__main__":
    unittest.main()
