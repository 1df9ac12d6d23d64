# SPDX-License-Identifier: Apache-2.0
"""Targets behind a URL: the client against a gateway made for the test, which also answers wrongly on purpose."""
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import unittest

from processes import HEAPCTL, SANITIZED, Case, faketime_library, need, wait_until

PROFILE = b"heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n"
PROFILE_TYPE = "application/x-jemalloc-heap-profile"


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers what `answers` has for "METHOD path": (status, type, body), or a function of the handler."""
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        self.server.seen.append((f"{self.command} {self.path}", self.headers.get("Authorization")))
        answer = self.server.answers.get(f"{self.command} {self.path}", (404, "text/plain", b"nothing here\nat all"))
        if callable(answer):
            answer(self)
            return
        status, kind, body = answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = handle_any

    def log_message(self, *arguments):
        pass


class ThroughAGateway(Case):
    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
        self.server.daemon_threads = True
        self.server.seen = []
        self.server.answers = {}
        self.addCleanup(self.server.server_close)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def serve(self):
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)

    def answer(self, request, body, status=200, kind="application/json"):
        self.server.answers[request] = (status, kind, body if isinstance(body, bytes) else json.dumps(body).encode())

    def test_answers_of_other_programs_have_a_hint(self):
        self.serve()
        def moved(handler):
            handler.send_response(301)
            handler.send_header("Location", "http://there.example/")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        page = (200, "text/html", b"<html>hello</html>")
        for answer, hint in ((404, "text/plain", b"not json"), "check the address"), ((500, "text/plain", b""), "check the address"), \
                ((403, "application/json", b'{"message": "no"}'), "check the address"), \
                ((502, "text/html", b"<html>"), "check that the server behind it runs"), (moved, "it leads to http://there.example/: use"):
            for path in "GET /v1/status", "GET /v1/stats?format=text", "GET /v1/profile", "POST /v1/activate":
                self.server.answers[path] = answer
            for verb in "status", "stats", "dump", "activate":
                self.assertIn(hint, self.heapctl(verb, self.url, code=None)[1], verb)
        self.server.answers = dict.fromkeys(("GET /v1/stats?format=text", "GET /v1/stats?format=json", "GET /api/v1/trend?format=raw"), page)
        for verb in ["stats"], ["stats", "--json"], ["trend"]:
            out, said = self.heapctl(*verb, self.url, code=1)
            self.assertIn("text/html (check that it is an agent or a gateway of heapctl)", said)
            self.assertEqual(out, "")

    def refused(self, *arguments, **options):
        _, said = self.heapctl(*arguments, code=1, **options)
        self.assertTrue(said.startswith("heapctl: "), said)
        return said

    def test_verbs_work_under_its_prefix(self):
        self.serve()
        self.answer("POST /targets/db/v1/activate", {"active": True, "was_active": False})
        out, _ = self.heapctl("activate", self.url + "/targets/db")
        self.assertIn("sampling is on", out)
        self.answer("GET /v1/profile", PROFILE, kind=PROFILE_TYPE)
        self.heapctl("dump", self.url, "-o", os.path.join(self.folder, "x"))
        with open(os.path.join(self.folder, "x"), "rb") as saved:
            self.assertEqual(saved.read(), PROFILE)

    def test_a_watch_looks_at_the_resident_memory_that_the_kernel_counts(self):
        """The allocator counts what was never touched, too."""
        self.serve()
        self.answer("GET /targets/db/v1/status", {"pid": 7, "started_ms": 1, "memory": {"resident": 900 << 20},
                                                  "profiling": {"available": True, "active": True}})
        self.answer("GET /targets/db/v1/profile", PROFILE, kind=PROFILE_TYPE)
        watch = ("watch", self.url + "/targets/db", "--when", "every=1s", "--count", "1", "--keep-free", "0", "--interval", "50ms",
                 "--keep", os.path.join(self.folder, "keep"))
        # A gateway that does not report it.
        _, said = self.heapctl(*watch)
        self.assertIn("every=1s at 900.0 MiB resident", said)
        self.answer("GET /targets/db/api/v1/kernel?part=process-status", b"Name:\tdb\nVmRSS:\t  307200 kB\n", kind="text/plain; charset=utf-8")
        _, said = self.heapctl(*watch)
        self.assertIn("every=1s at 300.0 MiB resident", said)

    def test_errors_keep_the_agents_words(self):
        self.serve()
        self.answer("POST /v1/runs/stop", {"error": {"code": "state", "message": "no run is on", "hint": "start one"}}, status=409)
        self.assertIn("no run is on (start one)", self.refused("stop", self.url))
        self.assertIn("404 Not Found: nothing here", self.refused("status", self.url))
        self.assertNotIn("at all", self.refused("status", self.url))

    def test_answers_that_make_no_sense(self):
        self.serve()
        self.answer("GET /v1/status", b"<html>", kind="text/html")
        self.assertIn("is not a JSON object", self.refused("status", self.url))
        self.answer("GET /v1/status", [1])
        self.assertIn("is not a JSON object", self.refused("status", self.url))
        self.answer("GET /v1/profile", b"<html>", kind="text/html")
        path = os.path.join(self.folder, "x")
        self.assertIn("not a profile but text/html", self.refused("dump", self.url, "-o", path))
        self.assertFalse(os.path.exists(path))
        self.answer("GET /v1/status", b"", status=302, kind="text/plain")
        self.assertIn("302", self.refused("status", self.url))

    def test_a_connection_that_breaks(self):
        def cut(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", PROFILE_TYPE)
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
            handler.wfile.write(PROFILE)
            handler.close_connection = True
        self.serve()
        self.server.answers["GET /v1/profile"] = cut
        path = os.path.join(self.folder, "x")
        self.assertIn("broke in the middle", self.refused("dump", self.url, "-o", path))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("x")], [])

    def test_an_interrupt_that_comes_too_late_saves_as_well(self):
        run = {"id": 7, "state": "running", "already_running": False, "remaining_ms": 1}
        looks = []

        def look(handler):
            looks.append(len(looks))
            self.send_json(handler, dict(run, state="running" if len(looks) == 1 else "finished"))
        self.serve()
        self.answer("GET /v1/status", {"profiling": {"available": True, "active": False}, "memory": {"allocated": 0}})
        self.answer("POST /v1/runs?duration_ms=3600000", run, status=201)
        self.server.answers["GET /v1/runs/7"] = look
        self.answer("POST /v1/runs/stop", {"error": {"code": "state", "message": "there is no run to stop", "hint": ""}}, status=409)
        self.answer("GET /v1/runs/7/profile", PROFILE, kind=PROFILE_TYPE)
        path = os.path.join(self.folder, "x")
        client = self.start(HEAPCTL, "record", self.url, "-d", "1hrs", "-o", path, stderr=subprocess.PIPE)
        wait_until(lambda: any(request.startswith("POST") for request, _ in self.server.seen), "the run to begin")
        client.send_signal(signal.SIGINT)
        self.assertEqual((client.wait(60), client.stderr.read().count(b"no run to stop")), (0, 0))
        self.assertEqual(open(path, "rb").read(), PROFILE)

    def send_json(self, handler, value):
        body = json.dumps(value).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def test_chunks_are_understood(self):
        def chunked(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", PROFILE_TYPE)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for part in (PROFILE[:5], PROFILE[5:]):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            handler.wfile.write(b"0\r\n\r\n")
        self.serve()
        self.server.answers["GET /v1/profile"] = chunked
        self.assertEqual(self.heapctl("dump", self.url, "-o", "-")[0].encode(), PROFILE)

    def test_what_is_no_http(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n")
            thread = threading.Thread(target=answer)
            thread.start()
            said = self.refused("status", f"http://127.0.0.1:{server.getsockname()[1]}")
            thread.join(60)
        self.assertIn("the answer", said)

    def test_the_token_goes_to_this_machine_only_in_the_clear(self):
        self.serve()
        self.answer("GET /v1/runs", {"runs": []})
        self.heapctl("runs", self.url, env={"HEAPCTL_TOKEN": "secret"})
        self.assertEqual(self.server.seen[-1], ("GET /v1/runs", "Bearer secret"))
        self.heapctl("runs", self.url)
        self.assertEqual(self.server.seen[-1], ("GET /v1/runs", None))
        count = len(self.server.seen)
        said = self.refused("runs", self.url.replace("127.0.0.1", "0.0.0.0"), env={"HEAPCTL_TOKEN": "secret"})
        self.assertIn("use https://", said)
        self.assertEqual(len(self.server.seen), count)

    def test_a_missing_token_is_named(self):
        self.serve()
        self.answer("GET /v1/runs", {"error": {"code": "denied", "message": "no token", "hint": ""}}, status=401)
        self.assertIn("HEAPCTL_TOKEN", self.refused("runs", self.url))

    def make_certificate(self, names="DNS:localhost,IP:127.0.0.1"):
        key, certificate = (os.path.join(self.folder, name) for name in ("key.pem", "cert.pem"))
        subprocess.run([need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        return certificate

    def test_tls_with_a_certificate_that_is_trusted(self):
        certificate = self.make_certificate()
        self.serve()
        big = PROFILE + b"#" * 3_000_000
        self.answer("GET /v1/profile", big, kind=PROFILE_TYPE)
        port = self.server.server_port
        for host in ("localhost", "127.0.0.1"):
            out, _ = self.heapctl("dump", f"https://{host}:{port}", "-o", "-",
                                  env={"HEAPCTL_CACERT": certificate, "HEAPCTL_TOKEN": "secret"})
            self.assertEqual(out.encode(), big)
            self.assertEqual(self.server.seen[-1][1], "Bearer secret")

    def test_tls_with_another_certificate_is_refused(self):
        certificate = self.make_certificate()
        self.serve()
        url = f"https://localhost:{self.server.server_port}"
        said = self.refused("status", url, env={"HEAPCTL_TOKEN": "secret"})
        self.assertIn("certificate", said.lower())
        self.assertIn("HEAPCTL_CACERT", said)
        self.assertIn("no certificates of authorities", self.refused("status", url, env={"HEAPCTL_CACERT": "/dev/null"}))
        said = self.refused("status", url.replace("localhost", "127.0.0.2"), env={"HEAPCTL_CACERT": certificate})
        self.assertIn("127.0.0.2", said)
        self.assertEqual(self.server.seen, [])

    def test_tls_with_a_certificate_of_another_name_is_refused(self):
        certificate = self.make_certificate("DNS:elsewhere.example")
        self.serve()
        said = self.refused("status", f"https://localhost:{self.server.server_port}", env={"HEAPCTL_CACERT": certificate})
        self.assertIn("does not match", said)
        self.assertIn("(use a name that the certificate has)", said)
        self.assertNotIn("  ", said)

    @unittest.skipIf(SANITIZED, "a sanitizer must be the first library")
    def test_tls_with_a_certificate_out_of_its_time_is_refused(self):
        certificate = self.make_certificate()
        self.serve()
        url = f"https://localhost:{self.server.server_port}"
        for start in ("2001-01-01", "2090-01-01"):
            said = self.refused("status", url, env={"HEAPCTL_CACERT": certificate, "LD_PRELOAD": faketime_library(), "FAKETIME": f"@{start} 00:00:00"})
            self.assertIn("(the gateway needs another certificate, unless this machine's clock is wrong)", said)

    def test_a_token_in_a_url_is_not_repeated(self):
        for url in ("https://any:geheim@localhost:7070", "http://geheim@localhost/targets/x", "http://any:ge@heim@localhost"):
            said = self.heapctl("status", url, code=2)[1]
            self.assertIn("...@localhost", said)
            self.assertIn("HEAPCTL_TOKEN", said)
            self.assertNotIn("heim", said)


if __name__ == "__main__":
    unittest.main()
