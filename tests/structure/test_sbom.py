#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bill of materials is SPDX 2.3, and has what the linker used."""
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["HEAPCTL_BUILD"]
sys.path.insert(0, str(ROOT / "tests/support"))
from json_schema import Schemas  # noqa: E402


def text(pattern=r"[\s\S]+"):
    return {"type": "string", "pattern": f"^{pattern}$"}


def record(required, **optional):
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def list_of(items, **limits):
    return {"type": "array", "items": items, **limits}


IDENTIFIER = text(r"SPDXRef-[A-Za-z0-9.-]+")
LICENSE = {"type": "string", "enum": [
    "Apache-2.0", "NOASSERTION", "curl", "GPL-3.0-or-later WITH GCC-exception-3.1", "LGPL-2.1-or-later", "MIT", "BSD-3-Clause", "blessing", "Zlib",
    "LGPL-2.0-or-later AND GPL-2.0-or-later WITH GCC-exception-2.0", "LicenseRef-public-domain"]}
# Of the specification's schema what the document uses, as strictly; an unknown key is a fault.
DOCUMENT = record({
    "spdxVersion": {"enum": ["SPDX-2.3"]}, "dataLicense": {"enum": ["CC0-1.0"]}, "SPDXID": {"enum": ["SPDXRef-DOCUMENT"]}, "name": text(),
    "documentNamespace": text(r"https://[^#\s]+"),
    "creationInfo": record({"created": text(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "creators": list_of(text(r"(Tool|Organization|Person): .+"), minItems=1)}),
    "packages": list_of(record(
        {"SPDXID": IDENTIFIER, "name": text(), "downloadLocation": text()}, versionInfo=text(), filesAnalyzed={"type": "boolean"}, licenseConcluded=LICENSE,
        packageVerificationCode=record({"packageVerificationCodeValue": text("[0-9a-f]{40}")}), licenseInfoFromFiles=list_of(LICENSE, minItems=1),
        licenseDeclared=LICENSE, copyrightText=text(), supplier=text(r"(Organization|Person): .+|NOASSERTION"),
        externalRefs=list_of(record({"referenceCategory": {"enum": ["PACKAGE-MANAGER"]}, "referenceType": {"enum": ["purl"]},
                                     "referenceLocator": text(r"pkg:deb/debian/[a-z0-9+.-]+@[^@?]+\?arch=source")}))), minItems=2),
    "files": list_of(record({"SPDXID": IDENTIFIER, "fileName": text(r"\./.+"), "checksums": list_of(record(
        {"algorithm": {"enum": ["SHA1", "SHA256"]}, "checksumValue": text("[0-9a-f]{40}([0-9a-f]{24})?")}), minItems=1)},
        licenseConcluded=LICENSE, licenseInfoInFiles=list_of(LICENSE), copyrightText=text()), minItems=1),
    "relationships": list_of(record({"spdxElementId": IDENTIFIER, "relatedSpdxElement": IDENTIFIER,
                                     "relationshipType": {"enum": ["DESCRIBES", "CONTAINS", "STATIC_LINK", "DYNAMIC_LINK"]}}), minItems=1),
    "hasExtractedLicensingInfos": list_of(record({"licenseId": text(r"LicenseRef-[A-Za-z0-9.-]+"), "extractedText": text(), "name": text()})),
})


def load():
    loader = importlib.machinery.SourceFileLoader("sbom", str(ROOT / "scripts/sbom"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sbom", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sbom = load()
        every = sbom.products
        # One of them is enough.
        sbom.products = lambda build: [entry for entry in every(build) if entry[0].endswith("/heapctl")]
        try:
            cls.document = sbom.describe(BUILD, None)
        except SystemExit as failure:
            raise unittest.SkipTest(str(failure)) if "of no Debian package" in str(failure) else failure
        cls.names = {entry["SPDXID"]: entry.get("name", entry.get("fileName")) for kind in ("packages", "files") for entry in cls.document[kind]}

    def test_it_follows_the_schema(self):
        self.assertEqual(Schemas({}).problems(self.document, DOCUMENT), [])

    def test_the_schema_is_strict(self):
        self.assertNotEqual(Schemas({}).problems(dict(self.document, spdxVersion="SPDX-2"), DOCUMENT), [])
        self.assertNotEqual(Schemas({}).problems(dict(self.document, more=1), DOCUMENT), [])

    def test_identifiers_are_unique_and_known(self):
        identifiers = [entry["SPDXID"] for kind in ("packages", "files") for entry in self.document[kind]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        for link in self.document["relationships"]:
            self.assertIn(link["spdxElementId"], {*identifiers, "SPDXRef-DOCUMENT"})
            self.assertIn(link["relatedSpdxElement"], identifiers)

    def test_it_has_the_files_as_they_are_installed(self):
        """Section 7.8 of the specification: only a package whose files were analyzed has files; 7.9 says how its code is made."""
        containing = {link["spdxElementId"] for link in self.document["relationships"] if link["relationshipType"] == "CONTAINS"}
        self.assertEqual(containing, {package["SPDXID"] for package in self.document["packages"] if package["filesAnalyzed"]})
        installed = json.loads(subprocess.run(["meson", "introspect", BUILD, "--installed"], check=True, capture_output=True, text=True).stdout)
        # The link for the linker is no file of its own.
        installed = {source: place for source, place in installed.items() if not place.endswith("/libheapctl.so")}
        self.assertEqual({entry["fileName"] for entry in self.document["files"]}, {"." + place for place in installed.values()})
        sums = sorted(hashlib.sha1(pathlib.Path(source).read_bytes()).hexdigest() for source in installed)
        own = next(package for package in self.document["packages"] if package["SPDXID"] in containing)
        self.assertEqual(own["packageVerificationCode"], {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()})

    def test_the_files_of_a_folder_are_those_in_it(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "usr/bin/heapctl")
            program.parent.mkdir(parents=True)
            program.write_bytes(b"\x7fELF")
            pathlib.Path(folder, "usr/README").write_text("Read me.")
            (program.parent / "link").symlink_to(program)
            self.assertEqual(load().installed_files(BUILD, folder), {"./usr/bin/heapctl": program, "./usr/README": pathlib.Path(folder, "usr/README")})

    def test_it_has_the_libraries_of_the_command(self):
        links = {(link["relationshipType"], self.names[link["relatedSpdxElement"]]) for link in self.document["relationships"]
                 if self.names.get(link["spdxElementId"], "").endswith("/bin/heapctl")}
        self.assertIn(("DYNAMIC_LINK", "glibc"), links)
        linked = {name for _, name in links}
        self.assertLessEqual({"zlib", "libzstd", "pcre2", "jansson", "libdeflate", "xz-utils", "libiberty"}, linked)
        # Those of heapctl-net and heapctl-fleet.
        self.assertEqual(linked & {"curl", "gnutls28", "sqlite3", "libmicrohttpd"}, set())

    def test_every_license_is_known(self):
        self.assertEqual([entry["name"] for entry in self.document["packages"] if not re.match(r"[A-Z][\w.-]+|curl|blessing", entry["licenseDeclared"])
                          or entry["licenseDeclared"] == "NOASSERTION"], [])

    def test_the_installed_program_is_a_program(self):
        """A folder of data, a completion and a link have its name."""
        with tempfile.TemporaryDirectory() as folder:
            for place in ("a/heapctl", "share/completions", "usr/bin"):
                os.makedirs(os.path.join(folder, place))
            pathlib.Path(folder, "share/completions/heapctl").write_text("complete -c heapctl")
            self.assertIsNone(load().find_installed(folder, "heapctl"))
            program = pathlib.Path(folder, "usr/bin/heapctl")
            program.write_bytes(b"\x7fELF")
            # As Traffic Server's folder has one for the plugin.
            pathlib.Path(folder, "share/heapctl").symlink_to(program)
            self.assertEqual(load().find_installed(folder, "heapctl"), program)


if __name__ == "__main__":
    unittest.main()
