# SPDX-License-Identifier: Apache-2.0
"""Debian's Traffic Server with memory_profile.so, as its own user, in a run root of its own, before a small origin."""
import http.client
import http.server
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

from processes import BUILD, Case, free_port, is_alive, jemalloc_path, need, numbers_in, own_name, wait_until

PLUGIN = BUILD / "plugins/trafficserver/memory_profile.so"
BALLAST = BUILD / "tests/integration/ballast.so"
USER = "trafficserver"
SERVER = own_name("ts")
CONF = "prof:true,prof_active:false,lg_prof_sample:12"
BODY = b"origin" * 1000
FOLDERS = {
    "bindir": "bin", "sbindir": "/usr/bin", "includedir": "/usr/include", "libdir": "/usr/lib/trafficserver",
    "libexecdir": "/usr/lib/trafficserver/modules", "prefix": ".", "exec_prefix": ".", "sysconfdir": "etc", "datadir": "share",
    "localstatedir": "var", "runtimedir": "run", "logdir": "log", "cachedir": "cache",
}


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *arguments):
        pass


class TrafficServerCase(Case):
    """One Traffic Server per start_server(); what the plugin says is read from diags.log."""

    def setUp(self):
        super().setUp()
        self.manager_program = need("traffic_manager")
        self.setpriv = need("setpriv")
        self.jemalloc = jemalloc_path()
        if os.environ.get("HEAPCTL_SANITIZE", "none") != "none":
            raise unittest.SkipTest("memory_profile.so is not built with sanitizers: Traffic Server has none")
        self.assertTrue(PLUGIN.exists(), f"{PLUGIN} is not built although Traffic Server is installed: is trafficserver-dev?")
        self.root = pathlib.Path(self.folder)
        self.dumps = self.root / "dumps"
        self.port = free_port()
        self.start_origin()
        self.write_run_root()

    def start_origin(self):
        self.origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        self.origin.daemon_threads = True
        threading.Thread(target=self.origin.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.addCleanup(self.origin.server_close)
        self.addCleanup(self.origin.shutdown)

    def write_run_root(self):
        """By hand: traffic_layout init leaves Debian's /etc, /var and /run in it."""
        for name in ("bin", "etc", "share", "var", "run", "log", "cache", "dumps", "plugin"):
            (self.root / name).mkdir()
        (self.root / "runroot.yaml").write_text("".join(f"{name}: {self.root / path}\n" for name, path in FOLDERS.items()))
        # Under a name of its own: heapctl finds processes by their names, all over the machine.
        shutil.copy(need("traffic_server"), self.root / "bin" / SERVER)
        shutil.copytree("/etc/trafficserver", self.root / "etc", dirs_exist_ok=True)
        # The user may not be able to enter the build folder.
        shutil.copy(PLUGIN, self.root / "plugin")
        shutil.copy(BALLAST, self.root / "plugin")
        self.write_records()
        (self.root / "etc/remap.config").write_text(f"map / http://127.0.0.1:{self.origin.server_address[1]}/\n")
        (self.root / "etc/storage.config").write_text(f"{self.root}/cache 16M\n")
        self.write_plugin_arguments(f"--dir={self.agents}", "--keep=4")

    def write_records(self):
        path = self.root / "etc/records.config"
        settings = dict(re.findall(r"^CONFIG (\S+) (.*)$", path.read_text(), re.M))
        settings.update({
            "proxy.config.http.server_ports": f"STRING {self.port}",
            "proxy.config.proxy_binary": f"STRING {SERVER}",
            "proxy.config.exec_thread.autoconfig": "INT 0",
            "proxy.config.exec_thread.limit": "INT 2",
            "proxy.config.crash_log_helper": "STRING NULL",
            # Metrics are seen after both of these.
            "proxy.config.raw_stat_sync_interval_ms": "INT 200",
            "proxy.config.remote_sync_interval_ms": "INT 200",
            # Without free lists, so that each allocation is sampled on its own.
            "proxy.config.proxy_binary_opts": "STRING -M -f -F",
        })
        path.write_text("".join(f"CONFIG {name} {value}\n" for name, value in settings.items()))

    def write_plugin_arguments(self, *arguments):
        plugin = " ".join([str(self.root / "plugin/memory_profile.so"), *arguments])
        (self.root / "etc/plugin.config").write_text(f"{plugin}\n{self.root}/plugin/ballast.so\n")

    def as_user(self, *capabilities, user=USER):
        """The start of a command line that runs the rest as Traffic Server's user, with `capabilities` as systemd's ambient ones."""
        if os.geteuid() != 0:
            return []
        given = [f"--{kind}-caps=+{name}" for name in capabilities for kind in ("inh", "ambient")]
        return [self.setpriv, f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups", *given]

    def give_to_user(self):
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            for path in [self.root, *self.root.rglob("*")]:
                os.chown(path, user.pw_uid, user.pw_gid)

    def start_program(self, program, conf, prefix, preload, env, launcher, wait_for):
        settings = dict(env or {})
        if conf is not None:
            settings["MALLOC_CONF"] = f"{conf},prof_prefix:{prefix or self.dumps / 'jeprof'}"
        if preload:
            settings["LD_PRELOAD"] = self.jemalloc
        self.give_to_user()
        output = self.root / "log/traffic.out"
        # By env, so that setpriv itself is not preloaded with anything.
        return self.start(*launcher, "env", *(f"{name}={value}" for name, value in settings.items()),
                          program, f"--run-root={self.root}", "--bind_stdout", output, "--bind_stderr", output,
                          cwd=self.root, wait_for=wait_for)

    def start_server(self, conf=CONF, prefix=None, preload=True, env=None, launcher=None):
        """Starts the manager, waits until requests pass (it opens the port long before); self.pid is traffic_server's."""
        launcher = self.as_user() if launcher is None else launcher
        # After the manager's end: while it lives it starts what was ended again.
        self.addCleanup(self.end_left_over)
        self.manager = self.start_program(self.manager_program, conf, prefix, preload, env, launcher, lambda: self.get() == 200)
        self.pid = self.find_server()

    def start_server_alone(self, conf=CONF, prefix=None, preload=True, env=None):
        """Without the manager, which is quicker; then no message can be sent. Gives what the plugin says at its start."""
        self.start_program(self.root / "bin" / SERVER, conf, prefix, preload, env, self.as_user(), lambda: "fully initialized" in self.diagnostics())
        return "\n".join(self.log_lines())

    def end_left_over(self):
        """Processes that work in this test's own folder."""
        for pid in numbers_in("/proc"):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == str(self.root):
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def find_server(self):
        path = f"/proc/{self.manager.pid}/task/{self.manager.pid}/children"
        for pid in map(int, pathlib.Path(path).read_text().split()):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == SERVER:
                return pid
        raise AssertionError(f"traffic_manager has no {SERVER}")

    def get(self, timeout=20):
        """The status of one proxied request; 0 when there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", "/page")
            answer = connection.getresponse()
            return answer.status if answer.read() == BODY else -1
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def diagnostics(self):
        try:
            return (self.root / "log/diags.log").read_text(errors="replace")
        except OSError:
            return ""

    def log_lines(self, tag="memory_profile"):
        """What the plugin has said so far, whole lines only."""
        return [line for line in self.diagnostics().split("\n")[:-1] if f"[{tag}]" in line]

    def traffic_ctl(self, *words, user=USER):
        return subprocess.run([*self.as_user(user=user), need("traffic_ctl"), f"--run-root={self.root}", *words], capture_output=True,
                              text=True, timeout=60, cwd=self.root, env=self.environment)

    def send(self, *words, tag="memory_profile"):
        result = self.traffic_ctl("plugin", "msg", tag, *words)
        self.assertEqual(result.returncode, 0, result.stderr)

    def message(self, *words, tag="memory_profile"):
        """Sends a message and gives the line that answers it."""
        before = len(self.log_lines(tag))
        self.send(*words, tag=tag)
        return wait_until(lambda: self.log_lines(tag)[before:], f"an answer to {words}")[0]

    def next_line(self, pattern):
        return wait_until(lambda: [line for line in self.log_lines() if re.search(pattern, line)], pattern)[-1]

    def metrics(self):
        return dict(re.findall(r"^memory_profile\.(\w+) (\d+)$", self.traffic_ctl("metric", "match", "memory_profile").stdout, re.M))

    def stop_server(self):
        os.kill(self.manager.pid, signal.SIGTERM)
        self.manager.wait(60)
        wait_until(lambda: not is_alive(self.pid), "traffic_server to end")


class Load:
    """Requests through the proxy from a few threads, and the longest that one took."""

    def __init__(self, case, threads=2):
        self.case, self.stopping, self.count, self.longest_ms, self.failed = case, False, 0, 0.0, []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_until(lambda: self.count > 0 or self.failed, "the first request")
        return self

    def __exit__(self, *exception):
        self.stopping = True
        for thread in self.threads:
            thread.join(60)

    def run(self):
        while not self.stopping:
            begun = time.monotonic()
            status = self.case.get()
            self.longest_ms = max(self.longest_ms, (time.monotonic() - begun) * 1000)
            self.count += 1
            if status != 200:
                self.failed.append(status)
                return
