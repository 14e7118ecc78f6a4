"""Steps of sql tasks: each has its effect exactly once, whatever ends in between."""
import json

import pytest
from cluster import wait_until
from proxy import Proxy
from test_owners import as_user, config, roles  # noqa: F401 (fixtures)

SLEEPS = "select pid from pg_stat_activity where application_name like 'pgrab sql %%' and state = 'active' and query like 'select pg_sleep%%' and datname = current_database()"


def effect(name):
    return f"insert into public.effect values ('{name}')"


def steps(*pairs):
    """Each name as its own effect, or (name, command)."""
    named = [(p, effect(p)) if isinstance(p, str) else p for p in pairs]
    return {"steps": [{"name": name, "command": command} for name, command in named]}


@pytest.fixture
def effects(db):
    db.query("create table effect (name text, at timestamptz default clock_timestamp())")
    return lambda: [r.name for r in db.query("select name from effect order by at")]


def noted(db, task):
    """The steps of each attempt, as the history has them."""
    return [[s["name"] for s in r.steps or []] for r in sorted(db.runs(task), key=lambda r: r.version)]


def test_each_step_once_and_the_output_of_the_last(db, nodes, effects):
    nodes.start("n1")
    task = db.add(args=steps(("one", effect("one") + "; select 'of one'"), "two", ("three", "do $$ begin raise notice 'said'; end $$; values (1, 'a'), (2, 'b')")))
    run = db.wait_run(task)
    assert run.outcome == "succeeded" and run.output == "NOTICE:  said\n1|a\n2|b"
    assert effects() == ["one", "two"] and noted(db, task) == [["one", "two", "three"]]
    assert all(run.started_at <= db.one("select %s::timestamptz", s["finished_at"]) <= run.finished_at for s in run.steps)
    assert db.one("select count(*) from pgrab.step") == 0


def test_a_retry_goes_on_at_the_step_that_failed(db, nodes, effects):
    db.query("create table door (open boolean)")
    task = db.add(args=steps("one", ("two", effect("two") + "; select 1 / (select count(*) from public.door)"), "three"), backoff="0", max_attempts=2)
    nodes.start("n1")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    assert effects() == ["one"] and noted(db, task) == [["one"], []]
    assert min(db.runs(task), key=lambda r: r.version).error.startswith("step two: division by zero (statement 2 of 2")
    assert [r.name for r in db.query("select name from pgrab.step where task_id = %s", task)] == ["one"]
    db.query("insert into door values (true)")
    db.query("select pgrab.retry(%s)", task)
    db.wait("select not exists (select from pgrab.task)")
    assert effects() == ["one", "two", "three"] and noted(db, task)[2] == ["two", "three"]


def test_a_schedule_begins_each_fire_with_the_first(db, nodes, effects):
    nodes.start("n1")
    task = db.add(args=steps("one", "two"), schedule="@every 1s", max_runs=2)
    db.wait_run(task, count=2)
    assert effects() == ["one", "two"] * 2 and noted(db, task) == [["one", "two"]] * 2


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_a_node_that_is_lost_between_steps(db, nodes, effects, how):
    """Another goes on at the step that was under way; what that had done is rolled back."""
    first = nodes.start("n1")
    slow = ("two", effect("two") + "; select pg_sleep(case when (select n.name from pgrab.node n where current_setting('application_name') = 'pgrab sql ' || n.incarnation) = 'n1' then 60 else 0 end)")
    task = db.add(args=steps("one", slow, "three"), backoff="0")
    db.wait(SLEEPS)
    assert effects() == ["one"]
    if how == "kill":
        first.kill9()
    else:
        first.stop()
    nodes.start("n2")
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    first.cont() if how == "freeze" else None
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]
    assert effects() == ["one", "two", "three"] and noted(db, task) == [["one"], ["two", "three"]]


@pytest.mark.parametrize("last", [False, True])
def test_a_run_that_is_another_s_by_now_records_no_step(db, nodes, effects, last):
    """Its step is rolled back, be it the last one or not."""
    slow = ("two", effect("two") + "; select pg_sleep(1)")
    task = db.add(args=steps("one", slow, *([] if last else ["three"])), max_attempts=5, backoff="0")
    nodes.start("n1")
    db.wait(SLEEPS)
    db.query("update pgrab.task set version = version + 1, node_id = 4711, incarnation = 4711 where id = %s", task)
    db.query("insert into pgrab.hold values (4711, 1, array[%s])", task)
    db.wait("select not exists (select from pgrab.task)", timeout=25)
    assert effects() == ["one", "two"] + ([] if last else ["three"])
    assert [r.outcome for r in db.runs(task)].count("succeeded") == 1


