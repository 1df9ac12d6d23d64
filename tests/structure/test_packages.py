#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make install` installs is what the packages contain, each file in one of them."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["HEAPCTL_BUILD"]
TRIPLET = subprocess.run(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"], check=True, capture_output=True, text=True).stdout.strip()


def options():
    """Of the build folder, as meson noted them."""
    text = subprocess.run(["meson", "introspect", BUILD, "--buildoptions"], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r'"name": "(\w+)", "value": "?([^",]+)"?', text))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if options().get("b_sanitize", "none") != "none":
            raise unittest.SkipTest("a sanitizer's build is not packaged")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True, capture_output=True,
                       env=dict(os.environ, DESTDIR=str(cls.folder)))
        # The build folder's prefix is the packages' /usr.
        prefix = cls.folder / options()["prefix"].lstrip("/")
        if prefix != cls.folder / "usr":
            prefix.rename(cls.folder / "moved")
            shutil.rmtree(cls.folder / "usr", ignore_errors=True)
            (cls.folder / "moved").rename(cls.folder / "usr")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def installed(self):
        return {path for path in self.folder.rglob("*") if not path.is_dir() or path.is_symlink()}

    def files_of(self, package):
        """The files that each line of its .install names."""
        for line in (ROOT / f"debian/{package}.install").read_text().split():
            # Debhelper's expressions are the shell's, as pathlib's are; a folder is all that is in it.
            found = set()
            for path in self.folder.glob(line):
                found |= {path} if not path.is_dir() else {inner for inner in path.rglob("*") if not inner.is_dir() or inner.is_symlink()}
            yield line, found

    def test_each_line_names_files_and_each_file_has_a_package(self):
        owners = {}
        for package in ("heapctl", "libheapctl0", "libheapctl-dev", "heapctl-trafficserver"):
            if package == "heapctl-trafficserver" and not pathlib.Path(BUILD, "plugins/trafficserver/memory_profile.so").exists():
                continue
            for line, found in self.files_of(package):
                self.assertTrue(found, f"debian/{package}.install: {line} names nothing")
                for path in found:
                    owners.setdefault(path, []).append(package)
        self.assertEqual([str(path) for path, packages in owners.items() if len(packages) > 1], [])
        self.assertEqual(sorted(str(path.relative_to(self.folder)) for path in self.installed() - set(owners)), [])

    def test_the_spec_has_each_file(self):
        text = (ROOT / "contrib/rpm/heapctl.spec").read_text()
        for macro, place in (("_bindir", "usr/bin"), ("_libexecdir", "usr/libexec"), ("_datadir", "usr/share"), ("_mandir", "usr/share/man"),
                             ("_unitdir", "usr/lib/systemd/system"), ("_includedir", "usr/include"), ("_libdir", f"usr/lib/{TRIPLET}")):
            text = text.replace(f"%{{{macro}}}", place)
        listed = set()
        for line in re.findall(r"^usr/\S+$", text, re.M):
            for path in self.folder.glob(line):
                listed |= {path} if not path.is_dir() else set(path.rglob("*"))
        self.assertEqual(sorted(str(path.relative_to(self.folder)) for path in self.installed() - listed), [])

    def test_the_symbols_are_those_of_the_library(self):
        names = set(re.findall(r"^\t(heapctl_\w+);", (ROOT / "src/agent/heapctl.map").read_text(), re.M))
        self.assertEqual(set(re.findall(r"^ (heapctl_\w+)@", (ROOT / "debian/libheapctl0.symbols").read_text(), re.M)), names)

    def test_the_command_attaches_without_the_development_files(self):
        (self.folder / "usr/lib" / TRIPLET / "libheapctl.so").unlink()
        environment = dict(os.environ, HEAPCTL_DIR=str(self.folder / "agents"))
        heapctl = self.folder / "usr/bin/heapctl"
        with subprocess.Popen(["sleep", "600"], env=environment) as process:
            try:
                for verb in ("attach", "detach"):
                    result = subprocess.run([heapctl, verb, str(process.pid)], capture_output=True, text=True, env=environment)
                    self.assertEqual(result.returncode, 0, result.stderr)
            finally:
                process.kill()


