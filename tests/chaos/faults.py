"""What is done to the nodes: drawn from a seed before anything runs, so that the same seed does the same."""
import functools
import os
import signal
import threading
import time

import psycopg
from cluster import process_table, wait_until

# Who is frozen or killed together.  Not node, keeper and shim at once: then nobody is left to act, as docs/guarantees.md says.
VICTIMS = [("node",), ("keeper",), ("shim",), ("child",), ("node", "shim"), ("keeper", "shim"), ("node", "keeper"), ("node", "child")]
LENGTHS = [0.3, 1.0, 2.5, 6.0]


def draw(rng, seconds, nodes):
    """The faults of one seed: (at, name, arguments), in order of time."""
    kinds = ["freeze"] * 4 + ["kill"] * 4 + ["term"] * 2 + ["black"] * 2 + ["cut_all", "half", "delay"] + ["cuts"] * 4 + \
        ["crash", "restart", "backends", "full", "rows", "table", "snapshot", "person", "person", "login"]
    faults = []
    for _ in range(rng.randint(6, 10)):
        kind = rng.choice(kinds)
        arguments = {"node": rng.randrange(nodes), "length": rng.choice(LENGTHS), "pick": rng.random()}
        if kind in ("freeze", "kill"):
            arguments["victims"] = rng.choice(VICTIMS)
        if kind == "cuts":
            arguments["words"] = [(rng.choice(["claim", "start", "finish", "finish", "beat", "commit"]), rng.random() < 0.3) for _ in range(8)]
        if kind == "person":
            arguments["act"] = rng.choice(["cancel", "delete", "pause", "edit", "run_now", "pause_all"])
        faults.append((round(rng.uniform(0.5, seconds), 2), kind, arguments))
    return sorted(faults, key=lambda f: f[0])


