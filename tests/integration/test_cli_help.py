# SPDX-License-Identifier: Apache-2.0
"""Help, manual page and completion: made from one table, so they must agree and be well formed."""
import fcntl
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from processes import BUILD, HEAPCTL, SANITIZED, Case, need, wait_until

CONTROL = ["run", "ps", "status", "activate", "deactivate", "dump", "stats", "start", "stop", "runs", "record", "longlived",
           "mallctl", "doctor"]


class Help(Case):
    def verbs(self):
        return re.findall(r"^  ([a-z]+) +\S", self.heapctl("--help")[0], re.M)

    def needed(self, program):
        """The libraries that are loaded whenever the program starts."""
        return subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout

    def test_most_commands_load_no_network_libraries(self):
        for library in ("gnutls", "microhttpd", "sqlite", "curl", "Zydis"):
            self.assertNotIn(library, self.needed(HEAPCTL))
        self.assertNotIn("curl", self.needed(os.path.join(BUILD, "src/cli/heapctl-net")))

    def test_most_commands_load_the_c_library_alone(self):
        """Debian has archives of all other libraries; another Linux may not."""
        if not os.path.exists("/etc/debian_version"):
            self.skipTest("not Debian")
        libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", self.needed(HEAPCTL))
        of_sanitizers = "lib(asan|ubsan|tsan|gcc_s)" if SANITIZED else "$"
        self.assertEqual({library for library in libraries if not re.match(of_sanitizers, library)}, {"libc.so.6", "libm.so.6"})

    def test_a_missing_second_binary_is_reported(self):
        alone = os.path.join(self.folder, "heapctl")
        shutil.copy(HEAPCTL, alone)
        with socket.create_server(("127.0.0.1", 0)) as server:
            done = subprocess.run([alone, "dump", f"https://127.0.0.1:{server.getsockname()[1]}"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"heapctl-net is not beside {alone}", done.stderr)
        done = subprocess.run([alone, "send", "x.heap", "--to", "clickhouse://localhost/heap"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"heapctl-fleet is not beside {alone}", done.stderr)
        pathlib.Path(self.folder, "heapctl-fleet").write_text("no program")
        os.chmod(os.path.join(self.folder, "heapctl-fleet"), 0o755)
        done = subprocess.run([alone, "send", "x.heap", "--to", "clickhouse://localhost/heap"], capture_output=True, text=True)
        self.assertIn(f"starting {self.folder}/heapctl-fleet: Exec format error (install all of heapctl", done.stderr)

    def test_a_url_that_is_not_for_heapctl_needs_no_second_binary(self):
        os.symlink(os.path.join(BUILD, "src/agent"), os.path.join(self.folder, "agent"))
        os.mkdir(os.path.join(self.folder, "bin"))
        alone = shutil.copy(HEAPCTL, os.path.join(self.folder, "bin"))
        run = subprocess.run([alone, "run", "--", need("echo"), "https://localhost/"], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, "https://localhost/\n")

    def test_the_overview_has_every_verb(self):
        self.assertLessEqual(set(CONTROL), set(self.verbs()))
        self.heapctl(code=2)
        for words in (("--version", "x"), ("--help", "dump", "x"), ("help", "dump", "x")):
            self.assertIn("one argument too many", self.heapctl(*words, code=2)[1])
        self.assertIn("unknown verb 'nonsense'", self.heapctl("nonsense", code=2)[1])
        self.assertRegex(self.heapctl("--version")[0], r"^heapctl \d+\.\d+\.\d+( \([0-9a-f]{12,}(-dirty)?\))?\n$")

    def test_every_verb_explains_itself(self):
        for verb in self.verbs():
            out, said = self.heapctl(verb, "--help")
            self.assertTrue(out.startswith(f"usage: heapctl {verb}"), out)
            self.assertEqual(said, "")
            for line in out.splitlines():
                self.assertLessEqual(len(line), 110, f"{verb}: {line}")
            self.assertEqual(self.heapctl("help", verb)[0], out)
            self.assertEqual(self.heapctl(verb, "-h"), (out, ""))

    def test_unknown_options_are_usage_errors(self):
        for verb in CONTROL:
            _, said = self.heapctl(verb, "--nonsense", code=2)
            self.assertTrue(said.startswith(f"heapctl: {verb}: "), said)

    def test_options_refuse_what_is_no_number_of_their_range(self):
        """Each option that takes a number, a time or a size, of each verb."""
        wrong = ["", "-1", "nan", "inf", "0x10", "1e999", "5x", " 5", "99999999999999999999999"]
        kinds = r"(?:N|F|ID|PID|TIME|SIZE|BYTES|SECONDS)"
        tried, taken = 0, []
        for verb in self.verbs():
            for turn, option in enumerate(sorted(set(re.findall(rf"(--[a-z-]+) {kinds}(?=\s)", self.heapctl(verb, "--help")[0])))):
                # Under a sanitizer a third of the values, other ones for the next option and in the next run.
                for value in wrong[(os.getpid() + turn) % 3::3] if SANITIZED else wrong:
                    # gv takes a negative scale.
                    if (option, value) == ("--scale", "-1"):
                        continue
                    done = subprocess.run([HEAPCTL, verb, f"{option}={value}", "nosuch"], env=self.environment,
                                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                    tried += 1
                    if done.returncode != 2 or f"{option}: " not in done.stderr:
                        taken.append((verb, option, value, done.returncode, done.stderr[:200]))
        self.assertEqual(taken, [])
        self.assertGreater(tried, 70 if SANITIZED else 200)

    def test_the_ranges_of_the_call_graph_are_named(self):
        for option, value, limits in (("--nodecount", "-1", "0 to 2147483647"), ("--maxdegree", "-1", "0 to 2147483647"),
                                      ("--nodefraction", "5", "0 to 1"), ("--nodefraction", "-3", "0 to 1"),
                                      ("--edgefraction", "1.01", "0 to 1"), ("--seconds", "0", "1 to 86400")):
            for verb in ("report", "diff"):
                self.assertIn(f"{option}: {value} is outside {limits}",
                              self.heapctl(verb, option, value, "nosuch", code=2)[1])

    def test_a_full_disk_is_no_success(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([HEAPCTL, "--help"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"No space left", result.stderr)

    def test_no_error_is_printed_after_the_reader_has_closed_its_end(self):
        for words in (["--help"], ["diff", "--help"], ["man"]):
            read, write = os.pipe()
            os.close(read)
            with os.fdopen(write, "w") as closed:
                result = subprocess.run([HEAPCTL, *words], stdout=closed, stderr=subprocess.PIPE)
            self.assertEqual((result.returncode, result.stderr), (1, b""), words)


class Manual(Case):
    def test_it_is_well_formed(self):
        page = os.path.join(self.folder, "heapctl.1")
        with open(page, "w") as out:
            out.write(self.heapctl("man")[0])
        result = subprocess.run([need("mandoc"), "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
        self.assertEqual(result.stdout, "")

    def test_the_page_with_the_options_is_named(self):
        for verb, is_named in (("diff", True), ("view", True), ("report", False), ("dump", False)):
            self.assertEqual(".BR heapctl\\-report (1)\n" in self.heapctl("man", verb)[0], is_named, verb)

    def test_it_has_every_verb_and_option(self):
        page = self.heapctl("man")[0].replace("\\-", "-")
        for verb in CONTROL:
            self.assertIn(f".SS heapctl {verb}\n", page)
            for option in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", self.heapctl(verb, "--help")[0], re.M):
                if option != "help":
                    self.assertIn(f"--{option}", page)


    def test_every_verb_has_a_page_of_its_own(self):
        shown = re.findall(r"^  ([a-z]+) +\S", self.heapctl("--help")[0], re.M)
        self.assertEqual(set(CONTROL) - set(shown), set())
        for verb in shown:
            page = self.heapctl("man", verb)[0]
            path = os.path.join(self.folder, f"heapctl-{verb}.1")
            pathlib.Path(path).write_text(page)
            result = subprocess.run([need("mandoc"), "-T", "lint", "-W", "warning", path], capture_output=True, text=True)
            self.assertEqual(result.stdout, "", verb)
            # Those of diff and view are in the page of report.
            options = re.findall(r"^ +(?:-\w, )?--([a-z-]+)", self.heapctl(verb, "--help")[0], re.M)
            self.assertEqual([option for option in options if f"--{option}" not in page.replace("\\-", "-") and verb not in ("diff", "view")], [], verb)
        built = {path.name for path in pathlib.Path(BUILD, "src/cli").glob("heapctl-*.1")}
        self.assertEqual(built, {f"heapctl-{verb}.1" for verb in shown})
        self.assertIn("unknown verb 'x'", self.heapctl("man", "x", code=2)[1])


class EveryOption(Case):
    """Each long option of each verb's help, in each shell's completion."""

    def options(self):
        """{verb: its long options}, as the help has them."""
        verbs = re.findall(r"^  (\S+) ", self.heapctl("--help")[0], re.M)
        return {verb: set(re.findall(r"^(?:  -\w, |      )(--[\w-]+)", self.heapctl(verb, "--help")[0], re.M)) for verb in verbs}

    def check(self, shell, *command, option=r"--[\w-]+"):
        """The command prints a line "VERB:" and what is offered for each of the verbs that follow it."""
        wanted = self.options()
        path = os.path.join(self.folder, "completion")
        pathlib.Path(path).write_text(self.heapctl("completion", shell)[0])
        environment = dict(self.environment, PATH=os.path.dirname(HEAPCTL) + ":" + os.environ["PATH"], HOME=self.folder)
        result = subprocess.run([*command, path, *wanted], capture_output=True, text=True, env=environment, cwd=self.folder, timeout=120)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        offered = {}
        for line in result.stdout.splitlines():
            if line.endswith(":") and line[:-1] in wanted:
                own = offered.setdefault(line[:-1], set())
            elif match := re.search(option, line):
                own.add(match[0])
        self.assertGreater(sum(map(len, wanted.values())), 200)
        for verb, names in wanted.items():
            self.assertEqual(names - offered.get(verb, set()), set(), f"{shell}: heapctl {verb}")

    def test_bash(self):
        self.check("bash", "bash", "-c", 'source "$1"; shift; compopt() { :; }; for verb; do echo "$verb:"; COMP_WORDS=(heapctl "$verb" --); COMP_CWORD=2;'
                   ' COMPREPLY=(); _heapctl; printf "%s\\n" "${COMPREPLY[@]}"; done', "bash")

    def test_fish(self):
        self.check("fish", need("fish"), "--no-config", "-c",
                   'source $argv[1]; for verb in $argv[2..]; echo $verb:; complete -C "heapctl $verb --"; end')

    def test_zsh(self):
        self.check("zsh", need("zsh"), "-f", "-c", 'compdef() { :; }; _arguments() { print -rl -- "$@"; }; source $1; shift;'
                   ' for verb; do print $verb:; words=(heapctl $verb --) CURRENT=3; _heapctl; done', "zsh", option=r"(?<=[*}),{])--[\w-]+")


class OtherShells(Case):
    """In zsh and fish themselves."""

    def script(self, shell, name):
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_text(self.heapctl("completion", shell)[0])
        return path

    def setUp(self):
        super().setUp()
        self.environment.update(PATH=os.path.dirname(HEAPCTL) + ":" + os.environ["PATH"], HOME=self.folder, TERM="dumb")
        open(os.path.join(self.folder, "some.heap"), "w").close()

    def fish(self, line):
        path = self.script("fish", "heapctl.fish")
        result = subprocess.run([need("fish"), "--no-config", "-c", f"source {path}; complete -C $argv[1]", line], capture_output=True, text=True,
                                env=self.environment, cwd=self.folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [words.partition("\t")[0] for words in result.stdout.splitlines()]

    def test_fish(self):
        server, _ = self.start_redis()
        self.wait_for_agent(server.pid)
        self.assertEqual(self.fish("heapctl dea"), ["deactivate"])
        self.assertEqual(self.fish("heapctl record --du"), ["--duration"])
        self.assertIn("5mins", self.fish("heapctl record --duration "))
        self.assertIn("rss>2GiB", self.fish("heapctl watch x --when "))
        self.assertIn("redis-server", self.fish("heapctl status redis"))
        self.assertEqual(self.fish("heapctl dump -o some"), ["some.heap"])
        self.assertEqual(self.fish("heapctl ps --ye"), [])
        self.assertEqual(self.fish("heapctl symbols ind"), ["index"])
        self.assertEqual(self.fish("heapctl symbols index some"), ["some.heap"])

    def test_fish_offers_files_where_one_may_stand(self):
        for line in ("report --granularity ", "attach x --method ", "report --unit ", "dump --thread ", "dump ", "top ", "ps "):
            self.assertNotIn("some.heap", self.fish(f"heapctl {line}"), line)
        for line in ("report ", "dump -o ", "dump ./", "symbols index "):
            self.assertIn(line[line.rindex(" ") + 1:] + "some.heap", self.fish(f"heapctl {line}"), line)

    def test_fish_offers_verbs_to_help(self):
        self.assertEqual(self.fish("heapctl help dea"), ["deactivate"])
        self.assertEqual(self.fish("heapctl help dump dea"), [])

    def zsh(self, line, expected):
        """Types a line and a tab, and waits for what zsh makes of it."""
        self.script("zsh", "_heapctl")
        main, terminal = os.openpty()
        self.addCleanup(os.close, main)
        shell = self.start(need("zsh"), "-f", "-i", stdin=terminal, stdout=terminal, stderr=terminal, cwd=self.folder, start_new_session=True,
                           env=self.environment)
        os.close(terminal)
        fcntl.fcntl(main, fcntl.F_SETFL, os.O_NONBLOCK)
        shown = ""

        def has(text):
            nonlocal shown
            try:
                # Without bells.
                shown += os.read(main, 65536).decode(errors="replace").replace("\a", "")
            except BlockingIOError:
                pass
            return text in shown

        # The echo of the command has the quotes between the two halves.
        os.write(main, b"PS1=; zstyle ':completion:*' menu no; fpath=($PWD $fpath); autoload -U compinit && compinit -D -u && echo rea''dy\n")
        wait_until(lambda: has("ready"), lambda: f"zsh: {shown}")
        shown = ""
        os.write(main, line.encode() + b"\t")
        wait_until(lambda: has(expected), lambda: f"{expected!r} of {line!r}: {shown!r}")
        # An interactive zsh ignores SIGTERM.
        shell.kill()
        shell.wait()

    def test_zsh(self):
        server, _ = self.start_redis()
        self.wait_for_agent(server.pid)
        self.zsh("heapctl dea", "heapctl deactivate ")
        self.zsh("heapctl help dea", "heapctl help deactivate ")
        self.zsh("heapctl record --du", "heapctl record --duration")
        self.zsh("heapctl mallctl x -t siz", "-t size ")
        self.zsh("heapctl run --conf prof_le", "prof_leak:true")
        self.zsh("heapctl status redis-s", "redis-server ")
        self.zsh("heapctl dump -o som", "-o some.heap ")
        self.zsh("heapctl run -- prin", "print")
        self.zsh("heapctl symbols ind", "index ")
        self.zsh("heapctl symbols index som", "some.heap ")


class Completion(Case):
    def complete(self, *words):
        """What bash would offer for the last of the words."""
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _heapctl; printf "%s\\n" "${COMPREPLY[@]}"'
        path = os.path.join(self.folder, "completion")
        with open(path, "w") as out:
            out.write(self.heapctl("completion")[0])
        self.assertEqual(subprocess.run(["bash", "-n", path]).returncode, 0)
        environment = dict(self.environment, PATH=os.path.dirname(HEAPCTL) + ":" + os.environ["PATH"])
        result = subprocess.run(["bash", "-c", script, "bash", path, "heapctl", *words], capture_output=True, text=True,
                                env=environment, cwd=self.folder)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_a_value_behind_an_equals_sign(self):
        self.assertEqual(self.complete("attach", "--method", "=", "g"), ["got"])
        self.assertEqual(self.complete("attach", "--method", "="), self.complete("attach", "--method", ""))
        self.assertEqual(self.complete("attach", "--method", "=", "got", "--inter"), ["--interval"])

    def test_verbs_and_options(self):
        self.assertEqual(self.complete("dea"), ["deactivate"])
        self.assertEqual(self.complete("help", "dea"), ["deactivate"])
        self.assertEqual(self.complete("help", "dump", ""), [])
        self.assertIn("--duration", self.complete("record", "--"))
        self.assertIn("5mins", self.complete("record", "--duration", ""))
        self.assertIn("size", self.complete("mallctl", "x", "-t", "s"))

    def test_targets_and_files(self):
        server, _ = self.start_redis()
        self.wait_for_agent(server.pid)
        offered = self.complete("status", "")
        self.assertIn(str(server.pid), offered)
        self.assertIn("redis-server", offered)
        open(os.path.join(self.folder, "some.heap"), "w").close()
        self.assertEqual(self.complete("dump", "-o", "some"), ["some.heap"])
        self.assertLessEqual({str(server.pid), "some.heap"}, set(self.complete("report", "")))
        self.assertEqual(self.complete("diff", "some"), ["some.heap"])
        self.assertEqual(self.complete("symbols", "in"), ["index"])
        self.assertEqual(self.complete("symbols", "index", "some"), ["some.heap"])


if __name__ == "__main__":
    unittest.main()
