"""Runs end when they have ended, whatever dies or freezes: node, keeper, shim; and nothing of it stops the node."""
import os
import re
import shutil
import signal
import subprocess
import time
from datetime import datetime

import pytest
from cluster import Node, alive, clean_env, pgrab_bin, process_table, program_for_others, wait_until
from faulty import proxy  # noqa: F401 (fixture)

# So long that nobody could have noticed by the silence.
SLOW = {"fence_after": "20s", "dead_after": "60s"}


def parent(pid):
    return process_table()[pid][0]


def keeper_of(node):
    """Waits for it: one that was killed may not be followed by another yet, nor this one have its name."""
    def found():
        pids = [pid for pid, (above, _, name) in process_table().items() if above == node.pid and name == "pgrab-keeper"]
        return pids if len(pids) == 1 else []
    return wait_until(found, 5, "one keeper")[0]


def shim_of(child):
    while process_table()[child][2] != "pgrab-shim":
        child = parent(child)
    return child


def test_a_killed_node_says_so_and_another_runs_its_task_within_three_seconds(db, nodes, probe):
    late = []
    nodes.start("n0", **SLOW)
    for i in range(5):
        task = db.add(**probe.shell(f"t{i}", seconds=60, deaf=True), max_attempts=9)
        first = int(probe.wait("start", f"t{i}")[0].pid)
        nodes.start(f"n{i + 1}", **SLOW)
        node = next(n for n in nodes.all if n.running() and n.pid == parent(parent(shim_of(first))))
        at = time.monotonic()
        node.kill9()
        probe.wait("start", f"t{i}", count=2)
        late.append(time.monotonic() - at)
        assert not alive(first)
        assert [r.outcome for r in db.runs(task)] == ["lost"]
        db.query("select pgrab.cancel(%s)", task)
        db.wait("select not exists (select from pgrab.task)")
    probe.assert_no_overlap()
    assert max(late) < 3, late


def test_a_killed_node_that_runs_no_children_says_so_too(db, nodes):
    task = db.add(command="select pg_sleep(60)", max_attempts=9, backoff="0")
    first = nodes.start("n1", allow="sql", **SLOW)
    db.wait("select status = 'running' from pgrab.task")
    nodes.start("n2", allow="sql", **SLOW)
    first.kill9()
    db.wait("select status = 'running' and attempt = 2 from pgrab.task where id = %s", task, timeout=5)
    assert db.one("select state from pgrab.node where name = 'n1'") == "down"
    db.query("select pgrab.cancel(%s)", task)


def test_a_node_that_stops_in_order_leaves_no_word_of_its_death(db, nodes):
    node = nodes.start("n1")
    node.term()
    assert node.wait_exit(5) == 0
    assert "node_died" not in node.log()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP])
def test_a_keeper_that_is_lost_costs_its_runs_and_nothing_else(db, nodes, probe, sig):
    node = nodes.start("n1", fence_after="3s", dead_after="6s")
    incarnation = node.incarnation()
    sql = db.add(command="select pg_sleep(6)")
    task = db.add(**probe.shell("a", seconds=60, deaf=True), backoff="0")
    first = int(probe.wait("start", "a")[0].pid)
    db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
    os.kill(keeper_of(node), sig)
    probe.wait("start", "a", count=2)
    assert not alive(first)
    probe.assert_no_overlap()
    assert db.wait_run(sql, timeout=15).outcome == "succeeded"
    assert node.incarnation() == incarnation
    assert len(db.runs(task)) == 1
    db.query("select pgrab.cancel(%s)", task)


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_frozen_shim_does_not_let_two_runs_overlap(db, nodes, probe, how):
    nodes.start("n1")
    task = db.add(**probe.shell("a", seconds=60, deaf=True), backoff="0", timeout="1h" if how == "cancel" else "2s")
    first = int(probe.wait("start", "a")[0].pid)
    os.kill(shim_of(first), signal.SIGSTOP)
    if how == "cancel":
        db.query("select pgrab.cancel(%s)", task)
    run = db.wait_run(task, timeout=20)
    assert run.outcome == ("cancelled" if how == "cancel" else "timed_out")
    assert not alive(first)
    if how == "timeout":
        probe.wait("start", "a", count=2)
        db.query("select pgrab.cancel(%s)", task)
    probe.assert_no_overlap()


