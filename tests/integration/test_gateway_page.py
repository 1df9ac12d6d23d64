#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway's page in a real Chromium, in front of a live Redis."""
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import unittest
import xml.etree.ElementTree

import browser
from gateway import FakeAgent, fake_status
from page_case import NAME, Page, PageCase
from processes import AGENT, HEAPCTL, SANITIZED, agent_thread, need, own_name, stop, wait_until


def setUpModule():
    browser.require()


def size_of(text):
    """The bytes of a text such as "+1.3 MiB"."""
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


class Shown(PageCase):
    def test_a_run_from_start_to_flame_graph(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        page.wait_for_text("Ready, sampling is off", "table")
        page.click_on(NAME, "table a")
        page.wait_for_text("Sampling", ".panels")
        # The curves move while the page is open.
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
        # A click on a box zooms into it, and the address says so.
        whole = page.text(".fg-crumbs")
        width, height = page.evaluate("(({ width, height }) => [width, height])(document.querySelector('.flame canvas').getBoundingClientRect())")
        page.click(".flame canvas", x=width / 4, y=min(height - 5, 8 * 24 + 11))
        page.wait_for("location.hash.includes('view=')")
        zoomed = page.text(".fg-crumbs")
        self.assertNotEqual(zoomed, whole)
        other = self.open_page(page.evaluate("location.hash").lstrip("#"))
        other.wait_for("document.querySelector('.flame canvas')")
        self.assertEqual(other.text(".fg-crumbs"), zoomed)
        # Back leads to the page before.
        page.back()
        page.wait_for("document.querySelector('.flame canvas') && !location.hash.includes('view=')")
        self.assertEqual(page.serious_complaints(), [])
        self.assertEqual({url.split("/")[2] for url in page.requests() if url.startswith("http")}, {f"127.0.0.1:{self.port}"})

    def test_processes_of_one_name_show_what_tells_them_apart(self):
        other, port = self.start_named_redis(NAME, conf="prof:true,prof_active:false")
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text("Ready, sampling is off", "table")
        self.assertEqual(page.text(".apart"), "")
        self.start_gateway(self.process.pid, other.pid)
        page = self.open_page()
        page.wait_for("document.querySelectorAll('.apart').length === 2")
        shown = {int(row.split("\n", 1)[0]): row for row in page.evaluate("""[...document.querySelectorAll('tbody tr')].map(row =>
            row.querySelector('[data-label=Pid]').innerText + '\\n' + row.querySelector('.apart').innerText)""")}
        for process, own in ((self.process, self.redis_port), (other, port)):
            self.assertIn(f":{own}", shown[process.pid])
            # Both have one parent and one user: these say nothing.
            self.assertNotRegex(shown[process.pid], "child of|user |container")
        page.goto(f"{self.url}/#/{NAME}/history")
        page.wait_for_text(f"pid {other.pid} (", ".heading")
        self.assertIn(f":{port}", page.text(".heading"))
        listed = {entry["pid"]: entry for entry in json.loads(self.heapctl("ps", "--json")[0]) if entry.get("pid") in shown}
        for target in self.get("/api/v1/targets").json["targets"]:
            for key in ("user", "parent", "command"):
                self.assertEqual(target[key], listed[target["pid"]][key])

    def test_a_process_without_an_agent_has_the_command_that_attaches_one(self):
        process = self.start("sleep", "1000")
        self.start_gateway(process.pid)
        page = self.open_page(permissions=["clipboard-write"])
        page.wait_for_text(f"heapctl attach {process.pid} loads one while it runs", "table")
        page.click_on("Copy command")
        page.wait_for_text("The command is on the clipboard", "#notices")
        self.assertIsNone(agent_thread(process.pid))
        # As soon as the user has attached one, the target is there.
        self.heapctl("attach", process.pid)
        page.wait_for_text("Sampling", "table")
        self.heapctl("detach", process.pid)
        page.wait_for_text(f"heapctl attach {process.pid} starts it again", "table")
        self.assertEqual(page.serious_complaints(), [])

    def test_two_runs_compared(self):
        self.start_gateway(self.process.pid)
        # Some fourteen samples and some seventy: neither is empty, and the second has more.
        first = self.make_run(self.redis_port, keys=12000)
        second = self.make_run(self.redis_port, keys=60000)
        page = self.open_page(f"/{self.process.pid}/runs")
        page.wait_for("document.querySelectorAll('tbody tr').length === 2")
        for name, run in (("base", first), ("id", second)):
            page.click(f'input[name={name}][value="{run}"]')
        page.click_on("Compare")
        page.wait_for("document.querySelector('.flame canvas')")
        page.wait_for_text("compared with", ".flame")
        self.assertIn(f"base={first}", page.evaluate("location.hash"))
        page.click_on("Table")
        page.wait_for("document.querySelectorAll('.table-box tbody tr').length > 3")
        page.wait_for_text("createStringObject", ".table-box")
        page.wait_for_text("Change: +", ".table-box")
        change = page.text(".table-box .total b")
        # Both sides are the ends of runs, also where a run began with samples of the one before.
        page.click_on("Side by side", ".segments button")
        page.wait_for("document.querySelectorAll('.table-box .total b').length === 2")
        totals = page.evaluate("[...document.querySelectorAll('.table-box .total')].map(total => total.innerText)")
        self.assertTrue(all(re.match(r"Total: [1-9]", total) for total in totals), totals)
        sizes = [size_of(re.match(r"Total: (\S+ \S+)", total)[1]) for total in totals]
        self.assertAlmostEqual(sizes[1] - sizes[0], size_of(change), delta=0.2 * (1 << 20))
        page.click_on("Difference", ".segments button")
        page.wait_for_text("Change: +", ".table-box")
        page.click_on("Call graph")
        page.wait_for("document.querySelector('.graph svg .node')")
        width = page.evaluate("document.querySelector('.graph svg').viewBox.baseVal.width")
        # The function that changed most is in sight, in letters that can be read.
        self.assertGreater(page.evaluate("""Math.max(...[...document.querySelectorAll('.graph .node text')].filter(text => {
            const [box, all] = [text, document.querySelector('.graph svg')].map(element => element.getBoundingClientRect());
            return box.top >= all.top && box.bottom <= all.bottom && box.left >= all.left && box.right <= all.right;
        }).map(text => text.getBoundingClientRect().height))"""), 9)
        page.focus(".graph svg")
        page.press("n")
        page.wait_for("document.querySelector('.graph svg.picked .node.near')")
        page.wait_for_text("itself", ".graph-said")
        page.press("Escape")
        page.wait_for("!document.querySelector('.graph svg.picked')")
        page.press("+")
        page.wait_for(f"document.querySelector('.graph svg').viewBox.baseVal.width < {width}")
        # The same address in another browser shows the same picture.
        other = self.open_page(page.evaluate("location.hash").lstrip("#"))
        other.wait_for("document.querySelector('.graph svg .node')")
        for each in (page, other):
            self.assertEqual(each.serious_complaints(), [])

    def test_the_table_asks_for_what_it_shows(self):
        blocks = [(0x500000 + i * 16 + 1, (i + 1) * 8192) for i in range(2000)]
        total = sum(size for _, size in blocks)
        profile = f"heap_v2/4096\n  t*: 2000: {total} [0: 0]\n" + "".join(
            f"@ 0x{address:x} 0x1001\n  t*: 1: {size} [0: 0]\n" for address, size in blocks) + "\nMAPPED_LIBRARIES:\n"
        self.start_gateway(self.serve_profile(profile))
        page = self.open_page(f"/{os.getpid()}/profile?id=now&shape=text")
        page.wait_for_text("2,001 rows", ".table-box")
        page.wait_for_text("0x507cf0", ".rows")
        # A few rows of two thousand are there, and a hundred were loaded.
        self.assertLess(page.evaluate("document.querySelectorAll('.rows tbody tr').length"), 60)
        self.assertEqual([url for url in page.requests() if "format=rows" in url and "first=0" not in url], [])
        page.evaluate("document.querySelector('.row-scroller').scrollTop = 1e9")
        page.wait_for_text("0x500000", ".rows")
        self.assertIn("first=2000", [url for url in page.requests() if "format=rows" in url][-1])
        page.click(".rows thead button", "Function")
        page.wait_for("document.querySelector('.rows tbody tr:nth-child(2) td')?.innerText.startsWith('0x1000')")
        page.focus(".table-box input[type=search]")
        page.type("0X507CF0")
        page.wait_for_text("0 rows", ".table-box")
        page.evaluate("document.querySelector('.table-box input[type=search]').select()")
        page.type("507(cf|ce)0$")
        page.wait_for_text("2 rows", ".table-box")
        # The address has it, and the row leads to the flame graph.
        other = self.open_page(page.evaluate("location.hash").lstrip("#"))
        other.wait_for_text("2 rows", ".table-box")
        other.click(".rows td.name button", "0x507cf0")
        other.wait_for_text("1 function", ".fg-matched")
        for each in (page, other):
            self.assertEqual(each.serious_complaints(), [])

    def test_files_are_dropped_onto_the_page_and_compared(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        page.drop(["one.txt", "main;parse 300\nmain;grow 100\n", 1])
        page.wait_for("document.querySelector('.flame canvas')")
        page.wait_for_text("one.txt", ".flame")
        page.wait_for_text("grow", ".fg-functions")
        page.drop(["new.txt", "main;parse 300\nmain;grow 150\n", 2], ["old.txt", "main;parse 300\nmain;grow 100\n", 1])
        page.wait_for_text("new.txt compared with old.txt", ".flame")
        page.click_on("Table")
        page.wait_for_text("Change: +50 B", ".table-box")
        page.click_on("Swap")
        page.wait_for_text("Change: \u221250 B", ".table-box")
        # Values of three digits with their errors.
        page.drop(*([f"{name}.heap", f"heap_v2/524288\n  t*: {count}: {count}00000 [0: 0]\n@ 0x1000 0x2000\n  t*: {count}: {count}00000 [0: 0]\n", count]
                    for name, count in (("before", 30), ("after", 190))))
        page.wait_for_text("after.heap compared with", ".table-box")
        page.wait_for("[...document.querySelectorAll('.rows td.number')].some(e => e.textContent.length > 19)")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.rows td.number')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"), [])
        page.click_on("Call graph")
        page.wait_for("document.querySelector('.graph svg .node')")
        page.drop(["bad.txt", "nonsense", 1])
        page.wait_for_text("bad.txt", ".problem-box")
        page.wait_for_text("not a profile of any known format", ".problem-box")
        self.assertEqual({url.split("/")[2] for url in page.requests() if url.startswith("http")}, {f"127.0.0.1:{self.port}"})

    def test_figures_of_one_thread_or_size(self):
        profile = ("heap_v2/4096\n  t*: 30: 120000 [0: 0]\n  t1: 10: 20000 [0: 0]\n  t2: 20: 100000 [0: 0]\n@ 0x1000 0x2000\n  t*: 10: 20000 [0: 0]\n"
                   "  t1: 10: 20000 [0: 0]\n@ 0x1000 0x3000\n  t*: 20: 100000 [0: 0]\n  t2: 20: 100000 [0: 0]\n\nMAPPED_LIBRARIES:\n")
        self.start_gateway(self.serve_profile(profile))
        page = self.open_page(f"/{os.getpid()}/profile?id=now&shape=text")
        page.wait_for_text("3 rows", ".table-box")
        page.wait_for_text("0x2fff", ".rows")
        page.click_on("Filter")
        page.focus(".filters input[title^='only what this thread']")
        page.type("1")
        page.press("Enter")
        page.wait_for_text("2 rows", ".table-box")
        self.assertNotIn("0x2fff", page.text(".rows"))
        other = self.open_page(f"/{os.getpid()}/profile?id=now&shape=text&bytes=4000:")
        other.wait_for_text("2 rows", ".table-box")
        self.assertNotIn("0x1fff", other.text(".rows"))

    def serve_profile(self, text):
        """A target that has this profile in use."""
        agent = FakeAgent(self.agents, lambda _, target: (200, text.encode()) if target.startswith("/v1/profile") else (200, fake_status())
                          if target == "/v1/status" else (200, {"runs": []}) if target == "/v1/runs" else (404, {"error": {"message": "not here"}}))
        self.addCleanup(agent.close)
        return os.getpid()

    def test_sampling_is_switched_and_settings_are_read(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.click_on("Switch on")
        page.wait_for_text("Switch off", ".panels")
        self.assertTrue(self.get("/v1/status").json["profiling"]["active"])
        page.click_on("Switch off")
        page.wait_for_text("Switch on", ".panels")
        page.click_on("Fragmentation")
        page.wait_for_text("Size classes")
        page.wait_for("document.querySelectorAll('.bar i').length > 10")
        page.click_on("Settings")
        page.click_on("opt", "summary")
        page.click_on("narenas", ".tree button")
        page.wait_for("document.querySelector('.tree .value code')")
        self.assertRegex(page.text(".tree .value code"), r"^\d+$")
        self.assertEqual(page.serious_complaints(), [])

    @unittest.skipIf(SANITIZED, "a sanitizer brings an allocator of its own")
    def test_temporary_allocations_can_be_shown_alone(self):
        code = "import sys; print(1, flush=True); [str(i) * 400 for i in range(20000)]; print(2, flush=True); sys.stdin.read()"
        process = self.start(sys.executable, "-c", code, env={"LD_PRELOAD": AGENT, "HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "1024"},
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual((process.stdout.readline(), process.stdout.readline()), (b"1\n", b"2\n"))
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        page = self.open_page(f"/{process.pid}/profile?id=now&churn=1")
        page.wait_for_text("temporary ones")
        page.wait_for_text("bytes of temporary allocations")
        self.assertEqual(page.serious_complaints(), [])

    @unittest.skipIf(SANITIZED, "a sanitizer brings an allocator of its own")
    def test_another_malloc_shows_what_it_reports(self):
        process = self.start("sleep", "600", env={"LD_PRELOAD": AGENT, "MALLOC_ARENA_MAX": "2"})
        self.wait_for_agent(process.pid)
        self.start_gateway(process.pid)
        page = self.open_page(f"/{process.pid}/mallctl")
        page.wait_for_text("The malloc of glibc")
        self.assertRegex(page.text("body"), r"arena\s*\d+ KiB")
        self.assertRegex(page.text("body"), r"MALLOC_ARENA_MAX\s*2")
        self.assertEqual(page.serious_complaints(), [])

    def test_a_run_leaves_sampling_on_where_it_was_on(self):
        self.heapctl("activate", self.process.pid)
        self.load_redis(self.redis_port, keys=20000)
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for_text("already and stays on", ".panels")
        # Without a history it says what one would show.
        page.wait_for_text("heapctl serve --history", ".findings")
        page.click_on("Start")
        page.wait_for_text("A run is on", ".panels")
        self.assertNotIn("because of the run", page.text(".panels"))
        page.click_on("Stop it now")
        page.wait_for_text("createStringObject", ".flame")
        self.assertTrue(self.get("/v1/status").json["profiling"]["active"])
        self.assertEqual(page.serious_complaints(), [])

    def test_what_is_not_known_is_a_hole_with_its_reason(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for("document.querySelectorAll('path.line').length >= 3")
        page.wait_for_text("Sampled every second")
        self.assertEqual(page.text(".hole-text"), "")
        # While it goes on ...
        stop(self.process.pid)
        page.wait_for_text(" on: ", ".hole-text")
        page.wait_for("document.querySelector('.curves .hole')")
        said = page.text(".hole-text").split(" on: ")[1]
        self.assertIn("is stopped (T)", said)
        os.kill(self.process.pid, signal.SIGCONT)
        # ... and afterwards, also for a page that was not open.
        page.wait_for_text(" to ", ".hole-text")
        other = self.open_page(f"/{self.process.pid}")
        for each in (page, other):
            each.wait_for_text(said, ".hole-text")
            each.wait_for("document.querySelectorAll('.curves .hole').length === 1")
            each.wait_for("document.querySelector('path.line').getAttribute('d').split('M').length === 3")

    def test_an_answer_that_came_late_is_no_hole(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        # Curves of their own, whose clock the test turns: answers after so many seconds, then what they say.
        page.evaluate("""(async () => {
            const { Curves } = await import('/assets/curves.js');
            globalThis.curves = new Curves();
            document.querySelector('main').replaceChildren(curves.element);
            let now = 0;
            Object.defineProperty(performance, 'now', { value: () => now });
            globalThis.answer = (seconds, time, misses = []) => curves.ask(async () => {
                now += seconds * 1000;
                return { figures: ['allocated', 'active', 'metadata', 'resident', 'mapped', 'retained', 'rss'], misses,
                    samples: [[time, 1e6, 2e6, 1e5, 3e6, 4e6, 0, 5e6]] };
            });
            for (const [seconds, time] of [[0, 1e6], [0, 1001e3], [20, 1022e3], [0, 1023e3]])
                await answer(seconds, time);
        })()""")
        holes = "[...document.querySelectorAll('.curves .hole title')].map(title => title.textContent)"
        self.assertEqual(page.evaluate(holes), [])
        page.evaluate("answer(0, 1050e3).then(() => answer(0, 1053e3, [[1052e3, 'it hung']]))")
        self.assertEqual(page.evaluate(holes), ["this page was closed, or in the background", "it hung"])

    def test_the_flame_graph_and_the_page_share_helpers_and_colours(self):
        self.start_gateway(self.process.pid)
        page = self.open_page()
        page.wait_for_text(NAME, "table")
        shown = page.evaluate("""import('/assets/format.js').then(({ bytes, count, change, percent }) => [
            ...[0, 1023, 1024, 9.95 * 2 ** 20, 158 * 2 ** 20, 1023.6 * 2 ** 20, -3 * 2 ** 30, NaN].map(value => bytes(value)),
            count(2.25), count(1234567), change(0), change(-2048),
            percent(1, 0), percent(1, 1e6), percent(1, 30), percent(1, 3), percent(3, 3)])""")
        self.assertEqual(shown, ["0 B", "1023 B", "1.0 KiB", "9.9 MiB", "158 MiB", "1.0 GiB", "-3.0 GiB", "-", "2.3", "1,234,567", "0 B",
                                 "\u22122.0 KiB", "", "<0.01%", "3.33%", "33.3%", "100%"])
        # The flame graph's script has these very functions, and no style has colours of its own.
        flame = self.get("/assets/flame.js").text
        for module, names in (("dom", ("el", "button", "menu")), ("format", ("bytes", "count", "change", "percent"))):
            for name in names:
                source = page.evaluate(f"import('/assets/{module}.js').then(functions => functions.{name}.toString())")
                self.assertEqual(flame.count(source), 1, name)
        for style in ("flame", "page", "charts", "views"):
            self.assertNotRegex(self.get(f"/assets/{style}.css").text, r"--[\w-]+: *#", style)

    def start_history(self, count):
        """A gateway with that many snapshots of a Redis that grows; returns (process, port)."""
        process, port = self.start_named_redis(NAME)
        self.gateway = self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s")
        self.grow(process, port, count)
        return process, port

    def keep_growing(self, port, count):
        """However long a page takes to draw, growth that ended long ago is no leak."""
        is_done = threading.Event()

        def grow():
            for round in itertools.count(count):
                if is_done.wait(0.5):
                    return
                self.load_redis(port, keys=400 * round, size=700)
        thread = threading.Thread(target=grow)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(is_done.set)

    def test_a_range_of_the_timeline_and_its_trend(self):
        self.end(self.process)
        process, port = self.start_history(8)
        self.keep_growing(port, 10)
        page = self.open_page(f"/{process.pid}")
        # What the history says stands above the live curves, with a way to its evidence.
        page.wait_for_text("in use", ".findings h2")
        page.wait_for_text("kept profiles: ", ".findings")
        page.wait_for_text("/h", ".findings li")
        page.click_on("What grew", "a")
        page.wait_for("document.querySelector('.site')")
        self.assertIn(f"/{NAME}/history?pid={process.pid}", page.evaluate("location.hash"))
        page = self.open_page(f"/{process.pid}")
        page.click_on("History")
        page.wait_for("document.querySelectorAll('.timeline path.line').length >= 4")
        self.assertIn(f"/{NAME}/history", page.evaluate("location.hash"))
        # The curves as a file that needs no other.
        page.click_on("Save as", "summary")
        saved = os.path.join(self.folder, "saved.svg")
        self.assertEqual(page.download(saved, "button", "Curves (SVG)"), f"{NAME}.history.svg")
        drawn = xml.etree.ElementTree.parse(saved)
        self.assertGreaterEqual(len(drawn.findall(".//{*}path")), 4)
        self.assertNotIn("var(", xml.etree.ElementTree.tostring(drawn.getroot(), encoding="unicode"))
        # From the first to what is now the last snapshot.
        page.drag(".timeline", 66, page.width_of(".timeline") - 14)
        page.wait_for("document.querySelector('.site')")
        page.wait_for_text("suspected leak", ".result")
        page.wait_for_text("/h", ".result")
        # The words are the command's.
        words, shown = page.evaluate("""(async () => {
            const address = performance.getEntriesByType('resource').map(entry => entry.name).findLast(name => name.includes('/trend?'));
            const { sites } = await (await fetch(address)).json();
            return [sites.map(site => site.words), [...document.querySelectorAll('.site-rate')].map(rate => rate.textContent)]; })()""")
        self.assertEqual(shown, words)
        # The text above the suspects keeps off their line, and nothing scrolls that is whole.
        self.assertGreaterEqual(page.evaluate("""(() => { const site = document.querySelector('p + .site');
            return site.getBoundingClientRect().top - site.previousElementSibling.getBoundingClientRect().bottom; })()"""), 6)
        self.assertEqual(page.evaluate("(tabs => tabs.scrollHeight - tabs.clientHeight)(document.querySelector('.tabs'))"), 0)
        page.wait_for("document.querySelector('.timeline rect.band').width.baseVal.value > 300")
        page.click(".site summary .site-name")
        page.wait_for("document.querySelector('.site[open] ol.stack li')")
        address = page.evaluate("location.hash").lstrip("#")
        page.click_on("Difference of the two ends")
        page.wait_for("document.querySelector('.flame canvas')")
        page.wait_for_text("compared with", ".flame")
        # A single snapshot.
        page.click(".timeline")
        page.wait_for("!location.hash.includes('base=') && document.querySelector('.flame canvas')")
        page.wait_for_text("what was in use at", ".flame")
        # With the keyboard: the last one, and the range of the last three.
        page.focus(".timeline")
        page.press("End")
        page.press("Enter")
        page.wait_for("!location.hash.includes('base=')")
        for _ in range(2):
            page.press("Shift+ArrowLeft")
        page.press("Enter")
        page.wait_for("location.hash.includes('base=')")
        page.wait_for_text("What grew", ".result")
        # The URL that was copied before shows the same in another browser.
        other = self.open_page(address)
        other.wait_for("document.querySelector('.site')")
        other.wait_for("document.querySelector('.timeline rect.band')")
        self.assertEqual(other.text(".result > h2"), self.range_text(other, address))
        # Two profiles, or a counter that they lack, are no reason to say that no leak is suspected.
        first, second, *_, last = self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"]
        for end, more in ((second, ""), (last, "&counter=alloc_space")):
            other.goto(f"{self.url}/#/{NAME}/history?base={first['id']}&at={end['id']}&begin={first['time_ms']}&end={end['time_ms']}{more}")
            other.wait_for_text("No site can be tested", ".result")
        for each in (page, other):
            self.assertEqual(each.serious_complaints(), [])

    def test_no_line_is_drawn_where_nothing_was_kept(self):
        self.end(self.process)
        process, port = self.start_history(4)
        self.end(self.gateway)
        # All of that was an hour ago.
        with sqlite3.connect(os.path.join(self.folder, "history/index.sqlite")) as index:
            index.execute("UPDATE snapshot SET time_ms = time_ms - 3600000, gateway_ms = gateway_ms - 3600000")
        index.close()
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s")
        known = len(self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"])
        self.grow(process, port, known + 2)
        page = self.open_page(f"/{NAME}/history")
        page.wait_for("document.querySelector('.timeline .hole') && document.querySelector('.hole-text').textContent !== ''")
        reasons, pieces, text = page.evaluate("""[
            [...document.querySelectorAll('.timeline .hole title')].map(title => title.textContent),
            document.querySelector('.timeline path.line').getAttribute('d').split('M').length - 1,
            document.querySelector('.hole-text').textContent]""")
        # On a busy machine a late snapshot makes another hole.
        self.assertEqual(len([reason for reason in reasons if re.match(r"no gateway ran until \d\d", reason)]), 1, reasons)
        self.assertEqual(pieces, len(reasons) + 1)
        self.assertIn(f": {reasons[-1]}", text)

    @staticmethod
    def range_text(page, address):
        times = dict(pair.split("=") for pair in address.split("?")[1].split("&"))
        return page.evaluate(f"""import('/assets/time.js').then(({{ dateTime, duration }}) =>
            `${{dateTime({times['begin']})}} to ${{dateTime({times['end']})}}: ${{duration({times['end']} - {times['begin']})}}`)""")

    def test_captures_of_watches_are_listed_and_can_be_opened(self):
        self.end(self.process)
        process, port = self.start_named_redis(NAME)
        self.start_watching(f"""[{NAME}]
            when = growth>8MiB
            when = rss>900GiB and psi>99%
            cool-down = 1s
            [{NAME}]
            when = every=1s
            keep = {self.folder}/kept
            keep-count = 3
            """)
        captured = f"/targets/{NAME}/api/v1/timeline?captured=1"
        self.load_redis_until(port, lambda: self.get(captured).json["snapshots"], "a capture in the history")
        wait_until(lambda: len(self.get(f"/targets/{process.pid}/api/v1/captures").json["captures"]) == 3, "captures in the folder")
        page = self.open_page()
        page.wait_for_text("last capture", "table")
        page.click_on("watched", "table a")
        page.wait_for_text("Resident memory grows by 8MiB after the last capture")
        page.wait_for_text("passes 900GiB, and at the same time more than 99% of the time is lost waiting for memory")
        page.wait_for_text(f"Watching pid {process.pid}")
        page.wait_for_text(f"{self.folder}/kept")
        # One of the history ...
        page.click("tr:has(code:text('growth>8MiB')) td a")
        page.wait_for_text("captured because growth>8MiB", ".result > h2")
        page.wait_for_text("what was in use at", ".flame")
        page.back()
        # ... and, compared, one of the folder: also while the target hangs, which keeps newer ones from replacing it.
        stop(process.pid)
        page.goto(f"{self.url}/#/{process.pid}/watch")
        page.wait_for_text("is stopped (T)", ".heading")
        page.wait_for_text("captures are kept")
        page.click("tr:has(code:text('every=1s')) td a")
        page.wait_for_text("captured because every=1s", ".result > h2")
        page.wait_for_text("createStringObject", ".flame")
        label = page.evaluate("[...document.querySelector('.result .controls select').options].at(-1).text")
        page.choose(".result .controls select", label)
        page.wait_for_text("compared with", ".flame")
        shared = page.evaluate("location.hash").lstrip("#")
        saved = os.path.join(self.folder, "saved.heap")
        self.assertRegex(page.download(saved, "tr:has(code:text('every=1s')) button", "Save"), NAME + r"\.\d+\.heap")
        with open(saved, "rb") as file:
            self.assertTrue(file.read().startswith(b"heap_v2/"))
        # But for the target that hangs.
        self.assertEqual([each for each in page.serious_complaints() if "503" not in each], [])
        # After its end the watch waits, and a link to its captures still works.
        process.kill()
        page.goto(f"{self.url}/#/")
        page.wait_for_text("Watched, not running now")
        page.click_on(NAME, "section:has-text('Watched, not running now') a")
        page.wait_for_text("for a process of this name to start")
        other = self.open_page(shared.replace(str(process.pid), NAME, 1))
        other.wait_for_text("compared with", ".flame")

    def test_without_a_watch_file_it_says_what_to_do(self):
        self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.click_on("Watches")
        page.wait_for_text("This gateway watches nothing")
        page.wait_for_text("--watch-file")
        self.assertEqual(page.serious_complaints(), [])

    def test_memory_that_was_never_touched_is_reported(self):
        self.end(self.process)
        process, port = self.start_history(1)
        page = self.open_page(f"/{NAME}/history")
        page.wait_for("document.querySelector('.timeline path.line')")
        self.assertNotIn("never touched", page.text(".curves-box"))
        # Sampled finely: most of the 16 KiB that each sampled value gets.
        self.load_redis(port, keys=30000, size=700)
        path = f"/targets/{process.pid}/api/v1/timeline"
        wait_until(lambda: (last := self.get(path).json["snapshots"][-1])["rss"] < last["allocated"], "memory that was never touched")
        for fragment in (f"/{NAME}/history", f"/{process.pid}"):
            page = self.open_page(fragment)
            page.wait_for_text("never touched", ".curves-box")
            self.assertEqual(page.serious_complaints(), [])

    def test_a_restart_is_a_mark_and_processes_are_distinguished(self):
        self.end(self.process)
        process, _ = self.start_history(3)
        self.end(process)
        again, port = self.start_named_redis(NAME)
        self.grow(again, port, 3)
        page = self.open_page(f"/{NAME}/history")
        page.wait_for("document.querySelectorAll('.timeline .begin').length === 1")
        page.wait_for_text(f"pid {again.pid} begins", ".timeline")
        page.wait_for_text("all 2", ".controls select")
        label = page.evaluate("[...document.querySelector('.controls select').options].map(option => option.text).find(text => text.includes('pid %d'))" % process.pid)
        page.choose(".controls select", label)
        page.wait_for("document.querySelectorAll('.timeline .begin').length === 0")
        self.assertIn(f"pid={process.pid}", page.evaluate("location.hash"))
        # Both at the same time: the page asks which one is meant.
        third, port = self.start_named_redis(NAME)
        self.grow(third, port, 3)
        snapshots = self.get(f"/targets/{NAME}/api/v1/timeline").json["snapshots"]
        first, last = snapshots[0], snapshots[-1]
        page.goto(f"{self.url}/#/{NAME}/history?base={first['id']}&at={last['id']}&begin={first['time_ms']}&end={last['time_ms']}")
        page.wait_for_text("at the same time", ".result")
        page.click_on(f"Only pid {third.pid}")
        page.wait_for("document.querySelector('.result .panel h2')")
        # The names of those that have all ended are still listed.
        for each in (again, third):
            self.end(each)
        page.goto(f"{self.url}/#/")
        page.wait_for_text("Ended, with a history")
        page.click_on(NAME, ".ended a")
        page.wait_for("document.querySelector('.timeline path.line')")

    def test_a_gateway_that_ends_and_returns(self):
        gateway = self.start_gateway(self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for_text("Switch on", ".panels")
        self.end(gateway)
        page.wait_for_text("The gateway does not answer")
        self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", self.process.pid, wait_for=self.is_serving)
        page.wait_for("!document.querySelector('.problem-box')")
        page.goto(f"{self.url}/#/{self.process.pid}/history")
        page.wait_for_text("This gateway has no history")

    def test_failures_are_reported_in_plain_words(self):
        broken, _ = self.start_redis(conf="prof:false", env={"HEAPCTL_SAMPLER": "no"})
        self.wait_for_agent(broken.pid)
        self.start_gateway(broken.pid, self.process.pid)
        page = self.open_page(f"/{broken.pid}")
        page.wait_for_text("This process cannot be profiled")
        page.wait_for_text("heapctl run --")
        page.goto(f"{self.url}/#/nobody")
        page.wait_for_text("There is no target 'nobody'")
        page.goto(f"{self.url}/#/{self.process.pid}/profile?id=17")
        page.wait_for_text("Run 17 is not kept")
        self.end(self.process)
        page.goto(f"{self.url}/#/{self.process.pid}")
        page.wait_for_text("started again with another pid")

    def test_a_link_that_was_cut_says_that_nothing_is_there(self):
        self.start_gateway()
        self.open_page("/name%2").wait_for_text("There is no target")

    def test_the_token_comes_with_a_link_or_as_a_password(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w") as file:
            file.write("correct-horse-battery\n")
        os.chmod(token, 0o600)
        self.start_gateway("--token-file", token, self.process.pid)
        page = self.open_page("token=correct-horse-battery")
        page.wait_for_text(str(self.process.pid))
        self.assertNotIn("battery", page.evaluate("location.href"))
        with Page() as other:
            # A page below such an address asks at the gateway's own one, which has no password in it.
            address = self.url.replace("http://", "http://any:correct-horse-battery@")
            other.goto(f"{address}/targets")
            self.assertIn(f'"pid":{self.process.pid}', other.evaluate("document.body.textContent"))
            other.goto(f"{address}/#token=correct-horse-battery")
            other.wait_for_text(str(self.process.pid))

    def test_the_page_requests_the_token_once(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w") as file:
            file.write("correct-horse-battery\n")
        os.chmod(token, 0o600)
        self.start_gateway("--token-file", token, self.process.pid)
        page = self.open_page(f"/{self.process.pid}")
        page.wait_for_text("asks for a token")
        page.type("wrong")
        page.press("Enter")
        page.wait_for_text("not the one of this gateway")
        page.type("correct-horse-battery")
        page.press("Enter")
        page.wait_for_text("Sampling", ".panels")
        page.click_on("Fragmentation")
        page.wait_for_text("Size classes")

    def test_a_target_that_reports_little(self):
        """An allocator other than jemalloc, and nothing sampled yet."""
        program = shutil.copy(need("sleep"), os.path.join(self.folder, own_name("little")))
        process = self.start(program, "1000", env={"LD_PRELOAD": AGENT})
        self.wait_for_agent(process.pid)
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s", process.pid)
        page = self.open_page(f"/{process.pid}/memory", width=390)
        page.wait_for_text(f"heapctl account {process.pid}", "main")
        page.click_on("History", "nav a")
        page.wait_for("document.querySelector('.timeline path')")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.legend label')].filter(label => label.checkVisibility())"
                                       ".map(label => label.innerText.trim().split(/\\s/)[0])"), ["RSS"])
        page.goto(f"{self.url}/#/{process.pid}/profile?id=now")
        page.wait_for_text("Nothing to draw: space in use is 0", ".fg-crumbs")
        self.assertTrue(page.evaluate("(text => text.scrollWidth <= text.clientWidth)(document.querySelector('.fg-crumbs p'))"))
        page.goto(f"{self.url}/#/{process.pid}/profile?id=now&shape=graph")
        page.wait_for("document.querySelector('.graph svg')")
        self.assertLessEqual(page.evaluate("document.querySelector('.graph svg').getScreenCTM().a"), 2.01)
        self.assertEqual(page.serious_complaints(), [])


if __name__ == "__main__":
    unittest.main()
