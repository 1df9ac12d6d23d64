#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The flame graph in a real browser: it draws, searches, zooms, inverts, and loads nothing but its file."""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest
from xml.etree import ElementTree

import browser
import processes

DRAW_STACKS = str(processes.BUILD / "tests/integration/draw_stacks")
TAB = "\t"
MIB = 1 << 20
# Pixels from one row of boxes to the next.
ROW = 24

SMALL = f"""\
{6 * MIB} {2 * MIB} {MIB} 9 main@a.c:1@server\tserve@a.c:2@server\tparse@b.c:3@server\tmalloc@m.c:4@liballoc.so
{3 * MIB} {5 * MIB} {MIB} 5 main@a.c:1@server\tserve@a.c:2@server\tcache::Table<int, std::string>::grow(unsigned long)@c.cc:9@server\tmalloc@m.c:4@liballoc.so
{1 * MIB} {1 * MIB} {2 * MIB} 1 main@a.c:1@server\t!setup@a.c:5@server
"""

TEXT = "document.querySelector({!r})?.textContent ?? ''"


def setUpModule():
    browser.require()


def draw(stacks, *arguments):
    return subprocess.run([DRAW_STACKS, *arguments], input=stacks.encode(), stdout=subprocess.PIPE,
                          check=True).stdout


def many_stacks(count):
    chance = random.Random(1)
    lines = []
    for i in range(count):
        depth = chance.randint(10, 30)
        frames = [f"level{d}::function{chance.randint(0, min(3 + d, 12))}@f.cc:{d}@lib{d % 9}.so"
                  for d in range(depth)]
        lines.append(f"{chance.randint(1, 1 << 20)} 0 10 2 {TAB.join(frames)}\tsite{i}")
    return "\n".join(lines) + "\n"


