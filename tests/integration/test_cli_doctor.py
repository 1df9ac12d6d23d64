# SPDX-License-Identifier: Apache-2.0
"""heapctl doctor: every fault it knows, made for real."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import unittest

from processes import AGENT, HEAPCTL, Case, jemalloc_path, need, wait_until


class Doctor(Case):
    def examine(self, *arguments, ok, env=None):
        out, _ = self.heapctl("doctor", "--json", *arguments, code=0 if ok else 1, env=env)
        answer = json.loads(out)
        self.assertEqual(answer["ok"], ok)
        return {finding["code"]: finding for finding in answer["findings"]}

    def sleeper(self, env=None, **options):
        """A program that waits, with jemalloc; its environment stays as it was."""
        process = self.start("/bin/sleep", "600", env=dict({"LD_PRELOAD": jemalloc_path()}, **(env or {})), **options)
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
                   and pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "sleep")
        return process.pid

    def test_a_healthy_target(self):
        server, _ = self.start_redis(conf="prof:true,prof_active:false,lg_prof_sample:12")
        self.wait_for_agent(server.pid)
        found = self.examine(server.pid, ok=True)
        self.assertEqual(found["profiling-available"]["level"], "ok")
        self.assertEqual(found["sampling-off"]["level"], "note")
        out, _ = self.heapctl("doctor", server.pid)
        self.assertIn("nothing is wrong", out)

    def test_prof_false_with_an_agent(self):
        server, _ = self.start_redis(conf="prof:false")
        self.wait_for_agent(server.pid)
        found = self.examine(server.pid, ok=False)
        self.assertIn("profiling-unavailable", found)
        self.assertNotEqual(found["profiling-unavailable"]["cure"], "")

    def test_a_coarse_interval(self):
        server, _ = self.start_redis(conf="prof:true,lg_prof_sample:19")
        self.wait_for_agent(server.pid)
        self.assertIn("few-samples", self.examine(server.pid, ok=True))

    def test_no_agent_and_no_options(self):
        found = self.examine(self.sleeper(), ok=False)
        self.assertIn("no-agent", found)
        self.assertIn("jemalloc-loaded", found)
        self.assertIn("MALLOC_CONF is not set", found["prof-off"]["message"])

    def test_no_jemalloc(self):
        process = self.start("/bin/sleep", "600")
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "sleep")
        self.assertIn("no-jemalloc", self.examine(process.pid, ok=False))

    def test_a_variable_that_is_not_read(self):
        found = self.examine(self.sleeper({"JEMALLOC_CONF": "prof:true"}), ok=False)
        self.assertEqual(found["variable-ignored"]["level"], "wrong")
        self.assertIn("reads MALLOC_CONF", found["variable-ignored"]["message"])

    def test_malformed_options(self):
        found = self.examine(self.sleeper({"MALLOC_CONF": "prof:true,prof_prefix:/x:prof_active:false"}), ok=False)
        self.assertIn("prof_prefix:/x,prof_active:false", found["conf-malformed"]["cure"])

    def test_sampling_off_since_the_start(self):
        found = self.examine(self.sleeper({"MALLOC_CONF": "prof:true,prof_active:false"}), ok=False)
        self.assertIn("sampling-off", found)
        self.assertNotIn("prof-off", found)

    def test_an_overwritten_environment(self):
        server, _ = self.start_redis(preload=False)
        found = self.examine(server.pid, ok=False)
        self.assertIn("environment-overwritten", found)
        self.assertNotIn("prof-off", found)

    def test_a_disabled_agent(self):
        pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_DISABLE": "1"})
        self.assertIn("agent-disabled", self.examine(pid, ok=False))

    def test_an_agent_for_another_program(self):
        pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_EXE": "redis-server"})
        self.assertIn("agent-elsewhere", self.examine(pid, ok=False))

    def test_a_library_that_was_not_loaded(self):
        pid = self.sleeper({"LD_PRELOAD": "/nonexistent/libheapctl.so"})
        self.assertIn("preload-failed", self.examine(pid, ok=False))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a setuid program")
    def test_a_setuid_program(self):
        program = os.path.join(self.folder, "sleep")
        shutil.copy("/bin/sleep", program)
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o755 | stat.S_ISUID)
        process = self.start(program, "600", env={"LD_PRELOAD": jemalloc_path(), "MALLOC_CONF": "prof:true"})
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", "the program")
        found = self.examine(process.pid, ok=False)
        self.assertIn("secure-start", found)

    def test_a_folder_with_a_wrong_mode(self):
        os.makedirs(self.agents)
        os.chmod(self.agents, 0o755)
        self.assertIn("folder-mode", self.examine(ok=False))
        self.assertIn("folder-mode", self.examine(self.sleeper(), ok=False))

    def test_a_folder_that_is_none(self):
        pathlib.Path(self.agents).write_text("")
        self.assertIn("folder-kind", self.examine(ok=False))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
    def test_a_full_disk(self):
        os.makedirs(self.agents)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.agents], capture_output=True).returncode != 0:
            self.skipTest("nothing may be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.agents], check=True)
        self.assertIn("disk-full", self.examine(ok=False))

    def test_options_of_the_shell(self):
        self.assertIn("conf-malformed", self.examine(ok=False, env={"MALLOC_CONF": "prof=true"}))
        self.assertIn("variable-ignored", self.examine(ok=True, env={"JEMALLOC_CONF": "prof:true"}))
        self.assertIn("folder-relative", self.examine(ok=False, env={"HEAPCTL_DIR": "here"}))

    def test_this_machine_is_well(self):
        found = self.examine(ok=True)
        self.assertIn("agent-found", found)
        self.assertIn("jemalloc-found", found)

    def test_a_replaced_program(self):
        program = os.path.join(self.folder, "sleeper")
        shutil.copy("/bin/sleep", program)
        process = self.start(program, "600")
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "the program")
        os.unlink(program)
        self.assertIn("files-replaced", self.examine(process.pid, ok=False))

    def test_nobody_there(self):
        self.heapctl("doctor", "999999999", code=1)
        self.heapctl("doctor", "no-such-program", code=1)
        self.heapctl("doctor", "/nonexistent/1.sock", code=1)


if __name__ == "__main__":
    unittest.main()
