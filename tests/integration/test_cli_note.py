# SPDX-License-Identifier: Apache-2.0
"""heapctl note: through the gateway, and in the folder of its history."""
import json
import os
import pathlib
import subprocess
import time
import unittest

from gateway import GatewayCase
from processes import HEAPCTL, own_name, wait_until

NAME = own_name("noted")


class Noted(GatewayCase):
    def setUp(self):
        super().setUp()
        self.archive = os.path.join(self.folder, "history")
        self.server, self.redis_port = self.start_named_redis(NAME)
        self.serve()

    def serve(self):
        self.gateway = self.start_gateway("--history", self.archive, "--history-every", "1s", NAME)
        wait_until(lambda: len(self.timeline()["snapshots"]) >= 2, "two snapshots")

    def timeline(self, query=""):
        return self.expect(self.get(f"/targets/{NAME}/api/v1/timeline{query}"), 200).json

    def note(self, *arguments, code=0):
        return self.heapctl("note", *arguments, code=code)

    def listed(self, *arguments):
        return [(note["id"], note["text"]) for note in json.loads(self.note(NAME, "--list", "--json", *arguments)[0])["notes"]]

    def test_notes_are_written_listed_and_removed_through_the_gateway(self):
        at = ("--gateway", self.url)
        before = int(time.time() * 1000)
        first = int(self.note(NAME, "v7.3 rollout & \"more\"", *at)[0])
        # By pid, by URL, and of an earlier time.
        second = int(self.note(str(self.server.pid), "déployé", *at)[0])
        said, messages = self.note(f"{self.url}/targets/{NAME}", "yesterday's", "--at", "1days")
        self.assertIn(f"{NAME}: noted at", messages)
        third = int(said)
        self.assertEqual(self.listed(*at), [(third, "yesterday's"), (first, "v7.3 rollout & \"more\""), (second, "déployé")])
        self.assertRegex(self.note(NAME, *at)[0], rf"ID +TIME +NOTE\n *{third} .*yesterday's\n")
        # In the timeline, within its range.
        notes = self.timeline(f"?from_ms={before}")["notes"]
        self.assertEqual([(note["id"], note["target"]) for note in notes], [(first, NAME), (second, NAME)])
        self.assertGreaterEqual(notes[0]["time_ms"], before)
        self.note(NAME, "--remove", str(first), *at)
        self.assertEqual([number for number, _ in self.listed(*at)], [third, second])
        self.assertIn(f"{NAME} has no note {first}", self.note(NAME, "--remove", str(first), *at, code=1)[1])

    def test_notes_are_written_into_the_folder_beside_the_gateway_and_without_it(self):
        there = ("--history", self.archive)
        first = int(self.note(NAME, "beside the gateway", *there)[0])
        self.assertEqual([note["id"] for note in self.timeline()["notes"]], [first])
        self.gateway.kill()
        self.gateway.wait()
        second = int(self.note(NAME, "after kill -9 of it", *there)[0])
        self.assertEqual([number for number, _ in self.listed(*there)], [first, second])
        self.serve()
        self.assertEqual([note["id"] for note in self.timeline()["notes"]], [first, second])

    def test_writers_at_the_same_time_and_killed_ones_lose_no_note_that_was_confirmed(self):
        writers = [self.start(HEAPCTL, "note", "--history", self.archive, NAME, f"note {i}", stdout=subprocess.PIPE) for i in range(8)]
        for i in range(4):
            through = self.heapctl("note", NAME, f"through {i}", "--gateway", self.url)[0]
            self.assertRegex(through, r"^\d+\n$")
        for writer in writers[6:]:
            writer.kill()
        confirmed = {writer.communicate()[0].decode().strip() for writer in writers} - {""}
        kept = {str(number) for number, _ in self.listed("--history", self.archive)}
        self.assertLessEqual(confirmed, kept)
        self.assertGreaterEqual(len(kept), 10)
        # The recorder goes on.
        known = len(self.timeline()["snapshots"])
        wait_until(lambda: len(self.timeline()["snapshots"]) > known, "another snapshot")

    def test_a_trend_has_the_notes_of_its_time(self):
        wait_until(lambda: len(self.timeline()["snapshots"]) >= 2, "two snapshots")
        self.note(NAME, "<b>v7.3</b> rollout", "--gateway", self.url)
        self.note(NAME, "long before", "--gateway", self.url, "--at", "2days")
        noted = self.timeline()["notes"][-1]
        wait_until(lambda: self.timeline()["snapshots"][-1]["time_ms"] > noted["time_ms"], "a snapshot after the note")
        base = f"/targets/{NAME}/api/v1/trend"
        until = f"to_ms={self.timeline()['snapshots'][-1]['time_ms']}"
        trend = self.expect(self.get(f"{base}?{until}"), 200).json
        self.assertEqual([(note["time_ms"], note["text"]) for note in trend["notes"]], [(noted["time_ms"], "<b>v7.3</b> rollout")])
        self.assertAlmostEqual(trend["notes"][0]["hours"], (noted["time_ms"] - trend["first_ms"]) / 3600000, places=6)
        self.assertRegex(self.get(f"{base}?{until}&format=text").text, r"\nnote: [\d-]*T?[ \d:-]+ <b>v7.3</b> rollout\n")
        for drawn in ("svg", "html"):
            text = self.get(f"{base}?{until}&format={drawn}").text
            self.assertIn("note: &lt;b&gt;v7.3&lt;/b&gt; rollout", text)
            self.assertIn("class=\"note\"", text)
        # The same on another machine, and without a file in between.
        series = pathlib.Path(self.folder, "series.tar")
        series.write_bytes(self.expect(self.get(f"{base}?{until}&format=raw"), 200).body)
        self.assertEqual(json.loads(self.heapctl("trend", "--json", str(series))[0])["notes"], trend["notes"])
        self.assertIn("rollout", self.heapctl("trend", f"{self.url}/targets/{NAME}")[0])
        # A render is not taken from before the note was removed.
        self.note(NAME, "--remove", str(noted["id"]), "--gateway", self.url)
        self.assertEqual(self.get(f"{base}?{until}").json["notes"], [])

    def test_what_cannot_be_noted_is_refused_with_the_reason(self):
        at = ("--gateway", self.url)
        for arguments, code, words in (
                ((NAME, "x" * 201, *at), 2, "a note of 201 bytes is too long (write at most 200)"),
                ((NAME, "two\nlines", *at), 2, "control characters"),
                ((NAME, " ", *at), 2, "the text of a note is empty (write what happened)"),
                (("", "text", *at), 2, "the target is empty"),
                (("nosuch", "text", *at), 1, "there is no history of nosuch"),
                (("nosuch", "text", "--history", self.archive), 1, "there is no history of nosuch"),
                ((NAME, "text", "--history", self.folder), 1, "has no index"),
                ((NAME, "text", "--list", *at), 2, "--list and --remove take no TEXT"),
                ((NAME, "--list", "--remove", "1", *at), 2, "choose one of --list and --remove"),
                ((NAME, "text", "--at", "noon", *at), 2, "is no time"),
                ((NAME, "text", "--at", "2026-02-30", *at), 2, "is no time"),
                ((NAME, "text", "--at", "2050-01-01", *at), 2, "the time of the note is in the future (write it when it has happened"),
                ((NAME, "text", "--at", "2050-01-01", "--history", self.archive), 2, "the time of the note is in the future"),
                ((NAME, "text", "--at", "2026-02-30T10:00", *at), 2, "is no time"),
                ((NAME, "--at", "1hrs", *at), 2, "--at goes with a TEXT"),
                ((NAME, "text", *at, "--history", self.archive), 2, "choose one of --gateway and --history"),
                ((f"{self.url}/targets/{NAME}", "text", *at), 2, "a URL as TARGET names the gateway already"),
                ((NAME, "text", "--gateway", f"{self.url}/targets/{NAME}"), 2, "write it without /targets/NAME"),
                ((NAME, "text", "--gateway", "localhost"), 2, "invalid value for --gateway")):
            with self.subTest(arguments):
                self.assertIn(words, self.note(*arguments, code=code)[1])
        self.assertEqual(self.listed(*at), [])
        self.expect(self.post(f"/targets/{NAME}/api/v1/notes"), 400)
        self.expect(self.get(f"/targets/{NAME}/api/v1/notes/1/remove"), 405)

    def test_a_gateway_without_a_history_says_so(self):
        self.end(self.gateway)
        self.start_gateway(NAME)
        self.assertIn("this gateway has no history", self.note(NAME, "text", "--gateway", self.url, code=1)[1])


if __name__ == "__main__":
    unittest.main()
