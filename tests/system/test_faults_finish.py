"""Outcomes that cannot be recorded: a fault of the server keeps them all in hand, a fault of one row harms only that row."""
import pytest

from cluster import stays, wait_until
from faulty import FINISH, as_role, hang_up, role  # noqa: F401 (fixtures)


def test_a_refused_login_keeps_outcomes_in_hand(db, nodes, probe, role):
    """The finisher alone loses its connection, and cannot log in for longer than a lease."""
    node = nodes.start("n1", dsn=as_role(db, role))
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True))
    once = db.add(**probe.shell("once", gate=True), delivery="at_most_once")
    db.wait_run(db.add(kind="noop"))  # the finisher has a connection
    probe.wait("start", count=2)
    old = node.incarnation()
    db.query(f"alter role {role} nologin")
    hang_up(db, "finish")
    probe.open_gate()
    node.wait_log("event=fault part=finish .*not permitted to log in")
    late = db.add(kind="noop")
    stays(lambda: db.one("select count(*) from pgrab.task where status = 'running'") == 2 and not db.runs(late), 2.5)
    db.query(f"alter role {role} login")
    for t in (task, once, late):
        assert db.wait_run(t).outcome == "succeeded"
    assert [len(db.runs(t)) for t in (task, once)] == [1, 1]
    assert len(probe.events("start")) == 2 and node.incarnation() == old
    node.wait_log("event=fault_over part=finish")
    assert node.log().count("event=fault part=finish") == 1, "said once"


def test_a_right_that_is_revoked_parks_no_schedule(db, nodes, role):
    node = nodes.start("n1", dsn=as_role(db, role))
    tasks = [db.add(kind="shell", command="true", schedule="@every 1s", name=f"s{i}") for i in range(10)]
    db.wait("select count(*) > 12 from pgrab.run", timeout=15)
    db.query(f"revoke {FINISH} from {role}")
    node.wait_log("event=fault part=finish .*permission denied")
    stays(lambda: not db.one("select count(*) from pgrab.task where status = 'parked'"), 2)
    db.query(f"grant {FINISH} to {role}")
    seen = db.one("select count(*) from pgrab.run")
    db.wait("select count(*) > %s from pgrab.run", seen + 20, timeout=15)
    assert db.query("select distinct last_outcome, failures from pgrab.task") == [("succeeded", 0)]
    assert db.one("select count(distinct (task_id, fire_at)) = count(*) from pgrab.run"), "no success was run twice"
    assert len(tasks) == db.one("select count(*) from pgrab.task where status <> 'parked'")
    assert node.log().count("event=fault part=finish") == 1


@pytest.mark.parametrize("n", [1, 10])
def test_a_trigger_that_refuses_everything_parks_nothing(db, nodes, n):
    """It answers as for a bad row; but nothing else passes, so it is nobody's fault."""
    node = nodes.start("n1")
    for i in range(n):
        db.add(kind="noop", schedule="@every 1s", name=f"s{i}")
    db.wait("select count(*) > %s from pgrab.run", n, timeout=15)
    db.query("create function public.no() returns trigger language plpgsql as $$ begin raise exception 'disk of the archive is full'; end $$")
    db.query("create trigger no before insert on pgrab.run for each row execute function public.no()")
    node.wait_log("event=fault part=finish .*archive is full")
    stays(lambda: not db.one("select count(*) from pgrab.task where status = 'parked'"), 7)
    db.query("drop trigger no on pgrab.run")
    node.wait_log("event=fault_over part=finish")
    seen = db.one("select count(*) from pgrab.run")
    db.wait("select count(*) > %s from pgrab.run", seen + 2 * n, timeout=15)
    assert db.query("select distinct last_outcome, failures, status <> 'parked' from pgrab.task") == [("succeeded", 0, True)]


