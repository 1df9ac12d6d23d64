#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The account of processes whose malloc is not jemalloc's, against what that malloc reports to the process itself."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from agent_host import only_root
from gateway import GatewayCase
from processes import AGENT, Case, HEAPCTL, SANITIZED, ask, need, own_name, stop, wait_until
from test_sampler import library_of

# Blocks of known sizes in two arenas, half of the small ones freed; then mallinfo2's fields in a line, and it waits.
HOST = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { BLOCKS = 20000 };
static char *kept[2][BLOCKS];
static int blocks;
static void *fill(void *which)
{
	char **mine = kept[which != NULL];
	for (int i = 0; i < blocks; i++)
		memset(mine[i] = malloc(1000), 1, 1000);
	for (int i = 0; i < blocks; i += 2)
		free(mine[i]);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread;
	char line[8];
	static char buffer[512];
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	blocks = atoi(argv[1]);
	pthread_create(&thread, NULL, fill, "");
	pthread_join(thread, NULL);
	fill(NULL);
	for (int i = 0; i < 5; i++)
		memset(malloc(3000000), 1, 1000000);
	struct mallinfo2 m = mallinfo2();
	printf("{\"arena\": %zu, \"fordblks\": %zu, \"fsmblks\": %zu, \"uordblks\": %zu, \"keepcost\": %zu, \"hblks\": %zu, \"hblkhd\": %zu, "
	       "\"ordblks\": %zu}\n", m.arena, m.fordblks, m.fsmblks, m.uordblks, m.keepcost, m.hblks, m.hblkhd, m.ordblks);
	fflush(stdout);
	return read(0, line, sizeof line) < 0 ? argc : 0;
}
"""
# A malloc without statistics.
SILENT = """
#include <stddef.h>
void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
"""
SMALL, LARGE = 5000, 20000


@unittest.skipIf(SANITIZED, "a sanitizer brings an allocator of its own")
class OtherMallocs(GatewayCase):
    def build(self, name, source, *options):
        path = os.path.join(self.folder, name)
        subprocess.run([need("cc"), "-O1", "-w", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True)
        return path

    def start_host(self, blocks, allocator="glibc", library=None, **environment):
        host = self.build("host", HOST, "-pthread", "-fno-builtin")
        preload = ":".join(filter(None, [library or library_of(allocator), AGENT]))
        process = self.start(host, str(blocks), env={"LD_PRELOAD": preload, "MALLOC_PERTURB_": "0", **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        own = json.loads(process.stdout.readline())
        self.wait_for_agent(process.pid)
        return process, own

    def account(self, *words):
        account = json.loads(self.heapctl("account", *words, "--json")[0])
        self.assertAlmostEqual(sum(row["bytes"] for row in account["rows"] if row["kind"] != "outside"), account["resident"], delta=1)
        return account, {row["name"]: row for row in account["rows"]}

    def test_glibc_is_counted_as_it_counts_itself(self):
        process, own = self.start_host(SMALL, MALLOC_ARENA_MAX="3", GLIBC_TUNABLES="glibc.malloc.mmap_threshold=500000")
        account, rows = self.account(process.pid)
        self.assertEqual((account["allocator"], account["without_figures"]), ("glibc", ""))
        # The agent's thread takes nothing from malloc, and no arena of its own.
        self.assertEqual({name: rows[name]["bytes"] for name in ("in_use", "mapped_blocks", "fast_bins", "fragmentation", "top", "arenas")},
                         {"in_use": own["uordblks"], "mapped_blocks": own["hblkhd"], "fast_bins": own["fsmblks"], "top": own["keepcost"],
                          "fragmentation": own["fordblks"] - own["fsmblks"] - own["keepcost"], "arenas": own["arena"]})
        self.assertEqual((rows["mapped_blocks"]["count"], rows["fragmentation"]["count"], rows["arenas"]["count"]), (5, own["ordblks"], 2))
        self.assertEqual(rows["arenas"]["option"], "MALLOC_ARENA_MAX=3")
        self.assertEqual(rows["mapped_blocks"]["option"], "glibc.malloc.mmap_threshold=500000")
        self.assertEqual({rows[name]["source"] for name in ("in_use", "top")}, {"glibc"})
        # Of each block of 3,000,000 bytes a third was touched.
        self.assertLess(rows["not_resident"]["bytes"], -5 * 1900000)
        self.assertLess(abs(rows["other"]["bytes"]), 1 << 20)
        out, _ = self.heapctl("account", process.pid)
        self.assertRegex(out, r"MiB +[\d.]+% +glibc +in use, blocks with mappings of their own \(5\)")
        self.assertRegex(self.heapctl("stats", process.pid)[0], rf"(?m)^malloc of glibc 2\.\d+ \(/.*\)\n +{own['arena']}  in heaps of arenas\n")

    def test_a_large_heap_is_walked_only_when_asked(self):
        process, own = self.start_host(LARGE)
        account, rows = self.account(process.pid)
        self.assertRegex(account["without_figures"], r"^glibc would walk all free chunks of \d+ MiB while malloc waits$")
        self.assertNotIn("in_use", rows)
        self.assertEqual(rows["arena_heaps"]["count"], 1)
        self.assertGreater(rows["main_heap"]["bytes"] + rows["arena_heaps"]["bytes"], LARGE * 1000)
        self.assertIn("heapctl account --walk", self.heapctl("account", process.pid)[0])
        self.assertIn("no figures: glibc would walk", self.heapctl("stats", process.pid)[0])
        self.assertIsNone(ask(self.socket_of(process.pid), "/v1/stats")[1]["malloc"]["figures"])
        account, rows = self.account("--walk", process.pid)
        self.assertEqual((rows["in_use"]["bytes"], rows["arenas"]["bytes"]), (own["uordblks"], own["arena"]))
        self.assertIn(str(own["uordblks"]), self.heapctl("stats", "--walk", process.pid)[0])
        figures = json.loads(self.heapctl("stats", "--walk", "--json", process.pid)[0])["malloc"]["figures"]
        self.assertEqual(figures["free_chunks"], own["ordblks"])
        # The status is requested often, and must not walk the heap.
        self.assertIsNone(ask(self.socket_of(process.pid), "/v1/status")[1]["memory"])

    def test_heaps_that_cannot_be_found_are_no_small_ones(self):
        """With huge pages glibc maps its main heap, too."""
        process = self.start(sys.executable, "-c", "print('ready', flush=True); input()", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={"LD_PRELOAD": AGENT, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"})
        process.stdout.readline()
        self.wait_for_agent(process.pid)
        account, _ = self.account(process.pid)
        self.assertEqual(account["without_figures"], "glibc would walk all free chunks of heaps of unknown size while malloc waits")
        _, rows = self.account("--walk", process.pid)
        self.assertGreater(rows["in_use"]["bytes"], 1 << 18)

    def test_a_bundle_has_what_the_process_has(self):
        process, own = self.start_host(SMALL)
        path = os.path.join(self.folder, "small.tar")
        self.heapctl("dump", process.pid, "--bundle", "-o", path)
        _, rows = self.account(path)
        self.assertEqual(rows["in_use"]["bytes"], own["uordblks"])
        _, said = self.heapctl("report", "--fragmentation", path, code=1)
        self.assertIn("for other allocators, use heapctl account", said)

    def test_tcmalloc_has_rows_for_its_caches(self):
        process, _ = self.start_host(LARGE, "tcmalloc", TCMALLOC_RELEASE_RATE="3")
        account, rows = self.account(process.pid)
        self.assertEqual(account["allocator"], "tcmalloc")
        used = LARGE * 1000 + 5 * 3000000
        self.assertTrue(used <= rows["in_use"]["bytes"] <= used * 1.1, rows["in_use"])
        freed = sum(rows[name]["bytes"] for name in ("thread_caches", "fragmentation", "free_pages"))
        # The second thread takes what the first has freed.
        self.assertGreater(freed, LARGE * 450)
        self.assertEqual(rows["free_pages"]["option"], "TCMALLOC_RELEASE_RATE=3")

    def test_mimalloc_has_what_it_has_committed(self):
        process, _ = self.start_host(LARGE, "mimalloc")
        account, rows = self.account(process.pid)
        self.assertEqual((account["allocator"], rows["committed"]["source"]), ("mimalloc", "mimalloc"))
        self.assertGreater(rows["committed"]["bytes"], LARGE * 1000)

    def test_a_malloc_that_reports_nothing_leaves_the_kernels_rows(self):
        silent = self.build("libsilent.so", SILENT, "-shared", "-fPIC", "-fno-builtin")
        process, _ = self.start_host(LARGE, library=silent)
        account, rows = self.account(process.pid)
        self.assertIn("memory of malloc", rows["other"]["text"])
        self.assertRegex(self.heapctl("account", process.pid)[0], r"The malloc of \w+ reports no figures: the table has only the kernel's\.")
        _, said = self.heapctl("stats", process.pid, code=1)
        self.assertRegex(said, r"the malloc of \w+ reports no statistics")
        path = os.path.join(self.folder, "silent.tar")
        self.heapctl("dump", process.pid, "--bundle", "-o", path)
        self.account(path)

    def test_the_gateway_passes_them_on(self):
        process, own = self.start_host(SMALL)
        self.start_gateway(process.pid)
        self.assertEqual(self.get("/v1/stats").json["malloc"]["figures"]["in_use_bytes"], own["uordblks"])


# Touches 20 MiB of a mapping, 6 MiB of a shared one and 3 MiB of the program break; then sleeps until it is ended.
PLAIN = r"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	const int access = PROT_READ | PROT_WRITE;
	memset(mmap(0, 64 << 20, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 20 << 20);
	memset(mmap(0, 6 << 20, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1, 6 << 20);
	char *const end = (char *)syscall(SYS_brk, 0);
	syscall(SYS_brk, end + (3 << 20));
	memset(end, 1, 3 << 20);
	return write(1, "ready\n", 6) == 6 ? pause() : 1;
}
"""


