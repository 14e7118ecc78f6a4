"""Handlers in processes that stay: what they get, what becomes of their results, and of their deaths."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from cluster import alive, clean_env, pgrab_bin, run_pgrab, stays, wait_until
from handlers import Handlers, pids_of
from test_keeper import keeper_of

root = pytest.mark.skipif(os.geteuid() != 0, reason="running handlers as another user needs root")

ECHO = """
@task("echo")
def echo(args, ctx):
    print("printed", args.get("text"))
    return {"got": args, "attempt": ctx.attempt, "fence": ctx.fence}
"""


@pytest.fixture
def handlers(tmp_path):
    return Handlers(tmp_path)


def test_a_handler_gets_its_args_and_what_it_returns_is_the_last_line_of_the_output(db, nodes, handlers):
    handlers.start(nodes, ECHO, "echo")
    task = db.add(kind="echo", args={"text": "grüße", "deep": {"list": [1, 2.5, None, True]}})
    run = db.wait_run(task)
    assert (run.outcome, run.error) == ("succeeded", None)
    printed, value = run.output.splitlines()
    assert printed == "printed grüße"
    value = json.loads(value)
    assert value["got"] == {"text": "grüße", "deep": {"list": [1, 2.5, None, True]}}
    assert value["fence"] == f"{run.incarnation}-{run.version}" and value["attempt"] == 1


def test_a_function_gets_the_members_of_args_by_name_and_its_type_hints_are_a_schema(db, nodes, handlers):
    handlers.start(nodes, """
@task("send_email")
def send_email(user_id: int, subject: str = "hello", ctx=None):
    return [user_id, subject]
""", "send_email")
    handlers.wait_up(db)
    db.wait("select schema is not null from pgrab.kind where kind = 'send_email'")
    assert json.loads(db.wait_run(db.add(kind="send_email", args={"user_id": 7})).output) == [7, "hello"]
    for wrong, member in (({"user_id": "7"}, "args.user_id must be of type integer"), ({}, "args.user_id is missing"),
                          ({"user_id": 7, "subjekt": "x"}, "args.subjekt is unknown"), ({"user_id": 7.5}, "args.user_id")):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as e:
            db.add(kind="send_email", args=wrong)
        assert member in e.value.diag.message_hint and "task args cannot be" in str(e.value)
    task = db.add(kind="send_email", args={"user_id": 7}, run_at="2999-01-01")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        db.query("update pgrab.task set args = '{\"user_id\": []}' where id = %s", task)


FAILING = """
@task("fail")
def fail(how, ctx):
    if ctx.attempt > 1:
        return "well"
    if how == "raise":
        print("before")
        {}["missing"]
    if how == "no":
        raise Fail("never again", retry="no")
    if how == "soon":
        raise Fail("in a moment", retry=0.1)
    if how == "exit":
        sys.exit(3)
    if how == "die":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "object":
        return object()
    if how == "huge":
        return "x" * 3000000
    if how == "nonsense":
        os.write(4, b"this is no message\\n")
        doze(60)
    if how == "long":
        os.write(4, b"x" * 1100000)
        doze(60)
    if how == "stranger":
        os.write(4, json.dumps({"type": "result", "run": 99, "ok": True}).encode() + b"\\n")
        doze(60)
    if how == "close":
        os.close(3); os.close(4)
        doze(60)
"""


@pytest.mark.parametrize("how, error", [
    ("raise", "KeyError: 'missing'"), ("exit", "SystemExit: 3"), ("die", "its process ended: exit code 7"),
    ("kill", "its process ended: killed by signal 9"), ("object", "what the handler returned is no JSON"),
    ("nonsense", "it wrote something that is not a message: it is not a JSON object in UTF-8: this is no message"),
    ("long", "it wrote a line of more than 1048576 bytes"), ("stranger", "a result of run 99, which it does not have"),
    ("close", "it closed descriptor 4")])
def test_what_goes_wrong_in_a_handler_is_said_and_tried_again(db, nodes, handlers, how, error):
    handlers.start(nodes, FAILING, "fail")
    task = db.add(kind="fail", args={"how": how}, backoff="100 ms")
    db.wait_run(task, timeout=15)
    first = db.runs(task)[0]
    assert first.outcome == "failed" and error in first.error, first.error
    if how == "raise":
        assert first.output.startswith("before\nTraceback") and "in fail" in first.output and "pgrab_handler.py" not in first.output
    assert db.wait_run(task, count=2, timeout=15).outcome == "succeeded"


def test_a_handler_says_whether_and_when_it_is_tried_again(db, nodes, handlers):
    handlers.start(nodes, FAILING, "fail")
    never = db.add(kind="fail", args={"how": "no"}, backoff="100 ms")
    soon = db.add(kind="fail", args={"how": "soon"}, backoff="1 hour")
    huge = db.add(kind="fail", args={"how": "huge"}, backoff="100 ms")
    assert db.wait_run(soon, count=2).outcome == "succeeded"
    assert db.wait_run(never).error == "never again"
    assert "at most 1048576 can be sent" in db.wait_run(huge).error
    for task in (never, huge):
        assert db.one("select status from pgrab.task where id = %s", task) == "parked"
        assert len(db.runs(task)) == 1


SLEEPER = """
@task("sleep")
def sleep(seconds, deaf, ctx):
    print("begins", os.getpid())
    until = time.monotonic() + seconds
    if deaf:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    while time.monotonic() < until:
        doze(0.05)
    return "slept"
