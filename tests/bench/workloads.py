"""The workloads of a comparison: who does what, at which size, and what is expected of it.

Each is a context that prepares what all its rounds need and gives its sides: label -> the function that measures one round.
Sizes are those of scale 1.  Where a target or a percentile names the number of tasks, it is the same at every scale.
"""
import contextlib

import recurring
import rounds

PROCESSES = 2


class Workload:
    """measures: the figures that make a ratio.  pairs: of which side to which; by default of pgrab to each other contender.
    long: it fills in millions of rows first."""

    def __init__(self, name, title, sides, who=("pgrab",), measures=("rate",), pairs=None, long=False):
        self.name, self.title, self.sides, self.who, self.measures, self.long = name, title, sides, who, measures, long
        self.pairs = pairs or [("pgrab", other) for other in who if other != "pgrab"]


class Sizes:
    def __init__(self, scale, tiny):
        self.scale, self.tiny = scale, tiny

    def of(self, base, least=50):
        return least if self.tiny else max(least, int(base * self.scale))

    def same(self, base, least=50):
        return least if self.tiny else base


class LeftOut(Exception):
    """The server cannot do what the workload is about."""


def simple(function, base, least=50, same=False, **options):
    """The same round for every contender."""
    @contextlib.contextmanager
    def sides(arena, sizes, who):
        size = (sizes.same if same else sizes.of)(base, least)
        yield {name: lambda c=arena.contenders[name]: function(c, size, **options) for name in who}
    return sides


