#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree obeys its layers, and the checker finds violations."""
import pathlib
import re
import tempfile
import unittest

import layers


def faults_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / "plugins").mkdir(exist_ok=True)
        return layers.faults(root)


class Layers(unittest.TestCase):
    def test_the_tree_obeys(self):
        self.assertEqual(layers.faults(pathlib.Path(__file__).resolve().parents[2]), [])

    def test_an_upward_include_is_found(self):
        self.assertEqual(len(faults_of({"src/base/x.c": '#include "cli/verb.h"\n'})), 1)
        self.assertEqual(len(faults_of({"src/wire/x.c": '#include "agent/agent.h"\n'})), 1)

    def test_ending_the_process_in_resident_code_is_found(self):
        self.assertEqual(len(faults_of({"src/agent/x.c": '#include "base/xalloc.h"\n'})), 1)
        self.assertEqual(len(faults_of({"src/agent/x.c": "void f(void) { exit(1); }\n"})), 1)
        self.assertEqual(faults_of({"src/agent/x.c": '/* never exit(1) */ const char *s = "exit(1)";\n'}), [])

    def test_a_plugin_sees_the_public_face_only(self):
        self.assertEqual(len(faults_of({"src/base/x.c": "", "plugins/p/x.c": '#include "agent/agent.h"\n'})), 1)


class Documents(unittest.TestCase):
    def test_the_architecture_names_files_that_exist(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        text = (root / "docs/architecture.md").read_text()
        missing = [name for name in re.findall(r"`([a-z_*/]+\.(?:c|h|js))`", text)
                   if not any((root / "src").glob(name if "/" in name else f"*/{name}")) and not (root / name).exists() and not (root / "include" / name).exists()]
        self.assertEqual(missing, [])

    def test_the_architecture_has_the_layers_that_are_checked(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        rows = re.findall(r"^\| `src/(\w+)` \|.*\| ([\w, ]*)\|$", (root / "docs/architecture.md").read_text(), re.M)
        self.assertEqual({layer: set(used.replace(",", " ").split()) for layer, used in rows}, layers.ALLOWED)


if __name__ == "__main__":
    unittest.main()
