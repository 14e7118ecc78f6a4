"""What dies, freezes or is cut off must cost nothing but time."""
import time

import pytest

from cluster import alive, wait_until

EXACTLY_ONCE = """
    select count(*) filter (where outcome = 'succeeded') as done, count(distinct task_id) filter (where outcome = 'succeeded') as tasks
    from pgrab.run"""


def start_pair(nodes, **options):
    return nodes.start("n1", **options), nodes.start("n2", **options)


def holder(db, task):
    return db.wait("select n.name from pgrab.task t join pgrab.node n on n.id = t.node_id where t.id = %s and t.status = 'running'", task)


def test_tasks_of_a_killed_node_start_elsewhere_in_time(db, nodes, probe):
    tasks = [db.add(**probe.shell(f"t{i}", gate=True)) for i in range(6)]
    probe.close_gate()
    pair = {n.name: n for n in start_pair(nodes)}
    probe.wait("start", count=6)
    victim = holder(db, tasks[0])
    held = [t for t in tasks if holder(db, t) == victim]
    children = [int(e.pid) for e in probe.events("start") if int(e.task) in held]
    pair[victim].kill9()
    died = time.monotonic()
    # Its children die with it, long before anybody takes its tasks.
    wait_until(lambda: not any(alive(p) for p in children), 3, "the children of a killed node to be dead")
    probe.wait("start", count=6 + len(held), timeout=8)
    assert time.monotonic() - died <= 4 + 3, "dead_after + 3 s"
    probe.assert_no_overlap()
    probe.open_gate()
    for task in held:
        runs = db.wait_run(task, count=2)
        assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]
        assert runs.node != victim and runs.attempt == 2
    db.wait("select not exists (select from pgrab.task)")


def test_a_node_restarted_at_once_under_its_name_gets_its_tasks_back(db, nodes, probe):
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True))
    first = nodes.start("n1")
    probe.wait("start", "a")
    first.kill9()
    died = time.monotonic()
    second = nodes.start("n1", wait=False)
    probe.wait("start", "a", count=2, timeout=9)
    assert time.monotonic() - died <= 4 + 3
    probe.assert_no_overlap()
    probe.open_gate()
    assert db.wait_run(task, count=2).outcome == "succeeded"
    assert second.running()


@pytest.mark.deadline(90)
def test_a_frozen_node_loses_its_children_before_others_start_them_and_nothing_it_does_afterwards_counts(db, nodes, probe):
    tasks = [db.add(**probe.shell(f"t{i}", seconds=30, deaf=i == 0)) for i in range(4)]
    frozen = nodes.start("n1")
    probe.wait("start", count=4)
    old = frozen.incarnation()
    children = [int(e.pid) for e in probe.events("start")]
    frozen.stop()
    at = time.monotonic()
    nodes.start("n2")
    wait_until(lambda: not any(alive(p) for p in children), 4, "the children of a frozen node to be dead")
    assert time.monotonic() - at < 4, "dead before dead_after"
    assert len(probe.events("start")) == 4, "and nobody had started them again by then"
    probe.wait("start", count=8, timeout=10)
    probe.assert_no_overlap()
    frozen.cont()
    frozen.wait_log("event=fenced")
    db.wait("select incarnation <> %s and state = 'up' from pgrab.node where name = 'n1'", old)
    for task in tasks:
        assert [r.outcome for r in db.runs(task)] == ["lost"], "only the loss is recorded, by the other node"
        assert db.one("select node_id <> (select id from pgrab.node where name = 'n1') from pgrab.task where id = %s", task)
    db.query("delete from pgrab.task")


