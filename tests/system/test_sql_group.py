"""sql_group: several short sql runs of one owner are one transaction, and nobody can tell but by the clock."""
import contextlib
import os
import signal

import psycopg
import pytest
from cluster import stays, wait_until
from faulty import proxy  # noqa: F401 (fixture)

HUNDREDS = 400


@pytest.fixture
def eff(db):
    db.query("create table eff (n int, x xid8 default pg_current_xact_id(), at timestamptz default clock_timestamp())")


def add(db, command, count=HUNDREDS, **columns):
    """One statement, all due at once.  {n}: the number of the task."""
    columns = {"max_attempts": 3, "backoff": "1 s", **columns}
    names = "".join(f", {name}" for name in columns)
    return [row.id for row in db.query(
        f"insert into pgrab.task (kind, name, command{names}) select 'sql', n::text, replace(%s, '{{n}}', n::text)"
        f"{', %s' * len(columns)} from generate_series(1, %s) n returning id", command, *columns.values(), count)]


def wait_all(db, tasks, timeout=30):
    """Until each has ended for good."""
    db.wait("select count(*) = 0 from pgrab.task where id = any (%s) and status <> 'parked'", tasks, timeout=timeout)
    assert db.one("select count(distinct task_id) from pgrab.run where task_id = any (%s)", tasks) == len(tasks)


def grouped(db):
    """How many transactions made effects, and how many effects there are."""
    return db.query("select count(distinct x) as xids, count(*) as n, count(distinct n) as different from eff")[0]


def test_groups_do_what_single_runs_do(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select {n} as a, 'text'")
    wait_all(db, tasks)
    found = grouped(db)
    assert (found.n, found.different) == (HUNDREDS, HUNDREDS)
    assert found.xids < HUNDREDS / 2, "no groups"
    assert not db.query("select from pgrab.task")
    odd = db.query("""select r.* from pgrab.run r where r.outcome <> 'succeeded' or r.ended <> 'done' or r.attempt <> 1
        or r.output is distinct from r.name || '|text' or r.output_truncated or r.started_at > r.finished_at
        or r.finished_at > clock_timestamp() or r.claimed_at > r.finished_at or r.node <> 'n1' or r.error is not null""")
    assert not odd
    # Each has its own times: that of its text.
    assert db.one("""select count(*) from eff e join pgrab.run r on r.name = e.n::text
        where e.at not between r.started_at - interval '20 ms' and r.finished_at + interval '20 ms'""") == 0


def test_off_by_default(db, nodes, eff):
    nodes.start("n1", workers=2)
    wait_all(db, add(db, "insert into public.eff values ({n})", count=200))
    found = grouped(db)
    assert found.xids == found.n == 200


def test_one_that_fails_costs_the_others_nothing(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select 1 / ({n} % 10)", max_attempts=2, backoff="0")
    wait_all(db, tasks)
    runs = db.query("select name::int as n, outcome, attempt, error from pgrab.run")
    assert sorted(run.n for run in runs if run.outcome == "succeeded") == [n for n in range(1, HUNDREDS + 1) if n % 10]
    assert {run.attempt for run in runs if run.outcome == "succeeded"} == {1}
    assert sorted((run.n, run.attempt) for run in runs if run.outcome == "failed") == [(n, a) for n in range(10, HUNDREDS + 1, 10) for a in (1, 2)]
    assert all("division by zero" in run.error and "statement 2 of 2" in run.error for run in runs if run.outcome == "failed")
    assert [row.n for row in db.query("select n from eff order by n")] == [n for n in range(1, HUNDREDS + 1) if n % 10]
    assert grouped(db).xids < grouped(db).n


def test_nothing_is_lost_or_doubled_when_the_node_is_killed(db, nodes, eff):
    node = nodes.start("n1", workers=4, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n})", count=3000)
    wait_until(lambda: grouped(db).n > 300, 20, "some effects")
    node.kill9()
    assert grouped(db).n < 3000, "too late"
    nodes.start("n2", workers=4, sql_group=20)
    wait_until(lambda: not db.query("select from pgrab.task"), 40, "all to be done")
    found = grouped(db)
    assert (found.n, found.different) == (3000, 3000)
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded' and task_id = any (%s)", tasks) == 3000


@pytest.mark.parametrize("how", ["terminate", "cancel"])
def test_a_lost_connection_or_a_cancelled_statement_undoes_a_group(db, nodes, eff, how):
    nodes.start("n1", workers=4, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(0.002)", count=1500, max_attempts=9, backoff="0")
    struck = 0

    def strike():
        nonlocal struck
        struck += db.one(f"""select count(*) filter (where pg_{how}_backend(a.pid)) from pg_stat_activity a
            where a.application_name like 'pgrab sql %' and a.state = 'active' and a.datname = current_database()""")
        return struck >= 8
    wait_until(strike, 20, "eight to be struck")
    wait_all(db, tasks, timeout=60)
    found = grouped(db)
    assert (found.n, found.different) == (1500, 1500) and found.xids < 1000
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded' and task_id = any (%s)", tasks) == 1500
    # By itself a run is struck like any other, and that costs it an attempt; not the others of its group.
    assert db.one("select count(*) from pgrab.run where outcome <> 'succeeded'") <= struck


def test_a_connection_that_is_lost_in_the_finish_of_a_group_costs_no_attempt(db, nodes, eff):
    """Nothing of it can be committed, and that is known at once."""
    db.query("""create sequence struck; grant usage on struck to public;
        create function strike() returns trigger language plpgsql as $$ begin
          if current_query() like '%%finish_runs%%' and nextval('public.struck') <= 2 then
            perform pg_terminate_backend(pg_backend_pid());
          end if;
          return old;
        end $$;
        create trigger zz_strike before delete on pgrab.task for each row when (old.name like '%%50') execute function strike()""".replace("%%", "%"))
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n})")
    wait_all(db, tasks)
    assert db.one("select last_value from struck") >= 2, "no group was struck"
    assert {(run.outcome, run.attempt) for run in db.query("select outcome, attempt from pgrab.run")} == {("succeeded", 1)}
    found = grouped(db)
    assert (found.n, found.different) == (HUNDREDS, HUNDREDS)


