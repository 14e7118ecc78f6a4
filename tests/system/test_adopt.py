"""A copy of a database fires nothing beside the original until somebody says so."""
import json

from cluster import Db, Nodes, run_pgrab, stays


def copy_of(cluster, db, nodes):
    """As a dump that was restored elsewhere: another database with the same rows."""
    for node in nodes.all:
        node.end()
    db.close()
    nodes.hang_up()
    return Db(cluster, cluster.create_database(template=db.name))


def test_a_copy_waits_until_it_is_adopted(cluster, db, nodes, tmp_path):
    nodes.start("a")
    db.wait_run(db.add(kind="noop"))
    db.add(kind="noop", key="tick", schedule="@every 1s")
    copy = copy_of(cluster, db, nodes)
    others = Nodes(copy, tmp_path)
    try:
        others.start("b").wait_log("event=copy .*pgrab adopt")
        stays(lambda: not copy.query("select from pgrab.run where started_at > (select paused_at from pgrab.cluster)"), 2)
        gates = {r["gate"]: r for r in json.loads(run_pgrab("explain", "tick", "--json", dsn=copy.dsn).stdout)}
        assert "copy" in gates["all paused"]["detail"]
        paused = {c["name"]: c["detail"] for c in json.loads(run_pgrab("doctor", "--json", dsn=copy.dsn).stdout)}["paused"]
        assert "pgrab adopt starts them here: only if the original is gone for good" in paused and "Never pgrab resume --all" in paused
        assert "resume" not in run_pgrab("status", dsn=copy.dsn, check=False).stdout
        assert "run here from now on" in run_pgrab("adopt", dsn=copy.dsn).stdout
        copy.wait("select exists (select from pgrab.run where started_at > now() - interval '1 minute' and key = 'tick' and node = 'b')")
        assert "nothing to do" in run_pgrab("adopt", dsn=copy.dsn).stdout
    finally:
        for node in others.all:
            node.end()
        copy.close()


def test_rows_restored_into_tables_made_here_are_a_copy_too(cluster, db, nodes, tmp_path):
    """As pg_restore --data-only: the row of pgrab.cluster is there already, and knows no place."""
    nodes.start("a")
    db.add(kind="noop", key="tick", schedule="@every 1s")
    copy = copy_of(cluster, db, nodes)
    others = Nodes(copy, tmp_path)
    try:
        copy.query("update pgrab.cluster set system_id = null, database = null")
        copy.query("update pgrab.beat set beat = beat + 1000")
        others.start("b").wait_log("event=copy .*pgrab adopt")
        assert copy.one("select paused from pgrab.cluster")
    finally:
        for node in others.all:
            node.end()
        copy.close()


def test_the_original_goes_on(db, nodes):
    for name in ("a", "b"):
        nodes.start(name)
        db.wait_run(db.add(kind="noop"))
    assert all("event=copy" not in node.log() for node in nodes.all)
