# SPDX-License-Identifier: Apache-2.0
"""Names, files and lines against other symbolizers, for every way to store debug information."""
import ctypes
import functools
import json
import operator
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

import symbol_oracles as oracles
from debug_file_server import DebugFileServer
from processes import BUILD, Case
from symbol_programs import SOURCES, STEP, addresses_in, build_in, functions, have, run

TOOL = str(BUILD / "tests/integration/symbolize")


def marked_line(mark):
    lines = (SOURCES / "shapes.cc").read_text().split("\n")
    return next(i for i, line in enumerate(lines, 1) if line.endswith("MARK " + mark))


class SymbolCase(Case):
    def build(self, name="program", **how):
        return build_in(os.path.join(self.folder, name), **how)

    def ours(self, path, addresses, *options):
        return oracles.ours(TOOL, path, addresses, *options)

    def assert_same(self, addresses, mine, other, allowed=()):
        found = [d for d in oracles.differences(addresses, mine, other) if d[2] not in allowed]
        self.assertEqual([], [(hex(address), why, a, b) for address, why, a, b in found[:5]],
                         f"{len(found)} of {len(addresses)} differ")

    def check(self, path, expected=None):
        """Every address of our functions, against llvm-symbolizer or what is expected; the module's report."""
        addresses = addresses_in(path) if expected is None else sorted(expected)
        self.assertGreater(len(addresses), 100)
        mine, module = self.ours(path, addresses)
        other = oracles.llvm(path, addresses) if expected is None else [expected[a] for a in addresses]
        self.assert_same(addresses, mine, other)
        return module


    def warnings_of_report(self, path, addresses, *options):
        """What heapctl report says on standard error about a profile with these addresses."""
        lines = ["heap_v2/1", f"  t*: {len(addresses)}: {8 * len(addresses)} [0: 0]"]
        for address in addresses:
            lines += [f"@ {address + 1:#x}", "  t*: 1: 8 [0: 0]"]
        lines += ["", "MAPPED_LIBRARIES:"]
        for line in run("readelf", "-lW", path).splitlines():
            fields = line.split()
            if fields[:1] == ["LOAD"]:
                offset, vaddr, size = int(fields[1], 16), int(fields[2], 16), int(fields[4], 16)
                lines.append(f"{vaddr & -4096:x}-{vaddr + size + 4095 & -4096:x} r-xp {offset & -4096:08x} 00:00 1 {path}")
        profile = os.path.join(self.folder, "a.heap")
        pathlib.Path(profile).write_text("\n".join(lines) + "\n")
        env = dict(os.environ, HOME=self.folder, XDG_CACHE_HOME=os.path.join(self.folder, "cache"))
        return subprocess.run([BUILD / "src/cli/heapctl", "report", "--text", *options, profile], env=env,
                              capture_output=True, text=True, check=True).stderr

    def assert_incomplete(self, path, addresses, text):
        """A report says in one warning what is missing, also when the answers come from the cache."""
        for _ in range(2):
            said = self.warnings_of_report(path, addresses)
            self.assertRegex(said, f"^heapctl: {re.escape(path)}: {text}.*\n$")
        self.assertNotIn("0 of", self.warnings_of_report(path, addresses, "--debug"))


class Compilers(SymbolCase):
    """Programs whose code differs: each is checked against llvm-symbolizer."""

    def check_flavour(self, compiler, flags, link=()):
        module = self.check(self.build(compiler=compiler, flags=flags, link=link))
        self.assertEqual("dwarf", module["source"])
        self.assertEqual("", module["problem"])

    def test_gcc_dwarf5(self):
        self.check_flavour("gcc", ["-g", "-gdwarf-5"])

    def test_gcc_dwarf4(self):
        self.check_flavour("gcc", ["-g", "-gdwarf-4"])

    def test_gcc_dwarf3(self):
        self.check_flavour("gcc", ["-g", "-gdwarf-3", "-gstrict-dwarf"])

    def test_gcc_dwarf2(self):
        """Without ranges a call in several pieces has only the first; the cold parts are functions of their own."""
        path = self.build(flags=["-g", "-gdwarf-2", "-gstrict-dwarf"])
        cold = [(start, start + size) for start, size, name in functions(path) if name.endswith(".cold")]
        addresses = [a for a in addresses_in(path) if not any(start <= a < end for start, end in cold)]
        self.assert_same(addresses, self.ours(path, addresses)[0], oracles.llvm(path, addresses))
        # What is inlined into a cold part has addresses there, its function has none.
        parts = [(a, name) for start, size, name in functions(path) if name.endswith(".cold") for a in range(start, start + size)]
        for (address, name), frames in zip(parts, self.ours(path, [a for a, _ in parts])[0]):
            self.assertEqual(frames[-1][0].removesuffix(".cold"), name.removesuffix(".cold"), hex(address))
        starts = [start for start, _ in cold]
        self.assertEqual(*([frames[-1][0].removesuffix(".cold") for frames in answers]
                           for answers in (oracles.llvm(path, starts), self.ours(path, starts)[0])))

    def test_gcc_dwarf2_calls_in_a_block(self):
        """The block has the addresses of its first piece alone, and the calls in it lie outside."""
        path = os.path.join(self.folder, "block")
        run("gcc", "-O2", "-g", "-gdwarf-2", "-gstrict-dwarf", SOURCES / "block.c", "-o", path)
        addresses = [a for start, size, name in functions(path) if name != "main" for a in range(start, start + size)]
        expected = oracles.llvm(path, addresses)
        self.assertIn(3, map(len, expected))
        self.assert_same(addresses, self.ours(path, addresses)[0], expected)

    @unittest.skipUnless(have("clang"), "no clang")
    def test_clang_with_few_addresses(self):
        """Addresses as the sum of one that is shared and an offset, in two notations; the code is the same."""
        flags = ["-g", "-gdwarf-5", "-mllvm"]
        path = self.build("program", compiler="clang", flags=flags + ["-minimize-addr-in-v5=Disabled"])
        addresses = addresses_in(path)
        expected = oracles.llvm(path, addresses)
        for way in "Form", "Expressions":
            shutil.rmtree(os.path.dirname(path))
            self.assertEqual(path, self.build("program", compiler="clang", flags=flags + [f"-minimize-addr-in-v5={way}"]))
            self.assert_same(addresses, self.ours(path, addresses)[0], expected)

    def test_gcc_dwarf64(self):
        self.check_flavour("gcc", ["-g", "-gdwarf64"])

    def test_gcc_without_optimization(self):
        self.check_flavour("gcc", ["-g", "-O0"])

    def test_gcc_few_lines(self):
        self.check_flavour("gcc", ["-g1"])

    def test_gcc_without_pie(self):
        self.check_flavour("gcc", ["-g", "-fno-pie", "-no-pie"], ["-no-pie"])

    def test_gcc_function_sections(self):
        self.check_flavour("gcc", ["-g", "-ffunction-sections"], ["-Wl,--gc-sections"])

    def test_gcc_link_time_optimization(self):
        self.check_flavour("gcc", ["-g", "-flto"])

    def test_gcc_type_units(self):
        self.check_flavour("gcc", ["-g", "-fdebug-types-section"])

    def test_gcc_type_units_dwarf4(self):
        self.check_flavour("gcc", ["-g", "-gdwarf-4", "-fdebug-types-section"])

    @unittest.skipUnless(have("ld.gold"), "ld.gold is not installed")
    def test_gcc_gold(self):
        self.check_flavour("gcc", ["-g", "-ffunction-sections"], ["-fuse-ld=gold", "-Wl,--gc-sections"])

    @unittest.skipUnless(have("ld.lld"), "ld.lld is not installed")
    def test_gcc_lld(self):
        self.check_flavour("gcc", ["-g", "-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"])

    def test_clang_dwarf5(self):
        self.check_flavour("clang", ["-g", "-gdwarf-5"])

    def test_clang_dwarf4(self):
        self.check_flavour("clang", ["-g", "-gdwarf-4"])

    def test_clang_lines_only(self):
        self.check_flavour("clang", ["-gline-tables-only"])

    def test_clang_without_optimization(self):
        self.check_flavour("clang", ["-g", "-O0"])

    @unittest.skipUnless(have("ld.lld"), "ld.lld is not installed")
    def test_clang_lld(self):
        self.check_flavour("clang", ["-g", "-gdwarf-5", "-ffunction-sections"], ["-fuse-ld=lld", "-Wl,--gc-sections"])

    @unittest.skipUnless(have("ld.lld"), "ld.lld is not installed")
    def test_clang_link_time_optimization(self):
        self.check_flavour("clang", ["-g", "-flto"], ["-fuse-ld=lld"])

    def test_clang_with_aranges(self):
        self.check_flavour("clang", ["-g", "-gdwarf-aranges"])

    def test_addr2line_agrees(self):
        path = self.build(flags=["-g"])
        addresses = addresses_in(path)
        mine, _ = self.ours(path, addresses)
        other = oracles.addr2line(path, addresses)
        # addr2line gives inlined calls without a linkage name the name of the function around them.
        renamed = [[(m[0], *o[1:]) if i + 1 < len(b) and oracles.plain_name(m[0]) != oracles.plain_name(o[0]) else o
                    for i, (m, o) in enumerate(zip(a, b))] if len(a) == len(b) else b for a, b in zip(mine, other)]
        self.assert_same(addresses, mine, renamed)


