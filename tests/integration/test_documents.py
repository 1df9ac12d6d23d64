#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that README, docs, examples, the manual and --help show: each is run as it is written."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import documented_commands
from processes import AGENT, BUILD, HEAPCTL, SANITIZED, Case, ask, need, need_namespace

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SUPPORT = SOURCE / "tests/support"
# What is not run, and why. Each has to be in a document still.
NOT_RUN = {
    "make demo": "scripts/demo is run by the tests of the command itself; it needs the sources and a minute",
    "make test": "runs this test",
    "make coverage": "runs this test, and builds another tree",
    "make coverage COVERAGE_SECONDS=7200": "runs this test, and builds another tree",
    "make coverage TEST='sampler heap_v2'": "builds another tree",
    "make soak SOAK_TEST='trend watch' SOAK_REPEAT=20 SOAK_PHASES='idle busy'": "repeats the tests for hours",
    "make soak SOAK_TEST=agent_process SOAK_CASE='*descriptors*' SOAK_REPEAT=200 SOAK_PHASES=idle": "repeats a test 200 times",
    "make soak SOAK_SECONDS=3600": "takes hours",
    "make soak SOAK_PHASES=root": "takes minutes, and makes a bare root from the network",
    "make soak SOAK_PHASES=attach SOAK_CYCLES=100": "takes minutes",
    "BENCH_CYCLES=20 BENCH_ROUNDS=6 make bench TARGET=attach": "takes minutes on an idle machine",
    "FLEET_HOSTS=0 FLEET_TARGETS=0 FLEET_SEEDS=100 FLEET_FIRST_SEED=2000 make bench TARGET=fleet": "fills 100 databases",
    "BENCH_CYCLES=371 BENCH_ROUNDS=0 make bench TARGET=attach": "attaches 10,000 times",
    "BENCH_ONLY=musl,static BENCH_CYCLES=371 BENCH_ROUNDS=0 make bench TARGET=attach": "attaches 4,452 times",
    "SAMPLER_RESTARTS=50 make check TEST=sampler CASE='Restarts*'": "starts 400 programs",
    "heapctl report --interactive server.heap": "a shell waits for lines: test_report.py",
    "heapctl report --churn server.heap": "needs a profile whose samples heapctl took: test_sampler.py",
    "apt-get install -y trafficserver trafficserver-dev libjemalloc2 && make && make install && ldconfig": "needs the network",
    "systemctl daemon-reload && systemctl restart trafficserver && grep memory_profile /var/log/trafficserver/diags.log":
        "needs systemd; test_trafficserver.py starts Traffic Server in the same way",
    "traffic_ctl plugin msg memory_profile dump": "needs a running Traffic Server: test_trafficserver.py",
    **dict.fromkeys(("heapctl attach 4711", "heapctl detach 4711", "heapctl record 4711 --attach -d 30s"),
                    "the server of these commands has its agent from the start: test_attach.py"),
    "heapctl watch api --activate --when 'cgroup>85%' --keep /var/lib/heaps": "needs a control group with a memory limit: test_watch.py",
    **dict.fromkeys(("sudo apt-get install -y clickhouse-server", "sudo systemctl start clickhouse-server",
                     "heapctl fleet schema --store clickhouse://127.0.0.1/heap --apply",
                     "redis-benchmark -q -n 100000 -r 100000 -t set,lpush",
                     "heapctl send redis-server --to clickhouse://127.0.0.1/heap --version 7.0",
                     "heapctl fleet hosts --store clickhouse://127.0.0.1/heap",
                     "heapctl fleet top --store clickhouse://127.0.0.1/heap",
                     "heapctl fleet flame --store clickhouse://127.0.0.1/heap -o fleet.html",
                     "heapctl fleet top --store clickhouse://heap@db/heap",
                     "heapctl fleet diff --store clickhouse://heap@db/heap --service api --ago 7days",
                     "heapctl fleet growth --store clickhouse://heap@db/heap --since 7days",
                     "heapctl fleet versions --store clickhouse://heap@db/heap --service api",
                     "heapctl fleet outliers --store clickhouse://heap@db/heap --service api",
                     "heapctl fleet symbolize --store clickhouse://heap@db/heap --password-file db.password /srv/builds",
                     "heapctl fleet symbolize --store clickhouse://heap@db/heap /srv/builds",
                     "heapctl fleet schema --store clickhouse://heap@db/heap --password-file db.password --cluster fleet --apply",
                     "heapctl fleet flame --store clickhouse://heap@db/heap --service api -o api.html",
                     "heapctl fleet schema --store clickhouse://heap@db/heap --password-file db.password",
                     "heapctl fleet schema --store clickhouse://heap@db/heap --password-file db.password --apply --keep 90days",
                     "heapctl send redis-server --to clickhouse://heap@db/heap --password-file db.password --version 7.2",
                     "heapctl send redis-server --to clickhouse://heap@db/heap --password-file db.password",
                     "heapctl serve --history /var/lib/heapctl/history --send clickhouse://heap@db/heap --password-file db.password --label zone=b",
                     "heapctl send redis-server --to pyroscope://pyroscope:4040 --version 7.2 --label zone=b",
                     "heapctl send redis-server --to otel-pprof://collector:4041 --password-file collector.token",
                     "heapctl serve --history /var/lib/heapctl/history --send pyroscopes://tenant@profiles.example.com --password-file pyroscope.token",
                     "heapctl send /var/lib/heaps --follow --to clickhouse://heap@db/heap --password-file db.password",
                     "heapctl send /var/lib/heapctl/history --to clickhouses://heap@db/heap --password-file db.password"),
                    "needs a ClickHouse: test_fleet.py, test_fleet_cluster.py, test_fleet_serve.py, test_fleet_push.py"),
    **dict.fromkeys(('heapctl note redis-server "v7.3 rollout"', 'heapctl note redis-server "cache doubled" --at 2hrs', "heapctl note redis-server --list",
                     'heapctl note --history /var/lib/heapctl/history redis-server "v7.3 rollout"'), "needs a gateway with a history: test_cli_note.py"),
    **dict.fromkeys(("heapctl symbols index --folder symbols /usr/bin/redis-server", "heapctl symbols index /usr/bin/redis-server",
                     "heapctl symbols index --folder /srv/symbols /usr/lib/debug/.build-id/*/*.debug"), "needs debug files: test_symbol_index.py"),
    **dict.fromkeys(("source <(heapctl completion zsh)", "heapctl completion fish | source"), "for zsh and fish: test_cli_help.py"),
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
        # Commands that must fail do fail, or this test would find nothing.
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


def text_of(path):
    return (SOURCE / path).read_text()


def section(text, title):
    """The text under a heading, up to the next heading of its level."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", text, re.M | re.S)
    assert found, title
    return found[2]


def first_column(text):
    """The words in code of the first cells of a table."""
    return {word for cell in re.findall(r"^\| ([^|]*?) +\|", text, re.M) for word in re.findall(r"`([^`]+)`", cell)}


def keys_in(text):
    return set(re.findall(r'"(\w+)":', text))


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


class Names(Case):
    """What the code reads, answers and prints, and what the documents say of it: both ways."""

    def sources(self, *patterns):
        found = {pattern: sorted(SOURCE.glob(pattern)) for pattern in patterns}
        self.assertEqual([pattern for pattern, paths in found.items() if not paths], [], "no such file")
        return "\n".join(path.read_text() for paths in found.values() for path in paths)

    def test_codes_of_warnings_and_findings(self):
        warnings = set(re.findall(r'warn\(report,\s*"([a-z0-9-]+)"', text_of("src/allocator/warnings.c")))
        warnings |= set(re.findall(r'write_own_warning\(\s*json,\s*"([a-z0-9-]+)"', text_of("src/agent/core_status.c")))
        self.assertGreater(len(warnings), 17)
        findings = set(re.findall(r'diagnosis_add\(\s*[^"(]*?FINDING_\w+[^"]{0,60}?"([a-z0-9-]+)"', self.sources("src/client/doctor*.c")))
        # Those that a function chooses.
        findings |= set(re.findall(r'return [^;]*? \? "([a-z]+-[a-z]+)" : "[a-z]+-[a-z]+";', self.sources("src/client/doctor.c")))
        findings |= set(re.findall(r'return [^;]*? \? "[a-z]+-[a-z]+" : "([a-z]+-[a-z]+)";', self.sources("src/client/doctor.c")))
        findings |= set(re.findall(r'diagnosis_add\(\s*[^"(]*?FINDING_\w+[^"]{0,60}?"([a-z0-9-]+)"', self.sources("src/cli/doctor.c", "src/cli/attachment.c")))
        self.assertGreater(len(findings), 35)
        page = text_of("docs/warnings.md")
        self.assertEqual(first_column(section(page, "Warnings")), warnings, "docs/warnings.md")
        self.assertEqual(first_column(section(page, "Findings of the doctor")), findings - warnings, "docs/warnings.md")

    def test_variables_of_the_environment(self):
        named = re.findall(r'"(HEAPCTL_[A-Z_]+)[="]', self.sources("src/**/*.c", "src/**/*.h", "plugins/**/*.c"))
        constants = set(re.findall(r"\bHEAPCTL_[A-Z_]+\b", re.sub(r"/\*.*?\*/", "", text_of("include/heapctl.h"), flags=re.S)))
        read = set(named) - constants
        self.assertGreaterEqual(read, {"HEAPCTL_DIR", "HEAPCTL_KEEP", "HEAPCTL_TOKEN"})
        manual = subprocess.run([HEAPCTL, "man"], check=True, capture_output=True, text=True).stdout.replace("\\-", "-")
        documents = manual + self.sources("README.md", "docs/*.md", "docs/*.3", "docs/man3/*.3")
        said = set(re.findall(r"\bHEAPCTL_[A-Z_]+\b", re.sub(r"^\.Dt .*", "", documents, flags=re.M))) - constants - {"HEAPCTL_1"}
        self.assertEqual(said, read)
        # The agent's own have one place where all of them are.
        settings = set(re.findall(r'"(HEAPCTL_[A-Z_]+)"', text_of("src/agent/settings.c")))
        table = first_column(section(text_of("docs/agent.md"), "Settings of the agent"))
        self.assertEqual({name.partition("=")[0] for name in table}, settings)

    def test_requests_of_the_agent(self):
        table = re.search(r"\} routes\[\] = \{(.*?)\n\};", text_of("src/agent/routes.c"), re.S)[1]
        answered = {(method, path.replace("*", "NAME" if "mallctl" in path else "ID"))
                    for method, path in re.findall(r'\{ "(\w+)", "([^"]+)"', table)}
        self.assertGreater(len(answered), 12)
        said = set(re.findall(r"`(GET|POST) (/v1/[\w/]+)", section(text_of("docs/protocol.md"), "Paths")))
        self.assertEqual(said, answered)

    def test_keys_of_the_agents_answers(self):
        server, _ = self.start_redis()
        path = self.wait_for_agent(server.pid)
        ask(path, "/v1/profile")
        run = ask(path, "/v1/runs?duration_ms=60000", "POST")[1]
        status = ask(path, "/v1/status")[1]
        page = text_of("docs/protocol.md")
        self.assertEqual(keys_in(section(page, "RUN")), keys_of(run))
        # Where jemalloc does not sample.
        sampled = self.start("/bin/sleep", "600", env={"LD_PRELOAD": AGENT, "HEAPCTL_LABELS": "service=api"})
        of_sampled = ask(self.wait_for_agent(sampled.pid), "/v1/status")[1]
        status |= {name: of_sampled[name] for name in ("sampler", "environment")}
        # Where there is nothing to be warned of.
        answered = keys_of({name: value for name, value in status.items() if name != "run"}) | {"run", "code", "message", "hint", "cure"}
        # Where jemalloc does not sample, heapctl does.
        sampled, _ = self.start_redis(conf="prof:false")
        sampler = ask(self.wait_for_agent(sampled.pid), "/v1/status")[1]["sampler"]
        self.assertGreater(len(sampler), 5)
        answered |= keys_of(sampler)
        self.assertEqual(keys_in(section(page, "Status")), answered)

    def test_keys_of_the_command(self):
        """Against what it prints here; what it prints only elsewhere is in its source."""
        page = text_of("docs/command-json.md")
        server, _ = self.start_redis()
        self.wait_for_agent(server.pid)
        sources = {"heapctl ps": "src/cli/ps.c", "heapctl doctor": "src/cli/doctor.c", "heapctl account": "src/cli/account.c"}
        for title, words in (("heapctl ps", ["ps"]), ("heapctl account", ["account", server.pid]), ("heapctl doctor", ["doctor", server.pid])):
            printed = json.loads(subprocess.run([HEAPCTL, *map(str, words), "--json"], capture_output=True, text=True,
                                                env=self.environment).stdout)
            shown = {key for entry in printed for key in entry} if isinstance(printed, list) else keys_of(printed)
            said = keys_in(section(page, title))
            self.assertLessEqual(shown, said, title)
            code = text_of(sources[title]) + text_of("src/cli/unattached_process.c")
            self.assertEqual([key for key in said - shown if f'"{key}"' not in code], [], title)
        written = re.findall(r'json_(?:pack|object_set_new)\([^;]*;', self.sources("src/watch/recorder.c", "src/store/store_repair.c"))
        self.assertEqual(keys_in(section(page, "Captures")), set(re.findall(r'"(\w+)"', " ".join(written))))

    def test_words_arguments_and_metrics_of_the_plugin(self):
        page = text_of("docs/trafficserver.md")
        words = set(re.findall(r'\[MESSAGE_\w+\] = \{ "(\w+)"', text_of("plugins/trafficserver/message.c")))
        self.assertEqual({re.match(r"\w+", word)[0] for word in first_column(section(page, "Messages"))}, words)
        arguments = set(re.findall(r'"(--[\w-]+)=?"', text_of("plugins/trafficserver/arguments.c")))
        self.assertEqual({word.partition("=")[0] for word in first_column(section(page, "Arguments in plugin.config"))}, arguments)
        metrics = set(re.findall(r'PLUGIN_TAG "\.(\w+)"', text_of("plugins/trafficserver/metrics.c")))
        self.assertEqual(set(re.findall(r"`(?:memory_profile)?\.(\w+)`", section(page, "Metrics"))), metrics)

    def options(self):
        """Of each verb, with what it calls a value."""
        table = {}
        for verb in re.findall(r"^  ([a-z]+) +\S", self.heapctl("--help")[0], re.M):
            table[verb] = set(re.findall(r"(?<!\w)--([a-z][a-z_-]*)", self.heapctl(verb, "--help")[0]))
        return table

    def test_options(self):
        table = self.options()
        known = set().union(*table.values()) - {"help"} | {"version"}
        # In commands of a document: of that verb.
        for command in all_commands():
            match = re.match(r"heapctl ([a-z]+) (.*)", command.text.partition(" -- ")[0].partition(" | ")[0].partition("   #")[0])
            if match:
                unknown = set(re.findall(r"(?<!\S)--([a-z][a-z_-]*)", match[2])) - table[match[1]] - {"bucket"}
                self.assertEqual(unknown, set(), command.text)
        # In sentences: of some verb.
        for path in ("README.md", "docs/agent.md", "docs/limits.md", "docs/gateway.md", "docs/watch-file.md", "docs/bundle.md", "docs/report-json.md", "docs/trend-json.md"):
            said = set(re.findall(r"`--([a-z][a-z_-]*)", text_of(path)))
            self.assertEqual(said - known - {"help"}, set(), path)
        # And in the manual.
        manual = self.heapctl("man")[0].replace("\\-", "-")
        self.assertEqual([option for option in known if f"--{option}" not in manual], [])

    def test_paths_of_the_gateway(self):
        """Those that a document names exist, the gateway's own page has all of them, and /openapi.json is made of the same table."""
        table = text_of("src/gateway/routes.c")
        patterns = set(re.findall(r'\.pattern = "([^"]+)"', table))
        patterns = {pattern for pattern in patterns if not pattern.endswith("/")} | {"/", "/debug/pprof/"}
        patterns |= {prefix + name for name in re.findall(r'DOWNLOAD\("(\w+)"', table)
                     for prefix in ("/memory-profiler/download/", "/download/")}
        self.assertGreater(len(patterns), 50)
        documents = re.sub(r"^## All paths\n.*?(?=^## )", "", self.sources("README.md", "docs/*.md"), flags=re.M | re.S)
        said = {re.sub(r"^/targets/NAME(?=/)", "", path.partition("?")[0])
                for path in re.findall(r"`(/(?:api|targets|pprof|debug|mtev|metrics|openapi|watch)[\w./{}-]*)", documents)}
        self.assertEqual(said - patterns - {"/targets/redis-server", "/targets/NAME", "/targets/NAME/", "/api/v1/..."}, set())
        page = section(text_of("docs/gateway.md"), "All paths")
        self.assertEqual(first_column(page), {pattern for pattern in patterns if not pattern.startswith("/v1/")}, "docs/gateway.md")
        # It passes on the agent's answers.
        handed = {("GET" if kind == "READ" or kind == "PROFILE" else "POST", re.sub(r"{(\w+)}", lambda match: match[1].upper(), path))
                  for kind, path in re.findall(r'AGENT_(\w+),(?:[^{}]*?)\.pattern = "([^"]+)"', table)}
        said = set(re.findall(r"`(GET|POST) (/v1/[\w/]+)", section(text_of("docs/protocol.md"), "Paths")))
        self.assertEqual({(method, path) for method, path in handed}, said)

    def test_the_manual_has_what_is_no_verb(self):
        manual = self.heapctl("man")[0].replace("\\-", "-")
        for words in ("heapctl --version", "heapctl help"):
            self.assertIn(words, re.sub(r"\\f[BRI]", "", manual))


if __name__ == "__main__":
    unittest.main()
