#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents lead somewhere, each is in the site once, and the checker of links finds one that does not."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from project_files import project_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("site_pages", str(ROOT / "scripts/site"))
site = importlib.util.module_from_spec(importlib.util.spec_from_loader("site_pages", LOADER))
LOADER.exec_module(site)


def anchor(heading):
    """As the forges and pandoc make it."""
    return re.sub(r"[^\w -]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def links_of(text):
    without_code = re.sub(r"^(```.*?^```|    .*?$)|`[^`\n]*`", "", text, flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", without_code)


class Documents(unittest.TestCase):
    def documents(self):
        return [ROOT / path for path in project_files(ROOT, "*.md")]

    def test_an_unpacked_release_has_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "release")
            for path in project_files(ROOT, "*"):
                (copy / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, copy / path)
            (copy / "build-site").mkdir()
            (copy / "build-site/made.md").touch()
            self.assertEqual(project_files(copy, "*.md", "examples"), sorted(project_files(ROOT, "*.md", "examples")))

    def test_their_links_lead_to_files_and_headings(self):
        wrong, count = [], 0
        for path in self.documents():
            for link in links_of(path.read_text()):
                if "://" in link:
                    continue
                count += 1
                file, _, fragment = link.partition("#")
                target = pathlib.Path(os.path.normpath(path.parent / file)) if file else path
                headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", target.read_text(), re.M)} if target.suffix == ".md" and target.exists() else set()
                if not target.exists() or (fragment and fragment not in headings):
                    wrong.append(f"{path.relative_to(ROOT)}: {link}")
        self.assertEqual(wrong, [])
        self.assertGreater(count, 60)

    def test_each_is_in_the_site_once(self):
        pages = site.Site(pathlib.Path(os.environ["HEAPCTL_BUILD"]))
        paths = [path for paths in pages.sections.values() for path in paths]
        self.assertEqual(len(paths), len(set(paths)))
        documents = {str(path.relative_to(ROOT)) for path in self.documents()}
        self.assertEqual({path for path in documents if path.startswith("docs/") or "/" not in path} - set(paths), set())

    def test_a_link_that_leads_nowhere_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#below">b</a> <a href="missing.html">c</a> <a href="#top">d</a> <a href="http://e">e</a>')
            (place / "b.html").write_text('<img src="picture.png">')
            self.assertEqual(list(site.broken_links(place)), [
                "a.html: b.html#below leads nowhere", "a.html: missing.html leads nowhere", "b.html: picture.png leads nowhere"])


if __name__ == "__main__":
    unittest.main()
