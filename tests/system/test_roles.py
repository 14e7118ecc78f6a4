"""Separate roles, made by a role that is no superuser: each does its part with a real node, and nothing else."""
import json
import re

import psycopg
import pytest
from cluster import ROOT, Db, Nodes, in_schema, migrate_beside_nodes, run_pgrab, stays
from psycopg import conninfo, errors, sql

GROUPS = {"alice": "pgrab_submit", "bob": "pgrab_submit", "op": "pgrab_operator", "rd": "pgrab_read", "machine": "pgrab_node"}


class Roles:
    """A database whose owner may make roles and nothing more, and a login for each part."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.boss = self.role("boss", "createrole")
        name = f"{cluster.prefix}_roles"
        cluster.admin(sql.SQL("grant {} to current_user").format(sql.Identifier(self.boss)))
        cluster.admin(sql.SQL("create database {} owner {}").format(sql.Identifier(name), sql.Identifier(self.boss)))
        self.rule_over_groups("grant", "to", "with admin true, inherit false, set false")
        self.db = Db(cluster, name)

    def rule_over_groups(self, verb, to, how):
        """From 16 on a role with CREATEROLE rules only over roles that it has made; those of the server may be another boss's."""
        self.cluster.superuser(f"""do $$
            declare r record;
            begin
              if current_setting('server_version_num')::integer >= 160000 then
                for r in select rolname from pg_roles where rolname ~ '^pgrab_(owner|node|submit|operator|read|serve|kind_.*)$' loop
                  execute format('{verb} %I {to} %I {how}', r.rolname, '{self.boss}');
                end loop;
              end if;
            end $$""")

    def role(self, word, options=""):
        name = f"{self.cluster.prefix}_{word}"
        self.cluster.admin(sql.SQL("create role {} login " + options).format(sql.Identifier(name)))
        return name

    def dsn(self, word):
        return conninfo.make_conninfo(self.db.dsn, user=f"{self.cluster.prefix}_{word}")

    def members(self):
        for word, group in GROUPS.items():
            name = self.role(word)
            self.ask("boss", f'grant {group} to "{name}"')

    def ask(self, word, statement, *params):
        with psycopg.connect(self.dsn(word), autocommit=True) as conn:
            cursor = conn.execute(in_schema(statement, self.db.schema), params or None)
            return cursor.fetchall() if cursor.description else []

    def close(self):
        self.db.close()
        self.cluster.drop_database(self.db.name)
        for word in GROUPS:
            self.cluster.superuser(f'drop role if exists "{self.cluster.prefix}_{word}"')
        self.rule_over_groups("revoke", "from", "cascade")
        self.cluster.superuser(f'drop role if exists "{self.cluster.prefix}_boss"')


@pytest.fixture(scope="module")
def roles(shared_server):
    made = Roles(shared_server)
    try:
        run_pgrab("migrate", dsn=made.dsn("boss"), timeout=60)
        made.ask("boss", "insert into pgrab.kind (kind, summary, handled) values ('mail', 'x', true)")
        made.ask("boss", """insert into pgrab.task (kind, command, key, schedule, on_failure)
            values ('noop', '', 'old', '@every 1h', '{"kind": "http", "command": "http://x"}'), ('shell', 'echo on', 'old shell', '@every 1h', null),
              ('mail', '', 'old mail', '@every 1h', null)""")
        made.converted = run_pgrab("migrate", "--roles", dsn=made.dsn("boss"), timeout=60).stdout
        made.members()
        yield made
    finally:
        made.close()


@pytest.fixture
def node(roles, tmp_path):
    """A node that logs in as a member of pgrab_node."""
    nodes = Nodes(roles.db, tmp_path)
    yield nodes
    nodes.end()


def insert(roles, word, **columns):
    names = ", ".join(columns)
    values = ", ".join(["%s"] * len(columns))
    return roles.ask(word, f"insert into pgrab.task ({names}) values ({values}) returning id", *columns.values())[0][0]


def ended(roles, task, timeout=15.0):
    return roles.db.wait(f"select max(outcome) from pgrab.run where task_id = {task} and ended is not null", timeout=timeout)


