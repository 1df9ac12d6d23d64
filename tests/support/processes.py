# SPDX-License-Identifier: Apache-2.0
"""Real processes for the integration tests: started on free ports in temporary folders, waited for by condition, ended by pid.

The build folder comes from the environment (HEAPCTL_BUILD), as meson sets it.
"""
import contextlib
import ctypes
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

BUILD = pathlib.Path(os.environ.get("HEAPCTL_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
HEAPCTL = str(BUILD / "src/cli/heapctl")
AGENT = str(BUILD / "src/agent/libheapctl.so")
PRELOAD = str(BUILD / "src/agent/libheapctl-preload.so")  # what heapctl run preloads
SANITIZED = os.environ.get("HEAPCTL_SANITIZE", "none") != "none"
COUNTS_LINES = "HEAPCTL_COVERAGE" in os.environ  # make coverage


def repeats(count):
    """How often to do what may go wrong by chance. The sanitizers have seen all code after a few times, and are slow."""
    return max(2, count // 10) if SANITIZED else count


# A loaded machine is slow; without a fault nothing here waits that long.
PATIENCE_SECONDS = 60


def wait_until(condition, what, seconds=PATIENCE_SECONDS, pause_seconds=0.02):
    """The first true value of condition(); fails naming `what`, or what it returns, when there is none in time. A condition that takes
    processor time, and is expected to be false for seconds, has a longer pause."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain: {what() if callable(what) else what}")
        time.sleep(pause_seconds)


def wait_while_it_progresses(measure, goal, what):
    """Until measure(), which grows, is `goal`. However long that takes on a busy machine: it fails when nothing has grown for a while."""
    reached = measure()
    while reached < goal:
        reached = wait_until(lambda: max(measure() - reached, 0), f"{what}: {reached} of {goal}") + reached


def processor_seconds(pid):
    """The processor time that a process has used by itself."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_descriptors(task):
    """What the open descriptors of a process or thread stand for, by number; `task` is its folder in /proc. One that is
    closed while they are listed is left out."""
    found = {}
    for name in os.listdir(f"{task}/fd"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[int(name)] = os.readlink(f"{task}/fd/{name}")
    return found


def listens(path):
    """Whether a Unix socket of this name accepts clients: between bind and listen the name is there, and refuses them."""
    accepts = "00010000"  # __SO_ACCEPTCON of the kernel
    for line in pathlib.Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
        words = line.split(maxsplit=7)
        if len(words) == 8 and words[3] == accepts and words[7] == path:
            return True
    return False


def numbers_in(folder):
    """The processes of /proc, or the threads of a process. Any of them may have ended; glob() asks each whether it has a
    file and fails where it ended meanwhile."""
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit())


def other_gateways():
    """The pids of all heapctl serve on this machine."""
    found = []
    for pid in numbers_in("/proc"):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if len(words) > 1 and words[0].endswith(b"heapctl") and words[1] == b"serve":
                found.append(pid)
    return found


def wait_until_unused(condition, what):
    """As wait_until, for tests that need an unused agent on demand. A gateway without names, as other tests start them,
    wakes all such agents of the machine: the time in which one runs is added to the patience, up to four times as much."""
    disturbed = 0
    last = begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        gateways = other_gateways()
        now = time.monotonic()
        disturbed = min(disturbed + (now - last if gateways else 0), 3 * PATIENCE_SECONDS)
        last = now
        if now > begin + PATIENCE_SECONDS + disturbed:
            raise AssertionError(f"waited {now - begin:.0f} s in vain: {what} (gateways on this machine: {gateways})")
        time.sleep(0.1)


def stop(pid):
    """Stops a process and waits until all of its threads stand still; SIGCONT lets them go on."""
    def stands(tid):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            return "\nState:\tT" in pathlib.Path(f"/proc/{pid}/task/{tid}/status").read_text()
        return True

    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: all(map(stands, numbers_in(f"/proc/{pid}/task"))), "the process to stop")


# Distinguishes the processes of this run of the tests from those of another run at the same time.
TAG = f"{os.getpid():x}"


def own_name(word):
    """A name for a process that no other process of the machine has; the kernel keeps 15 letters."""
    name = f"hc-{word}{TAG}"
    assert len(name) <= 15, name
    return name


claimed = []


def claim(kind, numbers):
    """The first of the numbers that no other process of these tests has now, of any copy of the sources; until this process ends.
    An abstract socket's name is the claim: the kernel forgets it with its process."""
    for number in numbers:
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0heapctl-test-{kind}-{number}")
        except OSError:
            mark.close()
            continue
        claimed.append(mark)
        return number
    raise AssertionError(f"all numbers for {kind} are taken")


def free_port():
    """A port without a listener, below those that the kernel gives to clients: one of these may be gone before it is used."""
    first = random.randrange(20000, 32000)
    while True:
        port = claim("port", [*range(first, 32000), *range(20000, first)])
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def decoder_without_functions(folder):
    """The name of the decoder's library; in the folder is one of that name that has none of its functions."""
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True, env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}).stdout
    name = re.search(r"libZydis\.so\.\d+\.\d+", known)[0]
    shutil.copy(BUILD / "src/agent/libheapctl-preload.so", pathlib.Path(folder, name))
    return name


