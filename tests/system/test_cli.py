"""The command line: what each command prints, with and without --json, and with which exit status it ends."""
import json
import os
import pty
import re
import subprocess
from datetime import timedelta, timezone

import psycopg
import pytest
from cluster import ROOT, Db, clean_env, pgrab_bin, run_pgrab, wait_until

COMMANDS = ["migrate", "sql", "run", "status", "nodes", "tasks", "runs", "diff", "show", "explain", "chains", "next", "forecast", "doctor", "strategy", "executor", "add", "edit",
            "apply", "export", "import", "wait", "limit", "pause", "resume",
            "cancel", "retry", "run-now", "skip-next", "delete", "undelete", "drain", "undrain", "help", "version"]
ROOT_MIGRATIONS = ROOT / "migrations"
LISTS = {"nodes": "No node has ever run here", "tasks": "No such tasks", "runs": "No such runs"}


def pgrab(db, *args, **options):
    return run_pgrab(*args, dsn=db.dsn, **options).stdout


def as_json(db, *args):
    return json.loads(pgrab(db, *args, "--json"))


def fails(status, *args, **options):
    """What it says on stderr; nothing may stand on stdout."""
    done = run_pgrab(*args, check=False, **options)
    assert (done.returncode, done.stdout) == (status, ""), done
    return done.stderr


