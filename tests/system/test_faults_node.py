"""A node's own faults: one connection of many that cannot be made, a name that is taken, a server that is not there yet or went back in time."""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from cluster import clean_env, conninfo, pgrab_bin, run_pgrab, stays, wait_until
from faulty import as_role, hang_up, proxy, role  # noqa: F401 (fixtures)


def test_a_node_that_cannot_start_hands_back_and_claims_nothing(db, nodes, role):
    """The starter's connection cannot be made again: a peer gets the work, and the node takes up again when it can."""
    options = {"allow": "shell,noop", "poll": "300ms"}
    ill = nodes.start("n1", dsn=as_role(db, role), **options)
    nodes.start("n2", **options)
    for _ in range(6):
        db.wait_run(db.add(kind="shell", command="true"))
    db.query(f"alter role {role} connection limit 0")
    hang_up(db, "start")
    due = db.one("select now() + interval '2 s'")
    tasks = [db.add(kind="shell", command="true", **({"run_at": due} if i % 2 else {})) for i in range(100)]
    db.wait("select not exists (select from pgrab.task)", timeout=25)
    assert db.one("select count(*) from pgrab.run where outcome = 'succeeded' and task_id = any (%s)", tasks) == 100
    ill.wait_log("event=fault part=start")
    assert db.one("select state from pgrab.node where name = 'n1'") == "up", "its heartbeat goes on"
    db.query(f"alter role {role} connection limit -1")
    ill.wait_log("event=fault_over part=start")
    db.query("insert into pgrab.task (kind, command) select 'shell', 'true' from generate_series(1, 60)")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert db.one("select count(*) > 0 from pgrab.run where node = 'n1' and finished_at > now() - interval '5 s'")


def test_a_node_that_cannot_start_says_so_in_sql(db, nodes, role):
    node = nodes.start("n1", dsn=as_role(db, role), allow="shell,noop")
    db.wait_run(db.add(kind="shell", command="true"))
    db.query(f"alter role {role} connection limit 0")
    hang_up(db, "start")
    task = db.add(kind="shell", command="true", max_attempts=1)  # the last attempt is not started by its claim
    db.wait("select why = 'n1 cannot record runs now: see the log' from pgrab.late where id = %s", task, timeout=15)
    assert db.one("select warning from pgrab.nodes") == "cannot record runs now: see its log"
    assert db.query("select verdict, detail from pgrab.explain(%s) where gate = 'node n1'", task) == [
        ("waits", "It cannot record runs now, so it takes no tasks: see its log.")]
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert re.search("recording +fix +node n1 cannot record starts", doctor), doctor
    db.query(f"alter role {role} connection limit -1")
    node.wait_log("event=fault_over part=start")
    assert db.wait_run(task).outcome == "succeeded"
    db.wait("select not ill and not busy from pgrab.node")


@pytest.mark.private_server
@pytest.mark.deadline(90)
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_what_ended_before_the_fence_counts_after_it(cluster, db, nodes, probe, delivery):
    """The server is away for longer than the lease; the run ends while it is."""
    probe.close_gate()
    node = nodes.start("n1", fence_after="5s", dead_after="10s", outlast_restart="off")
    task = db.add(**probe.shell("a", gate=True), delivery=delivery, max_attempts=3)
    probe.wait("start", "a")
    old = node.incarnation()
    cluster.pg_stop("fast")
    probe.open_gate()
    probe.wait("end", "a")
    node.wait_log("event=fenced")
    cluster.pg_start()
    assert db.wait_run(task, timeout=20).outcome == "succeeded"
    db.wait("select incarnation <> %s and state = 'up' from pgrab.node where name = 'n1'", old)
    assert [(r.outcome, r.incarnation) for r in db.runs(task)] == [("succeeded", old)], "under its old fence"
    assert len(probe.events("start")) == 1
    assert "stale_finish" not in node.log()


@pytest.mark.deadline(90)
def test_a_node_whose_sql_run_cannot_be_asked_for_is_fenced_and_goes_on(db, nodes, proxy):
    """With the default settings, the server silent for longer than dead_after."""
    defaults = dict.fromkeys(("heartbeat", "fence_after", "dead_after", "kill_grace"))
    node = nodes.start("n1", dsn=proxy.dsn, **defaults)
    task = db.add(command="select pg_sleep(60)")
    db.wait("select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep')")
    proxy.silent = True
    node.wait_log("event=waiting for=lease", timeout=40)
    proxy.silent = False
    db.query("update pgrab.task set command = 'select 1' where id = %s", task)
    assert db.wait_run(task, 2, timeout=30).outcome == "succeeded"
    assert node.running()


