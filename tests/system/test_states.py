"""The table of moves, pgrab_internal.transition, and what the database does."""
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def words(db, constraint):
    text = db.one("select pg_get_constraintdef(oid) from pg_constraint where conname = %s and conparentid = 0 "
                  "and (conrelid = 'pgrab.run'::regclass or contypid = 'pgrab_internal.sound_state'::regtype)", constraint)
    return set(re.findall(r"'(\w+)'", text))


def test_the_states_are_those_the_database_checks(db):
    assert {state for move in table(db) for state in move} == words(db, "task_status_check") | words(db, "run_ended_check")


def test_the_outcomes_are_those_the_database_checks(db):
    names = set(re.findall(r"\[OUTCOME_\w+\] = \"(\w+)\"", (ROOT / "src/core/run.c").read_text(encoding="utf-8")))
    # not_started and awaits are the node's own words: such a run leaves no history, or not yet; skipped and missed are the database's.
    assert names - {"none", "not_started", "awaits"} == words(db, "run_outcome_check") - {"skipped", "missed"}


def table(db):
    """The moves that change a status, as (from, to)."""
    return {(r.was, r.becomes) for r in db.query("select was, becomes from pgrab_internal.transition where was <> becomes and event <> 'delete'")}


def test_the_page_has_the_table_of_moves(db):
    """PGRAB_DOCS_WRITE=1 writes it."""
    page = ROOT / "docs/architecture.md"
    text = page.read_text(encoding="utf-8")
    old = text[text.index("| event | from | to | when |"):].split("\n\n")[0]
    rows = db.query("""
        select event, string_agg(was, ', ' order by n) as was, becomes, says
        from (select row_number() over (order by ctid) as n, * from pgrab_internal.transition where was <> becomes) t
        group by event, becomes, says order by min(n)""")
    new = "| event | from | to | when |\n|---|---|---|---|\n" + "\n".join(f"| {r.event} | {r.was} | {r.becomes} | {r.says} |" for r in rows)
    if os.environ.get("PGRAB_DOCS_WRITE"):
        page.write_text(text.replace(old, new), encoding="utf-8")
    else:
        assert old == new, "PGRAB_DOCS_WRITE=1 writes it"


def note_moves(db):
    """From now on public.seen holds each change of a status, but what is done by hand for a node."""
    db.query("""
        create table seen (n serial, was text, became text);
        create function note() returns trigger language plpgsql as 'begin insert into public.seen (was, became) values (old.status, new.status); return null; end';
        create trigger seen after update on pgrab.task for each row
            when (old.status <> new.status and current_setting('test.by_hand', true) is distinct from 'on') execute function note();""")


def moves(db):
    return [(r.was, r.became) for r in db.query("select was, became from seen order by n")]


def take(db, task, status="claimed"):
    """What a node that is not there would do: the move itself does not count."""
    db.query("set test.by_hand = on")
    db.query("update pgrab.task set status = %s, version = version + 1, node_id = 1, incarnation = 11, attempt = case when %s = 'running' then attempt + 1 else attempt end, "
             "claimed_at = now(), started_at = now() where id = %s", status, status, task)
    db.query("reset test.by_hand")


def end(db, task, outcome="succeeded"):
    """A run of it, from its claim to its end."""
    take(db, task, "running")
    db.query("select pgrab_internal.finish((array[id], array[version], array[11], array[2000000], array[1000000], array[%s::text], null, array[null::text], null, "
             "array['why'], null, null)::pgrab_internal.outcomes, 1, 'n1') from pgrab.task where id = %s", outcome, task)


def chain(db, root, **columns):
    """A recurring chain of four that is due in a year: two below the root, and one below the first of these."""
    db.add(id=root, kind="noop", schedule="@yearly", max_attempts=2, **columns)
    db.query(f"""insert into pgrab.task (id, kind, parent_id, max_attempts) overriding system value
        values ({root + 1}, 'noop', {root}, 1), ({root + 2}, 'noop', {root + 1}, 1), ({root + 3}, 'noop', {root}, 1)""")


