"""What many nodes cost that have little to do each: server CPU, statements and commits a task, claims lost to others, lateness.

One session inserts no-ops in batches, at a steady rate, and all nodes share them: real `pgrab run` processes with their default settings.
With --idle-first all connections that a node needs only while it works must be dialled at once when the work begins.  server us: CPU of
the nodes' sessions and of the server's own processes; insert us: that of the session that inserts; both for each task.
"""
import json
import os
import time
from pathlib import Path

import psycopg
import worst
from arena import Arena
from cluster import wait_until
from meter import Meter
from process import Failed
from report import machine, percentile, print_machine, print_table
from rounds import end, fresh, pause
from server import MEASURED_ROLE

CONNECTIONS_PER_NODE = 8
WARM_S = 8  # connections are made, statements prepared
COLUMNS = [("server_us", "server us", 0), ("insert_us", "insert us", 0), ("node_us", "node us", 0), ("commits", "commits", 3),
           ("looks", "looks/s", 2), ("claims", "claims/s", 2), ("finishes", "finishes/s", 2), ("lost_pct", "lost %", 2),
           ("p50_ms", "p50 ms", 0), ("p99_ms", "p99 ms", 0), ("max_ms", "max ms", 0), ("connections", "connections", 1), ("dials", "dials", 1)]


def add_options(command, natural):
    command.add_argument("--nodes", type=natural, default=30, metavar="N", help="how many (default 30)")
    command.add_argument("--rate", type=natural, default=1000, metavar="R", help="tasks inserted a second (default 1000)")
    command.add_argument("--batch", type=natural, default=20, metavar="N", help="tasks inserted by one statement (default 20)")
    command.add_argument("--seconds", type=natural, default=30, metavar="S", help="how long they are watched (default 30)")
    command.add_argument("--idle-first", action="store_true", help="nodes have been idle for more than a minute when the work begins")
    command.add_argument("--statements", action="store_true", help="also what each statement took")


def cpu_us(pid):
    """Of a process that may have gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e3
    except OSError:
        return 0.0


def children(pid):
    """Of all its threads; only the first of a server has any."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


class Gauge:
    """CPU of the server's processes since it was made, but for what has ended."""

    def __init__(self, postmaster, without):
        self.postmaster, self.without, self.began = postmaster, set(without), {}
        self.began = self.read()

    def read(self):
        return {pid: cpu_us(pid) for pid in children(self.postmaster) - self.without}

    def us(self):
        return sum(us - self.began.get(pid, 0.0) for pid, us in self.read().items())


class Inserts:
    """Batches at a steady rate, by one session."""

    def __init__(self, contender, db, rate, batch):
        self.conn = psycopg.connect(db.dsn, autocommit=True)
        self.statement, self.batch, self.gap, self.done = contender.plain_insert(batch), batch, batch / rate, 0

    def go(self, seconds):
        """Returns the seconds that it took, and how many tasks were inserted."""
        began, n = time.monotonic(), 0
        while n * self.gap < seconds:
            pause(max(0.0, began + n * self.gap - time.monotonic()))
            self.conn.execute(self.statement, prepare=True)
            n += 1
        pause(max(0.0, began + seconds - time.monotonic()))
        self.done += n * self.batch
        return time.monotonic() - began, n * self.batch


def claims(db):
    return db.query("select sum(claims_attempted)::bigint, sum(claims_lost)::bigint from pgrab.node")[0]


def calls(found, names):
    return sum(n for name, n, _, _ in found if name in names)