"""


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_stop_is_asked_for_and_then_the_process_is_killed(db, nodes, handlers, how, deaf):
    node = handlers.start(nodes, SLEEPER, "sleep")
    handlers.wait_up(db)
    pids = pids_of(node)
    assert len(pids) == 1
    task = db.add(kind="sleep", args={"seconds": 60, "deaf": deaf}, timeout="700 ms" if how == "timeout" else "1 hour", max_attempts=1)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    if how == "cancel":
        db.query("select pgrab.cancel(%s)", task)
    run = db.wait_run(task)
    assert run.outcome == {"timeout": "timed_out", "cancel": "cancelled"}[how]
    if deaf:
        assert "did not stop when it was asked to" in run.error
        wait_until(lambda: not alive(pids[0]), 5, "the end of the process")
        wait_until(lambda: pids_of(node) not in ([], pids), 5, "another process")
    else:
        assert run.error == f"stopped: {how}"
        assert pids_of(node) == pids, "a handler that stops keeps its process"


def test_a_frozen_process_is_found_by_its_silence_and_costs_only_its_own_tasks(db, nodes, handlers):
    node = handlers.start(nodes, SLEEPER, "sleep", processes=2, ping_timeout="800ms")
    handlers.wait_up(db, 2)
    frozen, other = pids_of(node)
    first = [db.add(kind="sleep", args={"seconds": 3, "deaf": False}, backoff="100 ms") for _ in range(2)]
    db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
    os.kill(frozen, signal.SIGSTOP)
    runs = [db.wait_run(task, count=1, timeout=20) for task in first]
    assert sorted(run.outcome for run in runs) == ["failed", "succeeded"]
    failed = next(run for run in runs if run.outcome == "failed")
    assert "it has not answered a ping for 800 ms" in failed.error
    assert db.wait_run(failed.task_id, count=2, timeout=20).outcome == "succeeded"
    assert not alive(frozen) and other in pids_of(node)


ASYNC = """
@task("nap")
async def nap(seconds, ctx):
    ctx.log(f"nap of {seconds}")
    await asyncio.sleep(seconds)
    return ctx.id

@task("block")
async def block(ctx):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    doze(60)

@task("deaf")
async def deaf(ctx):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


