# SPDX-License-Identifier: Apache-2.0
"""Programs whose symbols are looked up: compiled with each kind of debug information."""
import os
import pathlib
import re
import shutil
import subprocess

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "integration/programs/flavours"
STEP = 3  # bytes between the addresses that are asked


def have(*tools):
    return all(shutil.which(tool) for tool in tools)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def functions(path):
    """(start, size, name) of the functions that came from our sources."""
    found = []
    for line in run("nm", "-S", "--defined-only", path).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTwWuV" and re.search(r"shapes|plain|main|nested", fields[3]):
            found.append((int(fields[0], 16), int(fields[1], 16), fields[3]))
    return found


def addresses_in(path):
    return sorted({address for start, size, _ in functions(path) for address in range(start, start + size, STEP)})


def build_in(folder, compiler="gcc", flags=(), link=()):
    """The test program, compiled in a folder of its own; its path."""
    os.makedirs(folder, exist_ok=True)
    cxx = {"gcc": "g++", "clang": "clang++"}[compiler]
    for source, driver in (("plain.c", compiler), ("shapes.cc", cxx)):
        shutil.copy(SOURCES / source, folder)
        run(driver, "-c", "-O2", *flags, source, "-o", source.split(".")[0] + ".o", cwd=folder)
    run(cxx, "-O2", *flags, *link, "plain.o", "shapes.o", "-o", "program", cwd=folder)
    return os.path.join(folder, "program")
