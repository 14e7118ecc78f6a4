"""What idle nodes cost: statements, commits, CPU of server and nodes, log, connections; with and without a snapshot held.

All are real `pgrab run` processes with their default settings, started side by side; tasks of three kinds are planned for tomorrow, and
nothing is due.  Each count of nodes is watched from its start, then again when it has been up for a while, and then once more when somebody
has held a snapshot for a while: rows that nodes write all the time cannot be cleaned up then.  us: microseconds of CPU.
"""
import json
import time
from pathlib import Path

from arena import Arena
from meter import Meter
from process import Failed
from report import machine, print_machine, print_table
from rounds import end, fresh, held_snapshot, pause
from server import MEASURED_ROLE

SETTLE_S = 15  # connections that nobody uses are closed after a minute
CONNECTIONS_PER_NODE = 24  # room enough: eight workers and the rest
COLUMNS = [("statements", "statements", 2), ("commits", "commits", 2), ("server_us", "server us", 0), ("client_us", "node us", 0),
           ("wal_b", "WAL B", 0), ("connections", "connections", 1)]


def counts(text):
    return [int(word) for word in text.split(",")]


def add_options(command, natural):
    command.add_argument("--nodes", type=counts, default=[1, 10, 100], metavar="N,...", help="how many (default 1,10,100)")
    command.add_argument("--seconds", type=natural, default=60, metavar="S", help="how long each is watched (default 60)")
    command.add_argument("--held", type=natural, default=60, metavar="S", help="how long a snapshot is held before (default 60; a report: 600)")
    command.add_argument("--planned", type=natural, default=1000, metavar="N", help="tasks that are planned for tomorrow (default 1000)")


def plan(db, tasks):
    db.query(f"set role {MEASURED_ROLE}")
    db.query("insert into pgrab.task (kind, command, run_at) "
             "select ('{noop,sql,shell}'::text[])[1 + i %% 3], 'select 1', now() + interval '1 day' from generate_series(1, %s) i", tasks)
    db.query("reset role")
    db.settle()


def cost(meter):
    """Per node and second.  Backends tell of their commits within ten seconds of being idle, of statements at once."""
    db, nodes = meter.db, meter.processes
    meter.stop()
    connections = db.one("select count(*) from pg_stat_activity where datname = current_database() and usename = %s", MEASURED_ROLE)
    for node in nodes:
        node.must_run()
    share = len(nodes) * meter.seconds
    statements, commits = meter.statement_count() - meter.statements, meter.commit_count() - meter.commits
    wal = db.one("select pg_wal_lsn_diff(%s, %s)", meter.end_lsn, meter.lsn)
    return {"statements": float(statements) / share, "commits": max(0, commits) / share, "wal_b": float(wal) / share,
            "server_us": meter.server_cpu * 1e6 / share, "client_us": meter.client_cpu * 1e6 / share, "connections": connections / len(nodes)}


def watch_for(db, nodes, seconds):
    meter = Meter(db, nodes)
    pause(seconds)
    return cost(meter)


def watched(arena, args, count, progress):
    """label -> figures, for one number of nodes."""
    contender, label = arena.contenders["pgrab"], f"{count} node{'s' * (count > 1)}"
    with fresh(contender) as db:
        plan(db, args.planned)
        progress.show(f"{label}: starting, and watching for {args.seconds} s")
        meter = Meter(db)
        nodes = meter.processes = contender.spawn(db, count)
        contender.wait_ready(db, nodes)
        pause(meter.began + args.seconds - time.time())
        found = {f"{label}, the first {args.seconds} s": cost(meter)}
        pause(min(SETTLE_S, args.seconds))
        progress.show(f"{label}: watching for {args.seconds} s")
        found[label] = watch_for(db, nodes, args.seconds)
        with held_snapshot(arena.server, db):
            progress.show(f"{label}, snapshot held: holding it for {args.held} s, then watching for {args.seconds} s")
            pause(args.held)
            found[f"{label}, snapshot held {args.held} s"] = watch_for(db, nodes, args.seconds)
        end(nodes)
    return found


def run(args, progress):
    if max(args.nodes) < 1:
        raise Failed("--nodes takes numbers of 1 and more")
    report = {}
    connections = max(100, max(args.nodes) * CONNECTIONS_PER_NODE)
    with Arena(args, progress, ["pgrab"], {"max_connections": connections}) as arena:
        about = machine(arena.server)
        about["settings"] |= arena.settings
        for count in args.nodes:
            report |= watched(arena, args, count, progress)
        progress.end()
    if args.json:
        Path(args.json).write_text(json.dumps({"benchmark": "nodes", "figures": report, "machine": about}, indent=1) + "\n")
    print("idle nodes; per node and second\n")
    print_table(["", *(title for _, title, _ in COLUMNS)],
                [[label, *(f"{figures[key]:.{digits}f}" for key, _, digits in COLUMNS)] for label, figures in report.items()])
    print()
    print_machine(about)
    return 0
