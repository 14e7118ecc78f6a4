"""What a node's statements, and INSERTs, cost on two versions of PostgreSQL, in instructions of the backend.

They are counted by valgrind (callgrind) in a server that runs under it, so what else the machine does changes nothing.  A client sends
the node's own texts, prepared, in batches; counted is a whole round trip, commit included, when plans and caches are warm: the least of
three.  Both servers are those of scripts/pg-versions, built alike.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import cluster
import psycopg
import stage
from contenders import ARGS
from process import Failed, Process
from report import ROOT, print_table
from targets import judged
from versions import majors, server_folder

sys.path.insert(0, str(ROOT / "src/db"))
from embed import expand  # noqa: E402  (the path is set above)

BATCH = 200      # rows of a call
WARM, CALLS = 7, 10  # calls of a statement: so many first ones are of a few rows and not counted (the planner decides at the sixth)
FEW = 5
DEARER = "<= 1.05"
LONG_AGO, LATER = "2000-01-01", 9_000_000_000_000_000
SHARDS = 1024


def add_options(command, natural):
    command.add_argument("--postgres", type=majors, default=["15", "18"], metavar="MAJOR,MAJOR", help="which two (default 15,18)")
    command.add_argument("--tiny", action="store_true", help="as few as can be: does it still work?")
    command.add_argument("--keep", metavar="FOLDER", help="leave callgrind's files there, for callgrind_annotate")


def array(values):
    return "{" + ",".join(map(str, values)) + "}"


class Backend:
    """One session of the server under callgrind.  pgconn: without what the driver would send of its own accord."""

    def __init__(self, dsn, folder):
        self.folder, self.seen = folder, 0
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.pg = self.conn.pgconn
        self.conn.execute("set search_path = pg_catalog, pg_temp")  # as the node's sessions
        self.conn.execute("set timezone = 'UTC'")
        self.conn.execute("set plan_cache_mode = force_generic_plan")
        self.cost()

    def prepare(self, name, text):
        self.good(self.pg.prepare(name.encode(), text.encode()))

    def good(self, result):
        if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            raise Failed(result.error_message.decode())
        return result

    def execute(self, name, *params):
        """(instructions, rows of the answer)"""
        self.cost()
        result = self.good(self.pg.exec_prepared(name.encode(), [None if p is None else str(p).encode() for p in params]))
        return self.cost(), [[result.get_value(row, column) for column in range(2)] for row in range(result.ntuples)] if result.nfields > 1 else []

    def cost(self):
        """Instructions since it was last asked: callgrind writes a file before each answer."""
        total = 0
        while (path := self.folder / f"callgrind.{self.pg.backend_pid}.{self.seen + 1}").exists():
            self.seen += 1
            total += int(re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.M)[1])
        return total


class Scene:
    """Tasks of each sort, of which each call of a statement takes the next ones."""

    def __init__(self, db):
        self.tasks = {}
        db.execute("insert into pgrab.kind (kind, summary) values ('nothing', '')")
        for sort, more in (("plain", {}), ("started", {}), ("alone", {}), ("parent", {}), ("fires", {"schedule": "'* * * * * *'"}),
                           ("args", {"kind": "'nothing'", "args": f"{ARGS}::jsonb"})):
            row = {"kind": "'noop'", "name": f"'{sort}'", **more}
            found = db.execute(f"insert into pgrab.task ({', '.join(row)}) select {', '.join(row.values())} "
                               f"from generate_series(1, {BATCH * CALLS}) i returning id, version").fetchall()
            self.tasks[sort] = sorted(found)
        db.execute("insert into pgrab.task (kind, parent_id) select 'noop', id from pgrab.task where name = 'parent'")
        self.tasks["parent"] = sorted(db.execute("select id, version from pgrab.task where name = 'parent'").fetchall())
        self.lanes = db.execute("select id, '\\x' || encode(lane, 'hex') from pgrab.lane where kind = 'noop'").fetchall()
        db.execute("vacuum analyze")

    def take(self, sort, count):
        taken, self.tasks[sort] = self.tasks[sort][:count], self.tasks[sort][count:]
        return taken


def finish(backend, runs):
    n = len(runs)
    return backend.execute("finish", array(i for i, _ in runs), array(v for _, v in runs), array([64] * n), array([900] * n), array([800] * n),
                           None, None, None, 0, "bench", array(["succeeded"] * n), None, None, None)


def sizes(tiny):
    """How many rows each call has, of those that have many."""
    return [FEW] if tiny else [FEW] * WARM + [BATCH] * (CALLS - WARM)


def measured(backend, scene, tiny):
    """(name of a statement, rows, instructions a call), again and again."""
    insert_one, insert_later, insert_many = "insert one, due now", "insert one in a minute", "insert many"
    insert_args, insert_one_args = "insert many with args", "insert one with args"
    backend.prepare(insert_one, "insert into pgrab.task (kind) values ($1)")
    backend.prepare(insert_later, "insert into pgrab.task (kind, run_at) values ($1, now() + interval '1 minute')")
    backend.prepare(insert_many, "insert into pgrab.task (kind) select $1 from generate_series(1, $2::int)")
    backend.prepare(insert_args, f"insert into pgrab.task (kind, args) select $1, {ARGS}::jsonb from generate_series(1, $2::int) i")
    backend.prepare(insert_one_args, f"insert into pgrab.task (kind, args) select $1, {ARGS}::jsonb from (values (1)) v(i)")
    for name in ("look", "claim", "start", "finish"):
        backend.prepare(name, expand(ROOT / f"src/db/sql/{name}.sql"))
    lanes, n = scene.lanes, len(scene.lanes)
    for call, batch in enumerate(sizes(tiny)):
        def claim(sort, kinds, number, count=batch):
            tasks = scene.take(sort, count)
            cost, rows = backend.execute("claim", array(i for i, _ in tasks), array(v for _, v in tasks), 0, 64, kinds, number,
                                         array([number - 1]), LATER)
            if len(rows) != count:
                raise Failed(f"{len(rows)} of {count} tasks were claimed")
            return cost, [(int(i), int(v)) for i, v in rows]

        yield insert_one, 1, backend.execute(insert_one, "noop")[0]
        yield insert_later, 1, backend.execute(insert_later, "noop")[0]
        yield insert_one_args, 1, backend.execute(insert_one_args, "nothing")[0]
        yield insert_many, batch, backend.execute(insert_many, "noop", batch)[0]
        yield insert_args, batch, backend.execute(insert_args, "nothing", batch)[0]
        cost, rows = backend.execute(
            "look", array(i for i, _ in lanes), array([1] * n), array([SHARDS] * n), array(range(SHARDS)), None, array([0] * n),
            "{noop}", "{}", "t", array([batch] * n), "{app,postgres}", "{}", array([128] * n),
            "{" + ",".join('"\\' + key + '"' for _, key in lanes) + "}", "t")
        if len(rows) != batch:
            raise Failed(f"a look found {len(rows)} tasks")
        yield "look", batch, cost
        cost, runs = claim("plain", "{noop}", 10 * call)
        yield "claim", batch, cost
        yield "finish, last", batch, finish(backend, runs)[0]
        cost, runs = claim("args", "{nothing}", 10 * call + 5)
        yield "claim, args", batch, cost
        yield "finish, last, args", batch, finish(backend, runs)[0]
        cost, runs = claim("started", "{}", 10 * call + 1)
        cost, rows = backend.execute("start", array(i for i, _ in runs), array(v for _, v in runs), 64)
        if len(rows) != batch:
            raise Failed(f"{len(rows)} of {batch} tasks were started")
        yield "start", batch, cost
        cost, runs = claim("alone", "{noop}", 10 * call + 2, 1)
        yield "claim one", 1, cost
        yield "finish one", 1, finish(backend, runs)[0]
        cost, runs = claim("parent", "{noop}", 10 * call + 3)
        yield "finish, a child each", batch, finish(backend, runs)[0]
        cost, runs = claim("fires", "{noop}", 10 * call + 4)
        yield "finish, recurring", batch, finish(backend, runs)[0]


@contextlib.contextmanager
def under_callgrind(server, folder):
    """The server once more, in its own folder, as its own user."""
    with psycopg.connect(server.dsn, user="postgres") as db:
        data = db.execute("show data_directory").fetchone()[0]
    program = Path(f"/proc/{server.pg_pid()}/exe").resolve()
    server.pg_stop()
    os.chown(folder, os.stat(data).st_uid, -1)
    process = Process(["valgrind", "--tool=callgrind", "--dump-before=ReadyForQuery", "--dump-line=no",
                       f"--callgrind-out-file={folder}/callgrind.%p", program, "-D", data], folder / "log", user=os.stat(data).st_uid)
    try:
        yield process
    finally:
        process.proc.send_signal(signal.SIGQUIT)  # its children end, too
        with contextlib.suppress(Failed):
            process.wait()


def counted(major, args, progress):
    """name -> (rows, instructions a row)"""
    progress.show(f"PostgreSQL {major}: setting the scene")
    server = cluster.Cluster(stoppable=True, pg_bin=server_folder(major))
    try:
        dsn = server.dsn_of(server.create_database())
        with psycopg.connect(dsn, autocommit=True) as db:
            scene = Scene(db)
        folder = Path(args.keep or server.folder) / f"callgrind-{major}"
        folder.mkdir(parents=True)
        with under_callgrind(server, folder) as process:
            progress.show(f"PostgreSQL {major}: counting")
            backend = cluster.wait_until(lambda: process.must_run() or attempt(dsn, folder), 120, "the server under callgrind", 0.5)
            found, rows_of = {}, {}
            for name, rows, cost in measured(backend, scene, args.tiny):
                progress.show(f"PostgreSQL {major}: {name}")
                found.setdefault(name, []).append(cost / rows)
                rows_of[name] = rows
            backend.conn.close()
        return {name: (rows_of[name], min(costs[-(CALLS - WARM):])) for name, costs in found.items()}
    finally:
        server.close()


def attempt(dsn, folder):
    try:
        return Backend(dsn, folder)
    except psycopg.OperationalError:
        return None


def run(args, progress):
    os.environ["PGRAB_BIN"] = os.path.abspath(args.bin or stage.build("src/pgrab") / "src/pgrab")  # for the cluster, which migrates
    found = {major: counted(major, args, progress) for major in args.postgres}
    first, last = found[args.postgres[0]], found[args.postgres[-1]]
    progress.end()
    head = ["statement", "rows", *(f"thousands a row, {major}" for major in args.postgres), "ratio", "should be"]
    rows = [[name, str(count), *(f"{found[major][name][1] / 1000:,.1f}" for major in args.postgres), f"{last[name][1] / cost:.2f}",
             judged(DEARER, last[name][1] / cost)] for name, (count, cost) in first.items()]
    print_table(head, rows)
    if args.json:
        Path(args.json).write_text(json.dumps({"benchmark": "statements", "head": head, "rows": rows}, indent=1) + "\n")
    return 0
