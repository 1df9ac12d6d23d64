#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl trend on heaps with known growth that jemalloc sampled, and on a real redis-server."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import unittest
import xml.etree.ElementTree

from chance import fewest, most
from deployed import DeployedCase
from processes import AGENT, BUILD, Case, jemalloc_path

HOUR = 3600


class TrendCase(Case):
    def heaps(self, replicates, rounds, leak, *more, name="heaps", lg_sample=0):
        """Lists of paths, one list for each replicate; a profile an hour. Unless told otherwise every allocation is sampled: the figures
        are the same each time."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        subprocess.run([BUILD / "tests/integration/trend_heap", folder, str(replicates), str(rounds), str(leak), "7", *more],
                       check=True, env=dict(os.environ, MALLOC_CONF=f"prof:true,lg_prof_sample:{lg_sample}"))
        paths = [[f"{folder}/{r}-{k:04d}.heap" for k in range(rounds)] for r in range(replicates)]
        for series in paths:
            for at, path in enumerate(series):
                os.utime(path, (1763600000 + at * HOUR,) * 2)
        return paths

    def trend(self, *arguments):
        return json.loads(self.heapctl("trend", "--json", *arguments)[0])

    @staticmethod
    def site(trend, name):
        return next(site for site in trend["sites"] if site["name"] == name)


class Shapes(TrendCase):
    def setUp(self):
        super().setUp()
        self.paths, = self.heaps(1, 16, 40960, "shapes")

    def test_leaks_steps_and_swings_are_distinguished(self):
        trend = self.trend(*self.paths)
        self.assertEqual([site["name"] for site in trend["sites"] if site["is_suspect"]], ["site_leak"])
        leak = self.site(trend, "site_leak")
        low, high = leak["interval95"]
        self.assertGreater(low, 20000)
        self.assertLess(high, 80000)
        self.assertGreaterEqual(leak["rises"], 13)
        step = self.site(trend, "site_step")
        self.assertEqual(step["kind"], "jump")
        self.assertAlmostEqual(step["jump_hours"], 7.5)
        self.assertAlmostEqual(step["jump"], 2000 * 512, delta=250000)
        cycle = self.site(trend, "site_cycle")
        self.assertEqual(cycle["kind"], "cycle")
        self.assertAlmostEqual(cycle["period_hours"], 4, delta=0.4)
        self.assertEqual(trend["hours"], list(range(16)))

    def test_what_is_in_use_is_seen(self):
        self.assertNotIn("in use", self.heapctl("trend", *self.paths)[1])

    def test_the_order_is_that_of_time(self):
        self.assertEqual(self.trend(*reversed(self.paths)), self.trend(*self.paths))

    def test_without_times_the_order_of_the_command_line_counts(self):
        for path in self.paths:
            os.utime(path, (1763600000,) * 2)
        out, messages = self.heapctl("trend", "--json", *self.paths)
        self.assertFalse(json.loads(out)["has_times"])
        self.assertRegex(messages, r"0-0000\.heap and \S+0-0001\.heap are of the same time: .* growth is per profile")
        self.assertTrue(self.site(json.loads(out), "site_leak")["is_suspect"])

    def test_few_profiles_of_one_time_do_not_cost_the_other_times(self):
        empty = os.path.join(self.folder, "empty.heap")
        with open(self.paths[5]) as source, open(empty, "w") as copy:
            mappings = "\nMAPPED_LIBRARIES:\n"
            copy.write(source.read().partition("\n")[0] + "\n  t*: 0: 0 [0: 0]\n" + mappings + source.read().partition(mappings)[2])
        os.utime(empty, (1763600000 + 5 * HOUR,) * 2)
        for order in ((empty, *self.paths), (*self.paths, empty)):
            out, messages = self.heapctl("trend", "--json", *order)
            self.assertEqual(json.loads(out), self.trend(*self.paths))
            self.assertRegex(messages, r"are of the same time: \S+empty\.heap is left out")

    def test_a_time_before_1970_is_none(self):
        os.utime(self.paths[3], (-5000, -5000))
        out, messages = self.heapctl("trend", "--json", *self.paths)
        self.assertRegex(messages, r"not all profiles say when they were taken \(\S+0-0003\.heap\): .* growth is per profile")
        expected = self.site(json.loads(out), "site_leak")["values"]
        os.utime(self.paths[3], (1763600000 + 3 * HOUR,) * 2)
        self.assertEqual(expected, self.site(self.trend(*self.paths), "site_leak")["values"])

    def test_a_time_in_the_future_is_reported(self):
        _, messages = self.heapctl("trend", *self.paths)
        self.assertNotIn("future", messages)
        os.utime(self.paths[7], (4102488000,) * 2)
        _, messages = self.heapctl("trend", *self.paths)
        self.assertRegex(messages, r"0-0007\.heap is of the future \(2100-01-01")

    def test_what_does_not_say_how_it_was_sampled_is_reported(self):
        collapsed = os.path.join(self.folder, "collapsed.txt")
        self.heapctl("report", "--collapsed", "-o", collapsed, self.paths[7])
        os.utime(collapsed, (1763600000 + 7 * HOUR,) * 2)
        out, messages = self.heapctl("trend", *self.paths[:7], collapsed, *self.paths[8:])
        self.assertIn(f"{collapsed} does not say how it was sampled", messages)
        self.assertNotIn("discarded", out)

    def test_text_names_the_suspect_with_its_stack(self):
        out, _ = self.heapctl("trend", *self.paths)
        suspects, others = out.split("Other sites:")
        self.assertRegex(suspects, r"site_leak: \+[0-9.]+ ± [0-9.]+ KiB/h, grew in \d+ of 15 intervals")
        self.assertIn("main > site_leak", suspects)
        self.assertIn("comes and goes about every", others)
        self.assertIn("one step of", others)

    def test_stacks_and_cumulative_figures(self):
        stacks = self.trend("--stacks", *self.paths)
        self.assertTrue(any(site["name"].endswith("main > site_leak") and site["is_suspect"] for site in stacks["sites"]))
        whole = self.site(self.trend("--cum", *self.paths), "main")
        self.assertAlmostEqual(sum(self.trend(*self.paths)["total"]["values"]), sum(whole["values"]), delta=2e6)

    def test_pictures_are_whole(self):
        svg, _ = self.heapctl("trend", "--svg", *self.paths)
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertTrue(root.tag.endswith("svg"))
        self.assertIn("site_leak", svg)
        self.assertRegex(svg, r"16 profiles over 15 h \(2025-11-\d\d \d\d:\d\d to 2025-11-\d\d \d\d:\d\d\)")
        page = os.path.join(self.folder, "trend.html")
        self.heapctl("trend", "--html", "-o", page, *self.paths)
        with open(page) as file:
            text = file.read()
        self.assertIn("</html>", text)
        self.assertNotIn("src=", text)
        self.assertNotIn("href=", text)
        self.assertRegex(text, r'<tr class="suspect">.*&lt; 0\.01 %')
        # Each chart is a picture of its own with its words beside it, so that a narrow screen shows both in a size to read.
        shown = 1 + min(15, self.trend(*self.paths)["site_count"])
        self.assertEqual(text.count("<figure"), shown)
        self.assertEqual(text.count("<svg"), shown)
        self.assertNotRegex(text, r"<text[^>]*>[^<]*grew in")

    def test_a_tar_is_a_series_compressed_or_not(self):
        whole = self.trend(*self.paths)
        # The mappings of a heap of many pieces make it longer than the beginning by which files are judged.
        moment_ns = os.stat(self.paths[1]).st_mtime_ns
        with open(self.paths[1], "a") as file:
            file.writelines(f"{at << 12:x}-{at + 1 << 12:x} rw-p 00000000 00:00 0 \n" for at in range(60000))
        os.utime(self.paths[1], ns=(moment_ns, moment_ns))
        self.assertGreater(os.path.getsize(self.paths[1]), 2 << 20)
        for mode in ("w", "w:gz"):
            path = os.path.join(self.folder, "series")
            with tarfile.open(path, mode) as tar:
                for profile in self.paths:
                    tar.add(profile, os.path.basename(profile))
            with self.subTest(mode):
                self.assertEqual(self.trend(path), whole)
        with tarfile.open(path, "w") as tar:
            for profile in (self.paths[0], __file__):
                tar.add(profile, os.path.basename(profile))
        _, messages = self.heapctl("trend", self.paths[1], path)
        self.assertIn("left out: " + path + "(test_trend.py): byte 0: not a profile of any known format (profiles of jemalloc, ", messages)

    def test_a_damaged_member_costs_nothing_else(self):
        series = [os.path.join(self.folder, name) for name in ("first", "second")]
        damaged = os.path.join(self.folder, "damaged.gz")
        with open(self.paths[0], "rb") as whole, open(damaged, "wb") as file:
            file.write(gzip.compress(whole.read())[:400])
        for path, profiles in zip(series, ((damaged, self.paths[1]), self.paths[2:])):
            with tarfile.open(path, "w") as tar:
                for profile in profiles:
                    tar.add(profile, os.path.basename(profile))
        for order in (series, series[::-1]):
            out, messages = self.heapctl("trend", "--json", *order)
            self.assertIn("left out: ", messages)
            self.assertEqual((json.loads(out)["damaged"], len(json.loads(out)["hours"])), (1, len(self.paths) - 1))
        _, messages = self.heapctl("trend", series[0], code=1)
        self.assertEqual(messages.count("first(damaged.gz): "), 1)
        self.assertIn(f"only {series[0]}(", messages.splitlines()[-1])

    def test_damaged_files_cost_nothing_else(self):
        garbage, empty = (os.path.join(self.folder, name) for name in ("garbage.heap", "empty.heap"))
        for path, text in ((garbage, "garbage\n"), (empty, "")):
            with open(path, "w") as file:
                file.write(text)
        out, messages = self.heapctl("trend", "--json", garbage, *self.paths, empty)
        self.assertEqual(messages.count("left out: "), 2)
        self.assertEqual((json.loads(out)["damaged"], len(json.loads(out)["hours"])), (2, len(self.paths)))
        # Too few are left, or it is a typing error.
        messages = self.heapctl("trend", garbage, self.paths[0], code=1)[1]
        self.assertEqual(messages.count(garbage), 1, messages)
        self.assertIn(f"takes several profiles, and only {self.paths[0]} is whole", messages)
        messages = self.heapctl("trend", empty, code=1)[1]
        self.assertEqual((messages.count("it is empty"), messages.count("\n")), (1, 1), messages)
        self.assertIn("none of the profiles can be read", self.heapctl("trend", empty, garbage, code=1)[1])
        self.assertIn("No such file", self.heapctl("trend", *self.paths, "no-such.heap", code=1)[1])

    def test_a_folder_of_profiles_and_one_of_captures(self):
        folder = os.path.dirname(self.paths[0])
        expected = self.trend(*self.paths)
        self.assertEqual(self.trend(folder), expected)
        # Copied: only captures.jsonl has the times, which are an hour apart, too, and one file is missing.
        captures = os.path.join(self.folder, "captures")
        os.mkdir(captures)
        with open(f"{captures}/captures.jsonl", "w") as catalogue:
            for at, path in enumerate(self.paths):
                name = f"{at + 1:08}-20261121T000000Z-rss1MiB-my-server.4711.heap"
                shutil.copyfile(path, f"{captures}/{name}")
                catalogue.write(json.dumps({"file": name, "time_ms": (1763600000 + at * HOUR) * 1000, "target": "my-server[4711]"}) + "\n")
            catalogue.write(json.dumps({"file": "00009999-removed.heap", "time_ms": 1}) + "\n")
        for operand in (captures, f"{captures}/captures.jsonl"):
            trend = self.trend(operand)
            self.assertEqual(trend["title"], "my-server")
            trend["title"] = expected["title"]
            self.assertEqual(trend, expected)
        # Damaged lines are counted, with the place of the first.
        lines = pathlib.Path(f"{captures}/captures.jsonl").read_text().split("\n")
        for number, damaged in ((2, lines[1][:40]), (4, "[]"), (5, '{"file": "../1.heap"}'), (6, "\0\1")):
            lines[number - 1] = damaged
            pathlib.Path(f"{captures}/captures.jsonl").write_text("\n".join(lines))
            out, said = self.heapctl("trend", "--json", captures)
            count = {2: "line 2 is damaged", 4: "2 lines are damaged, the first is line 2"}.get(number, "lines are damaged, the first is line 2")
            self.assertIn(f"left out: {captures}/captures.jsonl: ", said)
            self.assertIn(count, said)
            self.assertIn(f"heapctl watch --keep {captures} writes the list again", said)
            self.assertEqual((json.loads(out)["damaged"], said.count("captures.jsonl")), ((2, 4, 5, 6).index(number) + 1, 1))
        nothing = os.path.join(self.folder, "nothing")
        os.mkdir(nothing)
        self.assertIn("neither captures of heapctl watch nor profiles", self.heapctl("trend", nothing, code=1)[1])

    def test_numbered_dumps_of_one_time_are_in_the_order_of_their_numbers(self):
        folder = os.path.join(self.folder, "unpacked")
        os.mkdir(folder)
        for number in range(12):
            path = f"{folder}/jeprof.77.{number}.i{number}.heap"
            shutil.copyfile(self.paths[number], path)
            os.utime(path, (HOUR, HOUR))
        out, messages = self.heapctl("trend", "--json", folder)
        self.assertIn("of the same time", messages)
        numbered = [f"{folder}/jeprof.77.{number}.i{number}.heap" for number in range(12)]
        expected = json.loads(out)
        self.assertEqual(expected["sites"], self.trend(*numbered)["sites"])
        # As a shell sorts them.
        out, messages = self.heapctl("trend", "--json", *sorted(numbered))
        self.assertIn("their order is that of their numbers", messages)
        self.assertEqual(json.loads(out)["sites"], expected["sites"])

    def test_what_was_not_counted_is_reported(self):
        out, messages = self.heapctl("trend", "--alloc_space", *self.paths)
        self.assertIn("counts only what is in use", messages)
        self.assertIn("space allocated: not counted\n\nNo site can be tested: the profiles count only what is in use.\n", out)
        self.assertEqual(self.trend("--alloc_space", *self.paths)["total"]["words"], "not counted")

    def test_what_cannot_be_tested_is_not_called_unsuspected(self):
        self.assertIn("\nNo site can be tested: that takes three profiles of one process, or more.\n", self.heapctl("trend", *self.paths[:2])[0])
        self.assertIn("\nNo site can be tested: the profiles have no samples.\n", self.heapctl("trend", "--focus=^nothing$", *self.paths)[0])

    def test_copied_files_are_ordered_by_the_times_in_their_names(self):
        copies = [os.path.join(self.folder, f"trend_heap.77.20261121-{at:02}0000.heap") for at in range(len(self.paths))]
        for source, copy in zip(self.paths, copies):
            shutil.copyfile(source, copy)
        out, messages = self.heapctl("trend", "--json", *copies)
        self.assertIn("the names are used", messages)
        self.assertEqual(json.loads(out)["hours"], list(range(len(copies))))
        # Of a watch the names are numbered, and in universal time.
        watched = [os.path.join(self.folder, f"{at:06}-20261121T{at:02}0000Z-every-trend_heap.heap") for at in range(len(self.paths))]
        for source, copy in zip(self.paths, watched):
            shutil.copyfile(source, copy)
        trend = self.trend(*watched)
        self.assertEqual((trend["first_ms"], trend["hours"]), (1795219200000, list(range(len(copies)))))
        # Files that are as late as each other, by a time zone or a run's length, tell it more exactly.
        for at, copy in enumerate(copies):
            os.utime(copy, (1763600000.25 + at * HOUR,) * 2)
        out, messages = self.heapctl("trend", "--json", *copies)
        self.assertNotIn("the names are used", messages)
        self.assertEqual(json.loads(out)["first_ms"], 1763600000250)

    def test_the_allocators_frames_are_kept_on_request(self):
        self.assertNotIn("malloc", {site["name"] for site in self.trend(*self.paths)["sites"]})
        kept = {site["name"] for site in self.trend("--no-prune", *self.paths)["sites"]}
        self.assertTrue(any("alloc" in name or "prof" in name for name in kept), kept)

    def test_discarded_samples_are_no_other_run_of_the_program(self):
        reset = os.path.join(self.folder, "reset.heap")
        with open(self.paths[-1]) as source, open(reset, "w") as copy:
            # At another interval, which discards them.
            mappings = "\nMAPPED_LIBRARIES:\n"
            copy.write("heap_v2/65536\n  t*: 0: 0 [0: 0]\n" + mappings + source.read().split(mappings)[1])
        last = os.stat(self.paths[-1]).st_mtime
        os.utime(reset, (last + HOUR, last + HOUR))
        out, _ = self.heapctl("trend", *self.paths, reset)
        self.assertIn(", samples discarded 1 time\n", out)
        self.assertNotIn("runs of the program", out)

    def test_one_profile_is_no_trend(self):
        _, messages = self.heapctl("trend", self.paths[0], code=2)
        self.assertIn("several profiles", messages)


class Promises(TrendCase):
    def test_intervals_contain_the_truth_and_only_leaks_are_suspects(self):
        # The long version of this, with its figures, is bench/bench_trend.py.
        replicates, held, false, found = 120, 0, 0, 0
        for paths in self.heaps(replicates, 12, 40960, lg_sample=12):
            trend = self.trend(*paths)
            leak = self.site(trend, "site_leak")
            held += leak["interval95"][0] <= 40960 <= leak["interval95"][1]
            found += leak["is_suspect"]
            false += any(site["is_suspect"] for site in trend["sites"] if site["name"] != "site_leak")
        # Promised are 95% and at most 5%; of leaks of this size 600 of 600 are found, so at least 99%.
        self.assertGreaterEqual(held, fewest(replicates, 0.95))
        self.assertGreaterEqual(found, fewest(replicates, 0.99))
        self.assertLessEqual(false, most(replicates, 0.05))

    def test_a_restart_is_seen(self):
        first, = self.heaps(1, 6, 81920, name="first")
        second, = self.heaps(1, 6, 81920, name="second")
        for at, path in enumerate(second):
            os.utime(path, (1763600000 + (at + 6) * HOUR,) * 2)
        trend = self.trend(*first, *second)
        self.assertEqual(trend["runs"], [0] * 6 + [1] * 6)
        low, high = self.site(trend, "site_leak")["interval95"]
        self.assertGreater(low, 40000)
        self.assertLess(high, 160000)


    def written(self, name, at, objects):
        """Two sites, of which one has always 500 objects; a profile every ten minutes. Nothing in it distinguishes processes."""
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(f"heap_v2/524288\n  t*: {objects + 500}: {(objects + 500) * 65536} [0: 0]\n"
                       f"@ 0x401000\n  t*: {objects}: {objects * 65536} [0: 0]\n@ 0x402000\n  t*: 500: {500 * 65536} [0: 0]\n\n"
                       "MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 08:01 1 /nonexistent/program\n")
        os.utime(path, (1763600000 + 600 * at,) * 2)
        return path

    def test_a_leak_of_each_run_is_found_where_only_the_pids_differ(self):
        paths = [self.written(f"jeprof.{100 + 2 * (at // 20)}.{at % 20}.i{at % 20}.heap", at, 20 * (at % 20)) for at in range(60)]
        trend = self.trend(*paths)
        self.assertEqual(trend["runs"], [at // 20 for at in range(60)])
        leak = self.site(trend, "[program]+0xfff")
        self.assertEqual((leak["kind"], leak["is_suspect"]), ("steady", True))
        self.assertRegex(leak["words"], r"grew within runs in 57 of 57 intervals$")
        self.assertIn("3 runs of the program", self.heapctl("trend", *paths)[0])

    def test_a_file_is_used_once(self):
        paths = [self.written(f"{at}.heap", at, 20 * at) for at in range(6)]
        link = os.path.join(self.folder, "link.heap")
        os.symlink(paths[3], link)
        expected = self.trend(*paths)
        out, messages = self.heapctl("trend", "--json", *paths, paths[2], link)
        self.assertEqual(json.loads(out), expected)
        self.assertIn(f"{paths[2]} is given twice: it is used once", messages)
        self.assertIn(f"{link} is given twice: it is used once", messages)
        self.assertEqual(json.loads(self.heapctl("trend", "--json", *paths, *paths)[0]), expected)

    def test_a_count_below_zero_is_damage(self):
        paths = [self.written(f"{at}.heap", at, 20 * at) for at in range(6)]
        with open(paths[3]) as file:
            text = file.read().replace("t*: 500:", "t*: 18446744073709551615:")
        with open(paths[3], "w") as file:
            file.write(text)
        out, messages = self.heapctl("trend", *paths)
        self.assertRegex(messages, r"left out: \S+3\.heap: byte \d+: a count that no process reaches: damaged")
        self.assertIn("1 damaged and left out", out)

    def test_a_rise_that_may_be_a_step_is_undecided(self):
        site = self.site(self.trend(*[self.written(f"{at}.heap", at, 87 if at < 19 else 273) for at in range(20)]), "[program]+0xfff")
        self.assertIn("one step of", site["words"])
        self.assertNotEqual(site["kind"], "none")
        self.assertFalse(site["is_suspect"])

    def test_two_processes_at_once_are_no_trend(self):
        first, = self.heaps(1, 6, 81920, name="first")
        second, = self.heaps(1, 6, 81920, name="second")
        for at, path in enumerate(second):
            os.utime(path, (1763600000 + (at + 0.5) * HOUR,) * 2)
        _, messages = self.heapctl("trend", *first, *second, code=2)
        self.assertRegex(messages, r"first/0-0000\.heap and \S+first/0-0001\.heap are of one process, "
                                   r"\S+second/0-0000\.heap between them is of another")

    def test_another_program_is_reported(self):
        first, = self.heaps(1, 3, 81920, name="first")
        second, = self.heaps(1, 3, 81920, name="second")
        for at, path in enumerate(second):
            with open(path, "r+") as file:
                text = file.read().replace("/trend_heap", "/other_heap")
                file.seek(0)
                file.write(text)
                file.truncate()
            os.utime(path, (1763600000 + (at + 3) * HOUR,) * 2)
        _, messages = self.heapctl("trend", *first, *second)
        self.assertRegex(messages, r"0-0000\.heap is of trend_heap, \S+0-0000\.heap of other_heap")
        _, messages = self.heapctl("trend", *first)
        self.assertNotIn("growth from one program", messages)


class Live(TrendCase):
    def test_three_seeded_leaks_are_distinguished(self):
        # For minutes, sampled, and beside real servers, this is bench/bench_insight.py. Here time passes by order and every allocation is
        # sampled, so that the figures are the same each time.
        slow, profiles, begin_s, steps = 60000, 40, 1763600000, 10
        server = self.start(BUILD / "tests/integration/seeded_leaks", slow, 1 << 20, 1500, 65536, "stepped", stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE,
                            env=dict(LD_PRELOAD=f"{jemalloc_path()}:{AGENT}", MALLOC_CONF="prof:true,prof_active:true,lg_prof_sample:0"))
        self.wait_for_agent(server.pid)
        paths = [os.path.join(self.folder, f"{at:02}.heap") for at in range(profiles)]
        for at, path in enumerate(paths):
            requests = b"rr" if profiles // 2 <= at < profiles // 2 + 4 else b""
            server.stdin.write(requests + b"t" * steps + b"?")
            server.stdin.flush()
            self.assertEqual(server.stdout.readline(), b"done\n")
            self.heapctl("dump", server.pid, "-o", path)
            os.utime(path, (begin_s + at * 0.02 * steps,) * 2)
        trend = self.trend(*paths)
        self.assertTrue(trend["has_times"])
        self.assertEqual([site["name"] for site in trend["sites"] if site["is_suspect"]], ["leak_slowly"])
        low, high = self.site(trend, "leak_slowly")["interval95"]
        self.assertLessEqual(low, slow * HOUR * 1.01)
        self.assertGreaterEqual(high, slow * HOUR * 0.99)
        self.assertEqual(self.site(trend, "fill_queue")["kind"], "cycle")
        self.assertAlmostEqual(self.site(trend, "fill_queue")["period_hours"] * HOUR, 1.5, delta=0.3)
        load = self.site(trend, "serve_request")
        self.assertEqual(load["kind"], "jump")
        self.assertAlmostEqual(load["jump"], 8 * 65536, delta=65536)
        out, _ = self.heapctl("trend", *paths)
        self.assertRegex(out, r"serve_request: (one step of \+|rose by )[0-9.]+ KiB (within|from) [0-9.]+ s")

    def test_the_kept_runs_of_a_target(self):
        server, port = self.start_redis(conf="prof:true,prof_active:false,lg_prof_sample:12")
        self.wait_for_agent(server.pid)
        _, messages = self.heapctl("trend", server.pid, code=1)
        self.assertIn("keeps no finished run", messages)
        # Beside files a target is a profile of now.
        path = os.path.join(self.folder, "before.heap")
        self.heapctl("dump", server.pid, "-o", path)
        out, messages = self.heapctl("trend", "--json", path, server.pid)
        self.assertTrue(json.loads(out)["has_times"], messages)
        for count in (2000, 4000, 6000):
            self.heapctl("start", server.pid, "--duration", "60s")
            self.load_redis(port, count)
            self.heapctl("stop", server.pid)
        trend = self.trend("--cum", server.pid)
        self.assertEqual(len(trend["hours"]), 4)
        self.assertTrue(trend["has_times"])
        self.assertGreater(trend["total"]["values"][2], trend["total"]["values"][0])


class Deployed(DeployedCase):
    def test_onset_steps_and_a_leak_below_a_cycle(self):
        # With an onset after ten minutes this is bench/bench_deployed.py.
        self.follow(every=1, profiles=30)
        self.assertRegex(self.text, r"new_version: grows since [0-9.]+ s after the start.*: \+[0-9.]+ ± [0-9.]+ [KMG]iB/h, still growing")
        self.assertRegex(self.text, r"load_plugin: two steps of \+\S+ \w+ and \+\S+ \w+, \S+ s and \S+ s after the start")
        self.assertRegex(self.text, r"chance < 0\.01 %")
        self.assertIn('class="onset leak"', self.page)
        self.assertIn('class="fit"', self.page)


if __name__ == "__main__":
    unittest.main()