def on_terminal(*args, columns=60, env=None):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([pgrab_bin(), *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs,
                          env=clean_env(COLUMNS=columns, TERM="xterm", **(env or {}))) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # EIO: the other side is closed
                break
            if not chunk:
                break
            text += chunk
        os.close(ours)
        assert process.wait(10) == 0
    return text.decode().replace("\r\n", "\n")


@pytest.fixture
def empty_db(cluster):
    database = Db(cluster, cluster.create_database(template="template0"))
    yield database
    database.close()
    cluster.drop_database(database.name)


# ------------------------------------------------------------------------------------------------ help and wrong use

def test_help_names_every_command_and_every_command_has_help():
    text = run_pgrab("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", text, re.M)
        assert f"Usage: pgrab {command}" in run_pgrab("help", command).stdout
        if command not in ("help", "version"):
            assert run_pgrab(command, "--help").stdout == run_pgrab("help", command).stdout
    assert run_pgrab("-h").stdout == run_pgrab("help").stdout == text
    assert max(map(len, text.splitlines())) <= 110


def test_version():
    assert re.fullmatch(r"pgrab \d+\.\d+\.\d+(-dev\d+\.g[0-9a-f]+)?\n", run_pgrab("version").stdout)
    assert run_pgrab("--version").stdout == run_pgrab("version").stdout


def test_without_a_command_the_help_is_an_error():
    assert "Usage: pgrab COMMAND" in fails(2)


@pytest.mark.parametrize("args, said", [
    (["taks"], 'unknown command "taks"; did you mean tasks?'),
    (["kill", "17"], 'unknown command "kill"; did you mean cancel?'),
    (["rm", "17"], 'unknown command "rm"; did you mean delete?'),
    (["frobnicate"], 'unknown command "frobnicate"\n'),
    (["help", "nods"], "did you mean nodes?"),
    (["tasks", "--stauts", "done"], "unknown option --stauts; did you mean --status?"),
    (["tasks", "--status", "finished"], "status cannot be \"finished\""),
    (["tasks", "--limit", "0"], "limit cannot be \"0\""),
    (["tasks", "--limit"], "--limit needs a value"),
    (["runs", "--outcome", "good"], "outcome cannot be \"good\""),
    (["nodes", "n1", "n2"], 'too many arguments at "n2"'),
    (["show"], "something is missing: pgrab show TASK"),
    (["show", "1", "2"], "too many arguments"),
    (["add", "--arg", "x", "select 1"], "write --arg name=text or --arg name:=json"),
    (["add", "--arg", "=x", "select 1"], "write --arg name=text"),
    (["add", "--arg", "a=1", "--arg", "a=2", "x"], "--arg a was given twice"),
    (["add", "--arg", "params:=[1,", "x"], '"[1," is not JSON'),
    (["add", "--in", "soon", "x"], '--in cannot be "soon"; it must be a time such as'),
    (["add", "--in", "5s", "--run-at", "now", "x"], "give either --run-at or --in"),
    (["add", "select", "1"], "too many arguments"),
    (["run", "--workers", "none"], "workers cannot be \"none\""),
    (["run", "--dead-after", "1s"], "must not be more than dead_after"),
    (["migrate", "--from", "x"], "unknown option --from"),
    (["next"], "something is missing: pgrab next 'EXPR'"),
    (["next", "0", "9", "*", "*", "1"], 'too many arguments at "9"'),
    (["next", "@daily", "--count", "0"], 'count cannot be "0"'),
    (["forecast", "soon"], 'the horizon cannot be "soon"; it must be a time such as'),
    (["forecast", "0"], 'the horizon cannot be "0"'),
    (["drain"], "something is missing: pgrab drain NODE"),
    (["nodes", "--check", "--all"], "--check asks one database"),
    (["limit", "api", "--delete", "--max-running", "5"], "--delete goes alone"),
    (["calendar", "work", "--delete", "--close", "2026-12-24"], "--delete goes alone"),
    (["blackout", "--task-like", "etl-%"], "these options go with add"),
    (["sql", "--roles", "--from", "3"], "not with --from"),
    (["chains", "nightly", "--run", "5"], "leave out TASK"),
    (["migrate", "--roles", "--dry-run"], "not with --roles or --force"),
    (["apply", "/dev/null", "--prune"], "--source and --prune are for JSON files"),
])
def test_wrong_use_is_2_and_says_what_would_be_right(args, said):
    text = fails(2, *args)
    assert said in text and re.search(r"^Try: pgrab .*--help$", text, re.M)


# -------------------------------------------------------------------------------------------------------- no database

def test_a_server_that_is_not_there(tmp_path):
    text = fails(1, "nodes", "--dsn", f"host={tmp_path} dbname=x")
    assert text.startswith("pgrab nodes: could not connect: ") and str(tmp_path) in text and "PGRAB_DSN" not in text
    assert text.count("\n") == 1
    assert "name the database with --dsn, PGRAB_DSN" in fails(1, "nodes", env={"PGHOST": str(tmp_path)})  # nobody has named it


def test_a_database_that_is_not_there(cluster):
    text = fails(1, "status", dsn=cluster.dsn_of("no_such_database"))
    assert 'database "no_such_database" does not exist' in text


def test_a_connection_string_that_is_none():
    assert "pgrab nodes: could not connect:" in fails(1, "nodes", "--dsn", "no=such option")


def test_the_dsn_may_come_from_the_environment(db):
    assert run_pgrab("nodes", "--json", env={"PGRAB_DSN": db.dsn}).stdout == "[]\n"
    parts = psycopg.conninfo.conninfo_to_dict(db.dsn)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE", "password": "PGPASSWORD"}
    assert run_pgrab("nodes", "--json", env={names[k]: v for k, v in parts.items() if k in names}).stdout == "[]\n"


def test_a_nodes_environment_filters_nothing(db):
    db.add(kind="noop", name="a")
    assert len(json.loads(run_pgrab("tasks", "--json", dsn=db.dsn, env={"PGRAB_NAME": "n1", "PGRAB_KIND": "x"}).stdout)) == 1


@pytest.mark.parametrize("args", [["nodes"], ["tasks"], ["runs"], ["status"], ["show", "1"], ["add", "select 1"],
                                  ["nodes", "--json"], ["status", "--json"], ["show", "1", "--json"]])
def test_without_the_schema_it_says_how_to_get_it(empty_db, args):
    dsn = psycopg.conninfo.make_conninfo(empty_db.dsn, password="s3cret", application_name="it's")
    text = fails(1, *args, dsn=dsn)
    assert f"pgrab {args[0]}: the schema pgrab is not installed in database {empty_db.name}; run: pgrab migrate --dsn '" in text
    assert "s3cret" not in text
    # what it says can be pasted
    command = text.partition("run: ")[2].strip().replace("pgrab", pgrab_bin(), 1)
    subprocess.run(["sh", "-c", command], check=True, env=clean_env(PGPASSWORD="s3cret"), capture_output=True)
    assert empty_db.one("select count(*) from pgrab.migration") >= 1


def test_a_role_without_rights_is_told_so(db):
    db.query("drop role if exists pgrab_test_nobody")
    db.query("create role pgrab_test_nobody login password 'x'")
    try:
        dsn = psycopg.conninfo.make_conninfo(db.dsn, user="pgrab_test_nobody", password="x")
        text = fails(1, "tasks", dsn=dsn)
        assert "permission denied for schema pgrab" in text and "owner of the schema" in text
        text = fails(1, "migrate", dsn=dsn)
        assert "It takes the owner of the schema pgrab" in text and "pgrab_owner" in text and "submit" not in text
    finally:
        db.query("drop role pgrab_test_nobody")


def test_each_list_of_the_columns_of_a_task_has_them_all(db):
    written = set(db.one("select pgrab_internal.written()"))
    assert written <= set(db.one("select array_agg(attname::text) from pg_attribute where attrelid = 'pgrab.task'::regclass and attnum > 0"))
    in_file = set(db.one("select array_agg(k) from jsonb_object_keys(pgrab_internal.apply_defaults()) k"))
    assert in_file == written - {"key", "run_at", "paused", "source", "parent_id", "batch", "traceparent"}
    # one of each, with a value that is not the default
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    db.query("insert into pgrab.calendar (name) values ('office')")
    parent = db.one("insert into pgrab.task (kind, paused) values ('noop', true) returning id")
    values = {"name": "'a'", "key": "'a'", "kind": "'shell'", "command": "'true'", "args": "'{\"cwd\": \"/\"}'", "timezone": "'Europe/Berlin'", "misfire": "'all'",
              "misfire_after": "'2 min'", "misfire_limit": "7", "starts_at": "now()", "ends_at": "now() + interval '30 days'", "max_runs": "7", "jitter": "'1 s'",
              "priority": "7", "timeout": "'7 s'", "max_attempts": "7", "backoff": "'7 s'", "backoff_max": "'8 s'", "delivery": "'at_most_once'", "run_if": "'always'",
              "require": "'{\"zone\": \"eu\"}'", "limit_key": "'one'", "source": "'mine'", "on_failure": "'{\"kind\": \"noop\"}'", "expect_within": "'1 day'",
              "slow_after": "'7 s'", "prefer": "'{\"zone\": \"eu\"}'", "failover_after": "'7 s'", "share_key": "'acme'", "slots": "3", "stall_after": "'7 s'", "keep": "'7 days'", "paused": "true", "preemptible": "true",
              "wait_for": "'go'", "wait_timeout": "'7 s'", "signal_by": "'boss'", "calendar": "'office'", "on_closed": "'next'"}
    assert set(values) == written - {"run_at", "schedule", "parent_id", "batch", "traceparent"}
    # neither goes with the other
    for extra, without in (({"schedule": "'@daily'"}, {"preemptible"}), ({"parent_id": str(parent)}, {"delivery", "starts_at", "ends_at"})):
        row = {k: v for k, v in {**values, **extra, "key": f"'{next(iter(extra))}'"}.items() if k not in without}
        task = db.one(f"insert into pgrab.task ({', '.join(row)}) values ({', '.join(row.values())}) returning id")
        kept = set(db.one(f"select array_agg(k) from jsonb_object_keys(pgrab.definition({task})) k"))
        assert kept >= set(row) - {"name", "kind", "paused"}, extra


# ------------------------------------------------------------------------------------------------------------ migrate

def objects(db):
    """Everything in the schema, with its comment and its definition as far as it has one; not the days of history there are."""
    return db.query("""
        select 'relation ' || c.oid::regclass || ' ' || c.relkind::text, obj_description(c.oid, 'pg_class'), case c.relkind when 'v' then pg_get_viewdef(c.oid) end
        from pg_class c where c.relnamespace = 'pgrab'::regnamespace and c.relname !~ '_2[0-9]{7}'
        union all select 'column ' || a.attrelid::regclass || '.' || a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum)
        from pg_attribute a join pg_class c on c.oid = a.attrelid where c.relnamespace = 'pgrab'::regnamespace and c.relname !~ '_2[0-9]{7}' and a.attnum > 0
        union all select 'function ' || p.oid::regprocedure, obj_description(p.oid, 'pg_proc'), p.prosrc from pg_proc p where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace)
        union all select 'trigger ' || t.tgname, regexp_replace(pg_get_triggerdef(t.oid), '[0-9a-f]{32}', 'hash of a secret'), null from pg_trigger t where not t.tgisinternal
        order by 1""")


def test_migrate_installs_once(empty_db):
    first = pgrab(empty_db, "migrate")
    assert "applying 0001_schema.sql\n" in first and "applying views and functions\n" in first
    assert f"The schema pgrab in database {empty_db.name} is up to date.\n" in first
    before = objects(empty_db)
    xmin = empty_db.query("select xmin::text from pgrab.migration union all select xmin::text from pgrab.api")
    assert "Nothing to do" in pgrab(empty_db, "migrate")
    assert objects(empty_db) == before
    assert empty_db.query("select xmin::text from pgrab.migration union all select xmin::text from pgrab.api") == xmin
    assert empty_db.one("select count(*) from pgrab.kind") == 7


def test_migrate_says_what_has_failed(empty_db):
    """Also when it fails for a function that does not exist, which others take for a schema that is too old."""
    empty_db.query("create function public.guard() returns event_trigger language plpgsql as 'begin perform public.no_such_guard(); end'")
    empty_db.cluster.superuser("create event trigger guard on ddl_command_start when tag in ('CREATE VIEW') execute function public.guard()", empty_db.name)
    done = run_pgrab("migrate", dsn=empty_db.dsn, check=False)
    assert done.returncode == 1
    assert "public.no_such_guard() does not exist" in done.stderr and "older" not in done.stderr, done.stderr


def test_what_migrate_creates_stays_on_its_server(empty_db):
    """Citus would create it on other servers, too, or refuse; it obeys this setting, and elsewhere nobody reads it."""
    setting = "current_setting('citus.enable_ddl_propagation', true)"
    empty_db.query(f"""
        create function public.stays() returns event_trigger language plpgsql as $$
        begin
          if {setting} is distinct from 'off' then
            raise '% would not stay on this server', tg_tag;
          end if;
        end $$""")
    empty_db.cluster.superuser("create event trigger stays on ddl_command_start execute function public.stays()", empty_db.name)
    with pytest.raises(psycopg.errors.RaiseException, match="CREATE TABLE would not stay"):
        empty_db.query("create table public.t ()")
    pgrab(empty_db, "migrate")
    pgrab(empty_db, "migrate", "--force")
    empty_db.query(run_pgrab("sql", "--schema", "printed").stdout)
    assert empty_db.one("select to_regclass('printed.task') is not null")
    assert empty_db.one(f"select {setting}") in (None, ""), "the session is as it was"
    with empty_db.connect(autocommit=False) as conn:  # no event trigger sees roles
        conn.execute(run_pgrab("sql", "--roles").stdout)
        assert conn.execute(f"select {setting}").fetchone()[0] == "off"
        conn.rollback()


def test_migrate_dry_run_and_status_change_nothing(empty_db):
    assert "not installed" in pgrab(empty_db, "migrate", "--status")
    status = as_json(empty_db, "migrate", "--status")
    assert (status["state"], status["installed"], status["migrations"]) == ("none", 0, [])
    assert pgrab(empty_db, "migrate", "--dry-run").splitlines() == [
        *[f"would apply {os.path.basename(p)}" for p in sorted(os.listdir(ROOT_MIGRATIONS)) if p.endswith(".sql")],
        "would apply views and functions"]
    assert empty_db.one("select to_regnamespace('pgrab')") is None
    pgrab(empty_db, "migrate")
    assert "Nothing to do" in pgrab(empty_db, "migrate", "--dry-run")
    status = as_json(empty_db, "migrate", "--status")
    assert (status["state"], status["api_current"]) == ("current", True)
    assert status["installed"] == status["known"] == len(status["migrations"])
    assert status["migrations"][0]["name"] == "0001_schema.sql"
    text = pgrab(empty_db, "migrate", "--status")
    assert "is up to date" in text and "0001_schema.sql" in text


def test_migrations_at_once_wait_for_each_other(empty_db):
    command = [pgrab_bin(), "migrate", "--dsn", empty_db.dsn]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_env()) for _ in range(4)]
    said = [p.communicate(timeout=60)[0] for p in started]
    assert [p.returncode for p in started] == [0] * 4, said
    assert sum("applying 0001_schema.sql" in s for s in said) == sum("applying views" in s for s in said) == 1
    assert as_json(empty_db, "migrate", "--status")["state"] == "current"


