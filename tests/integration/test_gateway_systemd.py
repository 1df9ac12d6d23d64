#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway under systemd: its units as systemd itself rates them, and sockets that systemd passes to it."""
import json
import os
import pathlib
import re
import socket
import subprocess
import unittest

from gateway import GatewayCase
from processes import BUILD, HEAPCTL, free_port, listens, need, wait_until

CONTRIB = pathlib.Path(__file__).resolve().parents[2] / "contrib"
SERVICE, SOCKET, DROP_IN = "heapctl-gateway.service", "heapctl-gateway.socket", "heapctl-server.conf"


class Units(GatewayCase):
    def copy(self, change=lambda text: text):
        """The units in a folder of their own, for the program that was built here."""
        for name in (SERVICE, SOCKET):
            source = CONTRIB / "systemd" / (name + ".in")
            text = (source if source.exists() else source.with_suffix("")).read_text()
            pathlib.Path(self.folder, name).write_text(change(text).replace("@bindir@/heapctl", HEAPCTL))

    def analyze(self, *arguments):
        done = subprocess.run([need("systemd-analyze"), *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def verify(self):
        return self.analyze("verify", "--man=no", f"./{SERVICE}", f"./{SOCKET}")

    def test_systemd_accepts_the_units(self):
        self.copy()
        self.assertEqual(self.verify(), (0, ""))
        self.copy(lambda text: text.replace("ProtectSystem=", "ProtectSistem="))
        self.assertIn("ProtectSistem", self.verify()[1])

    def test_systemd_accepts_what_their_comments_recommend(self):
        def use_comments(text):
            return text + "[Service]\n" + "".join(re.findall(r"^#   (\w+=.*\n)", text, re.M)) if "[Service]" in text else text
        self.copy(use_comments)
        self.assertGreater(pathlib.Path(self.folder, SERVICE).read_text().count("ExecStart="), 4)
        # Of several the last one counts, for each was made empty first.
        self.assertEqual(self.verify(), (0, ""))

    def test_they_are_installed_for_the_prefix(self):
        done = subprocess.run([need("meson"), "introspect", "--installed", "--buildoptions", "--force-object-output", BUILD],
                              capture_output=True, text=True, check=True, timeout=120)
        said = json.loads(done.stdout)
        prefix = next(option["value"] for option in said["buildoptions"] if option["name"] == "prefix")
        places = {os.path.basename(target): (made, target) for made, target in said["installed"].items()}
        for name in (SERVICE, SOCKET):
            self.assertEqual(places[name][1], f"{prefix}/lib/systemd/system/{name}")
        service = pathlib.Path(places[SERVICE][0]).read_text()
        self.assertIn(f"\nExecStart={prefix}/bin/heapctl serve\n", service)
        drop_in = pathlib.Path(places[DROP_IN][0]).read_text()
        preloaded = re.search(r"^Environment=LD_PRELOAD=(.*)$", drop_in, re.M)[1]
        self.assertIn(os.path.dirname(preloaded), {os.path.dirname(target) for target in said["installed"].values()})
        self.assertTrue(any(target.startswith(preloaded) for target in said["installed"].values()), preloaded)
        self.assertNotRegex(service + drop_in, r"@\w+dir@")

    def test_systemd_accepts_the_drop_in(self):
        pathlib.Path(self.folder, "own.service").write_text("[Service]\nExecStart=/bin/sleep 1\n")
        folder = pathlib.Path(self.folder, "own.service.d")
        folder.mkdir()
        (folder / "heapctl.conf").write_text(re.sub("^#(?=Env)", "", (CONTRIB / f"systemd/{DROP_IN}.in").read_text(), flags=re.M))
        self.assertEqual(self.analyze("verify", "--man=no", "./own.service"), (0, ""))

    def test_it_is_sandboxed_as_far_as_its_work_allows(self):
        self.copy()
        code, said = self.analyze("security", "--offline=true", "--threshold=30", f"./{SERVICE}")
        if "unrecognized option" in said:
            self.skipTest("systemd-analyze is too old to judge a file")
        self.assertEqual(code, 0, said)


class Sockets(GatewayCase):
    def setUp(self):
        super().setUp()
        self.process, _ = self.start_redis()
        self.wait_for_agent(self.process.pid)

    def hand_over(self, listener, *arguments, **options):
        def as_third():
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
        return self.start("bash", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "bash", HEAPCTL, "serve", *arguments,
                          str(self.process.pid), preexec_fn=as_third, close_fds=False, **options)

    def test_a_port(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            self.hand_over(listener, wait_for=self.is_serving)
        self.expect(self.get("/targets"), 200)

    def test_the_first_request_starts_it(self):
        self.port = free_port()
        activator = self.start(need("systemd-socket-activate"), "-l", f"127.0.0.1:{self.port}", "-E", f"HEAPCTL_DIR={self.agents}",
                               HEAPCTL, "serve", self.process.pid)
        program = lambda: os.readlink(f"/proc/{activator.pid}/exe")
        tcp = lambda: f":{self.port:04X} 00000000:0000 0A" in pathlib.Path("/proc/net/tcp").read_text()
        wait_until(tcp, "the port to be open")
        self.assertNotEqual(program(), os.path.realpath(HEAPCTL))
        # Waits in the backlog meanwhile.
        self.assertEqual(self.expect(self.get("/v1/status"), 200).json["pid"], self.process.pid)
        self.assertEqual(program(), os.path.realpath(HEAPCTL) + "-net")

    def test_a_path_that_stays_systemds(self):
        path = os.path.join(self.folder, "gateway.sock")
        activator = self.start(need("systemd-socket-activate"), "-l", path, "-E", f"HEAPCTL_DIR={self.agents}",
                               HEAPCTL, "serve", self.process.pid, wait_for=lambda: listens(path), umask=0o077)
        os.chmod(path, 0o600)
        self.expect(self.ask_unix(path, "/targets"), 200)
        self.end(activator)
        self.assertTrue(os.path.exists(path))

    def test_a_path_that_is_open_to_all_needs_a_token(self):
        path = os.path.join(self.folder, "gateway.sock")
        token = os.path.join(self.folder, "token")
        pathlib.Path(token).write_text("correct-horse-battery\n")
        os.chmod(token, 0o600)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(16)
            os.chmod(path, 0o666)
            refused = self.hand_over(listener, stderr=subprocess.PIPE)
            self.assertIn(b"SocketMode=0600", refused.communicate(timeout=60)[1])
            self.assertEqual(refused.returncode, 1)
            self.hand_over(listener, "--token-file", token)
            self.expect(self.ask_unix(path, "/targets"), 401)
            self.expect(self.ask_unix(path, "/targets", headers={"Authorization": "Bearer correct-horse-battery"}), 200)


if __name__ == "__main__":
    unittest.main()
