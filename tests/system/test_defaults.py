"""What somebody has set for all sessions of a database, or of the server: pgrab works all the same."""
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from cluster import run_pgrab, stays


def set_for_all(db, **settings):
    for name, value in settings.items():
        db.cluster.superuser(f'alter database "{db.name}" set {name} = {value}')
    db.close()
    # The tests' own connection: psycopg reads no other dates, and what it inserts beside the node is not tried again.
    db.conn = db.connect(options="-c datestyle=ISO -c timezone=UTC -c lock_timeout=0 -c default_transaction_isolation=read\\ committed")


ODD = {
    "as of old": {"array_nulls": "off", "standard_conforming_strings": "off", "bytea_output": "escape", "extra_float_digits": "-15", "transform_null_equals": "on",
                  "quote_all_identifiers": "on", "datestyle": "'SQL, DMY'", "intervalstyle": "sql_standard", "timezone": "'Asia/Kathmandu'",
                  "default_transaction_isolation": "serializable"},
    "strict": {"datestyle": "German", "intervalstyle": "iso_8601", "search_path": "''", "row_security": "off", "client_min_messages": "error",
               "default_transaction_isolation": "'repeatable read'", "plan_cache_mode": "force_custom_plan", "enable_nestloop": "off", "enable_indexscan": "off", "parallel_setup_cost": "0", "parallel_tuple_cost": "0",
               "min_parallel_table_scan_size": "0", "statement_timeout": "'3s'", "lock_timeout": "'20ms'", "idle_in_transaction_session_timeout": "'50ms'"},
}


@pytest.mark.parametrize("name", ODD)
def test_everything_works_under_odd_defaults(db, nodes, name):
    db.query("create table eff (n int, t text)")
    set_for_all(db, **ODD[name])
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    db.query("""insert into pgrab.alert (name, events, template) values ('tell', '{parked}',
        '{"kind": "sql", "command": "insert into public.eff values (-1, $1::jsonb ->> ''text'')"}')""")
    node = nodes.start("n1", weight="2.75")
    good = [db.add(**columns) for columns in (
        {"command": "insert into public.eff values (1, $1)", "args": {"params": [None]}},
        {"command": "do $$ begin insert into public.eff values (2, 'x\\y'); end $$"},
        {"command": "vacuum public.eff", "args": {"transaction": False}},
        {"kind": "shell", "command": "echo 'a\\b'", "limit_key": "one"},
        {"kind": "noop"}, {"kind": "noop", "delivery": "at_most_once"}) for _ in range(3)]
    bad = db.add(command="select 1/0", max_attempts=2, backoff="100 ms", name="bad")
    with db.conn.transaction():  # or the root may have ended before its child comes
        root = db.add(kind="shell", command="echo 'fir\\st'")
        child = db.add(kind="shell", command='echo "$PGRAB_PARENT_OUTPUT"', parent_id=root)
    cron = db.add(kind="noop", schedule="*/1 * 0-23 * * mon-sun", timezone="Europe/Berlin", key="cron", jitter="5 ms", timeout="1 min 3.5 s")
    for task in good:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
        assert len(db.runs(task)) == 1
    db.wait_run(bad, 2)
    assert [r.outcome for r in db.runs(bad)] == ["failed", "failed"]
    assert db.wait_run(child).output.strip() == "fir\\st"
    db.wait_run(cron, 3)
    db.wait("select count(*) = 1 from public.eff where n = -1")
    assert db.one("select count(*) from public.eff where n = 1 and t is null") == 3
    for command in ("status", "tasks", "nodes", "runs", "show cron", "explain cron", "pause cron", "resume cron", "skip-next cron", "next '*/7 9 L * *'", f"show {bad}", f"show {root}", "forecast 1m", "migrate --check", "export"):
        run_pgrab(*shlex.split(command), dsn=db.dsn)
    with pytest.raises(psycopg.Error, match="on_closed"):
        db.add(kind="noop", schedule="@every 5s", on_closed="next")
    assert "event=fault" not in node.log()


def test_a_timeout_that_is_set_for_all_ends_nothing_of_a_node(db, nodes):
    """What it does may take longer, and its calls have deadlines of their own."""
    db.query("create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.6); return old; end $$")
    db.query("create trigger slow before delete on pgrab.task for each row when (old.name = 'slow') execute function public.slow()")
    set_for_all(db, statement_timeout="'300ms'")
    node = nodes.start("n1")
    assert db.wait_run(db.add(kind="noop", name="slow")).outcome == "succeeded"
    assert "canceling statement" not in node.log()


@pytest.mark.parametrize("by", ["its role", "the text"])
@pytest.mark.parametrize("setting", ["lock_timeout", "statement_timeout"])
def test_a_finished_run_waits_for_a_lock_whatever_is_set(db, nodes, setting, by):
    """The work is done; it is not thrown away because somebody has the row for longer than a statement may wait."""
    db.query("create table eff (n int)")
    db.query("""create function public.hold() returns trigger language plpgsql as $$
        begin perform pg_advisory_xact_lock(4711); return old; end $$""")
    db.query("create trigger hold before delete on pgrab.task for each row when (old.name = 'held') execute function public.hold()")
    if by == "its role":
        set_for_all(db, **{setting: "'500ms'"})
    before = f"set {setting} = '500ms'; " if by == "the text" else ""
    nodes.start("n1", fence_after="5s", dead_after="10s", heartbeat="1s")
    with db.connect(autocommit=False, options="-c statement_timeout=0") as person:
        person.execute("select pg_advisory_xact_lock(4711)")
        task = db.add(name="held", command=before + "insert into public.eff values (1)", max_attempts=2, backoff="0")
        db.wait("select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and application_name like 'pgrab sql%%'")
        stays(lambda: not db.runs(task), 1.5)
    assert db.wait_run(task).outcome == "succeeded"
    assert db.one("select count(*) from eff") == 1 and len(db.runs(task)) == 1


@pytest.fixture
def german(cluster):
    """The server knows German."""
    folder = Path(tempfile.mkdtemp(prefix="pgrab-locale."))
    folder.chmod(0o755)
    try:
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, check=False)
        if not (folder / "de_DE.UTF-8" / "LC_MESSAGES").exists():
            pytest.skip("localedef cannot make de_DE.UTF-8 (Debian's package locales)")
        cluster.pg_stop()
        cluster.pg_start(LOCPATH=folder)
        yield "'de_DE.UTF-8'"
        cluster.pg_stop()
        cluster.pg_start()
    finally:
        shutil.rmtree(folder)


@pytest.mark.private_server
def test_a_missing_partition_is_known_in_any_language(cluster, db, nodes, german):
    set_for_all(db, lc_messages=german)
    try:
        db.query("select 1/0")
    except psycopg.Error as e:
        if "Division durch Null" not in str(e):
            pytest.skip("this PostgreSQL has no messages in German")
    nodes.start("n1")
    db.wait("select count(*) > 1 from pg_inherits where inhparent = 'pgrab.run'::regclass")
    for columns in ({"kind": "noop"}, {"command": "select 1"}):
        for (name,) in db.query("select inhrelid::regclass::text from pg_inherits where inhparent = 'pgrab.run'::regclass"):
            db.query(f"drop table {name}")
        for task in [db.add(max_attempts=1, **columns) for _ in range(5)]:
            run = db.wait_run(task, timeout=20)
            assert (run.outcome, run.attempt) == ("succeeded", 1)
