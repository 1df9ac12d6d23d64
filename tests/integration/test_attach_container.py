#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes that see other files than heapctl does: containers, other roots, and after an upgrade."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import unittest

from agent_host import PROGRAMS, only_root
from processes import AGENT, HEAPCTL, agent_thread, children_of, need, need_namespace, wait_until
from test_attach import AttachCase

COMMAND = os.path.realpath(HEAPCTL)


def copies_of_agent(pid):
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if " r-xp " in line and "libheapctl" in line]


def descriptors_of(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            pass


class ContainerCase(AttachCase):
    def make_root(self):
        """A root of its own with the program, its libraries, and the folders that a mount needs."""
        root = os.path.join(self.folder, "root")
        for folder in ("proc", "dev", "tmp", "run"):
            os.makedirs(os.path.join(root, folder))
        listed = subprocess.run(["ldd", PROGRAMS / "attached"], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", listed):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        for program in ("attached", "attached_places"):
            shutil.copy(PROGRAMS / program, root)
        return root

    def start_contained(self, *namespaces, mounts=(), program="attached 1", user=()):
        """Starts the program in its own namespaces and root; returns the process and its pid."""
        need_namespace("--mount")
        root = self.make_root()
        steps = [f"mount --bind {root} {root}", *(step.format(root=root) for step in mounts), f"exec chroot {root} /{program}"]
        outer = self.start_ready(*user, "unshare", "--mount", "--pid", "--net", *namespaces, "--fork", "--kill-child", "sh", "-c", " && ".join(steps))
        return outer, wait_until(lambda: children_of(outer.pid), "the first process of the namespace")[0]

    def assert_attaches(self, outer, pid):
        for _ in range(3):
            self.attach(pid, "--interval", "4KiB")
            wait_until(lambda: self.status(pid)["sampler"]["samples"] > 0, "samples")
            self.detach(pid)
        self.assertEqual(len(copies_of_agent(pid)), 1)
        self.assertEqual([link for link in descriptors_of(pid) if "heapctl" in link], [])
        self.assert_unharmed(outer)

    def assert_refused(self, outer, pid, expected):
        said = self.attach(pid, code=1)[1]
        if outer.poll() is not None:
            self.fail(f"the program has ended with {outer.returncode}: {outer.stdout.read()} {said}")
        self.assertRegex(said, expected)
        self.assertIsNone(agent_thread(pid))
        self.assert_unharmed(outer)


@only_root
class Container(ContainerCase):
    def test_of_other_files_processes_and_network(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc",))
        self.assert_attaches(outer, pid)

    def test_of_other_users(self):
        need_namespace("--user")
        outer, pid = self.start_contained("--user", "--map-root-user", mounts=("mount -t proc proc {root}/proc",))
        self.assert_attaches(outer, pid)

    def test_that_does_not_know_root(self):
        need_namespace("--user")
        outer, pid = self.start_contained("--user", "--map-root-user", mounts=(
            "mount -t proc proc {root}/proc", "mount -t tmpfs tmpfs {root}/dev", "mkdir -m 1777 {root}/dev/shm"),
                                          user=["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"])
        self.assert_attaches(outer, pid)

    def test_whose_root_is_read_only(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc", "mount -t tmpfs tmpfs {root}/dev",
                                                  "mkdir -m 1777 {root}/dev/shm", "mount -o remount,bind,ro {root}"))
        self.assert_attaches(outer, pid)

    def test_where_nothing_can_be_written(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc", "mount -o remount,bind,ro {root}"))
        self.assert_refused(outer, pid, r"Read-only file system.*\(mount a tmpfs at its /dev/shm, or name a folder")

    def test_without_proc(self):
        outer, pid = self.start_contained()
        self.assertEqual(copies_of_agent(pid), [])
        advice = f"mount /proc in its root, or libheapctl.so's folder at the same path, then heapctl attach {pid}"
        for verb in ("status", "record"):
            self.assertIn(f"has no agent ({advice})", self.heapctl(verb, pid, code=1)[1])
        out, _ = self.heapctl("doctor", pid, "--json", code=1)
        found = {finding["code"]: finding for finding in json.loads(out)["findings"]}
        self.assertEqual(found["no-agent"]["hint"], advice)
        self.assertRegex(found["cannot-attach"]["message"], r"sees neither \S+ nor /proc in its root")
        self.assertRegex(" ".join(self.heapctl("status", pid, code=1)[0].split()), "attach would refuse: it sees neither")
        self.assert_refused(outer, pid, r"sees neither \S+ nor /proc in its root.*\(mount /proc there")

    def test_without_descriptors(self):
        outer, pid = self.start_contained(mounts=("mount -t proc proc {root}/proc",), program="attached_places waiting")
        _, limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, limit))
        self.assert_refused(outer, pid, r"leaves its agent no descriptors: its limit of open files \(RLIMIT_NOFILE\) is 1")


class Upgrade(AttachCase):
    """The library is replaced while a process has it."""

    def install(self, folder, old=None, new=None):
        """heapctl and its library; the latter with other bytes."""
        os.makedirs(folder, exist_ok=True)
        command, library = (os.path.join(folder, name) for name in ("heapctl", "libheapctl.so"))
        for path, source in ((command, COMMAND), (library, AGENT)):
            if os.path.exists(path):
                os.unlink(path)
            content = pathlib.Path(source).read_bytes()
            if old is not None and source == AGENT:
                self.assertIn(old, content)
                content = content.replace(old, new)
            pathlib.Path(path).write_bytes(content)
            os.chmod(path, 0o755)
        return command

    def run_command(self, command, *arguments):
        result = subprocess.run([command, *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_attaches_the_new_one(self):
        process = self.start_python()
        folder = os.path.join(self.folder, "installed")
        command = self.install(folder)
        for _ in range(2):
            self.run_command(command, "attach", process.pid)
            self.run_command(command, "detach", process.pid)
        self.assertEqual(len(copies_of_agent(process.pid)), 1)
        # A text of the agent, replaced by one of the same length.
        self.install(folder, b"the agent has ended", b"the agent was ended")
        for _ in range(2):
            self.run_command(command, "attach", process.pid)
            self.assertTrue(json.loads(self.run_command(command, "status", process.pid, "--json"))["sampler"]["installed"])
            self.run_command(command, "detach", process.pid)
        self.assertEqual(len(copies_of_agent(process.pid)), 2)

    @only_root
    def test_a_library_that_its_user_cannot_read(self):
        folder = os.path.join(self.folder, "closed")
        command = self.install(folder)
        os.chmod(folder, 0o700)
        process = self.start("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", need("sleep"), "1000", env={"XDG_RUNTIME_DIR": ""})
        wait_until(lambda: os.stat(f"/proc/{process.pid}").st_uid == 65534 and "sleep" in os.readlink(f"/proc/{process.pid}/exe"), "the program")
        del self.environment["HEAPCTL_DIR"]
        self.run_command(command, "attach", process.pid)
        self.assertIn("memfd:", copies_of_agent(process.pid)[0])
        self.run_command(command, "detach", process.pid)


if __name__ == "__main__":
    unittest.main()
