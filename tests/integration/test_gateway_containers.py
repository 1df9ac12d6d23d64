#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gateways as contrib/kubernetes runs them, in namespaces in place of containers: one of a node, with the capabilities of its manifest, and one
beside a server in its pod."""
import contextlib
import os
import pathlib
import re
import shlex
import signal
import unittest

from agent_host import SANITIZED, only_root
from gateway import GatewayCase
from processes import AGENT, HEAPCTL, children_of, free_port, need, need_namespace, own_name, wait_until

KUBERNETES = pathlib.Path(__file__).resolve().parents[2] / "contrib/kubernetes"
USER = "65532"
TOKEN = "correct-horse-battery"
# A container's process has no more rights than its securityContext gives.
LEAST = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]


def manifest_list(path, key):
    """A list in flow style of a manifest."""
    return re.search(rf"\b{key}: \[(.*)\]", (KUBERNETES / path).read_text()).group(1).split(", ")


@only_root
@unittest.skipIf(SANITIZED, "a sanitizer's allocator and jemalloc exclude each other")
class ContainerCase(GatewayCase):
    def setUp(self):
        super().setUp()
        need_namespace("--pid")
        self.name = own_name("pod")
        # Each pod has its own files there, the server's image and a volume in memory, which nothing else sees.
        self.image, self.volume = (os.path.join(self.folder, name) for name in ("image", "volume"))
        for folder in (self.image, self.volume):
            os.mkdir(folder)
        self.token = os.path.join(self.folder, "token")
        pathlib.Path(self.token).write_text(TOKEN + "\n")
        os.chmod(self.token, 0o600)
        os.chown(self.token, int(USER), int(USER))

    def server_command(self):
        """A Redis of that image, as the manifests preload the agent."""
        settings = {"LD_PRELOAD": AGENT, "MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:12", "HEAPCTL_DIR": f"{self.volume}/sockets"}
        return ["env", *(f"{key}={value}" for key, value in settings.items()), f"{self.image}/{self.name}", "--port", "0", "--unixsocket", f"{self.image}/socket", "--save", "", "--dir", self.image]

    def start_pod(self, *namespaces, first=(), user=LEAST, beside=""):
        """Returns the pid of the server."""
        steps = [f"mount -t tmpfs -o mode=1777 tmpfs {self.volume}", f"mount -t tmpfs -o mode=1777 tmpfs {self.image}",
                 f"cp {need('redis-server')} {self.image}/{self.name}", *([beside] if beside else []),
                 f"exec {shlex.join([*user, *self.server_command()])}"]
        outer = self.start(*first, "unshare", "--mount", "--pid", "--ipc", "--uts", *namespaces, "--fork", "--kill-child", "--mount-proc",
                           "sh", "-c", " && ".join(steps))
        pid = wait_until(lambda: next((pid for pid in children_of(outer.pid) if self.comm(pid) == self.name[:15]), None), "the server of the pod")
        # unshare waits for its child, and lets SIGTERM wait as well.
        self.addCleanup(self.end_pod, pid)
        wait_until(lambda: "profiling" in self.heapctl("status", pid, code=None)[0], lambda: self.heapctl("status", pid, code=None))
        return pid

    @staticmethod
    def end_pod(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    @staticmethod
    def comm(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            return ""

    def start_gateway_with(self, *command, folder):
        """heapctl serve as the manifests run it; `command` is what it is started by."""
        self.port = free_port()
        return self.start(*command, HEAPCTL, "serve", "--listen", f"127.0.0.1:{self.port}", "--token-file", self.token,
                          env={"HEAPCTL_DIR": folder, "XDG_CACHE_HOME": "/var/tmp/cache", "TMPDIR": "/var/tmp"}, wait_for=self.is_serving)

    def ask(self, path, method="GET", headers=None, *options, **more):
        return super().ask(path, method, {"Authorization": f"Bearer {TOKEN}", **(headers or {})}, *options, **more)

    def entry(self, pid):
        return next((target for target in self.get("/targets").json["targets"] if target["pid"] == pid), None)

    def assert_profiles(self, pid):
        """The gateway sees the server, controls it, and knows its functions by the files that the server alone sees."""
        entry = self.entry(pid) or {}
        self.assertTrue(entry.get("reachable"), entry)
        self.assertEqual((entry["name"], entry["profiling"]["active"]), (self.name, True))
        self.assertGreater(entry["rss"], 0)
        self.assertFalse(os.path.exists(f"{self.image}/{self.name}"))
        self.assertEqual(self.expect(self.get(f"/targets/{pid}/debug/pprof/heap"), 200).body[:2], b"\x1f\x8b")
        self.assertIn("initServer", self.expect(self.get(f"/targets/{pid}/api/v1/profile?format=collapsed"), 200).text)
        self.assertIn("Rss:", self.expect(self.get(f"/targets/{pid}/api/v1/kernel?part=smaps"), 200).text)
        self.expect(self.post(f"/targets/{pid}/v1/deactivate"), 200)
        self.assertFalse(self.get(f"/targets/{pid}/v1/status").json["profiling"]["active"])


class Node(ContainerCase):
    """The DaemonSet: root without the rights of root, in the node's process namespace, with a file system of its own that is read-only."""

    def start_node_gateway(self, *without):
        added = [name for name in manifest_list("gateway/daemonset.yaml", "add") if name not in without]
        self.assertEqual(manifest_list("gateway/daemonset.yaml", "drop"), ["ALL"])
        rights = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
        steps = ["mount -t tmpfs tmpfs /var/tmp", "mount -o remount,bind,ro /",
                 shlex.join(["exec", "setpriv", "--no-new-privs", f"--bounding-set={rights}", "--inh-caps=-all"]) + ' "$@"']
        os.chown(self.token, 0, 0)
        gateway = self.start_gateway_with("unshare", "--mount", "sh", "-c", " && ".join(steps), "sh", folder=os.path.join(self.folder, "none"))
        self.assertEqual(len(added), int(re.search(r"CapEff:\t(\w+)", pathlib.Path(f"/proc/{gateway.pid}/status").read_text()).group(1), 16).bit_count())
        return gateway

    def test_of_other_files_processes_and_network(self):
        pid = self.start_pod("--net")
        self.start_node_gateway()
        self.assert_profiles(pid)

    def test_of_other_users(self):
        """As of pods with hostUsers: false."""
        need_namespace("--user")
        pid = self.start_pod("--net", "--user", "--map-root-user", first=["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"], user=[])
        self.start_node_gateway()
        self.assert_profiles(pid)

    def test_each_capability_is_needed(self):
        need_namespace("--user")
        pid = self.start_pod("--net", "--user", "--map-root-user", first=["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"], user=[])
        for name in manifest_list("gateway/daemonset.yaml", "add"):
            with self.subTest(name):
                gateway = self.start_node_gateway(name)
                self.assertEqual(self.comm(pid), self.name[:15])
                with self.assertRaises(AssertionError):
                    self.assert_profiles(pid)
                self.end(gateway)


