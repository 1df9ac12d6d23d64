#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`heapctl account` on real servers: of RSS, what jemalloc counts and is not resident, and what neither explains; fresh, filled and
emptied.

The first is memory that the program has and never touched. With MALLOC_CONF=junk:alloc jemalloc touches all of it (but what calloc
gave), so the same servers once more must leave less. The second is "other anonymous memory", which the kernel measures.
"""
import json
import os
import pathlib
import sys

os.environ.setdefault("HEAPCTL_BUILD", sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from processes import Case, children_of, run_alone, wait_until  # noqa: E402

MIB = 1 << 20


class Servers(Case):
    def note(self, label, pid):
        self.wait_for_agent(pid)
        account = json.loads(self.heapctl("account", pid, "--json")[0])
        rows = {row["name"]: row["bytes"] for row in account["rows"]}
        # Both rows are there where jemalloc's mappings are known, else their sum.
        self.assertIn("not_resident", rows)
        self.assertIn("other", rows)
        self.assertAlmostEqual(sum(row["bytes"] for row in account["rows"] if row["kind"] != "outside"), account["resident"], delta=1)
        self.notes.setdefault(label, []).append((account["resident"], rows["not_resident"], rows["other"]))

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
        print(f"{'':34} {'RSS':>10}  {'not resident':>18}  {'with junk:alloc':>18}  {'other':>8}")
        for label, ((resident, beyond, other), (filled, touched, _)) in self.notes.items():
            print(f"{label:34} {resident / MIB:6.1f} MiB  {beyond / MIB:6.2f} MiB {100 * beyond / resident:6.1f}%"
                  f"  {touched / MIB:6.2f} MiB {100 * touched / filled:6.1f}%  {100 * other / resident:7.1f}%")


if __name__ == "__main__":
    sys.exit(run_alone(Servers()))
