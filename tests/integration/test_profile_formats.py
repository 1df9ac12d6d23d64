# SPDX-License-Identifier: Apache-2.0
"""Profiles of real programs are read, and go's pprof and jeprof read what heapctl writes."""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from processes import BUILD, jemalloc_path, need

CONVERT = str(BUILD / "tests/integration/convert_profile")

# Frames with lines, an inlined function, recursion, a name that pprof would shorten if it guessed.
SYMBOLIZED = """--- symbol
binary=/usr/bin/server
0x1000 main
#line 0x1000\t/src/main.c:10
0x1fff serve--parse
#line 0x1fff\t/src/serve.c:20\t/src/parse.c:30
0x2fff std::vector<int>::push_back
#line 0x2fff\t/src/vector.h:40
---
--- heap
heap profile: 0: 0 [0: 0] @ heapprofile
3: 3000 [30: 30000] @ 0x3000 0x2000 0x1001
2: 500 [20: 5000] @ 0x3000 0x3000 0x1001
1: 7 [10: 70] @ 0x2000 0x1001
MAPPED_LIBRARIES:
00001000-00004000 r-xp 00000000 fe:00 1 /usr/bin/server
"""


def convert(form, path):
    return subprocess.run([CONVERT, form, str(path)], check=True, capture_output=True).stdout


def info(path):
    lines = convert("info", path).decode().splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def pprof_top(path, sample_index, folder):
    """Name to (flat, cumulative) in whole units, and the total, as go's pprof prints them."""
    environment = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, GOCACHE=folder, GOFLAGS="-mod=mod")
    text = subprocess.run(
        [need("go"), "tool", "pprof", "-top", "-nodefraction=0", "-edgefraction=0", "-nodecount=100000", "-symbolize=none",
         "-unit=" + ("B" if "space" in sample_index else "count"), "-sample_index=" + sample_index, str(path)],
        check=True, capture_output=True, env=environment, text=True).stdout
    total = re.search(r"of (-?\d+)\w* total", text)
    rows = {}
    for line in text.splitlines():
        row = re.match(r"\s*(-?\d+)\w*\s+\S+%\s+\S+%\s+(-?\d+)\w*\s+\S+%\s+(.*)", line)
        if row:
            rows[row[3]] = (int(row[1]), int(row[2]))
    return rows, int(total[1]) if total else None


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


class Go(WithFolder):
    def setUp(self):
        need("go")
        super().setUp()

    def test_pprof_agrees_on_every_figure(self):
        path = self.write("a.pb.gz", convert("pprof", self.write("a.sym", SYMBOLIZED)))
        expected = {
            "inuse_space": {"std::vector<int>::push_back": (3500, 3500), "parse (inline)": (7, 3007), "serve": (0, 3007), "main": (0, 3507)},
            "alloc_objects": {"std::vector<int>::push_back": (50, 50), "parse (inline)": (10, 40), "serve": (0, 40), "main": (0, 60)},
            "inuse_objects": {"std::vector<int>::push_back": (5, 5), "parse (inline)": (1, 4), "serve": (0, 4), "main": (0, 6)},
            "alloc_space": {"std::vector<int>::push_back": (35000, 35000), "parse (inline)": (70, 30070), "serve": (0, 30070), "main": (0, 35070)},
        }
        for index, rows in expected.items():
            with self.subTest(index):
                found, total = pprof_top(path, index, str(self.folder))
                # Newer versions keep template arguments, older ones cut them off.
                found = {re.sub(r"^std::vector::", "std::vector<int>::", name): row for name, row in found.items()}
                self.assertEqual(found, rows)
                self.assertEqual(total, rows["main"][1])

    def test_pprof_sees_types_mappings_and_the_default(self):
        path = self.write("a.pb.gz", convert("pprof", self.write("a.sym", SYMBOLIZED)))
        text = subprocess.run([need("go"), "tool", "pprof", "-raw", "-symbolize=none", str(path)], check=True, capture_output=True, text=True,
                              env=dict(os.environ, HOME=str(self.folder), GOCACHE=str(self.folder))).stdout
        self.assertIn("alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]", text)
        self.assertRegex(text, r"1: 0x1000/0x4000/0x0 /usr/bin/server.*\[FN\]\[FL\]\[LN\]\[IN\]")


