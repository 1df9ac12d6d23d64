#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the includes of src/ and plugins/ and fails when a layer reaches one that it may not use."""
import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "allocator": {"base"},
    "unwind": {"base"},
    "sampler": {"allocator", "unwind", "base"},
    "wire": {"base"},
    "agent": {"sampler", "allocator", "unwind", "wire", "base"},
    "profile": {"base"},
    "symbol": {"unwind", "base"},
    "analysis": {"profile", "base"},
    "render": {"analysis", "profile", "base"},
    "client": {"wire", "base"},
    "store": {"profile", "base"},
    "watch": {"store", "client", "base"},
    # The sampler's list of functions, and what heapctl writes for it into the target.
    "inject": {"symbol", "sampler", "unwind", "base"},
    "source": {"store", "client", "profile", "symbol", "base"},
    "fleet": {"store", "analysis", "profile", "base"},
    "gateway": {"watch", "store", "render", "analysis", "profile", "client", "wire", "base"},
    "cli": {"fleet", "gateway", "inject", "source", "watch", "store", "render", "analysis", "profile", "symbol", "client", "wire", "base"},
}
RESIDENT = {"allocator", "unwind", "sampler", "wire", "agent"}
# Headers of base that end the program when memory runs out.
OFFLINE_BASE = {"descriptors.h", "hash_index.h", "string_pool.h", "xalloc.h"}
RESIDENT_BANNED = re.compile(r"\b(abort|exit|_exit|fopen|fprintf|printf|puts|malloc|calloc|realloc|strdup|file_map|file_map_fd)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.S)


def faults(root):
    found = []
    for path in sorted((root / "src").rglob("*.[ch]")):
        layer = path.relative_to(root / "src").parts[0]
        text = path.read_text()
        for include in INCLUDE.findall(text):
            first, _, rest = include.partition("/")
            where = f"{path.relative_to(root)} includes {include}"
            if include == "heapctl.h":
                if layer not in ("agent",):
                    found.append(f"{where}: only the agent implements the public header")
            elif first != layer and first not in ALLOWED.get(layer, set()):
                found.append(f"{where}: {layer} may not use {first or 'that'}")
            elif layer in RESIDENT and first == "base" and rest in OFFLINE_BASE:
                found.append(f"{where}: {layer} lives inside a server")
        if layer in RESIDENT:
            for match in RESIDENT_BANNED.finditer(COMMENT.sub("", text)):
                found.append(f"{path.relative_to(root)} calls {match.group(1)}(): {layer} lives inside a server")
    for path in sorted((root / "plugins").rglob("*.[ch]")):
        for include in INCLUDE.findall(path.read_text()):
            if "/" in include and include.split("/")[0] in ALLOWED:
                found.append(f"{path.relative_to(root)} includes {include}: plugins use heapctl.h only")
    return found


if __name__ == "__main__":
    problems = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "layers: dependencies point one way")
    sys.exit(bool(problems))
