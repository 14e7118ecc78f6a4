"""A row that somebody has locked, or that the server will not take, harms no other."""
import time

import pytest
from cluster import stays, wait_until
from proxy import Proxy


def test_an_edited_claimed_task_runs_once(db, nodes, probe):
    """Claimed ahead, edited, claimed again: both claims ripen at once, the old one first (its priority was better), and the new one counts."""
    nodes.start(lookahead="5s")
    spec = probe.shell("t")
    due = db.one("select now() + interval '3 s'")
    tasks = [db.add(**spec, run_at=due, name=str(i)) for i in range(120)]
    db.wait("select count(*) = 120 from pgrab.task where status = 'claimed'")
    db.query("update pgrab.task set priority = -5")
    db.wait("select count(*) = 120 from pgrab.run", timeout=30)
    stays(lambda: db.one("select count(*) from pgrab.run") == 120, 2)
    assert len(probe.events("start")) == 120
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert len(tasks) == 120


def test_a_locked_due_task_holds_up_no_claim(db, nodes):
    with db.connect(autocommit=False) as person:
        task = db.add(kind="noop", run_at=db.one("select now() - interval '1 hour'"))
        person.execute("select from pgrab.task where id = %s for update", [task])
        nodes.start("a")
        nodes.start("b")
        begun = time.monotonic()
        others = []
        while time.monotonic() - begun < 4:
            other = db.add(kind="noop")
            db.wait_run(other, timeout=1.5)
            others.append(other)
        assert len(others) > 20, "while one task was locked the others were slow"
        said = [node.log().count("event=locked") for node in nodes.all]
        assert sum(said) >= 1 and max(said) <= 1, said
        person.rollback()
    assert db.wait_run(task).outcome == "succeeded"


def test_a_locked_running_task_holds_up_no_finish(db, nodes, probe):
    nodes.start(workers=4)
    probe.close_gate()
    task = db.add(**probe.shell("t", gate=True))
    probe.wait("start", "t")
    with db.connect(autocommit=False) as person:
        person.execute("update pgrab.task set name = 'edited' where id = %s", [task])
        probe.open_gate()
        probe.wait("end", "t")
        begun = time.monotonic()
        others = [db.add(kind="shell", command="true") for _ in range(20)]
        for other in others:
            db.wait_run(other, timeout=8)
        assert time.monotonic() - begun < 8
        assert not db.runs(task)
        person.commit()
    run = db.wait_run(task, timeout=5)
    assert (run.outcome, run.attempt) == ("succeeded", 1)
    assert len(probe.events("start")) == 1


def test_a_locked_child_or_limit_holds_up_only_its_parent(db, nodes, probe):
    nodes.start(workers=4)
    probe.close_gate()
    parent = db.add(**probe.shell("p", gate=True))
    child = db.add(kind="noop", parent_id=parent)
    probe.wait("start", "p")
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = %s for update", [child])
        probe.open_gate()
        probe.wait("end", "p")
        others = [db.add(kind="shell", command="true") for _ in range(10)]
        for other in others:
            db.wait_run(other, timeout=8)
        assert not db.runs(parent)
    assert db.wait_run(parent).outcome == "succeeded"
    assert db.wait_run(child).outcome == "succeeded"


def test_one_outcome_that_the_server_refuses_harms_no_other(db, nodes):
    """Somebody's foreign key forbids one task to leave: it is parked with the reason, and everything else is recorded."""
    db.query("create table refers (id bigint references pgrab.task)")
    node = nodes.start()
    with db.connect() as conn, conn.transaction():
        ids = [r.id for r in conn.execute("insert into pgrab.task (kind, key) select 'noop', 'k' || i from generate_series(1, 41) i returning id").fetchall()]
        conn.execute("insert into refers values (%s)", [ids[20]])
    db.wait("select count(*) = 41 from pgrab.run", timeout=15)
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert db.one("select count(distinct key) from pgrab.run") == 41
    assert db.one("select status from pgrab.task where id = %s", ids[20]) == "parked"
    assert "could not be recorded" in db.one("select last_error from pgrab.task where id = %s", ids[20])
    wait_until(lambda: db.one("select count(*) from pgrab.task") == 1, 3)
    stays(lambda: db.one("select count(*) from pgrab.run") == 41, 1)
    assert "stale_finish" not in node.log()