class Sidecar(ContainerCase):
    """A gateway in the pod of its server: the same user, process namespace and volume, other files, and no capability."""

    def test_beside_its_server(self):
        self.assertIn("shareProcessNamespace: true", (KUBERNETES / "sidecar/sidecar.yaml").read_text())
        self.port = free_port()
        gateway = [*LEAST, "env", f"HEAPCTL_DIR={self.volume}/sockets", "TMPDIR=/var/tmp", "XDG_CACHE_HOME=/var/tmp", HEAPCTL, "serve", "--listen",
                   f"127.0.0.1:{self.port}", "--token-file", self.token]
        hides = f"umount {self.image} && mount -t tmpfs -o mode=1777 tmpfs /var/tmp && exec {shlex.join(map(str, gateway))}"
        pid = self.start_pod(beside=f"{{ unshare --mount sh -c {shlex.quote(hides)} & }}")
        wait_until(self.is_serving, "the gateway")
        # The server is the first process of the pod.
        targets = wait_until(lambda: [target for target in self.get("/targets").json["targets"] if target["reachable"]], "the target")
        self.assertEqual([(target["pid"], target["name"]) for target in targets], [(1, self.name)])
        self.assertEqual(re.search(r"CapEff:\t(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1), "0" * 16)
        self.assert_profiles(1)


if __name__ == "__main__":
    unittest.main()
