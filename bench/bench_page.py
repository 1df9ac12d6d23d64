#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway's flame graph in Chromium beside speedscope and `go tool pprof -http`, on the same profiles.

For each number of stacks: how long the server takes, how long it is from its answer to the first picture, and from opening the
address to it; the longest task of the browser's main thread; bytes that were sent. The gateway finds names and draws for every
request; the symbol cache is warm, as names are in the profile. speedscope and pprof read the same profile from a file that
`heapctl report --pprof` wrote beforehand. Medians of BENCH_ROUNDS (default 5) rounds in turns; BENCH_TOOLS and BENCH_STACKS select.
"""
import contextlib
import functools
import http.server
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
os.environ["HEAPCTL_BUILD"] = os.path.abspath(sys.argv[1])
import browser  # noqa: E402
from gateway import FakeAgent, fake_status  # noqa: E402
from processes import free_port  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
HEAPCTL = str(BUILD / "src/cli/heapctl")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
TOOLS = os.environ.get("BENCH_TOOLS", "heapctl speedscope pprof").split()
STACKS = [int(count) for count in os.environ.get("BENCH_STACKS", "1000 10000 200000").split()]
# Software draws what speedscope draws with WebGL.
FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
PICTURES = {
    "heapctl": "Number(document.querySelector('canvas')?.dataset.boxes) > 1",
    "pprof": "document.querySelectorAll('.boxbg, g.frame, #stack-chart > div').length > 5",
    "speedscope": "document.querySelector('canvas') && /Left Heavy/.test(document.body.innerText)",
}
# Looks at each frame whether the picture is there.
WATCH = """
    globalThis.longest = 0;
    new PerformanceObserver(list => list.getEntries().forEach(({ duration }) => { longest = Math.max(longest, duration); }))
        .observe({ type: 'longtask', buffered: true });
    const look = () => { if (document.body && (%s)) globalThis.there = performance.now(); else requestAnimationFrame(look); };
    requestAnimationFrame(look);
"""
# The browser counts the bytes of bodies; what speedscope and pprof load of themselves counts, too.
RESULT = """(() => {
    const loaded = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
    const data = loaded.find(({ name }) => name.includes('flame-data'));
    return { there, longest, bytes: loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
        server: data ? data.responseStart - data.requestStart : 0, after: data ? there - data.responseStart : 0 };
})()"""


class Folder(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Folder, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def server_process(*command, port, **options):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        # A page of pprof's may take minutes, so none is asked for here.
        while process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
                break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def measure(tool, url):
    with browser.Browser(1440, 900, flags=FLAGS, init=WATCH % PICTURES[tool]) as page:
        page.goto(url)
        page.wait_for("globalThis.there")
        # The rest of the task that drew it.
        page.evaluate("new Promise(resolve => setTimeout(resolve, 300))")
        return page.evaluate(RESULT)


def warm_up(tool, url):
    try:
        measure(tool, url)
    except (AssertionError, TimeoutError, EOFError) as problem:
        print(f"{tool} has no picture after {browser.DEADLINE_S} s{'' if isinstance(problem, AssertionError) else f', and {problem}'}")
        # A browser that still works on it would slow down what is measured next.
        for driver in browser.drivers.values():
            driver.broken = True
            driver.end()
        browser.drivers.clear()
        return False
    return True


@contextlib.contextmanager
def gateway_of(folder, profile):
    agents = f"{folder}/agents"

    def answer(_, target):
        return (200, profile.read_bytes()) if target.startswith("/v1/profile") else (200, fake_status()) if target == "/v1/status" \
            else (200, {"runs": []}) if target == "/v1/runs" else (404, {"error": {"message": "not here"}})

    agent, port = FakeAgent(agents, answer), free_port()
    try:
        with server_process(HEAPCTL, "serve", "--listen", f"127.0.0.1:{port}", str(os.getpid()), port=port,
                            env=dict(os.environ, HEAPCTL_DIR=agents)):
            yield f"http://127.0.0.1:{port}/#/{os.getpid()}/profile?id=now"
    finally:
        agent.close()


@contextlib.contextmanager
def pprof_of(file):
    go, port = shutil.which("go"), free_port()
    with server_process(go, "tool", "pprof", "-no_browser", f"-http=127.0.0.1:{port}", "-sample_index=inuse_space", str(file), port=port,
                        env=dict(os.environ, PPROF_TMPDIR=str(file.parent))):
        yield f"http://127.0.0.1:{port}/ui/flamegraph"


def bench(count, folder):
    folder = pathlib.Path(folder)
    profile, file = folder / "profile.heap", folder / "profile.pb.gz"
    with open(profile, "wb") as out:
        subprocess.run([BUILD / "bench/write_profile", str(count), "named"], stdout=out, check=True)
    subprocess.run([HEAPCTL, "report", "--pprof", "-o", file, profile], check=True)
    print(f"\n{count} stacks, {profile.stat().st_size / 1e6:.1f} MB ({file.stat().st_size / 1e6:.1f} MB as pprof)")
    with contextlib.ExitStack() as stack:
        urls, servers = {"heapctl": stack.enter_context(gateway_of(folder, profile))}, {}
        package = browser.PACKAGES / "speedscope/dist/release"
        if package.exists() and "speedscope" in TOOLS:
            shutil.copytree(package, folder / "speedscope", dirs_exist_ok=True)
            port = stack.enter_context(web_server(folder))
            urls["speedscope"] = f"http://127.0.0.1:{port}/speedscope/index.html#profileURL=http://127.0.0.1:{port}/profile.pb.gz"
        if shutil.which("go") and "pprof" in TOOLS:
            servers["pprof"] = stack.enter_context(contextlib.ExitStack())
            urls["pprof"] = servers["pprof"].enter_context(pprof_of(file))
        results = {tool: [] for tool in urls if tool in TOOLS and warm_up(tool, urls[tool])}
        # One that has no picture would go on working on it.
        for tool in set(servers) - set(results):
            servers[tool].close()
        for _ in range(ROUNDS):
            for tool, each in results.items():
                each.append(measure(tool, urls[tool]))
    print("              server  answer to picture  opening to picture  longest task     sent")
    for tool, each in results.items():
        median = {key: statistics.median(result[key] for result in each) for key in each[0]}
        server, after = (f"{median[key]:6.0f} ms" if tool == "heapctl" else "        -" for key in ("server", "after"))
        print(f"{tool:11s}{server:>9s}  {after:>17s}  {median['there']:15.0f} ms  {median['longest']:9.0f} ms  {median['bytes'] / 1e6:6.2f} MB")


def main():
    if browser.missing():
        sys.exit(f"bench_page: {browser.missing()}")
    for count in STACKS:
        with tempfile.TemporaryDirectory() as folder:
            bench(count, folder)


if __name__ == "__main__":
    main()