def test_each_move_of_the_table_is_made(db, nodes):
    """What needs no node first, then what only a node does."""
    note_moves(db)
    chain(db, 100)
    end(db, 100)
    end(db, 103)
    db.query("select pgrab.cancel(100)")  # 101 is free, 102 waits; then it fires again
    end(db, 100)
    take(db, 101)
    end(db, 103, "failed")
    db.query("select pgrab.cancel(100)")
    end(db, 100)
    end(db, 101, "cancelled")
    end(db, 103, "failed")  # 102 was skipped, 103 is parked
    end(db, 100, "failed")
    db.query("select pgrab.cancel(100)")  # between two tries
    end(db, 100, "failed")
    end(db, 100, "failed")  # no try is left, and the others are skipped: it fires again, from parked

    for root in 200, 300:  # nothing comes after their fire
        chain(db, root, run_at="2100-01-01", ends_at="2100-01-02")
    db.query("select pgrab.skip_next(200)")
    take(db, 300)
    db.query("select pgrab.skip_next(300)")
    chain(db, 400, ends_at="2001-01-02", run_at="2001-01-01", misfire="skip")
    db.query("select pgrab_internal.misfire(array[400], array[version]) from pgrab.task where id = 400")

    for task in 601, 602:
        db.add(id=task, kind="noop", wait_for="go", wait_timeout="1 hour", schedule="@yearly", **({} if task == 601 else {"max_runs": 1}))
    db.query("select pgrab.signal(601, 'go')")
    end(db, 601)  # its next fire waits
    db.query("update pgrab.wait set until = now(); select pgrab_internal.waits_tick()")  # 602 has no other

    for task in 701, 702:
        db.add(id=task, kind="batch", command="")
    db.add(id=703, kind="noop", batch=702)
    db.query("select pgrab.seal(array[701, 702]); select pgrab.cancel(703); select pgrab_internal.batches_tick()")

    for task in 501, 502, 503, 504, 505:
        db.add(id=task, kind="noop", run_at="2100-01-01", max_attempts=1)
    take(db, 502)
    take(db, 504)
    db.query("insert into pgrab.edge values (501, 502), (501, 503)")
    db.query("update pgrab.task set run_at = '2100-01-02' where id = 504")
    end(db, 505, "lost")
    db.query("select pgrab.retry(505)")
    by_hand = set(moves(db))
    assert by_hand <= table(db), by_hand - table(db)

    nodes.start()
    db.add(kind="noop")
    task = db.add(kind="sql", command="select")
    db.wait("select not exists (select from pgrab.task where id in (505, %s))", task)
    made = table(db) - {("waiting", "done")}  # a batch leaves with it
    assert made == set(moves(db)), made ^ set(moves(db))


def test_no_task_makes_a_move_that_is_not_in_the_table(db, nodes):
    """Schedules, chains, limits, cancels and retries; every change of a status is noted by a trigger."""
    note_moves(db)
    db.query("""
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
    seen = set(moves(db))
    assert seen <= table(db), seen - table(db)
    assert {("waiting", "skipped"), ("skipped", "waiting"), ("done", "scheduled"), ("parked", "waiting"), ("scheduled", "waiting")} <= seen


def test_a_task_that_fails_moves_in_order(db, nodes):
    """scheduled -> running -> (retry) scheduled -> claimed -> running -> parked -> (a new time) scheduled, as a log of the row sees it: only the
    last attempt is claimed before it is started."""
    note_moves(db)
    nodes.start()
    task = db.add(kind="shell", command="exit 1", max_attempts=2, backoff="10 ms")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    db.query("update pgrab.task set run_at = '2100-01-01' where id = %s", task)
    assert moves(db)[:6] == [("scheduled", "running"), ("running", "scheduled"), ("scheduled", "claimed"), ("claimed", "running"),
                             ("running", "parked"), ("parked", "scheduled")]