def family(node):
    """keeper, shims and their children below a node: pids by role."""
    table = process_table()
    below = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    keepers = [p for p in below.get(node.pid, []) if table[p][2] == "pgrab-keeper"]
    shims = [s for k in keepers for s in below.get(k, []) if table[s][2] == "pgrab-shim"]
    return {"node": [node.pid], "keeper": keepers, "shim": shims, "child": [c for s in shims for c in below.get(s, [])]}


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Nemesis:
    def __init__(self, arena, faults):
        self.arena, self.faults = arena, faults
        self.busy = set()  # nodes whose processes somebody is at: never two at once
        self.lock = threading.Lock()
        self.threads, self.errors = [], []

    def run(self):
        begun = time.monotonic()
        for at, kind, arguments in self.faults:
            self.arena.over.wait(max(0, begun + at - time.monotonic()))
            thread = threading.Thread(target=self.one, args=(kind, arguments), daemon=True)
            thread.start()
            self.threads.append(thread)
        for thread in self.threads:
            thread.join(30)

    def one(self, kind, arguments):
        import pools  # pylint: disable=import-outside-toplevel
        try:
            self.arena.note("fault", fault=kind, **arguments)
            (getattr(self, kind, None) or functools.partial(getattr(pools, kind), self))(**arguments)
            self.arena.note("over", fault=kind)
        except psycopg.Error as e:  # another fault is in the way of this one
            self.arena.note("fault_failed", fault=kind, error=str(e).strip())
        except Exception as e:  # pylint: disable=broad-except
            self.errors.append(f"{kind}: {e!r}")

    def alone(self, node):
        """Waits until nobody else is at the processes of this node."""
        while True:
            with self.lock:
                if node not in self.busy:
                    self.busy.add(node)
                    return
            self.arena.over.wait(0.05)

    def leave(self, node):
        with self.lock:
            self.busy.discard(node)

    def pids(self, node, victims, pick):
        roles = family(self.arena.nodes[node])
        found = []
        for victim in victims:
            pids = roles[victim]
            found += pids if victim != "child" or pick < 0.5 else pids[:1]
        return found

    def freeze(self, node, length, pick, victims):
        self.alone(node)
        pids = self.pids(node, victims, pick)
        for pid in pids:
            send(pid, signal.SIGSTOP)
        self.arena.over.wait(length)
        for pid in pids:
            send(pid, signal.SIGCONT)
        self.leave(node)

    def kill(self, node, length, pick, victims):
        self.alone(node)
        for pid in self.pids(node, victims, pick):
            send(pid, signal.SIGKILL)
        if "node" in victims:
            self.arena.nodes[node].wait_exit(10)
            self.arena.note("killed", node=node)
            self.arena.over.wait(length / 3)
            self.arena.start(node)
        self.leave(node)

    def term(self, node, length, pick):
        self.alone(node)
        self.arena.nodes[node].term()
        if pick < 0.3:
            self.arena.over.wait(length / 5)
            self.arena.nodes[node].term()
        self.arena.nodes[node].wait_exit(20)
        self.arena.over.wait(length / 3)
        self.arena.start(node)
        self.leave(node)

    def black(self, node, length, pick):
        self.arena.wires[node].open.clear()
        self.arena.over.wait(length)
        self.arena.wires[node].open.set()

    def cut_all(self, node, length, pick):
        self.arena.wires[node].cut_all()

    def half(self, node, length, pick):
        self.arena.wires[node].cut_all(half=True)

    def delay(self, node, length, pick):
        self.arena.wires[node].delay = 0.05 + pick / 5
        self.arena.over.wait(length)
        self.arena.wires[node].delay = 0.0

    def cuts(self, node, length, pick, words):
        for wire in self.arena.wires:
            with wire.lock:
                wire.cuts += [tuple(w) for w in words]

    def crash(self, node, length, pick):
        with self.arena.server_lock:
            self.arena.db.cluster.pg_stop("immediate")
            self.arena.over.wait(length / 3)
            self.arena.db.cluster.pg_start()

    def restart(self, node, length, pick):
        with self.arena.server_lock:
            self.arena.db.cluster.pg_stop("fast")
            self.arena.over.wait(length / 3)
            self.arena.db.cluster.pg_start()

    def connect(self, **options):
        return self.arena.db.connect(**options)

    def backends(self, node, length, pick):
        """Every third connection, whatever it does."""
        with self.connect() as conn:
            conn.execute("""select pg_terminate_backend(pid) from (select pid, row_number() over (order by pid) as n from pg_stat_activity
                where datname = current_database() and application_name like 'pgrab%%' offset 0) a where n %% 3 = %s""", [int(pick * 3)])

    def stuck(self, node, length, pick):
        """One of those that carry out texts, in the middle of whatever it does."""
        with self.connect() as conn:
            rows = conn.execute("select pid from pg_stat_activity where application_name like 'pgrab sql%%' order by state, pid").fetchall()
        if not rows:
            return
        pid = rows[int(pick * len(rows))].pid
        send(pid, signal.SIGSTOP)
        self.arena.over.wait(length)
        send(pid, signal.SIGCONT)

    def full(self, node, length, pick):
        """No more connections: those that are lost cannot be made again."""
        name = self.arena.db.name
        self.arena.db.cluster.superuser(f'alter database "{name}" connection limit 0')
        self.backends(node, length, pick)
        self.arena.over.wait(length)
        self.arena.db.cluster.superuser(f'alter database "{name}" connection limit -1')

    def login(self, node, length, pick):
        """As full, by rights."""
        self.arena.db.cluster.superuser("alter role app nologin")
        try:
            self.arena.db.cluster.superuser("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app' and application_name like 'pgrab%'")
            self.arena.over.wait(length)
        finally:
            self.arena.db.cluster.superuser("alter role app login")

    def rows(self, node, length, pick):
        with self.connect(autocommit=False) as conn:
            conn.execute("select from pgrab.task where id %% 5 = %s for update", [int(pick * 5)])
            self.arena.over.wait(length)
            conn.rollback()

    def table(self, node, length, pick):
        with self.connect(autocommit=False) as conn:
            conn.execute(f"lock table {['pgrab.run', 'pgrab.task', 'pgrab.hold'][int(pick * 3)]} in share mode")
            self.arena.over.wait(length)
            conn.rollback()

    def snapshot(self, node, length, pick):
        with self.connect(autocommit=False) as conn:
            conn.execute("set transaction isolation level repeatable read")
            conn.execute("select count(*) from pgrab.task")
            self.arena.over.wait(length)

    def person(self, node, length, pick, act):
        what = act
        load = self.arena.load
        with self.connect() as conn:
            if what == "pause_all":
                conn.execute("select pgrab.pause_all()")
                load.acks.append((None, "pause_all", time.time()))
                self.arena.over.wait(length)
                load.acks.append((None, "resume_all", time.time()))
                conn.execute("select pgrab.resume_all()")
                return
            rows = conn.execute("select id, name from pgrab.task where schedule is null and chain is null and name like 'once%%' order by name").fetchall()
            if not rows:
                return
            task = rows[int(pick * len(rows))]
            if what == "edit":
                # what waits for an answer ends by its timeout
                conn.execute("update pgrab.task set priority = 1, timeout = case kind when 'http' then timeout else '59 minutes' end where id = %s", [task.id])
                return
            was = conn.execute(f"select status from pgrab.{what}(%s)", [task.id]).fetchall()
            if what == "pause" or was and was[0].status == "cancelled":
                load.acks.append((task.name, what, time.time()))


def calm(arena):
    """Everything is as it should be, and every node runs."""
    arena.db.cluster.pg_start()
    for wire in arena.wires:
        wire.heal()
    for i, node in enumerate(arena.nodes):
        for pids in family(node).values():
            for pid in pids:
                send(pid, signal.SIGCONT)
        if not node.running():
            arena.start(i)
    wait_until(lambda: in_order(arena), 20, "the server")


def in_order(arena):
    """What a fault could not put back itself, because of another one."""
    try:
        arena.db.cluster.superuser("alter role app login")
        arena.db.cluster.superuser(f'alter database "{arena.db.name}" connection limit -1')
        return arena.db.query("select pgrab.resume_all()")
    except psycopg.Error:
        return False
