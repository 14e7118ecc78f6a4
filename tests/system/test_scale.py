"""Size: what does not concern a node costs it nothing, and what was held is found from what was written."""
import statistics
import time

import pytest
from cluster import ROOT, SCHEMA, wait_until
from test_look import SESSION, statement

FUTURE = 100_000
FOREIGN = 100_000
"""Rows that must not matter: far more than any bound of a look; PERFORMANCE runs them at 3M by hand (scripts/bench)."""


def late_by(db, tasks):
    """Seconds between due and start of tasks that have run, sorted."""
    rows = db.query("select extract(epoch from started_at - fire_at)::float8 as s from pgrab.run where task_id = any (%s)", tasks)
    return sorted(r.s for r in rows)


def run_one_by_one(db, n=40, **columns):
    tasks = []
    for _ in range(n):
        tasks.append(db.add(**{"kind": "noop", **columns}))
        db.wait_run(tasks[-1])
    return late_by(db, tasks)


@pytest.mark.deadline(120)
def test_a_killed_node_is_recovered_whatever_is_planned_or_due(db, nodes):
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '1 hour' from generate_series(1, %s) i", FUTURE)
    db.query("insert into pgrab.task (kind, command) select 'exec', '/bin/true' from generate_series(1, %s) i", FOREIGN)
    db.query("vacuum analyze pgrab.task")
    first = nodes.start("a", allow="shell,noop", workers=4)
    tasks = [db.add(kind="shell", command="sleep 60", backoff="0") for _ in range(4)]
    db.wait("select count(*) = 4 from pgrab.task where status = 'running'")
    second = nodes.start("b", allow="shell,noop", workers=4)
    dead_after = db.one("select extract(epoch from dead_after)::float8 from pgrab.node where name = 'a'")
    second.wait_log("event=cluster nodes=2")
    killed = time.monotonic()
    first.proc.kill()
    db.wait("select count(*) = 4 from pgrab.task t join pgrab.node n on n.id = t.node_id where t.id = any (%s) and t.status = 'running' and n.name = 'b'",
            tasks, timeout=dead_after + 10)
    assert time.monotonic() - killed < dead_after + 3
    assert [r.outcome for t in tasks for r in db.runs(t)] == ["lost"] * 4


@pytest.mark.deadline(120)
def test_due_rows_that_this_node_may_not_run_delay_nobody(db, nodes):
    db.query("insert into pgrab.task (kind, command, run_at) select 'exec', '/bin/true', now() - interval '1 hour' from generate_series(1, %s) i", FOREIGN)
    db.query("update pgrab.cluster set owner_lanes = 5000")
    db.query("insert into pgrab.task (kind, require, run_at) select 'noop', jsonb_build_object('host', 'h' || i), now() - interval '1 hour' from generate_series(1, 3000) i")
    nodes.start("a", allow="noop")
    run_one_by_one(db, 5)
    late = run_one_by_one(db)
    assert statistics.median(late) < 0.1, late


@pytest.mark.deadline(60)
def test_rows_that_somebody_has_locked_delay_nobody_else(db, nodes):
    locked = [db.add(kind="noop", run_at="2001-01-01") for _ in range(50)]
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = any (%s) for update", [locked])
        nodes.start("a", workers=4)
        run_one_by_one(db, 5)
        late = run_one_by_one(db, 20)
        assert statistics.median(late) < 0.5, late
        person.rollback()
    db.wait("select not exists (select from pgrab.task)", timeout=15)


def test_schedules_that_have_missed_very_many_fires_delay_nobody(db, nodes):
    """A day of seconds each; all of them are to be run.  What comes meanwhile is behind one run of each, and no more."""
    nodes.start("a", allow="shell,noop")
    db.query("insert into pgrab.task (kind, command) select 'shell', 'true' from generate_series(1, 100)")
    db.wait("select count(*) = 100 from pgrab.run", timeout=20)
    once = "select 100 * extract(epoch from max(finished_at) - min(started_at))::float8 / count(*) from pgrab.run where %s"
    alone = db.one(once % "true")  # seconds for a run of each
    db.query("""insert into pgrab.task (kind, command, schedule, timezone, misfire, misfire_limit, run_at)
        select 'shell', 'true', '* * * * * *', 'Europe/Berlin', 'all', 50000, now() - interval '1 day' from generate_series(1, 100)""")
    late = run_one_by_one(db, 20)
    caught_up = db.one(once % "fire_at < now() - interval '1 hour'")
    assert caught_up < 4 * alone and statistics.median(late) < 0.5, (late, caught_up, alone)
    db.wait("select not exists (select from pgrab.task where not settled and fires = 0)", timeout=5)