class BuiltOnce(SymbolCase):
    """Tests that share one program."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="hc-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.program = build_in(cls.shared, flags=["-g"], link=["-Wl,--build-id=sha1"])
        cls.addresses = addresses_in(cls.program)
        cls.build_id = re.search(r"Build ID: (\w+)", run("readelf", "-n", cls.program)).group(1)


class Names(BuiltOnce):
    def test_inlined_calls_are_reported_with_the_lines_of_their_calls(self):
        innermost, middle, outer = (marked_line(mark) for mark in ("innermost", "middle", "outer"))
        answer = json.loads(run(TOOL, self.program, *map(hex, self.addresses)))
        lines = {tuple(f["line"] for f in result["frames"]) for result in answer["results"]}
        self.assertIn((innermost, middle, outer), lines)
        chain = next(result["frames"] for result in answer["results"]
                     if [f["line"] for f in result["frames"]] == [innermost, middle, outer])
        self.assertRegex(chain[0]["function"], r"^shapes::Box<(int|double)>::innermost\((int|double)\) const$")
        self.assertRegex(chain[2]["function"], r"^(int|double) shapes::outer<(int|double)>\((int|double)\)$")
        self.assertTrue(chain[0]["file"].endswith("/shapes.cc"), chain[0]["file"])

    def test_instances_of_a_template_are_distinguished(self):
        answer = json.loads(run(TOOL, self.program, *map(hex, self.addresses)))
        names = {result["frames"][-1]["function"] for result in answer["results"]}
        self.assertIn("int shapes::outer<int>(int)", names)
        self.assertIn("double shapes::outer<double>(double)", names)

    def test_without_inlines_the_function_around_them_remains(self):
        outer = marked_line("outer")
        answer = json.loads(run(TOOL, "--no-inlines", self.program, *map(hex, self.addresses)))
        self.assertEqual({1}, {len(result["frames"]) for result in answer["results"]})
        self.assertTrue(any(r["frames"][0]["line"] == outer for r in answer["results"]))

    def test_nested_function_is_found(self):
        start = next(start for start, _, name in functions(self.program) if name.startswith("nested"))
        mine, _ = self.ours(self.program, [start])
        self.assertEqual("nested", mine[0][-1][0].split(".")[0])

    def test_address_outside_every_symbol_has_no_name(self):
        path = self.build(flags=["-s"])
        text = re.search(r"\.text\s+PROGBITS\s+(\S+)", run("readelf", "-SW", path)).group(1)
        mine, module = self.ours(path, [int(text, 16) + 4])
        self.assertEqual([[]], mine)
        self.assertEqual("dynamic", module["source"])
        self.assertIn("stripped", module["problem"])

    def described_functions(self, path):
        """[(begin, end)] of what .eh_frame describes, as readelf reads it."""
        text = run("readelf", "--debug-dump=frames", path)
        return [(int(a, 16), int(b, 16)) for a, b in re.findall(r" FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", text)]

    def test_stripped_code_is_named_by_the_beginning_of_its_function(self):
        path = self.build(flags=["-s"])
        text, size = re.search(r" \.text\s+PROGBITS\s+(\S+)\s+\S+\s+(\S+)",
                               run("readelf", "-SW", path)).groups()
        addresses = list(range(int(text, 16), int(text, 16) + int(size, 16)))
        described = self.described_functions(path)
        expected = [next((begin for begin, end in described if begin <= a < end), 0) for a in addresses]
        self.assertGreater(len(set(expected)), 10)
        self.assertIn(0, expected)
        cache = os.path.join(self.folder, "cache")
        for round in "read", "from the cache":
            with self.subTest(round):
                answer = json.loads(run(TOOL, "--cache", cache, path, "-", input=oracles.text(addresses)))
                starts = {r["address"]: (r["function_start"], r["frames"]) for r in answer["results"]}
                wrong = [(hex(a), hex(start), hex(starts[a][0])) for a, start in zip(addresses, expected)
                         if starts[a] != (start, []) and not starts[a][1]]
                self.assertEqual([], wrong[:5])
                self.assertEqual(round != "read", answer["modules"][0]["from_cache"])

    def test_stripped_code_is_reported_by_function(self):
        path = self.build(flags=["-s", "-no-pie"], link=["-no-pie"])
        begin, end = max(self.described_functions(path), key=lambda function: function[1] - function[0])
        load = re.search(r"LOAD\s+(\S+) (\S+) \S+ (\S+) \S+ R E", run("readelf", "-lW", path)).groups()
        offset, start, length = (int(word, 16) for word in load)
        lines = ["heap_v2/1", "  t*: 3: 300 [0: 0]"]
        for address in begin + 8, begin + 16, end:
            lines += [f"@ 0x{address:x}", "  t*: 1: 100 [0: 0]"]
        lines += ["", "MAPPED_LIBRARIES:", f"{start:x}-{start + (length + 4095) // 4096 * 4096:x} r-xp {offset:08x} 00:00 0 {path}"]
        profile = os.path.join(self.folder, "stripped.heap")
        pathlib.Path(profile).write_text("\n".join(lines) + "\n")
        base = start - offset
        name = f"[program]+0x{begin - base:x}"
        heapctl = BUILD / "src/cli/heapctl"
        env = dict(os.environ, HOME=self.folder, XDG_CACHE_HOME=self.folder)
        self.assertEqual([f"{name} 300"], run(heapctl, "report", "--collapsed", profile, env=env).splitlines())
        rows = re.findall(r"\[program\]\+0x[0-9a-f]+", run(heapctl, "report", "--addresses", profile, env=env))
        self.assertEqual([f"[program]+0x{a - 1 - base:x}" for a in (begin + 8, begin + 16, end)], sorted(rows))

    def scoped_names(self, *compiler):
        """The functions of scopes.cc, without parameters."""
        path = os.path.join(self.folder, "scopes")
        run(*compiler, "-O2", SOURCES / "scopes.cc", "-o", path, cwd=self.folder)
        start, size = next((int(f[0], 16), int(f[1], 16)) for f in map(str.split, run("nm", "-S", path).splitlines())
                           if f[-1].startswith("_Z13scopes_aroundi"))
        answer = json.loads(run(TOOL, "--no-demangle", path, *map(hex, range(start, start + size))))
        frames = {frame["linkage_name"] or frame["function"]
                  for result in answer["results"] for frame in result["frames"]}
        names = run("c++filt", "-p", *frames).splitlines()
        same = [("long unsigned int", "unsigned long"), ("scopes_around(int)::", "scopes_around::"), ("$_0", "{lambda}")]
        return {functools.reduce(lambda text, pair: text.replace(*pair), same, name) for name in names}

    @unittest.skipUnless(have("clang++"), "no clang")
    def test_names_without_linkage_names_say_what_is_around_them(self):
        """clang writes linkage names where gcc writes none; so its names are the ones to be found."""
        expected = self.scoped_names("clang++", "-g")
        self.assertGreater(len(expected), 20)
        self.assertIn("scopes::(anonymous namespace)::Nested::Declared::later", expected)
        for flags in ["-gdwarf-5"], ["-gdwarf-4", "-fdebug-types-section"], ["-g", "-flto"], ["-g", "-gsplit-dwarf"], \
                ["-gdwarf-3", "-gstrict-dwarf"]:
            with self.subTest(" ".join(flags)):
                self.assertEqual(expected, self.scoped_names("g++", *flags))

    def test_fortran_functions_keep_their_module(self):
        """gfortran's debug information, but for the language, is what gcc writes of functions with a name for the assembler."""
        path = os.path.join(self.folder, "functions")
        source = """void func(int *) __asm__("__mod_MOD_func");
            void func(int *n) { ++*n; }
            int main(void) { int n = 0; func(&n); return n; }"""
        text = run("gcc", "-g", "-O1", "-fno-ipa-icf", "-S", "-dA", "-x", "c", "-", "-o", "-", input=source)
        for language in (0x07, 0x08, 0x0e, 0x22, 0x23, 0x2d, 0x1d):  # the last one is C
            with self.subTest(hex(language)):
                changed = re.sub(r"0x\w+(\s+\S+ DW_AT_language)", rf"{language:#x}\1", text)
                run("gcc", "-g", "-x", "assembler", "-", "-o", path, input=changed)
                address = next(int(line.split()[0], 16) for line in run("nm", path).splitlines() if line.endswith("__mod_MOD_func"))
                frame = json.loads(run(TOOL, path, hex(address)))["results"][0]["frames"][-1]
                self.assertEqual("func" if language == 0x1d else "__mod_MOD_func", frame["function"])

    @unittest.skipUnless(have("rustc"), "rustc is not installed")
    def test_rust(self):
        for style in ("legacy", "v0"):
            with self.subTest(style):
                path = os.path.join(self.folder, style)
                # Each style is an unstable choice in some versions of the compiler.
                run("rustc", "-g", "-O", "-Zunstable-options", f"-Csymbol-mangling-version={style}",
                    SOURCES / "traits.rs", "-o", path, env=dict(os.environ, RUSTC_BOOTSTRAP="1"))
                found = [line.split() for line in run("nm", "-S", path).splitlines() if "traits" in line]
                addresses = [int(f[0], 16) + 4 for f in found if len(f) == 4 and f[2] in "tT"]
                answer = json.loads(run(TOOL, path, *map(hex, addresses)))
                names = {result["frames"][-1]["function"] for result in answer["results"] if result["frames"]}
                for unit in ("Metre", "Second"):
                    self.assertTrue(any(re.fullmatch(rf"<traits(\[\w+\])?::{unit} as core(\[\w+\])?::fmt::Display>::fmt", name)
                                        for name in names), names)
                self.assertFalse(any(name.startswith("_") for name in names), names)


