#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles in the gateway's page: two beside each other, of runs, snapshots and files; and the source and assembly of a function."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import threading
import unittest

import browser
from debug_file_server import DebugFileServer
from gateway import FakeAgent, fake_status
from page_case import NAME, PageCase, ViewCase
from processes import BUILD, HEAPCTL, free_port, need, wait_until
from relay import Relay
from sampled_profiles import pprof_with_file

BOTH = "(all => all.length === 2 && all.every(canvas => Number(canvas.dataset.boxes)))([...document.querySelectorAll('.fg-chart canvas')])"
OLD = "main;parse 300\nmain;grow;list 100\nmain;gone 100\n"
NEW = "main;parse 300\nmain;grow;list 500\n"


def setUpModule():
    browser.require()


class Files(ViewCase):
    def setUp(self):
        super().setUp()
        self.start_gateway("no-such-target")
        self.page = self.open_page("//file", width=1280)
        self.page.wait_for_text("Drop a profile here")
        self.page.drop(["new.txt", NEW, 2], ["old.txt", OLD, 1])
        self.page.wait_for_text("new.txt compared with old.txt", ".flame")

    def of_each(self, selector):
        return self.page.evaluate(f"[...document.querySelectorAll('.drawing')].map(one => one.querySelector({selector!r})?.innerText ?? '')")

    def test_what_is_zoomed_or_searched_in_one_is_in_both(self):
        page = self.page
        page.click_on("Side by side")
        page.wait_for(BOTH)
        self.assertIn("compare=beside", page.evaluate("location.hash"))
        self.assertEqual(["500 B" in text or "800 B" in text for text in self.of_each(".fg-total")], [True, True], self.of_each(".fg-total"))
        # Below the row of everything and of main; the widest box comes first, which is "grow" in the new one only.
        page.click(".drawing:nth-child(2) .fg-chart canvas", x=60, y=2 * 24 + 11)
        page.wait_for("location.hash.includes('zoom')")
        page.wait_for("[...document.querySelectorAll('.fg-crumbs')].every(e => e.innerText.includes('grow'))")
        page.back()
        page.wait_for(f"!location.hash.includes('zoom') && {BOTH}")
        page.focus(".drawing:nth-child(1) .fg-search input")
        page.type("list")
        page.wait_for("[...document.querySelectorAll('.fg-matched')].map(e => e.innerText).join().match(/100 B.*500 B/)")
        self.assertEqual(page.serious_complaints(), [])

    def test_a_box_is_marked_in_both(self):
        page = self.page
        page.click_on("Side by side")
        page.wait_for(BOTH)
        point = """(y => {
            const canvas = document.querySelector('.drawing:nth-child(1) .fg-chart canvas'), { left, top } = canvas.getBoundingClientRect();
            canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: left + %d, clientY: top + y, pointerType: 'mouse' }));
        })(2 * 24 + 11)"""
        page.evaluate(point % 20)
        page.wait_for("(e => !e.hidden && e.innerText.includes('parse') && e.innerText.includes('300 B'))(document.querySelector('.drawing:nth-child(2) .fg-tooltip'))")
        # The last of the row is not in the new one.
        width = page.evaluate("document.querySelector('.drawing:nth-child(1) .fg-chart canvas').clientWidth")
        page.evaluate(point % (width - 10))
        page.wait_for("/gone|grow/.test(document.querySelector('.drawing:nth-child(1) .fg-tooltip').innerText)")
        shown = page.text(".drawing:nth-child(1) .fg-tooltip")
        self.assertEqual(page.evaluate("document.querySelector('.drawing:nth-child(2) .fg-tooltip').hidden"), "gone" in shown, shown)

    def test_tables_have_one_order_and_one_search(self):
        page = self.page
        self.assertEqual(page.evaluate("[...document.querySelectorAll('input[type=file]')].map(input => input.files[0].name)"), ["new.txt", "old.txt"])
        page.click_on("Table")
        page.wait_for_text("Change: +300 B", ".table-box")
        page.click_on("Side by side")
        page.wait_for("document.querySelectorAll('.table-box .total b').length === 2")
        self.assertEqual(self.of_each("h2"), ["old.txt", "new.txt"])
        self.assertEqual([text.split(" \u00b7")[0] for text in self.of_each(".total")], ["Total: 500 B", "Total: 800 B"])
        # A bar is as long as the share that is written above it.
        shares = page.evaluate("""[...document.querySelectorAll('.drawing:nth-child(2) td.share')].filter(cell => cell.innerText).map(cell => {
            const whole = cell.querySelector('.bar').getBoundingClientRect(), { width, height } = cell.querySelector('.bar i').getBoundingClientRect();
            return [parseFloat(cell.innerText), height > 4 ? 100 * width / whole.width : 0];
        })""")
        self.assertEqual(len(shares), 2, shares)
        for share, length in shares:
            self.assertAlmostEqual(share, length, delta=1)
        page.click(".drawing:nth-child(2) th button", "Function")
        page.wait_for("[...document.querySelectorAll('th[data-sort=name]')].every(e => e.ariaSort === 'ascending')")
        page.focus(".drawing:nth-child(1) .table-box input")
        page.type("list")
        page.wait_for("[...document.querySelectorAll('.rows tbody')].every(body => body.innerText.includes('list') && !body.innerText.includes('parse'))")
        self.assertEqual(page.evaluate("document.querySelectorAll('.table-box input')[1].value"), "list")
        page.evaluate("document.querySelector('.rows tr[data-name=list]').dispatchEvent(new PointerEvent('pointerenter'))")
        page.wait_for("document.querySelector('.drawing:nth-child(2) tr.pointed')?.dataset.name === 'list'")
        page.click_on("Difference")
        page.wait_for_text("Change: +300 B", ".table-box")

    def test_flame_graphs_follow_the_colour_scheme_of_the_system(self):
        self.page.wait_for("document.querySelector('.fg')")
        for scheme in ("dark", "light", "dark"):
            self.page.emulate(colorScheme=scheme)
            self.page.wait_for(f"document.documentElement.dataset.theme === {scheme!r} && document.querySelector('.fg').dataset.theme === {scheme!r}")

    def test_it_is_accessible_and_fits(self):
        self.page.click_on("Side by side")
        for shape, shown in (("Flame graph", BOTH), ("Table", "document.querySelectorAll('.table-box .total b').length === 2"),
                             ("Call graph", "document.querySelectorAll('.graph svg .node').length > 3")):
            self.page.click_on(shape)
            self.page.wait_for(shown)
            self.check_view(self.page, shape)
        self.page.click_on("Flame graph")
        self.page.wait_for(BOTH)
        # Below each other, each as high as it needs to be.
        self.page.resize(390, 800)
        self.page.wait_for("(([a, b]) => b.top >= a.bottom - 1)([...document.querySelectorAll('.flame .fg')].map(e => e.getBoundingClientRect()))")
        self.assertEqual(self.page.serious_complaints(), [])


