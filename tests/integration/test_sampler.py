#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl's own sampler: heaps that are known to the byte on each allocator, and programs that it must not disturb."""
import collections
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

from chance import NORMAL_DEVIATIONS, estimate_bounds
from known_heap import KEPT, KNOWN, SITES_OF_MALLOC, SIZE, bytes_by_site
from processes import AGENT, BUILD, HEAPCTL, PATIENCE_SECONDS, SANITIZED, Case, ask, free_port, handles_waking, is_alive, need, wait_until

PROGRAMS = BUILD / "tests/integration"
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}
# Starts of each program on each allocator; docs/soak.md has the result of 50.
RESTARTS = int(os.environ.get("SAMPLER_RESTARTS", "2"))
SITES_OF_NEW = ("new", "new_sized", "new_array", "new_nothrow", "new_array_nothrow", "new_aligned", "new_array_aligned", "new_aligned_nothrow")

# Work of many kinds, and words that do not depend on the time or on addresses.
PYTHON_WORK = """
import hashlib, json, re, sqlite3, subprocess, threading
words = []
def work(n):
    for i in range(60):
        words.append(hashlib.md5(json.dumps([{'a': list(range(i)), 'b': 'x' * n}] * 20).encode()).hexdigest())
        re.compile('a(b|c)*%d' % i).match('abcb')
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
table = sqlite3.connect(':memory:')
table.execute('create table t(a, b)')
table.executemany('insert into t values(?, ?)', [(i, 'x' * i) for i in range(300)])
print(table.execute('select sum(length(b)) from t').fetchall(), hashlib.md5(''.join(sorted(words)).encode()).hexdigest())
print(subprocess.run(['/bin/echo', 'child'], capture_output=True).stdout)
"""


def library_of(allocator):
    """What to preload besides the agent; "" for none."""
    name = ALLOCATORS[allocator]
    if name is None:
        return ""
    if not (LIBRARIES / name).exists():
        raise unittest.SkipTest(f"{name} is not installed")
    return str(LIBRARIES / name)


