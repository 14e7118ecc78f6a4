"""Recurring tasks on real nodes: on time, never overlapping, never ended by a failure, and stopped when a person says so."""
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest
from cluster import run_pgrab, stays, wait_until

OUTCOMES = "select array_agg(outcome order by finished_at, fire_at) from pgrab.run where task_id = %s"


def test_each_fire_of_a_second_runs_once_and_on_time(db, nodes):
    nodes.start("a")
    nodes.start("b")
    task = db.add(kind="noop", schedule="* * * * * *")
    db.wait_run(task, 6, timeout=12)
    runs = db.runs(task)
    fires = [r.fire_at for r in runs]
    assert all((b - a).total_seconds() == 1 for a, b in zip(fires, fires[1:])), fires
    # The first may have been caught between two polls; the others are claimed ahead.
    assert all(0 <= (r.started_at - r.fire_at).total_seconds() < 0.5 for r in runs[1:]), [(r.fire_at, r.started_at) for r in runs]


def test_a_run_that_is_longer_than_its_interval_never_overlaps_itself(db, nodes, probe):
    for name in "abc":
        nodes.start(name)
    task = db.add(**probe.shell("slow", seconds=1.6), schedule="@every 1s")
    probe.wait("end", "slow", 4, timeout=20)
    probe.assert_no_overlap()
    fires = [r.fire_at for r in db.runs(task)]
    assert len(set(fires)) == len(fires)


def test_a_failure_ends_a_run_and_never_the_schedule(db, nodes):
    nodes.start()
    task = db.add(kind="shell", command="exit 3", schedule="@every 1s", max_attempts=2, backoff="50 ms")
    db.wait("select count(*) >= 5 from pgrab.run where task_id = %s", task, timeout=15)
    attempts = [(r.attempt, r.outcome) for r in db.runs(task)]
    assert attempts[:4] == [(1, "failed"), (2, "failed")] * 2
    assert db.one("select status not in ('parked') from pgrab.task where id = %s", task)


def test_a_sql_task_recurs_with_its_effect_exactly_once_per_fire(db, nodes):
    db.query("create table tick (fire_at timestamptz)")
    nodes.start("a")
    nodes.start("b")
    task = db.add(kind="sql", command="insert into tick values (clock_timestamp())", schedule="@every 1s", max_runs=4)
    db.wait("select exists (select from pgrab.run where task_id = %s and ended = 'done')", task, timeout=15)
    assert db.one("select count(*) from tick") == 4 == len(db.runs(task))


def test_a_killed_node_does_not_end_a_schedule(db, nodes, probe):
    first = nodes.start("a")
    task = db.add(**probe.shell("t", seconds=30), schedule="@every 1s", max_attempts=1)
    probe.wait("start", "t")
    nodes.start("b")
    first.kill9()
    probe.wait("start", "t", 2, timeout=15)
    assert db.runs(task)[0].outcome == "lost"
    probe.assert_no_overlap()


def test_after_an_outage_misfires_are_settled_by_the_policy_of_each(db, nodes):
    """The outage: the plan of four tasks is put back to what a stop of two and a half hours would have left."""
    ids = {m: db.add(name=m, kind="noop", schedule="@every 1h", misfire=m, misfire_limit=1) for m in ("skip", "once", "all")}
    db.query("update pgrab.task set fire_at = fire_at - interval '3 h 30 min', run_at = fire_at - interval '3 h 30 min', due_at = due_at - interval '3 h 30 min', version = version + 1")
    nodes.start()
    db.wait("select bool_and(due_at > now()) from pgrab.task")
    assert db.one(OUTCOMES, ids["skip"]) == ["missed"] * 3
    assert sorted(db.one(OUTCOMES, ids["once"])) == ["missed", "missed", "succeeded"]
    assert sorted(db.one(OUTCOMES, ids["all"])) == ["missed", "missed", "succeeded"]
    # Planned at -2:30, -1:30 and -0:30; the catch-up run is for the latest, and the grid stays.
    assert db.one("select bool_and(abs(extract(epoch from fire_at - now() - interval '30 min')) < 20) from pgrab.task")
    latest = db.query("select fire_at from pgrab.run where task_id = %s and outcome = 'succeeded'", ids["once"])[0][0]
    assert db.one("select bool_and(fire_at < %s) from pgrab.run where task_id = %s and outcome = 'missed'", latest, ids["once"])