@pytest.fixture(autouse=True)
def look_as_operator(roles):
    """What the tests look at themselves they see as an operator."""
    roles.db.close()
    roles.db.conn = psycopg.connect(roles.dsn("op"), autocommit=True, row_factory=psycopg.rows.namedtuple_row)


def start(roles, node, name="n1", **options):
    return node.start(name, dsn=roles.dsn("machine"), **options)


def test_all_belongs_to_a_role_that_nobody_is(roles):
    owners = roles.ask("boss", """select distinct pg_get_userbyid(c.relowner) from pg_class c where c.relnamespace in ('pgrab'::regnamespace,
        'pgrab_internal'::regnamespace) union select pg_get_userbyid(p.proowner) from pg_proc p where p.pronamespace in ('pgrab'::regnamespace,
        'pgrab_internal'::regnamespace, 'pgrab_tool'::regnamespace)""")
    assert owners == [("pgrab_owner",)]
    assert roles.ask("boss", "select rolcanlogin, rolsuper from pg_roles where rolname = 'pgrab_owner'") == [(False, False)]
    assert "up to date" in run_pgrab("migrate", dsn=roles.dsn("boss"), timeout=60).stdout
    assert "up to date" in run_pgrab("migrate", "--roles", dsn=roles.dsn("boss"), timeout=60).stdout


def test_who_may_neither_migrate_nor_run_a_node_is_told_who_may(roles):
    said = run_pgrab("migrate", "--force", dsn=roles.dsn("alice"), check=False)
    assert said.returncode == 1 and "It takes the owner of the schema" in said.stderr and "_submit" not in said.stderr, said.stderr
    said = run_pgrab("run", dsn=roles.dsn("alice"), check=False)
    assert said.returncode == 1 and "permission denied for" in said.stderr and "_node to this role" in said.stderr, said.stderr


def test_turns_and_preferences_need_no_more_than_a_node_and_a_submitter_have(roles, node):
    """A backlog, so that looks in turns are made; explained to the one who submitted it."""
    roles.ask("alice", "insert into pgrab.task (kind, share_key) select 'noop', 'k' || i % 7 from generate_series(1, 3000) i")
    task = insert(roles, "alice", kind="noop", share_key="k1")
    away = insert(roles, "alice", kind="noop", prefer='{"site": "hq"}', failover_after="1 h")
    gates = [gate for task_id in (task, away) for gate, in roles.ask("alice", "select gate from pgrab.explain(%s)", task_id)]
    assert "turn" in gates and "preferred nodes" in gates, gates
    started = start(roles, node)
    roles.db.wait("select not exists (select from pgrab.task where share_key is not null)", timeout=30)
    assert "permission" not in started.log() and "event=look " not in started.log()
    roles.ask("alice", "select pgrab.cancel(%s)", away)


def test_quotas_are_for_operators_and_hold_for_the_tasks_of_others(roles, node):
    """Each role sees its own; the node needs no more than it has to let one run after the other, and to let go what was held."""
    alice, bob = (f"{roles.cluster.prefix}_{who}" for who in ("alice", "bob"))
    for who in ("alice", "machine", "rd"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            roles.ask(who, "insert into pgrab.quota (owner, max_tasks) values (%s, 1)", alice)
    roles.ask("op", "insert into pgrab.quota (owner, max_running, max_tasks, when_full) values (%s, 1, 3, 'hold'), (%s, null, 2, 'refuse')", alice, bob)
    assert roles.ask("alice", "select owner, max_running from pgrab.quotas") == [(alice, 1)]
    assert len(roles.ask("rd", "select owner, held from pgrab.quotas")) == 2
    roles.ask("bob", "insert into pgrab.task (kind, run_at) select 'noop', '2099-01-01' from generate_series(1, 2)")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="is full: max_tasks 2"):
        insert(roles, "bob", kind="noop")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot write quotas"):
        roles.ask("bob", "select pgrab.apply(%s)", '{"tasks": [], "quotas": [{"share_key": "x", "max_tasks": 1}]}')
    roles.ask("alice", "insert into pgrab.task (name, kind) select 'q', 'noop' from generate_series(1, 12)")
    assert roles.ask("alice", "select tasks, held from pgrab.quotas") == [(3, 9)]
    started = start(roles, node)
    roles.db.wait("select count(*) = 12 from pgrab.run where name = 'q' and outcome = 'succeeded'", timeout=30)
    assert "permission" not in started.log()
    roles.ask("op", "delete from pgrab.quota")  # the tests that follow have the same roles