def test_changed_functions_and_views_are_put_back(db):
    before = objects(db)
    db.query("create or replace function pgrab.shard(p_id bigint) returns smallint language sql immutable return 0::smallint")
    assert "Nothing to do" in pgrab(db, "migrate")
    assert "applying views and functions" in pgrab(db, "migrate", "--force")
    assert objects(db) == before
    # a view of an older program had other columns: it is dropped and made anew
    db.query("drop view pgrab.due")
    db.query("create view pgrab.due as select 1 as something, 2 as other")
    db.query("update pgrab.api set hash = 'older'")
    assert as_json(db, "migrate", "--status")["state"] == "old"
    assert "older than this program" in pgrab(db, "migrate", "--status")
    assert pgrab(db, "migrate", "--dry-run") == "would apply views and functions\n"
    pgrab(db, "migrate")
    assert objects(db) == before


def test_a_view_of_somebody_on_ours_survives(db):
    db.query("create view public.mine as select id from pgrab.late")
    pgrab(db, "migrate", "--force")
    assert db.query("select * from public.mine") == []
    # The view stands on the type that functions pass tasks on as, which a later migration makes longer.
    db.query("alter table pgrab.task add column extra text")
    pgrab(db, "migrate", "--force")
    assert db.one("select array_agg(a.attrelid::regclass::text order by 1) from pg_attribute a where a.attname = 'extra'") == [
        "pgrab.task", "pgrab_internal.task"]
    assert db.one("select count(*) from pgrab.pause(%s)", db.add(kind="noop", run_at="2100-01-01")) == 1


def test_an_api_of_a_newer_program_is_left_alone(db):
    db.query("update pgrab.api set hash = 'newer', pgrab_version = '99.0.0'")
    assert as_json(db, "migrate", "--status")["state"] == "newer"
    assert "Nothing to do" in pgrab(db, "migrate")
    assert db.one("select hash from pgrab.api") == "newer"


def test_a_newer_schema_is_used_unless_it_is_breaking(db, nodes):
    db.query("insert into pgrab.migration (version, name, breaking, pgrab_version) values (9000, '9000_more.sql', false, '99.0.0')")
    assert as_json(db, "migrate", "--status")["state"] == "newer"
    assert "Nothing to do" in pgrab(db, "migrate")
    nodes.start("n1").end()
    db.query("update pgrab.migration set breaking = true where version = 9000")
    assert as_json(db, "migrate", "--status")["state"] == "too_new"
    for how in [], ["--dry-run"], ["--force"]:
        assert "newer, incompatible pgrab" in fails(1, "migrate", *how, dsn=db.dsn)
    node = nodes.start("n2", wait=False)
    assert node.wait_exit() == 1 and "newer" in node.log()


def test_migrate_behind_a_long_transaction_keeps_nobody_waiting(db):
    with db.connect(autocommit=False) as holder:
        holder.execute("insert into pgrab.task (kind) values ('noop')")
        waiting = subprocess.Popen([pgrab_bin(), "migrate", "--force", "--dsn", db.dsn], stdout=subprocess.PIPE, text=True, env=clean_env())
        db.wait("select count(*) > 0 from pg_locks where not granted and relation = 'pgrab.task'::regclass")
        # it asks for a lock that our insert is in the way of, and every other insert comes behind it: until it gives up, and tries again
        db.query("set statement_timeout = '10s'")
        db.add(kind="noop")
        assert waiting.poll() is None
        holder.rollback()
    assert waiting.wait(30) == 0
    waiting.stdout.close()