class Scriptlets(unittest.TestCase):
    """What the spec asks of systemd; `make check-deb` checks the packages of Debian."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        systemctl = self.folder / "systemctl"
        systemctl.write_text(f'#!/bin/sh\necho "$*" >>{self.folder}/asked\nexit 1\n')
        systemctl.chmod(0o755)

    def ask(self, name, packages_left, is_running=True):
        """The requests of a scriptlet that rpm runs with the number of the packages that will be there."""
        text = (ROOT / "contrib/rpm/heapctl.spec").read_text()
        body = re.search(rf"^%{name}\n(.*?)\n\n", text, re.M | re.S)[1]
        place = self.folder if is_running else self.folder / "absent"
        asked = self.folder / "asked"
        asked.write_text("")
        subprocess.run(["sh", "-e", "-c", body.replace("/run/systemd/system", str(place)), "sh", str(packages_left)], check=True,
                       env=dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"))
        return asked.read_text().splitlines()

    def test_an_erasure_stops_the_gateway(self):
        self.assertEqual(self.ask("preun", 0), ["--no-reload disable --now heapctl-gateway.socket heapctl-gateway.service"])
        self.assertEqual(self.ask("postun", 0), ["daemon-reload"])

    def test_an_upgrade_starts_a_running_gateway_again(self):
        self.assertEqual(self.ask("preun", 1), [])
        self.assertEqual(self.ask("postun", 1), ["daemon-reload", "try-restart heapctl-gateway.socket heapctl-gateway.service"])

    def test_without_systemd_nothing_is_asked(self):
        self.assertEqual([self.ask(name, left, is_running=False) for name in ("preun", "postun") for left in (0, 1)], [[]] * 4)


class FuzzTargets(unittest.TestCase):
    def test_the_libraries_of_their_libraries_are_found_beside_them(self):
        """OSS-Fuzz runs them where those are not installed."""
        text = (ROOT / "contrib/oss-fuzz/build.sh").read_text()
        flags = re.search(r'^export LDFLAGS="\$\{LDFLAGS:-\} (.*)"$', text, re.M)[1].replace("\\$", "$").split()
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder, "lib")
            library.mkdir()
            for name, code, wanted in (("lib/libinner.so", "int inner(void) { return 0; }", []),
                                       ("lib/libouter.so", "int inner(void); int outer(void) { return inner(); }", ["-linner"]),
                                       ("target", "int outer(void); int main(void) { return outer(); }", ["-louter", f"-Wl,-rpath-link={library}", *flags])):
                kind = ["-shared", "-fPIC"] if name.endswith(".so") else []
                subprocess.run(["cc", *kind, "-o", name, "-x", "c", "-", "-x", "none", "-Llib", *wanted], input=code, text=True, check=True, cwd=folder)
            subprocess.run([f"{folder}/target"], check=True)


class Setup(unittest.TestCase):
    """scripts/setup on a machine of another release that has no package yet, without root."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("dpkg-query", "exit 1"), ("id", "echo 1000")):
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        (self.folder / "scripts").mkdir()
        self.script = self.folder / "scripts/setup"
        self.script.write_text((ROOT / "scripts/setup").read_text().replace("/etc/os-release", str(self.folder / "os-release")))

    def ask(self, name, identifier, version):
        """What it says before the names of packages, and these names."""
        lines = [f'PRETTY_NAME="{name}"', f"ID={identifier}"] + ([f'VERSION_ID="{version}"'] if version else [])
        (self.folder / "os-release").write_text("\n".join(lines) + "\n")
        result = subprocess.run(["sh", self.script, "test"], capture_output=True, text=True, env=dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"))
        self.assertEqual(result.returncode, 1)
        said, names = result.stderr.split("setup: some packages are missing; as root, run:\n")
        return said, names.split()

    def test_it_says_that_it_does_not_know_a_release(self):
        for name, identifier, version in (("Debian GNU/Linux forky/sid", "debian", None), ("Ubuntu 26.04 LTS", "ubuntu", "26.04")):
            said, names = self.ask(name, identifier, version)
            self.assertEqual(said, f"setup: the package names of {name} are not known; using those of Debian 12\n")
            self.assertIn("libclang-rt-14-dev", names)

    def test_it_says_nothing_on_a_release_that_it_knows(self):
        for identifier, version, runtime in (("debian", "12", "libclang-rt-14-dev"), ("debian", "13", "libclang-rt-19-dev"),
                                             ("ubuntu", "24.04", "libclang-rt-18-dev"), ("ubuntu", "22.04", "clang")):
            said, names = self.ask("a name", identifier, version)
            self.assertEqual(said, "")
            self.assertIn(runtime, names)


class Versions(unittest.TestCase):
    def test_all_say_the_same(self):
        version = re.search(r"^    version: '(.*)',", (ROOT / "meson.build").read_text(), re.M)[1]
        self.assertEqual(re.match(r"heapctl \((.*)-[^-]+\)", (ROOT / "debian/changelog").read_text())[1], version)
        self.assertEqual(re.search(r"^Version: +(\S+)", (ROOT / "contrib/rpm/heapctl.spec").read_text(), re.M)[1], version)


if __name__ == "__main__":
    unittest.main()
