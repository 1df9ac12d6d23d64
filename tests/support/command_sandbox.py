#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands of the documents as they are written, in namespaces of their own: process 4711 is a redis-server with the agent,
all ports are free, and what is written to /etc, /run, /var/lib and the PREFIX of the installation is gone afterwards.

usage: unshare --mount --pid --net --fork --mount-proc --kill-child command_sandbox.py BUILD SOURCE FOLDER

Reads a JSON list of {"block", "text", "is_example"} and writes one of {"text", "problem"}; problem null: all went well.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from processes import wait_until

PID = 4711
# Not that of redis-server, which commands start.
PORT = 6399
# These go on until they are interrupted, or take longer than a test should.
LASTS = re.compile(r"^(heapctl (watch|serve|top|longlived|record|run(?! --record)) |heapctl (watch|serve|top)$)")
SECONDS = 60
# Long enough for a problem to show.
LASTS_SECONDS = 1.5
# What a command needs that stands in no earlier line of its block.
BEFORE = {"heapctl stop redis-server": "heapctl start redis-server --duration 1hrs",
          # Without consent only where there is nothing to lose.
          "heapctl record 4711 -d 30s --sample 16KiB": "heapctl mallctl 4711 prof.reset=12 --force"}

MYPROGRAM = """
#include <stdlib.h>
int main(void)
{
	for (int i = 0; i < 1000; i++) {
		char *volatile kept = malloc(10000);
		(void)kept;
	}
	return 0;
}
"""
REDIS_CONF = "bind 127.0.0.1\nport 6390\nsave ''\nappendonly no\n"
WATCH_FILE = "[redis-server]\nwhen = rss>2GiB\n"


def run(*words, **options):
    result = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, **options)
    if result.returncode != 0:
        raise AssertionError(f"{words}: {result.stderr}")
    return result.stdout


def shell(text):
    return run("bash", "-c", text)


