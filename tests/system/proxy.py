"""An address of the server that loses connections on demand."""
import socket
import threading

from cluster import conninfo

CANCEL = (80877102).to_bytes(4, "big")  # what a request to cancel begins with


class Proxy:
    """A server's address that can be told to lose clients while the server goes on believing in them.

    On TCP, or in a folder: then it looks like the server's own socket.
    """

    def __init__(self, dsn, until=None, folder=None):
        self.given = conninfo.conninfo_to_dict(dsn)
        self.until = until  # a client that sends this is lost at once
        self.swallow = None  # the server never gets what holds this
        self.unheard = None  # (word, answer, n): a client that has said the word is lost instead of its n-th such answer
        self.silent = False  # nothing gets through any more, and nobody is told
        self.folder = folder
        if folder:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.bind(f"{folder}/.s.PGSQL.5432")
            self.socket.listen()
        else:
            self.socket = socket.create_server(("127.0.0.1", 0))
        self.clients, self.lost = {}, []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def dsn(self):
        at = {"host": self.folder, "port": 5432} if self.folder else {"host": "127.0.0.1", "port": self.socket.getsockname()[1]}
        return conninfo.make_conninfo(**{**self.given, **at})

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            try:
                server = self.server()
            except OSError:  # it is not there
                client.close()
                continue
            self.clients[client] = b""
            threading.Thread(target=self.pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, False), daemon=True).start()

    def server(self):
        if "/" not in self.given["host"]:
            return socket.create_connection((self.given["host"], self.given.get("port", 5432)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self.given['host']}/.s.PGSQL.{self.given.get('port', 5432)}")
        return server

    def pump(self, source, target, up):
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if data and (self.silent or (up and self.swallow and self.swallow in data)):
                continue
            if not up and data and self.is_unheard(target, data):
                self.lose_client(target)
                data = b""
            try:
                if data:
                    target.sendall(data)
            except OSError:
                data = b""
            if up and len(self.clients[source]) < 500:
                self.clients[source] += data
            if up and data and self.until and self.until in data:
                self.until = None
                self.lose_client(source)
            if not data:
                if not (up and source in self.lost):
                    try:
                        target.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
                return

    def is_unheard(self, client, data):
        if not self.unheard or self.unheard[0] not in self.clients[client] or self.unheard[1] not in data:
            return False
        word, answer, n = self.unheard
        self.unheard = (word, answer, n - 1) if n > 1 else None
        return n == 1

    def lose_client(self, client):
        self.lost.append(client)
        try:
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it had gone by itself

    def lose(self, word):
        for client, said in list(self.clients.items()):
            if word in said and client not in self.lost:
                self.lose_client(client)

    def close(self):
        self.socket.close()