def test_the_sql_of_a_frozen_node_is_ended_before_another_runs_it(db, nodes):
    db.query("create table effect (node text)")
    task = db.add(command="select pg_sleep(case when current_setting('application_name') = (select 'pgrab sql ' || incarnation from pgrab.node where name = 'n1') "
                          "then 30 else 0 end); insert into public.effect values (current_setting('application_name'))")
    frozen = nodes.start("n1")
    db.wait("select count(*) = 1 from pg_stat_activity where query like 'select pg_sleep%%' and state = 'active' and datname = current_database() and pid <> pg_backend_pid()")
    frozen.stop()
    nodes.start("n2").wait_log("event=node_dead name=n1 .*sql_ended=1", timeout=10)
    assert db.wait_run(task, count=2).outcome == "succeeded"
    frozen.cont()
    frozen.wait_log("event=registered(.|\n)*event=fenced(.|\n)*event=registered")
    assert db.one("select count(*) from effect") == 1
    assert [r.outcome for r in db.runs(task)] == ["lost", "succeeded"]


def test_a_late_finish_changes_nothing_and_is_counted(db, nodes, probe):
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True), max_attempts=5)
    node = nodes.start("n1")
    probe.wait("start", "a")
    # As if somebody else had it: the version moved on.
    db.query("update pgrab.task set version = version + 1 where id = %s", task)
    before = db.query("select * from pgrab.task where id = %s", task)
    probe.open_gate()
    node.wait_log("event=stale_finish")
    assert db.query("select * from pgrab.task where id = %s", task) == before
    assert db.runs(task) == []
    db.wait("select stale_finishes = 1 from pgrab.node")
    db.query("delete from pgrab.task")


@pytest.mark.private_server
@pytest.mark.deadline(120)
def test_nothing_is_lost_or_doubled_when_the_server_crashes_under_load(cluster, db, nodes):
    db.query("create table effect (n int)")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 60000)")
    db.query("insert into pgrab.task (kind, command) select 'sql', format('insert into public.effect values (%s); select pg_sleep(0.005)', n) from generate_series(1, 600) n")
    start_pair(nodes, fence_after="3s", dead_after="6s")
    for _ in range(2):
        seen = db.one("select count(*) from pgrab.run")
        db.wait("select count(*) >= %s from pgrab.run", min(seen + 3000, 55000), timeout=30)
        cluster.pg_stop("immediate")
        cluster.pg_start()
    db.wait("select not exists (select from pgrab.task)", timeout=60)
    assert db.query(EXACTLY_ONCE) == [(60600, 60600)]
    assert db.query("select count(*) as n, count(distinct n) as d from effect") == [(600, 600)]


@pytest.mark.private_server
@pytest.mark.deadline(90)
def test_a_long_outage_fences_the_node_and_it_comes_back_with_a_new_incarnation(cluster, db, nodes, probe):
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True))
    node = nodes.start("n1", outlast_restart="off")
    probe.wait("start", "a")
    old, child = node.incarnation(), int(probe.events("start")[0].pid)
    cluster.pg_stop("fast")
    wait_until(lambda: not alive(child), 5, "the child to be stopped when the lease is over")
    node.wait_log("event=fenced")
    cluster.pg_start()
    probe.wait("start", "a", count=2, timeout=15)
    probe.open_gate()
    assert db.wait_run(task, count=2).outcome == "succeeded"
    assert db.one("select incarnation from pgrab.node where name = 'n1'") != old
    probe.assert_no_overlap()


@pytest.mark.private_server
def test_a_node_started_before_the_server_waits_and_says_so_once(cluster, db, nodes):
    task = db.add(kind="noop")
    cluster.pg_stop("fast")
    node = nodes.start("n1", wait=False)
    node.wait_log("event=waiting for=database", timeout=15)  # a pooler lets it wait for the whole of its deadline
    cluster.pg_start()
    assert db.wait_run(task, timeout=20).outcome == "succeeded"
    assert node.log().count("event=waiting") == 1


def test_connections_cut_all_the_time_cost_nothing(db, nodes):
    db.query("create table effect (n int)")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 20000)")
    db.query("insert into pgrab.task (kind, command, max_attempts, backoff) "
             "select 'sql', format('insert into public.effect values (%s); select pg_sleep(0.01)', n), 100, '10 ms' from generate_series(1, 200) n")
    start_pair(nodes, fence_after="3s", dead_after="6s")
    with db.connect() as cutter:
        for _ in range(10):
            cutter.execute("select pg_terminate_backend(a.pid) from (select pid from pg_stat_activity where application_name like 'pgrab%' and datname = current_database() offset 0) a")
            seen = cutter.execute("select count(*) from pgrab.run").fetchone()[0]
            wait_until(lambda: cutter.execute("select count(*) > %s or not exists (select from pgrab.task) from pgrab.run", [seen]).fetchone()[0], 10,
                       "more runs after a cut")
    db.wait("select not exists (select from pgrab.task)", timeout=40)
    assert db.query(EXACTLY_ONCE) == [(20200, 20200)]
    assert db.query("select count(*) as n, count(distinct n) as d from effect") == [(200, 200)]


