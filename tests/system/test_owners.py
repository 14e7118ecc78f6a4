"""A sql task runs as its owner, on a connection of its owner's, or not at all."""
import itertools
import os
import re

import pytest
from cluster import conninfo, run_pgrab, stays, wait_until
from pooler import THROUGH_IT
from proxy import Proxy

numbers = itertools.count(1)


@pytest.fixture
def roles(db):
    """Makes roles that may log in and insert tasks: alice = roles('alice'). They are gone after the test."""
    made = []

    def make(word):
        name = f"pgrab_{word}_{os.getpid()}_{next(numbers)}"
        db.query(f"create role {name} login")
        made.append(name)
        db.cluster.superuser(f"create schema {name} authorization {name}", db.name)
        db.query(f"grant usage on schema pgrab to {name}; grant select, insert on pgrab.task to {name}")
        return name

    yield make
    db.query("select 1")
    for name in made:
        db.cluster.superuser(f"drop owned by {name} cascade; drop role {name}", db.name)


def as_user(db, role):
    return conninfo.make_conninfo(db.dsn, user=role)


@pytest.fixture
def config(tmp_path):
    """Writes a node's file; returns its name."""
    def write(text):
        path = tmp_path / f"pgrab.{next(numbers)}.ini"
        path.write_text(text)
        path.chmod(0o600)
        return str(path)
    return write


def at_work(db, owner, query):
    """How many of the owner's sessions execute that; what others' sessions do is hidden from everybody else."""
    with db.connect(user=owner) as conn:
        return conn.execute("select count(*) from pg_stat_activity where query like %s and state = 'active' and usename = current_user "
                            "and pid <> pg_backend_pid() and datname = current_database()", [query]).fetchone()[0]


def gates(db, task):
    return {r.gate: f"{r.verdict}: {r.detail}" for r in db.query("select * from pgrab.explain(%s)", task)}


def test_without_a_connection_of_its_owner_a_sql_task_waits_and_says_why(db, nodes, roles):
    alice = roles("alice")
    nodes.start("n1")
    task = db.add_as(alice, kind="sql", command="select 1")
    noop = db.add_as(alice, kind="noop")
    db.wait_run(noop)
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", task), 3)
    said = gates(db, task)
    assert re.search(f"blocked: It has no connection for owner {alice}", said["node n1"])
    assert f"No live node has a connection for owner {alice}, and a sql task runs as its owner or not at all" in said["nodes"]
    assert db.one("select why from pgrab.late where id = %s", task) == f"no live node has a connection for owner {alice}"
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert f"no live node has a connection for owner {alice}" in doctor and f"[owner {alice}]" in doctor


def test_a_file_bounds_the_kinds_of_an_owner(db, nodes, roles, config):
    alice = roles("alice")
    nodes.start("n1", config=config(f"[owner {alice}]\nallow = shell\n"))
    left = db.add_as(alice, kind="noop")
    taken = db.add_as(alice, kind="shell", command="echo yes")
    own = db.add(kind="noop")
    assert db.wait_run(taken).outcome == "succeeded" and db.wait_run(own).outcome == "succeeded"
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", left), 2)
    assert "does not run kind noop for owner" in gates(db, left)["node n1"]
    assert db.one("select why from pgrab.late where id = %s", left) == f"no live node runs kind noop for owner {alice}"
    nodes.start("n2")
    assert db.wait_run(left).node == "n2"


def test_a_superuser_is_no_role_for_a_node(db, nodes):
    node = nodes.start("n1", wait=False, dsn=as_user(db, "postgres"))
    assert node.wait_exit() == 1
    assert "is a superuser" in node.log() and "allow_superuser" in node.log()
    nodes.start("n2", dsn=as_user(db, "postgres"), env={"PGRAB_ALLOW_SUPERUSER": "yes"})
    own = db.add(kind="sql", command="select 1")
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", own), 2)


# -------------------------------------------------------------------------------------------------- as its owner
def login(db, *names, **dsns):
    """Sections for owners who log in by name alone, as the tests' server lets everybody."""
    return "".join(f"[owner {n}]\ndsn = {dsns.get(n, as_user(db, n))}\n" for n in names)


@pytest.fixture
def alice(db, roles):
    return roles("alice")