def test_a_process_with_an_event_loop_has_many_tasks_at_once(db, nodes, handlers):
    node = handlers.start(nodes, ASYNC, "nap, block", concurrency=50)
    handlers.wait_up(db)
    began = time.monotonic()
    db.query("insert into pgrab.task (kind, args) select 'nap', '{\"seconds\": 1}' from generate_series(1, 50)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert time.monotonic() - began < 8, "one after the other they take 50 s"
    assert db.query("select outcome, output = E'nap of 1\\n' || task_id || E'\\n', count(*) from pgrab.run group by 1, 2") == [("succeeded", True, 50)]
    assert len(pids_of(node)) == 1


def test_when_one_task_would_not_stop_the_others_of_its_process_are_lost_and_tried_again(db, nodes, handlers):
    handlers.start(nodes, ASYNC, "nap, deaf")
    handlers.wait_up(db)
    others = [db.add(kind="nap", args={"seconds": 5}, max_attempts=2) for _ in range(3)]
    db.wait("select count(*) = 3 from pgrab.task where status = 'running'")
    bad = db.add(kind="deaf", timeout="500 ms", max_attempts=1)
    assert db.wait_run(bad).outcome == "timed_out"
    for task in others:
        db.wait_run(task)
        run = db.runs(task)[0]
        assert run.outcome == "lost" and f"task {bad} in it would not stop" in run.error
        assert db.wait_run(task, count=2, timeout=20).outcome == "succeeded"


def test_who_is_told_to_stop_while_another_task_blocks_the_process_is_not_blamed(db, nodes, handlers):
    handlers.start(nodes, ASYNC, "nap, block")
    handlers.wait_up(db)
    others = [db.add(kind="nap", args={"seconds": 5}, max_attempts=1) for _ in range(3)]
    db.wait("select count(*) = 3 from pgrab.task where status = 'running'")
    bad = db.add(kind="block", timeout="3 s", max_attempts=1)
    db.wait("select status = 'running' from pgrab.task where id = %s", bad)
    db.query("select pgrab.cancel(%s)", others[0])
    assert db.wait_run(others[0]).outcome == "cancelled"
    for task in others[1:]:
        assert db.wait_run(task, count=2, timeout=30).outcome == "succeeded"
        assert "it has not said a word since" in db.runs(task)[0].error
    assert db.wait_run(bad, count=2, timeout=30).outcome == "timed_out", "alone it shows"


AFTERWARDS = """
@task("again")
def again(ctx):
    line = json.dumps({"type": "result", "run": ctx._run, "ok": True, "value": None}).encode() + bytes([10])
    def later():
        doze(0.5)
        os.write(int(os.environ["PGRAB_HANDLER_OUT"]), line)
    threading.Thread(target=later).start()

@task("nap")
def nap(): doze(2)

@task("exit")
def exit_(): os._exit(9)
"""


def test_a_second_result_of_a_task_that_has_ended_is_not_the_fault_of_the_next(db, nodes, handlers):
    handlers.start(nodes, AFTERWARDS, "again, nap, exit")
    handlers.wait_up(db)
    assert db.wait_run(db.add(kind="again")).outcome == "succeeded"
    innocent = db.add(kind="nap", max_attempts=1)
    assert db.wait_run(innocent, count=2, timeout=20).outcome == "succeeded"
    assert "it gave a result of run" in db.runs(innocent)[0].error


def test_tasks_that_end_their_process_keep_others_waiting_for_no_longer_than_a_new_one_takes(db, nodes, handlers):
    handlers.start(nodes, AFTERWARDS, "again, nap, exit")
    handlers.wait_up(db)
    db.query("insert into pgrab.task (kind, max_attempts) select 'exit', 1 from generate_series(1, 9)")
    db.wait("select count(*) = 9 from pgrab.task where status = 'parked'", timeout=12)
    assert db.wait_run(db.add(kind="again"), timeout=5).outcome == "succeeded"


BESIDE = """
import fcntl

def alone(ctx):
    with open(os.environ["TRACE"], "a") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            f.write(f"{ctx.attempt} alone\\n")
        except OSError:
            f.write(f"{ctx.attempt} beside another\\n")
        f.flush()
        if ctx.attempt == 1:
            doze(60)

@task("plain")
def plain(ctx): alone(ctx)

@task("coroutine")
async def coroutine(ctx): await asyncio.get_running_loop().run_in_executor(None, alone, ctx)
"""


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_thread_that_does_not_stop_costs_its_process_and_the_next_attempt_runs_alone(db, nodes, handlers, tmp_path, kind):
    (tmp_path / "trace").touch()
    section = handlers.python(BESIDE, "plain, coroutine").replace("env = ", f"env = TRACE={tmp_path}/trace,")
    nodes.start("n1", config=handlers.config(section))
    handlers.wait_up(db)
    task = db.add(kind=kind, timeout="500 ms", backoff="100 ms")
    assert db.wait_run(task, count=2, timeout=20).outcome == "succeeded"
    assert "did not stop when it was asked to" in db.runs(task)[0].error
    assert (tmp_path / "trace").read_text().splitlines() == ["1 alone", "2 alone"]


POISON = """
@task("work")
async def work(ctx):
    await asyncio.sleep(1)

@task("poison")
async def poison(how, ctx):
    if how == "exits":
        os._exit(7)
    if how == "talks nonsense":
        os.write(4, b"this is no message\\n")
    if how == "hangs":
        doze(60)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


@pytest.mark.parametrize("how", ["exits", "talks nonsense", "hangs", "is deaf"])
def test_no_task_pays_for_another_in_its_process(db, nodes, handlers, how):
    """Each has one attempt: what another did must not cost it.  The guilty one has three, and is found."""
    node = handlers.start(nodes, POISON, "work, poison", ping_timeout="1s")
    handlers.wait_up(db)
    db.query("insert into pgrab.task (kind, max_attempts, run_at) select 'work', 1, now() + interval '1 s' from generate_series(1, 5)")
    guilty = db.add(kind="poison", args={"how": how}, backoff="100 ms", timeout="300 ms" if how == "is deaf" else "1 hour",
                    run_at=db.one("select min(run_at) from pgrab.task"))
    db.wait("select status = 'parked' from pgrab.task where id = %s", guilty, timeout=40)
    db.wait("select count(*) = 1 from pgrab.task", timeout=40)
    assert db.query("select outcome, count(*) from pgrab.run where kind = 'work' and outcome <> 'lost' group by 1") == [("succeeded", 5)]
    lost = db.query("select task_id, count(*) from pgrab.run where kind = 'work' and outcome = 'lost' group by 1")
    assert lost and max(row.count for row in lost) == 1, "the suspects run alone, and so does the guilty one"
    counted = [run for run in db.runs(guilty) if run.outcome != "lost"]
    assert len(counted) == 3 and len({run.attempt for run in counted}) == 3
    wait_until(lambda: len(pids_of(node)) == 1, 20, "the end of the process for suspects")


def test_suspects_follow_each_other_without_a_pause(db, nodes, handlers):
    handlers.start(nodes, POISON, "work, poison")
    handlers.wait_up(db)
    db.query("insert into pgrab.task (kind, max_attempts, run_at) select 'work', 1, now() + interval '1 s' from generate_series(1, 8)")
    db.add(kind="poison", args={"how": "exits"}, max_attempts=1, run_at=db.one("select min(run_at) from pgrab.task"))
    db.wait("select not exists (select from pgrab.task where kind = 'work')", timeout=60)
    pauses = db.one("""select array_agg(s order by s) from (
        select extract(epoch from started_at - lag(finished_at) over (order by finished_at))::float8 as s from pgrab.run
        where kind = 'work' and outcome = 'succeeded') r where s is not null""")
    assert pauses[len(pauses) // 2] < 0.5, f"the process for suspects had nothing to do for {pauses}"


def test_who_is_busy_is_said_of_the_workers_and_of_each_pool(db, nodes, handlers):
    """All workers are busy, one pool too, the other is free: a task is told about those that would carry it out."""
    waits = "@task('%s')\ndef f(ctx):\n    import threading\n    threading.Event().wait(60)"
    full = handlers.python(waits % "full", "full", name="one", processes=2)
    free = handlers.python(waits % "free", "free", name="two", processes=2)
    nodes.start("n1", workers=2, config=handlers.config(full, free))
    db.wait("select count(*) = 2 from pgrab.pool where up = 2", timeout=20)
    for kind, command in ("shell", "sleep 60"), ("full", ""):
        db.query("insert into pgrab.task (kind, command) select %s, %s from generate_series(1, 2)", kind, command)
    db.wait("select count(*) = 4 from pgrab.running", timeout=20)
    node = lambda task: db.one("select detail from pgrab.explain(%s) where gate = 'node n1'", task)
    for kind, command in ("shell", "true"), ("full", ""):
        task = db.add(kind=kind, command=command)
        wait_until(lambda: node(task) == "Busy: 2 of 2.", 15, f"{kind}: explain to say so")
        db.wait("select why = 'all nodes busy' from pgrab.late where id = %s", task, timeout=15)
    later = db.add(kind="free", run_at="2040-01-01")
    assert node(later) == "Free: 0 of 2 in use."


def test_what_cannot_start_is_said_with_its_file_and_not_in_a_hot_loop(db, nodes, handlers):
    missing = handlers.section("/nowhere/python9 handlers.py", "a_kind", name="missing")
    broken = handlers.section(f"{sys.executable} {handlers.file('import a_module_that_is_not_there')}", "b_kind", name="broken")
    silent = handlers.section("sleep 60", "c_kind", name="silent", start_timeout="300ms")
    partial = handlers.python("@task('d_kind')\ndef d(ctx): pass", "d_kind, e_kind", name="partial")
    node = nodes.start("n1", config=handlers.config(missing, broken, silent, partial))
    faults = wait_until(lambda: (lambda rows: dict(rows) if len(rows) == 4 else None)(
        db.query("select name, fault from pgrab.pool where fault is not null")), 15, "four faults")
    assert faults["missing"] == "/nowhere/python9 handlers.py: could not start: No such file or directory (exec /nowhere/python9)"
    assert "handlers1.py: exit code 1: ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in faults["broken"]
    assert "it has not said hello for 300 ms" in faults["silent"]
    warning = db.one("select warning from pgrab.nodes")
    assert re.search(r"pool missing has 0 of \d processes up: /nowhere/python9 handlers.py: could not start", warning), warning
    status = run_pgrab("status", dsn=db.dsn).stdout
    assert re.search(r"node n1: pool broken has 0 of \d processes up: .*ModuleNotFoundError", status), status
    assert "it has no handler for kind e_kind, which [pool partial] names" in faults["partial"]
    stays(lambda: len([line for line in node.log().splitlines() if "handler_lost pool=missing" in line]) < 8, 2, "few tries")
    seen = json.loads(run_pgrab("nodes", "--json", dsn=db.dsn).stdout)[0]["handlers"]
    assert "missing 0/1" in seen and "partial 0/1" in seen, seen
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert "[pool broken] on n1 has no process that takes tasks" in doctor, doctor
    task = db.add(kind="b_kind")
    verdict = db.query("select gate, verdict, detail from pgrab.explain(%s) where gate = 'pool broken'", task)
    assert verdict and verdict[0].verdict == "blocked" and "ModuleNotFoundError" in verdict[0].detail
    db.wait("select why = 'no handler process for kind b_kind is up' from pgrab.late where id = %s", task, timeout=15)
    assert db.one("select status from pgrab.task where id = %s", task) == "scheduled", "nobody takes what nobody can carry out"


def test_a_process_is_replaced_after_max_tasks(db, nodes, handlers):
    handlers.start(nodes, "@task('pid')\ndef pid(ctx): return os.getpid()", "pid", max_tasks=10)
    handlers.wait_up(db)
    db.query("insert into pgrab.task (kind) select 'pid' from generate_series(1, 35)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    counts = [n for (n,) in db.query("select count(*) from pgrab.run where outcome = 'succeeded' group by output")]
    assert sum(counts) == 35 and max(counts) == 10 and len(counts) == 4
    assert db.one("select lost from pgrab.pool") == 0


VERSION = """
@task("version")
def version(seconds, ctx):
    doze(seconds)
    return VERSION
"""


def test_new_code_is_taken_over_one_process_at_a_time_and_no_run_is_lost(db, nodes, handlers):
    node = handlers.start(nodes, "VERSION = 1" + VERSION, "version", processes=3)
    path = handlers.folder / "handlers1.py"
    handlers.wait_up(db, 3)
    old = set(pids_of(node))
    long = db.add(kind="version", args={"seconds": 3})
    db.wait("select status = 'running' from pgrab.task where id = %s", long)
    path.write_text(path.read_text().replace("VERSION = 1", "raise SystemExit('half a file')"))
    node.proc.send_signal(signal.SIGHUP)
    db.wait("select fault like '%%half a file%%' and up = 2 from pgrab.pool", timeout=20)
    assert len(set(pids_of(node)) & old) == 2, "the others go on with the old code"
    assert db.wait_run(db.add(kind="version", args={"seconds": 0})).output == "1\n"
    path.write_text(path.read_text().replace("raise SystemExit('half a file')", "VERSION = 2"))
    wait_until(lambda: len(pids_of(node)) == 3 and not set(pids_of(node)) & old, 30, "three other processes")
    handlers.wait_up(db, 3)
    db.query("insert into pgrab.task (kind, args) select 'version', '{\"seconds\": 0}' from generate_series(1, 20)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert db.query("select outcome, attempt, output, count(*) from pgrab.run group by 1, 2, 3 order by 3") == [
        ("succeeded", 1, "1\n", 2), ("succeeded", 1, "2\n", 20)]


def test_the_successor_of_the_only_process_does_not_wait_for_its_longest_task(db, nodes, handlers):
    node = handlers.start(nodes, "VERSION = 1" + VERSION, "version", processes=1)
    path = handlers.folder / "handlers1.py"
    handlers.wait_up(db)
    long = db.add(kind="version", args={"seconds": 15})
    db.wait("select status = 'running' from pgrab.task where id = %s", long)
    path.write_text(path.read_text().replace("VERSION = 1", "VERSION = 2"))
    for _ in range(2):
        node.proc.send_signal(signal.SIGHUP)
    assert db.wait_run(db.add(kind="version", args={"seconds": 0}), timeout=12).output == "2\n"
    assert db.one("select status from pgrab.task where id = %s", long) == "running"
    assert db.wait_run(long, timeout=30).output == "1\n"
    assert db.one("select lost from pgrab.pool") == 0
    wait_until(lambda: len(pids_of(node)) == 1, 20, "the end of the old process")


def test_a_slow_pool_takes_no_more_than_it_can_do_and_holds_up_nobody_else(db, nodes, handlers):
    handlers.start(nodes, SLEEPER, "sleep", processes=2, node={"workers": 2})
    handlers.wait_up(db, 2)
    db.query("insert into pgrab.task (kind, args) select 'sleep', '{\"seconds\": 30, \"deaf\": false}' from generate_series(1, 500)")
    db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
    began = time.monotonic()
    for _ in range(5):
        db.wait_run(db.add(command="select 1"), timeout=5)
    assert time.monotonic() - began < 4
    assert db.one("select count(*) from pgrab.task where status in ('claimed', 'running') and kind = 'sleep'") <= 4
    db.query("select pgrab.cancel(array_agg(id)) from pgrab.task")
    db.query("delete from pgrab.task")


def test_links_find_what_their_parents_gave_back(db, nodes, handlers):
    handlers.start(nodes, """
@task("give")
def give(ctx):
    print("a line of its own")
    return {"rows": [1, 2]}

@task("take")
def take(ctx):
    return ctx.parents
""", "give, take")
    one = db.add(kind="give", name="one", run_at="2999-01-01")
    two = db.add(kind="sql", name="two", command="select 42", parent_id=one)
    three = db.add(kind="take", parent_id=two)
    db.query("insert into pgrab.edge (parent_id, child_id) values (%s, %s)", one, three)
    shell = db.add(kind="shell", command="echo $PGRAB_PARENT_OUTPUT", parent_id=one)
    db.query("select pgrab.run_now(%s)", one)
    run = db.wait_run(three)
    assert json.loads(run.output) == {"one": {"rows": [1, 2]}, "two": 42}
    assert '{"rows": [1, 2]}' in db.wait_run(shell).output.replace('":[', '": [').replace("1,2", "1, 2")


DEATHS = """
@task("count")
def count(n, ctx):
    with open(os.environ["TRACE"], "a") as f:
        f.write(f"{ctx.id} {ctx.attempt} {ctx.fence}\\n")
    doze(0.02)
    return n
"""


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("victim", ["process", "keeper", "node"])
def test_whatever_dies_nothing_is_lost_and_nothing_done_twice_beyond_its_delivery(db, nodes, handlers, tmp_path, victim, delivery):
    trace = tmp_path / "trace"
    trace.touch()
    section = handlers.python(DEATHS, "count", processes=4).replace("env = ", f"env = TRACE={trace},")
    config = handlers.config(section)
    started = [nodes.start(name, config=config) for name in ("n1", "n2")]
    handlers.wait_up(db, 8)
    total = 400
    db.query("insert into pgrab.task (kind, args, delivery, backoff, max_attempts) select 'count', jsonb_build_object('n', i), %s, '50 ms', 9 "
             "from generate_series(1, %s) i", delivery, total)
    victims, kills = started[0], 3
    for kill in range(kills):
        db.wait("select count(*) > %s from pgrab.run where outcome = 'succeeded'", 20 + 40 * kill, timeout=20)
        if victim == "node":
            victims.kill9()
            victims = nodes.start(f"n{kill + 3}", config=config)
            continue
        before = pids_of(victims)
        os.kill(before[0] if victim == "process" else keeper_of(victims), signal.SIGKILL)
        wait_until(lambda: len(pids_of(victims)) == 4 and pids_of(victims) != before, 15, "other processes")
    db.wait("select not exists (select from pgrab.task where status <> 'parked')", timeout=40)
    begun = [line.split() for line in trace.read_text().splitlines()]
    runs = db.query("select task_id, attempt, incarnation || '-' || version as fence, outcome from pgrab.run")
    good = [r.task_id for r in runs if r.outcome == "succeeded"]
    assert len(good) == len(set(good)), "nothing succeeds twice"
    parked = db.one("select count(*) from pgrab.task where status = 'parked'")
    assert len(good) + parked == total, "nothing is lost"
    assert len({(task, fence) for task, _, fence in begun}) == len(begun), "no attempt is begun twice"
    assert {(int(task), fence) for task, _, fence in begun} <= {(r.task_id, r.fence) for r in runs}, "all that began is in the history"
    if delivery == "at_most_once":
        assert len({task for task, _, _ in begun}) == len(begun), "and no task"
        assert parked <= 4 * kills, "what was begun when it died"
    else:
        assert parked == 0


def test_a_node_that_loses_its_lease_ends_its_handlers_and_goes_on_with_new_ones(db, nodes, handlers):
    node = handlers.start(nodes, SLEEPER, "sleep")
    handlers.wait_up(db)
    task = db.add(kind="sleep", args={"seconds": 3, "deaf": False})
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    before, incarnation = pids_of(node), node.incarnation()
    node.stop()
    wait_until(lambda: not any(map(alive, before)), 10, "the handlers to be dead while their node is frozen")
    node.cont()
    db.wait("select incarnation <> %s from pgrab.node", incarnation, timeout=15)
    run = db.wait_run(task, count=2, timeout=20)
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"] and run.outcome == "succeeded"


def test_what_ends_by_itself_while_its_node_is_frozen_is_lost_with_the_node(db, nodes, handlers, tmp_path):
    """And that is an attempt: nobody else had a part in it."""
    gate = tmp_path / "gate"
    node = handlers.start(nodes, f"""
@task("exit")
def exit_(ctx):
    while ctx.attempt == 1 and not os.path.exists({str(gate)!r}):
        doze(0.02)
    if ctx.attempt == 1:
        os._exit(3)
    return ctx.attempt
""", "exit")
    handlers.wait_up(db)
    task = db.add(kind="exit", max_attempts=2)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    process, incarnation = pids_of(node)[0], node.incarnation()
    node.stop()
    gate.touch()
    wait_until(lambda: not alive(process), 5, "the handler to be gone")
    db.wait("select now() - heartbeat_at > interval '1500 ms' from pgrab.node")
    node.cont()
    db.wait("select incarnation <> %s from pgrab.node", incarnation, timeout=15)
    assert db.wait_run(task, count=2, timeout=20).output == "2\n"
    first = db.runs(task)[0]
    assert (first.outcome, first.attempt, first.error) == ("lost", 1, "its process ended: exit code 3")


def test_a_node_that_stops_waits_for_its_handlers_and_leaves_none(db, nodes, handlers):
    node = handlers.start(nodes, SLEEPER, "sleep", processes=3)
    handlers.wait_up(db, 3)
    task = db.add(kind="sleep", args={"seconds": 1, "deaf": False})
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    pids = pids_of(node)
    node.term()
    assert node.wait_exit(8) == 0
    assert [r.outcome for r in db.runs(task)] == ["succeeded"]
    assert not any(map(alive, pids)) and db.one("select count(*) from pgrab.pool") == 0


def test_a_stop_that_does_not_wait_hands_the_task_on(db, nodes, handlers):
    node = handlers.start(nodes, SLEEPER, "sleep", node={"drain_timeout": "300ms"})
    handlers.wait_up(db)
    task = db.add(kind="sleep", args={"seconds": 60, "deaf": True}, max_attempts=5)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    pids = pids_of(node)
    node.term()
    node.wait_exit(8)
    wait_until(lambda: not any(map(alive, pids)), 5, "the end of the handlers")
    nodes.start("n2", allow="noop")
    db.wait("select status = 'scheduled' from pgrab.task where id = %s", task, timeout=15)
    assert [r.outcome for r in db.runs(task)] == ["lost"]
    db.query("delete from pgrab.task")


def refusal(db, config, env=None):
    """What a node says that does not start with this file."""
    done = subprocess.run([pgrab_bin(), "run", "--dsn", db.dsn, "--config", str(config)], capture_output=True, text=True, timeout=20,
                          env=clean_env(**(env or {})), check=False)
    assert done.returncode in (1, 2), done.stderr
    return done.stderr.replace('\\"', '"')


def test_a_file_that_is_wrong_is_refused_in_plain_words(db, handlers):
    for text, error in (("[pool w]\nkinds = a\n", "[pool w]: command is empty"),
                        ("[pool w]\ncommand = a\n", "[pool w]: it names no kinds"),
                        ("[pool w]\ncommand = a\nkinds = Send-Mail\n", 'kinds: "Send-Mail" is not a name'),
                        ("[pool w]\ncommand = a\nkinds = shell\n", 'the kind "shell" exists'),
                        ("[pool w]\ncommand = a\nkinds = x\n[pool v]\ncommand = a\nkinds = x\n", 'kinds: "x" belongs to another section'),
                        ("[pool w]\ncommand = a 'b\nkinds = x\n", "a quote is not closed"),
                        ("[pool w]\ncommand = a\nkinds = x\nrun_as = no_such\n", '[pool w]: run_as: there is no user "no_such"'),
                        ("[pool w]\ncommand = a\nkinds = x\ncwd = srv\n", '[pool w]: cwd: "srv" does not begin with a slash'),
                        ("[pool w]\ncommand = a\nkinds = x\nenv = A\n", '[pool w]: env: "A" is not NAME=value'),
                        ("[pool w]\ncommand = a\nkinds = x\nlimits = memory=x\n", "[pool w]: limits"),
                        ("[pool w]\nprocesses = 0\n", "processes"), ("[pool a b]\n", "a name is letters, digits")):
        assert error in refusal(db, handlers.config(text))


WHO = """
printf '{"type":"hello","version":1,"kinds":{"who":{}}}\\n' >&4
while read -r line <&3; do
	case $line in
	*'"type":"task"'*) printf '{"type":"result","run":%s,"ok":true,"value":"%s"}\\n' \\
		"$(printf %s "$line" | sed -n 's/.*"run":\\([0-9]*\\).*/\\1/p')" "$(id -un) $(id -gn) $(pwd) $HOME $FLAVOUR" >&4 ;;
	*'"type":"ping"'*) printf '{"type":"pong","n":%s}\\n' "$(printf %s "$line" | sed 's/.*"n":\\([0-9]*\\).*/\\1/')" >&4 ;;
	esac