def test_a_backend_that_is_ended_in_a_step(db, nodes, effects):
    nodes.start("n1")
    task = db.add(args=steps("one", ("two", effect("two") + "; select pg_sleep(case when (select count(*) from pgrab.run) = 0 then 60 else 0 end)"), "three"), backoff="0")
    db.query("select pg_terminate_backend(%s)", db.wait(SLEEPS))
    db.wait("select not exists (select from pgrab.task)")
    assert effects() == ["one", "two", "three"]
    assert [r.outcome for r in db.runs(task)] == ["failed", "succeeded"]


@pytest.mark.direct("the proxy is between node and server")
@pytest.mark.parametrize("commit", [1, 2, 3])
def test_a_commit_whose_answer_is_lost_is_looked_up(db, nodes, effects, commit):
    """Of the first step, the second, and the last, which has the finish in it."""
    proxy = Proxy(db.dsn)
    proxy.unheard = (b"pgrab sql ", b"COMMIT\0", commit)
    task = db.add(args=steps("one", "two", "three"), max_attempts=1)
    nodes.start("n1", dsn=proxy.dsn)
    db.wait("select not exists (select from pgrab.task)")
    wait_until(lambda: proxy.unheard is None, what="the answer to be lost")
    assert effects() == ["one", "two", "three"] and noted(db, task) == [["one", "two", "three"]]
    assert [r.outcome for r in db.runs(task)] == ["succeeded"]
    proxy.close()


def test_what_a_changed_program_finds(db, nodes, effects):
    """Steps are known by their names: what is gone is left out, what is new is done, also before those that are done."""
    task = db.add(args=steps("one", "two", ("three", "select 1 / 0"), ("four", "select 4")), backoff="0", max_attempts=1)
    nodes.start("n1")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    db.query("update pgrab.task set args = %s where id = %s", json.dumps(steps("new", ("two", effect("other text")))), task)
    db.query("select pgrab.retry(%s)", task)
    db.wait("select not exists (select from pgrab.task)")
    assert effects() == ["one", "two", "new"] and noted(db, task) == [["one", "two"], ["new"]]


def test_nothing_is_left_to_do(db, nodes, effects):
    """The last step is recorded, and a change has removed those after it: the run ends with that one's output."""
    task = db.add(args=steps("one", ("two", effect("two") + "; select 'of two'"), ("three", "select 1 / 0")), max_attempts=1)
    nodes.start("n1")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)
    db.query("update pgrab.task set args = %s where id = %s", json.dumps(steps("one", "two")), task)
    db.query("select pgrab.retry(%s)", task)
    db.wait("select not exists (select from pgrab.task)")
    run = max(db.runs(task), key=lambda r: r.version)
    assert (run.outcome, run.output, run.steps) == ("succeeded", "of two", None)
    assert effects() == ["one", "two"]


def test_a_cancel_between_steps(db, nodes, effects):
    task = db.add(args=steps("one", ("two", effect("two") + "; select pg_sleep(60)"), "three"))
    nodes.start("n1")
    db.wait(SLEEPS)
    db.query("select pgrab.cancel(%s)", task)
    assert db.wait_run(task).outcome == "cancelled"
    assert effects() == ["one"] and noted(db, task) == [["one"]] and db.one("select count(*) from pgrab.step") == 0


def test_the_steps_of_another_owner(db, nodes, roles, config):  # noqa: F811
    """On the owner's own connection, which has no rights but those of the text."""
    alice = roles("alice")
    db.query(f"create table public.effect (name text); grant insert on public.effect to {alice}")
    nodes.start("n1", config=config(f"[owner {alice}]\ndsn = {as_user(db, alice)}\n"))
    task = db.add_as(alice, args=steps(("one", effect("one") + "; select session_user"), ("two", "select session_user, current_user")))
    run = db.wait_run(task)
    assert (run.outcome, run.output) == ("succeeded", f"{alice}|{alice}") and noted(db, task) == [["one", "two"]]
    assert db.one("select count(*) from effect") == 1
    with db.connect(user=alice) as conn, pytest.raises(Exception, match="permission denied"):
        conn.execute("insert into pgrab.step (task_id, fire_at, name, version) values (1, now(), 'x', 1)")


def test_each_step_has_a_session_of_its_own(db, nodes, effects):
    task = db.add(args=steps(("one", "create temporary table t (n int); set search_path = pg_temp"), ("two", "select to_regclass('pg_temp.t'), current_setting('search_path') = 'pg_temp'")))
    nodes.start("n1")
    assert db.wait_run(task).output == "|false"
