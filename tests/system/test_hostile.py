"""What rows may hold that nobody means well with: each ends with one clear error, or as any other, and the node goes on."""
import itertools
import json
import os

import pytest
from cluster import stays
from psycopg import errors

numbers = itertools.count(1)


def ended(db, **task):
    return db.wait_run(db.add(max_attempts=1, **task))


@pytest.mark.parametrize("args, output", [('{"env": {"A": "1", "A": "2"}}', "2"), ('{"env": {"A": 1e400}}', "1" + "0" * 400), ('{"stdin": "\\ud83d\\ude00"}', "")])
def test_odd_args_that_are_taken(db, nodes, args, output):
    nodes.start("n1")
    run = ended(db, kind="shell", command='echo "$A"', args=args)
    assert (run.outcome, run.output) == ("succeeded", f"{output}\n")


@pytest.mark.parametrize("args", [
    '{"a": "\\ud800"}', '{"a": "\\u0000"}', '{"a": ' + '"x"' * 2, "[1]", '"x"', '{"wish": 1}',
    '{"env": {"A": [[1], {"b": 2}]}}', '{"env": {"A=B": "c"}}', '{"env": {"": "x"}}', '{"env": "A"}', '{"env": ' + "[" * 2000 + "]" * 2000 + "}",
    '{"stdin": ["a", "b"]}', json.dumps({"argv": ["x"] * 1001}), json.dumps({"headers": {f"h{i}": "x" for i in range(60000)}}),
], ids=lambda args: args[:30])
def test_odd_args_that_are_refused_at_insert(db, args):
    with pytest.raises(errors.DatabaseError) as refusal:
        db.add(kind="shell", command="true", args=args)
    assert refusal.value.sqlstate[:2] == "22", refusal.value
    assert db.one("select count(*) from pgrab.task") == 0


@pytest.mark.parametrize("command, args, says", [
    ("-rf", {}, "exit code"), ("no such program", {}, "exit code 127"), ("/bin/sh -c", {}, "exit code"), ("$(", {}, "exit code 2")])
def test_odd_commands_of_shell(db, nodes, command, args, says):
    nodes.start("n1")
    run = ended(db, kind="shell", command=command, args=json.dumps(args))
    assert run.outcome == "failed" and says in run.error, run.error


def test_odd_programs_of_exec(db, nodes, tmp_path):
    nodes.start("n1")
    bare, folder = tmp_path / "bare", tmp_path / "folder"
    bare.write_text("echo no shebang\n")
    bare.chmod(0o755)
    folder.mkdir()
    for program, says in {str(bare): "could not start", str(folder): "could not start", "/nowhere/x": "could not start", "": "command is empty"}.items():
        if program == "":
            with pytest.raises(errors.DatabaseError):
                db.add(kind="exec", command=program)
            continue
        run = ended(db, kind="exec", command=program)
        assert run.outcome == "failed" and says in run.error, (program, run.error)
    # A parameter is a parameter, whatever is in it.
    run = ended(db, kind="exec", command="/usr/bin/printf", args=json.dumps({"argv": ["%s|", "a\nb", "; id", "$(id)", "`id`", "--"]}))
    assert run.output == "a\nb|; id|$(id)|`id`|--|"


@pytest.mark.parametrize("url", ["http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://[::ffff:127.0.0.1]/", "http://127.0.0.1.:80/", "http://localhost/"])
def test_an_address_is_judged_however_it_is_spelled(db, nodes, url):
    nodes.start("n1", http_hosts="10.0.0.0/8, *.example.org")
    run = ended(db, kind="http", command=url)
    assert run.outcome == "failed" and ("is not among http_hosts" in run.error or "could not find the address" in run.error), run.error


def test_what_a_definer_function_inserts_belongs_to_its_owner(db, nodes):
    """H7: whoever can make somebody call his function gets a task of his own, not one of the caller's."""
    name = f"pgrab_planter_{os.getpid()}_{next(numbers)}"
    db.query(f"create role {name} login")
    try:
        db.cluster.superuser(f"create schema {name} authorization {name}", db.name)
        db.query(f"grant usage on schema pgrab to {name}; grant select, insert on pgrab.task to {name}")
        with db.connect(user=name) as conn:
            conn.execute(f"""create function {name}.plant() returns bigint language sql security definer as
                $$ insert into pgrab.task (kind, command, key) values ('sql', 'select session_user', 'planted') returning id $$;
                grant usage on schema {name} to public""")
        nodes.start("n1", allow="noop")
        db.query(f"select {name}.plant()")
        assert db.one("select owner from pgrab.task where key = 'planted'") == name
    finally:
        db.cluster.superuser(f"drop owned by {name} cascade; drop role {name}", db.name)


