#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps what a benchmark printed in docs/figures.md, in place of what it printed before.

usage: figures.py FIGURES NAME < OUTPUT

A section for each benchmark says with which command, when, at which commit and on what kind of machine it ran, and how busy
the machine was. The variables of the benchmarks (BENCH_...) are part of the command, but no folder.
"""
import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Figures

What the benchmarks printed, each at its last run: `make bench` writes this page, `make bench TARGET=symbol` one section. Compare only
figures of one section: ratios of two things that were measured in the same run. Behind a ratio, in brackets, are its smallest and largest
values in that run. Processor time is the figure to read where the machine was busy.
"""
# What a benchmark printed may look like the title of one.
SECTION = re.compile(r"^## (\S+)\n\n`[^\n]*make bench TARGET=", re.M)


def processor():
    match = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return match[1].strip() if match else platform.machine()


def machine(load):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} processors ({processor()}), {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, load {load:.1f}"


def commit():
    run = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def command(name, environment):
    variables = [f"{key}='{value}'" if " " in value else f"{key}={value}" for key, value in sorted(environment.items())
                 if key.startswith("BENCH_") and not key.endswith(("_FOLDER", "_RESULTS", "_FIGURES"))]
    return " ".join([*variables, "make bench", f"TARGET={name}"])


def section(name, about, output):
    return f"## {name}\n\n{about}\n\n```text\n{output.strip()}\n```\n"


def replace(page, name, text):
    """The page with this section; sections are sorted."""
    begins = [*SECTION.finditer(page)]
    ends = [match.start() for match in begins[1:]] + [len(page)]
    sections = {match[1]: page[match.start():end].strip() + "\n" for match, end in zip(begins, ends)}
    sections[name] = text
    return "\n".join([HEAD, *(sections[key] for key in sorted(sections))])


def main(path, name):
    output = sys.stdin.read()
    if "```" in output:
        sys.exit(f"figures: {name} printed a fence, which its section cannot hold")
    page = pathlib.Path(path)
    about = f"`{command(name, os.environ)}`, {datetime.date.today()}, at {commit()}, {machine(os.getloadavg()[1])}."
    old = page.read_text() if page.exists() else ""
    new = page.with_suffix(".new")
    new.write_text(replace(old, name, section(name, about, output)))
    new.replace(page)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
