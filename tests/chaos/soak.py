"""scripts/soak: hours of load, with nodes, server, pooler and handlers restarted at random; does anything grow, is anything lost?

n0 is restarted, n1 too and goes through PgBouncer; n2 is never restarted, nor its handlers, so what grows in its memory is seen.  The
history is counted and deleted when it is ten minutes old, and the events with it, so that sizes can become flat.
"""
import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "system"), str(Path(__file__).resolve().parent)]

import psycopg  # noqa: E402
import soak_judge  # noqa: E402
from cluster import ROOT, Cluster, Db, Node, descendants, end_by_signals, end_leftovers, process_table, wait_until  # noqa: E402
from faults import family, send  # noqa: E402
from pooler import Pooler  # noqa: E402

HERE = Path(__file__).resolve().parent
JS = shutil.which("node")
TICK_S = 0.5
SHARES = {"noop": 0.42, "effect": 0.24, "py": 0.10, "js": 0.10 if JS else 0, "notify": 0.03, "http": 0.02, "shell": 0.002, "waits": 0.01,
          "chain": 0.04, "batch": 0.04}
FAULTS = {"node term": 4, "node kill": 4, "handler kill": 6, "pooler restart": 2, "server fast": 1, "server immediate": 1}
PR_SET_CHILD_SUBREAPER = 36
TABLES = """
    create table public.effect (id bigint);
    create table public.effects (n bigint);
    create table public.inserted (name text, n bigint);
    create table public.ended (name text, n bigint, twice bigint);
    create table public.outcomes (name text, outcome text, n bigint);
    create table public.fired (name text, fire_at timestamptz, n bigint, primary key (name, fire_at));"""
FOLD = """
    with gone as (
      delete from pgrab.run where finished_at < clock_timestamp() - %(keep)s * interval '1 s'
      returning task_id, name, outcome, ended, fire_at),
    ended as (
      insert into public.ended select name, count(*), count(*) - count(distinct task_id) from gone
      where ended is not null and name not like 'tick%%' group by name),
    fired as (
      insert into public.fired as f select name, fire_at, count(*) from gone
      where outcome = 'succeeded' and name like 'tick%%' group by name, fire_at
      on conflict (name, fire_at) do update set n = f.n + excluded.n),
    effects as (
      insert into public.effects select count(*) from effect_gone),
    events as (
      delete from pgrab.event where at < clock_timestamp() - %(keep)s * interval '1 s')
    insert into public.outcomes select name, outcome, count(*) from gone group by name, outcome""".replace(
        "with gone", "with effect_gone as (delete from public.effect returning id), gone", 1)
SIZES = """
    select regexp_replace(c.relname, '_[0-9]{8}', '') as name, sum(pg_relation_size(c.oid)) as size,
      coalesce(sum(s.n_dead_tup), 0) as dead
    from pg_class c left join pg_stat_user_tables s on s.relid = c.oid
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'i') group by 1"""
LATE = """
    select coalesce(percentile_cont(0.5) within group (order by late), 0) as p50,
      coalesce(percentile_cont(0.99) within group (order by late), 0) as p99
    from (select extract(epoch from started_at - fire_at)::float8 as late from pgrab.run
      where finished_at > clock_timestamp() - %(seconds)s * interval '1 s' and attempt = 1 and name in ('noop', 'effect')) r"""
DUE = "select count(*) from pgrab.task where due_at <= clock_timestamp() and status = 'scheduled'"


class Session:
    """A connection that comes back; what is asked while the server is away is asked again."""

    def __init__(self, db, over):
        self.db, self.over, self.conn = db, over, None

    def __call__(self, work, patience=120):
        until = time.monotonic() + patience
        while True:
            try:
                if self.conn is None or self.conn.closed:
                    self.conn = self.db.connect(autocommit=False)
                with self.conn.transaction():
                    return work(self.conn)
            except psycopg.OperationalError:
                if self.conn is not None:
                    self.conn.close()
                if time.monotonic() > until:
                    raise
                self.over.wait(0.2)

    def query(self, statement, **params):
        return self(lambda conn: conn.execute(statement, params or None).fetchall())


