#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time of a whole command, beside /bin/true and comparable tools. The commands take turns, so that other load affects all.
Those that look at every process do so once as the machine is, and once with 1,000 more processes and 1,000 listening sockets."""
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1])
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "9"))
RUNS = 20
CROWD_RUNS = 2
CROWD = """
import os, resource, signal, socket
_, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 4096), limit))
for _ in range(1000):
    if os.fork() == 0:
        signal.pause()
sockets = [socket.socket(socket.AF_UNIX) for _ in range(1000)]
for number, listener in enumerate(sockets):
    listener.bind(f"\\0bench-{os.getpid()}-{number}")
    listener.listen()
print("ready", flush=True)
signal.pause()
"""


def cpu_ms(command, runs=RUNS):
    """Mean over some runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / runs * 1000


with tempfile.TemporaryDirectory() as folder:
    profile = f"{folder}/small.heap"
    # Each of the 200 stacks has some twenty addresses of its own: the report has 4400 rows.
    subprocess.run([BUILD / "bench/write_profile", "200"], stdout=open(profile, "wb"), stderr=subprocess.DEVNULL,
                   check=True)
    tiny = f"{folder}/tiny.heap"
    pathlib.Path(tiny).write_text("heap_v2/524288\n  t*: 3: 3072 [0: 0]\n@ 0x10 0x20\n  t*: 3: 3072 [0: 0]\n")
    os.environ["XDG_CACHE_HOME"] = folder
    os.environ["HEAPCTL_DIR"] = folder
    target = subprocess.Popen([BUILD / "heapctl", "run", "--", "sleep", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(f"{folder}/{target.pid}.sock") and target.poll() is None:
        time.sleep(0.01)
    commands = {
        "/bin/true": ["/bin/true"],
        "heapctl --version": [BUILD / "heapctl", "--version"],
        "heapctl status PID": [BUILD / "heapctl", "status", str(target.pid)],
        "heapctl stats PID": [BUILD / "heapctl", "stats", str(target.pid)],
        "heapctl report, 1 stack": [BUILD / "heapctl", "report", "--text", tiny],
        "heapctl report, 200 stacks": [BUILD / "heapctl", "report", "--text", profile],
        "heapctl-net --version": [BUILD / "src/cli/heapctl-net", "--version"],
        "jeprof --version": ["jeprof", "--version"],
    }
    if shutil.which("go"):
        commands["go tool pprof --help"] = ["go", "tool", "pprof", "--help"]
    times = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(cpu_ms(command))
    surveys = {"heapctl ps": [BUILD / "heapctl", "ps"], "ps -ef": ["ps", "-ef"]}
    for name, command in surveys.items():
        times[name] = [cpu_ms(command) for _ in range(ROUNDS)]
    crowd = subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE, start_new_session=True)
    crowd.stdout.readline()
    for name in surveys:
        times[f"{name}, in a crowd"] = []
    for _ in range(ROUNDS):
        for name, command in surveys.items():
            times[f"{name}, in a crowd"].append(cpu_ms(command, CROWD_RUNS))
    os.killpg(crowd.pid, signal.SIGKILL)
    crowd.wait()
    target.kill()
    target.wait()
print(f"  {'command':28} {'median ms':>10} {'min':>6} {'max':>6}   / heapctl --version")
base = times["heapctl --version"]
for name, values in times.items():
    ratio = statistics.median(value / other for value, other in zip(values, base))
    print(f"  {name:28} {statistics.median(values):10.2f} {min(values):6.2f} {max(values):6.2f}   {ratio:.2f}")