def test_a_limit_whose_span_no_interval_can_hold_is_refused(db):
    for rate in ("1e-300", "1e-7", "NaN", "0", "-1", "1e6"):
        with pytest.raises(errors.CheckViolation):
            db.query(f"insert into pgrab.limit (key, per_second) values ('x', '{rate}')")


@pytest.mark.parametrize("args, says", [
    ({"params": ["{{parent_output}}" * 50000]}, "which makes more than 2 MiB"), ({"params": ["{{parent_json}}", {"{{parent_json}}": 1}]}, "invalid input syntax for type json")])
def test_args_that_cannot_be_filled_are_the_fault_of_their_task_alone(db, nodes, args, says):
    nodes.start("n1", workers=2)
    with db.conn.transaction():
        parent = db.add(kind="sql", command="select json_build_object('a', repeat('x', 60000))")
        children = [db.add(kind="sql", command="select 1", parent_id=parent, args=json.dumps(args), max_attempts=1) for _ in range(3)]
    db.wait_run(parent)
    other = db.add(kind="sql", command="select 1")
    assert db.wait_run(other, timeout=5).outcome == "succeeded"
    for run in map(db.wait_run, children):
        assert run.outcome == "failed" and says in run.error, run.error


def test_rows_whose_start_is_refused_hold_up_no_others(db, nodes):
    """Each is refused whatever is beside it: it is left alone for a while, longer each time, and named."""
    db.query("create function refuse() returns trigger language plpgsql as $$ begin raise exception 'never this one'; end $$")
    db.query("create trigger refuse after update on pgrab.task for each row when (new.status = 'running' and new.limit_key = 'bad') execute function refuse()")
    db.query("insert into pgrab.limit (key, max_running) values ('bad', 1000)")
    db.query("insert into pgrab.task (kind, command, limit_key) select 'noop', '', 'bad' from generate_series(1, 60)")
    node = nodes.start("n1")
    node.wait_log("event=(refused|db_call) .*never this one")
    others = [db.add(kind="sql", command="select 1") for _ in range(10)]
    for task in others:
        assert db.wait_run(task, timeout=5).outcome == "succeeded"
    late = db.one("select max(started_at - created_at) from pgrab.run where task_id = any (%s)", others)
    assert late.total_seconds() < 3, late
    before = node.log().count("never this one")
    stays(lambda: node.log().count("never this one") < before + 90, 4)
    assert db.one("select count(*) from pgrab.task where limit_key = 'bad' and status in ('claimed', 'scheduled')") == 60


def test_the_keys_of_calls_are_in_no_plan_that_users_can_see(db):
    """They may print the plans of all statements, those of functions with other rights included."""
    task = db.add(kind="noop", run_at="2099-01-01", key="k")
    said = []
    with db.connect() as conn:
        conn.add_notice_handler(lambda d: said.append(f"{d.message_primary} {d.message_detail}"))
        for setting in ("client_min_messages = log", "debug_print_plan = on", "debug_print_rewritten = on", "debug_pretty_print = off", "plan_cache_mode = force_custom_plan"):
            conn.execute(f"set {setting}")
        conn.execute("insert into pgrab.limit (key, max_running) values ('x', 1)")
        conn.execute("select pgrab.delete_limit('x')")
        conn.execute("select pgrab.pause(%s), pgrab.resume(%s)", (task, task))
        conn.execute("""select pgrab.apply('{"source": "s", "tasks": [{"key": "a", "kind": "noop"}, {"key": "b", "kind": "noop", "parents": ["a"]}]}')""")
        conn.execute("select pgrab.delete('{a,b}'::text[])")
        conn.execute("insert into pgrab.task (key, kind, run_at) values ('k', 'noop', '2098-01-01') on conflict (key) do update set run_at = excluded.run_at")
    keys = [row.value for row in db.query("select value from pgrab_internal.key")]
    seen = " ".join(" ".join(said).split())
    assert len(keys) >= 2 and "PLANNEDSTMT" in seen
    for key in keys:
        assert key not in seen and " ".join(map(str, key.encode())) not in seen
