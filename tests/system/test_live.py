"""What runs show while they are under way: output, progress, that they are being stopped; and when they stall."""
import os
import re
import signal
import subprocess

import pytest

from cluster import clean_env, descendants, pgrab_bin, process_table, run_pgrab, stays, wait_until


def output(db, task):
    """As a person with psql: asked again until the node has answered."""
    return wait_until(lambda: db.one("select pgrab.output(%s)", task), 5, f"the output of task {task}")


def follow(db, task, *args):
    return subprocess.Popen([pgrab_bin(), "logs", str(task), "-f", "--dsn", db.dsn, *args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env())


@pytest.fixture
def gate(probe):
    """A lock that tasks wait for."""
    probe.close_gate()
    return probe.gate.name


def held(db, gate, before="echo one", after="echo two", **columns):
    return db.add(kind="shell", command=f"{before}; flock -s {gate} true; {after}", **columns)


def test_output_of_a_run_is_shown_while_it_runs_and_afterwards(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    assert output(db, task) == "one\n"
    assert db.one("select count(*) from pgrab.live_output") == 1
    assert run_pgrab("logs", task, dsn=db.dsn).stdout == "one\n"
    probe.open_gate()
    assert db.wait_run(task).output == "one\ntwo\n"
    assert db.one("select pgrab.output(%s)", task) == "one\ntwo\n"
    assert run_pgrab("logs", task, dsn=db.dsn).stdout == "one\ntwo\n"
    db.wait("select not exists (select from pgrab.live_output) and not exists (select from pgrab.live_request) and not exists (select from pgrab.live)")


def test_nothing_is_written_while_nobody_asks(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate, before="for i in 1 2 3 4 5; do echo $i; sleep 0.2; done")
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    stays(lambda: db.one("select count(*) from pg_stat_user_tables where relname like 'live%%' and n_tup_ins + n_tup_upd + n_tup_del > 0") == 0
          and not db.query("select from pg_stat_activity where application_name = 'pgrab teller' and datname = current_database()"), 2, "the quiet")
    probe.open_gate()
    db.wait_run(task)


def test_follow_ends_when_nobody_reads_any_more(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    with follow(db, task) as following:
        assert following.stdout.read(4) == b"one\n"
        following.stdout.close()
        assert following.wait(5) == 0
    probe.open_gate()
    db.wait_run(task)


def test_follow_shows_each_byte_once_and_ends_with_the_outcome(db, nodes, probe, gate):
    nodes.start()
    good = held(db, gate, before="printf 'caf\\303'; sleep 1; printf '\\251 '; for i in $(seq 2000); do echo line $i; done",
                after="echo end; printf 'half \\377'")
    bad = held(db, gate, after="exit 3", max_attempts=1)
    watched = follow(db, good), follow(db, bad)
    for one in watched:
        assert one.stdout.read(3) in (b"caf", b"one")
    db.wait("select total > 10000 from pgrab.live_output where task_id = %s", good)
    probe.open_gate()
    out, err = watched[0].communicate(timeout=20)
    assert (b"caf" + out).decode() == "café " + "".join(f"line {i}\n" for i in range(1, 2001)) + "end\nhalf \\xFF"
    assert watched[0].returncode == 0 and err == b""
    _, err = watched[1].communicate(timeout=20)
    assert watched[1].returncode == 1 and re.search(rb"attempt 1 failed: exit code 3", err), err


@pytest.mark.deadline(90)
def test_follow_of_a_flood_says_what_it_left_out(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate, before="seq 1 60000", after="seq 60001 200000; echo last")
    watched = follow(db, task)
    db.wait("select total > 300000 from pgrab.live_output where task_id = %s", task)
    probe.open_gate()
    out, _ = watched.communicate(timeout=30)
    lines = out.decode().split("\n")
    assert lines[:3] == ["1", "2", "3"] and lines[-3:] == ["200000", "last", ""]
    assert any(re.fullmatch(r"\.\.\. \d+ bytes dropped \.\.\.", line) for line in lines)
    dropped = sum(int(n) for n in re.findall(r"\n\.\.\. (\d+) bytes dropped \.\.\.\n", out.decode()))
    notes = sum(len(n) for n in re.findall(r"\n\.\.\. \d+ bytes dropped \.\.\.\n", out.decode()))
    whole = sum(len(str(i)) + 1 for i in range(1, 200001)) + len("last\n")
    assert len(out) - notes + dropped == whole, "each byte is shown once, or counted as left out"


def test_logs_of_what_has_not_run_and_of_what_is_not_there(db, nodes):
    task = db.add(kind="noop", run_at="2100-01-01")
    done = run_pgrab("logs", task, dsn=db.dsn, check=False)
    assert done.returncode == 1 and "has not run yet" in done.stderr
    done = run_pgrab("logs", 4711, dsn=db.dsn, check=False)
    assert done.returncode == 3 and "4711" in done.stderr
    assert db.one("select pgrab.output(%s)", task) is None
    with pytest.raises(Exception, match="task 4711 does not exist"):
        db.query("select pgrab.output(4711)")


def test_where_nothing_may_be_written_nothing_is_asked(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    with db.connect(options="-c default_transaction_read_only=on") as other:
        assert other.execute("select pgrab.output(%s)", [task]).fetchone()[0] is None
        assert output(db, task) == "one\n"
        assert other.execute("select pgrab.output(%s)", [task]).fetchone()[0] == "one\n"


def test_a_node_that_does_not_answer_is_named(db, nodes, probe, gate):
    node = nodes.start()
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    assert output(db, task) == "one\n"
    node.stop()
    done = run_pgrab("logs", task, dsn=db.dsn, check=False)
    node.cont()
    assert done.returncode == 1 and "node n1 has not shown" in done.stderr
    assert done.stdout == "one\n", "what was known"


def test_who_asks_in_an_open_transaction_holds_up_nobody(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    with db.connect(autocommit=False) as other:
        other.execute("select pgrab.output(%s)", [task])
        assert output(db, task) == "one\n"


def test_without_the_doorbell_the_heartbeat_brings_the_question(db, nodes, probe, gate):
    nodes.start(listen_dsn="host=/nowhere")
    task = held(db, gate)
    db.wait("select status = 'running' from pgrab.task where id = %s", task)
    assert output(db, task) == "one\n"


def progress(db, task):
    rows = db.query("select progress, progress_text from pgrab.running where id = %s", task)
    return tuple(rows[0]) if rows else None


def test_progress_is_shown_and_what_is_no_progress_is_not(db, nodes, probe, gate):
    nodes.start()
    task = held(db, gate, before="echo pgrab: progress 150 no; printf 'pgrab: prog'; sleep 0.1; printf 'ress 42.5%% copying '; sleep 0.1; echo files; echo x pgrab: progress 99",
                after="echo pgrab: progress all done >&2; sleep 1")
    wait_until(lambda: progress(db, task) == (42.5, "copying files"), 5, "its progress")
    shown = run_pgrab("show", task, dsn=db.dsn).stdout
    assert "42.5% copying files" in shown
    assert re.search(r"42\.5%\s+.*copying files", run_pgrab("top", "--once", dsn=db.dsn).stdout)
    probe.open_gate()
    wait_until(lambda: progress(db, task) == (None, "all done"), 5, "its last progress")
    assert "pgrab: progress 42.5%" in db.wait_run(task).output, "it stays in the output"
    db.wait("select not exists (select from pgrab.live)")


def test_sql_says_it_with_a_notice(db, nodes):
    nodes.start()
    task = db.add(command="do $$ begin raise notice 'pgrab: progress 10 begun'; raise notice 'other'; perform pg_sleep(1.5); "
                          "raise notice 'pgrab: progress 20 further'; perform pg_sleep(1.5); end $$", stall_after="2 s", max_attempts=1)
    wait_until(lambda: progress(db, task) == (10, "begun"), 5, "its progress")
    wait_until(lambda: progress(db, task) == (20, "further"), 5, "its progress")
    assert db.wait_run(task).outcome == "succeeded", "a sign of life, too"
    quiet = db.add(command="select pg_sleep(30)", stall_after="1 s", max_attempts=1)
    assert db.wait_run(quiet).error.startswith("it stalled")


def test_progress_in_a_flood_is_told_once_per_heartbeat(db, nodes):
    nodes.start(heartbeat="500ms", fence_after="2s", dead_after="6s")
    task = db.add(kind="shell", command="for i in $(seq 3000); do echo pgrab: progress $((i / 30)) step $i; done; sleep 2")
    wait_until(lambda: progress(db, task) == (100, "step 3000"), 5, "the last")
    db.wait_run(task)
    db.query("select pg_stat_clear_snapshot()")
    assert db.one("select n_tup_ins + n_tup_upd from pg_stat_user_tables where relid = 'pgrab.live'::regclass") <= 8


def test_progress_of_a_node_that_died_is_gone_with_it(db, nodes, probe, gate):
    node = nodes.start()
    held(db, gate, before="echo pgrab: progress 1 x")
    db.wait("select count(*) = 1 from pgrab.live")
    node.kill9()
    probe.open_gate()
    nodes.start("n2")
    db.wait("select not exists (select from pgrab.live l join pgrab.node n using (incarnation) where n.name = 'n1')", timeout=15)


def test_a_run_that_stalls_is_stopped_and_one_that_shows_life_is_not(db, nodes):
    nodes.start()
    quiet = db.add(kind="shell", command="echo begun; sleep 60", stall_after="1 s", max_attempts=1)
    lively = db.add(kind="shell", command="for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done", stall_after="1500 ms", max_attempts=1)
    run = db.wait_run(quiet)
    assert run.outcome == "timed_out" and run.error == "it stalled: no output and no progress for 1 s (stall_after)"
    assert 0.9 <= (run.finished_at - run.started_at).total_seconds() < 3
    assert db.wait_run(lively).outcome == "succeeded"


def test_the_timeout_counts_beside_stall_after(db, nodes):
    nodes.start()
    task = db.add(kind="shell", command="while true; do echo x; sleep 0.1; done", stall_after="1 s", timeout="1500 ms", max_attempts=1)
    run = db.wait_run(task)
    assert (run.outcome, run.error) == ("timed_out", "timed out")


def shim_and_keeper():
    """Of the only run there is."""
    table = process_table()
    shim = next(p for p in descendants() if table[p][2] == "pgrab-shim")
    return shim, table[shim][0]


def test_a_run_that_does_not_end_is_shown_as_stopping_and_why(db, nodes, probe):
    """It is deaf, and its kill_grace is long."""
    node = nodes.start(kill_grace="4s", fence_after="9s", dead_after="16s", heartbeat="500ms", drain_timeout="1s")
    task = db.add(**probe.shell("a", seconds=60, deaf=True), max_attempts=1)
    probe.wait("start", "a")
    db.query("select pgrab.cancel(%s)", task)
    db.wait("select stopping >= '1 s' from pgrab.running where id = %s", task)
    assert re.search(r"stopping +since ", run_pgrab("show", task, dsn=db.dsn).stdout)
    assert "stopping 1 run, the first for" in run_pgrab("nodes", dsn=db.dsn).stdout
    assert "stopping for" in run_pgrab("top", "--once", dsn=db.dsn).stdout
    assert db.wait_run(task).outcome == "cancelled"
    db.wait("select not exists (select from pgrab.live)")
    assert node.running()


@pytest.mark.deadline(120)
def test_doctor_names_the_process_that_a_stopped_run_waits_for(db, nodes, probe):
    """Keeper and shim are frozen, so that it takes the node some seconds to end the run and to prove it."""
    nodes.start(fence_after="30s", dead_after="40s", heartbeat="200ms")
    task = db.add(**probe.shell("a", seconds=60), max_attempts=1)
    probe.wait("start", "a")
    for pid in shim_and_keeper():
        os.kill(pid, signal.SIGSTOP)
    db.query("select pgrab.cancel(%s)", task)
    db.wait("select waits_for ~ '^process \\d+ \\(pgrab-shim\\), which is frozen' from pgrab.live", timeout=10)
    assert db.wait_run(task, timeout=20).outcome == "cancelled"
    # What doctor makes of one that takes longer than a test may.
    db.query("""insert into pgrab.task (kind, command) values ('sql', 'select pg_sleep(20)')""")
    db.wait("select status = 'running' from pgrab.task where command like '%%pg_sleep%%'")
    db.query("""insert into pgrab.live (incarnation, task_id, version, stopping_at, waits_for)
                select incarnation, id, version, now() - interval '20 s', 'process 4711 (dd), which waits in the kernel' from pgrab.task""")
    said = run_pgrab("doctor", dsn=db.dsn, check=False)
    assert re.search(r"was told to stop 00:00:2\d ago and has not ended on node n1, which waits for process 4711 \(dd\)", said.stdout), said.stdout
    db.query("select pgrab.cancel(id) from pgrab.task")
