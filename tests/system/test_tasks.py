"""A task's life as its owner sees it: kinds, retries, edits, timing."""
import sys

import pytest

from cluster import stays
from pooler import THROUGH_IT


def outcome(db, **columns):
    return db.wait_run(db.add(**columns))


# --- kinds -----------------------------------------------------------------------------------------------------------

def test_sql_gives_the_rows_of_the_last_statement(db, nodes):
    nodes.start()
    run = outcome(db, command="create table x (n int); insert into x values (1), (2); select n, 'a;b' from x order by n")
    assert (run.outcome, run.output) == ("succeeded", "1|a;b\n2|a;b")
    assert db.one("select count(*) from x") == 2


def test_sql_takes_parameters_of_the_types_the_statement_wants(db, nodes):
    nodes.start()
    db.query("create table p (n int, t text, at timestamptz)")
    task = db.add(command="insert into p values ($1, $2, $3) returning n, t, at is null", args={"params": [7, "it's \"$1\"", None]})
    assert db.wait_run(task).output == "7|it's \"$1\"|true"


@pytest.mark.parametrize("text, says", [
    ("insert into e values (1); commit", "COMMIT, ROLLBACK and SAVEPOINT are refused"),
    ("insert into e values (1); rollback", "COMMIT, ROLLBACK and SAVEPOINT are refused"),
    ("insert into e values (1); savepoint a", "COMMIT, ROLLBACK and SAVEPOINT are refused"),
    ("insert into e values (1); copy e from stdin", "COPY from or to the client is refused"),
    ("insert into e values (1); copy e to stdout", "COPY from or to the client is refused"),
    ("insert into e values (1); call committer()", "COMMIT, ROLLBACK and SAVEPOINT are refused"),
    ("insert into e values (1); select 1/0", "division by zero"),
    ("insert into e values (1); insert into late values (1), (1)", "duplicate key"),
    ("insert into e values (1), ($1)", "parameter"),
    ("-- nothing", "no SQL statement"),
])
def test_sql_that_fails_leaves_nothing_behind(db, nodes, text, says):
    db.query("create table e (n int); create table late (n int unique deferrable initially deferred);"
             "create procedure committer() language plpgsql as 'begin commit; end'")
    nodes.start()
    run = outcome(db, command=text, max_attempts=1)
    assert run.outcome == "failed" and says in run.error, run.error
    assert db.one("select count(*) from e") == 0


def test_what_a_text_leaves_in_its_session_is_gone_for_the_next(db, nodes):
    nodes.start(workers=1)
    outcome(db, command="set application_name = 'mine'; set statement_timeout = 1; create temp table t (n int); prepare s as select 1; select pg_advisory_lock(1)")
    run = outcome(db, command="select current_setting('application_name') like 'pgrab sql %', current_setting('statement_timeout'), "
                              "to_regclass('pg_temp.t') is null, (select count(*) from pg_prepared_statements where from_sql), (select count(*) from pg_locks where locktype = 'advisory')")
    assert run.output == "true|0|true|0|0"


def test_a_lock_of_the_session_guards_the_work_until_it_is_committed(db, nodes):
    """Texts that keep out of each other's way by it read what the one before has written."""
    db.query("create table n (n int); insert into n values (0)")
    nodes.start(workers=4)
    text = """select pg_advisory_lock(4711);
      do $$ declare v int; begin select n into v from n; update n set n = v + 1; end $$"""
    for task in [db.add(command=text) for _ in range(40)]:
        assert db.wait_run(task, timeout=30).outcome == "succeeded"
    assert db.one("select n from n") == 40
    assert outcome(db, command="select count(*) from pg_locks where locktype = 'advisory'").output == "0"


def test_a_text_that_drops_what_the_node_has_prepared_still_finishes(db, nodes):
    nodes.start(workers=1)
    for text in ("select 1", "select 2", "select 3", "deallocate all", "do $$ begin deallocate all; end $$", "select 4"):
        assert outcome(db, command=text, max_attempts=1).outcome == "succeeded"
    assert db.one("select max(attempt) from pgrab.run") == 1
    prepared = outcome(db, command="select count(*) > 0 from pg_prepared_statements where not from_sql")
    assert prepared.output == ("false" if THROUGH_IT else "true"), "it prepares them anew, but for servers that others use too"