def test_a_membership_counts_as_far_as_it_is_inherited(roles):
    """As it does for tables.  From PostgreSQL 16 on there is one that gives nothing at all, and one without SET."""
    him, alice, group = roles.role("sudo"), f"{roles.cluster.prefix}_alice", roles.role("oncall", "noinherit")
    try:
        roles.ask("boss", f'grant pgrab_operator to "{group}"')
        roles.ask("boss", f'grant "{group}", pgrab_submit to "{him}"')
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for function pause_all"):
            roles.ask("sudo", "select pgrab.pause_all()")
        with psycopg.connect(roles.dsn("sudo"), options="-c role=pgrab_operator") as conn:
            assert conn.execute("select paused from pgrab.pause_all()").fetchall() == [(True,)]
            conn.rollback()
        if roles.ask("boss", "select current_setting('server_version_num')::integer >= 160000")[0][0]:
            roles.ask("boss", f'grant "{alice}" to "{him}" with inherit true, set false')
            with pytest.raises(errors.InsufficientPrivilege, match="you may not act as role"):
                roles.ask("sudo", f"select pgrab.token_add('x', '{alice}')")
    finally:
        roles.cluster.superuser(f'drop role "{him}"')
        roles.cluster.superuser(f'drop role "{group}"')


def test_what_ran_before_goes_on(roles, node):
    boss = f"{roles.cluster.prefix}_boss"
    for kind in ("noop", "shell", "http", "mail"):
        assert f"applying grant pgrab_kind_{kind} to {boss}" in roles.converted, roles.converted
    assert "kind_exec" not in roles.converted
    start(roles, node)
    for key in ("old", "old shell"):
        task = roles.ask("boss", f"select id from pgrab.run_now('{key}')")[0][0]
        roles.db.wait(f"select exists (select from pgrab.run where task_id = {task} and outcome = 'succeeded')")
    roles.ask("boss", f'revoke pgrab_kind_shell from "{boss}"')
    assert "grant" not in migrate_beside_nodes("--roles", dsn=roles.dsn("boss"), timeout=60).stdout, "what was revoked stays so"
    roles.ask("boss", "select pgrab.delete(array(select id from pgrab.task where key like 'old %'))")


def test_a_node_does_all_its_work_as_pgrab_node(roles, node):
    n = start(roles, node)
    plain = insert(roles, "alice", kind="noop")
    failing = insert(roles, "alice", kind="noop", command="", args=json.dumps({}), max_attempts=2, schedule="@every 1h", key="hourly")
    parent = insert(roles, "alice", kind="noop")
    child = insert(roles, "alice", kind="noop", parent_id=insert(roles, "alice", kind="noop", run_at="2099-01-01"))
    roles.ask("alice", "insert into pgrab.limit (key, max_running) values ('mine', 1)")
    limited = insert(roles, "alice", kind="noop", limit_key="mine")
    once = insert(roles, "alice", kind="notify", command="hello", delivery="at_most_once")
    for task in (plain, parent, limited, once):
        assert ended(roles, task) == "succeeded"
    roles.ask("alice", "select pgrab.run_now(%s), pgrab.run_now((select parent_id from pgrab.task where id = %s))", failing, child)
    assert ended(roles, child) == "succeeded"
    roles.db.wait(f"select exists (select from pgrab.run where task_id = {failing})")
    assert "permission denied" not in n.log() and "event=error" not in n.log(), n.log()


