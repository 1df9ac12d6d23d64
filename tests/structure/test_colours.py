#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text of the page and of the flame graph has the contrast of WCAG 2.2 (success criterion 1.4.3) wherever it may stand."""
import pathlib
import re
import unittest

COLOURS = pathlib.Path(__file__).resolve().parents[2] / "src/render/page/colours.css"
TEXT = ("ink", "quiet", "accent", "good", "bad", "grown", "shrunk")
# How far a bar reaches under the text of its row depends on the figures.
BACKGROUNDS = ("paper", "raised", "sunken", "bar", "shrunk-bar")
MIN_CONTRAST = 4.5


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


if __name__ == "__main__":
    unittest.main()
