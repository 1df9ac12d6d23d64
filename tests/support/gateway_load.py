# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, each asking for one thing after the other, all routes mixed."""
import asyncio
import collections
import itertools
import re
import time


class Load:
    def __init__(self, port, requests, clients, seconds, is_enough=lambda load: True, most_seconds=120):
        """Runs until `is_enough`, at least this long."""
        self.is_enough, self.last = is_enough, time.monotonic() + most_seconds
        self.port = port
        self.requests = requests
        self.clients = clients
        self.deadline = time.monotonic() + seconds
        self.statuses = collections.Counter()
        self.reasons = collections.defaultdict(collections.Counter)  # of what was refused: (method, path, status) -> words
        self.problems = []
        self.succeeded = set()
        self.slowest_seconds = collections.defaultdict(float)

    def run(self):
        asyncio.run(self.run_all())
        return self

    async def run_all(self):
        await asyncio.gather(*(self.client(number) for number in range(self.clients)))

    async def client(self, number):
        order = itertools.cycle(self.requests[number % len(self.requests):] + self.requests[:number % len(self.requests)])
        while time.monotonic() < self.deadline or (time.monotonic() < self.last and not self.is_enough(self)):
            method, path = next(order)
            started = time.monotonic()
            try:
                status, body = await asyncio.wait_for(self.ask(method, path), 120)
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError) as problem:
                self.problems.append(f"{method} {path}: {problem!r}")
                continue
            self.statuses[method, path, status] += 1
            if status < 300:
                self.succeeded.add(path)
            if status >= 400:
                self.reasons[method, path, status][body.decode(errors="replace")] += 1
            self.slowest_seconds[path] = max(self.slowest_seconds[path], time.monotonic() - started)

    async def ask(self, method, path):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(re.search(r"(?i)content-length: (\d+)", head).group(1))
            body = await reader.readexactly(length)
            return int(head.split()[1]), body
        finally:
            writer.close()