class Packaging(BuiltOnce):
    """The same code with its debug information kept in other ways."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = dict(zip(cls.addresses, oracles.llvm(cls.program, cls.addresses)))

    def setUp(self):
        super().setUp()
        self.copy = os.path.join(self.folder, "copy")

    def strip(self, *options):
        run("strip", *options, self.program, "-o", self.copy)

    def keep_debug(self, path, *options):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        run("objcopy", "--only-keep-debug", *options, self.program, path)

    def build_id_path(self, folder):
        return os.path.join(folder, self.build_id[:2], self.build_id[2:] + ".debug")

    def names_only(self):
        """What a symbol table knows: the function itself, by its linkage name."""
        found = {}
        for start, size, name in functions(self.program):
            for address in range(start, start + size, STEP):
                found.setdefault(address, [(name, "", 0)])
        return found

    def test_compressed_sections(self):
        for kind in ("zlib", "zlib-gnu", "zstd"):
            with self.subTest(kind):
                result = subprocess.run(["objcopy", f"--compress-debug-sections={kind}", self.program, self.copy],
                                        capture_output=True)
                if result.returncode != 0:
                    self.skipTest(f"objcopy cannot compress with {kind}")
                self.assertEqual("dwarf", self.check(self.copy, self.expected)["source"])

    def test_compressed_sections_are_bounded_by_the_file(self):
        """Two sections of zeros that shrink to a thousandth: refused by what they claim, before anything is unpacked."""
        zeros, plain = (os.path.join(self.folder, name) for name in ("zeros", "plain"))
        with open(zeros, "wb") as file:
            file.truncate(48 << 20)
        run("objcopy", f"--update-section=.debug_rnglists={zeros}", f"--update-section=.debug_str={zeros}",
            self.program, plain)
        run("objcopy", "--compress-debug-sections=zlib", plain, self.copy)
        self.assertLess(os.path.getsize(self.copy), 1 << 20)
        module = self.ours(self.copy, sorted(self.expected))[1]
        self.assertRegex(module["problem"], r"its compressed sections claim to hold 100\d+ bytes \(\.debug_(rnglists|str) 50331648\)")
        self.assertEqual("table", module["source"])

    def test_build_id_directory(self):
        self.strip()
        debug = self.build_id_path(os.path.join(self.folder, "ids"))
        self.keep_debug(debug)
        addresses = sorted(self.expected)
        mine, module = self.ours(self.copy, addresses, "--build-id-dir", os.path.join(self.folder, "ids"))
        self.assert_same(addresses, mine, [self.expected[a] for a in addresses])
        self.assertEqual(debug, module["debug_file"])
        self.assertEqual("", module["problem"])

    def test_a_debug_file_that_cannot_be_used_is_not_called_missing(self):
        self.strip()
        debug = self.build_id_path(os.path.join(self.folder, "ids"))
        self.keep_debug(debug)
        whole = pathlib.Path(debug).read_bytes()
        other = self.build("other", flags=["-g", "-O3"], link=["-Wl,--build-id=sha1"])
        for contents, why in ((b"", ": not an ELF file"), (b"no program" * 100, ": not an ELF file"), (whole[:-100], "outside the file"),
                              (pathlib.Path(other).read_bytes(), " is of another build")):
            with self.subTest(why):
                pathlib.Path(debug).write_bytes(contents)
                module = self.ours(self.copy, sorted(self.expected), "--build-id-dir", os.path.join(self.folder, "ids"))[1]
                self.assertIn(f"its debug file cannot be used: {debug}", module["problem"])
                self.assertIn(why, module["problem"])

    def test_a_debug_file_that_cannot_be_used_in_place_of_the_program_is_named(self):
        debug = self.build_id_path(os.path.join(self.folder, "ids"))
        os.makedirs(os.path.dirname(debug))
        pathlib.Path(debug).write_text("no program")
        maps = self.maps_of(self.program, os.path.join(self.folder, "gone"))
        answer = json.loads(run(TOOL, "--build-id", self.build_id, "--build-id-dir", os.path.join(self.folder, "ids"),
                                *maps, hex(min(self.expected))))
        self.assertEqual(f"not found, and its debug file cannot be used: {debug}: not an ELF file", answer["modules"][0]["problem"])

    def test_the_stripped_program_at_another_path_is_no_debug_file(self):
        """The link has the name of the program, which a link leads to as well."""
        self.strip()
        name = os.path.basename(self.copy)
        place = os.path.join(self.folder, ".debug")
        self.keep_debug(os.path.join(place, name))
        run("objcopy", f"--add-gnu-debuglink={place}/{name}", self.copy)
        os.unlink(os.path.join(place, name))
        os.symlink(self.copy, os.path.join(place, name))
        module = self.ours(self.copy, sorted(self.expected))[1]
        self.assertIn("its debug file was not found", module["problem"])

    def test_sysroot(self):
        root = os.path.join(self.folder, "root")
        self.strip()
        os.makedirs(os.path.join(root, os.path.dirname(self.copy).lstrip("/")))
        shutil.move(self.copy, root + self.copy)
        self.keep_debug(self.build_id_path(root + "/usr/lib/debug/.build-id"))
        addresses = sorted(self.expected)
        maps = self.maps_of(root + self.copy, self.copy)
        answer = json.loads(run(TOOL, "--sysroot", root, "--no-demangle", *maps, *map(hex, addresses)))
        self.assertEqual("dwarf", answer["modules"][0]["source"])
        self.assertEqual(root + self.copy, answer["modules"][0]["file"])
        self.assertTrue(all(result["frames"] for result in answer["results"]))

    def maps_of(self, path, name):
        """--map options that place the segments of a file where it wants them, under another name."""
        options = []
        for line in run("readelf", "-lW", path).splitlines():
            fields = line.split()
            if fields[:1] == ["LOAD"]:
                offset, vaddr, size = int(fields[1], 16), int(fields[2], 16), int(fields[4], 16)
                options += ["--map", f"{vaddr & -4096:x}-{vaddr + size + 4095 & -4096:x}:{offset & -4096:x}={name}"]
        return options

    def test_debug_link(self):
        self.strip()
        debug = os.path.join(self.folder, ".debug", "program.debug")
        self.keep_debug(debug)
        run("objcopy", "--remove-section=.note.gnu.build-id", f"--add-gnu-debuglink={debug}", self.copy)
        self.assertEqual(debug, self.check(self.copy, self.expected)["debug_file"])

    def test_a_worse_file_at_the_build_id_does_not_hide_the_one_of_the_link(self):
        self.strip()
        debug = os.path.join(self.folder, ".debug", "program.debug")
        self.keep_debug(debug)
        worse = self.build_id_path(os.path.join(self.folder, "ids"))
        os.makedirs(os.path.dirname(worse))
        run("objcopy", f"--add-gnu-debuglink={debug}", self.copy)
        for option in ("--strip-all", "--strip-debug"):
            with self.subTest(option):
                run("objcopy", option, self.program, worse)
                module = self.ours(self.copy, sorted(self.expected), "--build-id-dir", os.path.join(self.folder, "ids"))[1]
                self.assertEqual(("dwarf", debug, ""), (module["source"], module["debug_file"], module["problem"]))

    def test_damaged_debug_information_at_the_build_id_does_not_hide_that_of_the_link(self):
        self.strip()
        debug = os.path.join(self.folder, ".debug", "program.debug")
        self.keep_debug(debug)
        damaged = self.build_id_path(os.path.join(self.folder, "ids"))
        self.keep_debug(damaged, "--compress-debug-sections=zlib")
        offset = int(run("readelf", "-SW", damaged).split(" .debug_info ")[1].split()[2], 16)
        contents = bytearray(pathlib.Path(damaged).read_bytes())
        contents[offset + 100:offset + 108] = bytes(8)
        pathlib.Path(damaged).write_bytes(contents)
        addresses = sorted(self.expected)
        ids = ("--build-id-dir", os.path.join(self.folder, "ids"))
        module = self.ours(self.copy, addresses, *ids)[1]
        self.assertEqual("table", module["source"], "the names of the damaged file are left")
        self.assertIn(damaged, module["problem"])
        run("objcopy", f"--add-gnu-debuglink={debug}", self.copy)
        mine, module = self.ours(self.copy, addresses, *ids)
        self.assert_same(addresses, mine, [self.expected[a] for a in addresses])
        self.assertEqual((debug, ""), (module["debug_file"], module["problem"]))

    def test_debug_link_to_another_file_is_refused(self):
        self.strip()
        debug = os.path.join(self.folder, "program.debug")
        self.keep_debug(debug)
        run("objcopy", "--remove-section=.note.gnu.build-id", f"--add-gnu-debuglink={debug}", self.copy)
        other = self.build("other", flags=["-g", "-O1"], link=["-Wl,--build-id=none"])
        run("objcopy", "--only-keep-debug", other, debug)
        mine, module = self.ours(self.copy, sorted(self.expected))
        self.assertEqual("", module["debug_file"])
        self.assertEqual(0, module["named"])

    def test_symbols_in_gnu_debugdata(self):
        mini = os.path.join(self.folder, "mini")
        self.keep_debug(mini, "--strip-debug")
        run("xz", mini)
        self.strip()
        run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", self.copy)
        module = self.check(self.copy, self.names_only())
        self.assertEqual("table", module["source"])

    def test_symbol_table_without_debug_information(self):
        self.strip("--strip-debug")
        module = self.check(self.copy, self.names_only())
        self.assertEqual("table", module["source"])
        self.assertIn("debug file", module["problem"])

    def test_debug_file_alone(self):
        debug = os.path.join(self.folder, "program.debug")
        self.keep_debug(debug)
        self.assertEqual("dwarf", self.check(debug, self.expected)["source"])

    def test_program_missing_but_debug_file_known_by_build_id(self):
        self.keep_debug(self.build_id_path(os.path.join(self.folder, "ids")))
        maps = self.maps_of(self.program, "/gone/program")
        addresses = sorted(self.expected)
        answer = json.loads(run(TOOL, "--build-id", self.build_id, "--build-id-dir", os.path.join(self.folder, "ids"),
                                "--no-demangle", *maps, *map(hex, addresses)))
        self.assertEqual(len(addresses), sum(bool(result["frames"]) for result in answer["results"]))

    @unittest.skipUnless(have("dwz"), "dwz is not installed")
    def test_dwz(self):
        run("dwz", self.program, "-o", self.copy)
        self.assertEqual("", self.check(self.copy, self.expected)["problem"])

    def check_common_file(self, *options):
        common, second = (os.path.join(self.folder, name) for name in ("common", "second"))
        shutil.copy(self.program, self.copy)
        shutil.copy(self.program, second)
        run("dwz", *options, "-m", common, "-M", common, self.copy, second)
        self.assertEqual("", self.check(self.copy, self.expected)["problem"])
        os.remove(common)
        _, module = self.ours(self.copy, sorted(self.expected))
        self.assertRegex(module["problem"], f"dwz moved to another file: {common} was not found$")
        self.assert_incomplete(self.copy, sorted(self.expected), f"some names are missing, which dwz moved to another file: {common} was not found")
        for path, why in ((self.program, " is of another build"), (__file__, ": not an ELF file")):
            shutil.copy(path, common)
            _, module = self.ours(self.copy, sorted(self.expected))
            self.assertIn(f"dwz moved to another file: {common}{why}", module["problem"])

    @unittest.skipUnless(have("dwz"), "dwz is not installed")
    def test_dwz_with_a_common_file(self):
        self.check_common_file()

    @unittest.skipUnless(have("dwz"), "dwz is not installed")
    def test_dwz_with_a_supplementary_file(self):
        self.check_common_file("-5")

    def test_programs_of_other_machines_are_reported_as_such(self):
        for offset, value in ((4, b"\1"), (5, b"\2")):  # 32 bits; big-endian
            shutil.copy(self.program, self.copy)
            with open(self.copy, "r+b") as file:
                file.seek(offset)
                file.write(value)
            maps = self.maps_of(self.program, self.copy)
            answer = json.loads(run(TOOL, *maps, *map(hex, sorted(self.expected))))
            module = answer["modules"][0]
            self.assertIn("not a 64-bit little-endian ELF file", module["problem"])
            self.assertIn("addr2line", module["hint"])
            self.assertEqual(0, module["named"])


class Split(SymbolCase):
    """DWARF in .dwo files and .dwp packages, against the same code built without them."""

    def check_split(self, compiler, flags):
        path = self.build(compiler=compiler, flags=["-g", *flags])
        addresses = addresses_in(path)
        expected = oracles.llvm(path, addresses)
        path = self.build(compiler=compiler, flags=["-g", "-gsplit-dwarf", *flags])
        self.assertEqual(addresses, addresses_in(path))
        self.check(path, dict(zip(addresses, expected)))
        tool = "dwp" if "-gdwarf-4" in flags else "llvm-dwp"
        if have(tool):
            run(tool, "-e", path, "-o", path + ".dwp", cwd=os.path.dirname(path))
            for dwo in pathlib.Path(path).parent.glob("*.dwo"):
                dwo.unlink()
            mine, module = self.ours(path, addresses)
            self.assert_same(addresses, mine, expected)
            self.assertEqual("", module["problem"])
            os.remove(path + ".dwp")
        else:
            for dwo in pathlib.Path(path).parent.glob("*.dwo"):
                dwo.unlink()
        mine, module = self.ours(path, addresses)
        self.assertRegex(module["problem"], r"\.dwo was not found$")
        self.assertTrue(all(frames and frames[-1][0] for frames in mine))

    def test_a_file_that_cannot_be_used_is_not_called_missing(self):
        path = self.build(flags=["-g", "-gsplit-dwarf"])
        folder = pathlib.Path(path).parent
        dwos = sorted(folder.glob("*.dwo"))
        other = [dwo.read_bytes() for dwo in sorted(pathlib.Path(self.build("other", flags=["-g", "-O1", "-gsplit-dwarf"])).parent.glob("*.dwo"))]
        addresses = addresses_in(path)
        package = folder / "program.dwp"
        for contents, why in ((b"", ": not an ELF file"), (dwos[0].read_bytes()[:-100], "outside the file"), (other[0], " is of another build")):
            with self.subTest(why):
                for dwo in dwos:
                    dwo.write_bytes(contents)
                problem = self.ours(path, addresses)[1]["problem"]
                self.assertRegex(problem, f"^inlined functions of some units are missing: {folder}/\\w+\\.dwo.*{why}$")
        for dwo in dwos:
            dwo.unlink()
        self.assert_incomplete(path, addresses, r"inlined functions of some units are missing: \w+\.dwo was not found \(put the \.dwo files ")
        for contents, why in ((b"no program", ": not an ELF file"), (other[0], " is of another build or not complete")):
            package.write_bytes(contents)
            self.assertEqual(f"inlined functions of some units are missing: {package}{why}", self.ours(path, addresses)[1]["problem"])

    def test_a_damaged_file_lacks_inlined_functions_alone(self):
        """Names, files and lines of the rest are in the program."""
        path = self.build(flags=["-g", "-gdwarf-5", "-gsplit-dwarf"])
        addresses = addresses_in(path)
        whole, _ = self.ours(path, addresses)
        dwo = pathlib.Path(path).parent / "shapes.dwo"
        contents = bytearray(dwo.read_bytes())
        offset, size = (int(number, 16) for number in re.search(r"\.debug_info\.dwo +PROGBITS +\w+ (\w+) (\w+)", run("readelf", "-SW", dwo)).groups())
        contents[offset + size // 2:offset + size] = bytes(size - size // 2)
        dwo.write_bytes(contents)
        mine, module = self.ours(path, addresses)
        self.assertTrue(all(frames and frames[-1][0] for frames in mine))
        self.assertEqual([frames[0][1:] for frames in whole], [frames[0][1:] for frames in mine])
        self.assertEqual("get an undamaged copy of the file", module["hint"])
        self.assert_incomplete(path, addresses, f"inlined functions of some units are missing: {dwo}: its debug information is damaged: ")

    def test_gcc_dwarf5(self):
        self.check_split("gcc", ["-gdwarf-5"])

    def test_gcc_dwarf4(self):
        self.check_split("gcc", ["-gdwarf-4"])

    def test_clang_dwarf5(self):
        self.check_split("clang", ["-gdwarf-5"])

    def test_clang_dwarf4(self):
        self.check_split("clang", ["-gdwarf-4"])


class WrongFiles(SymbolCase):
    def test_other_build_at_the_path_is_refused(self):
        path = self.build(flags=["-g"], link=["-Wl,--build-id=sha1"])
        answer = json.loads(run(TOOL, "--build-id", "00" * 20, path, hex(addresses_in(path)[0])))
        self.assertEqual([], answer["results"][0]["frames"])
        self.assertIn("does not match", answer["modules"][0]["problem"])
        self.assertNotEqual("", answer["modules"][0]["hint"])

    def test_file_that_cannot_have_been_mapped_like_that_is_refused(self):
        path = self.build(flags=["-g"])
        answer = json.loads(run(TOOL, "--map", f"1000-900000:1000={path}", hex(addresses_in(path)[0])))
        self.assertEqual([], answer["results"][0]["frames"])
        self.assertIn("does not match", answer["modules"][0]["problem"])

    def answer_of(self, path, maps, address):
        options = [option for start, limit, offset in maps for option in ("--map", f"{start:x}-{limit:x}:{offset:x}={path}")]
        return json.loads(run(TOOL, *options, hex(address)))

    def segments_of(self, path, page):
        """(start, limit, file offset) of what a loader with such pages maps."""
        maps = [re.fullmatch(r"(\w+)-(\w+):(\w+)=.*", option).groups() for option in Packaging.maps_of(self, path, path) if option != "--map"]
        return [(start & -page, limit + page - 1 & -page, offset & -page) for start, limit, offset in ([int(field, 16) for field in m] for m in maps)]

    def test_code_that_was_mapped_from_one_page_before_is_refused(self):
        path = self.build(flags=["-g"], link=["-Wl,--build-id=none"])
        maps = [(start, limit, max(0, offset - 4096)) for start, limit, offset in self.segments_of(path, 4096)]
        answer = self.answer_of(path, maps, addresses_in(path)[0])
        self.assertEqual([], answer["results"][0]["frames"])
        self.assertIn("does not match", answer["modules"][0]["problem"])

    def test_code_before_data_from_another_place_is_refused(self):
        path = self.build(flags=["-g"], link=["-Wl,--build-id=none"])
        *maps, (start, limit, offset) = self.segments_of(path, 4096)
        address = addresses_in(path)[0]
        for moved, is_right in ((0, True), (4096, False)):
            answer = self.answer_of(path, [*maps, (start, limit, offset - moved)], address)
            self.assertEqual(is_right, bool(answer["results"][0]["frames"]), answer)

    def test_a_process_with_larger_pages_has_names(self):
        """As on arm64."""
        path = self.build(flags=["-g"], link=["-Wl,--build-id=none", "-Wl,-z,max-page-size=65536", "-Wl,-z,noseparate-code"])
        for page in (16384, 65536):
            maps = self.segments_of(path, page)
            self.assertNotEqual(maps, self.segments_of(path, 4096))
            answer = self.answer_of(path, maps, addresses_in(path)[0])
            self.assertTrue(answer["results"][0]["frames"], (page, answer["modules"]))

    def test_odd_address_in_another_mapping_of_the_file_spoils_nothing(self):
        path = self.build(flags=["-g"])
        maps = Packaging.maps_of(self, path, path)
        size = os.path.getsize(path) + 4095 & -4096
        start = addresses_in(path)[0]
        answer = json.loads(run(TOOL, *maps, "--map", f"7f0000000000-{0x7f0000000000 + size:x}:0={path}",
                                f"{start:x}", f"{0x7f0000000000 + start:x}", "2"))
        self.assertEqual([True, False, False], [bool(result["frames"]) for result in answer["results"]])

    def test_deleted_program_is_read_through_its_process(self):
        path = self.build(flags=["-g"])
        sleeper = os.path.join(self.folder, "sleeper")
        source = os.path.join(self.folder, "sleeper.c")
        pathlib.Path(source).write_text("#include <unistd.h>\n__attribute__((noinline)) int rest(void) { return pause(); }\n"
                                        "int main(void) { write(1, \"x\", 1); return rest(); }\n")
        run("gcc", "-g", "-O1", source, "-o", sleeper)
        process = subprocess.Popen([sleeper], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.read(1)
        start = int(next(line.split()[0] for line in run("nm", sleeper).splitlines() if line.endswith(" rest")), 16)
        shutil.copy(path, sleeper + ".new")
        os.replace(sleeper + ".new", sleeper)
        maps, base = [], None
        for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(sleeper):
                low = int(fields[0].split("-")[0], 16)
                base = low if base is None else base
                maps += ["--map", f"{fields[0]}:{fields[2]}={sleeper}"]
        answer = json.loads(run(TOOL, "--deleted", "--pid", process.pid, *maps, hex(base + start)))
        self.assertEqual(["rest"], [f["function"] for f in answer["results"][0]["frames"]])
        without = json.loads(run(TOOL, "--deleted", *maps, hex(base + start)))
        self.assertEqual([], without["results"][0]["frames"])
        self.assertIn("deleted", without["modules"][0]["problem"])


class LiveMemory(SymbolCase):
    def test_code_made_at_run_time_is_named_by_its_map(self):
        process = subprocess.Popen(["sleep", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        path = f"/tmp/perf-{process.pid}.map"
        self.addCleanup(lambda: os.path.exists(path) and os.remove(path))
        pathlib.Path(path).write_text("1000 100 old name\n1000 80 LazyCompile:~run app.js:3\nnonsense\n2000 10 other\n")
        answer = json.loads(run(TOOL, "--pid", process.pid, "--map", "1000-3000:0=", "1010", "1090", "2010"))
        names = [[f["function"] for f in result["frames"]] for result in answer["results"]]
        self.assertEqual([["LazyCompile:~run app.js:3"], ["old name"], []], names)

    def test_vdso_is_named(self):
        line = next(line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith("[vdso]"))
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        answer = json.loads(run(TOOL, "--map", f"{low:x}-{high:x}:0=[vdso]", *map(hex, range(low, high, 16))))
        names = {f["function"] for result in answer["results"] for f in result["frames"]}
        self.assertTrue(names & {"__vdso_clock_gettime", "clock_gettime"}, names)


class Servers(BuiltOnce):
    """debuginfod, through elfutils' client library, against a server of our own."""

    def setUp(self):
        super().setUp()
        try:
            ctypes.CDLL("libdebuginfod.so.1")
        except OSError:
            self.skipTest("libdebuginfod1 is not installed")
        debug = os.path.join(self.folder, "debug")
        run("objcopy", "--only-keep-debug", self.program, debug)
        self.stripped = os.path.join(self.folder, "stripped")
        run("strip", self.program, "-o", self.stripped)
        self.server = DebugFileServer(self, {self.build_id: debug})
        self.url = self.server.url

    def ask(self, *options, variables=None, **others):
        environment = dict(os.environ, DEBUGINFOD_URLS="", **(variables or {"DEBUGINFOD_CACHE_PATH": os.path.join(self.folder, "client")}))
        return json.loads(run(TOOL, "--no-demangle", *options, self.stripped, *map(hex, self.addresses[:200]), env=environment, **others))

    def test_debug_file_is_downloaded_on_request(self):
        module = self.ask("--debuginfod", self.url)["modules"][0]
        self.assertEqual(("dwarf", ""), (module["source"], module["problem"]))

    def test_no_server_is_contacted_by_default(self):
        module = self.ask()["modules"][0]
        self.assertEqual("dynamic", module["source"])
        self.assertIn("--debuginfod", module["hint"])
        self.assertEqual([], self.server.asked)

    def test_server_without_the_file_is_ignored(self):
        self.server.files = {}
        for url in (self.url, f"file://{self.folder}/"):
            self.assertIn("stripped", self.ask("--debuginfod", url)["modules"][0]["problem"])
            shutil.rmtree(os.path.join(self.folder, "client"))

    def test_a_file_that_may_not_be_written_is_not_downloaded(self):
        """Above a limit of the process (RLIMIT_FSIZE) it would end it, as in what the gateway starts."""
        self.server.claimed = 1 << 30
        module = self.ask("--debuginfod", self.url, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))["modules"][0]
        self.assertIn("has more than the 1048576 bytes that this process may write", module["problem"])
        self.assertEqual("dynamic", module["source"])

    def test_a_file_above_the_clients_own_limit(self):
        self.server.claimed = 1 << 30
        module = self.ask("--debuginfod", self.url, variables={"DEBUGINFOD_CACHE_PATH": os.path.join(self.folder, "client"), "DEBUGINFOD_MAXSIZE": "100000"})["modules"][0]
        self.assertEqual("what the debuginfod servers have is larger than DEBUGINFOD_MAXSIZE allows", module["problem"])
        self.assertIn("raise DEBUGINFOD_MAXSIZE, or unset it", module["hint"])

    def test_a_cache_that_cannot_be_written_is_no_fault_of_the_servers(self):
        file = pathlib.Path(self.folder, "file")
        file.write_text("")
        home = {"HOME": self.folder, "DEBUGINFOD_CACHE_PATH": ""}
        for variables, cache, why in (({**home, "XDG_CACHE_HOME": str(file)}, f"{file}/debuginfod_client", "File exists"),
                                      ({"DEBUGINFOD_CACHE_PATH": f"{file}/x"}, f"{file}/x", "Not a directory"),
                                      ({"DEBUGINFOD_CACHE_PATH": f"{self.folder}/no/such"}, f"{self.folder}/no/such", "No such file or directory")):
            module = self.ask("--debuginfod", self.url, variables=variables)["modules"][0]
            self.assertEqual(f"debuginfod's cache {cache} cannot be written: {why}", module["problem"])
            self.assertEqual("set DEBUGINFOD_CACHE_PATH to a folder that can be written", module["hint"])
        self.assertEqual([], self.server.asked)

    def test_it_says_what_a_server_answered_in_place_of_a_file(self):
        cut = b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n\x7fELF"
        for refusal, answer, hint in ((401, "The requested URL returned error: 401", "DEBUGINFOD_HEADERS_FILE"), (403, "error: 403", "DEBUGINFOD_HEADERS_FILE"),
                                      (500, "error: 500", "check the URL"), (b"SSH-2.0-x\r\n", "HTTP/0.9", "check the URL"), (b"", "Empty reply", "check the URL"),
                                      (cut, "remaining to read", "check the URL")):
            self.server.refusal = refusal
            with self.subTest(refusal=refusal):
                shutil.rmtree(os.path.join(self.folder, "client"), ignore_errors=True)
                module = self.ask("--debuginfod", self.url.replace("//", "//me:secret@"))["modules"][0]
                self.assertRegex(module["problem"], f"^the debuginfod servers failed: {self.url[7:]}: .*{re.escape(answer)}")
                self.assertIn(hint, module["hint"])
                self.assertIn(f"remove {self.kept()}", module["hint"])

    def test_an_empty_file_is_none(self):
        self.server.refusal = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"
        self.assertEqual("the debuginfod servers failed: the answer is empty", self.ask("--debuginfod", self.url)["modules"][0]["problem"])

    def test_a_refusal_of_one_server_is_named_beside_a_miss_of_another(self):
        other = DebugFileServer(self, {})
        self.server.refusal = 401
        for urls in (f"{self.url} {other.url}", f"{other.url} {self.url}"):
            shutil.rmtree(os.path.join(self.folder, "client"), ignore_errors=True)
            self.assertIn(f"{self.url[7:]}: The requested URL returned error: 401", self.ask("--debuginfod", urls)["modules"][0]["problem"])

    def kept(self):
        return os.path.join(self.folder, "client", self.build_id, "debuginfo")

    def test_it_says_where_the_client_keeps_that_there_is_none(self):
        """Also what our own cache keeps must not outlive it."""
        options = ("--debuginfod", self.url, "--cache-dir", os.path.join(self.folder, "cache"))
        self.server.refusal = 404
        self.assertNotIn("remove", self.ask(*options)["modules"][0]["hint"])
        self.server.refusal = None
        asked = len(self.server.asked)
        for mode in (0o644, 0):
            os.chmod(self.kept(), mode)
            module = self.ask(*options)["modules"][0]
            self.assertIn("debug file was not found", module["problem"])
            self.assertIn(f", or remove {self.kept()} to ask the debuginfod servers again, from which no file came less than ten minutes ago", module["hint"])
        self.assertEqual(asked, len(self.server.asked))
        os.unlink(self.kept())
        self.assertEqual(("dwarf", ""), operator.itemgetter("source", "problem")(self.ask(*options)["modules"][0]))

    def test_it_says_what_to_remove_where_a_useless_answer_was_kept(self):
        """The client answers with it for as long as it is there."""
        good = pathlib.Path(self.server.files[self.build_id])
        image = bytearray(good.read_bytes())
        other = os.path.join(self.folder, "other")
        pathlib.Path(other + ".c").write_text("int main(void) { return 0; }")
        run("gcc", "-g", "-Wl,--build-id", other + ".c", "-o", other)
        at = int(next(line.split() for line in run("readelf", "-SW", good).replace("[ ", "[").splitlines() if ".debug_info" in line)[4], 16)
        image[at:at + 64] = bytes([255] * 64)
        wrong, damaged = (pathlib.Path(self.folder, name) for name in ("wrong", "damaged"))
        wrong.write_text("<html>log in</html>")
        damaged.write_bytes(image)
        for file, problem in ((wrong, "not an ELF file"), (other, "is of another build"), (damaged, "debug_info")):
            with self.subTest(problem=problem):
                shutil.rmtree(os.path.join(self.folder, "client"), ignore_errors=True)
                for served in (file, good):
                    self.server.files[self.build_id] = served
                    module = self.ask("--debuginfod", self.url)["modules"][0]
                    self.assertIn(problem, module["problem"])
                    self.assertEqual(f"remove {self.kept()}, so that the debuginfod servers are asked again", module["hint"])
                os.unlink(self.kept())
                self.assertEqual(("dwarf", ""), operator.itemgetter("source", "problem")(self.ask("--debuginfod", self.url)["modules"][0]))

    def test_silent_server_ends_with_the_deadline(self):
        self.server.is_silent = True
        answer = self.ask("--debuginfod", self.url, "--timeout", "1500")
        self.assertIn("did not answer in time", answer["modules"][0]["problem"])
        self.assertIn(f"try again in ten minutes, or remove {self.kept()} and allow more time", answer["modules"][0]["hint"])
        self.assertLess(answer["milliseconds"], 30000)