def test_the_bell_rings_for_what_nodes_look_ahead_to_and_for_nothing_later(db, nodes):
    nodes.start("a", lookahead="5s")
    db.wait_run(db.add(kind="noop"))  # what rings for a new lane has rung
    db.wait("select bell from pgrab.node")
    with db.listen(SCHEMA) as ear:
        db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '50 s' from generate_series(1, 20)")
        db.add(kind="noop", run_at=db.one("select now() + interval '50 s'"))
        soon = db.add(kind="noop", run_at=db.one("select now() + interval '3 s'"))
        assert ear.wait(5) == str(db.one("select pgrab.shard(%s)", soon)), "the first that was heard of is the last that was inserted"


@pytest.mark.deadline(60)
def test_many_of_the_highest_priority_shut_nobody_out(db, nodes):
    db.query("insert into pgrab.task (kind, command, priority) select 'shell', 'sleep 0.01', 32767 from generate_series(1, 400)")
    old = db.add(kind="noop", run_at=db.one("select now() - interval '1 hour'"))
    nodes.start("a", workers=2, allow="shell,noop")
    db.wait_run(old, timeout=5)
    assert db.one("select count(*) > 300 from pgrab.task"), "who has waited an hour is before them"


def test_a_task_belongs_to_a_node_that_can_run_it(db, nodes):
    """In an idle cluster nothing starts late because its shard is somebody's who may not run it."""
    nodes.start("a", allow="noop")
    able = nodes.start("b", allow="noop,shell")
    db.wait("select count(*) = 2 from pgrab.node where shards is not null")
    run_one_by_one(db, 3, kind="shell", command="true")
    late = run_one_by_one(db, 20, kind="shell", command="true")
    assert max(late) < 1.5 and statistics.median(late) < 0.1, late
    assert able.running()


def test_a_claim_leaves_nothing_written_down(db, nodes):
    nodes.start("a")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 2000)")
    db.wait("select not exists (select from pgrab.task)")
    wait_until(lambda: not db.query("select from pgrab.hold"), 10, "the holds to go")