done
"""
NOT_ROOT = {"PGRAB_ALLOW_ROOT": "no"}


@pytest.fixture
def who(tmp_path_factory):
    """A command that every user of the machine may run: its tasks of kind `who` say who it is."""
    folder = Path(tempfile.mkdtemp(prefix="pgrab-who-"))
    folder.chmod(0o755)
    (folder / "who.sh").write_text(WHO)
    (folder / "who.sh").chmod(0o644)
    yield f"/bin/sh {folder}/who.sh"
    shutil.rmtree(folder)


@root
def test_each_section_runs_as_its_own_user_or_as_the_node_s(db, nodes, handlers, who):
    def said():
        run = db.wait_run(db.add(kind="who"))
        assert run.outcome == "succeeded", run.error
        return json.loads(run.output)

    section = f"[pool w]\ncommand = {who}\nkinds = who\nenv = FLAVOUR=vanilla\n"
    first = nodes.start("n1", env=NOT_ROOT, config=handlers.config("run_as = nobody\n" + section))
    assert said() == "nobody nogroup / /nonexistent vanilla"
    first.term()
    first.wait_exit(8)
    config = handlers.config("run_as = nobody\njob_cwd = /var\n" + section + "run_as = daemon:mail\ncwd = /usr\n")
    second = nodes.start("n2", env=NOT_ROOT, config=config)
    assert said() == "daemon mail /usr /usr/sbin vanilla"
    second.term()
    second.wait_exit(8)
    nodes.start("n3", allow="noop", env=NOT_ROOT, config=handlers.config(section + "run_as = root\n"))
    assert said().startswith("root root")


@root
def test_a_node_that_is_root_does_not_make_its_handlers_root_unless_told_to(db, nodes, handlers, who):
    section = f"[pool w]\ncommand = {who}\nkinds = who\n"
    error = refusal(db, handlers.config(section), NOT_ROOT)
    assert "[pool w]: this node is root, and so would its processes be" in error and "run_as = USER" in error
    assert "and so would its processes be" in refusal(db, handlers.config("[owner x]\nrun_as = nobody\n" + section), NOT_ROOT)
    nodes.start("n1", env=NOT_ROOT, config=handlers.config("allow_root = yes\n" + section))
    assert db.wait_run(db.add(kind="who")).outcome == "succeeded"


def test_what_an_owner_is_allowed_holds_for_handlers(db, nodes, handlers, who):
    me = db.one("select current_user")
    nodes.start("n1", config=handlers.config(f"[owner {me}]\nallow = noop\n[pool w]\ncommand = {who}\nkinds = who\n"))
    handlers.wait_up(db)
    task = db.add(kind="who")
    stays(lambda: db.one("select status from pgrab.task where id = %s", task) == "scheduled" and not db.runs(task), 1.5, "it is not taken")


def test_limits_are_of_each_process(db, nodes, handlers):
    handlers.start(nodes, """