class Soak:
    def __init__(self, cluster, options, folder):
        self.cluster, self.options, self.folder = cluster, options, Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.seconds = options.hours * 3600
        self.keep = 2 if options.tiny else min(600, self.seconds / 9)
        self.every = 1 if options.tiny else 10
        self.rng = random.Random(options.seed)
        self.over, self.ending = threading.Event(), threading.Event()
        self.samples, self.faults, self.errors = [], [], []
        self.out = open(self.folder / "samples.jsonl", "w", encoding="utf-8")
        self.db = Db(cluster, cluster.create_database())
        self.db.query(TABLES)
        self.pooler = Pooler(self.db, self.folder, servers=20)
        self.server = subprocess.Popen([sys.executable, ROOT / "tests/bench/http_server.py"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())
        self.config = self.folder / "pgrab.conf"
        env = f"env = PYTHONPATH={ROOT}/contrib/handlers/python,PYTHONDONTWRITEBYTECODE=1,LIBRARY={ROOT}/contrib/handlers/node/pgrab-handler.mjs\n"
        self.config.write_text(f"[pool py]\ncommand = {sys.executable} {HERE}/soak_pool.py\nkinds = soak_py\n{env}"
                               + (f"[pool js]\ncommand = {JS} {HERE}/soak_pool.mjs\nkinds = soak_js\n{env}" if JS else ""), encoding="utf-8")
        self.config.chmod(0o600)
        self.nodes = [self.node(i) for i in range(3)]

    def node(self, i):
        """With the program's own times."""
        through = {"dsn": self.pooler.dsn, "listen_dsn": self.db.dsn} if i == 1 else {}
        return Node(self.db, f"n{i}", self.folder, heartbeat=None, fence_after=None, dead_after=None, kill_grace=None, drain_timeout="5s",
                    config=self.config, **through)

    # -------------------------------------------------------------------------------------------------- the load

    def insert(self, conn, name, count, **columns):
        """Counted by the transaction that inserts."""
        columns = {"name": name, "max_attempts": 100, "backoff": "100 ms", "backoff_max": "2 s", **columns}
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        rows = conn.execute(f"insert into pgrab.task ({', '.join(columns)}) select {', '.join(['%s'] * len(values))} "
                            f"from generate_series(1, {count}) returning id", values).fetchall()
        conn.execute("insert into public.inserted values (%s, %s)", [name, count])
        return [row.id for row in rows]

    def tick(self, conn, shares):
        """What one tick inserts; returns the tasks that wait for a signal."""
        for name, columns in (("noop", {"kind": "noop"}), ("effect", {"command": "insert into public.effect values (1)"}),
                              ("py", {"kind": "soak_py", "args": {"n": 1}}), ("js", {"kind": "soak_js", "args": {"n": 1}}),
                              ("notify", {"kind": "notify", "command": "soak"}),
                              ("http", {"kind": "http", "command": f"http://127.0.0.1:{self.port}/"}),
                              ("shell", {"kind": "shell", "command": "true"})):
            if shares[name]:
                self.insert(conn, name, shares[name], **columns)
        for parent in self.insert(conn, "parent", shares["chain"] // 2, kind="noop") if shares["chain"] > 1 else []:
            self.insert(conn, "link", 1, kind="noop", parent_id=parent)
        if shares["batch"]:
            batch, = self.insert(conn, "batch", 1, kind="batch")
            self.insert(conn, "member", shares["batch"], kind="noop", batch=batch)
            conn.execute("select count(*) from pgrab.seal(%s::bigint)", [batch])
        return self.insert(conn, "waits", shares["waits"], kind="noop", wait_for="go") if shares["waits"] else []

    def shares(self, done):
        """How many of each by now, less what there was: shares of one half in a tick are one in every second."""
        due = {name: int(self.options.rate * TICK_S * (done + 1) * share) - int(self.options.rate * TICK_S * done * share)
               for name, share in SHARES.items()}
        due["chain"] = 2 * (int(self.options.rate * TICK_S * (done + 1) * SHARES["chain"] / 2) - int(self.options.rate * TICK_S * done * SHARES["chain"] / 2))
        return due

    def inserter(self):
        """What the outage of the server kept it from is not made up for."""
        session, waiting, done = Session(self.db, self.over), [], 0
        begun = time.monotonic()
        while not self.ending.is_set():
            shares = self.shares(done)
            new = session(lambda conn: self.tick(conn, shares))
            if waiting:
                session(lambda conn: conn.execute("select count(*) from pgrab.signal(%s::bigint[], 'go')", [waiting]))
            waiting = new
            done = max(done + 1, int((time.monotonic() - begun) / TICK_S))
            self.ending.wait(max(0, begun + done * TICK_S - time.monotonic()))
        if waiting:
            session(lambda conn: conn.execute("select count(*) from pgrab.signal(%s::bigint[], 'go')", [waiting]))

    def begin(self):
        for node in self.nodes:
            node.wait_up(60)
        wait_until(lambda: self.db.one("select count(*) = %s from pgrab.kind where kind in ('soak_py', 'soak_js')", 2 if JS else 1), 60, "the kinds of the pools")
        for i in range(10):
            self.db.add(name=f"tick{i}", key=f"tick{i}", schedule="@every 1s", misfire="all", misfire_limit=100000, misfire_after="10 min", max_attempts=100,
                        backoff="100 ms", backoff_max="1 s", **({"command": "insert into public.effect values (1)"} if i % 2 else {"kind": "noop"}))
        self.first = {r.name: r.fire_at for r in self.db.query("select name, fire_at from pgrab.task where schedule is not null")}

    # ------------------------------------------------------------------------------------------------ the faults

    def nemesis(self):
        self.ending.wait(self.options.pause)
        while not self.ending.is_set():
            what = self.rng.choices(list(FAULTS), FAULTS.values())[0]
            i = self.rng.randrange(2)
            self.faults.append((time.time(), f"{what} n{i}" if what.startswith(("node", "handler")) else what))
            getattr(self, what.replace(" ", "_"))(i)
            self.ending.wait(self.rng.uniform(0.5, 1.5) * self.options.pause)

    def node_term(self, i):
        self.nodes[i].end(60)
        self.nodes[i] = self.node(i)

    def node_kill(self, i):
        self.nodes[i].kill9()
        self.nodes[i] = self.node(i)

    def handler_kill(self, i):
        pids = self.handlers(i)
        if pids:
            send(self.rng.choice(pids), signal.SIGKILL)

    def pooler_restart(self, _):
        self.pooler.again()

    def server_fast(self, _):
        self.restart("fast")

    def server_immediate(self, _):
        self.restart("immediate")

    def restart(self, mode):
        """Away for up to five seconds."""
        self.cluster.pg_stop(mode)
        self.ending.wait(self.rng.uniform(0, 5))
        self.cluster.pg_start()

    def handlers(self, i):
        table = process_table()
        return [pid for pid in family(self.nodes[i])["child"] if pid in table and table[pid][2].startswith(("python", "node", "MainThread"))]

    # ----------------------------------------------------------------------------------------------- the samples

    def of_processes(self):
        """n2 and what belongs to it; of the other two, which are restarted, in the file only."""
        found = {"memory": {}, "descriptors": {}, "threads": {}}, {}
        for i in range(3):
            roles = {"node": [self.nodes[i].pid], "keeper": family(self.nodes[i])["keeper"], "handlers": self.handlers(i)}
            for role, pids in roles.items():
                try:
                    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
                    values = {"memory": sum(int(t.split("VmRSS:")[1].split()[0]) for t in texts) * 1024,
                              "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
                              "threads": sum(int(t.split("Threads:")[1].split()[0]) for t in texts)}
                except (OSError, IndexError):
                    continue  # it ends at this moment
                for kind, value in values.items():
                    (found[0][kind] if i == 2 else found[1].setdefault(kind, {}))[f"n{i} {role}"] = value
        return found

    def sample(self, session):
        values, others = self.of_processes()
        sizes = session.query(SIZES)
        late, = session.query(LATE, seconds=self.every)
        due, = session.query(DUE)
        values.update(size={r.name: int(r.size) for r in sizes}, dead={r.name: int(r.dead) for r in sizes if r.dead}, late={"p50": late.p50, "p99": late.p99},
                      backlog={"due": due[0]})
        for i in (0, 1):
            self.watch(self.nodes[i])
        self.samples.append({"at": time.time(), "values": values, "others": others})
        self.out.write(json.dumps(self.samples[-1]) + "\n")
        self.out.flush()

    def watch(self, node):
        """Who ended by itself is started again, and is a fault."""
        if not node.running() and node in self.nodes and not self.ending.is_set():
            self.over.wait(2)  # its restart may be under way
            if node in self.nodes:
                self.errors.append(f"{node.name} ended with {node.proc.returncode}")
                self.nodes[self.nodes.index(node)] = self.node(int(node.name[1]))

    def sampler(self):
        session, folded = Session(self.db, self.over), time.monotonic()
        while not self.ending.wait(self.every):
            self.sample(session)
            if time.monotonic() - folded > self.keep / 10:
                session(lambda conn: conn.execute(FOLD, {"keep": self.keep}))
                folded = time.monotonic()

    # ---------------------------------------------------------------------------------------------- all of it

    def guarded(self, work):
        try:
            work()
        except Exception as e:  # pylint: disable=broad-except
            self.errors.append(f"harness: {work.__name__}: {e!r}")

    def run(self):
        """The verdict: a dict."""
        self.begin()
        threads = [threading.Thread(target=self.guarded, args=[work], daemon=True) for work in (self.inserter, self.nemesis, self.sampler)]
        for thread in threads:
            thread.start()
        self.ending.wait(self.seconds)
        self.ending.set()
        for thread in threads:
            thread.join(180)
        self.rest()
        faults, rows = soak_judge.verdict(self.samples, self.counts())
        faults = self.errors + faults
        result = {"verdict": "VIOLATED" if faults else "ok", "faults": faults, "seed": self.options.seed, "rate": self.options.rate, "hours": self.options.hours,
                  "tasks": int(self.db.one("select coalesce(sum(n), 0) from public.inserted")),
                  "fires": int(self.db.one("select coalesce(sum(n), 0) from public.fired")), "injected": self.injected(), "growth": rows,
                  "outcomes": {r.outcome: int(r.n) for r in self.db.query("select outcome, sum(n) as n from public.outcomes group by outcome order by 2 desc")}}
        (self.folder / "verdict.json").write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")
        if len(self.samples) > 1:
            title = f"{self.options.hours:g} h, {self.options.rate} tasks/s and 10 schedules a second; grey: a restart, darker: of the server"
            (self.folder / "soak.svg").write_text(soak_judge.plot(self.samples, self.faults, title), encoding="utf-8")
        return result

    def injected(self):
        found = {}
        for _, what in self.faults:
            what = what.split(" n")[0]
            found[what] = found.get(what, 0) + 1
        return found

    def rest(self):
        """Everything comes to its end; a schedule is deleted between two fires."""
        try:
            wait_until(lambda: self.db.one("select count(*) = 0 from pgrab.task where schedule is null"), 180, "the end of all tasks", step=0.3)
            wait_until(lambda: self.db.one("select bool_and(fire_at > now() - interval '1500 ms') from pgrab.task"), 120, "the schedules to be in time", step=0.2)
            self.db.query("update pgrab.task set paused = true")
            wait_until(lambda: self.db.one("select count(*) = 0 from pgrab.task where status in ('claimed', 'running') or attempt > 0"), 30, "the last fires")
        except AssertionError as e:
            self.errors.append(str(e))
        self.last = {r.name: r.fire_at for r in self.db.query("select name, fire_at from pgrab.task where schedule is not null")}
        self.db.query(FOLD.replace("%(keep)s * interval '1 s'", "interval '0'").replace("%%", "%"))

    def counts(self):
        ended = self.db.query("select name, sum(n) as n, sum(twice) as twice from public.ended group by name")
        effects = self.db.one("""select coalesce(sum(n), 0) from public.outcomes
            where outcome = 'succeeded' and (name = 'effect' or name ~ '^tick[13579]$')""")
        ticks = []
        for name, first in sorted(self.first.items()):
            row, = self.db.query("select count(*) as n, count(*) filter (where n > 1) as twice from public.fired where name = %s", name)
            ticks.append((name, row.n, round((self.last[name] - first).total_seconds()), row.twice))
        return {"inserted": {r.name: int(r.n) for r in self.db.query("select name, sum(n) as n from public.inserted group by name")},
                "ended": {r.name: int(r.n - r.twice) for r in ended},
                "left": {r.name: r.n for r in self.db.query("select name, count(*) as n from pgrab.task where schedule is null group by name")},
                "effects": (int(effects), int(self.db.one("select sum(n) from public.effects"))), "ticks": ticks}

    def close(self):
        self.over.set()
        self.ending.set()
        for node in self.nodes:
            if node.running():
                node.end(30)
        self.pooler.end()
        self.server.terminate()
        self.server.wait(10)
        self.out.close()
        self.db.close()
        left = descendants()
        if left:
            end_leftovers(15)
        self.cluster.drop_database(self.db.name)


def arguments(argv=None):
    parser = argparse.ArgumentParser(prog="scripts/soak", add_help=False)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=30, help="seconds between two faults, on average")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.tiny:
        options.hours, options.rate, options.pause = 8 / 3600, 40, 1.5
    if not options.hours:
        parser.error("say --hours H; see --help")
    return options


def show(result):
    print(f"{result['verdict']}: {result['tasks']} tasks, {result['fires']} fires of schedules; " + ", ".join(f"{what} {n}" for what, n in result["injected"].items()))
    print("outcomes: " + ", ".join(f"{what} {n}" for what, n in result["outcomes"].items()))
    for fault in result["faults"]:
        print(f"  {fault}")
    for row in sorted(result["growth"], key=lambda r: -r["growth"] / r["bound"])[:20]:
        print(f"  {row['kind']:12} {row['name']:32} median {row['median']:14.2f}  growth {row['growth']:12.2f}  bound {row['bound']:12.2f}")
    if not result["growth"]:
        print("  too short to judge growth")


def main():
    options = arguments()
    end_by_signals()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    cluster = Cluster(stoppable=True)
    try:
        soak = Soak(cluster, options, ROOT / ".pgrab" / ("soak-tiny" if options.tiny else "soak"))
        try:
            result = soak.run()
        finally:
            soak.close()
    finally:
        cluster.close()
    print(json.dumps(result, default=str)) if options.json else show(result)
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
