"""A DBA adds a column to pgrab.task, and drops it again: pgrab migrate follows, and until then each error says so."""
import psycopg
import pytest
from cluster import run_pgrab


def test_a_column_of_ones_own(db, nodes):
    old = db.add(kind="noop", schedule="@every 1 hour", key="old")
    for change in ("add column mine text", "drop column mine cascade"):
        db.query(f"alter table pgrab.task {change}")
        assert "run: pgrab migrate" in run_pgrab("migrate", "--check", dsn=db.dsn, check=False).stdout
        with pytest.raises(psycopg.Error):
            db.add(kind="noop")
        for command in (("add", "--kind", "noop"), ("doctor",), ("pause", "old")):
            assert "run: pgrab migrate" in run_pgrab(*command, dsn=db.dsn, check=False).stderr
        run_pgrab("migrate", dsn=db.dsn)
        assert "up to date" in run_pgrab("migrate", "--check", dsn=db.dsn).stdout
        node = nodes.start("n1")
        assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"
        runs = db.one("select runs from pgrab.task where id = %s", old)
        run_pgrab("run-now", "old", dsn=db.dsn)
        db.wait("select runs > %s from pgrab.task where id = %s", runs, old)
        for command in ("doctor", "show old", "explain old", "tasks", "runs"):
            run_pgrab(*command.split(), dsn=db.dsn)
        node.end()
