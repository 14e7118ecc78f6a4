"""From 0.x, as docs/moving.md says, with a database of each of two commits of that time (dumps/COMMIT.sql.gz)."""
import gzip
import json
import os
import re
import subprocess

import pytest
from cluster import ROOT, Db, clean_env, run_pgrab
from make import DUMPS
from psycopg import conninfo

PAGE = (ROOT / "docs/moving.md").read_text(encoding="utf-8")


def block(name):
    return re.search(rf"^```{name}\n(.*?)^```$", PAGE, re.M | re.S)[1]


def psql(dsn, text):
    done = subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", dsn], input=text, capture_output=True, text=True, env=clean_env(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def db(cluster):
    """As the superuser, because functions of that time had settings that only he may name."""
    database = Db(cluster, cluster.create_database(template="template0"))
    yield database
    database.close()
    cluster.drop_database(database.name)


@pytest.mark.deadline(120)
@pytest.mark.parametrize("commit", ["0944a94", "47024df"])
def test_tasks_and_history_come_over(commit, db, nodes, tmp_path):
    role = os.environ.get("PGRAB_SUPERUSER", "postgres")
    dsn = conninfo.make_conninfo(db.dsn, user=role)
    psql(dsn, gzip.decompress((DUMPS / f"{commit}.sql.gz").read_bytes()).decode())
    db.conn = db.connect(user=role)
    before = db.one("select count(*) from pgrab.run")
    # What had failed for good is not to run again.
    content = json.loads(psql(dsn, block("old_export") if commit == "0944a94" else "select jsonb_pretty(pgrab.export())"))
    content["tasks"] = [t for t in content["tasks"] if t["key"] != "in vain"]
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps(content))
    # The program of today cannot use this schema, and leaves it as it is.
    assert run_pgrab("migrate", dsn=dsn, check=False).returncode == 1
    assert db.one("select count(*) from pgrab.run") == before
    for schema in db.query("select nspname from pg_namespace where nspname in ('pgrab', 'pgrab_internal', 'pgrab_tool', 'pgrab_sql')"):
        psql(dsn, re.sub(r"\bpgrab", schema.nspname, block("aside")))
    run_pgrab("migrate", dsn=dsn)
    psql(dsn, block("numbers"))
    run_pgrab("apply", tasks, dsn=dsn)
    psql(dsn, block("history"))
    check(db, before)
    # And it goes on.
    nodes.start("n1", dsn=dsn, retention="36500d", env={"PGRAB_ALLOW_SUPERUSER": "yes"})
    db.query("select pgrab.run_now('extract')")
    db.wait("select count(*) = 2 from pgrab.run where key = 'extract' and outcome = 'succeeded'", timeout=30)
    db.wait("select count(*) = 2 from pgrab.run where key = 'load' and outcome = 'succeeded'", timeout=30)


def check(db, runs):
    assert db.one("select count(*) from pgrab.run") == runs and db.one("select count(*) from pgrab.run_rest") == 0
    assert db.query("select coalesce(key, name), schedule, paused, priority, misfire, timezone from pgrab.task order by id") == [
        ("nightly", "0 3 * * *", False, 3, "skip", "Europe/Berlin"), ("resting", "* * * * *", True, 0, "once", "UTC"),
        ("later", None, False, 0, "once", "UTC"), ("extract", "30 2 * * *", False, 0, "once", "UTC"),
        ("load", None, False, 0, "once", "UTC"), ("alarm", None, False, 0, "once", "UTC"), ("task-15", None, False, 0, "once", "UTC")]
    assert db.query("select p.key as parent, c.key as child from pgrab.task c, pgrab_internal.parents_of(c.id) a join pgrab.task p on p.id = a.parent_id order by 2, 1") == [
        ("extract", "alarm"), ("load", "alarm"), ("extract", "load")]
    assert db.one("select max_running from pgrab.limit where key = 'api'") == 2
    assert db.one("select output from pgrab.run where name = 'said'").strip() == "said"
    # The history of a task that lives on is that of its new self, and no new task has another's.
    assert db.query("select r.key, r.outcome, r.chain_id < 0 from pgrab.run r join pgrab.task t on t.id = r.task_id order by 1") == [
        ("alarm", "skipped", True), ("extract", "succeeded", True), ("load", "succeeded", True)]
    assert db.one("select count(*) from pgrab.chain_runs") == 1
