#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs whose whole output is kept: a change of it is seen in review, never missed.

usage: golden.py BUILD-FOLDER [--rewrite]      (`make golden` rewrites; look at the difference)

A case is the name of the file that is kept, the program in the build folder with its arguments, and
the file that it gets as standard input. Arguments that begin with "@" are files of this folder.
"""
import difflib
import pathlib
import subprocess
import sys
import time

import case_runner

HERE = pathlib.Path(__file__).resolve().parent
HEAPCTL = "src/cli/heapctl"
DRAW = "tests/integration/draw_stacks"

CASES = [
    ("call_graph.dot", [DRAW, "dot"], "stacks.txt"),
    ("call_graph_difference.dot", [DRAW, "dot", "difference"], "stacks.txt"),
    ("report.txt", [HEAPCTL, "report", "-"], "store.heap"),
    ("report_bytes_confidence.txt", [HEAPCTL, "report", "--show_bytes", "--confidence", "-"], "store.heap"),
    ("report_cum_objects.txt", [HEAPCTL, "report", "--cum", "--alloc_objects", "-"], "store.heap"),
    ("report_lines.txt", [HEAPCTL, "report", "--lines", "-"], "store.heap"),
    ("report_files.txt", [HEAPCTL, "report", "--files", "-"], "store.heap"),
    ("report_addresses.txt", [HEAPCTL, "report", "--addresses", "--no-prune", "-"], "store.heap"),
    ("report_threads.txt", [HEAPCTL, "report", "--thread=*", "-"], "store.heap"),
    ("report_focus.txt", [HEAPCTL, "report", "--focus=^store::Table::insert$", "--hide=main", "-"], "store.heap"),
    ("report_collapsed.txt", [HEAPCTL, "report", "--collapsed", "-"], "store.heap"),
    ("report_tree.txt", [HEAPCTL, "report", "--tree", "-"], "store.heap"),
    ("report_tree_inverted.txt", [HEAPCTL, "report", "--tree", "--inverted", "-"], "store.heap"),
    ("report.callgrind", [HEAPCTL, "report", "--callgrind", "-"], "store.heap"),
    ("report.json", [HEAPCTL, "report", "--json", "-"], "store.heap"),
    ("report_raw.txt", [HEAPCTL, "report", "--raw", "-"], "store.heap"),
    ("diff.txt", [HEAPCTL, "diff", "store_before.heap", "-"], "store.heap"),
    ("diff.json", [HEAPCTL, "diff", "--json", "store_before.heap", "-"], "store.heap"),
    ("diff_tree.txt", [HEAPCTL, "diff", "--tree", "store_before.heap", "-"], "store.heap"),
    ("base.txt", [HEAPCTL, "report", "--base=store_before.heap", "--drop_negative", "-"], "store.heap"),
]


def output_of(build, command, source):
    program, *arguments = command
    arguments = [str(HERE / a[1:]) if a.startswith("@") else a for a in arguments]
    with open(HERE / source, "rb") as stream:
        return subprocess.run([build / program, *arguments], stdin=stream, capture_output=True, check=True,
                              cwd=HERE).stdout


def difference(name, wanted, got):
    lines = [text.decode(errors="backslashreplace").splitlines() for text in (wanted, got)]
    return "\n".join(difflib.unified_diff(*lines, f"golden/{name}", "now", lineterm=""))


def rewrite(build):
    for name, command, source in CASES:
        got = output_of(build, command, source)
        if not (HERE / name).exists() or got != (HERE / name).read_bytes():
            (HERE / name).write_bytes(got)
            print(f"golden: {name} rewritten")
    return 0


def check(build):
    """Prints TAP, as tests/support/case_runner.py does."""
    tap = case_runner.Tap(sys.stdout)
    for name, command, source in CASES:
        tap.begin(name)
        began = time.monotonic()
        try:
            got = output_of(build, command, source)
            wanted = (HERE / name).read_bytes() if (HERE / name).exists() else b""
            problem = None if got == wanted else difference(name, wanted, got) + "\n(`make golden` takes what is now)"
        except (OSError, subprocess.CalledProcessError) as error:
            problem = f"{error}\n{(getattr(error, 'stderr', None) or b'').decode(errors='backslashreplace')}"
        tap.case(name, time.monotonic() - began, problem=problem)
    return tap.end()


def main():
    build = pathlib.Path(sys.argv[1])
    return rewrite(build) if "--rewrite" in sys.argv[2:] else check(build)


if __name__ == "__main__":
    sys.exit(main())