def test_a_commit_of_a_group_whose_answer_is_lost_is_looked_up(db, nodes, eff, proxy):  # noqa: F811
    node = nodes.start("n1", workers=2, sql_group=20, dsn=proxy.dsn)
    tasks = add(db, "insert into public.eff values ({n})", count=1000, max_attempts=20, backoff="0")
    lost = 0

    def lose():
        nonlocal lost
        if proxy.until is None and grouped(db).n > 100 * lost:
            lost += 1
            proxy.until = b"commit\0"
        return lost > 6
    wait_until(lose, 30, "six answers to be lost")
    proxy.until = None
    wait_all(db, tasks, timeout=40)
    found = grouped(db)
    assert (found.n, found.different) == (1000, 1000) and found.xids < 700
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded'") == 1000
    assert "event=stale_finish" not in node.log(), "what was done was begun again"


@pytest.mark.private_server
@pytest.mark.deadline(150)
def test_runs_of_a_group_are_not_over_while_its_backend_is_frozen(db, nodes, eff):
    """A node that leaves does not hand them back, as if they had never begun: recovery ends the backend first."""
    node = nodes.start("n1", workers=1, sql_group=20, drain_timeout="100ms", fence_after="10s", dead_after="15s")
    tasks = add(db, "insert into public.eff values ({n}); select pg_advisory_xact_lock({n}), pg_sleep(0.01)", count=300)

    def frozen_with_several():
        """While it sleeps, and so has no lock within the server."""
        asleep = "select pid from pg_stat_activity where application_name like 'pgrab sql %%' and wait_event = 'PgSleep'"
        for (pid,) in db.query(asleep):
            os.kill(pid, signal.SIGSTOP)
            held = db.query("select objid::int as n from pg_locks where locktype = 'advisory' and granted and pid = %s", pid)
            if len(held) > 2 and (pid,) in db.query(asleep):
                return pid, [row.n for row in held]
            os.kill(pid, signal.SIGCONT)
        return None
    pid, held = wait_until(frozen_with_several, 30, "a group")
    try:
        stays(lambda: node.running(), 17, "a node that tries to end the backend")
        nodes.start("n2", workers=1)
        node.term()
        node.wait_exit(30)
        stays(lambda: db.one("select count(*) from pgrab.task where name::int = any (%s) and status = 'running' and node_id = "
                             "(select id from pgrab.node where name = 'n1')", held) == len(held), 2)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_all(db, tasks, timeout=60)
    found = grouped(db)
    assert (found.n, found.different) == (300, 300)