def need(program):
    """The path of a program; skips the test, visibly, where it is not installed."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise unittest.SkipTest(f"{program} is not installed")
    return path


def need_namespace(kind):
    """Skips the test where a namespace of that kind ("--mount", "--user") cannot be made: in containers, in a chroot."""
    if subprocess.run(["unshare", kind, "true"], capture_output=True).returncode != 0:
        raise unittest.SkipTest(f"unshare {kind} does not work here")


def faketime_library():
    """What shows a program another date; see its README."""
    for path in ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"):
        if os.path.exists(path):
            return path
    raise unittest.SkipTest("faketime is not installed")


LANDLOCK_READ_DIR, LANDLOCK_MAKE_SOCK = 1 << 3, 1 << 9


SECCOMP_EPERM, SECCOMP_KILL = 0x50001, 0x80000000


def forbid_call(number, result, third_argument_bits=0):
    """What to call between fork and exec, so that this system call of x86-64 has that result; if there are bits: where its third argument has one."""
    load, equal, has_bits, end, allow = 0x20, 0x15, 0x45, 0x06, 0x7FFF0000
    code = [(load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 32), (has_bits, 0, 1, third_argument_bits), (end, 0, 0, result), (end, 0, 0, allow)]
    if third_argument_bits == 0:
        code = [(load, 0, 0, 0), (equal, 0, 1, number), (end, 0, 0, result), (end, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    libc = ctypes.CDLL(None)

    def enter():
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text)), 0, 0) != 0:
            os._exit(99)
    return enter


def landlock(case, rights):
    """What to call between fork and exec, so that the program has these rights to no file."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(444, None, ctypes.c_size_t(0), 1) < 1:
        case.skipTest("no Landlock here")

    def enter():
        ruleset = call(444, ctypes.byref(ctypes.c_uint64(rights)), ctypes.c_size_t(8), 0)
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
        if ruleset < 0 or call(446, ruleset, 0) != 0:
            os._exit(99)
        os.close(ruleset)
    return enter


def jemalloc_path():
    for path in ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"):
        if os.path.exists(path):
            return path
    raise unittest.SkipTest("libjemalloc.so.2 is not installed")


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children_of(pid):
    """Direct children, by every thread; none of a process that has ended."""
    found = []
    with contextlib.suppress(OSError):
        for tid in numbers_in(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, pathlib.Path(f"/proc/{pid}/task/{tid}/children").read_text().split())
    return found


def mapped_code(pid, path=""):
    """The code in memory, by its place there, of the file whose path ends so; of all files."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, permissions, _, _, inode = line.split()[:5]
            if permissions == "r-xp" and inode != "0" and line.endswith(str(path)):
                begin, end = (int(number, 16) for number in place.split("-"))
                found[begin] = os.pread(memory.fileno(), end - begin, begin)
    return found


def thread_called(pid, name):
    """The folder in /proc of a thread with that name, None where there is none."""
    with contextlib.suppress(OSError):
        for tid in numbers_in(f"/proc/{pid}/task"):
            task = pathlib.Path(f"/proc/{pid}/task/{tid}")
            with contextlib.suppress(OSError):
                if (task / "comm").read_text() == f"{name}\n":
                    return task
    return None


def agent_thread(pid):
    """The folder in /proc of the agent's thread in that process, None where there is none."""
    return thread_called(pid, "heapctl")


WAKE_SIGNAL = signal.SIGRTMAX - 3