@pytest.fixture
def at_home(db, nodes, config, alice):
    """A node with one worker, which can log in as alice."""
    return nodes.start("n1", workers=1, config=config(login(db, alice)))


def output(db, owner, command, **more):
    run = db.wait_run(db.add_as(owner, kind="sql", command=command, **more))
    assert run.outcome == "succeeded", run.error
    return run.output


def error(db, owner, command, **more):
    run = db.wait_run(db.add_as(owner, kind="sql", command=command, max_attempts=1, **more))
    assert run.outcome == "failed", run.output
    return run.error


def test_a_text_runs_as_its_owner_and_has_his_rights_and_no_others(db, nodes, at_home, alice, roles):
    bob = roles("bob")
    node = db.one("select current_user")
    db.query("create table of_node (n int)")
    with db.connect(user=bob) as conn:
        conn.execute(f"create table {bob}.his (n int)")
    assert output(db, alice, "select session_user, current_user") == f"{alice}|{alice}"
    assert output(db, node, "select session_user, current_user") == f"{node}|{node}"
    assert output(db, alice, f"create table {alice}.mine as select 7 as n; select n from {alice}.mine") == "7"
    for text in ("select * from public.of_node", f"select * from {bob}.his", "select * from pgrab_internal.run_key", "delete from pgrab.run",
                 "select pgrab_internal.run_proof(1, 2, 3)", "update pgrab.task set version = 1"):
        assert "permission denied" in error(db, alice, text), text
    for text in (f"set role {node}", f"reset role; set session authorization {node}", f"set local role {node}",
                 f"do $$ begin execute 'reset session authorization'; execute 'set role {node}'; end $$"):
        assert "permission denied" in error(db, alice, text), text


@pytest.mark.parametrize("whose", ["its own", "another's"])
def test_a_finish_that_a_text_calls_itself_changes_nothing(db, nodes, config, alice, roles, whose):
    bob = roles("bob")
    nodes.start("n1", workers=2, config=config(login(db, alice, bob)))
    victim = alice if whose == "its own" else bob
    with db.connect(user=victim) as conn:
        conn.execute(f"create table {victim}.gate (n int); create table {victim}.eff (n int)")
    with db.connect(user=victim, autocommit=False) as held:
        held.execute(f"lock table {victim}.gate")
        task = db.add_as(victim, kind="sql", command=f"insert into {victim}.eff values (1); select * from {victim}.gate")
        db.wait("select status = 'running' from pgrab.task where id = %s", task)
        version, incarnation = db.query("select version, incarnation from pgrab.task where id = %s", task)[0]
        guesses = ("null", "''", "repeat('0', 64)", f"encode(sha256('{incarnation}{task}{version}'), 'hex')",
                   f"(select pgrab_internal.run_proof({incarnation}, {task}, {version}))")
        forged = " ".join(f"""begin perform pgrab_sql.finish({task}, {version}, {guess}, 1, 'forged', false); raise exception 'taken';
                              exception when serialization_failure or insufficient_privilege then null; end;""" for guess in guesses)
        assert error(db, alice, f"select pgrab_sql.finish({task}, {version}, 'x', 1, 'forged', false)").endswith("(SQLSTATE 40001)")
        output(db, alice, f"do $$ begin {forged} {forged} end $$")
        assert db.one("select status from pgrab.task where id = %s", task) == "running" and not db.runs(task)
    run = db.wait_run(task)
    assert run.outcome == "succeeded" and "forged" not in (run.output or "") and run.owner == victim and run.node == "n1"
    assert len(db.runs(task)) == 1
    with db.connect(user=victim) as conn:
        assert conn.execute(f"select count(*) from {victim}.eff").fetchone()[0] == 1