def test_what_a_dead_node_held_is_taken_over(roles, node):
    first = start(roles, node, "dead")
    roles.ask("boss", f'grant pgrab_kind_shell to "{roles.cluster.prefix}_alice"')
    task = insert(roles, "alice", kind="shell", command="sleep 2; true")
    roles.db.wait(f"select status = 'running' from pgrab.task where id = {task}")
    first.kill9()
    second = start(roles, node, "heir")
    assert ended(roles, task, timeout=40) == "succeeded"
    assert "permission denied" not in second.log(), second.log()
    roles.ask("boss", f'revoke pgrab_kind_shell from "{roles.cluster.prefix}_alice"')


def test_a_kind_is_a_grant(roles):
    with pytest.raises(errors.InsufficientPrivilege, match="may not have tasks of kind shell"):
        insert(roles, "bob", kind="shell", command="id")
    task = insert(roles, "bob", kind="noop", run_at="2099-01-01")
    with pytest.raises(errors.InsufficientPrivilege, match="kind shell"):
        roles.ask("bob", "update pgrab.task set kind = 'shell', command = 'id' where id = %s", task)


def test_what_was_revoked_is_not_taken(roles, node):
    grantee = f'"{roles.cluster.prefix}_alice"'
    roles.ask("boss", f"grant pgrab_kind_shell to {grantee}")
    task = insert(roles, "alice", kind="shell", command="true")
    roles.ask("boss", f"revoke pgrab_kind_shell from {grantee}")
    start(roles, node)
    assert ended(roles, insert(roles, "alice", kind="noop")) == "succeeded"
    stays(lambda: roles.db.one("select status from pgrab.task where id = %s", task) == "scheduled", 4)
    assert "may not have tasks of kind shell any more" in roles.db.one("select why from pgrab.late where id = %s", task)
    assert ("kind", "blocked") in roles.ask("alice", "select gate, verdict from pgrab.explain(%s)", task)
    roles.ask("alice", "select pgrab.delete(%s)", task)


def test_doctor_says_who_may_run_shell_and_as_whom(roles, node):
    def said():
        lines = run_pgrab("doctor", dsn=roles.dsn("op"), check=False).stdout.splitlines()
        return next(line for line in lines if line.startswith("shell and exec"))

    assert said().endswith("no node runs them")
    start(roles, node)
    alice = f"{roles.cluster.prefix}_alice"
    assert alice not in said() and "on n1 they run as user" in said() and "the user of the node itself (no run_as)" in said()
    roles.ask("boss", f'grant pgrab_kind_exec to "{alice}"')
    assert re.search(f"allowed for: .*{alice}.*, and the owner of pgrab;", said())
    roles.ask("boss", f'revoke pgrab_kind_exec from "{alice}"')


@pytest.mark.parametrize("how", ["claimed ahead", "under a limit", "of an instant kind"])
def test_what_is_revoked_between_claim_and_start_is_not_started(roles, node, how):
    grantee = f'"{roles.cluster.prefix}_alice"' if how != "of an instant kind" else "pgrab_submit"
    kind = "noop" if how == "of an instant kind" else "shell"
    # Granted first: a node that has read its lanes hears of a grant for a lane that there is already in half a minute.
    roles.ask("boss", f"grant pgrab_kind_{kind} to {grantee}")
    n = start(roles, node, lookahead="0" if kind == "noop" else "5s", log_level="debug")
    more = {}
    if how == "under a limit":
        roles.ask("alice", "insert into pgrab.limit (key, max_running) values ('narrow', 1)")
        more["limit_key"] = "narrow"
    # The lane is known to the node before.
    assert ended(roles, insert(roles, "alice", kind=kind, command="true", **more)) == "succeeded"
    task = insert(roles, "alice", kind=kind, command="echo never", run_at=roles.ask("alice", "select now() + interval '2 s'")[0][0], **more)
    if kind == "shell":
        roles.db.wait(f"select status = 'claimed' from pgrab.task where id = {task}")
    roles.ask("boss", f"revoke pgrab_kind_{kind} from {grantee}")
    try:
        roles.db.wait(f"select due_at < now() - interval '1 s' and status = 'scheduled' from pgrab.task where id = {task}")
        stays(lambda: roles.db.one("select status = 'scheduled' and attempt = 0 from pgrab.task where id = %s", task), 2)
        assert roles.db.one("select count(*) from pgrab.run where task_id = %s", task) == 0
        assert f"may not have tasks of kind {kind} any more" in roles.db.one("select why from pgrab.late where id = %s", task)
        assert ("kind", "blocked") in roles.ask("alice", "select gate, verdict from pgrab.explain(%s)", task)
        assert n.log().count("event=released") < 20, "it is not taken again and again"
    finally:
        roles.ask("alice", "select pgrab.delete(%s)", task)
        roles.ask("alice", "select pgrab.delete_limit('narrow')")
        if kind == "noop":
            roles.ask("boss", f"grant pgrab_kind_{kind} to {grantee}")


