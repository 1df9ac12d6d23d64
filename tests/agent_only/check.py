#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check.py BUILD HEAPCTL [RUNNER...]

An agent that was built for another machine or C library, in programs that RUNNER starts: the heap of one is known to the byte, and
programs that a sampler disturbs easily behave as without it."""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

BUILD, HEAPCTL, RUNNER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
PROGRAMS = BUILD / "tests/agent_only"
AGENT = BUILD / "src/agent/libheapctl.so"
KEPT, SIZE = 10, 1000
WANTED = dict.fromkeys(("plain", "zeroed", "resized", "unresized", "resized_array", "aligned_old", "aligned_posix", "page", "pages"), KEPT * SIZE)
WANTED.update(large=KEPT * SIZE * 1000, aligned=KEPT * 1024)
# Not those with which the emulator itself fails: a vfork of its own, threads in children of threads, and seccomp.
CASES = ("clone-storm", "thread-storm", "cancelled-threads", "coroutines", "alternate-stack", "edges")
SECONDS = 300


def start(folder, program, *words, sampled, **options):
    settings = {"LD_PRELOAD": str(AGENT), "HEAPCTL_DIR": folder, "HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "1"} if sampled else {}
    # An emulator is not to load the agent itself.
    if "qemu" in "".join(RUNNER[:1]):
        command = [*RUNNER, *(word for name, value in settings.items() for word in ("-E", f"{name}={value}")), PROGRAMS / program, *words]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)
    return subprocess.Popen([*RUNNER, PROGRAMS / program, *words], env=dict(os.environ, **settings), text=True, stdout=subprocess.PIPE, **options)


def known_heap(folder):
    process = start(folder, "sampled_malloc", sampled=True, stdin=subprocess.PIPE)
    heapctl = dict(os.environ, HEAPCTL_DIR=folder)
    path = os.path.join(folder, "known.heap")
    try:
        for word in ("ready", "kept"):
            if process.stdout.readline() != word + "\n":
                return f"the program did not say {word}"
            if word == "ready":
                process.stdin.write("\n")
                process.stdin.flush()
        for _ in range(100):
            if os.path.exists(os.path.join(folder, f"{process.pid}.sock")):
                break
            time.sleep(0.1)
        subprocess.run([HEAPCTL, "dump", str(process.pid), "-o", path], env=heapctl, check=True, capture_output=True, timeout=SECONDS)
        text = subprocess.run([HEAPCTL, "report", "--collapsed", path], env=heapctl, check=True, capture_output=True, text=True).stdout
        found = collections.Counter()
        for line in text.splitlines():
            stack, _, size = line.rpartition(" ")
            for name in re.findall(r"\bsite_(\w+)", stack)[-1:]:
                # All the way to where the thread begins.
                found[name] += int(size) if re.search(r"\b(main|site_thread)\b", stack) else 0
        return None if found == WANTED else f"found {dict(found)}"
    finally:
        process.kill()
        process.wait()


def same_outcome(folder, *words):
    outcomes = []
    for sampled in (False, True):
        process = start(folder, *words, sampled=sampled, stderr=subprocess.PIPE)
        outcomes.append((*process.communicate(timeout=SECONDS), process.returncode))
    return None if outcomes[0] == outcomes[1] else f"{outcomes[0]} without, {outcomes[1]} with the sampler"


failed = 0
with tempfile.TemporaryDirectory() as place:
    os.chmod(place, 0o700)
    checks = {"a known heap": lambda: known_heap(place)}
    checks.update({name: lambda name=name: same_outcome(place, "sampled_cases", name) for name in CASES})
    for name, check in checks.items():
        problem = check()
        failed += problem is not None
        print("ok    " if problem is None else "FAILED", name, problem or "", flush=True)
sys.exit(failed != 0)
