"""The schema changes while nodes are at work; a database is dumped and restored elsewhere."""
import os
import re
import signal
import subprocess

import pytest
from cluster import ROOT, Db, clean_env, migrate_beside_nodes, pgrab_bin, run_pgrab, wait_until


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    """This program with another api: what the next version's `pgrab sql` does to the functions and views.

    Its one function more is how the tests know that it has been applied.
    """
    text = run_pgrab("sql", "--from", "1").stdout
    text = re.sub(r"insert into pgrab\.api \(hash, pgrab_version\) values \('[^']*', '[^']*'\);",
                  "insert into pgrab.api (hash, pgrab_version) values ('next', '999.0.0');\n"
                  "create function pgrab_internal.next_version() returns int language sql as 'select 1';", text)
    assert "999.0.0" in text
    path = tmp_path_factory.mktemp("newer") / "next.sql"
    path.write_text(text)
    return path


def psql(db, *args):
    return subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", *args, db.dsn], capture_output=True, text=True,
                          timeout=60, env=clean_env(), check=False)


def insert_while(db, changing, least=40):
    """Plans a task every now and then while changing() does its work; returns their ids."""
    ids = []
    while changing.poll() is None or len(ids) < least:
        ids.append(db.add(command="select pg_sleep(0.01)"))
    return ids


def all_succeeded_once(db, ids):
    wait_until(lambda: db.one("select count(*) from pgrab.run where task_id = any(%s)", ids) >= len(ids), 30, "every task's run")
    assert db.query("select outcome, attempt, count(*) from pgrab.run where task_id = any(%s) group by 1, 2", ids) == [
        ("succeeded", 1, len(ids))]


# Each migrate holds the nodes up for half a second or more: nothing beside the fourteen of a node as it is by default.
PATIENT = {"fence_after": "5s", "dead_after": "9s"}


def test_nodes_work_on_while_migrate_replaces_the_functions(db, nodes):
    one, two = (nodes.start(name, workers=4, **PATIENT) for name in ("n1", "n2"))
    before = (one.incarnation(), two.incarnation())
    again = 'for i in 1 2 3; do n=0; until "$0" migrate --force --dsn "$1"; do n=$((n + 1)); [ $n -lt 20 ]; done; done'  # see migrate_beside_nodes()
    changing = subprocess.Popen(["sh", "-ec", again, os.environ.get("PGRAB_BIN") or ROOT / "build/pgrab", db.dsn],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_env())
    ids = insert_while(db, changing)
    assert changing.wait(10) == 0, changing.stdout.read()
    all_succeeded_once(db, ids)
    assert (one.incarnation(), two.incarnation()) == before, "no node has begun anew"
    assert one.running() and two.running()


def test_a_migrator_that_stands_still_holds_up_no_node_for_long(db, nodes):
    node = nodes.start(fence_after="8s", dead_after="12s", heartbeat="500ms")
    before = node.incarnation()
    db.cluster.superuser("""create function public.slowly() returns event_trigger language plpgsql as $$
        begin if current_setting('application_name') = 'pgrab migrate' then perform pg_sleep(0.05); end if; end $$""", db.name)
    db.cluster.superuser("create event trigger slowly on ddl_command_start execute function public.slowly()", db.name)
    migrator = subprocess.Popen([pgrab_bin(), "migrate", "--force", "--dsn", db.dsn], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=clean_env())
    try:
        db.wait("""select count(*) > 0 from pg_stat_activity a join pg_locks l on l.pid = a.pid
                   where a.application_name = 'pgrab migrate' and l.mode = 'AccessExclusiveLock' and l.relation = 'pgrab.task'::regclass""")
        os.kill(migrator.pid, signal.SIGSTOP)
        assert db.wait_run(db.add(kind="noop"), timeout=8).outcome == "succeeded", "its locks are gone"
    finally:
        os.kill(migrator.pid, signal.SIGCONT)
        db.cluster.superuser("drop event trigger slowly", db.name)
    assert migrator.wait(60) != 0, migrator.stdout.read()
    assert node.incarnation() == before and "event=fenced" not in node.log()