class OtherRoots(BuiltOnce):
    """What a process with another root may make us read: links there must not lead to files of ours."""

    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(self.root, "opt"))

    def test_link_of_a_sysroot_stays_below_it(self):
        shutil.copy2(self.program, os.path.join(self.root, "opt"))
        os.symlink("/opt/program", os.path.join(self.root, "link"))
        maps = ["--build-id", self.build_id, "--map", f"0-{2 ** 40:x}:0=/link"]
        module = json.loads(run(TOOL, "--sysroot", self.root, *maps, "1000"))["modules"][0]
        self.assertEqual((self.root + "/link", self.build_id), (module["file"], module["build_id"]))

    def test_link_of_a_sysroot_leads_to_no_file_of_ours(self):
        os.symlink(self.program, os.path.join(self.root, "link"))
        maps = ["--build-id", self.build_id, "--map", f"0-{2 ** 40:x}:0=/link"]
        module = json.loads(run(TOOL, "--sysroot", self.root, *maps, "1000"))["modules"][0]
        self.assertEqual(("", "not found"), (module["file"], module["problem"]))

    @unittest.skipIf(os.geteuid(), "chroot(2) needs root")
    def test_link_of_a_process_leads_to_no_file_of_ours(self):
        pause = os.path.join(self.root, "pause")
        subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", pause], text=True, check=True,
                       input="#include <unistd.h>\nint main(void) { write(1, \"up\\n\", 3); pause(); }")
        os.symlink(self.program, os.path.join(self.root, "link"))
        process = subprocess.Popen(["/pause"], stdout=subprocess.PIPE, preexec_fn=lambda: os.chroot(self.root))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        maps = ["--build-id", self.build_id, "--map", f"0-{2 ** 40:x}:0=/link"]
        module = json.loads(run(TOOL, "--pid", process.pid, *maps, "1000"))["modules"][0]
        self.assertEqual(("", "not found"), (module["file"], module["problem"]))