@task("eat")
def eat(megabytes):
    return len(b"x" * (megabytes << 20))
""", "eat", limits="memory=300MB")
    assert db.wait_run(db.add(kind="eat", args={"megabytes": 10})).output == f"{10 << 20}\n"
    much = db.wait_run(db.add(kind="eat", args={"megabytes": 600}, max_attempts=1), timeout=20)
    assert much.outcome == "failed" and ("MemoryError" in much.error or "its process ended" in much.error), much.error
    assert db.wait_run(db.add(kind="eat", args={"megabytes": 10}), timeout=20).outcome == "succeeded"


def test_many_that_are_due_at_one_moment_are_begun_one_after_the_other(db, nodes, handlers):
    handlers.start(nodes, "@task('f')\ndef f(): doze(0.02)", "f", processes=2)
    handlers.wait_up(db, 2)
    db.query("insert into pgrab.task (kind, run_at) select 'f', now() + interval '1.5 s' from generate_series(1, 200)")
    db.wait("select not exists (select from pgrab.task)", timeout=25)
    assert db.query("select outcome, attempt, count(*) from pgrab.run group by 1, 2") == [("succeeded", 1, 200)]
    assert db.one("select max(finished_at) - min(fire_at) < interval '9 s' from pgrab.run"), "none was put off"


def transactions(db):
    return db.one("select xact_commit from pg_stat_database where datname = current_database()")


def test_while_workers_are_busy_an_idle_pool_does_not_make_the_node_look_again_and_again(db, nodes, handlers):
    handlers.start(nodes, "@task('f')\ndef f(): pass", "f", node={"workers": 1, "poll": "20s"})
    handlers.wait_up(db)
    db.query("insert into pgrab.task (kind, command) select 'sql', 'select pg_sleep(60)' from generate_series(1, 50)")
    db.wait("select count(*) = 1 from pgrab.task where status = 'running'")
    before = transactions(db)
    stays(lambda: transactions(db) < before + 500, 4, "a look now and then")
    for _ in range(3):
        assert db.wait_run(db.add(kind="f"), timeout=6).outcome == "succeeded", "the pool is rung for"
    db.query("select pgrab.cancel(array_agg(id)) from pgrab.task")
    db.query("delete from pgrab.task")


RUDE = """
@task("rude")
async def rude(how, ctx):
    if ctx.attempt > 1:
        return "well"
    if how == "twice":
        os.write(4, json.dumps({"type": "result", "run": ctx._run, "ok": True, "value": 1}).encode() + b"\\n")
        return 2
    if how == "silent":
        os.close(1); os.close(2)
        return "said nothing"
    if how == "children":
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                doze(300)
        os._exit(9)
    if how == "flood":
        for n in range(20000):
            ctx.log("x" * 100)
            ctx.progress(n / 200)
        return "flooded"
    if how == "unknown":
        os.write(4, b'{"type":"log","run":99,"text":"of nobody"}\\n{"type":"progress","run":98,"percent":1}\\n{"type":"pong","n":77}\\n')
        return "unharmed"
    if how == "type":
        os.write(4, b'{"type":"dance"}\\n')
        await asyncio.sleep(60)
    if how == "hello":
        os.write(4, b'{"type":"hello","version":1,"kinds":{"rude":{}}}\\n')
        await asyncio.sleep(60)
    if how == "half":
        os.write(4, b'{"type":"result","run":')
        os._exit(0)
