# SPDX-License-Identifier: Apache-2.0
"""heapctl top on a real Redis: as tables in a pipe, and live on a terminal, which the test reads through a pty."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from processes import AGENT, HEAPCTL, PATIENCE_SECONDS, SANITIZED, Case, children_of, faketime_library, need, own_name, wait_until

FINE = "prof:true,prof_active:true,lg_prof_sample:12"
ENTER = "\x1b[?1049h"
LEAVE = "\x1b[?1049l"


class Screen:
    """A terminal with heapctl top on it; `picture` is what it drew last."""

    def __init__(self, case, *arguments, rows=24, columns=100, **environment):
        self.case = case
        self.master, self.slave = pty.openpty()
        case.addCleanup(os.close, self.master)
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        settings = dict(case.environment, TERM="xterm", **environment)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([HEAPCTL, "top", *map(str, arguments)], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave, env=settings, preexec_fn=own_terminal)
        case.addCleanup(case.end, self.process)
        case.addCleanup(os.close, self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                return

    def picture(self):
        self.read()
        drawn = self.text.split("\x1b[H")
        complete = [part for part in drawn[1:] if "\x1b[J" in part]
        return complete[-1].split("\x1b[J")[0] if complete else ""

    def lines(self):
        return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in self.picture().split("\r\n")]

    def wait_for(self, condition, what):
        def is_true():
            if self.process.poll() is not None:
                self.read()
                raise AssertionError(f"heapctl top ended with {self.process.returncode}: {self.text[-2000:]!r}")
            return condition(self.lines())
        try:
            wait_until(is_true, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.lines())) from None

    def wait_for_text(self, text):
        self.wait_for(lambda lines: any(text in line for line in lines), f"'{text}' on the screen")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def expect_end(self, code):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
            time.sleep(0.02)
        self.read()
        self.case.assertEqual(self.process.poll(), code, self.text[-500:])
        self.expect_given_back()

    def expect_given_back(self):
        self.case.assertGreater(self.text.rfind(LEAVE), self.text.rfind(ENTER))
        self.case.assertGreater(self.text.rfind("\x1b[?25h"), self.text.rfind("\x1b[?25l"))
        self.case.assertEqual(termios.tcgetattr(self.slave)[3], self.before[3])


class TopCase(Case):
    def setUp(self):
        super().setUp()
        self.server, self.port = self.start_redis(conf=FINE)
        self.wait_for_agent(self.server.pid)
        self.load_redis(self.port, keys=20000, size=500)

    def screen(self, *arguments, **settings):
        screen = Screen(self, self.server.pid, "--interval", "300ms", *arguments, **settings)
        screen.wait_for_text("IN USE*")
        return screen


class Piped(TopCase):
    @unittest.skipIf(SANITIZED, "a preloaded library and a sanitizer exclude each other")
    def test_an_interval_of_minutes_is_kept(self):
        out = subprocess.run([HEAPCTL, "top", str(self.server.pid), "--count", "2", "--interval", "3mins"], capture_output=True, text=True,
                             env=dict(self.environment, LD_PRELOAD=faketime_library(), FAKETIME="+0 x60"), timeout=60, check=True).stdout
        first, second = (3600 * int(h) + 60 * int(m) + int(s) for h, m, s in re.findall(r"  (\d\d):(\d\d):(\d\d)  sampling", out))
        self.assertGreaterEqual((second - first) % 86400, 179)

    def test_it_prints_a_table_each_time(self):
        out, _ = self.heapctl("top", self.server.pid, "--count", "2", "--interval", "100ms", "--rows", "3")
        self.assertNotIn("\x1b", out)
        tables = out.split("\n\n")
        self.assertEqual(len(tables), 2)
        for table in tables:
            lines = table.rstrip("\n").split("\n")
            self.assertEqual(len(lines), 4 + 3)
            self.assertIn(f"redis-server[{self.server.pid}]", lines[0])
            self.assertIn("sampling is on", lines[0])
            self.assertRegex(lines[1], r"in use \S+ MiB .* since \d\d:\d\d:\d\d$")
            self.assertRegex(lines[2], r"allocated \S+ MiB, resident \S+ MiB")
            self.assertRegex(lines[4], r"MiB +\S+ \w+ +\S+ ?\w* +\S+ \w+ +[\d,]+  \w+ < \w+")

    def test_the_allocators_frames_are_kept_on_request(self):
        out, _ = self.heapctl("top", self.server.pid, "--count", "1")
        allocators = r"  (\w*alloc\w*|prof_\w+|\[libjemalloc\S+) < "
        self.assertNotRegex(out, allocators)
        out, _ = self.heapctl("top", self.server.pid, "--count", "1", "--no-prune")
        self.assertRegex(out, allocators)

    def test_the_total_is_near_the_memory_of_redis(self):
        out, _ = self.heapctl("top", self.server.pid, "--count", "1")
        in_use = float(re.search(r"in use (\S+) MiB", out).group(1))
        self.assertGreater(in_use, 9)
        self.assertLess(in_use, 30)

    def test_growth_is_since_the_start(self):
        process = subprocess.Popen([HEAPCTL, "top", str(self.server.pid), "--interval", "300ms", "--sort", "growth"],
                                   stdout=subprocess.PIPE, env=self.environment, text=True)
        self.addCleanup(self.end, process)
        first = [process.stdout.readline() for _ in range(5)]
        self.assertIn(", 0 B +-0 B since ", first[1])
        self.assertRegex(first[3], r"IN USE +\+- +GROWTH\* +\+- +OBJECTS")
        self.load_redis(self.port, keys=60000, size=500)
        # 40000 values more, 20 MiB in all; sampled, they are 20.0 +- 0.3.
        table = []

        def has_grown():
            table.append(process.stdout.readline())
            match = re.search(r"\+(\S+) MiB \+-\S+ [KM]iB since ", table[-1])
            return match and float(match.group(1)) > 15
        wait_until(has_grown, "growth by more than 15 MiB")
        self.assertRegex([process.stdout.readline() for _ in range(3)][-1], r"\+\S+ MiB +\S+ [KM]iB +[\d,]+")

    def test_the_filter_leaves_what_it_names(self):
        out, _ = self.heapctl("top", self.server.pid, "--count", "1", "--filter", "SDSNEW")
        sites = out.split("\n")[4:-1]
        self.assertGreater(len(sites), 0)
        for site in sites:
            self.assertIn("sdsnew", site)

    def test_the_end_of_a_target_is_reported(self):
        process = subprocess.Popen([HEAPCTL, "top", str(self.server.pid), "--interval", "200ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment, text=True)
        self.addCleanup(self.end, process)
        self.assertIn("redis-server", process.stdout.readline())
        self.end(self.server)
        _, messages = process.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual((process.returncode, messages), (1, f"heapctl: redis-server[{self.server.pid}] has ended\n"))

    def test_errors_are_reported(self):
        self.heapctl("top", "999999999", code=1)
        self.heapctl("top", self.server.pid, "--sort", "colour", code=2)
        self.heapctl("top", self.server.pid, "--interval", "1ms", code=2)


    def test_threads_add_up_to_the_process(self):
        out, _ = self.heapctl("top", self.server.pid, "--count", "1", "--show", "threads", "--rows", "100")
        lines = out.split("\n")
        self.assertRegex(lines[3], r"OBJECTS  THREAD$")
        whole = float(re.search(r"in use (\S+) MiB", out).group(1))
        threads = [re.match(r" *(\S+) (B|KiB|MiB) .*  (.*)", line).groups() for line in lines[4:-1]]
        self.assertRegex(threads[0][2], r"^(\S+ \(thread \d+\)|thread \d+)$")
        factors = {"B": 1 / 2**20, "KiB": 1 / 1024, "MiB": 1}
        self.assertAlmostEqual(sum(float(value) * factors[unit] for value, unit, _ in threads), whole, delta=whole / 10)

    def test_a_process_whose_samples_have_no_threads_is_explained(self):
        process = self.start(HEAPCTL, "run", "--activate", "--sample", "4KiB", "--", sys.executable, "-c", "import time; kept = bytearray(10**7); time.sleep(600)")
        self.wait_for_agent(process.pid)
        out, said = self.heapctl("top", process.pid, "--count", "1", "--show", "threads")
        self.assertRegex(out, r"THREAD\n$")
        self.assertEqual(said, "heapctl: no threads: only jemalloc's profiles have them (--show sites)\n")

    def test_words_that_are_not_known_are_refused(self):
        _, said = self.heapctl("top", self.server.pid, "--show", "modules", code=2)
        self.assertIn("'modules' is not sites, threads or processes", said)


class Live(TopCase):
    def test_keys_sort_filter_and_quit(self):
        screen = self.screen()
        for key, heading in (("g", "GROWTH*"), ("o", "OBJECTS*"), ("u", "IN USE*")):
            screen.press(key)
            screen.wait_for_text(heading)
        screen.press("/sdsnew\r")
        screen.wait_for_text("only sdsnew")
        screen.wait_for(lambda lines: len(lines) > 5 and all("sdsnew" in line for line in lines[4:-1]), "only the filtered sites")
        screen.press("/\x7f\x7f\x7f\x7f\x7f\x7f\x7f\r")
        screen.wait_for(lambda lines: "only" not in lines[0], "the filter to be gone")
        screen.press("q")
        screen.expect_end(0)

    def test_growth_has_its_error_on_terminals_of_any_width(self):
        for columns, heading in ((110, r"IN USE\* +\+- +GROWTH +\+- +OBJECTS  SITE \(inn"), (80, r"IN USE\* +\+- +GROWTH +\+-  SITE \(inn")):
            with self.subTest(columns):
                screen = self.screen(columns=columns)
                screen.wait_for(lambda lines: len(lines) > 5 and re.search(heading, lines[3]), "the heading")
                self.assertRegex(screen.lines()[1], r", (\+|-|)\S+ [KM]?i?B \+-\S+ [KM]?i?B since \S*\d\d:\d\d:\d\d$")
                screen.press("o")
                screen.wait_for_text("OBJECTS*")
                screen.press("q")
                screen.expect_end(0)

    def test_names_have_room_on_terminals_of_any_size(self):
        for rows, columns in ((5, 20), (10, 40), (24, 60), (24, 80), (50, 300)):
            with self.subTest((rows, columns)):
                screen = self.screen(rows=rows, columns=columns)
                screen.wait_for(lambda lines: any(re.match(r" *IN USE\*.*  SITE", line) for line in lines), "the heading with names")
                heading = next(i for i, line in enumerate(screen.lines()) if "IN USE*" in line)
                screen.wait_for(lambda lines, at=heading + 1: len(lines) > at + 2 and re.search(r"  [A-Za-z\[_]\w{4}", lines[at]), "a name")
                screen.press("g")
                screen.wait_for(lambda lines: any(re.search(r"GROWTH\*.*  SITE", line) for line in lines), "growth with names")
                if columns >= 40:
                    screen.wait_for(lambda lines: any(re.search(r"GROWTH\* +\+-", line) for line in lines), "growth with its error")
                screen.press("q")
                screen.expect_end(0)

    def test_the_heading_is_whole_on_narrow_terminals(self):
        figure = r"\d+(\.\d)? [KM]?i?B"
        growth = rf"(, (\+|-|){figure} \+-{figure}( since \S*\d\d:\d\d:\d\d)?)?"
        for columns, state, statistics in ((60, r"\[\d+\]  .*sampling is on", "jemalloc's count"), (40, r"\[\d+\]  sampling is on", rf"^allocated {figure}, resident {figure}"),
                                           (30, r"\[\d+\]  on", rf"^resident {figure}")):
            with self.subTest(columns):
                screen = self.screen(rows=12, columns=columns)
                screen.wait_for(lambda lines: len(lines) > 4 and re.search(r"IN USE.*  SITE( \(innermost functions\))?$", lines[3]), "the heading")
                lines = screen.lines()
                self.assertRegex(lines[0], f"{state}$")
                self.assertRegex(lines[1], rf"^in use {figure} \+-{figure}{growth}$")
                self.assertRegex(lines[2], f"{statistics}$")
                # Nothing of the help is cut, and no advice.
                screen.press("h")
                screen.wait_for_text("sort by growth")
                self.assertIn("a      switch sampling on, off", screen.lines())
                screen.press(" ")
                screen.press("q")
                screen.expect_end(0)

    def test_sites_are_shown_on_the_lowest_terminals(self):
        for rows in (1, 2, 3):
            with self.subTest(rows):
                screen = Screen(self, self.server.pid, "--interval", "300ms", rows=rows, columns=60)
                screen.wait_for(lambda lines, rows=rows: any(re.search(r"\d [KM]iB .* < ", line) for line in lines) and len([line for line in lines if line]) <= rows,
                                "a site")
                screen.press("q")
                screen.expect_end(0)

    def test_a_key_explains_the_keys(self):
        screen = self.screen()
        for key in "h?":
            screen.press(key)
            screen.wait_for_text("sort by growth")
            screen.press("u")
            screen.wait_for(lambda lines: "IN USE*" in "".join(lines), "the sites again")
        screen.press("h")
        screen.wait_for_text("sort by growth")
        screen.press("q")
        screen.expect_end(0)

    def test_keys_show_sites_threads_and_processes(self):
        screen = self.screen(columns=120)
        for key, heading in (("t", "THREAD"), ("p", "PROCESS"), ("s", "SITE (innermost functions)")):
            screen.press(key)
            screen.wait_for(lambda lines, heading=heading: len(lines) > 4 and lines[3].endswith(heading) and lines[4] != "", heading)
        screen.press("pt")
        screen.wait_for(lambda lines: len(lines) > 4 and re.search(r"  (\S+ \(thread \d+\)|thread \d+)$", lines[4]), "a thread")
        screen.press("q")
        screen.expect_end(0)

    def test_q_ends_it_while_a_request_hangs(self):
        screen = self.screen()
        self.server.send_signal(signal.SIGSTOP)
        self.addCleanup(self.server.send_signal, signal.SIGCONT)
        count = screen.text.count("\x1b[J")
        screen.press("g")
        screen.wait_for(lambda lines: screen.text.count("\x1b[J") > count and any("GROWTH*" in line for line in lines), "the keys to work")
        pressed = time.monotonic()
        screen.press("q")
        screen.expect_end(0)
        # A request may wait for its answer for many seconds.
        self.assertLess(time.monotonic() - pressed, 8)

    def test_names_in_utf8_are_cut_by_characters_in_any_locale(self):
        name = own_name("caf\u00e9")[-15:]
        server, _ = self.start_named_redis(name)
        for settings in ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
            with self.subTest(settings):
                screen = Screen(self, server.pid, "--interval", "300ms", "--show", "processes", rows=8, columns=40, **settings)
                screen.wait_for(lambda lines: len(lines) > 2 and any("IN USE*" in line for line in lines), "the table")
                self.assertLessEqual(max(map(len, screen.lines())), 40)
                screen.press("q")
                screen.expect_end(0)

    def test_no_profile_is_taken_while_frozen(self):
        screen = self.screen()
        screen.press("f")
        screen.wait_for_text("FROZEN")
        frozen = screen.lines()[1]
        self.load_redis(self.port, keys=60000, size=500)
        screen.press("g")
        screen.wait_for_text("GROWTH*")
        self.assertEqual(screen.lines()[1], frozen)
        screen.press("f")
        screen.wait_for(lambda lines: len(lines) > 1 and lines[1] != frozen, "new figures")
        screen.press("q")
        screen.expect_end(0)

    def test_sampling_is_switched(self):
        screen = self.screen()
        screen.press("a")
        screen.wait_for_text("sampling is off")
        wait_until(lambda: not json.loads(self.heapctl("status", self.server.pid, "--json")[0])["profiling"]["active"],
                   "sampling to be off")
        screen.press("a")
        screen.wait_for_text("sampling is on")
        screen.press("q")
        screen.expect_end(0)

    def test_a_picture_fits_the_terminal_and_follows_its_size(self):
        screen = self.screen(rows=12, columns=60)
        for rows, columns in ((12, 60), (30, 140), (6, 40)):
            screen.resize(rows, columns)
            screen.wait_for(lambda lines, rows=rows: len(lines) <= rows and (rows != 30 or len(lines) > 12), f"{rows} rows")
            screen.wait_for(lambda lines, columns=columns: max(map(len, lines)) <= columns, f"{columns} columns")
        screen.press("q")
        screen.expect_end(0)

    def test_growth_is_reported_from_its_onset(self):
        screen = self.screen()

        def times(lines):
            return re.search(r" (\S+)  sampling", lines[0])[1], lines[1].rpartition(" since ")[2]
        screen.wait_for(lambda lines: len(lines) > 4 and times(lines)[0] != times(lines)[1], "growth since some time ago")

        def is_since_now(lines):
            # The next picture may be of the next second already.
            screen.press("b")
            return len(lines) > 4 and times(lines)[0] == times(lines)[1]
        screen.wait_for(is_since_now, "growth since now")
        screen.press("q")
        screen.expect_end(0)

    def test_the_help_scrolls_on_a_low_terminal(self):
        screen = self.screen(rows=8, columns=60)
        screen.press("h")
        screen.wait_for(lambda lines: lines[0].startswith("q ") and lines[-1].startswith("arrows scroll"), "the help")
        screen.press("\x1b[B")
        screen.wait_for(lambda lines: lines[0].startswith("u "), "the second line")
        # Page down, more often than there are pages.
        screen.press("\x1b[6~" * 4)
        screen.wait_for(lambda lines: lines[-2].startswith("arrows, pages"), "the last line")
        screen.press("\x1b[H")
        screen.wait_for(lambda lines: lines[0].startswith("q "), "the first line")
        screen.press("x")
        screen.wait_for(lambda lines: not lines[-1].startswith("arrows scroll"), "the sites")
        screen.press("q")
        screen.expect_end(0)

    def test_figures_and_keys_fit_a_terminal_of_80_columns(self):
        screen = self.screen(columns=80)
        screen.press("f")
        screen.wait_for(lambda lines: re.search(r" since \d\d:\d\d:\d\d$", lines[1]) and " resident " in lines[2] and lines[2].endswith(" count") and
                        re.fullmatch(r"q quit  h help(  \S+ [\w=]+)+", lines[-1]), "nothing cut off")
        screen.press("q")
        screen.expect_end(0)

    def test_every_exit_restores_the_terminal(self):
        for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGQUIT, 0),
                             (signal.SIGABRT, -signal.SIGABRT), (signal.SIGSEGV, -signal.SIGSEGV)):
            with self.subTest(number):
                screen = self.screen()
                screen.process.send_signal(number)
                screen.expect_end(code)

    def test_stopping_restores_the_terminal_and_continuing_takes_it(self):
        screen = self.screen()
        screen.process.send_signal(signal.SIGTSTP)
        wait_until(lambda: screen.read() or screen.text.endswith(LEAVE), "the terminal to be given back")
        screen.expect_given_back()
        screen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: screen.read() or screen.text.rfind(ENTER) > screen.text.rfind(LEAVE), "the terminal to be taken")
        screen.press("q")
        screen.expect_end(0)

    def test_the_end_of_a_target_is_reported(self):
        screen = self.screen()
        self.end(self.server)
        screen.wait_for(lambda lines: f"redis-server[{self.server.pid}] has ended" == lines[-1], "the end at the foot")
        screen.press("q")
        screen.expect_end(0)

    def test_colours_only_on_terminals_that_show_them(self):
        screen = self.screen()
        self.assertIn("\x1b[1m", screen.picture())
        screen.press("q")
        screen.expect_end(0)
        screen = self.screen(NO_COLOR="1")
        self.assertNotIn("\x1b[1m", screen.picture())
        screen.press("q")
        screen.expect_end(0)


class Trees(Case):
    """The processes of a server that forks."""
    FORKS = ("$SIG{USR1} = sub { push @b, map { 'y' x (100000 + $_) } 1..100 }; @a = map { 'x' x (100000 + $_) } 1..50;"
             "for (1..2) { unless (fork) { $0 = \"prefork: worker $_\"; last } } sleep 1 while 1")

    def setUp(self):
        super().setUp()
        program = os.path.join(self.folder, own_name("prefork"))
        shutil.copy(need("perl"), program)
        self.parent = self.start(program, "-e", self.FORKS, env={"LD_PRELOAD": AGENT, "HEAPCTL_ACTIVATE": "1", "HEAPCTL_SAMPLE": "4096",
                                                                 "HEAPCTL_CHILDREN": "thread"})
        wait_until(lambda: len(children_of(self.parent.pid)) == 2, "two children")
        self.workers = children_of(self.parent.pid)
        for pid in (self.parent.pid, *self.workers):
            self.end_pid_later(pid)
            self.wait_for_agent(pid)
        for pid in self.workers:
            wait_until(lambda pid=pid: b"worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(), "its title")

    def test_a_table_has_the_processes_as_a_tree_and_their_sum(self):
        os.kill(self.workers[1], signal.SIGUSR1)
        out = ""

        def has_grown():
            nonlocal out
            out, _ = self.heapctl("top", f"{self.parent.pid}:*", "--count", "1", "--show", "processes")
            return re.search(rf"^ *1\d\.\d MiB .*{self.workers[1]} prefork: worker 2$", out, re.M)
        wait_until(has_grown, "what the second worker keeps")
        lines = out.split("\n")
        self.assertIn(f"{self.parent.pid}:*  ", lines[0])
        self.assertIn("sampling is on in 3 of 3 processes", lines[0])
        self.assertIn(f"  {self.parent.pid} ", lines[4])
        self.assertRegex(lines[5], rf"[\d,]+    {self.workers[1]} prefork: worker 2$")
        self.assertRegex(lines[6], rf"[\d,]+    {self.workers[0]} prefork: worker 1$")
        each = [float(re.match(r" *(\S+) MiB", line)[1]) for line in lines[4:7]]
        self.assertAlmostEqual(float(re.search(r"in use (\S+) MiB", out)[1]), sum(each), delta=0.3)
        out, _ = self.heapctl("top", f"{self.parent.pid}:*", "--count", "1")
        self.assertIn("SITE (innermost functions)", out)

    def test_the_state_of_all_processes_is_whole_on_narrow_terminals(self):
        os.kill(self.workers[0], signal.SIGSTOP)
        self.addCleanup(os.kill, self.workers[0], signal.SIGCONT)
        label = re.escape(f"{self.parent.pid}:*")
        for columns, state in ((70, r"  sampling is on in 2 of 2 processes, 1 left out"), (40, r"  on in 2 of 2, 1 left out")):
            with self.subTest(columns):
                screen = Screen(self, f"{self.parent.pid}:*", "--interval", "300ms", "--show", "processes", columns=columns)
                screen.wait_for(lambda lines: re.fullmatch(f"{label}.*{state}", lines[0]), "the state")
                screen.press("q")
                screen.expect_end(0)

    def test_the_screen_follows_processes_that_end_and_stop(self):
        screen = Screen(self, f"{self.parent.pid}:*", "--interval", "300ms", "--show", "processes", columns=120)
        screen.wait_for_text("in 3 of 3 processes")
        gone, stopped = self.workers
        os.kill(gone, signal.SIGKILL)
        screen.wait_for_text("in 2 of 2 processes")
        screen.wait_for(lambda lines: any(re.search(rf"^ +0 B .* -\S+ MiB .*{gone} prefork: worker \d$", line) for line in lines), "what the ended one had")
        screen.press("a")
        screen.wait_for_text("in 0 of 2 processes")
        screen.press("a")
        screen.wait_for_text("in 2 of 2 processes")
        os.kill(stopped, signal.SIGSTOP)
        self.addCleanup(os.kill, stopped, signal.SIGCONT)
        screen.wait_for_text("in 1 of 1 processes, 1 left out")
        screen.press("q")
        screen.expect_end(0)

    def test_the_reason_of_a_process_that_is_left_out_is_said(self):
        os.kill(self.workers[0], signal.SIGSTOP)
        self.addCleanup(os.kill, self.workers[0], signal.SIGCONT)
        _, said = self.heapctl("top", f"{self.parent.pid}:*", "--count", "1")
        self.assertRegex(said, rf"left out: .*\[{self.workers[0]}\] is stopped")
        self.heapctl("top", own_name("nothing") + ":*", "--count", "1", code=1)


if __name__ == "__main__":
    unittest.main()
