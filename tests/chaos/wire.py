"""A node's way to the server, that can be cut, held up or lost in the middle of a statement."""
import re
import socket
import threading

from cluster import conninfo

# What tells the statements of a node apart, in the text that it sends.
WORDS = {"claim": b"set status = case when t.kind", "start": b"set status = 'running', attempt", "finish": b"pgrab_internal.finish(",
         "beat": b"beat = n.beat + 1", "commit": b"commit\0", "step": b"pgrab_internal.steps_record(", "sql_step": b"pgrab_internal.step_run(",
         "waits": b"pgrab_internal.waits_tick(", "limit": b"pgrab_internal.limit_take(",
         "tell": b"pgrab_internal.notices_tell(", "group": b"savepoint pgrab_text", "group_finish": b".finish_runs("}
PREPARE, EXECUTE = re.compile(rb"P.{4}(pgrab_\d+)\0([^\0]*)\0", re.S), re.compile(rb"B.{4}\0(pgrab_\d+)\0", re.S)


class Wire:
    """One address per node.  black: what is sent waits, as in a network that has gone; it comes when that is back.

    cuts: (word, before) pairs; whoever sends such a statement next loses the connection before the server has it, or after.  After is by
    turns: at once, when its backend may be ended before it has done anything; and when the answer comes, so that it has been done.
    """

    def __init__(self, dsn, note):
        self.given = conninfo.conninfo_to_dict(dsn)
        self.note = note
        self.open = threading.Event()
        self.open.set()
        self.closed = threading.Event()
        self.delay = 0.0
        self.cuts = []
        self.turn = False    # of the cuts after
        self.unheard = set()  # clients that are lost instead of their next answer
        self.pairs = set()
        self.ends = set()  # of those that may still be used: a login that is refused for half a minute makes hundreds
        self.half_over = set()
        self.unaware = []  # ends of the server whose clients are gone, which it does not know
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def dsn(self):
        return conninfo.make_conninfo(**{**self.given, "host": "127.0.0.1", "port": self.socket.getsockname()[1]})

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(f"{self.given['host']}/.s.PGSQL.{self.given.get('port', 5432)}")
            except OSError:
                client.close()
                server.close()
                continue
            with self.lock:
                self.pairs.add((client, server))
                self.ends |= {client, server}
            for source, target, up in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.pump, args=(client, server, source, target, up), daemon=True).start()

    def take_cut(self, data, names):
        """The first wish that this piece fulfils, once.  names: the texts that were prepared on this connection."""
        names.update(PREPARE.findall(data))
        text = b"".join([data, *(names.get(name, b"") for name in EXECUTE.findall(data))])
        with self.lock:
            for wish in self.cuts:
                if WORDS[wish[0]] in text:
                    self.cuts.remove(wish)
                    return wish
        return None

    def waits_for_answer(self, client):
        """Before the server has the statement, because it may be quick."""
        with self.lock:
            self.turn = not self.turn
            if self.turn:
                self.unheard.add(client)
            return self.turn

    def pump(self, client, server, source, target, up):
        """One way of the two; who ends last closes both ends."""
        self.carry(client, server, source, target, up)
        with self.lock:
            first = (client, server) not in self.half_over
            if first:
                self.half_over.add((client, server))
            else:
                self.half_over.remove((client, server))
                self.ends -= {client, server}
        if not first:
            client.close()
            server.close()

    def carry(self, client, server, source, target, up):
        names = {}
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if not up and data and client in self.unheard:
                self.part(client, server, half=True)
                return
            self.open.wait()
            if self.delay:
                self.closed.wait(self.delay)
            wish = self.take_cut(data, names) if up and data else None
            later = wish and not wish[1] and self.waits_for_answer(client)
            try:
                if data and not (wish and wish[1]):
                    target.sendall(data)
            except OSError:
                data = b""
            if wish:
                self.note("cut", word=wish[0], before=wish[1])
            if later and data:
                continue
            if not data or wish:
                # After the server has it: the client is gone, and the server does not know yet.
                self.part(client, server, half=bool(wish) and not wish[1])
                return

    def drop(self, *ends):
        for end in filter(None, ends):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            self.pairs = {p for p in self.pairs if ends[0] not in p}

    def part(self, client, server, half):
        if half:
            self.unaware.append(server)
        self.drop(client, None if half else server)

    def cut_all(self, half=False):
        """half: the server goes on believing in its clients."""
        with self.lock:
            pairs = list(self.pairs)
        for client, server in pairs:
            self.part(client, server, half)

    def heal(self):
        self.delay = 0.0
        with self.lock:
            self.cuts = []
        self.open.set()
        while self.unaware:
            self.drop(self.unaware.pop())

    def close(self):
        self.closed.set()
        self.heal()
        self.socket.close()
        self.cut_all()
        with self.lock:
            left = list(self.ends)
        self.drop(None, *left)
        for end in left:
            end.close()
