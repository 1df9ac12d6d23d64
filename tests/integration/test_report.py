#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl report, heapctl diff and heapctl as jeprof, on a program whose heap is known to the byte."""
import contextlib
import ctypes
import fcntl
import gzip
import http.server
import json
import lzma
import os
import pathlib
import platform
import pty
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

from debug_file_server import DebugFileServer
from processes import AGENT, BUILD, HEAPCTL, SANITIZED, Case, free_port, need, wait_until
from sampled_profiles import pprof_with_file

STORE = BUILD / "tests/integration/store"
SOURCE = pathlib.Path(__file__).parent / "programs/store.c"
# What each function has after load() once; all of it is recorded at lg_prof_sample:0.
INDEX, TABLE = 4096, 3 * 8192


def is_open(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def run(*arguments, program=HEAPCTL, code=0, **options):
    options.setdefault("env", dict(os.environ, XDG_CACHE_HOME=os.path.join(Report.folder, "cache"), HOME=Report.folder))
    result = subprocess.run([program, *map(str, arguments)], capture_output=True, timeout=120, **options)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: exit code {result.returncode}\n{result.stdout!r}\n{result.stderr.decode()}")
    return result


def text(*arguments, **options):
    return run(*arguments, **options).stdout.decode()


def rows(report):
    """{name: (flat, cumulative)} of a textual report in bytes."""
    found = {}
    for line in report.splitlines():
        m = re.match(r"\s*(-?\d+)\s+\S+\s+\S+\s+(-?\d+)\s+\S+ (.*)$", line)
        if m:
            found[m[3]] = int(m[1]), int(m[2])
    return found


def line_of(part):
    """The number of the first line of the program's source with that in it."""
    return next(i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if part in line)


class Foreign(unittest.TestCase):
    """Profiles that were damaged on their way, or made by another user."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="heapctl-foreign-")
        self.addCleanup(shutil.rmtree, self.folder)

    def report(self, contents, *options, name="p"):
        path = f"{self.folder}/{name}"
        with open(path, "wb") as file:
            file.write(contents)
        return subprocess.run([HEAPCTL, "report", *options, path], capture_output=True, check=False)

    def test_names_cannot_control_the_terminal(self):
        names = "größe;\x1b[2Jclear;a\u202egnp.exe;\x9b31m;日本"
        for form in ("--text", "--tree", "--collapsed", "--lines", "--cum"):
            run = self.report(f"{names} 10\n".encode(), form, name="p\x1b[31m")
            self.assertEqual(0, run.returncode, run.stderr)
            text = (run.stdout + run.stderr).decode()
            self.assertRegex(text, r"\\x1b\[2Jclear", form)
            self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", form)
            self.assertIn("größe", text)
            self.assertIn("日本", text)

    def test_titles_and_threads_cannot_control_the_terminal(self):
        thread = "t\u202e\u009b31m"
        profile = f"heap_v2/1\n  t*: 1: 64 [0: 0]\n  t3: 1: 64 [0: 0] {thread}\n@ 0x1\n  t*: 1: 64 [0: 0]\n  t3: 1: 64 [0: 0]\n"
        title = "--title=x\u202e\u009b31m"
        for options in (["--text", f"--thread={thread}"], ["--tree", title], ["--callgrind", title], ["--text", title]):
            run = self.report((profile + "\nMAPPED_LIBRARIES:\n").encode(), *options)
            self.assertEqual(0, run.returncode, run.stderr)
            text = (run.stdout + run.stderr).decode()
            self.assertIn("0", text)
            self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", options)
            if title not in options:
                self.assertIn(r"Total (t\u202e\u009b", text)
            elif "--text" not in options:
                self.assertIn(r"x\u202e\u009b", text)

    def test_watchdog_ends_a_report_with_a_message(self):
        """Its timer is a signal, which comes from us here: reading has begun once the first bytes are taken."""
        process = subprocess.Popen([HEAPCTL, "report", "--text", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        process.stdin.write(b"heap_v2/1\n  t*: 1: 64 [0: 0]\n" + b"@ 0x1\n  t*: 1: 64 [0: 0]\n" * 20000)
        process.stdin.flush()
        process.send_signal(signal.SIGPROF)
        self.assertEqual(1, process.wait(60))
        process.stdin.close()
        self.assertIn(b"reading a profile took more than 300 s of processor time", process.stderr.read())

    def test_errors_cannot_control_the_terminal(self):
        run = self.report(b"nothing", name="p\x1b[31m")
        self.assertNotIn(b"\x1b", run.stderr)
        self.assertIn(rb"p\x1b[31m", run.stderr)

    def test_profile_without_its_mappings_was_cut_off(self):
        run = self.report(b"heap_v2/1\n  t*: 1: 64 [0: 0]\n@ 0x400110 0x400220\n  t*: 1: 64 [0: 0]\n", "--text")
        self.assertIn(b"it has no list of mappings (MAPPED_LIBRARIES), so it was cut off", run.stderr)
        self.assertNotIn(b"java", run.stderr)

    def test_texts_of_go_have_names_and_its_sampling(self):
        """The figure is that of go tool pprof for the same text."""
        head, stack = "heap profile: 1: 64 [1: 64] @ heap/8192\n", "1: 64 [1: 64] @ {} 0x4b5e37 0x461121\n#\t0x4b5e36\tmain.grab+0xb6\t/g.go:4\n"
        run = self.report((head + stack.format("")).encode(), "--text", "--unit", "B")
        self.assertEqual(b"", run.stderr)
        self.assertIn(b"Total: 4128 B", run.stdout)
        self.assertIn(b"main.grab", run.stdout)
        self.assertIn(b"runtime.goexit", run.stdout)
        run = self.report((head + stack.format("0x4b0001") + "#\t0x461120\n").encode(), "--text")
        self.assertIn(b"2 of 3 addresses have no name: Go's texts leave out functions of its runtime (get it without debug=1)", run.stderr)
        for kind in (b"goroutine", b"threadcreate"):
            run = self.report(kind + b" profile: total 1\n1 @ 0x1 0x2\n#\t0x0\tmain.main+0x1\t/a.go:3\n")
            self.assertIn(b"counts goroutines or threads, not memory (take Go's profile of the heap, of its blocks or its mutexes)", run.stderr)

    def test_profile_with_names_was_cut_off(self):
        """Between stacks nothing else shows it: all addresses have names."""
        names = "--- symbol\n0x400110 leaf\n0x40021f main\n---\n--- heap\n"
        stack = "@ 0x400110 0x400220\n  t*: 1: 64 [0: 0]\n"
        end = "\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /x\n"
        for stacks, has_end in ((0, False), (1, False), (2, False), (2, True)):
            with self.subTest(stacks=stacks, has_end=has_end):
                run = self.report((names + "heap_v2/1\n  t*: 2: 128 [0: 0]\n" + stacks * stack + has_end * end).encode(), "--text")
                self.assertEqual(b"so it was cut off, and stacks may be missing (get the whole file)" in run.stderr, not has_end)

    def test_one_of_several_profiles_was_cut_off_before_its_mappings(self):
        whole = "heap_v2/1\n  t*: 1: 64 [0: 0]\n@ 0x400110 0x400220\n  t*: 1: 64 [0: 0]\n\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /x\n"
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, f"{name}.heap") for name in ("first", "second", "third")]
            for path, text in zip(paths, (whole, whole.partition("\n\nMAPPED")[0] + "\n", whole.replace("1: 64", "2: 128"))):
                path.write_text(text)
            for verb, files in (("report", paths), ("diff", paths[:2]), ("trend", paths)):
                run = subprocess.run([HEAPCTL, verb, *files], capture_output=True, text=True)
                self.assertIn(f"{paths[1]}: no address has a name: it has no list of mappings (MAPPED_LIBRARIES), so it was cut off (", run.stderr)
                self.assertNotIn("java", run.stderr)

    def test_profile_with_a_part_of_its_mappings_was_cut_off(self):
        head = b"heap_v2/1\n  t*: 1: 64 [0: 0]\n@ 0x7f0000400110 0x400220\n  t*: 1: 64 [0: 0]\n\nMAPPED_LIBRARIES:\n"
        maps = b"00400000-00500000 r-xp 00000000 00:00 0\n"
        run = self.report(head + maps, "--text")
        self.assertIn(b"1 of 2 addresses have no name: they are above the last of its mappings, so it was cut off", run.stderr)
        # Below the last one, it may be code made at run time.
        run = self.report(head + maps + b"7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 [stack]\n", "--text")
        self.assertNotIn(b"cut off", run.stderr)
        self.assertIn(b"java", run.stderr)

    def test_a_cut_behind_a_line_of_gperftools_is_reported(self):
        lines = ["--- symbol", "0x1 main", "---", "--- heap", "heap profile: 2: 20 [2: 20] @ heapprofile", "1: 10 [1: 10] @ 0x1", "1: 10 [1: 10] @ 0x1 0x1"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.heap")
            for header, count, is_cut in ((lines[4], 7, False), (lines[4], 6, True), ("heap profile: 0: 0 [0: 0] @ heapprofile", 6, False)):
                text = "".join(line + "\n" for line in [*lines[:4], header, *lines[5:count]])
                pathlib.Path(path).write_text(text)
                result = subprocess.run([HEAPCTL, "report", "--text", path], capture_output=True, text=True, check=True)
                self.assertEqual(is_cut, f"{path}: its stacks have less than its first line says, so it was cut off" in result.stderr)


class Sources(unittest.TestCase):
    """Source files that the servers of --debuginfod have."""
    BUILD_ID, LISTED = "0123456789abcdef", "int work(void)\n{\n\treturn served;\n}\n"

    def setUp(self):
        try:
            ctypes.CDLL("libdebuginfod.so.1")
        except OSError:
            self.skipTest("libdebuginfod1 is not installed")
        self.folder = tempfile.mkdtemp(prefix="heapctl-sources-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.server = DebugFileServer(self, {}, {(self.BUILD_ID, "/build/src/work.c"): self.LISTED})

    def report(self, *options, path="/build/src/work.c", build_id=BUILD_ID):
        profile = pathlib.Path(self.folder, "work.pb")
        profile.write_bytes(pprof_with_file(path, build_id))
        environment = dict(os.environ, DEBUGINFOD_CACHE_PATH=f"{self.folder}/client", HOME=self.folder)
        return subprocess.run([HEAPCTL, "report", "--list=work", *options, profile], capture_output=True, env=environment, text=True, check=True)

    def allow(self, *options, **values):
        return self.report("--debuginfod", self.server.url, *options, **values)

    def sources_asked(self):
        return [path for path in self.server.asked if "/source/" in path]

    def test_they_are_downloaded_once_if_that_is_allowed(self):
        self.assertNotIn("served", self.report().stdout)
        self.assertEqual([], self.server.asked)
        self.assertIn("return served;", self.allow().stdout)
        self.server.sources = {}
        self.assertIn("return served;", self.allow().stdout)
        self.assertEqual(1, len(self.sources_asked()))

    def test_what_is_here_comes_first(self):
        for folder, options in ((self.folder, ()), ("/build", ("--source-root", self.folder)), ("/build", ("--source-root", f"/proc/self:{self.folder}")),
                                ("/build", ("--source_path", self.folder))):
            pathlib.Path(self.folder, "work.c").write_text(self.LISTED.replace("served", "here"))
            self.assertIn("return here;", self.allow(*options, path=f"{folder}/work.c").stdout)
        self.assertEqual([], self.sources_asked())

    def test_a_folder_of_sources_does_not_keep_servers_out(self):
        self.assertIn("return served;", self.allow("--source-root", self.folder).stdout)

    def test_a_path_is_sent_without_its_dots(self):
        self.assertIn("return served;", self.allow(path="/build/x/.././/src/work.c").stdout)
        self.allow(path="/../../../nowhere/x.c")
        self.assertEqual([f"/buildid/{self.BUILD_ID}/source{path}" for path in ("/build/src/work.c", "/nowhere/x.c")], self.sources_asked())

    def test_a_build_id_that_is_none_is_not_sent(self):
        """The client makes a path of it."""
        for build_id in ("../../../x", "ab/../cd", ""):
            self.allow(build_id=build_id)
        self.assertEqual([], self.server.asked)

    def test_it_says_why_there_is_none(self):
        self.assertIn("/build/other.c: the debuginfod servers do not have it", self.allow(path="/build/other.c").stderr)
        self.assertIn(f"(remove the empty files in {self.folder}/client/{self.BUILD_ID} to ask the debuginfod servers again", self.allow(path="/build/other.c").stderr)
        self.server.refusal = 403
        self.assertIn(f": the debuginfod servers failed: {self.server.url[7:]}: The requested URL returned error: 403", self.allow(path="/build/third.c").stderr)
        self.server.refusal = None
        self.assertRegex(self.allow(path="src/work.c").stderr, r"source file not found: .*\(run heapctl in the folder that it was built in\)")
        self.assertIn(": the debuginfod servers failed", self.allow(path="/build" + 80 * "/other").stderr)
        self.assertRegex(self.report().stderr, r"source file not found: .*\(point --sysroot at a folder with the sources\)")
        self.server.claimed = 1 << 30
        self.assertIn("too long for a source file", self.allow().stderr)
        self.server.is_silent = True
        self.assertIn("did not answer in time (try again in ten minutes, or remove the empty files in ", self.allow("--debuginfod-timeout=1", path="/build/slow.c").stderr)


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Report.folder = cls.folder = tempfile.mkdtemp(prefix="heapctl-report-")
        cls.first, cls.second = cls.take("first"), cls.folder + "/first.later"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def take(cls, name, conf="", program=STORE):
        path = f"{cls.folder}/{name}"
        subprocess.run([str(program), path + ".heap", path + ".later"], check=True,
                       env=dict(os.environ, MALLOC_CONF="prof:true,lg_prof_sample:0,prof_accum:true" + conf))
        return path + ".heap"

    def path(self, name):
        return os.path.join(self.folder, name)

    # What is refused

    def test_what_jeprof_reads_at_once_means_nothing(self):
        run("report", "--test_stride=4096", "--version")
        self.assertIn("is not a whole number", run("report", "--test_stride=much", "--version", code=2).stderr.decode())

    def test_numbers_that_make_no_sense(self):
        for option in ("--top", "--pid", "--debuginfod-timeout"):
            said = run("report", option, "-3", self.first, code=2).stderr.decode()
            self.assertIn(f"{option}: -3 is outside ", said)

    def test_a_process_that_does_not_exist(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        for verb in ["report"], ["diff", self.first]:
            said = run(*verb, f"--pid={ended.pid}", self.first, code=1).stderr.decode()
            self.assertIn(f"--pid: there is no process {ended.pid} (leave out --pid", said)
        # A process of the gateway's may end while its profile is rendered.
        run("report", f"--pid={ended.pid}", "--pid-may-have-ended", self.first)

    def test_source_without_debug_information_leads_to_assembly(self):
        program = shutil.copy(STORE, self.path("alone"))
        subprocess.run([need("strip"), "-g", program], check=True)
        heap, maps = pathlib.Path(self.take("alone", program=program)).read_text().split("MAPPED_LIBRARIES:\n")
        profile = self.path("alone.heap")
        pathlib.Path(profile).write_text(heap + "MAPPED_LIBRARIES:\n" + "".join(line for line in maps.splitlines(True) if program in line))
        self.assertIn("no function has source lines: the programs lack debug information (use --disasm, which needs none",
                      run("report", "--list=no_such", profile, code=1).stderr.decode())
        pathlib.Path(profile).write_text(heap + "MAPPED_LIBRARIES:\n")
        self.assertIn("--text lists the functions", run("report", "--list=.", profile, code=1).stderr.decode())
        self.assertIn("--text lists the functions", run("report", "--list=no_such", self.first, code=1).stderr.decode())

    def test_code_of_names_without_addresses(self):
        """Only the program has it, and only an address leads there."""
        named, stacks = self.path("named.raw"), self.path("stacks.txt")
        pathlib.Path(named).write_text(text("report", "--raw", self.first))
        pathlib.Path(stacks).write_text("main;load_table 4096\n")
        for output, profile in ("disasm", named), ("weblist", named), ("disasm", stacks), ("weblist", stacks), ("list", stacks):
            said = run("report", f"--{output}=^load_table$", profile, code=1).stderr.decode()
            self.assertIn("the names that match '^load_table$' came with the profile: no program was read for them", said)
            self.assertIn("(give a profile with addresses and without names, as heapctl dump", said)
            for names in (named, stacks):
                self.assertIn("--text lists the functions", run("report", f"--{output}=no_such", names, code=1).stderr.decode())

    # What is shown

    def test_functions(self):
        found = rows(text("report", "--show_bytes", self.first))
        self.assertEqual(found["make_node (inline)"], (INDEX, INDEX))
        self.assertEqual(found["load_index"], (0, INDEX))
        self.assertEqual(found["load_table"], (TABLE, TABLE))
        self.assertEqual(found["load"], (0, INDEX + TABLE))
        self.assertNotIn("malloc", found)

    def test_objects_and_everything_ever_allocated(self):
        self.assertEqual(rows(text("report", "--inuse_objects", self.first))["load_table"], (3, 3))
        self.assertEqual(rows(text("report", "--alloc_space", "--show_bytes", self.second))["load_table"], (2 * TABLE, 2 * TABLE))

    def test_what_was_never_counted_is_reported_to_be_missing(self):
        profile = self.take("live", ",prof_accum:false")
        self.assertIn("prof_accum:true", run("report", "--alloc_space", profile).stderr.decode())
        self.assertNotIn("prof_accum", run("report", profile).stderr.decode())
        # And is not what a reader of our pprof sees first.
        self.assertIn(" inuse_space/bytes[dflt]", self.pprof_raw("report", "--alloc_space", profile))

    def test_lines_and_files(self):
        lines = text("report", "--lines", "--show_bytes", self.first)
        self.assertRegex(lines, rf"load_table \S*programs/store\.c:{line_of('malloc(8192)')}\n")
        self.assertRegex(lines, rf"make_node \(inline\) \S*programs/store\.c:{line_of('malloc(size)')}\n")
        files = text("report", "--files", "--show_bytes", self.first)
        self.assertRegex(files, rf" {INDEX + TABLE} +\S+ +\S+ +{INDEX + TABLE} +\S+ \S*programs/store\.c\n")

    def test_no_inlines(self):
        found = rows(text("report", "--show_bytes", "--no-inlines", self.first))
        self.assertEqual(found["load_index"], (INDEX, INDEX))

    def test_no_prune(self):
        self.assertRegex(text("report", "--no-prune", self.first), r" (malloc|\[libjemalloc\S*\]\+0x\w+)\n")

    def test_several_profiles_are_summed(self):
        found = rows(text("report", "--show_bytes", self.first, self.second))
        self.assertEqual(found["load_table"], (3 * TABLE, 3 * TABLE))

    def test_filters(self):
        self.assertEqual(set(rows(text("report", "--show_bytes", "--focus=load_in", "--show=^(main|load.*)$", self.first))),
                         {"load_index", "load", "main"})
        self.assertNotIn("load_index", text("report", "--ignore=load_index", self.first))
        self.assertIn("make_node", text("report", "--tag", "bytes=4kb:5kb", self.first))
        self.assertNotIn("load_table", text("report", "--tag", "bytes=4kb:5kb", self.first))

    def test_source_beside_figures(self):
        listing = text("report", "--list=^load_table$", "--show_bytes", self.first)
        self.assertRegex(listing, r"ROUTINE =+ load_table in \S+/store\.c\n 24576  24576 Total B")
        self.assertRegex(listing, rf"\n 24576  24576 +{line_of('malloc(8192)')}: \t\tkept\[count\+\+\] = malloc\(8192\);\n")
        line = line_of("void load_table")
        self.assertRegex(listing, rf"\n---\n     \.      \. +{line}: .*load_table\(void\)\n")

    def test_sources_that_are_none(self):
        """A profile may name any file as a source: one without an end must not block the report."""
        raw = text("report", "--raw", self.first)
        pipe, big = self.path("pipe"), self.path("big")
        os.mkfifo(pipe)
        with open(big, "wb") as file:
            file.truncate(10 << 30)
        for path in (pipe, big, "/dev/zero"):
            data = re.sub(r"\S+programs/store\.c", path, raw)
            self.assertIn(path, data)
            listing = run("report", "--list=^load_table$", "-", input=data.encode())
            self.assertNotIn("malloc(8192)", listing.stdout.decode())

    def test_assembly_beside_figures(self):
        need("objdump")
        assembly = text("report", "--disasm=^load_table$", "--show_bytes", self.first)
        self.assertRegex(assembly, r"ROUTINE =+ load_table\n 24576  24576 B \(flat, cumulative\)")
        self.assertRegex(assembly, r"\n 24576  24576 +[0-9a-f]+: call ")
        page = text("report", "--weblist=^load_table$", "--show_bytes", self.first)
        self.assertRegex(page, rf'class="hot"> +24576 +24576 +{line_of("malloc(8192)")}  ')

    def test_assembly_of_a_stripped_program_is_that_of_the_whole_one(self):
        """The functions and lines are those of an index of symbols or of a debug file, the instructions the program's."""
        for tool in ("objdump", "objcopy", "strip", "xz"):
            need(tool)
        program, debug, indexes, debugs = (self.path("stripped" + end) for end in ("", ".debug", ".indexes", ".debugs"))
        subprocess.run(["strip", STORE, "-o", program], check=True)
        subprocess.run(["objcopy", "--only-keep-debug", STORE, debug], check=True)
        run("symbols", "index", "--folder", indexes, STORE)
        index = next(pathlib.Path(indexes).rglob("*.debug"))
        place = pathlib.Path(debugs, index.relative_to(indexes))
        place.parent.mkdir(parents=True)
        shutil.move(debug, place)
        profile = self.take("stripped", program=program)

        def assembly(output, *arguments):
            """Without the title, and what objdump says of symbols that a stripped program has no more."""
            return re.sub(r"<h1>.*|( +# [0-9a-f]+)? (<|&lt;)\S*(>|&gt;)", "", text("report", f"--{output}=^load_(table|index)$", "--show_bytes", *arguments))

        expected = {output: assembly(output, STORE, profile) for output in ("disasm", "weblist")}
        self.assertRegex(expected["weblist"], rf'class="hot"> +24576 +24576 +{line_of("malloc(8192)")}  ')
        for folder in (indexes, debugs):
            for options in (["--no-cache"], [], []):
                for output, wanted in expected.items():
                    with self.subTest(" ".join([folder, output, *options])):
                        self.assertEqual(wanted, assembly(output, "--build-id-dir", folder, *options, profile))
        # Distributions keep a small symbol table in a section of the program.
        small = self.path("small")
        subprocess.run(["objcopy", "--only-keep-debug", "--strip-debug", STORE, small], check=True)
        subprocess.run(["xz", small], check=True)
        subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={small}.xz", program], check=True)
        self.assertIn("ROUTINE ====================== load_table\n", assembly("disasm", "--no-cache", profile))

    def test_assembly_of_a_program_without_debug_information(self):
        need("objdump")
        program = shutil.copy(STORE, self.path("nolines"))
        subprocess.run([need("strip"), "-g", program], check=True)
        profile = self.take("nolines", program=program)
        page = text("report", "--weblist=^load_table$", "--show_bytes", profile)
        self.assertRegex(page, r"<h2>load_table</h2><p></p>\n<pre class=\"asm\">(.*\n)* +24576 +24576 +[0-9a-f]+: call ")
        self.assertRegex(text("report", "--disasm=^load_table$", "--show_bytes", profile), r"\n 24576  24576 +[0-9a-f]+: call ")
        error = run("report", "--list=^load_table$", profile, code=1).stderr.decode()
        self.assertIn("'^load_table$' has source lines: its program lacks debug information (use --disasm", error)
        self.assertIn("no function with figures and known source", run("report", "--list=^missing$", profile, code=1).stderr.decode())

    def test_symbols_of_addresses(self):
        nm = subprocess.run(["nm", str(STORE)], text=True, capture_output=True, check=True).stdout
        address = re.search(r"([0-9a-f]+) t load_table", nm)[1]
        answer = text("report", "--symbols", STORE, input=f"0x{address}\n0x1\n".encode())
        self.assertEqual(answer, "load_table\n??\n")

    def test_sums_of_several_intervals_and_differences_have_no_errors(self):
        stack = "@ 0x400110 0x400220\n  t*: 4: 4096 [0: 0]\n\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /x\n"
        paths = [self.path(f"of-{interval}.heap") for interval in (4096, 65536)]
        for path, interval in zip(paths, (4096, 65536)):
            pathlib.Path(path).write_text(f"heap_v2/{interval}\n  t*: 4: 4096 [0: 0]\n" + stack)
        written = self.path("written")
        for command, is_known in ((("report", "--raw", paths[0], paths[0]), True), (("report", "--raw", *paths), False),
                                  (("report", "--pprof", *paths), False), (("diff", "--pprof", *paths), False)):
            with self.subTest(command):
                run(*command, "-o", written)
                said = run("report", "--text", "--confidence", written)
                self.assertEqual(b"does not say how it was sampled" in said.stderr, not is_known)

    def test_errors_that_are_not_known_are_not_0(self):
        raw, collapsed, exact = self.path("sum.raw"), self.path("first.collapsed"), self.path("exact.heap")
        run("report", "--raw", self.first, self.first, "-o", raw)
        self.assertEqual(1, json.loads(text("report", "--json", raw))["sample_interval_bytes"])
        run("report", "--collapsed", self.first, "-o", collapsed)
        pathlib.Path(exact).write_text("heap profile: 1: 64 [1: 64] @ heapprofile\n1: 64 [1: 64] @ 0x1\n\nMAPPED_LIBRARIES:\n")
        for option in ("--raw", "--pprof"):
            run("report", option, exact, "-o", exact + option)
            for path in (exact, exact + option):
                self.assertEqual([64, 64], json.loads(text("report", "--json", path))["total"]["interval95"])
        run("report", "--raw", self.first, collapsed, "-o", raw)
        self.assertIsNone(json.loads(text("report", "--json", raw))["sample_interval_bytes"])
        for options in ([collapsed], [f"--base={self.first}", collapsed], [f"--base={collapsed}", self.first]):
            shown = json.loads(text("report", "--json", *options))
            self.assertEqual((None, [None, None]), (shown["total"]["standard_error"], shown["total"]["interval95"]))
        self.assertIsNone(json.loads(text("report", "--json", collapsed))["sample_interval_bytes"])
        said = run("report", "--confidence", collapsed)
        self.assertIn(f"{collapsed} does not say how it was sampled: errors are not known", said.stderr.decode())
        self.assertRegex(said.stdout.decode(), r"(?m)^ +0\.0 +\? .*load_table$")

    def test_confidence(self):
        sampled = self.take("sampled", ",prof_gdump:false")
        header = pathlib.Path(sampled).read_text()
        pathlib.Path(sampled).write_text(header.replace("heap_v2/1\n", "heap_v2/524288\n", 1))
        view = json.loads(text("report", "--json", sampled))
        node = next(n for n in view["nodes"] if n["name"] == "load_table")
        self.assertEqual(node["flat"]["samples"], 3)
        self.assertAlmostEqual(node["flat"]["standard_error"] / node["flat"]["value"], 3 ** -0.5, delta=0.01)
        low, high = node["flat"]["interval95"]
        self.assertTrue(0 < low < node["flat"]["value"] < high)

    def test_delays(self):
        """Seconds, delays, or one by the other; of heap profiles they say nothing."""
        profile = "--- contention\ncycles/second = 1000000\nsampling period = 1\n  3000000 2 @ 0x401000\n  500000 1 @ 0x402000\n"
        for option, total in (("--total_delay", "3.500 seconds"), ("--contentions", "3 samples"), ("--mean_delay", "2.000 seconds")):
            self.assertIn(f"Total: {total}\n", text("report", option, "-", input=profile.encode()))
            self.assertEqual(text("report", option, self.first), text("report", self.first))

    def test_a_thread_that_is_not_there(self):
        error = run("report", "--thread=nobody", self.first, code=2).stderr.decode()
        self.assertIn("no thread of", error)
        self.assertEqual(rows(text("report", "--show_bytes", "--thread=0", self.first))["load_table"], (TABLE, TABLE))

    def test_a_profile_without_samples_is_reported_to_have_none(self):
        result = run("report", "-", input=b"heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n")
        self.assertEqual(result.stdout, b"")
        self.assertIn("standard input has no samples: nothing that was in use was allocated while sampling was on (record for longer", result.stderr.decode())

    def test_an_idle_program_has_no_waits(self):
        result = run("report", "-", input=b"--- contention:\ncycles/second = 1000\nsampling period = 1\n\nMAPPED_LIBRARIES:\n")
        self.assertIn("standard input has no samples: nothing happened while they were taken (take them for longer)\n", result.stderr.decode())

    def test_a_profile_of_what_was_freed_is_not_empty_without_a_word(self):
        freed = b"heap_v2/4096\n  t*: 0: 0 [9: 9000]\n@ 0x1000\n  t*: 0: 0 [9: 9000]\n\nMAPPED_LIBRARIES:\n"
        result = run("report", "--text", "-", input=freed)
        self.assertEqual(result.stdout, b"")
        self.assertIn("nothing that was sampled is still in use (--alloc_space shows what was allocated)", result.stderr.decode())
        for option in ("--alloc_space", "--alloc_objects"):
            self.assertNotIn("in use", run("report", option, "-", input=freed).stderr.decode())
        without = freed.replace(b"[9: 9000]", b"[0: 0]")
        self.assertIn("nothing that was sampled is still in use\n", run("report", "-", input=without).stderr.decode())

    def test_whole_numbers_keep_their_sum(self):
        stacks = "".join(f"@ 0x{address:x}\n  t*: 1: 1000 [0: 0]\n" for address in range(0x1000, 0x1100))
        profile = f"heap_v2/3000\n  t*: 0: 0 [0: 0]\n{stacks}".encode()
        lines = text("report", "--collapsed", "-", input=profile).splitlines()
        total = int(re.search(r"Total: (\d+) B", text("report", "--show_bytes", "-", input=profile))[1])
        self.assertAlmostEqual(sum(int(line.split()[-1]) for line in lines), total, delta=1)

    # Where profiles and programs come from

    def test_compressed_and_standard_input(self):
        wanted = rows(text("report", "--show_bytes", self.first))
        data = pathlib.Path(self.first).read_bytes()
        self.assertEqual(rows(text("report", "--show_bytes", "-", input=gzip.compress(data))), wanted)
        subprocess.run([need("zstd"), "-q", "-f", self.first, "-o", self.path("first.zst")], check=True)
        self.assertEqual(rows(text("report", "--show_bytes", self.path("first.zst"))), wanted)

    def test_a_program_that_has_moved(self):
        program = shutil.copy(STORE, self.path("moved"))
        profile = self.take("moving", program=program)
        os.rename(program, self.path("elsewhere"))
        found = text("report", profile)
        self.assertNotIn("load_table", found)
        self.assertRegex(found, r"\[moved\]\+0x[0-9a-f]+\n")
        error = run("report", profile).stderr.decode()
        self.assertEqual(error.count("/moved: "), 1, error)
        self.assertIn("load_table", text("report", self.path("elsewhere"), profile))

    def linked_addresses(self):
        """The first profile without its mappings, the program at the addresses that it was linked for."""
        stacks, maps = pathlib.Path(self.first).read_text().split("\nMAPPED_LIBRARIES:")
        spans = [line.split() for line in maps.splitlines() if line.endswith("/store")]
        base = min(int(span[0].split("-")[0], 16) for span in spans)
        limit = max(int(span[0].split("-")[1], 16) for span in spans)

        def move(match):
            address = int(match[0], 16)
            return hex(address - base if base <= address < limit else address)
        path = self.path("linked.heap")
        pathlib.Path(path).write_text(re.sub(r"0x[0-9a-f]+", move, stacks) + "\n")
        return path

    def test_a_profile_that_does_not_say_where_files_were(self):
        profile = self.linked_addresses()
        result = run("report", "--show_bytes", "--show=load", STORE, profile)
        self.assertEqual(rows(result.stdout.decode())["load_table"], (TABLE, TABLE))
        self.assertIn("does not say where files were mapped", result.stderr.decode())
        self.assertNotIn("load_table", text("report", profile))

    def test_another_file_with_symbols(self):
        profile = self.linked_addresses()
        self.assertEqual(rows(text("report", "--show_bytes", "--show=load", f"--add_lib={STORE}", profile))["load_table"],
                         (TABLE, TABLE))
        self.assertIn("No such file", run("report", "--add_lib=/nowhere", profile, code=1).stderr.decode())

    def test_libraries_below_other_folders(self):
        program = shutil.copy(STORE, self.path("prefixed"))
        profile = self.take("prefixing", program=program)
        os.makedirs(self.path("root") + self.folder)
        os.rename(program, self.path("root") + program)
        self.assertNotIn("load_table", text("report", profile))
        self.assertIn("load_table", text("report", f"--lib_prefix=/nowhere,{self.path('root')}", profile))
        self.assertIn("load_table", text("report", f"--sysroot={self.path('root')}", profile))

    def test_a_folder_for_symbols_that_is_not_there_is_reported(self):
        there, file = self.folder, self.first
        for option, wrong in (("build-id-dir", "/no/such"), ("build-id-dir", file), ("sysroot", "/no/such"), ("lib_prefix", "/no/such")):
            given = f"{there},{wrong}" if option == "lib_prefix" else wrong
            said = run("report", f"--{option}", given, self.first).stderr.decode()
            self.assertEqual(1, len(re.findall(f": --{option} {re.escape(wrong)}: (No such file or|Not a) directory", said)), said)
        quiet = run("report", "--build-id-dir", there, "--sysroot", there, "--lib_prefix", f"{there},", self.first).stderr.decode()
        self.assertNotRegex(quiet, ": --")

    def test_a_server_of_debug_files_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            program = shutil.copy(STORE, self.path("bare"))
            subprocess.run([need("strip"), program], check=True)
            result = run("report", "--no-cache", f"--debuginfod={url}", "--debuginfod-timeout=1", self.take("bare", program=program))
        self.assertRegex(result.stderr.decode(), r"/bare: .*(in time|libdebuginfod)")

    def test_a_process_that_sees_other_files(self):
        """As in a container: only the process itself sees its program."""
        inside = self.path("inside")
        os.mkdir(inside)
        script = ('mount -t tmpfs none "$1" && cp "$2" "$1/store" && "$1/store" "$3" "$3.later" && echo ready && exec sleep 600')
        process = subprocess.Popen([need("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", inside,
                                    str(STORE), self.path("inside.heap")],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, MALLOC_CONF="prof:true,lg_prof_sample:0"))
        try:
            if process.stdout.readline() != "ready\n":
                self.skipTest("no mounts here: " + process.stderr.read())
            self.assertNotIn("load_table", text("report", self.path("inside.heap")))
            self.assertIn("load_table", text("report", f"--pid={process.pid}", self.path("inside.heap")))
        finally:
            process.kill()
            process.communicate()

    def test_a_location_keeps_the_mapping_that_it_names(self):
        """At their own addresses, the files of a process overlap."""
        moved = self.path("moved.pb.gz")
        run("report", "--pprof", "--file-addresses", "--strip-names", self.first, "-o", moved)
        self.assertEqual(rows(text("report", "--show_bytes", self.first)), rows(text("report", "--show_bytes", moved)))

    def test_a_wrong_program_is_refused(self):
        error = run("report", "/bin/sh", self.first, code=2).stderr.decode()
        self.assertIn("/bin/sh does not match", error)

    def test_several_profiles_are_for_trend(self):
        folder = self.path("several")
        os.makedirs(folder)
        shutil.copy(self.first, folder)
        tar = self.path("several.tar")
        subprocess.run(["tar", "cf", tar, "-C", folder, "."], check=True)
        for verb, code in (("report", 1), ("account", 2)):
            for path in (folder, tar):
                error = run(verb, path, code=code).stderr.decode()
                self.assertRegex(error, rf"{path} is (a folder|a tar|not a bundle).*heapctl trend reads", (verb, path))

    def test_servers_of_debug_files_are_urls(self):
        for wrong in ("foo", "", " ", "htp://x", "http://", "https://a.example foo"):
            self.assertIn(": --debuginfod: invalid value '", run("report", "--debuginfod", wrong, self.first, code=2).stderr.decode(), wrong)
        run("report", "--debuginfod", "file:///nonexistent  http://127.0.0.1:1", self.first)

    def test_a_url_of_a_file_is_distinguished_from_that_of_a_server(self):
        port = free_port()
        server = subprocess.Popen([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", os.path.dirname(self.first)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_until(lambda: is_open(port), "the server")
        name = os.path.basename(self.first)
        error = run("report", f"http://127.0.0.1:{port}/{name}", code=1).stderr.decode()
        self.assertIn(f"(heapctl asked for /{name}/pprof/heap; download a profile that is a file)", error)

    def test_no_name_is_shown_twice(self):
        error = run("report", f"http://127.0.0.1:{free_port()}/pprof/heap", code=1).stderr.decode()
        self.assertRegex(error, r"^heapctl: connecting to 127\.0\.0\.1:\d+: Connection refused")
        program = shutil.copy(STORE, self.path("nameless"))
        subprocess.run([need("strip"), program], check=True)
        profile, converted = self.take("nameless", program=program), self.path("nameless.pb.gz")
        run("report", "--pprof", "-o", converted, profile)
        # The one knows its program's build-id, the other does not.
        self.assertEqual(run("diff", profile, converted).stderr.decode().count("/nameless: "), 1)

    def test_errors_name_what_is_wrong(self):
        for name in ("nowhere.heap", self.path("nowhere.heap")):
            self.assertIn(f"{name}: No such file or directory (check the name", run("report", name, code=1).stderr.decode())
        for option in ("-1", "--1", "-frob", "--frob"):
            self.assertIn(f"unknown option {option} (", run("report", option, self.first, code=2).stderr.decode())
        for name, code in ((self.first, 2), (self.path("nowhere"), 2)):
            self.assertIn(f"{name} is not a program: --symbols names addresses (it reads mappings and addresses from standard input",
                          run("report", "--symbols", name, code=code).stderr.decode())
        broken = pathlib.Path(self.path("broken.heap"))
        broken.write_text("heap_v2/524288\n  t*: x\n")
        self.assertRegex(run("report", broken, code=1).stderr.decode(), r"broken\.heap: byte \d+: a number was expected \(it is damaged: copy it again, or take another\)")
        self.assertIn("at character", run("report", "--focus=(", self.first, code=2).stderr.decode())
        self.assertIn("unknown option --frob", run("report", "--frob", self.first, code=2).stderr.decode())
        self.assertIn("choose one", run("report", "--text", "--svg", self.first, code=2).stderr.decode())
        self.assertIn("invalid value for --sort: 'size'; use flat, cum, change or name (",
                      run("report", "--sort=size", self.first, code=2).stderr.decode())
        self.assertIn("no profile given", run("report", code=2).stderr.decode())
        self.assertIn(f"{STORE} is a program's file, and no profile follows it (give one as well; a process of that name is meant by its pid,",
                      run("report", STORE, code=2).stderr.decode())
        self.assertIn("threads", run("report", "--thread=1", "--flame", "-", input=b"main;f 10\n", code=2).stderr.decode())

    def test_a_pattern_that_explodes_is_an_error(self):
        names = "a" * 60 + "!"
        profile = f"--- symbol\n0x40010f {names}\n---\n--- heap\nheap_v2/1\n  t*: 1: 1 [0: 0]\n@ 0x400110\n  t*: 1: 1 [0: 0]\n"
        error = run("report", "--focus=^(a+)+$", "-", input=profile.encode(), code=2).stderr.decode()
        self.assertIn("takes too long", error)

    def test_a_server_with_the_pages_of_gperftools(self):
        profile = pathlib.Path(self.first).read_text().split("\nMAPPED_LIBRARIES:")[0] + "\n"
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, body, code=200, **fields):
                self.send_response(code)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                asked.append(self.path)
                pages = {"/here/pprof/heap": profile.encode(), "/here/pprof/symbol": b"num_symbols: 1\n",
                         "/here/pprof/cmdline": b"/srv/store\0--fast\0"}
                if self.path == "/old/pprof/heap":
                    self.answer(b"", 302, Location="/here/pprof/heap")
                else:
                    self.answer(pages.get(self.path, b""), 200 if self.path in pages else 404)

            def do_POST(self):
                asked.append(self.path)
                addresses = self.rfile.read(int(self.headers["Content-Length"])).decode().split("+")
                self.answer("".join(f"{a}\tremote_{int(a, 16) % 7}--_ZN3app4workEi\n" for a in addresses).encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            port = server.server_address[1]
            report = text("report", "--show_bytes", "--retain=^remote_", f"127.0.0.1:{port}/here/pprof/heap")
            self.assertIn("app::work (inline)", report)
            self.assertIn("/here/pprof/symbol?retain=%5eremote_", asked)
            self.assertIn("remote_", text("report", f"http://127.0.0.1:{port}/here"))
            self.assertIn("Total", text("report", f"http://127.0.0.1:{port}/old/pprof/heap"))
            self.assertIn("404", run("report", f"http://127.0.0.1:{port}/none/pprof/heap", code=1).stderr.decode())
        finally:
            server.shutdown()
            server.server_close()

    # Differences

    def test_difference_within_a_run(self):
        found = rows(text("diff", "--show_bytes", self.first, self.second))
        self.assertEqual(found["load_table"], (TABLE, TABLE))

    def test_difference_across_runs_is_one_of_functions(self):
        again = self.take("again")
        self.assertEqual([n for n, v in rows(text("diff", "--show_bytes", self.first, again)).items() if v != (0, 0)], [])
        report = text("diff", "--show_bytes", self.second, again)
        self.assertEqual(rows(report)["load_table"], (-TABLE, -TABLE))
        self.assertEqual([s for s in re.findall(r"-?[\d.]+(?=%)", report) if abs(float(s)) > 100], [])
        self.assertEqual(rows(text("report", "--show_bytes", "--base", self.second, "--drop_negative", again)), {})

    def test_what_shrank_is_not_in_the_total_either_when_dropped(self):
        """As with jeprof."""
        arguments = ["--show_bytes", "--drop_negative", STORE]
        self.assertIn("Total: 0 B\n", text("report", "--base", self.second, *arguments, self.first))
        theirs = subprocess.run([need("jeprof"), "--base", self.first, *arguments, self.second], text=True, capture_output=True,
                                check=True).stdout
        self.assertEqual(text("report", "--base", self.first, *arguments, self.second).splitlines()[0], theirs.splitlines()[0])

    def test_dropping_what_shrank_leaves_the_total_before(self):
        before = re.compile(r"^Before: (\d+), now.*: (\d+), all changes: (\d+) B", re.M)
        net = before.search(text("diff", "--show_bytes", self.second, self.first))
        dropped = before.search(text("diff", "--show_bytes", "--drop_negative", self.second, self.first))
        self.assertGreater(int(net[1]), int(net[2]))
        self.assertEqual(dropped.groups(), (net[1], net[1], "0"))
        document = json.loads(text("diff", "--json", "--drop_negative", self.second, self.first))
        self.assertEqual([round(document["total"][k]) for k in ("base", "now", "value")], [int(net[1]), int(net[1]), 0])

    def test_difference_says_what_it_rests_on(self):
        error = run("diff", self.second, self.first).stderr.decode()
        self.assertIn("prof.reset was called in between (or they are in the wrong order)", error)
        coarse = self.take("coarse", ",lg_prof_sample:10")
        self.assertIn("each is scaled up by its own interval", run("diff", self.first, coarse).stderr.decode())
        self.assertIn("two profiles", run("diff", self.first, code=2).stderr.decode())
        self.assertIn("subtracts from the sum", run("diff", self.first, self.second, self.second, code=2).stderr.decode())
        self.assertNotIn("two programs", run("diff", STORE, self.first, self.second).stderr.decode())

    def another_build(self, name):
        note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
        code = pathlib.Path(STORE).read_bytes()
        at = code.index(note) + len(note)
        pathlib.Path(self.path(name)).write_bytes(code[:at] + bytes(20) + code[at + 20:])
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def test_a_difference_of_two_programs_is_pointed_out(self):
        program = self.another_build("other")
        other = self.take("other-profile", program=program)
        self.assertIn(" of other: a difference of two programs means little", run("diff", self.first, other).stderr.decode())
        self.assertIn("a difference of two programs", run("report", "--base", self.first, other).stderr.decode())

    def test_a_difference_names_a_linked_program_as_its_process(self):
        program, link = self.another_build("multicall"), self.path("link")
        os.symlink(program, link)
        linked = self.path("linked")
        with open(self.take("linked-profile", program=program), "rb") as profile, open(linked, "wb") as named:
            named.write(profile.read() + b"#process link\n")
        self.assertIn(" of link: a difference", run("diff", self.first, linked).stderr.decode())
        self.assertRegex(run("trend", self.first, linked).stderr.decode(), " of link(, .* of [^ ]*)?: growth")

    def test_a_link_in_pprof_is_the_program_that_it_leads_to(self):
        program, link = self.path("several"), self.path("called")
        shutil.copy(STORE, program)
        os.symlink(program, link)
        plain, pprof = self.take("called-profile", program=program), self.path("called.pb.gz")
        named = self.path("called-named")
        pathlib.Path(named).write_text(pathlib.Path(plain).read_text() + "#process called\n")
        run("report", "--pprof", "-o", pprof, named)
        self.assertIn(link.encode(), gzip.decompress(pathlib.Path(pprof).read_bytes()))
        self.assertEqual(json.loads(text("report", "--json", pprof))["program"], "called")
        raw = text("report", "--raw", pprof)
        self.assertIn(f" {program}\n", raw)
        self.assertNotIn(f" {link}\n", raw)
        for arguments in (("diff", plain, pprof), ("diff", pprof, plain), ("trend", plain, pprof)):
            self.assertNotIn("means little", run(*arguments).stderr.decode(), arguments)
        # On another machine the build-id says so.
        bundled = self.path("called.raw")
        run("report", "--raw", "-o", bundled, plain)
        os.unlink(link)
        os.unlink(program)
        self.assertNotIn("means little", run("diff", bundled, pprof).stderr.decode())

    def test_outputs_that_cannot_hold_all_threads_say_so(self):
        for output in ("raw", "pprof", "callgrind", "json", "flame", "list=.", "disasm=.", "weblist=."):
            error = run("report", f"--{output}", "--thread=*", self.first, code=2).stderr.decode()
            self.assertIn("--thread='*' is for --text, --tree and --collapsed", error, output)
        self.assertIn("labels samples with threads", run("report", "--pprof", "--thread=*", self.first, code=2).stderr.decode())

    def test_the_title_is_the_name_of_the_process(self):
        for name, title in (("my.server.4711.20261121-101500.heap", "my.server"), ("s.1.20261121-101500-2.heap.before", "s"),
                            ("00000017-20261121T101500Z-rss2048MiB-my-server.4711.heap", "my-server"), ("s.4711.heap", "store"),
                            ("4711.20261121-101500.heap", "store"), ("00000017-x-my.4711.heap", "store")):
            path = self.path(name)
            shutil.copy(self.first, path)
            with self.subTest(name):
                self.assertEqual(json.loads(text("report", "--json", path))["program"], title)
        self.assertEqual(json.loads(text("report", "--json", STORE, self.path("s.1.20261121-101500-2.heap.before")))["program"], "store")

    # Other programs read what we write

    def test_pprof_opens_our_profiles(self):
        go = need("go")
        path = self.path("store.pb.gz")
        run("report", "--pprof", "-o", path, self.second)
        env = dict(os.environ, PPROF_TMPDIR=self.folder, HOME=self.folder, GOFLAGS="-mod=mod")
        top = subprocess.run([go, "tool", "pprof", "-top", "-nodecount=100", "-nodefraction=0", "-unit=b", path], text=True,
                             capture_output=True, check=True, env=env).stdout
        self.assertRegex(top, rf"{2 * TABLE}B +\S+ +\S+ +{2 * TABLE}B +\S+ +load_table")
        run("diff", "--pprof", "-o", path, self.second, self.first)
        top = subprocess.run([go, "tool", "pprof", "-top", "-nodefraction=0", "-unit=b", path], text=True,
                             capture_output=True, check=True, env=env).stdout
        self.assertRegex(top, rf"-{TABLE}B +\S+ +\S+ +-{TABLE}B +\S+ +load_table")

    def pprof_raw(self, *arguments):
        """Types and values of a profile that we write, as go's pprof reads it."""
        go = need("go")
        path = self.path("raw.pb.gz")
        run(*arguments, "--pprof", "-o", path)
        env = dict(os.environ, PPROF_TMPDIR=self.folder, HOME=self.folder, GOFLAGS="-mod=mod")
        return subprocess.run([go, "tool", "pprof", "-raw", path], text=True, capture_output=True, check=True, env=env).stdout

    def test_pprof_shows_first_what_was_asked_for(self):
        self.assertIn(" inuse_space/bytes[dflt]", self.pprof_raw("report", self.second))
        self.assertIn("alloc_objects/count[dflt] ", self.pprof_raw("report", "--alloc_objects", self.second))
        # And what a profile shows first is what we show first.
        self.assertEqual(text("report", self.path("raw.pb.gz")).splitlines()[1:], text("report", "--alloc_objects", self.second).splitlines()[1:])

    def test_pprof_has_no_change_where_there_is_none(self):
        values = re.compile(r"^ +(-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): ", re.M)
        sampled = self.take("fractions")
        header = pathlib.Path(sampled).read_text()
        pathlib.Path(sampled).write_text(header.replace("heap_v2/1\n", "heap_v2/524288\n", 1))
        self.assertGreater(len(values.findall(self.pprof_raw("report", sampled))), 2)
        self.assertEqual(values.findall(self.pprof_raw("diff", sampled, sampled)), [])
        shrunk = values.findall(self.pprof_raw("diff", self.second, self.first))
        self.assertTrue(shrunk)
        self.assertEqual(values.findall(self.pprof_raw("diff", "--drop_negative", self.second, self.first)), [])

    def test_callgrind_annotate_reads_our_callgrind(self):
        path = self.path("callgrind.out")
        run("report", "--callgrind", "-o", path, self.second)
        out = subprocess.run([need("callgrind_annotate"), "--inclusive=yes", path], text=True, capture_output=True, check=True).stdout
        self.assertRegex(out, rf"{2 * TABLE:,} .*store\.c:load_table")
        self.assertRegex(out, rf"{2 * (INDEX + TABLE):,} .*store\.c:load ")

    def test_callgrind_annotate_reads_a_file_that_only_calls(self):
        sources = [self.path("calls.c"), self.path("allocates.c")]
        for path in sources:
            pathlib.Path(path).write_text("one\ntwo\nthree\n")
        path = self.path("calls.out")
        profile = f"--- symbol\n0x100f outer\n#line 0x100f\t{sources[0]}:2\n0x200f inner\n#line 0x200f\t{sources[1]}:2\n---\n" \
                  "--- heap\nheap profile: 1: 7 [0: 0] @ heapprofile\n1: 7 [0: 0] @ 0x2010 0x1010\n"
        run("report", "--callgrind", "-o", path, "-", input=profile.encode())
        result = subprocess.run([need("callgrind_annotate"), "--inclusive=yes", path], text=True, capture_output=True, check=True)
        self.assertEqual(result.stderr, "")
        self.assertRegex(result.stdout, r"\n7 \(100.0%\)  => \S+allocates.c:inner")

    def test_raw_is_as_good_on_another_machine(self):
        raw = self.path("store.raw")
        run("report", "--raw", "-o", raw, self.first)
        data = pathlib.Path(raw).read_text().replace(str(STORE), "/nowhere/store")
        pathlib.Path(raw).write_text(data)
        self.assertEqual(rows(text("report", "--show_bytes", raw))["load_table"], (TABLE, TABLE))
        self.assertRegex(text("report", "--lines", raw), rf"load_table \S*store\.c:{line_of('malloc(8192)')}")
        theirs = subprocess.run([need("jeprof"), "--text", "--show_bytes", raw], text=True, capture_output=True, check=True).stdout
        self.assertEqual(rows(theirs)["load_table"], (TABLE, TABLE))

    def test_another_form_of_a_profile_is_no_difference(self):
        forms = [self.first, self.path("of.raw"), self.path("of.pb.gz")]
        run("report", "--raw", "-o", forms[1], self.first)
        run("report", "--pprof", "-o", forms[2], self.first)
        for base in forms:
            for now in forms:
                with self.subTest(base=base, now=now):
                    difference = run("diff", "--text", "--show_bytes", base, now)
                    self.assertRegex(difference.stdout, rb"^Total: 0 B\n.*, all changes: 0 B ")
                    self.assertNotIn(b"difference of two programs", difference.stderr)
        names = [line.split(maxsplit=5)[5] for line in text("report", *forms).splitlines()[1:]]
        self.assertEqual(len(names), len(set(names)))

    def test_forms_that_say_nothing_of_an_attach_are_of_no_other_one(self):
        attached, other = self.path("attached"), self.path("attached-later")
        profile = pathlib.Path(self.first).read_text()
        for path, time in (attached, 1763716881100), (other, 1763716891100):
            pathlib.Path(path).write_text(profile + f"#sampling heapctl since {time} attached {time} at 1763717890000\n")
        forms = {form: self.path(f"attached.{form}") for form in ("collapsed", "pprof")}
        for form, path in forms.items():
            run("report", f"--{form}", "-o", path, attached)
            for arguments in ((attached, path), (path, attached)):
                with self.subTest(arguments):
                    self.assertNotIn("different attaches", run("diff", *arguments).stderr.decode())
        self.assertIn("different attaches", run("diff", attached, other).stderr.decode())

    def test_a_figure_that_a_profile_lacks_is_named(self):
        collapsed = self.path("lacking.collapsed")
        pathlib.Path(collapsed).write_text("main;serve;parse 100\n")
        for arguments in (["report", collapsed], ["diff", collapsed, self.first], ["report", self.first, collapsed]):
            error = run(arguments[0], "--inuse_objects", *arguments[1:]).stderr.decode()
            self.assertIn(f"{collapsed} has no numbers of objects: they count as 0", error)
        error = run("report", "--alloc_space", collapsed).stderr.decode()
        self.assertIn(f"{collapsed} counts only what is in use\n", error)
        self.assertIn(f"{collapsed} has no sizes of objects: they are 0 for bytes=LOW:HIGH\n", run("report", "--tag=bytes=8:", collapsed).stderr.decode())
        self.assertNotIn("no sizes", run("report", "--tag=bytes=8:", self.first).stderr.decode())
        self.assertNotIn("no numbers", run("report", "--inuse_objects", self.first).stderr.decode() + run("report", collapsed).stderr.decode())

    def test_collapsed_stacks_are_no_difference(self):
        """But for rounding."""
        collapsed = self.path("of.collapsed")
        run("report", "--collapsed", "-o", collapsed, self.first)
        self.assertIn("[inline]", pathlib.Path(collapsed).read_text())
        self.assertEqual(text("report", "--collapsed", collapsed), pathlib.Path(collapsed).read_text())
        raw, named = self.path("of.raw"), self.path("named.collapsed")
        pathlib.Path(named).write_text("main;ns::run(int);[server]+0x1234 100\n[no stack] 7\nmain;It::operator--() 30\nmain;??;0x1234;a---b 9\n")
        for stacks in (collapsed, named):
            run("report", "--raw", "-o", raw, stacks)
            self.assertEqual(text("report", "--raw", raw), pathlib.Path(raw).read_text())
            self.assertEqual(text("report", "--collapsed", raw), text("report", "--collapsed", stacks))
            for pair in ([stacks, raw], [raw, stacks]):
                nodes = json.loads(text("diff", "--json", *pair))["nodes"]
                self.assertEqual([node["name"] for node in nodes if node["flat"]["now"] != node["flat"]["base"]], [], pair)
        run("report", "--raw", "-o", raw, collapsed)
        for stacks in (collapsed, raw):
            rows = [line.split() for line in text("diff", "--text", "--show_bytes", self.first, stacks).splitlines()[2:]]
            self.assertEqual([row for row in rows if abs(float(row[0])) > 2 or abs(float(row[3])) > 100], [], stacks)

    def test_a_thread_without_memory_is_told(self):
        profile = self.path("threads.heap")
        pathlib.Path(profile).write_text("heap_v2/1\n  t*: 1: 64 [1: 64]\n@ 0x1\n  t*: 1: 64 [1: 64]\n  t2: 0: 0 [0: 0]\n  t3: 1: 64 [1: 64]\n\n"
                                         "MAPPED_LIBRARIES:\n")
        for thread, is_told in ("2", True), ("t2", True), ("3", False), ("*", False):
            self.assertEqual("thread t2 has 0 of inuse_space\n" in run("report", f"--thread={thread}", profile).stderr.decode(), is_told, thread)

    def test_collapsed_stacks_with_and_without_arguments_are_the_same(self):
        """What is written without arguments gets them beside an overload."""
        before, after = self.path("before.collapsed"), self.path("after.collapsed")
        pathlib.Path(before).write_text("main;load 980\n")
        pathlib.Path(after).write_text("main;load(int) 980\nmain;load(char const*) 200\n")
        changes = rows(text("diff", "--text", "--show_bytes", before, after))
        self.assertEqual(changes, {"load": (200, 200), "main": (0, 200)})
        for form in ("collapsed", "pprof"):
            changed = self.path(f"changes.{form}")
            run("diff", f"--{form}", "-o", changed, before, after)
            self.assertEqual(text("report", "--collapsed", changed), "main;load 200\n", form)

    def test_what_has_no_stack_is_no_function_in_any_form(self):
        forms = {form: self.path(f"none.{form}") for form in ("collapsed", "raw", "pprof")}
        pathlib.Path(forms["collapsed"]).write_text("main;serve 30\n[no stack] 10\n")
        for form in ("raw", "pprof"):
            run("report", f"--{form}", "-o", forms[form], forms["collapsed"])
        for form, path in forms.items():
            self.assertEqual(rows(text("report", "--text", "--show_bytes", path)), {"serve": (30, 30), "main": (0, 30)}, form)
            self.assertEqual(text("report", "--collapsed", path), "main;serve 30\n[no stack] 10\n", form)
            self.assertEqual(json.loads(text("report", "--json", path))["total"]["value"], 40, form)

    def test_functions_inlined_in_a_profile_without_addresses_stay_so(self):
        collapsed, filtered = self.path("inlined.collapsed"), self.path("filtered.pb.gz")
        pathlib.Path(collapsed).write_text("main;handle;parse[inline];read[inline] 10\nmain;handle 5\n")
        run("report", "--pprof", "--focus=handle", "-o", filtered, collapsed)
        self.assertEqual(text("report", "--collapsed", filtered), "main;handle;parse[inline];read[inline] 10\nmain;handle 5\n")

    def test_binary_output_stays_off_the_terminal(self):
        main, terminal = pty.openpty()
        try:
            result = subprocess.run([HEAPCTL, "report", "--pprof", self.first], stdout=terminal, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 2)
            self.assertIn(b"not for a terminal", result.stderr)
        finally:
            os.close(main)
            os.close(terminal)

    def test_names_reach_no_terminal_as_they_are(self):
        """Nor in formats for other programs, whose files hold them so."""
        profile = self.path("names")
        pathlib.Path(profile).write_text("main;\x1b[2Jclear;a\u202egnp.exe 10\n")
        for form in ("--callgrind", "--raw", "--collapsed"):
            main, terminal = pty.openpty()
            try:
                subprocess.run([HEAPCTL, "report", form, profile], stdout=terminal, stderr=subprocess.DEVNULL, check=True)
                shown = os.read(main, 1 << 16)
            finally:
                os.close(main)
                os.close(terminal)
            self.assertIn(rb"\x1b[2Jclear", shown, form)
            self.assertNotIn(b"\x1b", shown, form)
            self.assertNotIn("\u202e".encode(), shown, form)

    # As jeprof

    def jeprof(self):
        link = self.path("jeprof")
        if not os.path.lexists(link):
            os.symlink(HEAPCTL, link)
        return link

    def test_takes_the_place_of_jeprof(self):
        program = self.jeprof()
        self.assertEqual(rows(text("-text", "--show", STORE, self.first, program=program))["load_table"], (TABLE, TABLE))
        self.assertIn("Total", text(STORE, self.first, "--tex", program=program))
        self.assertTrue(text("--version", program=program).startswith("jeprof"))
        self.assertEqual(text("--test", program=program), "PASS\n")
        self.assertIn("jeprof: unknown option --frob", run("--frob", program=program, code=1).stderr.decode())
        self.assertIn("no profile given", run(program=program, code=1).stderr.decode())

    def test_the_shell(self):
        commands = "top2\ntop1 --cum -load_table\npeek load_index\nlist load_table\ntree\nlist\nnonsense\nhelp\n\nquit\ntop\n"
        result = run("--interactive", "--show_bytes", STORE, self.first, program=self.jeprof(), input=commands.encode())
        out, err = result.stdout.decode(), result.stderr.decode()
        self.assertIn("Welcome to jeprof!", err)
        self.assertEqual(out.count(" load_table\n"), 2, out)
        self.assertRegex(out, rf"After ignoring 'load_table': \d+ B of \d+ B")
        self.assertRegex(out, rf"{INDEX} 100\.0% +\| make_node \(inline\)")
        self.assertIn("ROUTINE ====", out)
        self.assertIn("usage: list REGEX", err)
        self.assertIn("Unknown command", err)
        self.assertEqual(out.count("Total: "), 4, out)

    def test_viewers_leave_the_shell_alone(self):
        """They continue while the next command is typed, and remove their file when they end."""
        programs, shown, end = self.path("viewers"), self.path("shown"), self.path("end")
        os.mkdir(programs)
        for name in ("gv", "evince", "xdg-open", "kcachegrind"):
            script = pathlib.Path(programs, name)
            script.write_text(f'#!/bin/sh\nfor file; do :; done\nhead -c 8 "$file" >"{shown}.{name}.part"\n'
                              f'mv "{shown}.{name}.part" "{shown}.{name}"\nn=0\n'
                              f'while [ ! -e "{end}" ] && [ $((n += 1)) -lt 2400 ]; do sleep 0.05; done\n')
            script.chmod(0o755)
        pictures = self.path("pictures")
        os.mkdir(pictures)
        env = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", TMPDIR=pictures, HOME=self.folder)
        env.pop("BROWSER", None)
        with open(self.path("shell.out"), "w") as out:
            done = subprocess.run([HEAPCTL, "report", "--interactive", self.first], input=b"gv\nevince\nweb\ncallgrind\ntop3\nquit\n",
                                  stdout=out, stderr=out, env=env, timeout=60)
        said = pathlib.Path(self.path("shell.out")).read_text()
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("load_table", said)
        for name, begin in (("gv", b"%!PS-Ado"), ("evince", b"%PDF"), ("xdg-open", b"<?xml"), ("kcachegrind", b"# callgr")):
            wait_until(lambda: os.path.exists(f"{shown}.{name}"), name)
            self.assertTrue(pathlib.Path(f"{shown}.{name}").read_bytes().startswith(begin), name)
        self.assertEqual(len(os.listdir(pictures)), 4)
        pathlib.Path(end).touch()
        # A browser's may still be needed by another process of it.
        wait_until(lambda: len(os.listdir(pictures)) <= 1, "the viewers' files to be removed")

    def shell(self, *lines, options=()):
        """Standard output and standard error of the shell for these lines."""
        result = subprocess.run([HEAPCTL, "report", "--interactive", *options, self.first], input="\n".join((*lines, "quit", "")), text=True, check=True,
                                capture_output=True, timeout=60)
        return result.stdout, result.stderr

    def test_settings_of_the_shell_are_what_the_options_are(self):
        for settings, options in ((["sample_index=inuse_objects"], ["--inuse_objects"]), (["granularity = files", "sort=cum"], ["--files", "--cum"]),
                                  (["focus=load", "ignore=make"], ["--focus=load", "--ignore=make"]), (["hide=^main$", "show_bytes=true"], ["--hide=^main$", "--show_bytes"]),
                                  (["nodecount=2", "confidence=true"], ["--top=2", "--confidence"]), (["tagfocus=bytes=8kb:"], ["--tag=bytes=8kb:"]),
                                  (["tagignore=bytes=8kb:"], ["--tag-ignore=bytes=8kb:"]), (["prune_from=^load$"], ["--prune-from=^load$"]),
                                  (["unit=KB"], ["--unit=kb"]), (["mean=true"], ["--mean"]), (["divide_by=4"], ["--divide-by=4"]), (["divide_by=.5"], ["--divide-by=0.5"]),
                                  (["focus=load_index", "relative_percentages=f"], ["--focus=load_index", "--no-relative-percentages"]),
                                  (["tagfocus=bytes=8kb:"], ["--tagfocus=bytes=8kb:"]), (["noinlines=1"], ["--noinlines"])):
            with self.subTest(settings=settings):
                expected = text("report", "--top=10", *options, self.first).split("\n", 1)[1]
                self.assertNotEqual(expected, text("report", "--top=10", self.first).split("\n", 1)[1])
                self.assertIn(expected, self.shell(*settings, "top")[0])
                # What was set is taken back.
                reset = [f"{setting.split('=')[0].strip()}=" for setting in settings]
                self.assertEqual(self.shell(*settings, *reset, "top")[0], self.shell("top")[0])

    def test_a_wrong_setting_of_the_shell_is_named_and_changes_nothing(self):
        for line, message in (("granularity=rows", "granularity='rows': use functions, filefunctions, lines, files, addresses"),
                              ("sort=up", "sort='up': use flat, cum, change, name"), ("nodecount=-1", "nodecount='-1': use a number"),
                              ("nodefraction=2", "nodefraction='2': use a number from 0 to 1"), ("show_bytes=on", "show_bytes='on': use true or false"),
                              ("divide_by=0", "divide_by='0': use a number above 0"), ("divide_by=nan", "divide_by='nan': use a number above 0"),
                              ("sample_index=1", "sample_index='1': use inuse_objects, inuse_space,"), ("focus main", "focus is a setting (focus=main)"),
                              ("focus=(", "invalid pattern '('"), ("tagfocus=bytes=x", "'x' is not a range of sizes"), ("tagfocus=size", "size"), ("tagignore=bytes=x", "'x' is not a range of sizes"),
                              ("unit=lb", "unit='lb': use default, auto, b, kb"), ("colour=red", "there is no setting 'colour' (options lists them)")):
            with self.subTest(line=line):
                out, err = self.shell(line, "top")
                self.assertIn(message, err)
                self.assertEqual(out, self.shell("top")[0])
        out = self.shell("sort=cum", "options")[0]
        self.assertRegex(out, r"(?m)^  sort=cum  .*flat, cum, change or name$")
        self.assertLessEqual(max(map(len, out.splitlines())), 100)

    def test_options_of_pprof_without_a_counterpart_say_what_there_is_instead(self):
        for name, instead in (("call_tree", "tree and flame"), ("compact_labels", "one line"), ("normalize", "divide_by"), ("showcolumns", "granularity=lines"),
                              ("taghide", "tagignore"), ("tagleaf", "--thread="), ("tagroot", "--thread="), ("tagshow", "tagfocus"), ("trim_path", "source_path")):
            with self.subTest(name):
                for line in (f"{name}=true", name):
                    self.assertRegex(self.shell(line)[1], f"there is no setting '{name}': .*{instead}")
                self.assertRegex(run("report", f"--{name}=x", self.first, code=2).stderr.decode(), f"there is no --{name}: .*{instead}")
                self.assertNotIn(name, self.shell("options")[0])

    def test_every_option_of_pprof_is_known(self):
        """Those of google/pprof, internal/driver/config.go."""
        for name in ("output", "call_tree", "relative_percentages", "unit", "compact_labels", "source_path", "trim_path", "intel_syntax", "mean", "sample_index",
                     "divide_by", "normalize", "sort", "tagroot", "tagleaf", "drop_negative", "nodecount", "nodefraction", "edgefraction", "trim", "focus", "ignore",
                     "prune_from", "hide", "show", "show_from", "tagfocus", "tagignore", "tagshow", "taghide", "noinlines", "showcolumns", "granularity"):
            with self.subTest(name):
                err = self.shell(f"{name}=")[1]
                self.assertTrue("is no setting" not in err or f"'{name}': " in err, err)
                self.assertNotIn("unknown option", subprocess.run([HEAPCTL, "report", f"--{name}"], capture_output=True, text=True, timeout=60).stderr)

    def test_trim_false_shows_everything(self):
        count = len(rows(text("report", "--show_bytes", self.first)))
        self.assertGreater(count, 0)
        graph = text("report", "--dot", "--nodefraction=0.9", self.first).count("fontsize")
        self.assertEqual(len(rows(self.shell("show_bytes", "trim=false", "top")[0])), count)
        self.assertEqual(len(rows(self.shell("show_bytes", "trim=false", "top2")[0])), 2)
        self.assertGreater(text("report", "--dot", "--nodefraction=0.9", "--no-trim", self.first).count("fontsize"), graph)
        path = self.path("whole.dot")
        self.shell("nodefraction=0.9", "trim=false", f"dot > {path}")
        self.assertGreater(pathlib.Path(path).read_text().count("fontsize"), graph)

    def test_figures_are_divided_with_their_totals_but_not_in_profiles(self):
        whole, half = text("report", "--show_bytes", self.first), text("report", "--show_bytes", "--divide-by=2", self.first)
        self.assertEqual(rows(half)["load_table"], (TABLE // 2, TABLE // 2))
        self.assertEqual(int(re.search(r"Total: (\d+)", half)[1]), int(re.search(r"Total: (\d+)", whole)[1]) // 2)
        for output in ("--pprof", "--raw"):
            self.assertIn("a profile keeps its figures", run("report", output, "--divide-by=2", self.first, code=2).stderr.decode())
        path = self.path("divided")
        self.assertIn("proto writes figures as they were taken (divide_by= takes", self.shell("divide_by=2", f"proto > {path}")[1])
        self.assertFalse(os.path.exists(path))

    def test_shares_are_of_what_filters_leave_or_of_everything(self):
        options = ("--show_bytes", "--focus=load_index")
        total = int(re.search(r"Total: (\d+)", text("report", *options, self.first))[1])
        for output, at in (("--text", 2), ("--tree", 0)):
            for more, expected in (((), 100), (("--no-relative-percentages",), 100 * INDEX / total)):
                line = re.search(r".* load_index$", text("report", output, *options, *more, self.first), re.M)[0]
                self.assertAlmostEqual(float(re.findall(r"(\d+\.\d)%", line)[at]), expected, delta=0.06)
        for options, message in ((["--flame"], "goes with text reports"), ([f"--base={self.first}"], "shares of a difference")):
            self.assertIn(message, run("report", "--no-relative-percentages", *options, self.first, code=2).stderr.decode())
        self.assertIn("shares of a flame graph are of what it shows", self.shell("relative_percentages=false", "flame")[1])

    def test_assembly_is_in_the_syntax_that_was_chosen(self):
        if platform.machine() not in ("x86_64", "i686"):
            self.skipTest("there is one syntax")
        self.assertIn("%rsp", text("report", "--disasm=^load_table$", STORE, self.first))
        for out in (text("report", "--disasm=^load_table$", "--intel-syntax", STORE, self.first), self.shell("intel_syntax", "disasm ^load_table$")[0]):
            self.assertIn("rsp", out)
            self.assertNotIn("%rsp", out)

    def test_output_of_the_shell_goes_where_the_setting_says(self):
        path, top = self.path("set.txt"), self.shell("top3")[0]
        out, err = self.shell(f"output={path}", "top3", "options", "output=", "top2")
        self.assertEqual(pathlib.Path(path).read_text(), top)
        self.assertIn("sample_index=", out)
        self.assertIn(self.shell("top2")[0], out)
        self.shell(f"output={path}", "dot")
        self.assertTrue(pathlib.Path(path).read_text().startswith("digraph"))

    def test_what_has_no_mean_or_unit_is_refused(self):
        for options, message in ((["--unit=ms"], "the unit ms is not one of bytes"), (["--unit=lb"], "invalid value for --unit: 'lb'; use default, auto, b,"),
                                 (["--mean", "--flame"], "--mean goes with --text alone"), (["--mean", "--pprof"], "--mean goes with --text alone"),
                                 (["--mean", "--confidence"], "leave out --confidence"), (["--mean", "--inuse_objects"], "these figures are counts"),
                                 (["--mean", f"--base={self.first}"], "there is no mean of a difference"),
                                 *((["--unit=kb", f"--{output}"], "--unit goes with text reports, call graphs, source and assembly")
                                   for output in ("json", "rows", "flame", "flame-data", "collapsed", "callgrind", "pprof", "raw"))):
            with self.subTest(options=options):
                self.assertIn(message, run("report", *options, self.first, code=2).stderr.decode())
        out, err = self.shell("mean=true", "tree", "unit=ms", "top", "unit=", "top")
        self.assertIn("mean=true is for top alone (mean=false takes it back)", err)
        self.assertIn("the unit ms is not one of bytes", err)
        self.assertIn("Mean of", out)
        # Also one of the command line.
        self.assertNotIn("mean=true is", self.shell("mean=false", "tree", options=["--mean"])[1])
        # A mean is of all objects of a function: here they have one size.
        self.assertEqual(rows(text("report", "--mean", self.first))["load_table"], (TABLE // 3, TABLE // 3))

    def test_a_unit_of_other_figures_keeps_no_command_without_figures_from_working(self):
        profile = self.path("in_ms.heap")
        out, err = self.shell("unit=ms", "options", f"raw > {profile}", "unit=")
        self.assertNotIn("the unit ms", err)
        self.assertRegex(out, r"(?m)^  unit=ms ")
        self.assertTrue(os.path.exists(profile))

    def test_a_mean_is_of_what_was_counted(self):
        stacks, delays = (pathlib.Path(self.path(name)) for name in ("uncounted.txt", "delays.txt"))
        stacks.write_text("main;parse 300\n")
        delays.write_text("--- contention\ncycles/second=1000\n4000 2 @ 0x500 0x601\n9000 3 @ 0x500 0x701\n")
        self.assertIn("there is no mean: no objects were counted", run("report", "--mean", stacks, code=2).stderr.decode())
        self.assertIn("Mean of 5: 2.600 seconds", text("report", "--mean", delays))
        self.assertIn("leave out --mean_delay, or --mean", run("report", "--mean", "--mean_delay", delays, code=2).stderr.decode())

    def test_words_of_pprof_alone_are_settings(self):
        for word, setting in (("cum", "sort=cum"), ("lines", "granularity=lines"), ("files  ", "granularity=files"), ("noinlines", "noinlines=true"),
                              ("drop_negative", "drop_negative=true"),
                              ("alloc_objects", "sample_index=alloc_objects"), ("trim", "trim=true")):
            with self.subTest(word=word):
                self.assertEqual(self.shell(word, "top", "options"), self.shell(setting, "top", "options"))
        self.assertIn("Unknown command", self.shell("cum lines")[1])
        self.assertNotIn("make_node (inline)", self.shell("noinlines", "peek load_index")[0])
        for end in ("q", "exit", "quit"):
            self.assertEqual(self.shell(end, "top")[0], "")
        self.assertEqual(self.shell("o")[0], self.shell("options")[0])
        filters = ("focus=load", "ignore=make", "hide=x", "tagfocus=bytes=1:", "tagignore=bytes=8mb:")
        self.assertEqual(self.shell(*filters, ":", "top")[0], self.shell("top")[0])
        self.assertNotEqual(self.shell(*filters, "top")[0], self.shell("top")[0])

    def test_the_shell_draws_call_graphs_into_files(self):
        for name, begin in (("dot", b"digraph"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("ps", b"%!PS"), ("gif", b"GIF8"), ("png", b"\x89PNG")):
            with self.subTest(name):
                path = self.path(f"graph.{name}")
                self.assertEqual(self.shell(f"{name} load > {path}")[0], "")
                self.assertTrue(pathlib.Path(path).read_bytes().startswith(begin))
                self.assertIn(f"usage: {name} [FOCUS] [-IGNORE...] > FILE", self.shell(name)[1])

    def test_the_shell_says_that_a_figure_is_not_counted(self):
        path = pathlib.Path(self.path("uncounted.heap"))
        path.write_text("heap_v2/4096\n  t*: 1: 64 [0: 0]\n@ 0x1000\n  t*: 1: 64 [0: 0]\n\nMAPPED_LIBRARIES:\n")
        for setting, is_said in (("sample_index = alloc_space", True), ("sample_index=inuse_objects", False)):
            err = subprocess.run([HEAPCTL, "report", "--interactive", path], input=f"{setting}\ntop\n", text=True, check=True, capture_output=True, timeout=60).stderr
            self.assertEqual("counts only what is in use" in err, is_said, err)

    def test_pages_of_the_shell_go_to_files(self):
        for command, begin in (("weblist ^load_table$", "<!doctype html>"), ("flame load", "<!doctype html>"), ("callgrind", "positions:")):
            with self.subTest(command):
                path = self.path("page")
                out, err = self.shell(f"{command} > {path}")
                self.assertEqual(out, "", err)
                self.assertIn(begin, pathlib.Path(path).read_text()[:200].lower())
        for command in ("web", "gv", "evince"):
            with self.subTest(command):
                path = self.path("window")
                self.assertIn(f"{command} opens a window: it writes no file (svg > FILE writes the call graph)", self.shell(f"{command} > {path}")[1])
                self.assertFalse(os.path.exists(path))

    def test_the_shell_writes_profiles_as_the_settings_select_them(self):
        whole = text("report", "--collapsed", self.first)
        focused = text("report", "--collapsed", "--focus=load_index", self.first)
        self.assertLess(len(focused), len(whole))
        self.assertEqual(self.shell("traces")[0], whole)
        self.assertEqual(self.shell("traces load_index")[0], focused)
        for name in ("proto", "raw"):
            path = self.path(f"selected.{name}")
            self.assertEqual(self.shell("focus=load_index", f"{name} > {path}")[0], "")
            self.assertEqual(rows(text("report", path)), rows(text("report", "--focus=load_index", self.first)))
            self.assertIn(f"usage: {name} > FILE", self.shell(name)[1])

    def test_output_of_the_shell_goes_to_files(self):
        path, top = self.path("top.txt"), self.shell("top3")[0]
        self.assertEqual(self.shell(f"top3 > {path}")[0], "")
        self.assertEqual(pathlib.Path(path).read_text(), top)
        self.shell(f"top3 >>{path}  ")
        self.assertEqual(pathlib.Path(path).read_text(), 2 * top)
        self.shell(f"top3 >{path}")
        self.assertEqual(pathlib.Path(path).read_text(), top)
        self.assertIn("missing behind '>'", self.shell("top >")[1])
        self.assertIn("writing /nowhere/x: No such file", self.shell("top > /nowhere/x")[1])
        self.assertIn("Total:", self.shell("peek operator->")[0] + self.shell("top -operator->")[0])

    def test_view_opens_the_page_that_the_flame_graph_is(self):
        browser, shown, pictures = self.path("browser"), self.path("shown.html"), self.path("pages")
        pathlib.Path(browser).write_text(f'#!/bin/sh\ncp "$1" {shown}\n')
        os.chmod(browser, 0o755)
        os.mkdir(pictures)
        for arguments in ([self.first], ["--base", self.first, self.second], ["--inuse_objects", "--focus=load", self.first]):
            with self.subTest(arguments=arguments):
                subprocess.run([HEAPCTL, "view", *arguments], env=dict(os.environ, BROWSER=browser, TMPDIR=pictures), check=True,
                               capture_output=True)
                page = run("report", "--flame", *arguments).stdout
                self.assertEqual(pathlib.Path(shown).read_bytes(), page)
                self.assertEqual(run("view", "-o", "-", *arguments).stdout, page)
        self.assertIn("view shows a flame graph (heapctl report", run("view", "--text", self.first, code=2).stderr.decode())

    def on_a_terminal(self, *arguments, columns=80, **environment):
        """What a person sees of the standard output."""
        main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen([HEAPCTL, *map(str, arguments)], stdout=terminal, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, TERM="xterm", **environment))
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while piece := os.read(main, 65536):
                seen += piece
        os.close(main)
        self.assertEqual(process.wait(60), 0)
        return seen.decode().replace("\r\n", "\n")

    def test_a_person_gets_a_summary_and_a_script_all_rows(self):
        plain = self.on_a_terminal("report", self.first, NO_COLOR="1")
        self.assertRegex(plain, r"\A\S+: \d+\.\d [KM]iB space in use\n")
        shown = re.findall(r"(?m)^ +\S+ [KM]?i?B +(\d+\.\d%) +\S+ [KM]?i?B  (.+)$", plain)
        expected = [(share, name) for share, name in re.findall(r"(?m)^ *\S+ +(\S+%) +\S+% +\S+ +\S+% (.+)$", text("report", "--top=10", self.first))
                    if share != "0.0%"]
        self.assertEqual(shown, expected)
        self.assertIn(f"\nheapctl view {self.first}\n", plain)
        self.assertEqual(re.sub(r"\x1b\[\d*m", "", self.on_a_terminal("report", self.first)), plain)
        narrow = self.on_a_terminal("report", self.first, columns=44, NO_COLOR="1").partition("FUNCTION")[2].partition("\nheapctl")[0]
        self.assertLessEqual(max(map(len, narrow.splitlines())), 44)
        for options in (["--text"], ["--top=5"], ["--confidence"], ["--show_bytes"], ["--cum"], ["--base", self.first]):
            with self.subTest(options=options):
                self.assertEqual(self.on_a_terminal("report", *options, self.first), text("report", *options, self.first))
        sampled = self.on_a_terminal("report", self.take("summary", ",lg_prof_sample:10"), NO_COLOR="1")
        self.assertRegex(sampled, r"\A\S+: \d+\.\d [KM]iB space in use, between \d+\.\d [KM]iB and \d+\.\d [KM]iB \(95%, \d+ samples\)\n")
        odd = shutil.copy(self.first, self.path("a file.heap"))
        self.assertIn(f"\nheapctl view '{odd}'\n", self.on_a_terminal("report", odd, NO_COLOR="1"))

    @contextlib.contextmanager
    def shell_on_a_terminal(self, command, **environment):
        """It and its terminal, which is closed at the end."""
        main, terminal = pty.openpty()
        shell = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True,
                                 env=dict(os.environ, TERM="dumb", **environment))
        os.close(terminal)
        try:
            yield shell, main
        finally:
            shell.kill()
            shell.wait()
            os.close(main)

    def test_the_shell_on_a_terminal(self):
        """On a terminal jeprof's default is the shell; the line editor repeats what is typed."""
        with self.shell_on_a_terminal([self.jeprof(), str(STORE), self.first], HOME=self.folder) as (shell, main):
            self.read_until(main, b"(jeprof) ")
            os.write(main, b"top3\n")
            seen = self.read_until(main, b"load_table")
            self.assertIn(b"Total:", seen)
            os.write(main, b"weblist load_ta\x15pee\tload_ta\t\n")
            self.assertIn(b"peek load_table", self.read_until(main, b"-----"))
            os.write(main, b"quit\n")
            self.assertEqual(shell.wait(60), 0)

    def test_the_shell_keeps_its_lines_for_the_next_session(self):
        for typed, seen in ((b"top3\nquit\n", b"load_table"), (b"\x10\x10\n", b"Total:"), (b"quit\n", b"quit")):
            with self.shell_on_a_terminal([HEAPCTL, "report", "--interactive", self.first], XDG_STATE_HOME=self.path("state")) as (shell, main):
                self.read_until(main, b"(heapctl) ")
                os.write(main, typed)
                self.read_until(main, seen)
                if b"quit" not in typed:
                    os.write(main, b"quit\n")
                self.assertEqual(shell.wait(60), 0)
        kept = pathlib.Path(self.path("state/heapctl/report_history"))
        self.assertEqual([line for line in kept.read_text().splitlines() if line == "top3"], ["top3"] * 2)
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)

    def read_until(self, fd, wanted):
        seen = b""
        while wanted not in seen:
            if not select.select([fd], [], [], 60)[0]:
                raise AssertionError(f"waited for {wanted} in vain: {seen}")
            seen += os.read(fd, 4096)
        return seen


class ReportOfTarget(Case):
    def test_a_running_process(self):
        process, port = self.start_redis(conf="prof:true,lg_prof_sample:10")
        self.wait_for_agent(process.pid)
        self.load_redis(port)
        for target in (process.pid, self.socket_of(process.pid)):
            out, _ = self.heapctl("report", target)
            self.assertRegex(out, r"Total: \d+\.\d MB\n")
            self.assertIn("aeCreateEventLoop", out)

    def test_a_reset_between_two_profiles(self):
        for accumulates, words in ((True, "prof.reset was called in between"), (False, "it was freed, or prof.reset was called")):
            process, port = self.start_redis(conf=f"prof:true,lg_prof_sample:10,prof_accum:{str(accumulates).lower()}")
            self.wait_for_agent(process.pid)
            first, grown, reset = (os.path.join(self.folder, f"{name}.{process.pid}") for name in ("first", "grown", "reset"))
            self.load_redis(port)
            self.heapctl("dump", process.pid, "-o", first)
            self.load_redis(port, keys=3000)
            self.heapctl("dump", process.pid, "-o", grown)
            self.assertNotIn("prof.reset", self.heapctl("diff", first, grown)[1])
            self.heapctl("mallctl", process.pid, "prof.reset=10", "--force")
            if accumulates:
                # The total is larger than before, so that only single stacks show it.
                self.load_redis(port, keys=20000)
            self.heapctl("dump", process.pid, "-o", reset)
            self.assertIn(words, self.heapctl("diff", grown, reset)[1])

    def test_a_process_whose_program_was_replaced(self):
        """Its own code is still there for the symbolizer, by way of the kernel."""
        need("redis-server")
        program = shutil.copy(os.path.realpath(need("redis-server")), os.path.join(self.folder, "redis-server"))
        port = free_port()
        process = self.start(program, "--port", port, "--save", "", "--dir", self.folder,
                             env={"LD_PRELOAD": AGENT, "MALLOC_CONF": "prof:true,lg_prof_sample:10"},
                             wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")
        self.wait_for_agent(process.pid)
        os.unlink(program)
        self.load_redis(port)
        self.assertIn("aeCreateEventLoop", self.heapctl("report", process.pid)[0])

    def test_nothing_of_that_name(self):
        _, err = self.heapctl("report", "no-such-process-there", code=1)
        self.assertIn("there is no file 'no-such-process-there', and no process is called so (heapctl ps --all lists", err)

    def test_a_folder_names_the_verb_that_takes_one(self):
        for verb, code in (("report", 1), ("account", 2), ("status", 2), ("dump", 2)):
            _, err = self.heapctl(verb, self.folder, code=code)
            self.assertIn("heapctl trend", err, verb)
        _, err = self.heapctl("report", "--fragmentation", self.folder, code=1)
        self.assertIn("heapctl trend", err)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    """A field of a protobuf message: bytes, or a number."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


class Work(Case):
    """Repetitive files take time and memory in proportion to their length, not more."""

    def test_a_long_name_that_many_functions_share(self):
        functions = 20000
        texts = [b"", b"inuse_space", b"bytes", b"f" * (1 << 20)]
        profile = field(1, field(1, 1) + field(2, 2))
        for number in range(1, functions + 1):
            profile += field(2, field(1, varint(number)) + field(2, varint(1024)))
            profile += field(4, field(1, number) + field(4, field(1, number)))
            profile += field(5, field(1, number) + field(2, 3))
        profile += b"".join(field(6, text) for text in texts)
        path = os.path.join(self.folder, "shared.pb.gz")
        pathlib.Path(path).write_bytes(gzip.compress(profile))
        # Read anew for each function, the name would take minutes.
        result = subprocess.run(["bash", "-c", 'ulimit -t 60; exec "$@"', "bash", HEAPCTL, "report", "--text", path], env=self.environment,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("ffff", result.stdout)

    def limited(self, *arguments):
        """Runs a command that may take ten seconds of processor time, and fails where it takes more."""
        result = subprocess.run(["bash", "-c", 'ulimit -t 10; exec "$@"', "bash", HEAPCTL, *arguments], env=self.environment,
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def processor_seconds(self, *arguments):
        """Of three runs the least: other programs slow some of them down."""
        def once():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([HEAPCTL, "report", *arguments], check=True, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return min(once() for _ in range(3))

    @unittest.skipIf(SANITIZED, "a ratio of costs, which a sanitizer changes")
    def test_json_costs_about_as_much_as_other_outputs(self):
        lines = ["heap_v2/524288", "  t*: 40000: 40000000 [0: 0]"]
        for i in range(40000):
            lines += [f"@ {i + 0x1000:#x} {i % 500 + 0x20000:#x} {i % 20 + 0x40000:#x}", f"  t*: {1 + i % 7}: {(1 + i % 7) * (16 + i % 4001)} [0: 0]"]
        path = os.path.join(self.folder, "wide.heap")
        pathlib.Path(path).write_text("\n".join(lines + ["", "MAPPED_LIBRARIES:", "00001000-00900000 r-xp 00000000 fe:00 1 /nowhere/server", ""]))
        # Twelve times as much where the C library writes each number.
        self.assertLess(self.processor_seconds("--json", "--no-cache", path), 5 * self.processor_seconds("--collapsed", "--no-cache", path))

    def test_addresses_that_share_their_lower_bits(self):
        """They differ in the upper twenty bits alone, which would be in one place of an index that is made of a product's lower half."""
        lines = ["heap_v2/524288\n  t*: 1: 5 [0: 0]\n"]
        for first in range(1, 1 << 18, 32):
            lines.append("@" + "".join(f" 0x{address << 44 & (1 << 64) - 1:x}" for address in range(first, first + 32)) + "\n  t*: 1: 5 [0: 0]\n")
        path = os.path.join(self.folder, "upper.heap")
        pathlib.Path(path).write_text("".join(lines))
        self.assertIn("Total", self.limited("report", "--text", path))

    def test_tens_of_thousands_of_mapped_files(self):
        paths = [os.path.join(self.folder, name) for name in ("before.heap", "after.heap")]
        mappings = "".join(f"{start:x}-{start + 4096:x} r-xp 1000 0:0 0 /lib/{'x' * 60}/{start}\n"
                           for start in range(0x10000000, 0x10000000 + 60000 * 4096, 4096))
        for path in paths:
            pathlib.Path(path).write_text("heap_v2/524288\n  t*: 1: 5 [0: 0]\n@ 0x1\n  t*: 1: 5 [0: 0]\n\nMAPPED_LIBRARIES:\n" + mappings)
        self.assertIn("Total", self.limited("report", "--text", paths[0]))
        self.assertIn("all changes", self.limited("diff", "--text", *paths))
        self.assertIn("too few profiles", self.limited("trend", *paths))

    def test_tens_of_thousands_of_mapped_files_with_an_address_each(self):
        paths = [os.path.join(self.folder, name) for name in ("one.heap", "other.heap")]
        # A sanitizer sees the same with less; what it costs is a matter of the plain build.
        count = 10000 if SANITIZED else 40000
        starts = range(0x7f0000000000, 0x7f0000000000 + count * 0x10000, 0x10000)
        stacks = "".join(f"@ 0x{start + 0x500:x}\n  t*: 1: 600000 [0: 0]\n" for start in starts)
        for path in paths:
            mappings = "".join(f"{start:x}-{start + 0x2000:x} r-xp 0 0:0 0 {path}/{start}\n" for start in starts)
            pathlib.Path(path).write_text(f"heap_v2/524288\n  t*: 1: 5 [0: 0]\n{stacks}\nMAPPED_LIBRARIES:\n{mappings}")
        self.assertIn("Total", self.limited("report", "--text", paths[0]))
        self.assertIn("all changes", self.limited("diff", "--text", *paths))
        self.limited("diff", "--pprof", "-o", os.path.join(self.folder, "change.pb.gz"), *paths)
        self.assertIn("too few profiles", self.limited("trend", *paths))

    def elf_file(self, name, code_type, segments, sections=(), rest=b""):
        """An ELF file with a section of code, the segments (type, offset, size) and more sections (type, offset, size); `rest` follows the headers."""
        headers = [(0, 0, 0, 0), (code_type, 6, 0, 64), *((kind, 0, offset, size) for kind, offset, size in sections)]
        programs = b"".join(struct.pack("<IIQQQQQQ", kind, 5, offset, offset, offset, size, size, 4096) for kind, offset, size in segments)
        shapes = b"".join(struct.pack("<IIQQQQIIQQ", 0, kind, flags, 0, offset, size, 0, 0, 1, 0) for kind, flags, offset, size in headers)
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_bytes(b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
            "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64 + len(programs), 0, 64, 56, len(segments), 64, len(headers), 0) + programs + shapes + rest)
        return path

    def report_of(self, file, mappings):
        """The report of an address in each of the mappings (start, size, offset) of a file."""
        profile = os.path.join(self.folder, "mapped.heap")
        stacks = "".join(f"@ 0x{start + 16:x}\n  t*: 1: 600000 [0: 0]\n" for start, _, _ in mappings)
        lines = "".join(f"{start:x}-{start + size:x} r-xp {offset:x} 0:0 0 {file}\n" for start, size, offset in mappings)
        pathlib.Path(profile).write_text(f"heap_v2/524288\n  t*: 1: 5 [0: 0]\n{stacks}\nMAPPED_LIBRARIES:\n{lines}")
        self.assertIn("Total", self.limited("report", "--text", profile))

    def test_notes_that_all_headers_of_a_file_share(self):
        notes, headers = bytes(12 * 170000), 32000
        at = 64 + 56 + 64 * (headers + 2)
        file = self.elf_file("notes", 1, [(1, 0, 1 << 22)], [(7, at, len(notes))] * headers, notes)
        self.report_of(file, [(0x400000, 1 << 22, 0)])

    def test_more_segments_than_a_program_can_have(self):
        file = self.elf_file("segments", 1, [(1, 1 << 40, 4096)] * 65000)
        profile = os.path.join(self.folder, "segments.heap")
        pathlib.Path(profile).write_text("heap_v2/524288\n  t*: 1: 5 [0: 0]\n@ 0x400010\n  t*: 1: 5 [0: 0]\n\n"
                                         f"MAPPED_LIBRARIES:\n400000-401000 r-xp 0 0:0 0 {file}\n")
        result = subprocess.run([HEAPCTL, "report", "--text", profile], env=self.environment, capture_output=True, text=True, check=True)
        self.assertIn(f"{file}: has 65000 program headers, at most 1170 are possible", result.stderr)

    def test_tens_of_thousands_of_mappings_of_one_file(self):
        count, page = 60000, 4096
        starts = range(0x7f0000000000, 0x7f0000000000 + 2 * count * page, 2 * page)
        self.report_of(self.elf_file("debug", 8, [(1, 0, 0)]), [(start, page, 0) for start in starts])
        self.report_of(self.elf_file("pieces", 1, [(1, 0, count * page)]),
                       [(0x7f0000000000 + i * page, page, i * page) for i in range(count)])

    def test_a_long_name_in_the_map_of_made_code(self):
        process = subprocess.Popen(["sleep", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        self.addCleanup(path.unlink, missing_ok=True)
        path.write_text("7f0000000000 10000000 " + "f" * (20 << 20))
        profile = os.path.join(self.folder, "made.heap")
        pathlib.Path(profile).write_text("heap_v2/524288\n  t*: 1: 5 [0: 0]\n" + "".join(
            f"@ 0x{0x7f0000000000 + i:x}\n  t*: 1: 5 [0: 0]\n" for i in range(1, 20001)) +
            "\nMAPPED_LIBRARIES:\n400000-401000 r-xp 0 0:0 0 /bin/sleep\n")
        self.assertIn("ffff", self.limited("report", "--text", f"--pid={process.pid}", profile))

    def test_names_that_overlap_in_a_file(self):
        """A megabyte of names in which each of thousands of functions begins elsewhere."""
        functions, start = 4000, 0x1000

        def unit(body):
            return struct.pack("<IHIB", len(body) + 7, 4, 0, 8) + body

        abbreviations = bytes([1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, 2, 0x2e, 0, 0x03, 0x0e, 0x11, 1, 0x12, 7, 0, 0, 0])
        info = unit(struct.pack("<BQQ", 1, start, 1 << 20) + b"".join(
            struct.pack("<BIQQ", 2, i, start + 16 * i, 16) for i in range(functions)) + b"\0")
        parts = {".text": bytes(16 * functions), ".debug_info": info, ".debug_abbrev": abbreviations, ".debug_str": b"f" * (1 << 20) + b"\0"}
        program, profile = (os.path.join(self.folder, name) for name in ("names.o", "names.heap"))
        names = b"\0" + b"\0".join(name.encode() for name in parts) + b"\0"
        contents, headers = b"", [struct.pack("<IIQQQQIIQQ", *(10 * [0]))]
        at = 64 + 56
        for name, data in {**parts, "": names}.items():
            kind, flags = (1, 6) if name == ".text" else (1, 0) if name else (3, 0)
            headers.append(struct.pack("<IIQQQQIIQQ", names.index(name.encode()), kind, flags, start if flags else 0, at + len(contents), len(data), 0, 0, 1, 0))
            contents += data
        pathlib.Path(program).write_bytes(b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
            "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at + len(contents), 0, 64, 56, 1, 64, len(headers), len(headers) - 1) + struct.pack(
            "<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 20, 1 << 20, 4096) + contents + b"".join(headers))
        pathlib.Path(profile).write_text("heap_v2/524288\n  t*: 1: 5 [0: 0]\n" + "".join(
            f"@ 0x{0x400000 + start + 16 * i + 8:x}\n  t*: 1: 5 [0: 0]\n" for i in range(functions)) +
            f"\nMAPPED_LIBRARIES:\n400000-500000 r-xp 0 0:0 0 {program}\n")
        peak, said = self.peak_kib("report", "--text", profile)
        self.assertIn("addresses have no name: reading it was stopped: it needs far more work than a file of its size", said)
        self.assertLess(peak, 600 << 10)

    def peak_kib(self, *arguments):
        """The memory that a command had at most, and what it said. Measured from a small process: a child begins with its parent's."""
        measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        result = subprocess.run([sys.executable, "-c", measure, HEAPCTL, *arguments], env=self.environment, capture_output=True, text=True)
        return int(result.stdout), result.stderr

    def test_compressed_profiles_that_expand_to_hundreds_of_megabytes(self):
        """Some megabytes are expanded while they are read: what is held is the profile, not its text."""
        heap = b"heap_v2/524288\n  t*: 1: 5 [0: 0]\n@ 0x1\n  t*: 1: 5 [0: 0]\n"
        text_bytes = field(1, field(1, 1) + field(2, 2)) + b"".join(field(6, text) for text in (b"", b"inuse_space", b"bytes"))
        empty, _ = self.peak_kib("report", "--text", os.devnull)
        for name, begin, part, limit_mib in (
                ("junk", heap, b"junk line\n", 40), ("blanks", heap, b" ", 40), ("threads", heap, b"  t1: 1: 1 [0: 0]\n", 140),
                ("stacks", heap, b"@ 0x1\n  t*: 1: 5 [0: 0]\n", 140), ("collapsed", b"a;b 1\n", b"a;b 1\n", 140),
                ("names", b"--- symbol\n", b"0x1 name\n", 40), ("pprof", text_bytes, field(2, b""), 210)):
            for kind, pack in (("gz", gzip.compress), ("xz", lzma.compress)):
                # What a sanitizer keeps is not limited here, so one that expands by liblzma is enough for it.
                if SANITIZED and kind == "xz" and name != "junk":
                    continue
                with self.subTest(name, kind=kind):
                    path = os.path.join(self.folder, f"{name}.{kind}")
                    member = pack(part * (10000000 // len(part)))
                    # A hundred times this is the limit.
                    pathlib.Path(path).write_bytes(pack(begin) + member * (2000000 // len(member)))
                    peak, said = self.peak_kib("report", "--text", path)
                    if not SANITIZED:  # a sanitizer keeps what was freed
                        self.assertLess(peak - empty, limit_mib * 1024, said)
                    self.assertRegex(said, r"(expands to more than \d+ bytes|larger than can be kept in memory) \(expand it to a file")

    def test_debug_sections_that_expand_to_gigabytes(self):
        """They are refused by what they claim, and the message says which section of which file, though the symbol table has all names."""
        program, zeros, plain, bomb = (os.path.join(self.folder, name) for name in ("program", "zeros", "plain", "bomb"))
        shutil.copy(STORE, program)
        with open(zeros, "wb") as file:
            file.truncate(64 << 20)
        for command in (["objcopy", f"--update-section=.debug_str={zeros}", program, plain],
                        ["objcopy", "--compress-debug-sections=zlib", plain, bomb]):
            subprocess.run(command, check=True, capture_output=True)
        symbols = subprocess.run(["nm", bomb], check=True, capture_output=True, text=True).stdout
        profile = os.path.join(self.folder, "bomb.heap")
        address = int(re.search(r"^([0-9a-f]+) [Tt] load_table$", symbols, re.M)[1], 16)
        # Whole pages, at the addresses that it was linked for.
        segments = subprocess.run(["readelf", "-lW", bomb], check=True, capture_output=True, text=True).stdout
        offset, start, size = (int(value, 16) for value in re.search(r"LOAD +(\S+) (\S+) \S+ (\S+) \S+ R E", segments).groups())
        pathlib.Path(profile).write_text(f"heap_v2/1\n  t*: 1: 5 [0: 0]\n@ 0x{address + 1:x}\n  t*: 1: 5 [0: 0]\n\n"
                                         f"MAPPED_LIBRARIES:\n{start & -4096:x}-{start + size + 4095 & -4096:x} r-xp {offset & -4096:08x} 08:01 42 {bomb}\n")
        peak, said = self.peak_kib("report", "--text", profile)
        self.assertRegex(said, rf"{bomb}: files, lines and inlined functions are missing: its compressed sections claim to hold \d+ bytes "
                               r"\(\.debug_str 67108864\), which a file of \d+ bytes does not")
        self.assertLess(peak, 60 << 10)


if __name__ == "__main__":
    unittest.main()