def test_the_printed_sql_makes_the_same_schema(empty_db, db):
    script = run_pgrab("sql").stdout
    with empty_db.connect(autocommit=False) as conn:
        conn.execute(script)
    assert objects(empty_db) == objects(db)
    assert as_json(empty_db, "migrate", "--status")["state"] == "current"
    # and on top of what is there, only what follows
    with empty_db.connect(autocommit=False) as conn:
        conn.execute(run_pgrab("sql", "--from", as_json(empty_db, "migrate", "--status")["known"]).stdout)
    assert objects(empty_db) == objects(db)


def test_the_printed_sql_calls_nobody_elses_functions(empty_db):
    """What is planted in public would match better; whoever applies the text has more rights than who planted it."""
    empty_db.query("create table public.sprung (what text)")
    for name, args, result in (("pg_has_role", "text, text, text", "boolean"), ("pg_has_role", "text, text", "boolean"), ("to_regclass", "unknown", "regclass"),
                               ("current_setting", "unknown", "text")):
        empty_db.query(f"create function public.{name}({args.replace('unknown', 'varchar')}) returns {result} language plpgsql as "
                       f"$$ begin insert into public.sprung values ('{name}'); return null; end $$")
    empty_db.query("create function public.times(double precision, numeric) returns double precision language plpgsql as "
                   "$$ begin insert into public.sprung values ('times'); return 1; end $$")
    empty_db.query("create operator public.* (leftarg = double precision, rightarg = numeric, function = public.times)")
    with empty_db.connect(autocommit=False) as conn:
        before = conn.execute("show search_path").fetchone()[0]
        conn.execute(run_pgrab("sql").stdout)
        conn.execute(run_pgrab("sql", "--roles").stdout)
        assert conn.execute("show search_path").fetchone()[0] == before
    assert empty_db.query("select distinct what from public.sprung") == []
    assert "public" not in empty_db.one("select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'pgrab.task'::regclass and adnum = 2")


# --------------------------------------------------------------------------------------------------------------- lists

@pytest.mark.parametrize("command, nothing", LISTS.items())
def test_an_empty_list(db, command, nothing):
    assert nothing in pgrab(db, command)
    assert as_json(db, command) == []


def test_tasks(db):
    one = db.add(kind="noop", name="one", run_at="2126-01-01")
    two = db.add(kind="sql", command="select 1", name="two", run_at="2126-01-01", paused=True)
    db.query("""insert into pgrab.run (task_id, attempt, version, outcome, ended, kind, owner, created_at, finished_at, name)
                values (1000, 1, 1, 'succeeded', 'done', 'sql', 'o', now(), now(), 'three')""")
    lines = pgrab(db, "tasks").splitlines()
    assert lines[0].split() == ["id", "name", "kind", "status", "attempt", "due_at", "node", "finished_at", "usual"]
    assert [line.split()[1] for line in lines[1:]] == ["two", "one", "three"]
    assert len({line.index(word) for line, word in zip(lines[1:], ["two", "one", "three"])}) == 1
    rows = as_json(db, "tasks")
    assert list(rows[0]) == lines[0].split()
    assert [(r["id"], r["status"]) for r in rows] == [(two, "scheduled"), (one, "scheduled"), (1000, "done")]
    assert rows[0]["due_at"] is None and rows[1]["due_at"].startswith("2126-01-01T00:00:00")

    def ids(*args):
        return [r["id"] for r in as_json(db, "tasks", *args)]
    assert ids("--status", "done") == [1000]
    assert ids("-s", "scheduled") == [two, one]
    assert ids("--kind", "sql") == [two, 1000]
    assert ids("--name=one") == [one]
    assert ids("--limit", "1") == [two]
    assert ids("--kind", "sql", "--status", "scheduled", "--limit", "9") == [two]
    assert ids("--name", "nobody") == []


def test_runs(db, nodes):
    nodes.start("n1")
    good, bad = db.add(kind="noop", name="good"), db.add(kind="sql", command="select 1/0", name="bad", max_attempts=1)
    db.wait_run(good), db.wait_run(bad)
    lines = pgrab(db, "runs").splitlines()
    assert lines[0].split() == ["task_id", "name", "kind", "attempt", "outcome", "node", "started_at", "waited", "seconds", "finished_at", "error"]
    assert len(lines) == 3 and all(" n1 " in line for line in lines[1:])
    rows = {r["task_id"]: r for r in as_json(db, "runs")}
    assert rows[good]["outcome"] == "succeeded" and rows[good]["error"] is None
    assert rows[bad]["outcome"] == "failed" and "division by zero" in rows[bad]["error"]
    assert [r["task_id"] for r in as_json(db, "runs", "--outcome", "failed")] == [bad]
    assert [r["task_id"] for r in as_json(db, "runs", "--task", good)] == [good]
    assert len(as_json(db, "history", "-l", 1)) == 1


def test_nodes(db, nodes):
    nodes.start("n1", workers=3, labels="site=hq,disk=ssd")
    nodes.start("n2").end()
    lines = pgrab(db, "nodes").splitlines()
    assert lines[0].split() == ["name", "state", "strategy", "busy", "heartbeat_age", "shards", "attempted", "won", "lost", "stolen", "warning", "overridden", "min_priority", "kinds", "labels", "handlers"]
    assert [line.split()[:2] for line in lines[1:]] == [["n1", "up"], ["n2", "down"]]
    rows = as_json(db, "nodes")
    assert (rows[0]["name"], rows[0]["busy"], rows[0]["state"]) == ("n1", "0/67", "up")
    assert "disk=ssd,site=hq" in lines[1] and [r["labels"] for r in rows] == ["disk=ssd,site=hq", None]


def test_status(db, nodes):
    text = pgrab(db, "status")
    assert "nodes up 0" in text and "no node is up; start one: pgrab run" in text
    nodes.start("n1", allow="sql")
    parked = db.add(kind="sql", command="select 1/0", name="broken", max_attempts=1)
    late = db.add(kind="noop", run_at="2000-01-01")
    db.wait("select status = 'parked' from pgrab.task where id = %s", parked)
    status = as_json(db, "status")
    assert (status["nodes_up"], status["parked"], status["late"], status["failed_1m"]) == (1, 1, 1, 1)
    said = {a["what"]: a["text"] for a in status["attention"]}
    assert "no live node runs kind noop" in said["late"] and str(late) in said["late"]
    assert re.fullmatch(rf"broken \({parked}\) is parked: 1 failed in a row since [-+: 0-9]+: division by zero \(SQLSTATE 22012\)", said["failing"])
    text = pgrab(db, "status")
    assert "nodes up 1, running 0, due 1, late 1 (for " in text and "parked 1, failing 1, overdue 0, waiting 0\n" in text and "broken" in text
    db.query("delete from pgrab.task")
    assert "Nothing needs attention." in pgrab(db, "status")
    assert as_json(db, "status")["attention"] == []


# ----------------------------------------------------------------------------------------------------- next, forecast