class SlowUpload(Relay):
    """Takes the beginning of what a client sends, and the rest once it is open."""
    BEGIN = 1 << 20

    def __init__(self, case, port):
        self.open = threading.Event()
        case.addCleanup(self.open.set)
        super().__init__(case, port)

    def forward(self, client, server):
        threading.Thread(target=self.carry_back, args=(client, server), daemon=True).start()
        taken = 0
        # Each side may leave.
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
                taken += len(data)
                if taken > self.BEGIN:
                    self.open.wait()

    @staticmethod
    def carry_back(client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)


class Uploads(ViewCase):
    def test_how_much_was_sent_is_shown_and_it_can_be_cancelled(self):
        self.start_gateway("no-such-target")
        relay = SlowUpload(self, self.port)
        self.url = f"http://127.0.0.1:{relay.port}"
        page = self.open_page("//file")
        page.wait_for_text("Drop a profile here")
        page.evaluate("""(() => {
            const data = new DataTransfer();
            data.items.add(new File(['main;work 1\\n'.repeat(3 << 20)], 'large.txt'));
            document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        })()""")
        page.wait_for("/\\d s, [0-9.]+ MiB of 36.0 MiB sent/.test(document.querySelector('.waiting')?.innerText)")
        self.assertIn("Sending 36.0 MiB", page.text(".waiting"))
        self.assertEqual(page.accessibility_faults(), [])
        page.click_on("Cancel")
        page.wait_for_text("Cancelled after", ".picture")
        relay.open.set()
        page.click_on("Draw again")
        page.wait_for("Number(document.querySelector('.fg-chart canvas')?.dataset.boxes)")
        self.assertEqual(page.serious_complaints(), [])


