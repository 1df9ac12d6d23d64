# SPDX-License-Identifier: Apache-2.0
"""The gateway's page in a browser, in front of a Redis, for integration tests."""
import os

import browser
from gateway import GatewayCase

# A gateway sees every process of the machine, and other tests start Redis servers, too.
NAME = f"redis-{os.getpid()}"


class Page(browser.Browser):
    """Finds things by what people read."""

    def wait_for(self, expression):
        # An element has no content when it arrives here.
        return super().wait_for(f"Boolean({expression})")

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''")

    def wait_for_text(self, text, selector="body"):
        # Pictures have no innerText.
        self.wait_for(f"(e => e?.innerText ?? e?.textContent ?? '')(document.querySelector({selector!r})).includes({text!r})")

    def click_on(self, text, selector="button, a, summary"):
        self.click(selector, text)

    def width_of(self, selector):
        return self.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().width")

    def goes_sideways(self):
        """How far the page can be scrolled sideways, in pixels."""
        return self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def serious_complaints(self):
        return [complaint for complaint in self.complaints() if "favicon" not in complaint]


class PageCase(GatewayCase):
    def setUp(self):
        super().setUp()
        self.process, self.redis_port = self.start_named_redis(NAME, conf="prof:true,prof_active:false")

    def open_page(self, fragment="/", **options):
        page = Page(**options)
        page.__enter__()
        self.addCleanup(page.__exit__)
        page.goto(f"{self.url}/#{fragment}")
        return page

    def grow(self, process, port, count):
        known = -1
        while known < count:
            before, known = known, len(self.get(f"/targets/{process.pid}/api/v1/timeline").json["snapshots"])
            if known != before:
                self.load_redis(port, keys=400 * (known + 1), size=700)

    def start_watching(self, text):
        rules = os.path.join(self.folder, "watch.conf")
        with open(rules, "w") as file:
            file.write(text)
        os.chmod(rules, 0o600)
        return self.start_gateway("--watch-file", rules, "--history", os.path.join(self.folder, "history"))