@pytest.mark.parametrize("what, statement", [
    ("blackout", "insert into pgrab.blackout (name, during) select 'z' || i, tstzrange(now(), now() + interval '1 day') from generate_series(1, 100) i"),
    ("alert", """insert into pgrab.alert (name, events, task_like, template) select 'z' || i, '{succeeded}', '%%', '{"kind": "noop"}' from generate_series(1, 100) i""")])
def test_all_that_one_submitter_may_set_up_holds_up_nobody_else(roles, node, what, statement):
    """Before, 500 tasks took a minute and more."""
    start(roles, node)
    roles.ask("alice", statement)
    try:
        roles.ask("bob", "insert into pgrab.task (kind, source) select 'noop', 'flood' from generate_series(1, 500)")
        roles.db.wait("select not exists (select from pgrab.task where source = 'flood')", timeout=15)
    finally:
        roles.ask("alice", f"select pgrab.delete_{what}(name) from pgrab.{what}")


def test_a_submitter_sees_and_changes_only_his_own(roles):
    task = insert(roles, "alice", kind="noop", run_at="2099-01-01", key="hers", name="payroll")
    assert roles.ask("bob", "select from pgrab.task where id = %s", task) == []
    assert roles.ask("bob", "select from pgrab.tasks where id = %s", task) == []
    assert roles.ask("bob", "select count(*) from pgrab.export() e where e::text like '%%hers%%'") == [(0,)]
    for call in ("pause", "cancel", "run_now", "delete", "explain", "delete_chain"):
        with pytest.raises(errors.NoDataFound, match="does not exist"):
            roles.ask("bob", f"select pgrab.{call}(%s::bigint)", task)
    with pytest.raises(errors.NoDataFound, match="no task has the key or name 'hers'"):
        roles.ask("bob", "select pgrab.pause('hers')")
    with pytest.raises(errors.RaiseException, match="there is no such task|cannot be a parent") as refused:
        try:
            insert(roles, "bob", kind="noop", parent_id=task)
        except psycopg.Error as e:
            assert "alice" not in str(e)
            raise errors.RaiseException(str(e)) from e
    assert "there is no such task" in str(refused.value)
    with pytest.raises(errors.UniqueViolation):
        insert(roles, "bob", kind="noop", key="hers")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("bob", "insert into pgrab.task (kind, key) values ('noop', 'hers') on conflict (key) do update set kind = 'notify', command = 'x'")
    with pytest.raises(psycopg.Error, match="the key is taken"):
        roles.ask("bob", """select pgrab.apply('[{"key": "hers", "kind": "noop"}]')""")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("bob", "insert into pgrab.task (kind, owner) values ('noop', 'alice')")
    for column in ("version = 1", "status = 'running'", "owner = 'bob'", "due_at = now()"):
        with pytest.raises(errors.InsufficientPrivilege):
            roles.ask("alice", f"update pgrab.task set {column} where id = %s", task)
    assert roles.ask("alice", "select pgrab_tool.id_of('hers')") == [(task,)]
    assert len(roles.ask("alice", "select pgrab.delete('hers')")) == 1


