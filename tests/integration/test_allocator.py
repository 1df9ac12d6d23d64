# SPDX-License-Identifier: Apache-2.0
"""Which allocator a process has, in every way it can have one, and what jemalloc's controls do in it."""
import json
import os
import re
import shutil
import subprocess
import unittest

from processes import BUILD, Case, jemalloc_path, need

PROGRAMS = BUILD / "tests/integration"
PROBE = str(PROGRAMS / "liballocator_probe.so")
PROFILING = "prof:true,prof_active:false"


class AllocatorCase(Case):
    def probe(self, program, *actions, conf=PROFILING, preload=(), env=None, wrap=()):
        """The probe's report from inside a variant of allocator_host; `actions` are done first."""
        path = program if os.path.isabs(program) else str(PROGRAMS / f"allocator_host_{program}")
        settings = dict(self.environment, MALLOC_CONF=conf, **(env or {}))
        if conf is None:
            del settings["MALLOC_CONF"]
        preloads = "LD_PRELOAD=" + ":".join([PROBE, *preload])
        result = subprocess.run([*wrap, "env", preloads, path, *map(str, actions)], env=settings, cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def act(self, *actions, program="linked", **options):
        return self.probe(program, *actions, **options)["actions"]

    def assert_jemalloc(self, report, found_by, where, symbol="mallctl"):
        identity = report["identity"]
        self.assertEqual(identity["name"], "jemalloc")
        self.assertEqual(identity["found_by"], found_by)
        self.assertEqual(identity["symbol"], symbol)
        self.assertIn(where, identity["where"])
        self.assertEqual((identity["major"], identity["minor"]), (5, 3))

    def assert_unavailable(self, report, message, hint):
        available = report["available"]
        self.assertFalse(available["ok"])
        self.assertEqual(available["kind"], "unsupported")
        self.assertRegex(available["message"], message)
        self.assertRegex(available["hint"], hint)

    def codes(self, report):
        return {warning["code"] for warning in report["warnings"]}


class Finding(AllocatorCase):
    def test_linked(self):
        report = self.probe("linked")
        self.assert_jemalloc(report, "dynamic", "libjemalloc.so.2")
        self.assertTrue(report["identity"]["owns_malloc"])
        self.assertTrue(report["available"]["ok"])
        self.assertEqual(report["profiling"]["unwinder"], "libgcc")
        self.assertIn("prof.dump", report["capabilities"])
        self.assertNotIn("experimental.hooks.prof_sample", report["capabilities"])

    def test_preloaded(self):
        report = self.probe("plain", preload=[jemalloc_path()])
        self.assert_jemalloc(report, "dynamic", "libjemalloc.so.2")
        self.assertTrue(report["identity"]["owns_malloc"])

    def test_static_without_dynamic_names(self):
        report = self.probe("static")
        self.assert_jemalloc(report, "symbol-table", "allocator_host_static")
        self.assertTrue(report["identity"]["owns_malloc"])
        self.assertEqual(report["identity"]["jemalloc_count"], 1)
        self.assertTrue(report["available"]["ok"])

    def test_static_controls_work(self):
        active, _, dump = self.act("active", "true", "allocate", 8, "dump", program="static",
                                   conf=PROFILING + ",lg_prof_sample:12")
        self.assertTrue(active["now"])
        self.assertRegex(dump["text"], r"\n@ 0x")

    def test_prefixed_beside_another_malloc(self):
        report = self.probe("prefixed")
        self.assert_jemalloc(report, "symbol-table", "allocator_host_prefixed", "_rjem_mallctl")
        self.assertFalse(report["identity"]["owns_malloc"])
        self.assertEqual(report["identity"]["malloc_name"], "glibc")
        # Its functions were renamed after it was configured, so it reads this variable.
        self.assertEqual(report["configuration"]["variable"], "MALLOC_CONF")
        self.assertEqual(report["configuration"]["ignored_variable"], "")
        self.assertIn("malloc-not-owned", self.codes(report))
        report = self.probe("prefixed", conf="prof:false", env={"_RJEM_MALLOC_CONF": "prof:true"})
        self.assertEqual(report["configuration"]["variable"], "MALLOC_CONF")
        self.assertEqual(report["configuration"]["ignored_variable"], "_RJEM_MALLOC_CONF")
        self.assertIn("variable-ignored", self.codes(report))

    def test_two_jemallocs(self):
        report = self.probe("prefixed", preload=[jemalloc_path()])
        self.assert_jemalloc(report, "dynamic", "libjemalloc.so.2")
        self.assertTrue(report["identity"]["owns_malloc"])
        self.assertEqual(report["identity"]["jemalloc_count"], 2)
        self.assertIn("_rjem_mallctl in ", report["identity"]["other_jemalloc"])
        self.assertIn("another-jemalloc", self.codes(report))

    def test_loaded_for_one_library_only(self):
        report = self.probe("plain", env={"HOST_DLOPEN_LOCAL": jemalloc_path(),
                                          "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"})
        self.assert_jemalloc(report, "library", "libjemalloc.so.2")
        self.assertFalse(report["identity"]["owns_malloc"])
        self.assertIn("malloc-not-owned", self.codes(report))

    def test_absent(self):
        report = self.probe("plain")
        self.assertEqual(report["identity"]["name"], "glibc")
        self.assertIn("libc.so", report["identity"]["where"])
        self.assert_unavailable(report, "uses the malloc of glibc", "heapctl run")

    def test_absent_in_a_program_with_the_agent_inside(self):
        """The words that the search looks for are then in the program itself."""
        for options in ([], ["--strip-all"]):
            path = os.path.join(self.folder, "alone")
            subprocess.run([need("objcopy"), *options, PROGRAMS / "allocator_probe_alone", path], check=True)
            result = subprocess.run([path], env=dict(self.environment), capture_output=True, text=True, timeout=60)
            self.assert_unavailable(json.loads(result.stdout), "uses the malloc of glibc", "heapctl run")

    def test_another_allocator(self):
        library = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
        if not os.path.exists(library):
            self.skipTest("libgoogle-perftools4 is not installed")
        report = self.probe("plain", preload=[library])
        self.assertEqual(report["identity"]["name"], "tcmalloc")
        self.assert_unavailable(report, "uses the malloc of tcmalloc", "LD_PRELOAD")

    def test_linked_but_replaced(self):
        """The allocator that the program calls counts, not the one that it is linked with."""
        library = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"
        if not os.path.exists(library):
            self.skipTest("libmimalloc2.0 is not installed")
        for conf in ("prof:true", ""):
            report = self.probe("linked", preload=[library], conf=conf)
            self.assertEqual((report["identity"]["name"], report["identity"]["malloc_name"]), ("mimalloc", "mimalloc"))
            self.assert_unavailable(report, "uses the malloc of mimalloc", "LD_PRELOAD")
        # A program's calls of its own jemalloc do not pass the loader.
        report = self.probe("prefixed", preload=[library])
        self.assert_jemalloc(report, "symbol-table", "allocator_host_prefixed", "_rjem_mallctl")

    def test_fully_static_and_stripped(self):
        """The linker tells where even symbols are gone. Profiling itself cannot be on: it aborts there."""
        path = os.path.join(self.folder, "bare")
        subprocess.run([need("strip"), "-o", path, PROGRAMS / "allocator_probe_static"], check=True)
        result = subprocess.run([path], env=dict(self.environment), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assert_jemalloc(report, "dynamic", path)
        self.assertTrue(report["identity"]["owns_malloc"])
        self.assertIn("static-unwinder", self.codes(report))
        self.assert_unavailable(report, "not enabled", "link the C library dynamically")


class Stripped(AllocatorCase):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.folder, "bare")

    def strip(self, name, *options):
        subprocess.run([need("strip"), *options, "-o", self.program, PROGRAMS / f"allocator_host_{name}"], check=True)

    def test_says_where_debug_symbols_would_be_found(self):
        self.strip("static")
        report = self.probe(self.program)
        self.assertEqual(report["identity"]["jemalloc_count"], 0)
        self.assert_unavailable(report, "bare contains jemalloc, but no symbol table",
                                r"/usr/lib/debug/\.build-id/[0-9a-f]{2}/[0-9a-f]{38}\.debug")

    def test_prefixed_is_seen_beside_another_malloc(self):
        self.strip("prefixed")
        self.assert_unavailable(self.probe(self.program), "contains jemalloc", "debug symbols")

    def test_left_out_by_the_linker(self):
        self.strip("prefixed", "--keep-symbol=main", "--strip-symbol=_rjem_mallctl")
        self.assert_unavailable(self.probe(self.program), "linked without its mallctl function", r"-u,_rjem_mallctl")

    def test_found_through_the_debug_file(self):
        mount = need("mount")
        script = (f"{mount} -t tmpfs none /usr/lib/debug && mkdir -p \"$(dirname \"$1\")\" && cp \"$2\" \"$1\" && "
                  "shift 2 && exec \"$@\"")
        if subprocess.run([need("unshare"), "-m", "sh", "-c", f"{mount} -t tmpfs none /usr/lib/debug"],
                          capture_output=True).returncode != 0:
            self.skipTest("mounting is not allowed here")
        self.strip("static")
        debug = os.path.join(self.folder, "symbols")
        subprocess.run([need("objcopy"), "--only-keep-debug", PROGRAMS / "allocator_host_static", debug], check=True)
        build_id = re.search(r"\.build-id/(\S+\.debug)", self.probe(self.program)["available"]["hint"]).group(1)
        report = self.probe(self.program, wrap=["unshare", "-m", "sh", "-c", script, "sh",
                                                f"/usr/lib/debug/.build-id/{build_id}", debug])
        self.assert_jemalloc(report, "debug-file", self.program)
        self.assertTrue(report["identity"]["owns_malloc"])
        # A file of another build would give wrong names.
        shutil.copy(PROGRAMS / "allocator_host_prefixed", debug)
        report = self.probe(self.program, wrap=["unshare", "-m", "sh", "-c", script, "sh",
                                                f"/usr/lib/debug/.build-id/{build_id}", debug])
        self.assertFalse(report["available"]["ok"])


class Configuration(AllocatorCase):
    def test_not_enabled(self):
        report = self.probe("linked", "active", "true", "active", "false", "dump", "quiet", "read", "prof.lg_sample", "",
                            conf=None)
        self.assert_unavailable(report, "not enabled in this process", r"MALLOC_CONF=prof:true,prof_active:false")
        switch_on, switch_off, dump, quiet, read = report["actions"]
        for refused in (switch_on, switch_off, dump):
            self.assertEqual(refused["kind"], "unsupported")
        self.assertTrue(quiet["ok"])
        self.assertTrue(read["ok"] or "not enabled" in read["message"])

    def test_malformed_pairs_are_reported(self):
        report = self.probe("linked", conf="prof:true,prof_prefix:/x:prof_active:false")
        self.assertIn("conf-malformed", self.codes(report))
        self.assertTrue(report["profiling"]["active_at_start"])
        self.assertEqual(report["profiling"]["prefix"], "/x:prof_active:false")

    def test_a_variable_that_is_not_read(self):
        report = self.probe("linked", conf=None, env={"JEMALLOC_CONF": PROFILING})
        self.assertFalse(report["profiling"]["enabled"])
        self.assertEqual(report["configuration"]["ignored_variable"], "JEMALLOC_CONF")
        self.assertIn("variable-ignored", self.codes(report))

    def test_options_that_the_program_sets(self):
        report = self.probe("linked", conf=None, preload=[str(PROGRAMS / "liballocator_conf.so")])
        self.assertTrue(report["available"]["ok"])
        self.assertEqual(report["profiling"]["lg_sample"], 17)
        self.assertIn("lg_prof_sample:17", report["configuration"]["program"])
        [warning] = [warning for warning in report["warnings"] if warning["code"] == "conf-malformed"]
        self.assertIn("the program's malloc_conf", warning["message"])
        self.assertIn("nosuch", warning["message"])

    def test_privileges_gained_at_the_start(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make a set-user-ID file of another user")
        path = os.path.join(self.folder, "privileged")
        shutil.copy(PROGRAMS / "allocator_probe_static", path)
        os.chmod(path, 0o4755)
        result = subprocess.run([need("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", path],
                                env=dict(self.environment, MALLOC_CONF="prof:true"), capture_output=True, text=True, timeout=60)
        report = json.loads(result.stdout)
        if not report["configuration"]["secure"]:
            self.skipTest("set-user-ID files have no effect here")
        self.assertFalse(report["profiling"]["enabled"])
        self.assertIn("secure-start", self.codes(report))
        self.assert_unavailable(report, "not enabled", "as the user it runs as")

    def test_options_that_surprise(self):
        codes = self.codes(self.probe("linked", conf="prof:true,lg_prof_sample:8,prof_accum:true,lg_prof_interval:40,"
                                                     "prof_prefix:,prof_thread_active_init:false"))
        self.assertTrue({"lg-sample-low", "accumulates", "automatic-dumps", "prefix-empty", "threads-start-inactive"} <= codes,
                        codes)

    def test_a_wide_interval_for_a_small_heap(self):
        self.assertIn("sample-interval-wide", self.codes(self.probe("linked")))
        self.assertNotIn("sample-interval-wide",
                         self.codes(self.probe("linked", "allocate", 4, conf=PROFILING + ",lg_prof_sample:14")))

    def test_code_made_at_run_time(self):
        # This jemalloc lets the unwinder be replaced.
        self.assertNotIn("unwinder-jit", self.codes(self.probe("linked", "jit")))


class Operating(AllocatorCase):
    fine = PROFILING + ",lg_prof_sample:12"

    def test_samples_while_active(self):
        on, _, off, dump = self.act("active", "true", "allocate", 4, "active", "false", "dump", conf=self.fine)
        self.assertEqual((on["was"], on["now"]), (False, True))
        self.assertEqual((off["was"], off["now"]), (True, False))
        self.assertTrue(dump["text"].startswith("heap_v2/4096\n"))
        self.assertRegex(dump["text"], r"\n@ 0x")
        self.assertIn("MAPPED_LIBRARIES:", dump["text"])

    def test_a_thread_can_stay_out(self):
        _, _, _, dump = self.act("active", "true", "quiet", "allocate", 4, "dump", conf=self.fine)
        self.assertRegex(dump["text"], r"t\*: 0: 0 ")

    def test_reset(self):
        _, _, reset, dump = self.act("active", "true", "allocate", 4, "reset", 16, "dump", conf=self.fine)
        self.assertEqual(reset["lg_sample"], 16)
        self.assertTrue(dump["text"].startswith("heap_v2/65536\n"))
        self.assertRegex(dump["text"], r"t\*: 0: 0 ")
        low, high = self.act("reset", 5, "reset", 64, conf=self.fine)
        self.assertEqual((low["kind"], high["kind"]), ("denied", "usage"))

    def test_why_a_dump_could_not_be_written(self):
        os.mkfifo(os.path.join(self.folder, "pipe"))
        full, missing, folder, pipe = self.act("dump-open", "/dev/full", "dump-path", "/nonexistent/x.heap",
                                               "dump-path", self.folder, "dump-path", "pipe")
        self.assertIn("No space left on device", full["message"])
        self.assertIn("/nonexistent/x.heap: No such file", missing["message"])
        self.assertIn("Is a directory", folder["message"])
        self.assertEqual(pipe["kind"], "usage")

    def test_a_limit_on_file_size(self):
        """A dump beyond it is an error with the reason, also in a memfd, where SIGXFSZ is ignored."""
        [dump] = self.act("dump", wrap=["sh", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\" | cat", "sh"])
        self.assertIn("File too large", dump["message"])

    def test_statistics(self):
        summary, everything, table, bad = self.act("stats", "-", "stats", "J", "stats", "a", "stats", "Z")
        self.assertEqual(json.loads(summary["text"])["jemalloc"]["opt"]["prof"], True)
        self.assertLess(len(summary["text"]), len(everything["text"]))
        self.assertIn("___ Begin jemalloc statistics ___", table["text"])
        self.assertEqual(bad["kind"], "usage")

    def test_memory(self):
        before, _, after = self.act("memory", "allocate", 16, "memory")
        self.assertGreater(after["allocated"] - before["allocated"], 15 << 20)
        self.assertGreaterEqual(after["resident"], after["active"])
        self.assertGreaterEqual(after["active"], after["allocated"])
        self.assertGreater(after["metadata"], 0)

    def test_takes_nothing_from_the_heap(self):
        before, *_, after = self.act("read", "thread.allocated", "u64", "memory", "active", "true", "active", "false",
                                     "stats", "-", "read", "version", "", "read", "thread.allocated", "u64")
        self.assertEqual(after["value"], before["value"])


class Names(AllocatorCase):
    # One of each kind, with the type that jemalloc's manual gives it.
    readable = {
        "version": "string", "epoch": "u64", "background_thread": "bool", "max_background_threads": "size",
        "config.prof": "bool", "config.malloc_conf": "string", "opt.narenas": "u32", "opt.dirty_decay_ms": "ssize",
        "opt.lg_prof_sample": "size", "opt.lg_prof_interval": "ssize", "opt.prof_prefix": "string",
        "opt.mutex_max_spin": "ssize", "opt.tcache_nslots_large": "u32", "opt.lg_tcache_flush_small_div": "u32",
        "opt.hpa_dirty_mult": "u32", "opt.stats_interval": "ssize", "thread.arena": "u32", "thread.allocated": "u64",
        "thread.peak.read": "u64", "thread.tcache.enabled": "bool", "thread.prof.active": "bool",
        "thread.prof.name": "string", "arena.0.initialized": "bool", "arena.0.dss": "string",
        "arena.0.retain_grow_limit": "size", "arenas.narenas": "u32", "arenas.page": "size", "arenas.bin.0.size": "size",
        "arenas.bin.0.nregs": "u32", "arenas.lextent.0.size": "size", "prof.active": "bool", "prof.lg_sample": "size",
        "prof.interval": "u64", "stats.resident": "size", "stats.mutexes.prof.num_ops": "u64",
        "stats.mutexes.prof.max_num_thds": "u32", "stats.arenas.0.uptime": "u64", "stats.arenas.4096.pactive": "size",
        "stats.arenas.0.small.nmalloc": "u64", "stats.arenas.0.bins.0.curregs": "size",
        "stats.arenas.0.bins.0.mutex.num_ops": "u64", "stats.arenas.0.lextents.0.curlextents": "size",
        "stats.arenas.0.extents.0.ndirty": "size", "stats.arenas.0.hpa_shard.full_slabs.ndirty_huge": "size",
        "experimental.prof_recent.alloc_max": "ssize",
    }

    def test_types_are_those_of_jemalloc(self):
        actions = self.act(*(word for name in self.readable for word in ("read", name, "")))
        self.assertEqual({action["name"]: action["type"] if action["ok"] else action for action in actions}, self.readable)

    def test_writing(self):
        decay, read, purge, active, was = self.act(
            "write", "arenas.dirty_decay_ms", "-1", "", "read", "arenas.dirty_decay_ms", "",
            "write", "arena.4096.purge", "", "", "write", "prof.active", "true", "", "read", "prof.active", "")
        self.assertTrue(decay["ok"] and purge["ok"] and active["ok"])
        self.assertEqual(read["value"], -1)
        self.assertIs(was["value"], True)

    def test_intent_is_asked_for(self):
        path = os.path.join(self.folder, "x.heap")
        careless, meant = self.act("write", "prof.dump", path, "", "write", "prof.dump", path, "force")
        self.assertEqual(careless["kind"], "denied")
        self.assertTrue(meant["ok"])
        self.assertTrue(os.path.exists(path))

    def test_what_would_crash_is_refused(self):
        for name in ("arenas.lookup", "experimental.hooks.install", "experimental.hooks.prof_backtrace",
                     "experimental.utilization.query", "arena.0.extent_hooks", "experimental.prof_recent.alloc_dump"):
            read, write = self.act("read", name, "u64", "write", name, "1", "force")
            self.assertEqual((read["kind"], write["kind"]), ("denied", "denied"), name)

    def test_what_there_is_not(self):
        missing, untyped, wrong, fixed = self.act("read", "no.such", "u64", "read", "no.such", "", "read", "prof.active", "u64",
                                                  "write", "opt.narenas", "3", "")
        self.assertEqual([action["kind"] for action in (missing, untyped, wrong, fixed)],
                         ["not-found", "usage", "usage", "denied"])
        self.assertIn("5.3.0", missing["message"])


if __name__ == "__main__":
    unittest.main()
