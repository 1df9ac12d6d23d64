#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent's own walk of stacks: the same as the compiler's unwinder, and where that one ends the process."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from agent_host import HostCase
from processes import (AGENT, BUILD, PATIENCE_SECONDS, SANITIZED, ask, free_port, need, processor_seconds, wait_until,
                       wait_while_it_progresses)

JEMALLOC = "libjemalloc.so.2"
COMPARE = str(BUILD / "tests/integration/libcompare_stacks.so")
KRESD = "/usr/sbin/kresd"

PYTHON_WORK = """
import json, re, sqlite3, threading
def work():
    for i in range(100):
        json.loads(json.dumps([{'a': list(range(50)), 'b': 'x' * 100}] * 20))
        re.compile('a(b|c)*%d' % i).match('abcb')
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
table = sqlite3.connect(':memory:')
table.execute('create table t(a, b)')
table.executemany('insert into t values(?, ?)', [(i, 'x' * i) for i in range(300)])
assert table.execute('select count(*) from t').fetchall() == [(300,)]
"""

CXX_WORK = """
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>
static int deep(int n) { std::string s(100 + n, 'x'); if (n == 0) throw std::runtime_error(s); return deep(n - 1) + (int)s.size(); }
int main() {
    std::map<std::string, std::vector<int>> map;
    int caught = 0;
    for (int i = 0; i < 3000; i++) {
        map[std::to_string(i)].assign(100, i);
        std::regex pattern("a*b" + std::to_string(i % 7));
        try { deep(i % 50); } catch (const std::exception &e) { caught++; }
    }
    return caught == 3000 ? 0 : 1;
}
"""

# LuaJIT calls malloc from code that it made at run time.
KRESD_CONFIG = """
net.listen('127.0.0.1', PORT, { kind = 'dns' })
local ffi = require('ffi')
ffi.cdef[[void *malloc(size_t); void free(void *);]]
local C = ffi.C
event.recurrent(5, function() for i = 1, 20000 do C.free(C.malloc(64 + i % 1000)) end end)
"""


@unittest.skipIf(SANITIZED, "a sanitizer has no jemalloc to be compared with")
class Comparison(unittest.TestCase):
    def compare(self, command, min_stacks):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, LD_PRELOAD=f"{JEMALLOC} {COMPARE}", COMPARE_STACKS=f"{folder}/counts",
                               MALLOC_CONF="prof:true,lg_prof_sample:10")
            # However long it takes: the file has a limit.
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            total = [0] * 4
            for file in pathlib.Path(folder).glob("counts.*"):
                total = [a + int(b) for a, b in zip(total, file.read_text().split())]
        same, different, shorter, _ = total
        self.assertEqual((different, shorter), (0, 0))
        self.assertGreater(same, min_stacks)

    def test_python_with_threads(self):
        self.compare(["/usr/bin/python3", "-c", PYTHON_WORK], 1000)

    def test_cxx_with_exceptions(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = f"{folder}/work.cc", f"{folder}/work"
            pathlib.Path(source).write_text(CXX_WORK)
            subprocess.run(["g++", "-O2", "-o", program, source], check=True)
            self.compare([program], 1000)

    def test_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            source = f"{folder}/work.cc"
            pathlib.Path(source).write_text(CXX_WORK)
            self.compare(["g++", "-O2", "-c", "-o", f"{folder}/work.o", source], 10000)


class Takeover(HostCase):
    def unwinder(self, path):
        return ask(path, "/v1/status")[1]["profiling"]["unwinder"]

    def test_stacks_are_the_agents_when_sampling_is_switched_on(self):
        server = self.host("plain", conf="prof:true,prof_active:false,lg_prof_sample:12")
        path = self.wait_for_agent(server.pid)
        self.assertEqual(ask(path, "/v1/status")[1]["unwind_tables"], [])
        ask(path, "/v1/activate", "POST")
        server("alloc", 100, 20000)
        status = ask(path, "/v1/status")[1]
        self.assertEqual(status["profiling"]["unwinder"], "heapctl")
        tables = {table["name"]: table for table in status["unwind_tables"]}
        self.assertGreater(tables["libc.so.6"]["covered_bytes"], 0.99 * tables["libc.so.6"]["code_bytes"])
        self.assertIn("", tables)
        profile = ask(path, "/v1/profile")[1].decode()
        depths = [len(line.split()) - 1 for line in re.findall(r"^@ (.*)$", profile, re.M)]
        self.assertGreater(max(depths), 3)

    def test_the_programs_unwinder_can_be_kept(self):
        server = self.host("plain", conf="prof:true,prof_active:false", env={"HEAPCTL_UNWINDER": "jemalloc"})
        path = self.wait_for_agent(server.pid)
        ask(path, "/v1/activate", "POST")
        self.assertEqual(self.unwinder(path), "libgcc")
        self.assertEqual(ask(path, "/v1/status")[1]["unwind_tables"], [])


@unittest.skipIf(SANITIZED, "the program cannot have a sanitizer's libraries")
class CodeMadeAtRunTime(HostCase):
    def kresd(self, **environment):
        need(KRESD)
        config = pathlib.Path(self.folder, "kresd.conf")
        config.write_text(KRESD_CONFIG.replace("PORT", str(free_port())))
        return self.start(KRESD, "-n", "-c", config, self.folder,
                          env={"MALLOC_CONF": "prof:true,lg_prof_sample:10", **environment}, stdin=subprocess.DEVNULL)

    def test_the_compilers_unwinder_ends_the_process(self):
        """The reason for the agent's own walk. Sometimes the process hangs in libgcc's unwinder instead: then another one is started."""
        processes = []

        def is_aborted():
            if len(processes) < 8 and time.monotonic() > begun + 15 * len(processes):
                processes.append(self.kresd())
            return -signal.SIGABRT in [process.poll() for process in processes]
        begun = time.monotonic()
        wait_until(is_aborted, "one that is ended by SIGABRT", 3 * PATIENCE_SECONDS)

    def test_the_agents_does_not(self):
        process = self.kresd(LD_PRELOAD=AGENT)
        path = self.wait_for_agent(process.pid)

        def seconds_used():
            self.assertIsNone(process.poll())
            return processor_seconds(process.pid)
        # At one sample a kilobyte that is some hundred thousand samples; the compiler's ends at the first ones.
        wait_while_it_progresses(seconds_used, 2, "its processor time")
        self.assertEqual(ask(path, "/v1/profile")[0], 200)
        self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