"""


@pytest.mark.parametrize("how, outcome, says", [
    ("twice", "succeeded", "1"), ("silent", "succeeded", '"said nothing"'), ("children", "failed", "its process ended: exit code 9"),
    ("flood", "succeeded", '"flooded"'), ("unknown", "succeeded", '"unharmed"'), ("type", "failed", 'it has no "type" that this node knows'),
    ("hello", "failed", "it said hello twice"), ("half", "failed", "its process ended: it ended by itself, with exit code 0")])
def test_a_process_that_is_rude_harms_only_what_it_had(db, nodes, handlers, how, outcome, says):
    node = handlers.start(nodes, RUDE, "rude")
    handlers.wait_up(db)
    before = pids_of(node)
    task = db.add(kind="rude", args={"how": how}, backoff="100 ms")
    run = db.wait_run(task, count=1, timeout=20)
    first = db.runs(task)[0]
    assert first.outcome == outcome and says in (first.output if outcome == "succeeded" else first.error), (first.error, run.output)
    assert db.wait_run(db.add(kind="rude", args={"how": "none"}, backoff="100 ms"), timeout=20).outcome == "succeeded"
    if outcome == "failed" or how == "twice":
        wait_until(lambda: not any(map(alive, before)), 5, "the end of the process")
        assert db.wait_run(task, count=len(db.runs(task)) if how == "twice" else 2, timeout=20).outcome == "succeeded"
    most = 2 if outcome == "failed" or how == "twice" else 1
    stays(lambda: len(pids_of(node)) <= most, 0.5, "nothing but one process, and the one for suspects")


def test_a_frozen_process_is_given_no_more_than_its_pipe_holds(db, nodes, handlers):
    node = handlers.start(nodes, "@task('big')\nasync def big(text): return len(text)", "big", run="run(concurrency=200)", ping_timeout="8s")
    handlers.wait_up(db)
    # Seconds of work for a busy server: they have to be there before the process is missed, or another one gets all of them.
    with db.connect(autocommit=False) as conn:
        conn.execute("insert into pgrab.task (kind, args, backoff) select 'big', jsonb_build_object('text', repeat('x', 500000)), '100 ms' "
                     "from generate_series(1, 60)")
        os.kill(pids_of(node)[0], signal.SIGSTOP)
    db.wait("select count(*) > 0 from pgrab.run where outcome <> 'succeeded'", timeout=20)
    db.wait("select not exists (select from pgrab.task)", timeout=30)
    counts = dict(db.query("select outcome, count(*) from pgrab.run group by 1"))
    assert counts["succeeded"] == 60 and counts.get("failed", 0) < 10, counts


def test_max_tasks_leave_a_process_that_takes_tasks_while_others_still_end_theirs(db, nodes, handlers):
    handlers.start(nodes, "@task('work')\nasync def work(seconds): await asyncio.sleep(seconds)", "work", run="run(concurrency=10)", processes=1, max_tasks=2)
    for _ in range(4):
        db.wait("select status = 'running' from pgrab.task where id = %s", db.add(kind="work", args={"seconds": 60}))
        for _ in range(2):
            assert db.wait_run(db.add(kind="work", args={"seconds": 0}), timeout=10).outcome == "succeeded"
    db.query("select pgrab.cancel(id) from pgrab.task where kind = 'work'")
    db.wait("select not exists (select from pgrab.task where kind = 'work')")


def test_what_one_task_printed_is_not_quoted_in_the_error_of_another(db, nodes, handlers):
    handlers.start(nodes, """