def test_what_is_put_back_is_read_by_its_key(db):
    """As nodes' sessions are: they do not sort where there is another way, and reading all tasks in the order of their keys must not be one."""
    db.query("insert into pgrab.task (id, kind, run_at) overriding system value select i, 'noop', now() + interval '1 hour' from generate_series(1, 50000) i")
    db.query("update pgrab.task set status = 'claimed', node_id = 1, incarnation = 77, version = version + 1 where id in (40001, 7, 30001, 5)")
    db.query("insert into pgrab.hold values (77, 1, '{40001,7,30001,5}')")
    db.query("update pgrab.task set status = 'claimed', node_id = 1, incarnation = 78, version = version + 1 where id = 6")
    db.query("insert into pgrab.hold values (78, 1, '{6}')")
    db.query("vacuum analyze pgrab.task")
    with db.connect() as conn:
        conn.execute(SESSION)
        conn.execute("select pgrab_internal.release_held(78)")  # what is read to plan it does not count
        plan = conn.execute("explain (analyze, buffers, format json) select pgrab_internal.release_held(77)").fetchone()[0][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500, plan
    assert db.one("select count(*) from pgrab.task where status = 'claimed'") == 0


def test_a_wait_looks_at_the_newest_days_first(db):
    """Each look of `pgrab wait` would lock each day of the history."""
    db.query("select pgrab_internal.day_make('run', pgrab_internal.today() - i) from generate_series(1, 60) i")
    task = db.add(kind="noop", run_at="2099-01-01")
    db.query("insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, ended, kind, owner)"
             " values (7, 1, now(), now(), 1, 'succeeded', 'done', 'noop', current_user)")
    for number, answer in ((task, [False]), (7, [True])):
        with db.connect() as conn, conn.transaction():
            rows = conn.execute(statement("cli_wait", str(number), "null")).fetchall()
            days = conn.execute("select count(*) from pg_locks l join pg_class c on c.oid = l.relation"
                                " where l.pid = pg_backend_pid() and c.relkind = 'r' and c.relname like 'run\\_2%'").fetchone()[0]
        assert [bool(r[1]) for r in rows] == answer and days <= 6, (number, rows, days)


def shards_of(db, node):
    return {r.shard for r in db.query("select shard from pgrab.ownership where node = %s", node)}


def ids_in(db, shards, n, first):
    return [r.id for r in db.query("select i as id from generate_series(%s, %s + 200000) i where pgrab.shard(i) = any (%s) limit %s",
                                   first, first, list(shards), n)]


@pytest.mark.deadline(90)
@pytest.mark.parametrize("ahead", ["0 s", "4 s"])
def test_a_busy_owner_keeps_nobody_waiting(db, nodes, ahead):
    """All workers of one node are at work for long: what is due in its shards starts on another, that is not, at once; also what it had claimed ahead."""
    for name in ("a", "b"):
        nodes.start(name, wait=False, allow="shell,noop", workers=4, lookahead="5s", steal_after="20s")
    wait_until(lambda: db.one("select array_agg(distinct node) = '{a,b}' from pgrab.ownership"), 20, "two owners")
    mine = shards_of(db, "a")
    tasks = ids_in(db, mine, 20, 3_000_000)
    if ahead != "0 s":  # claimed by a, which has workers still
        db.query("insert into pgrab.task (id, kind, run_at) overriding system value select i, 'noop', now() + %s::interval from unnest(%s::bigint[]) i", ahead, tasks)
        db.wait("select count(*) = 20 from pgrab.task where status = 'claimed'")
    db.query("insert into pgrab.task (id, kind, command) overriding system value select i, 'shell', 'sleep 20' from unnest(%s::bigint[]) i", ids_in(db, mine, 4, 1_000_000))
    db.wait("select count(*) = 4 from pgrab.task t join pgrab.node n on n.id = t.node_id where t.status = 'running' and n.name = 'a'")
    db.wait("select busy from pgrab.node where name = 'a'")
    if ahead == "0 s":
        for i in tasks:
            db.query("insert into pgrab.task (id, kind) overriding system value values (%s, 'noop')", i)
            db.wait_run(i)
    db.wait("select count(*) = 20 from pgrab.run where task_id = any (%s)", tasks)
    assert db.query("select distinct node from pgrab.run where task_id = any (%s)", tasks) == [("b",)]
    late = late_by(db, tasks)
    assert statistics.median(late) < 0.1 and late[-1] < 0.5, late
    db.wait("select not busy from pgrab.node where name = 'b'")


@pytest.mark.deadline(60)
@pytest.mark.parametrize("how", ["stopped", "drained", "killed"])
def test_who_leaves_keeps_nobody_waiting(db, nodes, how):
    """What is due in the shards of a node that takes nothing new starts on another at once, long before that one reads who there is, or steals."""
    patient = {"heartbeat": "10s", "fence_after": "25s", "dead_after": "40s", "steal_after": "20s", "poll": "20s"}
    a, _ = (nodes.start(name, wait=False, allow="shell,noop", **patient) for name in ("a", "b"))
    wait_until(lambda: db.one("select array_agg(distinct node) = '{a,b}' from pgrab.ownership"), 20, "two owners")
    mine = shards_of(db, "a")
    db.query("insert into pgrab.task (id, kind, command) overriding system value select i, 'shell', 'sleep 20' from unnest(%s::bigint[]) i", ids_in(db, mine, 1, 1_000_000))
    db.wait("select count(*) = 1 from pgrab.running where node = 'a'")
    tasks = ids_in(db, mine, 20, 3_000_000)
    {"stopped": a.term, "drained": lambda: db.query("select pgrab.drain('a')"), "killed": a.kill9}[how]()
    for i in tasks:
        db.query("insert into pgrab.task (id, kind) overriding system value values (%s, 'noop')", i)
    db.wait("select count(*) = 20 from pgrab.run where task_id = any (%s)", tasks)
    late = late_by(db, tasks)
    assert statistics.median(late) < 0.2 and late[-1] < 1, late
    a.kill9()


def test_who_joins_is_seen_at_once(db, nodes):
    """Until then some would give shards to nodes that do not know of it."""
    patient = {"heartbeat": "20s", "fence_after": "50s", "dead_after": "80s"}
    started = [nodes.start(name, wait=False, allow="noop", **patient) for name in ("a", "b", "c")]
    wait_until(lambda: all("event=cluster nodes=3" in node.log() for node in started), 8, "each knows the others")
    wait_until(lambda: db.one("select array_agg(distinct node) = '{a,b,c}' and count(*) = 1024 from pgrab.ownership"), 8, "each shard has one owner")


def test_tasks_of_a_kind_or_a_name_are_found_without_reading_the_others(db):
    db.query("insert into pgrab.task (kind, command, name, key) values ('exec', '/bin/true', 'needle', 'k')")
    db.query("insert into pgrab.task (kind, run_at) select 'noop', now() + interval '1 hour' from generate_series(1, %s) i", FUTURE)
    db.query("vacuum analyze pgrab.task")
    text = (ROOT / "src/db/sql/cli_tasks.sql").read_text(encoding="utf-8")
    with db.connect() as conn:
        conn.execute(SESSION)
        conn.execute("prepare q (text, text, text, text, text, text, bigint) as " + text)
        for wanted, rows in [(("null", "'exec'", "null", "null"), 1), (("null", "null", "'needle'", "null"), 1), (("null", "null", "'need%'", "null"), 1),
                             (("null", "null", "null", "'k'"), 1), (("'scheduled'", "'noop'", "null", "null"), 50), (("null", "null", "null", "null"), 50)]:
            with conn.transaction(force_rollback=True):
                got = conn.execute(f"execute q ({', '.join(wanted)}, null, null, 50)").fetchall()
                read = conn.execute("select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'pgrab.task'::regclass").fetchone()[0]
            assert len(got) == rows and read < FUTURE / 2, (wanted, len(got), read)
