# SPDX-License-Identifier: Apache-2.0
"""An agent that does what no real one does, as a program of its own so that it can belong to another user and have any name.

    hostile_agent.py FOLDER KIND

KIND is what it answers: "honest" as a real one; "garbage" where a profile should be; "large" profiles of 3 MB that cannot be
compressed; "repeated" ones of 60 MB that compress to nothing; "endless" bodies of any kind, in chunks; "declared" bodies of 1.5 GB with a Content-Length; "hang" no
profile ever; "mute" nothing but its status; "rude" errors with control characters; "values" a status of as many values as
fit into a megabyte. SIGUSR1 has it execute another program, whose name ends in 2.
"""
import ctypes
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading

from processes import Case, listens, wait_until

PROFILE = b"heap_v2/524288\n  t*: 1: 100 [0: 0]\n@ 0x401000 0x402000\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n"
ENDLESS = 1536 << 20
RUDE = "\x1b[31mred\nheapctl: serving\u202eelsewhere"
# One that any user may run, and that finds its modules under any name.
PYTHON = "/usr/bin/python3"


def status_of(name):
    return {
        "protocol": 1, "agent_version": "0.1.0", "pid": os.getpid(), "name": name, "exe": "/usr/bin/hostile", "uid": os.getuid(),
        "started_ms": 1700000000000 + os.getpid(),
        "allocator": {"name": "jemalloc", "version": "5.3.0", "symbol": "mallctl", "where": "/x", "owns_malloc": True},
        "profiling": {"compiled_in": True, "enabled": True, "active": True, "thread_active_init": True, "lg_sample": 19,
                      "sample_interval": 524288, "available": True, "reason": "", "hint": ""},
        "memory": {"allocated": 1, "active": 2, "metadata": 3, "resident": 4, "mapped": 5, "retained": 6},
        "run": None, "last_dump": None, "mallctls": ["prof.dump"], "malloc_conf": {"environment": "prof:true", "build": ""},
        "warnings": [],
    }


def large_profile():
    stacks = b"".join(b"@ %s\n  t*: 1: 100 [0: 0]\n" % b" ".join(b"0x%x" % random.getrandbits(47) for _ in range(20))
                      for _ in range(10000))
    return b"heap_v2/524288\n  t*: 10000: 1000000 [0: 0]\n" + stacks + b"\nMAPPED_LIBRARIES:\n"


def repeated_profile():
    return b"heap_v2/524288\n  t*: 1: 100 [0: 0]\n" + b"@ 0x401000 0x402000\n  t*: 1: 100 [0: 0]\n" * 1400000 + b"\nMAPPED_LIBRARIES:\n"


def send_endlessly(connection, head, is_profile):
    line = b"@ 0x401000 0x402000\n  t*: 1: 100 [0: 0]\n" if is_profile else b'"xxxxxxxxxxxxxx",'
    piece = line * (65536 // len(line))
    first = b"heap_v2/524288\n  t*: 1: 100 [0: 0]\n" if is_profile else b'{"warnings": ['
    is_chunked = b"chunked" in head
    connection.sendall(head)
    sent = 0
    while sent < ENDLESS:
        data = first + piece if sent == 0 else piece
        connection.sendall(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
        sent += len(data)


def serve(connection, kind, name):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return
        data += piece
    target = re.match(rb"\S+ (\S+)", data).group(1)
    is_profile = b"profile" in target
    if (is_profile and kind == "hang") or (target != b"/v1/status" and kind == "mute"):
        connection.recv(1)
        return
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nHeapctl-Protocol: 1\r\nConnection: close\r\n" % (
        b"application/x-jemalloc-heap-profile" if is_profile else b"application/json")
    if kind in ("endless", "endless-profile", "declared") and (is_profile or kind != "endless-profile"):
        framing = b"Content-Length: %d\r\n\r\n" % ENDLESS if kind == "declared" else b"Transfer-Encoding: chunked\r\n\r\n"
        send_endlessly(connection, head + framing, is_profile)
        return
    body = json.dumps(status_of(name)).encode()
    if kind == "rude" and target != b"/v1/status":
        head = head.replace(b"200 OK", b"409 Conflict").replace(b"x-jemalloc-heap-profile", b"json")
        body = json.dumps({"error": {"code": "state", "message": RUDE, "hint": RUDE}}).encode()
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return
    if kind == "values":
        body = body[:-1] + b', "x": [' + b"[]," * 300000 + b"[]]}"
    if is_profile:
        made = {"garbage": lambda: b"#!/bin/sh\nid >/tmp/owned\n", "large": large_profile, "repeated": repeated_profile}
        body = made.get(kind, lambda: PROFILE)()
    connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def execute_other(name, socket_path):
    os.unlink(socket_path)
    os.execv(PYTHON, [name, *sys.orig_argv[1:]])


def main():
    folder, kind = sys.argv[1:3]
    with open("/proc/self/cmdline", "rb") as file:
        name = os.path.basename(file.read().split(b"\0")[0])
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = os.path.join(folder, f"{os.getpid()}.sock")
    listener.bind(path)
    listener.listen(64)
    signal.signal(signal.SIGUSR1, lambda *_: execute_other(name.decode()[:-1] + "2", path))

    def work(connection):
        try:
            serve(connection, kind, name.decode())
        except OSError:
            pass
        connection.close()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=work, args=(connection,), daemon=True).start()


class HostileCase(Case):
    """A test with such agents. Other users' ones take root."""

    def start_hostile(self, name, kind, user=None):
        """Its process, once it listens."""
        user = os.getuid() if user is None else user
        folder = os.path.join(self.folder, f"agents-{user}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        options = {}
        if user != os.getuid():
            os.chown(folder, user, user)
            options = {"user": user, "group": user, "extra_groups": []}
        with open(__file__, encoding="utf-8") as file:
            source = file.read().replace("from processes import Case, listens, wait_until\n", "Case = object\n")
        # The name is its argv[0]; its text is an argument, because the tests' folder may be closed to that user.
        process = subprocess.Popen([name, "-c", source, folder, kind], executable=PYTHON, stdin=subprocess.DEVNULL, cwd="/",
                                   env={"HEAPCTL_DIR": folder, "PATH": "/usr/bin:/bin"}, **options)
        self.addCleanup(self.end, process)
        path = os.path.join(folder, f"{process.pid}.sock")
        wait_until(lambda: listens(path) or process.poll() is not None, f"{name} to listen")
        self.assertIsNone(process.poll())
        process.socket_path = path
        return process


if __name__ == "__main__":
    main()
