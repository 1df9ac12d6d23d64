# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its debugging pipe: pages from files, keys, and answers."""
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

DEADLINE_S = 60

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe"]

KEY_CODES = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
             "Home": 36, "Tab": 9}


def find():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """Use as a context; everything it writes is in a temporary folder."""

    def __init__(self, width=1200, height=800, flags=()):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def place_pipes():
            # out of the way first: either may have the other's number
            ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (to_browser, from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)
        self.process = subprocess.Popen(
            [find(), *FLAGS, *flags, f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "about:blank"],
            preexec_fn=place_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.next_id = 1
        self.events = []
        self.session = None
        target = self.until(lambda: [t for t in self.send("Target.getTargets")["targetInfos"]
                                     if t["type"] == "page"])[0]["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.commands)
        os.close(self.answers)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.folder.cleanup()

    def read_message(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.answers, 1 << 16)
            if not data:
                raise EOFError("the browser is gone")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def send(self, method, **parameters):
        message = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.next_id += 1
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.read_message(deadline)
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def until(self, condition):
        """Asks until the answer is true, and returns it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = condition()
            if answer or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, expression):
        """Until the expression is true; returns its value."""
        value = self.until(lambda: self.evaluate(expression))
        if not value:
            raise AssertionError(f"never true: {expression}")
        return value

    def open(self, path, fragment=""):
        # a new document even when only the fragment differs
        self.send("Page.navigate", url="about:blank")
        self.events.clear()
        self.send("Page.navigate", url=f"file://{path}{'#' if fragment else ''}{fragment}")
        self.wait_for("location.protocol === 'file:' && document.readyState === 'complete'")

    def press(self, key, text=None):
        """A key's name as JavaScript has it; `text` for keys that type something."""
        text = key if text is None and len(key) == 1 else text
        common = {"key": key, "windowsVirtualKeyCode": KEY_CODES.get(key, 0)}
        if text:
            common["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in common.items() if k != "text"})

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self):
        """What the page's console and the content security policy had to say."""
        return [event for event in self.events if event.get("method") in
                ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]

    def requests(self):
        """Addresses that were fetched."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]
