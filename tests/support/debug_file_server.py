# SPDX-License-Identifier: Apache-2.0
"""A server of debug files and sources, as debuginfod is one: GET /buildid/BUILD-ID/debuginfo, /buildid/BUILD-ID/source/PATH."""
import contextlib
import http.server
import pathlib
import threading
import urllib.parse


class DebugFileServer:
    """On loopback until the test ends. `files` may be changed: paths by build-id; so may `sources`: texts by (build-id, path). `asked` has the
    paths of all requests. While `is_silent` it answers none. With `claimed` it says that each answer has so many bytes, and sends no more than
    there are. While `is_endless` what it has is of unknown size, and has no end. `refusal` is the status of all answers, or the bytes of them."""

    def __init__(self, case, files, sources=None, port=0):
        outer = self
        self.files, self.asked, self.is_silent, self.released = files, [], False, threading.Event()
        self.sources, self.claimed, self.is_endless, self.refusal = sources or {}, None, False, None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = urllib.parse.unquote(self.path)
                outer.asked.append(path)
                if outer.is_silent:
                    outer.released.wait(60)
                    return
                if isinstance(outer.refusal, bytes):
                    self.wfile.write(outer.refusal)
                    return
                body = None if outer.refusal else outer.find(path)
                self.send_response(outer.refusal or (404 if body is None else 200))
                if outer.is_endless and body is not None:
                    self.end_headers()
                    with contextlib.suppress(OSError):
                        while not outer.released.is_set():
                            self.wfile.write(bytes(1 << 20))
                    return
                self.send_header("Content-Length", str(outer.claimed or len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")
                if outer.claimed:
                    outer.released.wait(60)

            def log_message(self, *_):
                pass

        self.start(case, Handler, port)

    def find(self, path):
        """What is served there; None for nothing."""
        for identity, file in self.files.items():
            if path == f"/buildid/{identity}/debuginfo":
                return pathlib.Path(file).read_bytes()
        return next((text.encode() for (identity, file), text in self.sources.items() if path == f"/buildid/{identity}/source{file}"), None)

    def start(self, case, handler, port):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        case.addCleanup(thread.join)
        case.addCleanup(server.server_close)
        case.addCleanup(server.shutdown)
        case.addCleanup(self.released.set)
        self.url = f"http://127.0.0.1:{server.server_port}"
