"""Giving way: preemptible runs are stopped for work two bands above that has waited for a worker for preempt_after."""
from cluster import wait_until
from test_http_crew import slow  # noqa: F401

# It does a minute's work, and tells how far it is; an attempt that finds that goes on from there.
LONG = 'test "$PGRAB_CHECKPOINT" = half && exit 0; echo "pgrab: checkpoint half"; exec sleep 60'


def runs(db, task):
    return db.query("select outcome, attempt, error from pgrab.run where task_id = %s order by version", task)


def running(db, n):
    db.wait("select count(*) = %s from pgrab.task where status = 'running'" % n)


def test_the_youngest_gives_way_at_no_attempt_and_goes_on_from_its_checkpoint(db, nodes):
    nodes.start("n1", workers=2, allow="shell,sql,noop", preempt_after="1s")
    old = db.add(kind="shell", command=LONG, preemptible=True)
    running(db, 1)
    young = db.add(kind="shell", command=LONG, preemptible=True)
    running(db, 2)
    db.wait(f"select count(*) = 2 from pgrab.step where task_id in ({old}, {young})")
    urgent = db.add(kind="shell", command="true", priority=10)
    assert db.wait_run(urgent).outcome == "succeeded"
    wait_until(lambda: [r.outcome for r in runs(db, young)] == ["preempted", "succeeded"], 10, "the run after it was stopped")
    assert [r.attempt for r in runs(db, young)] == [1, 1]
    assert runs(db, young)[0].error == "it gave way to more important work (preemptible)"
    assert runs(db, old) == []
    assert db.one("select count(*) from pgrab.failing where id = %s", young) == 0


def test_each_of_many_finds_one_that_gives_way(db, nodes):
    nodes.start("n1", workers=4, allow="shell,sql,noop", preempt_after="1s")
    long = [db.add(command="select pg_sleep(60)", preemptible=True) for _ in range(4)]
    running(db, 4)
    urgent = [db.add(kind="sql", command="select 1", priority=10) for _ in range(4)]
    wait_until(lambda: all(runs(db, t) for t in urgent), 5, "four at once")
    wait_until(lambda: {r.outcome for t in long for r in runs(db, t)} == {"preempted"}, 5, "what was stopped for them")
    assert db.one("select max(attempt) from pgrab.task where id = any (%s)", long) <= 1


def test_what_is_not_preemptible_or_only_one_band_below_is_not_stopped(db, nodes):
    nodes.start("n1", workers=2, preempt_after="1s")
    db.add(command="select pg_sleep(60)")
    db.add(command="select pg_sleep(60)", preemptible=True, priority=1)
    running(db, 2)
    waiting = db.add(command="select 1", priority=10)
    db.wait(f"select statement_timestamp() > due_at + interval '4 s' from pgrab.task where id = {waiting}", timeout=10)
    assert runs(db, waiting) == [] and db.one("select count(*) from pgrab.task where status = 'running'") == 2
    urgent = db.add(command="select 1", priority=100)
    assert db.wait_run(urgent).outcome == "succeeded"


def test_a_node_without_the_setting_stops_nothing(db, nodes):
    nodes.start("n1", workers=1)
    db.add(command="select pg_sleep(60)", preemptible=True)
    running(db, 1)
    waiting = db.add(command="select 1", priority=100)
    db.wait(f"select statement_timestamp() > due_at + interval '4 s' from pgrab.task where id = {waiting}", timeout=10)
    assert runs(db, waiting) == []


def test_the_next_run_is_spared_for_as_long_as_was_lost(db, nodes):
    nodes.start("n1", workers=1, preempt_after="1s", steal_after="1s")
    long = db.add(command="select pg_sleep(60)", preemptible=True)
    running(db, 1)
    db.wait(f"select statement_timestamp() > started_at + interval '3 s' from pgrab.task where id = {long}")
    assert db.wait_run(db.add(command="select 1", priority=10)).outcome == "succeeded"
    db.wait(f"select gave_way > interval '4 s' and status = 'running' from pgrab.task where id = {long}")
    second = db.wait_run(db.add(command="select 1", priority=10), timeout=20)
    lost = db.query("select finished_at - started_at as took from pgrab.run where task_id = %s and outcome = 'preempted' order by finished_at", long)
    assert len(lost) == 2 and lost[1].took >= lost[0].took, lost
    assert second.outcome == "succeeded"


def test_crews_give_way_too(db, nodes, slow):
    nodes.start("n1", http_slots=1, preempt_after="1s")
    long = db.add(kind="http", command=slow.url("/slow"), preemptible=True)
    running(db, 1)
    urgent = db.add(kind="http", command=slow.url("/"), priority=10)
    assert db.wait_run(urgent).outcome == "succeeded"
    assert [r.outcome for r in runs(db, long)] == ["preempted"]


def test_another_node_that_is_free_and_cannot_run_it_is_no_help(db, nodes):
    nodes.start("n1", workers=2, allow="shell,noop", preempt_after="1s")
    nodes.start("n2", allow="noop")
    long = [db.add(kind="shell", command="exec sleep 60", preemptible=True) for _ in range(2)]
    running(db, 2)
    urgent = [db.add(kind="shell", command="true", priority=10) for _ in range(2)]
    versions = dict(db.query("select id, version from pgrab.task where id = any (%s)", urgent))
    for task in urgent:
        run = db.wait_run(task, timeout=8)
        assert (run.outcome, run.version) == ("succeeded", versions[task] + 1), "claimed once, and not handed back"
    assert [len(runs(db, t)) for t in long] == [1, 1]


def test_nothing_gives_way_to_what_gets_no_place_under_its_limit(db, nodes):
    nodes.start("n1", workers=2, allow="shell,noop", preempt_after="1s")
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    db.add(kind="shell", command="exec sleep 60", limit_key="one")
    db.add(kind="shell", command="exec sleep 60", preemptible=True)
    running(db, 2)
    for _ in range(3):
        db.add(kind="shell", command="true", priority=10, limit_key="one")
    urgent = db.add(kind="shell", command="true", priority=10)
    assert db.wait_run(urgent, timeout=8).outcome == "succeeded", "one beside these finds a worker all the same"
    db.wait(f"select count(*) = 1 from pgrab.run where task_id <> {urgent}")


def test_it_is_no_failure_of_the_node(db, nodes):
    nodes.start("n1", workers=1, allow="shell,noop", preempt_after="1s")
    db.add(kind="shell", command="exec sleep 60", preemptible=True)
    running(db, 1)
    assert db.wait_run(db.add(kind="shell", command="true", priority=10), timeout=8).outcome == "succeeded"
    db.wait("select runs_succeeded = 1 from pgrab.node")
    assert db.one("select runs_failed from pgrab.node") == 0