def test_what_is_planted_in_public_is_never_run(db, nodes, at_home, alice):
    """Better matches for what the node's functions call, by somebody who may make things in public."""
    db.cluster.superuser(f"grant create on schema public to {alice}; create table public.trap (who text, session text); "
                         "grant all on public.trap to public", db.name)
    body = "language plpgsql volatile as $$ begin insert into public.trap values (current_user, session_user); return null; end $$"
    with db.connect(user=alice) as conn:
        for name, args in (("cardinality", "text[]"), ("num_nulls", "text, text"), ("octet_length", "varchar"), ("concat", "text, text"), ("div", "int, int"),
                           ("array_append", "text[], text"), ("row_to_json", "record"), ("sha256", "text"), ("encode", "bytea, varchar"),
                           ("set_config", "text, text, bool"), ("pg_backend_pid", ""), ("pg_advisory_unlock_all", ""), ("int8send", "int")):
            conn.execute(f"create function public.{name}({args}) returns text {body}")
        for i, (op, left, right) in enumerate((("=", "text", "name"), ("=", "varchar", "text"), ("<>", "varchar", "text"), (">", "integer", "bigint"),
                                               ("-", "integer", "smallint"), ("<", "integer", "smallint"))):
            conn.execute(f"create function public.trap_{i}({left}, {right}) returns bool {body}")
            conn.execute(f"create operator public.{op} (leftarg = {left}, rightarg = {right}, function = public.trap_{i})")
    node = db.one("select current_user")
    for owner in (node, alice):
        assert output(db, owner, "set search_path = public, pg_catalog; values (1, 'a'), (2, 'b')") == "1|a\n2|b"
        assert output(db, owner, "set search_path = public, pg_catalog; select from (values (1)) x") is None
    assert output(db, node, "select $1::int", args={"params": [5]}) == "5"
    output(db, alice, "create function pg_temp.finish(bigint) returns int language sql as 'select 1'; create temporary table task (id int)")
    db.wait_run(db.add(kind="noop"))
    assert db.query("select distinct who, session from public.trap where who <> %s", alice) == []


LEFT = """select pg_backend_pid(), current_user, current_setting('search_path'), current_setting('work_mem'),
  coalesce(current_setting('my.word', true), ''), (select count(*) from pg_prepared_statements where from_sql),
  (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where name = 'leave'),
  (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
  (select count(*) from pg_class where relpersistence = 't' and relname = 'left_table')"""


@pytest.mark.parametrize("whose", ["the node's own", "another's"])
@pytest.mark.parametrize("ends", ["well", "badly"])
def test_nothing_of_one_run_reaches_the_next(db, nodes, at_home, alice, roles, whose, ends):
    other = roles("other")
    owner = alice if whose == "another's" else db.one("select current_user")
    db.query(f"grant {other} to {owner}")
    before = output(db, owner, LEFT)
    text = f"""create temporary table left_table (n int); set work_mem = '7MB'; set my.word = 'secret'; listen leave; prepare leave as select 1;
      declare leave cursor with hold for select 1 as leave; select pg_advisory_lock(4711); set search_path = nowhere; set role {other}"""
    if ends == "well":
        output(db, owner, text)
    else:
        assert "division by zero" in error(db, owner, text + "; select 1/0")
    # The first column is the backend: on the same connection, but that a pooler has several.
    same = slice(None) if not THROUGH_IT else slice(1, None)
    assert output(db, owner, LEFT).split("|")[same] == before.split("|")[same]


@pytest.mark.parametrize("whose", ["the node's own", "another's"])
def test_a_text_that_makes_its_finish_impossible_fails_and_does_not_come_back_for_ever(db, nodes, at_home, alice, whose):
    owner = alice if whose == "another's" else db.one("select current_user")
    assert "the transaction is read-only" in error(db, owner, "select 1; set transaction_read_only = on")


def test_a_connection_that_a_library_may_keep_something_in_is_closed(db, nodes, at_home, alice):
    db.cluster.superuser(f"create extension dblink; grant execute on function dblink_connect_u(text, text) to {alice}", db.name)
    to = as_user(db, alice) + " application_name=kept"
    output(db, alice, f"select public.dblink_connect_u('kept', '{to}')")
    wait_until(lambda: db.one("select count(*) from pg_stat_activity where application_name = 'kept'") == 0, 5, "the end of the connection that the text had opened")


def test_a_deferred_trigger_that_fires_at_commit_is_still_its_owners(db, nodes, at_home, alice):
    """It queues itself again from within, and so comes after the node's finish."""
    with db.connect(user=alice) as conn:
        conn.execute(f"""create table {alice}.t (n int); create table {alice}.seen (n int, who name, session name);
          create function {alice}.again() returns trigger language plpgsql as $$ begin
            insert into {alice}.seen values (new.n, current_user, session_user);
            begin execute 'select * from pgrab_internal.run_key'; insert into {alice}.seen values (-1); exception when insufficient_privilege then null; end;
            if new.n < 4 then set constraints all deferred; insert into {alice}.t values (new.n + 1); end if; return null; end $$;
          create constraint trigger again after insert on {alice}.t deferrable initially deferred for each row execute function {alice}.again()""")
    output(db, alice, f"insert into {alice}.t values (1)")
    with db.connect(user=alice) as conn:
        seen = conn.execute(f"select * from {alice}.seen order by n").fetchall()
    assert [(r.n, r.who, r.session) for r in seen] == [(n, alice, alice) for n in (1, 2, 3, 4)]


