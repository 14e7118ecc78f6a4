"""Steps: of sql tasks each has its effect exactly once, whatever ends in between; of handlers what is recorded is not done again."""
import json
import os
import re
import shutil
import signal

import pytest
from cluster import ROOT, run_pgrab, wait_until
from handlers import pids_of
from proxy import Proxy
from test_pools import handlers  # noqa: F401 (fixture)
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


def test_steps_are_shown(db, nodes, effects, serving):
    """While the task is parked, and when it has ended: on the command line, in JSON, by the API and on the page."""
    task = db.add(args=steps("one", ("two", "select 1 / (select count(*) from public.effect where name = 'open')"), "three"), max_attempts=1)
    nodes.start("n1")
    db.wait("select status = 'parked' from pgrab.task where id = %s", task)

    def shown():
        text = run_pgrab("show", str(task), dsn=db.dsn).stdout
        names = [s["name"] for s in json.loads(run_pgrab("show", str(task), "--json", dsn=db.dsn).stdout)["steps"]]
        assert all(re.search(rf"^{name} +20\d\d-", text, re.M) for name in names), text
        return names
    assert shown() == ["one"]
    db.query("insert into effect values ('open')")
    db.query("select pgrab.retry(%s)", task)
    db.wait("select not exists (select from pgrab.task)")
    assert shown() == ["one", "two", "three"]
    serve = serving()
    assert [s["name"] for s in serve.api("GET", f"/tasks/{task}")["steps"]] == ["one", "two", "three"]
    assert "Steps</h2>" in serve.ask("GET", f"/tasks/{task}").text


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


# --- handlers

ORDER = """
def done(name):
    with open({file!r}, "a") as f:
        f.write(name + "\\n")
    return {{"by": os.environ["NODE"], "step": name}}

def wait_for(path):
    while not os.path.exists(path):
        doze(0.02)

@task("order")
def order(args, ctx):
    one = ctx.step("one", done, "one")
    def when_open():
        if os.environ["NODE"] in args.get("wait", {{}}):
            wait_for(args["wait"][os.environ["NODE"]])
        return done("two")
    two = ctx.step("two", when_open)
    if ctx.attempt < args.get("good", 1):
        raise Fail("not yet", retry=0)
    return [one, two, ctx.step("three", done, "three")]
"""
AWAITED = ORDER.replace("def order", "async def order").replace("ctx.step(", "await ctx.step(")


@pytest.fixture
def orders(nodes, handlers, tmp_path):  # noqa: F811
    """Starts nodes whose handlers know their names; lines() is what was done."""
    class Orders:
        file = tmp_path / "done"

        def start(self, name="n1", text=ORDER, **options):
            section = handlers.python(text.format(file=str(self.file)), "order")
            return nodes.start(name, config=handlers.config(section.replace("env = ", f"env = NODE={name},")), **options)

        def lines(self):
            return self.file.read_text().split() if self.file.exists() else []
    return Orders()


@pytest.mark.parametrize("text", [ORDER, AWAITED], ids=["plain", "awaited"])
def test_a_handler_goes_on_where_the_last_attempt_has_come_to(db, orders, text):
    orders.start(text=text)
    task = db.add(kind="order", args={"good": 2})
    run = db.wait_run(task, count=2)
    by = [{"by": "n1", "step": name} for name in ("one", "two", "three")]
    assert run.outcome == "succeeded" and json.loads(run.output) == by
    assert orders.lines() == ["one", "two", "three"] and noted(db, task) == [["one", "two"], ["three"]]
    assert db.one("select count(*) from pgrab.step") == 0


@pytest.mark.parametrize("what", ["handler", "node"])
def test_what_is_lost_between_steps_is_gone_on_with(db, orders, tmp_path, what):
    gate = tmp_path / "gate"
    node = orders.start()
    task = db.add(kind="order", args={"wait": {"n1": str(gate)}}, backoff="0")
    db.wait("select count(*) = 1 from pgrab.step where task_id = %s and name = 'one' and result ->> 'by' = 'n1'", task)
    if what == "handler":
        os.kill(pids_of(node)[0], signal.SIGKILL)
        gate.touch()  # for the next attempt: this one is dead within its second step
    else:
        node.kill9()
        orders.start("n2")
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    assert orders.lines() == ["one", "two", "three"]
    assert [r.outcome for r in db.runs(task)][-1] == "succeeded"


