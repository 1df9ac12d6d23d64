# SPDX-License-Identifier: Apache-2.0
"""A server between a client and another server; forward() of a subclass carries a connection's bytes."""
import socket
import threading


class Relay:
    def __init__(self, case, server_port):
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        case.addCleanup(self.listener.close)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with client, socket.create_connection(("127.0.0.1", self.server_port)) as server:
            self.forward(client, server)

    def forward(self, client, server):
        raise NotImplementedError
