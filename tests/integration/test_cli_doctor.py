# SPDX-License-Identifier: Apache-2.0
"""heapctl doctor: every fault that it can report, on a real process."""
import ctypes
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import unittest

from processes import (AGENT, HEAPCTL, LANDLOCK_MAKE_SOCK, LANDLOCK_READ_DIR, PRELOAD, Case, agent_thread, handles_waking, jemalloc_path, landlock, need,
                       need_namespace, wait_until)


class Doctor(Case):
    def examine(self, *arguments, ok, env=None):
        """What is found, by its code; `ok` None: well or not."""
        out, _ = self.heapctl("doctor", "--json", *arguments, code=None if ok is None else 0 if ok else 1, env=env)
        answer = json.loads(out)
        self.assertIn(answer["ok"], (True, False) if ok is None else (ok,))
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
        found = self.examine(server.pid, ok=True)
        self.assertIn("heapctl samples", found["profiling-available"]["message"])

    def test_a_coarse_interval(self):
        server, _ = self.start_redis(conf="prof:true,lg_prof_sample:19")
        self.wait_for_agent(server.pid)
        self.assertIn("sample-interval-wide", self.examine(server.pid, ok=True))

    def test_an_interval_that_samples_nothing(self):
        server, _ = self.start_redis(conf="prof:true,lg_prof_sample:63")
        self.wait_for_agent(server.pid)
        found = self.examine(server.pid, ok=False)
        self.assertIn("lg-sample-high", found)
        self.assertNotIn("--sample", str(found))

    def test_status_and_doctor_say_the_same_of_few_samples(self):
        server, _ = self.start_redis(conf="prof:true,lg_prof_sample:16")
        self.wait_for_agent(server.pid)
        found = self.examine(server.pid, ok=True)["sample-interval-wide"]
        warnings = json.loads(self.heapctl("status", server.pid, "--json")[0])["warnings"]
        same = [warning for warning in warnings if warning["code"] == "sample-interval-wide"]
        self.assertEqual(found["hint"], same[0]["hint"])
        interval = re.search(r"record --sample (\d+KiB)", found["hint"])[1]
        self.heapctl("record", server.pid, "--duration", "1s", "--sample", interval, "--discard", "-o", os.path.join(self.folder, "x.heap"))

    def test_no_agent_and_no_options(self):
        found = self.examine(self.sleeper(), ok=False)
        self.assertIn("no-agent", found)
        self.assertIn("jemalloc-loaded", found)
        self.assertIn("MALLOC_CONF is not set", found["prof-off"]["message"])

    def test_no_jemalloc(self):
        process = self.start("/bin/sleep", "600")
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "sleep")
        self.assertIn("its malloc is that of the C library", self.examine(process.pid, ok=False)["no-jemalloc"]["message"])

    def test_a_malloc_of_the_programs_own_is_not_taken_for_the_c_librarys(self):
        source = pathlib.Path(self.folder, "own_malloc.c")
        source.write_text("#include <stddef.h>\n#include <unistd.h>\nstatic char space[1 << 20], *next = space;\n"
                          "void *malloc(size_t size) { void *block = next; next += (size + 15) & ~15ul; return block; }\n"
                          "void free(void *block) { (void)block; }\nint main(void) { return pause(); }\n")
        program = os.path.join(self.folder, "own_malloc")
        subprocess.run([need("cc"), "-o", program, source], check=True)
        process = self.start(program)
        wait_until(lambda: "libc.so" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "the program")
        self.assertIn("its malloc is that of the program itself", self.examine(process.pid, ok=False)["no-jemalloc"]["message"])

    def test_run_is_not_suggested_for_a_static_program(self):
        pathlib.Path(self.folder, "sleeper.c").write_text("#include <unistd.h>\nint main(void) { return pause(); }\n")
        program = os.path.join(self.folder, "sleeper")
        subprocess.run([need("cc"), "-static", "-o", program, program + ".c"], check=True)
        process = self.start(program)
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "the program")
        found = self.examine(process.pid, ok=False)
        attach = f"heapctl attach {process.pid}"
        self.assertEqual(found["no-agent"]["hint"], f"load one with {attach}, or link libheapctl.a into it")
        self.assertEqual(found["no-jemalloc"]["hint"], "")
        self.assertEqual(found["static"]["level"], "note")
        self.assertIn("linked statically", found["static"]["message"])
        self.assertIn(attach, self.heapctl("status", process.pid, code=None)[1])
        self.assertIn("linked statically", self.heapctl("run", "--", program, code=None)[1])

    def test_ps_does_not_suggest_run_for_a_static_program_with_jemalloc(self):
        source = pathlib.Path(self.folder, "inside.c")
        source.write_text("int mallctl(void) { return 0; }\nint mallctlnametomib(void) { return 0; }\n#include <unistd.h>\n"
                          "int main(void) { return pause(); }\n")
        program = os.path.join(self.folder, "inside")
        subprocess.run([need("cc"), "-static", "-o", program, source], check=True)
        process = self.start(program)
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == program, "the program")
        row = next(line for line in self.heapctl("ps")[0].splitlines() if line.split()[:1] == [str(process.pid)])
        self.assertIn("no agent: load one with heapctl attach", row)

    def test_a_variable_that_is_not_read(self):
        found = self.examine(self.sleeper({"JEMALLOC_CONF": "prof:true"}), ok=False)
        self.assertEqual(found["variable-ignored"]["level"], "wrong")
        self.assertIn("reads MALLOC_CONF", found["variable-ignored"]["message"])

    def test_malformed_options(self):
        found = self.examine(self.sleeper({"MALLOC_CONF": "prof:true,prof_prefix:/x:prof_active:false"}), ok=False)
        self.assertIn("prof_prefix:/x,prof_active:false", found["conf-malformed"]["hint"])

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
        alone = shutil.copy(PRELOAD, self.folder)
        pid = self.sleeper({"LD_PRELOAD": alone, "HEAPCTL_EXE": "sleep"})
        self.assertIn(f"{alone} needs libheapctl.so.0 beside itself", self.examine(pid, ok=False)["preload-failed"]["message"])
        self.assertIn(f"it was not loaded, because {alone} needs libheapctl.so.0", self.heapctl("dump", pid, code=1)[1])
        self.assertRegex(self.heapctl("status", pid, code=1)[0], r"agent +not loaded \(libheapctl-preload")

    def test_a_program_that_a_target_starts(self):
        pid = self.sleeper({"LD_PRELOAD": PRELOAD, "HEAPCTL_EXE": "redis-server"})
        self.assertIn("agent-elsewhere", self.examine(pid, ok=False))
        self.assertRegex(self.heapctl("status", pid, code=1)[1], "HEAPCTL_EXE disables it")

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

    def test_a_thread_of_the_kernel(self):
        # Another process has that number in a pid namespace, or none.
        thread = pathlib.Path("/proc/2/comm")
        if not thread.exists() or thread.read_text() != "kthreadd\n":
            self.skipTest("no thread of the kernel in this pid namespace")
        self.assertEqual(list(self.examine(2, ok=False)), ["kernel-thread"])
        for verb in ("status", "dump", "record", "report", "attach"):
            self.assertIn("is a thread of the kernel", self.heapctl(verb, 2, code=1)[1])
        need_namespace("--mount")
        elsewhere = subprocess.run(["unshare", "--mount", HEAPCTL, "doctor", "--json", "2"], capture_output=True, text=True, timeout=60)
        self.assertEqual([finding["code"] for finding in json.loads(elsewhere.stdout)["findings"]], ["kernel-thread"])

    def test_advice_for_a_stopped_process_has_one_order(self):
        pid = self.sleeper()
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        wait_until(lambda: " T " in pathlib.Path(f"/proc/{pid}/stat").read_text(), "the process to stop")
        advice = f"let it continue: kill -CONT {pid}, then heapctl attach {pid}"
        found = self.examine(pid, ok=False)
        self.assertEqual(found["no-agent"]["hint"], advice)
        self.assertEqual(found["cannot-attach"]["hint"], "")
        for verb in ("status", "dump", "record"):
            self.assertIn(f"has no agent ({advice})", self.heapctl(verb, pid, code=1)[1])

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_the_folders_of_root_are_not_those_of_another_user(self):
        os.makedirs(self.agents, mode=0o700)
        for folder in ("/tmp/heapctl-0", "/dev/shm/heapctl-0"):
            if not os.path.exists(folder):
                os.mkdir(folder, mode=0o700)
                self.addCleanup(os.rmdir, folder)
        process = self.start("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", need("sleep"), "1000", env={"HEAPCTL_DIR": ""})
        wait_until(lambda: os.stat(f"/proc/{process.pid}").st_uid == 65534, "the other user")
        # What is wrong with a folder of that user is another matter: a process in a user namespace without numbers makes one.
        self.assertNotIn("heapctl-0", self.examine(process.pid, ok=None).get("folder-owner", {}).get("message", ""))

    def test_a_folder_that_no_agent_uses_comes_first(self):
        os.makedirs(self.agents)
        os.chmod(self.agents, 0o755)
        pid = self.sleeper()
        to_do = f"set HEAPCTL_DIR to a folder of its own, such as {self.agents}/heapctl; the agent makes it"
        found = self.examine(pid, ok=False)
        self.assertEqual(found["no-agent"]["hint"], f"{to_do}, then heapctl attach {pid}")
        self.assertEqual(found["cannot-attach"]["hint"], "")
        self.assertIn(f"the agent does not use it ({to_do})", self.heapctl("attach", pid, code=1)[1])
        self.assertIn(f"would refuse: sleep[{pid}]: ", " ".join(self.heapctl("status", pid, code=1)[0].split()))
        # One with an agent: the folder is why it is silent.
        pid = self.sleeper({"LD_PRELOAD": AGENT, "HEAPCTL_EXE": "sleep"})
        wait_until(lambda: "heapctl" in [pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text().strip()
                                         for task in os.listdir(f"/proc/{pid}/task")], "the agent's thread")
        found = self.examine(pid, ok=False)
        self.assertIn("its agent does not answer: ", found["folder-mode"]["message"])
        self.assertEqual(found["folder-mode"]["hint"], to_do)
        for code in ("agent-silent", "can-attach", "cannot-attach"):
            self.assertNotIn(code, found)

    def test_a_folder_that_is_only_ours_is_no_fault_of_a_target_that_answers(self):
        server, _ = self.start_redis(conf="prof:true,prof_active:true")
        self.wait_for_agent(server.pid)
        other = os.path.join(self.folder, "open")
        os.mkdir(other, 0o777)
        found = self.examine(server.pid, ok=True, env={"HEAPCTL_DIR": other})
        self.assertIn("agent-answers", found)
        self.assertIn("switched on by the program's options at its start: heapctl record leaves it on",
                      found["sampling-by-other"]["message"])
        self.assertRegex(found["sample-interval-wide"]["hint"], r"heapctl record --sample \d+KiB, or")

    def test_a_folder_of_a_target_that_answers(self):
        pid = self.sleeper({"LD_PRELOAD": AGENT, "HEAPCTL_EXE": "sleep"})
        self.wait_for_agent(pid)
        os.chmod(self.agents, 0o777)
        found = self.examine(pid, ok=False)
        self.assertIn("agent-answers", found)
        self.assertEqual(found["folder-mode"]["hint"], f"set HEAPCTL_DIR to a folder of its own, such as {self.agents}/heapctl; the agent makes it")
        os.chmod(self.agents, 0o700)
        if os.geteuid() == 0:
            os.chown(self.agents, 65534, 65534)
            self.assertEqual(self.examine(pid, ok=True)["folder-owner"]["level"], "note")

    def test_a_shared_folder_keeps_its_mode(self):
        os.makedirs(self.agents)
        os.chmod(self.agents, 0o1777)
        hint = self.examine(ok=False)["folder-mode"]["hint"]
        self.assertNotIn("chmod", hint)
        self.assertIn(f"{self.agents}/heapctl", hint)
        for path in (self.agents, "/tmp"):
            self.environment.update(HEAPCTL_DIR=path, HEAPCTL_LOG="stderr", LD_PRELOAD=AGENT, HEAPCTL_EXE="sleep")
            result = subprocess.run(["sleep", "0.3"], env=self.environment, capture_output=True, text=True)
            self.assertIn("such as", result.stderr)
            self.assertNotIn("chmod", result.stderr)

    def unreachable(self, folder):
        """What is found about a process with an agent that has this folder, and what run says beforehand."""
        settings = {"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_DIR": folder}
        found = self.examine(self.sleeper(settings), ok=False)
        _, said = self.heapctl("run", "--", "true", env={"HEAPCTL_DIR": folder})
        return found, said

    def test_a_folder_without_a_parent(self):
        found, said = self.unreachable(os.path.join(self.folder, "missing/agents"))
        self.assertIn(f"no folder {self.folder}/missing", found["folder-parent"]["message"])
        self.assertIn(f"no folder {self.folder}/missing", said)
        self.assertNotIn("agent-elsewhere", found)

    def test_a_folder_with_too_long_a_name(self):
        folder = self.folder + "/" + "x" * 250
        self.assertIn("more than 255", self.examine(ok=False, env={"HEAPCTL_DIR": folder})["folder-long"]["message"])
        self.assertIn("more than 255", self.heapctl("run", "--", "true", env={"HEAPCTL_DIR": folder})[1])

    def test_a_folder_that_is_longer_than_a_sockets_address(self):
        self.assertEqual(self.examine(ok=True, env={"HEAPCTL_DIR": self.folder + "/" + "x" * 100})["folder-deep"]["level"], "note")

    def test_a_folder_in_a_file_system_of_the_kernel(self):
        for folder in ("/proc", "/proc/heapctl", "/sys/heapctl"):
            said = self.heapctl("run", "--", "true", env={"HEAPCTL_DIR": folder})[1]
            self.assertIn("is a file system of the kernel, which takes no files", said)
            found = self.examine(ok=False, env={"HEAPCTL_DIR": folder})
            self.assertIn("takes no files", found["folder-read-only"]["message"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a file system")
    def test_a_folder_that_cannot_be_written(self):
        place = os.path.join(self.folder, "place")
        os.makedirs(place + "/agents", mode=0o700)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=700", "none", place], capture_output=True).returncode != 0:
            self.skipTest("nothing may be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        for folder in (place + "/agents", place):
            found, said = self.unreachable(folder)
            self.assertIn("read-only", found["folder-read-only"]["message"])
            self.assertIn("read-only", said)

    def assert_listed(self, pid, problem):
        """`ps` names what prevents waking the agent of the process, or nothing does."""
        def entry():
            return {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}.get(pid)
        listed = wait_until(entry, "a child that does not just pass")
        if problem is None:
            self.assertEqual(listed["state"], "asleep")
        else:
            self.assertEqual(listed["state"], "silent")
            self.assertIn(problem, listed["problem"])

    def forked(self, child, **environment):
        """The pid of a target's child that has done this."""
        program = ("import ctypes,os,signal,time\nif os.fork()==0:\n"
                   f" {child}\n os.write(1,b'%d\\n'%os.getpid())\ntime.sleep(600)")
        python = os.path.realpath(sys.executable)
        process = self.start(python, "-c", program, stdout=subprocess.PIPE, text=True, env={
            "LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "MALLOC_CONF": "prof:true", "HEAPCTL_EXE": os.path.basename(python), **environment})
        pid = int(process.stdout.readline())
        self.end_pid_later(pid)
        self.wait_for_agent(process.pid)
        return pid

    def test_a_program_of_another_machine(self):
        """Rights that it did not gain are not reported."""
        program = os.path.join(self.folder, "small")
        if subprocess.run([need("cc"), "-m32", "-x", "c", "-", "-o", program], text=True, capture_output=True,
                          input="#include <unistd.h>\nint main(void) { return pause(); }").returncode != 0:
            self.skipTest("no 32-bit C library")
        process = self.start(program)
        found = self.examine(process.pid, ok=False)
        self.assertEqual(list(found)[:1], ["other-machine"])
        refusal = f"[{process.pid}] is a program for another kind of machine (32 bit)"
        self.assertIn(refusal, found["cannot-attach"]["message"])
        for options in ([], ["--force"]):
            self.assertTrue(self.heapctl("attach", process.pid, *options, code=1)[1].endswith(f"{refusal}\n"))
        self.assertIn(f"has no agent (heapctl doctor {process.pid} says why)", self.heapctl("status", process.pid, code=1)[1])
        self.assertNotIn("secure-start", found)

    def test_a_child_that_takes_no_signal(self):
        for child, environment, problem in (
                ("signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())", {}, "all its threads block signal"),
                ("signal.signal(signal.SIGRTMAX - 3, signal.SIG_DFL)", {}, "has reset signal"),
                ("pass", {"HEAPCTL_CHILDREN": "no"}, "HEAPCTL_CHILDREN=no disables it")):
            with self.subTest(problem):
                pid = self.forked(child, **environment)
                self.assert_listed(pid, problem)
                out, said = self.heapctl("status", pid, code=1)
                self.assertIn(problem, said)
                self.assertIn("resident", out)
                self.assertNotIn("has ended or was detached", out)
                self.assertIn("agent-without-signal", self.examine(pid, ok=False))
                out, _ = self.heapctl("account", pid)
                self.assertIn("the table has the kernel's figures", out)
                self.assertIn(problem, " ".join(out.split()))

    def test_a_handler_that_is_not_the_agents_gets_no_signal(self):
        """As one of a language's runtime: the library is mapped, and there is no agent that could be started."""
        for env in ({"LD_PRELOAD": AGENT, "HEAPCTL_DISABLE": "1"}, {"LD_PRELOAD": PRELOAD, "HEAPCTL_EXE": "other"}):
            with self.subTest(env=env):
                log, ready = os.path.join(self.folder, "signals"), os.path.join(self.folder, "ready")
                pid = self.start(sys.executable, "-c", f"""if 1:
                    import signal, time
                    signal.signal(signal.SIGRTMAX - 3, lambda *_: open({log!r}, "w").close())
                    open({ready!r}, "w").close()
                    while True: time.sleep(60)""", env=env, wait_for=lambda: os.path.exists(ready)).pid
                os.unlink(ready)
                for verb in (["ps"], ["status", pid], ["doctor", pid]):
                    self.heapctl(*verb, code=None)
                self.assertFalse(os.path.exists(log))

    def test_a_program_that_was_started_in_a_sandbox_of_files(self):
        """Landlock is not visible from outside; owner and mode of the folder permit a socket, and there is none."""
        for rights in (LANDLOCK_READ_DIR, LANDLOCK_MAKE_SOCK):
            with self.subTest(rights=rights):
                os.makedirs(self.agents, mode=0o700, exist_ok=True)
                pid = self.sleeper({"LD_PRELOAD": AGENT, "HEAPCTL_EXE": "sleep"}, preexec_fn=landlock(self, rights))
                wait_until(lambda: agent_thread(pid), "the agent's thread")
                may_be = f"it may be in a sandbox (Landlock) that lets it make no file or socket in {self.agents}"
                said = self.heapctl("status", pid, code=1)[1]
                self.assertIn(may_be, said)
                self.assertNotIn("HEAPCTL_DIR may differ", said)
                self.assertIn("it may be in a sandbox (Landlock)", self.examine(pid, ok=False)["agent-silent"]["message"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to change the user of files")
    def test_another_user_of_files(self):
        pid = self.forked("ctypes.CDLL(None).setfsuid(65534)")
        self.assertIn("it makes files as uid 65534 (setfsuid), which may make no socket", self.heapctl("activate", pid, code=1)[1])
        self.assertIn("makes files as uid 65534", self.examine(pid, ok=False)["agent-silent"]["message"])

    def test_a_child_that_restricts_its_files(self):
        """Its agent wakes, cannot read /proc and ends; Landlock is not visible from outside."""
        if ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) < 1:
            self.skipTest("no Landlock here")
        pid = self.forked("c=ctypes.CDLL(None).syscall; r=c(444, ctypes.byref(ctypes.c_uint64(4)), 8, 0); "
                          "ctypes.CDLL(None).prctl(38,1,0,0,0); c(446,r,0)")
        self.assertIn("Landlock", self.heapctl("status", pid, code=1)[1])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to change the root")
    def test_a_changed_root(self):
        """The agent's socket stays where it was made; a child's agent needs /proc in the new root."""
        root = os.path.join(self.folder, "root")
        os.mkdir(root)
        program = "import os,sys,time\nos.chroot(sys.argv[1])\nos.write(1, b'%d\\n' % os.fork())\ntime.sleep(600)"
        process = self.start(sys.executable, "-c", program, root, stdout=subprocess.PIPE, text=True,
                             env={"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "MALLOC_CONF": "prof:true", "HEAPCTL_EXE": os.path.basename(
                                 os.path.realpath(sys.executable))})
        child = max(int(process.stdout.readline()), int(process.stdout.readline()))
        self.end_pid_later(child)
        self.wait_for_agent(process.pid)
        self.assertIn("agent-answers", self.examine(process.pid, ok=True))
        found = self.examine(child, ok=False)
        self.assertEqual([code for code in found if code.startswith(("agent-", "folder-"))], ["agent-without-proc"])
        self.assertIn("changed its root to one without /proc", self.heapctl("status", child, code=1)[1])
        self.assert_listed(child, "changed its root to one without /proc")
        # With a place for its socket it may be woken.
        os.makedirs(root + os.path.dirname(self.agents))
        self.assert_listed(child, None)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to change the user")
    def test_a_child_without_threads(self):
        """As haproxy's workers are. The kernel counts the real user."""
        python = os.path.realpath(sys.executable)
        for ids, is_refused in (("65534,65534,65534", True), ("65534,0,0", True), ("0,65534,65534", False)):
            with self.subTest(ids=ids):
                # capset() at the end: without the rights that exempt from the limit.
                program = ("import ctypes,os,resource,struct,time\npid=os.fork()\nif pid:\n os.write(1,b'%d\\n'%pid)\nelse:\n"
                           f" resource.setrlimit(resource.RLIMIT_NPROC,(0,0))\n os.setresuid({ids})\n"
                           " ctypes.CDLL(None).capset(struct.pack('Ii',0x20080522,0),bytes(24))\ntime.sleep(600)")
                process = self.start(python, "-c", program, stdout=subprocess.PIPE, text=True, env={
                    "LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "MALLOC_CONF": "prof:true", "HEAPCTL_EXE": os.path.basename(python)})
                child = int(process.stdout.readline())
                self.end_pid_later(child)
                wait_until(lambda: "\nCapPrm:\t0000000000000000" in pathlib.Path(f"/proc/{child}/status").read_text(), "no rights")
                if is_refused:
                    self.assertIn("its limit of processes (RLIMIT_NPROC) is 0", self.heapctl("status", child, code=1)[1])
                    self.assertIn("agent-without-thread", self.examine(child, ok=False))
                else:
                    self.assertIn(str(child), self.heapctl("status", child)[0])

    def test_limits_that_keep_an_agent_asleep(self):
        for limit, code, problem in (("nofile=8", "agent-without-descriptors", "its limit of open files (RLIMIT_NOFILE) is 8"),
                                     ("sigpending=0", "agent-without-signal", "as many signals waiting as its limit allows (RLIMIT_SIGPENDING)")):
            with self.subTest(limit=limit):
                process = self.start(need("prlimit"), f"--{limit}:", need("sleep"), "1000", env={
                    "LD_PRELOAD": AGENT, "HEAPCTL_EXE": "sleep", "HEAPCTL_THREAD": "on-demand"})
                wait_until(lambda: handles_waking(process.pid), "the agent")
                found = self.examine(process.pid, ok=False)
                self.assertIn(problem, found[code]["message"])
                self.assertNotIn("agent-ended", found)
                # Both limits, which only a privileged user may raise; here the lower one is enough.
                option, value, *process_option = re.match(r"prlimit (--\w+)=(\d+) (--pid) (\d+) raises the limit", found[code]["hint"]).groups()
                subprocess.run(["prlimit", f"{option}={value}:", *process_option], check=True)
                self.assertIn("sleep", self.heapctl("status", process.pid)[0])

    def test_a_limit_on_files_that_permits_no_profile(self):
        pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_EXE": "sleep", "MALLOC_CONF": "prof:true"})
        self.wait_for_agent(pid)
        self.assertNotIn("file-size-limit", self.examine(pid, ok=None))
        least = len(pathlib.Path(f"/proc/{pid}/maps").read_text())
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (least, resource.RLIM_INFINITY))
        finding = self.examine(pid, ok=False)["file-size-limit"]
        self.assertEqual(finding["level"], "wrong")
        self.assertIn(f"(RLIMIT_FSIZE) is {least} bytes", finding["message"])
        self.assertIn("File too large", self.heapctl("dump", pid, "-o", os.path.join(self.folder, "now.heap"), code=1)[1])
        subprocess.run(re.search(r"prlimit .*", finding["hint"]).group().split(), check=True)
        self.assertNotIn("file-size-limit", self.examine(pid, ok=None))
        self.heapctl("dump", pid, "-o", os.path.join(self.folder, "now.heap"))

    def test_a_folder_that_was_removed(self):
        pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_EXE": "sleep"})
        self.wait_for_agent(pid)
        shutil.rmtree(self.agents)
        # Until its agent has made it again, a second later.
        found = self.examine(pid, ok=None)
        self.assertTrue("folder-removed" in found or "agent-answers" in found, found)
        self.assertNotIn("agent-elsewhere", found)

    def test_a_folder_that_is_a_file(self):
        for make in (lambda: pathlib.Path(self.agents).write_text(""), lambda: os.symlink("/nowhere", self.agents)):
            make()
            pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", "HEAPCTL_EXE": "sleep"})
            wait_until(lambda: agent_thread(pid), "the agent")
            found = self.examine(pid, ok=False)
            self.assertIn("folder-kind", found)
            self.assertNotIn("agent-silent", found)
            os.unlink(self.agents)

    def test_a_disabled_agent_is_no_lost_socket(self):
        for variable, value in (("HEAPCTL_DISABLE", "1"), ("HEAPCTL_EXE", "redis-server")):
            pid = self.sleeper({"LD_PRELOAD": f"{AGENT}:{jemalloc_path()}", variable: value})
            listed = {entry.get("pid"): entry for entry in json.loads(self.heapctl("ps", "--json")[0])}
            self.assertIn(f"{variable} disables it", listed[pid]["problem"])
            self.assertNotIn("socket", listed[pid]["problem"])
            self.assertIn("loaded, not started; heapctl doctor", " ".join(self.heapctl("status", pid, code=1)[0].split()))

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

    def test_there_is_no_process(self):
        self.heapctl("doctor", "999999999", code=1)
        self.heapctl("doctor", "no-such-program", code=1)
        self.heapctl("doctor", "/nonexistent/1.sock", code=1)


if __name__ == "__main__":
    unittest.main()