class FlameGraph(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser()
        cls.small = cls.write("small.html", draw(SMALL, "flame"))
        cls.difference = cls.write("difference.html", draw(SMALL, "flame", "difference"))

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, page):
        path = os.path.join(cls.folder.name, name)
        pathlib.Path(path).write_bytes(page)
        return path

    def show(self, path, fragment=""):
        self.browser.open(path, fragment)
        self.browser.wait_for("Number(document.querySelector('canvas')?.dataset.boxes) && document.querySelector('.fg-functions').dataset.rows")

    def text(self, selector):
        return self.browser.evaluate(TEXT.format(selector))

    def wait_for_text(self, selector, text):
        self.browser.wait_for(f"({TEXT.format(selector)}).includes({text!r})")

    def focus_picture(self):
        self.browser.focus("canvas")

    def test_draws_every_box_and_requests_nothing(self):
        self.show(self.small)
        self.assertEqual(self.browser.evaluate("document.querySelector('canvas').dataset.boxes"), "8")
        self.assertIn("10.0 MiB", self.text(".fg-total"))
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual([url for url in self.browser.requests() if not url.startswith("file://")], [])

    def test_the_policy_stops_a_script_that_is_not_ours(self):
        self.show(self.small)
        self.browser.evaluate("""{
            const script = document.createElement('script');
            script.textContent = 'globalThis.intruder = true';
            document.body.append(script);
        }""")
        self.assertIsNone(self.browser.evaluate("globalThis.intruder"))

    def test_the_table_has_flat_and_cumulative_values(self):
        self.show(self.small)
        rows = self.browser.evaluate("""[...document.querySelectorAll('.fg-functions tbody tr')]
            .map(row => [...row.cells].map(cell => cell.textContent))""")
        self.assertEqual(rows[:3], [["malloc", "9.0 MiB", "9.0 MiB"], ["setup", "1.0 MiB", "1.0 MiB"],
                                    ["main", "0 B", "10.0 MiB"]])

    def test_recursion_counts_once(self):
        stacks = f"{4 * MIB} 0 0 1 main\twalk\tvisit\twalk\n{2 * MIB} 0 0 1 main\twalk\n"
        self.show(self.write("recursion.html", draw(stacks, "flame")), "search=walk")
        self.wait_for_text(".fg-matched", "1 function, 6.0 MiB (100%)")
        self.assertEqual(self.text(".fg-functions tbody tr"), "walk6.0 MiB6.0 MiB")

    def test_a_search_counts_what_it_finds(self):
        self.show(self.small)
        self.browser.press("/")
        self.browser.type("^(parse|grow)")
        self.browser.press("Enter")
        self.wait_for_text(".fg-matched", "1 function, 6.0 MiB (60.0%)")
        self.assertIn("search=", self.browser.evaluate("location.hash"))
        self.browser.press("Escape")
        self.browser.wait_for("location.hash === ''")

    def test_a_search_that_is_no_pattern_is_a_text(self):
        self.show(self.small, "search=grow(")
        self.wait_for_text(".fg-matched", "1 function, 3.0 MiB (30.0%)")

    def test_keys_choose_and_zoom_and_come_back(self):
        self.show(self.small)
        self.focus_picture()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
            self.browser.press(key)
        self.wait_for_text(".fg-announcer", "parse, 6.0 MiB")
        self.wait_for_text(".fg-details h2", "parse")
        self.browser.press("ArrowRight")
        self.wait_for_text(".fg-announcer", "cache::Table<int, std::string>::grow(unsigned long), 3.0 MiB")
        self.browser.press("Enter")
        self.wait_for_text(".fg-crumbs [aria-current]", "cache::Table::grow")
        self.browser.press("Escape")
        self.wait_for_text(".fg-crumbs [aria-current]", "serve")
        self.browser.press("Home")
        self.wait_for_text(".fg-crumbs", "Click a box")

    def test_a_click_zooms_and_the_address_brings_it_back(self):
        self.show(self.small)
        self.browser.click("canvas", x=60, y=3 * ROW + 10)
        self.wait_for_text(".fg-crumbs [aria-current]", "parse")
        fragment = self.browser.evaluate("location.hash")[1:]
        self.assertIn("zoom=", fragment)
        self.show(self.small, fragment)
        self.wait_for_text(".fg-crumbs [aria-current]", "parse")
        self.wait_for_text(".fg-details", "b.c:3")

    def test_details_tell_place_share_and_interval(self):
        self.show(self.small)
        self.browser.click("canvas", x=60, y=3 * ROW + 10)
        self.wait_for_text(".fg-details h2", "parse")
        details = self.text(".fg-details")
        for part in ("b.c:3", "in server", "60.0%", "of parent66.7%", "4.3 MiB \u2013 8.3 MiB", "samples9"):
            self.assertIn(part, details)

    def test_callers_stand_under_the_function_when_turned(self):
        self.show(self.small)
        self.focus_picture()
        self.browser.press("i")
        self.browser.wait_for("location.hash.includes('order=callers')")
        for key in ("ArrowDown", "ArrowDown"):
            self.browser.press(key)
        self.wait_for_text(".fg-announcer", "malloc, 9.0 MiB")
        self.browser.press("ArrowDown")
        self.wait_for_text(".fg-announcer", "parse, 6.0 MiB")

    def test_callers_of_one_function_gather_all_its_places(self):
        self.show(self.small)
        self.browser.click(".fg-functions tbody button")
        self.wait_for_text(".fg-details h2", "malloc")
        self.browser.press("c")
        self.wait_for_text(".fg-crumbs", "callers of")
        self.wait_for_text(".fg-crumbs [aria-current]", "malloc")
        self.browser.press("Escape")
        self.wait_for_text(".fg-crumbs", "Click a box")

    def test_a_sandwich_has_callers_above_and_callees_below(self):
        stacks = "".join(f"{size * MIB} 0 0 1 {stack}\n" for size, stack in (
            (4, "main\tread\tparse\tmalloc"), (2, "main\twrite\tparse\tgrow\tmalloc"), (1, "main\twrite\tmalloc")))
        path = self.write("sandwich.html", draw(stacks, "flame"))
        self.show(path)
        self.assertTrue(self.browser.evaluate("[...document.querySelectorAll('.fg-switch button')][2].disabled"))
        self.browser.click(".fg-functions tbody button[title=parse]")
        self.browser.click(".fg-details button", "Both")
        self.wait_for_text(".fg-crumbs", "callers and callees of")
        self.focus_picture()
        for key, said in (("ArrowDown", "parse, 6.0 MiB"), ("ArrowDown", "malloc, 4.0 MiB"), ("ArrowRight", "grow, 2.0 MiB"), ("ArrowUp", "parse, 6.0 MiB"),
                          ("ArrowUp", "read, 4.0 MiB"), ("ArrowRight", "write, 2.0 MiB"), ("ArrowUp", "main, 2.0 MiB"), ("ArrowDown", "write, 2.0 MiB")):
            self.browser.press(key)
            self.wait_for_text(".fg-announcer", said)
        self.browser.press("Shift+Y")
        self.wait_for_text(".fg-announcer", "Copied a stack of 2 functions")
        # In the middle instead: rows of main, write, and below it parse and malloc.
        self.browser.press("Enter")
        self.wait_for_text(".fg-crumbs [aria-current]", "write")
        fragment = self.browser.evaluate("location.hash")[1:]
        self.assertIn("order=both", fragment)
        self.show(path, fragment)
        self.wait_for_text(".fg-crumbs [aria-current]", "write")
        self.browser.click("canvas", x=60, y=10)
        self.wait_for_text(".fg-details h2", "main")
        self.assertIn("3.0 MiB", self.text(".fg-details"))
        self.browser.press("Escape")
        self.wait_for_text(".fg-crumbs", "Click a box")
        self.assertEqual(self.browser.complaints(), [])

    def test_the_picture_can_be_saved(self):
        self.show(self.small, "theme=dark")
        before = self.browser.evaluate("document.querySelector('canvas').style.height")
        saved = {}
        for kind in ("SVG", "PNG"):
            self.browser.click(".fg-save summary")
            saved[kind] = os.path.join(self.folder.name, f"picture.{kind.lower()}")
            self.assertRegex(self.browser.download(saved[kind], ".fg-save button", kind), rf"\.flame\.{kind.lower()}$")
        texts = [element.text for element in ElementTree.parse(saved["SVG"]).iter() if element.text and element.text.strip()]
        self.assertIn("parse, 6.0 MiB", texts)
        self.assertIn("cache::Table<int, std::string>::grow(unsigned long), 3.0 MiB", texts)
        data = pathlib.Path(saved["PNG"]).read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(int.from_bytes(data[20:24], "big"), 5 * ROW + 1)
        self.assertEqual(self.browser.evaluate("document.querySelector('canvas').style.height"), before)

    def test_filters_select_stacks_and_frames(self):
        self.show(self.small)
        self.browser.click(".fg-filters summary")
        self.type_filter("only", "parse|c[.]cc")
        self.wait_for_text(".fg-total", "9.0 MiB")
        self.assertIn("of 10.0 MiB", self.text(".fg-total"))
        self.type_filter("without", "grow")
        self.wait_for_text(".fg-total", "6.0 MiB")
        self.type_filter("hide", "^serve$")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '4'")
        self.type_filter("show from", "parse")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '3'")
        fragment = self.browser.evaluate("location.hash")[1:]
        self.show(self.small, fragment)
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '3'")
        self.assertEqual(self.browser.evaluate("document.querySelector('.fg-filters summary').textContent"), "Filter (4)")
        self.browser.click(".fg-filters summary")
        self.type_filter("prune from", "parse")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '2'")
        self.browser.click(".fg-filters button", "No filters")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '8'")
        self.type_filter("show", "^(main|malloc)$")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '3'")
        self.browser.wait_for("location.hash.length > 1")
        self.browser.back()
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '8'")
        self.assertEqual(self.browser.complaints(), [])

    def type_filter(self, label, text):
        self.browser.evaluate(f"""[...document.querySelectorAll('.fg-filters label')].find(label => label.textContent === {label!r})
            .querySelector('input').select()""")
        self.browser.type(text)
        self.browser.press("Enter")

    def test_wrappers_can_be_folded(self):
        stacks = f"{4 * MIB} 0 0 1 _start\tmain\tstd::invoke<F>(F&&)\tstd::_Function_handler<void ()>::_M_invoke(std::_Any_data const&)\twork\n"
        self.show(self.write("wrappers.html", draw(stacks, "flame")), "fold=1")
        self.browser.wait_for("document.querySelector('canvas').dataset.boxes === '3'")
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('.fg-functions tbody button')].map(b => b.title).sort().join()"), "main,work")

    def test_a_cut_profile_keeps_its_sums_and_its_functions(self):
        stacks = "".join(f"{size * MIB} 0 0 1 {stack}\n" for size, stack in (
            (6, "main\tserve\tparse"), (3, "main\tserve\tgrow"), *((1, f"main\tload\titem{i}\tmalloc") for i in range(8))))
        self.show(self.write("cut.html", draw(stacks, "flame", "frames=4")))
        self.assertIn("17.0 MiB", self.text(".fg-total"))
        self.assertIn("10 stacks; the smallest boxes are drawn together", self.text(".fg-legend"))
        # malloc is in frames that are left out: its figures are there all the same.
        self.assertEqual(self.text(".fg-functions tbody tr"), "malloc8.0 MiB8.0 MiB")
        self.focus_picture()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
            self.browser.press(key)
        self.wait_for_text(".fg-announcer", "[smaller ones], 8.0 MiB")
        self.wait_for_text(".fg-details", "too small to be drawn one by one")
        self.browser.press("i")
        self.browser.press("ArrowDown")
        self.browser.press("ArrowDown")
        self.wait_for_text(".fg-announcer", "malloc, 8.0 MiB")
        self.browser.press("s")
        self.wait_for_text(".fg-crumbs [aria-current]", "malloc")
        self.assertEqual(self.browser.complaints(), [])

    def test_a_deep_picture_has_a_map(self):
        path = self.write("deep.html", draw(f"{4 * MIB} 0 0 1 " + TAB.join(f"level{i}" for i in range(120)) + "\n", "flame"))
        self.show(self.small)
        self.assertTrue(self.browser.evaluate("document.querySelector('.fg-minimap').hidden"))
        self.show(path)
        self.browser.wait_for("!document.querySelector('.fg-minimap').hidden")
        height = self.browser.evaluate("document.querySelector('.fg-minimap').clientHeight")
        self.browser.click(".fg-minimap", x=20, y=height - 5)
        self.browser.wait_for("(e => e.scrollTop + e.clientHeight > e.scrollHeight - 30)(document.querySelector('.fg-chart'))")
        self.assertEqual(self.browser.complaints(), [])

    def test_on_a_telephone_the_picture_is_as_high_as_its_rows(self):
        path = self.write("high.html", draw(f"{4 * MIB} 0 0 1 " + TAB.join(f"level{i}" for i in range(120)) + "\n", "flame"))
        self.addCleanup(self.browser.resize, 1200, 800)
        self.browser.resize(390, 800)
        height = "document.querySelector('.fg-chart').clientHeight"
        self.show(self.small)
        # All, and four functions below each other.
        self.browser.wait_for(f"{height} === {5 * ROW + 1}")
        self.browser.click("canvas", x=100, y=ROW // 2 + ROW)
        self.browser.wait_for("location.hash.includes('zoom=')")
        self.assertEqual(self.browser.evaluate(height), 5 * ROW + 1)
        self.show(path)
        self.browser.wait_for(f"{height} === Math.round(0.62 * innerHeight)")
        self.browser.resize(1200, 800)
        self.browser.wait_for(f"{height} > 0.62 * innerHeight")
        self.assertEqual(self.browser.complaints(), [])

    def test_the_picture_is_there_in_every_frame_while_the_window_changes(self):
        self.show(self.small)
        seen = self.browser.evaluate("""new Promise(resolve => {
            const chart = document.querySelector('.fg-chart'), canvas = chart.querySelector('canvas'), seen = [];
            const pixel = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
            // Called after the chart's own observer and before the frame is shown.
            new ResizeObserver(() => {
                pixel.clearRect(0, 0, 1, 1);
                pixel.drawImage(canvas, 5, 5, 1, 1, 0, 0, 1, 1);
                seen.push(pixel.getImageData(0, 0, 1, 1).data[3]);
                if (seen.length === 8)
                    resolve(seen);
                else
                    requestAnimationFrame(() => { chart.style.height = `${100 + 10 * seen.length}px`; });
            }).observe(chart);
        })""")
        self.assertEqual(seen, [255] * 8)
        self.assertEqual(self.browser.complaints(), [])

    def test_it_is_accessible_at_each_width_in_both_themes(self):
        self.show(self.small)
        self.addCleanup(self.browser.emulate, colorScheme="light")
        self.addCleanup(self.browser.resize, 1200, 800)
        for width in (390, 768, 1440):
            self.browser.resize(width, 800)
            for theme in ("light", "dark"):
                self.browser.emulate(colorScheme=theme)
                with self.subTest(width=width, theme=theme):
                    self.assertEqual(self.browser.accessibility_faults(), [])

    def test_boxes_can_have_the_colour_of_what_stays(self):
        stacks = f"{4 * MIB} 0 0 1 main\tkeep\n{4 * MIB} 0 0 1 main\tscratch\n"
        self.show(self.write("age.html", draw(stacks, "flame", "allocated")), "colour=age")
        self.assertIn("still in use", self.text(".fg-legend"))
        pixel = "[...document.querySelector('canvas').getContext('2d').getImageData({}, 2 * 24 + 3, 1, 1).data].join()"
        kept, freed = (self.browser.evaluate(pixel.format(x)) for x in (200, 600))
        self.assertNotEqual(kept, freed)
        # Without what was allocated nothing says what was freed.
        self.show(self.small, "colour=age")
        self.assertNotIn("still in use", self.text(".fg-legend"))

    def test_what_is_shown_can_be_saved_for_other_programs(self):
        self.show(self.small, "focus=parse")
        self.wait_for_text(".fg-total", "6.0 MiB")
        saved = {}
        for kind in ("speedscope", "pprof", "HTML"):
            self.browser.click(".fg-save summary")
            saved[kind] = os.path.join(self.folder.name, f"saved.{kind}")
            self.browser.download(saved[kind], ".fg-save button", kind)
        scope = json.loads(pathlib.Path(saved["speedscope"]).read_text())
        names = [frame["name"] for frame in scope["shared"]["frames"]]
        space = scope["profiles"][0]
        self.assertEqual([[names[i] for i in stack] for stack in space["samples"]], [["main", "serve", "parse", "malloc"]])
        self.assertEqual((space["weights"], space["unit"]), ([6 * MIB], "bytes"))
        report = subprocess.run([processes.HEAPCTL, "report", "--collapsed", "--no-prune", saved["pprof"]], capture_output=True, text=True, check=True)
        self.assertEqual(report.stdout.split(), ["main;serve;parse;malloc", str(6 * MIB)])
        again = os.path.join(self.folder.name, "again.html")
        os.rename(saved["HTML"], again)
        self.show(again)
        self.assertIn("10.0 MiB", self.text(".fg-total"))
        self.assertEqual(self.browser.complaints(), [])

    def test_the_counter_can_be_changed(self):
        self.show(self.small, "show=inuse_objects")
        self.assertIn("150", self.text(".fg-total"))
        self.assertIn("objects in use", self.text(".fg-total"))

    def test_a_difference_shows_now_base_and_change(self):
        self.show(self.difference)
        self.assertIn("+2.0 MiB", self.text(".fg-total"))
        self.assertIn("8.0 MiB \u2192 10.0 MiB", self.text(".fg-total"))
        self.browser.click(".fg-functions tbody button[title*=grow]")
        self.wait_for_text(".fg-details", "change\u22122.0 MiB")
        self.assertIn("now3.0 MiB", self.text(".fg-details"))
        self.assertIn("base5.0 MiB", self.text(".fg-details"))

    def test_paper_gets_all_rows_in_light(self):
        self.show(self.small, "theme=dark")
        self.browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.evaluate("document.querySelector('.fg').dataset.theme"), "light")
        self.assertEqual(self.browser.evaluate("parseInt(document.querySelector('canvas').style.height)"), 5 * ROW + 1)
        self.browser.evaluate("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.browser.evaluate("document.querySelector('.fg').dataset.theme"), "dark")

    def test_another_page_can_hold_a_graph_and_release_it(self):
        self.show(self.small)
        self.browser.evaluate("""{
            const data = JSON.parse(document.getElementById('flame-data').textContent);
            globalThis.second = heapctlFlame(document.body.appendChild(document.createElement('div')), data,
                { embedded: { text: 'direction=flame', theme: 'dark', changed: text => { globalThis.changed = text; } } });
            second.change({ query: 'main' });
        }""")
        self.assertEqual(self.browser.evaluate("location.hash"), "")
        self.assertEqual(self.browser.evaluate("changed"), "direction=flame&search=main")
        self.assertEqual(self.browser.evaluate("[...document.querySelectorAll('.fg')].at(-1).dataset.theme"), "dark")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.fg').length"), 2)
        self.browser.evaluate("second.close()")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.fg').length"), 1)

    def test_colours_follow_modules_functions_and_theme(self):
        pixel = """(() => {
            const canvas = document.querySelector('canvas');
            return [...canvas.getContext('2d').getImageData(200, 4 * 24 + 3, 1, 1).data].join();
        })()"""
        seen = set()
        for fragment in ("colour=module", "colour=function", "colour=module&theme=dark"):
            self.show(self.small, fragment)
            seen.add(self.browser.evaluate(pixel))
        self.assertEqual(len(seen), 3)

    def test_nonsense_in_the_address_does_no_harm(self):
        self.show(self.small, "zoom=99.x.1&focus=-7&show=nothing&search=%5B&colour=red&theme=loud")
        self.assertEqual(self.browser.complaints(), [])
        self.wait_for_text(".fg-matched", "nothing found")

    def test_an_empty_profile_has_a_page_too(self):
        self.show(self.write("empty.html", draw("", "flame")))
        self.assertEqual(self.browser.complaints(), [])
        self.assertIn("0 B", self.text(".fg-total"))

    def test_a_large_profile_is_drawn_by_what_can_be_seen(self):
        self.show(self.write("large.html", draw(many_stacks(20000), "flame")))
        boxes = int(self.browser.evaluate("document.querySelector('canvas').dataset.boxes"))
        self.assertGreater(boxes, 100)
        self.assertLess(boxes, 40000)
        self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    unittest.main()