@task("print")
def talk(ctx):
    print("card 4111 of owner A")

@task("die")
def die(ctx):
    os._exit(1)
""", "print,die", processes=1)
    assert db.wait_run(db.add(kind="print")).output == "card 4111 of owner A\n"
    assert db.wait_run(db.add(kind="die", max_attempts=1)).error == "its process ended: exit code 1"


DEAF = """
import json, os, select
def say(**message): os.write(4, json.dumps(message).encode() + b"\\n")
say(type="hello", version=2, kinds={"deaf": {}})
task = json.loads(os.read(3, 65536).split(b"\\n")[0])
say(type="step", run=task["run"], name="big", result="x" * 60000)
os.read(3, 65536)
for _ in range(2000):
    for _ in range(10):
        say(type="step", run=task["run"], name="big")
    select.select([], [], [], 0.05)
"""


def test_one_that_does_not_read_its_answers_is_ended(db, nodes, handlers):
    node = nodes.start("n1", config=handlers.config(handlers.section(f"{sys.executable} {handlers.file(DEAF)}", "deaf", processes=1)))
    run = db.wait_run(db.add(kind="deaf", max_attempts=1), timeout=90)
    assert run.error == "its process was killed: it does not read the answers to its steps"
    assert int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{node.pid}/status").read_text())[1]) < 400 * 1024
