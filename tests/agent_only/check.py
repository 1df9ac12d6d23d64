#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check.py BUILD HEAPCTL [--jemalloc] [RUNNER...]

An agent that was built for another machine or C library, in programs that RUNNER starts: the heap of one is known to the byte,
programs that a sampler disturbs easily behave as without it, and a Redis for that machine (from BUILD-root, where there is one) shows
what was put into it. A command that was built for that machine reports the same as HEAPCTL.
With --jemalloc the agent has no sampler for that machine: Redis's jemalloc takes the samples, and the other checks are left out."""
import collections
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

BUILD, HEAPCTL, RUNNER = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
HAS_SAMPLER = RUNNER[:1] != ["--jemalloc"]
RUNNER = RUNNER if HAS_SAMPLER else RUNNER[1:]
PROGRAMS = BUILD / "tests/agent_only"
ROOT = BUILD.with_name(BUILD.name + "-root")
AGENT = BUILD / "src/agent/libheapctl.so"
OWN_HEAPCTL = BUILD / "src/cli/heapctl"
KEPT, SIZE = 10, 1000
WANTED = dict.fromkeys(("plain", "zeroed", "resized", "unresized", "resized_array", "aligned_old", "aligned_posix", "page", "pages"), KEPT * SIZE)
WANTED.update(large=KEPT * SIZE * 1000, aligned=KEPT * 1024)
# Not those with which the emulator itself fails: a vfork of its own, threads in children of threads, and seccomp.
CASES = ("clone-storm", "thread-storm", "cancelled-threads", "coroutines", "alternate-stack", "edges")
SECONDS = 300
REDIS_VALUES, REDIS_VALUE_BYTES = 1000, 10000
# Their keys, and what Redis remembers of each.
REDIS_MORE = 0.15


def start(folder, program, *words, sampled, more_settings=(), **options):
    settings = {"LD_PRELOAD": str(AGENT), "HEAPCTL_DIR": folder, "HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "1"} if sampled else {}
    settings.update(more_settings)
    if not HAS_SAMPLER:
        settings["MALLOC_CONF"] = "prof:true,prof_active:false,lg_prof_sample:0"
    # An emulator is not to load the agent itself.
    if "qemu" in "".join(RUNNER[:1]):
        command = [*RUNNER, *(word for name, value in settings.items() for word in ("-E", f"{name}={value}")), PROGRAMS / program, *words]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)
    return subprocess.Popen([*RUNNER, PROGRAMS / program, *words], env=dict(os.environ, **settings), text=True, stdout=subprocess.PIPE, **options)


def wait_for(path):
    for _ in range(SECONDS * 10):
        if os.path.exists(path):
            return
        time.sleep(0.1)
    raise TimeoutError(path)


def heapctl(folder, *words):
    return subprocess.run([HEAPCTL, *map(str, words)], env=dict(os.environ, HEAPCTL_DIR=folder), check=True, capture_output=True, text=True,
                          timeout=SECONDS).stdout


def known_heap(folder):
    process = start(folder, "sampled_malloc", sampled=True, stdin=subprocess.PIPE)
    path = os.path.join(folder, "known.heap")
    try:
        for word in ("ready", "kept"):
            if process.stdout.readline() != word + "\n":
                return f"the program did not say {word}"
            if word == "ready":
                process.stdin.write("\n")
                process.stdin.flush()
        wait_for(os.path.join(folder, f"{process.pid}.sock"))
        heapctl(folder, "dump", process.pid, "-o", path)
        text = heapctl(folder, "report", "--collapsed", path)
        if OWN_HEAPCTL.exists():
            own = subprocess.run([*RUNNER, OWN_HEAPCTL, "report", "--collapsed", path], capture_output=True, text=True, timeout=SECONDS)
            if own.stdout != text:
                return f"the command of that machine reports otherwise: {own.stderr}"
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


def bytes_of(folder, path):
    return sum(int(line.rpartition(" ")[2]) for line in heapctl(folder, "report", "--collapsed", path).splitlines())


def ask_redis(connection, *requests):
    """The first characters of the answers, which are lines."""
    connection.sendall(b"".join(request + b"\r\n" for request in requests))
    answers = b""
    while answers.count(b"\n") < len(requests):
        answers += connection.recv(1 << 16)
    return {line[:1] for line in answers.split()}


def known_redis(folder):
    place = os.path.join(folder, "redis")
    process = start(folder, ROOT / "usr/bin/redis-server", "--port", "0", "--unixsocket", place, "--save", "", sampled=True,
                    # It forks at its start, and the emulator does not survive a thread of the child.
                    more_settings={"HEAPCTL_CHILDREN": "no"})
    try:
        wait_for(place)
        wait_for(os.path.join(folder, f"{process.pid}.sock"))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(SECONDS)
            connection.connect(place)
            ask_redis(connection, b"PING")
            heapctl(folder, "activate", process.pid)
            heapctl(folder, "dump", process.pid, "-o", place + ".before")
            value = b"v" * REDIS_VALUE_BYTES
            answers = ask_redis(connection, *(b"SET key%d %s" % (number, value) for number in range(REDIS_VALUES)))
            heapctl(folder, "dump", process.pid, "-o", place + ".after")
            if answers | ask_redis(connection, b"PING") != {b"+"}:
                return "Redis did not answer as it should"
        grown = bytes_of(folder, place + ".after") - bytes_of(folder, place + ".before")
        put = REDIS_VALUES * REDIS_VALUE_BYTES
        return None if put <= grown <= put * (1 + REDIS_MORE) else f"grew by {grown} bytes of {put}"
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
    checks = {}
    if HAS_SAMPLER:
        checks["a known heap"] = lambda: known_heap(place)
        checks.update({name: lambda name=name: same_outcome(place, "sampled_cases", name) for name in CASES})
    if (ROOT / "usr").exists():
        checks["a known Redis"] = lambda: known_redis(place)
    for name, check in checks.items():
        problem = check()
        failed += problem is not None
        print("ok    " if problem is None else "FAILED", name, problem or "", flush=True)
sys.exit(failed != 0)
