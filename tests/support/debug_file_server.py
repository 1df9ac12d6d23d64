# SPDX-License-Identifier: Apache-2.0
"""A server of debug files, as debuginfod is one: GET /buildid/BUILD-ID/debuginfo."""
import http.server
import pathlib
import threading


class DebugFileServer:
    """On loopback until the test ends. `files` may be changed: paths by build-id. `asked` has the paths of all requests. While
    `is_silent` it answers none."""

    def __init__(self, case, files):
        outer = self
        self.files, self.asked, self.is_silent, self.released = files, [], False, threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                if outer.is_silent:
                    outer.released.wait(60)
                    return
                found = {f"/buildid/{identity}/debuginfo": path for identity, path in outer.files.items()}.get(self.path)
                body = b"" if found is None else pathlib.Path(found).read_bytes()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        case.addCleanup(thread.join)
        case.addCleanup(server.server_close)
        case.addCleanup(server.shutdown)
        case.addCleanup(self.released.set)
        self.url = f"http://127.0.0.1:{server.server_port}"