def test_next_and_forecast_lead_to_the_picture(db):
    for args in (["next", "@daily"], ["forecast", "1h"], ["forecast", "1h", "--load"]):
        assert "pgrab serve shows it as a picture at /month\n" in on_terminal(*args, "--dsn", db.dsn)
        assert "/month" not in pgrab(db, *args)  # a program may read that


def test_next_shows_local_time_and_utc(db):
    args = ["next", "30 2 * * *", "--timezone", "Europe/Berlin", "--after", "2126-03-29", "--count", "3"]
    lines = [line.split() for line in pgrab(db, *args).splitlines()]
    assert lines[0] == ["day", "local", "utc", "from_now"] and len(lines) == 4
    # the clock goes forward on the 31st: what the gap skips comes right after it
    assert [" ".join(line[:5]) for line in lines[1:]] == [
        "Fri 2126-03-29 02:30:00+01:00 2126-03-29 01:30:00+00", "Sat 2126-03-30 02:30:00+01:00 2126-03-30 01:30:00+00",
        "Sun 2126-03-31 03:00:00+02:00 2126-03-31 01:00:00+00"]
    rows = as_json(db, *args)
    assert list(rows[0]) == lines[0] and rows[2]["utc"] == "2126-03-31T01:00:00+00:00"
    assert len(as_json(db, "next", "@every 90s")) == 5
    assert as_json(db, "next", "@hourly", "-n", 1)[0]["from_now"] <= "01:00:00"
    assert as_json(db, "next", "0 0 * * *", "-z", "America/New_York", "-n", 1)[0]["local"][11:] in ("00:00:00-05:00", "00:00:00-04:00")


@pytest.mark.parametrize("args, said", [
    (["61 * * * *"], "minute 61 is out of range 0-59. Minutes: *, 0-59"),
    (["0 0 30 2 *"], "invalid schedule"),
    ([""], "invalid schedule"),
    (["@daily", "--timezone", "Berlin"], 'Did you mean "Europe/Berlin"?'),
    (["@daily", "--timezone", "Europe/Nowhere"], "there is no such time zone. Use an IANA zone name"),
    (["@daily", "--after", "soon"], 'invalid input syntax for type timestamp with time zone: "soon"'),
])
def test_next_says_what_is_wrong_with_a_schedule(db, args, said):
    assert said in fails(2, "next", *args, dsn=db.dsn)


def test_forecast(db, nodes):
    nodes.start("n1")
    hourly = db.add(kind="noop", name="often", schedule="*/10 * * * *")
    db.add(kind="noop", run_at="2126-01-01")
    lines = pgrab(db, "forecast", "2h").splitlines()
    assert lines[0].split() == ["fire_at", "task_id", "name", "kind", "schedule", "node", "ends_at"] and 12 <= len(lines) <= 14
    rows = as_json(db, "forecast")
    assert {r["task_id"] for r in rows} == {hourly} and 5 <= len(rows) <= 7
    assert rows == sorted(rows, key=lambda r: r["fire_at"]) and rows[0]["node"] == "n1"
    assert len(as_json(db, "forecast", "1d", "--limit", 3)) == 3
    db.query("update pgrab.task set paused = true")
    assert "nothing is planned for that time" in pgrab(db, "forecast")


def test_forecast_of_the_load(db, nodes, serving):
    nodes.start("n1", workers=2)
    hour = db.one("select extract(hour from timezone('UTC', now()) + interval '6 hours')::int")  # within each day that is drawn
    for name in "abc":
        db.add(kind="noop", name=name, schedule=f"0 {hour} * * *")
    told = [r for r in as_json(db, "forecast", "1d", "--load") if r["fires"]]
    assert [(r["crew"], r["fires"], r["unknown"], r["at_once"], r["slots"], r["tasks"]) for r in told] == [("workers", 3, 3, 3, 2, "a, b, c")]
    assert "cannot tell the load of" in fails(1, "forecast", "7d", "--load", "--bucket", "1s", dsn=db.dsn)
    serve = serving()
    assert [r for r in serve.api("GET", "/load") if r["fires"]] == told
    assert serve.get("/").text.count("3 fires, at most 3 at once, 2 slots of workers: a, b, c") == 1
    serve.api("GET", "/load?bucket=nothing", status=400)


def test_a_task_is_named_by_its_key_or_its_name(db):
    task = db.add(kind="noop", key="nightly", schedule="@daily")
    twins = [db.add(kind="noop", name="twins", run_at="2100-01-01") for _ in "ab"]
    assert as_json(db, "explain", "nightly") and as_json(db, "show", "nightly")["id"] == task
    assert [t["name"] for t in as_json(db, "tasks")] == ["twins", "twins", "nightly"]
    assert as_json(db, "pause", "nightly", twins[0])[0]["name"] == "nightly"
    said = fails(1, "pause", "twins", dsn=db.dsn)
    assert said == f"pgrab pause: 2 tasks have the name 'twins'. Give the id or the key of one of them: {twins[0]}, {twins[1]}.\n"
    for args in ["show", "nope"], ["explain", "nope"], ["delete", "nope"], ["runs", "--task", "nope"]:
        assert "no task has the key or name 'nope'" in fails(3, *args, dsn=db.dsn)
    assert as_json(db, "delete", "nightly")[0]["status"] == "deleted"
    assert as_json(db, "show", "nightly")["last_error"].startswith("deleted by ")


def test_runs_and_tasks_are_filtered(db, nodes):
    nodes.start("n1")
    good = db.add(kind="noop", key="good", name="Good", source="a")
    bad = db.add(kind="shell", command="echo " + "x" * 40 + " >&2; exit 3", key="bad", max_attempts=1, source="b")
    db.wait("select count(*) = 2 from pgrab.run")
    ids = lambda *args: [r["task_id"] for r in as_json(db, "runs", *args)]
    assert ids("--key", "g%") == ids("--name", "Good") == ids("--task", "good") == ids("--outcome", "succeeded") == [good]
    assert ids("--source", "b") == ids("--outcome", "failed") == [bad]
    assert sorted(ids("--since", "1h", "--node", "n1")) == sorted(ids("--until", "2100-01-01")) == [good, bad]
    assert ids("--since", "2100-01-01") == ids("--until", "1h") == ids("--node", "n2") == []
    assert "'soon'" in fails(1, "runs", "--since", "soon", dsn=db.dsn).replace('"', "'")
    assert [t["id"] for t in as_json(db, "tasks", "--source", "b")] == [t["id"] for t in as_json(db, "tasks", "--key", "bad")] == [bad]
    assert [t["id"] for t in as_json(db, "tasks", "--name", "G%", "--node", "n1")] == [good]


def test_a_list_says_that_there_is_more(db):
    for _ in range(3):
        db.add(kind="noop", run_at="2100-01-01")
    assert pgrab(db, "tasks", "--limit", "2").splitlines()[3:] == ["... and more: --limit N shows more than 2"]
    assert len(pgrab(db, "tasks", "--limit", "3").splitlines()) == 4
    assert len(as_json(db, "tasks", "--limit", "2")) == 2