def test_operators_say_when_and_never_what(roles):
    task = insert(roles, "alice", kind="noop", run_at="2099-01-01")
    roles.ask("op", "update pgrab.task set run_at = '2098-01-01', priority = 50 where id = %s", task)
    with pytest.raises(errors.InsufficientPrivilege, match="cannot change what it runs"):
        roles.ask("op", "update pgrab.task set kind = 'notify', command = 'x' where id = %s", task)
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("op", "update pgrab.task set owner = 'x' where id = %s", task)
    assert len(roles.ask("op", "select pgrab.pause(%s)", task)) == 1
    assert len(roles.ask("op", "select pgrab.cancel(%s)", task)) == 1
    assert roles.ask("op", "select paused from pgrab.pause_all()") == [(True,)]
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("alice", "select pgrab.resume_all()")
    roles.ask("op", "select pgrab.resume_all()")


@pytest.mark.deadline(60)
def test_who_sees_only_its_own_reads_nothing_of_others(roles):
    """Conditions on the due index would show what row security hides, so PostgreSQL would read all tasks instead.  Asked twice, because the
    first time a connection reads the catalog, too."""
    roles.ask("bob", "insert into pgrab.task (kind, source) select 'noop', 'many' from generate_series(1, 20000)")
    roles.ask("boss", "delete from pgrab.task where owner like '%alice'")
    task = insert(roles, "alice", kind="noop")
    roles.ask("boss", "analyze pgrab.task")
    with psycopg.connect(roles.dsn("alice"), autocommit=True) as alice:
        for what in ("id from pgrab.due", "id from pgrab_tool.due_first(now(), '{scheduled}', 10)", "k from pgrab_tool.of_kind('noop') k"):
            what = in_schema(what, roles.db.schema)
            assert alice.execute(f"select {what}").fetchall() == [(task,)]
            plan = alice.execute(f"explain (analyze, buffers, format json) select {what}").fetchone()[0][0]["Plan"]
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100, what
    roles.ask("boss", "delete from pgrab.task where source = 'many'")


def test_readers_read(roles):
    task = insert(roles, "alice", kind="noop", run_at="2099-01-01")
    for view in ("overview", "tasks", "due", "running", "late", "parked", "history", "nodes", "ownership", "failing", "overdue", "chains",
                 "chain_runs", "limits", "events"):
        roles.ask("rd", f"select * from pgrab.{view}")
    roles.ask("alice", "update pgrab.task set schedule = '@daily' where id = %s", task)
    changes = f"select changed, after from pgrab.changes({task})"
    assert roles.ask("rd", changes) == roles.ask("alice", changes) == [("schedule", "@daily")] and roles.ask("bob", changes) == []
    assert roles.ask("rd", f"select pgrab.definition_of({task}, 0) ->> 'kind', (select count(*) from pgrab.chain_run(-1))") == [("noop", 0)]
    assert roles.ask("rd", "select array_agg(k order by k) from pgrab_tool.of_kind('noop') k") == roles.ask("rd", "select array_agg(id order by id) from pgrab.task where kind = 'noop'")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("alice", f"insert into pgrab.definition (task_id, version, since, role, owner, definition) values ({task}, 99, now(), 'x', 'x', '{{}}')")
    assert roles.ask("rd", "select owner like '%%alice' from pgrab.task where id = %s", task) == [(True,)]
    assert "permission denied" not in run_pgrab("wait", str(task), "--timeout", "100ms", dsn=roles.dsn("rd"), check=False).stderr
    for statement in ("delete from pgrab.task", "update pgrab.task set paused = true", "insert into pgrab.task (kind) values ('noop')",
                      f"select pgrab.pause({task})", "select value from pgrab.secret", "select pgrab.upkeep()"):
        with pytest.raises(errors.InsufficientPrivilege):
            roles.ask("rd", statement)


@pytest.mark.parametrize("command", [("status",), ("tasks",), ("runs",), ("nodes",), ("chains",), ("forecast",), ("events",), ("limit",), ("doctor",),
                                     ("next", "@daily"), ("top", "--json"), ("export",)])