class Graph(ViewCase):
    def test_the_callers_of_a_function_that_allocates_nearly_all_can_be_read(self):
        self.start_gateway("no-such-target")
        page = self.open_page("//file?shape=graph", width=1440, height=900)
        page.wait_for_text("Drop a profile here")
        callers = "".join(f"caller_{n};" for n in range(24))
        page.drop(["deep.txt", f"main;{callers}nearly_all 9900\nmain;{callers}little 100\n", 1])
        page.wait_for("document.querySelectorAll('.graph svg .node').length > 9")
        sizes, heights = page.evaluate("""(svg => [[...svg.querySelectorAll('text')].map(text => text.getAttribute('font-size') * svg.getScreenCTM().a),
            [svg.getBBox(), svg.viewBox.baseVal].map(({ y, height }) => y + height)])(document.querySelector('.graph svg'))""")
        self.assertGreater(min(sizes), 9)
        # The function is at the end of the picture, which fills the place.
        self.assertLess(heights[1] - heights[0], 20)
        self.assertEqual(page.serious_complaints(), [])

    def test_its_text_stays_as_large_in_a_narrower_window(self):
        self.start_gateway("no-such-target")
        page = self.open_page("//file?shape=graph", width=1440, height=900)
        page.wait_for_text("Drop a profile here")
        page.drop(["wide.txt", "".join(f"main;branch_{n};leaf_{n} {n + 9}\n" for n in range(9)), 1])
        page.wait_for("document.querySelectorAll('.graph svg .node').length > 9")
        scale = "document.querySelector('.graph svg').getScreenCTM().a"
        wide = page.evaluate(scale)
        for width in (390, 900):
            page.resize(width, 900)
            page.wait_for(f"document.querySelector('.graph svg').getBoundingClientRect().width < {width} && Math.abs({scale} - {wide}) < 0.01 * {wide}")
        # All of it is what the button shows.
        page.resize(390, 900)
        page.wait_for("document.querySelector('.graph svg').getBoundingClientRect().width < 390")
        # Nothing of the picture is over its buttons, in either theme.
        for scheme in ("light", "dark"):
            page.emulate(colorScheme=scheme)
            page.wait_for(f"document.documentElement.dataset.theme === {scheme!r}")
            self.assertEqual(page.evaluate("""[...document.querySelectorAll('.graph-tools button')].filter(button => {
                button.scrollIntoView();
                const { left, top, width, height } = button.getBoundingClientRect();
                return document.elementFromPoint(left + width / 2, top + height / 2) !== button;
            }).map(button => button.textContent)"""), [], scheme)
        page.click_on("All")
        page.wait_for(f"{scale} < 0.9 * {wide}")
        self.assertEqual(page.serious_complaints(), [])


class Ends(ViewCase):
    def test_figures_of_a_target_that_has_ended_are_its_last_ones(self):
        agent = FakeAgent(self.agents, lambda _, target: (200, {"runs": []} if target == "/v1/runs" else fake_status()))
        self.start_gateway(agent.path)
        page = self.open_page(f"/{os.getpid()}/runs")
        page.wait_for_text("No run yet", "main")
        agent.close()
        page.wait_for_text("The figures below are its last ones.", ".problem-box")

    def test_a_flame_graph_without_its_gateway_says_why(self):
        gateway = self.start_gateway("no-such-target")
        page = self.open_page("//file?shape=text")
        page.wait_for_text("Drop a profile here")
        page.drop(["new.txt", NEW, 1])
        page.wait_for_text("parse", ".rows")
        self.end(gateway)
        page.click_on("Flame graph", ".segments button")
        page.wait_for_text("Is heapctl serve still running?", ".picture")


class Captures(ViewCase):
    def capture(self, profile):
        """A page that waits for an agent that answers so when it is asked for a profile, and that agent."""
        agent = FakeAgent(self.agents, lambda _, target: profile if target.startswith("/v1/profile")
                          else (200, {"runs": []} if target == "/v1/runs" else fake_status()))
        self.addCleanup(agent.close)
        self.start_gateway(agent.path)
        page = self.open_page(f"/{os.getpid()}/profile?id=now")
        page.wait_for_text("Cancel", ".waiting")
        wait_until(lambda: agent.waiting, "the agent to be asked")
        return page, agent

    def test_a_cancelled_one_says_what_goes_on(self):
        page, agent = self.capture(None)
        page.click_on("Cancel")
        page.wait_for_text("it writes it to the end", ".picture")
        wait_until(lambda: agent.waiting[0].recv(1) == b"", "the gateway to leave the agent")
        self.assertEqual(page.accessibility_faults(), [])

    def test_a_transfer_is_cancelled(self):
        page, agent = self.capture(bytearray(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-jemalloc-heap-profile\r\nContent-Length: 100000000\r\nHeapctl-Protocol: 1\r\n"
            b"Connection: close\r\n\r\nheap_v2/524288\n" + b"\n" * 100000))
        page.click_on("Cancel")
        page.wait_for_text("Cancelled after", ".picture")
        wait_until(lambda: agent.waiting[0].recv(1) == b"", "the gateway to leave the agent")


