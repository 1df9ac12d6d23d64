#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test file and prints a line of TAP per case, with its duration, its processor time and the reason of a skip.

usage: case_runner.py FILE [CASE-GLOB]

FILE is a test_*.py of Python's unittest or a program of cmocka; both get the same output, which meson shows and
scripts/test-results counts. A case of unittest is named Class.test_what, and the glob may leave the class out.
TEST_EMULATOR is the command that starts a program of cmocka which was built for another machine.
Comments carry what TAP has no field for:

    # begin NAME            the case that follows; a time-out or a crash is in the last one that began
    # ms NUMBER             the duration of the case above
    # cpu NUMBER            its milliseconds of processor time, of the processes that it waited for as well
    # what went wrong       indented, after a line "not ok"
    # end                   all is printed; without it the file ended too early
"""
import faulthandler
import fnmatch
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

EXIT_FAILED = 1
# The reason of such a skip; scripts/test-results, which knows it, fails a run in which no file has the case.
NO_CASE = "no case matches"


class Tap:
    def __init__(self, stream):
        self.stream = stream
        self.count = 0
        self.failed = 0

    def write(self, line):
        # A reason of several lines must not look like TAP.
        self.stream.write(line.encode("ascii", "backslashreplace").decode().replace("\n", " ") + "\n")
        self.stream.flush()

    def begin(self, name):
        self.write(f"# begin {name}")

    def case(self, name, seconds, skip=None, problem=None, cpu_seconds=None):
        """One result; `problem` is the text of what went wrong."""
        self.count += 1
        if problem is not None:
            self.failed += 1
        self.write(f"{'ok' if problem is None else 'not ok'} {self.count} - {name.replace('#', 'No. ')}"
                   + (f" # SKIP {skip or 'no reason given'}" if problem is None and skip is not None else ""))
        self.write(f"# ms {seconds * 1000:.0f}")
        if cpu_seconds is not None:
            self.write(f"# cpu {cpu_seconds * 1000:.0f}")
        for line in (problem or "").splitlines():
            self.write(f"#   {line}")

    def end(self):
        self.write(f"1..{self.count}")
        self.write("# end")
        return EXIT_FAILED if self.failed else 0


def cpu_seconds_used():
    """By this process and its children, and theirs, as far as they were waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def cpu_seconds_of(pid):
    """By a process that may have ended but was not waited for, and by its children that were."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def name_of(test):
    """Class.method, with what a subtest says of itself."""
    match = re.match(r"(\S+) \((.*)\)$", test.id())
    if match:  # "setUpClass (module.Class)"
        return f"{match.group(2).rsplit('.', 1)[-1]}.{match.group(1)}"
    parent = getattr(test, "test_case", test)
    name = f"{type(parent).__name__}.{parent._testMethodName}"
    return name if parent is test else f"{name} {test._subDescription()}"


class Result(unittest.TestResult):
    """Prints each case when it has ended. What a class' or the module's setUp reports belongs to its cases, which never start."""

    def __init__(self, tap):
        super().__init__()
        self.tap = tap
        self.done = set()
        self.holders = []
        self.current = None
        # What is spent before a case, on its class or its module, counts as the case's.
        self.began, self.cpu_began = time.monotonic(), cpu_seconds_used()

    def startTest(self, test):
        super().startTest(test)
        self.current = test
        self.problems, self.skip, self.part_skips = [], None, []
        self.done.add(test.id())
        self.tap.begin(name_of(test))

    def stopTest(self, test):
        problem = "\n".join(self.problems) if self.problems else None
        now, cpu_now = time.monotonic(), cpu_seconds_used()
        self.tap.case(name_of(test), now - self.began, self.skip, problem, cpu_now - self.cpu_began)
        self.began, self.cpu_began = now, cpu_now
        for name, reason in self.part_skips:
            self.tap.case(name, 0, reason)
        self.current = None
        super().stopTest(test)

    def add(self, test, error):
        # Without the frames of unittest itself.
        text = self._exc_info_to_string(error, test)
        if self.current is None:
            self.holders.append((test.id(), None, text))
        elif test is not self.current:
            self.problems.append(f"{test._subDescription()}\n{text}")
        else:
            self.problems.append(text)

    def addError(self, test, err):
        super().addError(test, err)
        self.add(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.add(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.add(subtest, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.current is None:
            self.holders.append((test.id(), reason, None))
        elif test is not self.current:
            self.part_skips.append((name_of(test), reason))
        else:
            self.skip = reason

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.problems.append("expected to fail, and passed")

    def not_started(self, tests):
        """Reports the cases that never ran, because of their class or their module."""
        left = [test for test in tests if test.id() not in self.done]
        for holder, reason, text in self.holders:
            scope = re.match(r"\S+ \((.*)\)$", holder)
            scope = scope.group(1) if scope else holder
            mine = [test for test in left if f"{type(test).__module__}.{type(test).__qualname__}.".startswith(scope + ".")]
            left = [test for test in left if test not in mine]
            if reason is not None:
                for test in mine:
                    self.tap.case(name_of(test), 0, reason)
            else:
                self.tap.case(holder, 0, problem=text)
                for test in mine:
                    self.tap.case(name_of(test), 0, problem=f"did not start: {holder} failed")
        for test in left:
            self.tap.case(name_of(test), 0, problem="did not start")


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def load(path):
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def is_chosen(test, glob):
    name = name_of(test)
    return fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(name.split(".", 1)[1], glob)


def run_unittest(path, glob, tap):
    # A time-out ends this with SIGTERM: say where it was.
    faulthandler.register(signal.SIGTERM, chain=True)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromModule(load(path))
    except unittest.SkipTest as reason:
        tap.case("(whole file)", 0, str(reason))
        return tap.end()
    tests = [test for test in flatten(suite) if is_chosen(test, glob)]
    if not tests:
        tap.case("(whole file)", 0, f"{NO_CASE} {glob}")
        return tap.end()
    result = Result(tap)
    unittest.TestSuite([unittest.TestSuite(tests)]).run(result)
    result.not_started(tests)
    return tap.end()


class Cmocka:
    """Converts cmocka's TAP to ours: it calls a skip "not ok", gives reasons after the result, and knows no durations."""

    def __init__(self, tap, pid):
        self.tap, self.pid = tap, pid
        self.planned, self.seen = None, 0
        self.began, self.cpu_began = time.monotonic(), 0
        self.skip_reason = None
        self.failed = None  # a failed case whose reasons are still to come: [name, seconds, reasons, processor time]
        self.last = None

    def begin_next(self):
        if self.planned is not None and self.seen < self.planned:
            self.tap.begin(f"case {self.seen + 1} of {self.planned}" + (f", the one after {self.last}" if self.last else ""))

    def flush(self):
        if self.failed is not None:
            name, seconds, reasons, cpu_seconds = self.failed
            self.failed = None
            self.tap.case(name, seconds, problem="\n".join(reasons) or "no reason given", cpu_seconds=cpu_seconds)
            self.begin_next()

    def result(self, match):
        self.flush()
        now, cpu_now = time.monotonic(), cpu_seconds_of(self.pid)
        seconds, self.began = now - self.began, now
        cpu_seconds, self.cpu_began = cpu_now - self.cpu_began, cpu_now
        self.seen += 1
        is_failure, name, skipped_name = match.groups()
        self.last = name or skipped_name
        if skipped_name is not None:
            self.tap.case(self.last, seconds, skip=self.skip_reason or "", cpu_seconds=cpu_seconds)
        elif is_failure:
            self.failed = [self.last, seconds, [], cpu_seconds]
            return
        else:
            self.tap.case(self.last, seconds, cpu_seconds=cpu_seconds)
        self.skip_reason = None
        self.begin_next()

    def take(self, line):
        match = re.match(r"(not )?ok \d+ (?:- (.*)|# SKIP (.*))$", line)
        if match:
            self.result(match)
        elif line.startswith("1.."):
            self.planned = int(line[3:])
            self.begin_next()
        elif line.startswith("# skip: "):
            self.skip_reason = line[len("# skip: "):]
        elif line.startswith(("# ok - ", "# not ok - ")):
            pass
        elif self.failed is not None and line.startswith("#"):
            self.failed[2].append(line[1:].strip())
        else:
            print(line, file=sys.stderr)