def test_a_deferred_trigger_that_fires_at_commit_leaves_nothing_to_the_next_run(db, nodes, at_home, alice):
    with db.connect(user=alice) as conn:
        conn.execute(f"""create table {alice}.t (n int);
          create function {alice}.again() returns trigger language plpgsql as $$ begin
            if new.n = 1 then set constraints all deferred; insert into {alice}.t values (2); return null; end if;
            set search_path = {alice}; set statement_timeout = '1h'; listen left_over; perform pg_advisory_lock(4711); create temp table left_over (n int);
            return null; end $$;
          create constraint trigger again after insert on {alice}.t deferrable initially deferred for each row execute function {alice}.again()""")
    left = """select array[current_setting('search_path'), current_setting('statement_timeout'),
        (select string_agg(c, ' ') from pg_listening_channels() c), (select count(*)::text from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
        to_regclass('pg_temp.left_over')::text]"""
    before = output(db, alice, left)
    output(db, alice, f"insert into {alice}.t values (1)")
    assert output(db, alice, left) == before


def test_texts_of_one_owner_are_one_transaction_and_those_of_two_never(db, nodes, config, alice, roles):
    bob = roles("bob")
    nodes.start("n1", workers=2, sql_group=20, config=config(login(db, alice, bob)))
    for owner in alice, bob:
        with db.connect(user=owner) as conn:
            conn.execute(f"create table {owner}.eff (n int, who name default session_user, x xid8 default pg_current_xact_id())")
            conn.execute("insert into pgrab.task (command) select format('insert into %I.eff values (%s); select %s', current_user, n, n) from generate_series(1, 300) n")
    wait_until(lambda: not db.query("select from pgrab.task"), 30, "all to be done")
    effects = []
    for owner in alice, bob:
        with db.connect(user=owner) as conn:
            effects.append(conn.execute(f"select n, who, x from {owner}.eff").fetchall())
    for owner, rows in zip((alice, bob), effects):
        assert sorted(row[0] for row in rows) == list(range(1, 301)) and {row[1] for row in rows} == {owner}
        assert len({row[2] for row in rows}) < 250
        assert db.one("select count(distinct output) from pgrab.run where owner = %s and outcome = 'succeeded' and attempt = 1", owner) == 300
    assert not {row[2] for row in effects[0]} & {row[2] for row in effects[1]}


# --------------------------------------------------------------------------------------------------- what can be lost
@pytest.mark.parametrize("cut", ["after the finish was sent", "before", "in silence"])
def test_a_lost_connection_of_an_owner_leaves_one_effect(db, nodes, config, alice, cut):
    proxy = Proxy(as_user(db, alice))
    try:
        nodes.start("n1", workers=1, config=config(login(db, alice, **{alice: proxy.dsn})))
        with db.connect(user=alice) as conn:
            conn.execute(f"create table {alice}.eff (n int)")
        output(db, alice, "select 1")
        if cut == "in silence":
            proxy.swallow = b"pgrab_sql.finish"
        else:
            proxy.until = b"pgrab_sql.finish" if cut == "after the finish was sent" else b"pgrab_sql.settle"
        task = db.add_as(alice, kind="sql", command=f"insert into {alice}.eff values (1)", backoff="0", timeout="2 s")
        if cut == "in silence":
            db.wait("select last_outcome is not null from pgrab.task where id = %s", task, timeout=20)
            proxy.swallow = None
        db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'succeeded')", task, timeout=20)
        with db.connect(user=alice) as conn:
            assert conn.execute(f"select count(*) from {alice}.eff").fetchone()[0] == 1
        assert len([r for r in db.runs(task) if r.outcome == "succeeded"]) == 1
    finally:
        proxy.close()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_what_a_dead_node_ran_for_an_owner_is_ended_before_it_runs_again(db, nodes, config, alice, how):
    first = nodes.start("n1", workers=2, config=config(login(db, alice)))
    with db.connect(user=alice) as conn:
        conn.execute(f"create table {alice}.eff (n int)")
    task = db.add_as(alice, kind="sql", command=f"insert into {alice}.eff values (1); select pg_sleep({3 if how == 'killed' else 6})")
    wait_until(lambda: at_work(db, alice, "select pg_sleep%") == 1, 10, "the run")
    nodes.start("n2", config=config(login(db, alice)))
    first.kill9() if how == "killed" else first.stop()
    db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'succeeded')", task, timeout=25)
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]
    with db.connect(user=alice) as conn:
        assert conn.execute(f"select count(*) from {alice}.eff").fetchone()[0] == 1


