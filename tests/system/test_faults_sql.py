"""SQL runs whose finish cannot be written for now: the work is not thrown away, or costs no attempt."""
import re

import pytest

from cluster import stays, wait_until
from faulty import as_role, proxy, role  # noqa: F401 (fixtures)

FINISH_RUN = "execute on function pgrab_internal.finish_run"


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


ROWS = "select generate_series(1, 100000000000)"
STREAMS = {
    "narrow": (ROWS, {}),
    "columns": ("select g, g, g, g, g, g, g, g from generate_series(1, 100000000000) g", {}),
    "alone": (ROWS, {"transaction": False}),
    # The server sends rows of the first before it has read all of the second.
    "unsent": (f"{ROWS}; select '{'y' * 900_000}'", {}),
}


@pytest.mark.parametrize("stop", ["timeout", "cancel"])
def test_rows_that_come_without_a_pause_stop_no_stop(db, nodes, stop):
    """Several at once, so that each node's worker always finds rows to read."""
    node = nodes.start("n1", fence_after="5s", dead_after="10s")
    timeout = "1 s" if stop == "timeout" else "1 h"
    tasks = [db.add(kind="sql", name=name, command=text, args=args, timeout=timeout, max_attempts=1)
             for name, (text, args) in STREAMS.items()]
    db.wait("select count(*) = %s from pgrab.task where status = 'running'", len(tasks))
    if stop == "cancel":
        db.query("select pgrab.cancel(t.id) from pgrab.task t")
    outcomes = {run.name: run.outcome for run in [db.wait_run(task, timeout=8) for task in tasks]}
    assert outcomes == dict.fromkeys(STREAMS, "timed_out" if stop == "timeout" else "cancelled")
    node.end()
    assert "fence_stuck" not in node.log()


def test_a_node_cut_off_with_a_text_under_way_comes_back(db, nodes, proxy):
    """It asks what became of the backend when the fence comes; no such question may outlast the fence."""
    node = nodes.start("n1", dsn=proxy.dsn, dead_after="6s")
    old = node.incarnation()
    task = db.add(kind="sql", command="select pg_sleep(600)", max_attempts=1)
    db.wait("select count(*) > 0 from pg_stat_activity where query like '%%pg_sleep(600)%%' and state = 'active' and pid <> pg_backend_pid()")
    proxy.silent = True
    proxy.lose(b"pgrab")
    node.wait_log("event=fenced(.|\n)*event=waiting for=lease", timeout=10)
    proxy.silent = False
    wait_until(lambda: node.incarnation() != old, 15, "another incarnation")
    assert node.running() and "fence_stuck" not in node.log()
    db.wait("select count(*) > 0 from pgrab.run where task_id = %s and outcome = 'lost'", task)


@pytest.mark.parametrize("args", [{}, {"transaction": False}], ids=["transaction", "alone"])
def test_a_large_row_leaves_no_memory_behind(db, nodes, args):
    node = nodes.start("n1", workers=2)
    before = node.memory()
    large = db.add(kind="sql", command="select repeat('x', 50000000)", args=args, max_attempts=1)
    assert db.wait_run(large, timeout=20).output.startswith("xxx")
    wait_until(lambda: node.memory() < before + 30, 10, "the memory of a large row to be given back")


@pytest.mark.parametrize("what", ["login", "right"])
def test_a_fault_of_the_servers_costs_no_attempt(db, nodes, role, what):
    """Neither a login that is refused before the text, nor a right that is missing at its finish."""
    db.query(f"create table eff (n int); grant all on eff to {role}")
    node = nodes.start("n1", dsn=as_role(db, role))
    db.wait_run(db.add(kind="noop"))
    task = db.add_as(role, kind="sql", command="insert into public.eff values (1)", max_attempts=1, run_at=db.one("select now() + interval '1 s'"))
    db.query(f"alter role {role} nologin" if what == "login" else f"revoke {FINISH_RUN} from {role}")
    first = db.one("select version from pgrab.task where id = %s", task)
    db.wait("select attempt = 0 and version > %s from pgrab.task where id = %s", first, task)
    assert not db.runs(task)
    db.query(f"alter role {role} login; grant {FINISH_RUN} to {role}")
    assert db.wait_run(task, timeout=15).outcome == "succeeded"
    assert db.one("select count(*) from eff") == 1 and db.runs(task)[0].attempt == 1
    node.end()