def test_a_node_whose_own_clock_is_an_hour_off_changes_nothing(db, nodes, tmp_path):
    """A library before libc's answers every question for the time of day with an hour more."""
    import subprocess
    source = tmp_path / "hour.c"
    source.write_text("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <sys/time.h>
        #include <time.h>
        int clock_gettime(clockid_t id, struct timespec *ts) {
            static int (*next)(clockid_t, struct timespec *);
            if (next == 0) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
            int rc = next(id, ts);
            if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) ts->tv_sec += 3600;
            return rc;
        }
        int gettimeofday(struct timeval *tv, void *zone) {
            struct timespec ts; clock_gettime(CLOCK_REALTIME, &ts);
            tv->tv_sec = ts.tv_sec; tv->tv_usec = ts.tv_nsec / 1000; return 0;
        }
        time_t time(time_t *out) {
            struct timespec ts; clock_gettime(CLOCK_REALTIME, &ts);
            if (out) *out = ts.tv_sec; return ts.tv_sec;
        }""")
    library = tmp_path / "hour.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    nodes.start("wrong", env={"LD_PRELOAD": library})
    task = db.add(kind="noop", schedule="@every 1s", max_runs=3)
    once = db.add(kind="noop", run_at=db.one("select now() + interval '2 s'"))
    db.wait("select exists (select from pgrab.run where task_id = %s and ended = 'done')", task, timeout=15)
    for run in db.runs(task)[1:] + [db.wait_run(once)]:
        assert 0 <= (run.started_at - run.fire_at).total_seconds() < 1.5
        assert abs(db.one("select extract(epoch from %s - now())", run.finished_at)) < 60


@pytest.mark.parametrize("bell", [True, False], ids=["doorbell", "doorbell cut"])
def test_cancel_stops_runs_of_every_kind_within_two_seconds(db, nodes, probe, bell):
    go_on = Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self):
            go_on.wait(30)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        node = nodes.start("n1", heartbeat=None, fence_after=None, dead_after=None)
        db.wait_run(db.add(kind="noop"))  # every connection that it needs has been made
        tasks = [db.add(kind="sql", command="select pg_sleep(60)"), db.add(**probe.shell("t", seconds=60)),
                 db.add(kind="exec", command="/bin/sleep", args={"argv": ["60"]}),
                 db.add(kind="http", command=f"http://127.0.0.1:{server.server_port}/")]
        db.wait("select count(*) = 4 from pgrab.running")
        probe.wait("start", "t")
        if not bell:
            db.query("select pg_terminate_backend(a.pid) from (select pid from pg_stat_activity where application_name = 'pgrab listen' and datname = current_database() offset 0) a")
            db.query("alter database " + db.name + " connection limit 0")  # it cannot come back
        asked = time.monotonic()
        db.query("select pgrab.cancel(%s)", tasks)
        db.wait("select count(*) = 4 from pgrab.run where outcome = 'cancelled' and ended = 'cancelled'", timeout=5)
        assert time.monotonic() - asked < 2.2
        assert not db.query("select from pgrab.task") and not db.query("select from pgrab.cancel_request")
        assert len(probe.unfinished()) == 1 and node.running()
    finally:
        go_on.set()
        server.shutdown()


def test_cancel_holds_when_the_node_dies_before_it_hears_of_it(db, nodes, probe):
    first = nodes.start("a")
    task = db.add(**probe.shell("t", seconds=60))
    probe.wait("start", "t")
    first.stop()
    db.query("select pgrab.cancel(%s)", task)
    first.proc.kill()
    nodes.start("b")
    run = db.wait_run(task, timeout=15)
    assert (run.outcome, run.ended) == ("cancelled", "cancelled")
    stays(lambda: len(probe.events("start")) == 1, 1, "a cancelled task")


def test_cancel_of_a_recurring_task_ends_the_run_and_not_the_schedule(db, nodes, probe):
    nodes.start()
    task = db.add(**probe.shell("t", seconds=60), schedule="@every 2s")
    probe.wait("start", "t")
    done = run_pgrab("cancel", str(task), "--json", dsn=db.dsn, check=False)
    if done.returncode == 2:
        pytest.skip("no such command yet")
    assert json.loads(done.stdout)[0]["id"] == task
    probe.wait("start", "t", 2, timeout=10)
    assert db.runs(task)[0].outcome == "cancelled"


def test_a_drained_node_finishes_what_it_runs_and_takes_nothing_until_undrain(db, nodes, probe):
    nodes.start("a")
    task = db.add(**probe.shell("t", gate=True))
    probe.close_gate()
    try:
        probe.wait("start", "t")
        db.query("select pgrab.drain('a')")
        db.wait("select state = 'draining' from pgrab.nodes where name = 'a'")
        nodes.all[0].wait_log("event=drain")
        later = db.add(kind="noop")
        stays(lambda: not db.runs(later), 2.5, "a task and a drained node")
    finally:
        probe.open_gate()
    assert db.wait_run(task).outcome == "succeeded"
    nodes.start("b")
    assert db.wait_run(later).node == "b"
    nodes.all[0].end()
    nodes.start("a", wait=False)
    db.wait("select state = 'draining' from pgrab.node where name = 'a' and pid = %s", nodes.all[-1].pid)
    nodes.all[1].end()
    last = db.add(kind="noop")
    stays(lambda: not db.runs(last), 1, "a task and a node that was drained before its restart")
    db.query("select pgrab.undrain('a')")
    assert db.wait_run(last).node == "a"


def test_a_drain_in_a_transaction_that_is_left_open_harms_nobody(db, nodes):
    node = nodes.start("a", fence_after="1s")
    with db.connect(autocommit=False) as person:
        person.execute("select pgrab.drain('a')")
        beat = db.one("select beat from pgrab.node where name = 'a'")
        db.wait("select beat > %s + 10 from pgrab.node where name = 'a'", beat)
        assert db.wait_run(db.add(kind="noop")).outcome == "succeeded"
        person.commit()
    db.wait("select state = 'draining' from pgrab.nodes where name = 'a'")
    assert "event=fenced" not in node.log()


def test_the_clock_may_cross_midnight_and_a_partition_may_be_missing(db, nodes):
    """A run whose partition is not there makes it: as after a long pause of all nodes."""
    nodes.start()
    for (name,) in db.query("select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'pgrab.run'::regclass"):
        db.query(f"drop table pgrab.{name}")
    tasks = [db.add(kind="noop", schedule="@every 1s", max_runs=2), db.add(kind="noop"), db.add(kind="sql", command="select 1")]
    db.wait("select count(*) = 4 from pgrab.run", timeout=20)
    wait_until(lambda: not db.query("select from pgrab.task"), 5)
    assert {r.outcome for t in tasks for r in db.runs(t)} == {"succeeded"}


def test_history_older_than_the_retention_is_dropped_by_any_node(db, nodes):
    db.query("create table pgrab.run_20200101 partition of pgrab.run for values from ('2020-01-01') to ('2020-01-02')")
    nodes.start(retention="1d")
    db.wait("select to_regclass('pgrab.run_20200101') is null")


def test_a_calendar_is_kept_from_the_shell(db, nodes):
    """Closed today: nothing runs.  Opened: it does, without anybody touching the task."""
    def calendar(*args):
        return run_pgrab("calendar", *args, dsn=db.dsn).stdout

    today = db.one("select (now() at time zone 'UTC')::date::text")
    tomorrow = db.one("select ((now() at time zone 'UTC')::date + 1)::text")
    calendar("office", "--closed-weekdays", "none", "--close", f"{today}..{tomorrow}", "--note", "stocktaking")
    assert "stocktaking" in calendar("office") and "office" in calendar()
    assert json.loads(calendar("--json"))[0]["closed"] == 2
    assert "there is no calendar" in run_pgrab("calendar", "x", dsn=db.dsn, check=False).stderr
    for days in ("infinity", "2027-01-01..2040-12-31", "2026-12-31..2026-12-01"):
        refused = run_pgrab("calendar", "new", "--close", days, dsn=db.dsn, check=False)
        assert refused.returncode == 1 and "at most ten years" in refused.stderr and '"new"' in run_pgrab("calendar", "new", dsn=db.dsn, check=False).stderr
    nodes.start()
    task = int(run_pgrab("add", "--kind", "noop", "--schedule", "* * * * * *", "--calendar", "office", dsn=db.dsn).stdout)
    assert db.one("select fire_at > now() + interval '1 day' from pgrab.task where id = %s", task)
    assert db.one("select count(*) from pgrab.run where task_id = %s and outcome = 'skipped' and error like '%%stocktaking%%'", task) == 100
    shown = run_pgrab("next", "* * * * * *", "--calendar", "office", "--count", "1", "--json", dsn=db.dsn)
    assert tomorrow < json.loads(shown.stdout)[0]["utc"]
    calendar("office", "--forget", f"{today}..{tomorrow}")
    db.wait("select count(*) > 1 from pgrab.run where task_id = %s and outcome = 'succeeded'", task, timeout=20)
    run_pgrab("delete", str(task), dsn=db.dsn)
    assert "It is gone" in calendar("office", "--delete")


def test_the_calendar_is_asked_once_for_all_runs_that_end_together(db, nodes):
    """Asked for each of them, with the schedules of all, a burst takes the server five times as long; and a fifth longer when the row of the
    history is made by a function that is called for each run, instead of an expression in its place."""
    db.cluster.superuser(f"alter database {db.name} set track_functions = 'all'")
    db.query("insert into pgrab.task (kind, schedule, run_at) select 'noop', '@yearly', now() from generate_series(1, 1000)")
    node = nodes.start()
    db.wait("select count(*) = 1000 from pgrab.run", timeout=20)
    node.stop()
    db.wait("select sum(calls) filter (where funcname = 'next_fires') > 0 from pg_stat_user_functions")
    calls = {r.funcname: r.calls for r in db.query("select funcname, calls from pg_stat_user_functions where funcname in ('next_fires', 'finish_moves', 'noted')")}
    assert calls["next_fires"] <= calls["finish_moves"] < 500 and "noted" not in calls, calls
