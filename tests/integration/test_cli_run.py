# SPDX-License-Identifier: Apache-2.0
"""heapctl run: what it preloads, sets, refuses; and --record."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import termios
import unittest

from processes import AGENT, PRELOAD, SANITIZED, HEAPCTL, Case, children_of, free_port, jemalloc_path, need, need_namespace, wait_until

PRINT = "import os; print({k: v for k, v in os.environ.items() if k.startswith(('LD_P', 'MALLOC', 'HEAPCTL_', '_RJEM'))})"
# Says whether it has jemalloc, and ends with its input.
SERVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
	printf("%d\\n", dlsym(RTLD_DEFAULT, "mallctl") != NULL);
	fflush(stdout);
	return getchar() != EOF;
}
"""
# Prints its mappings, and whether it has an agent.
SHOW_AGENT = """
#include <stdio.h>
int heapctl_is_started(void);
int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	for (int c; (c = getc(maps)) != EOF;)
		putchar(c);
	printf("started %d\\n", heapctl_is_started());
	return 0;
}
"""
# A library that keeps memory until its destructor.
OWN_DLOPEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
void *dlopen(const char *path, int mode)
{
	void *(*const next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");

	return next(path, mode);
}
"""
FREE_AT_END = """
#include <stdlib.h>
static void *kept[600];
void keep(void)
{
	for (int i = 0; i < 600; i++)
		kept[i] = malloc(50000);
}
static void __attribute__((destructor)) release(void)
{
	for (int i = 0; i < 600; i++)
		free(kept[i]);
}
"""
# Keeps memory, prints that, and continues until a signal or the end of its input.
KEEP = """
import sys
kept = [bytes(50000) for _ in range(600)]
print("ready", flush=True)
sys.stdin.read()
import os
os._exit(5) if len(sys.argv) > 1 else None
sys.exit(3)
"""


def python():
    path = os.path.realpath("/usr/bin/python3")
    if not os.path.exists(path):
        raise unittest.SkipTest("no python3 in /usr/bin")
    return path


class Choosing(Case):
    def environment_of(self, *arguments, **options):
        out, said = self.heapctl("run", *arguments, "--", python(), "-c", PRINT, **options)
        return eval(out), said

    def test_a_program_that_links_jemalloc_keeps_its_own(self):
        port = free_port()
        server = self.start(HEAPCTL, "run", "--", need("redis-server"), "--port", port, "--save", "", "--dir", self.folder,
                            wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")
        self.wait_for_agent(server.pid)
        self.assertEqual(pathlib.Path(f"/proc/{server.pid}/comm").read_text(), "redis-server\n")
        status = json.loads(self.heapctl("status", server.pid, "--json")[0])
        self.assertTrue(status["profiling"]["available"])
        self.assertFalse(status["profiling"]["active"])
        self.assertEqual(status["allocator"]["jemalloc_count"], 1)

    def test_another_program_keeps_its_allocator(self):
        found, said = self.environment_of()
        self.assertRegex(found["LD_PRELOAD"], r"^[^:]*/libheapctl-preload\.so$")
        self.assertEqual(said, "")
        self.assertEqual(found["HEAPCTL_EXE"], python())
        self.assertNotIn("HEAPCTL_ACTIVATE", found)

    def test_jemalloc_is_preloaded_on_request(self):
        for words in (["--jemalloc"], ["--jemalloc=" + jemalloc_path()], ["--jemalloc", jemalloc_path()]):
            found, said = self.environment_of(*words)
            agent, jemalloc = found["LD_PRELOAD"].split(":")
            self.assertIn("libheapctl-preload.so", agent)
            self.assertEqual(os.path.realpath(jemalloc), os.path.realpath(jemalloc_path()))
            self.assertEqual(said, "")
        # The loader does not search the working folder.
        os.symlink(jemalloc_path(), os.path.join(self.folder, "jemalloc-here"))
        found, said = self.environment_of("--jemalloc=jemalloc-here", cwd=self.folder)
        self.assertEqual(found["LD_PRELOAD"].split(":")[1], os.path.realpath(jemalloc_path()))
        self.assertIn("--jemalloc: /nowhere.so: No such file", self.heapctl("run", "--jemalloc=/nowhere.so", "--", "true", code=1)[1])

    def test_jemallocs_own_profiles_bring_jemalloc(self):
        found, said = self.environment_of("--conf", "prof_leak:true")
        self.assertIn("libjemalloc", found["LD_PRELOAD"])
        self.assertIn("has no jemalloc: it gets ", said)
        self.assertIn("because prof_leak needs it", said)

    def test_variables_for_jemalloc_are_set_all_the_same(self):
        found, _ = self.environment_of()
        self.assertEqual(found["MALLOC_CONF"], "prof:true,prof_active:false")

    @unittest.skipIf(SANITIZED, "heapctl itself would be preloaded with another allocator")
    def test_what_was_preloaded_stays(self):
        found, said = self.environment_of(env={"LD_PRELOAD": jemalloc_path()})
        self.assertEqual(found["LD_PRELOAD"].split(":")[1:], [jemalloc_path()])
        self.assertEqual(said, "")

    def test_options_come_together_and_the_later_wins(self):
        found, said = self.environment_of("--conf", "lg_prof_sample:14", "--conf", "narenas:2",
                                          env={"MALLOC_CONF": "lg_prof_sample:16", "JEMALLOC_CONF": "zero:true"})
        self.assertEqual(found["MALLOC_CONF"],
                         "prof:true,prof_active:false,zero:true,lg_prof_sample:16,lg_prof_sample:14,narenas:2")
        self.assertIn("does not read JEMALLOC_CONF", said)

    def test_sampling_from_the_start_at_an_interval(self):
        found, _ = self.environment_of("--activate", "--sample", "64KiB")
        self.assertEqual(found["MALLOC_CONF"], "prof:true,prof_active:false,prof_active:true,lg_prof_sample:16")
        self.assertEqual((found["HEAPCTL_ACTIVATE"], found["HEAPCTL_SAMPLE"]), ("1", "65536"))
        self.assertIn("'2KiB' is not from 4KiB", self.heapctl("run", "--sample", "2KiB", "--", "true", code=2)[1])

    def test_mappings_are_sampled_by_request(self):
        found, said = self.environment_of("--mapped")
        self.assertEqual((found["HEAPCTL_MAPPED"], said), ("1", ""))
        self.assertNotIn("HEAPCTL_MAPPED", self.environment_of()[0])
        self.assertIn("--mapped has no effect where jemalloc takes the samples", self.environment_of("--mapped", "--jemalloc")[1])

    def test_a_folder_that_the_agent_does_not_use_is_reported(self):
        folder = os.path.join(self.folder, "open")
        os.mkdir(folder, 0o755)
        _, said = self.environment_of(env={"HEAPCTL_DIR": folder})
        self.assertIn(f"{folder} is open to other users (mode 0755): the agent does not use it (set HEAPCTL_DIR to", said)
        os.chmod(folder, 0o700)
        _, said = self.environment_of(env={"HEAPCTL_DIR": folder})
        self.assertNotIn(folder, said)

    def test_malformed_options_are_pointed_out(self):
        _, said = self.environment_of(env={"MALLOC_CONF": "prof_prefix:/x:prof_active:false"})
        self.assertIn("prof_prefix:/x,prof_active:false", said)
        _, said = self.heapctl("run", "--conf", "prof:yes", "true", code=2)
        self.assertIn("--conf: prof must be 'true' or 'false'", said)

    def test_programs_that_it_starts_get_no_agent(self):
        code = "import subprocess, sys; print(open('/proc/self/maps').read().count('libheapctl')); sys.stdout.flush(); " \
               "import time; time.sleep(600)"
        script = pathlib.Path(self.folder, "start.sh")
        script.write_text(f"#!/bin/sh\n{python()} -c \"{code}\" &\necho $!\nwait\n")
        script.chmod(0o755)
        _, said = self.heapctl("run", script, code=2)
        self.assertIn("--exe NAME", said)
        shell = self.start(HEAPCTL, "run", "--exe", python(), "--", script, stdout=subprocess.PIPE)
        pid = int(shell.stdout.readline())
        self.end_pid_later(pid)
        self.wait_for_agent(pid)
        self.assertFalse(os.path.exists(self.socket_of(shell.pid)))

    def test_a_program_outside_of_path_that_a_script_starts(self):
        """Beside the script, in a folder that the script names, or unknown."""
        folder = pathlib.Path(self.folder, "app")
        (folder / "bin").mkdir(parents=True)
        subprocess.run([need("cc"), "-x", "c", "-", "-o", folder / "myserver"], input=SERVER, text=True, check=True)
        shutil.copy(folder / "myserver", folder / "bin/inner")
        for name, line in (("myserver", "./myserver"), ("inner", "exec \"bin/inner\""), ("inner", f"{folder}/bin/inner")):
            script = folder / "start.sh"
            script.write_text(f"#!/bin/sh\ncd {folder}\n{line}\n")
            script.chmod(0o755)
            for cwd, word in ((folder, "./start.sh"), (self.folder, "app/start.sh"), ("/", script)):
                said = pathlib.Path(self.folder, "said")
                with said.open("w") as stream:
                    shell = self.start(HEAPCTL, "run", "--exe", name, "--", word, stdout=subprocess.PIPE, stderr=stream, stdin=subprocess.PIPE, cwd=cwd)
                self.assertEqual(shell.stdout.readline(), b"0\n", (name, line, word, said.read_text()))
                shell.stdin.close()
                shell.wait(60)
        script.write_text("#!/bin/sh\ntrue\n")
        _, said = self.heapctl("run", "--exe", "nowhere", "--", script)
        self.assertIn("cannot find nowhere in PATH", said)
        self.assertIn("--exe PATH", said)


class Refusing(Case):
    def refused(self, *words, code=1, **options):
        return self.heapctl("run", "--", *words, code=code, **options)[1]

    def test_what_is_not_there(self):
        self.assertIn("there is no such command", self.refused("no-such-program"))
        self.assertIn("No such file", self.refused("/nonexistent/program"))
        self.heapctl("run", code=2)

    def test_static_programs(self):
        compiler = need("cc")
        source = pathlib.Path(self.folder, "s.c")
        source.write_text("int main(void) { return 0; }\n")
        program = pathlib.Path(self.folder, "s")
        if subprocess.run([compiler, "-static", "-o", program, source], capture_output=True).returncode != 0:
            self.skipTest("no static C library")
        self.assertIn("linked statically", self.refused(program))

    def test_programs_with_a_sanitizer_inside(self):
        program = os.path.join(self.folder, "program")
        subprocess.run([need("cc"), "-fsanitize=address", "-static-libasan", "-x", "c", "-", "-o", program], input="int main(void) { return 0; }", text=True, check=True)
        self.assertIn("is built with a sanitizer (asan)", self.refused(program))

    def test_programs_linked_with_musl(self):
        compiler = need("cc")
        library, program = (os.path.join(self.folder, name) for name in ("libmusl.so", "musl"))
        subprocess.run([compiler, "-shared", "-x", "c", "-", "-Wl,-soname,libc.musl-x86_64.so.1", "-o", library], input="", text=True, check=True)
        subprocess.run([compiler, "-x", "c", "-", "-Wl,--no-as-needed", "-x", "none", library, "-o", program],
                       input="int main(void) { return 0; }", text=True, check=True)
        self.assertIn("linked with musl", self.refused(program))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a setuid program")
    def test_setuid_programs(self):
        program = pathlib.Path(self.folder, "suid")
        shutil.copy("/bin/true", program)
        os.chown(program, 65534, 65534)
        program.chmod(0o755 | stat.S_ISUID)
        self.assertIn("the loader ignores LD_PRELOAD", self.refused(program))

    def test_no_program_at_all(self):
        text = pathlib.Path(self.folder, "text")
        text.write_text("hello\n")
        text.chmod(0o755)
        self.assertIn("neither a program", self.refused(text))


class Preloading(Case):
    """The preloaded library, and the agent's that it loads."""

    def compile(self, source, name, *words):
        path = os.path.join(self.folder, name)
        subprocess.run([need("cc"), "-x", "c", "-", "-o", path, "-x", "none", *words], input=source, text=True, check=True)
        return path

    def libraries(self, *command, **options):
        """The files of heapctl that the program, which prints its mappings, has."""
        said = self.heapctl("run", *command, **options)[0]
        return set(re.findall(r"\S+/libheapctl\S*", said))

    def test_a_program_that_is_no_target_does_not_load_the_agent(self):
        directly = self.libraries("--", python(), "-c", "print(open('/proc/self/maps').read())")
        self.assertEqual(directly, {os.path.realpath(PRELOAD), os.path.realpath(AGENT)})
        below = self.libraries("--", python(), "-c", "import os; os.execv('/bin/cat', ['cat', '/proc/self/maps'])")
        self.assertEqual(below, {os.path.realpath(PRELOAD)})

    def test_the_agent_is_the_one_beside_it(self):
        self.compile("", "libheapctl.so.0", "-shared", "-Wl,-soname,libheapctl.so.0")
        found = self.libraries("--", python(), "-c", "print(open('/proc/self/maps').read())", env={"LD_LIBRARY_PATH": self.folder})
        self.assertEqual(found, {os.path.realpath(PRELOAD), os.path.realpath(AGENT)})

    @unittest.skipIf(SANITIZED, "heapctl itself would be preloaded with another library")
    def test_another_preloaded_library_has_a_dlopen_of_its_own(self):
        """As libfakechroot and VirtualGL do: then a name alone is not searched for beside the library that calls."""
        other = self.compile(OWN_DLOPEN, "libother.so", "-shared", "-fPIC")
        found = self.libraries("--", python(), "-c", "print(open('/proc/self/maps').read())", env={"LD_PRELOAD": other})
        self.assertEqual(found, {os.path.realpath(PRELOAD), os.path.realpath(AGENT)})

    def test_a_linked_program_has_one_agent(self):
        """That of the library that it is linked with."""
        library = shutil.copy(os.path.realpath(AGENT), os.path.join(self.folder, "libheapctl.so.0"))
        program = self.compile(SHOW_AGENT, "linked", library, f"-Wl,-rpath,{self.folder}")
        said = self.heapctl("run", "--", program)[0]
        self.assertEqual(set(re.findall(r"\S+/libheapctl\S*", said)), {os.path.realpath(PRELOAD), os.path.realpath(library)})
        self.assertIn("started 1\n", said)

    def test_a_program_finds_its_functions(self):
        code = "import ctypes; print(ctypes.CDLL(None).heapctl_is_started())"
        self.assertEqual(self.heapctl("run", "--", python(), "-c", code)[0], "1\n")

    def test_the_final_profile_has_what_libraries_free_at_the_end(self):
        library = self.compile(FREE_AT_END, "libfree.so", "-shared", "-fPIC")
        program = self.compile("void keep(void); int main(void) { keep(); return 0; }", "user", library)
        path = os.path.join(self.folder, "out.heap")
        self.heapctl("run", "--record", path, "--conf", "lg_prof_sample:14", "--", program)
        size = pathlib.Path(path).read_text().splitlines()[1].split(":")[2]
        self.assertGreater(int(size.split()[0]), 10_000_000)

    def test_a_copy_without_it_preloads_the_agent(self):
        """Nor does the small library count without what it loads, libheapctl.so.0."""
        for source, name in ((HEAPCTL, "heapctl"), (AGENT, "libheapctl.so"), (PRELOAD, "libheapctl-preload.so")):
            shutil.copy(source, os.path.join(self.folder, name))
        out = subprocess.run([os.path.join(self.folder, "heapctl"), "run", "--", python(), "-c", PRINT], env=self.environment, check=True,
                             capture_output=True, text=True).stdout
        self.assertEqual(eval(out)["LD_PRELOAD"], os.path.join(os.path.realpath(self.folder), "libheapctl.so"))


class Recording(Case):
    def record(self, *arguments, **options):
        path = os.path.join(self.folder, "out.heap")
        process = self.start(HEAPCTL, "run", "--record", path, "--conf", "lg_prof_sample:14", "--", *arguments,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        return process, path

    def left_over(self):
        return [name for name in os.listdir(self.folder) if name.startswith("heapctl-record")]

    def test_the_exit_is_recorded_and_its_status_returned(self):
        process, path = self.record(python(), "-c", KEEP, env={"TMPDIR": self.folder})
        process.stdout.readline()
        process.stdin.close()
        self.assertEqual(process.wait(60), 3)
        text = pathlib.Path(path).read_text()
        self.assertTrue(text.startswith("heap_v2/16384\n"))
        self.assertTrue(text.endswith(f"\n#process {os.path.basename(python())}\n"), text[-100:])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.left_over(), [])

    def record_with_agent(self, *arguments, **options):
        process, path = self.record(python(), "-c", *arguments, **options)
        process.stdout.readline()
        child, = wait_until(lambda: children_of(process.pid), "the program")
        self.wait_for_agent(child)
        return process, path

    def test_a_signal_that_ends_the_program_is_passed_on_after_a_profile(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGABRT, signal.SIGRTMIN + 2):
            with self.subTest(number):
                process, path = self.record_with_agent(KEEP, env={"TMPDIR": self.folder})
                process.send_signal(number)
                self.assertEqual(process.wait(60), 128 + number)
                text = pathlib.Path(path).read_text()
                self.assertRegex(text[-100:], r"\n#process python3[.\d]*\n$")
                samples, size = text.splitlines()[1].split(":")[1:3]
                self.assertGreater(int(size.split()[0]), 10_000_000)
                self.assertEqual(self.left_over(), [])
                os.unlink(path)

    def test_no_profile_before_a_signal_that_the_program_handles_or_ignores(self):
        for handler in ("signal.SIG_IGN", "lambda *_: None"):
            with self.subTest(handler):
                process, _ = self.record_with_agent(f"import signal; signal.signal(signal.SIGUSR1, {handler})\n{KEEP}", "quick", stderr=subprocess.PIPE)
                process.send_signal(signal.SIGUSR1)
                process.stdin.close()
                self.assertEqual(process.wait(60), 5)
                self.assertIn(b"left no profile", process.stderr.read())

    def test_a_program_that_leaves_nothing_is_reported(self):
        process, path = self.record(python(), "-c", KEEP, "quick", stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdin.close()
        self.assertEqual(process.wait(60), 5)
        self.assertIn(b"left no profile", process.stderr.read())
        self.assertFalse(os.path.exists(path))

    def test_a_program_may_exit_with_any_status(self):
        """127 as well, which is heapctl's own where there is no program."""
        path = os.path.join(self.folder, "out.heap")
        for status in (126, 127):
            self.heapctl("run", "--record", path, "--", python(), "-c", f"exit({status})", code=status)
            os.unlink(path)
        busy = shutil.copy("/bin/true", os.path.join(self.folder, "busy"))
        with open(busy, "ab"):
            said = self.heapctl("run", "--record", path, "--", busy, code=127)[1]
        self.assertRegex(said, f"^heapctl: run: {busy}: Text file busy\n$")
        self.assertFalse(os.path.exists(path))

    def test_a_profile_that_cannot_be_saved_stays(self):
        path = os.path.join(self.folder, "made", "out.heap")
        os.mkdir(os.path.dirname(path))
        said = self.heapctl("run", "--record", path, "--", python(), "-c", f"import os; os.rmdir('{os.path.dirname(path)}')", code=1, env={"TMPDIR": self.folder})[1]
        kept = re.search("the profile stays in (.*)\n", said)[1]
        self.assertIn("heap_v2/", pathlib.Path(kept).read_text())
        self.assertEqual(os.listdir(os.path.dirname(kept)), [os.path.basename(kept)])

    def test_dumps_while_it_runs_are_not_taken_for_that_of_the_exit(self):
        path, code = os.path.join(self.folder, "out.heap"), "import ctypes; kept = [bytes(50000) for _ in range(600)]; ctypes.CDLL(None).exit(0)"
        self.heapctl("run", "--jemalloc", "--record", path, "--conf", "lg_prof_sample:12,lg_prof_interval:20", "--", python(), "-c", code)
        size = pathlib.Path(path).read_text().splitlines()[1].split(":")[2]
        self.assertGreater(int(size.split()[0]), 600 * 50_000)

    def test_the_profile_is_kept_where_no_file_may_be_linked(self):
        """As by a security module: the program has ended, and its profile cannot be taken again."""
        path = os.path.join(self.folder, "out.heap")
        for error in ("EPERM", "EOPNOTSUPP"):
            result = subprocess.run([need("strace"), "-f", "-o", "/dev/null", "-e", "trace=linkat", "-e", f"inject=linkat:error={error}", HEAPCTL, "run", "--record", path, "--", "/bin/true"],
                                    # The leak checker cannot work in a process that is traced.
                                    env=dict(self.environment, ASAN_OPTIONS="detect_leaks=0"), capture_output=True, text=True)
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertIn("heap_v2/", pathlib.Path(path).read_text())
            self.assertEqual(["out.heap"], [name for name in os.listdir(self.folder) if name.startswith("out.heap")])
            os.unlink(path)

    def test_a_profile_that_was_not_finished_is_not_taken(self):
        """The program is killed before it gives the file its name."""
        path = os.path.join(self.folder, "out.heap")
        code = "import os; pid = os.getpid(); print('x', file=open(f'{os.environ[\"HEAPCTL_FINAL\"]}.{pid}.0.f.heap.{pid}.{0:016x}', 'w'), flush=True); os.kill(pid, 9)"
        said = self.heapctl("run", "--record", path, "--", python(), "-c", code, code=128 + signal.SIGKILL)[1]
        self.assertIn("the program left no profile: it did not get as far as an orderly exit", said)
        self.assertFalse(os.path.exists(path))

    def test_profiles_of_other_processes_are_reported(self):
        """A script that waits for the program which is meant has none of its own."""
        path, name = os.path.join(self.folder, "out.heap"), os.path.basename(python())
        said = self.heapctl("run", "--exe", name, "--record", path, "--", "sh", "-c", f"{python()} -c pass; {python()} -c pass; exit 4", code=4)[1]
        self.assertIn("the program left no profile; 2 that it started did, and are not saved", said)
        self.assertIn("exec", said)
        self.assertFalse(os.path.exists(path))

    def test_a_profile_that_found_no_room_is_reported(self):
        """jemalloc says on standard error alone that its file was cut."""
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        need_namespace("--mount")
        small, path = os.path.join(self.folder, "small"), os.path.join(self.folder, "out.heap")
        os.mkdir(small)
        ends_a_line = "import os; open(os.environ['HEAPCTL_FINAL'] + '.%d.0.f.heap' % os.getpid(), 'w').write('x' * 4095 + chr(10)); os._exit(0)"
        jemalloc = f"--jemalloc --conf lg_prof_sample:10 -- {python()} -c pass"
        for pages, arguments in ((1, jemalloc), (2, jemalloc), (2, f'-- {python()} -c "{ends_a_line}"')):
            script = (f"mount -t tmpfs -o size={pages * 4}k none {small} && head -c 4096 /dev/zero >{small}/full; "
                      f"TMPDIR={small} exec {HEAPCTL} run --record {path} {arguments}")
            result = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=self.environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"cut short at {(pages - 1) * 4096} bytes", result.stderr)
            self.assertFalse(os.path.exists(path))

    def test_a_file_that_cannot_be_written_is_reported_beforehand(self):
        _, said = self.heapctl("run", "--record", "/nonexistent/x", "--", "true", code=1)
        self.assertIn("/nonexistent/x: No such file", said)


class RecordingAtATerminal(Case):
    """Signals of a terminal go to the whole group in its foreground."""
    ENDED_BY_CTRL_C = "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_DFL); kept = [bytes(50000) for _ in range(600)]; "
    SLEEPS = ENDED_BY_CTRL_C + "print('run' 'ning', flush=True); time.sleep(600)"

    def open_terminal(self, *command):
        """A new one, of which the command is the session's leader, as a shell is."""
        self.main, terminal = os.openpty()
        self.shown = ""

        def take():
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY)
        process = self.start(*command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=self.folder, preexec_fn=take, env={"PS1": "prompt "})
        os.close(terminal)
        fcntl.fcntl(self.main, fcntl.F_SETFL, os.O_NONBLOCK)
        self.terminal_leader = process.pid
        return process

    def tearDown(self):
        if self.main is not None:
            os.close(self.main)

    def hang_up(self):
        os.close(self.main)
        self.main = None

    def type(self, text):
        self.shown = ""
        os.write(self.main, text.encode())

    def wait_for(self, text):
        def has():
            try:
                self.shown += os.read(self.main, 65536).decode(errors="replace")
            except (BlockingIOError, OSError):
                pass
            return text in self.shown
        wait_until(has, lambda: f"{text!r} in {self.shown!r}")

    def record(self, code):
        process = self.open_terminal(HEAPCTL, "run", "--record", "out.heap", "--", python(), "-c", code)
        self.wait_for("running")
        child, = wait_until(lambda: children_of(process.pid), "the program")
        self.wait_for_agent(child)
        return process, child

    def assert_recorded(self):
        _, size = pathlib.Path(self.folder, "out.heap").read_text().splitlines()[1].split(":")[1:3]
        self.assertGreater(int(size.split()[0]), 1_000_000)

    def test_ctrl_c_is_passed_on_after_a_profile(self):
        process, _ = self.record(self.SLEEPS)
        self.type("\x03")
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)
        self.assert_recorded()

    def test_a_terminal_that_disconnects_ends_the_program(self):
        process, child = self.record(self.SLEEPS)
        self.hang_up()
        self.assertEqual(process.wait(60), 128 + signal.SIGHUP)
        self.assertFalse(os.path.exists(f"/proc/{child}"))
        self.assert_recorded()

    def test_the_leader_of_a_session_passes_a_hang_up_on_in_a_pipeline(self):
        """Only it hears of that."""
        process = self.open_terminal("bash", "-c", f'exec {HEAPCTL} run --record out.heap -- {python()} -c "{self.SLEEPS}" 2> >(cat)')
        self.wait_for("running")
        child, = wait_until(lambda: [pid for pid in children_of(process.pid) if "-c" in self.words_of(pid)], "the program")
        self.wait_for_agent(child)
        self.hang_up()
        self.assertEqual(process.wait(60), 128 + signal.SIGHUP)
        self.assert_recorded()

    def test_a_program_that_stops_itself_gets_the_terminal(self):
        code = "import os, signal, termios; signal.signal(signal.SIGTTOU, lambda *_: os.kill(os.getpid(), signal.SIGSTOP)); print('run' 'ning', flush=True); "
        code += "\nfor _ in range(2):\n try: termios.tcsetattr(0, termios.TCSADRAIN, termios.tcgetattr(0))\n except termios.error: continue\n print('set', flush=True)"
        process = self.open_terminal(HEAPCTL, "run", "--record", "out.heap", "--", python(), "-c", code)
        self.wait_for("out.heap: ")
        self.assertEqual(process.wait(60), 0, self.shown)
        self.assertIn("set", self.shown)

    def test_ctrl_z_without_a_shell_stops_nothing(self):
        """Nobody could let it continue."""
        process, child = self.record(self.SLEEPS)
        self.type("\x1a")
        self.wait_for("^Z")
        self.type("\x03")
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)

    def test_a_program_that_reads_gets_the_terminal(self):
        process, child = self.record(self.ENDED_BY_CTRL_C + "print('run' 'ning', flush=True); print('got', sys.stdin.readline()); time.sleep(600)")
        self.type("a line\n")
        self.wait_for("got a line")
        self.assertEqual(os.tcgetpgrp(self.main), child)
        self.type("\x03")
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)

    def test_only_a_command_that_was_typed_gives_the_program_a_group(self):
        """In a script, a pipeline or the background others of heapctl's group would be left out, or the terminal would not be its to give."""
        self.open_terminal(need("bash"), "--norc", "-i")
        self.wait_for("prompt ")
        typed = f"{HEAPCTL} run --record out.heap -- sleep 600"
        for command, is_separate in ((typed, True), (typed + " >log", True), (f"sh -c '{typed}; true'", False), (f"timeout 500 {typed}", False), (typed + " | cat", False), (typed + " &", False)):
            with self.subTest(command):
                self.type(command + "\n")
                program = wait_until(lambda: [pid for pid in self.session() if self.words_of(pid) == ["sleep", "600"]], "the program")[0]
                recorder, = [pid for pid in self.session() if self.words_of(pid)[:2] == [HEAPCTL, "run"]]
                self.assertEqual(os.getpgid(program) != os.getpgid(recorder), is_separate)
                self.wait_for_agent(program)
                self.type("kill %1\n" if command.endswith("&") else "\x03")
                wait_until(lambda: not os.path.exists(f"/proc/{program}"), "its end")

    def session(self):
        """The processes at this terminal."""
        leader = self.terminal_leader
        def is_of(pid):
            try:
                return os.getsid(pid) == leader
            except ProcessLookupError:
                return False
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if is_of(pid)]

    @staticmethod
    def words_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        except FileNotFoundError:
            return []

    def test_a_shell_stops_and_continues_both(self):
        self.open_terminal(need("bash"), "--norc", "-i")
        self.wait_for("prompt ")
        self.type(f"{HEAPCTL} run --record out.heap -- {python()} -c \"{self.SLEEPS}\"\n")
        self.wait_for("running")
        for _ in range(2):
            self.type("\x1a")
            self.wait_for("Stopped")
            self.wait_for("prompt ")
            self.type("fg\n")
            self.wait_for(" -c ")
        self.type("\x03")
        self.wait_for("out.heap: ")
        self.wait_for("prompt ")
        self.type("echo ended' 'with $?\n")
        self.wait_for(f"ended with {128 + signal.SIGINT}")
        self.assert_recorded()

    def test_a_program_that_stops_itself_stops_its_job(self):
        self.open_terminal(need("bash"), "--norc", "-i")
        self.wait_for("prompt ")
        self.type(f"{HEAPCTL} run --record out.heap -- {python()} -c \"import os, signal; os.kill(os.getpid(), signal.SIGTSTP); print('con' 'tinued')\"\n")
        self.wait_for("Stopped")
        self.wait_for("prompt ")
        self.type("fg\n")
        self.wait_for("continued")
        self.wait_for("out.heap: ")

    def test_what_others_stop_they_continue(self):
        process, child = self.record(self.ENDED_BY_CTRL_C + "print('run' 'ning', flush=True); time.sleep(600)")
        os.kill(child, signal.SIGSTOP)
        wait_until(lambda: "\nState:\tT" in pathlib.Path(f"/proc/{child}/status").read_text(), "the stop")
        os.kill(child, signal.SIGCONT)
        self.type("\x03")
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)

    def test_a_stopped_job_that_is_killed_leaves_its_profile(self):
        self.open_terminal(need("bash"), "--norc", "-i")
        self.wait_for("prompt ")
        self.type(f"{HEAPCTL} run --record out.heap -- {python()} -c \"{self.SLEEPS}\"\n")
        self.wait_for("running")
        self.type("\x1a")
        self.wait_for("Stopped")
        self.type("kill %1\n")
        self.wait_for("out.heap: ")
        self.assert_recorded()

    def test_the_terminal_goes_with_a_program_that_is_stopped(self):
        """One that reads has it, and Ctrl-Z reaches the program alone."""
        self.open_terminal(need("bash"), "--norc", "-i")
        self.wait_for("prompt ")
        self.type(f"{HEAPCTL} run --record out.heap -- cat\n")
        self.wait_for("-- cat")
        for word in ("one", "two"):
            # What is typed while the shell sets the terminal may be lost.
            wait_until(lambda: self.words_of(os.tcgetpgrp(self.main)) == ["cat"], "the program to have the terminal")
            self.type(f"{word}\n")
            self.wait_for(f"{word}\r\n{word}")
            self.type("\x1a")
            self.wait_for("Stopped")
            self.wait_for("prompt ")
            self.type("fg\n")
            self.wait_for("-- cat")
        self.type("\x04")
        self.wait_for("prompt ")
        self.type("echo ended' 'with $?\n")
        self.wait_for("ended with 0")


if __name__ == "__main__":
    unittest.main()