@contextlib.contextmanager
def workflows(arena, sizes, who):
    yield {name: lambda c=arena.contenders[name]: rounds.drain(c, sizes.of(100_000 // c.fewer)) for name in who}


def with_args(base, count):
    """Nothing to do, but each task has args."""
    @contextlib.contextmanager
    def sides(arena, sizes, who):
        tasks = sizes.of(base)
        yield {name: lambda c=arena.contenders[name]: rounds.drain(
            c, tasks, load=lambda db: c.load_args(db, tasks), count=count, executors=arena.nothing) for name in who}
    return sides


@contextlib.contextmanager
def compressed(arena, sizes, who):
    if not arena.server.one("select 'lz4' = any (enumvals) from pg_settings where name = 'wal_compression'"):
        raise LeftOut("this server was built without lz4")

    def side(contender):
        arena.server.set("wal_compression", "lz4")
        try:
            return rounds.drain(contender, sizes.of(200_000))
        finally:
            arena.server.set("wal_compression", None)
    yield {name: lambda c=arena.contenders[name]: side(c) for name in who}


def kind(name, command, base, workers=8, **options):
    """One process, so many at once."""
    @contextlib.contextmanager
    def sides(arena, sizes, who):
        with rounds.http_server(arena) if name == "http" else contextlib.nullcontext(command) as what:
            yield {who_: lambda c=arena.contenders[who_]: rounds.drain(c, sizes.of(base), {name: what}, count=1, workers=workers, **options)
                   for who_ in who}
    return sides


@contextlib.contextmanager
def due(arena, sizes, who):
    yield {name: lambda c=arena.contenders[name]: rounds.due(c, sizes.same(1_000), 1 if sizes.tiny else 5) for name in who}


@contextlib.contextmanager
def minute(arena, sizes, who):
    tasks, contender = sizes.of(100_000), arena.contenders["pgrab"]
    yield {"pgrab": lambda: recurring.spread(contender, tasks, 2 if sizes.tiny else 60)}


@contextlib.contextmanager
def snapshot(arena, sizes, who):
    tasks = sizes.of(600_000)
    yield {name + label: lambda c=arena.contenders[name], h=held: rounds.drain(c, tasks, held=h)
           for name in who for label, held in (("", False), (", held", True))}


@contextlib.contextmanager
def more_nodes(arena, sizes, who):
    tasks, contender = sizes.of(200_000), arena.contenders["pgrab"]
    yield {f"{count} node{'s' * (count > 1)}": lambda n=count: rounds.drain(contender, tasks, count=n)
           for count in ((1, 2) if sizes.tiny else (1, 2, 4, 8))}


def load_chains(db, tasks, depth):
    """tasks / depth chains of so many links one below the other; depth 1: independent tasks."""
    db.query("insert into pgrab.task (name, kind) select 'link 1', 'noop' from generate_series(1, %s)", tasks // depth)
    for link in range(2, depth + 1):
        db.query("insert into pgrab.task (name, kind, parent_id) select %s, 'noop', id from pgrab.task where name = %s",
                 f"link {link}", f"link {link - 1}")


@contextlib.contextmanager
def chains(arena, sizes, who):
    tasks, contender = sizes.of(50_000), arena.contenders["pgrab"]
    yield {label: lambda d=depth: rounds.drain(contender, tasks, load=lambda db: load_chains(db, tasks, d))
           for label, depth in (("independent", 1), ("links, 10 deep", 10))}


@contextlib.contextmanager
def keys(arena, sizes, who):
    """A key for each task of as many as there are, in turn."""
    tasks, contender = sizes.of(200_000), arena.contenders["pgrab"]
    with_keys = "insert into pgrab.task (kind, share_key) select 'noop', 'customer ' || i %% %s from generate_series(1, %s) i"
    yield {"no keys": lambda: rounds.drain(contender, tasks),
           **{f"{n:,} keys": lambda n=n: rounds.drain(contender, tasks, load=lambda db: db.query(with_keys, n, tasks)) for n in (1, 1_000)}}


def add_future(db, contender, rows):
    """Rows due in an hour to 30 days, in pieces that a server's memory does not notice."""
    piece = min(rows, 250_000)
    for _ in range(rows // piece):
        db.query(contender.insert(piece, due="now() + interval '1 hour' + random() * interval '30 days'"))


def add_history(db, contender, rows):
    """Real runs, doubled until there are enough."""
    first = min(rows, 20_000)
    contender.load(db, first, {})
    rounds.run_dry(contender, db, first)
    count = first
    while count < rows:
        more = min(count, rows - count)
        db.query("insert into pgrab.run select * from pgrab.run limit %s", more)
        count += more


def prepared(fill, rows_of):
    """A database per size, filled once; every round adds its own tasks and leaves their history."""
    @contextlib.contextmanager
    def sides(arena, sizes, who):
        contender, found, tasks = arena.contenders["pgrab"], {}, sizes.of(200_000)
        for label, base in rows_of:
            db = contender.open()
            if base:
                arena.progress.show(f"filling in {label}")
                fill(db, contender, sizes.of(base))
                db.query("vacuum analyze")
            found[label] = db
        try:
            yield {label: lambda d=db: again(contender, d, tasks) for label, db in found.items()}
        finally:
            arena.kill_all()
            for db in found.values():
                arena.server.drop(db)
    return sides


def again(contender, db, tasks):
    """One more drain in a database that has seen some."""
    before = db.one("select count(*) from pgrab.run")
    contender.load(db, tasks, {})
    db.settle()
    since = db.one("select now()")
    result = rounds.run_dry(contender, db, tasks, left=lambda d: d.one(
        "select count(*) from pgrab.run where finished_at >= %s", since) < tasks)
    contender.check(db, tasks, before)
    return result


ALL = ("pgrab", "graphile-worker", "pg-boss")
PAIR = ("pgrab", "graphile-worker")
FLOWS = ("pgrab", "dbos", "duroxide")
TIMES = ("p50_ms", "p99_ms")
HANDLED = ("pgrab-js", "pgrab-python")
HISTORY = (("no history", 0), ("10M", 10_000_000))
BACKLOG = (("no backlog", 0), ("1M", 1_000_000), ("10M", 10_000_000))
WORKLOADS = [
    Workload("drain", "200,000 tasks that do nothing, two processes", simple(rounds.drain, 200_000), ("pgrab", "floor", *ALL[1:]),
             ("rate", "wal_b")),
    Workload("drain-args", "100,000 tasks that do nothing, each with 350 bytes of args, two processes", with_args(100_000, PROCESSES), ALL,
             ("rate", "wal_b")),
    Workload("drain-lz4", "the same with wal_compression = lz4", compressed, PAIR, ("rate", "wal_b")),
    Workload("insert", "200,000 rows by one statement", simple(rounds.insert, 200_000), ALL),
    Workload("insert-8", "40,000 rows, 8 connections, a commit for each", simple(rounds.insert_many, 40_000, connections=8, batch=1), ALL),
    Workload("insert-8x100", "200,000 rows, 8 connections, 100 to a commit",
             simple(rounds.insert_many, 200_000, 800, connections=8, batch=100), ALL),
    Workload("latency", "insert to start, idle", simple(rounds.latency, 300, 5, same=True), ALL, TIMES),
    Workload("latency-load", "insert to start, while 10,000 tasks a second come and go",
             simple(rounds.latency, 300, 5, same=True, load_rate=10_000), ALL, TIMES),
    Workload("due", "due to start, 1,000 tasks over 5 s", due, ALL, TIMES),
    Workload("sql", "10,000 of `select 1`, one process, eight at once", kind("sql", "select 1", 10_000), PAIR),
    Workload("sql-group", "the same with up to 20 of them in one transaction of pgrab's", kind("sql", "select 1", 10_000, sql_group=20), PAIR),
    Workload("shell", "3,000 of `:`, one process, eight at once", kind("shell", ":", 3_000), PAIR),
    Workload("exec", "3,000 of /bin/true, one process, eight at once", kind("exec", "/bin/true", 3_000), PAIR),
    Workload("http", "10,000 requests to a small local server, one process, 64 at once", kind("http", None, 10_000, workers=64), PAIR),
    Workload("handlers", "20,000 tasks of handlers that do nothing, each with 350 bytes of args, one process, 24 at once",
             with_args(20_000, 1), (*HANDLED, "graphile-worker", "graphile-plain"),
             pairs=[(side, rival) for side in HANDLED for rival in ("graphile-worker", "graphile-plain")]),
    Workload("handlers-latency", "insert to handler, idle", simple(rounds.latency, 300, 5, same=True),
             ("pgrab", *HANDLED, "graphile-worker"), TIMES,
             pairs=[("pgrab-js", "pgrab"), ("pgrab-python", "pgrab"), ("pgrab-js", "graphile-worker")]),
    Workload("workflows", "100,000 tasks that do nothing, or 5,000 (dbos), 1,000 (duroxide) workflows, two processes", workflows, FLOWS,
             ("rate", "wal_b")),
    Workload("workflows-insert-8", "10,000 rows, 8 connections, a commit for each", simple(rounds.insert_many, 10_000, connections=8, batch=1),
             FLOWS),
    Workload("workflows-latency", "insert to start, idle", simple(rounds.latency, 300, 5, same=True), FLOWS, TIMES),
    Workload("recurring-burst", "100,000 recurring tasks due on one second", simple(recurring.burst, 100_000, same=True), measures=()),
    Workload("recurring-minute", "100,000 recurring tasks due over one minute", minute, measures=()),
    Workload("chain", "50,000 links of chains, beside independent tasks", chains, measures=("rate", "server_us"),
             pairs=[("links, 10 deep", "independent")]),
    Workload("keys", "the drain with a share_key for each task", keys, pairs=[("1,000 keys", "no keys"), ("1 keys", "no keys")]),
    Workload("nodes", "the drain with 1 to 8 nodes", more_nodes, pairs=[(f"{n} nodes", "1 node") for n in (2, 4, 8)]),
    Workload("snapshot", "600,000 tasks that do nothing, with and without a snapshot held", snapshot, PAIR,
             pairs=[(f"{name}, held", name) for name in PAIR], long=True),
    Workload("history", "the drain with 10M rows of history", prepared(add_history, HISTORY), pairs=[("10M", "no history")], long=True),
    Workload("backlog", "the drain with 1M and 10M tasks planned for later", prepared(add_future, BACKLOG),
             pairs=[("1M", "no backlog"), ("10M", "no backlog")], long=True),
]