def test_a_text_drops_them_where_an_extension_may_have_left_something_too(db, nodes):
    nodes.start(workers=1)
    for text in ("select 1", "select 2", "select 3"):
        outcome(db, command=text)
    db.query("create extension tcn; create sequence once")
    assert outcome(db, command="select nextval('once'); deallocate all").outcome == "succeeded"
    assert db.one("select last_value from once") == 1


@pytest.mark.direct("behind a pooler the server's process is not the node's choice")
def test_a_connection_is_kept_beside_an_extension_that_keeps_nothing_in_it(db, nodes):
    db.cluster.superuser("create extension pg_walinspect; create extension pg_stat_statements", db.name)
    nodes.start(workers=1)
    assert len({outcome(db, command="select pg_backend_pid()").output for _ in range(3)}) == 1
    db.query("create extension tcn")  # is not known
    assert len({outcome(db, command="select pg_backend_pid()").output for _ in range(3)}) > 1


def test_a_text_cannot_put_something_else_in_the_place_of_its_finish(db, nodes):
    nodes.start(workers=1)
    for text in ("select 1", "select 2", "select 3"):
        outcome(db, command=text)
    forged = """do $$ declare n text; begin
      for n in select name from pg_prepared_statements where not from_sql loop
        execute format('deallocate %I', n);
        execute format('prepare %I as select true', n);
      end loop; end $$"""
    kept = "prepare other as select 1"  # his own is his own
    for text in (forged, kept, forged, "select 4"):
        assert outcome(db, command=text, max_attempts=1).outcome == "succeeded"
    assert db.one("select count(*) from pgrab.task") == 0


def test_a_text_that_sets_a_role_or_a_path_still_finishes(db, nodes):
    db.query(f"create role {db.name}_other; grant {db.name}_other to current_user")
    try:
        nodes.start(workers=1)
        for text in (f"set role {db.name}_other", "set search_path = pg_temp", "set lock_timeout = 1; set statement_timeout = '1s'"):
            run = outcome(db, command=text)
            assert (run.outcome, run.attempt) == ("succeeded", 1), text
    finally:
        db.query(f"drop role {db.name}_other")


def test_a_long_result_is_bounded_and_executed_to_its_end(db, nodes):
    db.query("create sequence s")
    nodes.start()
    run = outcome(db, command="select nextval('s'), repeat('x', 1000) from generate_series(1, 500)")
    assert run.outcome == "succeeded" and len(run.output) <= 65536
    assert db.one("select last_value from s") == 500


