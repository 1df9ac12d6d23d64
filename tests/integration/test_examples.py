#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/: embedded in C, C++ and Rust, with jemalloc in every way, and built against what is installed."""
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from processes import AGENT, BUILD, HEAPCTL, PATIENCE_SECONDS, Case, ask, free_port, jemalloc_path, need, wait_until

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = BUILD / "examples"
PROFILING = "prof:true,prof_active:false,lg_prof_sample:12"


def setUpModule():
    if os.environ.get("HEAPCTL_SANITIZE", "none") != "none":
        raise unittest.SkipTest("the examples are not built with sanitizers: those bring an allocator of their own")


class EventLoop(Case):
    """examples/event_loop.c: no thread, and the same program with every way to have jemalloc."""

    def start_loop(self, program=EXAMPLES / "event_loop_linked", conf=PROFILING, env=None):
        """The process, its port, and what it printed at its start."""
        port = free_port()
        output = pathlib.Path(self.folder, f"output.{port}")
        with output.open("wb") as log:
            process = self.start(program, port, env=dict(env or {}, MALLOC_CONF=conf), stderr=log,
                                 wait_for=lambda: re.search(r"^(no )?(profiling|agent): .*\n", output.read_text(), re.M))
        return process, port, output.read_text()

    def send_lines(self, port, count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as s:
            for _ in range(count):
                s.sendall(b"x" * 2000)
                answer = s.recv(100)
        return int(answer)

    def test_the_agent_runs_in_the_programs_loop(self):
        process, port, _ = self.start_loop()
        self.assertEqual(len(os.listdir(f"/proc/{process.pid}/task")), 1)
        self.heapctl("activate", process.pid)
        self.assertGreater(self.send_lines(port, 200), 1)
        path = os.path.join(self.folder, "loop.heap")
        self.heapctl("dump", process.pid, "-o", path)
        report, _ = self.heapctl("report", "--text", path)
        self.assertIn("keep_line", report)
        self.heapctl("deactivate", process.pid)
        # A run ends on time without a client: the timer is behind the same descriptor.
        self.heapctl("start", process.pid, "--duration", "1s")
        runs = wait_until(lambda: [run for run in ask(self.socket_of(process.pid), "/v1/runs")[1]["runs"] if run["state"] != "running"],
                          "the run to end")
        self.assertEqual((runs[0]["state"], runs[0]["ended_by"]), ("finished", "deadline"))
        self.assertEqual(self.send_lines(port, 1), 201)

    def check_profiling(self, program, symbol="mallctl", interval=4096, **options):
        process, port, said = self.start_loop(program, **options)
        self.assertRegex(said, r"^profiling: jemalloc 5\.3")
        status = ask(self.wait_for_agent(process.pid), "/v1/status")[1]
        self.assertTrue(status["profiling"]["available"])
        self.assertEqual(status["allocator"]["symbol"], symbol)
        self.heapctl("activate", process.pid)
        self.send_lines(port, 200)
        profile = ask(self.socket_of(process.pid), "/v1/profile")[1]
        self.assertTrue(profile.startswith(b"heap_v2/%d\n" % interval))
        return status, profile.count(b"\n@ ")

    def check_no_profiling(self, program, reason, **options):
        process, _, said = self.start_loop(program, **options)
        self.assertRegex(said, "^no profiling: .*" + reason)
        status = ask(self.wait_for_agent(process.pid), "/v1/status")[1]
        self.assertFalse(status["profiling"]["available"])
        self.assertRegex(status["profiling"]["reason"] + status["profiling"]["hint"], reason)

    def test_jemalloc_linked(self):
        self.assertGreater(self.check_profiling(EXAMPLES / "event_loop_linked")[1], 0)

    def test_jemalloc_preloaded(self):
        self.assertGreater(self.check_profiling(EXAMPLES / "event_loop", env={"LD_PRELOAD": jemalloc_path()})[1], 0)

    def test_jemalloc_and_agent_static(self):
        status, stacks = self.check_profiling(EXAMPLES / "event_loop_static")
        self.assertGreater(stacks, 0)
        self.assertIn("event_loop_static", status["allocator"]["where"])

    def test_everything_static(self):
        """There the unwinder would end the program, so enabling is not what it is told to do."""
        self.check_no_profiling(EXAMPLES / "event_loop_all_static", "link the C library dynamically", conf="")

    def test_everything_static_with_a_wrapped_unwinder(self):
        for interval in (12, 0):
            status, stacks = self.check_profiling(EXAMPLES / "event_loop_all_static_stacks",
                                                  conf=f"prof:true,prof_active:true,lg_prof_sample:{interval}", interval=1 << interval)
            self.assertGreater(stacks, 0)
            self.assertNotIn("static-unwinder", {warning["code"] for warning in status["warnings"]})

    def test_jemalloc_prefixed(self):
        """malloc is not that jemalloc's, and the program must report it."""
        status, stacks = self.check_profiling(EXAMPLES / "event_loop_prefixed", symbol="_rjem_mallctl")
        self.assertEqual(stacks, 0)
        self.assertIn("malloc-not-owned", {warning["code"] for warning in status["warnings"]})

    def check_own_sampler(self, program, allocator, **options):
        """heapctl samples where jemalloc does not."""
        process, port, said = self.start_loop(program, **options)
        self.assertRegex(said, "^profiling: " + allocator)
        status = ask(self.wait_for_agent(process.pid), "/v1/status")[1]
        self.assertEqual(status["profiling"]["sampler"], "heapctl")
        self.heapctl("activate", process.pid)
        self.send_lines(port, 2000)
        path = os.path.join(self.folder, "own.heap")
        self.heapctl("dump", process.pid, "-o", path)
        self.assertIn("keep_line", self.heapctl("report", "--text", path)[0])

    def test_no_jemalloc(self):
        self.check_own_sampler(EXAMPLES / "event_loop", "glibc")

    def test_profiling_not_enabled(self):
        self.check_own_sampler(EXAMPLES / "event_loop_linked", "jemalloc", conf="prof:false")

    def test_a_second_agent_leaves_the_socket_to_the_first(self):
        process, _, said = self.start_loop(EXAMPLES / "event_loop_static", env={"LD_PRELOAD": AGENT})
        self.assertIn("libheapctl.so is in this process as well", said)
        self.assertEqual(ask(self.wait_for_agent(process.pid), "/v1/status")[0], 200)
        self.assertEqual(os.listdir(self.agents), [f"{process.pid}.sock"])


class HttpServer(Case):
    """examples/http_server.c: heapctl_handle behind another HTTP server."""

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.process = self.start(EXAMPLES / "http_server", self.port, env={"MALLOC_CONF": PROFILING},
                                  wait_for=lambda: self.ask("GET", "/") is not None)

    def ask(self, method, target, body=None):
        """(status, type, body); None when no server answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()

    def test_mounted_requests(self):
        self.assertIn(b"My heap is at", self.ask("GET", "/")[2])
        status, kind, body = self.ask("GET", "/heapctl/v1/status")
        self.assertEqual(status, 200)
        self.assertIn("json", kind)
        self.assertEqual(json.loads(body)["name"], "http_server")
        self.assertEqual(self.ask("POST", "/heapctl/v1/activate")[0], 200)
        for _ in range(2):
            status, kind, body = self.ask("GET", "/heapctl/v1/profile")
            self.assertEqual((status, kind), (200, "application/x-jemalloc-heap-profile"))
            self.assertTrue(body.startswith(b"heap_v2/4096\n"))
            self.assertIn(b"MAPPED_LIBRARIES", body)
        self.assertEqual(self.ask("POST", "/heapctl/v1/deactivate")[0], 200)

    def test_parameters_in_query_and_form(self):
        run = json.loads(self.ask("POST", "/heapctl/v1/runs?duration_ms=60000")[2])
        self.assertEqual(run["duration_ms"], 60000)
        self.assertEqual(self.ask("POST", "/heapctl/v1/runs/stop")[0], 200)
        run = json.loads(self.ask("POST", "/heapctl/v1/runs", "duration_ms=70000")[2])
        self.assertEqual(run["duration_ms"], 70000)
        self.assertEqual(self.ask("POST", "/heapctl/v1/runs/stop")[0], 200)

    def test_errors_are_answers_too(self):
        self.assertEqual(self.ask("GET", "/heapctl/v1/nothing")[0], 404)
        self.assertEqual(self.ask("GET", "/heapctl/v1/activate")[0], 405)
        self.assertEqual(self.ask("POST", "/heapctl/v1/runs?duration=60")[0], 400)
        self.assertEqual(self.ask("POST", "/heapctl/v1/runs/stop")[0], 409)

    def test_there_is_no_socket_and_no_leak_of_descriptors(self):
        self.assertFalse(os.path.exists(self.socket_path()))
        self.ask("GET", "/heapctl/v1/profile")
        before = self.descriptors()
        for _ in range(20):
            self.assertEqual(self.ask("GET", "/heapctl/v1/profile")[0], 200)
        # Half of what a leak by each request adds: the threads may not have opened all of theirs before.
        wait_until(lambda: len(self.descriptors()) <= len(before) + 10, lambda: f"descriptors to be closed: {before}, now {self.descriptors()}")

    def descriptors(self):
        folder = f"/proc/{self.process.pid}/fd"
        return sorted(os.listdir(folder), key=int)

    def socket_path(self):
        return self.socket_of(self.process.pid)


class CPlusPlus(Case):
    def run_example(self, conf=PROFILING):
        self.path = os.path.join(self.folder, "work.heap")
        return subprocess.run([EXAMPLES / "cplusplus", self.path], env=dict(self.environment, MALLOC_CONF=conf), capture_output=True,
                              text=True, timeout=PATIENCE_SECONDS)

    def test_a_timed_run(self):
        result = self.run_example()
        self.assertEqual(result.returncode, 0, result.stderr)
        match = re.match(r"run \d+: (\d+) bytes more, profile of (\d+) bytes, statistics of (\d+) bytes\n$", result.stdout)
        self.assertTrue(match, result.stdout)
        self.assertGreater(int(match[1]), 20_000_000)
        self.assertGreater(int(match[2]), 1000)
        self.assertGreater(int(match[3]), 1000)
        report, _ = self.heapctl("report", "--text", self.path)
        self.assertIn("make_index", report)

    def test_heapctl_samples_where_jemalloc_does_not(self):
        result = self.run_example(conf="prof:false")
        self.assertEqual(result.returncode, 0, result.stderr)


class Rust(Case):
    def start_server(self, *words, env=None):
        need("rustc")
        process = self.start(HEAPCTL, "run", *words, EXAMPLES / "rust_server", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wait_for_agent(process.pid)
        return process, ask(self.socket_of(process.pid), "/v1/status")[1]

    def test_run_sets_the_variable_that_it_reads(self):
        process, status = self.start_server()
        self.assertEqual(status["allocator"]["symbol"], "_rjem_mallctl")
        self.assertTrue(status["profiling"]["available"], status["profiling"])
        self.assertEqual(status["malloc_conf"]["variable"], "MALLOC_CONF")
        shown, _ = self.heapctl("status", process.pid)
        self.assertRegex(" ".join(shown.split()), r"options prof:true,prof_active:false \(MALLOC_CONF\)")

    def test_run_takes_options_of_the_variable_that_it_does_not_read(self):
        _, status = self.start_server(env={"_RJEM_MALLOC_CONF": "lg_prof_sample:14"})
        self.assertEqual(status["profiling"]["lg_sample"], 14)
        self.assertEqual(status["malloc_conf"]["ignored_variable"], "_RJEM_MALLOC_CONF")

    def test_options_that_are_not_in_effect_are_not_shown(self):
        need("rustc")
        process = self.start(EXAMPLES / "rust_server", env={"LD_PRELOAD": AGENT, "_RJEM_MALLOC_CONF": PROFILING}, stdin=subprocess.PIPE)
        path = self.wait_for_agent(process.pid)
        status = ask(path, "/v1/status")[1]
        self.assertFalse(status["profiling"]["available"])
        self.assertEqual(status["malloc_conf"]["environment"], "")
        self.assertEqual(status["malloc_conf"]["variable"], "MALLOC_CONF")
        self.assertEqual(status["malloc_conf"]["ignored_variable"], "_RJEM_MALLOC_CONF")
        self.assertIn(" MALLOC_CONF=prof:true", status["profiling"]["hint"])
        self.assertIn("variable-ignored", [warning["code"] for warning in status["warnings"]])
        self.assertNotIn("lg_prof_sample:12", self.heapctl("status", process.pid)[0])

    def test_reached_by_the_agent(self):
        """heapctl run brings the agent; the program is unchanged and malloc stays the C library's."""
        need("rustc")
        program = EXAMPLES / "rust_server"
        self.assertTrue(program.exists(), "rustc is there, but the example is not built")
        # This jemalloc is Debian's with its functions renamed, so it reads Debian's variable.
        process = self.start(program, env={"LD_PRELOAD": AGENT, "MALLOC_CONF": PROFILING}, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        path = self.wait_for_agent(process.pid)
        status = ask(path, "/v1/status")[1]
        self.assertEqual(status["allocator"]["symbol"], "_rjem_mallctl")
        self.assertTrue(status["profiling"]["available"])
        self.assertIn("malloc-not-owned", {warning["code"] for warning in status["warnings"]})
        self.heapctl("activate", process.pid)
        for number in range(1, 4):
            process.stdin.write(b"a line of text that is long enough\n")
            process.stdin.flush()
            self.assertEqual(int(process.stdout.readline()), number * 1000)
        profile = os.path.join(self.folder, "rust.heap")
        self.heapctl("dump", process.pid, "-o", profile)
        report, _ = self.heapctl("report", "--text", profile)
        self.assertIn("keep_many", report)


class Installed(Case):
    """What `make install` installs is enough to build and run programs."""

    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(tempfile.mkdtemp(prefix="hc-tree-"))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        subprocess.run([need("meson"), "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.tree], check=True,
                       capture_output=True)
        cls.pc = next(cls.tree.rglob("heapctl.pc"))
        cls.libraries = next(cls.tree.rglob("libheapctl.so")).parent

    def pkg_config(self, *options):
        return subprocess.run([need("pkg-config"), *options, "heapctl"], check=True, capture_output=True, text=True,
                              env=dict(self.environment, PKG_CONFIG_PATH=str(self.pc.parent),
                                       PKG_CONFIG_SYSROOT_DIR=str(self.tree))).stdout.split()

    def build(self, source, *flags, compiler="cc"):
        program = pathlib.Path(self.folder, "program")
        subprocess.run([need(compiler), "-Wall", "-Wextra", "-Werror", "-o", program, SOURCE / "examples" / source, *flags], check=True)
        return program

    def check(self, program, env=None):
        port = free_port()
        process = self.start(program, port, env=dict(env or {}, MALLOC_CONF=PROFILING, LD_PRELOAD=jemalloc_path()))
        self.wait_for_agent(process.pid)
        self.heapctl("dump", process.pid, "-o", os.path.join(self.folder, "program.heap"))

    def test_shared(self):
        self.check(self.build("event_loop.c", *self.pkg_config("--cflags", "--libs")), {"LD_LIBRARY_PATH": str(self.libraries)})

    def test_static(self):
        program = self.build("event_loop.c", *self.pkg_config("--cflags"), f"-L{self.libraries}", "-l:libheapctl.a", "-pthread")
        needed = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("libheapctl", needed)
        self.check(program)

    def test_the_plugin_shows_one_name_and_needs_libc_only(self):
        plugins = list(self.tree.rglob("memory_profile.so"))
        if not plugins:
            self.skipTest("trafficserver-dev is not installed")
        names = subprocess.run(["nm", "-D", "--defined-only", plugins[0]], check=True, capture_output=True, text=True).stdout.split("\n")
        self.assertEqual([line.split()[-1] for line in names if line], ["TSPluginInit"])
        needed = subprocess.run(["readelf", "-d", plugins[0]], check=True, capture_output=True, text=True).stdout
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", needed), ["libc.so.6"])


class ManPage(unittest.TestCase):
    def test_it_has_every_function(self):
        text = re.sub(r"/\*.*?\*/", "", (SOURCE / "include/heapctl.h").read_text(), flags=re.S)
        functions = set(re.findall(r"HEAPCTL_API[^;(]*?\b(heapctl_\w+)\(", text))
        self.assertGreater(len(functions), 15)
        page = (SOURCE / "docs/heapctl.3").read_text()
        synopsis, description = page.split(".Sh DESCRIPTION")
        for part in (synopsis, description):
            self.assertEqual(set(re.findall(r"^\.F[no] (heapctl_\w+)", part, re.M)), functions)

    def test_it_has_every_member_and_every_constant(self):
        text = re.sub(r"/\*.*?\*/", "", (SOURCE / "include/heapctl.h").read_text(), flags=re.S)
        members = {name for body in re.findall(r"^struct heapctl_\w+ {(.*?)^};", text, re.M | re.S)
                   for name in re.findall(r"(\w+)(?:\[\d+\])?;|\(\*(\w+)\)", body) for name in name if name}
        constants = {name for body in re.findall(r"^enum heapctl_\w+ {(.*?)}", text, re.M | re.S) for name in re.findall(r"HEAPCTL_\w+", body)}
        self.assertGreater(len(members), 40)
        self.assertGreater(len(constants), 12)
        description = (SOURCE / "docs/heapctl.3").read_text().split(".Sh DESCRIPTION")[1]
        said = set(re.findall(r"\w+", " ".join(re.findall(r"^\.(?:It |Pq )?(?:Va|Dv|Fa|Er) .*", description, re.M))))
        self.assertEqual((members | constants) - said - {"reserved"}, set())

    def test_it_is_well_formed(self):
        result = subprocess.run([need("mandoc"), "-T", "lint", "-W", "warning", SOURCE / "docs/heapctl.3"], capture_output=True, text=True)
        self.assertEqual(result.stdout, "")

    def test_every_function_has_a_page_that_is_installed(self):
        public = (SOURCE / "src/agent/heapctl.map").read_text().partition("HEAPCTL_PRIVATE")[0]
        functions = set(re.findall(r"^\t(heapctl_\w+);", public, re.M))
        self.assertGreater(len(functions), 15)
        pages = SOURCE / "docs/man3"
        self.assertEqual({path.stem for path in pages.iterdir()}, functions)
        installed = json.loads(subprocess.run(["meson", "introspect", BUILD, "--installed"], check=True, capture_output=True, text=True).stdout)
        self.assertEqual({pathlib.Path(path).stem for path in installed.values() if "/man3/heapctl_" in path}, functions)
        links = {}
        for path in sorted(pages.iterdir()):
            link = re.match(r"\.so man3/(\w+)\.3\n", path.read_text())
            if link:
                links[path.stem] = link[1]
                continue
            result = subprocess.run([need("mandoc"), "-T", "lint", "-W", "warning", path], capture_output=True, text=True)
            self.assertEqual(result.stdout, "", path)
        # What is a link is among the names of the page that it leads to, and declared there.
        for name, target in {**links, **{name: name for name in functions - set(links)}}.items():
            text = (pages / f"{target}.3").read_text()
            self.assertRegex(text, rf"(?m)^\.Nm {name}( ,)?$")
            self.assertRegex(text, rf"(?m)^\.F[no] {name}\b")

    def test_it_names_the_versions_that_the_library_has(self):
        page = (SOURCE / "docs/heapctl.3").read_text()
        dynamic = subprocess.run(["readelf", "-d", "-V", "-W", AGENT], check=True, capture_output=True, text=True).stdout
        name = re.search(r"SONAME.*\[(.*)\]", dynamic)[1]
        self.assertTrue(re.search(rf"(?m)^\.P[aq] .*{re.escape(name)} ", page), name)
        defined = re.search(r"Version definition section.*?\n\n", dynamic, re.S)[0]
        versions = re.findall(r"Name: (HEAPCTL_\d+)", defined)
        self.assertEqual(versions, ["HEAPCTL_1"])
        self.assertTrue(re.search(rf"(?m)^\.Li {versions[-1]} ", page), versions)


if __name__ == "__main__":
    unittest.main()