def test_a_frozen_node_records_nothing_when_it_wakes(db, orders, tmp_path):
    """Its handler is done with a step while it is frozen; by then the run is another node's."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    first = orders.start("n1")
    task = db.add(kind="order", args={"wait": {"n1": str(mine), "n2": str(other)}}, backoff="0")
    db.wait("select count(*) = 1 from pgrab.step where task_id = %s", task)
    first.stop()
    mine.touch()
    wait_until(lambda: "two" in orders.lines() or not pids_of(first), what="its handler to end the step")
    orders.start("n2")
    db.wait("select status = 'running' and node_id = (select id from pgrab.node where name = 'n2') from pgrab.task where id = %s", task, timeout=20)
    first.cont()
    first.wait_log("event=registered.*(.|\n)*event=registered", timeout=20)
    assert [r.name for r in db.query("select name from pgrab.step where task_id = %s", task)] == ["one"]
    other.touch()
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    last = db.query("select output from pgrab.run where task_id = %s order by version desc limit 1", task)[0].output
    assert [part["by"] for part in json.loads(last)] == ["n1", "n2", "n2"]


def test_a_row_that_is_locked_holds_up_its_own_steps_only(db, nodes, handlers, tmp_path):  # noqa: F811
    gate = tmp_path / "gate"
    handlers.start(nodes, """
@task("wait")
async def wait_for(args, ctx):
    async def opened():
        while args.get("gate") and not os.path.exists(args["gate"]):
            await asyncio.sleep(0.02)
    await ctx.step("s", opened)
""", "wait")
    locked = db.add(kind="wait", args={"gate": str(gate)})
    db.wait("select status = 'running' from pgrab.task where id = %s", locked)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = %s for update", [locked])
        gate.touch()
        for _ in range(3):
            assert db.wait_run(db.add(kind="wait")).outcome == "succeeded"
        assert not db.runs(locked)
    assert db.wait_run(locked).outcome == "succeeded" and noted(db, locked) == [["s"]]


@pytest.mark.parametrize("answer", ["lost", "ended"])
def test_a_record_whose_answer_is_lost_is_made_again(db, orders, tmp_path, answer):
    gate = tmp_path / "gate"
    proxy = Proxy(db.dsn)
    node = orders.start(dsn=proxy.dsn)
    task = db.add(kind="order", args={"wait": {"n1": str(gate)}}, max_attempts=1)
    db.wait("select count(*) = 1 from pgrab.step where task_id = %s", task)
    if answer == "lost":
        proxy.unheard = (b"pgrab teller", b"recorded", 1)
    else:
        db.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgrab teller' and datname = current_database()")
    gate.touch()
    run = db.wait_run(task, timeout=20)
    assert run.outcome == "succeeded" and orders.lines() == ["one", "two", "three"] and noted(db, task) == [["one", "two", "three"]]
    assert node.running() and proxy.unheard is None
    proxy.close()


def test_what_cannot_be_stored_fails_the_run_and_no_other(db, nodes, handlers):  # noqa: F811
    handlers.start(nodes, """
@task("bad")
def bad(args, ctx):
    try:
        ctx.step("s", lambda: args["char"] and chr(0))
    except BaseException:
        return "swallowed"

@task("good")
def good(ctx):
    return ctx.step("s", lambda: 1)
""", "bad,good", processes=2)
    bad, good = db.add(kind="bad", args={"char": True}, max_attempts=1), db.add(kind="good")
    run = db.wait_run(bad)
    assert (run.outcome, run.error) == ("failed", "step s was not recorded: its result cannot be stored: it holds a NUL character, or a number that is too long")
    assert db.wait_run(good).outcome == "succeeded"


def test_steps_in_javascript(db, nodes, handlers):  # noqa: F811
    if not shutil.which("node"):
        pytest.skip("there is no Node.js here")
    file = handlers.file(f"""
import {{ run, task }} from '{ROOT}/contrib/handlers/node/pgrab-handler.mjs'
task('order', async (args, ctx) => {{
  const seen = await ctx.step('one', async () => ({{ attempt: ctx.attempt }}))
  if (ctx.attempt === 1) throw new Error('not yet')
  return [seen, await Promise.all([1, 2, 3].map(n => ctx.step(`n${{n}}`, () => n)))]
}})
run()
""", ".mjs")
    nodes.start("n1", config=handlers.config(handlers.section(f"node {file}", "order")))
    task = db.add(kind="order", backoff="0")
    assert json.loads(db.wait_run(task, count=2, timeout=20).output) == [{"attempt": 1}, [1, 2, 3]]
    assert [sorted(names) for names in noted(db, task)] == [["one"], ["n1", "n2", "n3"]]