def test_a_run_has_not_ended_before_its_frozen_keeper_is_replaced(db, nodes, probe):
    """The node has said for a while that it waits; saying so ends nothing."""
    node = nodes.start("n1", kill_grace="0")
    task = db.add(**probe.shell("a", seconds=60, deaf=True), max_attempts=1)
    first = int(probe.wait("start", "a")[0].pid)
    os.kill(shim_of(first), signal.SIGSTOP)
    os.kill(keeper_of(node), signal.SIGSTOP)
    db.query("select pgrab.cancel(%s)", task)
    node.wait_log("event=keeper_lost", timeout=20)
    run = db.wait_run(task, timeout=20)
    assert not alive(first)
    lost = re.search(r"^(\S+) .* event=keeper_lost ", node.log(), re.M)[1]
    assert run.finished_at >= datetime.fromisoformat(lost)


def test_term_ends_a_node_in_time_whose_run_cannot_be_proved_gone(db, nodes, probe):
    node = nodes.start("n1", drain_timeout="500ms")
    db.add(**probe.shell("a", seconds=60, deaf=True))
    first = int(probe.wait("start", "a")[0].pid)
    shim = shim_of(first)
    os.kill(shim, signal.SIGSTOP)
    os.kill(keeper_of(node), signal.SIGSTOP)
    at = time.monotonic()
    node.term()
    node.wait_exit(10)
    assert time.monotonic() - at < 0.5 + 5, "drain_timeout and five seconds"
    wait_until(lambda: not alive(first) and not alive(shim), 5, "the run and its shim to be dead")


def test_a_log_that_nobody_reads_stops_nothing(db, tmp_path):
    reading, writing = os.pipe()
    command = [pgrab_bin(), "run", "--dsn", db.dsn, "--name", "n1", "--log-level", "debug"]
    node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=writing, env=clean_env(), start_new_session=True)
    os.close(writing)
    try:
        db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 20000)")
        db.wait("select not exists (select from pgrab.task)", timeout=30)
        node.terminate()
        assert node.wait(10) == 0
    finally:
        node.kill()
        node.wait()
        os.close(reading)


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to be somebody else")
def test_nobody_of_the_same_user_can_look_into_a_node(db, nodes, tmp_path):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    wrapper = tmp_path / "pgrab"
    wrapper.write_text(f"#!/bin/sh\nexec {' '.join(nobody)} {program_for_others(tmp_path)} \"$@\"\n")
    wrapper.chmod(0o755)
    node = nodes.start("n1", binary=str(wrapper), env={"PGPASSWORD": "secret", "PGRAB_LABELS": "a=b"},
                       dsn=db.dsn + " password=secret")
    for pid in (node.pid, keeper_of(node)):
        for what in ("environ", "maps", "fd"):
            seen = subprocess.run([*nobody, "ls" if what == "fd" else "cat", f"/proc/{pid}/{what}"],
                                  capture_output=True, text=True, check=False)
            assert seen.returncode != 0 and "ermission denied" in seen.stderr, (what, seen)
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
            assert "secret" not in f.read()
    task = db.add(kind="shell", command="env; cat /proc/$PPID/environ /proc/$PPID/maps 2>&1 | head -c 100")
    output = db.wait_run(task).output
    assert "secret" not in output and "ermission denied" in output


def test_a_node_killed_while_it_registers_again_is_spoken_for(db, nodes, proxy):
    node = nodes.start("n1", dsn=proxy.dsn, fence_after="1s", dead_after="60s")
    node.wait_log("event=up")  # the database knew before the node did
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.registration for update")
        proxy.silent = True
        node.wait_log("event=fenced")
        proxy.silent = False
        db.wait("select count(*) >= 2 from pgrab_internal.run_key")  # it has chosen who it will be, and cannot be it
        node.kill9()
        person.rollback()
    db.wait("select state = 'down' from pgrab.node where name = 'n1'", timeout=10)