def test_a_task_that_kills_its_node_is_parked_in_the_end(db, nodes):
    # The process above the shell's shim is the keeper; the one above that is the node.
    bomb = "shim=$(cut -d' ' -f4 /proc/$$/stat); keeper=$(cut -d' ' -f4 /proc/$shim/stat); node=$(cut -d' ' -f4 /proc/$keeper/stat); kill -9 $node; sleep 60"
    task = db.add(kind="shell", command=bomb, max_attempts=2)
    nodes.start("n1").wait_exit(10)
    nodes.start("n2", wait=False).wait_exit(20)
    nodes.start("n3")
    db.wait("select status = 'parked' and attempt = 2 and last_outcome = 'lost' from pgrab.task where id = %s", task, timeout=15)
    assert [r.outcome for r in db.runs(task)] == ["lost", "lost"]


def test_at_most_once_is_never_started_again(db, nodes, probe):
    probe.close_gate()
    task = db.add(**probe.shell("a", gate=True), delivery="at_most_once")
    first = nodes.start("n1")
    probe.wait("start", "a")
    first.kill9()
    nodes.start("n2")
    db.wait("select status = 'parked' and last_outcome = 'lost' from pgrab.task where id = %s", task, timeout=10)
    assert len(probe.events("start")) == 1
    probe.open_gate()


def test_statistics_of_an_empty_table_do_not_make_plans_read_it_all(db, nodes):
    """What vacuum writes of a table that is empty at that moment, and then is filled: 700 tasks/s were seen."""
    db.query("alter table pgrab.task set (autovacuum_enabled = off)")
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 20000)")
    db.cluster.superuser("update pg_class set reltuples = 0, relpages = 700 where oid = 'pgrab.task'::regclass "
                         "or oid in (select indexrelid from pg_index where indrelid = 'pgrab.task'::regclass)", db.name)
    nodes.start()
    db.wait("select not exists (select from pgrab.task)", timeout=10)


def test_leaks_are_repaired(db, nodes):
    node = nodes.start("n1")
    task = db.add(kind="noop", run_at="2100-01-01")
    # As a claim whose reply was lost looks afterwards: held in the database, unknown to the node.
    db.query("""with won as (
                  update pgrab.task set status = 'claimed', version = version + 1, due_at = now(), node_id = n.id,
                    incarnation = n.incarnation, claimed_at = now() - interval '1 hour'
                  from pgrab.node n where n.name = 'n1' and task.id = %s returning n.incarnation, task.id)
                insert into pgrab.hold select w.incarnation, 4711, array[w.id] from won w""", task)
    node.wait_log("event=leak", timeout=40)
    assert db.wait_run(task).outcome == "succeeded"


def test_claims_of_nobody_are_put_back(db, nodes):
    task = db.add(kind="noop")
    db.query("update pgrab.task set status = 'running', version = 1, attempt = 1, node_id = 4711, incarnation = 4711, claimed_at = now() where id = %s", task)
    db.query("insert into pgrab.hold values (4711, 1, array[%s])", task)
    nodes.start("n1")
    assert db.wait_run(task, count=2, timeout=25).outcome == "succeeded"


def test_everything_works_with_the_doorbell_cut(db, nodes):
    node = nodes.start("n1", poll="300ms")
    for _ in range(5):
        db.query("select pg_terminate_backend(a.pid) from (select pid from pg_stat_activity where application_name = 'pgrab listen' and datname = current_database() offset 0) a")
        task = db.add(kind="noop")
        assert db.wait_run(task, timeout=3).outcome == "succeeded"
    assert node.running()
