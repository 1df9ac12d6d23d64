#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a second thread, here the agent's, costs a program that has only one: it no longer uses fast paths of the C library and libstdc++."""
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = 300
PAIRS = 5

with tempfile.TemporaryDirectory() as work:
    program = work + "/thread_cost"
    subprocess.run([os.environ.get("CXX", "c++"), "-O2", pathlib.Path(__file__).with_name("thread_cost.cc"), "-o", program, "-pthread"],
                   check=True)

    def fastest(**environment):
        """(getc, copy) in nanoseconds: other load on the machine can only add to them."""
        lines = subprocess.run([program, str(ROUNDS)], env=dict(os.environ, HEAPCTL_DIR=work + "/agent", **environment), capture_output=True,
                               text=True, check=True).stdout.splitlines()
        return [min(column) for column in zip(*([float(word) for word in line.split()] for line in lines))]

    agent = str(BUILD / "src/agent/libheapctl.so")
    kinds = {"with the agent": {"LD_PRELOAD": agent}, "with HEAPCTL_THREAD=on-demand": {"LD_PRELOAD": agent, "HEAPCTL_THREAD": "on-demand"}}
    best = {}
    for _ in range(PAIRS):
        for kind, environment in {"without": {}, **kinds}.items():
            figures = fastest(**environment)
            best[kind] = [min(pair) for pair in zip(best.get(kind, figures), figures)]
    for kind in kinds:
        ratios = [with_agent / plain for with_agent, plain in zip(best[kind], best["without"])]
        print(f"{kind} / without, fastest of {ROUNDS * PAIRS}: getc {ratios[0]:.2f} "
              f"({best[kind][0]:.1f} ns / {best['without'][0]:.1f} ns), copy of a shared_ptr {ratios[1]:.2f} "
              f"({best[kind][1]:.1f} ns / {best['without'][1]:.1f} ns)")
