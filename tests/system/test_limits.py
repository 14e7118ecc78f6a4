"""Limits hold over all nodes and through crashes; priorities go first, and nobody starves."""
import os

import psycopg
import pytest
from cluster import stays, wait_until

# How many ran at the worst moment, by the history alone.
AT_ONCE = """
select max(n) from (
  select sum(step) over (order by at, step) as n
  from (select started_at as at, 1 as step from pgrab.run where name = %s union all select finished_at, -1 from pgrab.run where name = %s) e) s"""


def worst(db, name):
    return db.one(AT_ONCE, name, name)


def note_places(db):
    """When each was allowed to start. The history has the starts as its finish tells them, which on a machine that stalls may be late."""
    db.query("create table place (task_id bigint, at timestamptz)")
    db.query("create function note() returns trigger language plpgsql as $$ begin insert into public.place values (new.task_id, new.at); return null; end $$")
    db.query("create trigger note after insert or update on pgrab.limit_place for each row when (new.started and not new.over) execute function note()")


def none_started_early(db):
    return db.one("select count(*) = count(p.at) and bool_and(r.started_at >= p.at - interval '3 ms') from pgrab.run r left join place p using (task_id)")


def test_max_running_is_exact_over_several_nodes_and_does_not_hold_up_others(db, nodes):
    for name in "abc":
        nodes.start(name, workers=8)
    db.query("insert into pgrab.limit values ('api', 3)")
    db.query("insert into pgrab.task (name, kind, command, limit_key) select 'l', 'sql', 'select pg_sleep(0.02)', 'api' from generate_series(1, 150)")
    free = db.add(kind="noop")
    assert db.wait_run(free, timeout=3).outcome == "succeeded"
    db.wait("select count(*) = 150 from pgrab.run where name = 'l' and outcome = 'succeeded'", timeout=30)
    assert worst(db, "l") == 3
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_what_comes_behind_many_tasks_of_a_full_limit_does_not_wait_for_them(db, nodes):
    """They are in the same lane.  When each had to be claimed to hear that it waits, a few at a time, this took 40 s on two cores."""
    nodes.start(workers=4)
    db.query("insert into pgrab.limit (key, max_running) values ('api', 1)")
    db.add(kind="shell", command="sleep 600", limit_key="api")
    db.wait("select count(*) = 1 from pgrab.task where status = 'running'")
    db.query("insert into pgrab.task (kind, command, limit_key) select 'shell', 'true', 'api' from generate_series(1, 10000)")
    free = db.add(kind="shell", command="true")
    run = db.wait_run(free, timeout=15)
    assert run.outcome == "succeeded"
    db.wait("select count(*) filter (where line = 'api' and due_at is null) = 10000 from pgrab.task", timeout=10)
    assert db.one("select count(*) from pgrab.task where attempt > 0") == 1
    db.query("update pgrab.limit set max_running = 100")
    db.wait("select count(*) > 200 from pgrab.run", timeout=30)


def test_per_second_is_exact_over_several_nodes(db, nodes):
    nodes.start("a")
    nodes.start("b")
    note_places(db)
    db.query("insert into pgrab.limit values ('api', null, 20)")
    db.query("insert into pgrab.task (name, kind, limit_key) select 'r', 'noop', 'api' from generate_series(1, 90)")
    db.wait("select count(*) = 90 from pgrab.run", timeout=30)
    assert db.one("select max(n) from (select count(*) over (order by at range between current row and interval '999 ms' following) as n from place) w") <= 20
    assert none_started_early(db)
    took = db.one("select extract(epoch from max(started_at) - min(started_at)) from pgrab.run")
    assert took < 7, f"90 at 20 a second took {took} s"


def test_a_rate_below_one(db, nodes):
    nodes.start("a")
    note_places(db)
    db.query("insert into pgrab.limit values ('slow', null, 0.5)")
    db.query("insert into pgrab.task (name, kind, limit_key) select 's', 'noop', 'slow' from generate_series(1, 3)")
    db.wait("select count(*) = 3 from pgrab.run", timeout=15)
    gaps = [r.gap for r in db.query("select extract(epoch from at - lag(at) over (order by at)) as gap from place order by at")][1:]
    assert len(gaps) == 2 and all(2 <= gap < 3.5 for gap in gaps), gaps
    assert none_started_early(db)


def test_a_killed_node_gives_its_places_back(db, nodes, probe):
    first = nodes.start("a")
    db.query("insert into pgrab.limit values ('one', 1)")
    task = db.add(**probe.shell("t", gate=True), limit_key="one")
    probe.close_gate()
    try:
        probe.wait("start", "t")
        waiting = db.add(name="w", kind="noop", limit_key="one")
        db.wait("select why = 'waits for a place under limit one' from pgrab.late where id = %s", waiting)
        assert db.query("select running, waiting from pgrab.limits") == [(1, 1)]
        nodes.start("b")
        first.kill9()
        probe.wait("start", "t", 2, timeout=15)
    finally:
        probe.open_gate()
    assert db.wait_run(waiting).outcome == "succeeded"
    db.wait_run(task, 2)
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]
    probe.assert_no_overlap()


def test_a_limit_that_is_raised_or_removed_lets_go_at_once(db, nodes):
    nodes.start()
    db.query("insert into pgrab.limit values ('off', 0)")
    tasks = [db.add(kind="noop", limit_key="off") for _ in range(4)]
    db.wait("select waiting = 4 from pgrab.limits")
    stays(lambda: not db.query("select from pgrab.run"), 1.5, "tasks under a limit of 0")
    db.query("update pgrab.limit set max_running = 2")
    for task in tasks:
        db.wait_run(task, timeout=5)
    last = [db.add(kind="noop", limit_key="off") for _ in range(2)]
    for task in last:
        db.wait_run(task)
    db.query("update pgrab.limit set max_running = 0")
    final = db.add(kind="noop", limit_key="off")
    db.wait("select waiting = 1 from pgrab.limits")
    db.query("delete from pgrab.limit")
    assert db.wait_run(final, timeout=5).outcome == "succeeded"


