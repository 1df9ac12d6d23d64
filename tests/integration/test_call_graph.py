#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Call graphs: graphviz reads our DOT, every picture has its format, SVG is well formed and self-contained."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import browser
import processes

DRAW_STACKS = str(processes.BUILD / "tests/integration/draw_stacks")
SVG = "{http://www.w3.org/2000/svg}"

STACKS = """\
6000000 2000000 100 9 main@a.c:1@server\tserve@a.c:2@server\t!parse "quoted" \\N@b.c:3@server
3000000 5000000 100 5 main@a.c:1@server\tserve@a.c:2@server\toperator&lt;<std::pair<int, char>>(a && b)@c.cc:9@server
1000000 1000000 100 1 main@a.c:1@server\tgr\u00fc\u00dfe \u2192 \U0001f525
500000 0 100 1 main@a.c:1@server\t]]></script><script>alert(1)</script>
"""


def draw(renderer, *arguments, stacks=STACKS):
    return subprocess.run([DRAW_STACKS, renderer, *arguments], input=stacks.encode(),
                          stdout=subprocess.PIPE, check=True).stdout


class CallGraph(unittest.TestCase):
    @unittest.skipUnless(shutil.which("dot"), "graphviz' dot is not installed")
    def test_graphviz_reads_our_dot(self):
        done = subprocess.run(["dot", "-Tplain"], input=draw("dot"), capture_output=True, check=True)
        self.assertEqual(done.stderr, b"")
        lines = done.stdout.decode().splitlines()
        self.assertEqual(sum(line.startswith("node ") for line in lines), 7)
        self.assertEqual(sum(line.startswith("edge ") for line in lines), 5)

    def test_svg_is_sound_and_names_nothing_outside(self):
        # in the difference one node did not change, and is left out
        for arguments, nodes in (([], 7), (["difference"], 6)):
            text = draw("svg", *arguments)
            root = xml.etree.ElementTree.fromstring(text)
            self.assertEqual(root.tag, f"{SVG}svg")
            self.assertEqual(len(root.findall(f".//{SVG}g[@class='node']")), nodes)
            self.assertEqual(len(root.findall(f".//{SVG}g[@class='edge']")), nodes - 2)
            outside = re.sub(rb'xmlns(:\w+)?="[^"]*"', b"", text)
            self.assertNotIn(b"http", outside)
            self.assertNotIn(b"<!DOCTYPE", text)

    def test_svg_keeps_names_as_they_are(self):
        root = xml.etree.ElementTree.fromstring(draw("svg"))
        titles = [link.get("{http://www.w3.org/1999/xlink}title") for link in root.iter(f"{SVG}a")]
        for name in ('parse "quoted" \\N', "operator&lt;<std::pair<int, char>>(a && b)",
                     "gr\u00fc\u00dfe \u2192 \U0001f525", "]]></script><script>alert(1)</script>"):
            self.assertTrue(any(title.startswith(name) for title in titles), (name, titles))

    @unittest.skipUnless(shutil.which("rsvg-convert"), "rsvg-convert is not installed")
    def test_another_renderer_draws_our_svg(self):
        done = subprocess.run(["rsvg-convert", "-w", "400"], input=draw("svg"), capture_output=True, check=True)
        self.assertTrue(done.stdout.startswith(b"\x89PNG"))

    def test_each_picture_is_of_its_kind(self):
        for renderer, beginning in (("ps", b"%!PS"), ("pdf", b"%PDF"), ("gif", b"GIF8"), ("png", b"\x89PNG")):
            with self.subTest(renderer):
                self.assertTrue(draw(renderer).startswith(beginning))

    def test_a_huge_graph_is_cut_before_it_is_laid_out(self):
        stacks = "".join(f"{1000 + i} 0 0 1 main\tf{i % 40}\tg{i % 300}\th{i}\n" for i in range(3000))
        text = draw("svg", "all-nodes", stacks=stacks)
        self.assertEqual(text.count(b'class="node"'), 1001)

    def test_nothing_to_draw_is_a_picture_that_says_so(self):
        self.assertIn(b"No nodes to show", draw("svg", stacks=""))

    @unittest.skipIf(browser.missing(), browser.missing())
    def test_texts_stay_in_their_boxes_in_a_wider_font(self):
        stacks = "".join(f"{weight} 0 100 1 main\t{name}\n" for weight, name in (
            (6_000_000, "_sdsnewlen"), (5_000_000, "mysqld::collect_all_statistics"), (90_000, "std::vector<int>::_M_realloc_insert")))
        with tempfile.TemporaryDirectory() as folder, browser.Browser() as chromium:
            path = pathlib.Path(folder, "graph.svg")
            for arguments in ([], ["difference"]):
                path.write_bytes(draw("svg", *arguments, stacks=stacks))
                chromium.open(path)
                # In place of Helvetica, for which graphviz makes the boxes.
                chromium.evaluate("document.querySelectorAll('text').forEach(text => text.setAttribute('font-family', 'DejaVu Sans'))")
                self.assertEqual(chromium.evaluate("""
                    [...document.querySelectorAll('.node')].flatMap(node => {
                      const box = node.querySelector('polygon')?.getBBox();
                      return [...node.querySelectorAll('text')].filter(text => {
                        const { x, width } = text.getBBox();
                        return box && (x < box.x || x + width > box.x + box.width);
                      });
                    }).map(text => text.textContent)"""), [])
                self.assertEqual(chromium.evaluate("""
                    [...document.querySelectorAll('.node')].filter(node => !node.querySelector('polygon')).flatMap(legend => {
                      const { right, bottom } = legend.getBoundingClientRect();
                      return [...document.querySelectorAll('.node polygon')].filter(polygon => {
                        const box = polygon.getBoundingClientRect();
                        return box.left < right && box.top < bottom;
                      });
                    }).length"""), 0)

    @unittest.skipIf(browser.missing(), browser.missing())
    def test_svg_moves_and_picks_in_a_browser(self):
        with tempfile.TemporaryDirectory() as folder, browser.Browser() as chromium:
            path = pathlib.Path(folder, "graph.svg")
            path.write_bytes(draw("svg"))
            chromium.open(path)
            box = "document.documentElement.getAttribute('viewBox')"
            before = chromium.evaluate(box)
            chromium.press("+")
            chromium.wait_for(f"{box} !== {before!r}")
            chromium.press("0")
            self.assertEqual([float(n) for n in chromium.evaluate(box).split()], [float(n) for n in before.split()])
            chromium.click(".node >> nth=1")
            chromium.wait_for("document.documentElement.classList.contains('picked')")
            self.assertEqual(chromium.complaints(), [])


if __name__ == "__main__":
    unittest.main()
