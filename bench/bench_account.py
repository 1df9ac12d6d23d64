#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`heapctl account` on real servers: how much of RSS the row that nobody explains has, fresh, filled and emptied.

What is left of it is memory that the program has and never touched. With MALLOC_CONF=junk:alloc jemalloc touches all of it (but what calloc
gave), so the same servers once more must leave less. Printed: the row in MiB and in shares of RSS, first without junk, then with.
"""
import json
import os
import pathlib
import sys
import unittest

os.environ.setdefault("HEAPCTL_BUILD", sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from processes import Case, children_of, wait_until  # noqa: E402

MIB = 1 << 20


class Servers(Case):
    def note(self, label, pid):
        self.wait_for_agent(pid)
        account = json.loads(self.heapctl("account", pid, "--json")[0])
        other = next(row["bytes"] for row in account["rows"] if row["name"] == "other")
        self.notes.setdefault(label, []).append((account["resident"], other))

    def look_at_redis(self, conf, lg_sample):
        process, port = self.start_redis(conf=f"{conf},lg_prof_sample:{lg_sample}")
        name = f"redis, lg_prof_sample:{lg_sample}"
        self.note(f"{name}, fresh", process.pid)
        self.load_redis(port, keys=200000)
        self.note(f"{name}, 200,000 keys", process.pid)
        for key in range(50):
            self.redis(port, "SET", f"big:{key}", "x" * 1000000)
        self.note(f"{name}, and 50 of 1 MB", process.pid)
        self.redis(port, "FLUSHALL")
        self.note(f"{name}, after FLUSHALL", process.pid)
        self.end(process)

    def runTest(self):
        self.notes = {}
        for junk in ("false", "alloc"):
            conf = f"prof:true,prof_active:true,junk:{junk}"
            for lg_sample in (13, 16, 19):
                self.look_at_redis(conf, lg_sample)
            varnish = self.start_varnish(conf=conf)
            self.note("varnishd, manager", varnish.pid)
            self.note("varnishd, worker", wait_until(lambda: children_of(varnish.pid), "the worker")[0])
            self.end(varnish)
            named, _ = self.start_named(conf=conf, names=50000)
            self.note("named, 50,000 names", named.pid)
            self.end(named)
        print(f"{'':44} {'RSS':>10}  {'other':>16}  {'with junk:alloc':>16}")
        for label, ((resident, other), (filled, touched)) in self.notes.items():
            print(f"{label:44} {resident / MIB:6.1f} MiB {other / MIB:6.2f} MiB {100 * other / resident:5.1f}%"
                  f"  {touched / MIB:6.2f} MiB {100 * touched / filled:5.1f}%")


if __name__ == "__main__":
    outcome = unittest.TestResult()
    Servers().run(outcome)
    for _, trace in outcome.errors + outcome.failures:
        print(trace, file=sys.stderr)
    sys.exit(not outcome.wasSuccessful())