class Filters(ViewCase):
    def test_pprofs_filters_are_in_the_address_and_the_page(self):
        self.start_gateway("no-such-target")
        page = self.open_page("//file?shape=text&prune_from=%5Egrow%24&tagignore=bytes%3D1gb%3A")
        page.wait_for_text("Drop a profile here")
        page.drop(["new.txt", NEW, 1])
        page.wait_for_text("grow", ".rows")
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.rows tbody [data-name]')].map(row => row.dataset.name)"), ["grow", "parse", "main"])
        self.assertEqual(page.evaluate("[...document.querySelectorAll('.filters input')].map(input => input.value).filter(Boolean)"), ["^grow$", "bytes=1gb:"])
        page.evaluate("(i => { i.value = 'size=1'; i.dispatchEvent(new Event('change')); })([...document.querySelectorAll('.filters input')].at(-1))")
        page.wait_for_text("Invalid tag 'size=1'", ".picture")
        self.assertEqual(page.accessibility_faults(), [])


class Source(ViewCase):
    def test_a_function_leads_to_its_source(self):
        root = pathlib.Path(self.folder, "root")
        root.mkdir()
        (root / "work.c").write_text("int work(void)\n{\n\treturn inside;\n}\n")
        self.start_gateway("--source-root", root, "no-such-target")
        page = self.open_page("//file")
        page.wait_for_text("Drop a profile here")
        page.drop(["work.pb", list(pprof_with_file("/build/work.c")), 1])
        page.wait_for("Number(document.querySelector('.fg-chart canvas')?.dataset.boxes)")
        page.click(".fg-chart canvas", x=60, y=1 * 24 + 11)
        page.click_on("Source", ".fg-actions button")
        page.wait_for_text("return inside;", ".source")
        self.assertIn("function=%5Ework%24", page.evaluate("location.hash"))
        page.back()
        page.wait_for("document.querySelector('.fg-chart canvas')")
        self.assertEqual(page.serious_complaints(), [])
        page.evaluate("location.hash = '#//file?shape=source&function=none'")
        page.wait_for_text("The table lists the functions.", ".picture")
        self.assertNotIn("--text", page.text(".picture"))

class Servers(ViewCase):
    """What debuginfod servers have."""
    BUILD_ID = "0123456789abcdef"
    NAMELESS = f"""heap_v2/1
  t*: 1: 64 [0: 0]
@ 0x401011
  t*: 1: 64 [0: 0]

MAPPED_LIBRARIES:
400000-500000 r-xp 00000000 08:01 7 /opt/work
#build-id 400000 {BUILD_ID}
""".encode()

    def setUp(self):
        super().setUp()
        try:
            ctypes.CDLL("libdebuginfod.so.1")
        except OSError:
            self.skipTest("libdebuginfod1 is not installed")
        self.server = DebugFileServer(self, {}, {(self.BUILD_ID, "/build/work.c"): "int work(void)\n{\n\treturn served;\n}\n"})

    def serve(self, target="no-such-target", url=None):
        self.start_gateway("--debuginfod", url or self.server.url, target, env=dict(os.environ, DEBUGINFOD_CACHE_PATH=f"{self.folder}/client"))

    def test_a_debug_file_that_is_too_long_costs_the_names_alone(self):
        self.server.files, self.server.is_endless = {self.BUILD_ID: "/dev/null"}, True
        self.serve()
        answer = self.expect(self.post("/api/v1/file?format=text", body=self.NAMELESS), 200)
        self.assertIn("[work]+0x1010", answer.text)
        self.assertTrue(self.server.asked)

    def test_they_are_asked_for_the_names_in_the_pictures_of_mesos(self):
        agent = FakeAgent(self.agents, lambda _, target: (200, self.NAMELESS if target.endswith("/profile") else fake_status()))
        self.addCleanup(agent.close)
        self.serve(agent.path)
        self.expect(self.get("/memory-profiler/diff?id=2&base=1"), 200)
        self.assertEqual([f"/buildid/{self.BUILD_ID}/debuginfo"], self.server.asked)

    def test_a_picture_without_their_answer_is_not_kept(self):
        agent = FakeAgent(self.agents, lambda _, target: (200, self.NAMELESS if target.endswith("/profile") else fake_status()))
        self.addCleanup(agent.close)
        port = free_port()
        self.serve(agent.path, f"http://127.0.0.1:{port}")
        path = "/memory-profiler/download/text?id=2"
        self.assertIn("[work]+0x1010", self.expect(self.get(path), 200).text)
        server = DebugFileServer(self, {}, port=port)
        for _ in range(2):
            self.expect(self.get(path), 200)
            # What they do not have is an answer.
            self.assertEqual(len(server.asked), 1)

    def test_source_comes_from_the_servers_that_are_allowed(self):
        here = pathlib.Path(self.folder, "here.c")
        here.write_text("\n\nsecret\n")
        self.serve()
        # The gateway's own files are none of theirs.
        answer = self.expect(self.post("/api/v1/file?format=source&function=work", body=pprof_with_file(str(here), self.BUILD_ID)), 200)
        self.assertNotIn("secret", answer.text)
        page = self.open_page("//file?shape=source&function=work")
        page.wait_for_text("Drop a profile here")
        page.drop(["work.pb", list(pprof_with_file("/build/work.c", self.BUILD_ID)), 1])
        page.wait_for_text("return served;", ".source")
        self.assertNotIn("No source of", page.text(".picture"))
        page.drop(["gone.pb", list(pprof_with_file("/build/gone.c", self.BUILD_ID)), 1])
        page.wait_for_text("No source of /build/gone.c", ".picture")
        self.assertEqual(page.serious_complaints(), [])