def test_times_are_in_the_zone_of_the_caller(db):
    db.add(kind="noop", key="k", run_at="2100-07-01 12:00+00")
    zone = {"TZ": "Europe/Berlin"}
    assert "2100-07-01 14:00:00+02" in pgrab(db, "tasks", env=zone) and "2100-07-01 14:00:00+02" in pgrab(db, "show", "k", env=zone)
    assert "2100-07-01 13:00:00+01" in pgrab(db, "tasks", env={**zone, "PGTZ": "Europe/London"})
    assert "2100-07-01 12:00:00+00" in pgrab(db, "tasks", "--utc", env=zone)
    assert as_json(db, "tasks")[0]["due_at"] == json.loads(pgrab(db, "tasks", "--json", env=zone))[0]["due_at"] == "2100-07-01T12:00:00+00:00"
    assert "2100-07-01 12:00:00+00" in pgrab(db, "tasks", env={"TZ": "No/Such"})


def test_explain(db):
    task = db.add(kind="noop", paused=True)
    assert pgrab(db, "explain", task).splitlines()[0].split() == ["gate", "verdict", "detail"]
    assert "pause" in json.dumps(as_json(db, "explain", task))
    assert "4711" in fails(3, "explain", "4711", dsn=db.dsn)
    # what to do about it is never cut
    assert max(map(len, on_terminal("explain", task, "--dsn", db.dsn, columns=20).splitlines())) > 40


# ---------------------------------------------------------------------------------------------------------- show, add

def test_show_a_live_task(db):
    task = db.add(kind="shell", command="echo one\necho two", name="x", timeout="5 s", run_at="2000-01-01", args={"cwd": "/"})
    text = pgrab(db, "show", task)
    assert re.search(r"^why +no node is up$", text, re.M) and re.search(r"^status +scheduled$", text, re.M)
    assert "command\n    echo one\n    echo two\n" in text
    assert re.search(r'^definition +\{"timeout": "00:00:05"\}$', text, re.M)
    shown = as_json(db, "show", task)
    assert (shown["id"], shown["status"], shown["why"], shown["args"]) == (task, "scheduled", "no node is up", {"cwd": "/"})
    assert shown["attempts"] == [] and shown["output"] is None
    for change, why in [("paused = true", "paused"), ("paused = false, run_at = now() + '1 day'", "due in ")]:
        db.query(f"update pgrab.task set {change}")
        assert as_json(db, "show", task)["why"].startswith(why)


def test_show_a_finished_task_with_its_attempts_and_output(db, nodes):
    nodes.start("n1")
    task = db.add(kind="shell", command=r'printf "try $PGRAB_ATTEMPT\n\033[31mred\n"; test $PGRAB_ATTEMPT = 2', backoff="0", key="k")
    db.wait("select count(*) = 2 from pgrab.run where task_id = %s", task)
    shown = as_json(db, "show", task)
    assert (shown["status"], shown["attempt"], shown["runs"], shown["failures"], shown["last_outcome"]) == ("done", 2, 2, 1, "succeeded")
    assert shown["command"].startswith("printf") and shown["key"] == "k" and shown["definition"] == {"backoff": "00:00:00"}
    assert [(a["attempt"], a["outcome"], a["node"], a["exit_code"]) for a in shown["attempts"]] == [(1, "failed", "n1", 1), (2, "succeeded", "n1", 0)]
    assert shown["output"].startswith("try 2\n") and shown["why"] is None
    text = pgrab(db, "show", task)
    assert re.search(r"^attempt +outcome +node", text, re.M) and "output of the last run:\ntry 2\n" in text
    assert "\033" not in text


def add_chain(db, **root):
    """extract -> a, b (fails), c -> load -> report; alarm when b has failed."""
    tasks = [("extract", {**root}), ("a", {"parent_id": 1}), ("b", {"parent_id": 1, "kind": "sql", "command": "select 1/0", "max_attempts": 1}), ("c", {"parent_id": 1}),
             ("load", {"parent_id": 2}), ("report", {"parent_id": 5}), ("alarm", {"parent_id": 3, "run_if": "failure"})]
    for n, (name, columns) in enumerate(tasks, 1):
        db.add(**{"id": n, "name": name, "kind": "noop", **columns})
    db.query("insert into pgrab.edge values (3, 5), (4, 5)")


def drawn(text):
    """The tree that `pgrab show` has printed: indent, name, id, status, outcome of each link."""
    lines = text.split("\nchain ")[1].split("\n\n")[0].splitlines()[1:]
    return [re.match(r"( *)(\S+) +(\d+) +(\w+) *(\w*)", line).groups() for line in lines]


