#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent on a real jemalloc: under load, without a trace of itself in profiles, and where no profile is possible."""
import os
import re
import signal
import unittest

from agent_host import SANITIZED, HostCase
from processes import AGENT, agent_thread, ask, need, wait_until


def live_objects(profile):
    """The total line's count of sampled objects."""
    return int(re.search(rb"t\*: (\d+):", profile).group(1))


class Load(HostCase):
    def start_busy(self, kind):
        server = self.host(kind, conf="prof:true,prof_active:false,lg_prof_sample:12")
        path = self.wait_for_agent(server.pid)
        for _ in range(2):
            server("spin")
        return server, path

    def test_profiles_under_load_while_the_program_forks(self):
        for kind in ("linked", "plain"):
            with self.subTest(kind):
                server, path = self.start_busy(kind)
                server("forker")
                run = ask(path, "/v1/runs?duration_ms=2000", "POST")[1]["id"]
                for _ in range(10):
                    status, profile = ask(path, "/v1/profile")
                    self.assertEqual(status, 200, profile)
                    self.assertIn(b"MAPPED_LIBRARIES", profile)
                    self.assertEqual(ask(path, "/v1/stats")[0], 200)
                wait_until(lambda: ask(path, f"/v1/runs/{run}")[1]["state"] == "finished", "the end of the run")
                self.assertEqual(server("pid"), str(server.pid))
                wait_until(lambda: [n for n in os.listdir(self.agents) if n.startswith(".")] == [], "no half-made files")

    def test_killed_while_it_dumps(self):
        server, path = self.start_busy("plain")
        ask(path, "/v1/activate", "POST")
        server("alloc", 5000, 5000)
        client = self.raw(path, b"GET /v1/profile HTTP/1.1\r\n\r\n")
        server.process.kill()
        self.assertEqual(server.process.wait(60), -signal.SIGKILL)
        client.settimeout(20)
        try:
            while client.recv(65536):
                pass
        except ConnectionResetError:
            pass
        again = self.host("plain")
        self.wait_for_agent(again.pid)
        self.assertEqual(self.sockets(), [f"{again.pid}.sock"])

    def test_exit_in_the_middle_of_dumps(self):
        for _ in range(5):
            server, path = self.start_busy("plain")
            ask(path, "/v1/activate", "POST")
            server("alloc", 1000, 5000)
            clients = [self.raw(path, b"GET /v1/profile HTTP/1.1\r\n\r\n" * 3) for _ in range(3)]
            server.send("exit", 3)
            self.assertEqual(server.process.wait(60), 3)
            for client in clients:
                client.close()


class Invisible(HostCase):
    def test_the_agents_thread_is_not_sampled(self):
        server = self.host("plain", conf="prof:true,prof_active:false,lg_prof_sample:0")
        path = self.wait_for_agent(server.pid)
        ask(path, "/v1/activate", "POST")
        for _ in range(5):
            ask(path, "/v1/stats?format=text")
            ask(path, "/v1/status")
            profile = ask(path, "/v1/profile")[1]
        self.assertEqual(live_objects(profile), 0, profile[:300])
        # Names with "thread." mean the calling thread, which is the agent's own.
        self.assertFalse(ask(path, "/v1/mallctl/thread.prof.active")[1]["value"])
        server("alloc", 3, 100)
        self.assertGreaterEqual(live_objects(ask(path, "/v1/profile")[1]), 3)

    def test_it_takes_no_memory_from_the_heap(self):
        server = self.host("plain")
        path = self.wait_for_agent(server.pid)

        def taken():
            return ask(path, "/v1/mallctl/thread.allocated?type=u64")[1]["value"]
        before = taken()
        for _ in range(5):
            for target in ("/v1/status", "/v1/profile", "/v1/stats", "/v1/runs", "/nothing", "/v1/runs/1", "/v1/mallctl/x?type=u64"):
                ask(path, target)
            ask(path, "/v1/activate", "POST")
            ask(path, "/v1/deactivate", "POST")
            ask(path, "/v1/runs", "POST")
            ask(path, "/v1/runs/stop", "POST")
        self.raw(path, b"nonsense\r\n\r\n").recv(100)
        self.assertEqual(taken(), before)

    def test_samples_of_before_stay_after_deactivation(self):
        server = self.host("plain", conf="prof:true,prof_active:false,lg_prof_sample:0")
        path = self.wait_for_agent(server.pid)
        ask(path, "/v1/activate", "POST")
        server("alloc", 50, 100)
        ask(path, "/v1/deactivate", "POST")
        self.assertGreaterEqual(live_objects(ask(path, "/v1/profile")[1]), 50)
        ask(path, "/v1/reset", "POST")
        self.assertEqual(live_objects(ask(path, "/v1/profile")[1]), 0)

    def test_a_run_holds_what_was_allocated_in_it(self):
        server = self.host("plain", conf="prof:true,prof_active:false,lg_prof_sample:0")
        path = self.wait_for_agent(server.pid)
        server("alloc", 40, 100)
        run = ask(path, "/v1/runs", "POST")[1]["id"]
        server("alloc", 30, 100)
        ask(path, "/v1/runs/stop", "POST")
        server("alloc", 20, 100)
        self.assertEqual(live_objects(ask(path, f"/v1/runs/{run}/start")[1]), 0)
        self.assertIn(live_objects(ask(path, f"/v1/runs/{run}/profile")[1]), range(30, 40))


