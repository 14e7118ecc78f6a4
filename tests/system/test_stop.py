"""Stopping in good order."""
import signal
import time

import pytest


def test_term_hands_back_what_is_unstarted_at_once_and_lets_the_running_end(db, nodes, probe):
    probe.close_gate()
    node = nodes.start("n1", workers=1, drain_timeout="20s", lookahead="1h")
    running = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    ahead = db.one("insert into pgrab.task (kind, run_at) values ('noop', now() + interval '10 minutes') returning id")
    db.wait("select status = 'claimed' from pgrab.task where id = %s", ahead)
    node.term()
    db.wait("select status = 'scheduled' from pgrab.task where id = %s", ahead, timeout=1.5)
    db.wait("select state = 'draining' from pgrab.node where name = 'n1'")
    assert node.running()
    late = db.add(kind="noop")
    probe.open_gate()
    assert node.wait_exit(5) == 0
    assert db.wait_run(running).outcome == "succeeded"
    assert db.one("select status from pgrab.task where id = %s", late) == "scheduled", "no new claims while draining"
    assert db.one("select state from pgrab.node where name = 'n1'") == "down"
    assert db.one("select count(*) from pgrab.task where node_id is not null") == 0


def test_another_node_takes_what_a_stopping_one_hands_back_within_a_second(db, nodes, probe):
    probe.close_gate()
    first = nodes.start("n1", workers=1, drain_timeout="20s")
    db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    nodes.start("n2", allow="noop")
    tasks = [db.add(kind="noop") for _ in range(20)]
    first.term()
    for task in tasks:
        assert db.wait_run(task, timeout=3).outcome == "succeeded"
    probe.open_gate()
    assert first.wait_exit(5) == 0


def test_runs_that_outlast_the_drain_timeout_are_stopped_and_handed_on(db, nodes, probe):
    first = nodes.start("n1", drain_timeout="500ms")
    task = db.add(**probe.shell("a", seconds=60, deaf=True))
    probe.wait("start", "a")
    at = time.monotonic()
    first.term()
    assert first.wait_exit(6) == 0
    assert time.monotonic() - at < 0.5 + 0.5 + 2
    assert [r.outcome for r in db.runs(task)] == ["lost"]
    assert "drain_timeout" in db.runs(task)[0].error
    assert db.one("select status from pgrab.task where id = %s", task) == "scheduled", "to be tried again at once"


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGQUIT), (signal.SIGQUIT,)])
def test_a_second_term_or_quit_means_now(db, nodes, probe, signals):
    node = nodes.start("n1", drain_timeout="60s")
    db.add(**probe.shell("a", seconds=60))
    probe.wait("start", "a")
    for one in signals:
        node.proc.send_signal(one)
        node.wait_log("event=stopping")
    assert node.wait_exit(5) == 0
    assert db.one("select count(*) from pgrab.task where status = 'scheduled'") == 1


def test_an_idle_node_stops_at_once_and_starts_again_under_its_name(db, nodes):
    for _ in range(3):
        node = nodes.start("n1")
        at = time.monotonic()
        node.term()
        assert node.wait_exit(5) == 0
        assert time.monotonic() - at < 2
    assert db.one("select count(*) from pgrab.node") == 1


def test_stopping_under_load_loses_nothing(db, nodes):
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 40000)")
    for i in range(4):
        node = nodes.start(f"n{i}")
        seen = db.one("select count(*) from pgrab.run")
        db.wait("select count(*) > %s or not exists (select from pgrab.task) from pgrab.run", seen + 500)
        node.term()
        assert node.wait_exit(8) == 0
        assert db.one("select count(*) from pgrab.task where status <> 'scheduled'") == 0
    nodes.start("last")
    db.wait("select not exists (select from pgrab.task)", timeout=20)
    assert db.query("select count(*) as n, count(distinct task_id) as d from pgrab.run") == [(40000, 40000)]


def test_a_node_that_may_exits_when_it_has_been_idle(db, nodes, probe):
    probe.close_gate()
    began = time.monotonic()
    node = nodes.start("n1", exit_when_idle="1s")
    running = db.add(**probe.shell("a", gate=True))
    probe.wait("start", "a")
    db.wait("select now() > started_at + interval '1.5 s' from pgrab.task where id = %s", running, timeout=10)
    assert node.running(), "it is at work"
    probe.open_gate()
    ended = db.wait_run(running).finished_at
    assert node.wait_exit(10) == 0 and time.monotonic() - began > 2
    assert db.one("select state = 'down' and clock_timestamp() > %s + interval '1 s' from pgrab.node where name = 'n1'", ended)
    node.wait_log("event=idle")