def test_the_command_line_works_for_a_reader(roles, command):
    assert run_pgrab(*command, dsn=roles.dsn("rd"), check=False).returncode in (0, 1, 3)
    said = run_pgrab(*command, dsn=roles.dsn("rd"), check=False)
    assert "permission denied" not in said.stderr, said.stderr


def test_nobody_but_the_node_gets_to_what_is_internal(roles):
    for word in ("alice", "op", "rd"):
        with pytest.raises(errors.InsufficientPrivilege, match="schema pgrab_internal"):
            roles.ask(word, "select pgrab_internal.in_call()")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("machine", "update pgrab.task set command = 'x'")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("machine", "insert into pgrab.task (kind) values ('noop')")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("machine", "select pgrab_internal.alert_insert('{}', 'alice', '{}')")
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("machine", "select value from pgrab.secret")


def test_bounds_of_who_submits(roles):
    for columns in ({"priority": 10}, {"misfire": "all", "misfire_limit": 1001}):
        with pytest.raises(errors.InvalidParameterValue, match="cannot be"):
            insert(roles, "alice", kind="noop", run_at="2099-01-01", **columns)
    insert(roles, "alice", kind="noop", run_at="2099-01-01", priority=9)


def test_a_submitter_deletes_by_key(roles):
    """As docs/security.md and docs/sql.md say."""
    statement = re.search(r"^delete from pgrab\.tasks where .*;$", (ROOT / "docs/security.md").read_text(), re.M)[0]
    for who, key in (("alice", "billing/1"), ("alice", "billing/2"), ("alice", "mail"), ("bob", "billing/3")):
        insert(roles, who, kind="noop", run_at="2099-01-01", key=key, name=f"called {key}")
    roles.ask("alice", statement)
    assert roles.db.query("select array_agg(key order by key) from pgrab.task where name like 'called %'") == [(["billing/3", "mail"],)]


def test_what_was_done_is_written_down(roles):
    task = insert(roles, "alice", kind="noop", key="audited", schedule="@daily")
    roles.ask("alice", "update pgrab.task set schedule = '@hourly' where id = %s", task)
    roles.ask("op", "select pgrab.pause(%s)", task)
    roles.ask("op", "select pgrab.resume(%s)", task)
    roles.ask("op", "update pgrab.task set paused = true where id = %s", task)
    roles.ask("alice", "delete from pgrab.tasks where id = %s", task)
    plain = insert(roles, "alice", kind="noop", run_at="2099-01-01")
    seen = roles.ask("alice", "select what, role from pgrab.event where task_id = %s order by at", task)
    alice, op = f"{roles.cluster.prefix}_alice", f"{roles.cluster.prefix}_op"
    assert seen == [("insert", alice), ("edit", alice), ("pause", op), ("resume", op), ("edit", op), ("delete", alice)]
    assert roles.ask("alice", "select detail -> 'schedule' from pgrab.event where task_id = %s and what = 'edit' order by at limit 1", task) == [
        (["@daily", "@hourly"],)]
    assert roles.ask("alice", "select from pgrab.event where task_id = %s", plain) == []
    assert roles.ask("bob", "select from pgrab.event where task_id = %s", task) == []
    with pytest.raises(errors.InsufficientPrivilege):
        roles.ask("op", "insert into pgrab.event (what) values ('edit')")
    listed = json.loads(run_pgrab("events", "--task", str(task), "--json", dsn=roles.dsn("rd")).stdout)
    assert [e["what"] for e in listed] == ["delete", "edit", "resume", "pause", "edit", "insert"]


def test_an_operator_sets_labels_of_a_node_and_is_named(roles, node):
    n1 = start(roles, node)
    for who in ("alice", "rd"):
        with pytest.raises(errors.InsufficientPrivilege):
            roles.ask(who, "update pgrab.node set weight = 2")
    roles.ask("op", """update pgrab.node set labels = '{"zone": "eu"}', draining = true""")
    seen = roles.ask("op", "select what from pgrab.event where task = 'n1' and role = current_user order by at")
    assert seen == [("node",), ("drain",)]
    n1.wait_log("event=drain")
    n1.wait_log('event=labels labels="?{.*zone.* from=pgrab.node')