@unittest.skipIf(SANITIZED, "a preloaded library and a sanitizer exclude each other")
class Nothing(HostCase):
    def test_a_program_without_jemalloc_says_so(self):
        sleeper = self.start(need("sleep"), "1000", env={"LD_PRELOAD": AGENT, "HEAPCTL_SAMPLER": "no"})
        path = self.wait_for_agent(sleeper.pid)
        status = ask(path, "/v1/status")[1]
        self.assertEqual(status["name"], "sleep")
        self.assertFalse(status["profiling"]["available"])
        self.assertTrue(status["profiling"]["reason"])
        self.assertTrue(status["profiling"]["hint"])
        self.assertEqual(status["allocator"]["name"], "glibc")
        code, body = ask(path, "/v1/profile")
        self.assertEqual((code, body["error"]["code"]), (501, "unsupported"))

    def test_a_program_started_without_profiling_says_so(self):
        server = self.host("plain", conf="prof:false", env={"HEAPCTL_SAMPLER": "no"})
        path = self.wait_for_agent(server.pid)
        for method, target in (("POST", "/v1/activate"), ("GET", "/v1/profile"), ("POST", "/v1/runs")):
            code, body = ask(path, target, method)
            self.assertEqual((code, body["error"]["code"]), (501, "unsupported"))
            self.assertIn("prof:true", body["error"]["hint"])
        self.assertEqual(ask(path, "/v1/stats")[0], 200)

    def test_a_program_without_jemalloc_is_sampled_by_heapctl(self):
        sleeper = self.start(need("sleep"), "1000", env={"LD_PRELOAD": AGENT})
        path = self.wait_for_agent(sleeper.pid)
        status = ask(path, "/v1/status")[1]
        self.assertEqual(status["name"], "sleep")
        self.assertTrue(status["profiling"]["available"])
        self.assertEqual(status["profiling"]["sampler"], "heapctl")
        self.assertEqual(status["allocator"]["name"], "glibc")
        self.assertEqual(ask(path, "/v1/profile")[0], 200)
        self.assertEqual(ask(path, "/v1/stats")[1]["malloc"]["name"], "glibc")
        # These are jemalloc's, and there is none.
        code, body = ask(path, "/v1/mallctl/prof.active")
        self.assertEqual((code, body["error"]["code"]), (501, "unsupported"))
        self.assertIn("malloc of glibc", body["error"]["message"])

    def test_jemalloc_started_without_profiling_keeps_its_statistics(self):
        server = self.host("plain", conf="prof:false")
        path = self.wait_for_agent(server.pid)
        self.assertEqual(ask(path, "/v1/activate", "POST")[0], 200)
        self.assertEqual(ask(path, "/v1/profile")[0], 200)
        self.assertEqual(ask(path, "/v1/status")[1]["profiling"]["sampler"], "heapctl")
        self.assertEqual(ask(path, "/v1/stats")[0], 200)
        self.assertEqual(ask(path, "/v1/mallctl/opt.prof")[1]["value"], False)

    def test_profiling_that_was_on_from_the_start_is_not_heapctls(self):
        server = self.host("plain", conf="prof:true")
        path = self.wait_for_agent(server.pid)
        self.assertEqual(ask(path, "/v1/status")[1]["profiling"]["activated_by"], "other")
        code, body = ask(path, "/v1/runs", "POST")
        self.assertEqual((code, body["error"]["code"]), (409, "state"))


@unittest.skipIf(SANITIZED, "a preloaded library and a sanitizer exclude each other")
class Launchers(HostCase):
    def test_a_shell_gets_no_agent_but_what_it_starts_does(self):
        shell = self.start("sh", "-c", "sleep 1000 & wait", env={"LD_PRELOAD": AGENT})
        wait_until(self.sockets, "an agent")
        pid = int(self.sockets()[0].split(".")[0])
        self.end_pid_later(pid)
        self.assertNotEqual(pid, shell.pid)
        self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[1]["name"], "sleep")
        self.assertIsNone(agent_thread(shell.pid))

    def test_what_a_launcher_becomes_gets_one(self):
        process = self.start("env", "nice", "sleep", "1000", env={"LD_PRELOAD": AGENT})
        self.assertEqual(ask(self.wait_for_agent(process.pid), "/v1/status")[1]["name"], "sleep")


if __name__ == "__main__":
    unittest.main()
