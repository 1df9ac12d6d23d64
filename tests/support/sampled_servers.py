# SPDX-License-Identifier: Apache-2.0
"""Debian's servers with a load that is the same each time: for tests of what they answer, and for measuring what they cost."""
import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

from processes import children_of, free_port

START_SECONDS = 120
TICKS = os.sysconf("SC_CLK_TCK")


def find(name, *patterns):
    """A program's path, also outside of PATH; None when it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") or next(iter(sorted(sum(map(glob.glob, patterns), []))), None)


def stat_fields(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def processor_clock_of(pid):
    """As clock_getcpuclockid(3): finer than the ticks of /proc."""
    return ~pid << 3 | 2


class Server:
    """A folder, a process, and clients. `without` is the environment of all but the server itself."""
    programs = ()

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.without = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("HEAPCTL_")}
        self.process = None

    @classmethod
    def is_installed(cls):
        return all(find(*program) for program in cls.programs)

    def prepare(self):
        """Once per folder."""

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    def load(self, rounds):
        """Returns what the clients got; the same without the agent."""
        raise NotImplementedError

    def client(self, *words, check=True, **options):
        return subprocess.run([str(word) for word in words], env=self.without, check=check, capture_output=True, text=True, timeout=600,
                              **options).stdout

    def start(self, **env):
        self.process = subprocess.Popen([str(word) for word in self.command()], env=dict(self.without, **env), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__} did not start: {self.process.poll()}")
            time.sleep(0.1)
        # Without the one that answered.
        time.sleep(0.5)
        self.own_pids = len(self.pids())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def folder_of_agents(self):
        path = os.path.join(self.folder, "agents-of-server")
        os.makedirs(path, 0o700, exist_ok=True)
        return path

    def pids(self):
        found = [self.process.pid]
        for pid in found:
            found += children_of(pid)
        return found

    def cpu_seconds(self):
        """Of the processes that are there and of children that ended, in user and kernel mode."""
        deadline = time.monotonic() + 5
        # What served a client counts among the children that ended once it is waited for.
        while len(self.pids()) > self.own_pids and time.monotonic() < deadline:
            time.sleep(0.02)
        seconds = sum(map(int, stat_fields(self.process.pid)[13:15])) / TICKS
        for pid in self.pids():
            try:
                seconds += time.clock_gettime(processor_clock_of(pid))
            except OSError:
                pass
        return seconds


class PostgreSQL(Server):
    BIN = "/usr/lib/postgresql/*/bin/"
    programs = (("postgres", BIN + "postgres"), ("initdb", BIN + "initdb"), ("pgbench", BIN + "pgbench"), ("psql", BIN + "psql"))
    QUERY = ("select count(*), sum(length(t)) from (select md5(g::text) || repeat('x', g % 100) t from generate_series(1, 30000) g"
             " order by 1) s; select g % 1000, count(*), array_agg(g) from generate_series(1, 20000) g group by 1 order by 1 limit 3")

    def as_user(self):
        """PostgreSQL refuses to run as root."""
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []

    def program(self, name):
        return find(name, self.BIN + name)

    def prepare(self):
        self.data = os.path.join(self.folder, "data")
        os.mkdir(self.data, 0o700)
        if os.getuid() == 0:
            os.chown(self.data, 65534, 65534)
            os.chmod(self.folder, 0o711)
        self.client(*self.as_user(), self.program("initdb"), "-D", self.data, "-U", "user", "-A", "trust", "--no-sync", "--locale=C")
        self.start()
        self.client(self.program("pgbench"), "-i", "-q", "-s", "1", *self.where())
        self.stop()

    def folder_of_agents(self):
        path = super().folder_of_agents()
        if os.getuid() == 0:
            os.chown(path, 65534, 65534)
        return path

    def where(self):
        return ["-h", self.data, "-U", "user", "-p", str(self.port), "postgres"]

    def command(self):
        return [*self.as_user(), self.program("postgres"), "-D", self.data, "-k", self.data, "-h", "", "-p", self.port, "-F",
                "-c", "autovacuum=off", "-c", "max_parallel_workers_per_gather=0"]

    def answers(self):
        return subprocess.run([self.program("psql"), *self.where(), "-c", "select 1"], env=self.without, capture_output=True).returncode == 0

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(START_SECONDS)

    def load(self, rounds):
        out = self.client(self.program("pgbench"), "-n", "-S", "-c", "4", "-t", str(rounds), *self.where())
        return re.search(r"actually processed: (\S+)", out)[1] + self.client(self.program("psql"), "-At", *self.where(), "-c", self.QUERY)


class HttpServer(Server):
    """`page` is what its clients ask for, with the options of ab(1)."""
    page = ("/",)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def load(self, rounds):
        *options, path = self.page
        out = self.client(find("ab"), "-q", "-c", "8", "-n", str(4 * rounds), *options, f"http://127.0.0.1:{self.port}{path}")
        return re.findall(r"(?:Complete requests|Failed requests|HTML transferred|Non-2xx responses): +\S+", out)


class Nginx(HttpServer):
    page = ("-k", "-H", "Accept-Encoding: gzip", "/page.shtml")
    programs = (("nginx",), ("ab",))

    def prepare(self):
        text = "".join(f"line {number} <!--# echo var='uri' -->\n" for number in range(100))
        os.mkdir(os.path.join(self.folder, "html"))
        pathlib.Path(self.folder, "html/page.shtml").write_text(text)
        if os.getuid() == 0:
            os.chmod(self.folder, 0o711)
        pathlib.Path(self.folder, "nginx.conf").write_text(f"""
            worker_processes 2; daemon off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
            {"user root;" if os.getuid() == 0 else ""}
            events {{ worker_connections 64; }}
            http {{ access_log off; gzip on; gzip_proxied any; gzip_types *; client_body_temp_path {self.folder}/b;
                proxy_temp_path {self.folder}/p; fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u;
                scgi_temp_path {self.folder}/s;
                default_type text/html;
                server {{ listen 127.0.0.1:{self.port}; root {self.folder}/html; ssi on; }} }}""")

    def command(self):
        return [find("nginx"), "-c", os.path.join(self.folder, "nginx.conf"), "-e", os.path.join(self.folder, "error.log")]


class MariaDB(Server):
    programs = (("mariadbd",), ("mariadb-install-db",), ("mysqlslap",), ("mariadb",))

    def prepare(self):
        self.data = os.path.join(self.folder, "data")
        self.socket = os.path.join(self.folder, "socket")
        self.client(find("mariadb-install-db"), "--no-defaults", *self.as_user(), f"--datadir={self.data}", "--skip-test-db",
                    "--auth-root-authentication-method=normal")
        self.start()
        self.sql("create database load_test; use load_test; create table t(a int primary key, b varchar(100));"
                 "insert into t select seq, repeat(char(65 + seq % 26), seq % 100) from seq_1_to_5000")
        self.stop()

    def as_user(self):
        return ["--user=root"] if os.getuid() == 0 else []

    def command(self):
        return [find("mariadbd"), "--no-defaults", *self.as_user(), f"--datadir={self.data}", f"--socket={self.socket}", "--skip-networking",
                "--innodb-flush-log-at-trx-commit=0", f"--pid-file={self.folder}/pid", "--innodb-buffer-pool-size=32M",
                "--thread-cache-size=16"]

    def sql(self, text):
        return self.client(find("mariadb"), "--no-defaults", "-u", "root", "-S", self.socket, "-N", "-e", text)

    def answers(self):
        return subprocess.run([find("mariadb"), "--no-defaults", "-u", "root", "-S", self.socket, "-e", "select 1"], env=self.without,
                              capture_output=True).returncode == 0

    def load(self, rounds):
        self.client(find("mysqlslap"), "--no-defaults", "-u", "root", "-S", self.socket, "--concurrency=4",
                    f"--number-of-queries={4 * rounds}", "--create-schema=load_test",
                    "--query=select a, b from load_test.t where a between 100 and 130 order by b desc")
        return self.sql("select sum(length(b)), md5(group_concat(b order by a)) from load_test.t;"
                        "select count(*) from information_schema.columns where table_schema = 'mysql'")


class Redis(Server):
    programs = (("redis-server",), ("redis-benchmark",), ("redis-cli",))

    def command(self):
        return [find("redis-server"), "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--dir", self.folder]

    def answers(self):
        return self.client(find("redis-cli"), "-p", self.port, "ping", check=False) == "PONG\n"

    def load(self, rounds):
        self.client(find("redis-benchmark"), "-p", self.port, "-n", 40 * rounds, "-r", "100000", "-d", "700", "-P", "16", "-t", "set", "--csv")
        return self.client(find("redis-cli"), "-p", self.port, "eval", "local t = {} for i = 1, 5000 do t[i] = redis.sha1hex(i) end"
                           " return redis.sha1hex(table.concat(t))", "0")


SERVERS = {"PostgreSQL": PostgreSQL, "nginx": Nginx, "MariaDB": MariaDB, "Redis": Redis}
