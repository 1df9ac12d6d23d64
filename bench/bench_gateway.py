#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred clients on all of the gateway's routes for half a minute, against a Redis under traffic: what they get, and what it costs Redis."""
import http.client
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from gateway_load import Load  # noqa: E402
from processes import free_port  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
SECONDS = float(os.environ.get("BENCH_SECONDS", "30"))
CLIENTS = 200


def get(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read()


class Traffic:
    """redis-benchmark over and over; rates() are the requests a second of each round."""

    def __init__(self, port):
        self.command = ["redis-benchmark", "-p", str(port), "-n", "50000", "-r", "50000", "-d", "200", "-P", "8", "-t", "set", "--csv"]

    def round(self):
        out = subprocess.run(self.command, capture_output=True, text=True, check=True).stdout
        return float(out.splitlines()[-1].split(",")[1].strip('"'))

    def start(self):
        return subprocess.Popen(["sh", "-c", 'while :; do "$@" | tail -n 1; done', "sh", *self.command], stdout=subprocess.PIPE,
                                text=True, start_new_session=True)

    @staticmethod
    def stop(process):
        os.killpg(process.pid, signal.SIGTERM)
        lines = process.communicate()[0].splitlines()
        return [float(line.split(",")[1].strip('"')) for line in lines if line.count(",") > 1]


def requests_of(pid, runs):
    first, second = runs
    own = f"/targets/{pid}"
    paths = ["/", "/targets", "/metrics", "/metrics?collect=all", "/openapi.json", "/memory-profiler/state", "/memory-profiler/statistics",
             f"/memory-profiler/download/raw?id={first}", f"/memory-profiler/download/text?id={first}",
             f"/memory-profiler/download/graph?id={second}", f"/memory-profiler/download/flame?id={second}",
             f"/diff?base={first}&id={second}", "/mtev/heap_profile", "/mtev/memory.json", "/mtev/heap_profile?trigger_dump=true",
             "/pprof/heap", "/pprof/symbol", "/pprof/cmdline", "/debug/pprof/heap", "/debug/pprof/heap?seconds=1", f"{own}/v1/status",
             "/v1/runs", "/v1/mallctl/opt.prof", "/api/v1/history", "/api/v1/classes", f"{own}/api/v1/profile?id={first}&format=flame-data"]
    return [("GET", path) for path in paths]


def main():
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, HEAPCTL_DIR=f"{folder}/agents")
        port, gateway_port = free_port(), free_port()
        redis = subprocess.Popen([BUILD / "heapctl", "run", "--", "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "",
                                  "--dir", folder], env=environment, stdout=subprocess.DEVNULL)
        gateway = subprocess.Popen([BUILD / "heapctl", "serve", "--listen", f"127.0.0.1:{gateway_port}", str(redis.pid)], env=environment,
                                   stderr=subprocess.DEVNULL)
        try:
            measure(redis.pid, port, gateway_port)
        finally:
            for process in (gateway, redis):
                process.terminate()
                process.wait()


def measure(pid, port, gateway_port):
    for _ in range(200):
        try:
            if get(gateway_port, "/v1/status")[0] == 200:
                break
        except OSError:
            pass
        time.sleep(0.05)
    traffic = Traffic(port)
    runs = []
    for _ in range(2):
        runs.append(json.loads(get(gateway_port, "/v1/runs?duration_ms=60000", "POST")[1])["id"])
        traffic.round()
        get(gateway_port, "/v1/runs/stop", "POST")
    alone = statistics.median(traffic.round() for _ in range(9))
    busy = traffic.start()
    load = Load(gateway_port, requests_of(pid, runs), CLIENTS, SECONDS).run()
    together = statistics.median(traffic.stop(busy) or [0])
    answered = sum(load.statuses.values())
    wrong = sum(count for (_, _, status), count in load.statuses.items() if status >= 400 and status != 503)
    refused = sum(count for (_, _, status), count in load.statuses.items() if status == 503)
    print(f"clients                                {CLIENTS} for {SECONDS:.0f} s")
    print(f"answers                                {answered} ({answered / SECONDS:.0f} a second), of these 503: {refused}")
    print(f"errors that are not described          {wrong + len(load.problems)}")
    print(f"slowest answer                         {max(load.slowest_seconds.values()):.2f} s")
    print(f"throughput of Redis / the same alone   {together / alone:.2f} (the clients share its processors)")
    if wrong or load.problems:
        print("\n".join(load.problems[:5]), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
