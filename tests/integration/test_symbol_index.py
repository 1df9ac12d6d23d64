# SPDX-License-Identifier: Apache-2.0
"""An index of symbols has the names, files and lines that the files have which it was made from."""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from gateway import GatewayCase
from processes import BUILD, Case
from symbol_programs import build_in, have, run

TOOL = str(BUILD / "tests/integration/symbolize")
HEAPCTL = str(BUILD / "heapctl")


def text_addresses(path):
    """Each address of the code."""
    found = re.search(r" \.text\s+\w+\s+(\w+)\s+\w+\s+(\w+)", run("readelf", "-SW", path))
    start, size = (int(field, 16) for field in found.groups())
    return list(range(start, start + size))


def build_id_of(path):
    return re.search(r"Build ID: (\w+)", run("readelf", "-n", path)).group(1)


class IndexCase(Case):
    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.folder, "home")
        self.ids = os.path.join(self.folder, "ids")
        os.mkdir(self.home)

    def heapctl(self, *arguments, **options):
        environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"} | {"HOME": self.home}
        return subprocess.run([HEAPCTL, *arguments], env=environment, capture_output=True, text=True, **options)

    def index(self, *arguments):
        result = self.heapctl("symbols", "index", *arguments)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stderr

    def ask_tool(self, path, addresses, *options):
        given = "".join(f"{address:x}\n" for address in addresses)
        result = subprocess.run([TOOL, *options, path, "-"], input=given, stdout=subprocess.PIPE, text=True, check=True)
        answer = json.loads(result.stdout)
        return answer["results"], answer["modules"][0]

    def strip(self, path):
        stripped = os.path.join(self.folder, "stripped")
        run("strip", path, "-o", stripped)
        return stripped

    def place(self, folder, path):
        build_id = build_id_of(path)
        return os.path.join(folder, ".build-id", build_id[:2], build_id[2:] + ".debug")


class SameAnswers(IndexCase):
    def check(self, compiler="gcc", flags=("-g",), link=(), source="dwarf"):
        """Every byte of the code: the stripped program with its index, and the program with its debug information."""
        path = build_in(os.path.join(self.folder, "program"), compiler=compiler, flags=flags, link=link)
        addresses = text_addresses(path)
        expected, _ = self.ask_tool(path, addresses)
        self.assertGreater(sum(bool(result["frames"]) for result in expected), 100)
        self.index("--folder", self.ids, path)
        found, module = self.ask_tool(self.strip(path), addresses, "--build-id-dir", self.ids)
        self.assertEqual(self.place(self.ids, path), module["debug_file"])
        problem = "" if source == "dwarf" else "no files and lines: its debug file was not found"
        self.assertEqual((problem, source), (module["problem"], module["source"]))
        for mine, theirs in zip(found, expected):
            # The stripped program tells where functions begin that have no name; so does the other.
            self.assertEqual(theirs, mine, hex(mine["address"]))
        self.assertLess(os.path.getsize(module["debug_file"]), os.path.getsize(path))

    def test_gcc(self):
        self.check()

    def test_gcc_dwarf4(self):
        self.check(flags=["-g", "-gdwarf-4"])

    def test_gcc_dwarf2(self):
        self.check(flags=["-g", "-gdwarf-2", "-gstrict-dwarf"])

    def test_gcc_without_optimization(self):
        self.check(flags=["-g", "-O0"])

    def test_gcc_link_time_optimization(self):
        self.check(flags=["-g", "-flto"])

    def test_gcc_type_units(self):
        self.check(flags=["-g", "-fdebug-types-section"])

    def test_gcc_split(self):
        self.check(flags=["-g", "-gsplit-dwarf"])

    def test_gcc_compressed(self):
        self.check(flags=["-g", "-gz"])

    def test_clang_without_aranges(self):
        self.check(compiler="clang", flags=["-g", "-ffunction-sections"], link=["-Wl,--build-id"])

    def test_symbol_table_alone(self):
        self.check(flags=[], source="table")


