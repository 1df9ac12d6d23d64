# SPDX-License-Identifier: Apache-2.0
"""The folder of profiles: what was acknowledged survives kill -9 and a full disk."""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

from processes import BUILD, PATIENCE_SECONDS, SANITIZED, Case, need
from store_files import profiles, rows

WRITER = str(BUILD / "tests/integration/store_writer")
DYING_DISK = str(BUILD / "tests/integration/dying_disk.so")
OLD_STORES = pathlib.Path(__file__).parent.parent / "golden/old_stores"
SEED = 20260101


class StoreCase(Case):
    use = "history"

    def setUp(self):
        super().setUp()
        self.archive = os.path.join(self.folder, "history")
        self.zstd = need("zstd")

    def write(self, count, size=2000, *more, env=None):
        return subprocess.run([WRITER, self.archive, str(count), str(size), *map(str, more)], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, STORE_USE=self.use, **(env or {})))

    def use_memory(self):
        """Puts the folder into memory, where its writes do not wait for a disk. What a killed process has written is kept there as well."""
        with contextlib.suppress(OSError):
            if os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize > 32 << 20:
                folder = tempfile.TemporaryDirectory(prefix="hc-", dir="/dev/shm")
                self.addCleanup(folder.cleanup)
                self.archive = os.path.join(folder.name, "history")

    def tiny_disk(self):
        os.mkdir(self.archive, 0o700)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", self.archive], check=False, capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", self.archive], check=True)

    def fill_up(self):
        """The disk has no free byte."""
        with open(os.path.join(self.archive, "ballast"), "ab", buffering=0) as ballast:
            size = 65536
            while size:
                try:
                    ballast.write(b"x" * size)
                except OSError:
                    size //= 2

    def targets(self):
        return [row[3] for row in rows(self.archive)]

    def content(self, name):
        if self.use == "captures":
            return pathlib.Path(self.archive, name).read_bytes()
        return subprocess.run([self.zstd, "-dcq", os.path.join(self.archive, name)], capture_output=True, check=True).stdout

    def check(self, acknowledged):
        """Opens the archive as the next gateway would, then compares index, folder and what was promised."""
        opened = self.write(0)
        self.assertEqual(opened.returncode, 0, opened.stderr)
        kept = {str(row[0]): row for row in rows(self.archive)}
        self.assertEqual(profiles(self.archive), sorted(row[1] for row in kept.values()))
        for identity, number in acknowledged.items():
            self.assertIn(identity, kept)
            self.assertIn(f"\n{number}\n".encode(), self.content(kept[identity][1])[:60])


