#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heapctl send to Pyroscope and to the OpenTelemetry collector: servers that check what the documented interfaces of these check."""
import base64
import gzip
import http.server
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading
import time
import unittest
import urllib.parse

from debug_file_server import DebugFileServer
from processes import HEAPCTL, Case, free_port, need, wait_until
from sampled_profiles import profile_text

TOKEN = "to+ken/1"


class Profile:
    """A profile as go's pprof reads it, which rejects what is not well formed."""

    def __init__(self, body, folder):
        path = os.path.join(folder, "received.pb.gz")
        pathlib.Path(path).write_bytes(body)
        text = subprocess.run([need("go"), "tool", "pprof", "-raw", "-symbolize=none", path], check=True, capture_output=True, text=True,
                              env=dict(os.environ, HOME=folder)).stdout
        self.period = re.search(r"PeriodType: (.*)", text)[1]
        self.types = re.search(r"^Samples:\n(.*)", text, re.M)[1].split()
        body = text.split("Samples:\n", 1)[1].split("\n", 1)[1].split("Locations")[0]
        self.samples = [[int(number) for number in line.split(":")[0].split()] for line in body.splitlines() if re.match(r"\s+-?\d", line)]
        self.text = text

    def total(self, name):
        at = [kind.split("/")[0] for kind in self.types].index(name)
        return sum(sample[at] for sample in self.samples)


class Server:
    """Takes POST by `accept`, which returns the status of its answer."""

    def __init__(self, case, accept, certificate=None):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = accept(self, body)
                text = b"" if status < 300 else b"refused by the test"
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(text)

            def log_message(self, *_):
                pass
        outer.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            outer.server.socket = context.wrap_socket(outer.server.socket, server_side=True)
        outer.server.daemon_threads = True
        threading.Thread(target=outer.server.serve_forever, daemon=True).start()
        case.addCleanup(outer.server.server_close)
        case.addCleanup(outer.server.shutdown)
        outer.port = outer.server.server_address[1]


def parse_series(name):
    """The labels of a series, by the rules of Pyroscope's own parser."""
    service, _, rest = name.partition("{")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", service) or not rest.endswith("}"):
        raise ValueError(name)
    labels = {"service_name": service}
    for part in filter(None, rest[:-1].split(",")):
        key, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9_]+", key) or key in labels or key == "__name__" or set(value) & set("{}="):
            raise ValueError(part)
        labels[key] = value
    return labels


class PushCase(Case):
    def setUp(self):
        super().setUp()
        self.received, self.status = [], None

    def write(self, name="api.100.0.i0.heap", sites=None, age=0):
        path = os.path.join(self.folder, name)
        pathlib.Path(path).write_text(profile_text(sites or {("main", "serve", "parse"): 10, ("main", "log"): 3}))
        moment = time.time() - age
        os.utime(path, (moment, moment))
        return path

    def send(self, *words, code=0):
        return self.heapctl("send", *words, "--retry", "0", code=code)

    def secret(self, text=TOKEN):
        path = os.path.join(self.folder, "secret")
        pathlib.Path(path).write_text(text + "\n")
        os.chmod(path, 0o600)
        return path

    def stated(self, path):
        """The bytes in use that heapctl report estimates."""
        return sum(node["flat"]["value"] for node in json.loads(self.heapctl("report", "--json", path)[0])["nodes"])