def test_a_link_that_may_not_leave_is_parked_and_its_chain_goes_on(db, nodes):
    """As above, of a link: parked is an end like any other for those below it, and a retry goes on from there."""
    db.query("create table refers (id bigint references pgrab.task)")
    nodes.start()
    with db.connect() as conn, conn.transaction():
        conn.execute("insert into pgrab.task (id, kind) overriding system value values (1, 'noop')")
        conn.execute("insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (2, 'noop', 1, 'success'), (3, 'noop', 1, 'failure'), (4, 'noop', 3, 'success')")
        conn.execute("insert into refers values (1)")
    assert db.wait_run(4, timeout=15).outcome == "succeeded"
    assert db.query("select id, status from pgrab.task order by id") == [(1, "parked"), (2, "skipped")]
    db.query("delete from refers")
    db.query("select pgrab.retry(1)")
    db.wait("select count(*) = 0 from pgrab.chain")
    assert db.one("select string_agg(id || ' ' || status, ', ' order by id) from pgrab.tasks") == "1 done, 2 done, 3 done, 4 done"
    assert db.one("select count(*) from pgrab.task") == 0


def test_a_locked_claimed_task_holds_up_no_start(db, nodes, probe):
    """Claimed ahead and locked when it is due: the others start in time, and it is handed back when the lock is gone."""
    nodes.start(lookahead="10s", workers=4)
    due = db.one("select now() + interval '2 s'")
    tasks = [db.add(**probe.shell(str(i)), run_at=due) for i in range(40)]
    db.wait("select count(*) = 40 from pgrab.task where status = 'claimed'")
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = any (%s) for update", [tasks[::2]])
        db.wait("select now() >= %s", due)
        begun = time.monotonic()
        db.wait("select count(*) = 20 from pgrab.run", timeout=5)
        other = db.add(kind="shell", command="true")
        db.wait_run(other, timeout=2)
        assert time.monotonic() - begun < 4
        person.rollback()
    db.wait("select count(*) = 41 from pgrab.run", timeout=5)
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert len(probe.events("start")) == 40


def test_a_locked_limit_holds_up_nobody(db, nodes, probe):
    """While a person's transaction is open the limit is as it was: 30, of which 25 are taken."""
    db.query("insert into pgrab.limit (key, max_running) values ('a', 30), ('b', 30)")
    nodes.start(workers=40)
    probe.close_gate()
    held = [db.add(**probe.shell("held", gate=True), limit_key="a") for _ in range(25)]
    probe.wait("start", "held", count=25)
    with db.connect(autocommit=False) as person:
        person.execute("update pgrab.limit set max_running = 20 where key = 'a'")
        behind = [db.add(kind="shell", command="true", limit_key="a") for _ in range(5)]
        probe.open_gate()
        probe.wait("end", "held", count=25)
        for key in (None, "b"):
            db.wait_run(db.add(kind="shell", command="true", limit_key=key), timeout=2)
        for task in held + behind:
            db.wait_run(task, timeout=5)
        person.commit()
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert len(probe.events("start")) == 25
    db.wait("select running = 0 from pgrab.limits where key = 'a'")


def test_a_key_that_is_locked_holds_up_only_the_starts_of_its_own_tasks(db, nodes, probe):
    """Its runs end all the same; their places come free when the lock is gone."""
    db.query("insert into pgrab.limit (key, max_running) values ('a', 2), ('b', 2)")
    nodes.start()
    probe.close_gate()
    held = [db.add(**probe.shell("held", gate=True), limit_key="a") for _ in range(2)]
    probe.wait("start", "held", count=2)
    with db.connect(autocommit=False) as other:
        other.execute("select from pgrab.limit_use where key = 'a' and no = 0 for update")
        probe.open_gate()
        for task in held:
            db.wait_run(task, timeout=5)
        behind = [db.add(kind="shell", command="true", limit_key="a") for _ in range(3)]
        for key in (None, "b"):
            db.wait_run(db.add(kind="shell", command="true", limit_key=key), timeout=2)
        assert not [task for task in behind if db.runs(task)]
    for task in behind:
        db.wait_run(task, timeout=10)
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_many_finishes_behind_a_lock_hold_up_no_other(db, nodes, probe):
    """The children of sixty runs are locked, so none of the sixty can be recorded, each for itself."""
    nodes.start(workers=64)
    probe.close_gate()
    parents = [db.add(**probe.shell("p", gate=True)) for _ in range(60)]
    children = [db.add(kind="noop", parent_id=parent) for parent in parents]
    probe.wait("start", "p", count=60)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = any (%s) for update", [children])
        probe.open_gate()
        probe.wait("end", "p", count=60)
        begun = time.monotonic()
        while time.monotonic() - begun < 4:
            db.wait_run(db.add(kind="shell", command="true"), timeout=1.5)
        assert not [p for p in parents if db.runs(p)]
    for task in parents + children:
        db.wait_run(task, timeout=5)
    assert len(probe.events("start")) == 60


