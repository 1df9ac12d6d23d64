# SPDX-License-Identifier: Apache-2.0
"""Control groups that tests make for one process."""
import os
import pathlib

from processes import wait_until

SECOND = pathlib.Path("/sys/fs/cgroup")


class ControlGroup:
    """Skips the test where it cannot be made. `folder`, where its files are; `is_second`, of version 2, which names them in another way."""

    def __init__(self, test, controller, mount=None):
        first = SECOND / controller
        mount = mount or (SECOND if (SECOND / "cgroup.controllers").exists() else first)
        self.is_second = mount != first
        self.folder = mount / f"heapctl-test-{os.getpid()}-{controller}"
        self.test, self.pids = test, []
        try:
            if self.is_second and controller != "freezer":
                (mount / "cgroup.subtree_control").write_text(f"+{controller}")
            self.folder.mkdir()
        except OSError as error:
            test.skipTest(f"no control group can be made here: {error}")
        test.addCleanup(self.remove)

    def write(self, name, value):
        (self.folder / name).write_text(str(value))

    def read(self, name):
        return (self.folder / name).read_text()

    def add(self, pid):
        self.write("cgroup.procs", pid)
        self.pids.append(pid)

    def freeze(self):
        self.write(*(("cgroup.freeze", "1") if self.is_second else ("freezer.state", "FROZEN")))
        state = "cgroup.events" if self.is_second else "freezer.state"
        wait_until(lambda: "FROZEN" in self.read(state) or "frozen 1" in self.read(state), "the freezer")

    def thaw(self):
        self.write(*(("cgroup.freeze", "0") if self.is_second else ("freezer.state", "THAWED")))

    def remove(self):
        for pid in self.pids:
            try:
                (self.folder.parent / "cgroup.procs").write_text(str(pid))
            except OSError:  # it has ended
                pass
        wait_until(lambda: self.read("cgroup.procs") == "", "the processes of the group")
        self.folder.rmdir()