def test_a_migrate_that_waits_for_a_reader_lets_others_through(db, nodes):
    nodes.start(fence_after="20s", dead_after="30s")  # it may take ten seconds then
    with db.connect(autocommit=False) as reader:
        reader.execute("lock table pgrab.task in access share mode")
        migrator = subprocess.Popen([pgrab_bin(), "migrate", "--force", "--dsn", db.dsn], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, env=clean_env())
        db.wait("select count(*) > 0 from pg_locks where relation = 'pgrab.task'::regclass and mode = 'AccessExclusiveLock' and not granted")
        ids = [db.add(kind="noop") for _ in range(5)]
        wait_until(lambda: db.one("select count(*) from pgrab.run where task_id = any(%s)", ids) == 5, 5, "the runs beside a migrate that waits")
        assert migrator.poll() is None
        reader.rollback()
    assert migrator.wait(60) == 0, migrator.stdout.read()


def test_rights_that_were_granted_outlive_a_migrate(db):
    role = f"{db.name}_Board"
    db.cluster.superuser(f"""create role "{role}"; grant usage on schema pgrab to "{role}";
                     grant select on pgrab.history, pgrab.task to "{role}" with grant option;
                     grant select (name) on pgrab.running, pgrab.failing to "{role}";
                     grant execute on function pgrab.definition_of(bigint, bigint) to "{role}" """, db.name)
    try:
        assert run_pgrab("migrate", "--force", "--dsn", db.dsn).returncode == 0
        assert db.query("""select has_table_privilege(%s, 'pgrab.history', 'select with grant option') and has_column_privilege(%s, 'pgrab.failing', 'name', 'select')
                           and has_function_privilege(%s, 'pgrab.definition_of(bigint, bigint)', 'execute'), has_table_privilege(%s, 'pgrab.nodes', 'select')""",
                        *[f'{role}'] * 4) == [(True, False)]
    finally:
        db.cluster.superuser(f'drop owned by "{role}"; drop role "{role}"', db.name)


def test_what_a_run_took_is_recorded_after_a_migrate(db, nodes):
    """The session of the finisher has prepared its statement, as it does in the end: the types that it names are others then."""
    nodes.start("n1", allow="shell", **PATIENT)
    for i in range(10):
        if i == 9:
            migrate_beside_nodes("--force", dsn=db.dsn)
        assert db.wait_run(db.add(kind="shell", command="echo"), timeout=15).outcome == "succeeded"
    assert db.one("select count(*) from pgrab.run where memory_bytes > 0") == 10


def test_a_node_goes_on_under_the_functions_of_a_newer_program(db, nodes, newer):
    node = nodes.start("n1", **PATIENT)
    changing = subprocess.Popen(["psql", "-qX1", "-v", "ON_ERROR_STOP=1", "-f", newer, db.dsn], env=clean_env(), stderr=subprocess.PIPE, text=True)
    ids = insert_while(db, changing)
    assert changing.wait(10) == 0, changing.stderr.read()
    assert db.one("select pgrab_internal.next_version()") == 1
    all_succeeded_once(db, ids)
    node.end()
    # One that starts now starts, and migrate of the older program leaves what is newer alone.
    nodes.start("n2")
    all_succeeded_once(db, [db.add(command="select 1")])
    assert "newer than this program, which may use it" in run_pgrab("migrate", "--check", dsn=db.dsn).stdout
    run_pgrab("migrate", dsn=db.dsn)
    assert db.one("select pgrab_version from pgrab.api") == "999.0.0"


def test_nodes_work_on_under_a_table_with_a_column_more(db, nodes):
    """Whoever applies the printed SQL statement by statement leaves it so between a migration and the api that follows."""
    node = nodes.start("n1", **PATIENT)
    all_succeeded_once(db, [db.add(command="select 1") for _ in range(5)])
    with db.connect(autocommit=False) as migrate:
        migrate.execute("alter table pgrab.task add column later bigint not null default 0")
        migrate.execute((ROOT / "migrations/api/04_rows.sql").read_text(encoding="utf-8").replace("%", "%%"), ())
    all_succeeded_once(db, [db.add(command="select 1", schedule=None) for _ in range(5)])
    key = db.add(key="again", command="select 1", schedule="@every 1s")
    db.wait("select fires > 1 from pgrab.task where id = %s", key)
    db.query("update pgrab.task set priority = 3 where id = %s", key)
    assert node.incarnation() and "event=db_call" not in node.log()


