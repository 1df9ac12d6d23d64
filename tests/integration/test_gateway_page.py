#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway's page in a real Chromium, in front of a live Redis."""
import os
import re
import unittest

import browser
from gateway import GatewayCase
from processes import need


class Page(browser.Browser):
    """Opens addresses of the gateway and finds things by what people read."""

    def goto(self, url):
        self.send("Page.navigate", url="about:blank")
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for(f"location.href.startsWith({url.split('#')[0]!r}) && document.readyState === 'complete'")

    def wait_for(self, expression):
        # An element is an empty thing by the time it arrives here.
        return super().wait_for(f"Boolean({expression})")

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''")

    def wait_for_text(self, text, selector="body"):
        self.wait_for(f"(document.querySelector({selector!r})?.innerText ?? '').includes({text!r})")

    def place_of(self, expression):
        self.wait_for(f"Boolean({expression})")
        # What moves is hit elsewhere: wait until it stands still.
        self.evaluate(f"({expression}).scrollIntoView({{ block: 'center' }})")
        return self.evaluate(f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])(({expression}).getBoundingClientRect())")

    def click_on(self, text, selector="button, a, summary"):
        """A real click on the first visible thing with that text."""
        self.click(*self.place_of(
            f"[...document.querySelectorAll({selector!r})].find(e => e.innerText?.trim() === {text!r} && e.offsetParent && !e.disabled)"))

    def serious_complaints(self):
        return [str(event)[:500] for event in self.complaints()
                if event["method"] != "Runtime.consoleAPICalled" and "favicon" not in str(event)]


