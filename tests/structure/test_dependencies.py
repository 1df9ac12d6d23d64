#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No cycle between files, no link upwards, no tag twice, no printing below src/cli; and the checks find each of these."""
import os
import pathlib
import tempfile
import unittest

import dependencies
from dependencies import Objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEAPCTL_BUILD", ROOT / "build"))


def objects(units):
    """From {unit: (defined, undefined)}, both as words."""
    made = Objects()
    for unit, (defined, undefined) in units.items():
        made.add(unit, "".join(f"{name} T 0 4\n" for name in defined.split()) + "".join(f"{name} U\n" for name in undefined.split()))
    return made


class Tree:
    """A tree with some files, removed at the end."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        for name, text in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    def __exit__(self, *_):
        self.folder.cleanup()


def cycles(files, units):
    with Tree(files) as root:
        return dependencies.graph_of(root, objects(units)).cycles()


class TheTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = dependencies.objects_of(ROOT, BUILD)

    def test_the_objects_are_read(self):
        self.assertIn("base/error", self.objects.definer_of("error_set", "cli/main"))
        self.assertGreater(len(self.objects.undefined), 100)

    def test_no_file_needs_itself_through_others(self):
        self.assertEqual(dependencies.cycle_faults(dependencies.graph_of(ROOT, self.objects)), {})

    def test_no_layer_links_upwards(self):
        self.assertEqual(dependencies.upward_links(self.objects), [])

    def test_no_tag_is_defined_twice(self):
        self.assertEqual(dependencies.duplicate_tags(ROOT), {})

    def test_no_name_is_defined_twice_in_a_binary(self):
        self.assertEqual(dependencies.duplicate_names(self.objects), {})

    def test_nothing_but_the_command_line_prints(self):
        # xalloc reports that memory ran out and ends the program; the agent's log may be sent to stderr by its user.
        self.assertEqual(dependencies.printing_units(self.objects), ["base/xalloc"])
        self.assertEqual(dependencies.writing_units(ROOT), [])

    def test_analysis_is_pure(self):
        self.assertEqual(dependencies.impure_links(self.objects, "analysis"), {})


class TheChecks(unittest.TestCase):
    def test_a_cycle_of_includes_is_found(self):
        self.assertEqual(cycles({"src/base/a.h": '#include "base/b.h"\n', "src/base/b.c": '#include "base/a.h"\n',
                                 "src/base/b.h": "", "src/base/a.c": ""}, {}), [["base/a", "base/b"]])

    def test_a_cycle_of_symbols_is_found(self):
        self.assertEqual(cycles({}, {"base/a": ("a", "b"), "base/b": ("b", "c"), "base/c": ("c", "a"), "base/d": ("d", "a")}),
                         [["base/a", "base/b", "base/c"]])

    def test_a_cycle_of_an_include_and_a_symbol_is_found(self):
        files = {"src/base/a.c": '#include "base/b.h"\n', "src/base/a.h": "", "src/base/b.h": "", "src/base/b.c": "void a(void);\n"}
        self.assertEqual(cycles(files, {"base/a": ("a", ""), "base/b": ("b", "a")}), [["base/a", "base/b"]])
        self.assertEqual(cycles(files, {"base/a": ("a", "b"), "base/b": ("b", "")}), [])

    def test_a_cycle_is_explained(self):
        graph = dependencies.Graph()
        for user, used in ("ab", "bc", "ca", "cd", "dc"):
            graph.add(user, used, f"calls {used}")
        self.assertEqual(graph.shortest_cycle(graph.cycles()[0]), "c needs d (calls d), d needs c (calls c)")

    def test_a_file_and_its_header_are_one(self):
        self.assertEqual(cycles({"src/base/a.c": '#include "base/a.h"\n', "src/base/a.h": ""}, {"base/a": ("a b", "a")}), [])

    def test_a_link_upwards_is_found_without_an_include(self):
        self.assertEqual(dependencies.upward_links(objects({"base/a": ("a", "b"), "cli/b": ("b", "a")})),
                         ["base/a links b of cli/b: base may not use cli"])
        self.assertEqual(dependencies.upward_links(objects({"wire/a": ("a", "xmalloc"), "base/xalloc": ("xmalloc", "")})),
                         ["wire/a links xmalloc of base/xalloc: wire lives inside a server"])
        self.assertEqual(dependencies.upward_links(objects({"agent/a": ("a", "abort")})), ["agent/a links abort: agent lives inside a server"])

    def test_of_two_definitions_the_permitted_one_is_used(self):
        units = {"agent/listener": ("listen_on", ""), "gateway/listener": ("listen_on", ""), "cli/serve": ("", "listen_on")}
        self.assertEqual(dependencies.upward_links(objects(units)), [])

    def test_a_name_defined_twice_is_found(self):
        units = {"profile/format": ("find", ""), "gateway/render": ("find", ""), "agent/thread": ("start", ""), "gateway/thread": ("start", ""),
                 "cli/without_net": ("serve", ""), "gateway/serve": ("serve", ""), "agent/a": ("x", ""), "base/a": ("x", "")}
        self.assertEqual(dependencies.duplicate_names(objects(units)),
                         {"find": ["gateway/render", "profile/format"], "x": ["agent/a", "base/a"]})

    def test_printing_is_found(self):
        self.assertEqual(dependencies.printing_units(objects({
            "client/a": ("", "stdout fputs"), "client/b": ("", "fputs"), "cli/c": ("", "puts"), "watch/d": ("", "__printf_chk"),
            "watch/e": ("", "snprintf __snprintf_chk fprintf")})), ["client/a", "watch/d"])
        with Tree({"src/watch/a.c": "n = write(STDERR_FILENO, text, 4);\n", "src/watch/b.c": "/* write(1, text, 4); */ n = write(12, text, 4);\n",
                   "src/cli/c.c": "n = write(1, text, 4);\n"}) as root:
            self.assertEqual(dependencies.writing_units(root), ["watch/a"])

    def test_an_impure_function_is_found(self):
        units = {"analysis/a": ("", "open64 memcpy view_read"), "analysis/b": ("", "file_read"), "analysis/c": ("time_of", "log qsort"),
                 "base/file": ("file_read", "fopen"), "client/d": ("", "getenv")}
        self.assertEqual(dependencies.impure_links(objects(units), "analysis"), {"analysis/a": ["open64"], "analysis/b": ["file_read"]})

    def test_a_tag_defined_twice_is_found(self):
        with Tree({"src/base/a.h": "struct run {\n\tint a;\n};\n", "src/cli/b.c": "static struct run { int b; } run;\n",
                   "src/cli/c.c": "struct run;\nstruct run *f(struct run a)\n{\n}\n/* struct run { */\nstruct other { struct run r; };\n"}) as root:
            self.assertEqual(dependencies.duplicate_tags(root), {"run": ["src/base/a.h", "src/cli/b.c"]})


if __name__ == "__main__":
    unittest.main()