def test_show_a_link_draws_its_chain(db, nodes):
    add_chain(db, paused=True)
    want = [("", "extract", 1), ("  ", "a", 2), ("    ", "load", 5), ("      ", "report", 6), ("  ", "b", 3), ("    ", "alarm", 7), ("  ", "c", 4)]

    def check(ends):
        for task in (1, 5):
            tree = drawn(pgrab(db, "show", task))
            assert [(indent, name, int(i)) for indent, name, i, _, _ in tree] == want
            assert {name: outcome for _, name, _, _, outcome in tree} == ends
            links = as_json(db, "show", task)["chain"]
            view = db.query("select * from pgrab.chains where root = 1 order by path")
            assert [(x["root"], x["depth"], "  " * x["depth"] + x["task"], x["id"], x["kind"], x["status"], x["outcome"]) for x in links] == [v[:7] for v in view]
            assert [x["finished_at"] and x["finished_at"][:19] for x in links] == [v.finished_at and v.finished_at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") for v in view]

    check(dict.fromkeys(("extract", "a", "b", "c", "load", "report", "alarm"), ""))
    nodes.start()
    db.query("select pgrab.resume(1)")
    db.wait("select result = 'failed' from pgrab.chain_runs")
    half = {"extract": "succeeded", "a": "succeeded", "b": "failed", "c": "succeeded", "load": "skipped", "report": "skipped", "alarm": "succeeded"}
    check(half)
    db.query("update pgrab.task set command = 'select 1' where id = 3")
    pgrab(db, "retry", 3)
    db.wait("select not exists (select from pgrab.task)")
    check(dict.fromkeys(half, "succeeded"))  # it has ended, and is in the history only
    report = as_json(db, "show", 6)
    assert (report["runs"], report["failures"], [a["outcome"] for a in report["attempts"]]) == (1, 0, ["skipped", "succeeded"])


def test_show_a_task_on_its_own_has_no_chain(db):
    task = db.add(kind="noop")
    assert as_json(db, "show", task)["chain"] == [] and "\nchain" not in pgrab(db, "show", task)


def test_show_draws_no_more_than_200_links_of_a_chain_and_all_its_roots(db):
    db.query("insert into pgrab.task (id, kind, run_at) overriding system value select i, 'noop', '2100-01-01' from generate_series(1, 300) i")
    last = db.add(id=1000, kind="noop", parent_id=1)
    db.query("insert into pgrab.edge select i, 1000 from generate_series(2, 300) i")
    text = pgrab(db, "show", last)
    assert "\n#199 " in text and "\n#200 " not in text and "\n... and 101 more\n" in text
    links = as_json(db, "show", last)["chain"]
    assert len(links) == 301 and [x["id"] for x in links if x["depth"]] == [1000]


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_show_what_is_not_there_is_3(db, args):
    assert "task 4711 does not exist" in fails(3, "show", "4711", *args, dsn=db.dsn)


def test_add_prints_the_id(db):
    task = int(pgrab(db, "add", "select 1"))
    row = db.query("select kind, command, args, owner, run_at <= now() as due from pgrab.task where id = %s", task)[0]
    assert (row.kind, row.command, row.args, row.due) == ("sql", "select 1", {}, True)


def test_add_with_everything(db):
    shown = as_json(db, "add", "--kind", "shell", "--name", "n ä", "--key", "k", "--in", "90m", "--arg", "cwd=/tmp", '--arg=env:={"A": "1=2", "N": 12345678901234567890}',
                    "--arg", "stdin=a=b", "--priority", "-3", "--timeout", "1500ms", "--max-attempts", "7", "--backoff", "0", "--backoff-max", "2h",
                    "--delivery", "at_most_once", "--require", '{"zone": "eu"}', "--paused", "x; echo")
    assert (shown["name"], shown["key"], shown["kind"], shown["status"]) == ("n ä", "k", "shell", "scheduled")
    row = db.query("""select command, args::text, run_at between now() + '89 min' and now() + '91 min' as later, priority, timeout::text, max_attempts, backoff::text,
                      backoff_max::text, delivery, require, paused, due_at from pgrab.task where id = %s""", shown["id"])[0]
    assert row == ("x; echo", '{"cwd": "/tmp", "env": {"A": "1=2", "N": 12345678901234567890}, "stdin": "a=b"}', True, -3, "00:00:01.5", 7, "00:00:00",
                   "02:00:00", "at_most_once", {"zone": "eu"}, True, None)
    assert "a live task already has this key" in fails(1, "add", "--key", "k", "select 1", dsn=db.dsn)


def test_add_and_edit_have_a_flag_for_each_column_that_users_write(db):
    other = {"command": "COMMAND", "args": "--arg", "parent_id": "--parent", "limit_key": "--limit"}
    told = {command: run_pgrab(command, "--help", dsn=db.dsn).stdout for command in ("add", "edit")}
    for column in db.one("select pgrab_internal.written()"):
        flag = other.get(column, "--" + column.replace("_", "-"))
        assert all(re.search(re.escape(flag) + r"\b", text) for text in told.values()), column
    task = int(pgrab(db, "add", "--stall-after", "90s", "--keep", "7d", "select 1"))
    assert db.query("select stall_after, keep from pgrab.task where id = %s", task) == [(timedelta(seconds=90), timedelta(days=7))]


def test_add_takes_all_that_there_is_at_once(db):
    options = re.findall(r"^ +(?:-\w, )?(--[a-z-]+) [A-Z]", run_pgrab("add", "--help", dsn=db.dsn).stdout, re.M)
    given = [word for flag in options if flag not in ("--dsn", "--schema", "--in") for word in (flag, {"--arg": "a=b", "--parent": "1,2"}.get(flag, "9s"))]
    done = run_pgrab("add", *given, "--paused", "--preemptible", "select 1", dsn=db.dsn, check=False)
    assert len(given) > 80 and done.returncode == 2 and done.stderr.startswith("pgrab add: "), done


def test_add_a_schedule_with_everything(db):
    db.query("insert into pgrab.limit (key, max_running) values ('l', 2)")
    task = int(pgrab(db, "add", "--schedule", "30 2 * * *", "--timezone", "Europe/Berlin", "--starts-at", "2100-03-01", "--ends-at", "2100-03-02 00:00+01", "--max-runs", "4",
                     "--jitter", "90s", "--misfire", "all", "--misfire-after", "5m", "--misfire-limit", "9", "--limit", "l", "select 1"))
    row = db.query("""select schedule, timezone, starts_at = '2100-03-01 00:00Z' as starts, ends_at = '2100-03-01 23:00Z' as ends, max_runs, jitter::text, misfire, misfire_after::text,
                      misfire_limit, limit_key, run_at = '2100-03-01 01:30Z' as first from pgrab.task where id = %s""", task)[0]
    assert row == ("30 2 * * *", "Europe/Berlin", True, True, 4, "00:01:30", "all", "00:05:00", 9, "l", True)


def test_add_links_of_a_chain(db):
    root = pgrab(db, "add", "--kind", "noop", "--paused", "--schedule", "@every 1h").strip()
    link = as_json(db, "add", "--kind", "noop", "--parent", root, "--run-if", "always")
    assert link["status"] == "waiting"
    assert db.query("select parent_id, run_if from pgrab.task where id = %s", link["id"])[0] == (int(root), "always")


def test_add_a_link_with_several_parents(db):
    a, b, c = (pgrab(db, "add", "--kind", "noop", "--paused").strip() for _ in "abc")
    link = as_json(db, "add", "--kind", "noop", "--parent", f"{a},{b},{c}", "--run-if", "always")
    assert link["status"] == "waiting"
    assert db.query("select parent_id, run_if from pgrab_internal.parents_of(%s) order by 1", link["id"]) == [(int(x), "always") for x in (a, b, c)]
    assert "it is its parent_id already" in fails(2, "add", "--kind", "noop", "--parent", f"{a},{a}", dsn=db.dsn)
    assert db.one("select count(*) from pgrab.task") == 4


@pytest.mark.parametrize("ids", ["", "x", "17 ", ",17", "17,", "17,,18", "-1"])
def test_add_says_what_parents_look_like(ids):
    assert f'--parent cannot be "{ids}"; it must be the id of a task, or several: 17,18' in fails(2, "add", "--kind", "noop", "--parent", ids)


def test_add_after_two_dashes_takes_a_command_as_it_is(db):
    task = int(run_pgrab("add", "--kind", "shell", "--", "--arg", env={"PGRAB_DSN": db.dsn}).stdout)
    assert db.query("select command, args from pgrab.task where id = %s", task)[0] == ("--arg", {})


def test_add_takes_nothing_as_sql_that_is_a_value(db):
    evil = "'); drop table pgrab.task; --"
    task = int(pgrab(db, "add", "--name", evil, "--arg", f"params:=[{json.dumps(evil)}]", evil))
    assert db.query("select name, command, args from pgrab.task where id = %s", task)[0] == (evil, evil, {"params": [evil]})


@pytest.mark.parametrize("args, said", [
    (["--kind", "ruby", "x"], "task kind cannot be 'ruby'. The kinds are: batch, exec, http, noop, notify, shell, sql."),
    (["--kind", "shell"], "task command cannot be ''. A task of kind shell needs a command"),
    (["--kind", "noop", "--priority", "high"], 'invalid input syntax for type smallint: "high"'),
    (["--kind", "noop", "--timeout", "0"], "A timeout is between 1 ms and 365 days."),
    (["--kind", "noop", "--arg", "a=b"], "A task of kind noop takes no args."),
    (["--kind", "noop", "--schedule", "0 0 30 2 *"], "task schedule cannot be '0 0 30 2 *'. It can never fire."),
    (["--kind", "noop", "--schedule", "@daily", "--timezone", "Mars"], "task timezone cannot be 'Mars'. "),
    (["--kind", "noop", "--limit", "l"], "task limit_key cannot be 'l'. There is no such limit. Make it first: insert into pgrab.limit"),
    (["--kind", "noop", "--parent", "4711"], "there is no such task. Insert parents and children in one transaction"),
    (["--kind", "noop", "--run-if", "perhaps"], "task run_if cannot be 'perhaps'. One of: success, failure, always."),
])
def test_add_says_what_would_be_right(db, args, said):
    assert said in fails(2, "add", *args, dsn=db.dsn)
    assert db.one("select count(*) from pgrab.task") == 0


@pytest.mark.parametrize("flag", ["--in", "--jitter", "--misfire-after", "--backoff-max"])
def test_add_says_what_a_time_looks_like(flag):
    assert f'{flag} cannot be "soon"; it must be a time such as 200ms' in fails(2, "add", "--kind", "noop", flag, "soon")


# ------------------------------------------------------------------------------------------------------ the terminal

def test_lines_fit_the_terminal_and_names_cannot_command_it(db):
    db.add(kind="noop", name="\033[31mred\033[0m \u009b2J\x7f\nnext\t" + "long " * 30, run_at="2126-01-01")
    for text in on_terminal("tasks", "--dsn", db.dsn, columns=60, env={"NO_COLOR": "1"}), pgrab(db, "tasks"), pgrab(db, "tasks", "--json"), pgrab(db, "show", 1):
        assert not set(text) - set("\n\t") & {chr(c) for c in [*range(32), *range(127, 160)]}
    lines = on_terminal("tasks", "--dsn", db.dsn, columns=60, env={"NO_COLOR": "1"}).splitlines()
    assert max(map(len, lines)) == 60 and r"\x1b[31mred" in lines[1]
    assert max(map(len, pgrab(db, "tasks").splitlines())) > 150
    assert json.loads(pgrab(db, "tasks", "--json"))[0]["name"].startswith("\033[31mred\033[0m \u009b2J\x7f\nnext\t")


def test_wide_characters_keep_the_columns_aligned(db):
    for name in "äöü", "日本", "plain":
        db.add(kind="noop", name=name, run_at="2126-01-01")
    lines = pgrab(db, "tasks").splitlines()
    assert [line.index("noop") for line in lines[1:]] == [len("id  plain  "), len("id  plain  ") - 2, len("id  plain  ")]


def test_color_is_for_terminals_only(db, nodes):
    nodes.start("n1")
    assert on_terminal("nodes", "--dsn", db.dsn).startswith("\033[1mname")
    assert "\033" not in on_terminal("nodes", "--dsn", db.dsn, env={"NO_COLOR": "1"})
    assert "\033" not in pgrab(db, "nodes")


def test_a_reader_that_goes_away_is_no_error(db):
    db.query("insert into pgrab.task (kind, run_at) select 'noop', '2126-01-01' from generate_series(1, 20000)")
    with subprocess.Popen([pgrab_bin(), "tasks", "--limit", "20000", "--dsn", db.dsn], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env()) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(20) == 0 and process.stderr.read() == b""


def test_a_full_disk_is_an_error(db):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([pgrab_bin(), "tasks", "--dsn", db.dsn], stdout=full, stderr=subprocess.PIPE, text=True, env=clean_env(), check=False)
    assert done.returncode == 1 and "No space left on device" in done.stderr


# ----------------------------------------------------------------------------------------------------------------- run

def test_run_makes_the_schema_when_there_is_none(empty_db, tmp_path):
    with subprocess.Popen([pgrab_bin(), "run", "--name", "n1", "--dsn", empty_db.dsn], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_env()) as process:
        wait_until(lambda: empty_db.one("select to_regclass('pgrab.overview')"), 20, "the schema")
        task = empty_db.add(kind="noop")
        assert empty_db.wait_run(task).outcome == "succeeded"
        process.terminate()
        assert process.wait(20) == 0


def test_run_never_upgrades(db, nodes):
    db.query("update pgrab.api set hash = 'older'")
    node = nodes.start("n1", wait=False)
    assert node.wait_exit() == 1 and "pgrab migrate" in node.log()
    assert db.one("select hash from pgrab.api") == "older"


# ------------------------------------------------------------------------------------------------------- a list that ends

def test_every_list_that_ends_early_says_so(db):
    db.query("insert into pgrab.task (name, kind, schedule) values ('often', 'noop', '@every 1m')")
    text = pgrab(db, "forecast", "1h", "--limit", 3)
    assert text.count("often") == 3 and text.endswith("... and more: --limit N shows more than 3\n")
    assert len(as_json(db, "forecast", "1h", "--limit", 3)) == 3
    task = db.one("select id from pgrab.task where name = 'often'")
    db.query("insert into pgrab.run (task_id, version, finished_at, started_at, created_at, attempt, outcome, kind, owner) "
             "select %s, n, now() - n * interval '1 s', now() - n * interval '1 s', now(), 1, 'succeeded', 'noop', current_user from generate_series(1, 120) n", task)
    db.query("update pgrab.task set runs = 120, version = version + 1 where id = %s", task)
    text = pgrab(db, "show", "often")
    assert text.count("succeeded") == 100 and f"... and 20 before these: pgrab runs --task {task}\n" in text
    assert pgrab(db, "runs", "--task", task).endswith("... and more: --limit N shows more than 50\n")
    assert pgrab(db, "tasks", "--limit", 1).count("often") == 1
    # as many reasons for being late as there are labels that no node has
    db.query("insert into pgrab.task (kind, require, run_at) select 'noop', jsonb_build_object('l', n::text), now() - interval '1 minute' from generate_series(1, 50) n")
    db.query("insert into pgrab.registration (name, host, pid, pgrab_version, strategy, kinds, slots, heartbeat_every, dead_after, started_at) values ('n', 'h', 1, '0', 'x', '{noop}', 1, '1 h', '1 h', now())")
    db.query("insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state) select id, 1, 1, now(), 'up' from pgrab.registration")
    lines = pgrab(db, "status").splitlines()
    assert lines[-1] == "  ... and more: pgrab doctor, select * from pgrab.late" and sum(" late: " in line for line in lines) == 40