class Kills(StoreCase):
    def test_a_kill_at_any_moment_loses_nothing_acknowledged(self):
        chance = random.Random(SEED)
        acknowledged = {}
        with_leftovers = rounds = 0
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        # The moment of the kill is random: it is repeated until one hits a snapshot that is being stored.
        while rounds < 60 or (with_leftovers <= 5 and time.monotonic() < deadline):
            rounds += 1
            process = subprocess.Popen([WRITER, self.archive, "100000", "2000"], stdout=subprocess.PIPE, text=True,
                                       env=dict(os.environ, STORE_USE=self.use))
            try:
                lines = [process.stdout.readline()]
                # not a wait for something: the point at which it is killed
                try:
                    process.wait(chance.uniform(0, 0.03))
                except subprocess.TimeoutExpired:
                    pass
            finally:
                process.kill()
            lines += process.stdout.readlines()
            process.stdout.close()
            self.assertEqual(process.wait(), -signal.SIGKILL)
            new = dict(line.split() for line in lines if line.endswith("\n"))
            self.assertGreater(len(new), 0)
            acknowledged = {**acknowledged, **new}
            with sqlite3.connect(os.path.join(self.archive, "index.sqlite")) as index:
                indexed = index.execute("SELECT count(*) FROM snapshot").fetchone()[0]
            index.close()
            with_leftovers += len(profiles(self.archive)) != indexed
            self.check(new)
        self.check(acknowledged)
        self.assertGreater(with_leftovers, 5, "the kills never struck while a snapshot was being kept")

    def test_a_kill_at_every_write_loses_nothing_acknowledged(self):
        """The process is killed at each call that changes a file: before it, in its middle, or one byte before its end."""
        if SANITIZED:
            self.skipTest("a sanitizer wants to be preloaded first")
        self.use_memory()
        count = os.path.join(self.folder, "count")
        before = f"{self.archive}.before"
        # What the kills find: a few snapshots, and what an earlier kill left.
        self.assertEqual(self.write(5).returncode, 0)
        killed = self.write(5, 2000, env=dict(LD_PRELOAD=DYING_DISK, DYING_AT="19", DYING_PART="2"))
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        os.rename(self.archive, before)
        known = rows(before)
        # What the kill left is listed as well: it may be the third that is new.
        new = 2 + len([name for name in profiles(before) if name.endswith((".heap", ".zst"))]) - len(known)
        # Room for about as many as there are: each new one costs an old one.
        limit = sum(row[2] for row in known) + 100
        shutil.copytree(before, self.archive)
        whole = self.write(2, 2000, limit, env=dict(LD_PRELOAD=DYING_DISK, DYING_COUNT=count))
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.check(dict(line.split() for line in whole.stdout.splitlines()))
        self.assertLess(len(rows(self.archive)), len(known) + new)
        calls = int(pathlib.Path(count).read_text())
        self.assertGreater(calls, 20)
        for at in range(1, calls + 1):
            for part in range(6):
                with self.subTest(at=at, part=part):
                    shutil.rmtree(self.archive)
                    shutil.copytree(before, self.archive)
                    killed = self.write(2, 2000, limit, env=dict(LD_PRELOAD=DYING_DISK, DYING_AT=str(at), DYING_PART=str(part)))
                    self.assertEqual(killed.returncode, -signal.SIGKILL)
                    self.check(dict(line.split() for line in killed.stdout.splitlines()))
                    # As many of the old ones as there are new ones, at most.
                    left = rows(self.archive)
                    self.assertEqual([row for row in left if row in known], known[-len([row for row in left if row in known]):])
                    self.assertGreaterEqual(len([row for row in left if row in known]), len(known) - new)


class KillsOfCaptures(Kills):
    """The captures of heapctl watch have the same guarantees."""
    use = "captures"


class OldStores(StoreCase):
    """Folders that heapctl 0.1.0 wrote before both uses had one store (tests/golden/old_stores), taken over at the first start."""

    def take(self, use):
        self.use = use
        shutil.rmtree(self.archive, ignore_errors=True)
        shutil.copytree(OLD_STORES / use, self.archive)
        os.chmod(self.archive, 0o700)
        script = pathlib.Path(self.archive, "index.sql")
        if script.exists():
            with sqlite3.connect(os.path.join(self.archive, "index.sqlite")) as index:
                index.executescript(script.read_text())
            index.close()
            script.unlink()

    def columns(self, names):
        with sqlite3.connect(os.path.join(self.archive, "index.sqlite")) as index:
            found = index.execute(f"SELECT {names} FROM snapshot ORDER BY id").fetchall()
        index.close()
        return found

    def check_taken(self):
        self.assertEqual(self.write(0).returncode, 0)
        self.assertEqual([row[:2] for row in rows(self.archive)], list(enumerate(profiles(self.archive), 1)))
        self.assertEqual(len(rows(self.archive)), 3)
        if self.use == "captures":
            self.assertEqual(self.columns("time_ms, target, pid, reason, rss"), [
                (time_ms, "python3", 19962, "every=1s", 25268224) for time_ms in (1795378127253, 1795378128261, 1795378129278)])
            self.assertEqual(pathlib.Path(self.archive, "captures.jsonl").read_text(), (OLD_STORES / "captures/captures.jsonl").read_text())
        else:
            self.assertEqual(self.columns("time_ms, target, pid, started_ms, owner, gateway_ms, allocated, rss, sent_ms"), [
                (time_ms, "python3", 19962, 1, 0, 1795378129344, 1, rss, 0)
                for time_ms, rss in ((1795378129362, 25870336), (1795378130363, 25874432), (1795378131364, 25874432))])

    def test_what_they_have_is_kept_and_continues(self):
        for use in ("history", "captures"):
            with self.subTest(use=use):
                self.take(use)
                self.check_taken()
                self.assertEqual(self.write(1).returncode, 0)
                self.assertEqual([row[0] for row in rows(self.archive)], [1, 2, 3, 4])

    def test_an_index_that_lacks_columns_gets_them(self):
        self.take("history")
        with sqlite3.connect(os.path.join(self.archive, "index.sqlite"), isolation_level=None) as index:
            index.execute("ALTER TABLE moment DROP COLUMN reason")
            index.execute("ALTER TABLE moment DROP COLUMN gateway_ms")
        index.close()
        self.assertEqual(self.write(1).returncode, 0)
        self.assertEqual(self.columns("id, reason"), [(1, ""), (2, ""), (3, ""), (4, "")])

    def test_a_kill_while_they_are_taken_over_loses_nothing(self):
        if SANITIZED:
            self.skipTest("a sanitizer wants to be preloaded first")
        self.use_memory()
        count = os.path.join(self.folder, "count")
        for use in ("history", "captures"):
            self.take(use)
            self.assertEqual(self.write(0, env=dict(LD_PRELOAD=DYING_DISK, DYING_COUNT=count)).returncode, 0)
            for at in range(1, int(pathlib.Path(count).read_text()) + 1):
                for part in (0, 2, 5):
                    with self.subTest(use=use, at=at, part=part):
                        self.take(use)
                        killed = self.write(0, env=dict(LD_PRELOAD=DYING_DISK, DYING_AT=str(at), DYING_PART=str(part)))
                        self.assertEqual(killed.returncode, -signal.SIGKILL)
                        self.check_taken()

    def test_a_damaged_list_of_captures_costs_its_words_only(self):
        self.take("captures")
        first, second, third = pathlib.Path(self.archive, "captures.jsonl").read_text().splitlines()
        pathlib.Path(self.archive, "captures.jsonl").write_bytes(
            (first[:50] + "\n" + second + "\n\0\xff{\n[]\n" + third.replace("every=1s", "x" * 500)).encode("latin-1"))
        self.assertEqual(self.write(0).returncode, 0)
        self.assertEqual(self.columns("id, pid, reason"), [(1, 19962, "not known"), (2, 19962, "every=1s"), (3, 19962, "x" * 127)])


