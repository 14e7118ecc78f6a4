"""Several pgrabs in one database, each in a schema of its own: none touches what is another's."""
import json
import os
import signal

import psycopg
import pytest
from cluster import Nodes, in_schema, run_pgrab, stays
from serving import Serve


@pytest.fixture
def pair(tenants, tmp_path):
    """Two pgrabs with a node each: [(db, nodes), ...].  An underscore is any letter to LIKE; the second begins as the first."""
    made = []
    for schema in ("a_b", "axb"):
        db = tenants(schema)
        made.append((db, Nodes(db, tmp_path)))
    yield made
    for _, nodes in made:
        nodes.end()


def test_each_runs_its_own_tasks_chains_limits_and_alerts(pair):
    for db, nodes in pair:
        nodes.start(f"node-of-{db.schema}")
        db.query("create table if not exists told (schema text, what text)")
        db.query("insert into pgrab.limit (key, max_running) values ('k', 1)")
        db.query("insert into pgrab.alert (name, events, template) values ('tell', '{parked}', "
                 "'{\"kind\": \"sql\", \"command\": \"insert into told select current_setting(''application_name''), $1::jsonb ->> ''text''\"}')")
    for db, _ in pair:
        plain = db.add(kind="sql", command="select current_setting('application_name')", limit_key="k", key="same")
        with db.conn.transaction():
            root = db.add(kind="shell", command="echo first")
            child = db.add(kind="shell", command='echo "after $PGRAB_PARENT_OUTPUT"', parent_id=root)
        failing = db.add(kind="sql", command="select 1/0", max_attempts=1, key="fails")
        run = db.wait_run(plain)
        assert run.outcome == "succeeded" and run.node == f"node-of-{db.schema}"
        assert run.output.startswith(f"{db.schema} sql ")
        assert db.wait_run(child).output.strip() == "after first"
        assert db.wait_run(failing).outcome == "failed"
        db.wait("select count(*) = 1 from told where what like 'fails is parked%%' and starts_with(schema, %s)", f"{db.schema} sql ")
        assert "division by zero" in db.one("select why from pgrab.why(%s) why", failing)
    for db, _ in pair:
        assert db.one("select array_agg(distinct node) from pgrab.run where node is not null") == [f"node-of-{db.schema}"]
        assert db.one("select count(*) from pgrab.task where status = 'parked'") == 1


def test_each_hears_its_own_bell_only(pair):
    for db, nodes in pair:
        nodes.start("n1", poll="1h", lookahead="0s")
    (one, _), (other, _) = pair
    for db, _ in pair:
        db.wait("select bell and not busy from pgrab.node")
    with other.listen(other.schema) as deaf, one.listen(one.schema) as ear:
        task = one.add(kind="noop")
        ear.wait(5)
        assert one.wait_run(task, timeout=5).outcome == "succeeded", "rung: its poll is an hour"
        with pytest.raises(AssertionError, match="no notification"):
            deaf.wait(1)


def test_a_killed_node_is_recovered_by_its_own_and_no_backend_of_the_other_is_ended(pair):
    (one, nodes), (other, others) = pair
    lost = nodes.start("n1")
    others.start("n1")
    quiet = other.add(kind="sql", command="select pg_sleep(600), 'the other'", max_attempts=1)
    task = one.add(kind="sql", command="select pg_sleep(600)", max_attempts=2)
    for db, id in ((one, task), (other, quiet)):
        db.wait("select status = 'running' from pgrab.task where id = %s", id)
    working = "select pid from pg_stat_activity where starts_with(application_name, 'axb sql ') and state = 'active'"
    other.wait(working)
    backend = other.one(working)
    nodes.start("n2")
    lost.proc.send_signal(signal.SIGKILL)
    one.wait("select node_id = (select id from pgrab.node where name = 'n2') and status = 'running' from pgrab.task where id = %s", task, timeout=15)
    assert one.runs(task)[0].outcome == "lost"
    # Whoever looks for orphans has done so by now, and once more.
    run_pgrab("cancel", task, "--schema", one.schema, dsn=one.dsn)
    one.wait_run(task, count=2)
    stays(lambda: other.one("select status = 'running' and attempt = 1 from pgrab.task where id = %s", quiet), 2, "the run of the other")
    assert other.one(working) == backend
    run_pgrab("cancel", quiet, "--schema", other.schema, dsn=other.dsn)


