#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of the gateway's page import what others export, use it, and need each other in one direction."""
import collections
import pathlib
import re
import tempfile
import unittest

from dependencies import Graph

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The gateway serves the files of both folders below /assets.
FOLDERS = ["src/gateway/web", "src/render/page"]
IMPORT = re.compile(r"^import\s*\{([^}]*)\}\s*from\s*'/assets/([^']+)';$", re.M)
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|class|const) (\w+)", re.M)
# Made at run time: the flame graph's script (src/gateway/handle_page.c), which checks itself in the page.
MADE = {"flame.js"}


def imports_of(text):
    """(module, name there, name here) of each imported name."""
    for names, module in IMPORT.findall(text):
        for name in filter(None, map(str.strip, names.split(","))):
            there, _, here = name.partition(" as ")
            yield module, there, here or there


def faults(root):
    texts = {path.name: path.read_text() for folder in FOLDERS for path in sorted((root / folder).glob("*.js"))}
    exports = {module: set(EXPORT.findall(text)) for module, text in texts.items()}
    used, graph, found = collections.defaultdict(set), Graph(), []
    for user, text in texts.items():
        code = IMPORT.sub("", text)
        found += [f"{user}: not understood: {line}" for line in re.findall(r"^(?:import\b.*|export (?:default|\{|\*).*)", code, re.M)]
        for module, there, here in imports_of(text):
            used[module].add(there)
            graph.add(user, module, there)
            if module not in MADE and there not in exports.get(module, ()):
                found.append(f"{user} imports {there}, which {module} does not export")
            if not re.search(rf"\b{re.escape(here)}\b", code):
                found.append(f"{user} imports {here} of {module} and does not use it")
    for module, names in exports.items():
        found += [f"{module} exports {name}, which nothing imports" for name in sorted(names - used[module])]
    return found + [graph.shortest_cycle(members) for members in graph.cycles()]


def faults_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, FOLDERS[0], name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return faults(pathlib.Path(folder))


class WebModules(unittest.TestCase):
    def test_the_page_has_no_fault(self):
        self.assertEqual(faults(ROOT), [])

    def test_it_has_modules(self):
        self.assertGreater(sum(len(list((ROOT / folder).glob("*.js"))) for folder in FOLDERS), 20)

    def test_what_is_whole_has_no_fault(self):
        self.assertEqual(faults_of({"a.js": "import { f,\n  g as h } from '/assets/b.js';\nf(h);\n", "b.js": "export function f() {}\nexport const g = 1;\n"}), [])

    def test_a_name_that_is_not_exported_is_found(self):
        self.assertEqual(len(faults_of({"a.js": "import { f } from '/assets/b.js';\nf();\n", "b.js": "function f() {}\n"})), 1)
        self.assertEqual(len(faults_of({"a.js": "import { f } from '/assets/none.js';\nf();\n"})), 1)

    def test_an_unused_import_and_export_are_found(self):
        self.assertEqual(len(faults_of({"a.js": "import { f } from '/assets/b.js';\n", "b.js": "export async function f() {}\n"})), 1)
        self.assertEqual(len(faults_of({"b.js": "export class F {}\n"})), 1)

    def test_a_cycle_is_found(self):
        self.assertEqual(len(faults_of({"a.js": "import { g } from '/assets/b.js';\nexport const f = () => g();\n",
                                        "b.js": "import { f } from '/assets/a.js';\nexport const g = () => f();\n"})), 1)

    def test_another_kind_of_import_is_found(self):
        self.assertEqual(len(faults_of({"a.js": "import * as b from '/assets/b.js';\nb.f();\n"})), 1)


if __name__ == "__main__":
    unittest.main()
