#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that README, docs, examples, the manual and --help show: each is run as it is written."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import documented_commands
from processes import BUILD, HEAPCTL, SANITIZED, Case, need, need_namespace

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SUPPORT = SOURCE / "tests/support"
# What is not run, and why. Each has to be in a document still.
NOT_RUN = {
    "make demo": "scripts/demo is run by the tests of the command itself; it needs the sources and a minute",
    "make test": "runs this test",
    "apt-get install -y trafficserver trafficserver-dev libjemalloc2 && make && make install && ldconfig": "needs the network",
    "systemctl daemon-reload && systemctl restart trafficserver && grep memory_profile /var/log/trafficserver/diags.log":
        "needs systemd; test_trafficserver.py starts Traffic Server in the same way",
    "traffic_ctl plugin msg memory_profile dump": "needs a running Traffic Server: test_trafficserver.py",
    "heapctl watch api --activate --when 'cgroup>85%' --keep /var/lib/heaps": "needs a control group with a memory limit: test_watch.py",
    "heapctl runs redis-server --save 1763716881123 -o run.heap": "a run's id is the moment of its start: test_cli_control.py",
}


WRONG = ["heapctl nonsense", "heapctl record nothing --duration 30s", "heapctl serve --listen :99999", "false | true; exit 3"]


def without_comment(text):
    return text.partition("   #")[0].strip()


def all_commands():
    return [*documented_commands.of_documents(SOURCE), *documented_commands.of_help(HEAPCTL)]


class Commands(Case):
    def test_each_is_run_as_it_is_written(self):
        if SANITIZED:
            self.skipTest("a sanitizer's allocator and jemalloc exclude each other")
        for program in ("redis-server", "redis-cli", "jq", "curl", "openssl", "meson", "ip", "ss"):
            need(program)
        need_namespace("--mount")
        wanted = [command._asdict() for command in all_commands() if without_comment(command.text) not in NOT_RUN]
        self.assertGreater(len(wanted), 60)
        wrong = [{"block": "wrong", "text": text, "is_example": False} for text in WRONG]
        with open(os.path.join(self.folder, "said"), "w+") as said:
            result = subprocess.run([need("unshare"), "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child", sys.executable,
                                     SUPPORT / "command_sandbox.py", BUILD, SOURCE, self.folder], input=json.dumps(wanted + wrong),
                                    stdout=subprocess.PIPE, stderr=said, text=True, timeout=500)
            said.seek(0)
            self.assertEqual(result.returncode, 0, said.read())
        done = json.loads(result.stdout)
        # What must fail does, or this test would see nothing.
        wrong = [command for command in done if command["block"] == "wrong"]
        self.assertEqual([command["text"] for command in wrong if command["problem"]], WRONG)
        done = done[:-len(WRONG)]
        self.assertEqual([command["text"] for command in done], [command["text"] for command in wanted])
        wrong = [f"{command['block']}: {command['text']}\n{command['problem']}" for command in done if command["problem"]]
        self.assertEqual(wrong, [], "\n\n".join(wrong))

    def test_what_is_not_run_is_still_there(self):
        self.assertEqual(sorted(set(NOT_RUN) - {without_comment(command.text) for command in all_commands()}), [])

    def test_the_manual_has_the_examples_of_the_help(self):
        page = subprocess.run([HEAPCTL, "man"], check=True, capture_output=True, text=True).stdout
        page = page.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\").replace("\\(ha", "^")
        missing = [command.text for command in documented_commands.of_help(HEAPCTL) if command.text not in page]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
