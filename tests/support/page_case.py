# SPDX-License-Identifier: Apache-2.0
"""The gateway's page in a browser, in front of a Redis, for integration tests."""
import json
import os

import browser
from gateway import GatewayCase

# The widths of a telephone, a tablet and a desk, in pixels.
WIDTHS = (390, 768, 1440)

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

    def drop(self, *files):
        """Drops files, each a name, a text (or bytes, as a list) and the time of its last change, onto the page."""
        self.evaluate("""(() => {
            const data = new DataTransfer();
            for (const [name, text, time] of %s)
                data.items.add(new File([typeof text === 'string' ? text : new Uint8Array(text)], name, { lastModified: time }));
            document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        })()""" % json.dumps(files))

    def goes_sideways(self):
        """How far the page can be scrolled sideways, in pixels."""
        return self.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def cut_texts(self):
        """Texts that do not fit into their places and can only be scrolled to, or not be read at all."""
        return self.evaluate("""[...document.querySelectorAll('main *, header *')].filter(e => e.checkVisibility() && e.clientWidth > 1
            && e.scrollWidth > e.clientWidth + 1 && (e.matches('nav') || (e.children.length === 0 && getComputedStyle(e).overflowX === 'hidden')))
            .map(e => e.textContent)""")

    def serious_complaints(self):
        return [complaint for complaint in self.complaints() if "favicon" not in complaint]


class ViewCase(GatewayCase):
    def open_page(self, fragment="/", **options):
        page = Page(**options)
        page.__enter__()
        self.addCleanup(page.__exit__)
        page.goto(f"{self.url}/#{fragment}")
        return page

    def check_view(self, page, address):
        """What is shown now, at each width in both themes; the address is for messages."""
        for width in WIDTHS:
            page.resize(width, 800)
            with self.subTest(address=address, width=width):
                self.assertEqual(page.goes_sideways(), 0)
                if width == WIDTHS[0]:
                    self.assertEqual(page.cut_texts(), [])
            # The system's colour scheme changes while the page is open.
            for theme in ("light", "dark"):
                page.emulate(colorScheme=theme)
                page.wait_for(f"document.documentElement.dataset.theme === {theme!r}")
                paper = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
                with self.subTest(address=address, width=width, theme=theme):
                    self.assertEqual(max(paper) < 80, theme == "dark", paper)
                    # Only colours depend on the theme.
                    self.assertEqual(page.accessibility_faults(*([] if theme == "light" else ["color-contrast"])), [])


class PageCase(ViewCase):
    def setUp(self):
        super().setUp()
        self.process, self.redis_port = self.start_named_redis(NAME, conf="prof:true,prof_active:false")

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