def test_shell_runs_with_what_it_was_given_and_nothing_else(db, nodes):
    nodes.start(env={"PGPASSWORD": "secret", "HIDDEN": "1"})
    task = db.add(kind="shell", command="env | sort; pwd; cat; test $PGRAB_ATTEMPT = 2", backoff="0",
                  args={"env": {"A": "1 2", "PGRAB_FENCE": "mine"}, "stdin": "in\nput", "cwd": "/tmp"})
    run = db.wait_run(task, 2)
    failed = db.runs(task)[0]
    assert run.outcome == "succeeded" and run.exit_code == 0
    lines = run.output.splitlines()
    names = {line.split("=")[0] for line in lines if "=" in line}
    assert names <= {"A", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER", "PWD", "PGRAB_ATTEMPT", "PGRAB_FENCE", "PGRAB_FIRE_AT", "PGRAB_IDEMPOTENCY_KEY", "PGRAB_TASK_ID", "SHLVL", "_", "OLDPWD"}, names
    assert f"PGRAB_TASK_ID={task}" in lines and "PGRAB_ATTEMPT=2" in lines and "A=1 2" in lines
    assert f"PGRAB_FENCE={run.incarnation}-{run.version}" in lines
    key = f"PGRAB_IDEMPOTENCY_KEY={task}-{run.fire_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    assert key in lines and key in failed.output.splitlines(), "each attempt of a fire has the same"
    assert lines[-3:] == ["/tmp", "in", "put"]


def test_the_history_says_what_a_run_took(db, nodes):
    """Also of what its shell has started; and of a run that is stopped."""
    nodes.start()
    burn = "import os; x = bytearray(64 << 20); all(range(1, 3000000)); os.write(1, b'done')"
    program = f"{sys.executable} -c \"{burn}\""
    run = outcome(db, kind="shell", command=f"{program} & wait")
    assert run.outcome == "succeeded" and 0.02 < run.cpu_seconds < 60 and run.memory_bytes > 64 << 20 and run.output_bytes is None, run
    stopped = outcome(db, kind="shell", command="while :; do :; done", timeout="2 s", max_attempts=1)
    assert stopped.outcome == "timed_out" and 0.1 < stopped.cpu_seconds < 10
    much = outcome(db, kind="shell", command="head -c 100000 /dev/zero | tr '\\0' x")
    assert much.output_truncated and much.output_bytes == 100000
    for kind in ("noop", "sql"):
        run = outcome(db, kind=kind, command="" if kind == "noop" else "select 1")
        assert (run.cpu_seconds, run.memory_bytes, run.output_bytes) == (None, None, None)


def test_exec_passes_its_arguments_untouched(db, nodes):
    nodes.start()
    run = outcome(db, kind="exec", command="/usr/bin/printf", args={"argv": ["<%s>", "a b", "$(id)", "", "*;'\""]})
    assert run.output == "<a b><$(id)><><*;'\">"
    run = outcome(db, kind="exec", command="/no/such/program", max_attempts=1)
    assert run.outcome == "failed" and "No such file" in run.error


def test_output_of_any_bytes_is_stored_readable(db, nodes):
    nodes.start()
    run = outcome(db, kind="shell", command=r"printf 'a\000b\377c\033[31m\303\244\n'")
    assert run.output == "a\\x00b\\xFFc\\x1B[31mä\n"
    run = outcome(db, kind="shell", command="head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    assert run.output_truncated and len(run.output) <= 66000 and run.output.endswith("end\n") and "dropped" in run.output


def test_a_grandchild_that_keeps_the_pipe_does_not_hang_the_run_and_does_not_survive_it(db, nodes):
    nodes.start()
    run = outcome(db, kind="shell", command="(setsid sleep 300 &) ; (sleep 300 &) ; echo started")
    assert run.outcome == "succeeded" and run.output == "started\n"
    # The harness fails this test if one of them is still alive at its end.


def test_notify_reaches_its_channel(db, nodes):
    nodes.start()
    with db.listen("bell") as ear:
        db.add(kind="notify", command="bell", args={"payload": "it's 5"})
        assert ear.wait() == "it's 5"
        ours = "select pid from pg_stat_activity where application_name like 'pgrab notify%'"
        assert db.one(f"select count(pg_terminate_backend(pid, 5000)) from ({ours}) x"), "the worker keeps its connection"
        db.add(kind="notify", command="bell")
        assert ear.wait() == ""


# --- retries, timeouts, parking --------------------------------------------------------------------------------------

def test_a_failing_task_is_tried_with_growing_waits_and_then_parked_with_its_reason(db, nodes):
    nodes.start()
    task = db.add(kind="shell", command="echo no >&2; exit 7", max_attempts=3, backoff="100 ms")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    runs = db.runs(task)
    assert [(r.attempt, r.outcome, r.exit_code) for r in runs] == [(1, "failed", 7), (2, "failed", 7), (3, "failed", 7)]
    waits = [(b.started_at - a.finished_at).total_seconds() for a, b in zip(runs, runs[1:])]
    assert 0.09 <= waits[0] < 1.2 and 0.18 <= waits[1] < 1.4, waits
    assert {r.fire_at for r in runs} == {db.one("select run_at from pgrab.task where id = %s", task)}, "the planned time stays"
    assert "7" in db.one("select last_error from pgrab.task where id = %s", task)


@pytest.mark.parametrize("columns", [
    {"kind": "shell", "command": "trap '' TERM; sleep 60 & wait; sleep 60"},
    {"kind": "shell", "command": "(setsid sh -c 'trap \"\" TERM; sleep 60' &); sleep 60"},
    {"kind": "exec", "command": "/bin/sleep", "args": {"argv": ["60"]}},
    {"kind": "sql", "command": "select pg_sleep(60)"},
])
def test_a_run_is_stopped_at_its_timeout(db, nodes, columns):
    nodes.start()
    run = outcome(db, **columns, timeout="300 ms", max_attempts=1)
    assert run.outcome == "timed_out"
    assert (run.finished_at - run.started_at).total_seconds() < 2
    assert db.one("select count(*) from pg_stat_activity where query like '%%pg_sleep(60)%%' and state = 'active' and pid <> pg_backend_pid()") == 0


def test_at_most_once_is_not_tried_again_after_a_failure(db, nodes):
    nodes.start()
    task = db.add(kind="shell", command="exit 1", delivery="at_most_once")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    assert len(db.runs(task)) == 1


# --- edits -----------------------------------------------------------------------------------------------------------

def hold(db, nodes, seconds=2, **columns):
    nodes.start(lookahead="1h")
    task = db.one("insert into pgrab.task (kind, command, run_at) values (%s, %s, clock_timestamp() + %s * interval '1 s') returning id",
                  columns.get("kind", "noop"), columns.get("command", ""), seconds)
    db.wait("select status = 'claimed' from pgrab.task where id = %s", task)
    return task


def test_pause_after_the_claim_means_no_start(db, nodes):
    task = hold(db, nodes)
    db.query("update pgrab.task set paused = true where id = %s", task)
    assert db.one("select status from pgrab.task where id = %s", task) == "scheduled"
    stays(lambda: db.runs(task) == [], 2.5, "no run of a paused task")
    db.query("update pgrab.task set paused = false where id = %s", task)
    assert db.wait_run(task).outcome == "succeeded"


def test_delete_after_the_claim_means_no_start(db, nodes, probe):
    task = hold(db, nodes, 1, **{k: v for k, v in probe.shell("a").items() if k != "args"})
    db.query("delete from pgrab.task where id = %s", task)
    stays(lambda: not db.runs(task), 2, "no run of a deleted task")


def test_an_edit_after_the_claim_is_what_runs(db, nodes):
    task = hold(db, nodes, 1, kind="sql", command="select 'old'")
    db.query("update pgrab.task set command = 'select ''new''' where id = %s", task)
    assert db.wait_run(task).output == "new"


def test_an_earlier_run_at_is_honoured_at_once(db, nodes):
    task = hold(db, nodes, 3600)
    db.query("update pgrab.task set run_at = now() where id = %s", task)
    assert db.wait_run(task, timeout=3).outcome == "succeeded"


def test_a_running_task_finishes_as_it_was_started_and_what_was_written_meanwhile_runs_next(db, nodes, probe):
    probe.close_gate()
    nodes.start()
    first = probe.shell("a", gate=True)
    task = db.add(**first, key="job")
    probe.wait("start", "a")
    db.query("insert into pgrab.task (key, kind, command) values ('job', 'shell', 'echo edited') "
             "on conflict (key) do update set command = excluded.command, priority = 5")
    probe.open_gate()
    db.wait("select not exists (select from pgrab.task)")
    runs = db.query("select outcome, output, pgrab.definition_of(task_id, version) ->> 'command' as command "
                    "from pgrab.run where task_id = %s order by finished_at", task)
    assert [(r.outcome, r.command) for r in runs] == [("succeeded", first["command"]), ("succeeded", "echo edited")]
    assert runs[1].output == "edited\n"


# --- who and when ----------------------------------------------------------------------------------------------------

def test_nothing_starts_early(db, nodes):
    nodes.start(workers=4)
    db.query("insert into pgrab.task (kind, run_at) select 'noop', clock_timestamp() + random() * interval '3 s' from generate_series(1, 300)")
    db.wait("select not exists (select from pgrab.task)", timeout=15)
    rows = db.query("select extract(epoch from started_at - fire_at)::float8 as late from pgrab.run order by 1")
    assert rows[0].late >= 0
    assert rows[len(rows) // 2].late < 0.05, "half of them within 50 ms, on a busy machine"


def test_a_kind_the_node_does_not_allow_is_left_for_others(db, nodes):
    nodes.start("n1", allow="noop")
    task = db.add(kind="shell", command="true")
    stays(lambda: db.one("select status = 'scheduled' from pgrab.task where id = %s", task), 1, "the task to be left alone")
    nodes.start("n2", allow="shell")
    assert db.wait_run(task).node == "n2"


def test_require_is_honoured(db, nodes):
    nodes.start("n1", labels="zone=us")
    tasks = [db.add(kind="noop", require={"zone": "eu"}) for _ in range(5)]
    stays(lambda: db.one("select count(*) = 5 from pgrab.task where status = 'scheduled'"), 1, "tasks for eu to be left alone")
    nodes.start("n2", labels="zone=eu,disk=ssd")
    assert {db.wait_run(t).node for t in tasks} == {"n2"}


def test_the_higher_priority_goes_first_among_due_tasks(db, nodes):
    first = db.query("insert into pgrab.task (kind, command, priority) select 'shell', 'sleep 0.05', p from unnest('{-3,0,5,50,100}'::int[]) p returning id, priority")
    nodes.start(workers=1)
    db.wait("select not exists (select from pgrab.task)", timeout=15)
    order = [r.task_id for r in db.query("select task_id from pgrab.run order by started_at")]
    assert order == [r.id for r in sorted(first, key=lambda r: -r.priority)]


def test_what_has_waited_longer_goes_first(db, nodes):
    db.query("insert into pgrab.task (kind, command, run_at) select 'sql', 'select 1', now() - i * interval '1 s' from generate_series(1, 3000) i")
    nodes.start("n1", workers="2")
    db.wait("select not exists (select from pgrab.task)", timeout=50)
    # Not to the letter: of a big backlog a look sees a part of the shards (0.86 to 0.93 here; chance would be 0).
    agree = db.one("""select corr(a, b) from (
        select rank() over (order by fire_at) as a, rank() over (order by started_at) as b from pgrab.run) x""")
    assert agree > 0.7, agree


def test_a_finished_task_can_be_looked_up_with_its_definition(db, nodes):
    nodes.start()
    task = db.add(name="n", kind="sql", command="select 1", args={"params": []}, priority=3)
    run = db.wait_run(task)
    assert run.ended == "done" and run.name == "n"
    assert run.definition == {"command": "select 1", "args": {"params": []}, "priority": 3}


def test_each_of_a_hundred_thousand_runs_exactly_once(db, nodes):
    nodes.start("n1")
    nodes.start("n2")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 100000)")
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    rows = db.query("select count(*) as runs, count(distinct task_id) as tasks, count(*) filter (where outcome = 'succeeded' and attempt = 1) as good from pgrab.run")
    assert rows == [(100000, 100000, 100000)]
    shares = [r.n for r in db.query("select count(*) as n from pgrab.run group by node")]
    assert len(shares) == 2 and min(shares) > 30000, shares


def test_the_shares_are_even_for_odd_ids(db, nodes):
    rows = db.query("select max(n) as most, min(n) as least, count(*) as shards from ("
                    "select pgrab.shard(id) % 64 as s, count(*) as n from (select i::bigint as id from generate_series(-20000, 20000) i union all "
                    "select 9223372036854775807 - i from generate_series(0, 40000) i union all select i * 1024 from generate_series(1, 40000) i) x group by 1) y")
    assert rows[0].shards == 64 and rows[0].most < 1.25 * rows[0].least, rows
