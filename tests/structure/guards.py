#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds variables with CLEANUP that have no initialiser: a `return` before their first use releases garbage."""
import pathlib
import re
import sys

FOLDERS = ("src", "plugins", "tests", "bench", "examples", "include")
SUFFIXES = {".c", ".h", ".cc", ".cpp", ".hh"}
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
# The guard and what follows up to the initialiser or the end: `CLEANUP(f) struct thing *thing = ...`, or with attributes.
ATTRIBUTE = r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)"
GUARD = re.compile(rf"\b(?:CLEANUP\s*\(\s*\w+\s*\)|__attribute__\s*\(\([^;=]*?cleanup[^;=]*?\)\))((?:{ATTRIBUTE}|[^;={{])*)([;={{])")
# Only the guard itself is written with the attribute.
DEFINITION = "src/base/cleanup.h"


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def faults_of_text(text):
    """The lines of what is declared with a guard and without a value, as (line, declaration)."""
    text = NOT_CODE.sub(blank, text)
    for match in GUARD.finditer(text):
        # Of `CLEANUP(f) int a, b = 1;` the first has none.
        if match.group(2) != "=" or "," in re.sub(ATTRIBUTE, "", match.group(1)):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match.group(0).split())


def faults(root):
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or str(path.relative_to(root)) == DEFINITION:
                continue
            for line, declaration in faults_of_text(path.read_text()):
                found.append(f"{path.relative_to(root)}:{line}: {declaration} is not initialised at its declaration")
    return found


if __name__ == "__main__":
    problems = faults(pathlib.Path(sys.argv[1]))
    print("\n".join(problems) if problems else "guards: all are initialised")
    sys.exit(bool(problems))
