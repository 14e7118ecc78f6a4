"""At most once, under whatever the server may lose."""
import pytest

from cluster import stays
from proxy import Proxy


@pytest.mark.private_server
@pytest.mark.deadline(90)
def test_a_start_is_on_disk_before_anything_is_executed(cluster, db, nodes, probe):
    """The role's own setting would let a crash forget it: the transaction that promises sets what it needs."""
    cluster.superuser("alter system set wal_writer_delay = '10s'")
    cluster.superuser("select pg_reload_conf()")
    db.query(f'alter database "{db.name}" set synchronous_commit = off')
    try:
        probe.close_gate()
        nodes.start("n1")
        task = db.add(**probe.shell("a", gate=True), delivery="at_most_once")
        probe.wait("start", "a")
        cluster.pg_stop("immediate")
        cluster.pg_start()
        # running; parked when the restart took so long that the node was fenced
        assert db.query("select attempt from pgrab.task where id = %s and status in ('running', 'parked')", task) == [(1,)], "not forgotten"
        probe.open_gate()
        assert db.wait_run(task, timeout=25).outcome in ("succeeded", "lost")
        assert len(probe.events("start")) == 1 and len(db.runs(task)) == 1
    finally:
        cluster.pg_start()
        cluster.superuser("alter system reset wal_writer_delay")
        cluster.superuser("select pg_reload_conf()")


@pytest.mark.parametrize("word", [b"set status = 'running'", b"commit\0"])
def test_a_start_that_was_not_acknowledged_is_never_executed(db, nodes, probe, word):
    """The connection is lost around the COMMIT of the start: what stands there now may be gone on another server."""
    proxy = Proxy(db.dsn)
    nodes.start("n1", dsn=proxy.dsn)
    proxy.until = word
    task = db.add(**probe.shell("a"), delivery="at_most_once")
    db.wait("select count(*) = 1 from pgrab.run where task_id = %s", task, timeout=20)
    assert proxy.until is None, "the answer was lost"
    starts = len(probe.events("start"))
    if word.startswith(b"commit"):
        assert starts == 0 and [r.outcome for r in db.runs(task)] == ["lost"]
        assert db.one("select status from pgrab.task where id = %s", task) == "parked"
    else:  # the transaction was not over, so nothing had happened
        assert starts == 1 and [r.outcome for r in db.runs(task)] == ["succeeded"]
    proxy.close()


@pytest.mark.private_server
def test_an_asynchronous_standby_refuses_them_unless_the_node_says_otherwise(cluster, db, nodes):
    cluster.superuser("select pg_create_physical_replication_slot('standby')")
    try:
        node = nodes.start("n1", poll="300ms")
        node.wait_log("event=durability .*asynchronous standby")
        task = db.add(kind="noop", delivery="at_most_once")
        assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"
        stays(lambda: not db.runs(task), 1)
        assert "at_most_once, and an asynchronous standby is attached" in db.one("select pgrab.why(%s)", task)
        other = nodes.start("n2", env={"PGRAB_AT_MOST_ONCE_ASYNC": "yes"})
        assert db.wait_run(task).node == other.name
        other.end()
        task = db.add(kind="noop", delivery="at_most_once")
        stays(lambda: not db.runs(task), 1)
    finally:
        cluster.superuser("select pg_drop_replication_slot('standby')")
    assert db.wait_run(task).outcome == "succeeded", "the node asks again by itself"