def refused_tasks(db, n=41):
    """n tasks, one of which may not leave: its id."""
    db.query("create table refers (id bigint references pgrab.task)")
    with db.connect() as conn, conn.transaction():
        ids = [r.id for r in conn.execute("insert into pgrab.task (kind) select 'noop' from generate_series(1, %s) returning id", [n]).fetchall()]
        conn.execute("insert into refers values (%s)", [ids[0]])
    return ids[0]


def test_a_missing_partition_and_a_refused_row_in_one_batch(db, nodes):
    node = nodes.start()
    db.wait("select count(*) > 0 from pg_inherits where inhparent = 'pgrab.run'::regclass")
    for (name,) in db.query("select inhrelid::regclass::text from pg_inherits where inhparent = 'pgrab.run'::regclass and inhrelid <> 'pgrab.run_rest'::regclass"):
        db.query(f"drop table {name}")
    bad = refused_tasks(db)
    db.wait("select count(*) = 41 from pgrab.run", timeout=15)
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert db.query("select id, status from pgrab.task") == [(bad, "parked")]
    assert "stale_finish" not in node.log()


DAYS = "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'pgrab.run'::regclass"


def test_partitions_that_are_missing_are_waited_for(db, nodes):
    """While somebody has the duty of upkeep, nothing is made, and nothing is lost either."""
    node = nodes.start()
    db.wait("select count(*) > 1 from pg_inherits where inhparent = 'pgrab.run'::regclass")
    with db.connect(autocommit=False) as other:
        other.execute("select from pgrab.duty where duty = 'upkeep' for update")
        for (name,) in db.query(DAYS):
            if name != "pgrab.run_rest":
                db.query(f"drop table {name}")
        db.query("alter table pgrab.run detach partition pgrab.run_rest")
        bad = refused_tasks(db)
        node.wait_log("no partition")
        db.query("alter table pgrab.run attach partition pgrab.run_rest default")
    db.wait("select count(*) = 41 from pgrab.run", timeout=15)
    assert db.query("select id, status from pgrab.task") == [(bad, "parked")]
    assert "stale_finish" not in node.log()


def test_a_run_that_the_history_refuses_is_parked_without_it(db, nodes):
    """A constraint of somebody's on the history, which answers 23514 like a missing partition does."""
    node = nodes.start()
    db.query("alter table pgrab.run add constraint no_bad check (name is distinct from 'bad')")
    with db.connect() as conn, conn.transaction():
        conn.execute("insert into pgrab.task (kind, name) select 'noop', case when i = 20 then 'bad' end from generate_series(1, 41) i")
    db.wait("select count(*) = 40 from pgrab.run", timeout=15)
    db.wait("select array_agg(status) = '{parked}' from pgrab.task", timeout=5)
    assert "could not be recorded" in db.one("select last_error from pgrab.task")
    assert "event=finish_refused" in node.log() and "stale_finish" not in node.log()


