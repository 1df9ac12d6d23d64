#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet in a real ClickHouse, synthesized from real profiles: how fast it is filled and asked, what it takes on disk, and whether the answers are true.

FLEET_HOSTS (1000) hosts with FLEET_SNAPSHOTS (60) snapshots of about 450 stacks: 27 million rows, at most 10 GB of memory and 4 GB of disk for all of it.
FLEET_SEEDS (20) fleets of known truth, from FLEET_FIRST_SEED (0) on; FLEET_TARGETS (200) processes of one gateway. 0 leaves one out.
"""
import base64
import json
import os
import pathlib
import pwd
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
os.environ["HEAPCTL_BUILD"] = sys.argv[1]
import fleet_truth  # noqa: E402
from clickhouse import PASSWORD, ClickHouse  # noqa: E402
from processes import free_port  # noqa: E402

BUILD = pathlib.Path(sys.argv[1])
HOSTS, SNAPSHOTS = int(os.environ.get("FLEET_HOSTS", "1000")), int(os.environ.get("FLEET_SNAPSHOTS", "60"))
SEEDS, FIRST_SEED = int(os.environ.get("FLEET_SEEDS", "20")), int(os.environ.get("FLEET_FIRST_SEED", "0"))
TARGETS = int(os.environ.get("FLEET_TARGETS", "200"))
LEAKING_HOST = 97
STACKS, STEP, SEED = 450, 4 * 3600, 17
POSTGRES = "/usr/lib/postgresql/15/bin/"
KEY = "service, version, host, pid, started, ts, snapshot"

# Programs that every machine with the packages of scripts/setup has, and that use a heap.
SOURCE = "#include <iostream>\n#include <map>\n#include <regex>\nint main() { std::map<int, int> m; std::regex r(\"a\"); std::cout << m.size(); }\n"
PROGRAMS = {
    "gdb": ("gdb", "-batch", "-ex", "file {heapctl}", "-ex", "info functions xyz"),
    "clang": ("clang++", "-c", "{folder}/a.cc", "-o", "{folder}/a.o"),
    "git": ("git", "-C", "{root}", "log", "--stat", "-200"),
    "tidy": ("clang-tidy", "{folder}/a.cc", "--"),
}


class Database(ClickHouse):
    def post(self, query, body, **settings):
        token = base64.b64encode(f"heap:{PASSWORD}".encode()).decode()
        more = "".join(f"&{name}={value}" for name, value in {"max_memory_usage": 6000000000, **settings}.items())
        url = f"http://127.0.0.1:{self.port}/?database={self.name}{more}"
        if body is not None:
            url += "&query=" + urllib.request.quote(query)
        request = urllib.request.Request(url, (query if body is None else body).encode(), {"Authorization": f"Basic {token}"})
        try:
            with urllib.request.urlopen(request, timeout=1200) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{query[:200]}: {error.read()[:600].decode()}") from None

    def insert(self, table, rows):
        self.post(f"INSERT INTO {table} FORMAT TabSeparated", rows)

    def run(self, query):
        return self.post(query, None)

    def heapctl(self, *words):
        return subprocess.run([BUILD / "heapctl", *map(str, words)], check=True, capture_output=True, text=True).stdout

    def fleet(self, *words):
        return self.heapctl("fleet", *words, "--store", self.url(), "--password-file", self.password_file)

    def make(self, name):
        self.name = name
        self.fleet("schema", "--apply")


def take_profiles(folder):
    """One of each program, by heapctl run."""
    (folder / "a.cc").write_text(SOURCE)
    words = {"heapctl": BUILD / "heapctl", "folder": folder, "root": pathlib.Path(__file__).resolve().parents[1]}
    paths = []
    for name, command in PROGRAMS.items():
        path = folder / f"{name}.100.0.i0.heap"
        subprocess.run([BUILD / "heapctl", "run", "--activate", "--sample", "4KiB", "--record", path, "--",
                        *(word.format(**words) for word in command)], check=True, capture_output=True,
                       env=dict(os.environ, HEAPCTL_DIR=str(folder / "agents")))
        paths.append(path)
    return paths


def synthesize(database, paths):
    """Hosts of services that have the stacks of the real profiles: sizes are log-normal by host and by stack, samples nearly Poisson's, a stack is on 95% of
    the hosts. Each service has two versions, of which the later leaks at its third stack; LEAKING_HOST leaks at the fifth."""
    database.make("seed")
    for path in paths:
        database.heapctl("send", path, "--service", path.name.split(".")[0], "--host", "real", "--to", database.url(), "--password-file",
                         database.password_file)
    services = len(paths)
    database.make("heap")
    database.run("INSERT INTO stack (stack, site, frames, build_ids, offsets) SELECT stack, site, frames, build_ids, offsets FROM seed.stack")
    names = "[" + ",".join(f"'{path.name.split('.')[0]}'" for path in sorted(paths)) + "]"
    database.run("CREATE TABLE template (service String, number UInt32, stack UInt64, mean Float64) ENGINE = Log")
    # A service has some of the stacks of all profiles, so that each has as many.
    database.run(f"INSERT INTO template SELECT service, toUInt32(at), stack, m FROM (SELECT service, groupArray(stack) AS stacks, "
                 f"groupArray(m1) AS ms FROM (SELECT service, stack, m1 FROM (SELECT arrayJoin({names}) AS service, stack, sampled_bytes / samples AS m1 "
                 f"FROM seed.sample) ORDER BY cityHash64(service, stack) LIMIT {STACKS * 105 // 100} BY service) GROUP BY service) "
                 "ARRAY JOIN stacks AS stack, ms AS m, arrayEnumerate(stacks) AS at")
    end = int(time.time()) - 600

    def normal(*of):
        return (f"sqrt(-2 * log((intHash32(cityHash64({', '.join(map(str, of))}, {SEED}, 1)) + 1) / 4294967297)) * "
                f"cos(6.283185307 * intHash32(cityHash64({', '.join(map(str, of))}, {SEED}, 2)) / 4294967296)")
    for at in range(SNAPSHOTS):
        ms = 1000 * (end - STEP * (SNAPSHOTS - 1 - at))
        database.run(f"""INSERT INTO sample ({KEY}, stack, samples, sampled_bytes, sampling_interval)
            SELECT service, if(h % {2 * services} < {services}, 'v2', 'v3') AS v, concat('host', toString(h)), 1000 + h, toDateTime({end - 20 * 86400}),
            toDateTime(intDiv({ms} + h, 1000)), {ms} + h, stack, n, round(n * mean), 524288 FROM
            (SELECT service, h, stack, mean, round(lambda + sqrt(lambda) * {normal('h', 'stack', at)}) AS n FROM
            (SELECT service, h, stack, mean, 8 * exp(0.5 * {normal('h')} + 0.8 * {normal('h', 'stack')}) *
            (1 + {at} * (0.03 * (number = 3 AND h % {2 * services} >= {services}) + 0.2 * (number = 5 AND h = {LEAKING_HOST}))) AS lambda
            FROM (SELECT h, arrayElement({names}, h % {services} + 1) AS service FROM (SELECT toUInt32(number) AS h FROM numbers({HOSTS})))
            ALL INNER JOIN template USING service WHERE cityHash64(h, stack) % 100 < 95)) WHERE n > 0""")
    database.run(f"INSERT INTO profile ({KEY}, stacks, inuse_bytes, inuse_variance, sampling_interval) SELECT {KEY}, count(), sum(inuse_bytes), "
                 f"sum(inuse_variance), 524288 FROM sample GROUP BY {KEY}")


def median_seconds(function, times=3):
    spent = []
    for _ in range(times):
        begin = time.monotonic()
        function()
        spent.append(time.monotonic() - begin)
    return statistics.median(spent)


def processor_seconds():
    """Of all processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def server_seconds(database):
    fields = pathlib.Path(f"/proc/{database.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_questions(database):
    days = SNAPSHOTS * STEP // 86400
    print(f"  seconds of heapctl fleet (median of 3), and of the server's processors for each; load of the machine {os.getloadavg()[0]:.0f}:")
    for words in (("top",), ("top", "--service", "gdb"), ("flame", "--service", "gdb", "-o", "/dev/null"),
                  ("diff", "--service", "gdb", "--ago", "24hrs"), ("growth", "--since", "24hrs"), ("growth", "--since", f"{max(8, days)}days"),
                  ("outliers", "--service", "gdb", "--since", "24hrs"), ("outliers", "--service", "gdb", "--since", f"{max(8, days)}days"), ("versions", "--service", "gdb", "--since", "24hrs"), ("hosts",)):
        begin = server_seconds(database)
        spent = median_seconds(lambda words=words: database.fleet(*words))
        print(f"    {' '.join(words):50} {spent:8.2f} {(server_seconds(database) - begin) / 3:8.2f}", flush=True)


def size_of(database, table):
    """After the server merged what it merges by itself."""
    rows, size = database.run(f"SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'heap' AND table = '{table}'").split()
    return int(rows), int(size)


def measure_sending(database, folder, profile):
    """What sending costs the sender, beside the client's own insert of the same rows: by processor time, as other processes are on the machine."""
    paths = []
    for at in range(100):
        path = folder / f"api.{100 + at}.0.i0.heap"
        shutil.copy(profile, path)
        paths.append(path)
    database.make("sent")
    begin = processor_seconds()
    database.heapctl("send", *paths, "--service", "api", "--to", database.url(), "--password-file", database.password_file)
    spent = processor_seconds() - begin
    rows = int(database.run("SELECT count() FROM sample"))
    columns = f"{KEY}, stack, samples, sampled_bytes, sampling_interval"
    text = database.run(f"SELECT {columns} FROM sample FORMAT TabSeparated")
    database.run("TRUNCATE TABLE sample")
    begin = processor_seconds()
    subprocess.run(["clickhouse-client", "--port", str(database.tcp), "--user", "heap", "--password", PASSWORD, "--database", "sent", "--query",
                    f"INSERT INTO sample ({columns}) FORMAT TabSeparated"], input=text, text=True, check=True)
    plain = processor_seconds() - begin
    print(f"  heapctl send: {rows / spent:,.0f} rows per second of processor time from {len(paths)} files of {rows // len(paths)} stacks, with their names; clickhouse-client: "
          f"{rows / plain:,.0f} of text made before ({spent / plain:.1f} times as long)", flush=True)


def measure_postgres(database, folder):
    """A tenth of the hosts, as rows of the same columns with the estimates, and the indexes that the questions need."""
    hosts = max(1, HOSTS // 10)
    rows = database.run("SELECT service, version, host, pid, toUInt32(ts), stack, inuse_bytes, inuse_variance FROM sample "
                        f"WHERE pid < {1000 + hosts} FORMAT TabSeparated")
    user = pwd.getpwnam("postgres") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    data = folder / "postgres"
    data.mkdir()
    os.chown(data, user.pw_uid, user.pw_gid)
    folder.chmod(0o755)
    own = {"user": user.pw_uid, "group": user.pw_gid} if os.getuid() == 0 else {}
    subprocess.run([POSTGRES + "initdb", "-D", data / "db", "-U", "heap", "-A", "trust", "--no-sync", "--locale=C"], check=True, capture_output=True, **own)
    port = free_port()
    server = subprocess.Popen([POSTGRES + "postgres", "-D", data / "db", "-p", str(port), "-k", data, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
                               "-c", "shared_buffers=512MB", "-c", "work_mem=64MB", "-c", "max_wal_size=2GB"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, **own)

    def psql(query, text=None):
        return subprocess.run(["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "heap", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtc", query],
                              input=text, text=True, check=True, capture_output=True).stdout
    try:
        while subprocess.run([POSTGRES + "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True).returncode != 0:
            time.sleep(0.2)
        psql("CREATE UNLOGGED TABLE sample (service text, version text, host text, pid int, ts bigint, stack numeric, b float8, v float8)")
        begin = time.monotonic()
        psql("COPY sample FROM STDIN", rows)
        copied = time.monotonic() - begin
        psql("CREATE INDEX ON sample (service, ts); CREATE INDEX ON sample (ts); ANALYZE sample")
        count, size = int(psql("SELECT count(*) FROM sample")), int(psql("SELECT pg_total_relation_size('sample')"))
        last = int(psql("SELECT max(ts) FROM sample"))
        print(f"  PostgreSQL 15, {hosts} hosts, {count:,} rows: {count / copied:,.0f} rows/s by COPY, {size / count:.0f} bytes a row with its indexes")
        recent = f"ts > {last} - 1800"
        slopes = "SELECT service, version, host, stack, regr_slope(b, ts) s FROM sample GROUP BY 1, 2, 3, 4 HAVING count(*) >= 3"
        for name, query in (("top", f"SELECT service, stack, sum(b), sqrt(sum(v)) FROM sample WHERE {recent} GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 15"),
                            ("diff, one service", f"SELECT stack, sum(CASE WHEN {recent} THEN b ELSE -b END) FROM sample WHERE service = 'gdb' AND ({recent} OR "
                                                  f"ts BETWEEN {last} - 88200 AND {last} - 86400) GROUP BY 1"),
                            ("growth, all times", f"SELECT service, version, stack, avg(s), stddev_samp(s) / sqrt(count(*)) FROM ({slopes}) x GROUP BY 1, 2, 3"),
                            ("versions, one service", "SELECT stack, version, avg(b), var_samp(b) FROM (SELECT stack, version, host, avg(b) b FROM sample WHERE "
                                                      f"service = 'gdb' AND ts > {last} - 86400 GROUP BY 1, 2, 3) x GROUP BY 1, 2")):
            print(f"    {name:50} {median_seconds(lambda query=query: psql(query)):8.2f}", flush=True)
    finally:
        server.terminate()
        server.wait()


def children_of(pid):
    found = [pid]
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += children_of(int(child))
    return found


def memory_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Pss:"))) / 1024


def measure_gateway(database, folder):
    """Sleeping processes with the agent; the history of all of them goes to the database."""
    database.make("gateway")
    environment = dict(os.environ, HEAPCTL_DIR=str(folder / "targets"))
    targets = [subprocess.Popen([BUILD / "heapctl", "run", "--activate", "--", "sleep", "600"], env=environment, stderr=subprocess.DEVNULL)
               for _ in range(TARGETS)]
    gateway = None
    try:
        gateway = subprocess.Popen([BUILD / "heapctl", "serve", "--listen", f"127.0.0.1:{free_port()}", "--history", folder / "history", "--history-every",
                                    "10s", "--send", database.url(), "--password-file", database.password_file, *(str(target.pid) for target in targets)],
                                   env=environment, stderr=subprocess.DEVNULL)
        end, largest, count = time.monotonic() + 180, 0, 0
        while time.monotonic() < end and count < 2 * TARGETS:
            time.sleep(1)
            try:
                largest = max(largest, sum(memory_of(pid) for pid in children_of(gateway.pid)))
            except (OSError, StopIteration):
                pass
            count = int(database.run("SELECT count() FROM profile"))
        print(f"  a gateway with {TARGETS} targets: at most {largest:.0f} MiB (PSS, with the process that sends), {count} snapshots arrived", flush=True)
    finally:
        for process in (gateway, *targets):
            if process is not None:
                process.terminate()
                process.wait()


def check_outliers(database, paths):
    """Sizes of hosts are so different that others have as much by themselves; but none grows as the planted one."""
    service = sorted(path.name.split(".")[0] for path in paths)[LEAKING_HOST % len(paths)]
    planted = database.run(f"SELECT toString(any(site)) FROM stack WHERE stack IN (SELECT stack FROM template WHERE service = '{service}' AND number = 5)")
    days = max(1, SNAPSHOTS * STEP // 86400)
    found = json.loads(database.fleet("outliers", "--service", service, "--since", f"{days}days", "--json", "--top", "5000"))["sites"]
    grows = [(site["host"], site["site"]) for site in found if site["adjusted_p"] is not None and site["adjusted_p"] < 0.05]
    is_first = grows[:1] == [(f"host{LEAKING_HOST}", planted.strip())]
    print(f"  outliers of {service}, {days} days: the planted host and site is {'' if is_first else 'NOT '}first, {len(grows) - is_first} others grow by their p, "
          f"{len(found) - len(grows)} are far above the median", flush=True)
    return is_first


def measure(database, folder):
    good = True
    profiles = take_profiles(folder)
    measure_sending(database, folder, profiles[0])
    if HOSTS:
        begin = time.monotonic()
        synthesize(database, profiles)
        rows, size = size_of(database, "sample")
        print(f"  {HOSTS} hosts, {SNAPSHOTS} snapshots: {rows:,} rows made by the server itself in {time.monotonic() - begin:.0f} s; "
              f"{size / rows:.2f} bytes a sample on disk", flush=True)
        begin = time.monotonic()
        database.fleet("schema", "--apply")
        sums, sum_size = size_of(database, "growth_day")
        print(f"  days summed in {time.monotonic() - begin:.0f} s: {sums:,} rows, {sum_size / sums:.2f} bytes each, {sum_size / rows:.2f} a sample")
        measure_questions(database)
        found = json.loads(database.fleet("growth", "--since", f"{max(8, SNAPSHOTS * STEP // 86400)}days", "--json"))["sites"]
        significant = [site for site in found if site["adjusted_p"] is not None and site["adjusted_p"] < 0.05]
        print(f"  growth names {len(significant)} sites, of {len({site['service'] for site in significant})} services, "
              f"versions {sorted({site['version'] for site in significant})}")
        good &= {site["version"] for site in significant[:len(PROGRAMS)]} == {"v3"}
        good &= check_outliers(database, profiles)
        measure_postgres(database, folder)
    if TARGETS:
        measure_gateway(database, folder)
    if SEEDS:
        def question(*words):
            return database.fleet(*words, "--json")
        counts, wide = fleet_truth.Counts(), fleet_truth.Counts()
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
            database.make(f"truth{seed}")
            fleet = fleet_truth.Fleet(seed)
            fleet.insert(database)
            fleet_truth.ask(fleet, counts, question)
            database.make(f"wide{seed}")
            fleet_truth.Fleet(seed, spread=0.94).insert(database)
            fleet_truth.ask_growing_hosts(wide, question)
        print(f"  {SEEDS} fleets of known truth:")
        good &= fleet_truth.report(counts, SEEDS)
        print(f"  {SEEDS} of hosts whose sizes are as different as those of the large fleet:")
        # On the smallest of such hosts twelve times as much is little.
        good &= fleet_truth.report(wide, SEEDS, least=0.9)
    return good


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hc-bench-fleet-"))
    database = Database(folder / "clickhouse")
    users = folder / "clickhouse/users.xml"
    users.write_text(users.read_text().replace("<max_memory_usage>500000000<", "<max_memory_usage>6000000000<"))
    try:
        database.start()
        return 0 if measure(database, folder) else 1
    finally:
        database.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
