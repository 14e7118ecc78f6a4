"""SQL runs whose finish cannot be written for now: the work is not thrown away, or costs no attempt."""
import pytest

from cluster import stays
from faulty import FINISH, as_role, role  # noqa: F401 (fixtures)


def test_a_finished_run_waits_for_a_row_that_somebody_has_locked(db, nodes):
    db.query("create table eff (t timestamptz)")
    nodes.start("n1", fence_after="5s", dead_after="10s", heartbeat="1s")
    task = db.add(kind="sql", command="select pg_sleep(1); insert into public.eff values (clock_timestamp())", max_attempts=2, backoff="0")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    with db.connect(autocommit=False) as person:
        person.execute("update pgrab.task set name = 'x' where id = %s", [task])
        db.wait("select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and application_name like 'pgrab sql%%'")
        stays(lambda: not db.runs(task), 12)  # longer than any deadline of a call
        person.rollback()
    assert db.wait_run(task).outcome == "succeeded"
    assert db.one("select count(*) from eff") == 1 and len(db.runs(task)) == 1


def test_a_run_that_waits_for_a_lock_still_has_its_timeout(db, nodes):
    nodes.start("n1")
    task = db.add(kind="sql", command="select 1", max_attempts=1, timeout="2 s", run_at=db.one("select now() + interval '1 s'"))
    db.wait("select status = 'claimed' from pgrab.task where id = %s", task)
    db.query("""create function public.hold() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(4711); return old; end $$""")
    db.query("create trigger hold before delete on pgrab.task for each row execute function public.hold()")
    with db.connect(autocommit=False) as person:
        person.execute("select pg_advisory_xact_lock(4711)")
        db.wait("select last_outcome = 'timed_out' from pgrab.task where id = %s", task, timeout=8)
    assert [r.outcome for r in db.runs(task)] == ["timed_out"]


@pytest.mark.parametrize("what", ["login", "right"])
def test_a_fault_of_the_servers_costs_no_attempt(db, nodes, role, what):
    """Neither a login that is refused before the text, nor a right that is missing at its finish."""
    db.query(f"create table eff (n int); grant all on eff to {role}")
    node = nodes.start("n1", dsn=as_role(db, role))
    db.wait_run(db.add(kind="noop"))
    task = db.add_as(role, kind="sql", command="insert into public.eff values (1)", max_attempts=1, run_at=db.one("select now() + interval '1 s'"))
    db.query(f"alter role {role} nologin" if what == "login" else f"revoke {FINISH} from {role}")
    first = db.one("select version from pgrab.task where id = %s", task)
    db.wait("select attempt = 0 and version > %s from pgrab.task where id = %s", first, task)
    assert not db.runs(task)
    db.query(f"alter role {role} login; grant {FINISH} to {role}")
    assert db.wait_run(task, timeout=15).outcome == "succeeded"
    assert db.one("select count(*) from eff") == 1 and db.runs(task)[0].attempt == 1
    node.end()