@pytest.mark.private_server
@pytest.mark.direct("it does not say that it has a new connection; then the next full look asks, and each start")
def test_what_the_server_can_promise_is_asked_on_a_new_connection(cluster, db, nodes):
    """Another server, or its configuration, may answer: at_most_once tasks wait until one does that loses no commit."""
    def hang_up(app="pgrab load"):
        db.query("select pg_terminate_backend(a.pid, 5000) from (select pid from pg_stat_activity where application_name = %s and datname = current_database() offset 0) a", app)

    node = nodes.start(poll="60s")
    db.wait_run(db.add(kind="noop", delivery="at_most_once"))
    cluster.superuser("select pg_create_physical_replication_slot('away')")
    try:
        hang_up()
        once = db.add(kind="noop", delivery="at_most_once")
        db.wait_run(db.add(kind="noop"))
        node.wait_log("event=durable at_most_once=.?left")
        stays(lambda: not db.runs(once), 0.5)
    finally:
        cluster.superuser("select pg_drop_replication_slot('away')")
    hang_up()
    db.wait_run(db.add(kind="noop"))
    assert db.wait_run(once).outcome == "succeeded"


@pytest.mark.parametrize("app, attempts, when", [
    ("load", 1, "before update on pgrab.task for each row when (new.status = 'claimed')"),
    ("load", 2, "before update on pgrab.task for each row when (new.status = 'running')"),  # started by its claim
    ("start", 1, "before update on pgrab.task for each row when (new.status = 'running')"),
    ("finish", 1, "before delete on pgrab.task for each row")])
def test_a_statement_whose_connection_is_lost_is_over_before_it_is_looked_up(db, nodes, app, attempts, when):
    """Left alone the server would be at it for a minute, and then commit what nobody knows of."""
    db.query("create sequence public.calls")
    db.query("""create function public.dawdle() returns trigger language plpgsql as $$
        begin if nextval('public.calls') = 1 then perform pg_sleep(60); end if; return coalesce(new, old); end $$""")
    db.query(f"create trigger dawdle {when} execute function public.dawdle()")
    proxy = Proxy(db.dsn)
    nodes.start("n1", dsn=proxy.dsn)
    task = db.add(kind="shell", command="true", max_attempts=attempts)
    at_it = db.wait("select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()")
    proxy.lose(b"pgrab " + app.encode())
    run = db.wait_run(task, timeout=8)
    assert (run.outcome, run.attempt) == ("succeeded", 1)
    assert not db.query("select from pg_stat_activity where pid = %s", at_it)
    stays(lambda: len(db.runs(task)) == 1, 0.5)
    proxy.close()


def test_what_is_refused_or_locked_holds_up_no_recovery(db, nodes, probe):
    """Of a dead node's runs the history refuses one, and the child of another is locked: the others go on."""
    probe.close_gate()
    first = nodes.start("n1", workers=10)
    db.query("alter table pgrab.run add constraint no_bad check (name is distinct from 'bad')")
    bad = db.add(**probe.shell("bad", gate=True), name="bad")
    parent = db.add(**probe.shell("parent", gate=True), max_attempts=1)
    child = db.add(kind="noop", parent_id=parent, run_if="failure")
    others = [db.add(**probe.shell("other", gate=True)) for _ in range(5)]
    probe.wait("start", count=7)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = %s for update", [child])
        nodes.start("n2", workers=10)
        first.kill9()
        probe.open_gate()
        for task in others:
            assert db.wait_run(task, 2, timeout=12).outcome == "succeeded"
        assert not db.runs(parent)
        assert db.query("select status, last_outcome from pgrab.task where id = %s", bad) == [("parked", "lost")]
        assert "could not be recorded" in db.one("select last_error from pgrab.task where id = %s", bad)
    assert db.wait_run(child, timeout=40).outcome == "succeeded"
    assert [r.outcome for r in db.runs(parent)] == ["lost"]


def test_locked_ends_take_no_room(db, nodes, probe):
    """As many finishes wait for somebody's lock as there are workers: the workers are free all the same."""
    nodes.start(workers=4)
    probe.close_gate()
    tasks = [db.add(**probe.shell("t", gate=True)) for _ in range(4)]
    probe.wait("start", "t", count=4)
    with db.connect(autocommit=False) as person:
        person.execute("select from pgrab.task where id = any (%s) for update", [tasks])
        probe.open_gate()
        probe.wait("end", "t", count=4)
        for _ in range(20):
            db.wait_run(db.add(kind="shell", command="true"), timeout=2)
        assert not [t for t in tasks if db.runs(t)]
    for task in tasks:
        assert db.wait_run(task, timeout=3).outcome == "succeeded"
    assert len(probe.events("start")) == 4