# -------------------------------------------------------------------------------------------------------- the file
@pytest.mark.parametrize("fault", ["another role", "a superuser", "another database", "both"])
def test_a_login_that_is_not_the_owners_is_a_fault_of_the_file(db, nodes, config, alice, roles, fault):
    bob = roles("bob")
    text, says = {
        "another role": (f"[owner {alice}]\ndsn = {as_user(db, bob)}\n", f"owner {alice} is one of role {bob}"),
        "a superuser": (f"[owner postgres]\ndsn = {as_user(db, 'postgres')}\n", "postgres is a superuser"),
        "another database": (f"[owner {alice}]\ndsn = {conninfo.make_conninfo(as_user(db, alice), dbname='postgres')}\n", "is to database postgres"),
        "both": (f"[owner {alice}]\nservice = x\ndsn = {as_user(db, alice)}\n", "both a service and a dsn")}[fault]
    node = nodes.start("n1", wait=False, config=config(text))
    assert node.wait_exit() == 1
    assert says in node.log()


def test_each_owner_is_served_by_the_nodes_that_can_log_in_as_him(db, nodes, config, alice, roles):
    bob = roles("bob")
    nodes.start("n1", config=config(login(db, alice)), steal_after="60s")
    nodes.start("n2", config=config(login(db, bob)), steal_after="60s")
    for owner in (alice, bob):
        with db.connect(user=owner) as conn:
            conn.execute("insert into pgrab.task (kind, command) select 'sql', 'select session_user' from generate_series(1, 40)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert db.query("select distinct owner, node, output from pgrab.run order by node") == [(alice, "n1", alice), (bob, "n2", bob)]
    node = db.one("select current_user")
    assert [r.owners for r in db.query("select owners from pgrab.node order by name")] == [[node, alice], [node, bob]]


def test_an_owner_whose_login_breaks_is_left_to_others_until_it_works_again(db, nodes, config, alice):
    n1 = nodes.start("n1", config=config(login(db, alice)))
    node = db.one("select current_user")
    db.query(f"alter role {alice} nologin")
    with db.connect(user=node) as conn:  # she may own tasks all the same
        conn.execute(f"grant {alice} to {node}")
        conn.execute(f"set role {alice}")
        task = conn.execute("insert into pgrab.task (kind, command) values ('sql', 'select session_user') returning id").fetchone()[0]
    db.wait(f"select owners = array['{node}']::text[] from pgrab.node", timeout=20)
    wait_until(lambda: db.one("select pgrab.why(%s)", task) == f"no live node has a connection for owner {alice}", 10)
    stays(lambda: db.one("select (status, attempt)::text from pgrab.task where id = %s", task) == "(scheduled,0)", 1)
    assert f'owner="{alice}"' in n1.log()
    assert "event=owner_out" in n1.log() and "not permitted to log in" in n1.log()
    db.query(f"alter role {alice} login")
    run = db.wait_run(task, timeout=20)
    assert (run.outcome, run.attempt, run.output) == ("succeeded", 1, alice)
    db.wait(f"select owners = array['{node}', '{alice}']::text[] from pgrab.node", timeout=10)
    assert "event=owner_back" in n1.log()


# -------------------------------------------------------------------------------------------------- what it hands back
def test_errors_keep_their_details_and_notices_are_output(db, nodes, at_home, alice):
    with db.connect(user=alice) as conn:
        conn.execute(f"""create table {alice}.u (n int primary key);
          create function {alice}.fail() returns int language plpgsql as $$ begin raise notice 'deep'; return 1 / 0; end $$""")
    said = error(db, alice, f"insert into {alice}.u values (1); insert into {alice}.u values (1)")
    assert "duplicate key" in said and "DETAIL: Key (n)=(1) already exists." in said and said.endswith("(statement 2 of 2, SQLSTATE 23505)")
    said = error(db, alice, f"select 1; select {alice}.fail(); select 3")
    assert "division by zero" in said and "fail() line 1 at RETURN" in said
    assert "statement 2 of 3" in said and "pgrab_sql" not in said
    assert db.one("select output from pgrab.run where error like 'division%%'") == "NOTICE:  deep\n"
    assert output(db, alice, "do $$ begin raise notice 'one'; raise warning 'two'; end $$; select 3") == "NOTICE:  one\nWARNING:  two\n3"
    many = output(db, alice, "do $$ begin for i in 1..20000 loop raise notice 'number %', i; end loop; end $$; select 'end'")
    assert many.startswith("NOTICE:  number 1\n") and many.endswith("NOTICE:  number 20000\nend") and "bytes dropped" in many and len(many) <= 65536
    rows = output(db, alice, "select * from generate_series(1, 100000)")
    assert rows.startswith("1\n2\n") and rows.endswith("\n100000") and "bytes dropped" in rows and len(rows) <= 65536


# ------------------------------------------------------------------------------------------- outside a transaction
ALONE = {"transaction": False}


@pytest.mark.parametrize("whose", ["the node's own", "another's"])
def test_a_statement_outside_of_a_transaction(db, nodes, at_home, alice, whose):
    owner = alice if whose == "another's" else db.one("select current_user")
    db.cluster.superuser(f"grant all on schema {alice} to {owner}", db.name)
    with db.connect(user=owner) as conn:
        conn.execute(f"""create table {alice}.big as select n from generate_series(1, 1000) n;
          create procedure {alice}.steps(inout p int) language plpgsql as $$ begin
            for i in 1..3 loop insert into {alice}.big values (-i); commit; end loop; raise notice 'done'; p := p + 1; end $$""")
    for text in (f"vacuum {alice}.big", f"create index concurrently big_n on {alice}.big (n)"):
        assert "args.transaction = false" in error(db, owner, text)
        output(db, owner, text, args=ALONE)
    assert "args.transaction = false" in error(db, owner, f"call {alice}.steps(1)")
    assert output(db, owner, f"call {alice}.steps(41)", args=ALONE) == "NOTICE:  done\n42"
    assert output(db, owner, "select $1::int + 1", args={**ALONE, "params": [2]}) == "3"
    assert db.one("select indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid where c.relname = 'big_n'")
    assert "exactly one statement" in error(db, owner, "select 1; select 2", args=ALONE)
    assert "opened a transaction" in error(db, owner, "begin", args=ALONE)
    assert "there is no client" in error(db, owner, "copy (select 1) to stdout", args=ALONE)
    assert output(db, owner, "select current_user") == owner


def test_a_statement_outside_of_a_transaction_is_cancelled(db, nodes, at_home, alice):
    task = db.add_as(alice, kind="sql", command="select pg_sleep(60)", args=ALONE)
    wait_until(lambda: at_work(db, alice, "select pg_sleep(60)") == 1, 10, "the statement")
    db.query("select pgrab.cancel(%s)", task)
    assert db.wait_run(task).outcome == "cancelled"
    assert at_work(db, alice, "select pg_sleep(60)") == 0


def test_a_node_that_dies_in_a_statement_outside_of_a_transaction(db, nodes, config, alice):
    first = nodes.start("n1", config=config(login(db, alice)))
    again = db.add_as(alice, kind="sql", command="select pg_sleep(3)", args=ALONE)
    once = db.add_as(alice, kind="sql", command="select pg_sleep(3.5)", args=ALONE, delivery="at_most_once")
    wait_until(lambda: at_work(db, alice, "select pg_sleep(3%") == 2, 10, "both statements")
    nodes.start("n2", config=config(login(db, alice)))
    first.kill9()
    db.wait("select exists (select from pgrab.run where task_id = %s and outcome = 'succeeded')", again, timeout=25)
    assert [r.outcome for r in db.runs(again)] == ["lost", "succeeded"]
    db.wait("select status = 'parked' from pgrab.task where id = %s", once)
    assert [r.outcome for r in db.runs(once)] == ["lost"]
