"""What the worst that anybody has brings to others: their lateness beside it, and the longest that a statement of the node took.

Each case is made in a database of its own with a node of its own, as one owner, and fired.  From then on another owner inserts a small
task after the other.  A case ends when its own work is done and the stream has lasted as long as it should.
    links      a line of 120,000 links whose root fails: all of them are skipped
    alerts     1,000 alerts that apply to one task, which fails
    paused     400,000 paused tasks in a hundred lanes, when the node looks which lanes are empty
    rare       40 schedules that rarely run fail together behind 2,000,000 runs of history
    year       a year of partitions, with history in each, under tasks and schedules that run and fail
"""
import contextlib
import json
import re
import sys
import time
from pathlib import Path

import cluster
import psycopg
from process import Failed
from report import machine, percentile, print_machine, print_table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src/db"))
from embed import expand  # noqa: E402  (the path is set above)

LONGEST = 8  # statements that are shown of each case
PROMISED_MS = 1000
OPERATORS_ALERTS = 100  # as many as one role may set
FAILS = "'sql', 'select 1/0', 1"
OPTIONS = {"tiny": 0.001, "small": 0.05, "full": 1.0}


def add_options(command, natural):
    command.add_argument("cases", nargs="*", metavar="CASE", help=f"which (default: all): {', '.join(CASES)}")
    command.add_argument("--scale", choices=OPTIONS, default="full", help="how large the cases are (default full)")
    command.add_argument("--rate", type=natural, default=20, metavar="N", help="tasks of others a second (default 20)")
    command.add_argument("--seconds", type=natural, metavar="N", help="how long at least they are inserted (default 30; tiny: 1)")


class Size:
    def __init__(self, scale):
        self.scale = scale

    def of(self, full, least=3):
        return max(least, int(full * self.scale))


class Stream:
    """Others' tasks: due when they are inserted.  A task is late from its insert to its start."""

    def __init__(self, st, dsn, rate):
        self.conn = psycopg.connect(dsn, autocommit=True, user="postgres")
        self.pause, self.sent = 1 / rate, 0

    def go(self, done, seconds, progress):
        """Until done() and at least so long.  Says after how many seconds it was done."""
        began, took = time.monotonic(), None
        while took is None or time.monotonic() < began + seconds:
            self.conn.execute("insert into pgrab.task (kind, name) values ('noop', 'of others')")
            self.sent += 1
            time.sleep(max(0, began + self.sent * self.pause - time.monotonic()))  # check-words: the rate of the stream
            now = time.monotonic() - began
            if took is None and self.sent % 20 == 0 and done():
                took = now
            if now > 900:
                raise Failed("the case has not ended after 900 s")
            progress(f"{now:.0f} s")
        return took

    def late(self):
        """Milliseconds, ordered."""
        def all_ran():
            return self.conn.execute("select count(*) from pgrab.run where name = 'of others'").fetchone()[0] >= self.sent
        cluster.wait_until(all_ran, 60, "the tasks of others", 0.2)
        return [row[0] for row in self.conn.execute(
            "select (extract(epoch from started_at - created_at) * 1000)::float8 from pgrab.run where name = 'of others' order by 1")]

    def close(self):
        self.conn.close()


@contextlib.contextmanager
def links(st, size):
    n = size.of(120_000)
    st.query("insert into pgrab.task (kind, command, max_attempts, run_at) select " + FAILS + ", now() + interval '1 day'")
    root = st.one("select max(id) from pgrab.task")
    for first in range(1, n, 10_000):
        st.query("insert into pgrab.task (id, kind, parent_id) overriding system value "
                 "select i, 'noop', i - 1 from generate_series(%s::bigint, %s) i", root + first, root + min(first + 9_999, n - 1))
    st.query("select setval(pg_get_serial_sequence('pgrab.task', 'id'), %s)", root + n)
    yield lambda: st.query("update pgrab.task set run_at = now() where id = %s", root), \
        lambda: st.one("select count(*) from pgrab.run where task_id between %s and %s", root, root + n - 1) == n


@contextlib.contextmanager
def alerts(st, size):
    n = size.of(1_000)
    for first in range(0, n, OPERATORS_ALERTS):
        role = f"operator{first}"
        st.query("reset role")
        st.query(f"do $$ begin create role {role} superuser; exception when duplicate_object then end $$")
        st.query(f"set role {role}")
        st.query("insert into pgrab.alert (name, template) select 'alert ' || i, '{\"kind\": \"noop\", \"name\": \"alert\"}' "
                 "from generate_series(%s::bigint, %s) i", first + 1, min(first + OPERATORS_ALERTS, n))
    st.query("set role app")
    yield lambda: st.query(f"insert into pgrab.task (kind, command, max_attempts, name) select {FAILS}, 'fails'"), \
        lambda: st.one("select count(*) from pgrab.run where name = 'alert'") == n


@contextlib.contextmanager
def paused(st, size):
    st.query("insert into pgrab.task (kind, paused, require) select 'noop', true, jsonb_build_object('l', 'l' || i %% 100) "
             "from generate_series(1, %s) i", size.of(400_000))
    yield lambda: st.query("update pgrab.duty set done_at = 'epoch' where duty = 'lanes'"), \
        lambda: st.one("select done_at > 'epoch' from pgrab.duty where duty = 'lanes'")


def add_schedules(st, n):
    """Schedules of a year that have run at some time, and fail when they are next due."""
    return [row[0] for row in st.query("insert into pgrab.task (kind, command, max_attempts, schedule, name) "
                                       f"select {FAILS}, '@yearly', 'rare' from generate_series(1, %s) returning id", n)]