class Cache(BuiltOnce):
    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.folder, "deep/er/cache")
        self.program = shutil.copy2(type(self).program, self.folder)

    def ask(self, addresses=None):
        return self.ours(self.program, self.addresses if addresses is None else addresses, "--cache-dir", self.cache)

    def files(self):
        return sorted(pathlib.Path(self.cache).iterdir())

    def test_second_run_says_the_same(self):
        first, module = self.ask()
        self.assertFalse(module["from_cache"])
        second, again = self.ask()
        self.assertTrue(again["from_cache"])
        self.assertEqual(first, second)
        module["from_cache"] = True
        self.assertEqual(module, again)

    def test_new_addresses_join_the_old_ones(self):
        self.ask(self.addresses[::2])
        _, module = self.ask()
        self.assertFalse(module["from_cache"])
        _, module = self.ask(self.addresses[::2])
        self.assertTrue(module["from_cache"])
        plain, _ = self.ours(self.program, self.addresses)
        self.assertEqual(plain, self.ask()[0])
        self.assertEqual(1, len(self.files()))

    def test_damage_is_detected_and_repaired(self):
        expected, _ = self.ask()
        path = self.files()[0]
        whole = path.read_bytes()
        for position in range(0, len(whole), max(1, len(whole) // 40)):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x41]) + whole[position + 1:])
            answer, module = self.ask()
            self.assertEqual(expected, answer)
            self.assertFalse(module["from_cache"], position)
        path.write_bytes(whole[:len(whole) // 2])
        self.assertEqual(expected, self.ask()[0])
        self.assertEqual(whole, path.read_bytes())

    def test_changed_program_is_read_again(self):
        self.ask()
        os.utime(self.program, ns=(1, 1))
        self.assertFalse(self.ask()[1]["from_cache"])

    def test_forged_build_id_names_no_other_file(self):
        forged = f"-Wl,--build-id=0x{self.build_id}"
        evil = self.build("evil", flags=["-g"], link=[forged, "-Wl,-Ttext-segment=0x20000000"])
        options = ["--cache-dir", self.cache, "--build-id", self.build_id]
        honest, _ = self.ours(self.program, self.addresses, "--build-id", self.build_id)
        shift = addresses_in(evil)[0] - self.addresses[0]
        with open(evil, "rb") as file:
            self.assertIn(bytes.fromhex(self.build_id), file.read())
        _, module = self.ours(evil, [address + shift for address in self.addresses], *options)
        self.assertEqual("dwarf", module["source"])
        answer, module = self.ours(self.program, self.addresses, *options)
        self.assertFalse(module["from_cache"])
        self.assertEqual(honest, answer)
        answer, module = self.ours(self.program, self.addresses, *options)
        self.assertTrue(module["from_cache"])
        self.assertEqual(honest, answer)

    def test_file_of_the_same_size_and_time_is_read_again(self):
        options = ["--cache-dir", self.cache, "--build-id", self.build_id]
        self.ours(self.program, self.addresses, *options)
        status = os.stat(self.program)
        contents = bytearray(pathlib.Path(self.program).read_bytes())
        with open(self.program, "r+b") as file:
            file.write(contents.replace(b"innermost", b"INNERMOST"))
        os.utime(self.program, ns=(status.st_atime_ns, status.st_mtime_ns))
        answer, module = self.ours(self.program, self.addresses, *options)
        self.assertFalse(module["from_cache"])
        self.assertIn("INNERMOST", str(answer))

    def test_process_that_ended_leaves_its_answers(self):
        sleeper = os.path.join(self.folder, "sleeper")
        source = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"up\"); fflush(stdout); pause(); }"
        subprocess.run(["gcc", "-g", "-x", "c", "-", "-o", sleeper, "-Wl,--build-id"], input=source, text=True, check=True)
        start, _, _ = functions(sleeper)[0]
        states = []
        for _ in range(2):
            process = subprocess.Popen([sleeper], stdout=subprocess.PIPE)
            process.stdout.readline()
            maps, base = [], None
            for line in pathlib.Path(f"/proc/{process.pid}/maps").read_text().splitlines():
                fields = line.split()
                if fields[-1] == sleeper:
                    base = base or int(fields[0].split("-")[0], 16)
                    maps += ["--map", f"{fields[0]}:{fields[2]}={sleeper}"]
            for live in ["--pid", process.pid], []:
                answer = json.loads(run(TOOL, "--cache-dir", self.cache, *live, *maps, hex(base + start)))
                states.append((answer["modules"][0]["from_cache"], answer["results"][0]["frames"][0]["function"]))
            process.kill()
            process.wait()
            process.stdout.close()
        self.assertEqual([(False, "main")] + [(True, "main")] * 3, states)

    def test_debug_file_that_appears_is_found(self):
        whole = self.program + ".whole"
        os.rename(self.program, whole)
        ids = os.path.join(self.folder, "ids")
        run("strip", whole, "-o", self.program)
        options = ["--cache-dir", self.cache, "--build-id-dir", ids]
        first, module = self.ours(self.program, self.addresses, *options)
        self.assertEqual(0, module["named"])
        self.assertTrue(self.ours(self.program, self.addresses, *options)[1]["from_cache"])
        os.makedirs(os.path.join(ids, self.build_id[:2]))
        run("objcopy", "--only-keep-debug", whole, os.path.join(ids, self.build_id[:2], self.build_id[2:] + ".debug"))
        _, module = self.ours(self.program, self.addresses, *options)
        self.assertEqual(len(self.addresses), module["named"])

    def test_directory_of_another_user_is_not_used(self):
        os.makedirs(self.cache)
        os.chmod(self.cache, 0o777)
        self.ask()
        self.assertEqual([], self.files())

    def test_writers_at_the_same_time_leave_a_whole_file(self):
        commands = [[TOOL, "--brief", "--cache-dir", self.cache, self.program, *map(hex, self.addresses[i::4])]
                    for i in range(4) for _ in range(4)]
        processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        self.assertEqual({0}, {process.wait() for process in processes})
        self.assertEqual(1, len(self.files()))
        self.assertEqual(self.ours(self.program, self.addresses)[0], self.ask()[0])


class Threads(BuiltOnce):
    def test_answers_do_not_depend_on_the_number_of_threads(self):
        answers = [self.ours(self.program, self.addresses, "--threads", count) for count in ("1", "2", "7")]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])


if __name__ == "__main__":
    unittest.main()
