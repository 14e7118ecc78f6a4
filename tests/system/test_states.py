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