def add_runs(st, n, days, tasks="1000000 + i"):
    """n runs, spread over so many days, of other tasks."""
    for first in range(1, n + 1, 250_000):
        st.query("insert into pgrab.run (task_id, version, incarnation, node_id, fire_at, claimed_at, started_at, finished_at, created_at, "
                 "attempt, outcome, kind, node, owner) select " + tasks + ", 1, 1, 1, t, t, t, t, t, 1, 'succeeded', 'noop', 'n', 'app' "
                 "from (select i, now() - %s * interval '1 day' * i / %s as t from generate_series(%s::bigint, %s) i) x",
                 days, n, first, min(first + 249_999, n))


def fire(st, ids):
    """All of them now."""
    st.query("update pgrab.task set status = 'scheduled', due_at = now(), fire_at = now(), version = version + 1 where id = any (%s)", ids)


def add_days(st, n):
    """Rows of a day without a partition would have to be moved."""
    st.query("select count(pgrab_internal.day_make('run', pgrab_internal.today() - i)) from generate_series(1, %s::int) i", n)


@contextlib.contextmanager
def rare(st, size):
    add_days(st, 8)
    ids = add_schedules(st, size.of(40))
    add_runs(st, size.of(2_000_000), 7)
    yield lambda: fire(st, ids), lambda: st.one("select count(*) from pgrab.run where name = 'rare'") == len(ids)


@contextlib.contextmanager
def year(st, size):
    days = size.of(365)
    add_days(st, days + 1)
    ids = add_schedules(st, size.of(40))
    add_runs(st, size.of(365_000), days)
    plain = size.of(1_000)  # fewer a second than the node can run: what waits its turn behind a backlog is late for that reason

    def begin():
        fire(st, ids)
        st.query("insert into pgrab.task (kind, command, max_attempts, name, run_at) "
                 f"select {FAILS}, 'plain', now() + i * interval '20 ms' from generate_series(1, %s) i", plain)
    yield begin, lambda: st.one("select count(*) from pgrab.run where name in ('rare', 'plain')") == len(ids) + plain


CASES = {"links": links, "alerts": alerts, "paused": paused, "rare": rare, "year": year}


def plain_text(sql):
    """Without what pg_stat_statements leaves out (comments) or replaces by parameters (values)."""
    bare = re.sub(r"'[^']*'|\b\d[\w.]*|\b(true|false|null)\b", "", re.sub(r"--.*", "", sql))
    return re.sub(r"[\s$;-]+", "", bare)


def statements(st):
    """The node's statements: name, calls, ms in the mean, ms at most; the longest first."""
    names = {plain_text(expand(path)): path.stem for path in sorted((ROOT / "src/db/sql").glob("*.sql"), reverse=True)}  # days, not migrate_upkeep
    found = {}
    for text, calls, total, most in st.query(
            "select query, calls, total_exec_time, max_exec_time from pg_stat_statements "
            "where dbid = (select oid from pg_database where datname = current_database()) and toplevel"):
        name = names.get(plain_text(text))
        if name:
            before = found.get(name, (0, 0, 0))
            found[name] = (before[0] + calls, before[1] + total, max(before[2], most))
    return sorted(([name, calls, total / calls, most] for name, (calls, total, most) in found.items()), key=lambda s: -s[3])


def one_case(st, name, args, progress):
    st.dsn = st.cluster.dsn_of(st.cluster.create_database())
    st.conn.close()
    st.connect()
    st.query("create extension pg_stat_statements")
    st.query("set role app")
    progress.show(f"{name}: making it")
    with CASES[name](st, Size(OPTIONS[args.scale])) as (begin, done):
        st.query("reset role")
        st.settle()
        node = st.start_node(name)
        st.wait_up([node])
        st.query("select pg_stat_statements_reset()")
        st.query("set role app")
        stream = Stream(st, st.dsn, args.rate)
        began = time.monotonic()
        begin()
        fired = time.monotonic() - began
        st.query("reset role")
        took = stream.go(done, args.seconds or (1 if args.scale == "tiny" else 30), lambda text: progress.show(f"{name}: {text}"))
        late = stream.late()
        stream.close()
        found = statements(st)
        node.end()
    return {"p50_ms": percentile(late, 50), "p99_ms": percentile(late, 99), "max_ms": late[-1], "others": len(late), "fired_s": fired,
            "ended_s": fired + took, "statements": found}


def run(st, args, progress):
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        raise Failed(f"there is no case {unknown[0]}; there are {', '.join(CASES)}")
    st.count_statements()
    found = {}
    for name in args.cases or CASES:
        found[name] = one_case(st, name, args, progress)
        progress.end()
    about = machine(st)
    if args.json:
        print(json.dumps({"benchmark": "worst", "scale": args.scale, "cases": found, "machine": about}))
        return 0
    print_table(["case", "others' tasks", "p50 ms", "p99 ms", "max ms", f"p99 < {PROMISED_MS} ms", "ended after s"],
                [[name, f["others"], f"{f['p50_ms']:.1f}", f"{f['p99_ms']:.1f}", f"{f['max_ms']:.1f}",
                  "met" if f["p99_ms"] < PROMISED_MS else "missed", f"{f['ended_s']:.1f}"] for name, f in found.items()])
    for name, f in found.items():
        print()
        print_table([f"{name}: the node's longest statements", "calls", "ms each", "ms at most"],
                    [[statement, calls, f"{mean:.1f}", f"{most:.1f}"] for statement, calls, mean, most in f["statements"][:LONGEST]])
    print()
    print_machine(about)
    return 0