def test_copy_is_refused_and_merge_obeys(roles):
    with psycopg.connect(roles.dsn("alice"), autocommit=True) as conn, pytest.raises(errors.FeatureNotSupported, match="COPY FROM not supported with row-level security"):
        with conn.cursor().copy("copy pgrab.task (kind) from stdin") as copy:
            copy.write("noop\n")
    task = insert(roles, "alice", kind="noop", run_at="2099-01-01", key="merged")
    roles.ask("alice", """merge into pgrab.task t using (values ('merged')) v(key) on t.key = v.key
        when matched then update set run_at = '2098-01-01' when not matched then insert (kind, key) values ('noop', v.key)""")
    with pytest.raises(errors.UniqueViolation):
        roles.ask("bob", """merge into pgrab.task t using (values ('merged')) v(key) on t.key = v.key
            when matched then update set run_at = '2098-01-01' when not matched then insert (kind, key) values ('noop', v.key)""")
    assert roles.ask("alice", "select extract(year from run_at)::int from pgrab.task where id = %s", task) == [(2098,)]


def test_planted_names_are_never_found(roles):
    """Functions and operators in public that fit better than PostgreSQL's own: nobody runs them."""
    roles.ask("boss", "create schema if not exists trap")
    roles.ask("boss", f'grant create, usage on schema trap to "{roles.cluster.prefix}_bob"')
    roles.ask("boss", f'grant usage on schema trap to public')
    with psycopg.connect(roles.dsn("bob"), autocommit=True) as bob:
        bob.execute("create or replace function trap.sprung() returns void language plpgsql as $$ begin raise exception 'sprung by %', current_user; end $$")
        for name, args, result in (("cardinality", "a bigint[]", "integer"), ("cardinality", "a text[]", "integer"), ("coalesced", "a text", "text"),
                                   ("unnest", "a bigint[]", "setof bigint"), ("array_position", "a bigint[], b bigint", "integer"),
                                   ("left", "a text, b integer", "text"), ("format", "a text", "text"), ("pg_notify", "a text, b text", "void"),
                                   ("octet_length", "a text", "integer"), ("quote_literal", "a text", "text"), ("isfinite", "a timestamptz", "boolean")):
            bob.execute(f"create or replace function trap.{name}({args}) returns {result} language plpgsql as $$ begin perform trap.sprung(); end $$")
        bob.execute("create function trap.eq(a bigint, b bigint) returns boolean language plpgsql as $$ begin perform trap.sprung(); end $$")
        bob.execute("create operator trap.= (leftarg = bigint, rightarg = bigint, function = trap.eq)")
        bob.execute("create function trap.teq(a text, b text) returns boolean language plpgsql as $$ begin perform trap.sprung(); end $$")
        bob.execute("create operator trap.= (leftarg = text, rightarg = text, function = trap.teq)")
    for word in ("alice", "op", "rd"):
        with psycopg.connect(roles.dsn(word), autocommit=True) as conn:
            conn.execute("set search_path = trap, pg_catalog")
            with pytest.raises(errors.RaiseException, match="sprung"):
                conn.execute("select 'a'::text = 'a'::text")
            if word == "alice":
                conn.execute("insert into pgrab.task (kind, run_at, key, schedule, args, max_runs) values ('noop', '2099-01-01', 'trapped', '@daily', '{}', 3)")
                conn.execute("update pgrab.task set schedule = '@hourly' where key operator(pg_catalog.=) 'trapped'")
                conn.execute("select pgrab.pause('trapped'), pgrab.resume('trapped')")
                conn.execute("""select pgrab.apply('[{"key": "trapped", "kind": "noop", "schedule": "@daily"}]')""")
                conn.execute("select pgrab.delete('trapped')")
            for view in ("overview", "tasks", "late", "nodes", "chains", "failing", "overdue", "limits", "events"):
                conn.execute(f"select * from pgrab.{view}")
            conn.execute("select pgrab.next_fire('*/5 * * * *', 'Europe/Berlin')")
            conn.execute("select * from pgrab.forecast()")
