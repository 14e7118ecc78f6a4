"""A row that somebody has locked, or that the server will not take, harms no other."""
import time

from cluster import stays, wait_until


def test_an_edited_claimed_task_runs_once(db, nodes, probe):
    """Claimed ahead, edited, claimed again: both claims ripen in one batch, and one of them is the right one."""
    nodes.start(lookahead="5s")
    spec = probe.shell("t")
    due = db.one("select now() + interval '3 s'")
    tasks = [db.add(**spec, run_at=due, name=str(i)) for i in range(60)]
    db.wait("select count(*) = 60 from pgrab.task where status = 'claimed'")
    db.query("update pgrab.task set priority = 5")
    db.wait("select count(*) = 60 from pgrab.run", timeout=30)
    stays(lambda: db.one("select count(*) from pgrab.run") == 60, 2)
    assert len(probe.events("start")) == 60
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert len(tasks) == 60


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
        nodes.all[0].wait_log("event=locked") if "event=locked" in nodes.all[0].log() else nodes.all[1].wait_log("event=locked")
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
        ids = [r.id for r in conn.execute("insert into pgrab.task (kind) select 'noop' from generate_series(1, 41) returning id").fetchall()]
        conn.execute("insert into refers values (%s)", [ids[20]])
    db.wait("select count(*) = 41 from pgrab.run", timeout=15)
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]
    assert db.one("select status from pgrab.task where id = %s", ids[20]) == "parked"
    assert "could not be recorded" in db.one("select last_error from pgrab.task where id = %s", ids[20])
    wait_until(lambda: db.one("select count(*) from pgrab.task") == 1, 3)
    stays(lambda: db.one("select count(*) from pgrab.run") == 41, 1)
    assert "stale_finish" not in node.log()