def test_a_result_that_comes_when_another_has_the_task_changes_nothing(db, nodes, probe, proxy):
    """Cut off for longer than dead_after: the other node's run is the one that counts."""
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True))
    first = nodes.start("n1", dsn=proxy.dsn, fence_after="1500ms")
    probe.wait("start", "a")
    probe.open_gate()
    proxy.silent = True
    probe.wait("end", "a")
    nodes.start("n2")
    assert db.wait_run(task, count=2, timeout=20).outcome == "succeeded"
    proxy.silent = False
    proxy.lose(b"pgrab")
    first.wait_log("event=stale_finish", timeout=20)
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]


@pytest.mark.deadline(90)
def test_a_name_held_by_a_dead_node_is_taken_over(db, nodes):
    frozen = nodes.start("n1")
    frozen.stop()
    second = nodes.start("n1", wait=False)
    second.wait_log("event=up", timeout=15)
    second.kill9()
    frozen.cont()
    frozen.wait_log("event=fenced")
    frozen.wait_log("event=registered(.|\n)*event=registered", timeout=15)
    assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"


def test_a_name_held_by_a_live_node_is_left_to_it(db, nodes):
    frozen = nodes.start("n1")
    frozen.stop()
    second = nodes.start("n1", wait=False)
    second.wait_log("event=up", timeout=15)
    frozen.cont()
    frozen.wait_log("event=waiting for=lease .*took the name")
    inc = db.one("select incarnation from pgrab.node")
    stays(lambda: db.one("select incarnation from pgrab.node") == inc, 5)
    second.end()
    frozen.wait_log("event=registered(.|\n)*event=registered", timeout=15)


def test_a_node_that_starts_while_the_server_is_full_waits(db, nodes, role):
    db.query(f"alter role {role} connection limit 0")
    node = nodes.start("n1", dsn=as_role(db, role), wait=False)
    node.wait_log('event=waiting for=database error=".*too many connections')
    db.query(f"alter role {role} connection limit -1")
    node.wait_up(timeout=15)
    assert node.log().count("event=waiting") == 1


def test_a_fault_of_the_configuration_ends_a_start_with_the_remedy(db, role):
    def start(dsn):
        return subprocess.run([pgrab_bin(), "run", "--dsn", dsn], env=clean_env(), capture_output=True, text=True, timeout=15, check=False)

    db.query(f"alter role {role} nologin")
    done = start(as_role(db, role))
    assert done.returncode == 1 and "alter role ... login" in done.stderr
    db.query(f"alter role {role} login; revoke all on all tables in schema pgrab from {role}")
    done = start(as_role(db, role))
    assert done.returncode == 1 and "permission denied" in done.stderr
    assert "A node logs in as the owner of the schema pgrab or, with separate roles, as a member of pgrab_node" in done.stderr


def test_a_server_that_lost_our_beats_fences_the_node(db, nodes, probe):
    """As after a restore or an asynchronous failover: the row is there, as it was a while ago."""
    node = nodes.start("n1")
    probe.close_gate()
    db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    db.wait("select beat > 5 from pgrab.node")
    old = node.incarnation()
    db.query("update pgrab.beat set beat = beat - 4")
    hang_up(db, "heartbeat")
    node.wait_log("event=fenced .*went back in time")
    db.wait("select incarnation <> %s and state = 'up' from pgrab.node", old)
    probe.wait("start", "a", count=2)
    probe.assert_no_overlap()
    probe.open_gate()
    db.wait("select not exists (select from pgrab.task)")


def test_nobodys_open_transaction_fences_a_node_or_keeps_it_from_being_recovered(db, nodes):
    """On what people may write, and on the very beat that it replaces."""
    node = nodes.start("n1", fence_after="1500ms", dead_after="5500ms")
    old = node.incarnation()
    with db.connect(autocommit=False) as person, db.connect(autocommit=False) as lock:
        person.execute("update pgrab.node set weight = 3")
        lock.execute("select * from pgrab.beat for update")
        beat = db.one("select beat from pgrab.node")
        db.wait("select beat > %s + 3 from pgrab.node", beat)
        assert node.incarnation() == old and db.one("select weight from pgrab.node") == 1
        task = db.add(command="select pg_sleep(case when current_setting('application_name') = 'pgrab sql %s' then 60 else 0 end)" % old)
        db.wait("select status = 'running' from pgrab.task where id = %s", task)
        nodes.start("n2", fence_after="1500ms", dead_after="5500ms")
        node.kill9()
        assert db.wait_run(task, count=2, timeout=20).node == "n2"
        nodes.start("n1")
    assert "fenced" not in node.log()
    db.query("select pgrab_internal.beats_leave()")
    assert db.one("select count(*) <= 4 from pgrab.beat"), "of each node the last, and what came meanwhile"


