# SPDX-License-Identifier: Apache-2.0
"""A cluster of ClickHouse servers of the tests, with the ZooKeeper that it needs: on loopback, with bounded memory, each ended by its pid."""
import os
import pathlib
import socket
import subprocess

from clickhouse import PASSWORD, ClickHouse
from processes import free_port, need, wait_until

JAR = "/usr/share/java/zookeeper.jar"

MORE = """<interserver_http_port>{interserver}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <zookeeper><node><host>127.0.0.1</host><port>{zookeeper}</port></node><session_timeout_ms>10000</session_timeout_ms></zookeeper>
  <macros><shard>{shard}</shard><replica>{replica}</replica></macros>
  <remote_servers><{name}>{shards}</{name}></remote_servers>
  <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>"""
PROFILE = """<allow_experimental_low_cardinality_type>1</allow_experimental_low_cardinality_type>
    <distributed_ddl_task_timeout>20</distributed_ddl_task_timeout>"""
REPLICA = "<replica><host>127.0.0.1</host><port>{port}</port><user>heap</user><password>{password}</password></replica>"


class ZooKeeper:
    def __init__(self, folder):
        self.folder, self.port, self.process = pathlib.Path(folder), free_port(), None
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "zoo.cfg").write_text(f"tickTime=1000\ndataDir={self.folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                                             "admin.enableServer=false\nmaxClientCnxns=0\n")

    def start(self):
        with open(self.folder / "output", "ab") as output:
            self.process = subprocess.Popen([need("java"), "-Xmx96m", "-XX:+UseSerialGC", "-cp", JAR,
                                             "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")], cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={"PATH": os.environ["PATH"]})

        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"ZooKeeper ended: {(self.folder / 'output').read_bytes()[-2000:]!r}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                    connection.sendall(b"srvr")
                    return b"Mode: " in connection.recv(4096)
            except OSError:
                return False
        wait_until(ready, "ZooKeeper to answer")
        return self

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """`servers[shard][replica]`."""

    name = "fleet"

    def __init__(self, folder, shards=2, replicas=2):
        self.zookeeper = ZooKeeper(os.path.join(folder, "zookeeper"))
        self.servers = [[ClickHouse(os.path.join(folder, f"{shard}-{replica}")) for replica in range(replicas)] for shard in range(shards)]
        xml = "".join("<shard><internal_replication>true</internal_replication>"
                      + "".join(REPLICA.format(port=server.tcp, password=PASSWORD) for server in shard) + "</shard>" for shard in self.servers)
        for shard, servers in enumerate(self.servers):
            for replica, server in enumerate(servers):
                server.configure(MORE.format(interserver=free_port(), zookeeper=self.zookeeper.port, shard=shard, replica=replica, name=self.name, shards=xml),
                                 profile=PROFILE, default="")

    def all(self):
        return [server for shard in self.servers for server in shard]

    def start(self):
        self.zookeeper.start()
        for server in self.all():
            server.start()
        return self

    def stop(self):
        for server in self.all():
            server.stop()
        self.zookeeper.stop()
