"""The measurements a comparison is made of.  Each takes a contender through one round and returns its figures, a dictionary."""
import contextlib
import random
import select
import sys
import time
from pathlib import Path

import psycopg
from meter import Meter
from process import Failed
from report import percentile

QUICK_S = 0.005   # between two looks at the database while little is asked of it
OWN_SHARE = 0.05  # the most of the time that the benchmark's own questions may take
ROUND_TIMEOUT_S = 900


def pause(seconds):
    select.select([], [], [], seconds)


def watch(question, processes):
    """Asks until the answer is yes, and returns when that was; a dear question is asked less often."""
    deadline = time.monotonic() + ROUND_TIMEOUT_S
    while True:
        asked = time.monotonic()
        if question():
            return time.monotonic()
        for process in processes:
            if process.poll() not in (None, 0):
                process.must_run()
        if time.monotonic() > deadline:
            raise Failed(f"a round was not over after {ROUND_TIMEOUT_S} s:\n" + "\n".join(p.log() for p in processes))
        pause(max(QUICK_S, (time.monotonic() - asked) / OWN_SHARE))


@contextlib.contextmanager
def fresh(contender):
    db = contender.open()
    try:
        yield db
    finally:
        contender.arena.kill_all()
        contender.server.drop(db)


@contextlib.contextmanager
def held_snapshot(server, database):
    """What a long report or a backup does: rows that die meanwhile cannot be removed."""
    conn = psycopg.connect(server.dsn(database.name))
    conn.execute("set transaction isolation level repeatable read")
    conn.execute("select txid_current()")
    try:
        yield
    finally:
        conn.close()


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.proc.terminate()
    for process in processes:
        process.wait()


def run_dry(contender, db, tasks, count=2, workers=None, left=None, **options):
    """Everything that is loaded is worked off by `count` processes."""
    processes = contender.spawn(db, count, workers, **options) if contender.waits else []
    meter, since = Meter(db, processes), db.one("select now()")
    if contender.waits:
        contender.wake(processes)
    else:
        meter.processes = processes = contender.spawn(db, count, workers, **options)
    first = watch(lambda: contender.begun(db), processes)
    last = watch(lambda: not (left or contender.left)(db), processes)
    meter.stop()
    end(processes)
    return {"rate": tasks / (contender.span(db, since) or last - first), **meter.counted(tasks)}


def drain(contender, tasks, work=None, held=False, load=None, **options):
    with fresh(contender) as db:
        if load:
            load(db)
        else:
            contender.load(db, tasks, work or {})
        db.settle()
        with held_snapshot(contender.server, db) if held else contextlib.nullcontext():
            result = run_dry(contender, db, tasks, **options)
        contender.check(db, tasks)
    return result


def insert(contender, rows):
    """One statement, nobody at work."""
    with fresh(contender) as db:
        db.settle()
        with psycopg.connect(db.dsn, autocommit=True) as conn:
            meter = Meter(db)
            conn.execute(contender.plain_insert(rows))
            meter.stop()
        if contender.count_inserted(db) != rows:
            raise Failed(f"{contender.name}: {contender.count_inserted(db)} rows of {rows} were inserted")
        return {"rate": rows / meter.seconds, **server_share(meter, rows)}


def server_share(meter, rows):
    """Without the CPU of the client, which is the benchmark's own."""
    costs = meter.counted(rows)
    del costs["client_us"]
    return costs


def pgbench(contender, db, statement, *words):
    script = contender.arena.folder / "script.sql"
    # One line each: a line's end would not end the statement, but pgbench counts them.
    script.write_text(" ".join(statement.split()) + ";\n")
    return [contender.server.tool("pgbench"), "-n", "-f", script, *map(str, words), contender.server.dsn(db.name, "contender")]


