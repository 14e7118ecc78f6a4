"""Logical replication of everything, as Debezium sets it up: nothing that pgrab changes is refused for it."""
from cluster import run_pgrab


def test_a_publication_for_all_tables_keeps_nothing_from_being_changed(db, nodes):
    """What has no key can be changed only with a replica identity: the days of the history, too."""
    nodes.start("n1")
    db.cluster.superuser("create publication everything for all tables", db.name)
    kept = db.add(kind="noop", keep="1 ms")
    with db.conn.transaction():
        root = db.add(kind="sql", command="select 1", key="root", schedule="@every 1s", max_runs=2)
        db.add(kind="noop", parent_id=root, key="child")
    db.wait("select count(*) = 2 from pgrab.run where key = 'child'", timeout=15)
    db.wait("select not exists (select from pgrab.task)")  # its last run is over, and its history says so
    with db.conn.transaction():
        parked = db.add(kind="sql", command="select 1/0", max_attempts=1, key="parked")
        db.add(kind="noop", parent_id=parked, key="skipped")
    assert db.wait_run(parked).outcome == "failed"
    db.wait("select count(*) = 1 from pgrab.run where outcome = 'skipped'")
    assert run_pgrab("retry", "parked", dsn=db.dsn).returncode == 0
    db.wait_run(parked, count=2)
    db.query("select pgrab.upkeep()")
    assert not db.runs(kept), "its history was kept for a moment"