def test_beats_cost_no_more_while_a_snapshot_is_held(db, nodes):
    """The last beat is the first one read, however many dead ones lie behind it."""
    nodes.start("n1", heartbeat="50ms", poll="100ms")
    with db.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        before = db.one("select beat from pgrab.node")
        db.wait("select beat > %s + 60 from pgrab.node", before)
        db.query("set enable_seqscan = off")
        plan = "\n".join(row[0] for row in db.query("explain (analyze, buffers, timing off) select * from pgrab.node"))
        db.query("reset enable_seqscan")
        assert "Index Scan Backward using beat_pkey" in plan and "Rows Removed" not in plan, plan
        assert db.one("select count(*) from pgrab.beat") == 1


def test_a_lost_connection_alone_fences_nobody(db, nodes):
    node = nodes.start("n1")
    for _ in range(3):
        beat = db.one("select beat from pgrab.node")
        hang_up(db, "heartbeat")
        db.wait("select beat > %s from pgrab.node", beat + 2)
    assert "event=fenced" not in node.log()


def test_logins_that_are_refused_cost_a_few_tries_and_few_lines(db, nodes, role):
    """Several loaders, none of which can log in, while room is given back all the time."""
    node = nodes.start("n1", dsn=as_role(db, role), loaders=4, fence_after="30s", dead_after="60s", heartbeat="1s")
    db.wait_run(db.add(kind="noop"))
    db.query("insert into pgrab.task (kind, command) select 'shell', 'sleep 0.2' from generate_series(1, 400)")
    db.wait("select count(*) > 5 from pgrab.run")
    db.query(f"alter role {role} nologin")
    for _ in range(2):
        hang_up(db, "load")
    lines = len(node.log().splitlines())
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun > 3, 5)
    db.query(f"alter role {role} login")
    assert len(node.log().splitlines()) - lines < 30
    db.wait("select not exists (select from pgrab.task)", timeout=40)


def test_one_task_that_cannot_be_started_holds_up_no_other(db, nodes):
    """A trigger of somebody's refuses its start: the others of its batch start, and the node is not ill."""
    db.query("create function public.no() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$")
    db.query("create trigger no before update on pgrab.task for each row when (new.status = 'running' and new.name = 'bad') execute function public.no()")
    node = nodes.start("n1")
    due = db.one("select now() + interval '1 s'")
    bad = db.add(kind="shell", command="true", name="bad", run_at=due)
    others = [db.add(kind="shell", command="true", run_at=due) for _ in range(12)]
    for task in others:
        assert db.wait_run(task, timeout=5).outcome == "succeeded"
    assert db.wait_run(db.add(kind="noop"), timeout=3).outcome == "succeeded"
    assert "event=fault part=start" not in node.log() and not db.runs(bad)
    db.query("drop trigger no on pgrab.task")
    assert db.wait_run(bad).outcome == "succeeded"


def readlink(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return None  # closed meanwhile


def tcp_timers(pid):
    """Of each connection of a process: which timer the kernel keeps (2: keepalive), and when it goes off, in seconds."""
    targets = [link for fd in Path(f"/proc/{pid}/fd").iterdir() if (link := readlink(fd))]
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and fields[3] == "01":
            timer, _, when = fields[5].partition(":")
            yield int(timer, 16), int(when, 16) / os.sysconf("SC_CLK_TCK")


def test_every_connection_is_asked_whether_somebody_is_there(db, nodes):
    """A flow that something in between has dropped says nothing: without keepalives it is not noticed for two hours."""
    node = nodes.start(dsn=conninfo.make_conninfo(db.dsn, host="127.0.0.1"))
    task = db.add(kind="sql", command="select pg_sleep(20)")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    wait_until(lambda: (t := list(tcp_timers(node.pid))) and len(t) >= 4 and all(kind == 2 and when <= 10 for kind, when in t),
               10, "a keepalive within ten seconds on each connection")
    db.query("select pgrab.cancel(%s)", task)


@pytest.mark.parametrize("kind", ["noop", "sql"])
def test_a_node_with_claimed_tasks_outlives_a_silent_server(db, nodes, proxy, kind):
    """Its starter still waits for an answer when the lease is over: nothing runs, so there is nothing to exit for."""
    node = nodes.start("n1", dsn=proxy.dsn, fence_after="3s", dead_after="7s", kill_grace="1s", lookahead="10s")
    command = "" if kind == "noop" else "select 1"
    tasks = [db.add(kind=kind, command=command, run_at=db.one("select now() + interval '1500 ms'")) for _ in range(12)]
    db.wait("select count(*) = 12 from pgrab.task where status = 'claimed'")
    proxy.silent = True
    node.wait_log("event=fenced", timeout=10)
    db.wait("select now() > claimed_at + interval '10 s' from pgrab.task limit 1", timeout=15)
    assert node.running() and "fence_stuck" not in node.log()
    proxy.silent = False
    for task in tasks:
        assert db.wait_run(task, timeout=20).outcome == "succeeded"
