"""What a text of a role without rights can do to those that share its transaction: nothing."""
import pytest
from test_owners import alice, config, login, roles  # noqa: F401 (fixtures)

ME = "(select id from pgrab.task where name = '{n}')"
RUNNING = "array(select id from pgrab.task where status = 'running' and (name = '{n}' or mod(name::int, 5) = 0) order by id limit 4)"
FAKES = """do $$ begin
  execute 'deallocate all';
  for i in 1..40 loop
    execute format('prepare pgrab_%s (bigint[], bigint[], bigint[], bigint[], text[], bool[], text[]) as select $1', i);
  end loop;
end $$"""

# What it does beside its effect, and how it ends.
TEXTS = {
    "commit": ("commit", "failed"),
    "rollback": ("rollback", "failed"),
    "savepoint": ("savepoint pgrab_text", "failed"),
    "release": ("release savepoint pgrab_text", "failed"),
    "rollback to": ("rollback to savepoint pgrab_text", "failed"),
    "in do": ("do $$ begin commit; end $$", "failed"),
    "in do 2": ("do $$ begin execute 'release savepoint pgrab_text'; end $$", "failed"),
    "begin": ("begin", "failed"),
    "prepare transaction": ("prepare transaction 'x'", "failed"),
    "set transaction": ("set transaction read only", "failed"),
    "serializable": ("set transaction isolation level serializable", "failed"),
    "characteristics": ("set session characteristics as transaction read only, isolation level serializable", "succeeded"),
    "default_ro": ("set default_transaction_read_only = on", "succeeded"),
    "deferred at commit": ("insert into {alice}.late values ({n})", "failed"),
    "set role none": ("set role none; set session authorization default", "succeeded"),
    "all constraints": ("set constraints all deferred", "succeeded"),
    "temp": ("create temp table eff (n int); set search_path = pg_temp", "succeeded"),
    "app name": ("set application_name = 'nobody'; set client_min_messages = error; set datestyle = 'sql, dmy'", "succeeded"),
    "timeouts": ("set lock_timeout = '3s'; set statement_timeout = '3s'; set idle_in_transaction_session_timeout = '3s'", "succeeded"),
    "locale": ("set client_encoding = 'latin1'; set standard_conforming_strings = off; set bytea_output = 'escape'; set array_nulls = off", "succeeded"),
    "cursor": ("declare c cursor with hold for select 1; declare d cursor for select 2", "succeeded"),
    "advisory": ("select pg_advisory_lock(7), pg_advisory_lock(8)", "succeeded"),
    "unlock all": ("select pg_advisory_unlock_all()", "succeeded"),
    "self cancel": ("select pg_cancel_backend(pg_backend_pid()); select pg_sleep(0.01)", "failed"),
    "self kill": ("select pg_terminate_backend(pg_backend_pid()); select 1", "failed"),
    "snapshot": ("select pg_export_snapshot() is not null", "succeeded"),
    "lock table": ("lock table {alice}.eff in share row exclusive mode", "succeeded"),
    "ddl": ("create table {alice}.made_{n} (n int); drop table {alice}.made_{n}; alter table {alice}.eff alter n set statistics 10", "succeeded"),
    "discard": ("discard plans; discard sequences; deallocate all", "succeeded"),
    "discard all": ("discard all", "failed"),
    "vacuum": ("vacuum {alice}.eff", "failed"),
    "copy": ("copy {alice}.eff from stdin", "failed"),
    "copy out": ("copy {alice}.eff to stdout", "failed"),
    "syntax": ("selec", "failed"),
    "notices": ("do $$ begin for i in 1..3000 loop raise notice 'pgrab: progress % x', i % 100; raise notice 'y'; end loop; end $$", "succeeded"),
    "big": ("select repeat('x', 3000000)", "succeeded"),
    "listen": ("listen pgrab; notify pgrab, 'rubbish'", "succeeded"),
    "forge": ("select pgrab_sql.finish_runs(array(select id from pgrab.task where status = 'running'), array(select version from pgrab.task "
              "where status = 'running'), array(select 'x' from pgrab.task where status = 'running'), null, null, null, null)", "failed"),
    "clean": ("select pgrab_sql.settle('other'), pgrab_sql.clean()", "succeeded"),
    "check": ("select pgrab_sql.check_run(" + ME + ", 1, 'x')", "failed"),
    "insert": ("insert into pgrab.task (name, command) select 'more', 'select 1' from generate_series(1, 3)", "succeeded"),
    "trace": ("set pgrab.traceparent = '00-11111111111111111111111111111111-2222222222222222-01'", "succeeded"),
    "delete row": ("delete from pgrab.task where name <> '{n}'", "failed"),
    "names": (FAKES + "; select 1/0", "failed"),
    "names ok": (FAKES, "succeeded"),
}
BESIDE = 24  # plain ones between two of these


