#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every view of the gateway's page, at the widths of a telephone, a tablet and a desk, in both themes."""
import unittest

import browser
from page_case import NAME, PageCase

def setUpModule():
    browser.require()


class Views(PageCase):
    def test_it_fits_a_telephone_and_the_keyboard_reaches_everything(self):
        broken, _ = self.start_redis(conf="prof:false", env={"HEAPCTL_SAMPLER": "no"})
        self.wait_for_agent(broken.pid)
        process, port = self.start_named_redis(NAME)
        self.start_watching(f"[{NAME}]\nwhen = every=1s\nwhen = rss>1MiB and psi>99%\nwhen = growth>900GiB and psi>99%\n")
        self.grow(process, port, 3)
        self.make_run(self.redis_port, prefix=f"/targets/{self.process.pid}")
        snapshots = self.get(f"/targets/{process.pid}/api/v1/timeline").json["snapshots"]
        chosen = f"?pid={process.pid}&base={snapshots[0]['id']}&at={snapshots[2]['id']}&begin={snapshots[0]['time_ms']}&end={snapshots[2]['time_ms']}"
        page = self.open_page(f"/{self.process.pid}", width=390, height=800, isMobile=True)
        own = f"/{self.process.pid}"
        for address, shown in {
                "/": "table", own: ".panel", f"/{broken.pid}": ".problem-box", f"{own}/runs": "tbody tr", f"{own}/profile": ".flame canvas",
                f"{own}/profile?shape=graph": ".graph svg", f"{own}/profile?shape=text": ".table-box tr",
                f"{own}/profile?shape=source&function=createString": ".picture pre, .picture .problem-box", "//file": ".drop", f"{own}/memory": ".bar",
                f"{own}/mallctl": ".tree li", f"{own}/watch": ".conditions", f"/{process.pid}/watch": "tbody td code",
                f"/{NAME}/history": ".timeline path", f"/{NAME}/history{chosen}": ".site",
                f"/{NAME}/history{chosen}&show=difference": ".flame canvas",
                f"/{NAME}/history{chosen}&show=difference&shape=text": ".table-box",
                f"/{NAME}/history?at={snapshots[1]['id']}": ".flame canvas"}.items():
            page.goto(f"{self.url}/#{address}")
            page.wait_for(f"document.querySelector({shown!r})")
            self.check_view(page, address)
        self.end(process)
        page.goto(f"{self.url}/#/")
        page.wait_for_text("Watched, not running now")
        self.assertEqual(page.goes_sideways(), 0)
        page.goto(f"{self.url}/#/{self.process.pid}")
        page.wait_for_text("Switch on", ".panels")
        seen = set()
        for _ in range(40):
            page.press("Tab")
            seen.add(page.evaluate("document.activeElement.innerText?.trim()"))
        self.assertLessEqual({"Overview", "Runs", "Profile", "Fragmentation", "History", "Watches", "Settings", "Start", "Switch on", "Draw what is in use"}, seen)


if __name__ == "__main__":
    unittest.main()
