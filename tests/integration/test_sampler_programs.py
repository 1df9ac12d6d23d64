#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that a sampler within malloc disturbs easily, each without it and with it: they must behave the same."""
import os
import re
import resource
import subprocess
import unittest

from known_heap import bytes_by_site
from processes import AGENT, PATIENCE_SECONDS, ask, need, need_namespace
from sampled_servers import SERVERS, find
from test_agent_library import INCLUDE, STATIC
from test_sampler import ALLOCATORS, COPIED, LIBRARIES, LOADER, PLUGIN, PROGRAMS, TEXT, SamplerCase, library_of

SAFE_IN_HANDLERS = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <stdatomic.h>
static char arena[(size_t)2 << 30] __attribute__((aligned(4096)));
static _Atomic size_t used;
static int has(char *block) { return block >= arena && block < arena + sizeof arena; }
static size_t *size_of(void *block) { return (size_t *)((char *)block - 16); }
void *malloc(size_t size)
{
	const size_t bytes = ((size + 15) & ~(size_t)15) + 16, at = atomic_fetch_add(&used, bytes);
	if (at + bytes > sizeof arena) { errno = ENOMEM; return NULL; }
	*(size_t *)(arena + at) = size;
	return arena + at + 16;
}
void free(void *block)
{
	if (block == NULL) return;
	if (!has(block) || *size_of(block) == SIZE_MAX) __builtin_trap();
	*size_of(block) = SIZE_MAX;
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *old, size_t size)
{
	void *block = malloc(size);
	if (old == NULL || block == NULL) return block;
	memcpy(block, old, *size_of(old) < size ? *size_of(old) : size);
	free(old);
	return block;
}
"""
# A program at fixed addresses whose malloc and dlopen have the addresses of its own stubs.
TAKES_ADDRESSES = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	void *(*volatile allocate)(size_t) = malloc;
	void (*volatile release)(void *) = free;
	void *library = dlopen("libz.so.1", RTLD_LAZY);
	unsigned long (*bound)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(library, "compressBound");
	for (int i = 0; i < 1000; i++) {
		char *block = allocate(100 + i), *copy = strdup("text");
		release(realloc(block, 3000));
		free(copy);
		free(malloc(50));
		release(calloc(3, 40));
	}
	printf("%lu\\n", bound(1000));
	return 0;
}
"""
# Starts the agent, keeps what it allocates until the next line, then frees it and switches sampling off.
LINKED = """
#include <heapctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *kept[10], *moved;
void *site_kept(void) { void *volatile block = malloc(1000); return block; }
void *site_moved(void *block) { void *volatile larger = realloc(block, 3000); return larger; }
static void wait_for_line(const char *word) { char line[16]; puts(word); fflush(stdout); if (read(0, line, sizeof line) <= 0) exit(2); }
int main(void)
{
	if (heapctl_start(NULL, NULL) != 0 || heapctl_activate(NULL) != 0) return 1;
	for (int i = 0; i < 10; i++) kept[i] = site_kept();
	moved = site_moved(site_kept());
	wait_for_line("kept");
	for (int i = 0; i < 10; i++) free(kept[i]);
	free(moved);
	if (heapctl_deactivate(NULL) != 0) return 1;
	wait_for_line("freed");
	return 3;
}
"""