@unittest.skipIf(SANITIZED, "a sanitizer brings an allocator of its own")
class SamplerCase(Case):
    def sampled(self, allocator="glibc", interval=1):
        """The environment of a program that is sampled from its start."""
        preload = ":".join(filter(None, [AGENT, library_of(allocator)]))
        return {"HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": str(interval), "LD_PRELOAD": preload, "MALLOC_CONF": ""}

    def start_known(self, program, *words, allocator, **env):
        process = self.start(program, *words, env={**self.sampled(allocator), **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        self.wait_for_agent(process.pid)
        return process

    def go_on(self, process, word):
        self.assertEqual(process.stdout.readline(), word.encode() + b"\n")

    def answer(self, process):
        process.stdin.write(b"\n")
        process.stdin.flush()

    def status(self, pid):
        return ask(self.socket_of(pid), "/v1/status")[1]

    def build(self, name, source, *options):
        path = os.path.join(self.folder, name)
        subprocess.run([need("cc"), "-g", "-O1", "-w", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True)
        return path


class KnownHeaps(SamplerCase):
    def check_malloc(self, allocator, program="sampled_malloc"):
        # jemalloc has no pvalloc: what the C library's allocates must not be freed by jemalloc.
        without = ["no-pvalloc"] if allocator == "jemalloc" else []
        process = self.start_known(PROGRAMS / program, *without, allocator=allocator)
        self.answer(process)
        self.go_on(process, "kept")
        wanted = dict(KNOWN)
        if without:
            del wanted["pages"]
        self.assertEqual(bytes_by_site(self, process.pid), wanted)
        status = self.status(process.pid)
        self.assertEqual((status["profiling"]["sampler"], status["sampler"]["dropped"]), ("heapctl", 0))
        self.assertEqual(status["allocator"]["malloc_name"], allocator)
        self.assertEqual(status["profiling"]["activated_by"], "start")
        self.assertIn("switched on by HEAPCTL_ACTIVATE=1 at the start", " ".join(self.heapctl("status", process.pid)[0].split()))
        self.answer(process)
        self.go_on(process, "freed")
        self.assertEqual(bytes_by_site(self, process.pid), {})
        self.answer(process)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 0)

    def test_malloc_of_glibc(self):
        self.check_malloc("glibc")

    def test_malloc_of_jemalloc_without_profiling(self):
        self.check_malloc("jemalloc")

    def test_malloc_of_tcmalloc(self):
        self.check_malloc("tcmalloc")

    def test_malloc_of_mimalloc(self):
        self.check_malloc("mimalloc")

    def check_new(self, allocator):
        if not (BUILD / "examples/sampled_new").exists():
            self.skipTest("no C++ compiler")
        process = self.start_known(BUILD / "examples/sampled_new", allocator=allocator)
        self.answer(process)
        self.go_on(process, "kept")
        found = bytes_by_site(self, process.pid)
        self.assertEqual(set(found), set(SITES_OF_NEW))
        for name in SITES_OF_NEW:
            # The C++ library asks for a multiple of the alignment.
            sizes = {KEPT * SIZE, KEPT * 4096} if "aligned" in name else {KEPT * SIZE}
            self.assertIn(found[name], sizes, name)
        self.answer(process)
        self.go_on(process, "freed")
        self.assertEqual(bytes_by_site(self, process.pid), {})
        self.answer(process)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 0)

    def test_malloc_of_tcmalloc_in_a_program_linked_with_jemalloc(self):
        self.check_malloc("tcmalloc", "sampled_malloc_jemalloc")

    def test_malloc_of_mimalloc_in_a_program_linked_with_jemalloc(self):
        self.check_malloc("mimalloc", "sampled_malloc_jemalloc")

    def test_new_of_glibc(self):
        self.check_new("glibc")

    def test_new_of_jemalloc_without_profiling(self):
        self.check_new("jemalloc")

    def test_new_of_tcmalloc(self):
        self.check_new("tcmalloc")

    def test_new_of_mimalloc(self):
        self.check_new("mimalloc")


class Restarts(SamplerCase):
    """Each start draws other sampling points; their sum over all starts is compared with what is known, and with the stated errors."""
    INTERVAL = 4096

    def estimates(self, pid):
        """(bytes, standard error) by the function that called the allocator."""
        path = os.path.join(self.folder, "known.heap")
        self.heapctl("dump", pid, "-o", path)
        nodes = json.loads(self.heapctl("report", "--json", "--nodefraction=0", "--nodecount=1000", path)[0])["nodes"]
        return {match[1]: (node["cumulative"]["value"], node["cumulative"]["standard_error"])
                for node in nodes if (match := re.fullmatch(r"(?:\(anonymous namespace\)::)?site_(\w+)", node["name"]))}

    def check(self, allocator):
        without = ["no-pvalloc"] if allocator == "jemalloc" else []
        sizes = dict.fromkeys(SITES_OF_MALLOC[:-1] if without else SITES_OF_MALLOC, SIZE)
        sizes.update(aligned=1024, large=SIZE * 1000)
        programs = [(PROGRAMS / "sampled_malloc", without)]
        if (BUILD / "examples/sampled_new").exists():
            programs.append((BUILD / "examples/sampled_new", []))
            # The C++ library asks for other sizes where the alignment is given.
            sizes.update((name, SIZE) for name in SITES_OF_NEW if "aligned" not in name)
        sums, variance = collections.Counter(), 0
        for _ in range(RESTARTS):
            for program, words in programs:
                process = self.start_known(program, *words, allocator=allocator, HEAPCTL_SAMPLE=str(self.INTERVAL))
                self.answer(process)
                self.go_on(process, "kept")
                for name, (value, error) in self.estimates(process.pid).items():
                    if name in sizes:
                        sums[name] += value
                        variance += error**2
                self.answer(process)
                self.go_on(process, "freed")
                self.answer(process)
                self.assertEqual(process.wait(PATIENCE_SECONDS), 0)
        for name, size in sizes.items():
            low, high = estimate_bounds(KEPT * RESTARTS, size, self.INTERVAL)
            # What is printed is rounded.
            self.assertTrue(low - RESTARTS <= sums[name] <= high + RESTARTS, f"{name}: {sums[name]} is not in {low}-{high}")
        off = sum(sums.values()) - KEPT * RESTARTS * sum(sizes.values())
        # With few samples the error itself is known badly.
        if RESTARTS >= 10:
            self.assertLess(abs(off), NORMAL_DEVIATIONS * variance**0.5)
            print(f"{allocator}: {RESTARTS} starts: off by {off / variance**0.5:+.2f} stated errors in {len(sizes)} functions")

    def test_of_glibc(self):
        self.check("glibc")

    def test_of_jemalloc_without_profiling(self):
        self.check("jemalloc")

    def test_of_tcmalloc(self):
        self.check("tcmalloc")

    def test_of_mimalloc(self):
        self.check("mimalloc")


class Probes(unittest.TestCase):
    def test_tracers_find_the_probes(self):
        """OpenTelemetry's: otel_memory:alloc of three arguments and otel_memory:free of one."""
        notes = subprocess.run([need("readelf"), "-n", AGENT], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"Provider: otel_memory\s+Name: (\w+)\s+Location: \S+ Base: \S+ Semaphore: \S+\s+Arguments:(.*)", notes)
        self.assertEqual({(name, len(arguments.split())) for name, arguments in found}, {("alloc", 3), ("free", 1)})


# 1000 bytes each: freed at once; after 4 MB more and 50 ms; by another thread that much later; by a thread in the place of the one that
# allocated them and has ended, when it has allocated as much; never.
CHURN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { BLOCKS = 4000 };
static void *volatile last;
void *site_soon(void) { return last = malloc(1000); }
void *site_late(void) { return last = malloc(1000); }
void *site_handed(void) { return last = malloc(1000); }
void *site_left(void) { return last = malloc(1000); }
void *site_kept(void) { return last = malloc(1000); }
static void *late[BLOCKS], *handed[BLOCKS], *left[BLOCKS];
static void *leave(void *unused) { for (int i = 0; i < BLOCKS; i++) left[i] = site_left(); return unused; }
static void *free_handed(void *unused)
{
	for (int i = 0; i < BLOCKS; i++) site_kept();
	for (int i = 0; i < BLOCKS; i++) { free(handed[i]); free(left[i]); }
	return unused;
}
static void wait_for_line(const char *word) { char line[16]; puts(word); fflush(stdout); if (read(0, line, sizeof line) <= 0) exit(2); }
int main(void)
{
	pthread_t thread;
	wait_for_line("ready");
	for (int i = 0; i < BLOCKS; i++) { late[i] = site_late(); handed[i] = site_handed(); }
	for (int i = 0; i < BLOCKS; i++) site_kept();
	pthread_create(&thread, NULL, leave, NULL);
	pthread_join(thread, NULL);
	usleep(50000);
	pthread_create(&thread, NULL, free_handed, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; i < BLOCKS; i++) free(late[i]);
	for (int i = 0; i < BLOCKS; i++) free(site_soon());
	wait_for_line("done");
	return 0;
}
"""
CHURN_BYTES = 4000 * 1000


class Churn(SamplerCase):
    def start_churn(self, allocator, interval):
        path = os.path.join(self.folder, "churn")
        subprocess.run([need("cc"), "-g", "-O1", "-w", "-fno-builtin", "-pthread", "-x", "c", "-", "-o", path], input=CHURN, text=True, check=True)
        process = self.start(path, env=self.sampled(allocator, interval), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        self.wait_for_agent(process.pid)
        self.answer(process)
        self.go_on(process, "done")
        return process

    def temporary(self, *words):
        """Bytes by the function that called malloc."""
        found = collections.Counter()
        for line in self.heapctl("report", "--churn", "--collapsed", *words)[0].splitlines():
            for name in re.findall(r"site_(\w+)", line):
                found[name] += int(line.rpartition(" ")[2])
        return found

    def check_known(self, allocator):
        process = self.start_churn(allocator, 1)
        self.assertEqual(self.temporary(process.pid), {"soon": CHURN_BYTES})

    def test_of_glibc(self):
        self.check_known("glibc")

    def test_of_tcmalloc(self):
        self.check_known("tcmalloc")

    def test_of_mimalloc(self):
        self.check_known("mimalloc")

    def test_of_jemalloc_without_profiling(self):
        self.check_known("jemalloc")

    def test_a_file_a_bundle_and_a_difference_have_it(self):
        process = self.start_churn("glibc", 1)
        path, bundle = os.path.join(self.folder, "churn.heap"), os.path.join(self.folder, "churn.tar")
        self.heapctl("dump", process.pid, "-o", path)
        self.heapctl("dump", "--bundle", "--symbols", process.pid, "-o", bundle)
        for source in (path, bundle):
            self.assertEqual(self.temporary(source), {"soon": CHURN_BYTES})
        self.assertEqual(self.temporary("--base", path, path), {})
        flame = self.heapctl("report", "--churn", "--flame-data", path)[0]
        self.assertIn('"label":"bytes of temporary allocations"', flame)
        objects = json.loads(self.heapctl("report", "--churn", "--alloc_objects", "--json", path)[0])
        self.assertEqual([node["flat"]["value"] for node in objects["nodes"] if node["name"] == "site_soon"], [4000])
        # Other reports are as they were.
        self.assertIn("site_kept", self.heapctl("report", "--text", path)[0])
        self.assertNotIn("site_soon", self.heapctl("report", "--text", path)[0])

    def test_estimates_have_their_errors(self):
        process = self.start_churn("glibc", 8192)
        nodes = json.loads(self.heapctl("report", "--churn", "--json", process.pid)[0])["nodes"]
        flat = next(node["flat"] for node in nodes if node["name"] == "site_soon")
        self.assertAlmostEqual(flat["value"], CHURN_BYTES, delta=NORMAL_DEVIATIONS * flat["standard_error"])
        self.assertLess(flat["standard_error"], CHURN_BYTES / 5)

    def test_a_missing_count_is_reported(self):
        server, _ = self.start_redis(conf="prof:true,prof_active:true")
        self.wait_for_agent(server.pid)
        _, said = self.heapctl("report", "--churn", server.pid, code=1)
        self.assertIn("does not count temporary allocations (heapctl's own sampler counts them", said)
        _, said = self.heapctl("report", "--churn", "--inuse_space", server.pid, code=2)
        self.assertIn("temporary allocations are not in use", said)


class Provenance(SamplerCase):
    """What took the samples, and since when, is in the profile and in what is made of it."""

    def said(self, pid):
        path = os.path.join(self.folder, "said.heap")
        self.heapctl("dump", pid, "-o", path)
        report = json.loads(self.heapctl("report", "--json", path)[0])
        pprof = subprocess.run([HEAPCTL, "report", "--pprof", path], capture_output=True, check=True).stdout
        self.assertIn(report["sampling"].encode(), gzip.decompress(pprof))
        read_again = subprocess.run([HEAPCTL, "report", "--json", "-"], input=pprof, capture_output=True, check=True).stdout
        self.assertEqual(report["sampling"], json.loads(read_again)["sampling"])
        self.assertIn(report["sampling"], self.heapctl("report", "--flame", path)[0])
        return report["sampling"], ask(self.socket_of(pid), "/v1/status")[1]

    def test_from_the_start(self):
        process = self.start_known(PROGRAMS / "sampled_malloc", allocator="glibc")
        self.answer(process)
        self.go_on(process, "kept")
        said, status = self.said(process.pid)
        self.assertRegex(said, "^sampled by heapctl from the start")
        self.assertGreater(status["sampler"]["since_ms"], 0)
        # Discarded samples are missing from then on.
        ask(self.socket_of(process.pid), "/v1/reset", "POST")
        wait_until(lambda: time.time() * 1000 > status["started_ms"] + 1100, "a second after the start")
        ask(self.socket_of(process.pid), "/v1/reset", "POST")
        path = os.path.join(self.folder, "reset.heap")
        self.heapctl("dump", process.pid, "-o", path)
        self.assertRegex(pathlib.Path(path).read_text(), r"\n#sampling heapctl since \d{13}\n")

    def test_from_later_on(self):
        process = self.start(PROGRAMS / "sampled_malloc", env={"LD_PRELOAD": AGENT, "HEAPCTL_SAMPLE": "1"}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        self.wait_for_agent(process.pid)
        self.assertIsNone(self.status(process.pid)["sampler"]["since_ms"])
        self.heapctl("activate", process.pid)
        self.answer(process)
        self.go_on(process, "kept")
        said, status = self.said(process.pid)
        since = time.strftime("%F %T UTC", time.gmtime(status["sampler"]["since_ms"] // 1000))
        self.assertTrue(said.startswith(f"sampled by heapctl since {since}, without what was allocated before"), said)

    def test_the_first_request_to_an_agent_is_for_a_profile(self):
        server, _ = self.start_redis(conf="prof:true,prof_active:false,prof_active:true,lg_prof_sample:12")
        path = self.socket_of(server.pid)
        wait_until(lambda: os.path.exists(path), "the agent's socket")
        for _ in range(2):
            self.assertIn(b"\n#sampling jemalloc from-start\n", ask(path, "/v1/profile")[1])
        self.heapctl("deactivate", server.pid)
        self.assertIn(b"\n#sampling jemalloc\n", ask(path, "/v1/profile")[1])

    def test_of_jemalloc(self):
        server, port = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12")
        self.wait_for_agent(server.pid)
        self.load_redis(port)
        self.assertEqual(self.said(server.pid)[0], "sampled by jemalloc from the start")
        self.heapctl("deactivate", server.pid)
        self.heapctl("activate", server.pid)
        self.assertRegex(self.said(server.pid)[0], "^sampled by jemalloc since 2")


class Mapped(SamplerCase):
    SIZE = 16 * 4096

    def start_mapped(self, allocator, **env):
        path = os.path.join(self.folder, "file")
        pathlib.Path(path).write_bytes(bytes(self.SIZE))
        return self.start_known(PROGRAMS / "sampled_mapped", path, allocator=allocator, **env)

    def check_mapped(self, allocator):
        process = self.start_mapped(allocator, HEAPCTL_MAPPED="1")
        self.answer(process)
        self.go_on(process, "kept")
        self.assertEqual(bytes_by_site(self, process.pid), {**dict.fromkeys(("plain", "uneven", "shared", "cut", "grown", "reserved"), self.SIZE)})
        path = os.path.join(self.folder, "known.heap")
        self.assertRegex(pathlib.Path(path).read_text(), r"\n#sampling heapctl from-start mapped\n")
        document = json.loads(self.heapctl("report", "--json", path)[0])
        self.assertIn("from the start, with memory that the program mapped itself", document["sampling"])
        # Mappings differ from blocks by their innermost frame, and neither is missing.
        collapsed = self.heapctl("report", "--collapsed", path)[0].splitlines()
        innermost = {line.rpartition(" ")[0].split(";")[-1] for line in collapsed if "site_" in line}
        self.assertTrue(innermost <= {"mmap", "mmap64", "__mmap64", "mremap", "__mremap"}, innermost)
        self.assertNotIn("site_", self.heapctl("report", "--collapsed", "--ignore=mmap|mremap", path)[0])
        self.assertTrue(self.status(process.pid)["sampler"]["mapped"])
        self.assertIn("memory that the program maps itself", self.heapctl("status", process.pid)[0])
        self.answer(process)
        self.go_on(process, "freed")
        self.assertEqual(bytes_by_site(self, process.pid), {})
        self.answer(process)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 0)

    def test_of_glibc(self):
        self.check_mapped("glibc")

    def test_what_other_allocators_map_does_not_count_twice(self):
        for allocator in ("jemalloc", "tcmalloc", "mimalloc"):
            with self.subTest(allocator):
                self.check_mapped(allocator)

    def test_nothing_is_seen_without_the_request(self):
        process = self.start_mapped("glibc")
        self.answer(process)
        self.go_on(process, "kept")
        self.assertEqual(bytes_by_site(self, process.pid), {})
        self.assertFalse(self.status(process.pid)["sampler"]["mapped"])


class Recording(SamplerCase):
    def test_few_samples_at_another_interval(self):
        """Threads of jemalloc keep their distance to the next sample; those of heapctl's sampler draw a new one."""
        process = self.start(PROGRAMS / "sampled_malloc", env={"LD_PRELOAD": AGENT}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        server, _ = self.start_redis()
        for pid, has_delay in ((process.pid, False), (server.pid, True)):
            self.wait_for_agent(pid)
            _, said = self.heapctl("record", pid, "-d", "1s", "--sample", "4KiB", "-o", os.path.join(self.folder, "few.heap"))
            self.assertIn("too few to rely on", said)
            self.assertEqual("each thread first allocates" in said, has_delay, said)


class Switching(SamplerCase):
    def test_no_run_begins_unasked_beside_what_was_switched_on_at_the_start(self):
        process = self.start_known(PROGRAMS / "sampled_malloc", allocator="glibc")
        status, body = ask(self.socket_of(process.pid), "/v1/runs", "POST")
        self.assertEqual((status, body["error"]["hint"]), (409, "deactivate first, then start"))
        self.assertIn("at the start by HEAPCTL_ACTIVATE=1", body["error"]["message"])
        self.assertIn("stays on", self.heapctl("start", process.pid)[1])

    def test_another_malloc_has_no_mallctl(self):
        process = self.start_known(PROGRAMS / "sampled_malloc", allocator="glibc")
        self.assertIn("prof.active is a mallctl of jemalloc, and this process uses the malloc of glibc (start it with heapctl run --jemalloc)",
                      self.heapctl("mallctl", process.pid, "prof.active=true", code=1)[1])

    def start_idle(self):
        process = self.start(PROGRAMS / "sampled_malloc", env={"LD_PRELOAD": AGENT, "HEAPCTL_SAMPLE": "1"}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        self.wait_for_agent(process.pid)
        return process

    def test_nothing_is_in_the_process_while_sampling_is_off(self):
        process = self.start_idle()
        self.assertFalse(self.status(process.pid)["sampler"]["installed"])
        self.heapctl("activate", process.pid)
        self.assertTrue(self.status(process.pid)["sampler"]["installed"])
        self.heapctl("deactivate", process.pid)
        self.assertFalse(self.status(process.pid)["sampler"]["installed"])

    def test_top_has_sites_where_there_are_no_statistics(self):
        process = self.start_known(PROGRAMS / "sampled_malloc", allocator="glibc")
        self.answer(process)
        self.go_on(process, "kept")
        out, _ = self.heapctl("top", process.pid, "-n", "1")
        self.assertIn("no statistics: the process does not use jemalloc", out)
        self.assertIn("site_", out)

    def test_it_stays_while_a_sampled_block_is_in_use_and_leaves_with_the_last(self):
        process = self.start_idle()
        self.heapctl("activate", process.pid)
        self.answer(process)
        self.go_on(process, "kept")
        self.heapctl("deactivate", process.pid)
        self.assertEqual(bytes_by_site(self, process.pid)["plain"], KEPT * SIZE)
        self.assertTrue(self.status(process.pid)["sampler"]["installed"])
        self.answer(process)
        self.go_on(process, "freed")
        wait_until(lambda: not self.status(process.pid)["sampler"]["installed"], "the sampler to leave")
        self.assertEqual(bytes_by_site(self, process.pid), {})

    def test_a_reset_forgets_what_was_sampled(self):
        process = self.start_idle()
        self.heapctl("activate", process.pid)
        self.answer(process)
        self.go_on(process, "kept")
        self.assertEqual(ask(self.socket_of(process.pid), "/v1/reset", "POST")[0], 200)
        self.assertEqual(bytes_by_site(self, process.pid), {})
        self.heapctl("deactivate", process.pid)
        self.assertFalse(self.status(process.pid)["sampler"]["installed"])
        self.answer(process)
        self.go_on(process, "freed")

    def test_a_timed_run(self):
        process = self.start_idle()
        self.heapctl("start", process.pid, "--duration", "60s")
        self.answer(process)
        self.go_on(process, "kept")
        self.heapctl("stop", process.pid)
        path = os.path.join(self.folder, "run.heap")
        run = ask(self.socket_of(process.pid), "/v1/runs")[1]["runs"][0]
        status, body = ask(self.socket_of(process.pid), f"/v1/runs/{run['id']}/profile")
        self.assertEqual(status, 200, body)
        pathlib.Path(path).write_bytes(body)
        self.assertIn("site_plain", self.heapctl("report", "--text", path)[0])

    def test_what_cannot_be_profiled_says_why(self):
        """The program's malloc is its own, inside it, and its calls pass no table."""
        process = self.start(BUILD / "examples/event_loop_static", free_port(), env={"MALLOC_CONF": ""}, stderr=subprocess.DEVNULL)
        self.wait_for_agent(process.pid)
        profiling = self.status(process.pid)["profiling"]
        self.assertEqual((profiling["available"], profiling["sampler"]), (False, ""))
        self.assertIn("prof:true", profiling["hint"])


# What a plugin allocates is freed by the program, and the other way round. `own` has a malloc of its own.
PLUGIN = """
#include <stdlib.h>
#include <string.h>
char *dependency(void);
void *site_plugin(size_t size) { void *volatile block = malloc(size); return block; }
char *site_copied(const char *text) { char *volatile copy = strdup(text); return copy; }
void release(void *block) { free(block); }
char *through(void) { return dependency(); }
"""
DEPENDENCY = 'char *dependency(void) { return "found by the RUNPATH"; }'
OWN = """
#include <stddef.h>
static char arena[1 << 20];
static size_t used;
size_t freed;
void *malloc(size_t size) { void *block = arena + used; used += (size + 15) & ~(size_t)15; return block; }
void free(void *block) { if ((char *)block < arena || (char *)block >= arena + sizeof arena) __builtin_trap(); freed++; }
void *site_own(size_t size) { void *volatile block = malloc(size); return block; }
void release_own(void *block) { free(block); }
"""
# A sample per byte misses one of z bytes once in exp(z).
TEXT = "a text that is long enough to be sampled"
COPIED = 5 * (len(TEXT) + 1)
# It prints what the plugins answer, and frees everything at the end.
LOADER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void wait_for_line(const char *word) { char line[16]; puts(word); fflush(stdout); if (read(0, line, sizeof line) <= 0) exit(2); }
static void *find(void *library, const char *name) { void *found = dlsym(library, name); if (!found) { puts(dlerror()); exit(3); } return found; }
int main(int argc, char **argv)
{
	wait_for_line("ready");
	(void)argv;
	for (int i = 0; i < 2; i++) {
		void *plugin = dlopen("libplugin.so", MODE), *own = dlopen(argc > 1 ? "libown.so" : "libplugin.so", argc > 1 ? RTLD_LAZY | RTLD_DEEPBIND : MODE);
		if (!plugin || !own) { puts(dlerror()); return 4; }
		void *(*allocate)(size_t) = (void *(*)(size_t))find(plugin, "site_plugin"), *(*allocate_own)(size_t) = (void *(*)(size_t))find(own, argc > 1 ? "site_own" : "site_plugin");
		char *(*copy)(const char *) = (char *(*)(const char *))find(plugin, "site_copied"), *(*through)(void) = (char *(*)(void))find(plugin, "through");
		void (*release)(void *) = (void (*)(void *))find(plugin, "release"), (*release_own)(void *) = (void (*)(void *))find(own, argc > 1 ? "release_own" : "release");
		void *blocks[10], *owns[10];
		for (int k = 0; k < 10; k++) { blocks[k] = k % 2 ? allocate(1000) : copy("TEXT"); owns[k] = allocate_own(1000); }
		puts(through());
		wait_for_line("kept");
		for (int k = 0; k < 10; k++) { k % 3 ? release(blocks[k]) : free(blocks[k]); release_own(owns[k]); }
		wait_for_line("freed");
		dlclose(plugin);
		dlclose(own);
	}
	return 0;
}
"""


class Plugins(SamplerCase):
    def check_plugins(self, allocator, mode, *words):
        shared = ["-shared", "-fPIC", "-Wl,-z,lazy"]
        os.mkdir(os.path.join(self.folder, "private"))
        self.build("private/libdependency.so", DEPENDENCY, *shared)
        self.build("libplugin.so", PLUGIN, *shared, "-Wl,--no-as-needed", f"-L{self.folder}/private", "-x", "none", "-ldependency",
                   f"-Wl,-rpath,{self.folder}/private")
        self.build("libown.so", OWN, *shared, "-fno-builtin")
        loader = self.build("loader", LOADER.replace("MODE", mode).replace("TEXT", TEXT), "-Wl,-z,lazy", f"-Wl,-rpath,{self.folder}", "-ldl")
        process = self.start_known(loader, *words, allocator=allocator)
        self.answer(process)
        for _ in range(2):
            self.go_on(process, "found by the RUNPATH")
            self.go_on(process, "kept")
            found = bytes_by_site(self, process.pid)
            if not words:
                self.assertEqual(found, {"copied": COPIED, "plugin": 15 * 1000})
            self.assertGreaterEqual(found["copied"], COPIED)
            self.assertNotIn("own", found)
            self.answer(process)
            self.go_on(process, "freed")
            # Once a module prefers its own names, slots that are not resolved yet have to wait.
            if not words:
                self.assertEqual(bytes_by_site(self, process.pid), {})
            self.answer(process)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 0)

    def test_a_plugin_is_seen_as_soon_as_it_is_found(self):
        self.check_plugins("glibc", "RTLD_LAZY")

    def test_a_plugin_with_local_names_first(self):
        self.check_plugins("glibc", "RTLD_LAZY | RTLD_DEEPBIND")

    def test_a_plugin_that_is_bound_at_once(self):
        self.check_plugins("mimalloc", "RTLD_NOW")

    def test_a_plugin_with_lazy_slots_beside_another_malloc(self):
        """The C library has a malloc, too, but no module was opened so that it would be preferred."""
        self.check_plugins("tcmalloc", "RTLD_LAZY")

    def test_a_plugin_with_a_malloc_of_its_own(self):
        """Its blocks must not reach another free, nor others its own: it ends the process then."""
        self.check_plugins("glibc", "RTLD_LAZY", "own")

    def test_a_plugin_with_a_malloc_of_its_own_beside_jemalloc(self):
        self.check_plugins("jemalloc", "RTLD_LAZY", "own")


OPENED = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (dlopen(argv[i], RTLD_LAZY) == NULL)
			return 1;
	puts("ready");
	fflush(stdout);
	for (char letter; read(0, &letter, 1) == 1;) {
		if (letter == 'f') {
			int status, child = fork();
			if (child == 0)
				for (;;)
					pause();
			printf("%d\\n", child), fflush(stdout);
			waitpid(child, &status, 0);
			printf("ended %d\\n", WTERMSIG(status)), fflush(stdout);
			continue;
		}
		puts(malloc(100000) != NULL ? "allocated" : "no memory"), fflush(stdout);
	}
	return 0;
}
"""

TAKE = "#include <stdlib.h>\nvoid *take(void) { return malloc(1); }"


class CutFiles(SamplerCase):
    """Where a file ends before its mapping does, whoever touches the rest gets SIGBUS. That must not be the agent."""

    def check_cut(self, use, env=None, begin=None):
        program = self.build("opens", OPENED, "-ldl")
        for size in (0, 4096):
            with self.subTest(size=size):
                library = self.build(f"libcut{size}.so", TAKE, "-shared", "-fPIC")
                process = self.start(program, library, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self.go_on(process, "ready")
                if env is not None:
                    self.wait_for_agent(process.pid)
                    # After an answer the agent reads modules that were loaded since; a file that is cut at that moment is not noticed.
                    self.status(process.pid)
                if begin is not None:
                    begin(process)
                os.truncate(library, size)
                use(process, f"{library} was cut while ")
                self.answer(process)
                self.go_on(process, "allocated")
                # The loader itself reads the file when the program ends in another way.
                process.terminate()
                self.assertEqual(process.wait(PATIENCE_SECONDS), -signal.SIGTERM)

    def words(self, verb, pid):
        """What it prints, in one line."""
        return " ".join(self.heapctl(verb, pid, code=None)[0].split())

    def row_of(self, pid):
        return next(line for line in self.heapctl("ps")[0].splitlines() if line.split()[0] == str(pid))

    def ask_all(self, process):
        for verb in ("status", "account", "doctor"):
            self.heapctl(verb, process.pid, code=None)
        self.heapctl("dump", process.pid, "-o", os.path.join(self.folder, "cut.heap"))

    def test_before_sampling_begins(self):
        def use(process, reason):
            self.assertIn(reason, self.heapctl("activate", process.pid, code=1)[1])
            self.heapctl("account", process.pid)
            for verb in ("status", "doctor"):
                self.assertIn(reason, self.words(verb, process.pid))
            self.assertRegex(self.row_of(process.pid), r"cannot begin: one of its files was damaged")
        self.check_cut(use, {"LD_PRELOAD": AGENT})

    def test_a_library_in_front_of_the_c_library(self):
        """The loader reads it to find any symbol. Sampling is switched on in each way there is."""
        library = self.build("libcut.so", TAKE, "-shared", "-fPIC")
        program = self.build("opens", OPENED, "-Wl,--no-as-needed", "-x", "none", library, "-ldl")
        preload = f"{library_of('jemalloc')}:{AGENT}"
        process = self.start(program, env={"LD_PRELOAD": preload, "MALLOC_CONF": "prof:true,prof_active:false", "LD_BIND_NOW": "1"},
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        self.wait_for_agent(process.pid)
        os.truncate(library, 4096)
        for verb in ("activate", "start"):
            self.assertIn(f"{library} was cut while ", self.heapctl(verb, process.pid, code=1)[1])
        # Without the agent's unwinder, which needs a symbol.
        self.heapctl("mallctl", process.pid, "prof.active=true")
        self.answer(process)
        self.go_on(process, "allocated")

    def test_an_agent_on_demand_is_not_woken(self):
        """Its new thread may need a function of the loader that nothing has called yet, and the loader reads the library to find it."""
        process, library = self.start_linked({"LD_PRELOAD": AGENT, "HEAPCTL_THREAD": "on-demand"})
        wait_until(lambda: handles_waking(process.pid), "the handler of the agent on demand")
        self.assert_not_woken(process.pid, library)
        self.answer(process)
        self.go_on(process, "allocated")

    def test_a_child_is_not_woken(self):
        process, library = self.start_linked({"LD_PRELOAD": AGENT})
        self.wait_for_agent(process.pid)
        child = self.fork(process)
        self.assert_not_woken(child, library)
        self.end_child(process, child)

    def test_a_child_that_gets_a_thread(self):
        process, library = self.start_linked({"LD_PRELOAD": AGENT, "HEAPCTL_CHILDREN": "thread"})
        self.wait_for_agent(process.pid)
        os.truncate(library, 4096)
        child = self.fork(process)
        wait_until(lambda: os.path.exists(self.socket_of(child)) or not is_alive(child), "the socket of the child")
        self.heapctl("status", child)
        self.end_child(process, child)

    def fork(self, process):
        process.stdin.write(b"f")
        process.stdin.flush()
        return int(process.stdout.readline())

    def end_child(self, process, child):
        os.kill(child, signal.SIGTERM)
        self.go_on(process, f"ended {signal.SIGTERM.value}")

    def start_linked(self, env):
        """A program, bound at its start, with a library that the loader searches for any symbol, before the C library."""
        library = self.build("libcut.so", TAKE, "-shared", "-fPIC")
        program = self.build("opens", OPENED, "-Wl,--no-as-needed,-z,now", "-x", "none", library, "-ldl")
        process = self.start(program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "ready")
        return process, library

    def assert_not_woken(self, pid, library):
        os.truncate(library, 4096)
        reason = f"{library} was cut while "
        for words in (("status", pid), ("activate", pid), ("dump", pid, "-o", os.path.join(self.folder, "cut.heap"))):
            self.assertIn(reason, self.heapctl(*words, code=1)[1])
        self.assertIn(reason, self.words("doctor", pid))
        self.assertIn(reason, self.row_of(pid))

    def test_while_sampling_is_on(self):
        def use(process, reason):
            self.ask_all(process)
            self.heapctl("deactivate", process.pid)
            self.assertIn(reason, self.heapctl("activate", process.pid, code=1)[1])
        self.check_cut(use, self.sampled())

    def test_before_an_attach(self):
        def use(process, reason):
            self.assertIn(reason, self.heapctl("attach", process.pid, code=1)[1])
            self.assertIn(reason, " ".join(self.heapctl("doctor", process.pid, code=None)[0].split()))
            self.heapctl("attach", process.pid, "--force", "--inactive")
            self.assertIn(reason, self.heapctl("activate", process.pid, code=1)[1])
            self.heapctl("detach", process.pid)
        self.check_cut(use)

    def test_a_file_that_was_written_again(self):
        """As cp does it over a library that is in use: what the loader had written there is gone."""
        program = self.build("opens", OPENED, "-ldl")
        for option, is_damaged in (("-Wl,-z,relro", True), ("-Wl,-z,norelro", False)):
            with self.subTest(option=option):
                library = self.build(f"libagain{is_damaged}.so", TAKE, "-shared", "-fPIC", option)
                content = pathlib.Path(library).read_bytes()
                process = self.start(program, library, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self.go_on(process, "ready")
                self.assertNotIn("was written again", self.heapctl("doctor", process.pid, code=None)[0])
                if is_damaged:
                    pathlib.Path(library).write_bytes(content)
                    self.assertIn(f"{library} was written again while ", self.heapctl("attach", process.pid, code=1)[1])
                else:
                    self.heapctl("attach", process.pid)
                self.answer(process)
                self.go_on(process, "allocated")

    def test_while_attached(self):
        def use(process, _):
            self.ask_all(process)
            self.heapctl("detach", process.pid)
        self.check_cut(use, begin=lambda process: self.heapctl("attach", process.pid))


class Programs(SamplerCase):
    def check_stress(self, allocator, interval):
        words = ["no-alignment"] if allocator == "mimalloc" else []
        process = self.start(PROGRAMS / "sampled_stress", "4", *words, env=self.sampled(allocator, interval), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.wait_for_agent(process.pid)
        for _ in range(3):
            self.heapctl("deactivate", process.pid)
            self.heapctl("dump", process.pid, "-o", os.path.join(self.folder, "stress.heap"))
            self.heapctl("activate", process.pid)
        self.assertRegex(process.communicate(timeout=2 * PATIENCE_SECONDS)[0], rb"^ok \d+ operations\n$")
        self.assertEqual(process.returncode, 0)

    def test_every_byte_with_glibc(self):
        self.check_stress("glibc", 256)

    def test_every_byte_with_jemalloc(self):
        self.check_stress("jemalloc", 256)

    def test_every_byte_with_tcmalloc(self):
        self.check_stress("tcmalloc", 4096)

    def test_every_byte_with_mimalloc(self):
        self.check_stress("mimalloc", 4096)

    def check_same(self, *command, **options):
        """Output and exit status are those of the program alone."""
        alone = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, **options)
        environment = dict(self.environment, **self.sampled(interval=64), HEAPCTL_EXE=os.path.realpath(command[0]))
        sampled = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, env=environment, **options)
        self.assertEqual((sampled.returncode, sampled.stdout, sampled.stderr), (alone.returncode, alone.stdout, alone.stderr))
        self.assertEqual(alone.returncode, 0, alone.stderr)

    def test_bash(self):
        script = 'for i in {1..200}; do a[$i]=$(echo $((i * i))); done; declare -A m=([x]=1); printf "%s\n" "${a[@]}" | sort -n | tail -n 3; echo ${m[x]}'
        self.check_same("/bin/bash", "-c", script)

    def test_python(self):
        self.check_same("/usr/bin/python3", "-c", PYTHON_WORK)

    def test_git(self):
        git = need("git")
        repository = os.path.join(self.folder, "repository")
        date = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
        self.environment.update(date)
        subprocess.run([git, "init", "-q", repository], check=True)
        for number in range(50):
            pathlib.Path(repository, f"file{number}").write_text("line\n" * number)
        subprocess.run([git, "-C", repository, "add", "."], check=True)
        subprocess.run([git, "-C", repository, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "all"], check=True)
        self.check_same(git, "-C", repository, "log", "-p", "--stat")
        self.check_same(git, "-C", repository, "fsck", "--full")

    def test_gdb(self):
        self.check_same(need("gdb"), "-q", "-batch", "-nx", "-ex", "info functions site_", "-ex", "ptype struct block",
                        str(PROGRAMS / "sampled_stress"))

    def test_cc1(self):
        compiler = subprocess.run(["cc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
        source = os.path.join(self.folder, "source.c")
        pathlib.Path(source).write_text("".join(f"int f{i}(int a, int b) {{ return a * {i} + (b ? f{i - 1}(b, a) : 1); }}\n" if i else
                                                "int f0(int a, int b) { return a - b; }\n" for i in range(300)))
        self.check_same(compiler, "-quiet", "-O2", source, "-o", "-")


if __name__ == "__main__":
    unittest.main()
