# SPDX-License-Identifier: Apache-2.0
"""A real ClickHouse of the tests: on loopback, in a folder of its own, with bounded memory, ended by its pid."""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from processes import free_port, need, wait_until

PASSWORD = "p'ss\\w%rd"
VIEWER_PASSWORD = "look"

CONFIG = """<yandex>
  <logger><level>warning</level><log>{folder}/server.log</log><errorlog>{folder}/server.err</errorlog></logger>
  <listen_host>127.0.0.1</listen_host><http_port>{port}</http_port><tcp_port>{tcp}</tcp_port>{https}
  <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><user_files_path>{folder}/files/</user_files_path>
  <format_schema_path>{folder}/schemas/</format_schema_path>
  <mark_cache_size>16777216</mark_cache_size><users_config>{folder}/users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database><timezone>UTC</timezone>
  {more}
</yandex>"""
HTTPS = """<https_port>{https}</https_port><openSSL><server><certificateFile>{certificate}</certificateFile>
  <privateKeyFile>{key}</privateKeyFile><verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile>
  <cacheSessions>true</cacheSessions><disableProtocols>sslv2,sslv3</disableProtocols></server></openSSL>"""
USERS = """<yandex>
  <profiles><default><max_memory_usage>500000000</max_memory_usage><max_threads>2</max_threads>{profile}</default>
    <viewer><readonly>1</readonly></viewer></profiles>
  <users>
    <heap><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></heap>
    <viewer><password>{viewer}</password><networks><ip>127.0.0.1</ip></networks><profile>viewer</profile><quota>default</quota></viewer>
    <default><password>{default}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
  </users><quotas><default/></quotas></yandex>"""


class ClickHouse:
    """`name` is that of the database which url and rows are of. It has TLS at the port `https`, with a certificate for localhost.
    configure() may be called again before start()."""

    def __init__(self, folder):
        self.server, self.folder, self.name = need("clickhouse-server"), pathlib.Path(folder), "heap"
        self.folder.mkdir(exist_ok=True)
        self.port, self.tcp, self.https = free_port(), free_port(), free_port()
        self.certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        subprocess.run([need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        self.encryption = HTTPS.format(https=self.https, certificate=self.certificate, key=key)
        self.configure()
        self.password_file, self.viewer_file = self.write("password", PASSWORD), self.write("viewer", VIEWER_PASSWORD)
        self.process = None

    def configure(self, more="", profile="", default=PASSWORD):
        (self.folder / "users.xml").write_text(USERS.format(password=PASSWORD, viewer=VIEWER_PASSWORD, profile=profile, default=default))
        (self.folder / "config.xml").write_text(
            CONFIG.format(folder=self.folder, port=self.port, tcp=self.tcp, https=self.encryption, more=more))

    def write(self, name, password):
        path = self.folder / name
        path.write_text(password + "\n")
        path.chmod(0o600)
        return str(path)

    def start(self, **env):
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen([self.server, f"--config-file={self.folder}/config.xml"], cwd=self.folder, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output, env={"PATH": os.environ["PATH"], "TZ": "UTC", **env})

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"clickhouse-server ended: {(self.folder / 'output').read_bytes()[-2000:]!r}")
            return self.answers()
        wait_until(ready, "clickhouse-server to answer")
        return self

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def answers(self):
        try:
            return self.ask("SELECT 1") == b"1\n"
        except OSError:
            return False

    def ask(self, query, database="default"):
        token = base64.b64encode(f"heap:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/?database={database}", query.encode(),
                                         {"Authorization": f"Basic {token}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read()[:500]!r}: {query}") from None

    def rows(self, query, database=None):
        """Each row is a list."""
        return json.loads(self.ask(query + " FORMAT JSONCompact", database or self.name))["data"]

    def make_endless(self, table):
        """A query of it reads until it is stopped: a view with the same columns in its place."""
        literals = {"Array": "[]", "String": "''"}
        columns = [(name, kind.replace("LowCardinality(String)", "String"))
                   for name, kind in self.rows(f"SELECT name, type FROM system.columns WHERE database = '{self.name}' AND table = '{table}'")]
        values = ", ".join(f"CAST({literals.get(kind.partition('(')[0], '0')} AS {kind}) AS {name}" for name, kind in columns)
        self.ask(f"DROP TABLE {table}", self.name)
        self.ask(f"CREATE VIEW {table} AS SELECT {values} FROM system.numbers WHERE sipHash64(number) = 0", self.name)

    def queries_of(self, user):
        """Those that run now."""
        return [query for query, in self.rows(f"SELECT query FROM system.processes WHERE user = '{user}'", "default")]

    def url(self, port=None, user="heap", scheme="clickhouse", host="127.0.0.1"):
        return f"{scheme}://{user}@{host}:{port or self.port}/{self.name}"


def start_for_module():
    """For setUpModule(): the server of all cases, which the end of the module stops."""
    folder = tempfile.mkdtemp(prefix="hc-clickhouse-")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    server = ClickHouse(folder)
    unittest.addModuleCleanup(server.stop)
    return server.start()