class WithoutAgent(Case):
    """The kernel's figures of a process that has no agent, whatever it is."""

    def start_plain(self, *options, compiler="cc"):
        path = os.path.join(self.folder, f"plain{len(os.listdir(self.folder))}")
        subprocess.run([need(compiler), "-O1", "-w", "-x", "c", "-", "-o", path, *options], input=PLAIN, text=True, check=True)
        process = self.start(path, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def rows(self, target):
        account = json.loads(self.heapctl("account", target, "--json")[0])
        self.assertAlmostEqual(sum(row["bytes"] for row in account["rows"] if row["kind"] != "outside"), account["resident"], delta=1)
        self.assertEqual({row["source"] for row in account["rows"]}, {"kernel"})
        return account, {row["name"]: row["bytes"] for row in account["rows"]}

    @staticmethod
    def switches(pid):
        return re.findall(r"ctxt_switches:\t(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())

    def test_its_rows_add_up_to_rss(self):
        for kind, options, compiler in (("dynamic", (), "cc"), ("static", ("-static",), "cc"), ("musl", (), "musl-gcc"), ("static musl", ("-static",), "musl-gcc")):
            with self.subTest(kind):
                process = self.start_plain(*options, compiler=compiler)
                wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S", "it to sleep")
                before = self.switches(process.pid)
                account, rows = self.rows(process.pid)
                self.assertEqual((account["allocator"], account["state"]), ("", "no-agent"))
                for name, least in (("other", 20), ("shmem", 6), ("program_break", 3)):
                    self.assertAlmostEqual(rows[name] / (1 << 20), least, delta=0.9, msg=name)
                self.assertGreater(rows["stacks"], 0)
                shown = re.findall(r"(?m)^Rss: +(\d+) kB", pathlib.Path(f"/proc/{process.pid}/smaps").read_text())
                self.assertAlmostEqual(account["resident"], 1024 * sum(map(int, shown)), delta=64 << 10)
                huge = re.findall(r"(?m)^(?:AnonHugePages|ShmemPmdMapped|FilePmdMapped): +(\d+) kB", pathlib.Path(f"/proc/{process.pid}/smaps").read_text())
                self.assertEqual(rows.get("huge_pages", 0), 1024 * sum(map(int, huge)))
                out, _ = self.heapctl("account", process.pid)
                self.assertRegex(out, r"2\d\.\d MiB +[\d.]+% +kernel +mapped anonymous memory")
                self.assertIn(f"[{process.pid}] has no agent: the table has the kernel's figures.", out)
                # Nothing of it ran for this.
                self.assertEqual(self.switches(process.pid), before)

    def test_it_says_what_an_attach_would_tell_or_why_it_cannot_be(self):
        for options, compiler, can_attach, said in (
                ((), "cc", True, "heapctl attach {} tells which functions hold what is allocated from then on"),
                (("-static",), "cc", True, "heapctl attach {} tells which functions hold what is allocated from then on"),
                (("-static", "-s"), "cc", False, "is a static program without symbols of malloc and free (stripped)"),
                ((), "musl-gcc", True, "heapctl attach {} tells which functions hold what is allocated from then on"),
                (("-static", "-s"), "musl-gcc", False, "is a static program without symbols of malloc and free (stripped)")):
            with self.subTest(said, compiler=compiler):
                process = self.start_plain(*options, compiler=compiler)
                said = said.format(process.pid)
                self.assertIn(said, self.heapctl("account", process.pid)[0])
                account, _ = self.rows(process.pid)
                row = next(row for row in json.loads(self.heapctl("ps", "--all", "--json")[0]) if row.get("pid") == process.pid)
                status = json.loads(self.heapctl("status", process.pid, "--json", code=1)[0])
                for found in (account, row, status):
                    self.assertEqual(found["can_attach"], can_attach)
                    self.assertIn("" if can_attach else said, found["problem"])
                listed = next(line for line in self.heapctl("ps", "--all")[0].splitlines() if line.split()[0] == str(process.pid))
                self.assertIn("heapctl attach can load one" if can_attach else said, listed)

    def test_its_status_is_what_the_kernel_shows(self):
        process = self.start_plain()
        out, complaint = self.heapctl("status", process.pid, code=1)
        self.assertRegex(out, rf"(?m)^plain\d+\[{process.pid}\]\n  program +\S+plain\d+$")
        self.assertRegex(" ".join(out.split()), r"agent none; .* memory [\d.]+ MiB resident: 3\.\d MiB program break, 2\d\.\d MiB mapped anonymous, .* 6\.\d MiB shared")
        self.assertIn("has no agent (", complaint)
        status = json.loads(self.heapctl("status", process.pid, "--json", code=1)[0])
        self.assertEqual((status["state"], status["pid"], status["exe"], status["profiling"]["available"]),
                         ("no-agent", process.pid, os.readlink(f"/proc/{process.pid}/exe"), False))
        self.assertAlmostEqual(status["kernel"]["shmem_bytes"], 6 << 20, delta=1 << 19)
        parts = ("anonymous_bytes", "program_break_bytes", "files_bytes", "file_data_bytes", "shmem_bytes", "stacks_bytes")
        self.assertEqual(sum(status["kernel"][part] for part in parts), status["kernel"]["resident_bytes"])

    def test_a_path_that_is_not_utf8_hides_no_process(self):
        path = shutil.copy("/bin/sleep", os.path.join(self.folder, os.fsdecode(b"a\xff\x1b")))
        process = self.start(path, "1000")
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == path, "the program")
        row = next(row for row in json.loads(self.heapctl("ps", "--all", "--json")[0]) if row.get("pid") == process.pid)
        for found in (row, json.loads(self.heapctl("status", process.pid, "--json", code=1)[0])):
            self.assertEqual(found["exe"], rf"{self.folder}/a\xff\x1b")

    def test_heaps_of_glibcs_arenas_are_a_row(self):
        source = ("#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
                  "static void *fill(void *x) { for (int i = 0; i < 5000; i++) memset(malloc(1000), 1, 1000); write(1, \"ready\\n\", 6); pause(); return x; }\n"
                  "int main(void) { pthread_t t; pthread_create(&t, 0, fill, 0); return pause(); }\n")
        path = os.path.join(self.folder, "arenas")
        subprocess.run([need("cc"), "-w", "-fno-builtin", "-x", "c", "-", "-o", path, "-pthread"], input=source, text=True, check=True)
        process = self.start(path, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertAlmostEqual(self.rows(process.pid)[1]["arena_heaps"] / 5e6, 1, delta=0.1)

    def test_a_process_that_is_stopped(self):
        process = self.start_plain()
        stop(process.pid)
        self.rows(process.pid)
        self.assertIn("is stopped", self.heapctl("account", process.pid)[0])
        self.assertRegex(pathlib.Path(f"/proc/{process.pid}/status").read_text(), r"State:\tT")
        process.send_signal(signal.SIGCONT)

    def test_where_nothing_can_be_had_is_said(self):
        self.assertIn("there is no process", self.heapctl("account", 2 ** 22 - 1, code=1)[1])
        self.assertIn("no process is called", self.heapctl("account", own_name("none"), code=1)[1])
        command = shutil.copy(os.path.realpath("/bin/sleep"), os.path.join(self.folder, own_name("pair")))
        twins = [self.start(command, "1000") for _ in range(2)]
        wait_until(lambda: all("pair" in os.readlink(f"/proc/{twin.pid}/exe") for twin in twins), "both programs")
        self.assertIn("2 processes are called", self.heapctl("account", own_name("pair"), code=None)[1])

    @only_root
    def test_another_users_process(self):
        process = self.start_plain()
        command = shutil.copy(HEAPCTL, os.path.join(self.folder, "heapctl"))
        os.chmod(self.folder, 0o755)
        for verb in ("account", "status"):
            result = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", command, verb, str(process.pid)],
                                    capture_output=True, text=True, cwd="/")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, r"permission denied \(it belongs to root: run heapctl as that user or as root\)")


if __name__ == "__main__":
    sys.exit(unittest.main())
