# SPDX-License-Identifier: Apache-2.0
"""A gateway for integration tests, and a fake agent that hangs, ends or answers wrongly."""
import http.client
import json
import os
import re
import socket
import threading

from processes import HEAPCTL, PATIENCE_SECONDS, Case, UnixConnection, free_port, wait_until


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def exchange(connection, path, method="GET", headers=None, body=None):
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


class GatewayCase(Case):
    """A test with a gateway in front of targets that it starts."""

    def start_gateway(self, *arguments, env=None, listen=None, **options):
        """Starts heapctl serve on a free port; self.port and self.url lead to it."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        return self.start(HEAPCTL, "serve", "--listen", listen or f"127.0.0.1:{self.port}", *arguments,
                          env=env, wait_for=None if listen else self.is_serving, **options)

    def is_serving(self):
        try:
            return self.get("/openapi.json", timeout=5).status == 200
        except OSError:
            return False

    def ask(self, path, method="GET", headers=None, body=None, timeout=PATIENCE_SECONDS):
        return exchange(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout), path, method, headers, body)

    def get(self, path, headers=None, timeout=PATIENCE_SECONDS):
        return self.ask(path, headers=headers, timeout=timeout)

    def post(self, path, headers=None, body=None):
        return self.ask(path, "POST", headers, body)

    def ask_unix(self, socket_path, path, method="GET", headers=None):
        return exchange(UnixConnection(socket_path), path, method, headers)

    def expect(self, answer, status):
        self.assertEqual(answer.status, status, answer)
        return answer

    def make_run(self, port, prefix="", keys=20000):
        """A finished run of a Redis that was filled meanwhile; returns its id."""
        run = self.expect(self.post(prefix + "/v1/runs?duration_ms=60000"), 201).json
        self.load_redis(port, keys=keys, size=500)
        return self.expect(self.post(prefix + "/v1/runs/stop"), 200).json["id"]


class FakeAgent:
    """Listens where this very process' agent would, so that the gateway takes it for a target.

    `answers` is called with (method, target) and returns (status, body), the bytes of an answer, or None, which leaves the client waiting; a bytearray is
    the beginning of an answer, whose rest is waited for.
    """

    def __init__(self, folder, answers, pid=None):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(folder, f"{pid or os.getpid()}.sock")
        self.answers = answers
        self.requests = []
        self.waiting = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o600)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                connection.close()
                return
            data += piece
        method, target = re.match(rb"(\S+) (\S+)", data).groups()
        self.requests.append((method.decode(), target.decode()))
        answer = self.answers(method.decode(), target.decode())
        if answer is None or isinstance(answer, bytearray):
            connection.sendall(answer or b"")
            self.waiting.append(connection)
            return
        if isinstance(answer, bytes):
            connection.sendall(answer)
            connection.close()
            return
        status, body = answer
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        kind = b"application/x-jemalloc-heap-profile" if body.startswith(b"heap_v2") else b"application/json"
        try:
            connection.sendall(b"HTTP/1.1 %d Answer\r\nContent-Type: %s\r\nContent-Length: %d\r\nHeapctl-Protocol: 1\r\n"
                               b"Connection: close\r\n\r\n%s" % (status, kind, len(body), body))
        except OSError:
            pass
        connection.close()

    def close(self):
        self.listener.close()
        for connection in self.waiting:
            connection.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


def fake_status(name="fake", **changes):
    """The status of an agent without faults."""
    status = {
        "protocol": 1, "agent_version": "0.1.0", "pid": os.getpid(), "name": name, "exe": "/usr/bin/fake", "uid": os.getuid(),
        "started_ms": 1,
        "allocator": {"name": "jemalloc", "version": "5.3.0", "symbol": "mallctl", "where": "/x", "owns_malloc": True},
        "profiling": {"compiled_in": True, "enabled": True, "active": False, "thread_active_init": True, "lg_sample": 19,
                      "sample_interval": 524288, "available": True, "reason": "", "hint": ""},
        "memory": {"allocated": 1, "active": 2, "metadata": 3, "resident": 4, "mapped": 5, "retained": 6},
        "run": None, "last_dump": None, "mallctls": ["prof.dump"], "malloc_conf": {"environment": "prof:true", "build": ""},
        "warnings": [],
    }
    status.update(changes)
    return status