def insert_many(contender, rows, connections, batch):
    """Each connection a statement of `batch` rows and its commit, again and again."""
    each = max(1, rows // batch // connections)
    rows = each * batch * connections
    statement = contender.insert_one if batch == 1 else contender.plain_insert(batch)
    with fresh(contender) as db:
        db.settle()
        process = contender.arena.start("pgbench", pgbench(contender, db, statement, "-c", connections, "-j", 2, "-t", each))
        meter = Meter(db)
        process.wait(ROUND_TIMEOUT_S)
        meter.stop()
        if contender.count_inserted(db) != rows:
            raise Failed(f"{contender.name}: {contender.count_inserted(db)} rows of {rows} were inserted")
        return {"rate": rows / meter.seconds, **server_share(meter, rows)}


def shape(seconds):
    return {f"p{part}_ms": percentile(seconds, part) * 1e3 for part in (50, 99)} | {"max_ms": max(seconds) * 1e3, "min_ms": min(seconds) * 1e3}


def probe(contender, db, samples):
    """Single inserts with pauses of random length; its task's id (pgrab) or its number (rivals) -> when it was called."""
    called = {}
    with psycopg.connect(db.dsn, autocommit=True) as conn:
        for number in range(1, samples + 1):
            pause(random.uniform(0.02, 0.06))
            at = time.time()
            answer = conn.execute(contender.probe, [number] if "%s" in contender.probe else None, prepare=True)
            called[answer.fetchone()[0] if contender.by_id else number] = at
    return called


WARM_UP = 60  # tasks per sample


def latency(contender, samples, load_rate=0):
    """From the call of an insert to the start of its task; with load_rate, while so many others a second come and go as well.

    There are tasks to work off before that, so that nobody's prepared statements were planned for an empty table.
    """
    with fresh(contender) as db:
        contender.load(db, WARM_UP * samples // contender.fewer, {})
        db.settle()
        processes = contender.spawn(db, 1)
        contender.wait_ready(db, processes)
        watch(lambda: not contender.left(db), processes)
        load = []
        if load_rate:
            words = ("-c", 1, "-R", load_rate / 100, "-T", int(samples * 0.05) + 2)
            load = [contender.arena.start("pgbench", pgbench(contender, db, contender.insert(100), *words))]
        called = probe(contender, db, samples)
        for process in load:
            process.wait(120)
        watch(lambda: not contender.left(db), processes)
        return shape(started(contender, db, processes, called))


def started(contender, db, processes, called):
    """Seconds between call and start; those who note it themselves tell when they end, the others stand in the history."""
    end(processes)
    starts = contender.starts(db, processes)
    missing = [key for key in called if key not in starts]
    if missing:
        raise Failed(f"{contender.name}: {len(missing)} of {len(called)} probes were never started")
    return [starts[key] - at for key, at in called.items()]


def due(contender, tasks, spread_s, lead_s=1):
    """Tasks planned for points spread over some seconds to come; how late they start.  A start before its time is a fault."""
    moment = f"now() + interval '{lead_s} s' + i * interval '{spread_s} s' / {tasks}"
    options = {} if contender.name == "pgrab" else {"data": f"json_build_object('n', extract(epoch from {moment}))"}
    with fresh(contender) as db:
        db.settle()
        processes = contender.spawn(db, 1)
        contender.wait_ready(db, processes)
        meter = Meter(db, processes)
        db.query(contender.insert(tasks, due=moment, **options))
        watch(lambda: contender.done(db) >= tasks, processes)
        meter.stop()
        end(processes)
        late = contender.lateness(db, processes)
        costs = meter.counted(tasks)
    if contender.name == "pgrab" and min(late) < 0:
        raise Failed(f"a task started {-min(late) * 1e3:.3f} ms before it was due")
    return shape(late) | costs


@contextlib.contextmanager
def http_server(arena):
    """A small local server for http tasks; gives its address."""
    process = arena.start_aside("http", [sys.executable, "-B", Path(__file__).with_name("http_server.py")])
    try:
        yield f"http://127.0.0.1:{process.first_line()}/"
    finally:
        process.kill()
