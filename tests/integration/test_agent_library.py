#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libheapctl needs from a process and what it exports: libc alone, heapctl_* alone, no new glibc."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import unittest

from processes import AGENT, BUILD, HEAPCTL, PRELOAD

SANITIZED = os.environ.get("HEAPCTL_SANITIZE", "none") != "none"
STATIC = str(BUILD / "src/agent/libheapctl.a")
INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include")
OLDEST_GLIBC = (2, 31)
# What the agent must not call: it ends the process, takes from the program's heap (messages may be translated) or a lock of its
# streams, or changes a file by a descriptor, which the program may have closed and opened again on a file of its own.
FORBIDDEN = {"abort", "exit", "_exit", "quick_exit", "fopen64", "fdopen", "printf", "fprintf", "vfprintf", "puts", "fputs", "fwrite",
             "perror", "strerror", "strerror_r", "strsignal", "setlocale", "opendir", "readdir64", "strdup", "asprintf", "vasprintf",
             "getline", "localtime", "localtime_r", "chmod", "fchmod", "chown", "fchown", "fchownat", "lchown", "dup2", "dup3"}
# How glibc before 2.34 opens libraries itself. The loader finds what is beside this library, as it does what is beside the caller.
OLD_GLIBC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
static int has_libdl;
void *__libc_dlopen_mode(const char *path, int mode)
{
	has_libdl |= strcmp(path, "libdl.so.2") == 0;
	return has_libdl ? dlopen(path, mode & 0x7fffffff) : NULL;
}
void *__libc_dlsym(void *library, const char *name) { return dlsym(library, name); }
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))


def exported(library):
    return {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()
            if line.split()[-2] != "A"}


def called(library):
    """By the names in the source: with _FORTIFY_SOURCE snprintf() is __snprintf_chk in the library."""
    names = {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--undefined-only", library).splitlines()}
    return {re.sub(r"^__(\w+)_chk$", r"\1", name) for name in names}


def newest_glibc(library):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-V", library))
    return max((int(major), int(minor)) for major, minor in versions)


def faults(library):
    found = [f"it needs {name}" for name in needed(library) if name != "libc.so.6"]
    found += [f"it shows {name}" for name in exported(library) if not name.startswith("heapctl_")]
    found += [f"it calls {name}()" for name in sorted(called(library) & FORBIDDEN)]
    if newest_glibc(library) > OLDEST_GLIBC:
        found.append(f"it wants glibc {newest_glibc(library)}")
    return found


@unittest.skipIf(SANITIZED, "a sanitizer adds its own")
class Library(unittest.TestCase):
    def test_the_shared_library(self):
        self.assertEqual([fault for fault in faults(AGENT) if platform.machine() == "x86_64" or "glibc" not in fault], [])
        self.assertIn("heapctl_start", exported(AGENT))

    def test_what_the_header_declares_is_there_and_nothing_else(self):
        with open(os.path.join(INCLUDE, "heapctl.h")) as text:
            declared = set(re.findall(r"HEAPCTL_API[^;]*?\b(heapctl_\w+)\(", text.read()))
        # What heapctl attach and the preloaded library call is no part of the interface.
        self.assertEqual(exported(AGENT), declared | {"heapctl_attach_agent", "heapctl_preload_end"})

    def test_the_preloaded_library_needs_few_names(self):
        """The loader searches each in every program that a target starts."""
        self.assertEqual([fault for fault in faults(PRELOAD) if platform.machine() == "x86_64" or "glibc" not in fault], [])
        self.assertEqual(exported(PRELOAD), set())
        self.assertLessEqual(len(called(PRELOAD)), 18, called(PRELOAD))

    @unittest.skipIf(platform.machine() != "x86_64", "elsewhere the agent needs the glibc that it was built with")
    def test_the_preloaded_library_loads_the_agent_where_there_is_no_libdl(self):
        """With glibc before 2.34 a server that is not linked with libdl has no dlopen()."""
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            shutil.copy(AGENT, place / "libheapctl.so.0")
            without = pathlib.Path(PRELOAD).read_bytes()
            for name in (b"dlopen", b"dladdr"):
                self.assertIn(b"\0" + name + b"\0", without)
                without = without.replace(b"\0" + name + b"\0", b"\0" + name[:-1] + b"_\0")
            (place / "libheapctl-preload.so").write_bytes(without)
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", place / "old.so", "-Wl,-rpath,$ORIGIN"], input=OLD_GLIBC, text=True,
                           check=True)
            result = subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True, timeout=60, check=True, env=dict(
                os.environ, HEAPCTL_EXE="cat", HEAPCTL_DIR=folder + "/agents", LD_PRELOAD=f"{place}/libheapctl-preload.so:{place}/old.so"))
        self.assertEqual(result.stderr, "")
        self.assertIn(f"{place}/libheapctl.so.0\n", result.stdout)

    def test_the_checks_can_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "leak.c")
            library = os.path.join(folder, "libleak.so")
            with open(source, "w") as text:
                text.write("#include <math.h>\n#include <pthread.h>\n#include <sys/stat.h>\n"
                           "#include <stdio.h>\n"
                           "double leak(double x) { return sin(x) + pthread_kill(pthread_self(), 0) + fchmod(2, 0600) +"
                           " printf(\"%f\", x); }\n")
            run("cc", "-shared", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", source, "-o", library, "-lm")
            found = "\n".join(faults(library))
            self.assertIn("it needs libm.so.6", found)
            self.assertIn("it shows leak", found)
            self.assertIn("it calls fchmod()", found)
            self.assertIn("it calls printf()", found)
            self.assertIn("it wants glibc", found)

    def test_the_static_library_shows_the_same(self):
        names = {line.split()[-1] for line in run("nm", "-g", "--defined-only", STATIC).splitlines() if len(line.split()) == 3}
        # What a fully static program is linked with --wrap for.
        self.assertEqual(names - {"__wrap__Unwind_Backtrace"}, exported(AGENT))

    def test_a_plugin_that_contains_the_agent_can_be_unloaded_after_stop(self):
        programs = BUILD / "tests/integration"
        # Beside another agent, too, which heapctl run has preloaded.
        for run_by, rounds in ([], "1000"), ([HEAPCTL, "run", "--"], "100"):
            with self.subTest(run_by=run_by), tempfile.TemporaryDirectory() as folder:
                result = subprocess.run([*run_by, programs / "unload", programs / "unload_object.so", rounds], capture_output=True,
                                        text=True, timeout=120, env=dict(os.environ, HEAPCTL_DIR=folder + "/agents"))
                self.assertEqual((result.returncode, result.stderr.replace("no priority\n", "")), (0, ""))

    def test_a_plugin_that_has_sampled_stays(self):
        """Another thread may be in its code, which walks the stacks of jemalloc's samples or takes heapctl's own."""
        programs = BUILD / "tests/integration"
        for env in ({"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": "prof:true,prof_active:false"}, {}):
            with self.subTest(env=env), tempfile.TemporaryDirectory() as folder:
                result = subprocess.run([programs / "unload", programs / "unload_object.so", "2", "sampling"], capture_output=True,
                                        text=True, timeout=120, env=dict(os.environ, HEAPCTL_DIR=folder + "/agents", **env))
                self.assertEqual((result.returncode, result.stderr.replace("no priority\n", "")), (0, ""))

    def test_the_header_is_c_and_cpp(self):
        for compiler, language, standard in (("cc", "c", "c99"), ("c++", "c++", "c++11")):
            result = subprocess.run([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                     "-fsyntax-only", "-I", INCLUDE, "-"], input='#include "heapctl.h"\n',
                                    capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
