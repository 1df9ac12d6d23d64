# SPDX-License-Identifier: Apache-2.0
"""Processes that another one traces, as a debugger does: they stand still and answer nothing."""
import subprocess
import sys

# Holds the threads of a process (or the one with that name) until it is ended itself.
TRACER = """
import ctypes, os, pathlib, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
pathlib.Path("/proc/self/comm").write_text("hc-debugger")
for task in pathlib.Path(f"/proc/{sys.argv[1]}/task").iterdir():
    if len(sys.argv) < 3 or (task / "comm").read_text().strip() == sys.argv[2]:
        if libc.ptrace(16, int(task.name), 0, 0) != 0:
            sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
        os.waitpid(int(task.name), 0x40000000)
print("holds", flush=True)
signal.pause()
"""


def trace(case, pid, *thread):
    """The process that traces, once it holds them, until the case ends (case.end(tracer) lets them go on earlier)."""
    tracer = case.start(sys.executable, "-c", TRACER, pid, *thread, stdout=subprocess.PIPE, text=True)
    if tracer.stdout.readline() != "holds\n":
        case.skipTest("ptrace is not allowed here")
    return tracer