class ComparedCase(SamplerCase):
    def outcome(self, *command, preload, **env):
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS,
                                env=dict(self.environment, LD_PRELOAD=":".join(filter(None, preload)), MALLOC_CONF="", **env))
        return result.returncode, result.stdout, result.stderr

    def check(self, *command, libraries=(), interval=16, orders=("first",), **env):
        """The program does the same with the agent before the other libraries, or behind them."""
        alone = self.outcome(*command, preload=libraries, **env)
        for order in orders:
            preload = [AGENT, *libraries] if order == "first" else [*libraries, AGENT]
            sampled = self.outcome(*command, preload=preload, HEAPCTL_ACTIVATE="1", HEAPCTL_SAMPLE=str(interval), **env)
            self.assertEqual(sampled, alone, (order, libraries))
        return alone

    def build(self, name, source, *options):
        path = os.path.join(self.folder, name)
        subprocess.run([need("cc"), "-g", "-O1", "-w", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True)
        return path


class HardPrograms(ComparedCase):
    def check_each(self, name):
        for allocator in ALLOCATORS:
            if ALLOCATORS[allocator] is None or (LIBRARIES / ALLOCATORS[allocator]).exists():
                alone = self.check(PROGRAMS / "sampled_cases", name, libraries=[library_of(allocator)])
                self.assertEqual(alone[0], 0, alone)

    def test_a_sandbox_that_kills(self):
        self.check_each("seccomp-kill")

    def test_a_sandbox_that_refuses(self):
        self.check_each("seccomp-errno")

    def test_vfork(self):
        self.check_each("vfork")

    def test_children_of_many_threads(self):
        self.check_each("fork-storm")

    def test_an_allocator_with_a_hash_table_of_the_old_format_alone(self):
        """Its functions are found, not those of the C library behind it, whose blocks it does not know."""
        library = self.build("libold.so", SAFE_IN_HANDLERS, "-shared", "-fPIC", "-fno-builtin", "-Wl,--hash-style=sysv")
        for binding in ("lazy", "now"):
            program = self.build(f"bound_{binding}", TAKES_ADDRESSES, "-fno-builtin", f"-Wl,-z,{binding}")
            self.assertEqual(self.check(program, libraries=[library], orders=("first", "last"))[0], 0)

    def test_children_without_forks_handlers(self):
        self.check_each("clone-storm")

    def test_threads_that_end(self):
        self.check_each("thread-storm")

    def test_threads_that_are_cancelled(self):
        self.check_each("cancelled-threads")

    def test_small_stacks_that_go_away(self):
        self.check_each("coroutines")

    def test_an_alternate_stack(self):
        self.check_each("alternate-stack")

    def test_little_address_space(self):
        self.check(PROGRAMS / "sampled_cases", "address-space")

    def test_what_the_functions_do_at_their_edges(self):
        self.check_each("edges")

    def test_malloc_in_a_handler_that_interrupts_malloc(self):
        """With an allocator that allows it, the sampler must, too."""
        library = self.build("libsafe.so", SAFE_IN_HANDLERS, "-shared", "-fPIC", "-fno-builtin")
        self.assertEqual(self.check(PROGRAMS / "sampled_cases", "interrupted", libraries=[library]), (0, "handled at least 50 1\n", ""))


class Forks(SamplerCase):
    def test_no_child_inherits_a_lock_of_the_loader(self):
        """The agent reads the list of modules again and again, and the program forks meanwhile."""
        process = self.start(PROGRAMS / "forks", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={"LD_PRELOAD": AGENT, "MALLOC_CONF": ""})
        self.assertEqual(process.stdout.readline(), "ready\n")
        for _ in range(60):
            for verb in ("activate", "deactivate"):
                self.heapctl(verb, process.pid)
        self.assertRegex(process.communicate(timeout=PATIENCE_SECONDS)[0], r"^ok [1-9]\d*\n$")


# What an allocator has besides the functions of C and C++: how a block is made, another one changed, and freed. {b} is the block.
FAMILIES = {
    "tcmalloc": {
        "void *tc_{n}(size_t)": ["malloc", "malloc_skip_new_handler", "valloc", "pvalloc", "new", "newarray"],
        "void *tc_{n}(size_t, const void *)": ["new_nothrow", "newarray_nothrow"],
        "void *tc_{n}(size_t, size_t)": ["new_aligned", "newarray_aligned"],
        "void *tc_{n}(size_t, size_t, const void *)": ["new_aligned_nothrow", "newarray_aligned_nothrow"],
        "void tc_{n}(void *)": ["free", "cfree", "delete", "deletearray"],
        "void tc_{n}(void *, size_t)": ["free_sized", "delete_sized", "deletearray_sized", "delete_aligned", "deletearray_aligned"],
        "void tc_{n}(void *, const void *)": ["delete_nothrow", "deletearray_nothrow"],
        "void tc_{n}(void *, size_t, size_t)": ["delete_sized_aligned", "deletearray_sized_aligned"],
        "void tc_{n}(void *, size_t, const void *)": ["delete_aligned_nothrow", "deletearray_aligned_nothrow"],
        "void *tc_{n}(void *, size_t)": ["realloc"],
    },
    "mimalloc": {
        "void *mi_{n}(size_t)": ["malloc", "zalloc", "new", "new_nothrow", "valloc", "pvalloc"],
        "void *mi_{n}(size_t, size_t)": ["malloc_aligned", "zalloc_aligned", "new_aligned", "new_aligned_nothrow"],
        "void mi_{n}(void *)": ["free", "cfree"],
        "void mi_{n}(void *, size_t)": ["free_size", "free_aligned"],
        "void mi_{n}(void *, size_t, size_t)": ["free_size_aligned"],
        "void *mi_{n}(void *, size_t)": ["realloc", "reallocf", "rezalloc", "new_realloc"],
        "void *mi_{n}(void *, size_t, size_t)": ["reallocn", "recalloc", "new_reallocn", "realloc_aligned", "rezalloc_aligned"],
        "void *mi_{n}(void *, size_t, size_t, size_t)": ["recalloc_aligned"],
        "void *mi_{n}(size_t, size_t, size_t)": ["calloc_aligned"],
    },
    "jemalloc": {
        "void *{n}(size_t, int)": ["mallocx"],
        "void {n}(void *, int)": ["dallocx"],
        "void {n}(void *, size_t, int)": ["sdallocx"],
        "void *{n}(void *, size_t, int)": ["rallocx"],
        "size_t {n}(void *, size_t, size_t, int)": ["xallocx"],
    },
}


class Families(SamplerCase):
    """Blocks of each function that an allocator alone has are counted, and are gone when any of its functions frees them."""

    SIZE, LARGE, ALIGNMENT = 1024, 40000, 64

    def call(self, declaration, name):
        """(function, arguments): sizes are SIZE in all, and what resizes makes LARGE of a block."""
        result, _, rest = declaration.partition(" ") if not declaration.startswith("void *") else ("void *", "", declaration[6:])
        function, _, types = rest.replace("{n}", name).rstrip(")").partition("(")
        types = types.split(", ")
        size = self.LARGE if types[0] == "void *" and result != "void" else self.SIZE
        sizes = {1: [size], 2: [size, self.ALIGNMENT], 3: [size // 8, 8, self.ALIGNMENT]}[max(1, types.count("size_t"))]
        if name in ("reallocn", "recalloc", "new_reallocn"):
            sizes = [size // 8, 8]
        if name in ("delete_aligned", "deletearray_aligned", "free_aligned", "delete_aligned_nothrow", "deletearray_aligned_nothrow"):
            sizes = [self.ALIGNMENT]
        if name == "xallocx":
            sizes = [self.SIZE // 2, 0]
        sizes = iter(sizes)
        fixed = {"void *": "block", "const void *": '""', "int": "0"}
        return result, function, ", ".join(fixed.get(kind) or str(next(sizes)) for kind in types)

    def program(self, functions):
        """
        Each function has a site with its name spelled backwards, because reports cut off functions that are called like an allocator's. What
        makes a block keeps one; the others get a block of the first function, and free or change it.
        """
        text, calls, expected = ["#include <stdio.h>", "#include <stddef.h>", "#define SITE(name) __attribute__((noinline)) static void *site_##name"], [], {}
        first = None
        for declaration, names in functions.items():
            for name in names:
                result, function, arguments = self.call(declaration, name)
                text.append(f"{declaration.replace('{n}', name)};")
                makes = not arguments.startswith("block")
                first = first or (function, arguments)
                site = name[::-1]
                text.append(f"SITE({site})(void *block) {{ void *volatile made = block; "
                            + (f"{function}({arguments}); " if result != "void *" else f"made = {function}({arguments}); ") + "return made; }")
                calls.append(f"if (!site_{site}({'NULL' if makes else 'site_made(NULL)'})) return 3;")
                if result != "void":
                    expected[site] = self.LARGE if result == "void *" and not makes else self.SIZE // 2 if name == "xallocx" else self.SIZE
        text.append(f"SITE(made)(void *block) {{ void *volatile made = {first[0]}({first[1]}); return made; }}")
        text.insert(3, "static void *site_made(void *);")
        return "\n".join(text + ["int main(void) {", *calls, 'puts("ready"); fflush(stdout); getchar(); return 0; }']), expected

    def check_family(self, allocator):
        source, expected = self.program(FAMILIES[allocator])
        program = self.build(allocator, source, "-fno-builtin", f"-l:{ALLOCATORS[allocator]}")
        process = self.start_known(program, allocator=allocator)
        self.assertEqual(bytes_by_site(self, process.pid), expected)

    def test_tcmalloc(self):
        self.check_family("tcmalloc")

    def test_mimalloc(self):
        self.check_family("mimalloc")

    def test_jemalloc(self):
        self.check_family("jemalloc")


class Linked(SamplerCase):
    """A program that is linked with the agent: its own calls are seen also where it contains the agent, and shares its slots."""

    def check_linked(self, *libraries):
        program = self.build("linked", LINKED, f"-I{INCLUDE}", "-fno-builtin", "-x", "none", *libraries, "-pthread")
        process = self.start(program, env={"HEAPCTL_SAMPLE": "1", "MALLOC_CONF": ""}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.go_on(process, "kept")
        self.assertEqual(bytes_by_site(self, process.pid), {"kept": 10 * 1000, "moved": 3000})
        self.answer(process)
        self.go_on(process, "freed")
        self.assertEqual(bytes_by_site(self, process.pid), {})
        # The buffer of standard output is sampled, too.
        ask(self.socket_of(process.pid), "/v1/reset", "POST")
        self.assertEqual(self.status(process.pid)["sampler"]["slots"], 0)
        self.answer(process)
        self.assertEqual(process.wait(PATIENCE_SECONDS), 3)

    def test_the_static_library(self):
        self.check_linked(STATIC)

    def test_the_shared_library(self):
        self.check_linked(AGENT, f"-Wl,-rpath,{os.path.dirname(AGENT)}")

    def test_the_static_library_in_front_of_another_malloc(self):
        self.check_linked(STATIC, library_of("tcmalloc"))


class ExitProfile(SamplerCase):
    """HEAPCTL_FINAL: the profile of the process' end is whole, or there is none, and the exit status stays the same."""

    def run_to_the_end(self, *before, end="return 3;", **options):
        """The program's status, its profiles, and their number; after commands that have their own mounts."""
        profiles = os.path.join(self.folder, "profiles")
        os.makedirs(profiles, exist_ok=True)
        self.build("kept", "#include <stdlib.h>\nvoid *site_kept(void) { return malloc(1000); }\n"
                             f"void pthread_exit(void *); int main(void) {{ for (int i = 0; i < 100; i++) site_kept(); {end} }}", "-fno-builtin")
        script = "\n".join(["cd profiles", *before, 'LD_PRELOAD="$PRELOADED" ../kept', "echo $?", "cat *", "ls | wc -l"])
        env = dict(self.environment, **self.sampled(), HEAPCTL_FINAL=f"{profiles}/exit", HEAPCTL_LOG="stderr")
        env["PRELOADED"] = env.pop("LD_PRELOAD")
        return subprocess.run([*(["unshare", "--mount"] if before else []), "sh", "-c", script], cwd=self.folder, env=env, capture_output=True,
                              text=True, timeout=2 * PATIENCE_SECONDS, **options)

    def check_profile(self, status, **options):
        lines = self.run_to_the_end(**options).stdout.splitlines()
        self.assertEqual((lines[0], lines[1], lines[-1]), (status, "heap_v2/1", "1"))
        self.assertEqual(lines[-2], "#sampling heapctl from-start")

    def test_it_says_what_took_the_samples(self):
        self.check_profile("3")

    def test_a_main_thread_that_ends_alone(self):
        self.check_profile("0", end="pthread_exit(NULL);")

    def check_that_nothing_is_left(self, result, reason):
        self.assertEqual(result.stdout, "3\n0\n", result.stderr)
        self.assertRegex(result.stderr, rf"heapctl: the profile at the exit: .*{reason}")

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        need_namespace("--mount")
        self.check_that_nothing_is_left(self.run_to_the_end("mount -t tmpfs -o size=4k none . && cd . && head -c 4096 /dev/zero >.full"), "No space left on device")

    def test_a_limit_on_the_size_of_files(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        self.check_that_nothing_is_left(self.run_to_the_end(preexec_fn=limit), "File too large")


class Order(ComparedCase):
    """Which allocator is the process' own must not depend on where the agent stands in LD_PRELOAD."""

    def takes_addresses(self):
        return self.build("takes_addresses", TAKES_ADDRESSES, "-no-pie", "-fno-pic", "-fno-builtin", "-Wl,-z,lazy")

    def check_order(self, allocator):
        library = library_of(allocator)
        program = self.takes_addresses()
        self.check(program, libraries=[library], orders=("first", "last"))
        process = self.start("/bin/sh", "-c", f"{program}; exec {self.waits()}", stdout=subprocess.PIPE,
                             env={"LD_PRELOAD": f"{library}:{AGENT}", "HEAPCTL_EXE": self.waits(), "MALLOC_CONF": ""})
        self.wait_for_agent(process.pid)
        self.assertEqual(self.status(process.pid)["allocator"]["malloc_name"], allocator)

    def waits(self):
        path = os.path.join(self.folder, "waits")
        if not os.path.exists(path):
            self.build("waits", "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { void *(*volatile f)(size_t) = malloc;"
                       "free(f(1)); for (;;) pause(); }", "-no-pie", "-fno-pic")
        return path

    def test_jemalloc(self):
        self.check_order("jemalloc")

    def test_tcmalloc(self):
        self.check_order("tcmalloc")

    def test_mimalloc(self):
        self.check_order("mimalloc")

    def test_the_c_librarys_checks(self):
        """Its names have an old version only, which dlsym() passes over and all programs are bound to."""
        library = LIBRARIES / "libc_malloc_debug.so.0"
        if not library.exists():
            self.skipTest("the C library has no such checks")
        self.check(self.takes_addresses(), libraries=[str(library)], orders=("first", "last"), MALLOC_CHECK_="3")
        self.check("/usr/bin/python3", "-c", "import json; print(len(json.dumps(list(range(3000)))))", libraries=[str(library)],
                   orders=("first", "last"), MALLOC_CHECK_="3")

    def test_a_plugin_of_a_program_that_takes_the_loaders_addresses(self):
        """It is seen as soon as it is found, as with any other program."""
        shared = ["-shared", "-fPIC", "-Wl,-z,lazy"]
        self.build("libdependency.so", 'char *dependency(void) { return "found"; }', *shared)
        self.build("libplugin.so", PLUGIN, *shared, f"-L{self.folder}", "-x", "none", "-ldependency", f"-Wl,-rpath,{self.folder}")
        source = LOADER.replace("MODE", "RTLD_LAZY").replace("TEXT", TEXT).replace('wait_for_line("ready");', 'void *(*volatile taken[])() = {(void *(*)())dlopen, (void *(*)())dlsym};'
                                                             'if (taken[0] == taken[1]) return 5; wait_for_line("ready");')
        loader = self.build("loader", source, "-no-pie", "-fno-pic", "-Wl,-z,lazy", f"-Wl,-rpath,{self.folder}")
        process = self.start_known(loader, allocator="glibc")
        self.answer(process)
        self.go_on(process, "found")
        self.go_on(process, "kept")
        self.assertEqual(bytes_by_site(self, process.pid), {"copied": COPIED, "plugin": 15 * 1000})


class Servers(ComparedCase):
    """What their clients get, and how they end."""

    def check_server(self, name):
        for program in SERVERS[name].programs:
            if find(*program) is None:
                need(program[0])
        server = SERVERS[name](self.folder)
        server.prepare()
        # PostgreSQL runs as another user.
        os.chmod(self.folder, 0o711)
        agents = server.folder_of_agents()
        for allocator in ALLOCATORS:
            if ALLOCATORS[allocator] is None or (LIBRARIES / ALLOCATORS[allocator]).exists():
                alone = self.outcome_of(server, LD_PRELOAD=library_of(allocator), MALLOC_CONF="")
                sampled = self.outcome_of(server, **self.sampled(allocator, interval=256), HEAPCTL_DIR=agents)
                self.assertEqual(sampled, alone, allocator)

    def outcome_of(self, server, **env):
        server.start(**env)
        self.addCleanup(server.end)
        return server.load(300), server.stop()

    def test_postgresql(self):
        self.check_server("PostgreSQL")

    def test_mariadb(self):
        self.check_server("MariaDB")

    def test_nginx(self):
        self.check_server("nginx")

    def test_redis(self):
        self.check_server("Redis")


class Tracers(SamplerCase):
    def test_a_tracer_counts_what_the_sampler_counts(self):
        """By the probes of OpenTelemetry, where the kernel permits it."""
        process = self.start_known(PROGRAMS / "sampled_malloc", allocator="glibc")
        probe = f"usdt:{os.path.realpath(AGENT)}:otel_memory"
        counts = (f'{probe}:alloc {{ @blocks = count(); @bytes = sum(arg1); @weighted = sum(arg2); }} {probe}:free {{ @freed = count(); }}'
                  ' interval:ms:100 { printf("traces\\n"); }')
        tracer = self.start(need("bpftrace"), "-p", process.pid, "-e", counts, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = ""
        for line in tracer.stdout:
            seen += line
            if line == "traces\n":
                break
        else:
            self.skipTest("no tracer works here: " + seen)
        self.answer(process)
        self.go_on(process, "kept")
        figures = self.status(process.pid)["sampler"]
        self.answer(process)
        self.go_on(process, "freed")
        self.answer(process)
        process.wait(PATIENCE_SECONDS)
        # It ends with the process that it traces.
        found = dict(re.findall(r"@(\w+): (\d+)", tracer.communicate(timeout=PATIENCE_SECONDS)[0]))
        self.assertEqual(int(found["blocks"]), figures["samples"])
        self.assertEqual(found["bytes"], found["weighted"])
        self.assertEqual(found["freed"], found["blocks"])


class OtherLibraries(ComparedCase):
    """What else is preloaded, on both sides of the agent."""

    def check_beside(self, *names, **env):
        found = [str(path) for path in (LIBRARIES / name for name in names) if path.exists()]
        if not found:
            self.skipTest(f"{names[0]} is not installed")
        self.check("/usr/bin/python3", "-c", "import json, sqlite3, zlib; print(len(zlib.compress(json.dumps(list(range(3000))).encode())))",
                   libraries=found[:1], orders=("first", "last"), interval=64, **env)

    def test_faketime(self):
        self.check_beside("faketime/libfaketime.so.1", FAKETIME="2020-01-01 00:00:00")

    def test_the_full_tcmalloc(self):
        self.check_beside("libtcmalloc.so.4")

    def test_a_profiler_of_processor_time(self):
        self.check_beside("libprofiler.so.0")

    def test_debugging_tcmalloc(self):
        self.check_beside("libtcmalloc_debug.so.4")


if __name__ == "__main__":
    unittest.main()