def warm_up(db):
    """So many short runs end per second that others wait in a row."""
    return add(db, "insert into public.eff values ({n}); select 'quick'", count=600)


def test_a_long_text_leaves_its_group_and_holds_up_nobody(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(case when {n} % 100 = 50 then 2 else 0 end)", count=600)
    wait_all(db, tasks)
    assert {(row.outcome, row.attempt) for row in db.query("select outcome, attempt from pgrab.run")} == {("succeeded", 1)}
    found = grouped(db)
    assert (found.n, found.different) == (600, 600) and found.xids < 400
    # By itself: nobody shares its transaction.
    assert db.one("select max(c) from (select count(*) as c from eff where x in (select x from eff where mod(n, 100) = 50) group by x) s") == 1
    long = db.query("select extract(epoch from finished_at - started_at) as took from pgrab.run where mod(name::int, 100) = 50")
    assert len(long) == 6 and all(2 <= run.took < 4 for run in long)
    others = db.one("select max(extract(epoch from finished_at - started_at)) from pgrab.run where mod(name::int, 100) <> 50")
    assert others < 1.5


def test_a_timeout_is_that_of_one_text(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(case when {n} = 300 then 60 else 0 end)", timeout="1 s", max_attempts=2)
    wait_all(db, tasks)
    assert [run.name for run in db.query("select name from pgrab.run where outcome <> 'succeeded'")] == ["300", "300"]
    assert db.one("select count(*) from pgrab.run where outcome = 'timed_out' and error = 'timed out'") == 2
    found = grouped(db)
    assert (found.n, found.different) == (HUNDREDS - 1, HUNDREDS - 1)


def test_a_cancel_is_that_of_one_run(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(case when {n} = 300 then 60 else 0 end)")
    db.wait("select count(*) = %s from pgrab.run", HUNDREDS - 1, timeout=30)
    db.wait("select status = 'running' from pgrab.task where name = '300'")
    db.query("select pgrab.cancel(t.id) from pgrab.task t")
    wait_all(db, tasks)
    assert [run.name for run in db.query("select name from pgrab.run where outcome = 'cancelled'")] == ["300"]
    found = grouped(db)
    assert (found.n, found.different) == (HUNDREDS - 1, HUNDREDS - 1)


def test_cancels_at_any_moment_leave_no_effect_and_end_nothing_else(db, nodes, eff):
    nodes.start("n1", workers=4, sql_group=20, heartbeat="50ms")
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(0.004)", count=2000)

    def cancel():
        for (task,) in db.query("select id from pgrab.task where status = 'running' order by random() limit 3"):
            with contextlib.suppress(psycopg.errors.NoDataFound):  # it has just ended
                db.query("select pgrab.cancel(%s::bigint)", task)
        return not db.query("select from pgrab.task")
    wait_until(cancel, 60, "all to be over")
    runs = db.query("select outcome, name::int as n from pgrab.run where task_id = any (%s)", tasks)
    assert len(runs) == 2000 and {run.outcome for run in runs} == {"succeeded", "cancelled"}
    assert sorted(run.n for run in runs if run.outcome == "succeeded") == [row.n for row in db.query("select n from eff order by n")]
    found = grouped(db)
    assert found.xids < found.n


def test_a_stop_of_the_node_leaves_nothing_half_done(db, nodes, eff):
    node = nodes.start("n1", workers=4, sql_group=20, drain_timeout="300ms")
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(case when mod({n}, 200) = 0 then 3 else 0.001 end)", count=1500)
    wait_until(lambda: grouped(db).n > 300, 20, "some effects")
    node.end()
    assert not db.query("select from pgrab.task where status in ('claimed', 'running')")
    found = grouped(db)
    assert found.n == found.different == db.one("select count(*) from pgrab.run where outcome = 'succeeded'") < 1500
    nodes.start("n2", workers=4, sql_group=20)
    wait_all(db, tasks, timeout=60)
    found = grouped(db)
    assert (found.n, found.different) == (1500, 1500)


def test_a_locked_row_holds_up_only_its_own_run(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    tasks = add(db, "insert into public.eff values ({n}); select pg_sleep(0.001)", count=1200)
    db.wait("select count(*) > 100 from pgrab.run", timeout=20)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where status <> 'scheduled' order by id limit 1 for update")
        db.wait("select count(*) = 1 from pgrab.task", timeout=40)
        stays(lambda: db.one("select count(*) from pgrab.task") == 1, 1)
        person.rollback()
    wait_all(db, tasks)
    found = grouped(db)
    assert (found.n, found.different) == (1200, 1200)
    assert {(row.outcome, row.attempt) for row in db.query("select outcome, attempt from pgrab.run")} == {("succeeded", 1)}


LEFT = {
    "set": ("set work_mem = '7777kB'", "current_setting('work_mem') = '7777kB'"),
    "set local": ("set local work_mem = '7777kB'", "current_setting('work_mem') = '7777kB'"),
    "search_path": ("set search_path = pg_catalog", "current_setting('search_path') = 'pg_catalog'"),
    "timeout": ("set statement_timeout = '77s'", "current_setting('statement_timeout') = '77s'"),
    "temp": ("create temporary table left_over (a int)", "to_regclass('pg_temp.left_over') is not null"),
    "prepared": ("prepare left_over as select 1", "exists (select from pg_prepared_statements where from_sql)"),
    "cursor": ("declare left_over cursor with hold for select 1", "exists (select from pg_cursors where name = 'left_over')"),
    "listen": ("listen left_over", "'left_over' in (select pg_listening_channels())"),
    "trace": ("select set_config('pgrab.traceparent', 'x', true)", "coalesce(current_setting('pgrab.traceparent', true), '') = 'x'"),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_a_text_leaves_in_the_session_is_not_there_for_the_next(db, nodes, eff, what):
    text, found = LEFT[what]
    nodes.start("n1", workers=1, sql_group=20)
    tasks = add(db, f"insert into public.eff select {{n}} where not ({found}); {text}")
    wait_all(db, tasks)
    effects = grouped(db)
    assert effects.n == HUNDREDS and effects.xids < HUNDREDS / 2
    assert {run.outcome for run in db.query("select outcome from pgrab.run")} == {"succeeded"}


def test_what_cannot_be_in_a_group_runs_by_itself(db, nodes, eff):
    nodes.start("n1", workers=2, sql_group=20)
    plain = add(db, "insert into public.eff values ({n})", count=300)
    alone = add(db, "insert into public.eff values ({n} + 1000)", count=20, args='{"transaction": false}', max_attempts=2)
    steps = [db.add(kind="sql", args={"steps": [{"name": "a", "command": "insert into public.eff values (2001)"},
                                                {"name": "b", "command": "insert into public.eff values (2002)"}]})]
    once = add(db, "insert into public.eff values ({n} + 3000)", count=20, delivery="at_most_once", max_attempts=1)
    commits = add(db, "commit", count=3, max_attempts=1)
    wait_all(db, plain + alone + steps + once + commits)
    found = grouped(db)
    assert (found.n, found.different) == (342, 342)
    assert db.one("select count(distinct x) from eff where n > 1000") == 42
    assert db.one("select count(*) from pgrab.run where outcome = 'failed' and error like 'COMMIT, ROLLBACK and SAVEPOINT are refused%%'") == 3


def test_links_schedules_and_deferred_constraints(db, nodes, eff):
    db.query("""create table parent (id int primary key);
        create table child (id int references parent deferrable initially deferred); grant all on parent, child to public""")
    nodes.start("n1", workers=2, sql_group=20)
    wait_all(db, warm_up(db))
    good = add(db, "insert into public.child values ({n}); insert into public.parent values ({n})")
    bad = add(db, "insert into public.eff values (-{n}); insert into public.child values (-{n})", count=5, max_attempts=1)
    every = db.add(kind="sql", command="insert into public.eff values (7777)", schedule="@every 1s")
    wait_all(db, good + bad)
    assert db.one("select count(*) from child") == db.one("select count(*) from parent") == HUNDREDS
    assert {run.outcome for run in db.query("select outcome from pgrab.run where task_id = any (%s)", bad)} == {"failed"}
    assert db.one("select count(*) from eff where n < 0") == 0
    db.wait("select count(*) >= 2 from pgrab.run where task_id = %s and outcome = 'succeeded'", every)
