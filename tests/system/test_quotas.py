"""Quotas hold over all nodes and through crashes; what is held comes in order, and nothing of it is lost."""
import psycopg
import pytest
from cluster import stays, wait_until
from test_limits import AT_ONCE, worst


def quota(db, **bounds):
    names = ", ".join(["owner", *bounds])
    db.query(f"insert into pgrab.quota ({names}) values (current_user{', %s' * len(bounds)})", *bounds.values())


def sleepers(db, n, seconds=0.02, **more):
    columns = ", ".join(["name", "kind", "command", *more])
    db.query(f"insert into pgrab.task ({columns}) select 's', 'sql', 'select pg_sleep({seconds})'{', %s' * len(more)} from generate_series(1, %s)",
             *more.values(), n)


def ended(db, name="s"):
    return db.one("select count(*) from pgrab.run where name = %s and outcome = 'succeeded'", name)


def test_max_running_of_an_owner_is_exact_over_two_nodes(db, nodes):
    for name in "ab":
        nodes.start(name, workers=8)
    quota(db, max_running=3)
    sleepers(db, 120)
    db.query("insert into pgrab.task (name, kind) select 'n', 'noop' from generate_series(1, 200)")  # begun by their claim, otherwise
    wait_until(lambda: ended(db) == 120 and ended(db, "n") == 200, timeout=60)
    assert worst(db, "s") == 3
    assert db.one("select count(distinct node) from pgrab.run") == 2
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_each_share_key_of_a_pattern_by_itself_and_nobody_else(db, nodes):
    nodes.start("a", workers=8)
    db.query("insert into pgrab.quota (share_key, max_running) values ('c*', 1)")
    for key in ("c1", "c2"):
        db.query("insert into pgrab.task (name, command, share_key) select %s, 'select pg_sleep(0.05)', %s from generate_series(1, 15)", key, key)
    free = db.add(kind="noop", share_key="d")
    assert db.wait_run(free, timeout=3).outcome == "succeeded"
    wait_until(lambda: ended(db, "c1") == 15 and ended(db, "c2") == 15, timeout=30)
    assert (worst(db, "c1"), worst(db, "c2")) == (1, 1)


def test_a_quota_comes_and_goes_while_tasks_run(db, nodes):
    nodes.start("a", workers=4)
    sleepers(db, 150)
    wait_until(lambda: ended(db) > 20)
    quota(db, max_running=1)
    wait_until(lambda: db.one("select exists (select from pgrab.quotas where in_line > 0)"))
    db.query("delete from pgrab.quota")
    wait_until(lambda: ended(db) == 150, timeout=30)
    db.wait("select count(*) = 0 from pgrab.limit_place where started")  # one that was kept for nobody is found within a minute


def test_with_a_limit_shared_by_others_all_run(db, nodes):
    """Each of these waits for a place here, then there; none goes missing between the two lines."""
    for name in "ab":
        nodes.start(name, workers=8)
    quota(db, max_running=4)
    db.query("insert into pgrab.limit (key, max_running) values ('api', 2)")
    sleepers(db, 60, limit_key="api")
    db.query("insert into pgrab.task (name, command) select 'p', 'select pg_sleep(0.02)' from generate_series(1, 60)")
    wait_until(lambda: ended(db) == 60 and ended(db, "p") == 60, timeout=60)
    assert worst(db, "s") == 2
    assert db.one(AT_ONCE.replace("name = %s", "true")) == 4
    db.wait("select count(*) = 0 from pgrab.limit_place")


def test_a_node_that_is_killed_keeps_no_place(db, nodes):
    a = nodes.start("a", workers=4)
    quota(db, max_running=2)
    sleepers(db, 2, seconds=60, delivery="at_most_once")
    db.wait("select count(*) = 2 from pgrab.task where status = 'running'")
    nodes.start("b", workers=4)
    free = db.add(kind="noop")
    db.wait("select line is not null from pgrab.task where id = %s", free)
    assert "2 of 2 run" in db.one("select string_agg(detail, '') from pgrab.explain(%s) where gate = 'quota'", free)
    a.kill9()
    assert db.wait_run(free, timeout=60).outcome == "succeeded"


def test_what_is_held_comes_in_order_when_there_is_room(db, nodes, probe):
    nodes.start("a", workers=1)
    quota(db, max_tasks=3, when_full="hold")
    probe.close_gate()
    tasks = [db.add(**probe.shell(str(i), gate=True)) for i in range(12)]
    assert db.query("select tasks, held from pgrab.quotas") == [(3, 9)]
    assert "holds it: at most 3 due or running" in db.one("select detail from pgrab.explain(%s) where gate = 'quota'", tasks[5])
    stays(lambda: db.one("select count(*) = 9 from pgrab.task where line is not null"), 2.5, "held while there is no room")
    assert db.one("select why from pgrab.late where id = %s", tasks[5]).startswith("quota of ")
    probe.open_gate()
    for task in tasks:
        assert db.wait_run(task, timeout=30).outcome == "succeeded"
    assert db.query("select task_id from pgrab.run order by started_at") == [(task,) for task in tasks]
    db.wait("select held = 0 from pgrab.quotas")


def test_what_is_held_under_inserts_per_minute_is_let_go_later(db, nodes):
    nodes.start("a")
    quota(db, inserts_per_minute=5, when_full="hold")
    db.query("insert into pgrab.task (name, kind) select 's', 'noop' from generate_series(1, 8)")
    wait_until(lambda: ended(db) == 5)
    stays(lambda: ended(db) == 5, 2)
    db.query("update pgrab_internal.quota_insert set at = at - interval '1 minute'")
    wait_until(lambda: ended(db) == 8, timeout=10)


def test_a_full_quota_keeps_nobody_else_waiting(db):
    """Eight open transactions of one owner insert side by side: none waits, and each may have what is free."""
    quota(db, max_tasks=10, inserts_per_minute=100)
    sessions = [db.connect(autocommit=False) for _ in range(8)]
    try:
        for session in sessions:
            session.execute("set local statement_timeout = '2s'")
            session.execute("insert into pgrab.task (kind, run_at) select 'noop', '2099-01-01' from generate_series(1, 2)")
        for session in sessions:
            session.commit()
    finally:
        for session in sessions:
            session.close()
    assert db.query("select tasks, inserted from pgrab.quotas") == [(16, 16)], "they exceed it by what was not committed"
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="is full"):
        db.add(kind="noop")
