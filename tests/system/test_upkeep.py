"""Upkeep keeps nobody waiting."""
import threading

import pytest


def test_the_walk_of_chains_holds_nothing_that_finishes_wait_for(db):
    """A chain that somebody has locked makes upkeep wait; meanwhile the history is written, with a day to drop."""
    note = """insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
        values (1, 1, now() - %s::interval, now(), 1, 'succeeded', 'noop', 'app')"""
    db.query(note, "20 days")
    db.query("insert into pgrab.chain default values")
    with db.connect(autocommit=False) as other, db.connect() as keeper:
        other.execute("select from pgrab.chain for update")
        done = []
        thread = threading.Thread(target=lambda: done.append(keeper.execute("select count(*) from pgrab.upkeep()").fetchone()))
        thread.start()
        try:
            db.wait("select count(*) = 1 from pg_locks where not granted")
            db.query("set lock_timeout = '200ms'")
            db.query(note, "1 s")
            assert db.one("select count(*) from pgrab.run") == 2
        finally:
            other.rollback()
            thread.join(timeout=20)
    assert done and db.one("select count(*) from pgrab.run") == 1


def test_a_schedule_is_added_while_the_partition_of_today_is_made(db):
    """After days without a node.  An insert that waits for the default partition would be refused: its day has another one by then."""
    day = db.one("select pgrab_internal.today()")
    db.query(f"drop table pgrab.event_{day:%Y%m%d}")
    with db.connect(autocommit=False) as maker, db.connect() as user:
        maker.execute("select pgrab_internal.day_make('event', pgrab_internal.today())")
        done = []
        thread = threading.Thread(target=lambda: done.append(user.execute("insert into pgrab.task (kind, schedule) values ('noop', '@daily')").rowcount))
        thread.start()
        try:
            db.wait("select count(*) = 1 from pg_locks where not granted")
        finally:
            maker.commit()
            thread.join(timeout=20)
    assert done == [1] and db.one(f"select count(*) from pgrab.event_{day:%Y%m%d} where what = 'insert'") == 1


def test_a_second_upkeep_passes_by(db):
    """Its lock is a row of ours; an advisory lock of the same name means nothing."""
    with db.connect(autocommit=False) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended('pgrab.upkeep', 0))")
        assert db.query("select partition from pgrab.upkeep(p_days_ahead => 6)")
        other.execute("select from pgrab.duty where duty = 'upkeep' for update")
        assert not db.query("select partition from pgrab.upkeep(p_days_ahead => 7)")
    assert db.query("select partition from pgrab.upkeep(p_days_ahead => 7)")


@pytest.mark.parametrize("what", ["raise exception 'not this one'", "perform pg_sleep(30)"], ids=["fails", "is stuck"])
def test_the_days_ahead_are_made_beside_an_upkeep_that_never_ends_well(db, nodes, what):
    """They come first, in a transaction of their own: without them outcomes go to the rest, and the rest grows."""
    day = db.one("select 'pgrab.run_' || to_char(now() at time zone 'UTC' + interval '2 days', 'YYYYMMDD')")
    db.query(f"create function refuse() returns trigger language plpgsql as $$ begin {what}; return old; end $$")
    db.query("create trigger refuse before delete on pgrab.cancel_request for each row execute function refuse()")
    db.query("insert into pgrab.cancel_request (task_id, version, incarnation) values (1, 1, 99)")
    db.query(f"drop table {day}")
    nodes.start("n1", wait=False)
    db.wait(f"select to_regclass('{day}') is not null")
    assert db.wait_run(db.add(kind="noop"), timeout=20).outcome == "succeeded"
    assert db.one("select count(*) from pgrab.cancel_request") == 1
