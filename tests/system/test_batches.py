"""Batches with real nodes: many members, members that add members, failures, death in between."""
import json

import psycopg
import pytest

from cluster import run_pgrab


def batch(db, **columns):
    return db.add(kind="batch", command="", **columns)


def ended(db, task, timeout=60):
    db.wait("select exists (select from pgrab.run where task_id = %s and ended is not null)", task, timeout=timeout)
    return db.query("select outcome, output, error from pgrab.run where task_id = %s and ended is not null", task)[0]


def test_ten_thousand_members_and_a_callback(db, nodes):
    nodes.start("n1")
    nodes.start("n2")
    b = batch(db)
    after = db.add(kind="noop", command="", parent_id=b)
    db.query("insert into pgrab.task (kind, batch) select 'noop', %s from generate_series(1, 10000)", b)
    db.query("insert into pgrab.task (kind, batch) values ('noop', %s)", b)
    db.wait("select percent = 100 from pgrab.batches where id = %s", b, timeout=60)
    assert db.query("select status, members, succeeded, failed from pgrab.batches where id = %s", b) == [("open", 10001, 10001, 0)]
    run_pgrab("seal", str(b), dsn=db.dsn)
    assert ended(db, b)[:2] == ("succeeded", "10001 members, 10001 succeeded")
    assert ended(db, after)[0] == "succeeded"
    assert db.one("select count(*) from pgrab.run where definition ->> 'batch' = %s", str(b)) == 10001


def test_members_add_members_and_the_last_one_seals(db, nodes):
    nodes.start("n1", allow="sql,noop")
    b = batch(db)
    db.query("insert into pgrab.task (command, batch) values (%s, %s)",
             f"insert into pgrab.task (command, batch) select 'select ' || n, {b} from generate_series(1, 50) n; select pgrab.seal({b})", b)
    assert ended(db, b)[:2] == ("succeeded", "51 members, 51 succeeded")


def test_bounded_members_and_nodes_that_die(db, nodes):
    first = nodes.start("n1", workers=8, heartbeat="200ms", fence_after="1s", dead_after="4s", kill_grace="500ms")
    b = batch(db, args={"max_running": 2})
    db.query("insert into pgrab.task (kind, command, batch) select 'shell', 'sleep 0.2', %s from generate_series(1, 20)", b)
    db.query("select pgrab.seal(%s)", b)
    db.wait("select running = 2 from pgrab.batches where id = %s", b)
    first.kill9()
    nodes.start("n2", workers=8, heartbeat="200ms", fence_after="1s", dead_after="4s", kill_grace="500ms")
    assert ended(db, b)[0] == "succeeded"
    # never more than two at once
    assert db.one("""select max(n) from (select (select count(*) from pgrab.run y where y.kind = 'shell'
      and y.started_at <= x.started_at and y.finished_at > x.started_at) as n from pgrab.run x where x.kind = 'shell') z""") <= 2


def test_what_fails_is_retried_or_given_up(db, nodes):
    nodes.start("n1")
    b = batch(db, key="load")
    db.query("insert into pgrab.task (kind, command, batch, max_attempts) select 'shell', 'test ' || n || ' -lt 4', %s, 1 "
             "from generate_series(1, 5) n", b)
    run_pgrab("seal", "load", dsn=db.dsn)
    db.wait("select failed = 2 and succeeded = 3 from pgrab.batches where id = %s", b)
    shown = json.loads(run_pgrab("batches", "--json", dsn=db.dsn).stdout)
    assert [(r["name"], r["status"], r["percent"]) for r in shown] == [("load", "sealed", 100)]
    assert "Parked: 2." in run_pgrab("explain", "load", dsn=db.dsn).stdout
    db.query("update pgrab.task set command = 'exit 0' where batch = %s and status = 'parked' and id = "
             "(select min(id) from pgrab.task where batch = %s and status = 'parked')", b, b)
    run_pgrab("retry", "load", dsn=db.dsn)
    db.wait("select failed = 1 and succeeded = 4 from pgrab.batches where id = %s", b)
    run_pgrab("cancel", "load", dsn=db.dsn)
    assert ended(db, b)[0] == "cancelled"
    assert db.one("select count(*) from pgrab.task where batch = %s", b) == 0


@pytest.mark.parametrize("how", ["select pgrab.cancel(%s)", "delete from pgrab.task where id = %s"])
def test_a_transaction_that_does_not_see_new_members_gives_up_no_batch(db, how):
    batch = db.add(kind="batch")
    with db.connect(autocommit=False) as person:
        person.execute("set transaction isolation level repeatable read")
        person.execute("select 1 from pgrab.task")
        db.add(kind="noop", batch=batch)
        with pytest.raises(psycopg.Error, match="a batch cannot be given up in a repeatable read transaction"):
            person.execute(how, [batch])


def test_a_transaction_that_sees_no_cancel_adds_no_member(db):
    batch = db.add(kind="batch")
    with db.connect(autocommit=False) as person:
        person.execute("set transaction isolation level repeatable read")
        person.execute("select 1 from pgrab.task")
        db.query("select pgrab.cancel(%s)", batch)
        with pytest.raises(psycopg.errors.SerializationFailure):
            person.execute("insert into pgrab.task (kind, batch) values ('noop', %s)", [batch])