def insert(db, owner, tasks):
    with db.connect(autocommit=False, **({"user": owner} if owner else {})) as conn:
        conn.cursor().executemany("insert into pgrab.task (name, command, max_attempts, backoff) values (%s, %s, 2, '0')",
                                  [(str(n), text.replace("{n}", str(n)).replace("{alice}", owner or "")) for n, text in tasks])


@pytest.fixture
def effects(db, alice):  # noqa: F811
    """What is there in the end: the numbers of the tasks that have had an effect, and how many transactions made them."""
    with db.connect(user=alice) as conn:
        conn.execute(f"""create table {alice}.eff (n int, x xid8 default pg_current_xact_id());
            create table {alice}.late (n int);
            create function {alice}.raises() returns trigger language plpgsql as $$ begin raise 'late'; end $$;
            create constraint trigger t after insert on {alice}.late initially deferred for each row execute function {alice}.raises()""")

    def all_of_them():
        with db.connect(user=alice) as conn:
            rows = conn.execute(f"select n, x::text from {alice}.eff order by n").fetchall()
            return [row[0] for row in rows], len({row[1] for row in rows})
    return all_of_them


EFFECT = "insert into {alice}.eff (n) values ({n})"


@pytest.mark.deadline(150)
def test_whatever_a_text_does_those_beside_it_have_their_effect_once(db, nodes, config, alice, effects):  # noqa: F811
    texts = list(TEXTS.items())
    insert(db, alice, [(n, EFFECT + ("; " + texts[n // BESIDE][1][0] if n % BESIDE == BESIDE // 2 else "")) for n in range(len(texts) * BESIDE)])
    nodes.start("n1", workers=2, sql_group=20, config=config(login(db, alice)))
    db.wait("select count(*) = 0 from pgrab.task where status <> 'parked' and name <> 'more'", timeout=100)
    runs = {(int(r.name), r.attempt): r for r in db.query("select name, outcome, attempt, error from pgrab.run where name <> 'more'")}
    found, transactions = effects()
    assert found == sorted(n for (n, _), r in runs.items() if r.outcome == "succeeded")
    assert transactions < len(found) / 2
    for (n, attempt), run in runs.items():
        what, (text, ends) = texts[n // BESIDE]
        if n % BESIDE == BESIDE // 2:
            assert run.outcome == ends, (what, text, run)
        else:
            assert (run.outcome, attempt) == ("succeeded", 1), (f"beside {what}", run)


@pytest.mark.deadline(150)
@pytest.mark.parametrize("act", ["cancel", "delete", "pause", "edit"])
def test_what_a_text_does_to_its_own_task_and_its_group(db, nodes, act):
    """With all rights: the role of the nodes."""
    do = f"select pgrab.{act}({RUNNING})" if act != "edit" else f"update pgrab.task set timeout = '2 h' where id = any ({RUNNING})"
    db.query("create table eff (n int, x xid8 default pg_current_xact_id())")
    text = "insert into public.eff (n) values ({n})"
    insert(db, None, [(n, text + ("; " + do if n % BESIDE == BESIDE // 2 else "")) for n in range(20 * BESIDE)])
    nodes.start("n1", workers=2, sql_group=20)
    db.wait("select count(*) = 0 from pgrab.task where status <> 'parked' and not (paused and status = 'scheduled')", timeout=100)
    found, transactions = [r.n for r in db.query("select n from eff order by n")], db.one("select count(distinct x) from eff")
    runs = db.query("select name::int as n, outcome, attempt, error from pgrab.run")
    assert found == sorted(run.n for run in runs if run.outcome == "succeeded") and transactions < len(found)
    assert {run.n for run in runs} == set(range(20 * BESIDE))
    assert {run.outcome for run in runs} <= {"succeeded", "failed", "cancelled"}
