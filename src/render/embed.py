#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the scripts, styles and page that the pictures carry into C arrays.

usage: embed.py OUTPUT.c OUTPUT.h FOLDER

The flame graph's page is cut where its title and its data go, and its content security policy
gets the hashes of exactly the script and the style that stand in it.
"""
import base64
import hashlib
import pathlib
import re
import sys

FLAME_SCRIPTS = ["../page/dom.js", "../page/format.js", "columns.js", "format.js", "model.js", "tree.js", "filter.js", "colours.js", "chart.js",
                 "minimap.js", "formats.js", "save.js", "panels.js", "toolbar.js", "address.js", "flame.js"]
LICENSE = "/* SPDX-License-Identifier: Apache-2.0 */\n"


def join_scripts(folder, names):
    """One script in one scope, so that nothing but its entry points is global. The gateway's page has page/ as modules."""
    parts = [re.sub(r"^export ", "", (folder / name).read_text().replace(LICENSE, ""), flags=re.M) for name in names]
    return f"{LICENSE}'use strict';\n(() => {{\n" + "\n".join(parts) + "})();\n"


def policy_hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fill(template, values):
    for key, value in values.items():
        mark = f"@{key}@"
        assert template.count(mark) == 1, f"{mark} must be there once"
        template = template.replace(mark, value)
    return template


def flame_parts(folder):
    script = join_scripts(folder, FLAME_SCRIPTS)
    style = (folder / "flame.css").read_text()
    page_style = (folder / "../page/colours.css").read_text() + style.replace(LICENSE, "")
    page_script = join_scripts(folder, FLAME_SCRIPTS + ["page.js"])
    for text in (script, page_style, page_script):
        assert "</s" not in text.lower(), "it would end its element"
    page = fill((folder / "page.html").read_text(), {
        "SCRIPT_HASH": policy_hash(page_script), "STYLE_HASH": policy_hash(page_style), "STYLE": page_style})
    # The script goes in last: it may hold anything, also what looks like a mark.
    head, rest = page.split("@TITLE@")
    middle, tail = rest.split("@DATA@")
    before, after = tail.split("@SCRIPT@")
    return {
        "flame_page_head": head,
        "flame_page_middle": middle,
        "flame_page_tail": before + page_script + after,
        "flame_script": script,
        "flame_style": style,
    }


def callgraph_parts(folder):
    return {
        "callgraph_script": (folder / "callgraph.js").read_text().replace(LICENSE, ""),
        "callgraph_style": (folder / "callgraph.css").read_text().replace(LICENSE, ""),
    }


def array(name, text):
    data = text.encode() + b"\0"
    lines = [",".join(str(byte) for byte in data[at:at + 32]) for at in range(0, len(data), 32)]
    return f"const char {name}[{len(data)}] = {{\n" + ",\n".join(lines) + "\n};\n"


def main():
    source, header, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    parts = flame_parts(folder / "flame") | callgraph_parts(folder / "callgraph")
    # Bytes above 127 do not fit into a signed char.
    for name, text in parts.items():
        assert text.isascii(), f"{name} holds {sorted(set(c for c in text if ord(c) > 127))}"
    source.write_text('#include "render/assets.h"\n\n' + "".join(array(*part) for part in parts.items()))
    header.write_text("#pragma once\n\n" + "".join(
        f"extern const char {name}[{len(text.encode()) + 1}];\n" for name, text in parts.items()))


if __name__ == "__main__":
    main()