class Pyroscope(PushCase):
    OLDEST = 3600

    def ingest(self, handler, body):
        """What /ingest and the distributor behind it check."""
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query, strict_parsing=True))
        if url.path != self.path:
            return 404
        try:
            labels = parse_series(query["name"])
            profile = Profile(body if body[:2] == b"\x1f\x8b" else b"", self.folder)
        except (KeyError, ValueError, subprocess.CalledProcessError):
            return 400
        if query.get("format") != "pprof" or int(query["until"]) < int(query["from"]):
            return 400
        if time.time() - int(query["until"]) > self.OLDEST:
            return 422
        if any(value < 0 for sample in profile.samples for value in sample):
            return 400
        self.received.append((labels, profile, query, handler.headers))
        return self.status or 200

    def start_server(self, path="/ingest", **options):
        self.path = path
        return Server(self, self.ingest, **options)

    def test_a_profile_arrives_with_its_series_and_values(self):
        path = self.write()
        server = self.start_server()
        said = self.send(path, "--version", "1.4", "--host", "h1", "--label", "zone=b", "--to", f"pyroscope://127.0.0.1:{server.port}")
        self.assertIn("1 snapshot sent\n", said[0])
        labels, profile, query, headers = self.received[0]
        self.assertEqual(labels, {"service_name": "api", "host": "h1", "version": "1.4", "zone": "b"})
        self.assertEqual([kind.split("[")[0] for kind in profile.types], ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"])
        self.assertEqual(profile.period, "space bytes")
        self.assertAlmostEqual(profile.total("inuse_space"), self.stated(path), delta=4)
        self.assertIn("parse", profile.text)
        self.assertLessEqual(abs(int(query["until"]) - os.stat(path).st_mtime), 1)
        self.assertNotIn("Authorization", headers)
        self.assertNotIn("Content-Encoding", headers)

    def test_odd_names_do_not_break_the_series(self):
        server = self.start_server()
        self.send(self.write(), "--service", "o'Brien {x}", "--host", "h=1,2", "--label", "note=a}b{c,d=e&f#g", "--label", "__name__=x",
                  "--to", f"pyroscope://127.0.0.1:{server.port}")
        self.assertEqual(self.received[0][0], {"service_name": "o_Brien__x_", "host": "h_1_2", "note": "a_b_c_d_e&f#g"})

    def test_tokens_and_passwords(self):
        server = self.start_server("/profiles/ingest")
        self.send(self.write(), "--password-file", self.secret(), "--to", f"pyroscope://127.0.0.1:{server.port}/profiles")
        self.send(self.write(), "--password-file", self.secret(), "--to", f"pyroscope://tenant@127.0.0.1:{server.port}/profiles")
        login = base64.b64encode(f"tenant:{TOKEN}".encode()).decode()
        self.assertEqual([received[3]["Authorization"] for received in self.received], [f"Bearer {TOKEN}", f"Basic {login}"])
        self.status = 401
        said = self.send(self.write(), "--to", f"pyroscope://127.0.0.1:{server.port}/profiles", code=1)[1]
        self.assertIn("--password-file", said)
        self.assertNotIn("trying again", said)

    def test_one_that_is_too_old_keeps_no_other_back(self):
        server = self.start_server()
        paths = [self.write("api.1.0.i0.heap", age=2 * self.OLDEST), self.write("api.2.0.i0.heap")]
        said = self.send(*paths, "--host", "a", "--to", f"pyroscope://127.0.0.1:{server.port}")
        self.assertIn("1 snapshot sent, 1 left out", said[0])
        self.assertIn("answered 422: refused by the test", said[1])

    def test_an_overloaded_server_is_asked_again(self):
        server = self.start_server()
        answers = [429, 503, 200]

        def ingest(handler, body):
            self.status = answers.pop(0)
            return Pyroscope.ingest(self, handler, body)
        self.ingest = ingest
        server = self.start_server()
        said = self.heapctl("send", self.write(), "--retry", "60s", "--to", f"pyroscope://127.0.0.1:{server.port}")
        self.assertEqual(said[1].count("trying again"), 2)
        self.assertEqual(answers, [])

    def test_another_server_is_reported(self):
        server = self.start_server("/elsewhere")
        said = self.send(self.write(), "--to", f"pyroscope://127.0.0.1:{server.port}", code=1)[1]
        self.assertIn("answered 404", said)
        self.assertIn("is it a Pyroscope?", said)
        for url, reason in (("pyroscope://127.0.0.1/a?b=c", "more than a host and a path"), ("pyroscope://u:secret@127.0.0.1", "can see a password in it"),
                            ("pyroscope://127.0.0.1/a%20b", "a path has letters, digits and -._~ alone"), ("otel-pprof://127.0.0.1", "it has no port"),
                            ("otel-pprof://127.0.0.1:1/a", "a collector has no path but /v1/pprof"),
                            ("pyroscope://127.0.0.1:99999", "its host, port or path cannot be read"), ("pyroscope:/a", "does not begin with a scheme")):
            said = self.send(self.write(), "--to", url, code=2)[1]
            self.assertIn(reason, said)
            self.assertNotIn("secret", said)

    def test_tls_with_a_known_authority_only(self):
        certificate, key = (os.path.join(self.folder, name) for name in ("cert.pem", "key.pem"))
        subprocess.run([need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        server = self.start_server(certificate=(certificate, key))
        url = f"pyroscopes://localhost:{server.port}"
        self.assertRegex(self.send(self.write(), "--to", url, code=1)[1], "certificate")
        self.environment["HEAPCTL_CACERT"] = certificate
        self.send(self.write(), "--to", url)
        self.assertEqual(len(self.received), 1)


class Collector(PushCase):
    def push(self, handler, body):
        """The receiver's handler: POST, a body that go's pprof reads, 204."""
        if handler.path != "/v1/pprof":
            return 404
        # confighttp expands this before the handler; a gzipped body that says nothing is expanded by pprof.
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            self.received.append((Profile(body, self.folder), handler.headers))
        except subprocess.CalledProcessError:
            return 400
        return self.status or 204

    def test_a_profile_arrives_with_what_it_is_of(self):
        path = self.write()
        server = Server(self, self.push)
        said = self.send(path, "--version", "1.4", "--host", "h1", "--label", "zone=b", "--password-file", self.secret(),
                         "--to", f"otel-pprof://127.0.0.1:{server.port}")
        self.assertIn("1 snapshot sent\n", said[0])
        profile, headers = self.received[0]
        self.assertAlmostEqual(profile.total("inuse_space"), self.stated(path), delta=4)
        for comment in ("service=api", "version=1.4", "host=h1", "zone=b"):
            self.assertIn(comment, profile.text)
        self.assertEqual(headers["Authorization"], f"Bearer {TOKEN}")

    def test_a_pipeline_that_fails_is_asked_again(self):
        server = Server(self, self.push)
        self.status = 500
        said = self.send(self.write(), "--to", f"otel-pprof://127.0.0.1:{server.port}", code=1)
        self.assertIn("answered 500", said[1])
        self.assertIn("0 snapshots sent\n", said[0])

    def test_a_server_that_is_down_loses_nothing(self):
        captures = os.path.join(self.folder, "captures")
        redis, port = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12")
        self.wait_for_agent(redis.pid)
        self.load_redis(port)
        self.heapctl("watch", redis.pid, "--when", "every=1s", "--count", "2", "--keep", captures)
        said = self.send(captures, "--to", f"otel-pprof://127.0.0.1:{free_port()}", code=1)[1]
        self.assertIn("connect", said)
        server = Server(self, self.push)
        self.assertIn("2 snapshots sent\n", self.send(captures, "--to", f"otel-pprof://127.0.0.1:{server.port}")[0])
        self.assertIn("0 snapshots sent\n", self.send(captures, "--to", f"otel-pprof://127.0.0.1:{server.port}")[0])
        self.assertEqual(len(self.received), 2)
        self.assertGreater(self.received[0][0].total("inuse_space"), 0)

    def test_names_come_from_a_debuginfod_server_if_it_is_given(self):
        source, program, debug = (os.path.join(self.folder, name) for name in ("api.c", "api", "api.debug"))
        pathlib.Path(source).write_text("__attribute__((noinline)) int leak(int x) { return x + 1; }\nint main(void) { return leak(1); }\n")
        subprocess.run(["cc", "-g", "-O0", "-no-pie", "-Wl,--build-id", source, "-o", program], check=True)
        address = int(re.search(r"^(\w+) T leak$", subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout, re.M)[1], 16)
        identity = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", program], check=True, capture_output=True, text=True).stdout)[1]
        subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
        subprocess.run(["strip", program], check=True)
        path = os.path.join(self.folder, "api.100.0.i0.heap")
        pathlib.Path(path).write_text(f"heap_v2/4096\n  t*: 5: 5120 [0: 0]\n@ 0x{address + 4:x}\n  t*: 5: 5120 [0: 0]\n\nMAPPED_LIBRARIES:\n"
                                      f"{address & ~0xfff:08x}-{(address & ~0xfff) + 0x1000:08x} r-xp {address & 0xf000:08x} 08:01 1 {program}\n")
        files = DebugFileServer(self, {identity: debug})
        self.environment.update(DEBUGINFOD_CACHE_PATH=os.path.join(self.folder, "client"), DEBUGINFOD_URLS="")
        server = Server(self, self.push)
        to = ("--no_cache", "--to", f"otel-pprof://127.0.0.1:{server.port}")
        self.send(path, *to)
        self.assertEqual(files.asked, [])
        self.send(path, "--debuginfod", files.url, *to)
        self.assertNotRegex(self.received[0][0].text, r"\bleak\b")
        self.assertRegex(self.received[1][0].text, r"\bleak\b")
        self.assertIn(": --debuginfod: invalid value '", self.send(path, "--debuginfod", "nothing", *to, code=2)[1])

    def test_a_gateway_sends_its_history(self):
        redis, port = self.start_redis(conf="prof:true,prof_active:true,lg_prof_sample:12")
        self.wait_for_agent(redis.pid)
        self.load_redis(port)
        server = Server(self, self.push)
        self.start(HEAPCTL, "serve", "--listen", f"127.0.0.1:{free_port()}", "--history", os.path.join(self.folder, "history"), "--history-every", "1s",
                   "--send", f"otel-pprof://127.0.0.1:{server.port}", "--label", "zone=b", redis.pid)
        wait_until(lambda: len(self.received) >= 2, "two snapshots")
        self.assertIn("zone=b", self.received[0][0].text)


if __name__ == "__main__":
    unittest.main()