class Assembly(ViewCase):
    PROGRAM = BUILD / "tests/integration/seeded_leaks"

    def start_leaking(self):
        process = self.start(HEAPCTL, "run", "--activate", "--sample", "4KiB", "--", self.PROGRAM, 1000, 4096, 1500, 1 << 20, "stepped", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        process.stdin.write(b"r?")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"done\n")
        return process

    def test_a_function_leads_to_its_assembly(self):
        need("objdump")
        process = self.start_leaking()
        self.start_gateway("--disasm", "--source-root", pathlib.Path(__file__).parent, process.pid)
        page = self.open_page(f"/{process.pid}/profile?id=now&shape=source&function=%5Eserve_request%24")
        page.wait_for_text("lost = malloc(OBJECT_BYTES);", ".source")
        page.choose("main select:has(option[value=disasm])", "assembly")
        page.wait_for_text("ROUTINE ====================== serve_request", ".source")
        self.assertRegex(page.text(".source"), r"\n +\d\S* +\d\S* +[0-9a-f]+: call")
        # The line of source that the instructions are of.
        self.assertIn("lost = malloc(OBJECT_BYTES);", page.text(".source"))
        self.assertEqual(page.accessibility_faults(), [])
        page.back()
        page.wait_for_text("seeded_leaks.c", ".source")
        self.assertEqual(page.serious_complaints(), [])
        # Another profile may name any program.
        refused = self.expect(self.post("/api/v1/file?format=disasm&function=work", body=pprof_with_file("/src/work.c")), 403)
        self.assertIn("heapctl report --disasm", refused.json["error"]["hint"])
        self.start_gateway(process.pid)
        refused = self.expect(self.get("/api/v1/profile?format=disasm&function=serve_request"), 403)
        self.assertIn("--disasm", refused.json["error"]["hint"])


class Runs(PageCase):
    def test_two_runs_and_two_snapshots(self):
        self.start_gateway("--history", os.path.join(self.folder, "history"), "--history-every", "1s", self.process.pid)
        first = self.make_run(self.redis_port, keys=2000)
        second = self.make_run(self.redis_port, keys=60000)
        page = self.open_page(f"/{self.process.pid}/profile?base={first}&id={second}&compare=beside")
        page.wait_for(BOTH)
        page.click_on("Difference")
        page.wait_for_text("compared with", ".flame")
        self.grow(self.process, self.redis_port, 2)
        snapshots = self.get(f"/targets/{self.process.pid}/api/v1/timeline").json["snapshots"][-2:]
        begin, end = (each["time_ms"] for each in snapshots)
        page.goto(f"{self.url}/#/{NAME}/history?base={snapshots[0]['id']}&at={snapshots[1]['id']}&begin={begin}&end={end}&show=difference&compare=beside")
        page.wait_for(BOTH)
        # The choice of the difference is no filter of it, and the filter leaves the choice.
        page.click_on("Difference", ".segments button")
        page.click_on("Table", ".segments button")
        functions = "document.querySelectorAll('.rows tbody td.number').length"
        page.wait_for(f"{functions} > 3")
        page.click_on("Filter")
        only = "(label => label.querySelector('input'))([...document.querySelectorAll('.filters label')].find(e => e.textContent.trim() === 'show'))"
        self.assertEqual(page.evaluate(f"{only}.value"), "")
        page.evaluate(f"(i => {{ i.value = 'no such function'; i.dispatchEvent(new Event('change')); }})({only})")
        page.wait_for_text("nothing matches", ".rows")
        self.assertIn("show=difference", page.evaluate("location.hash"))
        self.assertEqual(page.serious_complaints(), [])


if __name__ == "__main__":
    unittest.main()