class Sandbox:
    def __init__(self, build, source, folder):
        self.build, self.source, self.folder = build, source, folder
        self.layers = folder / "layers"
        self.work = folder / "work"
        self.lasting = []
        self.profiles = {}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEAPCTL", "XDG", "MALLOC"))}

    def overlay(self, path):
        """What is written there is in memory. Fails rather than write to the machine."""
        name = path.strip("/").replace("/", "-")
        for kind in ("upper", "lower"):
            (self.layers / f"{name}-{kind}").mkdir()
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir={path},upperdir={self.layers}/{name}-upper,workdir={self.layers}/{name}-lower", path)
        os.sync()

    def prepare(self):
        options = json.loads(run("meson", "introspect", str(self.build), "--buildoptions"))
        prefix = next(option["value"] for option in options if option["name"] == "prefix")
        for path in (self.layers, self.work):
            path.mkdir()
        run("ip", "link", "set", "lo", "up")
        run("mount", "-t", "tmpfs", "tmpfs", str(self.layers))
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for path in {"/etc", "/var/lib", "/var/tmp", "/usr/local", prefix}:
            os.makedirs(path, exist_ok=True)
            self.overlay(path)
        run("meson", "install", "-C", str(self.build), "--no-rebuild", "--quiet")
        run("ldconfig")
        self.environment["BROWSER"] = "true"  # none is needed to see that heapctl view has a page for it
        self.environment["TMPDIR"] = str(self.work)
        self.environment["PATH"] = f"{prefix}/bin:/usr/local/bin:{os.environ['PATH']}:/usr/sbin:/sbin"
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.work)
        os.umask(0o022)
        self.write_files()
        self.start_targets()
        self.write_profiles()

    def write_files(self):
        for path in (self.source / "examples").iterdir():
            if path.is_file():
                shutil.copy(path, self.work)
        examples = self.build / "examples"
        for program, name in (("event_loop_linked", "event_loop"), ("event_loop_linked", "api"), ("event_loop_linked", "traffic_server"),
                              ("event_loop_linked", "server"), ("http_server", "http_server"), ("cplusplus", "cplusplus"),
                              ("rust_server", "rust_server")):
            if (examples / program).exists():
                shutil.copy(examples / program, self.work / name)
        pathlib.Path("myprogram.c").write_text(MYPROGRAM)
        run("cc", "-o", "myprogram", "myprogram.c")
        self.script("myserver.sh", "exec ./server 7101")
        os.rename("server", "myserver")
        self.script("start.sh", "./myserver 7101")
        for path, text in (("/etc/redis.conf", REDIS_CONF), ("/etc/heapctl/watch.conf", WATCH_FILE)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pathlib.Path(path).write_text(text)
        for path in ("/run/me", "/var/lib/heaps"):
            os.makedirs(path, mode=0o700)
        self.script("/usr/local/bin/upload", "exit 0")
        for path in ("token", "key.pem"):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        pathlib.Path("token").write_text("c0ffee0123456789\n")
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem")

    def write_captures(self):
        """What a watch left in its usual folder."""
        folder = self.work / "redis-server.captures"
        watch = subprocess.Popen(["heapctl", "watch", str(PID), "--when", "every=1s", "--keep", str(folder)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: len(list(folder.glob("*.heap"))) >= 3, "three captures")
        self.end(watch)

    def script(self, path, text):
        pathlib.Path(path).write_text(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def start_targets(self):
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(PID - 1))
        redis = subprocess.Popen(["heapctl", "run", "--conf", "lg_prof_sample:12", "--", "redis-server", "/etc/redis.conf", "--port", str(PORT)],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        if redis.pid != PID:
            raise AssertionError(f"the target has the number {redis.pid}")
        for number, name in enumerate(("api", "traffic_server")):
            subprocess.Popen([f"./{name}", str(7110 + number)], env=dict(self.environment, MALLOC_CONF="prof:true,prof_active:false"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        for target in (str(PID), "api", "traffic_server"):
            wait_until(lambda name=target: subprocess.run(["heapctl", "status", name], capture_output=True).returncode == 0, f"{target} to answer")
        wait_until(lambda: subprocess.run(["redis-cli", "-p", str(PORT), "ping"], capture_output=True, text=True).stdout == "PONG\n", "redis-server")

    def write_profiles(self):
        shell(f"heapctl activate {PID}")
        for number in range(4):
            # Redis refuses DEBUG unless it is configured otherwise.
            shell(f"redis-cli -e -p {PORT} eval \"for i = 1, 3000 do redis.call('set', 'key{number}:' .. i, string.rep('x', 500)) end\" 0")
            shell(f"heapctl dump {PID} -o redis-server.{PID}.2026112{number}-031500.heap")
        self.write_captures()
        shell(f"heapctl deactivate {PID}; heapctl dump {PID} --bundle -o night.tar")
        for name in ("server.heap", "after.heap", "b.heap", "FILE", "AFTER"):
            shutil.copy(f"redis-server.{PID}.20261123-031500.heap", name)
        for name in ("before.heap", "a.heap", "BEFORE"):
            shutil.copy(f"redis-server.{PID}.20261120-031500.heap", name)
        self.profiles = {path.name: path.read_bytes() for path in self.work.glob("*.heap")}

    def end(self, process):
        """Interrupts it as a user does with Ctrl-C; what is wrong with that, or None."""
        os.killpg(process.pid, signal.SIGINT)
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "does not end when it is interrupted"
        return None if code in (0, 130, -signal.SIGINT) else f"ends with {code} when it is interrupted"

    def end_block(self):
        for process in self.lasting:
            self.end(process)
        self.lasting = []
        for path in self.work.glob("*.heap"):
            path.unlink()
        for name, content in self.profiles.items():
            (self.work / name).write_bytes(content)
        subprocess.run(["bash", "-c", f"heapctl stop {PID}; heapctl deactivate {PID}"], capture_output=True)

    def start(self, text, output):
        return subprocess.Popen(["bash", "-c", text], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def run_command(self, command):
        """What is wrong with it, or None."""
        text = command["text"].partition("   #")[0].strip()
        if text in BEFORE:
            shell(BEFORE[text])
        with open(self.folder / "output", "w+b") as output:
            stays = text.endswith("&")
            process = self.start(text.rstrip("&"), output)
            problem = self.watch(process, text, stays or LASTS.match(text), command["is_example"] or stays)
            output.seek(0)
            return problem and f"{problem}; it said:\n{output.read().decode(errors='replace')}"

    def has_run(self, target):
        said = subprocess.run(["heapctl", "status", target, "--json"], capture_output=True, text=True).stdout
        return bool(said) and json.loads(said)["run"] is not None

    def watch(self, process, text, lasts, stays):
        port = re.search(r" (\d{4}) &$", text)
        if stays and port:
            wait_until(lambda: process.poll() is not None or f":{port[1]}" in run("ss", "-ltn"), f"port {port[1]}")
        target = re.match(r"heapctl (?:record|longlived) (\S+)", text)
        if target:
            wait_until(lambda: process.poll() is not None or self.has_run(target[1]), f"the run of {text}")
        try:
            code = process.wait(LASTS_SECONDS if lasts else SECONDS)
            return None if code == 0 else f"ends with {code}"
        except subprocess.TimeoutExpired:
            if not lasts:
                os.killpg(process.pid, signal.SIGKILL)
                return f"takes more than {SECONDS} s"
        if stays and not text.startswith("heapctl record"):
            self.lasting.append(process)
            return None
        return self.end(process)


def main():
    sandbox = Sandbox(*(pathlib.Path(path) for path in sys.argv[1:4]))
    commands = json.load(sys.stdin)
    sandbox.prepare()
    results, block = [], None
    for command in commands:
        if command["block"] != block:
            sandbox.end_block()
            block = command["block"]
        begun = time.monotonic()
        results.append(dict(command, problem=sandbox.run_command(command), seconds=time.monotonic() - begun))
    sandbox.end_block()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
