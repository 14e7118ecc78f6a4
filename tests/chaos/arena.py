"""One seed: a database, three nodes each behind a wire, the load, the faults, and the verdict."""
import json
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import groups
import pools
import waits
from check import Begun, History, check
from cluster import Db, Node, descendants, end_leftovers, wait_until
from faults import Nemesis, calm, draw
from load import Load
from moves import Moves
from serving import Serve
from waits import Waits
from when import When
from wire import Wire

QUIET_S = 60    # to come to rest
TIMES = {"heartbeat": "200ms", "fence_after": "1500ms", "dead_after": "5s", "kill_grace": "300ms", "drain_timeout": "1s", "workers": "4", "preempt_after": "200ms", "steal_after": "500ms",
         "allow": "sql,noop,shell,http"}


class Arena:
    """All sorts of tasks; see orders.py for another one."""
    NODES = 3
    SECONDS = 8     # during which faults begin

    def __init__(self, cluster, seed, folder):
        self.seed, self.folder = seed, Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)  # what an earlier run of the seed has left
        self.folder.mkdir(parents=True)
        self.rng = random.Random(seed)
        self.log = open(self.folder / "events", "w", encoding="utf-8")
        self.log_lock, self.server_lock = threading.Lock(), threading.Lock()
        self.over = threading.Event()  # never set but at the end: what lasts for a time is a wait for it
        self.counts = {}
        self.faults = []
        self.db = Db(cluster, cluster.create_database())
        self.moves = Moves(self.db)
        self.wires = [Wire(self.db.dsn, self.note) for _ in range(self.NODES)]
        self.nodes, self.ended = [], []
        self.prepare()

    def prepare(self):
        self.load = Load(self.db, self.folder, self.rng)
        self.waits = Waits(self.load, self.seed, self.over)
        self.when = When(self.load, self.seed, self.over)
        self.door = Serve(self.db, self.folder, door=True)
        self.groups = groups.Groups(self.load, self.seed, self.over)
        self.config = pools.sections(self.load, self.folder)

    def draw(self):
        return draw(self.rng, self.SECONDS, self.NODES) + pools.draw(self.seed, self.SECONDS, self.NODES) + waits.draw(self.seed, self.SECONDS, self.NODES) \
            + groups.draw(self.seed, self.SECONDS, self.NODES)

    def begin(self):
        self.load.begin()
        self.waits.begin()
        self.when.begin()
        self.groups.begin()
        for i in range(self.NODES):
            self.start(i)
        self.load.pools(pools.tasks(self.seed))
        self.waits.handlers(pools.WAITS)

    def settle(self):
        self.load.settle()
        self.waits.settle()
        self.when.settle()

    def judge(self):
        return check(self.history()) + self.groups.faults()

    def counted(self):
        """More figures of the seed."""
        return {"grouped": self.groups.grouped()}

    def end_others(self):
        """Who is there beside the nodes."""
        self.waits.close()
        self.door.end()

    def note(self, what, **more):
        with self.log_lock:
            for counted in (what, more["fault"]) if what == "fault" else (what,):
                self.counts[counted] = self.counts.get(counted, 0) + 1
            self.log.write(json.dumps({"at": time.time(), "what": what, **more}) + "\n")
            self.log.flush()

    def options(self, i):
        return {**TIMES, "callback_url": self.door.url, "config": self.file_of(i), "labels": "site=a" if i == 0 else "", "sql_group": self.groups.size(i)}

    def file_of(self, i):
        """The owner's sessions are behind the wire of the node, too."""
        path = self.folder / f"n{i}.conf"
        path.write_text(self.config.read_text(encoding="utf-8") + self.groups.section(self.wires[i].dsn), encoding="utf-8")
        path.chmod(0o600)
        return path

    def start(self, i):
        node = Node(self.db, f"n{i}", self.folder, dsn=self.wires[i].dsn, **self.options(i))
        if i < len(self.nodes):
            self.ended.append(self.nodes[i])
            self.nodes[i] = node
        else:
            self.nodes.append(node)

    def run(self):
        """The faults found."""
        self.begin()
        nemesis = Nemesis(self, sorted(self.draw(), key=lambda f: f[0]))
        nemesis.run()
        self.faults += [f"harness: {e}" for e in nemesis.errors]
        calm(self)
        self.note("calm")
        self.rest()
        self.end_nodes()
        self.end_others()
        self.faults += self.judge() + self.moves.faults() + self.residue()
        return self.faults

    def rest(self):
        """I10: everything that was to be done is done."""
        def supervised(done):
            for i, node in enumerate(self.nodes):
                if not node.running():
                    self.start(i)
            return done()

        since = self.db.one("select clock_timestamp()")
        try:
            wait_until(lambda: supervised(self.load.caught_up), QUIET_S, "the schedules to be in time", step=0.2)
            self.settle()
            wait_until(lambda: supervised(lambda: not self.load.left()), QUIET_S, "the rest", step=0.2)
            wait_until(lambda: supervised(lambda: self.all_up(since)), QUIET_S, "the nodes to have their names again", step=0.2)
        except AssertionError as e:
            self.faults.append(f"I10 {e}")
            late = self.db.query("select name, status, attempt, last_error from pgrab.task where schedule is not null and not paused")
            self.faults += [f"I10 {r.name}: its schedule is late, {r.status} (attempt {r.attempt}, {r.last_error})" for r in late]
            self.faults += [f"I10 {r.name}: still {r.status} (attempt {r.attempt}, {r.last_error})" for r in self.load.left()]

    def all_up(self, since):
        """Who was killed right after it had registered is declared dead by others, which they have to be there for; and a node without a
        lease would leave the name of its old incarnation behind."""
        up = {(r.name, r.pid) for r in self.db.query("select name, pid from pgrab.node where state = 'up' and heartbeat_at > %s", since)}
        return up == {(node.name, node.pid) for node in self.nodes}

    def end_nodes(self):
        for node in self.nodes:
            if node.running():
                node.term()
        for node in self.nodes:
            try:
                node.end(15)
            except AssertionError as e:
                self.faults.append(f"I11 {e}")
        for node in self.nodes + self.ended:
            code = node.proc.poll()
            early = code == -signal.SIGTERM and "event=registered" not in node.log()  # before it listens to signals
            if code is not None and code < 0 and code != -signal.SIGKILL and not early:
                self.faults.append(f"I11 {node.name} (pid {node.pid}) ended by signal {-code}")

    def history(self):
        runs = self.db.query("""select name, outcome, ended, fire_at, started_at, finished_at, attempt, incarnation, version, error,
            output, signals from pgrab.run order by finished_at, version""")
        (self.folder / "runs").write_text("".join(f"{run}\n" for run in runs), encoding="utf-8")
        effects = {r.name: r.n for r in self.db.query("select name, count(*) as n from public.effect group by name")}
        begun = [Begun(r.name, r.at.timestamp(), r.asked_at.timestamp()) for r in self.db.query("select name, at, asked_at from public.begun")]
        return History(runs, self.load.probe.events(), effects, self.load.promises, self.load.parents, self.load.acks, begun, self.waits.waited(), self.when.windows)

    def residue(self):
        """I11, I13: nothing of ours is left, anywhere."""
        faults = []
        for what, statement in {
                "tasks held": "select id from pgrab.task where status in ('claimed', 'running')",
                "places taken": "select task_id from pgrab.limit_place where started and not over",
                "nodes that say they are up": "select name from pgrab.node where state <> 'down'",
                "sessions": "select pid from pg_stat_activity where datname = current_database() and application_name like 'pgrab%%'"}.items():
            rows = wait_rows(self.db, statement)
            if rows:
                faults.append(f"I11 {what}: {rows[:5]}")
        if descendants():
            faults += [f"I11 process {line}" for line in end_leftovers()]
        if self.db.one("select pg_notification_queue_usage() > 0.01"):
            faults.append("I13 the queue of notifications fills")
        return faults

    def close(self):
        self.over.set()
        for node in self.nodes:
            if node.running():
                node.kill9()
        self.end_others()
        end_leftovers(15)
        for wire in self.wires:
            wire.close()
        self.load.close()
        self.log.close()
        self.moves.close()
        self.db.close()
        self.db.cluster.drop_database(self.db.name)
        if self.faults:
            (self.folder / "faults").write_text("\n".join(self.faults) + "\n", encoding="utf-8")


def wait_rows(db, statement):
    """Backends need a moment to see that nobody is there any more."""
    try:
        wait_until(lambda: not db.query(statement), 5)
    except AssertionError:
        return db.query(statement)
    return []


def run_seed(cluster, seed, folder, kind=Arena):
    """(faults, counts)."""
    begun = time.monotonic()
    arena = kind(cluster, seed, os.path.join(folder, f"seed-{seed}"))
    try:
        arena.run()
        starts, tasks = arena.load.starts(), arena.load.size()
        more = arena.counted()
        runs, preempted = arena.db.query("select count(*) as runs, count(*) filter (where outcome = 'preempted') as preempted from pgrab.run")[0]
    finally:
        arena.close()
    return arena.faults, {"seconds": round(time.monotonic() - begun, 1), "faults": arena.counts.get("fault", 0), "cuts": arena.counts.get("cut", 0),
                          "kills": arena.counts.get("killed", 0), "handlers": arena.counts.get("handlers", 0),
                          "server": arena.counts.get("crash", 0) + arena.counts.get("restart", 0), "tasks": tasks, "starts": starts, "runs": runs,
                          "moves": arena.moves.made.total(),
                          "preempted": preempted, **more}