class Store(StoreCase):
    def test_a_full_disk_frees_what_is_above_the_limits(self):
        self.tiny_disk()
        self.assertEqual(self.write(1, 30000, 10**9, 0, "other").returncode, 0)
        self.assertEqual(self.write(1000, 30000).returncode, 1)
        self.fill_up()
        held = rows(self.archive)
        self.assertGreater(len(held), 10)
        # Without lower limits it stays full, and nothing is lost.
        self.assertEqual(self.write(1, 30000).returncode, 1)
        self.assertEqual(rows(self.archive), held)
        # Lower limits, as after a restart with another --history-bytes: the oldest of those above them go, then it works.
        limit = sum(row[2] for row in held) * 2 // 3
        more = self.write(1, 30000, limit)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.check(dict(line.split() for line in more.stdout.splitlines()))
        left = rows(self.archive)
        self.assertLess(len(left), len(held))
        self.assertLessEqual(sum(row[2] for row in left), limit)
        # The only snapshot of the other target stayed, though it is the oldest.
        self.assertEqual(left[0], held[0])
        self.assertEqual(left[1:-1], held[-len(left) + 2:])

    def test_a_disk_that_another_process_has_just_filled_is_tried_again(self):
        if SANITIZED:
            self.skipTest("a sanitizer wants to be preloaded first")
        full = dict(LD_PRELOAD=DYING_DISK, DYING_FULL="1")
        self.assertEqual(self.write(6).returncode, 0)
        held = rows(self.archive)
        # Nothing is above the limits, so nothing can be done.
        failed = self.write(1, env=full)
        self.assertEqual((failed.returncode, rows(self.archive)), (1, held))
        self.assertIn("No space left on device", failed.stderr)
        limit = sum(row[2] for row in held) // 2
        more = self.write(1, 2000, limit, env=full)
        self.assertEqual(more.returncode, 0, more.stderr)
        self.check(dict(line.split() for line in more.stdout.splitlines()))
        self.assertLessEqual(sum(row[2] for row in rows(self.archive)), limit)

    def test_the_last_snapshot_of_a_target_is_not_removed_for_one_that_fails(self):
        self.tiny_disk()
        for target in ("one", "two", "three"):
            self.assertEqual(self.write(1, 30000, 10**9, 0, target).returncode, 0)
        self.fill_up()
        failed = self.write(1, 30000, 1, 0, "four")
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, "No space left on device|disk is full")
        self.check({})
        self.assertEqual(self.targets(), ["one", "two", "three"])

    def test_a_store_that_a_full_disk_prevents_says_what_to_do(self):
        self.tiny_disk()
        self.fill_up()
        failed = self.write(1)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("index.sqlite: No space left on device (make room", failed.stderr)

    def test_the_minimum_free_space_is_kept(self):
        self.tiny_disk()
        floor = 300000
        written = self.write(100, 30000, 10**9, floor)
        self.assertEqual(written.returncode, 0, written.stderr)
        room = os.statvfs(self.archive)
        self.assertGreaterEqual(room.f_bavail * room.f_frsize, floor)
        left = rows(self.archive)
        self.assertGreater(len(left), 5)
        self.assertEqual([row[0] for row in left], list(range(100 - len(left) + 1, 101)))
        # Another program fills it: no snapshot is removed where that does not help.
        self.fill_up()
        refused = self.write(1, 30000, 10**9, 10**9)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("would stay free on its disk", refused.stderr)
        self.assertEqual(rows(self.archive), left)

    def test_rows_without_a_profile_are_removed(self):
        self.assertEqual(self.write(3).returncode, 0)
        first = rows(self.archive)[0]
        os.unlink(os.path.join(self.archive, first[1]))
        self.check({})
        self.assertEqual(len(rows(self.archive)), 2)

    def test_a_full_disk_costs_the_new_snapshot_only(self):
        self.tiny_disk()
        filled = self.write(1000, 50000)
        self.assertEqual(filled.returncode, 1)
        self.assertRegex(filled.stderr, "No space left on device|disk is full")
        acknowledged = dict(line.split() for line in filled.stdout.splitlines())
        self.assertGreater(len(acknowledged), 5)
        self.check(acknowledged)
        # There is room again: snapshots continue, and none is missing.
        first = min(rows(self.archive))
        with sqlite3.connect(os.path.join(self.archive, "index.sqlite"), isolation_level=None) as index:
            index.execute("DELETE FROM snapshot WHERE id = ?", first[:1])
        index.close()
        del acknowledged[str(first[0])]
        more = self.write(1, 20000)
        self.assertEqual(more.returncode, 0, more.stderr)
        acknowledged.update(line.split() for line in more.stdout.splitlines())
        self.check(acknowledged)

    def test_files_of_others_are_left_alone(self):
        self.write(1)
        other = pathlib.Path(self.archive, "mine.heap.zst")
        other.write_text("x")
        unfinished = pathlib.Path(self.archive, "1000000000000-1-writer.heap.zst.0123456789abcdef")
        unfinished.write_text("half")
        self.assertEqual(self.write(0).returncode, 0)
        self.assertTrue(other.exists())
        self.assertFalse(unfinished.exists())

    def test_a_damaged_index_is_reported(self):
        os.mkdir(self.archive)
        pathlib.Path(self.archive, "index.sqlite").write_bytes(b"no database at all" * 100)
        refused = self.write(0)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("index.sqlite: file is not a database", refused.stderr)

    def test_a_lost_index_loses_no_profile(self):
        """By mistake, or because it was damaged."""
        self.assertEqual(self.write(3, 2000, 10**9, 0, "one-2").returncode, 0)
        self.assertEqual(self.write(2, 2000, 10**9, 0, "two").returncode, 0)
        known = rows(self.archive)
        for path in pathlib.Path(self.archive).glob("index.sqlite*"):
            path.unlink()
        unfinished = pathlib.Path(self.archive, known[0][1] + ".0123456789abcdef")
        unfinished.write_text("half")
        more = self.write(1, 2000, 10**9, 0, "two")
        self.assertEqual(more.returncode, 0, more.stderr)
        left = rows(self.archive)
        # Number, file, bytes, name, pid and time.
        self.assertEqual(left[:-1], known)
        self.assertFalse(unfinished.exists())
        self.check(dict(line.split() for line in more.stdout.splitlines()))

    def test_a_disk_that_can_only_be_read_is_reported(self):
        self.tiny_disk()
        self.assertEqual(self.write(1).returncode, 0)
        subprocess.run(["mount", "-o", "remount,ro", self.archive], check=True)
        refused = self.write(0)
        self.assertEqual((refused.returncode, refused.stderr), (1, f"{self.archive}: Read-only file system (use a folder on a disk to which this user may write)\n"))


if __name__ == "__main__":
    unittest.main()