def test_a_newer_program_waits_for_the_schema(db, nodes):
    db.query("update pgrab.api set hash = 'of an older one', pgrab_version = '0.0.1'")
    node = nodes.start("n1", wait=False)
    assert node.wait_exit(20) == 1
    assert "pgrab migrate" in node.log()
    done = run_pgrab("migrate", "--check", dsn=db.dsn, check=False)
    assert (done.returncode, done.stderr) == (1, "") and "older than this program, or its tables have other columns; run: pgrab migrate" in done.stdout
    run_pgrab("migrate", dsn=db.dsn)
    assert run_pgrab("migrate", "--check", dsn=db.dsn).stdout.endswith("is up to date.\n")
    nodes.start("n2")
    all_succeeded_once(db, [db.add(command="select 1")])


def test_check_tells_of_a_schema_that_is_not_there_or_too_new(db, cluster):
    db.query("update pgrab.migration set version = 9999, breaking = true where version = (select max(version) from pgrab.migration)")
    done = run_pgrab("migrate", "--check", dsn=db.dsn, check=False)
    assert done.returncode == 1 and "upgrade the program" in done.stdout
    empty = Db(cluster, cluster.create_database(template="template0"))
    try:
        done = run_pgrab("migrate", "--check", dsn=empty.dsn, check=False)
        assert done.returncode == 1 and "not installed" in done.stdout
        assert empty.one("select count(*) from pg_namespace where nspname = 'pgrab'") == 0
    finally:
        empty.close()
        cluster.drop_database(empty.name)


def test_a_dump_goes_on_in_another_database(db, nodes, cluster, tmp_path):
    """Tasks, history, chains, limits, alerts: all of it comes back, runs nowhere until it is adopted, and then runs on."""
    nodes.start("n1")
    done = db.add(name="done", command="select 42")
    db.wait_run(done)
    db.add(key="nightly", command="select 1", schedule="@every 1s", expect_within="1 day")
    parent = db.add(name="parent", command="select 1", run_at="2100-01-01")
    db.add(name="child", command="select 2", parent_id=parent)
    db.query("insert into pgrab.limit (key, max_running) values ('api', 1)")
    db.query("insert into pgrab.alert (name, template) values ('chat', '{\"kind\": \"notify\", \"command\": \"failures\"}')")
    db.wait("select fires >= 1 from pgrab.task where key = 'nightly'")
    nodes.all[0].end()
    dump = tmp_path / "dump.sql"
    out = subprocess.run(["pg_dump", "--no-owner", "-f", dump, db.dsn], capture_output=True, text=True, env=clean_env(), check=False)
    if "server version mismatch" in out.stderr:
        pytest.skip("pg_dump is older than the server")
    assert out.returncode == 0, out.stderr
    copy = Db(cluster, cluster.create_database(template="template0"))
    try:
        restored = psql(copy, "-f", dump)
        assert restored.returncode == 0, restored.stderr
        assert run_pgrab("migrate", "--check", dsn=copy.dsn).returncode == 0
        same = "select count(*), md5(string_agg(t::text, '|' order by t.id)) from pgrab.task t"
        assert copy.query(same) == db.query(same)
        assert copy.one("select output from pgrab.run where task_id = %s", done) == db.one("select output from pgrab.run where task_id = %s", done)
        node = nodes.start("n2", dsn=copy.dsn, wait=False)
        node.wait_log("adopt", 20)
        fires = copy.one("select fires from pgrab.task where key = 'nightly'")
        assert copy.one("select count(*) from pgrab.task where status <> 'waiting' and incarnation is not null") == 0
        run_pgrab("adopt", dsn=copy.dsn)
        copy.wait("select fires > %s from pgrab.task where key = 'nightly'", fires, timeout=20)
        copy.query("select pgrab.run_now(%s)", parent)
        copy.wait("select count(*) = 2 from pgrab.run where name in ('parent', 'child') and outcome = 'succeeded'", timeout=20)
        node.end()
    finally:
        copy.close()
        cluster.drop_database(copy.name)