def handles_waking(pid):
    """Whether the process has an agent on demand, or a thread's agent whose children have."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return int(status.partition("SigCgt:")[2].split()[0], 16) >> (WAKE_SIGNAL - 1) & 1 == 1


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE_SECONDS):
        super().__init__("agent", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, target, method="GET", timeout=PATIENCE_SECONDS):
    """(status, body) of one request to the agent behind a socket; JSON bodies are parsed."""
    connection = UnixConnection(str(path), timeout)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        body = answer.read()
        if "json" in (answer.getheader("Content-Type") or ""):
            body = json.loads(body)
        return answer.status, body
    finally:
        connection.close()


class Case(unittest.TestCase):
    """A test with a temporary folder, an own HEAPCTL_DIR in it, and processes that end with it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hc-")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.agents = os.path.join(self.folder, "agents")
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("HEAPCTL_", "MALLOC_CONF", "LD_PRELOAD"))}
        self.environment.update(HEAPCTL_DIR=self.agents, XDG_CACHE_HOME=os.path.join(self.folder, "cache"))

    def start(self, *command, env=None, wait_for=None, **options):
        """Starts a process that the end of the test ends; `wait_for` is a condition that must come true."""
        log = open(os.path.join(self.folder, f"log.{len(os.listdir(self.folder))}"), "w+b")
        self.addCleanup(log.close)
        options.setdefault("stdout", log)
        options.setdefault("stderr", log)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(word) for word in command], env=dict(self.environment, **(env or {})), **options)
        self.addCleanup(self.end, process)
        if wait_for is not None:
            def ready():
                if process.poll() is not None:
                    log.seek(0)
                    raise AssertionError(f"{command} ended with {process.returncode}: {log.read()[-2000:]!r}")
                return wait_for()
            wait_until(ready, f"{command} to be ready")
        return process

    def start_ready(self, program, *words, **options):
        """A program that says when it is ready, and ends after a line on its standard input."""
        process = self.start(program, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end(self, process):
        # A program of ours ends with its input, and writes its counters, which a signal prevents.
        if COUNTS_LINES and process.stdin is not None and process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.wait(5)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def end_pid_later(self, pid):
        """For a process that is no child of ours: a daemon that the test started."""
        def end():
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    return
                for _ in range(200):
                    if not is_alive(pid):
                        return
                    time.sleep(0.05)
        self.addCleanup(end)

    def heapctl(self, *arguments, code=0, env=None, program=HEAPCTL, **options):
        """Runs heapctl, checks its exit code and returns (stdout, stderr), without what it says while it waits: on a busy machine any answer may
        take so long."""
        result = subprocess.run([program, *map(str, arguments)], env=dict(self.environment, **(env or {})), capture_output=True,
                                text=True, timeout=PATIENCE_SECONDS * 2, stdin=subprocess.DEVNULL, **options)
        if code is not None:
            self.assertEqual(result.returncode, code, f"heapctl {arguments}: {result.stderr}\n{result.stdout[-2000:]}")
        return result.stdout, re.sub(r"(?m)^heapctl: .*: no answer yet; .*\n", "", result.stderr)

    def listed_pids(self):
        """Of `heapctl ps`, which lists the other targets of the machine, too: a pid may be a part of another's."""
        return {entry.get("pid") for entry in json.loads(self.heapctl("ps", "--json")[0])}

    def kill_heapctl(self, seconds, *arguments):
        """Starts heapctl, and kills it and its children after so long."""
        command = subprocess.Popen([HEAPCTL, *map(str, arguments)], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()

    def socket_of(self, pid):
        return os.path.join(self.agents, f"{pid}.sock")

    def wait_for_agent(self, pid):
        """The path of the agent's socket once it answers; wakes one on demand, as the children of a target have."""
        path = self.socket_of(pid)

        def answers():
            try:
                return ask(path, "/v1/status", timeout=5)[0] == 200
            except OSError:
                self.wake(pid)
                return False
        wait_until(answers, f"an agent in process {pid}")
        return path

    def wake(self, pid):
        """Lets heapctl wake an agent on demand."""
        if handles_waking(pid):
            self.heapctl("status", pid, code=None)

    def start_redis(self, *arguments, conf="prof:true,prof_active:false", preload=True, env=None):
        """Debian's redis-server with the agent preloaded; returns (process, port)."""
        server = need("redis-server")
        port = free_port()
        settings = dict(MALLOC_CONF=conf, **(env or {}))
        if preload:
            settings["LD_PRELOAD"] = AGENT
        process = self.start(server, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", self.folder, *arguments,
                             env=settings, wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")
        return process, port

    def start_named_redis(self, name, port=None, conf="prof:true,prof_active:true,lg_prof_sample:12", env=None, wait_for_agent=True):
        """A Redis with an agent that answers, of a name from own_name(); returns (process, port)."""
        program = os.path.join(self.folder, name)
        port = port or free_port()
        if not os.path.exists(program):
            shutil.copy(need("redis-server"), program)
        process = self.start(program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", self.folder,
                             env=dict(MALLOC_CONF=conf, LD_PRELOAD=AGENT, **(env or {})),
                             wait_for=lambda: self.redis(port, "PING") == b"+PONG\r\n")
        if wait_for_agent:
            self.wait_for_agent(process.pid)
        return process, port

    def start_varnish(self, conf="prof:true,prof_active:false"):
        """Debian's varnishd with the agent preloaded and no backend: it answers 503 itself."""
        port = free_port()

        def answers():
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
            except urllib.error.HTTPError as error:
                return error.code == 503
            except OSError:
                return False
            return True
        return self.start(need("varnishd"), "-F", "-a", f"127.0.0.1:{port}", "-b", "127.0.0.1:1",
                          "-n", os.path.join(self.folder, "varnish"), "-s", "malloc,16m", "-T", "none", "-j", "none",
                          env=dict(LD_PRELOAD=AGENT, MALLOC_CONF=conf), wait_for=answers)

    def start_named(self, *arguments, conf="prof:true,prof_active:false", names=0):
        """Debian's named with the agent preloaded, the only server of the zone "example" (a, h0, h1, ...); returns (process, port)."""
        port, folder = free_port(), pathlib.Path(self.folder)
        folder.chmod(0o777)
        (folder / "zone").write_text("$TTL 1\n@ SOA a a 1 1 1 1 1\n@ NS a\na A 127.0.0.1\n" +
                                     "".join(f"h{n} A 127.0.0.1\n" for n in range(names)))
        (folder / "named.conf").write_text(f"""options {{ directory "{folder}"; listen-on port {port} {{ 127.0.0.1; }};
            listen-on-v6 {{ none; }}; pid-file none; session-keyfile "{folder}/key"; recursion no; }};
            controls {{ }}; zone "example" {{ type primary; file "{folder}/zone"; }};""")
        process = self.start(need("named"), "-f", "-c", folder / "named.conf", "-p", port, *arguments, env=dict(LD_PRELOAD=AGENT, MALLOC_CONF=conf),
                             wait_for=lambda: self.ask_named(port, f"h{names - 1}" if names else "a"))
        return process, port

    @staticmethod
    def ask_named(port, name, timeout=5):
        """Whether NAME.example has an address there."""
        labels = b"".join(bytes([len(label)]) + label.encode() for label in (name, "example"))
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.settimeout(timeout)
                s.connect(("127.0.0.1", port))
                s.send(b"\x12\x34\0\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1")
                answer = s.recv(4096)
                return answer[3] & 15 == 0 and answer[6:8] != b"\0\0"
        except OSError:
            return False

    def redis(self, port, *words, timeout=20):
        """One command to a Redis; the raw answer, b"" when it cannot be reached."""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
                parts = [f"*{len(words)}\r\n".encode()]
                for word in words:
                    data = word if isinstance(word, bytes) else str(word).encode()
                    parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
                s.sendall(b"".join(parts))
                return s.recv(65536)
        except OSError:
            return b""

    @contextlib.contextmanager
    def loading_redis(self, port, keys=2000, size=200):
        """Fills a Redis with more and more, as long as the block lasts: whatever is recorded meanwhile has some of it, and keeps it."""
        ended = threading.Event()

        def load():
            first = 0
            while not ended.wait(0.02):
                self.load_redis(port, keys, size, first)
                first += keys
        thread = threading.Thread(target=load)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def load_redis(self, port, keys=2000, size=200, first=0):
        """Fills a Redis with that many values of that many bytes in one go."""
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as s:
            value = b"x" * size
            data = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, size, value)
                            for key in (b"key:%08d" % n for n in range(first, first + keys)))
            s.sendall(data)
            left = keys * len(b"+OK\r\n")
            while left > 0:
                left -= len(s.recv(min(left, 65536)))

    def load_redis_until(self, port, condition, what):
        """Adds 10 MB in each turn, until condition() is true: what it waits for measures growth, and may begin late."""
        turns = itertools.count()

        def holds():
            self.load_redis(port, keys=10000, size=1000, first=10000 * next(turns))
            return condition()
        return wait_until(holds, what)


def run_alone(case):
    """Runs a case with the method runTest that is a program of its own; what went wrong, or is missing, goes to stderr. Returns the exit code."""
    outcome = unittest.TestResult()
    case.run(outcome)
    for _, reason in outcome.errors + outcome.failures + outcome.skipped:
        print(reason, file=sys.stderr)
    return 0 if outcome.wasSuccessful() and not outcome.skipped else 1
