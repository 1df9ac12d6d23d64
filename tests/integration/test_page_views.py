#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Across the views of the gateway's page: addresses, back and forward, saved views, keys, and notes in the timeline."""
import contextlib
import os
import sqlite3
import unittest

import browser
from page_case import NAME, PageCase
from processes import own_name, wait_until


def setUpModule():
    browser.require()


# What a person sees chosen.
STATE = """JSON.stringify([location.hash, document.querySelector('.tabs [aria-current]')?.textContent ?? '',
    [...document.querySelectorAll('main [aria-pressed=true]')].filter(e => !e.closest('.flame')).map(e => e.textContent),
    [...document.querySelectorAll('main select')].filter(e => !e.closest('.flame, #run-length')).map(e => e.value),
    [...document.querySelectorAll('.filters input')].map(e => e.value), document.querySelector('.fg-crumbs')?.innerText ?? '',
    document.querySelector('[aria-sort]:not([aria-sort=none])')?.textContent ?? ''])"""


def select_of(value):
    """The select element with an option of this value."""
    return f"main select:has(option[value={value}])"


LARGE = own_name("large")
MINUTE_MS = 60000


class Views(PageCase):
    def start_history(self, count=3):
        self.end(self.process)
        process, port = self.start_named_redis(NAME)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s", NAME)
        self.grow(process, port, count)
        return process

    def snapshots(self):
        return self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"]

    def test_back_and_forward_lead_through_every_choice(self):
        self.start_history()
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        drawn = "document.querySelector('.flame canvas')"
        table = "document.querySelectorAll('.rows tbody tr').length > 2"
        steps = [
            (lambda: page.click_on(NAME, "table a"), "document.querySelector('.panels .panel')"),
            *((lambda text=text: page.click_on(text, ".tabs a"), f"document.querySelector('.tabs [aria-current]')?.textContent === {text!r}")
              for text in ("Runs", "Fragmentation", "Settings")),
            (lambda: page.click_on("Profile", ".tabs a"), drawn),
            (lambda: page.click_on("Table", ".segments button"), table),
            (lambda: page.choose(select_of("inuse_objects"), "objects in use"), f"location.hash.includes('counter=inuse_objects') && {table}"),
            (lambda: page.choose(select_of("files"), "files"), f"location.hash.includes('granularity=files') && {table}"),
            (lambda: page.evaluate("(i => { i.value = 'dictAdd|sds'; i.dispatchEvent(new Event('change')); })(document.querySelector('.filters input'))"),
             "location.hash.includes('focus=') && document.querySelector('.rows')"),
            (lambda: page.click_on("Cumulative", "th button"), "location.hash.includes('sort=cum')"),
            (lambda: page.click_on("Flame graph", ".segments button"), drawn),
            (lambda: page.click(".flame canvas", x=40, y=83), "location.hash.includes('view=')"),
            (lambda: page.click_on("Call graph", ".segments button"), "document.querySelector('.graph svg .node')"),
            (lambda: page.click_on("History", ".tabs a"), "document.querySelector('.timeline path.line')"),
            (lambda: page.click_on("hour", ".segments button"), "document.querySelector('.controls .segments [aria-pressed=true]')?.textContent === 'hour' && document.querySelector('.timeline path.line')"),
            (lambda: page.drag(".timeline", 66, page.width_of(".timeline") - 14), "location.hash.includes('base=') && document.querySelector('.site')"),
            (lambda: page.choose(select_of("stacks"), "stacks"), "location.hash.includes('by=stacks') && document.querySelector('.site')"),
            (lambda: page.click_on("Difference of the two ends", ".segments button"), drawn),
        ]
        states = [page.evaluate(STATE)]
        for act, is_there in steps:
            act()
            page.wait_for(is_there)
            state = page.evaluate(STATE)
            self.assertNotEqual(state.split('",')[0], states[-1].split('",')[0], "the address did not change")
            states.append(state)

        def arrive(index, is_there):
            page.wait_for(is_there)
            try:
                page.wait_for(f"{STATE} === {states[index]!r}")
            except AssertionError:
                self.assertEqual(page.evaluate(STATE), states[index], f"step {index}")
        for index in range(len(states) - 2, -1, -1):
            page.back()
            arrive(index, steps[index - 1][1] if index > 0 else "document.querySelector('table')")
        for index in range(1, len(states)):
            page.evaluate("history.forward()")
            arrive(index, steps[index - 1][1])
        self.assertEqual(page.serious_complaints(), [])

    def test_what_was_kept_is_behind_the_live_curves(self):
        process = self.start_history(3)
        kept = "document.querySelector('.curves path.kept.line-0').getAttribute('d')"
        page = self.open_page(f"/{process.pid}")
        page.wait_for("document.querySelector('.curves path.line.line-0')")
        page.wait_for(f"({kept}).split(/[ML]/).length > 3")
        page.wait_for_text("what was kept before is thinner", ".readout")
        # It ends where the live one begins.
        begin = "document.querySelector('.curves path.line.line-0').getAttribute('d').split(/[ML]/)[1]"
        self.assertTrue(page.evaluate(f"({kept}).split(/[ML]/).at(-1) === {begin} && parseFloat(({kept}).split(/[ML]/)[1]) < parseFloat({begin})"))
        self.assertEqual(page.accessibility_faults(), [])
        self.assertEqual(page.serious_complaints(), [])

    def test_what_was_kept_while_the_page_was_closed_is_no_hole(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        # Curves of their own, with the samples of two times that the page was open.
        page.evaluate("""(async () => {
            const { Curves } = await import('/assets/curves.js');
            globalThis.gaps = 0;
            globalThis.curves = new Curves(undefined, () => { gaps++; });
            document.querySelector('main').replaceChildren(curves.element);
            const figures = ['allocated', 'active', 'metadata', 'resident', 'mapped', 'retained', 'rss'], values = [1e6, 2e6, 1e5, 3e6, 4e6, 0, 5e6];
            for (const time of [1000e3, 1001e3, 1100e3, 1101e3])
                await curves.ask(async () => ({ figures, misses: [], samples: [[time, ...values]] }));
            globalThis.keep = (...seconds) => curves.showKept(seconds.map(second => ({ time_ms: second * 1000, pid: 7, started_ms: 1, gateway_ms: 1, reason: '',
                ...Object.fromEntries(figures.map((key, i) => [key, values[i]])) })));
        })()""")
        seen = """[document.querySelectorAll('.curves .hole').length, document.querySelector('.hole-text').textContent !== '',
            document.querySelector('.curves path.kept.line-0').getAttribute('d').replace(/[^ML]/g, '')]"""
        self.assertEqual(page.evaluate(seen), [1, True, ""])
        page.evaluate("keep(1020, 1040, 1060, 1080)")
        self.assertEqual(page.evaluate(seen), [0, False, "MLLLLL"])
        # Where the history has a hole of its own, too, it is said.
        page.evaluate("keep(1010, 1020, 1030)")
        self.assertEqual(page.evaluate(seen), [1, True, "MLLLM"])
        page.evaluate("keep(970, 980, 990)")
        self.assertEqual(page.evaluate(seen), [1, True, "MLLL"])
        self.assertEqual(page.evaluate("gaps"), 1)
        self.assertEqual(page.serious_complaints(), [])

    def test_an_address_that_names_what_is_not_there_is_answered_in_words(self):
        self.start_history(2)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        own, snapshots = f"/{NAME}", f"/{NAME}/history"
        for address, words in {
                "//nothing": "There is no view \u2018nothing\u2019", f"{own}/nothing": "There is no view \u2018nothing\u2019 of a target",
                f"{own}/profile?shape=nothing": "There is no view \u2018nothing\u2019 of a profile", f"{own}/profile?id=9": "Run 9 is not kept",
                f"{own}/profile?id=x": "a value that it cannot have: 'x'", f"{own}/profile?shape=text&sort=zz": "a value that it cannot have: 'zz'",
                f"{own}/profile?shape=text&rows=(": "Invalid pattern '(' at character 2", f"{own}/profile?shape=text&bytes=zz": "Write 64kb:1mb",
                f"{own}/profile?shape=text&thread=zz": "Leave the field", f"{own}/profile?shape=text&counter=alloc_space": "or not counted",
                "/nothing": "has no agent", "/nothing/history": "nothing was kept of that name",
                f"{snapshots}?at=99999&base=99998&begin=1&end=2": "Try again", f"{snapshots}?at=99999": "There is no snapshot 99999",
                f"{snapshots}?pid=x": "a value that it cannot have: 'x'"}.items():
            with self.subTest(address):
                page.evaluate(f"location.hash = {address!r}")
                page.wait_for_text(words, "main")
                # What is for programs is in the answers, which the page puts into its words.
                self.assertNotRegex(page.text("main"), "openapi|/v1/|GET |POST |_ms|--thread|/targets")

    def test_what_is_shown_is_said_to_be_old_when_target_or_gateway_has_ended(self):
        gateway = self.start_gateway("--history", os.path.join(self.folder, "history"), self.process.pid)
        wait_until(lambda: self.snapshots(), "the first snapshot")
        pid, drawn = self.process.pid, "document.querySelector('.fg-chart canvas')"
        of_target = {"profile?id=now": drawn, "memory": "document.querySelector('.parts')", "mallctl": "document.querySelector('.tree')"}
        pages = [self.open_page(f"/{pid}/{view}") for view in of_target]
        for page, is_there in zip(pages, of_target.values()):
            page.wait_for(is_there)
        history = self.open_page(f"/{NAME}/history?at={self.snapshots()[0]['id']}")
        history.wait_for(drawn)
        history.wait_for_text(f"pid {pid}", ".heading")
        file = self.open_page("//file")
        file.drop(["new.txt", "main;parse 300\n", 1])
        file.wait_for(drawn)
        self.end(self.process)
        for page in pages:
            page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            page.wait_for_text("It has ended", ".trouble .problem-box")
            page.wait_for_text("What is shown below was read before.", ".trouble .problem-box")
            self.assertTrue(page.evaluate("(box => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector('.trouble .problem-box').getBoundingClientRect())"))
        history.wait_for_text("no process of this name is running now", ".heading")
        self.assertEqual(history.text(".trouble"), "")
        self.assertEqual(pages[0].accessibility_faults(), [])
        self.end(gateway)
        for page in (*pages, file):
            page.wait_for_text("The gateway does not answer", ".trouble .problem-box")
        history.wait_for_text("as soon as the gateway answers again", ".trouble .problem-box")

    def test_a_view_is_saved_under_a_name_and_opened_again(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}/profile?id=now&shape=text&counter=inuse_objects")
        page.wait_for("document.querySelector('.table-box')")
        page.press("v")
        page.wait_for("document.activeElement.matches('#views input')")
        self.assertEqual(page.evaluate("document.activeElement.value"), f"{NAME}, Profile, Table")
        page.evaluate("document.activeElement.select()")
        page.type("objects <b>")
        page.press("Enter")
        page.wait_for("document.querySelector('#views li a')?.textContent === 'objects <b>'")
        self.check_view(page, "saved views")
        page.press("Escape")
        page.wait_for("!document.querySelector('#views').open")
        page.goto(f"{self.url}/#/")
        page.wait_for_text(NAME, "table")
        page.press("v")
        page.wait_for("document.activeElement.textContent === 'objects <b>'")
        page.press("Enter")
        page.wait_for("location.hash.includes('counter=inuse_objects') && document.querySelector('.table-box')")
        # What was there for another name is replaced, and removed where that is wanted.
        page.press("v")
        page.click("#views li button", "Remove")
        page.wait_for("!document.querySelector('#views li')")
        self.assertEqual(page.evaluate("localStorage.getItem('heapctl-views')"), "[]")
        # What the storage has and is no list of views harms nothing.
        page.evaluate("localStorage.setItem('heapctl-views', '[1, {\"name\": \"x\", \"hash\": \"javascript:alert(1)\"}, null]')")
        page.press("Escape")
        page.press("v")
        page.wait_for("document.querySelector('#views').open")
        self.assertEqual(page.evaluate("document.querySelectorAll('#views li').length"), 0)
        self.assertEqual(page.serious_complaints(), [])

    def test_keys_are_listed_and_lead_through_the_views(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for("document.querySelector('.panels .panel')")
        page.press("?")
        page.wait_for("document.querySelector('dialog.keys[open]')")
        for words in ("the views of a server", "ten snapshots", "zoom into the chosen box", "the largest function"):
            self.assertIn(words, page.text("dialog.keys"))
        # A key in the dialog is not the page's.
        page.press("0")
        self.check_view(page, "keys")
        page.press("Escape")
        page.wait_for("!document.querySelector('dialog.keys')")
        self.assertNotEqual(page.evaluate("location.hash"), "#/")
        page.press("3")
        page.wait_for("document.querySelector('.flame canvas')")
        # One dialog, from the flame graph as well.
        page.focus(".flame canvas")
        page.press("?")
        page.wait_for("document.querySelectorAll('dialog[open]').length === 1 && document.querySelector('dialog.keys[open]')")
        page.press("Escape")
        page.press("0")
        page.wait_for("location.hash === '#/' && document.querySelector('table')")
        page.click_on("Keys", "#keys")
        page.wait_for("document.querySelector('dialog.keys[open]')")
        self.assertEqual(page.serious_complaints(), [])

    def test_notes_are_marked_listed_and_lead_to_what_grew(self):
        process = self.start_history(4)
        for text in ("v7.3 <rollout>", "at once after it"):
            self.heapctl("note", NAME, text, "--gateway", self.url)
        known = len(self.snapshots())
        wait_until(lambda: len(self.snapshots()) >= known + 2, "snapshots after the notes")
        page = self.open_page(f"/{process.pid}/history")
        page.wait_for("document.querySelector('.timeline .note title')")
        # Close together they are one mark that says so.
        titles = page.evaluate("[...document.querySelectorAll('.timeline .note title')].map(e => e.textContent).join('\\n')")
        self.assertIn(": v7.3 <rollout>", titles)
        self.assertIn(": at once after it", titles)
        page.click_on("Notes (2)", ".notes summary")
        page.wait_for_text("v7.3 <rollout>", ".notes li:last-child")
        self.check_view(page, "history with notes")
        # Written and removed here as well.
        page.focus(".notes input")
        page.type("from the page")
        page.press("Enter")
        page.wait_for_text("Notes (3)", ".notes summary")
        wait_until(lambda: [note["text"] for note in self.get(f"/targets/{NAME}/api/v1/notes").json["notes"]][-1] == "from the page", "the note")
        page.click(".notes li:first-child button", "Remove")
        page.wait_for_text("Notes (2)", ".notes summary")
        page.click(".notes li:last-child button", "What grew since")
        page.wait_for("location.hash.includes('base=') && document.querySelector('.result .panel')")
        page.wait_for("document.querySelector('.spark .note title')")
        self.assertEqual(page.serious_complaints(), [])

    def add_rows(self, name, figures, minutes=15):
        """Earlier snapshots of its process with these figures, so far apart."""
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder, "history/index.sqlite"), timeout=60)) as index, index:
            time_ms, pid, started_ms = index.execute("SELECT time_ms, pid, started_ms FROM snapshot WHERE target = ? ORDER BY id", (name,)).fetchone()
            for i, allocated in enumerate(reversed(figures), 1):
                index.execute("INSERT INTO snapshot (time_ms, target, pid, started_ms, file, bytes, allocated, rss) VALUES (?, ?, ?, ?, ?, 1, ?, ?)",
                              (time_ms - minutes * i * MINUTE_MS, name, pid, started_ms, f"{name}.{i}", allocated, allocated))

    def test_the_list_of_targets_begins_with_what_matters_most(self):
        self.end(self.process)
        self.start_named_redis(NAME)
        large, port = self.start_named_redis(LARGE)
        self.load_redis(port, keys=20000, size=2000)
        silent = self.start("sleep", "1000")
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "24hrs", NAME, large.pid, silent.pid)
        for name in (NAME, LARGE):
            wait_until(lambda: self.get(f"/targets/{name}/api/v1/timeline").json["snapshots"], f"a snapshot of {name}")
        # One grows up to what it has now, by about 1 MiB in 15 minutes; the other one wanders.
        now = {name: self.get(f"/targets/{name}/api/v1/timeline").json["snapshots"][-1]["allocated"] for name in (NAME, LARGE)}
        self.add_rows(NAME, [now[NAME] * (100 + i + i % 2) // 130 for i in range(30)])
        self.add_rows(LARGE, [now[LARGE] * (100 + (-1) ** i * (i % 5)) // 100 for i in range(30)])
        wait_until(lambda: [len(each["points"]) for each in self.get("/api/v1/overview").json["processes"]] == [31, 31], "all points")
        grown = {each["name"]: each["growth"] for each in self.get("/api/v1/overview").json["processes"]}
        self.assertEqual({name: growth["is_significant"] for name, growth in grown.items()}, {NAME: True, LARGE: False})
        low, high = grown[NAME]["interval95"]
        self.assertTrue(low < 4 * now[NAME] / 130 < high, grown)
        page = self.open_page()
        page.wait_for("document.querySelectorAll('.targets tbody tr').length === 3")
        page.wait_for("document.querySelector('.targets b.grown')")
        names = page.evaluate("[...document.querySelectorAll('.targets tbody tr')].map(row => row.querySelector('td').innerText.split('\\n')[0])")
        # The one that grows, the one that cannot be profiled, and only then the largest.
        self.assertEqual([names[0], names[2]], [NAME, LARGE])
        self.assertRegex(page.text(".targets tbody tr:first-child"), r"\+[\d.]+ [KM]iB/h\s+\u00b1 [\d.]+ [KM]?i?B")
        self.assertEqual(page.evaluate("document.querySelectorAll('.targets .target-spark path').length"), 2)
        self.check_view(page, "targets")
        # With the keyboard to the snapshots of the first one.
        page.focus(".targets tbody tr:first-child td[data-label='Last kept'] a")
        page.press("Enter")
        page.wait_for("document.querySelector('.timeline path.line')")
        self.assertEqual(page.serious_complaints(), [])

    def test_the_growth_of_a_process_that_is_known_for_an_hour(self):
        self.end(self.process)
        process, _ = self.start_named_redis(NAME)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "24hrs", process.pid)
        now = wait_until(lambda: self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"], "a snapshot")[-1]["allocated"]
        self.add_rows(NAME, [now * (100 + i + i % 2) // 130 for i in range(20)], minutes=2)

        def grown():
            known = self.get("/api/v1/overview").json["processes"][0]
            return len(known["points"]) == 21 and known["growth"]
        growth = wait_until(grown, "the growth")
        self.assertTrue(growth["is_significant"])
        low, high = growth["interval95"]
        self.assertTrue(low < 30 * now / 130 < high, growth)

    def test_memory_that_never_moved_does_not_grow(self):
        self.end(self.process)
        process, _ = self.start_named_redis(NAME)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "24hrs", process.pid)
        now = wait_until(lambda: self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"], "a snapshot")[-1]["allocated"]
        self.add_rows(NAME, [now] * 8)
        wait_until(lambda: self.get("/api/v1/overview").json["processes"][0]["growth"], "the growth")
        page = self.open_page()
        page.wait_for_text("0 B/h", ".targets [data-label=Growth]")
        self.assertNotIn("\u00b1", page.text(".targets [data-label=Growth]"))
        self.assertEqual(page.serious_complaints(), [])

    def test_findings_that_are_still_computed_are_left_with_the_view(self):
        process = self.start_history(3)
        page = self.open_page(f"/{process.pid}/runs")
        page.wait_for_text("Runs", ".tabs")
        page.evaluate("""(() => { const real = fetch; globalThis.aborted = [];
            globalThis.fetch = (url, options = {}) => String(url).includes('/trend?') ? new Promise((_, reject) => options.signal.addEventListener('abort', () => {
                aborted.push(String(url)); reject(new DOMException('', 'AbortError')); })) : real(url, options); })()""")
        page.click_on("Overview", ".tabs a")
        page.wait_for("document.querySelector('.panels .panel')")
        page.wait_for("performance.getEntriesByType('resource').some(({ name }) => name.includes('max=100'))")
        page.click_on("Runs", ".tabs a")
        page.wait_for("aborted.length === 1")
        self.assertEqual(page.evaluate("document.querySelectorAll('.findings').length"), 0)
        self.assertEqual(page.serious_complaints(), [])


if __name__ == "__main__":
    unittest.main()
