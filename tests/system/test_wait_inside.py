"""Handlers that wait in the middle of their fire (ctx.wait): their run ends, holds nothing, and another goes on."""
import json
import shutil
import signal
import os

import pytest
from cluster import ROOT
from handlers import pids_of
from proxy import Proxy
from test_pools import handlers  # noqa: F401 (fixture)

ORDER = """
from pgrab_handler import TimedOut
@task("order")
def order(args, ctx):
    first = ctx.step("first", lambda: ctx.log("first done"))
    try:
        by = ctx.wait("approved", args.get("timeout"))
    except TimedOut:
        by = "nobody"
    return [by, ctx.step("last", lambda: "done"), ctx.attempt]

@task("quick")
def quick():
    return 1
"""
AWAITED = ORDER.replace("def order", "async def order").replace("ctx.step(", "await ctx.step(").replace("ctx.wait(", "await ctx.wait(")
WAITS = "select exists (select from pgrab.waits where id = %s and waits_for = 'approved')"


def outcomes(db, task):
    return [r.outcome for r in sorted(db.runs(task), key=lambda r: r.version)]


@pytest.mark.parametrize("text", [ORDER, AWAITED], ids=["plain", "awaited"])
def test_a_handler_that_waits_holds_nothing_and_goes_on_with_the_signal(db, nodes, handlers, text):  # noqa: F811
    handlers.start(nodes, text, "order,quick")
    task = db.add(kind="order", max_attempts=1)
    db.wait(WAITS, task)
    assert db.wait_run(db.add(kind="quick")).outcome == "succeeded", "its only process is free"
    db.query("select pgrab.signal(%s, 'approved', '\"ann\"')", task)
    db.wait("select not exists (select from pgrab.task)")
    assert outcomes(db, task) == ["waited", "succeeded"]
    waited, last = sorted(db.runs(task), key=lambda r: r.version)
    assert (waited.output, waited.error) == ("first done\n", "waits for signal approved")
    assert json.loads(last.output) == ["ann", "done", 1], "the first step is not done again, and it is the first attempt"
    assert db.one("select count(*) from pgrab.wait") + db.one("select count(*) from pgrab.signal") + db.one("select count(*) from pgrab.step") == 0


def test_a_handler_goes_on_when_its_time_is_over_and_never_early(db, nodes, handlers):  # noqa: F811
    handlers.start(nodes, ORDER, "order,quick")
    task = db.add(kind="order", args={"timeout": 0.5}, max_attempts=1)
    db.wait("select not exists (select from pgrab.task)")
    assert outcomes(db, task) == ["waited", "succeeded"]
    waited, last = sorted(db.runs(task), key=lambda r: r.version)
    assert json.loads(last.output)[0] == "nobody"
    assert (last.started_at - waited.finished_at).total_seconds() >= 0.5


def test_a_signal_that_comes_first_is_found_at_once(db, nodes, handlers):  # noqa: F811
    node = handlers.start(nodes, ORDER, "order,quick")
    handlers.wait_up(db)
    task = db.add(kind="order", paused=True)
    db.query("select pgrab.signal(%s, 'approved', '\"ann\"')", task)
    db.query("select pgrab.resume(%s)", task)
    assert json.loads(db.wait_run(task).output.splitlines()[-1])[0] == "ann" and outcomes(db, task) == ["succeeded"]
    assert node.running() and db.one("select count(*) from pgrab.signal") == 0


@pytest.mark.parametrize("which", [1, 2])
def test_a_wait_whose_answer_is_lost_is_looked_up(db, nodes, handlers, which):  # noqa: F811
    """Once the record of the wait itself, once the finish of the run that goes on."""
    proxy = Proxy(db.dsn)
    handlers.start(nodes, ORDER, "order,quick", node={"dsn": proxy.dsn})
    handlers.wait_up(db)
    proxy.unheard = (b"pgrab finish\0", b"SELECT 1\0", which)
    task = db.add(kind="order", max_attempts=1)
    db.wait(WAITS, task, timeout=20)
    db.query("select pgrab.signal(%s, 'approved', '\"ann\"')", task)
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert proxy.unheard is None and outcomes(db, task) == ["waited", "succeeded"]
    proxy.close()


@pytest.mark.deadline(60)
@pytest.mark.parametrize("what", ["handler", "node"])
def test_a_kill_around_a_wait_loses_neither_wait_nor_signal(db, nodes, handlers, what):  # noqa: F811
    """Killed while many tasks begin to wait; each waits in the end, is signalled once, and succeeds."""
    quick = dict(dead_after="4s", fence_after="1s", kill_grace="200ms", heartbeat="200ms")
    node = handlers.start(nodes, ORDER, "order,quick", node=quick)
    handlers.wait_up(db)
    tasks = [db.add(kind="order", max_attempts=5, backoff="0") for _ in range(40)]
    db.wait("select count(*) >= 3 from pgrab.waits")
    if what == "handler":
        os.kill(pids_of(node)[0], signal.SIGKILL)
    else:
        node.kill9()
        handlers.start(nodes, ORDER, "order,quick", name="n2", node=quick)
    db.wait("select count(*) = 40 from pgrab.waits", timeout=40)
    assert db.one("select count(*) from pgrab.signal(%s::bigint[], 'approved', '\"ann\"')", tasks) == 40
    db.wait("select not exists (select from pgrab.task)", timeout=40)
    assert all(outcomes(db, task)[-2:] == ["waited", "succeeded"] for task in tasks)


def test_a_cancel_and_a_second_node(db, nodes, handlers):  # noqa: F811
    """What waits has left its node: it goes on at another, and is cancelled without one."""
    first = handlers.start(nodes, ORDER, "order,quick")
    task, other = db.add(kind="order", max_attempts=1), db.add(kind="order", max_attempts=1)
    db.wait("select count(*) = 2 from pgrab.waits")
    first.term()
    db.query("select pgrab.cancel(%s)", other)
    assert outcomes(db, other) == ["waited", "cancelled"]
    db.query("select pgrab.signal(%s, 'approved')", task)
    handlers.start(nodes, ORDER, "order,quick", name="n2")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert outcomes(db, task) == ["waited", "succeeded"]


def test_a_wait_in_javascript(db, nodes, handlers):  # noqa: F811
    if not shutil.which("node"):
        pytest.skip("there is no Node.js here")
    file = handlers.file(f"""
import {{ run, task }} from '{ROOT}/contrib/handlers/node/pgrab-handler.mjs'
task('order', async (args, ctx) => {{
  await ctx.sleep('pause', 0.2)
  return [await ctx.wait('approved'), ctx.attempt]
}})
run()
""", ".mjs")
    nodes.start("n1", config=handlers.config(handlers.section(f"node {file}", "order")))
    task = db.add(kind="order", max_attempts=1)
    db.wait(WAITS, task, timeout=20)
    db.query("select pgrab.signal(%s, 'approved', '{\"by\": \"ann\"}')", task)
    assert json.loads(db.wait_run(task, count=3).output) == [{"by": "ann"}, 1]
    assert outcomes(db, task) == ["waited", "waited", "succeeded"]
