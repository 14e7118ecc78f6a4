"""Upkeep keeps nobody waiting."""
import threading


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


def test_a_second_upkeep_passes_by(db):
    """Its lock is a row of ours; an advisory lock of the same name means nothing."""
    with db.connect(autocommit=False) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended('pgrab.upkeep', 0))")
        assert db.query("select partition from pgrab.upkeep(p_days_ahead => 6)")
        other.execute("select from pgrab.duty where duty = 'upkeep' for update")
        assert not db.query("select partition from pgrab.upkeep(p_days_ahead => 7)")
    assert db.query("select partition from pgrab.upkeep(p_days_ahead => 7)")
