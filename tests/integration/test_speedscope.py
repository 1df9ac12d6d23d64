#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""speedscope imports what we write, and shows the same figures. Its packaged page runs in a browser."""
import base64
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import browser
from processes import HEAPCTL, need

PACKAGE = browser.PACKAGES / "speedscope"
# Its pictures need WebGL, which software can do.
FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
STACKS = "main;serve;parse 3000000\nmain;serve;parse;grow 2000000\nmain;serve 7\nmain;setup;grow 500000\n"
FLAT = {"parse": 3000000, "grow": 2500000, "serve": 7}
# Catches the file that the page's export button would save.
CATCH = """{
    globalThis.saved = null;
    const original = URL.createObjectURL;
    URL.createObjectURL = blob => { blob.text().then(text => { globalThis.saved = text; }); return original(blob); };
}"""
EXPORT = """(() => {
    const buttons = [...document.querySelectorAll('div')].filter(div => /Export/.test(div.innerText) && div.children.length <= 1);
    buttons.at(-1)?.click();
    return globalThis.saved;
})()"""


def flat_weights(saved):
    """{name: own weight} of the only profile of a file in speedscope's own format."""
    frames, (profile,) = saved["shared"]["frames"], saved["profiles"]
    weights, stack, at = collections.Counter(), [], profile["startValue"]
    for event in profile["events"]:
        if stack:
            weights[frames[stack[-1]]["name"]] += event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            stack.pop()
    return {name: weight for name, weight in weights.items() if weight}


def import_weights(chromium, folder, name, data):
    """What speedscope shows of a file with that name."""
    script = pathlib.Path(folder, "load.js")
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(base64.b64encode(data).decode())})")
    chromium.open(str((PACKAGE / "dist/release/index.html").resolve()), f"localProfilePath={script}")
    chromium.evaluate(CATCH)
    return flat_weights(json.loads(chromium.wait_for(EXPORT)))


def setUpModule():
    browser.require()
    if not PACKAGE.exists():
        raise unittest.SkipTest(f"no speedscope in {browser.PACKAGES} (scripts/setup test fetches it)")


class Speedscope(unittest.TestCase):
    def test_totals_are_ours_in_every_format_that_it_reads(self):
        with tempfile.TemporaryDirectory() as folder, browser.Browser(flags=FLAGS) as chromium:
            for option, name in (("--collapsed", "stacks.txt"), ("--pprof", "profile.pb.gz"), ("--callgrind", "callgrind.out.1")):
                with self.subTest(option):
                    data = subprocess.run([HEAPCTL, "report", option, "-"], input=STACKS.encode(), capture_output=True, check=True).stdout
                    self.assertEqual(import_weights(chromium, folder, name, data), FLAT)

    def test_what_the_flame_graph_saves_can_be_opened(self):
        with tempfile.TemporaryDirectory() as folder, browser.Browser(flags=FLAGS) as chromium:
            page = pathlib.Path(folder, "page.html")
            page.write_bytes(subprocess.run([HEAPCTL, "report", "--flame", "-"], input=STACKS.encode(), capture_output=True, check=True).stdout)
            saved = {}
            chromium.open(str(page))
            for kind in ("speedscope", "pprof", "SVG"):
                chromium.click(".fg-save summary")
                saved[kind] = pathlib.Path(folder, f"saved.{kind}")
                chromium.download(str(saved[kind]), ".fg-save button", kind)
            self.assertEqual(import_weights(chromium, folder, "saved.speedscope.json", saved["speedscope"].read_bytes()), FLAT)
            text = subprocess.run([need("go"), "tool", "pprof", "-top", "-symbolize=none", "-unit=B", saved["pprof"]], capture_output=True, text=True,
                                  check=True, env={**os.environ, "HOME": folder, "PPROF_TMPDIR": folder}).stdout
            rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
            self.assertEqual({row[-1]: int(float(row[0].rstrip("B"))) for row in rows if row[0] != "0"}, FLAT, text)
            picture = subprocess.run([need("rsvg-convert"), saved["SVG"]], capture_output=True, check=True).stdout
            self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