def test_commands_serve_and_another_migrate_keep_to_their_schema(pair, tmp_path):
    (one, nodes), (other, _) = pair
    one.add(kind="noop", name="of one", run_at="2100-01-01")
    listed = json.loads(run_pgrab("tasks", "--json", "--schema", "a_b", dsn=one.dsn).stdout)
    assert [t["name"] for t in listed] == ["of one"]
    assert json.loads(run_pgrab("tasks", "--json", dsn=one.dsn, env={"PGRAB_SCHEMA": "axb"}).stdout) == []
    run_pgrab("add", "--kind", "noop", "--schema", "axb", "--name", "added", "--paused", dsn=one.dsn)
    assert other.one("select name from pgrab.task") == "added"
    serve = Serve(one, tmp_path, schema="a_b")
    try:
        assert "of one" in serve.get("/api/v1/tasks").text and "added" not in serve.get("/api/v1/tasks").text
        assert "pgrab_" in serve.get("/metrics").text
    finally:
        serve.end()
    other.query("comment on function pgrab.why(bigint) is 'mine'")
    run_pgrab("migrate", "--force", "--schema", "a_b", dsn=one.dsn)
    assert other.one("select obj_description('pgrab.why(bigint)'::regprocedure)") == "mine", "the other's functions are as they were"
    assert one.query("select name from pgrab.task") == [("of one",)]
    printed = run_pgrab("sql", "--schema", "third").stdout
    one.query(printed)
    third = run_pgrab("migrate", "--check", "--schema", "third", dsn=one.dsn)
    assert "The schema third in database" in third.stdout


@pytest.fixture
def names(cluster):
    """Of two schemas whose roles, which are the whole server's, are dropped when their database has gone."""
    pair = [f"t{os.getpid()}{letter}" for letter in "xy"]
    yield pair
    for schema in pair:
        for word in ("who", "owner", "node", "submit", "operator", "serve", "read", *(f"kind_{k}" for k in ("sql", "noop", "notify", "shell", "exec", "http"))):
            cluster.superuser(f"drop role if exists {schema}_{word}")


def test_a_right_to_one_is_none_to_another(cluster, names, tenants):
    one, other = (tenants(name) for name in names)
    for db in (one, other):
        run_pgrab("migrate", "--roles", "--schema", db.schema, dsn=db.dsn)
        cluster.admin(f"create role {db.schema}_who login in role {db.schema}_submit")
    for mine, foreign in ((one, other), (other, one)):
        task = mine.add_as(f"{mine.schema}_who", kind="noop", run_at="2100-01-01")
        with mine.connect(user=f"{mine.schema}_who") as conn:
            assert conn.execute("select id, owner from pgrab.task").fetchall() == [(task, f"{mine.schema}_who")]
            assert conn.execute("select status from pgrab.pause(%s)", [task]).fetchone() == ("scheduled",)
            for refused in ("select id from pgrab.task", "insert into pgrab.task (kind) values ('noop')", "select * from pgrab.pause(1)"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(in_schema(refused, foreign.schema))


def test_nothing_in_another_schema_names_pgrab(tenants):
    """Where there is no schema pgrab, whatever still named it would fail when it is first used."""
    db = tenants("acme")
    named = r"\mp[g]rab\.|\mp[g]rab_(internal|tool|sql|node|submit|operator|read|serve|kind)|''p[g]rab''"  # not to be rewritten itself
    assert db.query("select p.oid::regprocedure::text from pg_catalog.pg_proc p "
                    f"where p.pronamespace::regnamespace::text like 'acme%' and p.prosrc ~ '{named}'") == []
    assert db.query(f"select c.oid::regclass::text from pg_catalog.pg_class c where c.relkind = 'v' and c.relnamespace::regnamespace::text like 'acme%' "
                    f"and pg_get_viewdef(c.oid) ~ '{named}'") == []
    assert db.query("select nspname from pg_catalog.pg_namespace where nspname ~ '^pgrab'") == []


def test_a_node_finds_its_schema_in_the_file_and_the_environment(tenants, tmp_path, cluster):
    db = tenants("acme")
    nodes = Nodes(db, tmp_path)
    file = tmp_path / "node.conf"
    file.write_text("schema = acme\n")
    db.schema = "pgrab"  # no flag
    from_file = nodes.start("from-file", wait=False, config=file)
    from_env = nodes.start("from-env", wait=False, env={"PGRAB_SCHEMA": "acme"})
    db.schema = "acme"
    db.close()
    from_file.wait_up()
    from_env.wait_up()
    nodes.end()


@pytest.mark.parametrize("name", ["Acme", "a-b", "", "1st", "a" * 31, "pg_mine", "public", "acme_internal", "acme_sql", "select", "\"a\""])
def test_a_bad_name_is_one_clear_error(cluster, name):
    for command in (["tasks"], ["migrate"], ["run", "--name", "n1"], ["serve"]):
        done = run_pgrab(*command, f"--schema={name}", dsn=cluster.dsn, check=False)
        assert done.returncode == 2, done.stderr
        assert f'schema "{name}": ' in done.stderr and len(done.stderr.strip().splitlines()) <= 2, done.stderr


def test_words_of_sql_are_bad_names(tenants):
    """Those that this server knows; others have some more."""
    db = tenants("acme")
    words = [w for (w,) in db.query("select word from pg_get_keywords() where catcode <> 'U' and word ~ '^[a-z][a-z0-9_]*$' and length(word) <= 30")]
    assert len(words) > 130
    for word in words:
        assert run_pgrab("tasks", f"--schema={word}", dsn=db.dsn, check=False).returncode == 2, word