def test_one_bad_row_among_many_is_found_and_the_others_pass(db, nodes):
    """Bad ones stand side by side at the front; what passes behind them proves that it is they."""
    db.query("alter table pgrab.run add constraint no_bad check (name is distinct from 'bad')")
    node = nodes.start("n1", workers=1)
    with db.connect() as conn, conn.transaction():
        conn.execute("insert into pgrab.task (kind, name) select 'noop', case when i <= 20 then 'bad' end from generate_series(1, 300) i")
    db.wait("select count(*) = 280 from pgrab.run", timeout=15)
    db.wait("select count(*) = 20 and bool_and(status = 'parked') from pgrab.task", timeout=10)
    assert "stale_finish" not in node.log()


def test_a_row_refused_for_a_reason_of_the_servers_waits_and_holds_up_no_other(db, nodes):
    """A trigger of somebody's says `no space` for one task only: that is not parked for it, and nobody else waits."""
    db.query("""create function public.full() returns trigger language plpgsql as $$
        begin raise exception 'no space' using errcode = '53100'; end $$""")
    db.query("create trigger full_disk before insert on pgrab.run for each row when (new.name = 'big') execute function public.full()")
    nodes.start("n1")
    with db.connect() as conn, conn.transaction():
        conn.execute("insert into pgrab.task (kind, name) select 'noop', case when i = 20 then 'big' end from generate_series(1, 51) i")
    db.wait("select count(*) = 50 from pgrab.run", timeout=15)
    big = db.one("select id from pgrab.task")
    for _ in range(3):
        assert db.wait_run(db.add(kind="noop"), timeout=3).outcome == "succeeded"
    assert db.one("select status from pgrab.task where id = %s", big) == "running"
    db.query("drop trigger full_disk on pgrab.run")
    assert db.wait_run(big).outcome == "succeeded"


def test_stale_finishes_are_one_line(db, nodes, probe):
    probe.close_gate()
    tasks = [db.add(**probe.shell("t", gate=True)) for _ in range(8)]
    node = nodes.start("n1", workers=8)
    probe.wait("start", "t", count=8)
    db.query("update pgrab.task set version = version + 1")
    probe.open_gate()
    db.wait("select stale_finishes = 8 from pgrab.node")
    node.wait_log("event=stale_finish")
    wait_until(lambda: sum(int(line.split("count=")[1].split()[0]) for line in node.log().splitlines() if "event=stale_finish" in line) == 8, 5, "all in the log")
    assert node.log().count("event=stale_finish") < 8
    db.query("delete from pgrab.task where id = any (%s)", tasks)


@pytest.mark.deadline(120)
def test_a_row_whose_end_takes_longer_than_any_deadline_is_recorded_and_keeps_nobody_waiting(db, nodes):
    db.query("""create function public.slowly() returns trigger language plpgsql as $$
        begin perform pg_sleep(13); return old; end $$""")
    db.query("create trigger slowly before delete on pgrab.task for each row when (old.name = 'slow') execute function public.slowly()")
    node = nodes.start("n1", workers=32)  # room for all: a place is free when its outcome is written, or put aside
    slow = db.add(kind="noop", name="slow")
    db.query("insert into pgrab.task (kind, name) select 'noop', 'beside ' || i from generate_series(1, 20) i")
    db.query("insert into pgrab.task (kind, name, run_at) select 'noop', 'timed', now() + i * interval '100 ms' from generate_series(1, 400) i")
    assert db.wait_run(slow, timeout=80).outcome == "succeeded"
    db.wait("select not exists (select from pgrab.task)", timeout=40)  # the last one is due 40 s after the first
    late = "percentile_cont(0.99) within group (order by finished_at - fire_at) filter (where name = 'timed')"
    assert db.one(f"select {late} < interval '1 s' from pgrab.run")
    assert db.one("select count(*) = 421 and count(*) = count(*) filter (where outcome = 'succeeded') from pgrab.run")
    assert "event=fault" not in node.log()