class Use(IndexCase):
    """Where an index is found, and what is said of one that cannot be used."""

    def setUp(self):
        super().setUp()
        self.program = build_in(os.path.join(self.folder, "program"), flags=["-g"])
        self.addresses = text_addresses(self.program)[::7]
        self.expected, _ = self.ask_tool(self.program, self.addresses)
        self.cache = os.path.join(self.home, ".cache/heapctl")

    def test_the_cache_is_searched_first(self):
        said = self.index(self.program)
        place = self.place(self.cache, self.program)
        self.assertIn(place, said)
        self.assertEqual(0o600, os.stat(place).st_mode & 0o777)
        for path in (self.strip(self.program), self.program):
            found, module = self.ask_tool(path, self.addresses, "--cache-dir", self.cache)
            self.assertEqual(place, module["debug_file"])
            self.assertEqual(self.expected, found)

    def test_other_addresses_need_no_debug_file_either(self):
        self.index(self.program)
        stripped = self.strip(self.program)
        half = len(self.addresses) // 2
        for part in (slice(0, half), slice(half, None)):
            found, _ = self.ask_tool(stripped, self.addresses[part], "--cache-dir", self.cache)
            self.assertEqual(self.expected[part], found)

    def test_an_index_that_comes_later_is_used(self):
        stripped = self.strip(self.program)
        self.assertEqual("dynamic", self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache)[1]["source"])
        self.index(self.program)
        self.assertEqual(self.expected, self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache)[0])

    def test_the_program_may_be_gone(self):
        self.index(self.program)
        maps = []
        for line in run("readelf", "-lW", self.program).splitlines():
            fields = line.split()
            if fields[:1] == ["LOAD"]:
                offset, vaddr, size = int(fields[1], 16), int(fields[2], 16), int(fields[4], 16)
                maps += ["--map", f"{vaddr & -4096:x}-{vaddr + size + 4095 & -4096:x}:{offset & -4096:x}=/gone/program"]
        answer = json.loads(run(TOOL, "--build-id", build_id_of(self.program), "--cache-dir", self.cache, *maps,
                                *map(hex, self.addresses)))
        self.assertEqual([result["frames"] for result in self.expected], [result["frames"] for result in answer["results"]])

    def profile_of(self, program, address, omit="", page=4096):
        """As of a process that ran it, whose agent names the build behind the code alone. Mappings with `omit` are left out."""
        base = 0 if "EXEC" in run("readelf", "-hW", program) else 0x55d27e690000
        lines = []
        for line in run("readelf", "-lW", program).splitlines():
            fields = line.split()
            if fields[:1] != ["LOAD"]:
                continue
            offset, vaddr, size = (int(fields[at], 16) for at in (1, 2, 5))
            is_code = fields[7] == "E"
            start = base + (vaddr & -page)
            mapping = f"{start:x}-{base + (vaddr + size + page - 1 & -page):x} r-{'x' if is_code else '-'}p {offset & -page:08x} 00:00 1 /gone/program"
            if omit == "" or omit not in mapping:
                lines += [mapping] + ([f"#build-id {start:x} {build_id_of(program)}"] if is_code else [])
        path = os.path.join(self.folder, "a.heap")
        pathlib.Path(path).write_text(f"heap_v2/1\n  t*: 1: 8 [0: 0]\n@ {base + address + 1:#x}\n  t*: 1: 8 [0: 0]\n\nMAPPED_LIBRARIES:\n" + "\n".join(lines) + "\n")
        return path

    def test_a_program_that_is_gone_has_names_in_each_form_of_its_profile(self):
        source = os.path.join(self.folder, "many.c")
        pathlib.Path(source).write_text("#include <stdlib.h>\n" + "".join(f'void *take{n}(int n) {{ __asm__ volatile(".fill 6000, 1, 0x90"); return malloc(n); }}\n' for n in range(3)) +
                                        "int main(int c, char **v) { (void)v; return take0(c) == take1(c) && take2(c); }\n")
        debug = os.path.join(self.folder, "debug")
        pprof = os.path.join(self.folder, "a.pb.gz")
        # lld maps the first page of this file twice: as constants, and as code.
        large = "-Wl,-z,max-page-size=65536"
        for page, *link in ((4096, "gcc"), (4096, "gcc", "-no-pie"), (4096, "gcc", "-Wl,-z,noseparate-code"), (4096, "clang", "-fuse-ld=lld"),
                            (4096, "clang", "-fuse-ld=lld", "-no-pie"), (4096, "gcc", large), (65536, "gcc", large), (65536, "clang", "-fuse-ld=lld", large)):
            program = os.path.join(self.folder, "many")
            run(*link, "-g", "-O1", "-w", "-Wl,--build-id", source, "-o", program)
            self.index("--folder", self.ids, program)
            place = self.place(debug, program)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            run("objcopy", "--only-keep-debug", program, place)
            symbols = {fields[2]: int(fields[0], 16) for fields in map(str.split, run("nm", program).splitlines()) if len(fields) == 3}
            for name in ("take0", "take1", "take2"):
                heap = self.profile_of(program, symbols[name], page=page)
                self.heapctl("report", "--pprof", "--strip-names", "-o", pprof, heap)
                for profile in (heap, pprof):
                    for folder in (self.ids, debug):
                        with self.subTest(page=page, link=link, name=name, profile=profile, folder=folder):
                            result = self.heapctl("report", "--text", "--lines", "--no-prune", "--no-cache", "--build-id-dir", folder, profile)
                            self.assertEqual("", result.stderr)
                            self.assertRegex(result.stdout, rf" {name} \S*many.c:{int(name[4:]) + 2}\n")

    def test_a_place_that_a_profile_does_not_say_is_said_to_be_missing(self):
        self.index("--folder", self.ids, self.program)
        heap = self.profile_of(self.program, self.addresses[0], omit=" 00000000 ")
        text = pathlib.Path(heap).read_text()
        begin = re.search(r"^(\w+)-\w+ r-xp", text, re.M).group(1)
        pathlib.Path(heap).write_text(text.replace(begin, f"{int(begin, 16) - 4096:x}"))
        result = self.heapctl("report", "--text", "--no-cache", "--build-id-dir", self.ids, heap)
        self.assertIn("/gone/program: 1 of 1 addresses have no name: its mappings do not say where in the file the addresses are (give the file that ran,", result.stderr)

    def test_of_a_stripped_program_with_its_debug_file(self):
        debug = self.place(self.ids, self.program)
        os.makedirs(os.path.dirname(debug))
        run("objcopy", "--only-keep-debug", self.program, debug)
        stripped = self.strip(self.program)
        self.assertIn(f" % of {debug}: ", self.index("--build-id-dir", self.ids, stripped))
        shutil.rmtree(self.ids)
        self.assertEqual(self.expected, self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache)[0])

    def test_report_takes_names_from_it(self):
        self.index(self.program)
        stripped = self.strip(self.program)
        address = next(result["address"] for result in self.expected if len(result["frames"]) > 2)
        profile = os.path.join(self.folder, "a.heap")
        maps = pathlib.Path(profile).parent / "maps"
        lines = []
        for line in run("readelf", "-lW", stripped).splitlines():
            fields = line.split()
            if fields[:1] == ["LOAD"]:
                offset, vaddr, size = int(fields[1], 16), int(fields[2], 16), int(fields[4], 16)
                lines.append(f"{vaddr & -4096:x}-{vaddr + size + 4095 & -4096:x} r-xp {offset & -4096:08x} 00:00 1 {stripped}")
        maps.write_text("\n".join(lines))
        pathlib.Path(profile).write_text(f"heap_v2/1\n  t*: 1: 8 [0: 0]\n@ {address + 1:#x}\n  t*: 1: 8 [0: 0]\n\n"
                                         "MAPPED_LIBRARIES:\n" + maps.read_text() + "\n")
        result = self.heapctl("report", "--text", "--lines", "--no-prune", profile)
        frames = next(r["frames"] for r in self.expected if r["address"] == address)
        self.assertIn(os.path.basename(frames[0]["file"]) + ":" + str(frames[0]["line"]), result.stdout, result.stderr)
        self.assertNotIn("debug file was not found", result.stderr)

    def test_of_another_version(self):
        self.index(self.program)
        place = pathlib.Path(self.place(self.cache, self.program))
        contents = bytearray(place.read_bytes())
        contents[contents.index(b"heapidx\0") + 8] += 1
        place.write_bytes(contents)
        module = self.ask_tool(self.strip(self.program), self.addresses, "--cache-dir", self.cache)[1]
        self.assertIn("it is of another version of heapctl", module["problem"])
        self.assertIn("heapctl symbols index", module["hint"])
        # The program's own debug information needs no index.
        found, module = self.ask_tool(self.program, self.addresses, "--cache-dir", self.cache)
        self.assertEqual((self.expected, ""), (found, module["problem"]))

    def test_of_another_build_is_not_used(self):
        other = build_in(os.path.join(self.folder, "other"), flags=["-g", "-O1"])
        place = self.place(self.cache, self.program)
        self.index(other, "-o", os.path.join(self.folder, "other.index"))
        os.makedirs(os.path.dirname(place))
        os.chmod(self.cache, 0o700)
        shutil.copy(os.path.join(self.folder, "other.index"), place)
        found, module = self.ask_tool(self.program, self.addresses, "--cache-dir", self.cache)
        self.assertEqual((self.expected, ""), (found, module["debug_file"]))

    def check_refused(self, path, *words):
        result = self.heapctl("symbols", "index", path)
        self.assertEqual(1, result.returncode)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_what_cannot_be_indexed_is_refused(self):
        without = os.path.join(self.folder, "without")
        run("objcopy", "--remove-section=.note.gnu.build-id", self.program, without)
        self.check_refused(without, "it has no build-id", "-Wl,--build-id")
        bare = os.path.join(self.folder, "bare")
        run("gcc", "-nostdlib", "-static", "-Wl,--build-id", "-s", "-x", "c", "-o", bare, "-", input="void _start(void) {}")
        self.check_refused(bare, "it has no symbols", "debug file")
        self.check_refused(os.path.join(self.folder, "absent"), "not found")
        text = os.path.join(self.folder, "text")
        pathlib.Path(text).write_text("no program\n")
        self.check_refused(text, "not an ELF file")
        self.check_refused(self.folder, "not a regular file")
        self.check_refused("/dev/null", "not a regular file")
        run("gcc", "-g", "-gsplit-dwarf", "-x", "c", "-c", "-o", os.path.join(self.folder, "part.o"), "-", input="int main(void) { return 0; }")
        self.check_refused(os.path.join(self.folder, "part.dwo"), "it has no build-id", "give the program that it belongs to")

    @unittest.skipUnless(have("dwz"), "dwz is not installed")
    def test_what_programs_share_is_no_program(self):
        for version in ((), ("-5",)):
            with self.subTest(version=version):
                copies = [shutil.copy(build_in(os.path.join(self.folder, name), flags=["-g", "-gdwarf-5" if version else "-gdwarf-4"]),
                                      os.path.join(self.folder, f"{name}.copy")) for name in ("one", "two")]
                common = os.path.join(self.folder, "common")
                run("dwz", *version, "-m", common, *copies)
                self.check_refused(common, "it describes no functions, as files that dwz made of what programs share", "give these programs, or their debug files")

    def test_a_cache_that_cannot_be_made(self):
        caches = pathlib.Path(self.home, ".cache")
        caches.write_text("")
        self.check_refused(self.program, f"making the folder {caches}", ": Not a directory (use --folder)")
        caches.unlink()
        (caches / "heapctl").mkdir(parents=True)
        (caches / "heapctl").chmod(0o777)
        self.check_refused(self.program, "heapctl is no folder of this user alone (chmod 700 it, or use --folder)")

    @unittest.skipUnless(have("go", "openssl"), "Go or openssl is not installed")
    def test_a_go_program_gets_a_build_id_by_the_command_of_the_hint(self):
        folder = pathlib.Path(self.folder, "go")
        folder.mkdir()
        (folder / "go.mod").write_text("module program\n")
        (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
        options = {"cwd": folder, "env": os.environ | {"GOFLAGS": "-buildvcs=false", "GOCACHE": str(folder / "cache")}}
        run("go", "build", **options)
        run("objcopy", "--remove-section=.note.gnu.build-id", folder / "program")  # of newer versions of Go
        result = self.heapctl("symbols", "index", folder / "program")
        command = re.search(r"\(build it with (go build .*), or ", result.stderr)
        self.assertTrue(command, result.stderr)
        run("sh", "-c", command.group(1), **options)
        self.assertIn(" functions", self.index(folder / "program"))

    def test_an_index_is_not_indexed_again(self):
        index = os.path.join(self.folder, "index")
        self.index(self.program, "-o", index)
        self.check_refused(index, f"{index}: it is an index of symbols already (give the program or its debug file)")

    def test_exported_symbols_alone_are_not_enough(self):
        self.check_refused(self.strip(self.program), "it has exported symbols only, and its debug file was not found", "--build-id-dir")

    def test_a_folder_of_debug_files_that_is_not_there_is_reported(self):
        result = self.heapctl("symbols", "index", "--build-id-dir", "/no/such", self.strip(self.program))
        self.assertIn(": --build-id-dir /no/such: No such file or directory\n", result.stderr)

    def keep_debug(self):
        debug = self.place(self.ids, self.program)
        os.makedirs(os.path.dirname(debug))
        run("objcopy", "--only-keep-debug", self.program, debug)
        return debug

    def test_one_without_lines_does_not_replace_the_debug_file(self):
        """Neither in the search nor on the disk."""
        bare = os.path.join(self.folder, "bare")
        run("objcopy", "--strip-debug", self.program, bare)
        stripped = self.strip(self.program)
        self.assertIn("no debug information, so no lines", self.index(bare))
        found, module = self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache)
        self.assertEqual(("table", self.place(self.cache, self.program)), (module["source"], module["debug_file"]))
        self.assertIn("no files and lines: its debug file was not found", module["problem"])
        self.keep_debug()
        found, module = self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache, "--build-id-dir", self.ids)
        self.assertEqual((self.expected, ""), (found, module["problem"]))
        self.index(self.program)
        self.check_refused(bare, "was made with the debug information, which this one lacks (write elsewhere, or remove it)")
        self.assertEqual(self.expected, self.ask_tool(stripped, self.addresses, "--cache-dir", self.cache)[0])

    def without_debug(self, *options):
        """The program with its symbol table alone."""
        bare = os.path.join(self.folder, "bare")
        run("objcopy", "--strip-debug", *options, self.program, bare)
        return bare

    def ask_cached(self, path, *options):
        return self.ask_tool(path, self.addresses, "--cache-dir", self.cache, *options)

    def test_one_without_lines_does_not_hide_the_debug_information_of_the_program(self):
        bare = self.without_debug()
        self.index(bare)
        self.index("--folder", self.ids, bare)
        for options in ((), ("--build-id-dir", self.ids)):
            with self.subTest(options):
                found, module = self.ask_cached(self.program, *options)
                self.assertEqual((self.expected, "dwarf", ""), (found, module["source"], module["problem"]))

    def test_one_without_lines_does_not_hide_the_debug_file_of_a_link(self):
        self.index("--folder", self.ids, self.without_debug())
        debug = os.path.join(self.folder, "program.debug")
        run("objcopy", "--only-keep-debug", self.program, debug)
        linked = self.strip(self.program)
        run("objcopy", f"--add-gnu-debuglink={debug}", linked)
        found, module = self.ask_cached(linked, "--build-id-dir", self.ids)
        self.assertEqual((self.expected, debug), (found, module["debug_file"]))

    def damaged_indexes(self, place):
        whole = pathlib.Path(place).read_bytes()
        header, block = bytearray(whole), bytearray(whole)
        header[whole.index(b"heapidx\0") + 16] ^= 1
        packed = whole.index(bytes.fromhex("28b52ffd"))  # zstd's
        block[packed:packed + 64] = bytes(64)
        return {"header": bytes(header), "block": bytes(block), "cut": whole[:len(whole) // 2]}

    def test_a_damaged_one_in_the_cache_hides_nothing(self):
        self.index(self.program)
        place = self.place(self.cache, self.program)
        bare = self.without_debug()
        names, _ = self.ask_tool(bare, self.addresses)
        debug = self.keep_debug()
        stripped = self.strip(self.program)
        for damage, contents in self.damaged_indexes(place).items():
            with self.subTest(damage):
                pathlib.Path(place).write_bytes(contents)
                found, module = self.ask_cached(self.program)
                self.assertEqual((self.expected, "", ""), (found, module["problem"], module["debug_file"]))
                found, module = self.ask_cached(stripped, "--build-id-dir", self.ids)
                self.assertEqual((self.expected, "", debug), (found, module["problem"], module["debug_file"]))
                found, module = self.ask_cached(bare)
                self.assertEqual([bool(result["frames"]) for result in names], [bool(result["frames"]) for result in found])
                self.assertIn(place, module["problem"])
                self.assertEqual("make it again with heapctl symbols index", module["hint"])
                self.index(self.program)
                self.assertEqual(self.expected, self.ask_cached(stripped)[0])

    def test_a_damaged_one_hides_no_debug_file_of_a_link(self):
        debug = os.path.join(self.folder, "program.debug")
        run("objcopy", "--only-keep-debug", self.program, debug)
        linked = self.strip(self.program)
        run("objcopy", f"--add-gnu-debuglink={debug}", linked)
        self.index("--folder", self.ids, self.program)
        place = self.place(self.ids, self.program)
        for damage, contents in self.damaged_indexes(place).items():
            with self.subTest(damage):
                pathlib.Path(place).write_bytes(contents)
                found, module = self.ask_cached(linked, "--build-id-dir", self.ids)
                self.assertEqual((self.expected, debug), (found, module["debug_file"]))

    def test_what_is_no_index_is_not_replaced(self):
        debug = self.keep_debug()
        program = pathlib.Path(self.program).read_bytes()
        for arguments in (["--folder", self.ids, debug], [self.program, "-o", self.program], [self.program, "-o", debug], [self.program, "-o", __file__]):
            with self.subTest(arguments):
                result = self.heapctl("symbols", "index", *arguments)
                self.assertEqual(1, result.returncode)
                self.assertIn("exists, and is no index of symbols (write elsewhere, or remove it)", result.stderr)
        self.assertEqual(program, pathlib.Path(self.program).read_bytes())
        place = os.path.join(self.folder, "an index")
        for _ in range(2):
            self.index(self.program, "-o", place)

    def test_part_of_the_debug_information_is_not_enough(self):
        path = build_in(os.path.join(self.folder, "split"), flags=["-g", "-gsplit-dwarf"])
        for dwo in pathlib.Path(path).parent.glob("*.dwo"):
            dwo.write_text("no program")
        self.check_refused(path, "its functions are in other files: ", ".dwo: not an ELF file")
        for dwo in pathlib.Path(path).parent.glob("*.dwo"):
            dwo.unlink()
        self.check_refused(path, ".dwo was not found")

    def test_a_debug_file_that_cannot_be_used_is_not_called_missing(self):
        debug = self.keep_debug()
        pathlib.Path(debug).write_text("no program")
        result = self.heapctl("symbols", "index", "--build-id-dir", self.ids, self.strip(self.program))
        self.assertIn(f"exported symbols only, and its debug file cannot be used: {debug}: not an ELF file", result.stderr)

    def test_damaged_debug_information_is_refused(self):
        path = os.path.join(self.folder, "program.debug")
        run("objcopy", "--only-keep-debug", self.program, path)
        whole = pathlib.Path(path).read_bytes()
        fields = re.findall(r"\.debug_(\w+) +PROGBITS +\w+ (\w+) (\w+)", run("readelf", "-SW", path))
        sections = {name: (int(offset, 16), int(size, 16)) for name, offset, size in fields}
        damages = [(name, 0, 1, 0) for name in ("info", "abbrev", "line", "str", "rnglists")]
        damages += [("info", 0.5, 1, 0), ("info", 0.3, 0.6, 0), ("info", 0.3, 0.6, 0xff), ("abbrev", 0.5, 1, 0), ("line", 0.5, 1, 0)]
        place = os.path.join(self.folder, "index")
        for name, begin, end, byte in damages:
            with self.subTest((name, begin, end, byte)):
                offset, size = sections[name]
                first, last = offset + int(begin * size), offset + int(end * size)
                pathlib.Path(path).write_bytes(whole[:first] + bytes([byte]) * (last - first) + whole[last:])
                result = self.heapctl("symbols", "index", "-o", place, path)
                self.assertEqual(1, result.returncode, result.stderr)
                self.assertRegex(result.stderr, f"{path}: .*damaged: .*\\(get an undamaged copy of the file\\)\n$")
                self.assertFalse(os.path.exists(place))
                module = self.ask_tool(path, self.addresses)[1]
                self.assertEqual("get an undamaged copy of the file", module["hint"])

    def change_version(self, path, version):
        contents = bytearray(pathlib.Path(self.program).read_bytes())
        offset, size = re.search(r"\.debug_info +PROGBITS +\w+ (\w+) (\w+)", run("readelf", "-SW", self.program)).groups()
        at, limit = int(offset, 16), int(offset, 16) + int(size, 16)
        while at < limit:
            contents[at + 4:at + 6] = version.to_bytes(2, "little")
            at += 4 + int.from_bytes(contents[at:at + 4], "little")
        pathlib.Path(path).write_bytes(contents)

    def test_another_version_of_dwarf_is_no_damage(self):
        path = os.path.join(self.folder, "newer.debug")
        self.change_version(path, 6)
        why, hint = f"{path}: its debug information is of DWARF 6, and heapctl reads 2 to 5", "compile it with -gdwarf-5"
        result = self.heapctl("symbols", "index", path)
        self.assertIn(f"{why} ({hint})\n", result.stderr)
        module = self.ask_tool(path, self.addresses)[1]
        self.assertEqual((why, hint), (module["problem"], module["hint"]))

    def test_a_version_that_dwarf_will_not_have_soon_is_damage(self):
        path = os.path.join(self.folder, "damaged.debug")
        for version in (0x0105, 0x9c41):
            self.change_version(path, version)
            result = self.heapctl("symbols", "index", path)
            self.assertIn(f"{path}: .debug_info: it is damaged: no unit can be read (get an undamaged copy of the file)\n", result.stderr)

    def test_an_unknown_compression_is_no_damage(self):
        path = os.path.join(self.folder, "packed.debug")
        run("objcopy", "--compress-debug-sections=zlib", self.program, path)
        contents = bytearray(pathlib.Path(path).read_bytes())
        offset = int(re.search(r"\.debug_info +PROGBITS +\w+ (\w+)", run("readelf", "-SW", path)).group(1), 16)
        contents[offset] = 9
        pathlib.Path(path).write_bytes(contents)
        self.assertIn("unknown compression (compile it with -gz=zlib)\n", self.heapctl("symbols", "index", path).stderr)

    def test_padding_is_no_damage(self):
        """Between units and at the end, as some linkers write it."""
        info, padded, path = (os.path.join(self.folder, name) for name in ("info", "padded", "padded.debug"))
        run("objcopy", "--dump-section", f".debug_info={info}", self.program, path)
        whole = pathlib.Path(info).read_bytes()
        first = 4 + int.from_bytes(whole[:4], "little")
        self.assertLess(first, len(whole))
        for contents in (whole + bytes(13), whole[:first] + bytes(8) + whole[first:] + bytes(4)):
            pathlib.Path(padded).write_bytes(contents)
            run("objcopy", "--update-section", f".debug_info={padded}", self.program, path)
            self.index("-o", os.path.join(self.folder, "index"), path)
            found, module = self.ask_tool(path, self.addresses)
            self.assertEqual(("", [bool(result["frames"]) for result in self.expected]), (module["problem"], [bool(result["frames"]) for result in found]))

    def test_an_index_is_not_made_of_another_one(self):
        self.index("--folder", self.ids, self.program)
        place = self.place(self.ids, self.program)
        stripped = self.strip(self.program)
        result = self.heapctl("symbols", "index", "--build-id-dir", self.ids, stripped)
        self.assertEqual(1, result.returncode)
        self.assertIn(f"its debug file cannot be used: {place} is an index of symbols, no debug file", result.stderr)
        self.assertIn(f" % of {self.program}: ", self.index("--build-id-dir", self.ids, self.program))
        debug = os.path.join(self.folder, "program.debug")
        run("objcopy", "--only-keep-debug", self.program, debug)
        run("objcopy", f"--add-gnu-debuglink={debug}", stripped)
        self.assertIn(f" % of {debug}: ", self.index("--build-id-dir", self.ids, stripped))

    @unittest.skipUnless(have("dwz"), "dwz is not installed")
    def test_the_name_of_a_common_file_starts_where_the_program_is(self):
        shutil.copy(self.program, os.path.join(self.folder, "second"))
        shutil.copy(self.program, os.path.join(self.folder, "first"))
        run("dwz", "-m", "common", "first", "second", cwd=self.folder)
        link = os.path.join(self.folder, "other/linked")
        os.mkdir(os.path.dirname(link))
        os.symlink("../first", link)
        for path in ("first", "./first", link):
            result = self.heapctl("symbols", "index", "-o", "index", path, cwd=self.folder)
            self.assertEqual(0, result.returncode, result.stderr)

    def test_same_bytes_each_time(self):
        outputs = []
        for name in ("one", "two"):
            outputs.append(os.path.join(self.folder, name))
            self.index(self.program, "-o", outputs[-1])
        self.assertEqual(*(pathlib.Path(path).read_bytes() for path in outputs))

    def test_wrong_command_lines(self):
        for arguments, word in ((("make", self.program), "unknown action 'make'"), (("index",), "no file given"),
                                (("index", "a", "b", "-o", "c"), "one file"), (("index", "--folder", "", self.program), "--folder: the name is empty")):
            result = self.heapctl("symbols", *arguments)
            self.assertEqual(2, result.returncode, result.stderr)
            self.assertIn(word, result.stderr)


class Served(IndexCase, GatewayCase):
    def test_another_host_gets_names_from_a_gateway(self):
        """By elfutils' client library, which reports and debuggers use."""
        try:
            ctypes.CDLL("libdebuginfod.so.1")
        except OSError:
            self.skipTest("libdebuginfod1 is not installed")
        program = build_in(os.path.join(self.folder, "program"), flags=["-g"])
        addresses = text_addresses(program)[::7]
        expected, _ = self.ask_tool(program, addresses)
        self.index("--folder", self.ids, program)
        agents = os.path.join(self.folder, "agents")
        os.mkdir(agents, 0o700)
        self.start_gateway("--symbols", self.ids, env=dict(os.environ, HEAPCTL_DIR=agents))
        os.environ["DEBUGINFOD_CACHE_PATH"] = os.path.join(self.folder, "client")
        self.addCleanup(os.environ.pop, "DEBUGINFOD_CACHE_PATH")
        found, module = self.ask_tool(self.strip(program), addresses, "--debuginfod", self.url)
        self.assertEqual((expected, ""), (found, module["problem"]))