def run_cmocka(path, glob, tap):
    emulator = os.environ.get("TEST_EMULATOR", "").split()
    process = subprocess.Popen([*emulator, path, *([] if glob == "*" else [glob])], env=dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP"),
                               stdout=subprocess.PIPE, text=True, errors="backslashreplace")
    cmocka = Cmocka(tap, process.pid)

    def time_out(number, _frame):
        cmocka.flush()
        process.kill()
        os._exit(128 + number)
    signal.signal(signal.SIGTERM, time_out)
    for line in process.stdout:
        cmocka.take(line.rstrip("\n"))
    status = process.wait()
    cmocka.flush()
    if cmocka.planned == 0:
        tap.case("(whole file)", 0, f"{NO_CASE} {glob}")
    elif cmocka.planned is None or cmocka.seen != cmocka.planned:
        how = f"signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit status {status}"
        where = f"in case {cmocka.seen + 1} of {cmocka.planned}" if cmocka.planned else "before the first case"
        tap.case("(crash)", time.monotonic() - cmocka.began,
                 problem=f"ended with {how} {where}" + (f", the one after {cmocka.last}" if cmocka.last else ""))
    elif status != 0 and tap.failed == 0:
        # A sanitizer that reports when the program ends.
        tap.case("(exit)", 0, problem=f"all cases passed, then it ended with exit status {status}")
    return tap.end()


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    glob = sys.argv[2] if len(sys.argv) > 2 else "*"
    # Ignored where this is started with nohup or by a shell in the background, which the programs of the tests would inherit.
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    # What a test, or a program that it starts, prints to stdout is no TAP.
    tap = Tap(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    return (run_unittest if path.suffix == ".py" else run_cmocka)(path, glob, tap)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
