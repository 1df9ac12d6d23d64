# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by Playwright (browser.mjs): pages, clicks, keys, and answers."""
import atexit
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

DEADLINE_S = 60
DRIVER = pathlib.Path(__file__).with_name("browser.mjs")
# scripts/setup puts them there.
PACKAGES = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heapctl-test/node_modules"

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage"]


def find():
    # The same engine without the window's parts, which take half of the processor time.
    return shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")


def missing():
    """What is missing for tests of pages, as text; None when nothing is."""
    if not find():
        return "chromium is not installed"
    if not shutil.which("node"):
        return "node is not installed"
    for package in ("playwright-core", "axe-core"):
        if not (PACKAGES / package).exists():
            return f"no {package} in {PACKAGES} (scripts/setup test fetches it)"
    return None


def require():
    """For setUpModule of a file whose cases all need a browser."""
    if missing():
        raise unittest.SkipTest(missing())


class Driver:
    """One Chromium, which takes most of a second to start. It ends with this process."""

    def __init__(self, flags):
        options = dict(program=find(), flags=[*FLAGS, *flags], deadline_ms=DEADLINE_S * 1000)
        self.process = subprocess.Popen(["node", DRIVER, PACKAGES, json.dumps(options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        self.buffer = b""
        self.broken = False
        self.numbers = itertools.count()
        atexit.register(self.end)

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def read_answer(self):
        # Playwright reports a time-out first: it knows what it was waiting for.
        deadline = time.monotonic() + 2 * DEADLINE_S
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                self.broken = True
                raise TimeoutError("the browser does not answer")
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                self.broken = True
                raise EOFError("the browser is gone")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["value"]

    def do(self, action, **parameters):
        line = json.dumps({"do": action, **{key: value for key, value in parameters.items() if value is not None}})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.read_answer()


drivers = {}


def driver_with(flags):
    """The driver of a Chromium with these flags; a new one where there is none or the last one ended."""
    if flags not in drivers or drivers[flags].broken:
        drivers[flags] = Driver(flags)
    return drivers[flags]


class Browser:
    """A page of a browser without cookies, storage or cache. Use as a context. Things are found by a CSS selector and, where it
    is given, their whole text: the first that can be seen. Playwright waits until it can be clicked and stands still."""

    def __init__(self, width=1200, height=800, flags=(), **context):
        self.driver = driver_with(tuple(flags))
        self.number = next(self.driver.numbers)
        self.version = self.do("create", viewport=dict(width=width, height=height), **context)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.driver.broken:
            self.do("close")

    def do(self, action, **parameters):
        return self.driver.do(action, **{"in": self.number}, **parameters)

    def open(self, path, fragment=""):
        """A file."""
        self.goto(f"file://{path}{'#' if fragment else ''}{fragment}")

    def goto(self, url):
        self.do("open", url=url)

    def evaluate(self, expression):
        return self.do("evaluate", expression=expression)

    def wait_for(self, expression):
        """Until the expression is true; returns its value."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {expression}")
            time.sleep(0.05)

    def click(self, selector, text=None, x=None, y=None):
        """In its middle, or at a place inside of it."""
        self.do("click", selector=selector, text=text, x=x, y=y)

    def choose(self, selector, label):
        """An option of a select element."""
        self.do("choose", selector=selector, label=label)

    def focus(self, selector):
        self.do("focus", selector=selector)

    def press(self, key):
        """A key's name as JavaScript has it, with "Shift+" and the like in front."""
        self.do("press", key=key)

    def type(self, text):
        self.do("type", text=text)

    def drag(self, selector, from_x, to_x):
        """With the mouse, from one place inside of the element to another."""
        self.do("drag", selector=selector, **{"from": from_x, "to": to_x})

    def download(self, path, selector, text=None):
        """Saves what a click gives; returns the name that the page wanted for it."""
        return self.do("download", path=path, selector=selector, text=text)

    def back(self):
        self.do("back")

    def emulate(self, **media):
        """colorScheme="dark", reducedMotion="reduce", media="print"."""
        self.do("emulate", **media)

    def resize(self, width, height):
        self.do("resize", width=width, height=height)

    def accessibility_faults(self, *rules):
        """What axe-core has to report of what is shown, as texts: by these rules of it, or all."""
        return self.do("axe", rules=rules)

    def screenshot(self, path):
        """Of the whole page, for a person to look at."""
        self.do("screenshot", path=path)

    def complaints(self):
        """What the page's console and the content security policy had to say since the page was opened."""
        return self.do("complaints")

    def requests(self):
        """Addresses that were fetched since the page was opened."""
        return self.do("requests")