def test_a_task_that_comes_while_the_limit_is_deleted_is_not_left_in_line(db, nodes):
    nodes.start()
    db.query("insert into pgrab.limit values ('k', 0)")
    with db.connect(autocommit=False) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("select count(*) from pgrab.task")  # from now on it sees nothing new
        task = db.add(kind="noop", limit_key="k")
        db.wait("select due_at is null from pgrab.task where id = %s", task)
        conn.execute("delete from pgrab.limit")
    assert db.wait_run(task).outcome == "succeeded"


def test_a_recurring_limited_task_leaves_no_place_behind(db, nodes):
    nodes.start()
    db.query("insert into pgrab.limit values ('k', 1)")
    ticking = db.add(kind="noop", schedule="@every 1s", max_runs=3, limit_key="k")
    db.wait("select count(*) = 3 from pgrab.run where task_id = %s", ticking, timeout=15)
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_a_run_keeps_its_place_when_its_task_is_deleted(db, nodes, tmp_path):
    """Its run is asked to stop, and as long as it does not another one would be the second."""
    nodes.start("a", kill_grace="3s", dead_after="8s")
    nodes.start("b", kill_grace="3s", dead_after="8s")
    db.query("insert into pgrab.limit values ('k', 1)")
    pid = tmp_path / "pid"
    gone = db.add(kind="shell", command=f"trap '' TERM; echo $$ > {pid}.new; mv {pid}.new {pid}; exec tail -f /dev/null", limit_key="k")
    wait_until(pid.exists, what="the run")
    db.query("delete from pgrab.task where id = %s", gone)
    after = db.add(kind="noop", limit_key="k")
    db.wait("select waiting = 1 from pgrab.limits")
    stays(lambda: db.one("select running = 1 and waiting = 1 from pgrab.limits"), 1.5, "the place of the run")
    assert db.wait_run(after, timeout=10).outcome == "succeeded"
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}"), "the run had not ended"


def test_the_place_of_a_deleted_sql_task_comes_free_with_its_run(db, nodes):
    nodes.start()
    db.query("insert into pgrab.limit values ('k', 1)")
    # Not at the first word: the server signals a backend and then its process group, which may be two cancels.
    gone = db.add(kind="sql", limit_key="k", command="do $$ begin for i in 1 .. 9 loop begin "
                  "perform pg_advisory_xact_lock(17); exit; exception when query_canceled then null; end; end loop; end $$")
    with db.connect() as other:
        other.execute("select pg_advisory_lock(17)")
        db.wait("select count(*) = 1 from pg_locks where locktype = 'advisory' and not granted")
        db.query("delete from pgrab.task where id = %s", gone)
        after = db.add(kind="noop", limit_key="k")
        db.wait("select waiting = 1 from pgrab.limits")
        other.execute("select pg_advisory_unlock(17)")
    assert db.wait_run(after, timeout=5).outcome == "succeeded"


def test_the_place_of_a_deleted_task_comes_free_when_its_node_dies(db, nodes, probe):
    pair = {name: nodes.start(name) for name in "ab"}
    db.query("insert into pgrab.limit values ('k', 1)")
    probe.close_gate()
    try:
        gone = db.add(**probe.shell("t", gate=True), limit_key="k")
        probe.wait("start", "t")
        by = db.one("select n.name from pgrab.task t join pgrab.node n on n.id = t.node_id where t.id = %s", gone)
        pair[by].stop()  # before it hears of the delete
        db.query("delete from pgrab.task where id = %s", gone)
        after = db.add(kind="noop", limit_key="k")
        db.wait("select waiting = 1 from pgrab.limits")
        pair[by].kill9()
        assert db.wait_run(after, timeout=25).outcome == "succeeded"
    finally:
        probe.open_gate()


def test_among_those_in_line_priority_goes_first(db, nodes):
    node = nodes.start()
    db.query("insert into pgrab.limit values ('k', 0)")
    ids = {p: db.add(name="p", kind="noop", priority=p, limit_key="k") for p in (0, -3, 5, 1)}
    db.wait("select waiting = 4 from pgrab.limits")
    db.query("update pgrab.limit set max_running = 1")
    db.wait("select count(*) = 4 from pgrab.run", timeout=10)
    order = [r.task_id for r in db.query("select task_id from pgrab.run order by started_at")]
    assert order == [ids[p] for p in (5, 1, 0, -3)]
    assert node.running()


@pytest.mark.parametrize("backlog", [3000])
def test_a_high_priority_passes_a_backlog_and_a_low_one_is_not_starved(db, nodes, backlog):
    """The backlog is due for half an hour: a band is worth 15 minutes, so the low one is before half of it."""
    low = db.add(kind="sql", command="select 'low'", priority=-3, run_at=db.one("select now() - interval '30 min'"))
    db.query("insert into pgrab.task (name, kind, command, run_at) select 'b', 'sql', 'select 1', now() - interval '30 min' * random() from generate_series(1, %s)", backlog)
    high = db.add(kind="sql", command="select 'high'", priority=20)
    nodes.start(workers=2)
    first = db.wait_run(high, timeout=5)
    done = db.one("select count(*) from pgrab.run where name = 'b' and finished_at < %s", first.finished_at)
    assert done < 300, f"{done} of the backlog were done before the task of priority 20"
    before = db.one("select count(*) from pgrab.run where name = 'b' and finished_at < %s", db.wait_run(low, timeout=40).finished_at)
    assert before < backlog