@unittest.skipUnless(browser.find(), "chromium is not installed")
class Shown(GatewayCase):
    def setUp(self):
        super().setUp()
        self.process, self.redis_port = self.start_redis()
        self.wait_for_agent(self.process.pid)

    def open_page(self, fragment="/", **size):
        page = Page(**size)
        page.__enter__()
        self.addCleanup(page.__exit__)
        page.goto(f"{self.url}/#{fragment}")
        return page

    def test_a_run_from_start_to_flame_graph(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text("redis-server", "table")
        page.wait_for_text("ready, sampling is off", "table")
        page.click_on("redis-server", "table a")
        page.wait_for_text("Sampling", ".panels")
        # The curves move while somebody watches.
        page.wait_for("document.querySelectorAll('path.line').length >= 3")
        page.wait_for_text("MiB", ".legend")
        page.click_on("Start")
        page.wait_for_text("A run is on", ".panels")
        page.wait_for_text("left of 5 min", ".countdown")
        self.assertEqual(self.get("/v1/status").json["run"]["state"], "running")
        self.load_redis(self.redis_port, keys=30000, size=600)
        page.click_on("Stop it now")
        # The flame graph of that very run.
        page.wait_for("document.querySelector('.flame canvas')")
        run = self.get("/v1/runs").json["runs"][-1]
        self.assertIn(str(run["id"]), page.evaluate("location.hash"))
        page.wait_for_text("createStringObject", ".flame")
        # A click on a function selects it: the address that the page gives is for a colleague, too.
        before = page.text(".flame")
        page.click_on("createStringObject", ".flame *")
        page.wait_for(f"document.querySelector('.flame').innerText !== {before!r}")
        self.assertEqual(page.serious_complaints(), [])
        self.assertEqual({url.split("/")[2] for url in page.requests() if url.startswith("http")}, {f"127.0.0.1:{self.port}"})

    def test_two_runs_compared(self):
        self.start_gateway(self.process.pid)
        first = self.make_run(self.redis_port, keys=2000)
        second = self.make_run(self.redis_port, keys=60000)
        page = self.open_page(f"/{self.process.pid}/runs")
        page.wait_for("document.querySelectorAll('tbody tr').length === 2")
        for name, run in (("base", first), ("id", second)):
            page.click(*page.place_of(f"document.querySelector('input[name={name}][value=\"{run}\"]')"))
        page.click_on("Compare")
        page.wait_for("document.querySelector('.flame canvas')")
        page.wait_for_text("compared with", ".flame")
        self.assertIn(f"base={first}", page.evaluate("location.hash"))
        page.click_on("Table")
        page.wait_for("document.querySelectorAll('.figures tbody tr').length > 3")
        page.wait_for_text("createStringObject", ".figures")
        page.click_on("Call graph")
        page.wait_for("document.querySelector('.graph svg .node')")
        width = page.evaluate("document.querySelector('.graph svg').viewBox.baseVal.width")
        page.evaluate("document.querySelector('.graph svg').focus()")
        page.press("+")
        page.wait_for(f"document.querySelector('.graph svg').viewBox.baseVal.width < {width}")
        # The same address in another browser shows the same picture.
        other = self.open_page(page.evaluate("location.hash").lstrip("#"))
        other.wait_for("document.querySelector('.graph svg .node')")
        for each in (page, other):
            self.assertEqual(each.serious_complaints(), [])

    def test_sampling_is_switched_and_settings_are_read(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.click_on("Switch on")
        page.wait_for_text("Switch off", ".panels")
        self.assertTrue(self.get("/v1/status").json["profiling"]["active"])
        page.click_on("Switch off")
        page.wait_for_text("Switch on", ".panels")
        page.click_on("Waste")
        page.wait_for_text("Size classes")
        page.wait_for("document.querySelectorAll('.bar i').length > 10")
        page.click_on("Settings")
        page.click_on("opt", "summary")
        page.click_on("narenas", ".tree button")
        page.wait_for("document.querySelector('.tree .value code')")
        self.assertRegex(page.text(".tree .value code"), r"^\d+$")
        self.assertEqual(page.serious_complaints(), [])

    def test_failures_are_said_in_plain_words(self):
        broken, _ = self.start_redis(conf="prof:false")
        self.wait_for_agent(broken.pid)
        self.start_gateway(broken.pid, self.process.pid)
        page = self.open_page(f"/{broken.pid}")
        page.wait_for_text("This process cannot be profiled")
        page.wait_for_text("heapctl run --")
        page.goto(f"{self.url}/#/nobody")
        page.wait_for_text("there is no target 'nobody'")
        page.goto(f"{self.url}/#/{self.process.pid}/profile?id=17")
        page.wait_for_text("there is no run 17")
        self.end(self.process)
        page.goto(f"{self.url}/#/{self.process.pid}")
        page.wait_for_text("Try again")

    def test_the_token_is_asked_for_once(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w") as file:
            file.write("correct-horse-battery\n")
        os.chmod(token, 0o600)
        self.start_gateway("--token-file", token, self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for_text("asks for a token")
        for letter in "correct-horse-battery":
            page.press(letter)
        page.press("Enter", "\r")
        page.wait_for_text("Sampling", ".panels")
        page.click_on("Waste")
        page.wait_for_text("Size classes")

    def test_it_fits_a_telephone_and_the_keyboard_reaches_everything(self):
        self.start_gateway(self.process.pid)
        self.make_run(self.redis_port)
        page = self.open_page(f"/{self.process.pid}", width=400, height=800)
        page.send("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
        for view in ("", "/runs", "/profile", "/profile?shape=text", "/memory", "/mallctl"):
            page.goto(f"{self.url}/#/{self.process.pid}{view}")
            page.wait_for("document.querySelector('.tabs') && document.querySelector('.panel, .flame canvas, .figures, .problem-box')")
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390, view)
        page.goto(f"{self.url}/#/{self.process.pid}")
        page.wait_for_text("Switch on", ".panels")
        seen = set()
        for _ in range(40):
            page.press("Tab")
            seen.add(page.evaluate("document.activeElement.innerText?.trim()"))
        self.assertLessEqual({"Overview", "Runs", "Profile", "Waste", "Settings", "Start", "Switch on", "Draw what is in use"}, seen)


if __name__ == "__main__":
    unittest.main()