class Jeprof(WithFolder):
    def setUp(self):
        need("jeprof")
        super().setUp()

    def jeprof(self, *arguments):
        environment = dict(os.environ, HOME=str(self.folder), JEPROF_TMPDIR=str(self.folder / "tmp"))
        return subprocess.run(["jeprof", "--text", "--show_bytes", *map(str, arguments)], check=True, capture_output=True, text=True, env=environment).stdout

    def test_jeprof_reads_the_symbolized_form(self):
        path = self.write("a.sym", convert("symbolized", self.write("in.sym", SYMBOLIZED)))
        text = self.jeprof(path)
        self.assertEqual(re.sub(r" +", " ", text).splitlines(), [
            "Total: 3507 B",
            " 3500 99.8% 99.8% 3500 99.8% std::vector::push_back",
            " 7 0.2% 100.0% 3007 85.7% parse (inline)",
            " 0 0.0% 100.0% 3507 100.0% main",
            " 0 0.0% 100.0% 3007 85.7% serve"])

    def test_names_survive_without_addresses(self):
        path = self.write("a.sym", convert("symbolized", self.write("in.txt", "main;serve;parse 100\nmain;serve 20\n")))
        text = self.jeprof(path)
        self.assertIn("Total: 120 B", text)
        self.assertRegex(text, r"\b20\s+16.7%\s+100.0%\s+120\s+100.0% serve")


class RealProgram(WithFolder):
    """A Python with threads under jemalloc, sampled at every 4 KiB."""

    def setUp(self):
        super().setUp()
        program = "import threading\nx = [str(i) * 10 for i in range(20000)]\n" \
                  "def f(): x.append([bytes(1000) for i in range(1000)])\n" \
                  "t = [threading.Thread(target=f) for i in range(3)]\n[i.start() for i in t]\n[i.join() for i in t]\n"
        environment = dict(os.environ, LD_PRELOAD=jemalloc_path(), PYTHONMALLOC="malloc",
                           MALLOC_CONF=f"prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{self.folder}/p")
        # The interpreter itself: a wrapper in front of it would be profiled instead.
        interpreter = os.path.realpath(f"{sys.base_prefix}/bin/python3")
        subprocess.run([interpreter, "-S", "-c", program], check=True, env=environment)
        self.profile = max(self.folder.glob("p.*.heap"), key=lambda path: path.stat().st_size)

    def test_is_read_completely(self):
        text = self.profile.read_text()
        found = info(self.profile)
        self.assertEqual(int(found["samples"]), text.count("\n@"))
        head = text.index("\n@")
        self.assertEqual(int(found["thread_samples"]), len(re.findall(r"^  t\d+:", text[head:], re.M)))
        self.assertEqual(int(found["threads"]), len(set(re.findall(r"^  (t\d+):", text, re.M))))
        self.assertEqual(int(found["locations"]), len(set(re.findall(r"0x[0-9a-f]+", text))))
        self.assertEqual(int(found["mappings"]), text[text.index("MAPPED_LIBRARIES"):].strip().count("\n"))
        self.assertEqual(found["interval"], "4096")
        self.assertEqual(found["program"], os.path.realpath(f"{sys.base_prefix}/bin/python3"))

    def test_comes_out_as_it_went_in(self):
        def stacks(text):
            # Mappings lose device and inode, which no reader uses.
            return text[:text.index(b"MAPPED_LIBRARIES")]
        self.assertEqual(stacks(convert("raw", self.profile)), stacks(self.profile.read_bytes()))

    def test_compressed_is_the_same(self):
        self.assertEqual(info(self.write("p.gz", gzip.compress(self.profile.read_bytes()))), info(self.profile))

    def test_go_pprof_sums_it_up_alike(self):
        need("go")
        text = self.profile.read_text()
        body = text[text.index("\n@"):]
        counts = [tuple(map(int, pair)) for pair in re.findall(r"^  t\*: (\d+): (\d+) ", body, re.M)]
        path = self.write("p.pb.gz", convert("pprof", self.profile))
        for index, expected in (("inuse_objects", sum(n for n, _ in counts)), ("inuse_space", sum(s for _, s in counts))):
            self.assertEqual(pprof_top(path, index, str(self.folder))[1], expected)


if __name__ == "__main__":
    unittest.main()
