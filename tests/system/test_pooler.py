"""Through PgBouncer in transaction mode: everything works but the doorbell, and nobody else's queries notice."""
import threading

import psycopg
import pytest

from pooler import Pooler


@pytest.fixture
def pooler(db, tmp_path):
    started = Pooler(db, tmp_path)
    yield started.dsn
    started.end()


ASKED = "search_path", "timezone", "lock_timeout", "jit", "enable_seqscan", "enable_hashjoin", "transaction_isolation", "synchronous_commit"


def test_other_peoples_queries_in_the_same_pool_are_untouched(db, nodes, pooler):
    """Settings as a session of their own has them, whatever of ours went over the same servers just before."""
    statement = "select " + ", ".join(f"current_setting('{name}') as {name}" for name in ASKED)
    with db.connect() as plain:
        expected = plain.execute(statement).fetchone()
    db.query("create table effect (n int)")
    nodes.start("n1", dsn=pooler, listen_dsn=db.dsn)
    db.query("insert into pgrab.task (kind) select 'noop' from generate_series(1, 2000)")
    db.query("insert into pgrab.task (kind, command) select 'sql', 'insert into public.effect values (1)' from generate_series(1, 60)")
    stop, wrong, asked = threading.Event(), [], []

    def ask():
        with psycopg.connect(pooler, autocommit=True, prepare_threshold=None) as conn:
            while not stop.is_set():
                row = conn.execute(statement).fetchone()
                asked.append(1)
                if tuple(row) != tuple(expected):
                    wrong.append(row)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        db.wait("select not exists (select from pgrab.task)", timeout=40)
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert len(asked) > 100 and not wrong, wrong[:3]
    assert db.one("select count(*) from effect") == 60
    assert db.one("select array_agg(distinct outcome) from pgrab.run") == ["succeeded"]


def test_a_pooler_that_passes_no_notifications_on_is_named_once(db, nodes, pooler):
    first = db.add(kind="noop")  # without a bell a kind that is new here is seen only now and then
    node = nodes.start("n1", dsn=pooler, poll="300ms")
    db.wait_run(first)
    node.wait_log("event=doorbell state=cut .*listen_dsn")
    assert db.wait_run(db.add(kind="noop")).outcome == "succeeded", "by polling"
    node.end()
    assert node.log().count("event=doorbell") == 1


def test_the_doorbell_may_have_an_address_of_its_own(db, nodes, pooler):
    node = nodes.start("n1", dsn=pooler, poll="30s", listen_dsn=db.dsn)
    for _ in range(3):
        assert db.wait_run(db.add(kind="noop"), timeout=3).outcome == "succeeded", "rung, not polled"
    assert "state=cut" not in node.log()


def test_locks_limits_and_at_most_once_work_through_it(db, nodes, pooler):
    """What needs a transaction of several statements."""
    db.query("insert into pgrab.limit (key, max_running) values ('one', 1)")
    nodes.start("n1", dsn=pooler, listen_dsn=db.dsn)
    with db.connect(autocommit=False) as person:
        locked = db.add(kind="noop")
        person.execute("select from pgrab.task where id = %s for update", [locked])
        for columns in ({"delivery": "at_most_once"}, {"limit_key": "one"}, {"kind": "shell", "command": "true"}, {"kind": "sql", "command": "select 1"}):
            assert db.wait_run(db.add(**{"kind": "noop", **columns})).outcome == "succeeded"
        person.rollback()
    assert db.wait_run(locked).outcome == "succeeded"


def test_a_pooler_in_statement_mode_is_refused_before_anything_is_claimed(db, nodes, tmp_path):
    task = db.add(kind="shell", command="true")
    pooler = Pooler(db, tmp_path, mode="statement")
    try:
        node = nodes.start("n1", dsn=pooler.dsn, wait=False)
        node.wait_log("event=waiting for=database .*pool_mode transaction or session.*not allowed in statement pooling mode")
        assert db.one("select status from pgrab.task where id = %s", task) == "scheduled"
        node.end()
    finally:
        pooler.end()


def test_a_pool_of_two_servers_is_enough(db, nodes, tmp_path):
    """Everything takes its turn: claims, starts, outcomes, heartbeats and two texts that each keep a server for a second."""
    pooler = Pooler(db, tmp_path, servers=2)
    try:
        node = nodes.start("n1", dsn=pooler.dsn, listen_dsn=db.dsn, workers=2, fence_after="10s", dead_after="20s", heartbeat="1s")
        tasks = [db.add(kind="noop") for _ in range(20)] + [db.add(kind="sql", command="select pg_sleep(1)") for _ in range(4)]
        assert {db.wait_run(task, timeout=30).outcome for task in tasks} == {"succeeded"}
        assert db.one("select max(attempt) from pgrab.run") == 1
        node.end()
    finally:
        pooler.end()


def test_sessions_in_which_somebody_has_left_read_only_lose_nothing_and_are_named(db, nodes, tmp_path):
    """In transaction mode the pooler resets nothing between two of its clients."""
    columns = [{"kind": "noop"}, {"kind": "noop", "delivery": "at_most_once"}, {"kind": "shell", "command": "true"}, {"kind": "sql", "command": "select 1"}]
    pooler = Pooler(db, tmp_path, servers=6)
    try:
        clients = [psycopg.connect(pooler.dsn, prepare_threshold=None) for _ in range(6)]
        for client in clients:
            client.execute("set session default_transaction_read_only = on")
        for client in clients:
            client.commit()
            client.close()
        node = nodes.start("n1", dsn=pooler.dsn, listen_dsn=db.dsn, wait=False)
        node.wait_log("event=waiting for=database .*transactions are read-only.* in a session that a pooler hands on")
        tasks = [db.add(**c) for c in columns for _ in range(10)]
        db.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and client_addr is null and pid <> pg_backend_pid()"
                 " and application_name not like 'pgrab listen%%'")
        for task in tasks:
            assert db.wait_run(task, timeout=20).outcome == "succeeded"
        node.end()
    finally:
        pooler.end()