def watched(args, db, nodes, inserts):
    """The figures of a steady state."""
    db.query("select pg_stat_statements_reset()")
    attempted, lost = claims(db)
    since = db.one("select clock_timestamp()")
    meter, inserting = Meter(db, nodes), inserts.conn.info.backend_pid
    gauge, insert_us = Gauge(db.server.postmaster, (inserting, db.backend)), cpu_us(inserting)
    seconds, tasks = inserts.go(args.seconds)
    server_us, insert_us = gauge.us(), cpu_us(inserting) - insert_us
    meter.stop()
    commits, found = meter.commit_count() - meter.commits, worst.statements(db)
    connections = db.one("select count(*) from pg_stat_activity where datname = current_database() and application_name like 'pgrab %%'")
    wait_until(lambda: not db.one("select exists (select from pgrab.task)"), max(60, args.nodes), "the last tasks to end", 0.1)
    wait_until(lambda: claims(db)[0] >= inserts.done, 10, "the beats to tell", 0.1)
    late = [row[0] for row in db.query("select (extract(epoch from started_at - fire_at) * 1000)::float8 from pgrab.run "
                                       "where started_at is not null and fire_at between %s and %s::timestamptz + %s * interval '1 s'", since, since, seconds)]
    now_attempted, now_lost = claims(db)
    share = seconds * len(nodes)
    return {"server_us": server_us / tasks, "insert_us": insert_us / tasks, "node_us": meter.client_cpu * 1e6 / tasks,
            "commits": commits / tasks, "looks": calls(found, ("look", "look_turns", "look_free")) / share,
            "claims": calls(found, ("claim", "free")) / share, "finishes": calls(found, ("finish",)) / share,
            "lost_pct": 100.0 * float(now_lost - lost) / max(1.0, float(now_attempted - attempted)),
            "p50_ms": percentile(late, 50), "p99_ms": percentile(late, 99), "max_ms": max(late),
            "connections": connections / len(nodes), "tasks": tasks, "seconds": seconds}, sorted(found, key=lambda s: -s[1] * s[2])


def dialled(db):
    return db.one("select sessions from pg_stat_database where datname = current_database()")


def one_round(arena, args, progress):
    contender = arena.contenders["pgrab"]
    with fresh(contender) as db:
        progress.show("starting the nodes")
        db.query("create extension pg_stat_statements")
        db.settle()
        nodes = contender.spawn(db, args.nodes)
        contender.wait_ready(db, nodes)
        db.query(f"alter role {MEASURED_ROLE} set jit = off")
        inserts = Inserts(contender, db, args.rate, args.batch)
        if args.idle_first:
            progress.show("leaving them idle")
            pause(75)
        dials = dialled(db)
        progress.show(f"inserting for {WARM_S} s, and then for {args.seconds} s")
        inserts.go(WARM_S)
        figures, found = watched(args, db, nodes, inserts)
        figures["dials"] = (dialled(db) - dials) / args.nodes
        inserts.conn.close()
        end(nodes)
        contender.check(db, inserts.done)
    return figures, found


def run(args, progress):
    if args.batch > args.rate:
        raise Failed("--batch must not be more than --rate")
    with Arena(args, progress, ["pgrab"], {"max_connections": max(100, args.nodes * CONNECTIONS_PER_NODE)}) as arena:
        about = machine(arena.server)
        about["settings"] |= arena.settings
        figures, found = one_round(arena, args, progress)
        progress.end()
    if args.json:
        Path(args.json).write_text(json.dumps({"benchmark": "many", "figures": figures, "statements": found, "machine": about}, indent=1) + "\n")
    print(f"{args.nodes} nodes, {figures['tasks'] / figures['seconds']:.0f} tasks a second, {args.batch} at once, load {os.getloadavg()[0]:.0f}; "
          "CPU and commits a task, looks, claims and finishes a node and second\n")
    print_table([title for _, title, _ in COLUMNS], [[f"{figures[key]:.{digits}f}" for key, _, digits in COLUMNS]])
    if args.statements:
        print()
        print_table(["statement", "calls", "ms each", "ms at most", "us a task"],
                    [[name, calls, f"{mean:.2f}", f"{most:.1f}", f"{calls * mean * 1e3 / figures['tasks']:.1f}"] for name, calls, mean, most in found])
    print()
    print_machine(about)
    return 0
