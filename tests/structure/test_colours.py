#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text of the page and of the flame graph has the contrast of WCAG 2.2 (success criterion 1.4.3) wherever it may stand."""
import json
import pathlib
import re
import shutil
import subprocess
import unittest

RENDER = pathlib.Path(__file__).resolve().parents[2] / "src/render"
COLOURS = RENDER / "page/colours.css"
TEXT = ("ink", "quiet", "accent", "good", "bad", "grown", "shrunk")
# How far a bar reaches under the text of its row depends on the figures.
BACKGROUNDS = ("paper", "raised", "sunken", "bar", "shrunk-bar")
MIN_CONTRAST = 4.5

# Each colour that a box of the flame graph can have, with that of its text. A module's rank and a text's hash choose it.
BOXES = """
const found = [], lifts = [-1, -0.5, 0, 0.5, 1], shares = Array.from({ length: 101 }, (_, i) => i / 100);
const hex = rgb => '#' + rgb.map(part => part.toString(16).padStart(2, '0')).join('');
for (const isDark of [false, true]) {
  const colours = new Colours({}, isDark), boxes = [colours.rest.match(/\\d+/g).map(Number)];
  colours.moduleRanks = new Map(Array.from({ length: 40 }, (_, rank) => [String(rank), rank]));
  for (const lift of lifts)
    boxes.push(...['', ...colours.moduleRanks.keys()].map(module => colours.ofModule(module, lift)));
  for (let hash = 0; hash < 1 << 16; hash += 5)
    boxes.push(colours.ofFunction(hash));
  boxes.push(...shares.flatMap(share => [colours.ofAge(share), colours.ofChange(share), colours.ofChange(-share)]));
  found.push(...boxes.map(box => [colours.text, hex(box)]));
}
console.log(JSON.stringify(found));
"""


def luminance(colour):
    """Relative luminance as WCAG defines it."""
    parts = (int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


class Colours(unittest.TestCase):
    def test_the_formula(self):
        self.assertAlmostEqual(contrast("#000000", "#ffffff"), 21)
        self.assertAlmostEqual(contrast("#777777", "#ffffff"), 4.48, places=2)

    def test_text_can_be_read_on_every_background(self):
        themes = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in COLOURS.read_text().split("}")[:2]]
        self.assertEqual([theme["paper"] < "#800000" for theme in themes], [False, True])
        for theme in themes:
            for text in TEXT:
                for background in BACKGROUNDS:
                    with self.subTest(text=text, background=background, paper=theme["paper"]):
                        self.assertGreaterEqual(contrast(theme[text], theme[background]), MIN_CONTRAST)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_text_can_be_read_on_every_box_of_a_flame_graph(self):
        script = "const hashText = hash => hash;\n" + (RENDER / "flame/colours.js").read_text() + BOXES
        run = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
        pairs = json.loads(run.stdout)
        self.assertGreater(len({box for _, box in pairs}), 1000)
        self.assertEqual([(text, box) for text, box in pairs if contrast(text, box) < MIN_CONTRAST], [])


if __name__ == "__main__":
    unittest.main()
