"""The table of states in src/core/state.c and the database's own idea of them."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def words(db, constraint):
    text = db.one("select pg_get_constraintdef(oid) from pg_constraint where conname = %s and connamespace = 'pgrab'::regnamespace and conparentid = 0 "
                  "and conrelid in ('pgrab.task'::regclass, 'pgrab.run'::regclass)", constraint)
    return set(re.findall(r"'(\w+)'", text))


def test_the_states_are_those_the_database_checks(db):
    names = dict(re.findall(r"\[(TASK_\w+)\] = \"(\w+)\"", (ROOT / "src/core/state.c").read_text(encoding="utf-8")))
    assert set(names.values()) - {"none"} == words(db, "task_status_check") | words(db, "run_ended_check")


def test_the_outcomes_are_those_the_database_checks(db):
    names = set(re.findall(r"\[OUTCOME_\w+\] = \"(\w+)\"", (ROOT / "src/core/run.c").read_text(encoding="utf-8")))
    # not_started is the node's own word: such a run leaves no history; skipped and missed are the database's.
    assert names - {"none", "not_started"} == words(db, "run_outcome_check") - {"skipped", "missed"}


def table():
    """The moves of src/core/state.c as (from, to) words of the database."""
    text = (ROOT / "src/core/state.c").read_text(encoding="utf-8")
    names = dict(re.findall(r"\[(TASK_\w+)\] = \"(\w+)\"", text))
    body = text[text.index("next[TASK_STATE__COUNT]"):text.index("state_name[")]
    rows = re.findall(r"\[(TASK_\w+)\] =\s*\{(.*?)\}", body, re.S)
    return {(names[was], names[became]) for was, moves in rows for became in re.findall(r"= (TASK_\w+)", moves)}


def test_no_task_makes_a_move_that_is_not_in_the_table(db, nodes):
    """Schedules, chains, limits, cancels and retries; every change of a status is noted by a trigger."""
    db.query("""
        create table seen (was text, became text);
        create function note() returns trigger language plpgsql as 'begin insert into public.seen values (old.status, new.status); return null; end';
        create trigger seen after update on pgrab.task for each row when (old.status <> new.status) execute function note();
        insert into pgrab.limit values ('one', 1);
        insert into pgrab.task (kind, command, schedule, max_attempts) values ('sql', 'select 1/0', '@every 1s', 1);
        insert into pgrab.task (id, kind, schedule) overriding system value values (1000, 'noop', '@every 1s');
        insert into pgrab.task (id, kind, command, parent_id, max_attempts) overriding system value values (1001, 'sql', 'select 1/0', 1000, 1), (1002, 'noop', '', 1001, 1);
        insert into pgrab.task (id, kind, command, max_attempts) overriding system value values (1010, 'sql', 'select 1/0', 1);
        insert into pgrab.task (id, kind, parent_id) overriding system value values (1011, 'noop', 1010), (1012, 'noop', 1011);
        insert into pgrab.task (id, kind, run_at) overriding system value values (1020, 'noop', '2100-01-01'), (1021, 'noop', '2100-01-01');
        insert into pgrab.edge values (1020, 1021);
        insert into pgrab.task (kind, command, limit_key) select 'sql', 'select pg_sleep(0.05)', 'one' from generate_series(1, 8);""")
    nodes.start("a", workers=2)
    nodes.start("b", workers=2)
    db.wait("select status = 'parked' from pgrab.task where id = 1010")
    db.query("select pgrab.retry(1010)")
    db.wait("select status = 'parked' from pgrab.task where id = 1010")
    db.query("select pgrab.cancel(1020)")
    db.query("select pgrab.cancel(1000)")
    db.wait("select count(*) > 6 from pgrab.run where task_id = 1001", timeout=20)
    seen = {(r.was, r.became) for r in db.query("select distinct was, became from seen")}
    assert seen <= table(), seen - table()
    assert {("waiting", "skipped"), ("skipped", "waiting"), ("done", "scheduled"), ("parked", "waiting"), ("scheduled", "waiting")} <= seen


def test_each_move_of_the_table_is_made_by_its_statement(db, nodes, probe):
    """scheduled -> claimed -> running -> (retry) scheduled -> ... -> parked -> (a new time) scheduled, as a log of the row sees it."""
    db.query("""
        create table seen (n serial, was text, became text);
        create function note() returns trigger language plpgsql as 'begin insert into public.seen (was, became) values (old.status, new.status); return null; end';
        create trigger seen after update of status on pgrab.task for each row when (old.status <> new.status) execute function note();""")
    nodes.start()
    task = db.add(kind="shell", command="exit 1", max_attempts=2, backoff="10 ms")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    db.query("update pgrab.task set run_at = '2100-01-01' where id = %s", task)
    moves = [(r.was, r.became) for r in db.query("select was, became from seen order by n")]
    assert moves[:6] == [("scheduled", "claimed"), ("claimed", "running"), ("running", "scheduled"),
                         ("scheduled", "claimed"), ("claimed", "running"), ("running", "parked")]
